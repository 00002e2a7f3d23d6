// Starts a sandbox and a node with walls, channels and an endpoint, and looks at the board as an operator would.

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { openBrowser } from "./devtools.mjs";
import { call, originOf, takeScreenshot, watchTroubles } from "./stage.mjs";

const SECRET = "secret-of-the-site-0123456789";
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
const EVIL = "Пропал кот <img src=x onerror=\"document.title='взлом'\"> Барсик, серый, Тюмень, улица Мельникайте. Тел. +7 901 000-00-12";
const screenshots = process.argv[2];
const folder = mkdtempSync(join(tmpdir(), "rupor-board-"));
const children = [];
let browser;

try {
  const sandbox = start(["sandbox", "--listen", "127.0.0.1:0", "--any-token"], {});
  const origin = await originOf(sandbox.stdout);
  await fill(origin);
  const board = await node(origin);
  browser = await openBrowser(process.env.CHROMIUM);
  const troubles = watchTroubles(browser);
  await push(board, "site-1", EVIL);
  for (const [width, height, scheme] of [[1280, 900, "light"], [375, 812, "dark"]]) await look(board, width, height, scheme);
  await live(origin, board);
  await refusals(board);
  assert.deepEqual(troubles, [], "the console is quiet");
  console.log("board test: ok");
} finally {
  for (const child of children) child.kill("SIGTERM");
  if (browser) await browser.close();
  await Promise.all(children.map((child) => child.exitCode ?? new Promise((resolve) => child.once("exit", resolve))));
  rmSync(folder, { recursive: true, force: true });
}

function start(args, env, output = ["ignore", "pipe", "inherit"]) {
  const child = spawn(process.env.RUPOR_BIN, args, { stdio: output, cwd: folder, env: { PATH: process.env.PATH, ...env } });
  children.push(child);
  return child;
}

async function fill(origin) {
  const now = Math.floor(Date.now() / 1000);
  const wall = (owner, posts) => call(`${origin}/_/walls/${owner}`, posts.map((text, n) => ({ id: n + 1, date: now - 600 + n * 60, text })));
  await wall(-101, [LOST, "Найдена кошка, трёхцветная, в Тюмени на улице Республики. Ищем хозяев, тел. 8 901 000-00-13"]);
  await wall(-102, [LOST, "Доброе утро, дорогие подписчики! Сегодня выходной, приют открыт до шести вечера."]);
  // The district's group has thrown the bot out.
  await call(`${origin}/_/faults`, { platform: "telegram", chat: "-1001000000043", kind: "kicked", times: 50 });
  await call(`${origin}/_/faults`, { platform: "vk", method: "wall.get", chat: "-404", kind: "vk_error", code: 15, times: 50 });
}

async function node(origin) {
  writeFileSync(join(folder, "rupor.toml"), CONFIG);
  const env = { TOKEN: "42:token", TOKEN_OUT: "43:token", PUSH_SECRET: SECRET, RUPOR_POLL_INTERVAL: "1s", NO_COLOR: "1" };
  for (const platform of ["telegram", "vk", "max"]) env[`RUPOR_${platform.toUpperCase()}_API`] = `${origin}/${platform}`;
  const child = start(["run", "--config", "rupor.toml", "--listen", "127.0.0.1:0"], env, ["ignore", "pipe", "pipe"]);
  const [out, err] = [child.stdout, child.stderr].map((stream) => originOf(stream, /listening.*?(127\.0\.0\.1:\d+)/));
  return `http://${await Promise.any([out, err])}`;
}

async function push(board, origin_id, text) {
  const headers = { "content-type": "application/json", authorization: `Bearer ${SECRET}`, "idempotency-key": origin_id };
  const answer = await fetch(`${board}/v1/ingest`, { method: "POST", headers, body: JSON.stringify({ text, origin_id }) });
  assert.equal(answer.status, 202, await answer.text());
}

/** The page at one size: the named parts, whole and in place. */
async function look(board, width, height, scheme) {
  await browser.send("Emulation.setEmulatedMedia", { features: [{ name: "prefers-color-scheme", value: scheme }] });
  await browser.send("Emulation.setDeviceMetricsOverride", { width, height, deviceScaleFactor: 1, mobile: width < 600 });
  await browser.send("Page.navigate", { url: `${board}/` });
  await browser.until(`document.body && document.body.dataset.ready === "yes"`, "the page is ready");
  await browser.until(`document.querySelectorAll("#posts article").length === 5`, "all five posts are shown");
  await browser.until(`document.getElementById("posts").textContent.includes("repeat, not sent")`, "the copy is shown as a repeat");
  await browser.until(`document.querySelector("#trouble").textContent.includes("Группа района")`, "the channel in trouble is named");
  await browser.until(`document.querySelector("#trouble").textContent.includes("cannot be read")`, "the closed wall is named");
  await browser.until(`[...document.querySelectorAll("#posts .went .good")].length >= 4`, "deliveries are shown as sent");
  const seen = await browser.evaluate(`(() => {
    const text = (selector) => [...document.querySelectorAll(selector)].map((node) => node.textContent);
    return {
      title: document.title,
      headings: text("h2"),
      posts: text("#posts article"),
      chips: text("#posts .chip.kind"),
      channels: text("#channels .name"),
      sources: text("#sources .name"),
      trouble: document.querySelector("#trouble").textContent,
      links: [...document.querySelectorAll("#posts .went a")].map((node) => node.href),
      live: document.querySelector("#live").classList.contains("live"),
      buttons: document.querySelectorAll("button, form, input").length,
      images: document.images.length,
      sideways: document.documentElement.scrollWidth - innerWidth,
      narrow: [...document.querySelectorAll("section")].filter((node) => node.getBoundingClientRect().width < 300).length,
      foreign: performance.getEntriesByType("resource").map((entry) => entry.name).filter((name) => !name.startsWith(location.origin) && !name.startsWith("data:")),
    };
  })()`);
  assert.equal(seen.title, "Rupor", "a post cannot run anything");
  assert.equal(seen.images, 0, "markup in a post stays text");
  assert.deepEqual(seen.headings, ["Trouble", "Channels", "Posts", "Sources"]);
  const dog = seen.posts.find((post) => post.includes("такса Буся"));
  for (const part of ["🔎 lost", "🐕 dog", "name Буся", "Тюмень", "☎ …11", "Case ", "2 posts, 1 copy elsewhere"]) assert.ok(dog.includes(part), `${part} in ${dog}`);
  assert.ok(!seen.posts.join().includes("000-00-11"), "numbers of people are masked");
  assert.ok(seen.posts.some((post) => post.includes("Not published: no route")), "why a post went nowhere");
  assert.deepEqual(seen.channels.sort(), ["MAX Тюмень", "Группа района", "Пропавшие питомцы", "Стена приюта"]);
  assert.equal(seen.sources.length, 3);
  assert.match(seen.trouble, /rupor channel resume 'Группа района' --with-failed/);
  assert.ok(seen.links.some((url) => url.startsWith("https://t.me/c/1000000042/")), `${seen.links}`);
  assert.ok(seen.links.some((url) => url.startsWith("https://vk.com/wall-555_")), `${seen.links}`);
  assert.equal(seen.live, true);
  assert.equal(seen.buttons, 0, "there is nothing to press");
  assert.equal(seen.narrow, 0, `every part has room at ${width} px`);
  assert.ok(seen.sideways <= 0, `the page scrolls sideways by ${seen.sideways} px at ${width} px`);
  assert.deepEqual(seen.foreign, [], "nothing is loaded from elsewhere");
  await takeScreenshot(browser, screenshots, `board-${width}`);
  if (width > 600) return;
  await browser.evaluate(`document.querySelector("#posts").scrollIntoView()`);
  await takeScreenshot(browser, screenshots, `board-${width}-posts`);
}

/** Posts that come while somebody looks: a new case, and the end of an old one. */
async function live(origin, board) {
  await browser.send("Emulation.setEmulatedMedia", { features: [{ name: "prefers-color-scheme", value: "light" }] });
  await browser.send("Emulation.setDeviceMetricsOverride", { width: 1280, height: 780, deviceScaleFactor: 1, mobile: false });
  await push(board, "site-2", "Потерялся попугай Кеша, зелёный, Тюмень, улица Широтная, тел. 8 901 000-00-14");
  await browser.until(`document.querySelector("#posts article").textContent.includes("Кеша")`, "a new post appears on top by itself");
  const home = "Такса Буся нашлась, она дома! Всем спасибо за репосты! Тюмень, улица Ямская, 8 901 000-00-11";
  await call(`${origin}/_/walls/-101`, [{ id: 3, date: Math.floor(Date.now() / 1000), text: home }]);
  await browser.until(`document.querySelector("#posts").textContent.includes("closed: home again")`, "the case is shown as closed");
  await browser.until(`document.querySelector("#posts").textContent.includes("Closes the case")`, "by this post");
  await browser.until(`[...document.querySelectorAll("#posts .went .row")].some((row) => /^edit: .*sent/.test(row.textContent))`, "the published copy is edited");
  await browser.until(`document.querySelectorAll("#posts article")[1].querySelector(".went .good")`, "the parrot is sent");
  await browser.evaluate("scrollTo(0, 0)");
  await takeScreenshot(browser, screenshots, "board");
}

/** Other methods, other hosts and strangers are turned away. */
async function refusals(board) {
  const status = async (path, options) => (await fetch(`${board}${path}`, options)).status;
  for (const path of ["/", "/board/state", "/board/events"]) assert.equal(await status(path, { method: "POST" }), 405, path);
  assert.equal(await status("/v1/ingest"), 405);
  assert.equal(await status("/v1/ingest", { method: "POST", body: "{}" }), 401);
  const page = await fetch(`${board}/`);
  assert.match(page.headers.get("content-security-policy"), /^default-src 'none'; script-src 'nonce-[0-9a-f]{32}'/);
  await page.text();
}
