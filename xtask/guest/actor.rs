//! The guest's only job: a program that holds memory, eats it without end, or becomes another user first.
//!
//! One file without dependencies, compiled by `cargo xtask guest` with plain rustc and put into the image.
//!
//!     actor eat MILLISECONDS        touch one more MiB every so many milliseconds until the kernel ends it
//!     actor hold MIB FILE [CODE]    hold MIB, write FILE.ready, wait until FILE is there, exit with CODE
//!     actor as UID CMD ARGS...      become the user UID and turn into CMD
//!     actor connect SOCKET          connect to a socket and leave

use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, ExitCode};
use std::time::Duration;

const MIB: usize = 1 << 20;
const PAGE: usize = 4096;

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["eat", pause] => eat(Duration::from_millis(number(pause))),
        ["hold", size, file] => hold(number(size), file, 0),
        ["hold", size, file, code] => hold(number(size), file, number(code) as u8),
        ["as", user, program, rest @ ..] => become_user(number(user) as u32, program, rest),
        ["connect", socket] => connect(socket),
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
    match std::os::unix::net::UnixStream::connect(socket) {
        Ok(_) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}
