// Speaks the DevTools protocol to Chromium over its debugging pipe: no packages, no WebSocket.

import { spawn } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

/** Starts a browser with one empty page. */
export async function openBrowser(binary) {
  const profile = mkdtempSync(join(tmpdir(), "rupor-browser-"));
  const flags = ["--headless=new", "--remote-debugging-pipe", `--user-data-dir=${profile}`, "--no-first-run", "--disable-gpu",
    "--disable-dev-shm-usage", "--disable-background-networking", "--disable-component-update", "--hide-scrollbars"];
  // The sandbox of the browser does not work for root or inside most containers.
  flags.push("--no-sandbox", "about:blank");
  const child = spawn(binary, flags, { stdio: ["ignore", "ignore", "pipe", "pipe", "pipe"] });
  let complaints = "";
  child.stderr.on("data", (bytes) => { complaints = (complaints + bytes).slice(-4000); });
  const browser = new Browser(child, profile);
  child.on("exit", (code) => browser.fail(new Error(`the browser ended with ${code}: ${complaints}`)));
  const { targetInfos } = await browser.send("Target.getTargets");
  const { targetId } = targetInfos.find((target) => target.type === "page") || (await browser.send("Target.createTarget", { url: "about:blank" }));
  const { sessionId } = await browser.send("Target.attachToTarget", { targetId, flatten: true });
  browser.sessionId = sessionId;
  for (const domain of ["Page", "Runtime", "Log", "Network"]) await browser.send(`${domain}.enable`);
  return browser;
}

class Browser {
  constructor(child, profile) {
    this.child = child;
    this.profile = profile;
    this.waiting = new Map();
    this.listeners = [];
    this.nextId = 1;
    let rest = Buffer.alloc(0);
    child.stdio[4].on("data", (bytes) => {
      rest = Buffer.concat([rest, bytes]);
      for (let end = rest.indexOf(0); end >= 0; end = rest.indexOf(0)) {
        this.receive(JSON.parse(rest.subarray(0, end).toString()));
        rest = rest.subarray(end + 1);
      }
    });
  }

  receive(message) {
    const waiter = this.waiting.get(message.id);
    if (waiter) {
      this.waiting.delete(message.id);
      if (message.error) waiter.reject(new Error(message.error.message));
      else waiter.resolve(message.result);
    } else {
      for (const listener of this.listeners) listener(message);
    }
  }

  fail(error) {
    this.error = error;
    for (const waiter of this.waiting.values()) waiter.reject(error);
  }

  send(method, params = {}) {
    if (this.error) return Promise.reject(this.error);
    const id = this.nextId++;
    this.child.stdio[3].write(`${JSON.stringify({ id, method, params, sessionId: this.sessionId })}\0`);
    return new Promise((resolve, reject) => this.waiting.set(id, { resolve, reject }));
  }

  /** Evaluates an expression in the page; a promise is awaited. */
  async evaluate(expression) {
    const { result, exceptionDetails } = await this.send("Runtime.evaluate", { expression, awaitPromise: true, returnByValue: true });
    if (exceptionDetails) throw new Error(exceptionDetails.exception?.description || exceptionDetails.text);
    return result.value;
  }

  /** Waits until an expression becomes true; `what` names it when it never does. */
  async until(expression, what) {
    for (let tries = 0; tries < 200; tries++) {
      if (await this.evaluate(expression)) return;
      await new Promise((resolve) => setTimeout(resolve, 100));
    }
    throw new Error(`never happened: ${what}`);
  }

  /** Asks the browser to leave; one that does not is killed. */
  async close() {
    this.child.removeAllListeners("exit");
    const gone = new Promise((resolve) => this.child.once("exit", resolve));
    const kill = setTimeout(() => this.child.kill("SIGKILL"), 10_000);
    this.sessionId = undefined;
    this.send("Browser.close").catch(() => {});
    await gone;
    clearTimeout(kill);
    try {
      rmSync(this.profile, { recursive: true, force: true, maxRetries: 10, retryDelay: 100 });
    } catch (error) {
      console.error(`browser test: the profile ${this.profile} stays behind: ${error.message}`);
    }
  }
}
