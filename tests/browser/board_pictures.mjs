// Pictures and figures of the board with much to show: 40 channels, a thousand posts, trouble, nothing at all, a dead node.
// Prints what a change weighs, and when the page is painted with ten thousand posts; asserts no time.
// Usage: tests/browser/pictures [folder]            RUPOR_BIN names a built binary.

import { execFileSync } from "node:child_process";
import { join } from "node:path";
import { openBrowser } from "./devtools.mjs";
import { begin, dress, end, folder, node, page, sandbox } from "./board_stage.mjs";
import { call, takeScreenshot } from "./stage.mjs";

const screenshots = process.argv[2];
const POSTS = Number(process.env.BOARD_POSTS || 1000);
const MANY = Number(process.env.BOARD_MANY || 10000);
const TOWNS = ["Тюмень", "Омск", "Курган", "Ишим", "Тобольск"];
const channels = Array.from({ length: 40 }, (_, n) => [["telegram", "vk", "max"][n % 3], `${["Пропавшие питомцы", "Помощь животным", "Потеряшки", "Хвосты"][n % 4]} ${TOWNS[n % 5]} ${n + 1}`]);
const CONFIG = `
[accounts.telegram]
platform = "telegram"
token = { env = "TOKEN" }
[accounts.vk]
platform = "vk"
kind = "user"
token = { env = "TOKEN_OUT" }
[accounts.max]
platform = "max"
token = { env = "TOKEN" }
[accounts.reader]
platform = "vk"
kind = "service"
token = { env = "TOKEN" }
[sources.city]
kind = "vk"
account = "reader"
groups = [-101]
home_city = "Тюмень"
[endpoints.site]
kind = "push"
secret = { env = "PUSH_SECRET" }
rate = 10000
${channels.map(([platform, name], n) => `[channels."${name}"]\naccount = "${platform}"\ntarget = ${platform === "vk" ? -5000 - n : platform === "max" ? -70000000001000 - n : -1001000001000 - n}\n`).join("")}`;

const LOOKS = [[375, 812], [1280, 900]].flatMap(([width, height]) => ["light", "dark"].flatMap((scheme) => ["ru", "en"].map((lang) => [width, height, scheme, lang])));

const NAMES = ["Буся", "Рекс", "Мурка", "Барсик", "Лайма", "Гром", "Ася", "Тоша"];
const STREETS = ["Ямской", "Республики", "Мельникайте", "Широтной", "Садовой", "Мира"];
const COATS = ["рыжая", "чёрная", "серая", "белая", "трёхцветная"];
function words(n) {
  const [town, street, coat] = [["Тюмени", "Омске", "Кургане", "Ишиме", "Тобольске"][n % 5], STREETS[n % 6], COATS[(n * 7) % 5]];
  const phone = `8 90${n % 10} ${String(1000000 + n * 37).slice(0, 3)}-${String(10 + (n % 89))}-${String(10 + ((n * 3) % 89))}`;
  if (n % 10 < 3) return `Пропала ${n % 2 ? "собака" : "кошка"} ${NAMES[n % 8]} в ${town}, на улице ${STREETS[n % 6]}, дом ${1 + (n % 90)}. Окрас: ${coat}, красный ошейник, откликается на кличку. Очень ждём дома, вознаграждение! Тел. ${phone}`;
  if (n % 10 < 5) return `Найдена ${n % 2 ? "собака" : "кошка"}, ${coat}, в красном ошейнике, в ${town} у дома ${1 + (n % 90)} на улице ${street}. Ищем хозяев! ${phone}`;
  if (n % 10 < 6) return `Ищет дом ласковая кошка, ${coat}, приучена к лотку, ${town}. Тел. ${phone}`;
  return `Доброе утро, дорогие подписчики! Новость номер ${n}: приют в ${town} открыт до шести вечера, ждём волонтёров.`;
}

const SPREAD = `
import random, sqlite3, sys
db = sqlite3.connect(sys.argv[1])
random.seed(7)
hour = 3600 * 1000000
shape = [1, 1, 1, 1, 2, 4, 7, 9, 10, 9, 8, 7, 8, 9, 9, 8, 10, 12, 11, 9, 6, 4, 2, 1]
for lane, at, workspace, sent, deduped, failed, last in db.execute("SELECT lane_id, at, workspace_id, n_sent, n_deduped, n_failed, sent_at FROM lane_counts").fetchall():
    db.execute("DELETE FROM lane_counts WHERE lane_id = ? AND at = ?", (lane, at))
    counts = {}
    for kind, n in ((0, sent), (1, deduped), (2, failed)):
        for back in random.choices(range(24), [shape[(-b) % 24] for b in range(24)], k=n):
            counts.setdefault(back, [0, 0, 0])[kind] += 1
    for back, (s, d, f) in counts.items():
        db.execute("INSERT INTO lane_counts (lane_id, at, workspace_id, n_sent, n_deduped, n_failed, sent_at) VALUES (?, ?, ?, ?, ?, ?, ?)", (lane, at - back * hour, workspace, s, d, f, last if back == 0 else at - back * hour))
ids = [row[0] for row in db.execute("SELECT message_id FROM messages ORDER BY message_id DESC")]
for n, id in enumerate(ids):
    db.execute("UPDATE messages SET created_at = created_at - ? WHERE message_id = ?", (n * 80 * 1000000, id))
db.commit()
`;

let browser;
begin();
try {
  const origin = await sandbox();
  browser = await openBrowser(process.env.CHROMIUM);
  await nothing(origin);
  await much(origin);
} finally {
  await end(browser);
}

async function shoot(board, name, options) {
  await page(browser, board, options);
  await browser.until(`[...document.images].every((image) => image.complete || image.getBoundingClientRect().top > innerHeight)`, "the pictures are loaded");
  await new Promise((resolve) => setTimeout(resolve, 700));
  await takeScreenshot(browser, screenshots, name);
}

async function nothing(origin) {
  await call(`${origin}/_/chats`, { platform: "vk", id: -101, title: "Потеряшки Тюмени" });
  const { board, child } = await node(origin, null, "empty");
  for (const [width, height, scheme, lang] of LOOKS) await shoot(board, `empty-${width}-${scheme}-${lang}`, { width, height, scheme, lang });
  child.kill("SIGTERM");
}

async function much(origin) {
  let { board, child } = await node(origin, CONFIG, "much");
  const settled = async (is = (state) => state.moving.waiting.every((n) => n === 0)) => {
    for (let tries = 0; tries < 120; tries++) {
      const state = await (await fetch(`${board}/board/state`)).json();
      if (is(state)) return;
      await new Promise((resolve) => setTimeout(resolve, 1000));
    }
  };
  await fillWith(board, 0, POSTS, origin);
  await settled();
  // What happened just now is spread over the day before, as it would have been.
  child.kill("SIGTERM");
  await new Promise((resolve) => child.once("exit", resolve));
  execFileSync("python3", ["-c", SPREAD, join(folder, "much.db")], { stdio: "inherit" });
  await call(`${origin}/_/faults`, { platform: "telegram", chat: "-1001000001003", kind: "kicked", times: 50 });
  await call(`${origin}/_/faults`, { platform: "telegram", chat: "-1001000001006", kind: "403", times: 50 });
  ({ board, child } = await node(origin, CONFIG, "much"));
  const heard = listen(board);
  const photo = (n) => ({ type: "photo", photo: { id: n, owner_id: -101, sizes: [{ type: "x", url: `${origin}/_/pictures/pet-${n}.jpg`, width: 320, height: 240 }] } });
  const told = ["Найдена такса, рыжая, в красном ошейнике, в Тюмени на улице Ямской. Ищем хозяев!", "Ищет дом котёнок, серый, два месяца, Тюмень. Тел. 8 901 000-00-15", "Пропал кот Персик, рыжий, Тюмень, улица Широтная, дом 5. Тел. 8 901 000-00-16",
    "Пропала собака! В Тюмени на улице Ямской убежала такса Жужа, рыжая, в красном ошейнике. Телефон 8 901 000-00-17, Марина."];
  await call(`${origin}/_/walls/-101`, told.map((text, n) => ({ id: n + 1, date: Math.floor(Date.now() / 1000) - 60 + n, text, attachments: [photo(n + 1)] })));
  await settled((state) => Object.values(state.posts).some((post) => post.text.includes("Жужа")) && Object.values(state.trouble).some((trouble) => trouble.weight === "act"));
  const sizes = (await heard()).filter((size) => size > 100);
  console.log(`changes while new posts went to 40 channels: ${sizes.length}, the largest ${Math.max(...sizes)} bytes`);
  for (const [width, height, scheme, lang] of LOOKS) await shoot(board, `much-${width}-${scheme}-${lang}`, { width, height, scheme, lang });
  await shoot(board, "much-1920-light-ru", { width: 1920, height: 1080, scheme: "light", lang: "ru" });
  await shoot(board, "posts-1280-light-ru", { width: 1280, height: 900, scheme: "light", lang: "ru", hash: "#/posts?kind=lost" });
  await shoot(board, "sources-1280-light-ru", { width: 1280, height: 900, scheme: "light", lang: "ru", hash: "#/sources" });
  await shoot(board, "channel-375-light-ru", { width: 375, height: 812, scheme: "light", lang: "ru", hash: "#/channel/1" });
  await shoot(board, "cases-1280-light-ru", { width: 1280, height: 900, scheme: "light", lang: "ru", hash: "#/cases" });
  const { posts } = await (await fetch(`${board}/board/posts?kind=lost&status=failed`)).json();
  const failed = Object.keys(posts).at(-1);
  if (failed) for (const [width, height, scheme, lang] of LOOKS.filter(([, , scheme, lang]) => (scheme === "dark") === (lang === "ru"))) await shoot(board, `post-${width}-${scheme}-${lang}`, { width, height, scheme, lang, hash: `#/post/${failed}` });
  await fillWith(board, POSTS, MANY, null);
  await paint(board);
  await page(browser, board, { width: 1280, height: 900, scheme: "light", lang: "en" });
  child.kill("SIGKILL");
  await browser.until(`!document.getElementById("dead").hidden`, "the banner");
  // The page that is open stays: there is nobody to give out another.
  for (const [width, height, scheme, lang] of LOOKS) {
    await dress(browser, { width, height, scheme });
    if ((await browser.evaluate(`document.documentElement.lang`)) !== lang) await browser.evaluate(`document.getElementById("language").click()`);
    await browser.evaluate(`scrollTo(0, 0)`);
    await new Promise((resolve) => setTimeout(resolve, 400));
    await takeScreenshot(browser, screenshots, `dead-${width}-${scheme}-${lang}`);
  }
}

/** Posts by the door; after the first thousand only such that go nowhere, so that nobody waits for the sending. */
async function fillWith(board, from, upto, origin) {
  for (let n = from; n < upto; n += 100) {
    const posts = Array.from({ length: Math.min(100, upto - n) }, (_, k) => ({
      text: origin ? words(n + k) : words(6 + 10 * (n + k)), origin_id: `p${n + k}`,
      photos: origin && (n + k) % 10 < 5 && (n + k) > upto - 60 ? [`${origin}/_/pictures/pet-${n + k}.jpg`] : [],
    }));
    const headers = { "content-type": "application/json", authorization: "Bearer secret-of-the-site-0123456789" };
    const answer = await fetch(`${board}/v1/ingest`, { method: "POST", headers, body: JSON.stringify({ posts }) });
    if (!answer.ok) throw new Error(await answer.text());
  }
}

/** How long the changes are that a page hears. */
function listen(board) {
  const stop = new AbortController();
  const sizes = [];
  const reading = (async () => {
    const answer = await fetch(`${board}/board/events`, { signal: stop.signal });
    let rest = "";
    for await (const bytes of answer.body) {
      rest += Buffer.from(bytes).toString();
      for (let at = rest.indexOf("\n\n"); at >= 0; at = rest.indexOf("\n\n")) {
        const event = rest.slice(0, at);
        rest = rest.slice(at + 2);
        if (event.includes("event: change")) sizes.push(Buffer.byteLength(event));
      }
    }
  })().catch(() => {});
  return async () => { stop.abort(); await reading; return sizes; };
}

async function paint(board) {
  const figures = [];
  for (let n = 0; n < 5; n++) {
    await page(browser, board, { width: 1280, height: 900, scheme: "light", lang: "en" });
    figures.push(await browser.evaluate(`(() => { const paint = performance.getEntriesByName("first-contentful-paint")[0]; const state = performance.getEntriesByType("resource").find((entry) => entry.name.includes("/board/events")); return { paint: Math.round(paint?.startTime || 0), ready: Math.round(window.performance.getEntriesByName("data")[0]?.startTime || 0), page: Math.round(performance.getEntriesByType("navigation")[0].transferSize / 1000) }; })()`));
  }
  for (const { paint: first, ready, page: size } of figures) console.log(`with ${MANY} posts: first paint ${first} ms, data shown ${ready} ms, page ${size} kB`);
}
