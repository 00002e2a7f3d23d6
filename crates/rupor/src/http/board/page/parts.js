// Pieces that pages are made of. Everything that came from outside goes in as text, never as markup.

function make(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...children.flat(3).filter((child) => child !== null && child !== undefined && child !== false && child !== ""));
  return node;
}

function draw(tag, attributes = {}, ...children) {
  const node = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  node.append(...children);
  return node;
}

const platformAt = (name) => WORDS.platforms.findIndex(([known]) => known === name);
const platformName = (name) => WORDS.platforms[platformAt(name)]?.[1] || name;
/** The first platforms have a colour each, the others that of words. */
const tint = (name) => `tint-${platformAt(name)}`;
const chip = (text, tone = "") => make("span", { class: `chip ${tone}` }, text);
const outside = (url, text) => (/^https?:\/\//i.test(url || "") ? make("a", { href: url, rel: "noreferrer noopener", target: "_blank" }, text) : null);
const to = (path, text, attributes = {}) => make("a", { href: `#/${path}`, ...attributes }, text);
const head = (title, more) => make("div", { class: "head" }, make("h2", {}, title), more ? make("span", { class: "more" }, more) : null);
const quiet = (...what) => make("div", { class: "quiet" }, ...what);

/** A moment that keeps itself right: see `refreshTimes`. */
function when(at, words = (text) => text) {
  const node = make("time", { datetime: new Date(at).toISOString(), title: new Date(at).toLocaleString(language) });
  node.rupor = () => { node.textContent = words(relative(at)); };
  node.rupor();
  return node;
}
function refreshTimes() { for (const node of document.querySelectorAll("time")) node.rupor?.(); }

function command(text) {
  const button = make("button", { type: "button", class: "copy", "aria-label": say("copy.label", { what: text }) }, say("copy.copy"));
  button.addEventListener("click", async () => {
    const done = await copyText(text);
    button.classList.toggle("done", done);
    button.textContent = say(done ? "copy.done" : "copy.failed");
    tell(button.textContent);
    setTimeout(() => { button.classList.remove("done"); button.textContent = say("copy.copy"); }, 1800);
  });
  return make("div", { class: "command" }, make("code", {}, text), button);
}

async function copyText(text) {
  try { await navigator.clipboard.writeText(text); return true; } catch { /* only on this machine or over https */ }
  const field = make("textarea", { class: "unseen", "aria-hidden": "true" });
  field.value = text;
  document.body.append(field);
  field.select();
  let done = false;
  try { done = document.execCommand("copy"); } catch { /* then by hand */ }
  field.remove();
  return done;
}

/** For those who hear the page. */
function tell(text) { document.getElementById("said").textContent = text; }

/** What helps: commands with a button, the rest in words. */
const helps = (list) => (list || []).filter(Boolean).map((help) => (help.startsWith("$ ") ? command(help.slice(2)) : make("p", { class: "small" }, help)));

// -- bars of a day

/** Twenty-four hours, the present one last: [sent, repeats, failed] each. */
function day(hours, now) {
  return Array.from({ length: 24 }, (_, n) => hours?.[now - 23 + n] || [0, 0, 0]);
}

function bars(list, now, { width = 92, height = 26, gap = 1, titles = false } = {}) {
  const most = Math.max(1, ...list.map(([sent, , failed]) => sent + failed));
  const step = width / list.length;
  const sum = list.reduce(([a, b], [sent, , failed]) => [a + sent, b + failed], [0, 0]);
  const svg = draw("svg", { class: "bars", viewBox: `0 0 ${width} ${height}`, preserveAspectRatio: "none", role: "img", "aria-label": say("bars.label", { sent: sum[0], failed: sum[1] }) });
  list.forEach(([sent, repeats, failed], n) => {
    const tall = (value) => (value ? Math.max(2, (value / most) * (height - 1)) : 0);
    const [s, f] = [tall(sent), tall(failed)];
    const [x, w] = [n * step, Math.max(1, step - gap)];
    const group = draw("g");
    if (!s && !f) group.append(draw("rect", { class: "none", x, y: height - 1.5, width: w, height: 1.5 }));
    if (s) group.append(draw("rect", { class: n === list.length - 1 ? "now" : "sent", x, y: Math.max(0, height - s), width: w, height: s }));
    if (f) group.append(draw("rect", { class: "failed", x, y: Math.max(0, height - s - f), width: w, height: f }));
    if (titles) {
      const from = new Date((now - 23 + n) * 3600000);
      group.append(draw("title", {}, `${from.toLocaleTimeString(language, { hour: "2-digit", minute: "2-digit", hour12: false })}: ${say("bars.hour", { sent, repeats, failed })}`));
    }
    svg.append(group);
  });
  return svg;
}

/** The hours under a wide strip. */
function hourLabels(now) {
  const label = (ago) => new Date((now - ago) * 3600000).toLocaleTimeString(language, { hour: "2-digit", minute: "2-digit", hour12: false });
  return make("div", { class: "hours", "aria-hidden": "true" }, [23, 17, 11, 5].map((ago) => make("span", {}, label(ago))), make("span", {}, say("bars.now")));
}

// -- a post as a card

const KIND_ICONS = { lost: "🔎", found: "✅", sighting: "👀", adoption: "🏠", fundraising: "💳", reunited: "🎉" };
const ANIMAL_ICONS = { dog: "🐕", cat: "🐈", bird: "🦜", rodent: "🐹", other: "🐾", several: "🐾" };
const kindChip = (kind) => chip(`${KIND_ICONS[kind] ? `${KIND_ICONS[kind]} ` : ""}${say(`kind.${kind}`)}`, kind);
const photoAddress = (id, n, revision) => `/board/photo/${id}/${n}?r=${revision || 1}${query.workspace ? `&workspace=${encodeURIComponent(query.workspace)}` : ""}`;

function photo(id, n, post, attributes = {}) {
  const image = make("img", { src: photoAddress(id, n, post.revision), alt: say("post.photo_of", { kind: say(`kind.${post.kind}`) }), loading: "lazy", decoding: "async", ...attributes });
  image.addEventListener("error", () => image.closest(".pictured")?.classList.remove("pictured"), { once: true });
  image.addEventListener("error", () => image.remove(), { once: true });
  return image;
}

function factChips(post) {
  const animal = post.animal ? `${ANIMAL_ICONS[post.animal] || ""} ${say(`animal.${post.animal}`)}` : null;
  return [animal && chip(animal), post.names && chip(post.names.join(", ")), post.place && chip(`📍 ${post.place}`), post.phones && chip(`☎ ${post.phones.join(", ")}`, "mute")];
}

/** `17 sent · 2 waiting · 1 failed`, each in its colour. */
function went(post) {
  const [sent = 0, waiting = 0, failed = 0, repeats = 0] = post.went || [];
  const parts = [];
  if (sent) parts.push(make("span", { class: "t-good" }, say("went.sent", { n: sent })));
  if (waiting) parts.push(make("span", { class: "t-wait" }, say("went.waiting", { n: waiting })));
  if (post.held) parts.push(make("span", { class: "t-wait" }, say("went.held", { n: post.held })));
  if (failed) parts.push(make("span", { class: "t-bad" }, say("went.failed", { n: failed })));
  if (!parts.length && repeats) parts.push(say("went.only_repeats"));
  else if (repeats) parts.push(say("went.repeats", { n: repeats }));
  if (!parts.length) parts.push(post.closes ? say("went.closes") : say("went.nowhere", { why: skippedWords(post.skipped) }));
  return parts.flatMap((part, n) => (n ? [" · ", part] : [part]));
}

/** `dog · буся · тюмень` as people write it. */
function storyTitle({ id, title }) {
  const parts = (title || "").split(" · ").filter(Boolean);
  if (!parts.length) return say("case.number", { n: id });
  return parts.map((part) => (knows(`animal.${part}`) ? say(`animal.${part}`) : part)).map((part) => part[0].toLocaleUpperCase(language) + part.slice(1)).join(" · ");
}

function skippedWords(skipped) {
  if (!skipped) return say("skipped.no_channel");
  const reason = skipped.split(":")[0].trim().replaceAll(" ", "_");
  return knows(`skipped.${reason}`) ? say(`skipped.${reason}`) : skipped;
}

function postCard(id, post) {
  const title = (post.text || "").split("\n")[0].slice(0, 80);
  return make("article", { class: `card post${post.photos ? " pictured" : ""}${post.gone ? " gone" : ""}`, "data-post": id, "data-item": true },
    to(`post/${id}`, make("span", { class: "unseen" }, say("post.open", { title })), { class: "open" }),
    post.photos ? photo(id, 0, post, { class: "photo", width: 104, height: 104 }) : null,
    make("div", { class: "row" }, kindChip(post.kind), factChips(post)),
    post.text ? make("p", { class: "text" }, post.text) : make("p", { class: "text faint" }, say("post.wordless")),
    make("div", { class: "foot" }, make("span", { class: "went" }, went(post), " ▸")),
    make("div", { class: "foot" },
      post.source_id ? to(`source/${post.source_id}`, post.source) : make("span", {}, post.source),
      when(post.at),
      post.case && post.case.posts > 1 ? to(`case/${post.case.id}`, say("post.case_of", { n: post.case.posts })) : null,
      post.case?.closed ? chip(say("post.home"), "good") : null,
      post.revision > 1 ? make("span", {}, say("post.edited")) : null,
      post.gone ? make("span", {}, say("post.gone")) : null,
      outside(post.url, say("post.source"))));
}

// -- channels

const STATE_TONES = { open: "good", paused: "bad", shut: "bad", disabled: "mute", held: "bad", no_account: "bad", resting: "wait", quiet: "mute" };
const stateId = (state) => state.replaceAll(" ", "_");
const stateTone = (state) => STATE_TONES[stateId(state)] || "mute";

/** One line: is it well, what is it, its day, how much today. */
function channelLine(channel) {
  const tone = channel.ill ? (channel.ill === "act" ? "bad" : "wait") : channel.state === "open" ? "good" : stateTone(channel.state);
  const about = [make("span", { class: tint(channel.platform) }, platformName(channel.platform))];
  if (channel.state !== "open") about.push(say(`state.${stateId(channel.state)}`));
  if (channel.waiting) about.push(make("span", { class: "t-wait" }, say("went.waiting", { n: channel.waiting })));
  if (channel.last) about.push(when(channel.last, (ago) => ago)); else about.push(say("channel.never"));
  return make("div", { class: `line${channel.ill === "act" ? " ill" : ""}`, "data-channel": channel.name, "data-item": true },
    make("span", { class: `light ${tone}`, role: "img", "aria-label": say(channel.ill ? "channel.ill" : `state.${stateId(channel.state)}`) }),
    make("div", {}, to(`channel/${channel.id}`, channel.name, { class: "name", title: channel.name }), make("div", { class: "under" }, about.flatMap((part, n) => (n ? [" · ", part] : [part])))),
    bars(channel.day, channel.hour),
    make("div", { class: "count" }, count(channel.today[0]), make("small", {}, channel.today[2] ? make("span", { class: "t-bad" }, say("went.failed", { n: channel.today[2] })) : say("channel.today"))));
}

// -- trouble

function troubleCard(trouble) {
  const tone = { act: "bad", heals: "wait", meant: "mute" }[trouble.weight] || "mute";
  return make("article", { class: `card trouble ${trouble.weight}`, "data-item": true, tabindex: "-1" },
    make("div", { class: "row" }, chip(say(`weight.${trouble.weight}`), tone), make("span", { class: "grow" }),
      trouble.since ? make("span", { class: "small soft" }, when(trouble.since, (ago) => say("trouble.since", { ago }))) : null),
    make("h3", {}, trouble.headline),
    trouble.cause ? make("p", {}, localised(trouble.cause)) : null,
    make("p", { class: "soft small" }, say("trouble.next", { next: localised(trouble.next) })),
    helps(trouble.help));
}

/** Replaces only what changed, so that nobody loses their place or what they have under their fingers. */
function fill(list, entries, drawOne) {
  const known = list.rupor || new Map();
  const first = !list.rupor;
  const next = new Map();
  for (const [key, value] of entries) {
    const text = language + JSON.stringify(value);
    const old = known.get(key);
    if (old?.text === text) { next.set(key, old); continue; }
    const node = drawOne(key, value);
    if (!first && !old) node.classList.add("fresh");
    if (old && old.node.contains(document.activeElement)) refocus(old.node, node);
    next.set(key, { node, text });
  }
  list.rupor = next;
  const nodes = [...next.values()].map((entry) => entry.node);
  if (nodes.length !== list.children.length || nodes.some((node, n) => list.children[n] !== node)) list.replaceChildren(...nodes);
}

function refocus(old, node) {
  const targets = (root) => [root, ...root.querySelectorAll("a, button")];
  const place = targets(old).indexOf(document.activeElement);
  queueMicrotask(() => targets(node)[place]?.focus({ preventScroll: true }));
}
