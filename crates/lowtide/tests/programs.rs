//! Real programs under the real recorder: each is judged from its recording alone and must get its right name.
//!
//! They are Python, as jobs are, and small: thirteen seconds at ten samples a second. Not here: curves that nobody
//! ran (see the tests of the `verdict` crate).

#![allow(clippy::unwrap_used, reason = "a test that can't set its stage should fail loudly")]

mod support;

use lowtide_model::{Bytes, Context, Mark, MarkKind, MarkPhase, Recording, Role, Tick};
use lowtide_verdict::{Group, Kind, RunVerdict, Verdict, judge_recording, judge_recording_with};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Condvar, Mutex, OnceLock};
use support::{Stage, read, with_argument};

const MIB: f64 = 1_048_576.0;
/// Programs that run at once: more would make each other late on two cores.
const SEATS: usize = 3;

/// A seat at the machine, given back when dropped.
struct Seat;

static TAKEN: Mutex<usize> = Mutex::new(0);
static FREED: Condvar = Condvar::new();

impl Seat {
    fn take() -> Self {
        let taken = TAKEN.lock().unwrap();
        let mut taken = FREED.wait_while(taken, |taken| *taken >= SEATS).unwrap();
        *taken += 1;
        Self
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        *TAKEN.lock().unwrap() -= 1;
        FREED.notify_one();
    }
}

/// The Python the tests were given, or the one a test run left behind, or the system's.
fn python() -> &'static Path {
    static PYTHON: OnceLock<PathBuf> = OnceLock::new();
    PYTHON.get_or_init(|| {
        let left = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/test-python/bin/python");
        let given = std::env::var_os("LOWTIDE_TEST_PYTHON").map(PathBuf::from);
        given.or_else(|| left.exists().then_some(left)).unwrap_or_else(|| "python3".into())
    })
}

/// Whether the Python here has a package. `cargo xtask test` makes one that has them all.
fn has(package: &str) -> bool {
    let import = format!("import {package}");
    let found =
        Command::new(python()).args(["-c", &import]).stderr(Stdio::null()).status().unwrap().success();
    if !found {
        eprintln!("{} has no {package}: run `cargo xtask test`, which brings it", python().display());
    }
    found
}

fn script(name: &str) -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs");
    folder.join(name).to_str().unwrap().to_owned()
}

/// A program that ran under `lowtide run`.
struct Ran {
    stage: Stage,
    recording: Recording,
}

impl Ran {
    fn script(name: &str) -> Self {
        let stage = Stage::new();
        let log = stage.path("steps.log");
        let job = [python().to_str().unwrap(), &script(name), log.to_str().unwrap()].map(str::to_owned);
        Self::job(stage, &job)
    }

    fn job(stage: Stage, job: &[String]) -> Self {
        let _seat = Seat::take();
        let file = stage.path("run.tide");
        let mut command =
            stage.command(&["run", "--interval", "100ms", "--out", file.to_str().unwrap(), "--"]);
        // On a disk, so that files are page cache and not shared memory as in a tmpfs.
        command.args(job).current_dir(env!("CARGO_TARGET_TMPDIR")).stdin(Stdio::null());
        let output = command.output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let recording = read(&file);
        Self { stage, recording }
    }

    fn judged(&self) -> RunVerdict {
        judge_recording(&self.recording)
    }

    /// The steps the program logged, as marks of its process, with what a training script knows of itself.
    fn with_marks(&self, name: &str, facts: &str) -> Recording {
        let mut recording = self.recording.clone();
        let process = Some(with_argument(&recording, &script(name))[0].key);
        let mark = |tick: Tick, kind, number, extra: Option<String>| Mark {
            tick,
            process,
            kind,
            phase: MarkPhase::Point,
            number,
            rank: None,
            extra,
        };
        recording.marks.push(mark(Tick::from_seconds(0.0), MarkKind::Info, 0.0, Some(facts.to_owned())));
        for line in std::fs::read_to_string(self.stage.path("steps.log")).unwrap().lines() {
            let (step, time) = line.split_once(' ').unwrap();
            let since = time.parse::<i64>().unwrap() - recording.meta.started_unix_ns;
            let tick = Tick::from_seconds(since as f64 / 1e9);
            recording.marks.push(mark(tick, MarkKind::Step, step.parse().unwrap(), None));
        }
        recording
    }
}

fn is_about(verdict: &Verdict, word: &str) -> bool {
    verdict.process.as_ref().is_some_and(|process| process.argv.iter().any(|a| a.ends_with(word)))
}

/// Nothing in the run may be called a leak.
fn no_leak(found: &RunVerdict) -> bool {
    found.main.group != Group::Leak && found.findings.iter().all(|other| other.group != Group::Leak)
}

#[test]
fn numpy_arrays_in_a_list_are_a_leak_with_their_rate() {
    if !has("numpy") {
        return;
    }
    let ran = Ran::script("linear_leak.py");
    let found = ran.judged();
    assert_eq!(found.main.verdict, Kind::Leak, "{:#?}", found.main);
    assert!(is_about(&found.main, "linear_leak.py"));
    let rate = found.main.floor.bytes_per_step / MIB;
    assert!((10.5..=12.5).contains(&rate), "150 MiB in 13 s, not {rate} MiB/s");

    let output =
        ran.stage.output(&["explain", "--format", "json", ran.stage.path("run.tide").to_str().unwrap()]);
    let told: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((told["verdict"].as_str(), told["group"].as_str()), (Some("leak"), Some("leak")));
    assert_eq!(told["process"]["role"], "trainer");
}

#[test]
fn pillow_images_kept_in_a_list_are_bounded_and_with_marks_a_cache_fill() {
    if !has("PIL") {
        return;
    }
    let ran = Ran::script("cache_fill.py");
    let found = ran.judged();
    assert_eq!(found.main.group, Group::Bounded, "{:#?}", found.main);
    assert!(no_leak(&found) && is_about(&found.main, "cache_fill.py"));

    let marked = ran.with_marks("cache_fill.py", r#"{"examples":56,"batch":1,"accum":1,"epochs":3}"#);
    let found = judge_recording(&marked);
    assert_eq!(found.main.verdict, Kind::CacheFill, "{:#?}", found.main);
    let settled = found.main.settled_at.unwrap().step.unwrap();
    assert!((settled - 56.0).abs() <= 7.0, "{settled}");
    let each = found.main.bytes_per_example.unwrap() / 1e6;
    assert!((1.7..=2.2).contains(&each), "800 x 600 pixels of 4 bytes are 1.92 MB, not {each}");

    // Without steps the pass counts from the start of the program, which a slow machine delays.
    let asked = Context { examples: Some(56.0), epoch_seconds: Some(5.2), ..Context::default() };
    assert_eq!(judge_recording_with(&ran.recording, asked).main.group, Group::Bounded);
}

#[test]
fn growth_that_slows_and_stops_is_a_warm_up() {
    let found = Ran::script("warm_up.py").judged();
    assert_eq!(found.main.verdict, Kind::WarmUp, "{:#?}", found.main);
    assert!(no_leak(&found) && is_about(&found.main, "warm_up.py"));
}

#[test]
fn validation_on_a_flat_floor_is_flat_with_spikes() {
    let found = Ran::script("spikes.py").judged();
    // On a machine under load the peaks are smeared, and what is left of them is the wobble of a steady floor.
    assert!(matches!(found.main.verdict, Kind::Spikes | Kind::Steady), "{:#?}", found.main);
    assert!(no_leak(&found));
}

#[test]
fn a_slow_leak_under_spikes_is_found_with_its_own_rate() {
    let found = Ran::script("leak_under_spikes.py").judged();
    assert_eq!(found.main.verdict, Kind::Leak, "{:#?}", found.main);
    let rate = found.main.floor.bytes_per_step / MIB;
    assert!((3.6..=5.0).contains(&rate), "56 MiB in 13 s, not {rate} MiB/s");
}

#[test]
fn a_leaking_helper_below_flat_workers_is_the_one_that_is_named() {
    let stage = Stage::new();
    let line = format!("\"{}\" \"{}\"; exit $?", python().display(), script("launcher.py"));
    let ran = Ran::job(stage, &["sh".to_owned(), "-c".to_owned(), line]);
    let found = ran.judged();
    assert_eq!(found.main.verdict, Kind::Leak, "{:#?}", found.main);
    assert!(is_about(&found.main, "helper.py"), "{:?}", found.main.process);
    assert!(found.findings.iter().all(|other| other.group != Group::Leak), "{:#?}", found.findings);
    let trainer = found.roles.iter().find(|one| one.role == Role::Trainer).unwrap().process;
    assert_eq!(with_argument(&ran.recording, &script("trainer.py"))[0].key, trainer);
}

#[test]
fn memory_that_only_malloc_knows_is_a_leak() {
    let found = Ran::script("native_leak.py").judged();
    assert_eq!(found.main.verdict, Kind::Leak, "{:#?}", found.main);
    assert!(is_about(&found.main, "native_leak.py"));
}

#[test]
fn reference_counts_that_un_share_a_list_are_worker_copies() {
    let ran = Ran::script("unsharing.py");
    let found = ran.judged();
    assert_eq!(found.main.verdict, Kind::WorkerCopies, "{:#?}", found.main);
    assert!(no_leak(&found));
    let named = found.main.process.unwrap().key;
    let process = ran.recording.processes.iter().find(|process| process.key == named).unwrap();
    assert!(!process.execed, "a forked worker, not its parent");
}

#[test]
fn a_file_read_further_and_further_is_no_need_of_the_job() {
    let found = Ran::script("page_cache.py").judged();
    assert!(matches!(found.main.verdict, Kind::PageCache | Kind::Steady), "{:#?}", found.main);
    assert!(no_leak(&found));
}

#[test]
fn blocks_freed_and_kept_by_the_allocator_are_bounded() {
    let ran = Ran::script("allocator_kept.py");
    let found = ran.judged();
    assert_eq!(found.main.group, Group::Bounded, "{:#?}", found.main);
    assert!(no_leak(&found));
    assert!(found.main.floor.end_bytes > 60.0 * MIB, "nothing went back: {:?}", found.main.floor);
}

#[test]
fn a_job_of_one_pass_says_what_every_new_example_keeps() {
    let ran = Ran::script("one_pass.py");
    let facts = r#"{"examples":160,"batch":1,"accum":1,"epochs":1}"#;
    let found = judge_recording(&ran.with_marks("one_pass.py", facts));
    assert_eq!(found.main.group, Group::Bounded, "{:#?}", found.main);
    assert!(found.main.headline.contains("every new example keeps"), "{}", found.main.headline);
    let each = found.main.bytes_per_example.unwrap() / MIB;
    assert!((0.7..=0.9).contains(&each), "{each} MiB an example");
    assert!(found.main.outcome.needs_bytes.unwrap_or_default() > 100.0 * MIB, "{:?}", found.main.outcome);
    let all = Bytes::from_f64(found.main.floor.end_bytes);
    assert!(all > Bytes::from_mib(100), "{all}");
}
