// The pages of errors that a healthy service does not show: a store that fails, and too many
// requests.

import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { promisify } from "node:util";
import { LOOKS, judge } from "./look.mjs";
import { signUp, startBrowser, startClient, startService } from "./service.mjs";

let service, browser, state, schedule;

before(async () => {
  [service, browser] = [await startService(), await startBrowser()];
  const context = await browser.newContext();
  await signUp(context, service, "ann");
  const { stdout } = await service.run("key", "create", "--account", "ann", "--name", "tests");
  const { call } = startClient(service, stdout.match(/pnc_\w+/)[0]);
  schedule = await call("POST", "/schedules", {
    name: "Nightly", endpoint: "https://a.example/", httpMethod: "GET",
    cronExpression: "0 6 * * *", timezone: "UTC",
  });
  state = await context.storageState();
  await context.close();
});

after(async () => {
  await browser.close();
  await service.stop();
});

/** Runs a statement on the store of the service. */
async function alter(statement) {
  const program = "import sqlite3, sys; sqlite3.connect(sys.argv[1], timeout=10).execute(sys.argv[2])";
  const store = join(service.folder, "punctual.db");
  await promisify(execFile)("python3", ["-c", program, store, statement]);
}

/** Opens a page in all looks, each after `prepare`, and judges the page of the error. */
async function judgeAll(name, path, status, texts, prepare) {
  for (const look of LOOKS) {
    const context = await browser.newContext({ ...look.options, storageState: state });
    const page = await context.newPage();
    await prepare?.();
    const answer = await page.goto(`${service.base}/dashboard${path}`);
    assert.equal(answer.status(), status, look.name);
    for (const text of texts) await page.getByText(text).first().waitFor();
    assert.ok(Number(answer.headers()["retry-after"]) > 0, "it says when to try again");
    assert.ok(answer.headers()["x-request-id"], "the log can be searched for the request");
    await judge(page, look, name);
    await context.close();
  }
}

test("a store that fails is told, and the way back is there", async () => {
  await alter("ALTER TABLE skips RENAME TO skips_away");
  try {
    const texts = ["Not available", "Try again in a moment", "Go to the overview"];
    await judgeAll("error-store", `/schedules/${schedule.id}`, 503, texts);
  } finally {
    await alter("ALTER TABLE skips_away RENAME TO skips");
  }
  const context = await browser.newContext({ storageState: state });
  const page = await context.newPage();
  assert.equal((await page.goto(`${service.base}/dashboard/schedules/${schedule.id}`)).status(), 200);
  await context.close();
});

test("too many requests are told, with the time at which the next one is allowed", async () => {
  const isRefused = async () => (await fetch(`${service.base}/dashboard/sign-in`)).status === 429;
  // The minute for which requests are counted may end between two looks.
  const exceed = async () => {
    for (let sent = 0; sent < 5_000 && !await isRefused(); sent += 1);
  };
  const texts = ["Too many requests", /Try again after/];
  await judgeAll("error-too-many", "/schedules", 429, texts, exceed);
});
