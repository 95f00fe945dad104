//! The guest's only job: a program that holds memory, eats it without end, trains and leaks, or becomes another user first.
//!
//! One file without dependencies, compiled by `cargo xtask guest` with plain rustc and put into the image.
//!
//!     actor eat MILLISECONDS        touch one more MiB every so many milliseconds until the kernel ends it
//!     actor hold MIB FILE [CODE]    hold MIB, write FILE.ready, wait until FILE is there, exit with CODE
//!     actor as UID CMD ARGS...      become the user UID and turn into CMD
//!     actor connect SOCKET          connect to a socket and leave
//!     actor train FOLDER STEPS      make steps that keep one MiB each, tell lowtide of them, log them to FOLDER/log; begin
//!                                   from $LOWTIDE_CHECKPOINT; on SIGTERM save to FOLDER and leave

use std::fs::OpenOptions;
use std::io::{self, Write};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

const MIB: usize = 1 << 20;
const PAGE: usize = 4096;
/// How long a step takes: shorter than the patience of a test, longer than a look.
const STEP: Duration = Duration::from_millis(80);
/// How often the recorder's socket is tried, 20 ms apart.
const TRIES: usize = 1000;
const SIGTERM: i32 = 15;
static TERMINATED: AtomicBool = AtomicBool::new(false);

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["eat", pause] => eat(Duration::from_millis(number(pause))),
        ["hold", size, file] => hold(number(size), file, 0),
        ["hold", size, file, code] => hold(number(size), file, number(code) as u8),
        ["as", user, program, rest @ ..] => become_user(number(user) as u32, program, rest),
        ["connect", socket] => connect(socket),
        ["train", folder, steps] => train(Path::new(folder), number(steps)).unwrap_or_else(failed),
        _ => ExitCode::from(2),
    }
}

fn number(text: &str) -> u64 {
    text.parse().unwrap_or(0)
}

/// Memory that is really there: every page is written.
fn touched(mib: u64) -> Vec<u8> {
    let mut memory = Vec::with_capacity(mib as usize * MIB);
    memory.resize(mib as usize * MIB, 0);
    for at in (0..memory.len()).step_by(PAGE) {
        memory[at] = 1;
    }
    std::hint::black_box(memory)
}

fn eat(pause: Duration) -> ExitCode {
    let mut held = Vec::new();
    loop {
        held.push(touched(1));
        std::thread::sleep(pause);
    }
}

fn hold(mib: u64, file: &str, code: u8) -> ExitCode {
    let memory = touched(mib);
    if std::fs::write(format!("{file}.ready"), "").is_err() {
        return ExitCode::from(4);
    }
    while !Path::new(file).exists() {
        std::thread::sleep(Duration::from_millis(20));
    }
    drop(std::hint::black_box(memory));
    ExitCode::from(code)
}

fn become_user(user: u32, program: &str, rest: &[&str]) -> ExitCode {
    let error = Command::new(program).args(rest).uid(user).gid(user).exec();
    eprintln!("cannot run {program}: {error}");
    ExitCode::from(127)
}

fn connect(socket: &str) -> ExitCode {
    UnixStream::connect(socket).map_or_else(failed, |_| ExitCode::SUCCESS)
}

fn failed(error: io::Error) -> ExitCode {
    eprintln!("{error}");
    ExitCode::FAILURE
}

unsafe extern "C" {
    // Of the C library that std stands on.
    fn signal(number: i32, handler: extern "C" fn(i32)) -> usize;
}

extern "C" fn terminated(_: i32) {
    TERMINATED.store(true, Ordering::Relaxed);
}

/// A job that leaks, and saves when it is asked by a signal.
fn train(folder: &Path, steps: u64) -> io::Result<ExitCode> {
    // SAFETY: the handler does nothing but store to an atomic.
    unsafe { signal(SIGTERM, terminated) };
    let mut recorder = std::env::var("LOWTIDE_SOCKET").ok().map(|path| recorder_at(&path)).transpose()?;
    let mut log = OpenOptions::new().append(true).create(true).open(folder.join("log"))?;
    let mut kept = Vec::new();
    for step in saved()? + 1..=steps {
        std::thread::sleep(STEP);
        kept.push(touched(1));
        writeln!(log, "{step}")?;
        if let Some(recorder) = &mut recorder {
            writeln!(recorder, "mark step {step}")?;
        }
        if TERMINATED.load(Ordering::Relaxed) {
            let path = save(folder, step)?;
            if let Some(recorder) = &mut recorder {
                writeln!(recorder, "mark save {step} {{\"path\": \"{}\"}}", path.display())?;
            }
            return Ok(ExitCode::SUCCESS);
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// The recorder opens its socket a moment after the job begins.
fn recorder_at(path: &str) -> io::Result<UnixStream> {
    for _ in 0..TRIES {
        if let Ok(stream) = UnixStream::connect(path) {
            return Ok(stream);
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    UnixStream::connect(path)
}

/// The step of the checkpoint that lowtide hands over; 0 at the first start.
fn saved() -> io::Result<u64> {
    match std::env::var("LOWTIDE_CHECKPOINT") {
        Ok(path) => Ok(number(std::fs::read_to_string(path)?.trim_matches(|c: char| !c.is_ascii_digit()))),
        Err(_) => Ok(0),
    }
}

fn save(folder: &Path, step: u64) -> io::Result<PathBuf> {
    let (part, whole) = (folder.join("part"), folder.join(format!("state-{step}.json")));
    std::fs::write(&part, format!("{{\"step\": {step}}}"))?;
    std::fs::rename(part, &whole)?;
    Ok(whole)
}
