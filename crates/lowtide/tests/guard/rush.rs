//! A job that takes memory as fast as the machine gives it: caught while a save is possible, and told that it may be lost
//! before the kernel ends it where none is. The rate that was reached is printed; nothing is asserted of it.

use crate::support::cgroup::Cgroup;
use crate::support::{Stage, actor, read};
use crate::{MIB, noted, said};
use lowtide_model::EventKind;
use serde_json::json;
use std::process::{Command, Stdio};
use std::sync::{Mutex, PoisonError};

const MB: u64 = 1_000_000;
/// One at a time: each takes all the memory bandwidth there is.
static ALONE: Mutex<()> = Mutex::new(());

/// A job of two threads and so many steps that each take so much in so many milliseconds.
fn plan(stage: &Stage, steps: u64, mb: u64, ms: u64, save: &serde_json::Value) -> String {
    let steps: Vec<(u64, u64)> = (1..=steps).map(|step| ((200 + step * mb) * MB, ms)).collect();
    let plan = json!({"begins": 200 * MB, "steps": steps, "swing": 0, "keeps": "throughout", "eval": null, "save": save,
        "folder": stage.folder.path(), "threads": 2});
    plan.to_string()
}

/// `lowtide run --guard FLAGS -- actor job`.
fn rushing(stage: &Stage, flags: &[&str], plan: &str) -> Command {
    let file = stage.path("run.tide");
    let mut command = stage.command(&["run", "--guard", "--out", file.to_str().unwrap()]);
    command.args(flags).arg("--").arg(actor()).args(["job", plan]).stdin(Stdio::null());
    command
}

#[test]
fn gigabytes_a_second_are_caught_while_a_save_is_possible() {
    let Some(cgroup) = Cgroup::new(3000 * MIB) else { return };
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let stage = Stage::new();
    let save = json!({"every": 4, "takes": 60 * MB, "ms": 20});
    // Once alone: a virtual machine may have to get its memory from its host first, at a tenth of the rate.
    let alone = plan(&stage, 14, 200, 40, &serde_json::Value::Null);
    assert!(Command::new(actor()).args(["job", &alone]).output().unwrap().status.success());
    // 200 MB in 40 ms would be 5 GB/s.
    let output = cgroup.inside(&rushing(&stage, &[], &plan(&stage, 60, 200, 40, &save))).output().unwrap();
    let (words, told) = (said(&output), String::from_utf8_lossy(&output.stdout).into_owned());
    assert_eq!((output.status.code(), cgroup.kills()), (Some(75), 0), "{told}{words}");
    let ended: Vec<&str> = told.split_whitespace().collect();
    let ["asked", step, rate] = ended[..] else { panic!("{told}{words}") };
    eprintln!("asked at step {step}, where it grew by {:.2} GB/s", rate.parse::<f64>().unwrap() / 1e9);
    assert!(stage.path(&format!("state-{step}.safetensors")).exists(), "{words}");
    assert!(words.contains(&format!("state-{step}.safetensors (step {step})")), "all of it is kept: {words}");
}

#[test]
fn one_that_leaves_no_room_for_a_save_is_told_that_it_may_be_lost_before_the_kernel_ends_it() {
    let Some(cgroup) = Cgroup::new(6000 * MIB) else { return };
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let stage = Stage::new();
    // Growth is known when the fifth step has ended, and the sixth does not fit.
    let flags = ["--isolate", "--max", "2850MiB"];
    let command = rushing(&stage, &flags, &plan(&stage, 60, 500, 400, &serde_json::Value::Null));
    let output = cgroup.inside(&command).output().unwrap();
    let words = said(&output);
    assert_eq!(output.status.code(), Some(137), "{words}");
    assert!(words.contains("it may be lost, one more step and a save will hardly fit"), "{words}");
    let recording = read(&stage.path("run.tide"));
    assert_eq!(noted(&recording).first().map(String::as_str), Some("asked"), "{words}");
    let at = |kind: EventKind| recording.events.iter().position(|event| event.kind == kind);
    assert!(at(EventKind::Guard) < at(EventKind::Oom) && at(EventKind::Oom).is_some(), "{words}");
}
