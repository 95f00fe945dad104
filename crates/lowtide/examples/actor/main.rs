//! Small real programs for the tests: each mode does one thing with memory or processes, and says when it is ready.
//!
//! `actor MODE [NUMBER...]`. Sizes are in MiB, times in milliseconds. A line `ready` on standard output means that the
//! interesting state is reached; the actor then waits for its standard input to close, or ends by itself where that is
//! the point.

#![allow(unsafe_code, reason = "fork without exec and raw signal handling are what is tested")]
#![allow(clippy::print_stdout, reason = "an actor talks to its test on standard output")]

mod held;
mod job;
mod page;

use nix::sys::signal::{SigSet, Signal};
use nix::unistd::{ForkResult, Pid, fork, setsid};
use std::fs::OpenOptions;
use std::io::{Read, Write};
use std::process::{Command, exit};
use std::time::Duration;

const MIB: usize = 1 << 20;

fn main() {
    let words: Vec<String> = std::env::args().collect();
    let mode = words.get(1).map_or("", String::as_str);
    let number =
        |at: usize, default: usize| words.get(at + 2).and_then(|word| word.parse().ok()).unwrap_or(default);
    match mode {
        "hold" => hold(number(0, 64)),
        "leak" => grow(number(0, 4), number(1, 20), number(2, 100)),
        "eat" => eat(),
        "tree" => tree(&words[2..]),
        "launch" => launch(&words[2..]),
        "train" => train(number(0, 100), number(1, 4)),
        "unshare" => unshare(number(0, 100)),
        "storm" => storm(number(0, 100), number(1, 20)),
        "crowd" => crowd(number(0, 100)),
        "daemon" => daemon(number(0, 1500)),
        "signals" => signals(&words[2]),
        "fast" => fast(number(0, 200)),
        "mmaps" => mmaps(number(0, 1000)),
        "job" => job::run(words.get(2).map_or("", String::as_str)),
        _ => {
            eprintln!("no such actor: {mode}");
            exit(64);
        }
    }
}

fn ready() {
    println!("ready");
    let _ = std::io::stdout().flush();
}

fn wait_for_end() {
    let _ = std::io::stdin().read_to_end(&mut Vec::new());
}

fn pause(milliseconds: usize) {
    std::thread::sleep(Duration::from_millis(milliseconds as u64));
}

/// Memory that was really written.
fn written(mib: usize) -> Vec<u8> {
    let mut memory = vec![0_u8; mib * MIB];
    memory.iter_mut().step_by(1024).for_each(|byte| *byte = 1);
    std::hint::black_box(memory)
}

fn hold(mib: usize) {
    let memory = written(mib);
    ready();
    wait_for_end();
    drop(memory);
}

/// Keeps a bit more at every step.
fn grow(mib: usize, steps: usize, step_ms: usize) {
    let mut kept = Vec::new();
    for _ in 0..steps {
        kept.push(written(mib));
        pause(step_ms);
    }
    drop(kept);
}

/// Takes memory until somebody stops it.
fn eat() {
    let mut kept = Vec::new();
    loop {
        kept.push(written(4));
        pause(5);
    }
}

/// Takes this much at once and ends: the peak is between two ticks.
fn fast(mib: usize) {
    drop(written(mib));
    pause(50);
}

/// Maps, touches and unmaps 1 MiB again and again; prints the median and the 99.9th percentile of the mapping in
/// microseconds, and the CPU seconds it all took.
fn mmaps(count: usize) {
    let held = written(256);
    let mut latencies: Vec<f64> = (0..count).map(|_| one_mmap()).collect();
    latencies.sort_by(f64::total_cmp);
    let at = |part: f64| latencies[((latencies.len() - 1) as f64 * part) as usize];
    let usage =
        nix::sys::resource::getrusage(nix::sys::resource::UsageWho::RUSAGE_SELF).unwrap_or_else(|_| exit(70));
    let seconds = |time: nix::sys::time::TimeVal| time.tv_sec() as f64 + time.tv_usec() as f64 / 1e6;
    println!("{} {} {}", at(0.5), at(0.999), seconds(usage.user_time()) + seconds(usage.system_time()));
    drop(held);
}

fn one_mmap() -> f64 {
    let begun = std::time::Instant::now();
    // Above the allocator's threshold, so each one is a mapping of its own.
    let memory: Vec<u8> = Vec::with_capacity(MIB);
    let took = begun.elapsed().as_secs_f64() * 1e6;
    std::hint::black_box(&memory);
    drop(memory);
    pause(1);
    took
}

/// A wrapper: starts the given program and waits, holding nothing.
fn tree(command: &[String]) {
    let status = Command::new(&command[0]).args(&command[1..]).status();
    exit(status.map_or(1, |status| status.code().unwrap_or(1)));
}

/// A launcher: as the wrapper, but it holds a little and stays between.
fn launch(command: &[String]) {
    let held = written(2);
    tree(command);
    drop(held);
}

/// A trainer with forked workers that only read what they share.
fn train(mib: usize, workers: usize) {
    let data = written(mib);
    let children: Vec<Pid> = (0..workers).map(|_| worker(&data)).collect();
    ready();
    wait_for_end();
    end(&children);
}

fn worker(data: &[u8]) -> Pid {
    // SAFETY: this program has one thread.
    match unsafe { fork() } {
        Ok(ForkResult::Parent { child }) => child,
        Ok(ForkResult::Child) => loop {
            let sum: u64 = data.iter().step_by(4096).map(|byte| u64::from(*byte)).sum();
            std::hint::black_box(sum);
            pause(200);
        },
        Err(_) => exit(70),
    }
}

fn end(children: &[Pid]) {
    for child in children {
        let _ = nix::sys::signal::kill(*child, Signal::SIGKILL);
        let _ = nix::sys::wait::waitpid(*child, None);
    }
}

/// A forked child that writes what it shares with its parent, page by page: memory grows and no RSS does.
fn unshare(mib: usize) {
    let mut data = written(mib);
    // SAFETY: this program has one thread.
    match unsafe { fork() } {
        Ok(ForkResult::Parent { child }) => {
            ready();
            wait_for_end();
            end(&[child]);
        }
        Ok(ForkResult::Child) => {
            pause(3000);
            for chunk in data.chunks_mut(4 * MIB) {
                chunk.iter_mut().step_by(1024).for_each(|byte| *byte = 2);
                pause(100);
            }
            loop {
                pause(1000);
            }
        }
        Err(_) => exit(70),
    }
}

/// Many short-lived children, one after the other in pairs.
fn storm(count: usize, life_ms: usize) {
    let mut living: Vec<Pid> = Vec::new();
    for _ in 0..count {
        // SAFETY: this program has one thread.
        match unsafe { fork() } {
            Ok(ForkResult::Parent { child }) => living.push(child),
            Ok(ForkResult::Child) => {
                pause(life_ms);
                exit(7);
            }
            Err(_) => exit(70),
        }
        pause(5);
        living.retain(|child| {
            let flags = Some(nix::sys::wait::WaitPidFlag::WNOHANG);
            matches!(nix::sys::wait::waitpid(*child, flags), Ok(nix::sys::wait::WaitStatus::StillAlive))
        });
    }
    for child in living {
        let _ = nix::sys::wait::waitpid(child, None);
    }
}

/// Many children at once, all alive until the end.
fn crowd(count: usize) {
    let mut children = Vec::new();
    for _ in 0..count {
        // SAFETY: this program has one thread.
        match unsafe { fork() } {
            Ok(ForkResult::Parent { child }) => children.push(child),
            Ok(ForkResult::Child) => loop {
                pause(60_000);
            },
            Err(_) => exit(70),
        }
    }
    ready();
    wait_for_end();
    end(&children);
}

/// A double fork with a session of its own: the grandchild outlives everybody. Prints its pid.
fn daemon(life_ms: usize) {
    // SAFETY: this program has one thread.
    if let Ok(ForkResult::Child) = unsafe { fork() } {
        let _ = setsid();
        // SAFETY: as above.
        if let Ok(ForkResult::Child) = unsafe { fork() } {
            println!("daemon {}", std::process::id());
            let _ = std::io::stdout().flush();
            if let Ok(nothing) = OpenOptions::new().read(true).write(true).open("/dev/null") {
                let _ = nix::unistd::dup2_stdin(&nothing);
                let _ = nix::unistd::dup2_stdout(&nothing);
                let _ = nix::unistd::dup2_stderr(&nothing);
            }
            let held = written(8);
            pause(life_ms);
            drop(held);
        }
        exit(0);
    }
    let _ = nix::sys::wait::wait();
    ready();
    wait_for_end();
}

/// Writes the name of every signal it gets to a file, until it gets a second TERM.
fn signals(file: &str) {
    let mut set = SigSet::empty();
    let wanted =
        [Signal::SIGTERM, Signal::SIGHUP, Signal::SIGINT, Signal::SIGQUIT, Signal::SIGUSR1, Signal::SIGUSR2];
    wanted.into_iter().chain([Signal::SIGTSTP, Signal::SIGCONT]).for_each(|signal| set.add(signal));
    let _ = set.thread_block();
    let Ok(mut log) = OpenOptions::new().create(true).append(true).open(file) else { exit(73) };
    ready();
    let mut terms = 0;
    while terms < 2 {
        if let Ok(signal) = set.wait() {
            let _ = writeln!(log, "{signal}");
            terms += usize::from(signal == Signal::SIGTERM);
        }
    }
}
