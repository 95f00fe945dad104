// The report in a real browser, without a network.
import assert from "node:assert/strict";
import { readdirSync } from "node:fs";
import { join } from "node:path";
import test from "node:test";
import { browser, folder, lowtide, run, stage, view } from "./stage.mjs";

function report(t, name) {
  const dir = folder(t);
  run(stage, dir);
  const out = join(dir, "report.html");
  run(lowtide, "report", join(dir, name), "-o", out);
  return `file://${out}`;
}

test("a report opens offline, asks nobody for anything and draws its charts", async (t) => {
  const address = report(t, "case.tide");
  const { page, seen } = await browser(t, { offline: true });
  await page.goto(address);
  await page.locator('[data-chart="main"] canvas').waitFor();
  assert.equal(await page.locator("canvas").count(), 3);
  assert.match(await page.locator("h1").innerText(), /^Cache fill: every example keeps 20\.4 MiB/);
  assert.deepEqual(seen.requests.filter((url) => url !== address && !url.startsWith("data:")), []);
  assert.deepEqual(seen.errors, []);
});

test("keys, buttons and dragging zoom; a double click shows all again", async (t) => {
  const address = report(t, "case.tide");
  const { page } = await browser(t, { offline: true });
  await page.goto(address);
  const chart = page.locator('[data-chart="main"]');
  const whole = await view(page);
  await chart.focus();
  await page.keyboard.press("+");
  const near = await view(page);
  assert.ok(near[0] > whole[0] && near[1] < whole[1], `${near} inside ${whole}`);
  await page.keyboard.press("ArrowRight");
  assert.ok((await view(page))[0] > near[0]);
  await page.getByRole("button", { name: "show all" }).click();
  assert.deepEqual(await view(page), whole);
  const over = await page.locator('[data-chart="main"] .u-over').boundingBox();
  await page.mouse.move(over.x + over.width * 0.25, over.y + 80);
  await page.mouse.down();
  await page.mouse.move(over.x + over.width * 0.5, over.y + 90, { steps: 5 });
  await page.mouse.up();
  const dragged = await view(page);
  assert.ok(Math.abs(dragged[0] - 60) < 6 && Math.abs(dragged[1] - 120) < 6, `${dragged}`);
  await page.locator('[data-chart="main"] .u-over').dblclick();
  assert.deepEqual(await view(page), whole);
});

test("hover tells the numbers and toggles hide a series", async (t) => {
  const { page } = await browser(t, { offline: true });
  await page.goto(report(t, "case.tide"));
  const over = await page.locator('[data-chart="main"] .u-over').boundingBox();
  await page.mouse.move(over.x + over.width * 0.75, over.y + 100);
  const tip = page.locator('[data-chart="main"] .tip');
  assert.match(await tip.innerText(), /step 1[78]\d(.|\n)*memory: 18\.\d GiB/);
  const toggle = page.getByRole("button", { name: "show or hide: floor" });
  assert.match(await tip.innerText(), /floor/);
  await toggle.click();
  assert.equal(await toggle.getAttribute("aria-pressed"), "false");
  await page.mouse.move(over.x + over.width * 0.7, over.y + 100);
  assert.doesNotMatch(await tip.innerText(), /floor/);
});

test("markup in names, arguments and file names never runs", async (t) => {
  const dir = folder(t);
  run(stage, dir);
  const name = readdirSync(dir).find((file) => file.startsWith("<img"));
  const out = join(dir, "report.html");
  run(lowtide, "report", join(dir, name), "-o", out);
  const { page } = await browser(t, { offline: true });
  await page.goto(`file://${out}`);
  await page.locator("canvas").first().waitFor();
  assert.equal(await page.evaluate(() => window.pwned), undefined);
  assert.equal(await page.locator("img").count(), 0);
  assert.match(await page.locator("body").innerText(), /<img src=x onerror=/);
});

test("without script the answer and the figure are still there", async (t) => {
  const { page } = await browser(t, { offline: true, javaScriptEnabled: false });
  await page.goto(report(t, "early.tide"));
  assert.match(await page.locator("h1").innerText(), /^Too early to say/);
  assert.equal(await page.locator('[data-chart="main"] svg.figure').count(), 1);
  assert.ok((await page.locator(".future").count()) >= 2, "both futures are drawn");
});

test("nothing is wider than a phone, in light and in dark", async (t) => {
  const address = report(t, "leak.tide");
  for (const colorScheme of ["light", "dark"]) {
    const { page } = await browser(t, { offline: true, colorScheme, viewport: { width: 390, height: 800 } });
    await page.goto(address);
    await page.locator("canvas").first().waitFor();
    const [room, need] = await page.evaluate(() => [innerWidth, document.documentElement.scrollWidth]);
    assert.ok(need <= room, `${need} > ${room}`);
    await page.context().browser().close();
  }
});

test("it prints", async (t) => {
  const { page } = await browser(t, { offline: true });
  await page.goto(report(t, "case.tide"));
  await page.locator("canvas").first().waitFor();
  const pdf = await page.pdf({ format: "A4" });
  const pages = pdf.toString("latin1").match(/\/Type\s*\/Page\b/g)?.length ?? 0;
  assert.ok(pages >= 2 && pages <= 6, `${pages} pages`);
});
