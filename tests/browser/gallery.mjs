// Takes the picture of docs/platforms: the examples of its pages, published by the adapters, on the sandbox's page.
// Usage: cargo build -p platforms --example gallery && node tests/browser/gallery.mjs target/debug/examples/gallery docs/platforms/examples.jpg

import { spawn } from "node:child_process";
import { writeFileSync } from "node:fs";
import { createInterface } from "node:readline";
import { openBrowser } from "./devtools.mjs";

const [binary, picture] = process.argv.slice(2);
if (!picture) throw new Error("usage: gallery.mjs BINARY PICTURE");
const gallery = spawn(binary, [], { stdio: ["pipe", "pipe", "inherit"] });
let browser;
try {
  const origin = await address(gallery.stdout);
  browser = await openBrowser(process.env.CHROMIUM || "chromium");
  await browser.send("Emulation.setDeviceMetricsOverride", { width: 1800, height: 3150, deviceScaleFactor: 0.55, mobile: false });
  await browser.send("Page.navigate", { url: `${origin}/` });
  await browser.until(`document.body && document.body.dataset.ready === "yes"`, "the page is ready");
  await browser.evaluate(`document.querySelectorAll("img").forEach((image) => { image.loading = "eager"; })`);
  await browser.until(`[...document.querySelectorAll("[data-platform]")].every((pane) => pane.querySelectorAll(".album img").length === 12) && [...document.querySelectorAll(".album img")].every((image) => image.complete && image.naturalWidth > 0) && document.querySelectorAll("video").length === 0`, "twelve pictures are on each of the three platforms");
  // What cannot be played has turned into a file by now, so the end has moved.
  await browser.evaluate(`document.querySelectorAll(".messages").forEach((list) => { list.scrollTop = list.scrollHeight; })`);
  const format = picture.endsWith(".png") ? { format: "png" } : { format: "jpeg", quality: 75 };
  const { data } = await browser.send("Page.captureScreenshot", format);
  writeFileSync(picture, Buffer.from(data, "base64"));
  console.log(`${picture}: ${Math.round(data.length * 3 / 4 / 1000)} kB`);
} finally {
  gallery.stdin.end();
  if (browser) await browser.close();
}

async function address(stream) {
  for await (const line of createInterface({ input: stream })) {
    const found = line.match(/http:\/\/\S+/);
    if (found) return found[0];
  }
  throw new Error("the gallery did not say where it is");
}
