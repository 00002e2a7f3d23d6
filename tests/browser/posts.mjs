// Takes the pictures of docs/posts.md: posts of every kind on a wall, read and published by a real node, as the readers of the
// three platforms see them, and one of them after its story has ended.
// Usage: node tests/browser/posts.mjs BINARY FOLDER

import { spawn } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { openBrowser } from "./devtools.mjs";
import { call, originOf } from "./stage.mjs";

const [binary, folder] = process.argv.slice(2);
if (!folder) throw new Error("usage: posts.mjs BINARY FOLDER");
const WALL = -300000001;
const CHATS = { telegram: -1001000000042, vk: -500000001, max: -70000000000001 };

// Every name, number and place is invented.
const POSTS = [
  ["lost", "Вчера вечером с Осеннего бульвара убежала собака Буся! Рыжая, пушистая, в синем ошейнике, очень боится машин.\nПермь, на Осеннем бульваре, у школы.\nЕсли увидите, звоните: 8 (900) 000-11-22, Анна"],
  ["found", "Найден кот! Чёрный с белой грудкой, ручной, без ошейника. Сидит у нас в подъезде, ищем хозяина.\nПермь, улица Садовая, 5. Тел. +7 900 000-33-44"],
  ["sighting", "Сегодня утром видели собаку у остановки «Парковая»: белая, с чёрным ухом, бегает одна, людей боится, в руки не даётся. Может, кто-то ищет? Пермь"],
  ["adoption", "Котята ищут дом! Два мальчика и девочка, 2 месяца, едят сами, к лотку приучены. Пермь, отдаём в добрые руки. 89000005566"],
  ["fundraising", "Сбор на лечение! Пёс Рекс попал под машину, нужна операция на лапе. Помогите, пожалуйста, любой суммой, отчёты в комментариях. Пермь, 8 900 000-77-88"],
];
const HOME = "Ура! Собака Буся дома! Рыжая беглянка нашлась сегодня у школы на Осеннем бульваре. Спасибо всем, кто искал и звонил! 8 (900) 000-11-22, Анна";

const scratch = mkdtempSync(join(tmpdir(), "rupor-posts-"));
const children = [];
let browser;
try {
  const sandbox = start(["sandbox", "--listen", "127.0.0.1:0", "--any-token", "--seed", "7"]);
  const origin = await originOf(sandbox.stdout);
  const photos = { lost: ["busya-1", "busya-2"], found: ["kot"], sighting: ["seen"], adoption: ["kitten-1", "kitten-2", "kitten-3"], fundraising: [] };
  const now = Math.floor(Date.now() / 1000);
  const route = `route = { any = [${POSTS.map(([kind]) => `"kind:${kind}"`).join(", ")}, "kind:reunited"] }`;
  const accounts = ["telegram", "vk", "max"].map((name) => `[accounts.${name}]\nplatform = "${name}"\ntoken = { env = "PRACTICE" }\napi_base = "${origin}/${name}"\n`);
  const channels = Object.entries(CHATS).map(([name, chat]) => `[channels.${name}]\naccount = "${name}"\ntarget = ${chat}\n${route}\n`);
  writeFileSync(join(scratch, "rupor.toml"), `${accounts.join("")}${channels.join("")}[sources.wall]\nkind = "vk"\naccount = "vk"\ngroups = [${WALL}]\ninterval = "2s"\n`);
  await put(origin, POSTS.map(([kind, text], n) => ({ id: n + 1, date: now - 600 + n * 60, text, photos: photos[kind] })));
  start(["run", "--config", "rupor.toml", "--poll-interval", "2s"]);
  browser = await openBrowser(process.env.CHROMIUM || "chromium");
  await shows(origin, (text) => text.includes("кот") || text.includes("КОТ"), POSTS.length);
  await picture(origin, "posts", 1440, 2080);
  await put(origin, [{ id: 90, date: now, text: HOME, photos: [] }]);
  await shows(origin, (text) => /дома! спасибо/i.test(text), POSTS.length + 1);
  await picture(origin, "posts-closed", 1440, 2330);
} finally {
  if (browser) await browser.close();
  for (const child of children) child.kill("SIGKILL");
  rmSync(scratch, { recursive: true, force: true });
}

function start(words) {
  const env = { ...process.env, PRACTICE: "77:practice-token", RUPOR_PLATFORM_LIMITS: "off" };
  const child = spawn(binary, words, { stdio: ["ignore", "pipe", "inherit"], cwd: scratch, env });
  children.push(child);
  child.stdout.resume();
  return child;
}

function put(origin, posts) {
  return call(`${origin}/_/walls/${WALL}`, posts);
}

/** Waits until every platform shows so many posts, one of which is as wanted. */
async function shows(origin, wanted, count) {
  for (let tries = 0; tries < 300; tries++) {
    const chats = await (await fetch(`${origin}/_/chats`)).json();
    const texts = Object.keys(CHATS).map((name) => JSON.stringify(chats[name] || chats));
    if (texts.every(wanted) && (await counts(origin)).every((n) => n >= count)) return;
    await new Promise((resolve) => setTimeout(resolve, 200));
  }
  throw new Error(`not published: ${await counts(origin)}`);
}

async function counts(origin) {
  const ledger = await (await fetch(`${origin}/_/ledger`)).json();
  return Object.keys(CHATS).map((name) => ledger[name].filter((row) => row.accepted && row.visible_id && row.text).length);
}

async function picture(origin, name, width, height) {
  await browser.send("Emulation.setDeviceMetricsOverride", { width, height, deviceScaleFactor: 0.72, mobile: false });
  await browser.send("Page.navigate", { url: `${origin}/` });
  await browser.until(`document.body && document.body.dataset.ready === "yes"`, "the page is ready");
  await browser.evaluate(`document.querySelectorAll("img").forEach((image) => { image.loading = "eager"; })`);
  await browser.until(`[...document.querySelectorAll(".album img")].every((image) => image.complete && image.naturalWidth > 0)`, "the pictures are there");
  // Low pictures: the page is about the words.
  await browser.evaluate(`document.querySelectorAll(".album img").forEach((image) => { Object.assign(image.style, { height: "110px", aspectRatio: "auto", objectFit: "cover" }); })`);
  await browser.evaluate(`document.querySelectorAll(".messages").forEach((list) => { list.scrollTop = 0; })`);
  const { data } = await browser.send("Page.captureScreenshot", { format: "jpeg", quality: 70 });
  writeFileSync(join(folder, `${name}.jpg`), Buffer.from(data, "base64"));
  console.log(`${name}.jpg: ${Math.round(data.length * 3 / 4 / 1000)} kB`);
}
