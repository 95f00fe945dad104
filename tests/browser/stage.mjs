// The stage for tests in a real browser: recordings, the binary, Chromium.
import { execFileSync, spawn } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { chromium } from "playwright-core";

const root = join(dirname(fileURLToPath(import.meta.url)), "../..");
const built = process.env.LOWTIDE_BUILT ?? join(root, "target/debug");
export const lowtide = join(built, "lowtide");
export const stage = join(built, "examples/stage");

/** A folder of its own, gone when the test is over. */
export function folder(test) {
  const made = mkdtempSync(join(tmpdir(), "lowtide-browser-"));
  test.after(() => rmSync(made, { recursive: true, force: true }));
  return made;
}

export function run(program, ...args) {
  return execFileSync(program, args, { encoding: "utf8", stdio: ["ignore", "pipe", "inherit"] });
}

/** A program that is stopped when the test is over. */
export function start(test, program, ...args) {
  const child = spawn(program, args, { stdio: ["ignore", "pipe", "inherit"] });
  test.after(() => child.kill("SIGKILL"));
  return child;
}

/** Chromium for one test. Every request is written down; none may leave for a foreign place. */
export async function browser(test, options = {}) {
  const chrome = await chromium.launch({
    executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
    args: ["--no-sandbox", "--disable-dev-shm-usage"],
  });
  test.after(() => chrome.close());
  const context = await chrome.newContext({ viewport: { width: 1280, height: 900 }, ...options });
  const page = await context.newPage();
  const seen = { requests: [], errors: [] };
  page.on("request", (request) => seen.requests.push(request.url()));
  page.on("pageerror", (error) => seen.errors.push(error.message));
  page.on("console", (message) => message.type() === "error" && seen.errors.push(message.text()));
  return { page, context, seen };
}

/** What a chart shows of x. */
export async function view(page, chart = "main") {
  const text = await page.locator(`[data-chart="${chart}"]`).getAttribute("data-view");
  return text.split(" ").map(Number);
}

/** Starts a server over `dir` and gives its addresses once it is there. */
export async function server(t, dir, { home = folder(t) } = {}) {
  const env = { XDG_RUNTIME_DIR: home, XDG_CACHE_HOME: home };
  const child = start(t, "env", ...Object.entries(env).map(([k, v]) => `${k}=${v}`), lowtide, "serve", "--dir", dir, "--listen", "127.0.0.1:0");
  let text = "";
  for await (const part of child.stdout) {
    text += part;
    if (text.includes("token in ") && text.endsWith("\n")) break;
  }
  const url = new URL(text.split("\n")[0]);
  return { child, url: url.href, origin: url.origin, token: url.searchParams.get("token"), tokenFile: /token in (.*)/.exec(text)[1], home };
}

/** Waits until every run of the folder has its verdict. */
export async function judged(s) {
  for (;;) {
    const { runs } = await (await fetch(`${s.origin}/api/v1/runs`, { headers: { authorization: `Bearer ${s.token}` } })).json();
    if (runs.length > 0 && runs.every((one) => one.verdict || one.error)) return runs;
    await new Promise((done) => setTimeout(done, 100));
  }
}
