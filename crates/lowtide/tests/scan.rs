//! `lowtide scan` on real processes: alone, through a recorder, saved, refused.

#![allow(clippy::unwrap_used, reason = "a test that can't set its stage should fail loudly")]

mod support;

use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use support::{Stage, actor};

/// The Python with numpy and Pillow that `cargo xtask test` makes, else the system's.
fn python() -> String {
    std::env::var("LOWTIDE_TEST_PYTHON").unwrap_or_else(|_| "python3".to_owned())
}

/// A Python program that says `ready` and then waits for its standard input to end.
struct Target(Child);

impl Target {
    fn start(code: &str) -> Self {
        Self::start_with(&[], code)
    }

    fn start_with(variables: &[(&str, &str)], code: &str) -> Self {
        Self::start_by(&python(), variables, code)
    }

    fn start_by(python: &str, variables: &[(&str, &str)], code: &str) -> Self {
        let code = format!("import sys\n{code}\nprint('ready', flush=True)\nsys.stdin.read()\n");
        let mut child = Command::new(python)
            .args(["-c", &code])
            .envs(variables.iter().copied())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert_eq!(line, "ready\n");
        Self(child)
    }

    /// Has it grow, and waits until it has.
    fn grow(&self) {
        let before = self.resident();
        assert!(Command::new("kill").args(["-USR1", &self.pid()]).status().unwrap().success());
        let until = std::time::Instant::now() + std::time::Duration::from_secs(30);
        while self.resident() < before + (14 << 20) && std::time::Instant::now() < until {
            std::thread::yield_now();
        }
    }

    fn resident(&self) -> u64 {
        let text = std::fs::read_to_string(format!("/proc/{}/statm", self.0.id())).unwrap();
        text.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() * 4096
    }

    fn pid(&self) -> String {
        self.0.id().to_string()
    }
}

impl Drop for Target {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn json(stage: &Stage, args: &[&str]) -> Value {
    let output = stage.output(args);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    serde_json::from_slice(&output.stdout).unwrap()
}

/// The same, held against the schema in docs/.
fn json_by_schema(stage: &Stage, args: &[&str]) -> Value {
    let file = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/scan.schema.json");
    let schema: Value = serde_json::from_str(&std::fs::read_to_string(file).unwrap()).unwrap();
    let schema = jsonschema::validator_for(&schema).unwrap();
    let object = json(stage, args);
    let wrong: Vec<String> = schema.iter_errors(&object).map(|error| error.to_string()).collect();
    assert!(wrong.is_empty(), "{wrong:?}");
    object
}

fn sum_of_kinds(scan: &Value) -> u64 {
    scan["kinds"].as_array().unwrap().iter().map(|part| part["bytes"].as_u64().unwrap()).sum()
}

#[test]
fn a_scan_names_python_and_its_parts_add_up_to_what_is_resident() {
    let stage = Stage::new();
    let target = Target::start("held = [bytes(50_000) for _ in range(200)]");
    let scan = json_by_schema(&stage, &["scan", &target.pid(), "--format", "json"]);
    assert_eq!(scan["schema"], "lowtide.scan/1");
    assert_eq!(scan["process"]["pid"].to_string(), target.pid());
    assert!(scan["python"]["version"].as_str().unwrap().starts_with("3."), "{}", scan["python"]);
    assert_eq!(sum_of_kinds(&scan), scan["rss_bytes"].as_u64().unwrap());
    assert_eq!(scan["stopped_ms"], 0.0);
}

#[test]
fn the_text_answers_in_words_with_what_it_rests_on() {
    let stage = Stage::new();
    let target = Target::start("held = [bytes(50_000) for _ in range(200)]");
    let output = stage.output(&["scan", &target.pid()]);
    let text = String::from_utf8(output.stdout).unwrap();
    for part in
        ["in memory, Python 3.", "where it is", "unexplained", "what this rests on", "stopped not at all"]
    {
        assert!(text.contains(part), "no `{part}` in\n{text}");
    }
}

#[test]
fn a_process_without_python_gets_the_native_part() {
    let stage = Stage::new();
    let mut child = Command::new(actor())
        .args(["hold", "64"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let scan = json(&stage, &["scan", &child.id().to_string(), "--format", "json"]);
    let _ = child.kill();
    let _ = child.wait();
    assert_eq!(scan["python"], Value::Null);
    assert_eq!(sum_of_kinds(&scan), scan["rss_bytes"].as_u64().unwrap());
}

#[test]
fn two_saved_scans_give_the_difference_long_after_the_process_is_gone() {
    let stage = Stage::new();
    let (before, after) = (stage.path("before.json"), stage.path("after.json"));
    let (before, after) = (before.to_str().unwrap(), after.to_str().unwrap());
    let target = Target::start(
        "import signal
held = [bytearray(50_000) for _ in range(100)]
signal.signal(signal.SIGUSR1, lambda *_: held.extend(bytearray(50_000) for _ in range(300)))",
    );
    assert!(stage.output(&["scan", &target.pid(), "--save", before]).status.success());
    target.grow();
    assert!(stage.output(&["scan", &target.pid(), "--save", after]).status.success());
    drop(target);
    let growth = json_by_schema(&stage, &["scan", after, "--against", before, "--format", "json"]);
    assert_eq!(growth["schema"], "lowtide.scan-growth/1");
    assert!(
        growth["difference"]["rss_bytes"].as_i64().unwrap() > 10_000_000,
        "{}",
        growth["difference"]["rss_bytes"]
    );
    let turned = stage.output(&["scan", before, "--against", after]);
    let said = String::from_utf8_lossy(&turned.stderr);
    assert!(!turned.status.success() && said.contains("the later one"), "{said}");
    let mode = std::os::unix::fs::PermissionsExt::mode(&std::fs::metadata(after).unwrap().permissions());
    assert_eq!(mode & 0o777, 0o600);
}

#[test]
fn a_class_that_is_made_again_and_again_is_one_line_with_how_many_classes() {
    let stage = Stage::new();
    let before = stage.path("before.json");
    let before = before.to_str().unwrap();
    let target = Target::start(
        "import signal
held = []
def again():
    class Twin:
        __slots__ = ('one', 'two', 'three')
    held.append([Twin() for _ in range(600)])
for _ in range(300): again()
signal.signal(signal.SIGUSR1, lambda *_: [again() for _ in range(500)])",
    );
    let now = stage.output(&["scan", &target.pid(), "--save", before]);
    let text = String::from_utf8(now.stdout).unwrap();
    assert!(text.contains("__main__.Twin (300 classes)"), "{text}");
    target.grow();
    let later = stage.output(&["scan", &target.pid(), "--against", before]);
    let text = String::from_utf8(later.stdout).unwrap();
    assert!(text.contains("__main__.Twin is made again and again: "), "{text}");
}

#[test]
fn two_processes_are_not_subtracted_from_each_other() {
    let stage = Stage::new();
    let file = stage.path("one.json");
    let (one, other) = (Target::start("held = []"), Target::start("held = [bytearray(50_000)] * 2"));
    let file = file.to_str().unwrap();
    assert!(stage.output(&["scan", &one.pid(), "--save", file]).status.success());
    let output = stage.output(&["scan", &other.pid(), "--against", file]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && said.contains("different processes"), "{said}");
    assert!(said.contains(&one.pid()) && said.contains(&other.pid()), "{said}");
    assert!(output.stdout.is_empty());
}

#[test]
fn a_program_that_takes_the_place_of_another_is_not_told_with_its_memory() {
    let stage = Stage::new();
    let target = Target::start(
        "import os, threading
held = [[] for _ in range(3_000_000)]
threading.Timer(0.35, os.execv, ('/bin/sleep', ['sleep', '60'])).start()",
    );
    let output = stage.output(&["scan", &target.pid()]);
    let (told, said) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    if output.status.success() {
        assert!(!(told.contains("(sleep 60)") && told.contains("Python")), "{told}");
    } else {
        assert!(said.contains("became another program"), "{said}");
    }
}

#[test]
fn a_second_look_says_what_grew_meanwhile() {
    let stage = Stage::new();
    let growing = "
import threading, time
class Planted: pass
held = []
def grow():
    while True:
        for _ in range(100):
            one = Planted(); one.data = bytearray(20_000); held.append(one)
        time.sleep(0.05)
threading.Thread(target=grow, daemon=True).start()";
    let target = Target::start(growing);
    let growth = json(&stage, &["scan", &target.pid(), "--for", "1s", "--format", "json"]);
    assert!(growth["seconds"].as_f64().unwrap() >= 1.0);
    assert!(growth["difference"]["rss_bytes"].as_i64().unwrap() > 1_000_000);
}

#[test]
fn a_process_of_a_run_is_scanned_by_its_recorder() {
    let stage = Stage::new();
    let python = python();
    let code = "import sys; held = [bytes(50_000) for _ in range(200)]; print('ready', flush=True); sys.stdin.read()";
    let running = stage.run_until_ready(&["--no-agent"], &[&python, "-c", code]);
    let seen = support::snapshot(&stage);
    let pid = seen["processes"][0]["key"]["pid"].to_string();
    let scan = json(&stage, &["scan", &pid, "--format", "json"]);
    assert_eq!(scan["process"]["pid"].to_string(), pid);
    assert_eq!(sum_of_kinds(&scan), scan["rss_bytes"].as_u64().unwrap());
    // The recorder's own pid means its job.
    let recorder = running.pid().to_string();
    let same = json(&stage, &["scan", &recorder, "--format", "json"]);
    assert_eq!(same["process"], scan["process"]);
    assert_eq!(running.finish().0, 0);
    // Neither the helper nor the scan is part of the job.
    let recording = stage.recording();
    let helper = |process: &&lowtide_model::Process| process.argv.iter().any(|word| word == "scan-helper");
    assert_eq!(recording.processes.iter().find(helper), None);
}

#[test]
fn who_is_held_still_is_let_go() {
    let stage = Stage::new();
    let target = Target::start("held = [bytes(50_000) for _ in range(200)]");
    let scan = json(&stage, &["scan", &target.pid(), "--stop", "--format", "json"]);
    assert!(scan["stopped_ms"].as_f64().unwrap() > 0.0);
    let stat = || std::fs::read_to_string(format!("/proc/{}/stat", target.pid())).unwrap();
    support::eventually("it waits for its next line again", || stat().contains(") S ").then_some(()));
}

#[test]
fn what_is_not_there_or_not_a_scan_is_said() {
    let stage = Stage::new();
    let gone = stage.output(&["scan", "4194300"]);
    assert_eq!(gone.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&gone.stderr).contains("no such process"));
    std::fs::write(stage.path("no.json"), "{}").unwrap();
    let file = stage.path("no.json");
    let no_scan = stage.output(&["scan", file.to_str().unwrap()]);
    assert_eq!(no_scan.status.code(), Some(2));
    let steps = stage.output(&["scan", &std::process::id().to_string(), "--steps", "5"]);
    assert!(String::from_utf8_lossy(&steps.stderr).contains("--steps needs marks"));
}

/// Every Python from 3.9 on that this machine has: the tests' own, those on the path, those of pyenv.
fn pythons() -> Vec<String> {
    let home =
        std::env::var("PYENV_ROOT").or_else(|_| std::env::var("HOME").map(|home| format!("{home}/.pyenv")));
    let versions =
        home.into_iter().flat_map(|home| std::fs::read_dir(format!("{home}/versions")).into_iter().flatten());
    let installed =
        versions.filter_map(|entry| Some(entry.ok()?.path().join("bin/python").to_str()?.to_owned()));
    let named = (9..=14).map(|minor| format!("python3.{minor}"));
    let new_enough = |python: &String| {
        let ask = "import sys; sys.exit(sys.version_info < (3, 9) or sys.implementation.name != 'cpython')";
        let asked = Command::new(python).args(["-c", ask]).stderr(Stdio::null()).status();
        asked.is_ok_and(|status| status.success())
    };
    std::iter::once(python()).chain(named).chain(installed).filter(new_enough).collect()
}

/// A name that no code can know.
fn random_name(prefix: &str) -> String {
    let mut bytes = [0; 6];
    std::io::Read::read_exact(&mut std::fs::File::open("/dev/urandom").unwrap(), &mut bytes).unwrap();
    format!("{prefix}{}", bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>())
}

#[test]
fn planted_objects_are_counted_exactly_and_their_holder_is_named_in_every_python_here() {
    let stage = Stage::new();
    for python in pythons() {
        let (class, holder) = (random_name("C"), random_name("g"));
        let code = format!(
            "import sys\nclass {class}: pass\n{holder} = []\nfor i in range(300):\n    one = {class}()\n    one.data = \
             bytearray(b'x' * 100_000)\n    {holder}.append(one)\ndel one\nprint('ready', flush=True)\nsys.stdin.read()\n"
        );
        let mut child = Command::new(&python)
            .args(["-c", &code])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let target = Target(child);
        let scan = json(&stage, &["scan", &target.pid(), "--format", "json"]);
        let types = scan["types"].as_array().unwrap();
        let planted = types.iter().find(|row| row["name"] == class.as_str()).unwrap();
        assert_eq!(planted["count"], 300, "{python}");
        let holders = scan["holders"].to_string();
        assert!(holders.contains(&holder), "{python}: {holders}");
        let buffers = types.iter().find(|row| row["name"] == "bytearray").unwrap();
        let owned = buffers["owned_bytes"].as_f64().unwrap();
        assert!((owned / 30e6 - 1.0).abs() < 0.05, "{python}: {owned}");
    }
}

#[test]
fn a_scan_leaves_the_sizes_of_the_process_as_they_were() {
    let stage = Stage::new();
    let code = "import mmap; held = [bytes(50_000) for _ in range(200)]; hole = mmap.mmap(-1, 2 << 30)";
    let target = Target::start(code);
    let sizes = || {
        let status = std::fs::read_to_string(format!("/proc/{}/status", target.pid())).unwrap();
        let kept =
            |line: &&str| ["VmRSS", "VmSwap", "VmPTE", "RssFile"].iter().any(|key| line.starts_with(key));
        status.lines().filter(kept).map(str::to_owned).collect::<Vec<_>>()
    };
    let waits = || std::fs::read_to_string(format!("/proc/{}/stat", target.pid())).unwrap().contains(") S ");
    support::eventually("the target waits", || waits().then_some(()));
    let before = sizes();
    json(&stage, &["scan", &target.pid(), "--format", "json"]);
    assert_eq!(sizes(), before);
}

/// The helper's program and libraries are resident whatever it scans: what is held to a tenth is what comes on top.
#[test]
fn a_scan_takes_at_most_a_tenth_of_what_it_scans_on_top_of_its_own_program() {
    let stage = Stage::new();
    let cost = |code: &str| {
        let target = Target::start(code);
        let scan = json(&stage, &["scan", &target.pid(), "--format", "json"]);
        let doubts = scan["coverage"].as_array().unwrap().iter().map(|line| line["doubt"].clone());
        assert!(doubts.clone().all(|doubt| doubt == ""), "{:?}", doubts.collect::<Vec<_>>());
        (scan["cost"]["own_bytes"].as_u64().unwrap(), scan["rss_bytes"].as_u64().unwrap())
    };
    let (least, small) = cost("pass");
    for code in [
        "held = [(number + 0.5, [number + 0.25]) for number in range(900_000)]",
        "held = [{'a': number + 0.5, 'b': str(number)} for number in range(400_000)]",
    ] {
        let (own, rss) = cost(code);
        assert!(rss > small + (100 << 20), "{code}: only {rss} bytes resident");
        let (more, scanned) = (own.saturating_sub(least), rss - small);
        assert!(more <= scanned / 10, "{code}: {more} bytes for {scanned}");
    }
}

#[test]
fn a_cache_of_millions_of_numbers_is_measured_within_the_memory_a_scan_may_take() {
    let target = Target::start(
        "import functools\n@functools.lru_cache(maxsize=None)\ndef encode(one):\n    return list(range(one * 1000, one * 1000 + 400))\nfor one in range(10, 12010): encode(one)\ndel one",
    );
    let scan = json(&Stage::new(), &["scan", &target.pid(), "--format", "json"]);
    let suspects = scan["suspects"].as_array().unwrap();
    let cache = suspects.iter().find(|one| one["holder"] == "__main__.encode").unwrap();
    assert_eq!(cache["count"], 12_000);
    let (bytes, numbers) = (cache["bytes"].as_u64().unwrap(), 12_000 * 400 * (32 + 8));
    assert!(bytes > numbers && bytes < numbers / 100 * 110, "{bytes} of {numbers}");
}

/// Slow by its nature: scans may take one part in a hundred of the job's time.
#[test]
fn a_run_that_grows_is_scanned_by_itself_and_its_verdict_names_what_grew() {
    let stage = Stage::new();
    let (class, holder) = (random_name("C"), random_name("g"));
    let code = format!(
        "import time, os\nclass {class}: pass\n{holder} = []\nbegun = time.time()\nwhile time.time() - begun < 170:\n    \
         one = {class}()\n    one.data = bytearray(b'x' * 1_000_000)\n    {holder}.append(one)\n    time.sleep(0.3)\n    \
         if os.path.exists(os.environ['ENOUGH']): break\n"
    );
    let (file, enough, python) = (stage.path("run.tide"), stage.path("enough"), python());
    let mut command =
        stage.command(&["run", "--no-agent", "--out", file.to_str().unwrap(), "--", &python, "-c", &code]);
    let mut child = command.env("ENOUGH", &enough).stderr(Stdio::piped()).spawn().unwrap();
    let until = std::time::Instant::now() + std::time::Duration::from_secs(180);
    while std::time::Instant::now() < until && child.try_wait().unwrap().is_none() {
        let seen = lowtide_store::open(&file).and_then(|mut reader| reader.recording());
        if seen.is_ok_and(|recording| recording.scans.len() >= 2) {
            std::fs::write(&enough, "").unwrap();
        }
        std::thread::sleep(std::time::Duration::from_millis(500));
    }
    child.wait().unwrap();
    let recording = stage.recording();
    assert!(recording.scans.len() >= 2, "{} scans; {:?}", recording.scans.len(), recording.events);
    let verdict = json(&stage, &["explain", file.to_str().unwrap(), "--format", "json"]);
    let evidence = verdict["evidence"].to_string();
    assert!(evidence.contains(&holder) && evidence.contains(&class), "{evidence}");
}

/// Allocators that can be put in the C library's place, where this machine has them (Debian: libjemalloc2,
/// libtcmalloc-minimal4, libmimalloc2.0).
const STRANGERS: [(&str, &str); 3] = [
    ("libjemalloc.so.2", "jemalloc"),
    ("libtcmalloc_minimal.so.4", "tcmalloc"),
    ("libmimalloc.so.2.0", "mimalloc"),
];

/// The libraries of [`STRANGERS`] that are here.
fn strangers() -> Vec<(String, &'static str)> {
    let folders = ["/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64", "/usr/lib"];
    let place = |file: &str| {
        folders
            .iter()
            .map(|folder| format!("{folder}/{file}"))
            .find(|path| std::path::Path::new(path).exists())
    };
    STRANGERS.iter().filter_map(|(file, name)| Some((place(file)?, *name))).collect()
}

fn allocator<'a>(scan: &'a Value, name: &str) -> Option<&'a Value> {
    scan["allocators"].as_array().unwrap().iter().find(|line| line["name"] == name)
}

#[test]
fn an_allocator_that_is_not_understood_is_said_and_the_mappings_still_add_up() {
    let stage = Stage::new();
    let found = strangers();
    if found.is_empty() {
        eprintln!("not tested, for want of jemalloc, tcmalloc and mimalloc on this machine");
    }
    let code = "held = [bytearray(b'x' * 300_000) for _ in range(100)]";
    for (library, name) in found {
        let target = Target::start_with(&[("LD_PRELOAD", &library)], code);
        let scan = json(&stage, &["scan", &target.pid(), "--format", "json"]);
        let line = allocator(&scan, name).unwrap_or_else(|| panic!("no {name} in {}", scan["allocators"]));
        assert_eq!(line["understood"], false, "{line}");
        assert_eq!(sum_of_kinds(&scan), scan["rss_bytes"].as_u64().unwrap(), "{name}");
        // Thirty million bytes that no block can be told of: not given to anybody, and not left out.
        let other = |kind: &&Value| {
            ["other_anonymous", "unowned_native", "unexplained"].iter().any(|is| kind["kind"] == *is)
        };
        let told: u64 = scan["kinds"]
            .as_array()
            .unwrap()
            .iter()
            .filter(other)
            .map(|kind| kind["bytes"].as_u64().unwrap())
            .sum();
        assert!(told > 28_000_000, "{name}: {}", scan["kinds"]);
        let text = String::from_utf8(stage.output(&["scan", &target.pid()]).stdout).unwrap();
        assert!(text.contains(&format!("allocator {name} is not understood")), "{text}");
    }
}

#[test]
fn python_that_takes_every_object_from_malloc_is_said_and_counted_all_the_same() {
    let stage = Stage::new();
    let class = random_name("C");
    let code = format!("class {class}: pass\nheld = [{class}() for _ in range(500)]");
    for kind in ["malloc", "malloc_debug", "pymalloc_debug"] {
        let target = Target::start_with(&[("PYTHONMALLOC", kind)], &code);
        let scan = json(&stage, &["scan", &target.pid(), "--format", "json"]);
        assert!(allocator(&scan, &format!("PYTHONMALLOC={kind}")).is_some(), "{}", scan["allocators"]);
        assert_eq!(
            allocator(&scan, "pymalloc").is_some(),
            kind == "pymalloc_debug",
            "{}",
            scan["allocators"]
        );
        let types = scan["types"].as_array().unwrap();
        let planted = types.iter().find(|row| row["name"] == class.as_str()).unwrap();
        assert_eq!(planted["count"], 500, "{kind}");
    }
}

/// A Python without GIL: the one that is given, else one of the path.
fn free_threaded() -> Option<String> {
    let given = std::env::var("LOWTIDE_TEST_FREE_THREADED_PYTHON").ok();
    let path = ["python3.14t", "python3.13t"].map(str::to_owned);
    let runs =
        |name: &String| Command::new(name).args(["-c", ""]).status().is_ok_and(|status| status.success());
    given.into_iter().chain(path).find(runs)
}

#[test]
fn a_python_without_gil_is_said_to_be_one_and_its_memory_is_given_to_nobody() {
    let stage = Stage::new();
    let Some(python) = free_threaded() else {
        return eprintln!("not tested, for want of a Python without GIL on this machine");
    };
    let code = "held = [bytearray(b'x' * 300_000) for _ in range(100)]";
    let target = Target::start_by(&python, &[], code);
    let scan = json(&stage, &["scan", &target.pid(), "--format", "json"]);
    let line =
        allocator(&scan, "mimalloc").unwrap_or_else(|| panic!("no mimalloc in {}", scan["allocators"]));
    assert_eq!(line["understood"], false, "{line}");
    assert!(line["note"].as_str().unwrap().contains("without GIL"), "{line}");
    assert_eq!(scan["types"].as_array().unwrap().len(), 0, "{}", scan["types"]);
    assert_eq!(sum_of_kinds(&scan), scan["rss_bytes"].as_u64().unwrap());
    let text = String::from_utf8(stage.output(&["scan", &target.pid()]).stdout).unwrap();
    assert!(text.contains("allocator mimalloc is not understood: a Python without GIL"), "{text}");
}

#[test]
fn a_program_of_another_c_library_is_said_to_be_one() {
    // Debian's musl-tools; without them there is no such program here.
    let stage = Stage::new();
    let (source, program) = (stage.path("hold.c"), stage.path("hold"));
    let code = "#include <stdlib.h>\n#include <stdio.h>\n#include <string.h>\nint main(void) { char *held = malloc(3000000); \
                memset(held, 1, 3000000); puts(\"ready\"); fflush(stdout); getchar(); return held[7] - 1; }\n";
    std::fs::write(&source, code).unwrap();
    let made = Command::new("musl-gcc").arg(&source).arg("-o").arg(&program).status();
    if !made.is_ok_and(|status| status.success()) {
        return eprintln!("not tested, for want of musl-gcc on this machine");
    }
    let mut child = Command::new(&program).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let target = Target(child);
    let scan = json(&stage, &["scan", &target.pid(), "--format", "json"]);
    assert_eq!(allocator(&scan, "musl").map(|line| line["understood"].clone()), Some(Value::Bool(false)));
    assert_eq!(sum_of_kinds(&scan), scan["rss_bytes"].as_u64().unwrap());
}

#[test]
fn a_thread_of_the_kernel_is_told_as_that() {
    let stage = Stage::new();
    let of_the_kernel = |pid: &u32| {
        let root = lowtide_probe::Root::live();
        lowtide_probe::stat_of(&root, *pid).known().is_some_and(|stat| stat.is_kernel_thread())
    };
    // A container has none.
    let Some(pid) = (2..100).find(of_the_kernel) else { return };
    let said = String::from_utf8(stage.output(&["scan", &pid.to_string()]).stderr).unwrap();
    assert!(said.contains("is a thread of the kernel"), "{said}");
}
