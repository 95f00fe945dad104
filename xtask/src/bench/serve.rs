//! `cargo xtask bench serve`: the live page under load, as CPU time and memory of the server, side by side in one run.
//!
//! Five hundred viewers of one run beside one viewer; ten thousand recordings beside a hundred; a run of a week beside
//! `lowtide explain` of the same file. Wall times are told as well, but only memory and counts are held to a promise:
//! these machines are shared.

use super::{Promises, cpu_of, field, spread};
use crate::commands::{cargo, root, run};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// What is measured, one after the other.
const PARTS: [&str; 3] = ["viewers", "many", "week"];
/// Viewers of one run.
const VIEWERS: usize = 500;
/// Viewers among them that never read what they are sent.
const SLEEPERS: usize = 20;
/// A piece of an answer up to this long is a sign of life, not a page.
const HEARTBEAT: usize = 16;
/// Of a hundred changes of a recording, so many have to reach each viewer as a page of their own.
const AS_OFTEN: f64 = 90.0;
/// Two changes of a file closer than this are one: a log that is folded into it changes both.
const ONE_CHANGE: Duration = Duration::from_millis(500);
/// Recordings in the large folder, and in the small one it is held against.
const MANY: usize = 10_000;
const FEW: usize = 100;
/// Days of the long run.
const DAYS: u64 = 7;
/// Times a page is asked for.
const ROUNDS: usize = 30;
/// How much memory may move and still be called flat: a part of it, or so many MiB where that is more.
const FLAT: (f64, f64) = (0.10, 8.0);

pub(super) fn serve(rest: &[String]) -> Result<(), String> {
    let built = ["--bin", "lowtide", "--example", "actor", "--example", "stage"];
    run(cargo()
        .args(["build", "--release", "--locked", "-p", "lowtide", "-p", "lowtide-serve"])
        .args(built))?;
    let built = root().join("target/release");
    let folder = root().join("target/bench-serve");
    let _ = std::fs::remove_dir_all(&folder);
    let quick = rest.iter().any(|word| word == "--quick");
    let mut bench =
        Bench { built, folder, seconds: if quick { 10 } else { 30 }, promises: Promises::default() };
    println!("one run on this machine; CPU time and memory of the server\n");
    // Each part alone, where one is named.
    let parts: Vec<&str> = rest.iter().map(String::as_str).filter(|word| PARTS.contains(word)).collect();
    let wanted = |part: &str| parts.is_empty() || parts.contains(&part);
    if wanted("viewers") {
        bench.viewers()?;
    }
    if wanted("many") {
        bench.folder_of_many(if quick { MANY / 10 } else { MANY })?;
    }
    if wanted("week") {
        bench.week()?;
    }
    let _ = std::fs::remove_dir_all(&bench.folder);
    bench.promises.kept()
}

struct Bench {
    built: PathBuf,
    folder: PathBuf,
    seconds: u64,
    promises: Promises,
}

impl Bench {
    fn stage(&self, words: &[&str]) -> Command {
        let mut command = Command::new(self.built.join("examples/stage"));
        command.args(words);
        command
    }

    fn folder(&self, name: &str) -> Result<PathBuf, String> {
        let made = self.folder.join(name);
        std::fs::create_dir_all(&made).map_err(|error| format!("cannot make {}: {error}", made.display()))?;
        Ok(made)
    }

    fn server(&self, dir: &Path) -> Result<Server, String> {
        let home = self.folder("home")?;
        Server::start(&self.built.join("lowtide"), dir, &home)
    }

    /// One run that grows, recorded by the real recorder; one viewer, then five hundred.
    fn viewers(&mut self) -> Result<(), String> {
        let dir = self.folder("live")?;
        let file = dir.join("live.tide");
        let (mut job, actor) = (Command::new(self.built.join("lowtide")), self.built.join("examples/actor"));
        job.args(["run", "--quiet", "--interval", "250ms", "--out"]).arg(&file).arg("--");
        // Something that grows at every tick, and a process a second: after its first minute a recorder writes quiet
        // growth every five seconds only, a process at once. All of it ends with the crowd.
        let births = "while kill -0 $$ 2>/dev/null; do sleep 1; done &";
        let grow =
            format!("{0} leak 1 {1} 250 & {births} exec {0} crowd 24", actor.display(), 4 * 5 * self.seconds);
        job.args(["sh", "-c", &grow]);
        job.env("XDG_RUNTIME_DIR", self.folder("home")?);
        let job = super::Held::start(&mut job)?;
        let server = self.server(&dir)?;
        server.until_judged(1)?;
        let recorder = |seconds| super::over(seconds, || cpu_of(job.pid()));
        let one = Viewers::join(&server, 1, 0)?;
        let alone = self.watched(&server, &one, &file);
        let quiet = recorder(self.seconds);
        one.leave();
        let all = Viewers::join(&server, VIEWERS, SLEEPERS)?;
        let first = server.memory();
        let each = self.watched(&server, &all, &file);
        let (middle, loud) = (server.memory(), recorder(self.seconds));
        let last = server.memory();
        println!("{SLEEPERS} of them never read; {:.0} MiB were read by the others", all.mib());
        println!(
            "its memory         {first:7.1} MiB when all are there, {middle:.1} later, {last:.1} at the end"
        );
        println!(
            "the recorder       {:7.3} % of one core with one viewer, {:.3} % with {VIEWERS}",
            quiet * 100.0,
            loud * 100.0
        );
        self.promises.reach("pages told to one viewer for 100 changes of the file", alone, AS_OFTEN);
        self.promises.reach("pages told to each of 500 for 100 changes of the file", each, AS_OFTEN);
        self.promises.hold("viewers that were told nothing", all.deaf() as f64, 0.0);
        self.promises.hold("memory moved while 500 look on, MiB", last - first, room(first));
        all.leave();
        drop(job);
        let lost = lowtide_store::open(&file).and_then(|mut reader| reader.recording());
        let lost = lost.map_err(|error| error.to_string())?.meta.dropped_rows;
        self.promises.hold("rows the recorder lost meanwhile", lost as f64, 0.0);
        Ok(())
    }

    /// What the server spends while these look on, and on each page it tells them. Gives the pages told to each for
    /// a hundred changes of the file.
    fn watched(&self, server: &Server, viewers: &Viewers, file: &Path) -> f64 {
        let (before, least) = (viewers.events(), viewers.fewest());
        let (spent, begun) = (cpu_of(server.pid()), Instant::now());
        let changes = changes_of(file, Duration::from_secs(self.seconds));
        let cpu = (cpu_of(server.pid()) - spent) / begun.elapsed().as_secs_f64();
        let pages = viewers.events() - before;
        println!(
            "{:>3} viewers        {:7.2} % of one core; the file changed {} times in {} s, {pages:.0} pages were told to each ({} to the one told least), {:.1} ms of CPU for a page and all who see it",
            viewers.told.len(),
            cpu * 100.0,
            changes,
            self.seconds,
            viewers.fewest() - least,
            1e3 * cpu * self.seconds as f64 / pages.max(1.0)
        );
        100.0 * pages / changes.max(1) as f64
    }

    /// Ten thousand recordings: the first look, a restart, the list, and what it costs to do nothing.
    fn folder_of_many(&mut self, many: usize) -> Result<(), String> {
        let (large, small) = (self.folder("many")?, self.folder("few")?);
        for (dir, count) in [(&large, many), (&small, FEW)] {
            run(&mut self.stage(&["--many", &dir.to_string_lossy(), &count.to_string()]))?;
        }
        let (mut lists, mut starts) = (Vec::new(), Vec::new());
        for (dir, count) in [(&small, FEW), (&large, many), (&large, many)] {
            let server = self.server(dir)?;
            let begun = Instant::now();
            server.until_judged(count)?;
            starts.push((cpu_of(server.pid()), begun.elapsed().as_secs_f64()));
            let idle = super::over(10, || cpu_of(server.pid()));
            let before = server.memory();
            lists.push(server.asked("/?q=sweep&sort=peak", ROUNDS)?);
            let (cpu, walls) = lists.last().ok_or("nothing was asked")?;
            println!(
                "\n{count} recordings: known after {:.1} s of CPU ({:.1} s); idle {:.2} % of one core; {:.1} MiB",
                starts.last().map_or(0.0, |start| start.0),
                starts.last().map_or(0.0, |start| start.1),
                idle * 100.0,
                server.memory()
            );
            println!(
                "  the list, searched and sorted: {:.1} ms of CPU; wall ms {}",
                cpu * 1e3,
                spread(walls.clone())
            );
            self.promises.hold(
                "memory moved by asking for the list, MiB",
                server.memory() - before,
                room(before),
            );
        }
        println!(
            "  a restart finds its summaries for {:.0} % of the CPU of the first start; the long list costs {:.1} times the short one",
            100.0 * starts[2].0 / starts[1].0.max(1e-9),
            lists[1].0 / lists[0].0.max(1e-9)
        );
        Ok(())
    }

    /// A run of a week: opened, opened again, and opened in many states.
    fn week(&mut self) -> Result<(), String> {
        let dir = self.folder("week")?;
        let file = dir.join("week.tide");
        run(&mut self.stage(&["--long", &file.to_string_lossy(), &DAYS.to_string()]))?;
        let size =
            std::fs::metadata(&file).map_err(|error| error.to_string())?.len() as f64 / f64::from(1 << 20);
        let explain = cpu_of_command(Command::new(self.built.join("lowtide")).arg("explain").arg(&file))?;
        let server = self.server(&dir)?;
        server.until_judged(1)?;
        let (first, first_wall) = server.asked("/run/week", 1)?;
        let (again, again_wall) = server.asked("/run/week", ROUNDS)?;
        let report = server.get("/api/v1/report/week")?.len();
        println!("\na run of {DAYS} days, {size:.1} MiB: `lowtide explain` takes {explain:.2} s of CPU");
        println!(
            "  its page: {first:.2} s of CPU ({:.1} times explain), wall {:.0} ms; opened again {:.1} ms of CPU, wall ms {}",
            first / explain.max(1e-9),
            first_wall[0],
            again * 1e3,
            spread(again_wall)
        );
        let mut levels = Vec::new();
        for _ in 0..ROUNDS {
            // A new time is a new state: the page is made anew.
            let now = std::time::SystemTime::now();
            let touched =
                std::fs::File::options().append(true).open(&file).and_then(|file| file.set_modified(now));
            touched.map_err(|error| format!("cannot touch {}: {error}", file.display()))?;
            server.get("/run/week")?;
            levels.push(server.memory());
        }
        let (early, late) = (levels[ROUNDS / 3], levels[ROUNDS - 1]);
        println!(
            "  memory after {} openings {early:.1} MiB, after {ROUNDS} {late:.1} MiB, at most {:.1}",
            ROUNDS / 3,
            server.peak()
        );
        self.promises.hold("memory moved by opening it again and again, MiB", late - early, room(early));
        self.promises.hold("its report, MB", report as f64 / 1e6, 1.0);
        Ok(())
    }
}

/// How often a recording or its log changes in this time.
fn changes_of(file: &Path, time: Duration) -> usize {
    let mut log = file.as_os_str().to_owned();
    log.push("-wal");
    let written = |path: &Path| std::fs::metadata(path).and_then(|found| found.modified()).ok();
    let state = || (written(file), written(Path::new(&log)));
    let (begun, mut last, mut count) = (Instant::now(), state(), 0);
    let mut changed: Option<Instant> = None;
    while begun.elapsed() < time {
        std::thread::sleep(Duration::from_millis(50));
        let now = state();
        if now != last && changed.is_none_or(|when| when.elapsed() > ONE_CHANGE) {
            (count, changed) = (count + 1, Some(Instant::now()));
        }
        last = now;
    }
    count
}

/// What may move at this level.
fn room(level: f64) -> f64 {
    (level * FLAT.0).max(FLAT.1)
}

/// CPU seconds of a command from its start to its end.
fn cpu_of_command(command: &mut Command) -> Result<f64, String> {
    let mut child =
        command.stdout(Stdio::null()).spawn().map_err(|error| format!("cannot start: {error}"))?;
    let mut cpu: f64 = 0.0;
    while matches!(child.try_wait(), Ok(None)) {
        cpu = cpu_of(child.id()).max(cpu);
        std::thread::sleep(Duration::from_millis(5));
    }
    Ok(cpu)
}

/// A `lowtide serve` of its own.
struct Server {
    child: Child,
    address: String,
    token: String,
}

impl Server {
    fn start(lowtide: &Path, dir: &Path, home: &Path) -> Result<Self, String> {
        let mut command = Command::new(lowtide);
        command.args(["serve", "--listen", "127.0.0.1:0", "--dir"]).arg(dir).stdout(Stdio::piped());
        command.env("XDG_RUNTIME_DIR", home).env("XDG_CACHE_HOME", home);
        let mut child = command.spawn().map_err(|error| format!("cannot start the server: {error}"))?;
        let stdout = child.stdout.take().ok_or("no standard output")?;
        let line = BufReader::new(stdout).lines().next().and_then(Result::ok).unwrap_or_default();
        let parts = line.strip_prefix("http://").and_then(|rest| rest.split_once("/?token="));
        let Some((address, token)) = parts.map(|(a, t)| (a.to_owned(), t.to_owned())) else {
            let _ = child.kill();
            return Err(format!("the server said: {line}"));
        };
        Ok(Self { child, address, token })
    }

    fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Resident memory now, in MiB.
    fn memory(&self) -> f64 {
        self.status("VmRSS:")
    }

    fn peak(&self) -> f64 {
        self.status("VmHWM:")
    }

    fn status(&self, name: &str) -> f64 {
        let text = std::fs::read_to_string(format!("/proc/{}/status", self.pid())).unwrap_or_default();
        field(&text, name) / 1024.0
    }

    fn connect(&self, path: &str) -> Result<TcpStream, String> {
        let failed = |error: std::io::Error| format!("cannot ask {path}: {error}");
        let mut stream = TcpStream::connect(&self.address).map_err(failed)?;
        let head = format!(
            "GET {path} HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {}\r\nconnection: close\r\n\r\n",
            self.token
        );
        stream.write_all(head.as_bytes()).map_err(failed)?;
        Ok(stream)
    }

    fn get(&self, path: &str) -> Result<Vec<u8>, String> {
        let mut answer = Vec::new();
        self.connect(path)?
            .read_to_end(&mut answer)
            .map_err(|error| format!("cannot read {path}: {error}"))?;
        if answer.starts_with(b"HTTP/1.1 200") {
            return Ok(answer);
        }
        Err(format!("{path}: {}", String::from_utf8_lossy(&answer[..answer.len().min(200)])))
    }

    /// CPU seconds of one request, and the wall milliseconds of each.
    fn asked(&self, path: &str, times: usize) -> Result<(f64, Vec<f64>), String> {
        let (before, mut walls) = (cpu_of(self.pid()), Vec::new());
        for _ in 0..times {
            let begun = Instant::now();
            self.get(path)?;
            walls.push(begun.elapsed().as_secs_f64() * 1e3);
        }
        Ok(((cpu_of(self.pid()) - before) / times as f64, walls))
    }

    /// Waits until all runs have their verdict.
    fn until_judged(&self, count: usize) -> Result<(), String> {
        loop {
            let known: usize = ["fits", "tight", "exceeds", "unknown"]
                .iter()
                .map(|outcome| self.total(&format!("/api/v1/runs?outcome={outcome}")))
                .sum::<Result<usize, String>>()?;
            if known >= count {
                return Ok(());
            }
            std::thread::sleep(Duration::from_millis(200));
        }
    }

    fn total(&self, path: &str) -> Result<usize, String> {
        let text = String::from_utf8_lossy(&self.get(path)?).into_owned();
        let digits =
            text.split("\"total\":").nth(1).map(|rest| rest.chars().take_while(char::is_ascii_digit));
        let number = digits.and_then(|digits| digits.collect::<String>().parse().ok());
        number.ok_or_else(|| format!("{path} told no total"))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// People who look on.
struct Viewers {
    threads: Vec<JoinHandle<()>>,
    /// The same connections, to hang up.
    awake: Vec<TcpStream>,
    /// Kept open and never read.
    asleep: Vec<TcpStream>,
    told: Arc<Vec<AtomicUsize>>,
    bytes: Arc<AtomicUsize>,
}

impl Viewers {
    /// Joins and waits until each was told something.
    fn join(server: &Server, count: usize, sleepers: usize) -> Result<Self, String> {
        let told: Arc<Vec<AtomicUsize>> = Arc::new((sleepers..count).map(|_| AtomicUsize::new(0)).collect());
        let bytes = Arc::new(AtomicUsize::new(0));
        let path = "/api/v1/events/live";
        let asleep = (0..sleepers).map(|_| server.connect(path)).collect::<Result<Vec<_>, _>>()?;
        let (mut threads, mut awake) = (Vec::new(), Vec::new());
        for n in 0..count - sleepers {
            let stream = server.connect(path)?;
            awake.push(stream.try_clone().map_err(|error| format!("cannot hold a viewer: {error}"))?);
            let (told, bytes) = (Arc::clone(&told), Arc::clone(&bytes));
            let look = move || look_on(stream, &told[n], &bytes);
            let thread = std::thread::Builder::new().stack_size(64 * 1024).spawn(look);
            threads.push(thread.map_err(|error| format!("cannot start a viewer: {error}"))?);
        }
        let viewers = Self { threads, awake, asleep, told, bytes };
        let begun = Instant::now();
        while viewers.deaf() > 0 && begun.elapsed() < Duration::from_secs(60) {
            std::thread::sleep(Duration::from_millis(50));
        }
        Ok(viewers)
    }

    /// Those who were told nothing.
    fn deaf(&self) -> usize {
        self.told.iter().filter(|told| told.load(Ordering::Relaxed) == 0).count()
    }

    /// Pages told to each, on average.
    fn events(&self) -> f64 {
        self.told.iter().map(|told| told.load(Ordering::Relaxed)).sum::<usize>() as f64
            / self.told.len() as f64
    }

    /// Pages told to the one who was told least.
    fn fewest(&self) -> usize {
        self.told.iter().map(|told| told.load(Ordering::Relaxed)).min().unwrap_or(0)
    }

    fn mib(&self) -> f64 {
        self.bytes.load(Ordering::Relaxed) as f64 / f64::from(1 << 20)
    }

    fn leave(self) {
        for stream in &self.awake {
            let _ = stream.shutdown(std::net::Shutdown::Both);
        }
        drop(self.asleep);
        for thread in self.threads {
            let _ = thread.join();
        }
    }
}

/// Reads what comes and counts the pages in it. Every event is one chunk of the answer, so no byte of it needs to be
/// looked at: five hundred viewers that search every letter would cost more than the server they measure.
fn look_on(stream: TcpStream, told: &AtomicUsize, bytes: &AtomicUsize) {
    let mut answer = BufReader::new(stream);
    let mut line = String::new();
    while line != "\r\n" {
        line.clear();
        if !matches!(answer.read_line(&mut line), Ok(count) if count > 0) {
            return;
        }
    }
    while let Some(length) = chunk(&mut answer) {
        bytes.fetch_add(length, Ordering::Relaxed);
        if length > HEARTBEAT {
            told.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// Skips a chunk and tells its length; none at the end.
fn chunk(answer: &mut BufReader<TcpStream>) -> Option<usize> {
    let mut line = String::new();
    answer.read_line(&mut line).ok()?;
    let length = usize::from_str_radix(line.trim_end(), 16).ok().filter(|length| *length > 0)?;
    let whole = length as u64 + 2;
    let skipped = std::io::copy(&mut answer.take(whole), &mut std::io::sink()).ok()?;
    (skipped == whole).then_some(length)
}
