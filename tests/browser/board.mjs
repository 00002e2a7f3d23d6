// Starts a sandbox and a node with walls, channels and an endpoint, and uses the board as an operator would: looks, clicks,
// types, uses the keyboard, and kills the node. Screenshots go to the folder that is named.

import assert from "node:assert/strict";
import { openBrowser } from "./devtools.mjs";
import { begin, end, node, page, push, sandbox } from "./board_stage.mjs";
import { call, takeScreenshot, watchTroubles } from "./stage.mjs";

const CONFIG = `
[accounts.bot]
platform = "telegram"
token = { env = "TOKEN" }
[accounts.reader]
platform = "vk"
kind = "service"
token = { env = "TOKEN" }
[accounts.community]
platform = "vk"
kind = "user"
token = { env = "TOKEN_OUT" }
[accounts.max]
platform = "max"
token = { env = "TOKEN" }

[channels."Пропавшие питомцы"]
account = "bot"
target = -1001000000042
[channels."Группа района"]
account = "bot"
target = -1001000000043
[channels."Стена приюта"]
account = "community"
target = -555
[channels."MAX Тюмень"]
account = "max"
target = -70000000000042

[sources.city]
kind = "vk"
account = "reader"
groups = [-101, -102, -404]
home_city = "Тюмень"

[endpoints.site]
kind = "push"
secret = { env = "PUSH_SECRET" }
`;
const LOST = "Пропала собака! 12 ноября в Тюмени на улице Ямской убежала такса Буся, рыжая, в красном ошейнике. Телефон 8 901 000-00-11, Марина.";
const FOUND = "Найдена такса, рыжая, в красном ошейнике, в Тюмени. Ищем хозяев!";
const EVIL = "Пропал кот <img src=x onerror=\"document.title='взлом'\"> Барсик, серый, Тюмень, улица Мельникайте. Тел. +7 901 000-00-12";
const screenshots = process.argv[2];
let browser;
const text = (selector) => `(document.querySelector(${JSON.stringify(selector)})?.textContent || "")`;
const click = (selector) => browser.evaluate(`document.querySelector(${JSON.stringify(selector)}).click()`);
const until = (expression, what) => browser.until(expression, what);

begin();
try {
  const origin = await sandbox();
  await fill(origin);
  const { board, child } = await node(origin, CONFIG);
  browser = await openBrowser(process.env.CHROMIUM);
  const troubles = watchTroubles(browser);
  await push(board, "site-1", EVIL);
  for (const [width, height, scheme, lang] of [[1280, 900, "light", "en"], [375, 812, "dark", "ru"], [1920, 1080, "dark", "en"]]) await look(board, width, height, scheme, lang);
  await pages(board);
  await filters(board);
  await keyboard(board);
  await live(origin, board);
  await refusals(board);
  assert.deepEqual(troubles, [], "the console is quiet");
  await dead(board, child);
  console.log("board test: ok");
} finally {
  await end(browser);
}

async function fill(origin) {
  const now = Math.floor(Date.now() / 1000);
  const photo = (n) => ({ type: "photo", photo: { id: n, owner_id: -101, sizes: [{ type: "x", url: `${origin}/_/pictures/pet-${n}.jpg`, width: 320, height: 240 }] } });
  const wall = (owner, posts) => call(`${origin}/_/walls/${owner}`, posts.map(([words, ...photos], n) => ({ id: n + 1, date: now - 600 + n * 60, text: words, attachments: photos.map(photo) })));
  await wall(-101, [[LOST, 1, 2], [FOUND, 3]]);
  await wall(-102, [[LOST], ["Доброе утро, дорогие подписчики! Сегодня выходной, приют открыт до шести вечера."]]);
  await call(`${origin}/_/chats`, { platform: "vk", id: -101, title: "Потеряшки Тюмени" });
  // The district's group has thrown the bot out.
  await call(`${origin}/_/faults`, { platform: "telegram", chat: "-1001000000043", kind: "kicked", times: 50 });
  await call(`${origin}/_/faults`, { platform: "vk", method: "wall.get", chat: "-404", kind: "vk_error", code: 15, times: 50 });
}

/** The overview at one size: the named parts, whole and in place. */
async function look(board, width, height, scheme, lang) {
  await page(browser, board, { width, height, scheme, lang });
  await until(`document.querySelectorAll(".post").length === 5`, "all five posts are shown");
  await until(`${text(".troubles")}.includes("Группа района")`, "the channel in trouble is named");
  await until(`document.querySelectorAll(".trouble").length >= 2`, "the closed wall is named too");
  await until(`[...document.querySelectorAll(".post .t-good")].length >= 2`, "posts are shown as sent");
  await until(`document.querySelector(".post img")?.naturalWidth > 0 || !document.querySelector(".post.pictured")`, "the photo is loaded");
  const seen = await browser.evaluate(`(() => {
    const texts = (selector) => [...document.querySelectorAll(selector)].map((node) => node.textContent);
    const small = (node) => { const box = node.getBoundingClientRect(); return box.width > 0 && (box.height < 18); };
    return {
      title: document.title,
      language: document.documentElement.lang,
      posts: texts(".post"),
      channels: texts(".line .name"),
      ill: texts(".line.ill .name"),
      trouble: texts(".troubles").join(),
      bars: document.querySelectorAll(".main-figure .bars g").length,
      strips: document.querySelectorAll(".line .bars").length,
      sent: document.querySelector(".main-figure b").textContent,
      live: document.querySelector("#live").className,
      dead: document.getElementById("dead").hidden,
      photos: [...document.querySelectorAll(".post img")].map((node) => new URL(node.src).pathname.replace(/\\d+\\/0/, "N/0")),
      alone: [...document.querySelectorAll("img")].filter((node) => !node.alt).length,
      unnamed: [...document.querySelectorAll("a, button, input, select")].filter((node) => !(node.textContent.trim() || node.getAttribute("aria-label"))).length,
      landmarks: ["header", "main", "footer", "nav"].filter((name) => !document.querySelector(name)),
      headings: document.querySelectorAll("h1").length,
      sideways: document.documentElement.scrollWidth - innerWidth,
      tiny: [...document.querySelectorAll("#tabs a, .copy, .plain")].filter(small).length,
      foreign: performance.getEntriesByType("resource").map((entry) => entry.name).filter((name) => !name.startsWith(location.origin) && !name.startsWith("data:")),
    };
  })()`);
  assert.match(seen.title, /^(\(\d+\) )?Rupor$/, "a post cannot run anything");
  assert.equal(seen.language, lang);
  const dog = seen.posts.find((post) => post.includes("такса Буся"));
  for (const part of [lang === "ru" ? "🔎 пропал" : "🔎 lost", lang === "ru" ? "собака" : "dog", "Буся", "Тюмень", "☎ …11"]) assert.ok(dog.includes(part), `${part} in ${dog}`);
  assert.ok(!seen.posts.join().includes("000-00-11"), "numbers of people are masked");
  assert.ok(seen.posts.some((post) => /Not published|Не опубликован/.test(post)), "why a post went nowhere");
  assert.deepEqual([...seen.channels].sort(), ["MAX Тюмень", "Группа района", "Пропавшие питомцы", "Стена приюта"]);
  assert.deepEqual([seen.channels[0], seen.ill], ["Группа района", ["Группа района"]], "who is ill comes first");
  assert.match(seen.trouble, /rupor channel resume 'Группа района' --with-failed/);
  assert.deepEqual([seen.bars, seen.strips], [24, 4], "a day of bars in all, and one for each channel");
  assert.ok(Number(seen.sent) >= 3, `sent today: ${seen.sent}`);
  assert.deepEqual([seen.live, seen.dead], ["live on", true]);
  assert.ok(seen.photos.length >= 1 && seen.photos.every((path) => path === "/board/photo/N/0"), `${seen.photos}`);
  assert.deepEqual([seen.alone, seen.unnamed, seen.landmarks, seen.headings, seen.tiny], [0, 0, [], 1, 0], "names, landmarks and room for a thumb");
  assert.ok(seen.sideways <= 0, `the page scrolls sideways by ${seen.sideways} px at ${width} px`);
  assert.deepEqual(seen.foreign, [], "nothing is loaded from elsewhere");
  await takeScreenshot(browser, screenshots, `board-${width}-${scheme}-${lang}`);
}

/** From a card to its post, its channel, its case, its source and back. */
async function pages(board) {
  await page(browser, board, { width: 1280, height: 900, scheme: "light", lang: "en" });
  await until(`document.querySelector("[data-post] .t-bad")`, "a post failed somewhere");
  await browser.evaluate(`document.querySelector(".t-bad").closest("[data-post]").querySelector(".open").click()`);
  await until(`document.body.dataset.page === "post" && document.querySelectorAll(".hearing").length === 4`, "the post with its four channels");
  const story = await browser.evaluate(`document.getElementById("main").textContent`);
  for (const part of ["failed", "Attempt 1", "What was recognised"]) assert.ok(story.includes(part), `${part} in ${story}`);
  assert.ok(!story.includes("000-00-11"), "no number on the page of a post either");
  const links = await browser.evaluate(`[...document.querySelectorAll(".hearing a")].map((node) => node.href)`);
  assert.ok(links.some((url) => url.startsWith("https://t.me/c/1000000042/")), `${links}`);
  await takeScreenshot(browser, screenshots, "board-post");
  await browser.evaluate(`[...document.querySelectorAll(".hearing a")].find((node) => node.textContent === "Группа района").click()`);
  await until(`document.body.dataset.page === "channel" && ${text("h1")} === "Группа района"`, "the channel");
  await until(`document.querySelectorAll(".trouble").length >= 1 && document.querySelectorAll(".post").length >= 1`, "its trouble and its posts");
  await until(`document.querySelector("details.card")`, "its settings");
  await takeScreenshot(browser, screenshots, "board-channel");
  const { posts } = await (await fetch(`${board}/board/posts`)).json();
  const repeat = Object.keys(posts).find((id) => posts[id].went?.[3] > 0);
  await browser.evaluate(`location.hash = "#/post/${repeat}"`);
  await until(`document.body.dataset.page === "post" && ${text("#main")}.includes("said before")`, "a repeat names what was said before");
  await browser.evaluate(`location.hash = "#/cases"`);
  await until(`document.querySelector("[data-pair]")`, "lost and found are suggested");
  assert.match(await browser.evaluate(text("[data-pair]")), /same mark: красном ошейнике/);
  await takeScreenshot(browser, screenshots, "board-cases");
  await click("[data-pair] .side a");
  await until(`document.body.dataset.page === "case" && document.querySelectorAll(".timeline li").length >= 2`, "a case with how its posts came together");
  await takeScreenshot(browser, screenshots, "board-case");
  await browser.evaluate(`location.hash = "#/sources"`);
  await until(`document.querySelectorAll("[data-source]").length === 3`, "three sources");
  assert.match(await browser.evaluate(text("#main")), /Потеряшки Тюмени/, "a group by the name it gives itself");
  await click(".line.ill .name");
  await until(`document.body.dataset.page === "source" && document.querySelector(".trouble")`, "the wall that cannot be read, and why");
  await takeScreenshot(browser, screenshots, "board-source");
}

/** Filters and search ask the node and can be linked to. */
async function filters(board) {
  await page(browser, board, { width: 1280, height: 900, scheme: "light", lang: "en", hash: "#/posts" });
  const shows = (n, what) => until(`document.body.dataset.found === "${n}" && document.querySelectorAll(".post").length === ${n}`, what);
  await shows(5, "all posts");
  const choose = (name, value) => browser.evaluate(`(() => { const node = document.querySelector("select[name=${name}]"); node.value = ${JSON.stringify(value)}; node.dispatchEvent(new Event("change")); })()`);
  await choose("kind", "lost");
  await shows(3, "three searches");
  await choose("status", "failed");
  await shows(1, "one of them failed somewhere");
  await until(`location.hash === "#/posts?kind=lost&status=failed"`, "the address says so");
  await click(".filters .plain");
  await shows(5, "all again");
  await browser.evaluate(`document.querySelector(".filters input").focus()`);
  await browser.send("Input.insertText", { text: "барсик" });
  await shows(1, "found by a word");
  assert.ok((await browser.evaluate(text(".post"))).includes("<img src=x"), "markup in a post stays text");
  await browser.evaluate(`location.hash = "#/posts?q=${encodeURIComponent("ничего такого")}"`);
  await until(`document.body.dataset.found === "0" && ${text(".quiet")}.includes("Nothing fits")`, "nothing is said too");
  await takeScreenshot(browser, screenshots, "board-search");
}

/** Everything without a mouse, and in the other language. */
async function keyboard(board) {
  await page(browser, board, { width: 1280, height: 900, scheme: "light", lang: "en" });
  await until(`document.querySelectorAll(".post").length === 5`, "the overview");
  const key = async (name) => { for (const type of ["keyDown", "keyUp"]) await browser.send("Input.dispatchKeyEvent", { type, key: name, text: type === "keyDown" && name.length === 1 ? name : undefined }); };
  await key("/");
  await until(`document.activeElement?.name === "q"`, "a slash goes to the search");
  await key("Escape");
  await key("Escape");
  await until(`document.body.dataset.page === "overview"`, "Escape goes back");
  for (let n = 0; n < 3; n++) await key("j");
  assert.ok(await browser.evaluate(`Boolean(document.activeElement.closest("[data-item]"))`), "j goes from one to the next");
  await key("k");
  await browser.evaluate(`document.activeElement.closest("[data-item]").scrollIntoView()`);
  await click(".copy");
  await until(`document.querySelector(".copy").textContent !== "Copy"`, "the button says that it has copied");
  await click("#language");
  await until(`document.documentElement.lang === "ru" && ${text("#tabs")}.includes("Обзор") && ${text(".post")}.length > 0`, "the page speaks Russian");
  await browser.evaluate(`localStorage.clear()`);
}

/** Posts that come while somebody looks: a new case, and the end of an old one. */
async function live(origin, board) {
  await page(browser, board, { width: 1280, height: 900, scheme: "light", lang: "en" });
  await push(board, "site-2", "Потерялся попугай Кеша, зелёный, Тюмень, улица Широтная, тел. 8 901 000-00-14");
  await until(`${text(".post")}.includes("Кеша")`, "a new post appears on top by itself");
  await until(`${text("#said")}.includes("Кеша")`, "and is said to who listens");
  await call(`${origin}/_/walls/-101`, [{ id: 3, date: Math.floor(Date.now() / 1000), text: "Такса Буся нашлась, она дома! Всем спасибо за репосты! Тюмень, улица Ямская, 8 901 000-00-11" }]);
  await until(`[...document.querySelectorAll(".post")].some((post) => post.textContent.includes("такса Буся") && post.textContent.includes("home again"))`, "the story is shown as ended");
  await until(`[...document.querySelectorAll(".post")].some((post) => post.textContent.includes("Ends the story"))`, "by this post");
  await takeScreenshot(browser, screenshots, "board");
}

/** Other methods, other hosts and strangers are turned away. */
async function refusals(board) {
  const status = async (path, options) => (await fetch(`${board}${path}`, options)).status;
  for (const path of ["/", "/board/state", "/board/events", "/board/posts", "/board/post/1", "/board/photo/1/0"]) assert.equal(await status(path, { method: "POST" }), 405, path);
  assert.equal(await status("/v1/ingest"), 405);
  assert.equal(await status("/v1/ingest", { method: "POST", body: "{}" }), 401);
  const answer = await fetch(`${board}/`);
  assert.match(answer.headers.get("content-security-policy"), /^default-src 'none'; script-src 'nonce-[0-9a-f]{32}'; style-src 'nonce-[0-9a-f]{32}'; connect-src 'self'; img-src 'self' data:;/);
  await answer.text();
}

/** A node that dies is told in red, with the time of what is still shown. */
async function dead(board, child) {
  await page(browser, board, { width: 1280, height: 700, scheme: "light", lang: "ru" });
  child.kill("SIGKILL");
  await until(`!document.getElementById("dead").hidden`, "the banner is there");
  const seen = await browser.evaluate(`({ text: document.getElementById("dead").textContent, live: document.getElementById("live").className, colour: getComputedStyle(document.getElementById("dead")).backgroundColor, role: document.getElementById("dead").getAttribute("role") })`);
  assert.match(seen.text, /Узел не отвечает.*Данные на \d\d:\d\d:\d\d/);
  assert.deepEqual([seen.live, seen.role, seen.colour], ["live off", "alert", "rgb(196, 40, 31)"]);
  await takeScreenshot(browser, screenshots, "board-dead");
}
