// gramio against the sandbox: it takes the second field of an update for its kind, so the order of fields matters.

import assert from "node:assert/strict";
import { Bot, InlineKeyboard, MediaInput, MediaUpload } from "gramio";

const origin = process.env.SANDBOX;
const TOKEN = "559:gramio";
const CHANNEL = -1000000000081;
const USER = 81;
let calls = 0;

async function control(path, body) {
  const answer = await fetch(`${origin}${path}`, { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(body) });
  assert.ok(answer.ok, await answer.text());
}

const bot = new Bot(TOKEN, { api: { baseURL: `${origin}/telegram/bot` } });
const call = (method, parameters) => { calls += 1; return bot.api[method](parameters); };

assert.equal((await call("getMe")).is_bot, true);
const message = await call("sendMessage", { chat_id: CHANNEL, text: "<b>Пропал</b> кот", parse_mode: "HTML" });
assert.equal(message.entities[0].type, "bold");
const picture = Buffer.from(await (await fetch(`${origin}/_/pictures/rex.jpg`)).arrayBuffer());
const photo = await call("sendPhoto", { chat_id: CHANNEL, photo: MediaUpload.buffer(picture, "rex.jpg"), caption: "Рекс" });
const media = [MediaInput.photo(MediaUpload.buffer(picture, "rex.jpg"), { caption: "двое" }), MediaInput.photo(photo.photo.at(-1).file_id)];
assert.equal((await call("sendMediaGroup", { chat_id: CHANNEL, media })).length, 2);
const file = await call("sendDocument", { chat_id: CHANNEL, document: MediaUpload.buffer(Buffer.from("%PDF-1.4"), "листовка.pdf") });
assert.equal(file.document.file_name, "листовка.pdf");
await call("editMessageText", { chat_id: CHANNEL, message_id: message.message_id, text: "Нашёлся" });
await call("deleteMessage", { chat_id: CHANNEL, message_id: photo.message_id });

const heard = [];
const both = new Promise((resolve) => {
  const hear = (words) => { if (heard.push(words) === 2) resolve(); };
  bot.on("message", async (context) => {
    await context.send("Видели?", { reply_markup: new InlineKeyboard().text("Да", "seen") });
    hear(context.text);
  });
  bot.on("channel_post", (context) => hear(context.text));
});
await bot.start();
await control("/_/updates/telegram", { account: TOKEN, chat: USER, from: USER, text: "ау" });
await control("/_/updates/telegram", { account: TOKEN, channel_post: { chat: { id: CHANNEL, type: "channel", title: "Питомцы" }, text: "пост" } });
await both;
assert.deepEqual(heard.sort(), ["ау", "пост"].sort());

await control("/_/faults", { platform: "telegram", method: "sendMessage", kind: "429", times: 1, retry_after: 9 });
await assert.rejects(call("sendMessage", { chat_id: USER, text: "x" }), (error) => error.code === 429 && error.payload.retry_after === 9);
console.log(`gramio: ${calls} calls and a conversation by long poll`);
process.exit(0);
