//! Reads real processes: their memory, their end, what strangers may not see, pages un-shared after a fork.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails where it cannot go on")]

use lowtide_model::{Bytes, Limit, Reading};
use lowtide_probe::fake::FakeProc;
use lowtide_probe::{ProcessReader, Root, stat_of};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

const MIB: usize = 1 << 20;

fn open(pid: u32) -> ProcessReader {
    ProcessReader::open(&Root::live(), pid).known().unwrap()
}

fn sleeper(command: &mut Command) -> Child {
    let child = command.args(["1000"]).spawn().unwrap();
    // Spawned means exec was called: the program is in place.
    child
}

fn end(mut child: Child) {
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn the_readers_agree_with_each_other_and_with_what_was_allocated() {
    let mut reader = open(std::process::id());
    let before = reader.quick().known().unwrap();
    let block = vec![1_u8; 64 * MIB];
    std::hint::black_box(&block);
    let after = reader.quick().known().unwrap();
    let grown = after.rss.since(before.rss).0;
    // Other tests of this program run beside this one.
    assert!(grown >= 50 * MIB as i64, "{grown}");
    let status = reader.status().known().unwrap();
    assert!(status.anon.unwrap() >= Bytes(64 * MIB as u64));
    assert!(status.peak_rss.unwrap() >= status.anon.unwrap());
    let stat = reader.stat().known().unwrap();
    assert_eq!((stat.pid, stat.start_ticks), (std::process::id(), reader.key().start_ticks));
    assert!(stat.minor_faults > 0 && stat.threads >= 1);
    // A process that another test starts shares all pages with us until it is another program.
    let mut rollups = std::iter::repeat_with(|| reader.rollup().known().unwrap()).take(1000);
    assert!(rollups.any(|(pss, held)| pss.private >= Bytes(64 * MIB as u64) && held > Duration::ZERO));
}

#[test]
fn identity_holds_the_arguments_and_only_the_allowed_environment() {
    let mut command = Command::new("sleep");
    command
        .arg0("an odd) (name\n")
        .env_clear()
        .env("RANK", "3")
        .env("HF_TOKEN", "secret")
        .env("MALLOC_ARENA_MAX", "2");
    let child = sleeper(&mut command);
    let identity = open(child.id()).identity();
    assert_eq!(identity.argv, Reading::Known(vec!["an odd) (name\n".to_owned(), "1000".to_owned()]));
    assert_eq!(identity.comm, Reading::Known("sleep".to_owned()));
    assert!(matches!(&identity.exe, Reading::Known(name) if !name.is_empty()));
    let mut env = identity.env.known().unwrap();
    env.sort();
    assert_eq!(env, [("MALLOC_ARENA_MAX".to_owned(), "2".to_owned()), ("RANK".to_owned(), "3".to_owned())]);
    assert!(identity.cgroup.as_known().is_some());
    assert!(matches!(identity.address_space, Reading::Known(Limit::Unlimited | Limit::At(_))));
    end(child);
}

#[test]
fn a_process_that_ended_is_gone_for_every_reader() {
    let child = sleeper(&mut Command::new("sleep"));
    let mut reader = open(child.id());
    assert!(reader.status().as_known().is_some());
    let key = reader.key();
    end(child);
    assert_eq!(reader.quick(), Reading::Gone);
    assert_eq!(reader.stat(), Reading::Gone);
    assert_eq!(reader.status(), Reading::Gone);
    assert_eq!(reader.rollup(), Reading::Gone);
    assert_eq!(reader.exclusive_pages(Duration::from_secs(1)), Reading::Gone);
    assert_eq!(reader.identity().argv, Reading::Gone);
    assert_eq!(ProcessReader::open_key(&Root::live(), key).map(|_| ()), Reading::Gone);
}

#[test]
fn the_same_pid_with_another_start_is_not_the_same_process() {
    let mut key = open(std::process::id()).key();
    key.start_ticks += 1;
    assert_eq!(ProcessReader::open_key(&Root::live(), key).map(|_| ()), Reading::Gone);
}

/// Runs this test program's actor as `nobody`, and as itself where we are not root: then it may read everything.
fn as_stranger(actor: &str, argument: &str) -> String {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--ignored", "--exact", actor, "--nocapture"]).env("ACTOR_ARGUMENT", argument);
    if nix::unistd::geteuid().is_root() {
        command.uid(65534).gid(65534).current_dir("/");
    }
    let output = command.output().unwrap();
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
#[ignore = "an actor that other tests start"]
fn actor_reads_a_stranger() {
    let pid: u32 = std::env::var("ACTOR_ARGUMENT").unwrap().parse().unwrap();
    let mut reader = ProcessReader::open(&Root::live(), pid).known().unwrap();
    let identity = reader.identity();
    println!(
        "quick={} status={} rollup={} pages={} env={} argv={}",
        reader.quick().word(),
        reader.status().word(),
        reader.rollup().word(),
        reader.exclusive_pages(Duration::from_secs(1)).word(),
        identity.env.word(),
        identity.argv.word(),
    );
}

/// A copy that other users may run: the build folder may be closed to them.
fn readable_by_all() -> bool {
    let path = std::env::current_exe().unwrap();
    path.ancestors().all(|part| {
        use std::os::unix::fs::PermissionsExt;
        part.metadata().is_ok_and(|meta| meta.permissions().mode() & 0o001 != 0)
    })
}

#[test]
fn what_a_stranger_may_not_read_is_denied_and_the_rest_is_known() {
    let child = sleeper(&mut Command::new("sleep"));
    if nix::unistd::geteuid().is_root() && readable_by_all() {
        let told = as_stranger("actor_reads_a_stranger", &child.id().to_string());
        assert!(
            told.contains("quick=known status=known rollup=denied pages=denied env=denied argv=known"),
            "{told}"
        );
    } else {
        // Pid 1 belongs to root, and reading its memory map needs more than we have.
        let mut init = open(1);
        assert!(matches!(init.rollup(), Reading::Denied | Reading::Known(_)));
        assert!(init.quick().as_known().is_some());
    }
    end(child);
}

#[test]
#[ignore = "an actor that other tests start"]
#[allow(unsafe_code, reason = "forks to share pages")]
fn actor_parent_of_a_copying_child() {
    let mut block = vec![1_u8; 32 * MIB];
    std::hint::black_box(&mut block);
    // SAFETY: the child uses memory it has, standard input and output, and then ends without unwinding.
    if let nix::unistd::ForkResult::Parent { child } = unsafe { nix::unistd::fork() }.unwrap() {
        nix::sys::wait::waitpid(child, None).unwrap();
        return;
    }
    let say = |text: String| std::io::stdout().write_all(text.as_bytes()).unwrap();
    say(format!("pid {}\n", std::process::id()));
    let mut line = String::new();
    std::io::stdin().read_line(&mut line).unwrap();
    for page in block.chunks_mut(4096) {
        page[0] = 2;
    }
    std::hint::black_box(&block);
    say("copied\n".to_owned());
    std::io::stdin().read_line(&mut line).unwrap();
    std::process::abort();
}

#[test]
fn pages_un_shared_after_a_fork_show_in_pagemap_and_not_in_rss() {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--ignored", "--exact", "actor_parent_of_a_copying_child", "--nocapture"]);
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut next = |start: &str| loop {
        let line = lines.next().unwrap().unwrap();
        if let Some(at) = line.find(start) {
            return line[at + start.len()..].trim().to_owned();
        }
    };
    let pid: u32 = next("pid ").parse().unwrap();
    let mut reader = open(pid);
    let look = |reader: &mut ProcessReader| {
        let pages = reader.exclusive_pages(Duration::from_secs(10)).known().unwrap();
        assert!(pages.complete);
        (pages, reader.quick().known().unwrap().rss, reader.rollup().known().unwrap().0)
    };
    let (before, rss_before, rollup_before) = look(&mut reader);
    assert!(before.shared >= Bytes(30 * MIB as u64), "{before:?}");
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(b"go\n").unwrap();
    next("copied");
    let (after, rss_after, rollup_after) = look(&mut reader);
    assert!(after.exclusive.since(before.exclusive).0 >= 30 * MIB as i64, "{before:?} {after:?}");
    assert!(rollup_after.private_dirty.since(rollup_before.private_dirty).0 >= 30 * MIB as i64);
    assert!(rss_after.distance(rss_before) < Bytes(8 * MIB as u64), "RSS cannot show it");
    drop(stdin);
    child.wait().unwrap();
}

#[test]
#[ignore = "an actor that other tests start"]
fn actor_is_short_of_descriptors() {
    use nix::sys::resource::{Resource, getrlimit, setrlimit};
    let hard = getrlimit(Resource::RLIMIT_NOFILE).unwrap().1;
    setrlimit(Resource::RLIMIT_NOFILE, 128, hard).unwrap();
    let child = sleeper(&mut Command::new("sleep"));
    let mut readers: Vec<ProcessReader> = (0..200).map(|_| open(child.id())).collect();
    let read =
        |reader: &mut ProcessReader| (reader.quick().word(), reader.stat().word(), reader.status().word());
    assert!(readers.iter_mut().all(|reader| read(reader) == ("known", "known", "known")));
    end(child);
    assert!(readers.iter_mut().all(|reader| read(reader) == ("gone", "gone", "gone")));
    println!("all were read");
}

#[test]
fn more_processes_than_descriptors_are_read_all_the_same() {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--ignored", "--exact", "actor_is_short_of_descriptors", "--nocapture"]);
    let output = command.output().unwrap();
    assert!(String::from_utf8_lossy(&output.stdout).contains("all were read"), "{output:?}");
}

#[test]
fn unreadable_entries_are_told_apart_from_missing_ones() {
    let dir = tempfile::tempdir().unwrap();
    let fake = FakeProc::at(dir.path()).unwrap();
    fake.process(5).comm("a) (b\nc").rss(Bytes::from_mib(8)).started(77).write().unwrap();
    let mut reader = ProcessReader::open(fake.root(), 5).known().unwrap();
    assert_eq!((reader.key().pid, reader.key().start_ticks), (5, 77));
    assert_eq!(reader.quick().known().unwrap().rss, Bytes::from_mib(8));
    assert_eq!(reader.status().known().unwrap().anon, Some(Bytes::from_mib(6)));
    assert_eq!(reader.identity().comm, Reading::Known("a) (b\nc".to_owned()));
    assert_eq!(reader.rollup(), Reading::Unsupported, "this kernel has no such file");
    std::fs::create_dir(fake.root().process(5).join("smaps_rollup")).unwrap();
    assert_eq!(reader.rollup(), Reading::Unsupported, "a folder cannot be read");
    fake.file("proc/6/stat", "garbage").unwrap();
    fake.file("proc/6/statm", "").unwrap();
    assert_eq!(stat_of(fake.root(), 6), Reading::Unsupported);
    assert_eq!(stat_of(fake.root(), 7), Reading::Gone);
    fake.process(5).started(78).write().unwrap();
    assert_eq!(reader.stat(), Reading::Gone, "the pid has a new owner");
}
