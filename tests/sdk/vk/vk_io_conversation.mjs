// vk-io against the sandbox: uploads, several photos in a post, edits, the long poll, a press, and refusals as its errors.
import assert from 'node:assert/strict';
import { APIError, APIErrorCode, Keyboard, UploadError, VK, resolveResource } from 'vk-io';

const ORIGIN = process.env.SANDBOX;
const GROUP = 7003;
const USER = 9003;

async function control(path, body, method) {
  const answer = await fetch(ORIGIN + path, {
    method: method ?? (body ? 'POST' : 'GET'),
    headers: { 'content-type': 'application/json' },
    body: body && JSON.stringify(body),
  });
  const json = await answer.json();
  assert.equal(answer.status, 200, JSON.stringify(json));
  return json;
}
const account = (token, kind, fields) => control('/_/accounts', { platform: 'vk', token, kind, ...fields });
const fault = (kind, fields) => control('/_/faults', { platform: 'vk', kind, times: 1, ...fields });
const picture = async (name) => Buffer.from(await (await fetch(`${ORIGIN}/_/pictures/${name}.jpg`)).arrayBuffer());
const client = (token, options) =>
  new VK({ token, apiBaseUrl: `${ORIGIN}/vk/method`, apiMode: 'sequential', apiLimit: 50, agent: undefined, ...options });

await account('io-user', 'user', { id: USER });
await account('io-community', 'community', { id: GROUP, name: 'Приют', username: 'io_pets' });

// -- walls
const user = client('io-user');
assert.equal((await user.api.users.get({}))[0].id, USER);
assert.equal((await user.api.groups.getById({ group_ids: [GROUP] })).groups[0].name, 'Приют');
assert.equal((await user.api.utils.resolveScreenName({ screen_name: 'io_pets' })).object_id, GROUP);
const photos = [];
for (const name of ['x', 'y', 'z']) {
  photos.push(await user.upload.wallPhoto({ group_id: GROUP, source: { value: await picture(name), contentType: 'image/jpeg' } }));
}
assert.match(photos[0].largeSizeUrl, /\/vk\/cdn\/.*\?size=800x600/);
const post = { owner_id: -GROUP, from_group: 1, message: 'Ищут дом', attachments: photos.map(String).join(','), guid: 'io-1' };
const { post_id: first } = await user.api.wall.post(post);
assert.equal((await user.api.wall.post(post)).post_id, first);
const wall = await user.api.wall.get({ owner_id: -GROUP });
assert.equal(wall.count, 1);
assert.equal(wall.items[0].attachments.length, 3);
const bytes = Buffer.from(await (await fetch(wall.items[0].attachments[2].photo.orig_photo.url)).arrayBuffer());
assert.deepEqual(bytes, await picture('z'));
await user.api.wall.edit({ owner_id: -GROUP, post_id: first, message: 'Нашли дом', attachments: String(photos[0]) });
const { comment_id: comment } = await user.api.wall.createComment({ owner_id: -GROUP, post_id: first, message: 'Спасибо' });
assert.equal((await user.api.wall.getComments({ owner_id: -GROUP, post_id: first })).items[0].id, comment);
const shown = (await control('/_/chats?platform=vk')).vk.find((chat) => chat.id === -GROUP);
assert.deepEqual(shown.messages.map((message) => message.text), ['Нашли дом', 'Спасибо']);
assert.ok(shown.messages[0].edited_at && shown.messages[0].media.length === 1);
const found = await resolveResource({ api: user.api, resource: 'https://vk.com/io_pets' });
assert.deepEqual([found.type, found.id], ['group', GROUP]);

// -- many calls in one
const parallel = client('io-user', { apiMode: 'parallel', apiLimit: 20, apiExecuteCount: 10 });
const names = await Promise.all([1, 2, 3, 4, 5].map((id) => parallel.api.users.get({ user_ids: [id] })));
assert.deepEqual(names.map((answer) => answer[0].id), [1, 2, 3, 4, 5]);
assert.ok((await control('/_/ledger?platform=vk')).vk.some((row) => row.method === 'execute' && row.accepted));

// -- refusals
const refused = async (call, code) => {
  await assert.rejects(call, (error) => error instanceof APIError && error.code === code);
};
await fault('vk_error', { code: 9, method: 'wall.post' });
await refused(user.api.wall.post({ owner_id: -GROUP, message: 'флуд' }), APIErrorCode.FLOOD);
await fault('captcha', { method: 'wall.post' });
await refused(user.api.wall.post({ owner_id: -GROUP, message: 'капча' }), APIErrorCode.CAPTCHA);
await refused(client('io-community').api.wall.get({ owner_id: -GROUP }), APIErrorCode.GROUP_AUTH);
await fault('401', { method: 'users.get' });
await refused(user.api.users.get({}), APIErrorCode.AUTH);
await assert.rejects(
  user.upload.wallPhoto({ group_id: GROUP, source: { value: Buffer.from('not a picture'), contentType: 'image/jpeg' } }),
  (error) => error instanceof UploadError || error.code === APIErrorCode.PARAM,
);

// -- messages
const bot = client('io-community', { pollingGroupId: GROUP });
const steps = [];
const finished = new Promise((resolve, reject) => {
  bot.updates.on('message_new', async (context) => {
    try {
      if (context.isOutbox) return;
      steps.push(`message ${context.text}`);
      const keyboard = Keyboard.builder().inline().callbackButton({ label: 'Да', payload: { answer: 'yes' }, color: 'positive' });
      await context.sendPhotos([{ value: await picture('a') }, { value: await picture('b') }], { message: 'Две фотографии' });
      const sent = await context.send({ message: 'Это ваш кот?', keyboard });
      assert.ok(sent.id > 0 && sent.conversationMessageId > 0);
      await sent.editMessage({ message: 'Это ваш кот Филя?', keyboard });
      await context.reply('ответ');
      const press = { user_id: USER, peer_id: USER, payload: { answer: 'yes' }, conversation_message_id: sent.conversationMessageId };
      await control('/_/updates/vk', { type: 'message_event', object: press, account: String(GROUP) });
    } catch (error) {
      reject(error);
    }
  });
  bot.updates.on('message_event', async (context) => {
    try {
      steps.push(`press ${context.eventPayload.answer}`);
      await context.answer({ type: 'show_snackbar', text: 'Принято' });
      await bot.api.messages.send({ peer_id: USER, random_id: 5, message: 'до встречи' });
      resolve();
    } catch (error) {
      reject(error);
    }
  });
});
await bot.updates.startPolling();
await control('/_/updates/vk', { chat: USER, from: USER, text: 'Здравствуйте', account: String(GROUP) });
await finished;
await bot.updates.stop();
assert.deepEqual(steps, ['message Здравствуйте', 'press yes']);
const dialog = (await control('/_/chats?platform=vk')).vk.find((chat) => chat.id === USER);
assert.deepEqual(
  dialog.messages.map((message) => message.text),
  ['Здравствуйте', 'Две фотографии', 'Это ваш кот Филя?', 'ответ', 'до встречи'],
);
assert.equal(dialog.messages[1].media.length, 2);
const history = await bot.api.messages.getHistory({ peer_id: USER });
assert.equal(history.count, 5);
console.log('vk-io: ok');
process.exit(0);
