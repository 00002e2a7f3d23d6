// The pages. Each draws its frame once and returns what keeps it right when the state moves.

const listOf = (className, label) => make("div", { class: className, "aria-label": label, role: "group" });

// -- the overview

function overview(main) {
  const today = make("div", { class: "today" });
  const trouble = make("section", { "aria-labelledby": "t-trouble" });
  const troubles = listOf("troubles", say("trouble.title"));
  const channels = listOf("lines", say("nav.channels"));
  const posts = listOf("posts", say("nav.posts"));
  const beside = make("div", { class: "stack" });
  const empty = make("section");
  const pairs = make("section");
  const columns = make("div", { class: "columns" },
    make("section", {}, head(say("posts.title"), to("posts", say("posts.all"))), posts),
    make("div", { class: "stack" }, make("section", {}, head(say("nav.channels"), to("channels", say("channels.all"))), channels), beside));
  main.append(make("h1", { class: "unseen" }, say("nav.overview")), empty, today, trouble, pairs, columns);
  read("/board/matches").then(({ matches }) => { if (pairs.isConnected && matches.length) pairs.append(head(say("cases.title"), to("cases", say("cases.all", { n: matches.length }))), make("div", { class: "pairs" }, matches.slice(0, 2).map(pairCard))); }).catch(() => {});
  return () => {
    const list = channelsOf();
    const bare = !list.length && !Object.keys(state.posts).length;
    empty.replaceChildren(...(bare ? [firstSteps()] : []));
    for (const node of [today, trouble, columns]) node.hidden = bare;
    if (bare) return;
    figures(today, list);
    showTroubles(trouble, troubles, list);
    fill(channels, list.map((channel) => [String(channel.id), channel]), (_, channel) => channelLine(channel));
    if (!list.length) channels.replaceChildren(quiet(say("channels.none")));
    fill(posts, postsOf(state.posts), postCard);
    if (!posts.children.length) posts.replaceChildren(quiet(say("posts.none")));
    fill(beside, besides(), (_, part) => part.draw(part.value));
  };
}

/** Campaigns that go on and bots, in short. */
function besides() {
  const running = Object.entries(state.campaigns).filter(([, campaign]) => !campaign.ended).slice(0, 3);
  const list = [];
  if (running.length) list.push(["campaigns", { value: running, draw: (value) => make("section", {}, head(say("nav.campaigns"), to("campaigns", say("campaigns.all"))), value.map(([id, campaign]) => campaignCard(id, campaign))) }]);
  if (Object.keys(state.bots.list || {}).length) list.push(["bots", { value: state.bots, draw: (value) => make("section", {}, head(say("nav.bots"), to("bots", say("bots.all"))), botFigures(value)) }]);
  return list;
}

function figures(today, list) {
  const sum = (of) => list.reduce((all, channel) => all + of(channel), 0);
  const hour = list[0]?.hour || Math.floor(clock() / 3600000);
  const all = Array.from({ length: 24 }, (_, n) => [0, 1, 2].map((k) => sum((channel) => channel.day[n][k])));
  const [sent, repeats, failed] = [0, 1, 2].map((k) => sum((channel) => channel.today[k]));
  const last = Math.max(0, ...list.map((channel) => channel.last));
  const value = { sent, repeats, failed, waiting: sum((channel) => channel.waiting), unsent: sum((channel) => channel.unsent), all, last, hour };
  const figure = (n, what, why, bad) => make("div", { class: `card figure${bad ? " bad" : ""}` }, make("span", { class: "what" }, what), make("b", {}, count(n)), make("span", { class: "why" }, why));
  fill(today, [["sent", [sent, all, last, hour]], ["waiting", [value.waiting]], ["failed", [failed, value.unsent]], ["repeats", [repeats]]], (key) => {
    if (key === "waiting") return figure(value.waiting, say("figure.waiting"), say("figure.waiting_why"));
    if (key === "failed") return figure(failed, say("figure.failed"), value.unsent ? say("figure.unsent", { n: value.unsent }) : say("figure.failed_why"), failed > 0);
    if (key === "repeats") return figure(repeats, say("figure.repeats"), say("figure.repeats_why"));
    return make("div", { class: "card main-figure" },
      make("div", { class: "figure" }, make("span", { class: "what" }, say("figure.sent")), make("b", {}, count(sent)), make("span", { class: "small soft" }, last ? when(last, (ago) => say("figure.last", { ago })) : say("figure.never"))),
      make("div", {}, bars(all, hour, { width: 480, height: 84, gap: 4, titles: true }), hourLabels(hour)));
  });
}

function showTroubles(section, list, channels) {
  const troubles = troublesOf();
  if (!troubles.length) {
    const well = channels.length ? say("trouble.none", { n: channels.length }) : say("trouble.none_yet");
    if (section.dataset.well !== well) section.replaceChildren(make("div", { class: "card calm" }, draw("svg", { viewBox: "0 0 20 20", width: 18, height: 18, "aria-hidden": "true" }, draw("path", { d: "M4 10.5l4 4 8-9", fill: "none", stroke: "currentColor", "stroke-width": 2.4, "stroke-linecap": "round", "stroke-linejoin": "round" })), well));
    section.dataset.well = well;
    return;
  }
  delete section.dataset.well;
  if (!list.isConnected) section.replaceChildren(make("h2", { id: "t-trouble" }, say("trouble.title")), list);
  fill(list, troubles, (_, trouble) => troubleCard(trouble));
}

function firstSteps() {
  const one = (title, ...what) => make("li", {}, make("b", {}, title), make("div", {}, ...what));
  return make("div", { class: "card stack", "data-empty": true }, make("h1", {}, say("empty.title")), make("p", { class: "soft" }, say("empty.lead")),
    make("ol", { class: "steps" },
      one(say("empty.write"), make("p", { class: "soft small" }, say("empty.write_how")), command("rupor init")),
      one(say("empty.check"), make("p", { class: "soft small" }, say("empty.check_how")), command("rupor check")),
      one(say("empty.apply"), make("p", { class: "soft small" }, say("empty.apply_how")), command("rupor apply"))));
}

// -- posts by filter

const KINDS = ["lost", "found", "sighting", "reunited", "adoption", "fundraising", "news", "ad", "link", "empty", "other"];
const FATES = ["sent", "waiting", "failed", "unsent"];

function postsPage(main, place, page) {
  const asked = { ...place.asked };
  const list = listOf("posts", say("nav.posts"));
  const under = make("div", { class: "stack" });
  const summary = make("p", { class: "small soft", role: "status" });
  const select = (name, all, options) => {
    const node = make("select", { name, "aria-label": all }, make("option", { value: "" }, all), options.map(([value, text]) => make("option", { value, selected: String(asked[name] || "") === String(value) }, text)));
    node.addEventListener("change", () => { asked[name] = node.value; begin(); });
    return node;
  };
  const input = make("input", { type: "search", name: "q", placeholder: say("filter.search"), "aria-label": say("filter.search"), value: asked.q || "", maxlength: 200, autocomplete: "off" });
  let typing;
  input.addEventListener("input", () => { clearTimeout(typing); typing = setTimeout(() => { asked.q = input.value.trim(); begin(); }, 250); });
  const clear = make("button", { type: "button", class: "plain" }, say("filter.clear"));
  clear.addEventListener("click", () => { location.hash = "#/posts"; });
  const form = make("form", { class: "filters", role: "search" }, make("div", { class: "search" }, input),
    select("kind", say("filter.kinds"), KINDS.map((kind) => [kind, say(`kind.${kind}`)])),
    select("channel", say("filter.channels"), channelsOf().map((channel) => [channel.id, channel.name]).sort(([, one], [, other]) => one.localeCompare(other))),
    select("status", say("filter.statuses"), FATES.map((fate) => [fate, say(`fate.${fate}`)])), clear);
  form.addEventListener("submit", (event) => { event.preventDefault(); asked.q = input.value.trim(); begin(); });
  main.append(make("h1", {}, say("posts.page")), form, summary, list, under);

  let [shown, before, turn] = [new Map(), null, 0];
  const write = () => {
    const values = new URLSearchParams(Object.entries(asked).filter(([, value]) => value));
    history.replaceState(null, "", `#/posts${values.size ? `?${values}` : ""}`);
  };
  const load = async (from) => {
    const mine = ++turn;
    under.replaceChildren(make("p", { class: "soft small" }, say("page.waiting")));
    try {
      const answer = await read("/board/posts", { ...asked, before: from });
      if (mine !== turn || open !== page) return;
      if (!from) shown = new Map();
      for (const [id, post] of postsOf(answer.posts)) shown.set(id, post);
      before = answer.before;
      fill(list, [...shown], postCard);
      if (!shown.size) list.replaceChildren(quiet(before ? say("filter.none_yet", { n: answer.looked }) : say("filter.none")));
      summary.textContent = say("filter.found", { n: shown.size });
      const more = make("button", { type: "button", class: "wide" }, say("filter.more"));
      more.addEventListener("click", () => load(before));
      under.replaceChildren(...(before ? [more] : []));
      document.body.dataset.found = String(shown.size);
    } catch (error) {
      if (mine === turn) under.replaceChildren(quiet(error.message));
    }
  };
  const begin = () => { write(); load(null); };
  load(null);
  // Without a question the newest posts come by themselves; those that are shown stay right.
  return () => {
    const plain = !Object.values(asked).some(Boolean);
    let moved = false;
    for (const [id, post] of Object.entries(state.posts)) {
      if (shown.has(id) || (plain && shown.size)) { shown.set(id, post); moved = true; }
    }
    if (moved) fill(list, [...shown].sort(([one], [other]) => other - one), postCard);
  };
}

// -- one post

function crumbs(path, text, what) {
  return make("nav", { class: "crumbs", "aria-label": say("nav.crumbs") }, to(path, text), " / ", what);
}

const DELIVERY_TONES = { queued: "wait", retry: "wait", claimed: "wait", sending: "wait", sent: "good", deduped: "mute", failed_permanent: "bad", dead: "bad" };
const deliveryChip = (delivery) => chip(`${delivery.action === "send" ? "" : `${say(`action.${delivery.action}`)}: `}${say(`status.${delivery.status}`)}`, DELIVERY_TONES[delivery.status]);

function postPage(main, place, page) {
  return reading(main, page, `/board/post/${encodeURIComponent(place.id)}`, (about) => {
    const post = about.card || {};
    const photos = Array.from({ length: about.photos }, (_, n) => make("a", { href: photoAddress(about.id, n, post.revision), target: "_blank", rel: "noopener" }, photo(about.id, n, post)));
    main.replaceChildren(crumbs("posts", say("nav.posts"), `№ ${about.id}`), make("h1", { class: "unseen" }, `№ ${about.id}`),
      make("div", { class: "about" },
        make("div", { class: "stack" },
          make("article", { class: "card stack" },
            make("div", { class: "row" }, kindChip(post.kind), factChips(post), post.case?.closed ? chip(say("post.home"), "good") : null),
            photos.length ? make("div", { class: `album${photos.length === 1 ? " one" : ""}` }, photos) : null,
            about.text ? make("p", { class: "words" }, about.text) : make("p", { class: "faint" }, say("post.wordless")),
            make("div", { class: "row small soft" }, post.source_id ? to(`source/${post.source_id}`, post.source) : post.source, "·", when(about.posted || post.at, (ago) => say("post.posted", { ago })), outside(post.url, say("post.source")),
              about.seen > 1 ? make("span", {}, say("post.seen", { n: about.seen })) : null, about.gone_at ? when(about.gone_at, (ago) => say("post.gone_since", { ago })) : null)),
          make("section", { class: "card" }, make("h2", {}, say("post.recognised")), recognised(about)),
          about.case ? make("section", { class: "card" }, make("h2", {}, say("post.case")), caseOf(about)) : null),
        make("section", { class: "card" }, make("div", { class: "head" }, make("h2", {}, say("post.story")), make("span", { class: "went small" }, went(post))),
          about.channels.length || about.elsewhere.length ? null : quiet(say("channels.none")),
          order(about.channels).map(hearing),
          about.elsewhere.length ? make("div", { class: "hearing" }, make("b", {}, say("post.elsewhere")), about.elsewhere.map(deliveryStory)) : null,
          make("details", {}, make("summary", {}, say("post.terminal")), command(`rupor why ${about.id}`)))));
    document.body.dataset.post = about.id;
  });
}

/** What needs eyes first: failed, waiting, sent, repeats, nothing. */
function order(channels) {
  const rank = (channel) => {
    const statuses = channel.deliveries.map((delivery) => delivery.status);
    const first = [["failed_permanent", "dead"], ["queued", "retry", "claimed", "sending"], ["sent"], ["deduped"]].findIndex((group) => statuses.some((status) => group.includes(status)));
    return channel.held && !channel.held.decision ? 0 : first < 0 ? 9 : first;
  };
  return [...channels].sort((one, other) => rank(one) - rank(other) || one.name.localeCompare(other.name, language));
}

function recognised(about) {
  const rows = about.evidence.map(({ fact, value, words }) => {
    const known = { kind: `kind.${value}`, animal: `animal.${value}`, sex: `sex.${value}` }[fact];
    return [make("dt", {}, say(`fact.${fact}`)), make("dd", {}, known && knows(known) ? WORDS[language][known] : String(value), " ", words.map((word) => [make("q", {}, word), " "]))];
  });
  if (!rows.length) return make("p", { class: "soft" }, say("post.nothing"));
  return [make("dl", { class: "facts" }, rows), about.unsure ? make("p", { class: "t-wait small" }, say("post.unsure")) : null];
}

/** How a post came to its case. */
function judged(verdict) {
  return { same: "case.same", by_hand: "case.by_hand" }[verdict] || "case.new";
}

function caseOf(about) {
  const { about: known, reasons, verdict } = about.case;
  return make("div", { class: "stack" }, make("p", {}, to(`case/${known.id}`, storyTitle(known)), " · ", say("case.posts", { n: known.posts }), known.closed ? [" · ", chip(say("post.home"), "good")] : null),
    make("p", { class: "small soft" }, say(judged(verdict))),
    Array.isArray(reasons) && reasons.length ? make("ul", { class: "small soft" }, reasons.map((reason) => make("li", {}, reason))) : null);
}

function hearing(channel) {
  const said = channel.deliveries.length;
  return make("div", { class: "hearing", "data-item": true },
    make("div", { class: "row" }, to(`channel/${channel.id}`, channel.name), make("span", { class: `small ${tint(channel.platform)}` }, platformName(channel.platform)), make("span", { class: "grow" }),
      said ? null : channel.held ? chip(say(channel.held.decision ? `held.${channel.held.decision}` : "held.waits"), channel.held.decision ? "mute" : "wait") : chip(say("hearing.not"), "mute")),
    said || channel.held ? null : make("p", { class: "small soft" }, channel.because),
    channel.held && !channel.held.decision ? [make("p", { class: "small" }, channel.held.why), command(`rupor message approve ${open.place.id}`)] : null,
    channel.deliveries.map(deliveryStory),
    channel.left_out.length ? make("p", { class: "small t-wait" }, say("hearing.left_out", { what: channel.left_out.map(leftOut).join("; ") })) : null);
}

/** What the platform or the channel had no room for. */
function leftOut(note) {
  const media = note.match(/^(\d+) of (\d+) media left out/);
  if (media) return say("left.media", { n: Number(media[1]), of: Number(media[2]) });
  const text = note.match(/^(\d+) of (\d+) characters kept/);
  return text ? say("left.text", { n: Number(text[1]), of: Number(text[2]) }) : note;
}

function deliveryStory(delivery) {
  const done = ["sent", "deduped"].includes(delivery.status);
  const tries = delivery.attempts.map((attempt) => make("li", {}, say("attempt.n", { n: attempt.n }), " ", when(attempt.at), " — ", make("span", { class: attempt.outcome === "sent" ? "t-good" : "t-bad" }, say(`outcome.${attempt.outcome}`)), attempt.code ? ` (${attempt.code}${attempt.message ? `: ${attempt.message}` : ""})` : null));
  return make("div", {}, make("div", { class: "row" }, deliveryChip(delivery), outside(delivery.link, say("post.read")), delivery.ended ? make("span", { class: "small soft" }, when(delivery.ended)) : null,
    delivery.before ? to(`post/${delivery.before.post}`, say("post.before")) : null),
    done ? null : [delivery.cause ? make("p", { class: "small" }, delivery.cause) : null, make("p", { class: "small soft" }, say("trouble.next", { next: localised(delivery.next) })), helps(delivery.help)],
    tries.length > 1 || (tries.length && !done) ? make("ul", { class: "attempts" }, tries) : null);
}

// -- channels

function channelsPage(main) {
  const list = listOf("lines", say("nav.channels"));
  main.append(make("h1", {}, say("nav.channels")), list);
  return () => {
    const channels = channelsOf();
    fill(list, channels.map((channel) => [String(channel.id), channel]), (_, channel) => channelLine(channel));
    if (!channels.length) list.replaceChildren(quiet(say("channels.none")));
  };
}

function channelPage(main, place, page) {
  const top = make("div", { class: "stack" });
  const more = make("div", { class: "stack" });
  const posts = listOf("posts", say("nav.posts"));
  const troubles = listOf("troubles", say("trouble.title"));
  main.append(crumbs("channels", say("nav.channels"), state.channels[place.id]?.name || say("page.absent")), top, troubles, more, make("section", {}, head(say("channel.posts"), to(`posts?channel=${place.id}`, say("posts.all"))), posts));
  read(`/board/channel/${place.id}`).then((about) => { if (open === page) more.replaceChildren(channelFacts(about)); }).catch(() => {});
  let readAt = 0;
  const load = () => {
    readAt = Date.now();
    read("/board/posts", { channel: place.id }).then((answer) => {
      if (open !== page) return;
      fill(posts, postsOf(answer.posts), postCard);
      if (!posts.children.length) posts.replaceChildren(quiet(say("posts.none")));
    }).catch(() => {});
  };
  load();
  return () => {
    const channel = channelsOf().find((known) => String(known.id) === place.id);
    if (!channel) return;
    fill(top, [["top", channel]], () => make("div", { class: "card main-figure" },
      make("div", { class: "figure" }, make("h1", {}, channel.name), make("span", { class: "small soft" }, platformName(channel.platform), " · ", channel.target, channel.account ? ` · ${channel.account}` : ""),
        make("div", { class: "row" }, chip(say(`state.${stateId(channel.state)}`), stateTone(channel.state)), channel.waiting ? chip(say("went.waiting", { n: channel.waiting }), "wait") : null, channel.rate ? chip(say("channel.rate", { rate: channel.rate })) : null),
        make("b", {}, count(channel.today[0])), make("span", { class: "small soft" }, say("figure.sent"), " · ", channel.last ? when(channel.last, (ago) => say("figure.last", { ago })) : say("figure.never"))),
      make("div", {}, bars(channel.day, channel.hour, { width: 480, height: 84, gap: 4, titles: true }), hourLabels(channel.hour))));
    const own = troublesOf().filter(([key]) => new RegExp(`^(channel|failing|late):${channel.id}/`).test(key));
    fill(troubles, own, (_, trouble) => troubleCard(trouble));
    if (Date.now() - readAt > 3000) load();
  };
}

function channelFacts(about) {
  const rows = [[say("channel.ever"), [say("went.sent", { n: about.ever.sent }), " · ", say("went.repeats", { n: about.ever.deduped }), " · ", say("went.failed", { n: about.ever.failed })]],
    [say("channel.dedup"), say(`dedup.${about.dedup}`, { span: span(about.dedup_ms) })], [say("channel.media"), count(about.max_media)], [say("channel.body"), count(about.body_max)]];
  if (about.route) rows.push([say("channel.route"), make("code", { class: "small" }, about.route)]);
  if (about.quiet) rows.push([say("channel.quiet"), String(about.quiet) + (about.time_zone ? ` (${about.time_zone})` : "")]);
  if (about.max_age_ms) rows.push([say("channel.max_age"), span(about.max_age_ms)]);
  return make("details", { class: "card" }, make("summary", {}, say("channel.settings")), make("table", { class: "table" }, make("tbody", {}, rows.map(([name, value]) => make("tr", {}, make("th", { scope: "row" }, name), make("td", {}, value))))), outside(about.link, say("channel.open")));
}

// -- cases, and animals that may be each other's

/** Rules speak of the beginnings of words; people read the words as they stand in the post. */
function asWritten(beginnings, text) {
  const wanted = String(beginnings).toLowerCase().split(/\s+/);
  const words = (text || "").split(/[^\p{L}\p{N}-]+/u).filter((word) => wanted.some((begin) => word.toLowerCase().startsWith(begin)));
  return [...new Set(words)].slice(0, wanted.length).join(" ") || beginnings;
}

function hintWords({ hint, what }, text) {
  if (hint === "days") return what < 0 ? say("hint.days_before") : what === 0 ? say("hint.same_day") : say("hint.days", { n: what });
  if (hint === "mark" || hint === "place") return say(`hint.${hint}`, { what: asWritten(what, text) });
  return say(`hint.${hint}`, { what });
}

function pairCard(pair) {
  const side = ({ about, card, post, kind }) => make("div", { class: "side" }, card?.photos ? photo(post, 0, card) : make("div", { class: "noimg", "aria-hidden": "true" }, ANIMAL_ICONS[card?.animal] || "🐾"),
    make("div", { class: "row" }, kindChip(kind), make("span", { class: "small soft" }, card ? when(card.at) : null)), make("p", {}, card?.text || ""), to(`case/${about.id}`, say("case.look"), { class: "small" }));
  return make("article", { class: "card pair", "data-item": true, "data-pair": true }, make("div", { class: "sides" }, side(pair.lost), side(pair.found)), make("div", { class: "row" }, pair.hints.map((hint) => chip(hintWords(hint, pair.lost.card?.text), "good"))));
}

function casesPage(main, place, page) {
  return reading(main, page, "/board/matches", ({ matches, compared }) => {
    main.replaceChildren(make("h1", {}, say("cases.title")), make("p", { class: "soft" }, say("cases.lead")), matches.length ? make("div", { class: "pairs" }, matches.map(pairCard)) : quiet(say("cases.none", { n: compared })));
  });
}

function casePage(main, place, page) {
  return reading(main, page, `/board/case/${encodeURIComponent(place.id)}`, (about) => {
    main.replaceChildren(crumbs("cases", say("nav.cases"), say("case.number", { n: about.about.id })),
      make("div", { class: "row" }, kindChip(about.kind), make("h1", {}, storyTitle(about.about)), about.closed ? chip(say("post.home"), "good") : null),
      make("p", { class: "soft" }, say("case.posts", { n: about.about.posts }), " · ", when(about.opened, (ago) => say("case.opened", { ago })), about.copies ? ` · ${say("case.copies", { n: about.copies })}` : "", about.closed ? [" · ", when(about.closed, (ago) => say("case.closed", { ago }))] : null),
      make("div", { class: "about" },
        make("section", {}, head(say("case.told")), make("div", { class: "posts" }, postsOf(about.posts).map(([id, post]) => postCard(id, post)))),
        make("section", { class: "card" }, make("h2", {}, say("case.how")), make("ol", { class: "timeline" }, about.steps.map((one) => make("li", {},
          make("div", { class: "row" }, to(`post/${one.post}`, `№ ${one.post}`), kindChip(one.kind), make("span", { class: "small soft" }, one.source, " · ", when(one.at)), outside(one.url, say("post.source"))),
          make("p", { class: "small" }, say(judged(one.verdict))),
          Array.isArray(one.reasons) && one.reasons.length ? make("ul", { class: "small soft" }, one.reasons.map((reason) => make("li", {}, reason))) : null))))));
  });
}

// -- sources

const HEALTH_TONES = { well: "good", failing: "bad", off: "mute", new: "wait" };

function sourceLine(id, source) {
  return make("div", { class: `line${source.health === "failing" ? " ill" : ""}`, "data-source": source.name, "data-item": true },
    make("span", { class: `light ${HEALTH_TONES[source.health]}`, role: "img", "aria-label": say(`health.${source.health}`) }),
    make("div", {}, to(`source/${id}`, source.title || source.name, { class: "name" }), make("div", { class: "under" }, [source.kind, source.address === source.name ? null : source.address, say(`health.${source.health}`)].filter(Boolean).join(" · "))),
    make("span", { class: "small soft" }, source.last ? when(source.last) : say("source.nothing")),
    make("div", { class: "count" }, count(source.posts), make("small", {}, say("source.posts", { n: source.posts }))));
}

function sourcesPage(main, place, page) {
  return reading(main, page, "/board/sources", ({ sources, others }) => {
    const rank = ([, source]) => ["failing", "new", "well", "off"].indexOf(source.health);
    const list = Object.entries(sources).sort((one, other) => rank(one) - rank(other) || one[1].name.localeCompare(other[1].name, language));
    main.replaceChildren(make("h1", {}, say("nav.sources")), list.length ? make("div", { class: "lines" }, list.map(([id, source]) => sourceLine(id, source))) : quiet(say("sources.none")),
      others.length ? make("section", {}, head(say("sources.others")), make("div", { class: "lines" }, others.map((other) => make("div", { class: "line" }, make("span", { class: "light mute", "aria-hidden": "true" }), make("div", { class: "name" }, other.name), make("span", { class: "small soft" }, when(other.last)), make("div", { class: "count" }, count(other.posts), make("small", {}, say("source.posts", { n: other.posts }))))))) : "");
  });
}

function sourcePage(main, place, page) {
  const posts = listOf("posts", say("nav.posts"));
  const stop = reading(main, page, "/board/sources", ({ sources }) => {
    const source = sources[place.id];
    if (!source) { main.replaceChildren(quiet(say("page.absent"))); return; }
    const troubles = troublesOf().filter(([key]) => key.startsWith(`source:${place.id}/`)).map(([, trouble]) => troubleCard(trouble));
    main.replaceChildren(crumbs("sources", say("nav.sources"), source.name),
      make("div", { class: "card stack" }, make("div", { class: "row" }, make("h1", {}, source.title || source.name), chip(say(`health.${source.health}`), HEALTH_TONES[source.health])),
        make("p", { class: "soft" }, source.kind, " · ", source.address, " "), make("p", {}, source.last ? when(source.last, (ago) => say("source.last", { ago })) : say("source.nothing"), " · ", count(source.posts), " ", say("source.posts", { n: source.posts })),
        source.next ? make("p", { class: "small soft" }, when(source.next, (ago) => say("source.next", { ago }))) : null, outside(source.link, say("source.open"))),
      troubles.length ? make("div", { class: "troubles" }, troubles) : "", make("section", {}, head(say("source.brought"), to(`posts?source=${place.id}`, say("posts.all"))), posts));
    read("/board/posts", { source: place.id }).then((answer) => { if (open === page) { fill(posts, postsOf(answer.posts), postCard); if (!posts.children.length) posts.replaceChildren(quiet(say("posts.none"))); } }).catch(() => {});
  });
  return stop;
}

// -- campaigns

const CAMPAIGN_TONES = { running: "good", finishing: "good", finished: "good", paused: "wait", preparing: "wait", scheduled: "wait", cancelling: "bad", cancelled: "mute", aborted: "bad", draft: "mute" };

function progress(campaign) {
  const part = (n) => (campaign.total > 0 ? (100 * n) / campaign.total : 0);
  const bar = make("div", { class: "progress", role: "progressbar", "aria-valuemin": 0, "aria-valuemax": 100, "aria-valuenow": Math.floor(part(campaign.sent + campaign.failed)), "aria-label": campaign.name });
  for (const [n, tone] of [[campaign.sent, "sent"], [campaign.failed, "failed"]]) {
    const piece = make("i", { class: tone });
    piece.style.width = `${part(n)}%`;
    bar.append(piece);
  }
  return bar;
}

/** On its own page its name is the heading and no link. */
function campaignCard(id, campaign, isOwn) {
  const part = campaign.total > 0 ? Math.floor((100 * (campaign.sent + campaign.failed)) / campaign.total) : 0;
  return make("article", { class: "card stack", "data-item": true, "data-campaign": campaign.name },
    make("div", { class: "row" }, isOwn === true ? make("h1", {}, campaign.name) : to(`campaign/${id}`, campaign.name), chip(say(`campaign.${campaign.state}`), CAMPAIGN_TONES[campaign.state]), make("span", { class: "grow" }), make("b", { class: "num" }, `${part} %`)),
    progress(campaign),
    make("div", { class: "small soft" }, say("campaign.of", { n: campaign.sent, total: campaign.total }), campaign.failed ? [" · ", make("span", { class: "t-bad" }, say("went.failed", { n: campaign.failed }))] : null, campaign.eta ? [" · ", when(campaign.eta, (ago) => say("campaign.eta", { ago }))] : null, campaign.why ? ` · ${campaign.why}` : ""));
}

function campaignsPage(main) {
  const list = make("div", { class: "posts" });
  main.append(make("h1", {}, say("nav.campaigns")), list);
  return () => fill(list, Object.entries(state.campaigns).sort(([one], [other]) => other - one), campaignCard);
}

function campaignPage(main, place, page) {
  return reading(main, page, `/board/campaign/${encodeURIComponent(place.id)}`, (about) => {
    const campaign = about.about;
    const reasons = (counts) => {
      const sorted = Object.entries(counts || {}).sort(([, one], [, other]) => other - one);
      return sorted.length ? make("table", { class: "table" }, make("tbody", {}, sorted.map(([code, n]) => make("tr", {}, make("th", { scope: "row" }, knows(`code.${code}`) ? say(`code.${code}`) : code), make("td", { class: "num" }, count(n)))))) : null;
    };
    main.replaceChildren(crumbs("campaigns", say("nav.campaigns"), campaign.name), campaignCard(about.id, campaign, true),
      make("div", { class: "about" },
        make("section", { class: "card" }, make("h2", {}, say("campaign.picture")), about.points.length ? campaignPicture(about) : quiet(say("campaign.nothing_yet"))),
        make("section", { class: "card" }, make("h2", {}, say("campaign.codes")), make("p", { class: "soft" }, say("campaign.excluded", { n: campaign.excluded })),
          reasons(about.codes),
          campaign.failed ? [make("p", { class: "soft" }, say("went.failed", { n: campaign.failed })), reasons(about.ended)] : null,
          make("p", { class: "small soft" }, say("campaign.accounts", { names: about.accounts.join(", ") })),
          make("details", {}, make("summary", {}, say("post.terminal")), command(`rupor campaign status ${campaign.name.includes(" ") ? `'${campaign.name}'` : campaign.name}`)))));
  });
}

/** How many had it by when; the rest of the way is dashed up to the time it is expected to end. */
function campaignPicture(about) {
  const { points, about: campaign } = about;
  // On a phone it is drawn smaller, not shrunk: its words stay readable.
  const [width, height, left, bottom] = innerWidth < 560 ? [330, 200, 8, 22] : [640, 240, 8, 22];
  const from = campaign.started || points[0][0] - 60000;
  const until = Math.max(campaign.eta || 0, points[points.length - 1][0], from + 60000);
  const top = Math.max(1, campaign.total);
  const x = (at) => left + ((at - from) / (until - from)) * (width - left * 2);
  const y = (n) => (height - bottom) - (n / top) * (height - bottom - 12);
  const way = [[from, 0], ...points].map(([at, n], k) => `${k ? "L" : "M"}${x(at).toFixed(1)} ${y(n).toFixed(1)}`).join("");
  const last = points[points.length - 1];
  const svg = draw("svg", { class: "picture", viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": say("campaign.of", { n: campaign.sent, total: campaign.total }) });
  for (const part of [0, 0.5, 1]) svg.append(draw("line", { class: "grid", x1: left, x2: width - left, y1: y(top * part), y2: y(top * part) }), draw("text", { x: width - left, y: y(top * part) - 4, "text-anchor": "end" }, count(Math.round(top * part))));
  svg.append(draw("path", { class: "area", d: `${way}L${x(last[0])} ${y(0)}L${x(from)} ${y(0)}Z` }), draw("path", { class: "way", d: way }));
  if (campaign.eta) svg.append(draw("path", { class: "ahead", d: `M${x(last[0])} ${y(last[1])}L${x(campaign.eta)} ${y(campaign.total)}` }));
  svg.append(draw("text", { x: left, y: height - 5 }, moment(from)), draw("text", { x: width - left, y: height - 5, "text-anchor": "end" }, moment(until)));
  return svg;
}

// -- bots

function botFigures(bots) {
  const figure = (n, what, tone) => make("div", { class: "card figure" }, make("span", { class: "what" }, what), make("b", { class: n && tone ? tone : "" }, count(n)));
  return make("div", { class: "today", "data-bots": true }, [[bots.handoffs, say("bots.handoffs"), "t-wait"], [bots.turns, say("bots.turns")], [bots.fallbacks, say("bots.fallbacks"), "t-wait"], [bots.errors, say("bots.errors"), "t-bad"]].map(([n, what, tone]) => figure(n || 0, what, tone)));
}

function botsPage(main) {
  const figures = make("div", { class: "stack" });
  const list = make("div", { class: "stack" });
  main.append(make("h1", {}, say("nav.bots")), figures, list);
  return () => {
    fill(figures, [["figures", state.bots]], () => make("div", { class: "stack" }, botFigures(state.bots), state.bots.waiting ? make("p", { class: "t-wait" }, say("bots.waiting", { n: state.bots.waiting }), state.bots.oldest ? [" · ", when(state.bots.oldest, (ago) => say("bots.oldest", { ago }))] : null) : null, state.bots.handoffs ? make("p", { class: "soft small" }, say("bots.handoffs_how")) : null));
    fill(list, Object.entries(state.bots.list || {}), (_, bot) => make("article", { class: "card stack", "data-item": true }, make("div", { class: "row" }, make("h2", {}, bot.name), chip(say("bots.version", { n: bot.version }))),
      bot.accounts.map((account) => make("p", { class: "small" }, account.name, " · ", say(`receive.${account.receive}`), " · ", account.heard ? when(account.heard, (ago) => say("bots.heard", { ago })) : say("bots.never"), account.problem ? make("span", { class: "t-bad" }, ` · ${account.problem}`) : null))));
  };
}
