//! Recordings of known behaviour, written through the real writer: the stage on which pages are tested and looked at.

#![allow(dead_code, reason = "each program uses its own part of this")]
#![allow(clippy::unwrap_used, reason = "a stage that can't be set should stop")]

use lowtide_model::{
    Bytes, Event, EventKind, Exit, LimitHeld, LimitKind, Mark, MarkKind, MarkPhase, Meta, ProcKey, Process,
    RunState, SampleRow, ScanRow, Span, Tick,
};
use lowtide_store::{Entry, Writer, own_key};
use std::path::Path;
use std::time::Duration;

const SECOND: u64 = 1_000_000_000;
const TRAINER: u32 = 4711;
/// Markup where a person would write a name.
pub(crate) const HOSTILE: &str = "<img src=x onerror=\"window.pwned=1\">";
pub(crate) const HOSTILE_END: &str = "</script><script>window.pwned=1</script>";

/// One run to write.
pub(crate) struct Stage {
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) argv: Vec<String>,
    pub(crate) started: i64,
    pub(crate) steps: u64,
    pub(crate) seconds_per_step: u64,
    /// Anonymous memory of the trainer at a step, in MiB.
    pub(crate) level: fn(u64) -> u64,
    pub(crate) examples: Option<u64>,
    pub(crate) limit_gib: u64,
    pub(crate) rank: Option<u32>,
    pub(crate) killed: bool,
    /// Whether it was scanned twice while it grew.
    pub(crate) scanned: bool,
}

impl Default for Stage {
    fn default() -> Self {
        Self {
            id: "7f3a2c91".into(),
            name: "train-vision".into(),
            argv: vec![
                "python".into(),
                "/home/ada/vision/train.py".into(),
                "--data=/mnt/sets/receipts".into(),
            ],
            started: 1_794_734_000 * SECOND as i64,
            steps: 240,
            seconds_per_step: 4,
            level: fill,
            examples: Some(663),
            limit_gib: 32,
            rank: None,
            killed: false,
            scanned: false,
        }
    }
}

pub(crate) fn fill(step: u64) -> u64 {
    5300 + 163 * step.min(83) + (step * 7) % 23
}

pub(crate) fn leak(step: u64) -> u64 {
    5300 + 60 * step + (step * 7) % 23
}

pub(crate) fn steady(step: u64) -> u64 {
    5300 + (step * 7) % 23
}

fn key(pid: u32) -> ProcKey {
    ProcKey { pid, start_ticks: 7 }
}

fn process(pid: u32, parent: u32, argv: &[String], execed: bool) -> Process {
    Process {
        key: key(pid),
        parent: Some(key(parent)),
        born: Tick(0),
        died: None,
        exit: None,
        execed,
        comm: "python".into(),
        argv: argv.to_vec(),
        env: Vec::new(),
        cgroup: None,
        peak_rss: None,
    }
}

fn sample(pid: u32, tick: Tick, anon_mib: u64, file_mib: u64, peak_mib: u64) -> SampleRow {
    let span = |mib: u64, high: u64| Span {
        min: Bytes::from_mib(mib),
        max: Bytes::from_mib(high),
        last: Bytes::from_mib(mib),
    };
    SampleRow {
        process: key(pid),
        tick,
        ticks: 1,
        rss: span(anon_mib + file_mib, peak_mib + file_mib),
        anon: Some(span(anon_mib, peak_mib)),
        file: Some(Bytes::from_mib(file_mib)),
        shmem: Some(Bytes::from_mib(96)),
        swap: Some(Bytes::ZERO),
        threads: Some(24),
        ..SampleRow::default()
    }
}

fn mark(tick: Tick, kind: MarkKind, phase: MarkPhase, number: u64, rank: Option<u32>) -> Mark {
    Mark { tick, process: Some(key(TRAINER)), kind, phase, number: number as f64, rank, extra: None }
}

impl Stage {
    fn meta(&self) -> Meta {
        Meta {
            run_id: self.id.clone(),
            name: self.name.clone(),
            argv: self.argv.clone(),
            cwd: "/home/ada/vision".into(),
            host: "gpu-07".into(),
            boot_id: std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap().trim().to_owned(),
            started_unix_ns: self.started,
            lowtide: env!("CARGO_PKG_VERSION").into(),
            kernel: "6.1.0".into(),
            cpus: 32,
            page_bytes: 4096,
            recorder: own_key(),
            root: Some(key(4700)),
            interval_ns: SECOND,
            state: Some(RunState::Running),
            own_cpu_ns: 600_000_000,
            own_peak_bytes: 11 << 20,
            stall_ns: 42_000_000,
            ..Meta::default()
        }
    }

    fn begin(&self, writer: &Writer) {
        let wrapper = vec!["uv".to_owned(), "run".to_owned(), "train.py".to_owned()];
        writer.push(Entry::Process(process(4700, 1, &wrapper, true)));
        writer.push(Entry::Process(Process {
            env: self.rank.map(|r| ("RANK".to_owned(), r.to_string())).into_iter().collect(),
            ..process(TRAINER, 4700, &self.argv, true)
        }));
        for pid in 4720..4728 {
            writer.push(Entry::Process(self.worker(pid)));
            writer.push(Entry::Sample(sample(pid, Tick(SECOND), 310, 80, 310)));
        }
        for pid in 4730..4734 {
            writer.push(Entry::Process(self.worker(pid)));
        }
        writer.push(Entry::Sample(sample(4700, Tick(SECOND), 30, 12, 30)));
        let facts = self.examples.map(|n| format!("{{\"examples\":{n},\"batch\":2,\"accum\":4,\"versions\":{{\"torch\":\"2.9.1\",\"transformers\":\"5.22.0\"}}}}"));
        writer.push(Entry::Mark(Mark {
            extra: facts,
            ..mark(Tick(SECOND), MarkKind::Info, MarkPhase::Point, 0, self.rank)
        }));
        let kind = LimitKind::Cgroup { path: "/job".into() };
        let used = Bytes::from_mib((self.level)(self.steps) + 4000);
        writer.push(Entry::Limits(vec![LimitHeld { kind, limit: Bytes(self.limit_gib << 30), used }]));
    }

    /// Compile workers by exec, loader workers by fork.
    fn worker(&self, pid: u32) -> Process {
        let compile = ["python", "-m", "torch._inductor.compile_worker"].map(str::to_owned);
        if pid < 4730 {
            process(pid, TRAINER, &compile, true)
        } else {
            process(pid, TRAINER, &self.argv, false)
        }
    }

    fn step(&self, writer: &Writer, step: u64) {
        let tick = Tick(step * self.seconds_per_step * SECOND);
        let level = (self.level)(step);
        let eval = step > 0 && step.is_multiple_of(60);
        if step == 1 || (step > 1 && (step - 1).is_multiple_of(83)) {
            writer.push(Entry::Mark(mark(tick, MarkKind::Epoch, MarkPhase::Start, step / 83 + 1, self.rank)));
        }
        writer.push(Entry::Mark(mark(tick, MarkKind::Step, MarkPhase::Point, step, self.rank)));
        if eval {
            writer.push(Entry::Mark(mark(tick, MarkKind::Eval, MarkPhase::Start, step, self.rank)));
        }
        let peak = if eval { level + 3500 } else { level + 40 };
        writer.push(Entry::Sample(sample(TRAINER, tick, level, 800, peak)));
        for pid in 4730..4734 {
            writer.push(Entry::Sample(sample(pid, tick, 420 + step % 5, 60, 430)));
        }
        let after = Tick(tick.0 + 2 * SECOND);
        if eval {
            writer.push(Entry::Mark(mark(after, MarkKind::Eval, MarkPhase::End, step, self.rank)));
            writer.push(Entry::Mark(mark(after, MarkKind::Save, MarkPhase::Start, step, self.rank)));
            writer.push(Entry::Mark(mark(
                Tick(after.0 + SECOND),
                MarkKind::Save,
                MarkPhase::End,
                step,
                self.rank,
            )));
        }
        writer.announce(tick);
    }

    /// What a scan of the trainer would find at a step: pixels of every example seen so far, in one list.
    fn scan(&self, step: u64) -> ScanRow {
        let (seen, each) = ((8 * step).min(663), 21_300_000);
        let rss = Bytes::from_mib((self.level)(step) + 800).0;
        let pixels = seen * each;
        let part = |kind: &str, bytes: u64| serde_json::json!({"kind": kind, "bytes": bytes, "share": bytes as f64 / rss as f64});
        let one = |name: &str, module: &str, count: u64, own: u64, owned: u64| serde_json::json!({"name": name, "module": module, "count": count, "own_bytes": own, "owned_bytes": owned, "absent_bytes": 0});
        let way = "ImagingCore <- Image._im <- dict['image'] <- list of 663 <- ReceiptSet.rows <- global train_set of module __main__";
        let report = serde_json::json!({
            "schema": "lowtide.scan/1", "rss_bytes": rss, "swap_bytes": 0,
            "kinds": [part("owned_native", pixels + 400_000_000), part("unowned_native", 2_900_000_000), part("python_objects", 620_000_000),
                part("file", 830_000_000), part("kept_native", 210_000_000)],
            "types": [one("ImagingCore", "", seen, seen * 64, pixels), one("Tensor", "torch", 7070, 600_000, 380_000_000),
                one("dict", "builtins", 210_000, 61_000_000, 9_000_000), one("str", "builtins", 300_000, 31_000_000, 0)],
            "holders": [{"name": "ImagingCore", "module": "", "count": seen, "bytes": pixels, "samples": 64, "path": [], "text": way, "share": 1.0, "doubt": ""}],
            "cost": {"cpu_ms": 640},
        });
        ScanRow {
            tick: Tick(step * self.seconds_per_step * SECOND),
            process: key(TRAINER),
            report: report.to_string(),
        }
    }

    pub(crate) fn write(&self, path: &Path) {
        let meta = self.meta();
        let writer = Writer::create(path, meta.clone()).unwrap();
        self.begin(&writer);
        for step in 0..self.steps {
            self.step(&writer, step);
            if step % AT_ONCE == AT_ONCE - 1 {
                wait_for(&writer, Tick(step * self.seconds_per_step * SECOND));
            }
        }
        assert_eq!(writer.health().dropped_rows, 0, "the stage is set whole");
        for step in [30, 75].into_iter().filter(|step| self.scanned && *step < self.steps) {
            writer.push(Entry::Scan(self.scan(step)));
        }
        let ended = Tick(self.steps * self.seconds_per_step * SECOND);
        let exit = if self.killed { Exit::Signal(9) } else { Exit::Code(0) };
        for pid in (4720..4728).chain(4730..4734) {
            let gone = Process { died: Some(ended), exit: Some(Exit::Code(0)), ..self.worker(pid) };
            writer.push(Entry::Process(gone));
        }
        writer.push(Entry::Process(Process {
            died: Some(ended),
            exit: Some(exit),
            ..process(TRAINER, 4700, &self.argv, true)
        }));
        writer.push(Entry::Process(Process {
            died: Some(ended),
            exit: Some(exit),
            ..process(4700, 1, &self.argv, true)
        }));
        if self.killed {
            let text = "the kernel killed trainer 4711 for memory: cgroup /job reached its limit".to_owned();
            writer.push(Entry::Event(Event {
                tick: ended,
                kind: EventKind::Oom,
                process: Some(key(TRAINER)),
                text,
                data: None,
            }));
        }
        writer.finish(Meta { state: Some(RunState::Finished), ended: Some(ended), ..meta }).unwrap();
    }
}

/// Steps that are handed over before the disk is waited for: a writer that is hurried drops rows.
const AT_ONCE: u64 = 1000;

fn wait_for(writer: &Writer, tick: Tick) {
    writer.flush_soon();
    while writer.health().durable.is_none_or(|durable| durable < tick) {
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// A set that shows every badge, a distributed run and names full of markup.
pub(crate) fn all(dir: &Path) {
    let later = |minutes: i64| 1_794_734_000 * SECOND as i64 + minutes * 60 * SECOND as i64;
    Stage { started: later(0), scanned: true, ..Stage::default() }.write(&dir.join("case.tide"));
    Stage {
        id: "11aa".into(),
        name: "train-vision, stopped early".into(),
        steps: 70,
        started: later(30),
        ..Stage::default()
    }
    .write(&dir.join("early.tide"));
    Stage {
        id: "22bb".into(),
        name: "rollout server".into(),
        level: leak,
        steps: 400,
        limit_gib: 64,
        examples: None,
        started: later(60),
        ..Stage::default()
    }
    .write(&dir.join("leak.tide"));
    Stage {
        id: "33cc".into(),
        name: "text-only baseline".into(),
        level: steady,
        started: later(90),
        ..Stage::default()
    }
    .write(&dir.join("steady.tide"));
    let killed = Stage {
        id: "44dd".into(),
        name: "train-vision, 2,000 examples".into(),
        level: leak,
        steps: 300,
        limit_gib: 26,
        examples: None,
        killed: true,
        started: later(120),
        ..Stage::default()
    };
    killed.write(&dir.join("killed.tide"));
    let hostile = Stage {
        id: HOSTILE.into(),
        name: format!("{HOSTILE}{HOSTILE_END}"),
        argv: vec!["python".into(), HOSTILE.into(), HOSTILE_END.into(), "'\"&".into()],
        started: later(150),
        ..Stage::default()
    };
    hostile.write(&dir.join("<img src=x onerror=window.pwned=1>.tide"));
    ranks(dir, later(180));
}

/// Four ranks of one run, of which one leaks.
fn ranks(dir: &Path, started: i64) {
    for rank in 0..4 {
        let level = if rank == 2 { leak } else { steady };
        let run = Stage {
            id: "55ee".into(),
            name: "pretrain".into(),
            level,
            rank: Some(rank),
            examples: None,
            started,
            ..Stage::default()
        };
        run.write(&dir.join(format!("pretrain-rank{rank}.tide")));
    }
}

/// Three runs that end now, for engines that take no old samples.
pub(crate) fn recent(dir: &Path) {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_nanos() as i64;
    for (name, level, examples) in
        [("fill", fill as fn(u64) -> u64, Some(663)), ("leak", leak, None), ("steady", steady, None)]
    {
        let run = Stage {
            id: format!("run-{name}"),
            name: name.into(),
            level,
            examples,
            steps: 240,
            ..Stage::default()
        };
        let started = now - (run.steps * run.seconds_per_step * SECOND) as i64;
        Stage { started, ..run }.write(&dir.join(format!("{name}.tide")));
    }
}

/// Grows while it is watched: ten steps a second.
pub(crate) fn live(path: &Path, seconds: u64) {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    let stage = Stage {
        id: "11fe".into(),
        name: "live run".into(),
        seconds_per_step: 1,
        started: now.as_nanos() as i64,
        ..Stage::default()
    };
    let meta = stage.meta();
    let writer = Writer::create(path, meta.clone()).unwrap();
    stage.begin(&writer);
    let mut step = 0;
    for _ in 0..seconds * 10 {
        stage.step(&writer, step);
        writer.flush_soon();
        step += 1;
        std::thread::sleep(Duration::from_millis(100));
    }
    let ended = Some(Tick(step * SECOND));
    writer.finish(Meta { state: Some(RunState::Finished), ended, ..meta }).unwrap();
}
