// Somebody who has only a browser: from the page alone, does the run leak, what is it, does it fit, what to do?
import assert from "node:assert/strict";
import { dirname, join } from "node:path";
import test from "node:test";
import { fileURLToPath } from "node:url";
import { browser, folder, lowtide, run, server, judged } from "./stage.mjs";

const root = join(dirname(fileURLToPath(import.meta.url)), "../..");
const ABOUT = ["--examples", "663", "--batch", "2", "--accum", "4", "--limit", "32GB"];

/** The report of a curve of the case, as its documents wrote it down. */
function page(t, name) {
  const out = join(folder(t), "case.html");
  run(lowtide, "report", join(root, "docs/case", name), ...ABOUT, "-o", out);
  return `file://${out}`;
}

/** What a reader sees before scrolling. */
async function atFirstSight(page) {
  return page.evaluate(() => {
    const seen = [...document.querySelectorAll("h1, .badge, .outcome, .matters, .do")];
    return seen.filter((one) => one.getBoundingClientRect().bottom <= innerHeight).map((one) => one.innerText).join("\n");
  });
}

for (const [size, viewport] of Object.entries({ wide: { width: 1280, height: 800 }, phone: { width: 390, height: 844 } })) {
  test(`the case, ${size}: no leak, every example kept, it fits, and what to do, before scrolling`, async (t) => {
    const { page: tab } = await browser(t, { offline: true, viewport });
    await tab.goto(page(t, "run-2.txt"));
    const seen = await atFirstSight(tab);
    assert.match(seen, /cache fill/i, "what it is");
    assert.match(seen, /every example keeps 20\.3 MiB the first time it is used/);
    assert.match(seen, /ended at step 82\.6, with the first pass over the data/);
    assert.match(seen, /Fits: needs at most 16\.5 GiB \(17\.7 GB\); the limit is 29\.8 GiB \(32\.0 GB\)/, "whether it fits");
    assert.match(seen, /2,000 examples need 43\.1 GiB/, "and what would not");
    assert.match(seen, /Do this\s*Keep examples encoded and decode them when they are used/i, "what to do");
    const not = tab.getByRole("heading", { name: "What it is not" });
    assert.match(await not.locator("xpath=..").innerText(), /leak: after step 82\.6 the floor fell/, "whether it leaks, and why not");
    assert.match(await tab.locator("body").innerText(), /To be sure\s+Run it with 331 examples: growth must end near step 41\.4/, "what would prove it wrong");
  });
}

test("the case while it was undecided: both explanations, what each foretells, and when it is known", async (t) => {
  const { page: tab } = await browser(t, { offline: true });
  await tab.goto(page(t, "run-1.txt"));
  assert.match(await atFirstSight(tab), /Too early to say(.|\n)*two explanations still fit; decided at step 83/);
  const legend = await tab.locator(".legend").first().innerText();
  assert.match(legend, /Cache fill: growth ends at step 82\.9/);
  assert.match(legend, /Leak: the floor goes on rising/);
  for (const name of ["show or hide: if leak", "show or hide: if cache fill"]) assert.equal(await tab.getByRole("button", { name }).count(), 1);
});

// The case in small: every example keeps its pixels when it is first used, and a list keeps every example.
const JOB = `
import time
import lowtide

class Picture:
    def __init__(self):
        self.pixels = None

    def load(self):
        if self.pixels is None:
            self.pixels = bytearray(1 << 20)
            self.pixels[::4096] = b"x" * len(self.pixels[::4096])

TRAIN_SET = [Picture() for _ in range(240)]
lowtide.mark("info", examples=240, batch=2, accum=2)
for epoch in range(6):
    for first in range(0, 240, 4):
        with lowtide.step():
            for picture in TRAIN_SET[first : first + 4]:
                picture.load()
                time.sleep(0.05)
`;

test("a real job of that kind, recorded, scanned and served: the page names the pictures and the list that holds them", async (t) => {
  const dir = folder(t);
  const env = ["env", `PYTHONPATH=${join(root, "python")}`];
  run(...env, lowtide, "run", "--interval", "100ms", "--name", "pictures", "--out", join(dir, "pictures.tide"), "--", "python3", "-c", JOB);
  const s = await server(t, dir);
  await judged(s);
  const { page: tab } = await browser(t);
  await tab.goto(s.url);
  await tab.getByRole("link", { name: "pictures" }).click();
  const seen = await atFirstSight(tab);
  assert.match(seen, /cache fill/i);
  assert.match(seen, /\bfits\b/i);
  assert.match(seen, /every example keeps [\d.]+ [KM]iB/);
  const held = await tab.locator(".held").innerText();
  assert.match(held, /(What grew|What it holds), and who holds it/);
  assert.match(held, /bytearray\s+(\S+\s+)*240\s+24\d MiB/, "the pixels of all pictures");
  // Who holds them is looked for only as long as a scan may take; where it was found, it is named.
  const { scan } = await (await fetch(`${s.origin}/api/v1/runs/pictures`, { headers: { authorization: `Bearer ${s.token}` } })).json();
  if (scan.holders.some((one) => one.way.length > 0)) assert.match(held, /global TRAIN_SET of module __main__(.|\n)*Picture\.pixels/);
});
