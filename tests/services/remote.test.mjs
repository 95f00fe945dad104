// Remote write to real engines, and the verdict from what they hold.
import assert from "node:assert/strict";
import { execFile, execFileSync, spawn } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
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
  "victoria-metrics": (dir, port) => ["victoria-metrics", [`-storageDataPath=${dir}`, `-httpListenAddr=127.0.0.1:${port}`, "-retentionPeriod=100y", "-dedup.minScrapeInterval=1ms", "-search.disableCache", "-loggerLevel=ERROR"]],
  prometheus: (dir, port) => {
    const config = join(dir, "prometheus.yml");
    writeFileSync(config, "storage:\n  tsdb:\n    out_of_order_time_window: 30d\n");
    return ["prometheus", [`--config.file=${config}`, `--storage.tsdb.path=${join(dir, "tsdb")}`, `--web.listen-address=127.0.0.1:${port}`, "--web.enable-remote-write-receiver", "--log.level=error"]];
  },
};

class Engine {
  constructor(t, kind, dir, port) {
    Object.assign(this, { kind, dir, port, address: `http://127.0.0.1:${port}` });
    t.after(() => this.child?.kill("SIGKILL"));
  }
  async start() {
    const [program, args] = ENGINES[this.kind](this.dir, this.port);
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
  /** All samples of our runs, as text that can be compared. */
  async samples() {
    const query = encodeURIComponent('{__name__=~"lowtide_.*|process_memory.*",run=~"run-.*"}[30d]');
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

test("three jobs push while they run, the engine is restarted in the middle, and nothing is lost", async (t) => {
  const dir = folder(t);
  const engine = new Engine(t, "victoria-metrics", folder(t), await freePort());
  await engine.start();
  const program = "import time\nkept = []\nfor step in range(60):\n    kept.append(bytearray(2 << 20))\n    time.sleep(0.25)";
  const jobs = [0, 1, 2].map((n) =>
    promisify(execFile)(lowtide, ["run", "--out", join(dir, `${n}.tide`), "--push", engine.address, "--", "python3", "-c", program]),
  );
  await new Promise((done) => setTimeout(done, 4000));
  await engine.stop();
  await new Promise((done) => setTimeout(done, 2000));
  await engine.start();
  for (const { stderr } of await Promise.all(jobs)) assert.doesNotMatch(stderr, /not all was sent/);
  await fetch(`${engine.address}/internal/force_flush`);
  for (const n of [0, 1, 2]) {
    const file = join(dir, `${n}.tide`);
    const run = execFileSync("python3", ["-c", "import sqlite3,sys; print(sqlite3.connect(sys.argv[1]).execute(\"select value from meta where key='run_id'\").fetchone()[0].strip('\\\"'))", file], { encoding: "utf8" }).trim();
    const [here, there] = [explain(file), explain(`${engine.address}/?run=${run}`)];
    assert.equal(there.verdict, here.verdict);
    assert.ok(Math.abs(there.floor.end_bytes - here.floor.end_bytes) < 0.1 * here.floor.end_bytes);
    assert.equal(here.process.role, "trainer", "the process that pushes is none of the job's");
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
  await engine.start();
  const query = await promisify(execFile)(lowtide, ["export", join(runs, "case.tide"), "--to", "remote-write", `${engine.address}/api/v1/nothing`]).catch((error) => error);
  assert.equal(query.code, 2);
  assert.match(query.stderr, /refused \d+ samples: 40\d/);
});
