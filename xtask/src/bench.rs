//! `cargo xtask bench`: the promised numbers, as ratios measured side by side in one run.
//!
//! CPU time, never wall time: these machines are shared. Each figure comes with its spread; a figure that misses its
//! promise is marked, and the command fails.

mod judged;
mod serve;

use crate::commands::{cargo, output, root, run};
use crate::test::python;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::time::{Duration, Instant};

/// What the peers need.
const PEERS: [&str; 4] = ["psutil", "memory_profiler", "psrecord", "setuptools<81"];
/// What the peers of a scan need, and what their cases import.
const SCAN_PEERS: [&str; 4] = ["numpy", "pillow", "objgraph", "memray"];
/// Foreign processes around the job.
const FOREIGN: usize = 2000;
/// Workers of the job: with their parent 25 processes.
const WORKERS: usize = 24;
/// Bytes a row takes on disk, indexes included: a million rows measured 65 bytes each (crates/store).
const ROW_BYTES: f64 = 65.0;
/// How long the volume of a recording is measured: two heartbeats, and what lies between.
const VOLUME_SECONDS: u64 = 60;
/// Seconds after which a flat job has been looked at closely once.
const SETTLING: u64 = 20;
/// Workers of a larger job: the difference is what a process costs. So many, because a judgement falls into one window more
/// often than into the other, and its 4 ms would be shared by few.
const MANY: usize = WORKERS + 100;

/// The programs that are measured.
struct Bench {
    lowtide: PathBuf,
    actor: PathBuf,
    python: PathBuf,
    folder: PathBuf,
    seconds: u64,
    /// Seconds in which recorder and psutil run side by side.
    beside: u64,
    quick: bool,
    promises: Promises,
}

/// What was promised and not kept.
#[derive(Default)]
struct Promises {
    missed: Vec<String>,
}

impl Promises {
    fn hold(&mut self, what: &str, value: f64, most: f64) {
        let kept = value <= most;
        println!("  {} {what}: {value:.3} (promised: at most {most:.3})", if kept { "ok  " } else { "MISS" });
        if !kept {
            self.missed.push(what.to_owned());
        }
    }

    fn reach(&mut self, what: &str, value: f64, least: f64) {
        let reached = value >= least;
        println!(
            "  {} {what}: {value:.1} (promised: at least {least})",
            if reached { "ok  " } else { "MISS" }
        );
        if !reached {
            self.missed.push(what.to_owned());
        }
    }

    fn kept(&self) -> Result<(), String> {
        if self.missed.is_empty() {
            Ok(())
        } else {
            Err(format!("promises missed: {}", self.missed.join("; ")))
        }
    }
}

pub(crate) fn bench(rest: &[String]) -> Result<(), String> {
    if rest.first().is_some_and(|word| word == "marks") {
        return marks(&rest[1..]);
    }
    if rest.first().is_some_and(|word| word == "scan") {
        return scan(rest);
    }
    if rest.first().is_some_and(|word| word == "guard") {
        return guard(&rest[1..]);
    }
    if rest.first().is_some_and(|word| word == "serve") {
        return serve::serve(&rest[1..]);
    }
    if rest.first().is_some_and(|word| word == "verdict") {
        return judged::judged();
    }
    run(cargo().args([
        "build",
        "--release",
        "--locked",
        "-p",
        "lowtide",
        "--bin",
        "lowtide",
        "--example",
        "actor",
    ]))?;
    let python = python("bench-python", &PEERS)?;
    let folder = root().join("target/bench");
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).map_err(|error| format!("cannot make {}: {error}", folder.display()))?;
    let release = root().join("target/release");
    let quick = rest.iter().any(|word| word == "--quick");
    let mut bench = Bench {
        lowtide: release.join("lowtide"),
        actor: release.join("examples/actor"),
        python,
        folder,
        seconds: if quick { 8 } else { 30 },
        beside: if quick { 30 } else { 60 },
        quick,
        promises: Promises::default(),
    };
    bench.all()?;
    bench.promises.kept()
}

/// What the agent costs a job: start-up, and each step of a torch loop, beside the same without it.
fn marks(rest: &[String]) -> Result<(), String> {
    run(Command::new("python3").arg("tests/frameworks/build.py").current_dir(root()))?;
    let python = root().join("target/frameworks-python/bin/python");
    run(Command::new(python).arg("python/bench_agent.py").args(rest).current_dir(root()))
}

/// What a leaking job loses under a bare limit, under earlyoom and under the guard (xtask/bench/guard).
fn guard(rest: &[String]) -> Result<(), String> {
    run(cargo().args(["build", "--release", "--locked", "-p", "lowtide", "--bin", "lowtide"]))?;
    let program = root().join("xtask/bench/guard/bench.py");
    let lowtide = root().join("target/release/lowtide");
    run(Command::new("python3").arg(program).arg(lowtide).args(rest).current_dir(root()))
}

/// Who names the cause of growth: lowtide and its peers on programs with a known one (xtask/bench/scan); then what a scan
/// costs, and the job's steps meanwhile.
fn scan(rest: &[String]) -> Result<(), String> {
    run(cargo().args(["build", "--release", "--locked", "-p", "lowtide", "--bin", "lowtide"]))?;
    let python = python("scan-python", &SCAN_PEERS)?;
    lend_torch(&python)?;
    let program = root().join("xtask/bench/scan/bench.py");
    let lowtide = root().join("target/release/lowtide");
    run(Command::new(&python).arg(program).arg(&lowtide).args(rest.iter().skip(1)))?;
    run(Command::new(&python).arg(root().join("xtask/bench/scan/cost.py")).arg(&lowtide))?;
    let log = root().join("target/bench-scan-steps.txt");
    run(Command::new(python).arg(root().join("xtask/bench/scan/steps.py")).arg(lowtide).arg(log))
}

/// The frameworks' environment has a torch; where it was made, the bench can import it too.
fn lend_torch(python: &Path) -> Result<(), String> {
    let site = |python: &Path| {
        let found = output(
            Command::new(python).args(["-c", "import sysconfig; print(sysconfig.get_path('purelib'))"]),
        )?;
        Ok::<_, String>(PathBuf::from(found.trim()))
    };
    let frameworks = root().join("target/frameworks-python/bin/python");
    if !frameworks.exists() {
        return Ok(());
    }
    let (own, theirs) = (site(python)?, site(&frameworks)?);
    let file = own.join("frameworks.pth");
    std::fs::write(&file, theirs.display().to_string())
        .map_err(|error| format!("cannot write {}: {error}", file.display()))
}

impl Bench {
    fn all(&mut self) -> Result<(), String> {
        println!(
            "one run on this machine, CPU time; {WORKERS} workers and their parent at 4 Hz, {FOREIGN} foreign processes\n"
        );
        let foreign = Crowd::start(&self.actor, FOREIGN)?;
        let Beside { ours, many, theirs } = self.beside()?;
        let mprof =
            self.sampler("mprof", &["-m", "mprof", "run", "--include-children", "--interval", "0.25"])?;
        let psrecord =
            self.sampler("psrecord", &["-m", "psrecord", "--include-children", "--interval", "0.25"])?;
        drop(foreign);
        let per_sample = (many.cpu_per_tick - ours.cpu_per_tick) / (MANY - WORKERS) as f64;
        println!(
            "recorder        {:8.1} us a tick, {:.2} us more for each process; {:.1} ms once, in the first {SETTLING} s",
            ours.cpu_per_tick * 1e6,
            per_sample * 1e6,
            ours.at_first * 1e3
        );
        self.promises.hold("recorder at 1 Hz, % of one core", ours.cpu_per_tick * 100.0, 0.1);
        self.promises.hold("recorder's peak memory, MiB", ours.peak_mib, 16.0);
        println!("psutil oneshot  {:8.1} us a process-sample, the list of processes made once", theirs * 1e6);
        self.promises.reach("psutil's CPU over ours, per process-sample", theirs / per_sample, 20.0);
        let processes = (WORKERS + 1) as f64;
        let whole = ours.cpu_per_tick / processes;
        for (name, tick) in [("mprof", mprof), ("psrecord", psrecord)] {
            println!(
                "{name:<15} {:8.1} us a process-sample, children found anew at every tick",
                tick / processes * 1e6
            );
            self.promises.reach(
                &format!("{name}'s CPU over our whole tick, per process-sample"),
                tick / processes / whole,
                20.0,
            );
        }
        if self.quick {
            println!(
                "  --   recording, MiB an hour: needs the whole bench, a quick one ends before the first minute does"
            );
        } else {
            self.volume()?;
        }
        self.storm()?;
        self.mmap_latency()?;
        println!();
        judged::judged()
    }

    fn lowtide(&self, file: &Path, flags: &[&str], job: &[&str]) -> Command {
        let mut command = Command::new(&self.lowtide);
        command
            .arg("run")
            .arg("--quiet")
            .arg("--out")
            .arg(file)
            .args(flags)
            .arg("--")
            .arg(&self.actor)
            .args(job);
        command.env("XDG_RUNTIME_DIR", &self.folder);
        command
    }

    /// Two recorders, one over a flat job of 25 and one over a larger, and psutil's loop, all in the same seconds: what
    /// disturbs one disturbs the others.
    fn beside(&self) -> Result<Beside, String> {
        let (mut ours, mut many) = (self.recorder(WORKERS)?, self.recorder(MANY)?);
        std::thread::sleep(Duration::from_secs(SETTLING));
        ours.settled();
        many.settled();
        let theirs = self.psutil()?;
        Ok(Beside { ours: ours.end(), many: many.end(), theirs })
    }

    /// A recorder over a flat job, among the foreign ones.
    fn recorder(&self, workers: usize) -> Result<Recorder, String> {
        let file = self.folder.join(format!("flat-{workers}.tide"));
        let workers = workers.to_string();
        let job = Held::start(&mut self.lowtide(&file, &["--interval", "250ms"], &["crowd", &workers]))?;
        let cpu = cpu_of(job.pid());
        Ok(Recorder { job, since: Instant::now(), cpu, first: (0.0, 0.0) })
    }

    /// What a flat job of 25 leaves on disk, after the first minute and over two heartbeats of every process.
    fn volume(&mut self) -> Result<(), String> {
        let (file, workers) = (self.folder.join("volume.tide"), WORKERS.to_string());
        let mut job = Held::start(&mut self.lowtide(&file, &["--interval", "1s"], &["crowd", &workers]))?;
        std::thread::sleep(Duration::from_secs(65));
        let written = written_by(job.pid());
        std::thread::sleep(Duration::from_secs(VOLUME_SECONDS));
        let written = written_by(job.pid()) - written;
        job.end();
        let an_hour = |bytes: f64| bytes / (1024.0 * 1024.0) * 3600.0 / VOLUME_SECONDS as f64;
        let rows = rows_in(&file, VOLUME_SECONDS)?;
        if rows == 0 || written == 0.0 {
            return Err("nothing was recorded in the window: no figure can be had".to_owned());
        }
        self.promises.hold("recording, MiB kept an hour", an_hour(rows as f64 * ROW_BYTES), 1.0);
        self.promises.hold("recording, MiB written an hour", an_hour(written), 20.0);
        Ok(())
    }

    fn psutil(&self) -> Result<f64, String> {
        let crowd = Crowd::start(&self.actor, WORKERS)?;
        let script = root().join("xtask/bench/psutil_loop.py");
        let output = Command::new(&self.python)
            .arg(script)
            .args([crowd.pid().to_string(), self.beside.to_string(), "0.25".to_owned()])
            .output()
            .map_err(|error| format!("cannot run psutil's loop: {error}"))?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        text.trim()
            .parse()
            .map_err(|_| format!("psutil's loop said: {text}{}", String::from_utf8_lossy(&output.stderr)))
    }

    /// CPU seconds a tick of a Python sampler that runs the same job.
    fn sampler(&self, name: &str, arguments: &[&str]) -> Result<f64, String> {
        let mut command = Command::new(&self.python);
        command.args(arguments).current_dir(&self.folder);
        let workers = WORKERS.to_string();
        if name == "psrecord" {
            command.arg("--log").arg(self.folder.join("psrecord.txt"));
            command.arg(format!("{} crowd {workers}", self.actor.display()));
        } else {
            command
                .arg("--output")
                .arg(self.folder.join("mprof.dat"))
                .arg(&self.actor)
                .args(["crowd", &workers]);
        }
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .map_err(|error| format!("cannot start {name}: {error}"))?;
        std::thread::sleep(Duration::from_secs(4));
        let before = cpu_of(child.id());
        std::thread::sleep(Duration::from_secs(self.seconds));
        let spent = cpu_of(child.id()) - before;
        drop(child.stdin.take());
        let _ = child.kill();
        let _ = child.wait();
        if spent <= 0.0 {
            Err(format!("{name} did not run"))
        } else {
            Ok(spent / (self.seconds as f64 * 4.0))
        }
    }

    fn storm(&mut self) -> Result<(), String> {
        let file = self.folder.join("storm.tide");
        let mut job = Held::start_bare(&mut self.lowtide(&file, &[], &["storm", "1000", "20"]))?;
        let mut cpu = 0.0;
        while matches!(job.child.try_wait(), Ok(None)) {
            cpu = cpu_of(job.pid()).max(cpu);
            std::thread::sleep(Duration::from_millis(50));
        }
        let recording = lowtide_store::open(&file).and_then(|mut reader| reader.recording());
        let recording = recording.map_err(|error| error.to_string())?;
        let seconds = recording.meta.ended.unwrap_or_default().seconds();
        println!(
            "\nfork storm: {} processes in {seconds:.1} s, {cpu:.3} s of our CPU",
            recording.processes.len()
        );
        self.promises.hold(
            "processes of the storm that were missed",
            1001.0 - recording.processes.len() as f64,
            0.0,
        );
        Ok(())
    }

    /// The job's mmap latency with and without us, in turns.
    fn mmap_latency(&mut self) -> Result<(), String> {
        let mut alone = Vec::new();
        let mut watched = Vec::new();
        for round in 0..5 {
            alone.push(latency(Command::new(&self.actor).args(["mmaps", "4000"]))?);
            let file = self.folder.join(format!("mmaps{round}.tide"));
            watched.push(latency(&mut self.lowtide(&file, &[], &["mmaps", "4000"]))?);
        }
        println!("\nmmap of 1 MiB in the job, five rounds in turns (median, least to most):");
        for (name, at) in [("p50 us", 0), ("p99.9 us", 1), ("CPU s", 2)] {
            let pick = |rounds: &[[f64; 3]]| spread(rounds.iter().map(|round| round[at]).collect());
            println!("  {name:<9} alone {}   recorded {}", pick(&alone), pick(&watched));
        }
        Ok(())
    }
}

/// Rows of a recording in its last seconds: the first ones are paid once.
fn rows_in(file: &Path, seconds: u64) -> Result<usize, String> {
    let recording = lowtide_store::open(file).and_then(|mut reader| reader.recording());
    let recording = recording.map_err(|error| error.to_string())?;
    let end = recording.meta.ended.unwrap_or_default().seconds();
    let late = |tick: lowtide_model::Tick| tick.seconds() > end - seconds as f64;
    let samples = recording.samples.iter().filter(|row| late(row.tick)).count();
    let cgroups = recording.cgroups.iter().filter(|row| late(row.tick)).count();
    Ok(samples + cgroups + recording.host.iter().filter(|row| late(row.tick)).count())
}

/// What was measured side by side.
struct Beside {
    ours: Ours,
    many: Ours,
    /// CPU seconds of psutil's loop for one process, once.
    theirs: f64,
}

/// A recorder at work, with its CPU seconds when they were last looked at.
struct Recorder {
    job: Held,
    since: Instant,
    cpu: f64,
    /// How long it took to settle, and what that cost.
    first: (f64, f64),
}

impl Recorder {
    /// What it does from now on is what it always does.
    fn settled(&mut self) {
        let (now, cpu) = (Instant::now(), cpu_of(self.job.pid()));
        self.first = (now.duration_since(self.since).as_secs_f64(), cpu - self.cpu);
        (self.since, self.cpu) = (now, cpu);
    }

    fn end(mut self) -> Ours {
        let ticks = |seconds: f64| seconds * 4.0;
        let cpu_per_tick = (cpu_of(self.job.pid()) - self.cpu) / ticks(self.since.elapsed().as_secs_f64());
        let peak_mib = peak_of(self.job.pid());
        self.job.end();
        // What the first seconds took beyond their ticks: sharing is read once, when memory has settled.
        let (seconds, cpu) = self.first;
        Ours { cpu_per_tick, at_first: (cpu - cpu_per_tick * ticks(seconds)).max(0.0), peak_mib }
    }
}

struct Ours {
    cpu_per_tick: f64,
    /// CPU seconds of the first seconds, beyond what their ticks take.
    at_first: f64,
    peak_mib: f64,
}

fn spread(mut values: Vec<f64>) -> String {
    values.sort_by(f64::total_cmp);
    let (least, middle, most) = (values[0], values[values.len() / 2], values[values.len() - 1]);
    format!("{middle:9.3} ({least:.3} to {most:.3})")
}

/// p50, p99.9 in microseconds and CPU seconds, as the actor prints them.
fn latency(command: &mut Command) -> Result<[f64; 3], String> {
    let output =
        command.stderr(Stdio::null()).output().map_err(|error| format!("cannot run the actor: {error}"))?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let numbers: Vec<f64> = text.split_whitespace().filter_map(|word| word.parse().ok()).collect();
    <[f64; 3]>::try_from(numbers).map_err(|_| format!("the actor said: {text}"))
}

/// A program that says `ready` and waits for its standard input to close.
struct Held {
    child: Child,
    stdin: Option<ChildStdin>,
}

impl Held {
    fn start(command: &mut Command) -> Result<Self, String> {
        let mut held = Self::start_bare(command)?;
        let stdout = held.child.stdout.take().ok_or("no standard output")?;
        for line in BufReader::new(stdout).lines().map_while(Result::ok) {
            if line == "ready" {
                return Ok(held);
            }
        }
        Err("the actor ended before it was ready".to_owned())
    }

    fn start_bare(command: &mut Command) -> Result<Self, String> {
        let child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        let mut child = child.map_err(|error| format!("cannot start: {error}"))?;
        let stdin = child.stdin.take();
        Ok(Self { child, stdin })
    }

    fn pid(&self) -> u32 {
        self.child.id()
    }

    fn end(&mut self) {
        drop(self.stdin.take());
        let _ = self.child.wait();
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.end();
    }
}

/// Many idle processes.
struct Crowd(Held);

impl Crowd {
    fn start(actor: &Path, count: usize) -> Result<Self, String> {
        Held::start(Command::new(actor).args(["crowd", &count.to_string()])).map(Self)
    }

    fn pid(&self) -> u32 {
        self.0.pid()
    }
}

/// CPU seconds of all threads of a process, from the scheduler's own nanoseconds.
fn cpu_of(pid: u32) -> f64 {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().filter_map(Result::ok);
    let of_task = |task: std::fs::DirEntry| {
        let text = std::fs::read_to_string(task.path().join("schedstat")).unwrap_or_default();
        text.split(' ').next().and_then(|word| word.parse::<f64>().ok()).unwrap_or(0.0)
    };
    tasks.map(of_task).sum::<f64>() / 1e9
}

/// CPU seconds a second of what `cpu` tells, over so many seconds.
fn over(seconds: u64, cpu: impl Fn() -> f64) -> f64 {
    let (before, begun) = (cpu(), std::time::Instant::now());
    std::thread::sleep(Duration::from_secs(seconds));
    (cpu() - before) / begun.elapsed().as_secs_f64()
}

fn written_by(pid: u32) -> f64 {
    let text = std::fs::read_to_string(format!("/proc/{pid}/io")).unwrap_or_default();
    field(&text, "wchar:")
}

fn peak_of(pid: u32) -> f64 {
    let text = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    field(&text, "VmHWM:") / 1024.0
}

fn field(text: &str, name: &str) -> f64 {
    let line = text.lines().find_map(|line| line.strip_prefix(name));
    line.and_then(|rest| rest.split_whitespace().next()).and_then(|word| word.parse().ok()).unwrap_or(0.0)
}
