//! A cache that does not fit, in real jobs that tell how long a pass over their data is: in its first
//! pass it can't be told from a leak: both are said, a leak gets to its end, and a cache that comes back is not started once more.

use crate::support::{Stage, read};
use crate::{guarded, noted, said, steps, unbroken};
use std::process::Output;

/// 3 MiB a step under 190 MiB: memory ends in the first pass.
fn run(stage: &Stage, flags: &[&str], job: &[&str]) -> Output {
    let growth = ["--leak", "3", "--step-ms", "60"];
    guarded(stage, &[&["--limit", "190MiB"], flags].concat(), &[&growth, job].concat()).output().unwrap()
}

fn restarts(stage: &Stage) -> usize {
    noted(&read(&stage.path("run.tide"))).iter().filter(|name| *name == "life").count()
}

/// The verdict on the recording, as `lowtide explain` gives it.
fn verdict(stage: &Stage) -> serde_json::Value {
    let file = stage.path("run.tide");
    let output = stage.output(&["explain", "--format", "json", file.to_str().unwrap()]);
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn in_the_first_of_two_passes_both_are_said_and_none_is_advised() {
    let stage = Stage::new();
    let output = run(&stage, &[], &["--steps", "200", "--epoch-steps", "100", "--epochs", "2"]);
    let words = said(&output);
    assert_eq!(output.status.code(), Some(75), "{words}");
    assert!(words.contains("if it is a cache, it will fill up again: more memory"), "{words}");
    assert!(words.contains("if it leaks, going on from the checkpoint helps"), "{words}");
    assert!(!words.contains("resume with"), "{words}");
}

/// Two passes of which the first goes on, and a job that makes a single one: a leak and a cache draw the same curve there.
const PASSES: [[&str; 4]; 2] =
    [["--epoch-steps", "100", "--epochs", "2"], ["--epoch-steps", "70", "--epochs", "1"]];

#[test]
fn a_cache_that_comes_back_with_the_second_life_gets_no_third_and_is_told_no_restart() {
    for passes in PASSES {
        let stage = Stage::new();
        let job = ["--trouble", "refills", "--steps", if passes[3] == "1" { "70" } else { "200" }];
        let output = run(&stage, &["--resume", "50"], &[&job[..], &passes].concat());
        let words = said(&output);
        assert_eq!((output.status.code(), restarts(&stage)), (Some(75), 1), "{passes:?} {words}");
        assert!(words.contains("what fills it comes back with every start"), "{words}");
        assert!(words.contains("then it goes on with") && !words.contains("resume with"), "{words}");
        let advice = verdict(&stage)["advice"].to_string();
        assert!(["start again", "restart", "resume"].iter().all(|word| !advice.contains(word)), "{advice}");
    }
}

#[test]
fn a_leak_in_a_first_or_only_pass_gets_to_its_end() {
    for passes in PASSES {
        let stage = Stage::new();
        let output = run(&stage, &["--resume", "50"], &[&["--steps", "70"], &passes[..]].concat());
        let words = said(&output);
        assert_eq!(output.status.code(), Some(0), "{passes:?} {words}");
        assert_eq!(steps(&stage), unbroken(70), "{words}");
        assert!(restarts(&stage) >= 1, "{words}");
    }
}
