// Remote write to real engines, and the verdict from what they hold.
import assert from "node:assert/strict";
import { execFile, execFileSync, spawn } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import test from "node:test";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";

const root = join(dirname(fileURLToPath(import.meta.url)), "../..");
const built = process.env.LOWTIDE_BUILT ?? join(root, "target/debug");
const lowtide = join(built, "lowtide");
const stage = join(built, "examples/stage");
const RUNS = ["fill", "leak", "steady"];

function folder(t) {
  const made = mkdtempSync(join(tmpdir(), "lowtide-services-"));
  t.after(() => rmSync(made, { recursive: true, force: true }));
  return made;
}

function freePort() {
  return new Promise((done) => {
    const server = createServer().listen(0, "127.0.0.1", () => {
      const { port } = server.address();
      server.close(() => done(port));
    });
  });
}

/** How each engine is started over a folder, and what it says when it is there. */
const ENGINES = {
  "victoria-metrics": (dir, port) => ["victoria-metrics", [`-storageDataPath=${dir}`, `-httpListenAddr=127.0.0.1:${port}`, "-retentionPeriod=100y", "-dedup.minScrapeInterval=1ms", "-search.disableCache", "-search.latencyOffset=0s", "-loggerLevel=ERROR"]],
  prometheus: (dir, port, more) => {
    const config = join(dir, "prometheus.yml");
    writeFileSync(config, more ?? "storage:\n  tsdb:\n    out_of_order_time_window: 30d\n");
    return ["prometheus", [`--config.file=${config}`, `--storage.tsdb.path=${join(dir, "tsdb")}`, `--web.listen-address=127.0.0.1:${port}`, "--web.enable-remote-write-receiver", "--log.level=error"]];
  },
};

class Engine {
  constructor(t, kind, dir, port) {
    Object.assign(this, { kind, dir, port, address: `http://127.0.0.1:${port}` });
    t.after(() => this.child?.kill("SIGKILL"));
  }
  async start() {
    const [program, args] = ENGINES[this.kind](this.dir, this.port, this.config);
    this.child = spawn(program, args, { stdio: ["ignore", "inherit", "inherit"] });
    for (;;) {
      const answer = await fetch(`${this.address}/api/v1/query?query=vector(1)`).catch(() => null);
      if (answer?.ok) return;
      assert.equal(this.child.exitCode, null, `${this.kind} ended`);
      await new Promise((done) => setTimeout(done, 100));
    }
  }
  stop() {
    return new Promise((done) => {
      this.child.once("exit", done);
      this.child.kill("SIGTERM");
    });
  }
  /** All samples of some runs by the names of their series, as text that can be compared. */
  async samples(runs = "run-.*", names = "lowtide_.*|process_memory.*") {
    const query = encodeURIComponent(`{__name__=~"${names}",run=~"${runs}"}[30d]`);
    for (let before = ""; ; ) {
      // VictoriaMetrics shows new samples after a while, or when asked; Prometheus knows no such question.
      await fetch(`${this.address}/internal/force_flush`);
      const { data } = await (await fetch(`${this.address}/api/v1/query?query=${query}`)).json();
      const text = data.result.map(({ metric, values }) => JSON.stringify([Object.entries(metric).sort(), values])).sort().join("\n");
      // What was taken may take a moment to be found: two equal answers in a row are the answer.
      if (text && text === before) return text;
      before = text;
      await new Promise((done) => setTimeout(done, 1500));
    }
  }
}

const send = (engine, file) => promisify(execFile)(lowtide, ["export", file, "--to", "remote-write", engine.address, "--wait", "60s"]);
const explain = (what) => JSON.parse(execFileSync(lowtide, ["explain", what, "--format", "json"], { encoding: "utf8" }).split("\n")[0]);

for (const kind of Object.keys(ENGINES)) {
  test(`${kind} gets three runs at once, over a restart, and twice is the same as once`, async (t) => {
    const runs = folder(t);
    execFileSync(stage, ["--recent", runs]);
    const files = RUNS.map((name) => join(runs, `${name}.tide`));
    const once = new Engine(t, kind, folder(t), await freePort());
    await once.start();
    for (const file of files) await send(once, file);
    const wanted = await once.samples();
    assert.ok(wanted.split("\n").length > 60, "every run has its series");
    await once.stop();

    const engine = new Engine(t, kind, folder(t), await freePort());
    await engine.start();
    await send(engine, files[0]);
    await engine.stop();
    // All three wait for it to come back.
    const sending = Promise.all(files.map((file) => send(engine, file)));
    await engine.start();
    await sending;
    await Promise.all(files.map((file) => send(engine, file)));
    assert.equal(await engine.samples(), wanted, "queries equal a single delivery");

    for (const name of RUNS) {
      const [here, there] = [explain(join(runs, `${name}.tide`)), explain(`${engine.address}/?run=run-${name}`)];
      assert.equal(there.verdict, here.verdict, name);
      assert.equal(there.outcome.is, here.outcome.is, name);
    }
  });
}

/** What was measured: the same whenever it is sent. All other series are answers: what was known at a moment. */
const FACTS = "process_memory_usage_bytes|lowtide_memory_bytes|lowtide_processes|lowtide_need_bytes|lowtide_need_peak_bytes|lowtide_step";
const ANSWERS = "lowtide_verdict|lowtide_outcome|lowtide_verdict_confidence_ratio|lowtide_floor_growth_bytes|lowtide_limit_bytes|lowtide_judged_role";

/** The longest time between two samples of each series that is always told, in seconds. */
const longestGap = (text) => {
  const times = text.split("\n").map((line) => JSON.parse(line)[1].map(([time]) => time));
  return Math.max(...times.flatMap((all) => all.slice(1).map((time, at) => time - all[at])));
};

/** The newest sample of each answer. */
const newest = (text) => text.split("\n").map((line) => JSON.parse(line)).map(([labels, values]) => JSON.stringify([labels, values.at(-1)])).sort().join("\n");

const runId = (file) => execFileSync("python3", ["-c", "import sqlite3,sys; print(sqlite3.connect(sys.argv[1]).execute(\"select value from meta where key='run_id'\").fetchone()[0].strip('\\\"'))", file], { encoding: "utf8" }).trim();

async function until(holds) {
  while (!(await holds())) await new Promise((done) => setTimeout(done, 500));
}

// Grows, starts a worker on the way and ends when it is told to.
const JOB = `
import os, subprocess, sys, time
kept = []
worker = subprocess.Popen(["sleep", "600"])
while not os.path.exists(sys.argv[1]):
    kept.append(bytearray(1 << 19))
    time.sleep(0.2)
worker.kill()
`;

for (const kind of Object.keys(ENGINES)) {
  test(`three jobs push to ${kind} while they run, it is away in the middle, and queries equal a single delivery`, async (t) => {
    const dir = folder(t);
    const engine = new Engine(t, kind, folder(t), await freePort());
    await engine.start();
    const end = join(dir, "end");
    const files = [0, 1, 2].map((n) => join(dir, `${n}.tide`));
    const jobs = files.map((file) => promisify(execFile)(lowtide, ["run", "--interval", "200ms", "--out", file, "--push", engine.address, "--", "python3", "-c", JOB, end]));
    // How many of the runs have samples from after a moment.
    const since = async (moment) => {
      await fetch(`${engine.address}/internal/force_flush`);
      const { data } = await (await fetch(`${engine.address}/api/v1/query?query=${encodeURIComponent('lowtide_need_bytes{role="all"}[1h]')}`)).json();
      return data.result.filter(({ values }) => values.at(-1)[0] > moment).length;
    };
    await until(async () => (await since(0)) === 3);
    await engine.stop();
    const away = Date.now() / 1000;
    // Away for two pushes of each.
    await new Promise((done) => setTimeout(done, 22000));
    await engine.start();
    await until(async () => (await since(away)) === 3);
    writeFileSync(end, "");
    for (const { stderr } of await Promise.all(jobs)) assert.doesNotMatch(stderr, /not all was sent/);

    const once = new Engine(t, kind, folder(t), await freePort());
    await once.start();
    for (const file of files) await send(once, file);
    const ids = files.map(runId);
    const runs = ids.join("|");
    const [facts, wanted] = [await engine.samples(runs, FACTS), await once.samples(runs, FACTS)];
    assert.ok(wanted.split("\n").length >= 3 * 12, "every run has its series");
    assert.equal(facts, wanted, "what was measured is the same");
    const [answers, last] = [await engine.samples(runs, ANSWERS), await once.samples(runs, ANSWERS)];
    assert.equal(newest(answers), newest(last), "so is the last word");
    assert.ok(answers.length > last.length, "and words before it were told while the jobs ran");
    // Without what was known while it was away there would be a gap of thirty seconds and more.
    const gap = longestGap(await engine.samples(runs, "lowtide_verdict_confidence_ratio"));
    assert.ok(gap <= 20.5, `what was known in the outage is there as well: ${gap} s without a word`);
    for (const [n, file] of files.entries()) {
      const [here, back] = [explain(file), explain(`${engine.address}/?run=${ids[n]}`)];
      assert.equal(back.verdict, here.verdict);
      assert.equal(back.outcome.is, here.outcome.is);
      const [near, far] = [here.floor.end_bytes, back.floor.end_bytes];
      assert.ok(Math.abs(far - near) < 0.1 * near, `${far} is not ${near}`);
      assert.equal(here.process.role, "trainer", "the process that pushes is none of the job's");
    }
  });
}

test("Prometheus scrapes the page, and every panel of the dashboard finds its numbers", async (t) => {
  const dir = folder(t);
  const live = spawn(stage, ["--live", join(dir, "live.tide"), "300"], { stdio: "ignore" });
  t.after(() => live.kill("SIGKILL"));
  const port = await freePort();
  const token = join(dir, "token");
  const env = { ...process.env, XDG_RUNTIME_DIR: dir, XDG_CACHE_HOME: dir };
  const server = spawn(lowtide, ["serve", "--dir", dir, "--listen", `127.0.0.1:${port}`, "--token-file", token], { stdio: ["ignore", "pipe", "inherit"], env });
  t.after(() => server.kill("SIGKILL"));
  for await (const part of server.stdout) if (String(part).includes("token in")) break;
  const engine = new Engine(t, "prometheus", folder(t), await freePort());
  engine.config = `scrape_configs:\n  - job_name: lowtide\n    scrape_interval: 1s\n    authorization: {credentials_file: ${token}}\n    static_configs: [{targets: ["127.0.0.1:${port}"]}]\n`;
  await engine.start();
  const ask = async (query) => (await (await fetch(`${engine.address}/api/v1/query?query=${encodeURIComponent(query)}`)).json()).data.result;
  await until(async () => (await ask("lowtide_verdict == 1")).length > 0 && (await ask("lowtide_step")).length > 0);
  assert.equal((await ask('up{job="lowtide"}'))[0].value[1], "1");
  const dashboard = JSON.parse(readFileSync(join(root, "docs/grafana.json"), "utf8"));
  const queries = dashboard.panels.flatMap((panel) => panel.targets.map((target) => target.expr));
  assert.ok(queries.length >= 9);
  for (const query of queries) {
    const found = await ask(query.replaceAll("$run", ".*").replaceAll("$node", ".*"));
    // This machine may have no GPU, and a run that fits has no moment at which it does not.
    if (!/gpu|forecast/.test(query)) assert.ok(found.length > 0, query);
  }
});

test("what a receiver refuses is said, and one that is away is an error with a hint", async (t) => {
  const runs = folder(t);
  execFileSync(stage, [runs]);
  const dir = folder(t);
  const port = await freePort();
  const nobody = ["export", join(runs, "case.tide"), "--to", "remote-write", `http://127.0.0.1:${port}`, "--wait", "1s"];
  const failed = await promisify(execFile)(lowtide, nobody).catch((error) => error);
  assert.equal(failed.code, 2);
  assert.match(failed.stderr, /does not answer(.|\n)*hint: send it again/);
  const engine = new Engine(t, "prometheus", dir, port);
  // No window for late samples: what is hours old can't be taken once there is something newer.
  engine.config = "global: {}\n";
  await engine.start();
  const nowhere = await promisify(execFile)(lowtide, ["export", join(runs, "case.tide"), "--to", "remote-write", `${engine.address}/api/v1/nothing`]).catch((error) => error);
  assert.equal(nowhere.code, 2);
  assert.match(nowhere.stderr, /refused \d+ samples and took 0: 40\d/);
  const recent = folder(t);
  execFileSync(stage, ["--recent", recent]);
  await send(engine, join(recent, "leak.tide"));
  const late = await send(engine, join(runs, "case.tide")).catch((error) => error);
  assert.equal(late.code, 2);
  assert.match(late.stderr, /refused \d+ samples and took \d+: 400 .*(out of|too old)/);
  const job = await promisify(execFile)(lowtide, ["run", "--out", join(dir, "x.tide"), "--push", `${engine.address}/api/v1/nothing`, "--", "true"]);
  assert.match(job.stderr, /not all was sent to .*nothing \(.*refused \d+ samples and took 0: 40\d/);
});
