//! `lowtide squeeze` on real Pythons under a real recorder: garbage, freed memory that is kept, nothing to free, no agent.

#![allow(clippy::unwrap_used, reason = "a test that can't set its stage should fail loudly")]

mod support;

use serde_json::Value;
use std::process::Stdio;
use support::{Running, Stage, python_3_14, snapshot};

/// The Python with numpy and Pillow that `cargo xtask test` makes, else the system's.
fn python() -> String {
    std::env::var("LOWTIDE_TEST_PYTHON").unwrap_or_else(|_| "python3".to_owned())
}

/// What every program here begins with: the page of the agent that came in by itself, and a class for cycles.
const BEGIN: &str = "
import gc, os, sys, threading, time
page = sys.modules['lowtide_agent.page'].current()
class Cycle: pass
def cycles(count, size):
    for _ in range(count):
        one = Cycle(); one.me = one; one.data = bytearray(b'x' * size)
over = threading.Event()
def until_told():
    sys.stdin.read(); over.set()
reader = threading.Thread(target=until_told, daemon=True); reader.start()
";
/// Steps until it is told to end.
const STEPS: &str = "
print('ready', flush=True)
step = 0
while not over.wait(0.01):
    step += 1
    page.step(step)
";
/// Python code without a step.
const NO_STEPS: &str = "
print('ready', flush=True)
while not over.is_set():
    time.sleep(0.001)
";

const MIB: u64 = 1 << 20;

fn start(stage: &Stage, flags: &[&str], parts: &[&str]) -> (Running, String) {
    start_with(&python(), stage, flags, parts)
}

fn start_with(python: &str, stage: &Stage, flags: &[&str], parts: &[&str]) -> (Running, String) {
    let running = stage.run_until_ready(flags, &[python, "-c", &parts.concat()]);
    let pid = snapshot(stage)["processes"][0]["key"]["pid"].to_string();
    (running, pid)
}

fn squeeze(stage: &Stage, pid: &str) -> Value {
    let output = stage.output(&["squeeze", pid, "--format", "json"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

fn way<'a>(report: &'a Value, means: &str) -> &'a Value {
    let ways = report["ways"].as_array().unwrap();
    ways.iter().find(|way| way["means"] == means).unwrap_or_else(|| panic!("no {means} in {report}"))
}

fn returned(way: &Value) -> u64 {
    way["host"]["returned_bytes"].as_u64().unwrap()
}

#[test]
fn garbage_comes_back_by_the_collector_and_is_still_gone_ten_steps_later() {
    let stage = Stage::new();
    let (running, pid) = start(&stage, &[], &[BEGIN, "gc.disable(); cycles(400, 100_000)\n", STEPS]);
    let report = squeeze(&stage, &pid);
    assert_eq!(report["schema"], "lowtide.squeeze/1");
    assert_eq!(report["process"]["pid"].to_string(), pid);
    assert_eq!(report["incomplete"], Value::Null, "{report}");
    let gc = way(&report, "gc_collect");
    assert!(gc["found_objects"].as_u64().unwrap() >= 400, "{gc}");
    assert!(returned(gc) > 30 * MIB, "{gc}");
    assert!(gc["took_ms"].as_f64().unwrap() > 0.0);
    assert!(gc["later"]["steps"].as_u64().unwrap() >= 10, "{gc}");
    assert!(gc["later"]["host_still_gone_bytes"].as_u64().unwrap() > 30 * MIB, "{gc}");
    assert_eq!(way(&report, "gpu_cache")["skipped"], "no GPU is in use");
    assert!(returned(way(&report, "allocator_trim")) < 10 * MIB, "garbage is not free memory: {report}");
    assert_eq!(running.finish().0, 0);
    // The figures are in the recording too.
    let told =
        |mark: &&lowtide_model::Mark| mark.extra.as_deref().is_some_and(|text| text.contains("squeeze"));
    assert!(stage.recording().marks.iter().filter(told).count() >= 4);
}

#[test]
fn freed_memory_that_malloc_keeps_comes_back_by_trimming_and_is_not_garbage() {
    let stage = Stage::new();
    let kept = "kept = [bytearray(b'x' * 60_000) for _ in range(1000)]; pin = kept[-1]; del kept\n";
    let (running, pid) = start(&stage, &[], &[BEGIN, kept, STEPS]);
    let report = squeeze(&stage, &pid);
    let trim = way(&report, "allocator_trim");
    assert_eq!(trim["with"], "glibc");
    assert!(returned(trim) > 40 * MIB, "{report}");
    assert!(trim["later"]["host_still_gone_bytes"].as_u64().unwrap() > 40 * MIB, "{report}");
    assert!(returned(way(&report, "gc_collect")) < 10 * MIB, "{report}");
    assert_eq!(running.finish().0, 0);
}

#[test]
fn nothing_to_free_is_said_in_words() {
    let stage = Stage::new();
    let (running, pid) =
        start(&stage, &[], &[BEGIN, "held = [bytearray(b'x' * 60_000) for _ in range(300)]\n", STEPS]);
    // What the start of the program left behind goes first.
    squeeze(&stage, &pid);
    let output = stage.output(&["squeeze", &pid]);
    let text = String::from_utf8(output.stdout).unwrap();
    for part in ["gives nothing back", "gc.collect      0 B back", "not garbage", "no gradient was zeroed"] {
        assert!(text.contains(part), "no `{part}` in\n{text}");
    }
    assert_eq!(running.finish().0, 0);
}

#[test]
fn a_program_without_steps_is_reached_between_its_bytecodes_where_the_interpreter_can() {
    let Some(python) = python_3_14() else { return };
    let stage = Stage::new();
    let kept = "kept = [bytearray(b'x' * 60_000) for _ in range(1000)]; pin = kept[-1]; del kept\n";
    let (running, pid) = start_with(&python, &stage, &[], &[BEGIN, kept, NO_STEPS]);
    let report = squeeze(&stage, &pid);
    let trim = way(&report, "allocator_trim");
    assert!(returned(trim) > 40 * MIB, "{report}");
    assert_eq!(trim["later"]["steps"], Value::Null);
    assert!(trim["later"]["seconds"].as_f64().unwrap() >= 10.0, "{report}");
    assert!(way(&report, "gc_collect")["found_objects"].is_u64(), "{report}");
    assert_eq!(running.finish().0, 0);
}

#[test]
fn it_never_works_inside_a_signal_handler_of_the_programs() {
    let stage = Stage::new();
    // The handler runs until a squeeze is asked for and tells steps, which is where the agent would work.
    let handler = "
import signal
def busy(number, frame):
    for step in range(1, 1_000_000):
        wanted = page.squeeze_wanted()
        page.step(step)
        if wanted is not None:
            break
        time.sleep(0.01)
    print('inside', page.squeeze_wanted() == wanted, flush=True)
signal.signal(signal.SIGALRM, busy)
print('ready', flush=True)
signal.raise_signal(signal.SIGALRM)
";
    let steps = STEPS.replace("print('ready', flush=True)", "");
    let (mut running, pid) = start(&stage, &[], &[BEGIN, handler, &steps]);
    let report = squeeze(&stage, &pid);
    assert!(way(&report, "gc_collect")["found_objects"].is_u64(), "{report}");
    assert_eq!(running.wait_for_line("inside"), "inside True", "nothing was done while the handler ran");
    assert_eq!(running.finish().0, 0);
}

#[test]
fn an_exception_of_a_handler_that_runs_meanwhile_reaches_the_program() {
    // A finaliser sets an alarm, and then the collector has much to free without running Python: the alarm's handler runs
    // when it returns, in the middle of the agent's work.
    let planted = "
import signal
class Alarm(Exception): pass
def ring(number, frame):
    raise Alarm
signal.signal(signal.SIGALRM, ring)
class Bell:
    def __del__(self): signal.setitimer(signal.ITIMER_REAL, 0.002)
gc.disable()
one = Bell(); one.me = one
old = [one]
for _ in range(300_000):
    one = []; one.append(one); old.append(one)
gc.collect(); del one; old.clear()
";
    let bodies = [(Some(python()), STEPS), (python_3_14(), NO_STEPS)];
    for (python, body) in bodies.into_iter().filter_map(|(python, body)| Some((python?, body))) {
        let stage = Stage::new();
        let body: String = body.lines().map(|line| format!("    {line}\n")).collect();
        let code =
            format!("{planted}try:\n{body}except Alarm:\n    print('rang', flush=True); over.wait()\n");
        let (mut running, pid) = start_with(&python, &stage, &[], &[BEGIN, &code]);
        let mut asked =
            stage.command(&["squeeze", &pid]).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        running.wait_for_line("rang");
        asked.kill().unwrap();
        asked.wait().unwrap();
        assert_eq!(running.finish().0, 0);
    }
}

#[test]
fn without_an_agent_it_says_why_and_what_would_help() {
    let stage = Stage::new();
    let nobody = stage.output(&["squeeze", &std::process::id().to_string()]);
    assert_eq!(nobody.status.code(), Some(2));
    let said = String::from_utf8_lossy(&nobody.stderr).into_owned();
    assert!(said.contains("no recorder of lowtide's has it") && said.contains("lowtide run"), "{said}");
    let job = "import sys; print('ready', flush=True); sys.stdin.read()";
    let (running, pid) = start(&stage, &["--no-agent"], &[job]);
    let without = stage.output(&["squeeze", &pid]);
    assert_eq!(without.status.code(), Some(2));
    let said = String::from_utf8_lossy(&without.stderr).into_owned();
    assert!(said.contains("there is no agent in process"), "{said}");
    assert_eq!(running.finish().0, 0);
}

#[test]
fn a_process_that_ends_meanwhile_is_an_answer_too() {
    let stage = Stage::new();
    // It waits in C, so nothing is taken up; then it ends.
    let waits = "print('ready', flush=True)\nover.wait()\n";
    let (running, pid) = start(&stage, &[], &[BEGIN, waits]);
    let asked = stage.command(&["squeeze", &pid]).stderr(Stdio::piped()).spawn().unwrap();
    support::eventually("the request lies in the page", || {
        let folder =
            std::fs::read_dir(stage.path("runtime/lowtide")).ok()?.next()?.ok()?.path().join("marks");
        let page = std::fs::read_dir(folder)
            .ok()?
            .filter_map(Result::ok)
            .find(|entry| entry.file_name().to_string_lossy().starts_with(&format!("{pid}.")))?;
        let bytes = std::fs::read(page.path()).ok()?;
        (bytes.get(256) == Some(&2)).then_some(())
    });
    assert_eq!(running.finish().0, 0);
    let output = asked.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("ended"), "{said}");
}
