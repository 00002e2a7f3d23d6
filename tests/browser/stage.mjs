// What the browser tests share: where a server listens, calls to it, what the console says, pictures.

import assert from "node:assert/strict";
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { createInterface } from "node:readline";

/** The first address that a server prints. The rest of its output is read and thrown away, so that it never waits for us. */
export async function originOf(stream, pattern = /http:\/\/\S+/) {
  return new Promise((resolve, reject) => {
    const lines = createInterface({ input: stream });
    const said = [];
    lines.on("line", (line) => {
      said.push(line);
      const found = line.match(pattern);
      if (found) resolve(found[1] || found[0]);
    });
    lines.on("close", () => reject(new Error(`the server did not say where it listens: ${said.slice(-10).join("\n")}`)));
  });
}

export async function call(url, body, method = "POST") {
  const answer = await fetch(url, { method, headers: { "content-type": "application/json" }, body: JSON.stringify(body) });
  const result = await answer.json();
  assert.ok(answer.ok, `${url}: ${JSON.stringify(result)}`);
  return result;
}

export function watchTroubles(page) {
  const troubles = [];
  page.listeners.push(({ method, params }) => {
    if (method === "Runtime.exceptionThrown") troubles.push(params.exceptionDetails.exception?.description || params.exceptionDetails.text);
    if (method === "Log.entryAdded" && params.entry.level === "error") troubles.push(`${params.entry.text} ${params.entry.url || ""}`);
    if (method === "Runtime.consoleAPICalled" && ["error", "warning"].includes(params.type)) troubles.push(params.args.map((arg) => arg.value).join(" "));
  });
  return troubles;
}

export async function takeScreenshot(browser, folder, name) {
  const { data } = await browser.send("Page.captureScreenshot", { format: "png" });
  mkdirSync(folder, { recursive: true });
  writeFileSync(join(folder, `${name}.png`), Buffer.from(data, "base64"));
}
