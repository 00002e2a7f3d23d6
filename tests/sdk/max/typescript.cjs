// A conversation of the official TypeScript client with the sandbox.
// Its base URL may have a path, if it ends with a slash.
const assert = require('node:assert/strict');
const fs = require('node:fs');
const os = require('node:os');
const path = require('node:path');
const { Bot, Keyboard, MaxError } = require('@maxhub/max-bot-api');

const origin = process.env.SANDBOX;
const token = 'typescript-client-token';
const bot = new Bot(token, { clientOptions: { baseUrl: `${origin}/max/` } });

let calls = 0;
// The limit of 30 requests a second is on: a pause keeps the conversation below it.
const step = async (name, call) => {
  await new Promise((done) => setTimeout(done, 40));
  const result = await call();
  calls += 1;
  console.log(`ok ${calls} ${name}`);
  return result;
};

const control = async (method, where, body) => {
  const answer = await fetch(`${origin}/_/${where}`, { method, body: body && JSON.stringify(body) });
  assert.equal(answer.status, 200, await answer.clone().text());
  return answer.json();
};

const picture = async (name) => Buffer.from(await (await fetch(`${origin}/_/pictures/${name}.jpg`)).arrayBuffer());

const group = (n) => -70000000000000 - n;

async function main() {
  const api = bot.api;
  const me = await step('getMyInfo', () => api.getMyInfo());
  assert.equal(me.is_bot, true);
  await step('setMyCommands', () => api.setMyCommands([{ name: 'start', description: 'Начать' }]));

  const keyboard = Keyboard.inlineKeyboard([
    [Keyboard.button.callback('Это мой', 'mine'), Keyboard.button.link('Сайт', 'https://max.ru')],
    [Keyboard.button.requestContact('Телефон'), Keyboard.button.requestGeoLocation('Место')],
  ]);
  const post = await step('sendMessageToChat', () => api.sendMessageToChat(group(1), '<b>Пропал</b> пёс & кот', {
    format: 'html', attachments: [keyboard],
  }));
  assert.equal(post.body.text, 'Пропал пёс & кот');
  assert.deepEqual(post.body.markup, [{ type: 'strong', from: 0, length: 6 }]);
  assert.equal(post.body.attachments[0].payload.buttons[0].length, 2);
  assert.equal(post.recipient.chat_type, 'chat');

  const first = await step('uploadImage (buffer)', async () => api.uploadImage({ source: await picture('rex') }));
  const file = path.join(os.tmpdir(), `rupor-sdk-${process.pid}.jpg`);
  fs.writeFileSync(file, await picture('murka'));
  const second = await step('uploadImage (disk)', () => api.uploadImage({ source: file }));
  const third = await step('uploadImage (url)', () => api.uploadImage({ url: `${origin}/_/pictures/sharik.jpg` }));
  const album = await step('album of three', () => api.sendMessageToChat(group(2), 'Три фото', {
    attachments: [first.toJson(), second.toJson(), third.toJson()],
  }));
  assert.deepEqual(album.body.attachments.map((item) => item.type), ['image', 'image', 'image']);
  assert.ok(album.body.attachments.every((item) => item.payload.photo_id && item.payload.token && item.payload.url));
  const bytes = await fetch(album.body.attachments[0].payload.url);
  assert.equal(bytes.headers.get('content-type'), 'image/jpeg');

  // 200 kB go up in pieces of 64 KiB: the token was given first, the bytes come from disk.
  const clip = path.join(os.tmpdir(), `rupor-sdk-${process.pid}.mp4`);
  fs.writeFileSync(clip, Buffer.concat([Buffer.from([0, 0, 0, 24]), Buffer.from('ftypmp42'), Buffer.alloc(200_000, 7)]));
  const video = await step('uploadVideo (ranges)', () => api.uploadVideo({ source: clip }));
  // The client tries again by itself while the upload is not ready.
  await control('POST', 'faults', { platform: 'max', method: 'POST /messages', kind: 'attachment_not_ready', times: 1 });
  const film = await step('video, not ready at first', () => api.sendMessageToChat(group(3), 'Видео', {
    attachments: [video.toJson()],
  }));
  assert.equal(film.body.attachments[0].type, 'video');
  const audio = await step('uploadAudio (buffer)', () => api.uploadAudio({ source: Buffer.from('ID3 sound') }));
  await step('audio', () => api.sendMessageToChat(group(4), 'Звук', { attachments: [audio.toJson()] }));
  const document = await step('uploadFile', () => api.uploadFile({ source: Buffer.from('%PDF-1.4 leaflet') }));
  const leaflet = await step('file', () => api.sendMessageToChat(group(5), 'Листовка', {
    attachments: [document.toJson()],
  }));
  assert.equal(leaflet.body.attachments[0].size, 16);

  await step('editMessage', () => api.editMessage(post.body.mid, { text: '**Найден**', format: 'markdown' }));
  const edited = await step('getMessage', () => api.getMessage(post.body.mid));
  assert.equal(edited.body.text, 'Найден');
  assert.equal(edited.body.attachments[0].type, 'inline_keyboard');
  const list = await step('getMessages', () => api.getMessages(group(2), { count: 5 }));
  assert.equal(list.messages[0].body.mid, album.body.mid);
  const reply = await step('reply', () => api.sendMessageToChat(group(2), 'Спасибо', {
    link: { type: 'reply', mid: album.body.mid },
  }));
  assert.equal(reply.link.message.text, 'Три фото');

  await step('pinMessage', () => api.pinMessage(group(2), album.body.mid));
  const pinned = await step('getPinnedMessage', () => api.getPinnedMessage(group(2)));
  assert.equal(pinned.message.body.mid, album.body.mid);
  await step('unpinMessage', () => api.unpinMessage(group(2)));
  const chat = await step('getChat', () => api.getChat(group(2)));
  assert.equal(chat.type, 'chat');
  const membership = await step('getChatMembership', () => api.getChatMembership(group(2)));
  assert.ok(membership.permissions.includes('write'));
  const members = await step('getChatMembers', () => api.getChatMembers(group(2), { count: 10 }));
  assert.ok(members.members.some((member) => member.user_id === me.user_id));
  await step('getChatAdmins', () => api.getChatAdmins(group(2)));
  await step('editChatInfo', () => api.editChatInfo(group(2), { title: 'Поиск питомцев' }));
  await step('sendAction', () => api.sendAction(group(2), 'typing_on'));
  await step('deleteMessage', () => api.deleteMessage(reply.body.mid));
  await step('getAllChats', () => api.getAllChats());

  // Long polling, a message of a user, a pressed button and the answer to it.
  const user = 500100;
  const heard = {};
  const done = new Promise((resolve, reject) => {
    bot.on('bot_started', (ctx) => ctx.reply('Здравствуйте!'));
    bot.on('message_created', async (ctx) => {
      try {
        heard.text = ctx.message.body.text;
        const question = await ctx.reply('Это ваш пёс?', { attachments: [keyboard] });
        const press = question.body.attachments[0].payload.buttons[0][0];
        await control('POST', 'updates/max', {
          account: token, update_type: 'message_callback',
          callback: { payload: press.payload, user: { user_id: user } },
          message: { body: { mid: question.body.mid } },
        });
      } catch (error) { reject(error); }
    });
    bot.action('mine', async (ctx) => {
      try {
        heard.payload = ctx.callback.payload;
        await ctx.answerOnCallback({ message: { text: 'Ура, нашёлся!', attachments: [] } });
        resolve(ctx.message.body.mid);
      } catch (error) { reject(error); }
    });
    bot.catch((error) => reject(error));
  });
  void bot.start();
  await control('POST', 'updates/max', { account: token, chat: me.user_id ^ user, from: { user_id: user, name: 'Анна' }, text: 'Видели пса?' });
  const answered = await step('long polling, callback, answer', () => done);
  assert.deepEqual(heard, { text: 'Видели пса?', payload: 'mine' });
  bot.stopPolling();
  const after = await step('getMessage after the answer', () => api.getMessage(answered));
  assert.equal(after.body.text, 'Ура, нашёлся!');
  assert.equal(after.body.attachments, undefined);

  // The third message within a second to one chat. What was asked before must not count into the limit of 30.
  await new Promise((pause) => setTimeout(pause, 1100));
  const flood = await Promise.allSettled([1, 2, 3].map((n) => api.sendMessageToChat(group(6), `${n}`)));
  const refused = flood.filter((result) => result.status === 'rejected').map((result) => result.reason);
  assert.equal(refused.length, 1);
  assert.ok(refused[0] instanceof MaxError);
  assert.deepEqual([refused[0].status, refused[0].code], [429, 'too.many.requests']);
  calls += 3;
  console.log(`ok ${calls} flood is a MaxError 429`);

  const stranger = new Bot('Bearer x', { clientOptions: { baseUrl: `${origin}/max/` } });
  await assert.rejects(stranger.api.getMyInfo(), (error) => error instanceof MaxError && error.status === 401);
  await assert.rejects(api.getMessage('mid.0'), (error) => error instanceof MaxError && error.code === 'not.found');

  const ledger = await control('GET', 'ledger?platform=max');
  const posted = ledger.max.filter((row) => row.method === 'POST /messages' && row.accepted);
  assert.ok(posted.some((row) => row.media.length === 3 && row.chat === group(2) && row.visible_id === album.body.mid));
  for (const made of [file, clip]) fs.unlinkSync(made);
  assert.ok(calls >= 15);
  console.log(`typescript: ${calls} calls`);
}

main().then(() => process.exit(0), (error) => { console.error(error); process.exit(1); });
