// The live page in a real browser, over a real server.
import assert from "node:assert/strict";
import { execFileSync, spawnSync } from "node:child_process";
import { chmodSync, copyFileSync, readFileSync, readdirSync, statSync, symlinkSync, writeFileSync } from "node:fs";
import { connect } from "node:net";
import { join } from "node:path";
import test from "node:test";
import { browser, folder, judged, lowtide, run, server, stage, start, view } from "./stage.mjs";

async function staged(t) {
  const dir = folder(t);
  run(stage, dir);
  return dir;
}

test("the list shows every run with both badges; search, filter and sort narrow it", async (t) => {
  const s = await server(t, await staged(t));
  const runs = await judged(s);
  const { page, seen } = await browser(t);
  await page.goto(s.url);
  assert.equal(new URL(page.url()).search, "", "the token has left the address");
  assert.equal(await page.locator("table.runs tbody tr").count(), runs.length);
  const row = page.locator("tr", { hasText: "rollout server" });
  assert.match(await row.innerText(), /leak/);
  assert.equal(await row.locator("svg.spark").count(), 1);
  await page.getByRole("searchbox").fill("rollout");
  await page.keyboard.press("Enter");
  await page.waitForURL(/q=rollout/);
  assert.equal(await page.locator("table.runs tbody tr").count(), 1);
  await page.getByRole("searchbox").fill("");
  await page.getByLabel("verdict").selectOption("cache-fill");
  await page.waitForURL(/verdict=cache-fill/);
  const kinds = await page.locator("table.runs tbody .badge:not(.outline)").allInnerTexts();
  assert.ok(kinds.length >= 1 && kinds.every((kind) => kind === "cache fill"), `${kinds}`);
  assert.deepEqual(seen.errors, []);
  assert.ok(seen.requests.every((url) => url.startsWith(s.origin) || url.startsWith("data:")), "nobody else is asked");
});

test("a run is followed while it grows, and the reader's zoom stays", async (t) => {
  const dir = folder(t);
  const live = join(dir, "live.tide");
  start(t, stage, "--live", live, "30");
  const s = await server(t, dir);
  const { page, seen } = await browser(t);
  await page.goto(s.url);
  await page.getByRole("link", { name: "live run" }).click({ timeout: 20000 });
  await page.locator('[data-chart="main"] canvas').waitFor();
  // Judged from the recording, so the floor is drawn while the run goes on.
  await page.getByRole("button", { name: "show or hide: floor" }).waitFor();
  assert.ok((await page.evaluate(() => JSON.parse(document.getElementById("lowtide-page").textContent).figure.floor.length)) > 1);
  const end = async () => (await view(page))[1];
  const before = await end();
  await page.waitForFunction((old) => Number(document.querySelector('[data-chart="main"]').dataset.view.split(" ")[1]) > old, before, { timeout: 20000 });
  await page.locator('[data-chart="main"]').focus();
  await page.keyboard.press("+");
  const looking = await view(page);
  const sentence = await page.locator('[data-part="facts"]').innerText();
  await page.waitForFunction((old) => document.querySelector('[data-part="facts"]').innerText !== old, sentence, { timeout: 20000 });
  const still = await view(page);
  assert.ok(Math.abs(still[0] - looking[0]) < 1e-6 && Math.abs(still[1] - looking[1]) < 1e-6, `${still} was ${looking}`);
  assert.match(await page.locator("#live").innerText(), /Following the run/);
  assert.deepEqual(seen.errors, []);
});

test("a run whose recorder was killed is said to be cut off, on its page and in the list", async (t) => {
  const dir = folder(t);
  const recorder = start(t, stage, "--live", join(dir, "live.tide"), "60");
  const s = await server(t, dir);
  const { page } = await browser(t);
  await judged(s);
  await page.goto(s.url);
  await page.goto(`${s.origin}/run/live`);
  await page.locator(".state-running").waitFor();
  recorder.kill("SIGKILL");
  await page.locator(".state-cut-off").waitFor({ timeout: 40000 });
  assert.match(await page.locator("#live").innerText(), /The run is over/);
  await page.goto(s.origin);
  while (!(await page.locator(".state-cut-off").count())) {
    await new Promise((done) => setTimeout(done, 500));
    await page.reload();
  }
});

test("ranks of one run stand together and the one that differs is named", async (t) => {
  const s = await server(t, await staged(t));
  await judged(s);
  const { page } = await browser(t);
  await page.goto(s.url);
  await page.getByRole("link", { name: "all 4 of this run" }).first().click();
  assert.match(await page.locator("h1").innerText(), /Rank 2 /);
  await page.locator('[data-chart="curves"] canvas').waitFor();
  assert.equal(await page.locator("tbody").first().locator("tr").count(), 4);
});

test("two runs picked in the list are compared as lowtide compare does it: whose, which kind, which phase, noise or not", async (t) => {
  const dir = await staged(t);
  const s = await server(t, dir);
  const ids = new Map((await judged(s)).map((one) => [one.name, one]));
  const { page, seen } = await browser(t);
  await page.goto(s.url);
  const names = ["rollout server", "text-only baseline"];
  for (const name of names) await page.getByLabel(`choose ${name}`).check();
  await page.getByRole("button", { name: "compare them" }).click();
  await page.locator('[data-chart="curves"] canvas').waitFor();
  // The older one is A.
  const [a, b] = names.map((name) => ids.get(name)).sort((x, y) => x.started_unix_ns - y.started_unix_ns);
  assert.deepEqual(await page.locator(".sides li").allInnerTexts().then((all) => all.map((text) => text.split("\n").slice(0, 2))), [["A", a.name], ["B", b.name]]);
  const told = JSON.parse(run(lowtide, "compare", join(dir, `${a.id}.tide`), join(dir, `${b.id}.tide`), "--format", "json"));
  assert.equal((await page.locator("h1").innerText()).toLowerCase(), `${told.headline}.`.toLowerCase());
  assert.match(told.headline, /of the trainer/);
  const rows = await page.locator("table.differs tbody tr").allInnerTexts();
  const has = (...words) => rows.some((row) => words.every((word) => row.includes(word)));
  assert.ok(has("Memory", "at the end", "differs"), rows.join("\n"));
  assert.ok(has("Anonymous memory of the trainer", "growth", "differs"), rows.join("\n"));
  assert.ok(has("growth a step"), rows.join("\n"));
  assert.match(await page.locator("main").innerText(), /how much one run differs from the next is not known/);
  assert.deepEqual(seen.errors, []);
});

test("runs are put on two sides, and their spread is the noise", async (t) => {
  const dir = folder(t);
  run(stage, dir);
  for (const name of ["leak", "steady"]) copyFileSync(join(dir, `${name}.tide`), join(dir, `${name}-again.tide`));
  const s = await server(t, dir);
  await judged(s);
  const { page } = await browser(t);
  await page.goto(s.url);
  const picks = ["leak", "leak-again", "steady", "steady-again"];
  await page.goto(`${s.origin}/compare?${picks.map((id) => `pick=${id}`).join("&")}`);
  assert.equal(await page.locator("table.differs").count(), 0, "four runs have no sides by themselves");
  for (const id of picks) await page.locator("tr", { has: page.locator(`a[href="/run/${id}"]`) }).locator("select").selectOption(id.startsWith("leak") ? "A" : "B");
  await page.getByRole("button", { name: "compare the sides" }).click();
  await page.waitForURL(/side=/);
  assert.match(await page.locator("h1").innerText(), /^B holds .* less at its end.*more than the spread between runs\.$/);
  assert.equal(await page.locator(".sides li").count(), 4);
  assert.deepEqual(await page.locator("select").evaluateAll((all) => all.map((one) => one.selectedOptions[0].text)), ["A", "A", "B", "B"]);
});

test("one run against itself shows no difference, and a comparison of one run is refused", async (t) => {
  const s = await server(t, await staged(t));
  await judged(s);
  const { page } = await browser(t);
  await page.goto(s.url);
  await page.goto(`${s.origin}/compare?a=leak&b=leak`);
  assert.match(await page.locator("h1").innerText(), /^No difference that is more than noise/);
  assert.equal(await page.locator("table.differs .badge.calm").count(), 0);
  assert.equal((await page.goto(`${s.origin}/compare?a=leak`)).status(), 400);
  assert.equal((await page.goto(`${s.origin}/compare?a=leak&b=nothing`)).status(), 404);
});

test("the report is downloaded whole", async (t) => {
  const s = await server(t, await staged(t));
  const { page } = await browser(t);
  await page.goto(s.url);
  await page.goto(`${s.origin}/run/case`);
  const [download] = await Promise.all([page.waitForEvent("download"), page.getByRole("link", { name: "Download report" }).click()]);
  assert.equal(download.suggestedFilename(), "case.html");
  assert.match(readFileSync(await download.path(), "utf8"), /^<!DOCTYPE html>(.|\n)*Cache fill/);
});

test("markup in names never runs, on no page", async (t) => {
  const s = await server(t, await staged(t));
  await judged(s);
  const { page } = await browser(t);
  await page.goto(s.url);
  const name = encodeURIComponent("<img src=x onerror=window.pwned=1>");
  const group = encodeURIComponent('<img src=x onerror="window.pwned=1">');
  for (const path of ["/", `/run/${name}`, `/group/${group}`, `/compare?a=${name}&b=case`, `/?q=${encodeURIComponent('"><img src=x onerror=window.pwned=1>')}`]) {
    const answer = await page.goto(s.origin + path);
    assert.equal(answer.status(), 200, path);
    assert.equal(await page.locator("img").count(), 0, path);
    assert.equal(await page.evaluate(() => window.pwned), undefined, path);
  }
});

test("without the token nobody reads anything", async (t) => {
  const s = await server(t, await staged(t));
  const paths = ["/", "/run/case", "/metrics", "/app.js", "/api/v1/runs", "/api/v1/recording/case", "/api/v1/events/case", "/compare?a=case&b=leak", "/nothing"];
  for (const path of paths) {
    for (const headers of [{}, { authorization: "Bearer 00" }, { cookie: `lowtide=${"0".repeat(64)}` }]) {
      const answer = await fetch(s.origin + path, { headers, redirect: "manual" });
      assert.equal(answer.status, 401, path);
      assert.doesNotMatch(await answer.text(), /train|case/);
    }
  }
  assert.equal(statSync(s.tokenFile).mode & 0o777, 0o600);
  assert.equal(readFileSync(s.tokenFile, "utf8"), s.token);
});

/** What another user of this machine gets; only root can be somebody else. */
function asStranger(...command) {
  return spawnSync("setpriv", ["--reuid=65534", "--regid=65534", "--clear-groups", ...command], { encoding: "utf8" });
}

test("a second user of the machine can read nothing", { skip: process.getuid() !== 0 && "only root can be a second user" }, async (t) => {
  const dir = await staged(t);
  const home = folder(t);
  // Folders that others may walk through: only the files' own modes keep them out.
  for (const open of [dir, home]) chmodSync(open, 0o755);
  const s = await server(t, dir, { home });
  await judged(s);
  const own = asStranger("id", "-u");
  assert.equal(own.stdout.trim(), "65534", own.stderr);
  // The door is open to them as it is to everybody on loopback; without the token it tells nothing.
  for (const path of ["/", "/run/case", "/metrics", "/api/v1/runs", "/api/v1/recording/case", "/?token=", "/api/v1/events/case"]) {
    const told = asStranger("curl", "-sS", "-o", "-", "-w", "\n%{http_code}", s.origin + path);
    assert.match(told.stdout, /\n401$/, `${path}: ${told.stderr}`);
    assert.doesNotMatch(told.stdout, /train|case|gpu-07/);
  }
  const process_ = s.child.pid;
  const looks = [
    ["cat", s.tokenFile],
    ["ls", join(s.home, "lowtide")],
    ["cat", join(dir, "case.tide")],
    ["sh", "-c", `cat ${s.home}/lowtide/summaries-*`],
    ["cat", `/proc/${process_}/environ`],
    ["ls", `/proc/${process_}/fd`],
  ];
  for (const look of looks) {
    const told = asStranger(...look);
    assert.notEqual(told.status, 0, look.join(" "));
    assert.equal(told.stdout, "", look.join(" "));
  }
  // What every user may see of a process does not hold the token.
  assert.doesNotMatch(asStranger("cat", `/proc/${process_}/cmdline`).stdout, new RegExp(s.token));
});

test("a second user can't open a socket, nor prepare a place for the token", { skip: process.getuid() !== 0 && "only root can be a second user" }, async (t) => {
  const dir = await staged(t);
  const home = folder(t);
  chmodSync(home, 0o755);
  const socket = join(home, "s.sock");
  const child = start(t, lowtide, "serve", "--dir", dir, "--socket", socket);
  for await (const part of child.stdout) if (String(part).includes("recordings of")) break;
  const told = asStranger("curl", "-sS", "--unix-socket", socket, "http://localhost/api/v1/runs");
  assert.notEqual(told.status, 0);
  assert.equal(told.stdout, "");
  // A folder that others may write into, or own, is refused with a reason.
  const theirs = folder(t);
  chmodSync(theirs, 0o777);
  const refused = spawnSync(lowtide, ["serve", "--dir", dir, "--listen", "127.0.0.1:0", "--token-file", join(theirs, "token")], { encoding: "utf8" });
  assert.equal(refused.status, 2);
  assert.match(refused.stderr, /cannot keep a token(.|\n)*others may write into its folder/);
});

test("endless heads, endless waiting and bodies are cut off, and others are served meanwhile", async (t) => {
  const s = await server(t, await staged(t));
  const { port } = new URL(s.origin);
  /** Sends and gives what came back when the server hung up. */
  const talk = (text) =>
    new Promise((done) => {
      const socket = connect(Number(port), "127.0.0.1", () => socket.write(text));
      let came = "";
      socket.on("data", (part) => (came += part));
      socket.on("error", () => {});
      socket.on("close", () => done(came));
    });
  const slow = Array.from({ length: 50 }, () => talk("GET / HTTP/1.1\r\nhost: loc"));
  assert.match(await talk(`GET / HTTP/1.1\r\nhost: localhost\r\nx: ${"a".repeat(200000)}\r\n\r\n`), /^(HTTP\/1.1 431|$)/);
  const body = await talk(`POST /api/v1/runs HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer ${s.token}\r\ncontent-length: 900000000\r\nconnection: close\r\n\r\nx`);
  assert.match(body, /^HTTP\/1.1 405/);
  const answer = await fetch(`${s.origin}/api/v1/runs`, { headers: { authorization: `Bearer ${s.token}` } });
  assert.equal(answer.status, 200);
  // Whoever never ends the head of a request is sent away.
  for (const came of await Promise.all(slow)) assert.match(came, /^(HTTP\/1.1 408|$)/);
});

test("the cache of summaries is used over a restart, and thrown away when it is spoilt or a file changed", async (t) => {
  const dir = await staged(t);
  const home = folder(t);
  const ask = async (s) => (await (await fetch(`${s.origin}/api/v1/runs?q=baseline`, { headers: { authorization: `Bearer ${s.token}` } })).json()).runs[0];
  const stop = (s) => new Promise((done) => { s.child.once("exit", done); s.child.kill("SIGTERM"); });
  const first = await server(t, dir, { home });
  await judged(first);
  await stop(first);
  const [cache] = readdirSync(join(home, "lowtide")).filter((name) => name.startsWith("summaries-")).map((name) => join(home, "lowtide", name));
  assert.equal(statSync(cache).mode & 0o777, 0o600);
  // A word put into the cache is shown: it was read, not made anew.
  writeFileSync(cache, readFileSync(cache, "utf8").replaceAll("spikes: the floor stays", "spikes: FROM THE CACHE the floor stays"));
  const second = await server(t, dir, { home });
  assert.match((await ask(second)).headline, /FROM THE CACHE/);
  // The file is another one now: it is judged again.
  copyFileSync(join(dir, "leak.tide"), join(dir, "steady.tide"));
  while ((await judged(second)).filter((one) => one.verdict === "leak" && one.id === "steady").length === 0) await new Promise((done) => setTimeout(done, 200));
  await stop(second);
  writeFileSync(cache, readFileSync(cache, "utf8").replace(/"engine":"[^"]*"/, '"engine":"another program"').slice(0, -7));
  const third = await server(t, dir, { home });
  const runs = await judged(third);
  assert.equal(runs.length, 10);
  assert.ok(runs.every((one) => !/FROM THE CACHE/.test(one.headline)));
});

test("other hosts, other origins and other methods are refused", async (t) => {
  const s = await server(t, await staged(t));
  const { port } = new URL(s.origin);
  const raw = (head) =>
    new Promise((done, fail) => {
      const socket = connect(Number(port), "127.0.0.1", () => socket.write(`${head}\r\nauthorization: Bearer ${s.token}\r\nconnection: close\r\n\r\n`));
      let text = "";
      socket.on("data", (part) => (text += part));
      socket.on("close", () => done(text.split("\r\n")[0]));
      socket.on("error", fail);
    });
  assert.match(await raw("GET /api/v1/runs HTTP/1.1\r\nhost: localhost"), /200/);
  assert.match(await raw("GET /api/v1/runs HTTP/1.1\r\nhost: evil.example"), /403/);
  assert.match(await raw("GET /api/v1/runs HTTP/1.1"), /40[03]/);
  assert.match(await raw("GET /api/v1/runs HTTP/1.1\r\nhost: localhost\r\norigin: http://evil.example"), /403/);
  assert.match(await raw("GET /api/v1/runs HTTP/1.1\r\nhost: localhost\r\nsec-fetch-site: cross-site"), /403/);
  for (const method of ["POST", "PUT", "DELETE", "PATCH", "OPTIONS"]) assert.match(await raw(`${method} /api/v1/runs HTTP/1.1\r\nhost: localhost`), /405/);
});

test("no path outside the folder is readable", async (t) => {
  const dir = await staged(t);
  const secret = join(folder(t), "secret.tide");
  run(stage, "--many", join(secret, ".."), "1");
  writeFileSync(secret, "secret");
  symlinkSync(join(secret, "../sweep-0.tide"), join(dir, "link.tide"));
  const s = await server(t, dir);
  const up = "..%2f..%2f..%2f..%2f";
  for (const id of ["link", `${up}etc%2fpasswd`, "../../etc/passwd", "%2e%2e%2fcase", "case%00", ".%2fcase", "%2fetc%2fpasswd", encodeURIComponent(secret.replace(".tide", ""))]) {
    for (const what of ["runs", "verdict", "report", "recording", "events"]) {
      const answer = await fetch(`${s.origin}/api/v1/${what}/${id}`, { headers: { authorization: `Bearer ${s.token}` } });
      assert.equal(answer.status, 404, `${what} ${id}`);
    }
  }
});

test("the API says the same as explain, knows what was read before, and serves parts", async (t) => {
  const dir = await staged(t);
  const s = await server(t, dir);
  const ask = (path, headers = {}) => fetch(s.origin + path, { headers: { authorization: `Bearer ${s.token}`, ...headers } });
  const answer = await ask("/api/v1/verdict/case");
  const [main] = await answer.json();
  const told = JSON.parse(run(lowtide, "explain", "--format", "json", join(dir, "case.tide")).split("\n")[0]);
  assert.deepEqual({ ...main, file: null }, { ...told, file: null });
  const again = await ask("/api/v1/verdict/case", { "if-none-match": answer.headers.get("etag") });
  assert.equal(again.status, 304);
  const part = await ask("/api/v1/recording/case", { range: "bytes=0-14" });
  assert.equal(part.status, 206);
  assert.equal(await part.text(), "SQLite format 3");
  const document_ = await (await ask("/api/v1/openapi.json")).json();
  for (const path of Object.keys(document_.paths)) {
    const address = path.replace("{id}", "case");
    if (!address.includes("/events/")) assert.equal((await ask(address)).status, 200, address);
  }
});

test("a socket is for its owner only and needs no token", async (t) => {
  const dir = await staged(t);
  const socket = join(folder(t), "s.sock");
  const child = start(t, lowtide, "serve", "--dir", dir, "--socket", socket);
  for await (const part of child.stdout) if (String(part).includes("recordings of")) break;
  assert.equal(statSync(socket).mode & 0o777, 0o600);
  const text = execFileSync("curl", ["-s", "--unix-socket", socket, "http://localhost/api/v1/runs"], { encoding: "utf8" });
  assert.equal(JSON.parse(text).total, 10);
});

test("metrics pass promtool", async (t) => {
  const dir = folder(t);
  start(t, stage, "--live", join(dir, "live.tide"), "20");
  const s = await server(t, dir);
  await judged(s);
  const scrape = async () => (await fetch(`${s.origin}/metrics`, { headers: { authorization: `Bearer ${s.token}` } })).text();
  let text = await scrape();
  // The first rows reach the disk a moment after the file is there.
  while (!text.includes("lowtide_step")) {
    await new Promise((done) => setTimeout(done, 200));
    text = await scrape();
  }
  execFileSync("promtool", ["check", "metrics"], { input: text, stdio: ["pipe", "pipe", "inherit"] });
  for (const name of ["process_memory_usage_bytes", "lowtide_verdict{", "lowtide_outcome{", "lowtide_headroom_bytes", "lowtide_memory_bytes{", "lowtide_step"]) {
    assert.ok(text.includes(name), name);
  }
  assert.doesNotMatch(text, /pid=|4711/);
});

test("nothing is wider than a phone", async (t) => {
  const s = await server(t, await staged(t));
  await judged(s);
  const { page } = await browser(t, { viewport: { width: 390, height: 800 }, colorScheme: "dark" });
  await page.goto(s.url);
  for (const path of ["/", "/run/leak", "/group/55ee", "/compare?a=case&b=leak"]) {
    await page.goto(s.origin + path);
    const [room, need] = await page.evaluate(() => [innerWidth, document.documentElement.scrollWidth]);
    assert.ok(need <= room, `${path}: ${need} > ${room}`);
  }
});
