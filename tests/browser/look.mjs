// Takes pictures of every page, in light and dark, wide and as narrow as a phone, to be looked at: `node look.mjs FOLDER`.
import { spawn } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { chromium } from "playwright-core";
import { lowtide, run, stage } from "./stage.mjs";

const out = process.argv[2] ?? "pictures";
mkdirSync(out, { recursive: true });
const dir = mkdtempSync(join(tmpdir(), "lowtide-look-"));
run(stage, dir);
const report = join(dir, "report.html");
run(lowtide, "report", join(dir, "case.tide"), "-o", report);
const live = spawn(stage, ["--live", join(dir, "live.tide"), "600"], { stdio: "ignore" });
const env = { ...process.env, XDG_RUNTIME_DIR: dir, XDG_CACHE_HOME: dir };
const server = spawn(lowtide, ["serve", "--dir", dir, "--listen", "127.0.0.1:0"], { stdio: ["ignore", "pipe", "inherit"], env });
let text = "";
for await (const part of server.stdout) if ((text += part).includes("\n")) break;
const url = new URL(text.split("\n")[0]);
const chrome = await chromium.launch({ executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium", args: ["--no-sandbox", "--disable-dev-shm-usage"] });
// A run worth looking at has lived a little, and every run has its verdict.
await new Promise((done) => setTimeout(done, 12000));

const pages = {
  list: "/",
  live: "/run/live",
  case: "/run/case",
  early: "/run/early",
  leak: "/run/leak",
  killed: "/run/killed",
  ranks: "/group/55ee",
  compare: "/compare?a=case&b=leak",
};
const wanted = process.argv[3]?.split(",") ?? [...Object.keys(pages), "report"];
for (const colorScheme of ["light", "dark"]) {
  for (const [size, width] of [["wide", 1280], ["phone", 390]]) {
    const context = await chrome.newContext({ viewport: { width, height: 900 }, colorScheme });
    const page = await context.newPage();
    await page.goto(url.href);
    for (const name of wanted) {
      await page.goto(name === "report" ? `file://${report}` : url.origin + pages[name]);
      await page.waitForTimeout(400);
      await page.screenshot({ path: join(out, `${name}-${size}-${colorScheme}.png`), fullPage: true });
    }
    await context.close();
  }
}
await chrome.close();
live.kill("SIGKILL");
server.kill("SIGTERM");
rmSync(dir, { recursive: true, force: true });
