// Every page by the rules of WCAG, as axe knows them, in light and in dark; and by keyboard alone.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import test from "node:test";
import { browser, folder, judged, run, server, stage } from "./stage.mjs";

const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

/** What is wrong with a page, in a few words each. */
async function wrong(page) {
  // By the debugger, not by a script element: the page's own policy lets no foreign script in, and that is good.
  await page.evaluate(axe);
  const { violations } = await page.evaluate(() => window.axe.run(document, { runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "best-practice"] }));
  return violations.map(({ id, nodes }) => `${id}: ${nodes.slice(0, 3).map((node) => node.target.join(" ")).join("; ")}`);
}

for (const colorScheme of ["light", "dark"]) {
  test(`no page breaks a rule of WCAG, ${colorScheme}`, async (t) => {
    const dir = folder(t);
    run(stage, dir);
    const s = await server(t, dir);
    await judged(s);
    const found = [];
    for (const width of [1280, 390]) {
      const { page } = await browser(t, { colorScheme, viewport: { width, height: 900 } });
      await page.goto(s.url);
      for (const path of ["/", "/?q=nothing-like-this", "/run/case", "/run/early", "/run/leak", "/run/killed", "/group/55ee", "/compare?a=case&b=leak"]) {
        await page.goto(s.origin + path);
        for (const one of await wrong(page)) found.push(`${path} at ${width}: ${one}`);
      }
    }
    assert.deepEqual(found, []);
  });
}

test("everything can be done by keyboard: filter, open a run, zoom, hide a curve", async (t) => {
  const dir = folder(t);
  run(stage, dir);
  const s = await server(t, dir);
  await judged(s);
  const { page } = await browser(t);
  await page.goto(s.url);
  /** Presses Tab until something is reached. */
  const reach = async (what) => {
    for (let n = 0; n < 60; n++) {
      await page.keyboard.press("Tab");
      if (await page.evaluate((css) => document.activeElement?.matches(css), what)) return;
    }
    assert.fail(`${what} can't be reached`);
  };
  await reach('input[type="search"]');
  await page.keyboard.type("vision");
  await page.keyboard.press("Enter");
  await page.waitForURL(/q=vision/);
  await reach('a[href="/run/case"]');
  await page.keyboard.press("Enter");
  await page.waitForURL(/run\/case/);
  const before = await page.locator('[data-chart="main"]').getAttribute("data-view");
  await reach('[data-tools="main"] .toggle');
  await page.keyboard.press("Space");
  assert.equal(await page.evaluate(() => document.activeElement.getAttribute("aria-pressed")), "false");
  await reach('[data-chart="main"]');
  await page.keyboard.press("+");
  assert.notEqual(await page.locator('[data-chart="main"]').getAttribute("data-view"), before);
});
