// The states of pages that a new account does not have: nothing there yet, refused forms, jobs in
// all states, questions before a deletion, and what a viewer or a suspended account sees.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { LOOKS, complaintsOf, judge } from "./look.mjs";
import { signUp, startBrowser, startClient, startService, startTarget } from "./service.mjs";

const UNLIMITED = { PUNCTUAL_RATE_PER_MINUTE: "0", PUNCTUAL_RATE_PER_HOUR: "0" };
const CRONTAB = `CRON_TZ=Europe/Berlin
30 2 * * * curl -fsS https://a.example/report?key=k3y
0 3 * * * /opt/backup.sh
`;

let service, browser, target, states, ids;

before(async () => {
  [service, browser] = [await startService(UNLIMITED), await startBrowser()];
  // The answers, by path. The requests to /never wait until the connection ends.
  target = await startTarget((response, request) => {
    const answers = { "/fails": 503, "/gone": 410, "/works": 200 };
    const status = answers[request.url];
    if (status === undefined) return;
    response.writeHead(status, { "content-type": "application/json" });
    response.end(JSON.stringify(status === 200 ? { done: true } : { error: "the queue is full" }));
  });
  states = { outside: undefined };
  for (const name of ["new", "busy", "many", "viewer", "suspended"]) {
    const context = await browser.newContext({ timezoneId: "Europe/Berlin" });
    const page = await signUp(context, service, name);
    if (name === "busy") ids = await fill(page);
    if (name === "many") await fillWithMany();
    if (name === "viewer") {
      await service.run("account", "add-user", "busy", "viewer@example.com", "--role", "viewer");
      await page.reload();
      await page.getByLabel("Account", { exact: true }).selectOption({ label: "busy" });
      await page.getByRole("button", { name: "Switch" }).click();
      await page.locator(".figures").waitFor();
    }
    states[name] = await context.storageState();
    await context.close();
  }
  await service.run("account", "suspend", "suspended");
});

after(async () => {
  await browser.close();
  await target.stop();
  await service.stop();
});

/** Fills an account with more schedules than a page of the list has, and than one step changes. */
async function fillWithMany() {
  const { stdout } = await service.run("key", "create", "--account", "many", "--name", "deploy");
  const { call } = startClient(service, stdout.match(/pnc_\w+/)[0]);
  for (const [what, count] of [["Sync contacts of shop", 640], ["Report of region", 25]]) {
    await call("POST", "/schedules/bulk", [...Array(count).keys()].map((number) => ({
      name: `${what} ${number + 1}`, endpoint: `${target.url}works`, httpMethod: "POST",
      cronExpression: "0 6 * * *", timezone: "Europe/Berlin",
    })));
  }
}

/** Chooses all schedules that match the filters, and presses a button. */
async function chooseMatching(page, button) {
  await page.getByLabel("Select all", { exact: true }).check();
  await page.getByLabel(/Select all \d+ schedules/).check();
  if (button) await page.getByRole("button", { name: button, exact: true }).click();
}

/** Fills an account with objects in many states, and returns their ids. */
async function fill(page) {
  const { stdout } = await service.run("key", "create", "--account", "busy", "--name", "deploy");
  const { call, ended } = startClient(service, stdout.match(/pnc_\w+/)[0]);
  const schedule = (name, path, more = {}) => call("POST", "/schedules", {
    name, endpoint: `${target.url}${path}`, httpMethod: "POST", cronExpression: "0 6 * * *",
    timezone: "Europe/Berlin", ...more,
  });
  const run = async ({ id }) => await call("POST", `/schedules/${id}/trigger`);
  const works = await schedule("Send the daily digest", "works", { body: "{}" });
  const fails = await schedule("Sync contacts", "fails", { maxRetries: 2 });
  const gone = await schedule("Old hook", "gone", { maxRetries: 1 });
  const waits = await schedule("Rebuild the search index", "never", { timeoutSeconds: 300 });
  const unused = await schedule("Close open invoices", "works");
  const channel = await call("POST", "/notification-channels", {
    type: "webhook", label: "On-call", config: { url: `${target.url}works` },
  });
  await page.goto(`${service.base}/dashboard/channels/${channel.id}`);
  await page.getByRole("button", { name: "Verify channel" }).click();
  await page.getByText("The channel is verified").waitFor();
  const bad = await call("POST", "/notification-channels", {
    type: "webhook", label: "Broken", config: { url: `${target.url}gone` },
  });
  await call("PUT", `/schedules/${gone.id}/notifications`, {
    notifyOn: "failure", channelIds: [channel.id],
  });
  const [success, over, failed] =
    await Promise.all([works, gone, fails].map(async (one) => await run(one)));
  const [running, cancelled] = [await run(waits), await run(waits)];
  await page.goto(`${service.base}/dashboard/jobs/${cancelled}`);
  await page.getByRole("button", { name: "Cancel job" }).click();
  await page.getByRole("button", { name: "Cancel the job" }).click();
  for (const job of [success, over, failed]) await ended(job);
  await page.goto(`${service.base}/dashboard/schedules/${unused.id}/pause`);
  await page.getByLabel("Note").fill("until the new tariff is in the system");
  await page.getByRole("button", { name: "Pause" }).click();
  await page.getByRole("button", { name: "Resume" }).waitFor();
  return {
    fails: fails.id, gone: gone.id, waits: waits.id, unused: unused.id, works: works.id,
    channel: channel.id, bad: bad.id, success, failed, running, cancelled,
  };
}

/**
 * The states: the account, the path of the page, the steps on it, and the status of the answer if
 * it is not 200. The name is that of the picture.
 */
const all = () => ({
  "empty-overview": ["new", ""],
  "empty-overview-refused": ["new", "", async (page) => {
    await page.getByLabel("URL").fill("http://127.0.0.1:1:1/");
    await unchecked(page, "Create and run");
  }],
  "empty-schedules": ["new", "/schedules"],
  "empty-jobs": ["new", "/jobs"],
  "empty-channels": ["new", "/channels"],
  "empty-keys": ["new", "/keys"],
  "busy-overview": ["busy", ""],
  "busy-schedules": ["busy", "/schedules"],
  "busy-schedules-no-match": ["busy", "/schedules?q=nothing"],
  "busy-schedules-delete": ["busy", "/schedules", async (page) => {
    await page.getByLabel("Select all", { exact: true }).check();
    await page.getByRole("button", { name: "Delete" }).click();
    await page.getByRole("heading", { name: /^Delete/ }).waitFor();
  }],
  "busy-schedule-paused": ["busy", `/schedules/${ids.works}`, async (page) => {
    await page.getByRole("button", { name: "Pause", exact: true }).click();
    await page.getByText("The schedule is paused.").waitFor();
    await page.getByRole("button", { name: "Undo" }).click();
    await page.getByText("The schedule is resumed.").waitFor();
  }],
  "many-schedules-chosen": ["many", "/schedules?q=shop", async (page) => chooseMatching(page)],
  "many-schedules-pause": ["many", "/schedules?q=shop&state=enabled", async (page) => {
    await chooseMatching(page, "Pause");
    await page.getByRole("heading", { name: "Pause 640 schedules?" }).waitFor();
  }],
  "many-schedules-delete": ["many", "/schedules", async (page) => {
    await chooseMatching(page, "Delete");
    await page.getByRole("heading", { name: "Delete 665 schedules?" }).waitFor();
  }],
  "many-schedules-enabled": ["many", "/schedules?q=region", async (page) => {
    await page.getByLabel("Select all", { exact: true }).check();
    await page.getByRole("button", { name: "Pause", exact: true }).click();
    await page.getByText("Paused 25 schedules.").waitFor();
    await page.getByRole("button", { name: "Undo" }).click();
    await page.getByText("Enabled 25 schedules.").waitFor();
  }],
  "many-schedules-step": ["many", "/schedules?q=shop", async (page) => {
    // The form of the next step is not sent, so that the page stays.
    await page.addInitScript(() => { HTMLFormElement.prototype.requestSubmit = () => {}; });
    await chooseMatching(page, "Enable");
    await page.getByRole("button", { name: "Enable 640 schedules" }).click();
    await page.getByRole("button", { name: "Continue" }).waitFor();
  }],
  "busy-schedule-failing": ["busy", `/schedules/${ids.fails}`],
  "busy-schedule-unused": ["busy", `/schedules/${ids.unused}`],
  "busy-schedule-with-alerts": ["busy", `/schedules/${ids.gone}`],
  "busy-alerts": ["busy", `/schedules/${ids.gone}/alerts`],
  "busy-alerts-refused": ["busy", `/schedules/${ids.gone}/alerts`, async (page) => {
    await page.getByLabel("Failures in a row before the first alert").fill("0");
    await page.getByLabel("On-call (Webhook)").uncheck();
    await unchecked(page, "Save");
  }],
  "busy-jobs": ["busy", "/jobs"],
  "busy-jobs-no-match": ["busy", "/jobs?trigger=retry"],
  "busy-jobs-of-schedule": ["busy", "/jobs", async (page) => {
    await page.getByLabel("Schedule", { exact: true }).fill("old h");
    await page.getByRole("button", { name: "Filter" }).click();
    await page.getByText("Schedule: Old hook").waitFor();
  }],
  "busy-jobs-several-schedules": ["busy", "/jobs?name=s"],
  "busy-job-cancel": ["busy", `/jobs/${ids.running}`, async (page) => {
    await page.getByRole("button", { name: "Cancel job" }).click();
    await page.getByRole("heading", { name: /^Cancel the job of/ }).waitFor();
  }],
  "busy-job-success": ["busy", `/jobs/${ids.success}`],
  "busy-job-failed": ["busy", `/jobs/${ids.failed}`],
  "busy-job-running": ["busy", `/jobs/${ids.running}`],
  "busy-job-cancelled": ["busy", `/jobs/${ids.cancelled}`],
  "busy-channels": ["busy", "/channels"],
  "busy-channel": ["busy", `/channels/${ids.channel}`],
  "busy-channel-refused": ["busy", `/channels/${ids.bad}`, async (page) => {
    await page.getByRole("button", { name: "Verify channel" }).click();
    await page.getByRole("alert").waitFor();
  }],
  "busy-channel-delete": ["busy", `/channels/${ids.channel}/delete`],
  "busy-keys": ["busy", "/keys"],
  "busy-key-revoke": ["busy", "/keys", async (page) => {
    await page.getByRole("link", { name: "Revoke" }).first().click();
    await page.getByRole("heading", { name: /^Revoke the key/ }).waitFor();
  }],
  "busy-key-rotate": ["busy", "/keys", async (page) => {
    await page.getByRole("button", { name: "Rotate" }).first().click();
    await page.getByRole("heading", { name: /^Rotate the key/ }).waitFor();
  }],
  "busy-key-new": ["busy", "/keys", async (page) => {
    await page.getByLabel("Name").fill("reports");
    await page.getByRole("button", { name: "Create key" }).click();
    await page.getByRole("heading", { name: "Your new key" }).waitFor();
  }],
  "busy-channel-secret": ["busy", `/channels/${ids.channel}`, async (page) => {
    await page.getByText("Replace the signing secret").click();
    await page.getByRole("button", { name: "Replace secret" }).click();
    await page.getByRole("heading", { name: /^Replace the signing secret/ }).waitFor();
  }],
  "busy-channel-secret-new": ["busy", `/channels/${ids.channel}`, async (page) => {
    await page.getByText("Replace the signing secret").click();
    await page.getByRole("button", { name: "Replace secret" }).click();
    await page.getByRole("heading", { name: /^Replace the signing secret/ }).waitFor();
    await page.getByRole("button", { name: "Replace secret" }).click();
    await page.locator(".copy").first().waitFor();
  }],
  "busy-key-refused": ["busy", "/keys", async (page) => {
    await unchecked(page, "Create key");
  }],
  "busy-account": ["busy", "/account"],
  "busy-account-refused": ["busy", "/account", async (page) => {
    await page.getByLabel("E-mail address").fill("not an address");
    await unchecked(page, "Invite");
  }],
  "busy-account-rotate": ["busy", "/account", async (page) => {
    await page.getByRole("button", { name: "Rotate" }).click();
    await page.getByRole("heading", { name: "Rotate the signing secret?" }).waitFor();
  }],
  "busy-member-remove": ["busy", "/account", async (page) => {
    await page.getByRole("button", { name: "Remove" }).first().click();
    await page.getByRole("heading", { name: "Remove viewer@example.com?" }).waitFor();
  }],
  "busy-account-secrets": ["busy", "/account", async (page) => {
    await page.getByRole("button", { name: "Show the secrets" }).click();
    await page.locator(".copy").first().waitFor();
  }],
  "busy-schedule-new-refused": ["busy", "/schedules/new", async (page) => {
    await page.getByLabel("URL").fill("ftp://example.com/");
    await page.getByLabel("Cron expression", { exact: true }).fill("61 * * * *");
    await page.getByLabel("Time zone", { exact: true }).fill("Europe/Berln");
    await unchecked(page, "Create schedule");
  }],
  "busy-schedule-new-filled": ["busy", "/schedules/new", async (page) => {
    await page.getByLabel("Name", { exact: true }).fill("Nightly report");
    await page.getByLabel("URL").fill(`${target.url}works`);
    await page.getByLabel("Cron expression", { exact: true }).fill("30 2 * * SUN");
    await page.getByLabel("Time zone", { exact: true }).fill("Europe/Berlin");
    await page.getByText("At 02:30").first().waitFor();
    await page.getByRole("button", { name: "Send a test request now" }).click();
    await page.getByRole("heading", { name: "Test request" }).waitFor();
  }],
  "busy-import-refused": ["busy", "/schedules/import", async (page) => {
    await unchecked(page, "Preview");
  }],
  "busy-import-preview": ["busy", "/schedules/import", async (page) => {
    await page.getByLabel("Text", { exact: true }).fill(CRONTAB);
    await page.getByRole("button", { name: "Preview" }).click();
    await page.getByText("1 of 2").waitFor();
  }],
  "busy-channel-new-refused": ["busy", "/channels/new?type=slack", async (page) => {
    await page.getByLabel("Label").fill("Team");
    await page.getByLabel("Webhook URL").fill("https://example.com/");
    await unchecked(page, "Create channel");
  }],
  "busy-audit": ["busy", "/account/audit"],
  "viewer-schedule": ["viewer", `/schedules/${ids.fails}`],
  "viewer-account": ["viewer", "/account"],
  "viewer-forbidden": ["viewer", "/schedules/new", undefined, 403],
  "suspended-overview": ["suspended", ""],
  "sign-in-refused": ["outside", "/sign-in", async (page) => {
    await page.getByLabel("E-mail address").fill("ann@example.com");
    await page.getByLabel("Password").fill("not the password");
    await page.getByRole("button", { name: "Sign in" }).click();
    await page.getByRole("alert").waitFor();
  }],
  "sign-up-refused": ["outside", "/sign-up", async (page) => {
    await page.getByLabel("E-mail address").fill("ann@example.com");
    await page.getByLabel("Password").fill("short");
    await page.getByLabel("Name of your account").fill("Ann");
    await unchecked(page, "Sign up");
  }],
  "link-used": ["outside", "/first/used", async (page) => {
    await page.getByRole("button", { name: "Open the dashboard" }).click();
    await page.getByText("This link does not work").waitFor();
  }],
});

/** Sends a form although the browser would refuse it, and waits for the answer. */
async function unchecked(page, button) {
  const control = page.getByRole("button", { name: button, exact: true }).first();
  await control.evaluate((it) => { it.form.noValidate = true; });
  await control.click();
  await page.locator(".message").first().waitFor();
}

for (const look of LOOKS) {
  test(`every state is accessible: ${look.name}`, async (t) => {
    const contexts = {};
    for (const [name, storageState] of Object.entries(states)) {
      contexts[name] = await browser.newContext({ ...look.options, storageState });
    }
    for (const [name, [who, path, act, status = 200]] of Object.entries(all())) {
      await t.test(name, async () => {
        const page = await contexts[who].newPage();
        const complaints = complaintsOf(page, service);
        const answer = await page.goto(`${service.base}/dashboard${path}`);
        assert.equal(answer.status(), status, path);
        await act?.(page);
        await judge(page, look, name);
        assert.deepEqual(complaints, []);
        await page.close();
      });
    }
    for (const context of Object.values(contexts)) await context.close();
  });
}
