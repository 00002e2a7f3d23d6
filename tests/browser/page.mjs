// Starts `rupor sandbox`, says things through the three APIs, and looks at the page as a reader would.

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { openBrowser } from "./devtools.mjs";
import { call, originOf, takeScreenshot, watchTroubles } from "./stage.mjs";

const CHANNEL = -1000000000042;
const TOKEN = "1:token";
const MAX_CHAT = -70000000000042;
const pane = (platform) => `document.querySelector("[data-platform=${platform}]")`;
const TELEGRAM = pane("telegram");
const screenshots = process.argv[2];
const screenshot = (name) => takeScreenshot(browser, screenshots, name);

const sandbox = spawn(process.env.RUPOR_BIN, ["sandbox", "--listen", "127.0.0.1:0", "--any-token"], { stdio: ["ignore", "pipe", "inherit"] });
let browser;
try {
  const origin = await originOf(sandbox.stdout);
  await fill(origin);
  browser = await openBrowser(process.env.CHROMIUM);
  const troubles = watchTroubles(browser);
  for (const [width, height] of [[1280, 860], [375, 812]]) await look(origin, width, height);
  await live(origin);
  if (await speaks(origin, "vk")) await wall(origin);
  if (await speaks(origin, "max")) await dialogue(origin);
  assert.deepEqual(troubles, [], "the console is quiet");
  console.log("browser test: ok");
} finally {
  sandbox.kill("SIGTERM");
  if (browser) await browser.close();
}

function telegram(origin, method, body) {
  return call(`${origin}/telegram/bot${TOKEN}/${method}`, body);
}

async function fill(origin) {
  await call(`${origin}/_/chats`, { platform: "telegram", id: CHANNEL, type: "channel", title: "Пропавшие питомцы", username: "lost_pets" });
  const text = "🔎 <b>Пропал питомец</b>\n\nРыжий кот <i>Персик</i>, район вокзала. Вознаграждение!\n" +
    "<blockquote>Не пугайте, он домашний</blockquote>\n☎️ +7 900 000-00-01\n<a href=\"https://vk.com/wall-1_2\">источник</a> #потерян";
  const reply_markup = { inline_keyboard: [[{ text: "Видел", callback_data: "seen" }, { text: "Карта", url: "https://example.com/map" }]] };
  const photo = (name) => `${origin}/_/pictures/${name}.jpg`;
  await telegram(origin, "sendPhoto", { chat_id: CHANNEL, photo: photo("persik"), caption: text, parse_mode: "HTML" });
  const media = ["rex", "rex-2", "rex-3"].map((name, i) => ({ type: "photo", media: photo(name), caption: i ? undefined : "✅ <b>Найден питомец</b>: три снимка", parse_mode: "HTML" }));
  await telegram(origin, "sendMediaGroup", { chat_id: CHANNEL, media });
  const { result } = await telegram(origin, "sendMessage", { chat_id: CHANNEL, text: "Ищем хозяина" });
  await telegram(origin, "editMessageText", { chat_id: CHANNEL, message_id: result.message_id, text: "🎉 Питомец дома. Спасибо всем!", reply_markup });
  await telegram(origin, "pinChatMessage", { chat_id: CHANNEL, message_id: result.message_id });
  if (await speaks(origin, "max")) {
    const keyboard = { type: "inline_keyboard", payload: { buttons: [[{ type: "callback", text: "Помогу", payload: "help" }]] } };
    const image = { type: "image", payload: { url: photo("tom") } };
    await max(origin, "POST", `/messages?chat_id=${MAX_CHAT}`, { text: "🏠 **Ищет дом**: кот Том", format: "markdown", attachments: [image, keyboard] });
  }
}

/** Platforms that the sandbox does not speak yet are left out, and that is said aloud. */
async function speaks(origin, platform) {
  const silent = (await fetch(`${origin}/${platform}/`)).status === 501;
  if (silent) console.log(`browser test: ${platform} is not spoken yet, left out`);
  return !silent;
}

async function max(origin, method, path, body) {
  const headers = { authorization: "max-token", "content-type": "application/json" };
  const answer = await fetch(`${origin}/max${path}`, { method, headers, body: body && JSON.stringify(body) });
  const result = await answer.json();
  assert.ok(answer.ok, `${path}: ${JSON.stringify(result)}`);
  return result;
}

async function look(origin, width, height) {
  await browser.send("Emulation.setDeviceMetricsOverride", { width, height, deviceScaleFactor: 1, mobile: width < 600 });
  await browser.send("Page.navigate", { url: `${origin}/` });
  await browser.until(`document.body && document.body.dataset.ready === "yes"`, "the page is ready");
  // On a phone one platform is shown at a time.
  await browser.evaluate(`document.querySelector("#tabs button").click()`);
  await browser.evaluate(`document.querySelectorAll("img").forEach((image) => { image.loading = "eager"; })`);
  await browser.until(`[...${TELEGRAM}.querySelectorAll(".album img")].length === 4 && [...${TELEGRAM}.querySelectorAll("img")].every((image) => image.complete && image.naturalWidth > 0)`, "all pictures are loaded");
  const seen = await browser.evaluate(`(() => {
    const pane = ${TELEGRAM};
    const album = pane.querySelector(".album:not(.one)");
    return {
      title: pane.querySelector(".about").textContent,
      bold: [...pane.querySelectorAll(".text b")].map((node) => node.textContent),
      italic: [...pane.querySelectorAll(".text i")].map((node) => node.textContent),
      quote: pane.querySelector(".quote").textContent,
      link: pane.querySelector(".text a[href='https://vk.com/wall-1_2']")?.textContent,
      album: album.querySelectorAll("img").length,
      edited: pane.querySelector(".edited")?.closest(".message").querySelector(".text").textContent,
      pinned: pane.querySelector("[data-id] .foot").parentElement.parentElement.textContent.includes("pinned"),
      buttons: [...pane.querySelectorAll(".buttons button, .buttons a")].map((node) => node.textContent),
      clipped: [...pane.querySelectorAll(".message")].filter((node) => node.scrollHeight > node.clientHeight + 1).length,
      visible: pane.getBoundingClientRect().width,
      sideways: document.documentElement.scrollWidth - innerWidth,
      foreign: performance.getEntriesByType("resource").map((entry) => entry.name).filter((name) => !name.startsWith(location.origin)),
    };
  })()`);
  assert.match(seen.title, /Пропавшие питомцы.*channel -1000000000042.*@lost_pets/);
  assert.deepEqual(seen.bold, ["Пропал питомец", "Найден питомец"]);
  assert.deepEqual(seen.italic, ["Персик"]);
  assert.equal(seen.quote, "Не пугайте, он домашний");
  assert.equal(seen.link, "источник");
  assert.equal(seen.album, 3);
  assert.equal(seen.edited, "🎉 Питомец дома. Спасибо всем!");
  assert.equal(seen.pinned, true);
  assert.deepEqual(seen.buttons, ["Видел", "Карта"]);
  assert.equal(seen.clipped, 0, `every message is shown whole at ${width} px`);
  assert.ok(seen.visible > 300, `the Telegram column is ${seen.visible} px wide at ${width} px`);
  assert.ok(seen.sideways <= 0, `the page scrolls sideways by ${seen.sideways} px at ${width} px`);
  assert.deepEqual(seen.foreign, [], "nothing is loaded from elsewhere");
  await screenshot(`page-${width}`);
}

/** Things that happen while somebody looks. */
async function live(origin) {
  await telegram(origin, "sendMessage", { chat_id: CHANNEL, text: "Только что" });
  await browser.until(`${TELEGRAM}.querySelector(".messages").textContent.includes("Только что")`, "a new message appears by itself");
  await telegram(origin, "deleteMessage", { chat_id: CHANNEL, message_id: 6 });
  await browser.until(`!${TELEGRAM}.querySelector(".messages").textContent.includes("Только что")`, "a deleted message vanishes by itself");
  await browser.evaluate(`${TELEGRAM}.querySelector(".buttons button").click()`);
  const [press] = await updates(origin);
  assert.equal(press.callback_query.data, "seen");
  await telegram(origin, "answerCallbackQuery", { callback_query_id: press.callback_query.id, text: "Спасибо, передадим!" });
  await browser.until(`document.getElementById("toast").textContent === "Спасибо, передадим!"`, "the answer to a pressed button pops up");
  await telegram(origin, "sendMessage", { chat_id: 77, text: "Чем помочь?" });
  await browser.until(`[...${TELEGRAM}.querySelectorAll(".chats button")].some((node) => node.textContent === "User 77")`, "a new chat is listed");
  await browser.evaluate(`[...${TELEGRAM}.querySelectorAll(".chats button")].find((node) => node.textContent === "User 77").click()`);
  await browser.evaluate(`(() => { const form = ${TELEGRAM}.querySelector("form.write"); form.querySelector(".what").value = "Где мой кот?"; form.requestSubmit(); })()`);
  const message = (await updates(origin, press.update_id + 1))[0].message;
  assert.deepEqual([message.chat.id, message.text], [77, "Где мой кот?"]);
  await browser.until(`${TELEGRAM}.querySelector(".message.user .text")?.textContent === "Где мой кот?"`, "the user's message is shown");
}

/** The form puts a post with pictures on a VK wall; readers of the API find it there. */
async function wall(origin) {
  const text = "Пропала собака, рыжая, в ошейнике. Тел. +7 900 000-00-02";
  await browser.evaluate(`(() => {
    const form = ${pane("vk")}.querySelector("form.wall");
    const [owner, pictures] = form.querySelectorAll("input");
    owner.value = "-1"; pictures.value = "rex, rex~"; form.querySelector("textarea").value = ${JSON.stringify(text)};
    form.requestSubmit();
  })()`);
  await browser.until(`${pane("vk")}.querySelectorAll(".album img").length === 2 && ${pane("vk")}.querySelector(".text").textContent === ${JSON.stringify(text)}`, "the post is on the wall with both pictures");
  const answer = await (await fetch(`${origin}/vk/method/wall.get?owner_id=-1&v=5.199&access_token=vk-token`)).json();
  assert.equal(answer.response.items[0].text, text);
  assert.equal(answer.response.items[0].attachments.length, 2);
}

/** A button in a MAX chat is pressed and reaches the bot. */
async function dialogue(origin) {
  await browser.until(`${pane("max")}.querySelector(".text b")?.textContent === "Ищет дом"`, "the MAX message is shown with its formatting");
  await browser.evaluate(`${pane("max")}.querySelector(".buttons button").click()`);
  const { updates: [update] } = await max(origin, "GET", "/updates?timeout=20");
  assert.equal(update.update_type, "message_callback");
  assert.equal(update.callback.payload, "help");
  await max(origin, "POST", `/answers?callback_id=${encodeURIComponent(update.callback.callback_id)}`, { notification: "Ждём вас!" });
  await browser.send("Emulation.setDeviceMetricsOverride", { width: 1280, height: 860, deviceScaleFactor: 1, mobile: false });
  await screenshot("page-all");
}

async function updates(origin, offset = 0) {
  const { result } = await telegram(origin, "getUpdates", { offset, timeout: 20 });
  assert.ok(result.length > 0, "an update comes");
  return result;
}
