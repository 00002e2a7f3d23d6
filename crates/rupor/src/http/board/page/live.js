// The state as the node tells it, the page that is open, and what keys do.

const query = Object.fromEntries(new URLSearchParams(location.search));
const own = (path, values = {}) => {
  const asked = new URLSearchParams(Object.entries({ ...values, workspace: query.workspace, lang: language }).filter(([, value]) => value !== undefined && value !== null && value !== ""));
  return `${path}${asked.size ? `?${asked}` : ""}`;
};
let state = null;
let heardAt = 0;
let gone = false;

/** A merge patch: objects are merged, null takes away, the rest is replaced. */
function merge(target, patch) {
  for (const [name, value] of Object.entries(patch)) {
    if (value === null) delete target[name];
    else if (typeof value === "object" && !Array.isArray(value) && typeof target[name] === "object" && target[name] !== null) merge(target[name], value);
    else target[name] = value;
  }
}

/** What moves stands in columns; bars of the last two hours come with it. */
function spread() {
  const moving = state.moving;
  moving.ids.forEach((id, n) => {
    const hours = (state.hours[id] ||= {});
    const put = (hour, bar) => { if (bar.some(Boolean)) hours[hour] = bar; };
    put(moving.hour, [moving.sent[n], moving.deduped[n], moving.failed[n]]);
    put(moving.hour - 1, [moving.sent_before[n], moving.deduped_before[n], moving.failed_before[n]]);
  });
}

/** Channels as pages want them, those in trouble first. */
function channelsOf() {
  const { moving, channels } = state;
  const midnight = new Date().setHours(0, 0, 0, 0) / 3600000;
  const ill = {};
  for (const [key, trouble] of Object.entries(state.trouble)) {
    const id = key.match(/^(?:channel|failing|late):(\d+)/)?.[1];
    if (id && trouble.weight !== "meant") ill[id] = ill[id] === "act" ? "act" : trouble.weight;
  }
  const list = moving.ids.map((id, n) => {
    const hours = state.hours[id] || {};
    const today = [0, 0, 0];
    for (const [hour, bar] of Object.entries(hours)) if (Number(hour) >= Math.floor(midnight)) bar.forEach((value, k) => { today[k] += value; });
    return { id, ...channels[id], waiting: moving.waiting[n], unsent: moving.unsent[n], due: moving.due[n] * 1000, last: moving.last[n] * 1000, hour: moving.hour, day: day(hours, moving.hour), today, ill: ill[id] };
  });
  const rank = (channel) => (channel.ill === "act" ? 0 : channel.ill ? 1 : ["open", "quiet"].includes(channel.state) ? 3 : 2);
  return list.sort((one, other) => rank(one) - rank(other) || one.name.localeCompare(other.name, language));
}

const troublesOf = () => Object.entries(state.trouble).sort(([, one], [, other]) => weigh(one) - weigh(other) || one.rank - other.rank);
const weigh = (trouble) => ["act", "heals", "meant"].indexOf(trouble.weight);
const postsOf = (posts) => Object.entries(posts).sort(([one], [other]) => other - one);

// -- hearing

let source = null;
function listen() {
  source?.close();
  source = new EventSource(own("/board/events"));
  source.addEventListener("state", (event) => heard(() => { state = JSON.parse(event.data); }));
  source.addEventListener("change", (event) => heard(() => { if (state) merge(state, JSON.parse(event.data)); }));
  source.onerror = () => {
    lost();
    // A refusal ends it for good; then we knock again ourselves.
    if (source.readyState === EventSource.CLOSED) setTimeout(listen, 4000);
  };
}

// A page that is left may be kept for the way back, and a browser opens six connections to a node: a few such pages would
// make the next one wait for a minute.
addEventListener("pagehide", () => source?.close());
addEventListener("pageshow", (event) => { if (event.persisted) listen(); });

function heard(take) {
  const newest = state ? Math.max(0, ...Object.keys(state.posts).map(Number)) : null;
  take();
  if (!state) return;
  heardAt = Date.now();
  clockAhead = state.at ? state.at - Date.now() : 0;
  spread();
  found();
  const now = Math.max(0, ...Object.keys(state.posts).map(Number));
  if (newest !== null && now > newest) tell(say("said.new_post", { text: (state.posts[now].text || "").slice(0, 80) }));
  show();
}

function lost() {
  if (!state) { liveness("wait"); return; }
  if (!gone) { gone = true; tell(say("dead.title")); }
  banner();
}

function found() {
  gone = false;
  banner();
}

/** Unmistakable, with the time of what is still on the page. */
function banner() {
  const box = document.getElementById("dead");
  box.hidden = !gone;
  document.body.classList.toggle("dead", gone);
  liveness(gone ? "off" : state ? "on" : "wait");
  if (!gone) return;
  // "Now" beside a clock would say the opposite of what is meant.
  const [at, ago] = [moment(heardAt, true), relative(heardAt, Date.now())];
  box.replaceChildren(say("dead.title"), make("small", {}, Date.now() - heardAt < 60000 ? say("dead.data", { at }) : say("dead.data_old", { at, ago })));
}

function liveness(how) {
  const node = document.getElementById("live");
  if (node.dataset.how === how + language) return;
  node.dataset.how = how + language;
  node.className = `live ${how}`;
  node.querySelector(".what").textContent = say(`live.${how}`);
}

// -- pages

const PAGES = { "": overview, posts: postsPage, post: postPage, channels: channelsPage, channel: channelPage, cases: casesPage, case: casePage, sources: sourcesPage, source: sourcePage, campaigns: campaignsPage, campaign: campaignPage, bots: botsPage };
let open = null;

function where() {
  const [path, asked] = location.hash.replace(/^#\/?/, "").split("?");
  const [name, id] = path.split("/");
  return { name: PAGES[name] ? name : "", id, asked: Object.fromEntries(new URLSearchParams(asked || "")) };
}

/** Opens what the address says; a page gives `update`, called whenever the state moved. */
function go() {
  const place = where();
  const main = document.getElementById("main");
  open = { place, update: () => {}, drawn: Boolean(state) };
  main.replaceChildren();
  document.body.dataset.page = place.name || "overview";
  if (!state) { main.append(quiet(say("page.waiting"))); return; }
  open.update = PAGES[place.name](main, place, open) || open.update;
  show();
  scrollTo(0, 0);
}

function show() {
  if (!open) return;
  if (!open.drawn) { go(); return; }
  tabs();
  open.update();
  if (document.body.dataset.ready) return;
  document.body.dataset.ready = "yes";
  performance.mark("data");
}

function tabs() {
  const { name } = open.place;
  const of = { post: "posts", channel: "channels", case: "cases", source: "sources", campaign: "campaigns" }[name] || name;
  const act = Object.values(state.trouble).filter((trouble) => trouble.weight === "act").length;
  const list = [["", say("nav.overview"), act], ["posts", say("nav.posts")], ["channels", say("nav.channels")], ["cases", say("nav.cases")], ["sources", say("nav.sources")]];
  if (Object.keys(state.campaigns).length) list.push(["campaigns", say("nav.campaigns")]);
  if (Object.keys(state.bots.list || {}).length) list.push(["bots", say("nav.bots"), state.bots.handoffs]);
  const text = JSON.stringify([language, of, list, state.workspaces, state.workspace]);
  const node = document.getElementById("tabs");
  if (node.dataset.drawn === text) return;
  node.dataset.drawn = text;
  node.replaceChildren(...list.map(([path, name, n]) => to(path, [name, n ? make("span", { class: "n", "aria-label": say("nav.needs", { n }) }, count(n)) : null], { "aria-current": path === of ? "page" : null })));
  const current = node.querySelector("[aria-current]");
  if (current) node.scrollLeft = current.offsetLeft - (node.clientWidth - current.offsetWidth) / 2;
  const spaces = state.workspaces.length > 1 ? state.workspaces : [];
  document.getElementById("spaces").replaceChildren(...spaces.map((space) =>
    make("a", { href: `/?workspace=${encodeURIComponent(space)}${query.lang ? `&lang=${query.lang}` : ""}`, "aria-current": space === state.workspace ? "page" : null }, space)));
  document.title = act ? `(${act}) Rupor` : "Rupor";
}

/** Reads one thing, and says so when it is not there. */
async function read(path, values) {
  const answer = await fetch(own(path, values), { headers: { accept: "application/json" } });
  if (!answer.ok) throw new Error(answer.status === 404 ? say("page.absent") : say("page.failed", { status: answer.status }));
  return answer.json();
}

/** A page about one thing: read now, and again a moment after the state moved. */
function reading(main, page, path, paint, values) {
  let [busy, again, readAt] = [false, false, 0];
  const take = async () => {
    if (busy) { again = true; return; }
    busy = true;
    try {
      const about = await read(path, values);
      if (open === page) paint(about);
    } catch (error) {
      if (open === page && !readAt) main.replaceChildren(quiet(error.message));
    }
    [busy, readAt] = [false, Date.now()];
    if (again) { again = false; setTimeout(() => open === page && take(), 2000); }
  };
  main.append(quiet(say("page.waiting")));
  take();
  return () => { if (readAt && Date.now() - readAt > 2000) take(); };
}

function speak(next) {
  language = next;
  document.documentElement.lang = next;
  for (const node of document.querySelectorAll("[data-t]")) node.textContent = WORDS[language][node.dataset.t];
  for (const node of document.querySelectorAll("[data-t-label]")) node.setAttribute("aria-label", WORDS[language][node.dataset.tLabel]);
  const button = document.getElementById("language");
  const other = LANGUAGES.find((known) => known !== next);
  button.textContent = LANGUAGE_NAMES[other];
  button.lang = other;
  banner();
}

document.getElementById("language").addEventListener("click", () => {
  speak(LANGUAGES.find((known) => known !== language));
  remember("language", language);
  listen();
  go();
});
addEventListener("hashchange", () => { open = null; go(); document.getElementById("main").focus({ preventScroll: true }); });
addEventListener("keydown", (event) => {
  const typing = event.target.closest?.("input, select, textarea");
  if (event.key === "Escape") { if (typing) typing.blur(); else if (where().name) history.back(); return; }
  if (typing || event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.key === "/") { event.preventDefault(); search(); }
  if (event.key === "j" || event.key === "k") step(event.key === "j" ? 1 : -1);
});

function search() {
  if (where().name !== "posts") location.hash = "#/posts";
  setTimeout(() => document.querySelector(".filters input")?.focus(), 0);
}

function step(by) {
  const items = [...document.querySelectorAll("[data-item]")];
  const place = items.findIndex((item) => item.contains(document.activeElement));
  const next = items[Math.min(items.length - 1, Math.max(0, place + by))];
  (next?.querySelector("a") || next)?.focus();
}

setInterval(() => {
  // Three silent beats.
  if (state && !gone && Date.now() - heardAt > 25000) lost();
  if (gone) banner();
  refreshTimes();
}, 5000);
speak(language);
liveness("wait");
go();
listen();
