//! `lowtide watch --agent`: marks from a Python that already runs, and plain words where they can't be had.
//!
//! A Python 3.14 is fetched by tests/python314.py; without one the tests that need it say so and the refusals still run.

#![allow(clippy::unwrap_used, reason = "a test that can't set its stage should fail loudly")]

mod support;

use lowtide_model::{MarkKind, Recording};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use support::{Running, Stage, eventually, python_3_14, read};

/// A loop that imports nothing of ours, steps through the agent once it is there, and ends with its standard input.
const LOOP: &str = "
import os, sys, threading, time
stop = threading.Event()
threading.Thread(target=lambda: (sys.stdin.read(), stop.set()), daemon=True).start()
before = dict(os.environ), list(sys.path), sys.dont_write_bytecode
print('ready', flush=True)
number = 0
while not stop.is_set():
    agent = sys.modules.get('lowtide_agent.page')
    if agent is not None and agent.current() is not None:
        number += 1
        agent.current().step(number)
    time.sleep(0.002)
assert before == (dict(os.environ), list(sys.path), sys.dont_write_bytecode)
print('last', number, flush=True)
";

/// A job that nobody records.
fn start(program: &str, words: &[&str]) -> Running {
    let mut command = Command::new(program);
    command.args(words).env_remove("LOWTIDE_MARKS");
    let mut job = Running::start(command, PathBuf::new());
    job.wait_for_line("ready");
    job
}

/// What `watch` says of a job in two seconds.
fn says(stage: &Stage, flags: &[&str], job: &Running) -> String {
    let pid = job.pid().to_string();
    let mut command = stage.command(&["watch", "--lines", "--for", "2s", "--interval", "100ms", &pid]);
    let output = command.args(flags).stdin(Stdio::null()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn watch(stage: &Stage, flags: &[&str], job: &Running, file: &Path) -> Child {
    let pid = job.pid().to_string();
    let mut command = stage.command(&["watch", "--lines", "--interval", "50ms", &pid, "--out"]);
    command.arg(file).args(flags).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.spawn().unwrap()
}

fn last_step(recording: &Recording, rank: Option<u32>) -> u64 {
    let steps = recording.marks.iter().filter(|mark| mark.kind == MarkKind::Step && mark.rank == rank);
    steps.map(|mark| mark.number as u64).max().unwrap_or(0)
}

fn steps_come(file: &Path, rank: Option<u32>) {
    eventually("steps", || {
        let recording = lowtide_store::open(file).ok()?.recording().ok()?;
        (last_step(&recording, rank) > 10).then_some(())
    });
}

fn left_behind(stage: &Stage) -> usize {
    std::fs::read_dir(stage.path("runtime/lowtide")).unwrap().count()
}

#[test]
fn a_python_that_runs_gets_the_agent_and_the_next_watch_goes_on_from_its_page() {
    let Some(python) = python_3_14() else { return };
    let stage = Stage::new();
    let mut job = start(&python, &["-c", LOOP]);
    let (first, second) = (stage.path("first.tide"), stage.path("second.tide"));
    let mut watching = watch(&stage, &["--agent"], &job, &first);
    steps_come(&first, None);
    nix::sys::signal::kill(
        nix::unistd::Pid::from_raw(watching.id() as i32),
        nix::sys::signal::Signal::SIGINT,
    )
    .unwrap();
    watching.wait().unwrap();
    let told = read(&first).events;
    assert!(told.iter().any(|event| event.text.starts_with("agent in 1 process, brought in")), "{told:?}");
    let mut watching = watch(&stage, &[], &job, &second);
    steps_come(&second, None);
    drop(job.child.stdin.take());
    let last: u64 = job.wait_for_line("last").rsplit(' ').next().unwrap().parse().unwrap();
    let (code, said) = job.finish();
    assert_eq!((code, said.as_str()), (0, ""), "nothing of the agent in the job's output");
    assert!(watching.wait().unwrap().success());
    let recording = read(&second);
    assert_eq!(last_step(&recording, None), last, "to the last step");
    let words = "no steps or epochs";
    assert!(recording.events.iter().all(|event| !event.text.contains(words)), "{:?}", recording.events);
    assert_eq!(left_behind(&stage), 0, "nothing stays behind");
}

#[test]
fn a_job_that_outlives_its_watch_takes_the_agents_files_with_it() {
    let Some(python) = python_3_14() else { return };
    let stage = Stage::new();
    let mut job = start(&python, &["-c", LOOP]);
    let said = says(&stage, &["--agent"], &job);
    assert!(said.contains("agent in 1 process"), "{said}");
    assert_eq!(left_behind(&stage), 1, "the job may still import from there");
    drop(job.child.stdin.take());
    job.wait_for_line("last");
    assert_eq!(job.finish(), (0, String::new()));
    assert_eq!(left_behind(&stage), 0);
}

/// Two ranks below a launcher that only waits: it sits in the kernel and runs no Python code until the end.
const RANKS: &str = "
import os, subprocess, sys
def start(rank):
    env = {**os.environ, 'RANK': rank, 'WORLD_SIZE': '2'}
    pipe = subprocess.PIPE
    return subprocess.Popen([sys.executable, '-c', sys.argv[1]], stdin=pipe, stdout=pipe, env=env)
ranks = [start('0'), start('1')]
[rank.stdout.readline() for rank in ranks]
print('ready', flush=True)
sys.stdin.read()
print('last', *[int(rank.communicate()[0].split()[1]) for rank in ranks], flush=True)
";

#[test]
fn every_rank_of_a_job_gets_it_whatever_its_launcher_does() {
    let Some(python) = python_3_14() else { return };
    let stage = Stage::new();
    let mut job = start(&python, &["-c", RANKS, LOOP]);
    let file = stage.path("run.tide");
    let mut watching = watch(&stage, &["--agent"], &job, &file);
    steps_come(&file, Some(0));
    steps_come(&file, Some(1));
    drop(job.child.stdin.take());
    let last = job.wait_for_line("last");
    assert_eq!(job.finish(), (0, String::new()));
    assert!(watching.wait().unwrap().success());
    let recording = read(&file);
    assert_eq!(last, format!("last {} {}", last_step(&recording, Some(0)), last_step(&recording, Some(1))));
    assert_eq!(left_behind(&stage), 0);
}

#[test]
fn without_the_flag_a_running_python_is_not_touched_and_the_way_is_named() {
    let Some(python) = python_3_14() else { return };
    let stage = Stage::new();
    let mut job = start(&python, &["-c", LOOP]);
    let said = says(&stage, &[], &job);
    assert!(said.contains(&format!("`lowtide watch --agent {}` brings", job.pid())), "{said}");
    drop(job.child.stdin.take());
    assert_eq!(job.wait_for_line("last"), "last 0");
    assert_eq!(left_behind(&stage), 0);
}

#[test]
fn a_python_with_remote_debugging_off_is_left_alone() {
    let Some(python) = python_3_14() else { return };
    let stage = Stage::new();
    let mut job = start(&python, &["-X", "disable-remote-debug", "-c", LOOP]);
    let said = says(&stage, &["--agent"], &job);
    assert!(said.contains("it was started with remote debugging off"), "{said}");
    drop(job.child.stdin.take());
    assert_eq!(job.wait_for_line("last"), "last 0");
    assert_eq!(left_behind(&stage), 0);
}

#[test]
fn an_older_python_is_told_with_what_can_be_done() {
    let version =
        Command::new("python3").args(["-c", "import sys; print('%d.%d' % sys.version_info[:2])"]).output();
    let version = String::from_utf8(version.unwrap().stdout).unwrap().trim().to_owned();
    if version.split('.').nth(1).unwrap().parse::<u32>().unwrap() >= 14 {
        return;
    }
    let stage = Stage::new();
    let job = start("python3", &["-c", LOOP]);
    let said = says(&stage, &["--agent"], &job);
    let wanted =
        format!("no agent in process {0}: it is Python {version}, and only 3.14 and later", job.pid());
    assert!(said.contains(&wanted), "{said}");
    assert!(said.contains(&format!("`lowtide mark --run {}` can mark it", job.pid())), "{said}");
    let said = says(&stage, &[], &job);
    assert!(said.contains("only Python 3.14 and later take lowtide's agent while they run"), "{said}");
    assert_eq!(left_behind(&stage), 0);
    job.finish();
}

#[test]
fn a_program_that_was_replaced_or_is_no_python_is_told_as_it_is() {
    let stage = Stage::new();
    let program = stage.renamed("python3.14");
    let job = start(&program, &["hold", "1"]);
    let said = says(&stage, &["--agent"], &job);
    assert!(said.contains(&format!("no agent in process {}: its Python says: ", job.pid())), "{said}");
    std::fs::remove_file(&program).unwrap();
    let said = says(&stage, &["--agent"], &job);
    assert!(said.contains("was replaced or removed after it started"), "{said}");
    job.finish();
    let other = start(&stage.renamed("trainer"), &["hold", "1"]);
    let said = says(&stage, &["--agent"], &other);
    assert!(said.contains("no process of this job is a Python that lowtide knows"), "{said}");
    other.finish();
    assert_eq!(left_behind(&stage), 0);
}
