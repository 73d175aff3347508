// The page of an unfinished job: it follows the job by a stream of events, or by polling.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { signUp, startBrowser, startService, startTarget } from "./service.mjs";

let service, browser, target;
const waiting = [];

before(async () => {
  [service, browser] = [await startService(), await startBrowser()];
  target = await startTarget((response) => waiting.push(response));
});

after(async () => {
  await browser.close();
  await target.stop();
  await service.stop();
});

/** Answers the requests that wait. */
const answer = () => {
  for (const response of waiting.splice(0)) response.end("the answer");
};

/** Opens the page of a job whose request waits, with its command for curl opened. */
async function openRunning(context, name) {
  const page = await signUp(context, service, name);
  await page.getByLabel("URL").fill(target.url);
  await page.getByRole("button", { name: /Create/ }).click();
  await page.waitForURL(/\/dashboard\/jobs\//);
  await page.locator(".head .running").waitFor();
  await page.evaluate(() => { window.isSamePage = true; });
  await page.getByText("Send this request with curl").click();
  return page;
}

/** Waits for the result, and checks that the page was not loaded again. */
async function seesResult(page) {
  answer();
  await page.locator(".head .success").waitFor();
  await page.getByText("the answer").waitFor();
  assert.equal(await page.evaluate(() => window.isSamePage), true);
  assert.equal(await page.locator("#job[data-events]").count(), 0);
}

test("the result appears without a reload, and opened parts stay open", async () => {
  const context = await browser.newContext();
  const requests = [];
  context.on("request", (request) => requests.push(new URL(request.url()).pathname));
  const page = await openRunning(context, "ann");
  const id = new URL(page.url()).pathname;
  // Without those of the browser for other files, such as an icon, which may come late.
  const ofJob = () => requests.filter((path) => path.startsWith(id));
  assert.ok(ofJob().includes(`${id}/events`), requests.join());
  const details = await page.locator("details[open]").elementHandle();
  const before = ofJob().length;
  await page.waitForTimeout(2_500);
  assert.equal(ofJob().length, before, "an unchanged job asks for nothing");
  assert.ok(await details.evaluate((part) => part.isConnected && part.open));
  await seesResult(page);
  assert.equal(await page.locator("details[open]").count(), 1);
  assert.equal(await page.getByRole("button", { name: "Retry job" }).count(), 1);
  await context.close();
});

test("where a stream is refused the page asks", async () => {
  const context = await browser.newContext();
  await context.route("**/events?*", (route) => route.fulfill({ status: 503 }));
  const page = await openRunning(context, "bob");
  await seesResult(page);
  await context.close();
});
