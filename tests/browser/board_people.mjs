// Campaigns and bots on the board: a node sends to people and answers them, and the pages about it are opened, clicked through and
// followed while things happen.

import assert from "node:assert/strict";
import { writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { openBrowser } from "./devtools.mjs";
import { begin, command, end, folder, node, page, sandbox } from "./board_stage.mjs";
import { call, takeScreenshot, watchTroubles } from "./stage.mjs";

const CONFIG = `
[accounts.shop]
platform = "telegram"
token = { env = "TOKEN" }
[accounts.news]
platform = "telegram"
token = { env = "TOKEN_OUT" }
[channels.support]
account = "shop"
target = -1001000000042
[bots.shop]
accounts = ["shop"]
rules = "${resolve("examples/shop/shop.toml")}"
receive = "poll"
`;
const PEOPLE = 40;
const screenshots = process.argv[2];
let browser;
const text = (selector) => `(document.querySelector(${JSON.stringify(selector)})?.textContent || "")`;
const click = (selector) => browser.evaluate(`document.querySelector(${JSON.stringify(selector)}).click()`);
const until = (expression, what) => browser.until(expression, what);
const main = () => browser.evaluate(text("#main"));

begin();
try {
  const origin = await sandbox();
  const { board } = await node(origin, CONFIG);
  browser = await openBrowser(process.env.CHROMIUM);
  const troubles = watchTroubles(browser);
  await campaign(origin, board);
  await bot(origin, board);
  for (const [width, height, scheme, lang] of [[375, 812, "dark", "ru"], [375, 812, "light", "en"], [1280, 900, "dark", "en"], [1280, 900, "light", "ru"]]) await looks(board, width, height, scheme, lang);
  await both(origin, board);
  assert.deepEqual(troubles, [], "the console is quiet");
  // The console names what is not there.
  await page(browser, board, { width: 1280, height: 900, scheme: "light", lang: "en", hash: "#/campaign/999" });
  await until(`${text(".quiet")}.includes("no such thing")`, "a campaign that is not there is said to be not there");
  console.log("board test: campaigns and bots: ok");
} finally {
  await end(browser);
}

/** From the overview to a campaign, which is followed while it runs, rests and ends. */
async function campaign(origin, board) {
  const rows = Array.from({ length: PEOPLE }, (_, n) => `${700101 + n};Анна ${n}`);
  writeFileSync(join(folder, "people.csv"), `address;name\n${rows.join("\n")}\n`);
  command(origin, ["audience", "import", "people.csv", "--account", "news"]);
  command(origin, ["audience", "suppress", "700101", "--account", "news"]);
  command(origin, ["campaign", "new", "осень в приюте", "--account", "news", "--audience", "people", "--rate", "2", "--text", "Здравствуйте, {{ r.name }}!"]);
  await page(browser, board, { width: 1280, height: 900, scheme: "light", lang: "en" });
  command(origin, ["campaign", "start", "осень в приюте", "--yes"]);
  await until(`${text("#tabs")}.includes("Campaigns") && ${text("#tabs")}.includes("Bots")`, "what is new gets a tab by itself");
  await until(`["running", "finishing"].includes(${text("[data-campaign] .chip")})`, "the overview shows that it runs");
  await click("[data-campaign] a");
  await until(`document.body.dataset.page === "campaign" && document.querySelector("svg.picture")`, "the campaign with its picture");
  const seen = await main();
  for (const part of ["осень в приюте", `of ${PEOPLE - 1} have it`, "Who does not get it, and why", "asked not to be written to", "Sent by news", "rupor campaign status 'осень в приюте'"]) assert.ok(seen.includes(part), `${part} in ${seen}`);
  const had = Number(await browser.evaluate(`document.querySelector("[role=progressbar]").getAttribute("aria-valuenow")`));
  await until(`Number(document.querySelector("[role=progressbar]").getAttribute("aria-valuenow")) > ${had}`, "the bar moves by itself");
  await takeScreenshot(browser, screenshots, "board-campaign");
  command(origin, ["campaign", "pause", "осень в приюте"]);
  await until(`${text("[data-campaign] .chip")} === "paused"`, "a pause is shown by itself");
  command(origin, ["campaign", "resume", "осень в приюте"]);
  await until(`${text("[data-campaign] .chip")} !== "paused"`, "and its end");
  await click(".crumbs a");
  await until(`document.body.dataset.page === "campaigns" && document.querySelectorAll("[data-campaign]").length === 1`, "the list of campaigns");
  await until(`${text("[data-campaign] .chip")} === "finished"`, "the end of it");
  assert.match(await browser.evaluate(text("[data-campaign]")), new RegExp(`${PEOPLE - 1} of ${PEOPLE - 1} have it`));
}

/** The bots: what was answered, who waits for a human. */
async function bot(origin, board) {
  await page(browser, board, { width: 1280, height: 900, scheme: "light", lang: "en", hash: "#/bots" });
  await until(`document.querySelectorAll("article[data-item]").length === 1`, "the bot");
  assert.match(await main(), /shop.*rules, version 1.*shop · polls/s);
  const write = (words) => call(`${origin}/_/updates/telegram`, { chat: 71, from: 71, account: "42:token", text: words });
  await write("сколько стоит доставка?");
  const figure = (n) => `Number(document.querySelectorAll(".figure b")[${n}].textContent)`;
  await until(`${figure(1)} >= 1`, "a message is counted by itself");
  await until(`${text("article[data-item]")}.includes("heard")`, "the account was heard");
  await write("позовите человека, пожалуйста");
  await until(`${figure(0)} === 1 && ${text("#main")}.includes("chat of the operators")`, "who waits for a human, and where");
  await until(`${text("#tabs .n")} === "1"`, "the tab says so on every page");
  await takeScreenshot(browser, screenshots, "board-bots");
}

/** The pages about people at the sizes, in the schemes and languages that people use. */
async function looks(board, width, height, scheme, lang) {
  for (const [name, hash] of [["campaigns", "#/campaigns"], ["campaign", "#/campaign/1"], ["bots", "#/bots"]]) {
    await page(browser, board, { width, height, scheme, lang, hash });
    await until(`document.querySelector("#main .card") && !${text("#main")}.includes(${JSON.stringify(lang === "ru" ? "Минутку" : "One moment")})`, `${name} is drawn`);
    const seen = await browser.evaluate(`({ sideways: document.documentElement.scrollWidth - innerWidth, unnamed: [...document.querySelectorAll("a, button")].filter((node) => !(node.textContent.trim() || node.getAttribute("aria-label"))).length, heading: document.querySelectorAll("h1").length })`);
    assert.deepEqual(seen, { sideways: Math.min(0, seen.sideways), unnamed: 0, heading: 1 }, `${name} ${width} ${lang}`);
    await takeScreenshot(browser, screenshots, `board-${name}-${width}-${scheme}-${lang}`);
  }
}

/** Back and forth with the keyboard, and in the other language. */
async function both(origin, board) {
  await page(browser, board, { width: 1280, height: 900, scheme: "light", lang: "en", hash: "#/campaigns" });
  await until(`document.querySelectorAll("[data-campaign]").length === 1`, "the list");
  for (const type of ["keyDown", "keyUp"]) await browser.send("Input.dispatchKeyEvent", { type, key: "j", text: type === "keyDown" ? "j" : undefined });
  assert.ok(await browser.evaluate(`document.activeElement.closest("[data-campaign]") !== null`), "j goes to the campaign");
  await click("#language");
  await until(`${text("[data-campaign] .chip")} === "завершена" && ${text("#tabs")}.includes("Рассылки")`, "in Russian");
  await browser.evaluate(`localStorage.clear()`);
}
