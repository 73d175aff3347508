// Every page: without violations of accessibility rules, in light, dark and phone width, with
// hostile content, and closed to other sites and other accounts.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { LOOKS, assertAccessible, complaintsOf, judge } from "./look.mjs";
import { enter, signUp, startBrowser, startClient, startService, startTarget } from "./service.mjs";

const HOSTILE = `<img src=x onerror=alert(1)>"'><script>alert(1)</script>`;

let service, browser, target, call, ids;

before(async () => {
  [service, browser] = [await startService(), await startBrowser()];
  target = await startTarget((response) => {
    response.writeHead(404, { "x-hostile": "<script>alert(2)</script>" }).end(HOSTILE);
  });
  const context = await browser.newContext();
  const page = await signUp(context, service, "ann");
  await page.goto(`${service.base}/dashboard/keys`);
  await page.getByLabel("Name").fill("tests");
  await page.getByRole("button", { name: "Create key" }).click();
  const key = (await page.locator("code").allTextContents()).join(" ").match(/pnc_\w+/)[0];
  const client = startClient(service, key);
  call = client.call;
  const schedule = await call("POST", "/schedules", {
    name: HOSTILE, description: HOSTILE, cronExpression: "0 3 * * *", timezone: "Europe/Berlin",
    endpoint: target.url, httpMethod: "POST", body: HOSTILE,
    headers: JSON.stringify({ "x-note": "<script>alert(3)</script>" }),
  });
  await call("PUT", `/schedules/${schedule.id}`, { body: HOSTILE.repeat(50), timezone: "UTC" });
  const job = await call("POST", `/schedules/${schedule.id}/trigger`);
  await client.ended(job);
  const channel = await call("POST", "/notification-channels", {
    type: "webhook", label: HOSTILE.slice(0, 60), config: { url: target.url },
  });
  ids = { schedule: schedule.id, job, channel: channel.id };
  await page.goto(`${service.base}/dashboard/schedules/${schedule.id}/versions`);
  ids.use = await page.getByRole("link", { name: "Use this version again" }).getAttribute("href");
  ids.state = await context.storageState();
  const operator = await browser.newContext();
  await enter(operator, service);
  ids.operator = await operator.storageState();
});

after(async () => {
  await browser.close();
  await target.stop();
  await service.stop();
});

/** The paths of all pages, with the names of their screenshots. */
const pages = () => ({
  "overview": "/dashboard",
  "overview-month": "/dashboard?range=30d",
  "schedules": "/dashboard/schedules",
  "schedule-new": "/dashboard/schedules/new",
  "schedule-import": "/dashboard/schedules/import",
  "schedule": `/dashboard/schedules/${ids.schedule}`,
  "schedule-edit": `/dashboard/schedules/${ids.schedule}/edit`,
  "schedule-delete": `/dashboard/schedules/${ids.schedule}/delete`,
  "schedule-pause": `/dashboard/schedules/${ids.schedule}/pause`,
  "schedule-versions": `/dashboard/schedules/${ids.schedule}/versions`,
  "schedule-version-use": ids.use,
  "jobs": "/dashboard/jobs",
  "job": `/dashboard/jobs/${ids.job}`,
  "schedule-alerts": `/dashboard/schedules/${ids.schedule}/alerts`,
  "channels": "/dashboard/channels",
  "channel-new": "/dashboard/channels/new",
  "channel": `/dashboard/channels/${ids.channel}`,
  "channel-edit": `/dashboard/channels/${ids.channel}/edit`,
  "channel-delete": `/dashboard/channels/${ids.channel}/delete`,
  "keys": "/dashboard/keys",
  "account": "/dashboard/account",
  "audit": "/dashboard/account/audit",
  "missing": "/dashboard/nothing",
});
const forOperators = { "installation": "/dashboard/installation" };
const entries = {
  "sign-in": "/dashboard/sign-in",
  "sign-up": "/dashboard/sign-up",
  "forgotten": "/dashboard/forgotten",
  "reset": "/reset",
  "invitation": "/invitation",
};

for (const look of LOOKS) {
  test(`every page is accessible and inert: ${look.name}`, async (t) => {
    const signedIn = await browser.newContext({ ...look.options, storageState: ids.state });
    const operator = await browser.newContext({ ...look.options, storageState: ids.operator });
    const outside = await browser.newContext(look.options);
    const visits = [[signedIn, pages()], [operator, forOperators], [outside, entries]];
    for (const [context, paths] of visits) {
      for (const [name, path] of Object.entries(paths)) {
        await t.test(name, async () => {
          const page = await context.newPage();
          const complaints = complaintsOf(page, service);
          const answer = await page.goto(`${service.base}${path}`);
          assert.equal(answer.status(), name === "missing" ? 404 : 200, path);
          assert.equal(await page.locator("main img, main script").count(), 0);
          await judge(page, look, name);
          assert.deepEqual(complaints, []);
          await page.close();
        });
      }
    }
    await signedIn.close();
    await operator.close();
    await outside.close();
  });
}

test("the page of the installation is for operators only", async () => {
  const context = await browser.newContext({ storageState: ids.operator });
  const page = await context.newPage();
  await page.goto(`${service.base}/dashboard/installation`);
  const store = page.getByRole("row").filter({ hasText: "store.url" });
  await store.getByText("reachable", { exact: true }).waitFor();
  assert.ok(await page.getByRole("row").count() > 2, "a row for each shard");
  await page.getByRole("link", { name: "Installation" }).waitFor();
  const ann = await (await browser.newContext({ storageState: ids.state })).newPage();
  const answer = await ann.goto(`${service.base}/dashboard/installation`);
  assert.equal(answer.status(), 404);
  assert.equal(await ann.getByRole("link", { name: "Installation" }).count(), 0);
  await ann.context().close();
  await context.close();
});

test("the charts of finished jobs have a table with their values", async () => {
  const context = await browser.newContext({ storageState: ids.state });
  const page = await context.newPage();
  await page.goto(`${service.base}/dashboard`);
  await page.getByRole("link", { name: "7 days" }).click();
  await page.getByRole("img", { name: /Jobs by outcome per 6 hours in the last 7 days/ }).waitFor();
  await page.getByRole("img", { name: /Shares of jobs by start lag/ }).waitFor();
  const tooltip = await page.locator("svg g title").first().textContent();
  const [, from, failed] = tooltip.match(/^(.+): 0 succeeded, (\d+) failed, 0 cancelled$/);
  await page.getByText("Finished jobs as a table").click();
  const cells = page.getByRole("row").filter({ hasText: from }).getByRole("cell");
  assert.deepEqual((await cells.allTextContents()).slice(0, 4), [from, "0", failed, "0"]);
  await assertAccessible(page);
  await context.close();
});

test("another account's objects are not found", async () => {
  const context = await browser.newContext();
  const page = await signUp(context, service, "eve");
  const paths = [
    `/schedules/${ids.schedule}`, `/schedules/${ids.schedule}/edit`,
    `/schedules/${ids.schedule}/delete`, `/schedules/${ids.schedule}/pause`,
    `/schedules/${ids.schedule}/versions`, ids.use.replace("/dashboard", ""),
    `/jobs/${ids.job}`, `/channels/${ids.channel}`,
  ];
  for (const path of paths) {
    const answer = await page.goto(`${service.base}/dashboard${path}`);
    assert.equal(answer.status(), 404, path);
  }
  await context.close();
});

/** The changes of objects, with the method POST. */
const changes = () => [
  `/schedules/${ids.schedule}/run`, `/schedules/${ids.schedule}/toggle`,
  `/schedules/${ids.schedule}/edit`, `/schedules/${ids.schedule}/delete`,
  `/schedules/${ids.schedule}/alerts`, `/schedules/${ids.schedule}/pause`,
  ids.use.replace("/dashboard", ""), `/jobs/${ids.job}/retry`, `/jobs/${ids.job}/cancel`,
  `/channels/${ids.channel}/verify`, `/channels/${ids.channel}/edit`,
  `/channels/${ids.channel}/delete`, `/channels/${ids.channel}/secret`,
];

test("another account's objects cannot be changed", async () => {
  const context = await browser.newContext();
  await signUp(context, service, "mallory");
  const before = await call("GET", `/schedules/${ids.schedule}`);
  for (const path of changes()) {
    const answer = await context.request.post(`${service.base}/dashboard${path}`, {
      headers: { origin: service.base }, form: { name: "stolen", overlap: "0" }, maxRedirects: 0,
    });
    assert.equal(answer.status(), 404, path);
  }
  assert.deepEqual(await call("GET", `/schedules/${ids.schedule}`), before);
  const outside = await browser.newContext();
  for (const path of changes()) {
    const answer = await outside.request.post(`${service.base}/dashboard${path}`, {
      headers: { origin: service.base }, maxRedirects: 0,
    });
    assert.equal(answer.status(), 303, path);
    assert.match(answer.headers().location, /sign-in/);
  }
  await context.close();
  await outside.close();
});

test("a change that another site requests is refused", async () => {
  const context = await browser.newContext({ storageState: ids.state });
  const [{ name, value }] = (await context.cookies()).filter(({ name }) => name === "__Host-punctual");
  const url = `${service.base}/dashboard/schedules/${ids.schedule}/run`;
  const post = (headers) => fetch(url, {
    method: "POST",
    redirect: "manual",
    headers: { cookie: `${name}=${value}`, ...headers },
  });
  const before = (await call("GET", "/jobs?pageSize=100")).jobs.length;
  for (const headers of [
    {}, { origin: "https://evil.example" }, { origin: "null" },
    { "sec-fetch-site": "cross-site", origin: service.base },
    { "sec-fetch-site": "same-site" }, { "sec-fetch-site": "none" },
  ]) {
    assert.equal((await post(headers)).status, 403, JSON.stringify(headers));
  }
  assert.equal((await call("GET", "/jobs?pageSize=100")).jobs.length, before);
  assert.equal((await post({ "sec-fetch-site": "same-origin" })).status, 303);
  assert.equal((await call("GET", "/jobs?pageSize=100")).jobs.length, before + 1);
  await context.close();
});

test("with the keyboard alone a schedule is paused", async () => {
  const context = await browser.newContext({ storageState: ids.state });
  const page = await context.newPage();
  await page.goto(`${service.base}/dashboard/schedules/${ids.schedule}`);
  await page.keyboard.press("Tab");
  assert.equal(await page.evaluate(() => document.activeElement.textContent), "Skip to content");
  for (let presses = 0; presses < 60; presses += 1) {
    await page.keyboard.press("Tab");
    const text = await page.evaluate(() => document.activeElement.textContent.trim());
    if (text === "Pause") break;
  }
  await page.keyboard.press("Enter");
  await page.getByRole("button", { name: "Resume" }).waitFor();
  await context.close();
});
