//! Marks from real Python trees, shells and outputs: under the real recorder, with exact numbers.

#![allow(clippy::unwrap_used, reason = "a test that can't set its stage should fail loudly")]

mod support;

use lowtide_model::{Mark, MarkKind, MarkPhase, Recording};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use support::{Running, Stage, eventually, lives, lowtide, read, snapshot, with_argument};

fn script(name: &str) -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/marks");
    folder.join(name).to_str().unwrap().to_owned()
}

/// Every Python here that the agent is for, newest last; at least the one on the path.
fn pythons() -> Vec<PathBuf> {
    let home = std::env::var_os("PYENV_ROOT").map(PathBuf::from);
    let home = home.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".pyenv")));
    let versions = home.map(|home| home.join("versions").read_dir()).into_iter().flatten().flatten();
    let able = |path: &PathBuf| {
        let program = "import sys; sys.exit(sys.version_info < (3, 9))";
        Command::new(path)
            .args(["-c", program])
            .stderr(Stdio::null())
            .status()
            .is_ok_and(|status| status.success())
    };
    let mut found: Vec<PathBuf> =
        versions.filter_map(Result::ok).map(|entry| entry.path().join("bin/python")).filter(able).collect();
    found.sort();
    if found.is_empty() {
        found.push("python3".into());
    }
    found
}

fn python() -> String {
    pythons().pop().unwrap().to_str().unwrap().to_owned()
}

/// The highest step each process told, by rank.
fn last_steps(recording: &Recording) -> Vec<(Option<u32>, f64)> {
    let mut last: Vec<(Option<u32>, f64)> = Vec::new();
    for mark in of_kind(recording, MarkKind::Step) {
        match last.iter_mut().find(|(rank, _)| *rank == mark.rank) {
            Some((_, step)) => *step = step.max(mark.number),
            None => last.push((mark.rank, mark.number)),
        }
    }
    last.sort_by_key(|(rank, _)| *rank);
    last
}

fn of_kind(recording: &Recording, kind: MarkKind) -> Vec<&Mark> {
    recording.marks.iter().filter(|mark| mark.kind == kind).collect()
}

fn run(stage: &Stage, flags: &[&str], job: &[&str]) -> (Recording, String) {
    let file = stage.path("run.tide");
    let mut command = stage.command(&["run", "--interval", "50ms", "--out", file.to_str().unwrap()]);
    let output = command.args(flags).arg("--").args(job).stdin(Stdio::null()).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{said}");
    (read(&file), said)
}

#[test]
fn every_process_of_a_tree_tells_its_own_steps_exactly_under_every_start_method() {
    for python in pythons() {
        for method in ["fork", "spawn", "forkserver"] {
            let stage = Stage::new();
            let job = [python.to_str().unwrap(), &script("tree.py"), method];
            let (recording, _) = run(&stage, &["--no-agent"], &job);
            let steps = [(Some(0), 120.0), (Some(1), 41.0), (Some(2), 42.0)];
            assert_eq!(last_steps(&recording), steps, "{} {method}", python.display());
            let phases: Vec<_> =
                of_kind(&recording, MarkKind::Eval).iter().map(|mark| (mark.phase, mark.number)).collect();
            assert_eq!(phases, [(MarkPhase::Start, 60.0), (MarkPhase::End, 60.0)]);
            let saves: Vec<_> = of_kind(&recording, MarkKind::Save).iter().map(|mark| mark.rank).collect();
            assert_eq!((saves.len(), saves.contains(&Some(1)), saves.contains(&Some(2))), (2, true, true));
            let facts = of_kind(&recording, MarkKind::Info);
            assert!(
                facts
                    .iter()
                    .any(|mark| mark.extra.as_deref() == Some("{\"examples\":663,\"batch\":2,\"accum\":4}"))
            );
            assert!(recording.marks.iter().all(|mark| mark.process.is_some()));
        }
    }
}

#[test]
fn nothing_is_left_in_the_runtime_folder() {
    let stage = Stage::new();
    run(&stage, &[], &["true"]);
    assert_eq!(std::fs::read_dir(stage.path("runtime/lowtide")).unwrap().count(), 0);
}

#[test]
fn the_users_own_sitecustomize_and_path_are_still_there() {
    let stage = Stage::new();
    let own = stage.path("own");
    std::fs::create_dir(&own).unwrap();
    std::fs::write(own.join("sitecustomize.py"), "import builtins; builtins.chained = __file__\n").unwrap();
    std::fs::write(own.join("mine.py"), "value = 7\n").unwrap();
    let program = "import sys, mine, sitecustomize; print(chained, mine.value, sitecustomize.__file__)";
    for python in pythons() {
        let mut command = stage.command(&["run", "--quiet", "--"]);
        command.arg(&python).args(["-c", program]).env("PYTHONPATH", &own).stdin(Stdio::null());
        let output = command.output().unwrap();
        let site = own.join("sitecustomize.py");
        let wanted = format!("{} 7 {}\n", site.display(), site.display());
        assert_eq!(String::from_utf8_lossy(&output.stdout), wanted, "{}", python.display());
        assert_eq!(String::from_utf8_lossy(&output.stderr), "", "{}", python.display());
    }
}

#[test]
fn without_the_agent_python_sees_nothing_of_it() {
    let stage = Stage::new();
    let program = "import os, sys; print(os.environ.get('PYTHONPATH'), 'sitecustomize' in sys.modules)";
    let mut command = stage.command(&["run", "--quiet", "--no-agent", "--"]);
    let output =
        command.args([&python(), "-c", program]).env_remove("PYTHONPATH").stdin(Stdio::null()).output();
    let plain = Command::new(python()).args(["-c", program]).env_remove("PYTHONPATH").output().unwrap();
    assert_eq!(output.unwrap().stdout, plain.stdout);
}

/// A job that steps until its standard input closes.
const STEPPER: &str = "
import sys, threading, time
sys.path.insert(0, sys.argv[1])
from page import Page
page = Page(rank=0)
stop = threading.Event()
threading.Thread(target=lambda: (sys.stdin.read(), stop.set()), daemon=True).start()
print('ready', flush=True)
number = 0
while not stop.is_set():
    number += 1
    page.step(number)
    if number == 3:
        page.mark(2, 1, 1)
    time.sleep(0.005)
print('last', number, flush=True)
";

#[test]
fn a_killed_recorder_leaves_the_pages_and_the_next_one_goes_on_from_them() {
    let stage = Stage::new();
    let folder = Path::new(&script("page.py")).parent().unwrap().to_str().unwrap().to_owned();
    let file = stage.path("first.tide");
    let mut command =
        stage.command(&["run", "--no-agent", "--interval", "50ms", "--out", file.to_str().unwrap()]);
    command.args(["--", &python(), "-c", STEPPER, &folder]);
    let mut running = Running::start(command, file);
    running.wait_for_line("ready");
    let step = |value: &serde_json::Value| value["progress"]["step"].as_f64();
    eventually("steps", || step(&snapshot(&stage)).filter(|step| *step > 10.0));
    let told = snapshot(&stage);
    let job = told["processes"][0]["key"]["pid"].as_u64().unwrap() as u32;
    nix::sys::signal::kill(nix::unistd::Pid::from_raw(running.pid()), nix::sys::signal::Signal::SIGKILL)
        .unwrap();
    // Waiting closes it, and the job ends with its input.
    let input = running.child.stdin.take();
    running.child.wait().unwrap();
    assert!(lives(job), "the job runs on");
    let second = stage.path("second.tide");
    let mut watch = stage
        .command(&[
            "watch",
            &job.to_string(),
            "--lines",
            "--interval",
            "50ms",
            "--out",
            second.to_str().unwrap(),
        ])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    eventually("the second recorder's marks", || {
        let recording = lowtide_store::open(&second).ok()?.recording().ok()?;
        (last_steps(&recording).first()?.1 > 12.0).then_some(())
    });
    drop(input);
    let last = running.wait_for_line("last");
    assert!(watch.wait().unwrap().success());
    let recording = read(&second);
    let wanted: f64 = last.rsplit(' ').next().unwrap().parse().unwrap();
    assert_eq!(last_steps(&recording), [(Some(0), wanted)], "to the last step");
    let epochs = of_kind(&recording, MarkKind::Epoch);
    assert_eq!(epochs.len(), 1, "what was marked before it came is still in the page");
    assert_eq!(with_argument(&recording, STEPPER).len(), 1);
    assert_eq!(std::fs::read_dir(stage.path("runtime/lowtide")).unwrap().count(), 0, "nothing stays behind");
}

#[test]
fn a_mark_comes_from_a_shell_and_from_one_line_of_text() {
    let stage = Stage::new();
    let lowtide = lowtide();
    let script = format!(
        "set -e\n{0} mark step 1\n{0} mark eval --start\n{0} mark eval --end\n{0} mark warm-up --extra '{{\"a\":1}}'\n\
         python3 - <<'END'\nimport os, socket\ns = socket.socket(socket.AF_UNIX)\ns.connect(os.environ['LOWTIDE_SOCKET'])\n\
         s.sendall(b'mark step 120\\nmark save 120 start\\n')\ns.close()\nEND\n{0} mark save --end\n",
        lowtide.display()
    );
    let (recording, _) = run(&stage, &["--no-agent"], &["sh", "-c", &script]);
    let said: Vec<_> = recording.marks.iter().map(|mark| (mark.kind, mark.phase, mark.number)).collect();
    assert_eq!(
        said,
        [
            (MarkKind::Step, MarkPhase::Point, 1.0),
            (MarkKind::Eval, MarkPhase::Start, 1.0),
            (MarkKind::Eval, MarkPhase::End, 1.0),
            (MarkKind::Custom, MarkPhase::Point, 1.0),
            (MarkKind::Step, MarkPhase::Point, 120.0),
            (MarkKind::Save, MarkPhase::Start, 120.0),
            (MarkKind::Save, MarkPhase::End, 120.0),
        ]
    );
    assert_eq!(recording.marks[3].extra.as_deref(), Some("{\"a\":1,\"name\":\"warm-up\"}"));
}

#[test]
fn a_mark_outside_any_run_says_what_to_do() {
    let stage = Stage::new();
    let mut command = stage.command(&["mark", "step", "1"]);
    let output = command.env_remove("LOWTIDE_SOCKET").stdin(Stdio::null()).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("no recorder") && said.contains("--run"), "{said}");
    let said = stage.output(&["mark", "step", "1", "--run", "nosuch"]).stderr;
    assert!(String::from_utf8_lossy(&said).contains("no run that is recorded now is called `nosuch`"));
}

/// A Python that waits for its standard input to close; `-c` so that flags come before it.
const WAITER: &str = "import sys; print('ready', flush=True); sys.stdin.read()";

/// What lowtide says of its own while a job runs, up to the end of it.
fn says(flags: &[&str], python_flags: &[&str], wanted: &str) -> String {
    use std::io::BufRead;
    let stage = Stage::new();
    let file = stage.path("run.tide");
    let mut command = stage.command(&["run", "--interval", "100ms", "--out", file.to_str().unwrap()]);
    command.args(flags).arg("--").arg(python()).args(python_flags).args(["-c", WAITER]);
    let mut running = Running::start(command, file);
    running.wait_for_line("ready");
    let mut said = String::new();
    let mut lines = std::io::BufReader::new(running.child.stderr.take().unwrap());
    while !said.contains(wanted) {
        assert!(lines.read_line(&mut said).unwrap() > 0, "{said}");
    }
    drop(running.child.stdin.take());
    assert!(running.child.wait().unwrap().success());
    said
}

#[test]
fn a_python_that_can_have_no_agent_is_named_with_the_way_out() {
    for flag in ["-I", "-E", "-S"] {
        let said = says(&[], &["-u", flag], "started with");
        assert!(
            said.contains(&format!("a Python started with {flag}: lowtide.Callback() brings its marks")),
            "{said}"
        );
    }
}

#[test]
fn one_calm_line_says_where_the_agent_is() {
    let said = says(&[], &[], "agent in");
    assert_eq!(said, "lowtide: agent in 1 process\n");
}

/// Prints steps, other bytes and a line on standard error each time.
const PRINTER: &str = "
import os, sys
for step in range(1, 121):
    os.write(1, b'step %d\\xff\\0\\x1b[31m\\r' % step)
    os.write(2, b'err %d\\n' % step)
os.write(1, b'step 121')
";

#[test]
fn steps_are_found_in_output_whose_bytes_and_streams_stay_as_they_are() {
    let stage = Stage::new();
    let file = stage.path("run.tide");
    let mut command = stage.command(&["run", "--quiet", "--no-agent", "--step-pattern", r"step (\d+)"]);
    command.args(["--out", file.to_str().unwrap(), "--", &python(), "-c", PRINTER]).stdin(Stdio::null());
    let output = command.output().unwrap();
    let plain = Command::new(python()).args(["-c", PRINTER]).output().unwrap();
    assert_eq!(output, plain);
    assert_eq!(last_steps(&read(&file)), [(None, 121.0)], "the last one too, though nothing ended its line");
}

#[test]
fn streams_that_go_to_one_place_keep_their_order() {
    let stage = Stage::new();
    let log = stage.path("log");
    let place = std::fs::File::create(&log).unwrap();
    let mut command = stage.command(&["run", "--quiet", "--no-agent", "--step-pattern", r"step (\d+)", "--"]);
    command.args([&python(), "-c", PRINTER]).stdin(Stdio::null());
    let status = command.stdout(place.try_clone().unwrap()).stderr(place).status().unwrap();
    assert!(status.success());
    let plain = stage.path("plain");
    let place = std::fs::File::create(&plain).unwrap();
    let mut command = Command::new(python());
    command.args(["-c", PRINTER]).stdout(place.try_clone().unwrap()).stderr(place).status().unwrap();
    assert_eq!(std::fs::read(log).unwrap(), std::fs::read(plain).unwrap());
}

#[test]
fn a_killed_recorder_leaves_relay_and_job_running() {
    let stage = Stage::new();
    let file = stage.path("run.tide");
    let mut command =
        stage.command(&["run", "--no-agent", "--step-pattern", r"step (\d+)", "--interval", "50ms"]);
    let echo = "import sys\nprint('ready', flush=True)\nfor line in sys.stdin: print('step', line.strip(), flush=True)";
    command.args(["--out", file.to_str().unwrap(), "--", &python(), "-c", echo]);
    let mut running = Running::start(command, file.clone());
    running.wait_for_line("ready");
    let mut input = running.child.stdin.take().unwrap();
    let mut say = |line: &str| std::io::Write::write_all(&mut input, line.as_bytes()).unwrap();
    say("1\n");
    running.wait_for_line("step 1");
    eventually("the step", || {
        let recording = lowtide_store::open(&file).ok()?.recording().ok()?;
        (last_steps(&recording) == [(None, 1.0)]).then_some(())
    });
    nix::sys::signal::kill(nix::unistd::Pid::from_raw(running.pid()), nix::sys::signal::Signal::SIGKILL)
        .unwrap();
    running.child.wait().unwrap();
    for step in 2..50 {
        say(&format!("{step}\n"));
        running.wait_for_line(&format!("step {step}"));
    }
}

#[test]
fn a_reader_that_leaves_ends_the_job_by_its_broken_pipe() {
    let stage = Stage::new();
    let endless = "n=0; while echo step $n; do n=$((n+1)); done; echo told >&2; exit 9";
    let mut command = stage.command(&["run", "--quiet", "--no-agent", "--step-pattern", r"step (\d+)", "--"]);
    command.args(["bash", "-c", endless]);
    let mut running = Running::start(command, stage.path("none"));
    running.wait_for_line("step 3");
    drop(running.stdout);
    let status = running.child.wait().unwrap();
    assert!(matches!(status.code(), Some(9 | 141)), "{status:?}");
}

#[test]
fn a_survivor_that_holds_the_output_does_not_hold_lowtide() {
    let stage = Stage::new();
    let job = "trap '' TERM; (while :; do sleep 0.05; done) & echo step 7; echo pid $!";
    let mut command = stage.command(&["run", "--no-agent", "--step-pattern", r"step (\d+)", "--out"]);
    command.arg(stage.path("run.tide")).args(["--", "bash", "-c", job]);
    let mut running = Running::start(command, stage.path("run.tide"));
    let pid = running.wait_for_line("pid ");
    let pid: i32 = pid.rsplit(' ').next().unwrap().parse().unwrap();
    let status = running.child.wait().unwrap();
    nix::sys::signal::kill(nix::unistd::Pid::from_raw(pid), nix::sys::signal::Signal::SIGKILL).unwrap();
    assert!(status.success());
    assert_eq!(last_steps(&stage.recording()), [(None, 7.0)]);
}

#[test]
fn on_a_terminal_the_job_still_has_one_and_its_steps_are_found() {
    use std::io::Read;
    let stage = Stage::new();
    let file = stage.path("run.tide");
    let ends = nix::pty::openpty(None, None).unwrap();
    let program =
        "import os, sys; print('terminals', *[os.isatty(n) for n in (0, 1, 2)]); print('step 42', end='')";
    let mut command =
        stage.command(&["run", "--quiet", "--no-agent", "--step-pattern", r"step (\d+)", "--out"]);
    command.arg(&file).args(["--", &python(), "-c", program]);
    let mut child = command
        .stdin(ends.slave.try_clone().unwrap())
        .stdout(ends.slave.try_clone().unwrap())
        .stderr(ends.slave)
        .spawn()
        .unwrap();
    drop(command);
    let mut shown = Vec::new();
    let mut master = std::fs::File::from(ends.master);
    let mut chunk = [0; 4096];
    while let Ok(count @ 1..) = master.read(&mut chunk) {
        shown.extend_from_slice(&chunk[..count]);
    }
    assert!(child.wait().unwrap().success());
    assert_eq!(String::from_utf8_lossy(&shown), "terminals True True True\r\nstep 42");
    assert_eq!(last_steps(&read(&file)), [(None, 42.0)]);
}

#[test]
fn a_pattern_without_a_group_is_refused_before_anything_starts() {
    let stage = Stage::new();
    let output = stage.output(&["run", "--step-pattern", "step", "--", "true"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("no group for the number"));
}

#[test]
fn a_python_that_no_recorder_started_is_watched_and_said_to_have_no_marks() {
    let stage = Stage::new();
    let mut job = Command::new(python())
        .args(["-c", WAITER])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let file = stage.path("watch.tide");
    let mut command =
        stage.command(&["watch", &job.id().to_string(), "--lines", "--interval", "100ms", "--out"]);
    command.arg(&file);
    let mut running = Running::start(command, file.clone());
    let said = running.wait_for_line("warning: no steps or epochs");
    assert!(said.contains("was not started by `lowtide run`"), "{said}");
    let mut mark = stage.command(&["mark", "step", "3", "--run", &job.id().to_string()]);
    assert!(mark.status().unwrap().success());
    drop(job.stdin.take());
    assert!(job.wait().unwrap().success());
    assert_eq!(running.finish().0, 0);
    assert_eq!(last_steps(&read(&file)), [(None, 3.0)]);
}
