//! `lowtide demo`: a real small job, started as a real tree by this program itself, recorded and summed up.
//!
//! The job has the shape of the case behind lowtide: a wrapper that does nothing, a trainer that keeps every example it
//! decodes during the first pass over its data, and four forked workers that hold still.

use super::recorder;
use crate::cli::{DemoArgs, DemoPart, Format, GuardArgs, RecordingArgs, RunArgs};
use crate::failure::Failure;
use crate::render;
use std::ffi::OsString;
use std::io::Write;
use std::os::unix::net::UnixStream;
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

/// Examples in the demo's data set, and what each one keeps when it is decoded for the first time.
const EXAMPLES: usize = 120;
const EXAMPLE_BYTES: usize = 2 << 20;
/// Examples a step, passes, and the time a step takes: 2.5 passes of 60 steps in about 18 seconds.
const BATCH: usize = 2;
const STEPS: usize = 150;
const STEP: Duration = Duration::from_millis(115);
/// Forked workers and what the trainer holds before it forks them: shared, so a sum of RSS counts it five times.
const WORKERS: usize = 4;
const MODEL_BYTES: usize = 48 << 20;

pub(crate) fn demo(args: DemoArgs) -> Result<ExitCode, Failure> {
    let program = recorder::own_program()?;
    render::complain(&format!(
        "lowtide demo: a wrapper starts a trainer with {WORKERS} workers; {EXAMPLES} examples, batch {BATCH}, so one pass is \
         {} steps. Recording about 18 seconds.\n",
        EXAMPLES / BATCH
    ));
    let command: Vec<OsString> =
        [program.as_os_str(), "demo-job".as_ref(), "wrapper".as_ref()].map(OsString::from).to_vec();
    let recording = RecordingArgs {
        out: args.out,
        interval: Some(Duration::from_millis(250)),
        name: Some("demo".to_owned()),
        quiet: false,
        on: Vec::new(),
        format: Format::Text,
        no_scan: true,
        source: None,
    };
    super::run::run(RunArgs {
        recording,
        screen: false,
        no_agent: true,
        step_pattern: None,
        push: None,
        guarding: GuardArgs::default(),
        command,
    })
}

pub(crate) fn job(part: DemoPart) -> Result<ExitCode, Failure> {
    match part {
        DemoPart::Wrapper => wrapper(),
        DemoPart::Trainer => trainer(),
    }
}

fn wrapper() -> Result<ExitCode, Failure> {
    let status = Command::new(recorder::own_program()?).args(["demo-job", "trainer"]).status();
    let status = status.map_err(|error| Failure::new("cannot start the demo's trainer").because(error))?;
    Ok(ExitCode::from(status.code().unwrap_or(1) as u8))
}

fn trainer() -> Result<ExitCode, Failure> {
    let model = written(MODEL_BYTES);
    let workers = fork_workers(&model)?;
    let mut marks = std::env::var_os("LOWTIDE_SOCKET").and_then(|path| UnixStream::connect(path).ok());
    mark(&mut marks, &format!(r#"mark info 0 point {{"examples":{EXAMPLES},"batch":{BATCH}}}"#));
    let mut decoded: Vec<Option<Vec<u8>>> = vec![None; EXAMPLES];
    let begun = Instant::now();
    for step in 0..STEPS {
        for example in (step * BATCH..).take(BATCH).map(|number| number % EXAMPLES) {
            decoded[example].get_or_insert_with(|| written(EXAMPLE_BYTES));
        }
        // A batch that comes and goes.
        drop(written(4 << 20));
        let due = STEP * (step as u32 + 1);
        std::thread::sleep(due.saturating_sub(begun.elapsed()));
        mark(&mut marks, &format!("mark step {}", step + 1));
    }
    for worker in workers {
        let _ = nix::sys::signal::kill(worker, nix::sys::signal::Signal::SIGTERM);
        let _ = nix::sys::wait::waitpid(worker, None);
    }
    Ok(ExitCode::SUCCESS)
}

/// Tells the recorder, as any program may: one line to its socket. Without one the demo works as well.
fn mark(to: &mut Option<UnixStream>, line: &str) {
    if to.as_mut().is_some_and(|to| writeln!(to, "{line}").is_err()) {
        *to = None;
    }
}

/// Memory that was really written, so that the kernel has to give it.
fn written(bytes: usize) -> Vec<u8> {
    let mut memory = vec![0_u8; bytes];
    memory.iter_mut().step_by(512).for_each(|byte| *byte = 1);
    std::hint::black_box(memory)
}

/// Workers made by fork alone, as a data loader makes them: they share the trainer's memory and its arguments.
#[allow(unsafe_code, reason = "fork without exec is the point of the demo")]
fn fork_workers(model: &[u8]) -> Result<Vec<nix::unistd::Pid>, Failure> {
    let parent = nix::unistd::getpid();
    let mut workers = Vec::new();
    for _ in 0..WORKERS {
        // SAFETY: this process has one thread; the child only sleeps and leaves.
        match unsafe { nix::unistd::fork() }? {
            nix::unistd::ForkResult::Parent { child } => workers.push(child),
            nix::unistd::ForkResult::Child => {
                while nix::unistd::getppid() == parent {
                    std::hint::black_box(model);
                    std::thread::sleep(Duration::from_millis(200));
                }
                std::process::exit(0);
            }
        }
    }
    Ok(workers)
}
