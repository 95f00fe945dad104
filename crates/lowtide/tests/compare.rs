//! `lowtide compare`: which process, which kind of memory, which phase, and whether it is more than noise.

#![allow(clippy::unwrap_used, reason = "a test that can't set its stage should stop")]

mod recorded;
mod support;

use recorded::{Job, fill, leak, steady};
use serde_json::Value;
use support::Stage;

fn compare(stage: &Stage, args: &[&str]) -> (i32, String, String) {
    let output = stage.output(&[&["compare"], args].concat());
    (
        output.status.code().unwrap(),
        String::from_utf8(output.stdout).unwrap(),
        String::from_utf8(output.stderr).unwrap(),
    )
}

fn write(stage: &Stage, name: &str, job: &Job) -> String {
    let file = stage.path(name);
    job.write(&file);
    file.to_str().unwrap().to_owned()
}

#[test]
fn a_fix_is_named_by_process_kind_and_phase() {
    let stage = Stage::new();
    let before = write(&stage, "before.tide", &Job { trainer: fill, ..Job::default() });
    let after = write(&stage, "after.tide", &Job { trainer: steady, ..Job::default() });
    let (code, said, _) = compare(&stage, &[&before, &after]);
    assert_eq!(code, 0);
    let first = said.lines().next().unwrap();
    assert!(first.starts_with("B holds 80") && first.contains("MiB less at its end"), "{first}");
    assert!(first.contains("mostly anonymous memory of the trainer"), "{first}");
    assert!(first.contains("it comes from growth after the start"), "{first}");
    assert!(first.contains("give several a side"), "one run a side does not know the spread: {first}");
}

#[test]
fn file_pages_that_were_there_from_the_start_are_told_as_that() {
    let stage = Stage::new();
    let less = write(&stage, "less.tide", &Job::default());
    let more = write(&stage, "more.tide", &Job { file_mib: 450, ..Job::default() });
    let (_, said, _) = compare(&stage, &[&less, &more]);
    let first = said.lines().next().unwrap();
    assert!(
        first.contains("B holds 400 MiB more") && first.contains("mostly file pages of the trainer"),
        "{first}"
    );
    assert!(first.contains("it is there from the start"), "{first}");
}

#[test]
fn shared_swapped_and_gpu_memory_are_told_apart() {
    let stage = Stage::new();
    let base = write(&stage, "base.tide", &Job { gpu_mib: Some(2000), ..Job::default() });
    let told = |name: &str, job: &Job| compare(&stage, &[&base, &write(&stage, name, job)]).1;
    let shmem = told("shmem.tide", &Job { shmem_mib: 600, gpu_mib: Some(2000), ..Job::default() });
    let first = shmem.lines().next().unwrap();
    assert!(
        first.contains("B holds 600 MiB more") && first.contains("mostly shared memory of the trainer"),
        "{first}"
    );
    // Neither swap nor a GPU is resident memory: the trees end alike, and the part that differs is named.
    let swap = told("swap.tide", &Job { swap_mib: 700, gpu_mib: Some(2000), ..Job::default() });
    let first = swap.lines().next().unwrap();
    assert!(
        first.starts_with(
            "Resident memory is alike, but B holds 700 MiB more at its end, swap of the trainer"
        ),
        "{first}"
    );
    let gpu = told("gpu.tide", &Job { gpu_mib: Some(5000), ..Job::default() });
    let first = gpu.lines().next().unwrap();
    assert!(
        first.contains("B holds 2.93 GiB more") && first.contains("at its end, GPU memory of the trainer"),
        "{first}"
    );
}

#[test]
fn a_run_does_not_differ_from_itself() {
    let stage = Stage::new();
    let run = write(&stage, "run.tide", &Job { trainer: fill, ..Job::default() });
    let (code, said, _) = compare(&stage, &[&run, &run]);
    assert_eq!(code, 0);
    assert!(said.starts_with("No difference that is more than noise"), "{said}");
    assert!(!said.contains("differs"), "{said}");
}

/// A curve that ends at a level that differs from run to run.
fn curve(stage: &Stage, name: &str, level: f64) -> String {
    let y: Vec<f64> = (0..40).map(|x| level + f64::from(x % 3)).collect();
    let object =
        serde_json::json!({"x": (0..40).collect::<Vec<_>>(), "x_kind": "step", "y": y, "unit": "MB"});
    std::fs::write(stage.path(name), object.to_string()).unwrap();
    stage.path(name).to_str().unwrap().to_owned()
}

#[test]
fn with_several_runs_a_side_their_spread_is_the_noise() {
    let stage = Stage::new();
    let side = |name: &str, levels: [f64; 3]| -> Vec<String> {
        levels
            .iter()
            .enumerate()
            .map(|(n, level)| curve(&stage, &format!("{name}{n}.json"), *level))
            .collect()
    };
    let told = |a: &[String], b: &[String]| -> Value {
        let mut args: Vec<&str> = vec!["--format", "json", "--a"];
        args.extend(a.iter().map(String::as_str));
        args.push("--b");
        args.extend(b.iter().map(String::as_str));
        let (code, said, errors) = compare(&stage, &args);
        assert_eq!(code, 0, "{errors}");
        serde_json::from_str(&said).unwrap()
    };
    let old = side("old", [17_000.0, 14_000.0, 19_000.0]);
    let luck = told(&old, &side("luck", [15_000.0, 18_000.0, 16_000.0]));
    assert_eq!((&luck["schema"], &luck["spread_known"]), (&"lowtide.compare/1".into(), &true.into()));
    assert!(
        luck["headline"].as_str().unwrap().starts_with("no difference that is more than noise"),
        "{luck}"
    );
    let fixed = told(&old, &side("fixed", [5100.0, 5300.0, 5000.0]));
    let headline = fixed["headline"].as_str().unwrap();
    assert!(
        headline.contains("less at its end") && headline.contains("the spread between runs"),
        "{headline}"
    );
    let end = fixed["differences"].as_array().unwrap().iter().find(|d| d["phase"] == "end").unwrap();
    assert!(end["real"].as_bool().unwrap() && end["high"].as_f64().unwrap() < -4e9, "{end}");
    assert_eq!(end["a"]["runs"], 3);
}

#[test]
fn a_longer_run_is_compared_where_the_shorter_one_ends() {
    let stage = Stage::new();
    let short = write(&stage, "short.tide", &Job { trainer: fill, seconds: 60, ..Job::default() });
    let long = write(&stage, "long.tide", &Job { trainer: fill, seconds: 240, ..Job::default() });
    let (_, said, _) = compare(&stage, &[&short, &long]);
    assert!(said.starts_with("No difference") && said.contains("compared up to 59 s"), "{said}");
}

/// A file of two columns; the second one grows by so much a step.
fn two_columns(stage: &Stage, file: &str, names: [&str; 2], second: u64) -> String {
    let row = |step: u64| format!("{step},{},{}\n", 1000 + step, 1000 + second * step);
    let rows: String = (0..30).map(row).collect();
    let heading = names.map(|name| format!("{name} - system.proc.memory.rssMB")).join(",");
    std::fs::write(stage.path(file), format!("Step,{heading}\n{rows}")).unwrap();
    stage.path(file).to_str().unwrap().to_owned()
}

#[test]
fn curves_of_the_same_name_are_compared_with_each_other() {
    let stage = Stage::new();
    let ranks = ["rank-0", "rank-1"];
    let (before, after) =
        (two_columns(&stage, "before.csv", ranks, 40), two_columns(&stage, "after.csv", ranks, 1));
    let (code, said, errors) = compare(&stage, &[&before, &after]);
    assert_eq!((code, errors.as_str()), (0, ""), "{said}");
    let (first, second) = said.split_once("rank-1 - system.proc.memory.rssMB:\n").unwrap();
    assert!(first.starts_with("rank-0 - system.proc.memory.rssMB:\nNo difference"), "{said}");
    assert!(second.starts_with("B holds 1014 MiB less at its end"), "{said}");
    let (_, told, _) = compare(&stage, &["--format", "json", &before, &after]);
    let told: Vec<Value> = told.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let curves: Vec<&Value> = told.iter().map(|one| &one["curve"]).collect();
    assert_eq!(curves, ["rank-0 - system.proc.memory.rssMB", "rank-1 - system.proc.memory.rssMB"]);
    assert!(told.iter().all(|one| one["a"].as_array().unwrap().len() == 1), "{told:?}");
}

#[test]
fn that_curves_of_one_file_are_taken_for_runs_is_said_where_the_other_has_not_the_same() {
    let stage = Stage::new();
    let old = two_columns(&stage, "old.csv", ["run-a", "run-b"], 2);
    let new = two_columns(&stage, "new.csv", ["run-a", "run-c"], 2);
    let (code, said, errors) = compare(&stage, &[&old, &new]);
    assert_eq!(code, 0, "{errors}");
    assert!(said.starts_with("No difference"), "{said}");
    assert_eq!(errors.matches("each is taken for a run of its side").count(), 2, "{errors}");
    let one = ["--y", "run-a - system.proc.memory.rssMB"];
    assert_eq!(compare(&stage, &[&[old.as_str(), &new][..], &one].concat()).2, "");
}

#[test]
fn steps_beside_seconds_are_told() {
    let stage = Stage::new();
    let write = |name: &str, axis: &str| {
        let rows: String = (0..30).map(|x| format!("{x},{}\n", 1e9 + 1e6 * f64::from(x))).collect();
        let file = stage.path(name);
        std::fs::write(&file, format!("{axis},rss_bytes\n{rows}")).unwrap();
        file.to_str().unwrap().to_owned()
    };
    let (steps, seconds) = (write("steps.csv", "step"), write("seconds.csv", "seconds"));
    let (_, said, _) = compare(&stage, &[&steps, &seconds]);
    assert!(said.contains("Some runs count steps and some seconds"), "{said}");
    assert!(!compare(&stage, &[&steps, &steps]).1.contains("Some runs count"));
}

#[test]
fn a_side_that_cannot_be_read_is_an_error() {
    let stage = Stage::new();
    let run = write(&stage, "run.tide", &Job::default());
    let (code, _, errors) = compare(&stage, &[&run, "/no/such/file"]);
    assert_eq!(code, 2);
    assert!(errors.contains("/no/such/file"), "{errors}");
    assert_eq!(compare(&stage, &[&run]).0, 2, "one side only");
}

#[test]
fn a_run_that_is_only_slower_is_compared_by_step() {
    let stage = Stage::new();
    let slow = Job { trainer: leak, steps: true, step_seconds: 2, seconds: 239, ..Job::default() };
    let fast = Job { trainer: |second| leak(2 * second), steps: true, seconds: 120, ..Job::default() };
    let (slow, fast) = (write(&stage, "slow.tide", &slow), write(&stage, "fast.tide", &fast));
    let (_, said, _) = compare(&stage, &[&slow, &fast]);
    assert!(said.starts_with("No difference that is more than noise"), "{said}");
    let short = Job { trainer: leak, steps: true, step_seconds: 2, seconds: 159, ..Job::default() };
    let short = write(&stage, "short.tide", &short);
    let (_, said, _) = compare(&stage, &[&short, &fast]);
    assert!(said.starts_with("No difference that is more than noise"), "{said}");
    assert!(said.contains("Levels are compared up to step 79"), "{said}");
    let silent = Job { trainer: leak, seconds: 159, ..Job::default() };
    let silent = write(&stage, "silent.tide", &silent);
    let (_, said, _) = compare(&stage, &[&silent, &short]);
    assert!(
        said.starts_with("No difference that is more than noise"),
        "by time where one tells no steps: {said}"
    );
}
