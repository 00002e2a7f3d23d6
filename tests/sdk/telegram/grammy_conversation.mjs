// grammY against the sandbox: long polling, uploads, albums, edits, a pressed button and a typed flood error.

import assert from "node:assert/strict";
import { Bot, GrammyError, InlineKeyboard, InputFile, InputMediaBuilder } from "grammy";

const origin = process.env.SANDBOX;
const token = "4343:grammy-token";
const channel = -1000000000888, user = 66;
const bot = new Bot(token, { client: { apiRoot: `${origin}/telegram` } });
const { api } = bot;

async function control(path, body) {
  const answer = await fetch(origin + path, body && { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(body) });
  const result = await answer.json();
  assert.ok(answer.ok, JSON.stringify(result));
  return result;
}

const picture = async (name) => new InputFile(Buffer.from(await (await fetch(`${origin}/_/pictures/${name}.jpg`)).arrayBuffer()), `${name}.jpg`);

const me = await api.getMe();
assert.equal(me.id, 4343);
await api.setMyCommands([{ command: "start", description: "Начать" }]);
const keyboard = new InlineKeyboard().text("Видел", "seen").url("Карта", "https://example.com/map");
const question = await api.sendMessage(user, "*Пропал* кот \\#потерян", { parse_mode: "MarkdownV2", reply_markup: keyboard });
assert.deepEqual(question.entities.map((entity) => entity.type), ["bold", "hashtag"]);
const photo = await api.sendPhoto(channel, await picture("rex"), { caption: "Рекс" });
assert.equal(photo.photo.at(-1).height, 600);
const album = await api.sendMediaGroup(channel, [InputMediaBuilder.photo(await picture("a"), { caption: "двое" }), InputMediaBuilder.photo(await picture("b"))]);
assert.equal(album[0].media_group_id, album[1].media_group_id);
const video = await api.sendVideo(channel, new InputFile(Buffer.from("\0\0\0\x18ftypmp42rest", "latin1"), "v.mp4"), { duration: 3, width: 64, height: 48 });
assert.deepEqual([video.video.duration, video.video.mime_type], [3, "video/mp4"]);
const sent = await api.sendDocument(user, new InputFile(Buffer.from("report"), "отчёт.txt"));
assert.equal(sent.document.file_name, "отчёт.txt");
await api.sendChatAction(user, "typing");
const edited = await api.editMessageText(user, question.message_id, "дома", { reply_markup: keyboard });
assert.equal(edited.text, "дома");
await api.editMessageCaption(channel, photo.message_id, { caption: "новая" });
await api.editMessageMedia(channel, photo.message_id, InputMediaBuilder.photo(await picture("c")));
const file = await api.getFile(sent.document.file_id);
assert.equal(await (await fetch(`${origin}/telegram/file/bot${token}/${file.file_path}`)).text(), "report");
assert.ok((await api.copyMessage(user, channel, photo.message_id)).message_id);
await api.pinChatMessage(channel, photo.message_id);
await api.deleteMessages(channel, album.map((message) => message.message_id));
assert.equal((await api.getChat(channel)).type, "channel");
assert.equal((await api.getChatMember(channel, me.id)).status, "administrator");

await control("/_/faults", { platform: "telegram", account: "4343", kind: "429", retry_after: 9, times: 1 });
await assert.rejects(api.sendMessage(user, "быстро"), (error) => error instanceof GrammyError && error.error_code === 429 && error.parameters.retry_after === 9);
await assert.rejects(api.sendMessage("@nobody_here", "?"), (error) => error instanceof GrammyError && error.description === "Bad Request: chat not found");

const seen = [];
bot.command("start", async (ctx) => { seen.push(ctx.msg.text); await ctx.reply("слышу"); });
const pressed = new Promise((resolve) => {
  bot.callbackQuery("seen", async (ctx) => { seen.push(ctx.callbackQuery.data); await ctx.answerCallbackQuery("спасибо"); resolve(); });
});
bot.start();
await control("/_/updates/telegram", { account: token, chat: user, from: "Аня", text: "/start" });
await control("/_/updates/telegram", { account: token, callback_query: { data: "seen", message: { message_id: question.message_id, chat: { id: user } } } });
await pressed;
await bot.stop();
assert.deepEqual(seen, ["/start", "seen"]);

const rows = (await control("/_/ledger")).telegram.filter((row) => row.account === token.split(":")[0]);
const methods = new Set(rows.filter((row) => row.accepted).map((row) => row.method));
assert.ok(methods.size >= 15, [...methods].join(" "));
console.log(`grammY: ${rows.length} calls, ${methods.size} methods`);
