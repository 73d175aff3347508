// Actions on all schedules that match the filters of the list, with and without script.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { assertAccessible, complaintsOf } from "./look.mjs";
import { signUp, startBrowser, startClient, startService } from "./service.mjs";

const UNLIMITED = { PUNCTUAL_RATE_PER_MINUTE: "0", PUNCTUAL_RATE_PER_HOUR: "0" };
/** More than one request changes. */
const SOME = 520;

let service, browser;

before(async () => {
  [service, browser] = [await startService(UNLIMITED), await startBrowser()];
});

after(async () => {
  await browser.close();
  await service.stop();
});

/** Signs up a user with many schedules, and returns the page and a client of the account. */
async function withSchedules(context, name) {
  const page = await signUp(context, service, name);
  const { stdout } = await service.run("key", "create", "--account", name, "--name", "tests");
  const client = startClient(service, stdout.match(/pnc_\w+/)[0]);
  await client.call("POST", "/schedules/bulk", [...Array(SOME).keys()].map((number) => ({
    name: `Sync ${number}`, endpoint: "https://a.example/", httpMethod: "GET",
    cronExpression: "0 6 * * *", timezone: "UTC",
  })));
  await client.call("POST", "/schedules", {
    name: "Bystander", endpoint: "https://a.example/", httpMethod: "GET",
    cronExpression: "0 6 * * *", timezone: "UTC",
  });
  return { page, client };
}

const open = (page) => page.goto(`${service.base}/dashboard/schedules?q=Sync`);
const choice = (page) => page.getByLabel(`Select all ${SOME} schedules that match these filters`);

test("all that match are paused in steps, undone and deleted", async () => {
  const context = await browser.newContext();
  const { page } = await withSchedules(context, "ann");
  const complaints = complaintsOf(page, service);
  await open(page);
  assert.equal(await choice(page).isVisible(), false);
  await page.getByLabel("Select all", { exact: true }).check();
  await choice(page).check();
  // The choice exists only while all boxes of the page are ticked.
  await page.getByLabel(/^Select Sync/).first().uncheck();
  assert.equal(await choice(page).isVisible(), false);
  await page.getByLabel(/^Select Sync/).first().check();
  assert.equal(await choice(page).isChecked(), false);
  await choice(page).check();
  await page.getByRole("button", { name: "Pause" }).click();
  await page.getByRole("heading", { name: `Pause ${SOME} schedules?` }).waitFor();
  await page.getByText("contains “Sync”").waitFor();
  await assertAccessible(page);
  await page.getByRole("button", { name: `Pause ${SOME} schedules` }).click();
  // The script continues by itself.
  await page.getByText(`Paused ${SOME} schedules.`).waitFor();
  await page.getByRole("button", { name: "Undo" }).waitFor();
  await assertAccessible(page);
  await page.getByRole("button", { name: "Undo" }).click();
  await page.getByText(`Enabled ${SOME} schedules.`).waitFor();
  assert.equal(new URL(page.url()).pathname, "/dashboard/schedules/bulk");
  await page.goto(page.url());
  assert.equal(new URL(page.url()).pathname, "/dashboard/schedules");

  await open(page);
  await page.getByLabel("Select all", { exact: true }).check();
  await choice(page).check();
  await page.getByRole("button", { name: "Delete" }).click();
  await page.getByText("This cannot be undone.").waitFor();
  await page.getByRole("button", { name: `Delete ${SOME} schedules` }).click();
  await page.getByText(`Deleted ${SOME} schedules.`).waitFor();
  assert.equal(await page.getByRole("button", { name: "Undo" }).count(), 0);
  await page.goto(`${service.base}/dashboard/schedules`);
  await page.getByRole("link", { name: "Bystander" }).waitFor();
  await page.getByText("1 to 1 of 1").waitFor();
  assert.deepEqual(complaints, []);
  await context.close();
});

test("without script all that match are paused, with a button for each step", async () => {
  const context = await browser.newContext({ javaScriptEnabled: false });
  const { page, client } = await withSchedules(context, "bob");
  await open(page);
  await choice(page).check();
  await page.getByRole("button", { name: "Pause" }).click();
  await page.getByRole("link", { name: "Cancel" }).click();
  await choice(page).check();
  await page.getByRole("button", { name: "Pause" }).click();
  await page.getByRole("button", { name: `Pause ${SOME} schedules` }).click();
  await page.getByText("Paused 500 schedules.").waitFor();
  await page.getByRole("button", { name: "Continue" }).click();
  await page.getByText(`Paused ${SOME} schedules.`).waitFor();
  const schedules = await client.call("GET", "/schedules?isEnabled=true");
  assert.deepEqual(schedules.map(({ name }) => name), ["Bystander"]);
  await context.close();
});

test("with the keyboard alone all that match are chosen", async () => {
  const context = await browser.newContext();
  const { page } = await withSchedules(context, "eve");
  await open(page);
  await page.getByLabel("Select all", { exact: true }).focus();
  await page.keyboard.press("Space");
  await choice(page).focus();
  await page.keyboard.press("Space");
  await page.keyboard.press("Tab");
  await page.keyboard.press("Tab");
  assert.equal(await page.evaluate(() => document.activeElement.textContent), "Pause");
  await page.keyboard.press("Enter");
  await page.getByRole("heading", { name: `Pause ${SOME} schedules?` }).waitFor();
  await context.close();
});
