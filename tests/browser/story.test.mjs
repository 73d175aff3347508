// The story of a person who has never read the documentation: sign up, create a schedule, see it
// run, find out why a job failed, be told the next time, make a key.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { enter, signUp, startBrowser, startService, startTarget } from "./service.mjs";

let service, browser, refusing, hearing;
const heard = [];

before(async () => {
  [service, browser] = [await startService(), await startBrowser()];
  refusing = await startTarget((response) => response.writeHead(404).end("no such hook"));
  hearing = await startTarget(async (response, request) => {
    let alert = "";
    for await (const chunk of request) alert += chunk;
    heard.push(alert);
    response.end();
  });
});

after(async () => {
  await browser.close();
  await refusing.stop();
  await hearing.stop();
  await service.stop();
});

test("the link of the terminal signs in once, and the example is there", async () => {
  const context = await browser.newContext();
  const page = await enter(context, service);
  await page.getByRole("link", { name: "Schedules" }).click();
  await page.getByRole("link", { name: "demo" }).click();
  await page.getByText("Success").first().waitFor();
  const other = await (await browser.newContext()).newPage();
  await other.goto(service.link);
  await other.getByRole("button", { name: "Open the dashboard" }).click();
  await other.getByText("This link does not work").waitFor();
  await context.close();
});

test("the start page leads to the dashboard, which asks for a sign-in and comes back", async () => {
  const page = await (await browser.newContext()).newPage();
  await page.goto(`${service.base}/`);
  assert.match(page.url(), /\/dashboard\/sign-in\?next=/);
});

for (const javaScriptEnabled of [true, false]) {
  test(`a new user does everything, ${javaScriptEnabled ? "with" : "without"} script`, async () => {
    const context = await browser.newContext({ javaScriptEnabled });
    const page = await signUp(context, service, javaScriptEnabled ? "ann" : "bob");

    // The first page asks one question and shows the first run.
    await page.getByLabel("URL").fill(service.echo);
    await page.getByRole("button", { name: /Create/ }).click();
    await page.waitForURL(/\/dashboard\/jobs\//);
    await until(page, async () => await page.getByText("Success").count() > 0);

    // A schedule whose target refuses.
    await page.getByRole("link", { name: "Schedules" }).click();
    await page.getByRole("link", { name: "New schedule" }).click();
    await page.getByLabel("Name", { exact: true }).fill("Nightly report");
    await page.getByLabel("URL").fill(refusing.url);
    await page.getByLabel("Cron expression", { exact: true }).fill("61 * * * *");
    await page.getByRole("button", { name: "Create schedule" }).click();
    await page.getByText(/minute 61|Invalid cron/i).first().waitFor();
    assert.equal(await page.getByLabel("Name", { exact: true }).inputValue(), "Nightly report");
    await page.getByLabel("Cron expression", { exact: true }).fill("0 3 * * *");
    await page.getByRole("button", { name: "Create schedule" }).click();
    await page.getByRole("button", { name: "Run now" }).click();
    await page.waitForURL(/\/dashboard\/jobs\//);
    await until(page, async () => await page.getByText("404").count() > 0);
    await page.getByText("no such hook").first().waitFor();

    // The next failure is told on a channel. Each page leads to the next one.
    const job = page.url();
    await page.getByRole("link", { name: "Set up alerts for failures" }).click();
    await page.getByRole("link", { name: "Go to the channels" }).click();
    await page.getByRole("link", { name: "New channel" }).click();
    await page.getByRole("link", { name: "Webhook" }).click();
    await page.getByLabel("Label").fill("My pager");
    await page.getByLabel("URL", { exact: true }).fill(hearing.url);
    await page.getByRole("button", { name: "Create channel" }).click();
    await page.getByRole("link", { name: "Continue" }).click();
    await page.getByRole("button", { name: "Verify channel" }).click();
    await page.getByText("The channel is verified").waitFor();
    await page.getByRole("link", { name: "choose a schedule" }).click();
    await page.getByRole("link", { name: "Nightly report" }).click();
    await page.getByRole("link", { name: "Set up alerts" }).click();
    await page.getByLabel("Notify on", { exact: true }).selectOption("failure");
    await page.getByLabel("My pager (Webhook)").check();
    await page.getByRole("button", { name: "Save" }).click();
    await page.getByText("Failures are sent to: My pager").waitFor();
    heard.length = 0;
    await page.goto(job);
    await page.getByRole("button", { name: "Retry job" }).click();
    await until(page, async () => heard.some((alert) => alert.includes("Nightly report")));

    // A key that works.
    await page.getByRole("link", { name: "API keys" }).click();
    await page.getByLabel("Name").fill("deploy");
    await page.getByRole("button", { name: "Create key" }).click();
    const key = (await page.locator("code").allTextContents()).join(" ").match(/pnc_\w+/)[0];
    const headers = { "x-api-key": key };
    const answer = await fetch(`${service.base}/v1/schedules`, { headers });
    const list = await answer.json();
    assert.equal(list.data?.length, 2, JSON.stringify(list));
    await page.getByRole("link", { name: "API keys" }).click();
    assert.equal(await page.getByText(key).count(), 0, "the key is shown once");

    await page.getByRole("button", { name: "Sign out" }).click();
    await page.goto(`${service.base}/dashboard/keys`);
    assert.match(page.url(), /sign-in/);
    await context.close();
  });
}

/** Waits until a page shows something; it is loaded again as a person without script would do. */
async function until(page, shows) {
  const end = Date.now() + 20_000;
  while (!await shows()) {
    assert.ok(Date.now() < end, `it is not shown: ${await page.locator("main").innerText()}`);
    await page.reload();
  }
}
