// Talks to the shop of `rupor demo` by hand on the sandbox's page, on all three platforms, as a newcomer would: writes,
// presses buttons, asks for a human and answers at the operators' desk. Takes the pictures of docs/bot.md.

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { createInterface } from "node:readline";
import { openBrowser } from "./devtools.mjs";
import { takeScreenshot, watchTroubles } from "./stage.mjs";

const screenshots = process.argv[2];
const demo = spawn(process.env.RUPOR_BIN, ["demo", "--listen", "127.0.0.1:0", "--sandbox", "127.0.0.1:0"], { stdio: ["ignore", "pipe", "inherit"] });
let browser;
try {
  const origin = await ready(demo.stdout);
  browser = await openBrowser(process.env.CHROMIUM);
  const troubles = watchTroubles(browser);
  await browser.send("Emulation.setDeviceMetricsOverride", { width: 1280, height: 860, deviceScaleFactor: 1, mobile: false });
  await browser.send("Page.navigate", { url: `${origin}/` });
  await browser.until(`document.body && document.body.dataset.ready === "yes"`, "the page is ready");
  for (const platform of ["telegram", "vk", "max"]) {
    await open(platform, "Ольга");
    await write(platform, "меню");
    await said(platform, "Чем помочь?");
    await press(platform, "Размеры");
    await said(platform, "Вещи идут в размер");
  }
  await picture("bot-dialogue");
  await handoff();
  await picture("bot-handoff");
  assert.deepEqual(troubles, [], "the console is quiet");
  console.log("browser test: the shop: ok");
} finally {
  demo.kill("SIGTERM");
  if (browser) await browser.close();
}

/** Until the demo says that one can write; then the address of the page. */
async function ready(stream) {
  return new Promise((resolve, reject) => {
    const said = [];
    const lines = createInterface({ input: stream });
    lines.on("line", (line) => {
      said.push(line);
      const found = line.match(/write to the shop yourself: (http:\/\/[^/]+)/);
      if (found) resolve(found[1]);
    });
    lines.on("close", () => reject(new Error(`the demo ended: ${said.slice(-10).join("\n")}`)));
  });
}

async function handoff() {
  await write("telegram", "позовите человека, пожалуйста");
  await said("telegram", "Передаю ваш вопрос человеку");
  await open("max", "Операторы");
  await said("max", "· Telegram");
  const number = await browser.evaluate(`(${pane("max")}.textContent.match(/(#A\\d+) Ольга · Telegram/) || [])[1]`);
  await write("max", `${number} Здравствуйте, Ольга! Примерить можно дома, курьер подождёт.`, "Ирина");
  await said("telegram", "курьер подождёт");
}

function pane(platform) { return `document.querySelector("[data-platform=${platform}]")`; }

/** What stands in the open chat of a platform. */
async function said(platform, text) {
  await browser.until(`[...${pane(platform)}.querySelectorAll(".message .text")].some((one) => one.textContent.includes(${JSON.stringify(text)}))`, `${platform} shows «${text}»`);
}

async function open(platform, title) {
  const chat = `[...${pane(platform)}.querySelectorAll(".chats button")].find((one) => one.textContent.startsWith(${JSON.stringify(title)}))`;
  await browser.until(`!!${chat}`, `${platform} has the chat «${title}»`);
  await browser.evaluate(`${chat}.click()`);
  await browser.until(`${chat}.getAttribute("aria-pressed") === "true"`, `«${title}» is open`);
}

async function write(platform, text, who = "") {
  await browser.evaluate(`(() => {
    const form = ${pane(platform)}.querySelector("form.write");
    form.querySelector("[aria-label='your name']").value = ${JSON.stringify(who)};
    form.querySelector(".what").value = ${JSON.stringify(text)};
    form.requestSubmit();
  })()`);
  await said(platform, text);
}

async function press(platform, title) {
  await browser.evaluate(`[...${pane(platform)}.querySelectorAll(".buttons button")].filter((one) => one.textContent === ${JSON.stringify(title)}).at(-1).click()`);
}

async function picture(name) {
  await browser.evaluate(`document.querySelectorAll(".messages").forEach((one) => { one.scrollTop = one.scrollHeight; })`);
  await new Promise((resolve) => setTimeout(resolve, 400));
  await takeScreenshot(browser, screenshots, name);
}
