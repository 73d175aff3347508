// The looks in which pages are judged, and the judgement of one page: no violation of accessibility
// rules, no sideways scrolling, no complaint of the browser; and its picture.

import assert from "node:assert/strict";
import { mkdir, readFile } from "node:fs/promises";
import { createRequire } from "node:module";

const AXE = await readFile(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

export const LOOKS = [
  { name: "light", options: { colorScheme: "light", viewport: { width: 1280, height: 900 } } },
  { name: "dark", options: { colorScheme: "dark", viewport: { width: 1280, height: 900 } } },
  { name: "phone", options: { colorScheme: "light", viewport: { width: 390, height: 844 } } },
];

/** Returns the list of complaints about a page, which grows while the page is used. */
export function complaintsOf(page, service) {
  const complaints = [];
  page.on("dialog", (dialog) => { complaints.push("a dialog"); dialog.dismiss(); });
  page.on("console", (line) => {
    // The browser notes an answer such as 404 or 422, which the tests expect.
    const isStatus = /the server responded with a status of 4\d\d/.test(line.text());
    if (line.type() === "error" && !isStatus) complaints.push(line.text());
  });
  page.on("request", (request) => {
    if (!request.url().startsWith(service.base)) complaints.push(request.url());
  });
  return complaints;
}

/** Fails if a page violates a rule of accessibility. */
export async function assertAccessible(page) {
  await page.evaluate(AXE);
  const { violations } = await page.evaluate(() => window.axe.run());
  assert.deepEqual(violations.map(({ id, nodes }) => `${id}: ${nodes[0].html}`), []);
}

/** Judges a page in a look, and keeps its picture under a name. */
export async function judge(page, look, name) {
  const width = await page.evaluate(() => document.documentElement.scrollWidth);
  assert.ok(width <= page.viewportSize().width, `${width} px wide`);
  const hidden = await page.locator(".stack").evaluateAll((tables) =>
    tables.filter((table) => table.scrollWidth > table.clientWidth).map((table) => table.textContent));
  assert.deepEqual(look.name === "phone" ? hidden : [], [], "a list of a page scrolls sideways");
  await assertAccessible(page);
  await keepPicture(page, `${name}-${look.name}`);
}

/** Keeps a picture of a whole page, if the tests are asked for pictures. */
export async function keepPicture(page, name) {
  const shots = process.env.PUNCTUAL_SCREENSHOTS;
  if (!shots) return;
  await mkdir(shots, { recursive: true });
  await page.screenshot({ path: `${shots}/${name}.png`, fullPage: true });
}
