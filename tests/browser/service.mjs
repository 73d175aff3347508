// A `punctual dev` of its own for a test file, and a real Chromium.

import assert from "node:assert/strict";
import { execFile, spawn } from "node:child_process";
import { mkdtemp, rm } from "node:fs/promises";
import { createServer } from "node:http";
import { createServer as listen } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { chromium } from "playwright-core";

const FLAGS = [
  "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
  "--disable-background-networking", "--disable-component-update", "--disable-sync",
];

/** Returns a port that is free now and that Linux gives to no outgoing connection. */
async function freePort() {
  for (;;) {
    const port = 12_000 + Math.floor(Math.random() * 20_000);
    const server = listen();
    const isFree = await new Promise((resolve) => {
      server.once("error", () => resolve(false)).listen(port, "127.0.0.1", () => resolve(true));
    });
    if (!isFree) continue;
    await new Promise((resolve) => server.close(resolve));
    return port;
  }
}

/**
 * Starts the service. `link` is the address that the terminal prints. `settings` are variables, or
 * a function of the service's address that returns them.
 */
export async function startService(settings = {}) {
  const folder = await mkdtemp(join(tmpdir(), "punctual-browser-"));
  const [port, ops] = [await freePort(), await freePort()];
  const env = {
    ...process.env,
    PUNCTUAL_DATA_DIR: folder,
    PUNCTUAL_HTTP_LISTEN: `127.0.0.1:${port}`,
    PUNCTUAL_OPS_LISTEN: `127.0.0.1:${ops}`,
    PUNCTUAL_ACCOUNTS_SIGN_UP: "open",
    ...(typeof settings === "function" ? settings(`http://127.0.0.1:${port}`) : settings),
  };
  const program = process.env.PUNCTUAL_PROGRAM;
  const child = spawn(program, ["dev"], { env, stdio: ["ignore", "pipe", "pipe"] });
  let output = "";
  const link = await new Promise((resolve, reject) => {
    const read = (chunk) => {
      output += chunk;
      const found = output.match(/Dashboard +(\S+\/dashboard\/first\/\S+)[\s\S]*Ctrl-C stops/);
      if (found) resolve(found[1]);
    };
    child.stdout.on("data", read);
    child.stderr.on("data", read);
    child.once("exit", () => reject(new Error(`the service ended:\n${output}`)));
  });
  return {
    link,
    folder,
    base: `http://127.0.0.1:${port}`,
    echo: `http://127.0.0.1:${ops}/echo`,
    output: () => output,
    /** Runs a command of an operator on the store of the service. */
    run: (...words) => promisify(execFile)(program, words, { env }),
    async stop() {
      const ended = new Promise((resolve) => child.once("exit", resolve));
      child.kill("SIGTERM");
      await ended;
      await rm(folder, { recursive: true });
    },
  };
}

/** Returns a client of the API that presents a key. */
export function startClient(service, key) {
  const call = async (method, path, body) => {
    const answer = await fetch(`${service.base}/v1${path}`, {
      method,
      headers: { "x-api-key": key, "content-type": "application/json" },
      body: body && JSON.stringify(body),
    });
    const { data, error } = await answer.json();
    assert.ok(answer.ok, `${method} ${path}: ${JSON.stringify(error)}`);
    return data;
  };
  return {
    call,
    /** Waits until a job is final, and returns it. */
    async ended(id) {
      for (const end = Date.now() + 20_000; Date.now() < end;) {
        const job = await call("GET", `/jobs/${id}`);
        if (["SUCCESS", "FAILED"].includes(job.status)) return job;
        await new Promise((resolve) => setTimeout(resolve, 50));
      }
      assert.fail(`the job ${id} is not final`);
    },
  };
}

/** Starts a target that answers every request in one way. */
export async function startTarget(answer) {
  const server = createServer((request, response) => answer(response, request)).listen(0, "127.0.0.1");
  await new Promise((resolve) => server.once("listening", resolve));
  return {
    url: `http://127.0.0.1:${server.address().port}/`,
    stop: () => new Promise((resolve) => server.close(resolve)),
  };
}

export const startBrowser = () => chromium.launch({
  executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
  args: FLAGS,
});

/** Signs up a new user, who gets an account of the same name, and returns the page after that. */
export async function signUp(context, service, name) {
  const page = await context.newPage();
  await page.goto(`${service.base}/dashboard/sign-up`);
  await page.getByLabel("E-mail address").fill(`${name}@example.com`);
  await page.getByLabel("Password").fill("correct horse battery");
  await page.getByLabel("Name of your account").fill(name);
  await page.getByRole("button", { name: "Sign up" }).click();
  await page.waitForURL(`${service.base}/dashboard`);
  return page;
}

/** Signs in with the link of the terminal, which works once, and returns the overview. */
export async function enter(context, service) {
  const page = await context.newPage();
  await page.goto(service.link);
  await page.getByRole("button", { name: "Open the dashboard" }).click();
  await page.waitForURL(`${service.base}/dashboard`);
  return page;
}
