//! `lowtide scan`: what a process holds, and with two looks, what grew.
//!
//! Who reads: the recorder where the process belongs to a run (as its ancestor it may), else a helper of our own.

use super::watch::{Run, running};
use super::{asking, recorder};
use crate::cli::{Format, ScanArgs};
use crate::failure::Failure;
use crate::render::{self, Growth};
use lowtide_run::scanning::{self, Depth, Opened, Order, Refusal, Report, ScanError, Scanner};
use lowtide_scan::TypeUse;
use lowtide_wire::{Answer, Ask, Snapshot, encode};
use std::io::{Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

/// A recorder may make several scans before ours.
const PATIENCE: Duration = Duration::from_secs(300);
/// How often the step is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(200);
/// A saved scan is never larger.
const MOST_SAVED: u64 = 64 << 20;

pub(crate) fn scan(args: &ScanArgs) -> Result<ExitCode, Failure> {
    let (report, growth) = match args.of.parse::<u32>() {
        Ok(pid) => live(args, pid)?,
        Err(_) => saved(args)?,
    };
    if let Some(file) = &args.save {
        save(file, &report)?;
    }
    let text = match args.format {
        Format::Text => render::scan_text(&report, growth.as_ref(), args.top),
        Format::Json => format!("{}\n", render::scan_json(&report, growth.as_ref())),
    };
    render::say(&text)?;
    Ok(ExitCode::SUCCESS)
}

/// The helper itself.
pub(crate) fn helper() -> Result<ExitCode, Failure> {
    render::bytes(&scanning::help())?;
    Ok(ExitCode::SUCCESS)
}

fn saved(args: &ScanArgs) -> Result<(Report, Option<Growth>), Failure> {
    if args.length.is_some() || args.steps.is_some() || args.stop {
        return Err(Failure::new(format!("`{}` is a file, not a process", args.of))
            .hint("--for, --steps and --stop need the pid of a process that runs"));
    }
    let number = !args.of.is_empty() && args.of.bytes().all(|byte| byte.is_ascii_digit());
    if number && !Path::new(&args.of).exists() {
        return Err(Failure::new(format!("there is no process {}: no pid is that large", args.of)));
    }
    let report = read(Path::new(&args.of))?;
    let growth = args.against.as_deref().map(|file| between(&read(file)?, &report, None));
    Ok((report, growth.transpose()?))
}

fn live(args: &ScanArgs, pid: u32) -> Result<(Report, Option<Growth>), Failure> {
    let source = Source::of(pid, args)?;
    let before = match &args.against {
        Some(file) => Some(read(file)?),
        None if args.length.is_some() || args.steps.is_some() => Some(source.scan(None)?),
        None => None,
    };
    let steps = match (args.length, args.steps) {
        (Some(length), _) => {
            std::thread::sleep(length);
            None
        }
        (None, Some(steps)) => Some(source.wait_for_steps(steps)?),
        (None, None) => None,
    };
    let report = source.scan(before.as_ref().map(|before| before.scan.types.clone()))?;
    let growth = before.map(|before| between(&before, &report, steps));
    Ok((report, growth.transpose()?))
}

fn between(before: &Report, after: &Report, steps: Option<f64>) -> Result<Growth, Failure> {
    let cannot = |why: &str| Failure::new(format!("cannot tell what grew: {why}"));
    if before.process != after.process {
        let of = |report: &Report| format!("{} ({})", report.process.pid, report.command);
        return Err(cannot("the two scans are of different processes")
            .because(format!("one is of {}, the other of {}", of(before), of(after)))
            .hint("scan one process twice: `lowtide scan PID --for 30s`, or --save and later --against"));
    }
    let seconds = after.taken_unix_ns.saturating_sub(before.taken_unix_ns) as f64 / 1e9;
    if seconds < 0.0 {
        return Err(cannot("the scan after --against is the later one of the two")
            .hint("give the later scan first, and the earlier one after --against"));
    }
    Ok(Growth { difference: lowtide_scan::diff(&before.scan, &after.scan), seconds, steps })
}

/// Where scans of a process come from.
struct Source {
    pid: u32,
    recorder: Option<Run>,
    program: PathBuf,
    stop: bool,
}

impl Source {
    fn of(pid: u32, args: &ScanArgs) -> Result<Self, Failure> {
        let stat = lowtide_probe::stat_of(&lowtide_probe::Root::live(), pid).known();
        if stat.is_some_and(|stat| stat.is_kernel_thread()) {
            return Err(Failure::new(format!(
                "process {pid} is a thread of the kernel: it holds no memory of its own"
            )));
        }
        let recorder = running().into_iter().find(|run| run.holds(pid));
        let pid = recorder.as_ref().map_or(pid, |run| run.meant(pid));
        let program = recorder::own_program()?;
        Ok(Self { pid, recorder, program, stop: args.stop })
    }

    fn scan(&self, before: Option<Vec<TypeUse>>) -> Result<Report, Failure> {
        match &self.recorder {
            Some(run) if !self.stop => ask(&run.socket, self.pid, before),
            _ => {
                let order = Order {
                    pid: self.pid,
                    opened: Opened::There,
                    before,
                    depth: Depth::Everything,
                    most_cpu: Order::LONGEST,
                    stop: self.stop,
                };
                Scanner::start(&self.program, order).and_then(Scanner::wait).map_err(|error| explain(&error))
            }
        }
    }

    /// Waits until the job is so many steps further. Gives how many it was.
    fn wait_for_steps(&self, steps: u64) -> Result<f64, Failure> {
        let no_steps = || {
            Failure::new(format!("process {} tells no steps", self.pid))
                .hint("--steps needs marks: start the job with `lowtide run`, or use --for 30s")
        };
        let socket = &self.recorder.as_ref().ok_or_else(no_steps)?.socket;
        let now = || super::watch::ask_status(socket.clone()).map(|run| run.snapshot);
        let step = |snapshot: &Snapshot| snapshot.progress.and_then(|progress| progress.step);
        let first = now().as_ref().and_then(step).ok_or_else(no_steps)?;
        loop {
            let snapshot =
                now().ok_or_else(|| Failure::new("the recorder ended before the steps were done"))?;
            let done = step(&snapshot).unwrap_or(first) - first;
            if done >= steps as f64 {
                return Ok(done);
            }
            std::thread::sleep(LOOK_EVERY);
        }
    }
}

/// Asks the recorder, which may read the job where we may not.
fn ask(socket: &Path, pid: u32, before: Option<Vec<TypeUse>>) -> Result<Report, Failure> {
    let cannot = || Failure::new(format!("cannot ask the recorder of process {pid} for a scan"));
    let before = before.and_then(|types| serde_json::to_value(types).ok());
    match asking::ask(socket, &Ask::Scan { pid, before }, PATIENCE).map_err(|why| cannot().because(why))? {
        Answer::Scan { report } => serde_json::from_value(report).map_err(|error| cannot().because(error)),
        Answer::Error { text } => Err(cannot().because(text)),
        Answer::History { .. } | Answer::Snapshot(_) | Answer::Marked | Answer::Squeeze { .. } => {
            Err(cannot().because("it answered something else"))
        }
    }
}

fn explain(error: &ScanError) -> Failure {
    let failure = Failure::new(error.to_string());
    match error {
        ScanError::Refused { refusal, .. } => {
            let failure = failure.because(refusal.words());
            match refusal {
                Refusal::Denied => failure.hint(
                    "run lowtide as the user who owns it; where ptrace is restricted, start the job with `lowtide run`, or use sudo",
                ),
                Refusal::NotStopped => failure.hint("without --stop it is read while it runs; a debugger may hold it"),
                Refusal::Gone | Refusal::Unsupported | Refusal::NoRoom { .. } => failure,
            }
        }
        ScanError::Start { source, .. } => failure.because(source),
        ScanError::Ended { end, .. } => failure.because(end.words()),
    }
}

fn read(file: &Path) -> Result<Report, Failure> {
    let cannot = || Failure::new(format!("cannot read the scan {}", file.display()));
    let mut text = Vec::new();
    let opened = std::fs::File::open(file).map_err(|error| cannot().because(error))?;
    opened.take(MOST_SAVED).read_to_end(&mut text).map_err(|error| cannot().because(error))?;
    serde_json::from_slice(&text)
        .map_err(|error| cannot().because(error).hint("make one with `lowtide scan PID --save FILE`"))
}

/// For the owner alone: names of classes and variables are nobody else's business.
fn save(file: &Path, report: &Report) -> Result<(), Failure> {
    let cannot = |error| Failure::new(format!("cannot save the scan to {}", file.display())).because(error);
    let mut out = std::fs::OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(file)
        .map_err(cannot)?;
    out.write_all(&encode(report)).map_err(cannot)
}
