// The pictures of the README: the overview, a schedule and a job of an account in use. The file also
// checks that the pages show what the pictures are for. `tests/run screenshots` keeps the pictures.

import assert from "node:assert/strict";
import { mkdir } from "node:fs/promises";
import { after, before, test } from "node:test";
import { enter, startBrowser, startClient, startService, startTarget } from "./service.mjs";

/** Schedules as people have them. The target of one fails. */
const SCHEDULES = [
  { name: "Send the daily digest", cronExpression: "30 6 * * MON-FRI", timezone: "Europe/Berlin" },
  { name: "Renew exchange rates", cronExpression: "*/15 * * * *", timezone: "UTC" },
  { name: "Close open invoices", cronExpression: "0 2 1 * *", timezone: "America/New_York" },
  { name: "Rebuild the search index", cronExpression: "0 4 * * *", timezone: "Asia/Tokyo" },
  { name: "Sync contacts", cronExpression: "5 * * * *", timezone: "Europe/Paris", fails: true },
];
const RUNS = 12;
const UNLIMITED = { PUNCTUAL_RATE_PER_MINUTE: "0", PUNCTUAL_RATE_PER_HOUR: "0" };

let service, browser, target, client, page;

async function keep(name) {
  const shots = process.env.PUNCTUAL_SCREENSHOTS;
  if (!shots) return;
  await mkdir(shots, { recursive: true });
  await page.screenshot({ path: `${shots}/readme-${name}.png` });
}

before(async () => {
  [service, browser] = [await startService(UNLIMITED), await startBrowser()];
  target = await startTarget((response, request) => {
    const fails = request.url.endsWith("/contacts");
    const body = fails ? { error: "the address book is locked" } : { done: true, items: 42 };
    response.writeHead(fails ? 503 : 200, { "content-type": "application/json" });
    response.end(JSON.stringify(body));
  });
  client = startClient(service, service.output().match(/pnc_\w+/)[0]);
});

after(async () => {
  await browser.close();
  await target.stop();
  await service.stop();
});

test("an account in use is readable at a glance", async () => {
  const { call, ended } = client;
  const made = [];
  for (const { fails = false, ...schedule } of SCHEDULES) {
    const endpoint = `${target.url}${fails ? "contacts" : "tasks"}`;
    made.push(await call("POST", "/schedules", {
      ...schedule, endpoint, httpMethod: "POST", body: "{}", maxRetries: 1,
    }));
  }
  const jobs = [];
  for (let run = 0; run < RUNS; run += 1) {
    for (const { id } of made) jobs.push(await call("POST", `/schedules/${id}/trigger`));
  }
  // One after the other, so that the polling does not delay the jobs.
  const final = [];
  for (const job of jobs) final.push(await ended(job));
  // The first look at the overview counts the jobs of the month, for a while.
  const viewport = { width: 1280, height: 860 };
  page = await enter(await browser.newContext({ viewport, timezoneId: "UTC" }), service);
  await page.getByRole("heading", { name: "Failing now" }).waitFor();
  await page.getByRole("link", { name: "Sync contacts" }).first().waitFor();
  await keep("overview");
  await page.goto(`${service.base}/dashboard/schedules/${made[1].id}`);
  await page.getByRole("heading", { name: "Renew exchange rates" }).waitFor();
  await keep("schedule");
  const failed = final.find(({ status }) => status === "FAILED");
  await page.goto(`${service.base}/dashboard/jobs/${failed.id}`);
  await page.getByRole("heading", { name: "Why it failed" }).waitFor();
  await keep("job");
});
