//! A cache that does not fit, in real jobs that tell how long a pass over their data is: where it is known, starting again
//! is neither done nor advised; where it can't be told from a leak, both are said, and a leak still gets to its end.

use crate::support::{Stage, read};
use crate::{guarded, noted, said, steps, unbroken};
use std::process::Output;

/// 3 MiB a step under 150 MiB: memory ends in the first pass.
fn run(stage: &Stage, flags: &[&str], job: &[&str]) -> Output {
    let growth = ["--leak", "3", "--step-ms", "60"];
    guarded(stage, &[&["--limit", "150MiB"], flags].concat(), &[&growth, job].concat()).output().unwrap()
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
fn a_cache_that_is_known_not_to_fit_is_saved_and_starting_again_is_neither_done_nor_advised() {
    let stage = Stage::new();
    let job = ["--trouble", "refills", "--steps", "70", "--epoch-steps", "70", "--epochs", "1"];
    let output = run(&stage, &["--resume", "50"], &job);
    let words = said(&output);
    assert_eq!(output.status.code(), Some(75), "{words}");
    assert_eq!(restarts(&stage), 0, "{words}");
    assert!(words.contains("a cache fills up that does not fit"), "{words}");
    assert!(words.contains("then it goes on with") && !words.contains("resume with"), "{words}");
    let made = steps(&stage);
    assert_eq!(made, unbroken(made.len() as u64), "{words}");
    let verdict = verdict(&stage);
    assert_eq!((&verdict["verdict"], &verdict["outcome"]["is"]), (&"cache-fill".into(), &"exceeds".into()));
    let advice = verdict["advice"].to_string();
    assert!(["again", "restart", "resume"].iter().all(|word| !advice.contains(word)), "{advice}");
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

#[test]
fn a_cache_that_comes_back_with_the_second_life_gets_no_third_and_a_leak_gets_to_its_end() {
    let passes = ["--epoch-steps", "100", "--epochs", "2"];
    let stage = Stage::new();
    let output = run(
        &stage,
        &["--resume", "50"],
        &[&["--trouble", "refills", "--steps", "200"], &passes[..]].concat(),
    );
    let words = said(&output);
    assert_eq!((output.status.code(), restarts(&stage)), (Some(75), 1), "{words}");
    assert!(words.contains("what fills it comes back with every start"), "{words}");
    assert!(words.contains("then it goes on with") && !words.contains("resume with"), "{words}");
    let stage = Stage::new();
    let output = run(&stage, &["--resume", "50"], &[&["--steps", "90"], &passes[..]].concat());
    let words = said(&output);
    assert_eq!(output.status.code(), Some(0), "{words}");
    assert_eq!(steps(&stage), unbroken(90), "{words}");
    assert!(restarts(&stage) >= 1, "{words}");
}
