//! The guard with real jobs under real limits: what leaks begins again and loses nothing, what fits is left alone.

#![allow(clippy::unwrap_used, reason = "a test that can't set its stage should fail loudly")]

mod support;

use lowtide_model::{EventKind, Recording};
use std::path::Path;
use std::process::{Command, Output, Stdio};
use support::cgroup::Cgroup;
use support::{Stage, read};

const MIB: u64 = 1 << 20;

/// `lowtide run --guard FLAGS -- python loop.py ARGS`.
fn guarded(stage: &Stage, flags: &[&str], job: &[&str]) -> Command {
    let file = stage.path("run.tide");
    let mut command = stage.command(&["run", "--guard", "--out", file.to_str().unwrap()]);
    command.args(flags).arg("--").args(looping(stage)).args(job);
    let package = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../python");
    command.env("PYTHONPATH", package).env_remove("LOWTIDE_CHECKPOINT").stdin(Stdio::null());
    command
}

/// The program with its folders on this stage.
fn looping(stage: &Stage) -> Vec<String> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/guard/loop.py");
    let text = |path: &Path| path.to_str().unwrap().to_owned();
    let (save, log) = (text(&stage.path("saves")), text(&stage.path("log")));
    ["python3", &text(&script), "--save", &save, "--log", &log].map(str::to_owned).into()
}

/// The steps that were made, in their order, with their losses.
fn steps(stage: &Stage) -> Vec<(u64, u64)> {
    let log = std::fs::read_to_string(stage.path("log")).unwrap_or_default();
    let line = |line: &str| {
        let (step, loss) = line.split_once(' ')?;
        Some((step.parse().ok()?, loss.parse().ok()?))
    };
    log.lines().filter_map(line).collect()
}

/// The same steps without any trouble.
fn unbroken(count: u64) -> Vec<(u64, u64)> {
    let mut loss = 1_u64;
    let next = |step: u64| {
        loss = loss.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(step);
        (step, loss)
    };
    (1..=count).map(next).collect()
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// What the guard noted, by its short names.
fn noted(recording: &Recording) -> Vec<String> {
    let events = recording.events.iter().filter(|event| event.kind == EventKind::Guard);
    let data =
        events.filter_map(|event| serde_json::from_str::<serde_json::Value>(event.data.as_deref()?).ok());
    data.filter_map(|data| Some(data["guard"].as_str()?.to_owned())).collect()
}

#[test]
fn a_loop_that_leaks_under_a_real_limit_makes_every_step_once_and_nobody_is_killed() {
    let Some(cgroup) = Cgroup::new(200 * MIB) else { return };
    let stage = Stage::new();
    let command = guarded(&stage, &["--resume", "9"], &["--leak", "4", "--steps", "100", "--step-ms", "40"]);
    let output = cgroup.inside(&command).output().unwrap();
    let words = said(&output);
    assert_eq!(output.status.code(), Some(0), "{words}");
    assert_eq!(cgroup.kills(), 0, "{words}");
    assert_eq!(steps(&stage), unbroken(100), "{words}");
    let recording = read(&stage.path("run.tide"));
    let noted = noted(&recording);
    let count = |name: &str| noted.iter().filter(|known| *known == name).count();
    assert!(count("life") >= 2, "{noted:?}");
    assert_eq!((count("asked"), count("stopped")), (count("life"), count("life")), "{noted:?}");
    let lives = recording
        .processes
        .iter()
        .filter(|process| process.argv.iter().any(|word| word.ends_with("loop.py")));
    assert!(lives.count() > count("life"), "every life is in the one recording");
}

#[test]
fn without_resume_it_stops_with_code_75_and_the_command_it_names_goes_on() {
    let stage = Stage::new();
    let job = ["--leak", "4", "--steps", "60", "--step-ms", "40", "--from", "{checkpoint}"];
    let output = guarded(&stage, &["--limit", "150MiB"], &job).output().unwrap();
    let words = said(&output);
    assert_eq!(output.status.code(), Some(75), "{words}");
    let made = steps(&stage).len() as u64;
    assert!(made > 5 && made < 60, "{made} steps; {words}");
    assert_eq!(steps(&stage), unbroken(made));
    let line = words.lines().find_map(|line| line.trim().strip_prefix("resume with  ")).unwrap().to_owned();
    let mut again = Command::new("sh");
    again.args(["-c", &line.replace("--limit 150MiB", "--limit 4GiB").replace("run.tide", "again.tide")]);
    let first = guarded(&stage, &[], &[]);
    again.envs(first.get_envs().filter_map(|(key, value)| Some((key, value?))));
    let output = again.stdin(Stdio::null()).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{line}\n{}", said(&output));
    assert_eq!(steps(&stage), unbroken(60), "{line}");
}
