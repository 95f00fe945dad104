//! `lowtide explain`: the case, every form of input, folders and ranks, hostile files.

#![allow(clippy::unwrap_used, reason = "a test that can't set its stage should stop")]

mod recorded;
mod support;

use lowtide_model::RunState;
use proptest::prelude::*;
use recorded::{Job, fill, leak, steady};
use serde_json::Value;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};
use support::Stage;

const NUMBERS: [&str; 8] = ["--examples", "663", "--batch", "2", "--accum", "4", "--limit", "32GB"];

fn repository(path: &str) -> String {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path).to_str().unwrap().to_owned()
}

fn case(name: &str) -> String {
    repository(&format!("docs/case/{name}"))
}

fn explain(args: &[&str]) -> Output {
    let stage = Stage::new();
    stage.output(&[&["explain"], args].concat())
}

fn text(args: &[&str]) -> String {
    let output = explain(args);
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// Every line of JSON, held against the schema in docs/.
fn json(args: &[&str]) -> Vec<Value> {
    let schema = std::fs::read_to_string(repository("docs/verdict.schema.json")).unwrap();
    let schema = jsonschema::validator_for(&serde_json::from_str(&schema).unwrap()).unwrap();
    let lines = text(&[args, &["--format", "json"]].concat());
    let objects: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    for object in objects.iter().filter(|object| object["schema"] == "lowtide.verdict/1") {
        let wrong: Vec<String> = schema.iter_errors(object).map(|error| error.to_string()).collect();
        assert!(wrong.is_empty(), "{wrong:?} in {object}");
    }
    objects
}

fn one(args: &[&str]) -> Value {
    let mut objects = json(args);
    assert_eq!(objects.len(), 1);
    objects.remove(0)
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("{value} is no number"))
}

fn with_numbers(file: &str) -> Vec<&str> {
    [&[file], &NUMBERS[..]].concat()
}

/// A curve of 300 steps in MB, with more fields.
fn made(id: &str, of: impl Fn(f64) -> f64, more: &Value) -> String {
    let noise = |i: u32| f64::from(i.wrapping_mul(2_654_435_761) >> 24) / 64.0;
    let y: Vec<f64> = (0..300).map(|i| of(f64::from(i)) + noise(i)).collect();
    let mut object = serde_json::json!({"id": id, "x": (0..300).collect::<Vec<_>>(), "x_kind": "step", "y": y, "unit": "MB"});
    for (name, value) in more.as_object().unwrap() {
        object[name] = value.clone();
    }
    object.to_string()
}

#[test]
fn the_reasoning_is_in_the_json_when_it_is_asked_for() {
    let run = case("run-2.txt");
    assert!(json(&[&run])[0].get("why").is_none());
    let told = &json(&[&run, "--why"])[0];
    let lines = told["why"].as_array().unwrap();
    assert!(lines.iter().any(|line| line.as_str().unwrap().starts_with("decided by: ")), "{told}");
}

#[test]
fn every_kind_keeps_the_schema() {
    let spike = |t: f64| if t % 30.0 >= 28.0 { 2500.0 } else { 0.0 };
    let rising: Vec<f64> = (0..300).map(|i| 100.0 + 20.0 * f64::from(i)).collect();
    let flat: Vec<f64> = (0..300).map(|i| 900.0 + f64::from(i % 3)).collect();
    let none = serde_json::json!({});
    let sizes = serde_json::json!({"context": {"examples": 800, "batch": 2, "accum": 4, "limit_mb": 32000}});
    let long = serde_json::json!({"context": {"examples": 8000, "batch": 2, "accum": 4, "limit_mb": 32000}});
    let settled = |t: f64| 2000.0 + 3000.0 * (1.0 - (-t / 25.0).exp());
    let lines = [
        made("leak", |t| 2000.0 + 12.0 * t, &none),
        made("cache-fill", |t| 2000.0 + 20.0 * t.min(100.0), &sizes),
        made("warm-up", settled, &none),
        made("allocator-kept", settled, &serde_json::json!({"context": {"threads": 16}})),
        made("worker-copies", settled, &serde_json::json!({"metric": "pss_tree"})),
        made("spikes", |t| 2000.0 + spike(t), &none),
        made(
            "page-cache",
            |t| 1000.0 + 20.0 * t,
            &serde_json::json!({"series": {"anon": flat, "file": rising}}),
        ),
        made("steady", |_| 2000.0, &none),
        made("too-early", |t| 2000.0 + 12.0 * t, &long),
    ];
    let stage = Stage::new();
    let file = stage.path("kinds.jsonl");
    std::fs::write(&file, lines.join("\n")).unwrap();
    for object in json(&[file.to_str().unwrap()]) {
        let name = object["file"].as_str().unwrap().rsplit(": ").next().unwrap().to_owned();
        assert_eq!(object["verdict"], name.as_str(), "{object}");
        let said = object["headline"].as_str().unwrap();
        assert!(name == "leak" || !said.contains("leak"), "only a leak is called one: {said}");
        assert!(!object["advice"].as_array().unwrap().is_empty(), "{object}");
        assert!(!object["disprove"].as_str().unwrap().is_empty());
    }
}

#[test]
fn run_two_of_the_case_is_a_cache_fill_that_fits() {
    let file = case("run-2.txt");
    let told = one(&with_numbers(&file));
    assert_eq!((&told["verdict"], &told["group"]), (&"cache-fill".into(), &"bounded".into()));
    assert_eq!(told["file"], Value::from(file.clone()));
    assert_eq!(told["outcome"]["is"], "fits");
    let settled = number(&told["settled_at"]["step"]);
    assert!((settled - 82.9).abs() <= 2.0, "settled at {settled}");
    let rate = number(&told["floor"]["bytes_per_step"]);
    assert!((165e6..=175e6).contains(&rate), "{rate} a step");
    let each = number(&told["bytes_per_example"]);
    assert!((20e6..=22e6).contains(&each), "{each} an example");
    let not: Vec<&str> =
        told["ruled_out"].as_array().unwrap().iter().filter_map(|r| r["kind"].as_str()).collect();
    assert!(not.contains(&"leak") && not.contains(&"warm-up"), "{not:?}");
}

#[test]
fn run_two_says_what_other_data_sets_need_and_which_units_were_taken() {
    let file = case("run-2.txt");
    let told = text(&with_numbers(&file));
    let first = told.lines().next().unwrap();
    assert!(first.starts_with("Cache fill:") && first.contains("it fits"), "{first}");
    let gigabytes = |after: &str| -> f64 {
        let rest = told.split(after).nth(1).unwrap_or_else(|| panic!("no `{after}` in {told}"));
        rest.split('(').nth(1).unwrap().split(' ').next().unwrap().parse().unwrap()
    };
    let two_thousand = gigabytes("2,000 examples need ");
    assert!((43.0..=48.0).contains(&two_thousand), "{two_thousand} GB");
    let matters = told.lines().find(|line| line.contains("It matters")).unwrap();
    let fill = matters.rsplit("; ").next().unwrap();
    let most: f64 = fill.split(" examples fill ").next().unwrap().replace(',', "").parse().unwrap();
    assert!((1300.0..=1400.0).contains(&most), "{most} fill 32 GB");
    assert!(told.contains("MB = 10^6 bytes"), "{told}");
    assert!(
        told.contains("tensor count changed once, from 6529 to 7070, between step 80 and step 90"),
        "{told}"
    );
    let binary = text(&[&with_numbers(&file)[..], &["--unit", "MiB"]].concat());
    assert!(binary.contains("as asked") && !binary.contains("10^6"), "{binary}");
}

#[test]
fn wrong_sizes_leave_run_two_bounded_and_are_called_wrong() {
    for examples in ["500", "900"] {
        let file = case("run-2.txt");
        let args = [&file, "--examples", examples, "--batch", "2", "--accum", "4", "--limit", "32GB"];
        let told = one(&args);
        assert_eq!(told["group"], "bounded", "{examples}");
        let settled = number(&told["settled_at"]["step"]);
        assert!((settled - 82.9).abs() <= 2.0, "the knee is read off the curve: {settled}");
        assert!(text(&args).contains("the numbers don't match"), "{examples}");
    }
}

#[test]
fn without_the_sizes_run_two_is_bounded_and_they_are_asked_for() {
    let file = case("run-2.txt");
    assert_eq!(one(&[&file])["group"], "bounded");
    let told = text(&[&file]);
    assert!(told.contains("--examples") && told.contains("no limit is known"), "{told}");
}

#[test]
fn run_one_of_the_case_is_too_early_with_both_futures() {
    let file = case("run-1.txt");
    let told = one(&with_numbers(&file));
    assert_eq!((&told["verdict"], &told["decided_at_step"]), (&"too-early".into(), &83.0.into()));
    let futures: Vec<&str> =
        told["explanations"].as_array().unwrap().iter().filter_map(|e| e["kind"].as_str()).collect();
    assert!(futures.contains(&"cache-fill") && futures.contains(&"leak"), "{futures:?}");
    assert!((160.0..=175.0).contains(&number(&told["forecast"]["at_step"])));
    let told = text(&with_numbers(&file));
    assert!(told.lines().next().unwrap().contains("decided at step 83"), "{told}");
    assert!(told.contains("Still possible cache-fill") && told.contains("leak (50 %)"), "{told}");
}

#[test]
fn the_first_minutes_and_the_validation_spike_are_no_leaks() {
    let file = case("first-minutes.txt");
    assert_eq!(one(&with_numbers(&file))["verdict"], "too-early");
    let spike = one(&[&case("validation.txt")]);
    assert!(["too-early", "spikes"].contains(&spike["verdict"].as_str().unwrap()), "{spike}");
}

#[test]
fn every_form_of_curve_gets_an_answer_for_each_of_its_runs() {
    let folder = repository("crates/store/tests/curves");
    let mut seen = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let file = entry.unwrap().path().to_str().unwrap().to_owned();
        let objects = json(&[&file]);
        assert!(!objects.is_empty(), "{file}");
        for object in &objects {
            assert!(object["file"].as_str().unwrap().starts_with(&file), "{object}");
        }
        let told = text(&[&file, "--why", "--plot"]);
        assert_eq!(told.matches("Outcome  ").count(), objects.len(), "{told}");
        assert!(told.contains("Read as") && told.contains("Why  "), "{told}");
        seen += 1;
    }
    assert!(seen >= 14, "only {seen} forms were tried");
}

#[test]
fn two_runs_in_one_log_are_named_apart() {
    let files: Vec<String> = json(&[&repository("crates/store/tests/curves/case-log.txt")])
        .iter()
        .map(|object| object["file"].as_str().unwrap().to_owned())
        .collect();
    assert!(files[0].ends_with("case-log.txt: Run 1 (Process 177381)"), "{files:?}");
    assert!(files[1].ends_with("case-log.txt: Run 2 (Process 179532)"), "{files:?}");
}

#[test]
fn reserved_memory_that_grows_alone_is_fragmentation_in_a_foreign_file_too() {
    let stage = Stage::new();
    let wave = |n: u32| f64::from(n * 7 % 5) / 100.0;
    let rows = |line: fn(u32, f64) -> String| (0..150).map(|n| line(n, wave(n)) + "\n").collect::<String>();
    let log = rows(|n, w| {
        format!("step {n} allocated: {:.2} GB reserved: {:.2} GB", 8.1 + w, 12.3 + w + 0.03 * f64::from(n))
    });
    let table = rows(|n, w| format!("{n},{:.0},{:.0}", 8100.0 + w, 12_300.0 + w + 30.0 * f64::from(n)));
    for (name, text) in [("run.log", log), ("run.csv", format!("step,gpu_alloc_mb,gpu_reserved_mb\n{table}"))]
    {
        let file = stage.folder.path().join(name);
        std::fs::write(&file, text).unwrap();
        let file = file.to_str().unwrap();
        let told = one(&[file, "--limit", "24GB"]);
        assert_eq!(
            (&told["verdict"], &told["outcome"]["is"]),
            (&"allocator-kept".into(), &"exceeds".into()),
            "{told}"
        );
        assert!(self::text(&[file]).contains("expandable_segments:True"));
    }
}

#[test]
fn standard_input_is_a_file_too() {
    let stage = Stage::new();
    let mut child = stage
        .command(&["explain", "-", "--format", "json"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let log = std::fs::read(case("run-2.txt")).unwrap();
    child.stdin.take().unwrap().write_all(&log).unwrap();
    let output = child.wait_with_output().unwrap();
    let told: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&told["group"], &told["file"]), (&"bounded".into(), &"-".into()));
}

#[test]
fn a_picture_is_plain_text_of_eighty_columns() {
    let told = text(&[&with_numbers(&case("run-2.txt"))[..], &["--plot"]].concat());
    let picture: Vec<&str> = told.lines().skip_while(|line| !line.contains('\u{2809}')).collect();
    assert!(picture.len() > 14, "{told}");
    assert!(picture.iter().take(16).all(|line| line.chars().count() <= 80), "{told}");
    assert!(!told.contains('\u{1b}'), "no control codes");
    assert!(told.contains("growing") && told.contains("settled since step 8"), "{told}");
}

#[test]
fn a_recording_names_the_process_that_leaks() {
    let stage = Stage::new();
    let file = stage.path("leak.tide");
    Job { trainer: leak, ..Job::default() }.write(&file);
    let told = one(&[file.to_str().unwrap()]);
    assert_eq!((&told["verdict"], &told["process"]["key"]["pid"]), (&"leak".into(), &100.into()));
    assert_eq!(told["process"]["role"], "trainer");
    let told = text(&[file.to_str().unwrap(), "--why"]);
    assert!(told.contains("Process        trainer 100: python train.py"), "{told}");
    assert!(told.contains("Roles "), "{told}");
}

#[test]
fn flags_complete_what_a_recording_does_not_say() {
    let stage = Stage::new();
    let file = stage.path("fill.tide");
    Job { trainer: fill, steps: true, ..Job::default() }.write(&file);
    let file = file.to_str().unwrap();
    assert_eq!(one(&[file])["bytes_per_example"], Value::Null);
    let told = one(&[file, "--examples", "160", "--batch", "2"]);
    assert_eq!(told["verdict"], "cache-fill", "{told}");
    let each = number(&told["bytes_per_example"]) / 1_048_576.0;
    assert!((4.5..=5.5).contains(&each), "{each} MiB an example");
}

#[test]
fn a_folder_of_ranks_says_which_one_differs() {
    let stage = Stage::new();
    let folder = stage.path("ranks");
    std::fs::create_dir(&folder).unwrap();
    for rank in 0..4 {
        let trainer = if rank == 2 { leak } else { steady };
        Job { trainer, rank: Some(rank), ..Job::default() }.write(&folder.join(format!("r{rank}.tide")));
    }
    std::fs::write(folder.join("notes.txt"), "nothing here\n").unwrap();
    let output = explain(&[folder.to_str().unwrap()]);
    let told = String::from_utf8(output.stdout).unwrap();
    let first = told.lines().next().unwrap();
    assert!(
        first.starts_with("rank 2 (") && first.contains("r2.tide) (leaking) differs from the 3 others"),
        "{first}"
    );
    assert_eq!(told.matches("Outcome  ").count(), 4);
    assert!(String::from_utf8_lossy(&output.stderr).contains("passed over: no memory curve found"));
    assert_eq!(output.status.code(), Some(0));
}

#[test]
fn equal_ranks_are_said_to_be_equal() {
    let stage = Stage::new();
    let folder = stage.path("ranks");
    std::fs::create_dir(&folder).unwrap();
    for rank in 0..3 {
        Job { rank: Some(rank), ..Job::default() }.write(&folder.join(format!("r{rank}.tide")));
    }
    let told = text(&[folder.to_str().unwrap()]);
    assert!(told.starts_with("none of 3 runs differs: all are flat"), "{told}");
}

/// A log of a run that keeps 20 MB an example until all were seen once.
fn log_of(examples: u32) -> String {
    let level = |step: u32| 5000 + 20 * (8 * step).min(examples);
    (0..=24).map(|i| i * 10).map(|step| format!("step {step}: {} MB\n", level(step))).collect()
}

#[test]
fn runs_of_different_data_sizes_are_judged_together() {
    let stage = Stage::new();
    let write = |examples: u32| -> PathBuf {
        let file = stage.path(&format!("run-{examples}.txt"));
        std::fs::write(&file, log_of(examples)).unwrap();
        file
    };
    let (a, b) = (write(663), write(320));
    let files = [a.to_str().unwrap(), b.to_str().unwrap()];
    let sizes = ["--examples", "663,320", "--batch", "2", "--accum", "4"];
    let told = text(&[&files[..], &sizes].concat());
    assert!(told.starts_with("Proven cache fill: 2 runs keep about"), "{told}");
    let objects = json(&[&files[..], &sizes, &["--together"]].concat());
    assert_eq!((objects.len(), &objects[2]["proves_fill"]), (3, &true.into()));
    let alone = text(&[&files[..], &["--examples", "663", "--batch", "2", "--accum", "4"]].concat());
    assert!(!alone.contains("Proven"), "equal sizes prove nothing: {alone}");
    let wrong = explain(&[&files[..], &["--examples", "1,2,3"]].concat());
    assert_eq!(wrong.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&wrong.stderr).contains("--examples holds 3 sizes for 2 curves"));
}

#[test]
fn a_recording_cut_off_at_its_limit_was_likely_killed_with_the_job() {
    let stage = Stage::new();
    std::fs::create_dir(stage.path("runs")).unwrap();
    let file = stage.path("runs/cut.tide");
    Job { state: RunState::CutOff, charge_mib: Some(985), ..Job::default() }.write(&file);
    let told = text(&[file.to_str().unwrap()]);
    let words = "likely killed together with the job: at its last tick 985 MiB of 1000 MiB were taken (98 %), the limit of cgroup /job";
    assert!(told.contains(words), "{told}");
    let listed = String::from_utf8(stage.output(&["list"]).stdout).unwrap();
    assert!(listed.contains("cut off") && listed.contains(words), "{listed}");
    Job { state: RunState::CutOff, charge_mib: Some(400), ..Job::default() }.write(&stage.path("low.tide"));
    assert!(!text(&[stage.path("low.tide").to_str().unwrap()]).contains("likely killed"));
    let object = one(&[file.to_str().unwrap()]);
    assert_eq!(
        (&object["outcome"]["is"], number(&object["outcome"]["limit_bytes"])),
        (&"exceeds".into(), 1_048_576_000.0)
    );
}

/// A memory cgroup of our own; whatever is in it is ended with the test.
struct Cgroup(PathBuf);

impl Cgroup {
    fn kill_all(&self) {
        let inside = std::fs::read_to_string(self.0.join("cgroup.procs")).unwrap_or_default();
        for pid in inside.lines().filter_map(|line| line.parse().ok()) {
            let _ =
                nix::sys::signal::kill(nix::unistd::Pid::from_raw(pid), nix::sys::signal::Signal::SIGKILL);
        }
    }
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        self.kill_all();
        support::eventually("the cgroup is empty", || std::fs::remove_dir(&self.0).is_ok().then_some(()));
    }
}

/// One with a limit, on version 1; none where this machine has no such hierarchy to write to.
fn cgroup_with_limit(bytes: u64) -> Option<Cgroup> {
    let folder = PathBuf::from(format!("/sys/fs/cgroup/memory/lowtide-explain-{}", std::process::id()));
    std::fs::create_dir(&folder).ok()?;
    let cgroup = Cgroup(folder);
    std::fs::write(cgroup.0.join("memory.limit_in_bytes"), bytes.to_string()).ok()?;
    Some(cgroup)
}

#[test]
fn a_job_and_its_recorder_killed_at_a_real_limit_are_told_as_that() {
    // Elsewhere the recording made by hand above stands in.
    let Some(cgroup) = cgroup_with_limit(128 << 20) else { return };
    let stage = Stage::new();
    let (file, actor) = (stage.path("run.tide"), stage.renamed("holder"));
    let run = stage.command(&[
        "run",
        "--interval",
        "50ms",
        "--out",
        file.to_str().unwrap(),
        "--",
        &actor,
        "hold",
        "119",
    ]);
    let mut inside = std::process::Command::new("sh");
    inside.args(["-c", "echo $$ > \"$0\" && exec \"$@\""]).arg(cgroup.0.join("cgroup.procs"));
    inside.arg(run.get_program()).args(run.get_args());
    inside.envs(run.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let mut running = support::Running::start(inside, file.clone());
    running.wait_for_line("ready");
    support::eventually("the charge is on disk", || {
        let recording = lowtide_store::open(&file).ok()?.recording().ok()?;
        recording.cgroups.iter().any(|row| row.usage.last.0 > 117 << 20).then_some(())
    });
    cgroup.kill_all();
    let _ = running.child.wait();
    let told = text(&[file.to_str().unwrap()]);
    assert!(
        told.contains("likely killed together with the job") && told.contains("of 128 MiB were taken"),
        "{told}"
    );
}

#[test]
fn a_limit_is_not_held_against_a_curve_without_a_level() {
    let stage = Stage::new();
    let values: Vec<String> =
        (0..40).map(|n| format!("[{}, \"{}\"]", 15 * n, 30_000_000_000_i64 - n)).collect();
    let series = r#"{"metric": {"__name__": "node_memory_MemAvailable_bytes"}, "values": "#;
    let answer =
        format!("{{\"status\": \"success\", \"data\": {{\"result\": [{series}[{}]}}]}}}}", values.join(", "));
    std::fs::write(stage.path("node.json"), answer).unwrap();
    let file = stage.path("node.json").to_str().unwrap().to_owned();
    assert_eq!(explain(&[&file]).status.code(), Some(0));
    let limited = explain(&[&file, "--limit", "64GiB"]);
    let said = String::from_utf8_lossy(&limited.stderr).into_owned();
    assert_eq!(limited.status.code(), Some(2), "{said}");
    assert!(said.contains("has no level") && said.contains("node_memory_MemTotal_bytes"), "{said}");
}

#[test]
fn hostile_files_give_clear_errors_and_do_not_spoil_the_others() {
    let stage = Stage::new();
    let made = |name: &str, bytes: &[u8]| {
        std::fs::write(stage.path(name), bytes).unwrap();
        stage.path(name).to_str().unwrap().to_owned()
    };
    let cases = [
        (made("no.tide", b"no database"), "is not a lowtide recording"),
        (made("packed.csv", &[0x1F, 0x8B, 8, 0]), "packed by gzip"),
        (made("prose.txt", b"It was a dark night.\n"), "no memory curve found"),
        (made("empty.log", b""), "is empty"),
        (stage.path("missing.csv").to_str().unwrap().to_owned(), "cannot read"),
    ];
    for (file, words) in &cases {
        let output = explain(&[file, &case("run-2.txt")]);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.starts_with("error: ") && said.contains(words) && said.contains(file), "{said}");
        assert!(
            String::from_utf8_lossy(&output.stdout).starts_with("Cache fill"),
            "the good file is answered"
        );
    }
    let empty = stage.path("empty");
    std::fs::create_dir(&empty).unwrap();
    let output = explain(&[empty.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("no recording and no memory curve in"));
}

#[test]
fn control_characters_of_a_foreign_file_never_reach_the_terminal() {
    let stage = Stage::new();
    let file = stage.path("evil.json");
    std::fs::write(&file, "{\"id\": \"\\u001b[2Jx\", \"x\": [1,2,3,4,5], \"y\": [1,1,1,1,1], \"unit\": \"GB\"}\n\
                          {\"id\": \"\\u001b]0;y\", \"x\": [1,2,3,4,5], \"y\": [1,1,1,1,1], \"unit\": \"GB\"}\n").unwrap();
    let told = text(&[file.to_str().unwrap()]);
    assert!(!told.contains('\u{1b}'), "{told:?}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn a_damaged_recording_is_answered_or_refused_but_never_a_crash(
        flips in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..30),
    ) {
        let stage = Stage::new();
        let mut bytes = std::fs::read(repository("crates/store/tests/golden/v1.tide")).unwrap();
        for (at, byte) in flips {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        let file = stage.path("damaged.tide");
        std::fs::write(&file, bytes).unwrap();
        let file = file.to_str().unwrap();
        for args in [vec!["explain", "--why", "--plot", file], vec!["check", "--no-leak", "--max", "1GiB", file], vec!["compare", file, file]] {
            let output = stage.output(&args);
            let code = output.status.code();
            prop_assert!(matches!(code, Some(0..=3)), "{code:?}: {}", String::from_utf8_lossy(&output.stderr));
        }
        let output = stage.output(&["list", stage.folder.path().to_str().unwrap()]);
        prop_assert_eq!(output.status.code(), Some(0));
    }
}

#[test]
fn an_x_that_can_not_be_followed_is_an_error() {
    let stage = Stage::new();
    let (tide, log) = (stage.path("run.tide"), stage.path("train.log"));
    Job::default().write(&tide);
    let lines = (0..40).map(|n| format!("iteration {n} | tokens={} | rss 1{n:02} MiB\n", 100 * n));
    std::fs::write(&log, lines.collect::<String>()).unwrap();
    let (tide, log) = (tide.to_str().unwrap(), log.to_str().unwrap());
    for file in [tide, log] {
        let output = explain(&[file, "--x", "nosuch"]);
        assert_eq!(output.status.code(), Some(2), "{file}");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(said.contains("--x says nothing of") || said.contains("is named `nosuch`"), "{said}");
    }
    assert_eq!(explain(&[log, "--x", "tokens"]).status.code(), Some(0));
    assert_eq!(explain(&[log, "--x", "sample"]).status.code(), Some(0));
}
