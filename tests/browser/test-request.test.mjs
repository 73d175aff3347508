// The test request of the form of a schedule, with and without script.

import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { after, before, test } from "node:test";
import { signUp, startBrowser, startService, startTarget } from "./service.mjs";

const AXE = await readFile(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const HOSTILE = `<img src=x onerror=alert(1)>`;

let service, browser, target;

before(async () => {
  [service, browser] = [await startService(), await startBrowser()];
  target = await startTarget((response) => {
    response.writeHead(418, { "x-hostile": HOSTILE }).end(HOSTILE);
  });
});

after(async () => {
  await browser.close();
  await target.stop();
  await service.stop();
});

for (const javaScriptEnabled of [true, false]) {
  test(`a form is tested, ${javaScriptEnabled ? "with" : "without"} script`, async () => {
    const context = await browser.newContext({ javaScriptEnabled });
    const page = await signUp(context, service, javaScriptEnabled ? "ann" : "bob");
    await page.goto(`${service.base}/dashboard/schedules/new`);
    const address = page.url();
    await page.getByLabel("Name", { exact: true }).fill("Nightly report");
    await page.getByLabel("URL").fill(`${target.url}?token=k3y`);
    await page.getByLabel("Name of header 1").fill("X-Token");
    await page.getByLabel("Value of header 1").fill("s3cret");
    const cron = page.getByLabel("Cron expression", { exact: true });
    const send = page.getByRole("button", { name: "Send a test request now" });

    // A message stands beside its field, and the input stays.
    await cron.fill("61 * * * *");
    await send.click();
    await page.locator("#cronExpression-message").waitFor();
    assert.equal(await page.getByLabel("Name", { exact: true }).inputValue(), "Nightly report");
    if (javaScriptEnabled) {
      assert.equal(await page.evaluate(() => document.activeElement.id), "cronExpression");
    }

    // The exchange is on the same page.
    await cron.fill("0 3 * * *");
    await send.click();
    const panel = page.locator("#test-result");
    await panel.getByText("Timeline").waitFor();
    const text = await panel.innerText();
    for (const shown of ["Failed", "418", HOSTILE, "x-token", "•••", "HTTP_STATUS"]) {
      assert.ok(text.includes(shown), `${shown} in ${text}`);
    }
    for (const secret of ["s3cret", "k3y"]) assert.ok(!text.includes(secret), text);
    assert.equal(await page.locator("main img").count(), 0);
    assert.equal(await page.locator("#cronExpression-message").count(), 0);
    assert.equal(page.url().split("?")[0], address);
    assert.equal(await page.getByLabel("Value of header 1").inputValue(), "s3cret");
    if (javaScriptEnabled) {
      await page.evaluate(AXE);
      const { violations } = await page.evaluate(() => window.axe.run());
      assert.deepEqual(violations.map(({ id, nodes }) => `${id}: ${nodes[0].html}`), []);
    }

    // Nothing was saved; the form still can be.
    await page.getByRole("button", { name: "Create schedule" }).click();
    await page.getByRole("heading", { name: "Nightly report" }).waitFor();
    await page.getByText("It has not run yet").or(page.getByText("Never")).first().waitFor();
    await context.close();
  });
}
