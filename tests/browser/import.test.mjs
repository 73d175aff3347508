// The import of schedules: a text or a file, its preview, and the button that creates them.

import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { after, before, test } from "node:test";
import { signUp, startBrowser, startService } from "./service.mjs";

const AXE = await readFile(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const HOSTILE = `<img src=x onerror=alert(1)>`;
const CRONTAB = `CRON_TZ=Europe/Berlin
30 2 * * * curl -fsS -H 'Authorization: Bearer s3cret' https://a.example/report?key=k3y
@hourly curl -k https://b.example/
0 3 * * * /opt/backup.sh '${HOSTILE}'
`;

let service, browser;

before(async () => {
  [service, browser] = [await startService(), await startBrowser()];
});

after(async () => {
  await browser.close();
  await service.stop();
});

for (const javaScriptEnabled of [true, false]) {
  test(`schedules are imported, ${javaScriptEnabled ? "with" : "without"} script`, async () => {
    const context = await browser.newContext({ javaScriptEnabled });
    const page = await signUp(context, service, javaScriptEnabled ? "ann" : "bob");
    await page.goto(`${service.base}/dashboard/schedules`);
    await page.getByRole("link", { name: "Import" }).click();

    // A text without schedules is refused beside its field, and stays.
    await page.getByLabel("Text", { exact: true }).fill("# nothing");
    await page.getByRole("button", { name: "Preview" }).click();
    await page.locator("#text-message").waitFor();
    assert.equal(await page.getByLabel("Text", { exact: true }).inputValue(), "# nothing");

    // Each line is shown as a schedule, or with the reason why it cannot be imported.
    await page.getByLabel("Text", { exact: true }).fill(CRONTAB);
    await page.getByRole("button", { name: "Preview" }).click();
    await page.getByText("1 of 3 can be imported").waitFor();
    const rows = await page.locator("tbody tr").allInnerTexts();
    assert.match(rows[0], /GET a\.example\/report[\s\S]*At 02:30[\s\S]*Europe\/Berlin[\s\S]*key=•••/);
    assert.match(rows[1], /The option -k is not supported/);
    assert.match(rows[2], /Only commands that call curl or wget/);
    assert.ok(!(await page.locator("main").innerText()).includes("s3cret"));
    assert.equal(await page.locator("main img").count(), 0);
    if (javaScriptEnabled) {
      await page.evaluate(AXE);
      const { violations } = await page.evaluate(() => window.axe.run());
      assert.deepEqual(violations.map(({ id, nodes }) => `${id}: ${nodes[0].html}`), []);
    }

    // The text can be changed, and the button creates the schedules of a file.
    await page.getByRole("button", { name: "Change the text" }).click();
    assert.equal(await page.getByLabel("Text", { exact: true }).inputValue(), CRONTAB);
    const schedule = {
      kind: "schedule", name: "Exported", cronExpression: "0 5 * * *", timezone: "UTC",
      endpoint: "https://c.example/", httpMethod: "GET",
    };
    await page.getByLabel("Or a file").setInputFiles({
      name: "export.jsonl", mimeType: "application/jsonl",
      buffer: Buffer.from(`{"kind":"account"}\n${JSON.stringify(schedule)}\n`),
    });
    await page.getByRole("button", { name: "Preview" }).click();
    await page.getByRole("button", { name: "Create 1 schedule" }).click();
    await page.getByRole("link", { name: "Exported" }).waitFor();
    assert.equal(await page.locator("tbody tr").count(), 1);
    await context.close();
  });
}
