//! `lowtide check`: exit codes, every format held against a parser of its own, and commands in one go.

#![allow(clippy::unwrap_used, reason = "a test that can't set its stage should stop")]

mod recorded;
mod support;

use recorded::{Job, fill, leak, steady};
use std::path::Path;
use std::process::Output;
use support::Stage;

const NUMBERS: [&str; 8] = ["--examples", "663", "--batch", "2", "--accum", "4", "--limit", "32GB"];

fn case(name: &str) -> String {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/case").join(name).to_str().unwrap().to_owned()
}

fn check(stage: &Stage, args: &[&str]) -> (i32, String, String) {
    let Output { status, stdout, stderr } = stage.output(&[&["check"], args].concat());
    (status.code().unwrap(), String::from_utf8(stdout).unwrap(), String::from_utf8(stderr).unwrap())
}

fn recorded(stage: &Stage, name: &str, trainer: fn(u64) -> u64) -> String {
    let file = stage.path(name);
    Job { trainer, steps: true, ..Job::default() }.write(&file);
    file.to_str().unwrap().to_owned()
}

#[test]
fn a_bounded_cache_passes_and_a_leak_fails() {
    let stage = Stage::new();
    let (fill, leak, steady) = (
        recorded(&stage, "fill.tide", fill),
        recorded(&stage, "leak.tide", leak),
        recorded(&stage, "steady.tide", steady),
    );
    let (code, said, _) = check(&stage, &[&fill, "--no-leak", "--examples", "160", "--batch", "2"]);
    assert_eq!(code, 0, "{said}");
    assert!(said.starts_with("Passed: 1 gate.\n"), "{said}");
    assert_eq!(check(&stage, &[&steady, "--no-leak"]).0, 0);
    let (code, said, _) = check(&stage, &[&leak, "--no-leak"]);
    assert_eq!(code, 1, "{said}");
    assert!(
        said.starts_with("Failed: 1 of 1 gate.\n") && said.contains("FAIL      no-leak    leak:"),
        "{said}"
    );
    let (code, said, _) = check(&stage, &[&fill, &leak, "--no-leak"]);
    assert_eq!(code, 1, "one bad file of two: {said}");
}

#[test]
fn the_stabilisation_test_of_the_case_is_two_flags() {
    let stage = Stage::new();
    let run = case("run-2.txt");
    let (code, said, _) = check(&stage, &[&run, "--max-range", "500MB", "--steps", "90..120"]);
    assert_eq!(code, 0, "{said}");
    assert!(said.contains("memory moved by 34.3 MiB in steps 90 to 120"), "{said}");
    assert_eq!(check(&stage, &[&run, "--max-range", "500MB", "--steps", "10..120"]).0, 1);
    assert_eq!(check(&stage, &[&run, "--max-range", "500MB"]).0, 1);
    assert_eq!(check(&stage, &[&run, "--max", "20GB"]).0, 0);
    assert_eq!(check(&stage, &[&run, "--max", "17GB"]).0, 1);
    assert_eq!(check(&stage, &[&run, "--max", "17.5GB", "--steps", "130.."]).0, 0);
}

#[test]
fn a_curve_of_which_only_changes_are_known_passes_no_gate_on_its_level() {
    let stage = Stage::new();
    let value = |n: i64| format!("[{}, \"{}\"]", 15 * n, 30_000_000_000 - 1_000_000 * n);
    let values = (0..40).map(value).collect::<Vec<_>>().join(", ");
    let series =
        format!(r#"{{"metric": {{"__name__": "node_memory_MemAvailable_bytes"}}, "values": [{values}]}}"#);
    let answer = format!(r#"{{"status": "success", "data": {{"result": [{series}]}}}}"#);
    std::fs::write(stage.path("node.json"), answer).unwrap();
    let file = stage.path("node.json").to_str().unwrap().to_owned();
    for gate in [&["--max", "20GiB"][..], &["--fits"], &["--max", "20GiB", "--max-range", "1GB"]] {
        let (code, said, _) = check(&stage, &[&[file.as_str()], gate].concat());
        let plain = said.split_whitespace().collect::<Vec<_>>().join(" ");
        assert_eq!(code, 2, "{said}");
        assert!(plain.contains("has no level that a limit could be held against"), "{said}");
        assert!(plain.contains("node_memory_MemTotal_bytes"), "{said}");
    }
    let (code, said, _) = check(&stage, &[&file, "--max", "20MB"]);
    assert_eq!(code, 1, "what rose by more than the most stands above it: {said}");
    assert!(said.contains("the peak is at least 37.2 MiB, above 19.1 MiB"), "{said}");
    assert_eq!(check(&stage, &[&file, "--max-range", "100MB"]).0, 0, "a range needs no level");
}

#[test]
fn a_gate_that_passes_says_what_it_did_not_look_at() {
    let stage = Stage::new();
    let rows: String = (0..60).map(|n| format!("{n},{},{}.2,20000\n", 50 + n % 7, 3 + n / 5)).collect();
    let file = stage.path("shares.csv");
    std::fs::write(&file, format!("timestamp,cpu,mem,gpu_mem_mb\n{rows}")).unwrap();
    let (code, said, _) = check(&stage, &[&file.display().to_string(), "--no-leak"]);
    let said = said.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(code == 0 && said.contains("not read: `mem`"), "{said}");
}

#[test]
fn a_level_that_stayed_counts_at_every_step_of_its_stay() {
    let stage = Stage::new();
    let file = stage.path("rests.tide");
    let fills = |second: u64| 1000 + 8 * second.min(40);
    Job { trainer: fills, steps: true, thinned: true, ..Job::default() }.write(&file);
    let file = file.to_str().unwrap();
    for steps in ["92..118", "101..103", "45..200"] {
        let (code, said, errors) = check(&stage, &[file, "--max-range", "1MiB", "--steps", steps]);
        assert_eq!(code, 0, "{steps}: {said}{errors}");
        assert!(said.contains("memory moved by 0 B"), "{steps}: {said}");
        assert_eq!(check(&stage, &[file, "--max", "1300MiB", "--steps", steps]).0, 1, "1370 MiB in {steps}");
        assert_eq!(check(&stage, &[file, "--max", "1400MiB", "--steps", steps]).0, 0, "{steps}");
    }
    assert_eq!(check(&stage, &[file, "--max-range", "1MiB", "--steps", "30..118"]).0, 1, "the fill is in it");
    assert_eq!(check(&stage, &[file, "--max", "2GiB", "--steps", "900..950"]).0, 2, "it never got there");
}

#[test]
fn only_gates_on_the_verdict_can_be_too_early() {
    let stage = Stage::new();
    let run = case("run-1.txt");
    let with = |gates: &[&str]| check(&stage, &[&[run.as_str()], &NUMBERS[..], gates].concat());
    assert_eq!(with(&["--no-leak"]).0, 3);
    assert_eq!(with(&["--fits"]).0, 3);
    assert_eq!(with(&["--max", "20GB"]).0, 0);
    assert_eq!(with(&["--max", "10GB"]).0, 1);
    assert_eq!(with(&["--max-range", "1GB"]).0, 1);
    let (code, said, _) = with(&["--no-leak", "--max", "10GB"]);
    assert_eq!(code, 1, "a finding is one, whatever else is not known: {said}");
    let (code, said, _) = with(&["--no-leak", "--max", "20GB"]);
    assert_eq!(
        (code, said.lines().next().unwrap()),
        (3, "Too early to say: 1 of 2 gates can't be decided yet.")
    );
}

#[test]
fn whether_it_fits_goes_by_the_outcome() {
    let stage = Stage::new();
    let run = case("run-2.txt");
    let about = ["--examples", "663", "--batch", "2", "--accum", "4"];
    let with =
        |limit: &str| check(&stage, &[&[run.as_str(), "--fits", "--limit", limit], &about[..]].concat());
    assert_eq!(with("32GB").0, 0);
    let (code, said, _) = with("18GB");
    assert!(code == 0 && said.contains("tight: needs up to"), "{said}");
    assert_eq!(with("16GB").0, 1);
    let (code, said, errors) = check(&stage, &[&run, "--fits"]);
    assert_eq!((code, errors.as_str()), (2, ""), "said once");
    assert!(said.contains("no limit is known; say where memory ends: --limit 32GiB"), "{said}");
}

#[test]
fn what_cannot_be_checked_is_an_error_of_its_own() {
    let stage = Stage::new();
    let run = case("run-2.txt");
    let (code, said, errors) = check(&stage, &[&run]);
    assert_eq!((code, said.as_str()), (2, ""));
    assert!(errors.contains("there is no gate to check") && errors.contains("--no-leak"), "{errors}");
    let (code, said, _) = check(&stage, &[&run, "--max", "1GB", "--steps", "900..950"]);
    assert_eq!(code, 2);
    assert!(said.contains("no samples in steps 900 to 950: its steps go from 10 to 240"), "{said}");
    let (code, said, _) = check(&stage, &[&case("validation.txt"), "--max", "1GB", "--steps", "1..2"]);
    assert_eq!(code, 2);
    assert!(said.contains("does not say at which step"), "{said}");
    let (code, _, errors) = check(&stage, &[&run, "--no-leak", "--steps", "90..120"]);
    assert!(code == 2 && errors.contains("--steps says where --max and --max-range look"), "{errors}");
    assert_eq!(check(&stage, &[&run, "--max", "1GB", "--steps", ".."]).0, 2, "no end at all");
    for bare in ["20", "0"] {
        let (code, _, errors) = check(&stage, &[&run, "--max", bare]);
        assert!(code == 2 && errors.contains("invalid value"), "{errors}");
    }
    assert_eq!(check(&stage, &["--no-leak"]).0, 2, "neither a file nor a command");
    assert_eq!(check(&stage, &[&run, "--no-leak", "--steps", "9"]).0, 2);
}

#[test]
fn a_file_that_cannot_be_read_is_named_in_every_format() {
    let stage = Stage::new();
    let missing = "/no/such/file.csv";
    let with = |format: &str| check(&stage, &[missing, "--no-leak", "--format", format]);
    let (code, said, errors) = with("text");
    assert_eq!((code, errors.as_str()), (2, ""), "said once");
    assert!(said.contains("\n/no/such/file.csv\n  could not read "), "{said}");
    let (_, said, errors) = with("json");
    let told: serde_json::Value = serde_json::from_str(&said).unwrap();
    assert_eq!((&told["file"], &told["says"]), (&missing.into(), &"could-not".into()), "{said}");
    assert!(errors.starts_with("error: "), "{errors}");
    assert!(with("junit").1.contains("<testsuite name=\"/no/such/file.csv\" "));
    let (level, title, message) = workflow_command(with("github").1.trim_end());
    assert_eq!((level.as_str(), title.as_str()), ("error", "lowtide check read"));
    assert!(message.starts_with("/no/such/file.csv: "), "{message}");
}

#[test]
fn json_has_an_object_a_gate() {
    let stage = Stage::new();
    let run = case("run-2.txt");
    let (_, said, _) = check(&stage, &[&run, "--no-leak", "--max", "1GB", "--format", "json"]);
    let lines: Vec<serde_json::Value> =
        said.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines.len(), 2);
    assert_eq!((&lines[0]["gate"], &lines[0]["says"]), (&"no-leak".into(), &"pass".into()));
    assert_eq!((&lines[1]["gate"], &lines[1]["says"]), (&"max".into(), &"fail".into()));
    assert!(lines.iter().all(|line| line["schema"] == "lowtide.check/1" && line["file"] == run.as_str()));
}

#[test]
fn junit_counts_what_a_parser_counts() {
    let stage = Stage::new();
    let (one, two) = (case("run-1.txt"), case("run-2.txt"));
    let report = stage.path("report.xml");
    let args = [
        &[one.as_str(), &two],
        &NUMBERS[..],
        &["--no-leak", "--max", "17GB", "--format", "junit", "--report"],
    ]
    .concat();
    let (code, said, _) = check(&stage, &[&args[..], &[report.to_str().unwrap()]].concat());
    assert_eq!((code, said.as_str()), (1, ""));
    let xml = std::fs::read_to_string(report).unwrap();
    let mut reader = quick_xml::Reader::from_str(&xml);
    let (mut cases, mut failures, mut errors, mut told) = (0, 0, 0, Vec::new());
    loop {
        use quick_xml::events::Event;
        let event = reader.read_event().unwrap();
        if matches!(event, Event::Eof) {
            break;
        }
        let (Event::Start(tag) | Event::Empty(tag)) = event else { continue };
        match tag.name().as_ref() {
            "testcase" => cases += 1,
            "failure" => failures += 1,
            "error" => errors += 1,
            "testsuites" => {
                told = ["tests", "failures", "errors"]
                    .map(|name| tag.try_get_attribute(name).unwrap().unwrap().value.into_owned())
                    .to_vec();
            }
            _ => {}
        }
    }
    assert_eq!((cases, failures, errors), (4, 1, 1));
    assert_eq!(told, ["4", "1", "1"]);
}

/// Reads a workflow command as GitHub's runner does.
fn workflow_command(line: &str) -> (String, String, String) {
    let (head, message) = line.strip_prefix("::").unwrap().split_once("::").unwrap();
    let (level, title) = head.split_once(" title=").unwrap();
    let plain = |text: &str| {
        text.replace("%0A", "\n")
            .replace("%0D", "\r")
            .replace("%3A", ":")
            .replace("%2C", ",")
            .replace("%25", "%")
    };
    (level.to_owned(), plain(title), plain(message))
}

#[test]
fn github_gets_an_annotation_a_gate() {
    let stage = Stage::new();
    let file = stage.path("50% of,it:.txt");
    std::fs::copy(case("run-2.txt"), &file).unwrap();
    let (code, said, _) =
        check(&stage, &[file.to_str().unwrap(), "--no-leak", "--max", "17GB", "--format", "github"]);
    assert_eq!(code, 1);
    let told: Vec<_> = said.lines().map(workflow_command).collect();
    assert_eq!((told[0].0.as_str(), told[0].1.as_str()), ("notice", "lowtide check no-leak"));
    assert_eq!(told[1].0, "error");
    assert!(told[1].2.contains("50% of,it:.txt: the peak is 16.5 GiB, above 15.8 GiB"), "{told:?}");
}

#[test]
fn a_command_is_recorded_and_gated_in_one_go() {
    let stage = Stage::new();
    let out = stage.path("run.tide");
    let out = out.to_str().unwrap();
    let (code, said, errors) = check(
        &stage,
        &[
            "--max",
            "1GiB",
            "--out",
            out,
            "--interval",
            "20ms",
            "--",
            "sh",
            "-c",
            "echo from the job; sleep 0.5",
        ],
    );
    assert_eq!(code, 0, "{said}{errors}");
    assert!(said.starts_with("from the job\nPassed: 2 gates.\n"), "{said}");
    assert_eq!(errors, "", "nothing of lowtide's own around the job");
    assert!(Path::new(out).exists());
}

#[test]
fn a_command_that_fails_fails_the_check() {
    let stage = Stage::new();
    let out = stage.path("run.tide");
    let flags = ["--max", "1GiB", "--out", out.to_str().unwrap(), "--"];
    let (code, said, _) = check(&stage, &[&flags[..], &["sh", "-c", "exit 3"]].concat());
    assert_eq!(code, 1, "{said}");
    assert!(said.contains("FAIL      command    the command failed with exit code 3"), "{said}");
    let (code, _, errors) = check(&stage, &["--max", "1GiB", "--", "/no/such/program"]);
    assert_eq!(code, 2);
    assert!(errors.contains("cannot start `/no/such/program`"), "{errors}");
}

#[test]
fn a_command_that_takes_too_much_between_two_samples_is_caught() {
    let stage = Stage::new();
    let actor = stage.renamed("quick");
    let (code, said, _) =
        check(&stage, &["--max", "100MiB", "--interval", "10m", "--", &actor, "fast", "200"]);
    assert_eq!(code, 1, "{said}");
    assert!(said.contains("FAIL      max"), "{said}");
}

#[test]
fn a_real_leak_fails_and_a_real_fill_passes() {
    let stage = Stage::new();
    let actor = stage.renamed("leaker");
    let (code, said, _) =
        check(&stage, &["--no-leak", "--interval", "20ms", "--", &actor, "leak", "1", "290", "40"]);
    assert_eq!(code, 1, "{said}");
    assert!(said.contains("FAIL      no-leak    leak: the floor of memory rises by"), "{said}");
    let file = stage.path("demo.tide");
    let demo = stage.output(&["demo", "--out", file.to_str().unwrap()]);
    assert_eq!(demo.status.code(), Some(0), "{}", String::from_utf8_lossy(&demo.stderr));
    let (code, said, _) = check(&stage, &[file.to_str().unwrap(), "--no-leak", "--fits", "--max", "1GiB"]);
    assert_eq!(code, 0, "{said}");
    assert!(said.contains("pass      no-leak    cache fill"), "{said}");
}

#[test]
fn a_peak_after_the_last_sample_counts_whoever_had_it() {
    let stage = Stage::new();
    let actor = stage.renamed("spike");
    let line = format!("{actor} hold 200 > /dev/null; true");
    for job in [&[actor.as_str(), "hold", "200"][..], &["sh", "-c", &line]] {
        let (code, said, _) = check(&stage, &[&["--max", "150MiB", "--interval", "1m", "--"], job].concat());
        assert_eq!(code, 1, "{job:?}: {said}");
        assert!(said.contains("the peak is 20"), "{said}");
    }
    let file = stage.path("run.tide");
    let out = ["run", "--interval", "1m", "--out", file.to_str().unwrap(), "--"];
    stage.output(&[&out[..], &[&actor, "hold", "200"]].concat());
    let alone = support::read(&file);
    assert!(alone.processes[0].peak_rss >= Some(lowtide_model::Bytes::from_mib(200)), "{alone:?}");
    std::fs::remove_file(&file).unwrap();
    stage.output(&[&out[..], &["sh", "-c", &line]].concat());
    let wrapped = support::read(&file);
    let shell = wrapped.processes.iter().find(|process| Some(process.key) == wrapped.meta.root).unwrap();
    assert!(shell.peak_rss < Some(lowtide_model::Bytes::from_mib(100)), "the shell itself held little");
    assert!(wrapped.meta.job_peak_bytes > Some(200 << 20), "{:?}", wrapped.meta);
}
