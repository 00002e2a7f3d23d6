// A sandbox and nodes in a folder of their own, for those who look at the board.

import assert from "node:assert/strict";
import { execFileSync, spawn } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { originOf } from "./stage.mjs";

const SECRET = "secret-of-the-site-0123456789";
const children = [];
export let folder;

export function begin() { folder = mkdtempSync(join(tmpdir(), "rupor-board-")); }

export async function end(browser) {
  for (const child of children) child.kill("SIGTERM");
  if (browser) await browser.close();
  await Promise.all(children.map((child) => child.exitCode ?? child.signalCode ?? new Promise((resolve) => child.once("exit", resolve))));
  rmSync(folder, { recursive: true, force: true });
}

export function start(args, env, output = ["ignore", "pipe", "inherit"]) {
  const child = spawn(process.env.RUPOR_BIN, args, { stdio: output, cwd: folder, env: { PATH: process.env.PATH, ...env } });
  children.push(child);
  return child;
}

export const sandbox = async () => originOf(start(["sandbox", "--listen", "127.0.0.1:0", "--any-token"], {}).stdout);

/** A node on its own database; without a configuration it has nothing to do. */
export async function node(origin, config, name = "rupor") {
  const args = ["run", "--listen", "127.0.0.1:0", "--db", `sqlite:${name}.db`];
  if (config) {
    writeFileSync(join(folder, `${name}.toml`), config);
    args.push("--config", `${name}.toml`);
  }
  const child = start(args, variables(origin), ["ignore", "pipe", "pipe"]);
  const [out, err] = [child.stdout, child.stderr].map((stream) => originOf(stream, /listening.*?(127\.0\.0\.1:\d+)/));
  return { board: `http://${await Promise.any([out, err])}`, child };
}

/** What a command beside the node says. */
export function command(origin, args, name = "rupor") {
  const options = { cwd: folder, env: { PATH: process.env.PATH, ...variables(origin) }, encoding: "utf8" };
  return execFileSync(process.env.RUPOR_BIN, [...args, "--db", `sqlite:${name}.db`], options);
}

function variables(origin) {
  const env = { TOKEN: "42:token", TOKEN_OUT: "43:token", PUSH_SECRET: SECRET, RUPOR_POLL_INTERVAL: "1s", NO_COLOR: "1" };
  for (const platform of ["telegram", "vk", "max"]) env[`RUPOR_${platform.toUpperCase()}_API`] = `${origin}/${platform}`;
  return env;
}

export async function push(board, origin_id, text, more = {}) {
  const headers = { "content-type": "application/json", authorization: `Bearer ${SECRET}`, "idempotency-key": origin_id };
  const answer = await fetch(`${board}/v1/ingest`, { method: "POST", headers, body: JSON.stringify({ text, origin_id, ...more }) });
  assert.equal(answer.status, 202, await answer.text());
}

/** Opens the board at a size, in a scheme and a language. */
export async function page(browser, board, { width, height, scheme, lang, hash = "" }) {
  await dress(browser, { width, height, scheme });
  // Another address first: the same one with another end would not be loaded anew.
  await browser.send("Page.navigate", { url: "about:blank" });
  await browser.send("Page.navigate", { url: `${board}/?lang=${lang}${hash}` });
  await browser.until(`document.body && document.body.dataset.ready === "yes"`, "the page is ready");
}

export async function dress(browser, { width, height, scheme }) {
  await browser.send("Emulation.setEmulatedMedia", { features: [{ name: "prefers-color-scheme", value: scheme }] });
  await browser.send("Emulation.setDeviceMetricsOverride", { width, height, deviceScaleFactor: 1, mobile: width < 600 });
}
