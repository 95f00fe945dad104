//! `lowtide watch` and `lowtide list`: jobs that nobody started through us, and recordings that are there.

#![allow(clippy::unwrap_used, reason = "a test that can't set its stage should fail loudly")]

mod support;

use lowtide_model::{Exit, RunState};
use std::process::{Command, Stdio};
use support::{Stage, eventually, read};

/// A job of somebody else: an orphan that nothing here is an ancestor of. It lives until its standard input ends.
struct Stranger {
    stdin: Option<std::process::ChildStdin>,
    pid: u32,
}

impl Stranger {
    fn start(command: &[&str]) -> Self {
        let mut shell = Command::new("sh");
        shell.args(["-c", "exec 3<&0; (\"$@\" <&3 3<&- >/dev/null & echo $!)", "sh"]).args(command);
        let mut shell = shell.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let stdin = shell.stdin.take();
        let output = shell.wait_with_output().unwrap();
        let pid = String::from_utf8_lossy(&output.stdout).trim().parse().unwrap();
        Self { stdin, pid }
    }

    fn end(mut self) {
        drop(self.stdin.take());
        eventually("the stranger's job ends", || (!support::lives(self.pid)).then_some(()));
    }
}

#[test]
fn a_wrappers_pid_leads_to_the_process_that_holds_the_memory() {
    let stage = Stage::new();
    let (wrapper, trainer) = (stage.renamed("outer"), stage.renamed("inner"));
    let job = Stranger::start(&[&wrapper, "tree", &trainer, "train", "80", "2"]);
    eventually("the workers are there", || {
        let children = std::fs::read_to_string(format!("/proc/{0}/task/{0}/children", job.pid)).ok()?;
        let trainer = children.split_whitespace().next()?.to_owned();
        let workers = std::fs::read_to_string(format!("/proc/{trainer}/task/{trainer}/children")).ok()?;
        (workers.split_whitespace().count() == 2).then_some(())
    });
    let file = stage.path("run.tide");
    let pid = job.pid.to_string();
    let output = stage.output(&["watch", "--lines", "--for", "3s", "--out", file.to_str().unwrap(), &pid]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(0), "{said}");
    assert!(said.contains("trainer") && said.contains("loader worker"), "{said}");
    let recording = read(&file);
    assert!(recording.meta.attached);
    assert_eq!(recording.processes.len(), 4, "wrapper, trainer and two workers that ran before us");
    assert_eq!(
        recording.processes.iter().filter(|process| !process.execed).count(),
        2,
        "the forked ones are known"
    );
    let lines = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(lines.lines().count() >= 1 && lines.contains("MiB"), "{lines}");
    job.end();
}

#[test]
fn the_end_of_a_watched_job_ends_the_watch_with_its_exit_code_where_the_kernel_tells() {
    let stage = Stage::new();
    let job = Stranger::start(&["python3", "-c", "import sys; sys.stdin.read(); sys.exit(9)"]);
    let file = stage.path("run.tide");
    let pid = job.pid.to_string();
    let mut command =
        stage.command(&["watch", "--lines", "--interval", "100ms", "--out", file.to_str().unwrap(), &pid]);
    let watch = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    eventually("it is recorded", || {
        let recording = lowtide_store::open(&file).ok()?.recording().ok()?;
        (!recording.samples.is_empty()).then_some(())
    });
    job.end();
    let said = String::from_utf8_lossy(&watch.wait_with_output().unwrap().stderr).into_owned();
    let recording = read(&file);
    let root = recording.meta.root.unwrap();
    let exit = recording.processes.iter().find(|process| process.key == root).unwrap().exit;
    assert_eq!(exit, Some(Exit::Code(9)), "root has the connector here");
    assert!(said.contains("exit code 9"), "{said}");
}

#[test]
fn watching_what_is_already_recorded_follows_its_recorder() {
    let stage = Stage::new();
    let actor = stage.renamed("hold");
    let running = stage.run_until_ready(&["--interval", "100ms"], &[&actor, "hold", "16"]);
    let job = support::snapshot(&stage)["processes"][0]["key"]["pid"].to_string();
    let mut watch = support::Running::start(stage.command(&["watch", "--lines", &job]), running.file.clone());
    watch.wait_for_line("following hold");
    running.finish();
    assert_eq!(watch.finish().0, 0);
    assert_eq!(std::fs::read_dir(stage.path("runs")).map_or(0, Iterator::count), 0, "no second recording");
}

#[test]
fn a_text_that_fits_nothing_or_a_pid_that_is_gone_is_said_plainly() {
    let stage = Stage::new();
    let output = stage.output(&["watch", "--match", "no such command line anywhere"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("no process has"));
    let output = stage.output(&["watch", "4194303"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("no process 4194303"));
}

#[test]
fn the_list_tells_finished_running_and_broken_apart() {
    let stage = Stage::new();
    stage.output(&["run", "--quiet", "--name", "first", "--", "true"]);
    std::fs::write(stage.path("runs/broken.tide"), "not a recording").unwrap();
    stage.output(&["run", "--quiet", "--out", stage.path("whole.tide").to_str().unwrap(), "--", "true"]);
    let whole = std::fs::read(stage.path("whole.tide")).unwrap();
    std::fs::write(stage.path("runs/torn.tide"), &whole[..3000]).unwrap();
    let text = stage.output(&["list"]).stdout;
    let text = String::from_utf8_lossy(&text).into_owned();
    assert!(text.contains("finished") && text.contains("unreadable: broken.tide"), "{text}");
    let torn = text.lines().find(|line| line.contains("unreadable: torn.tide")).unwrap();
    assert!(torn.contains("torn.tide: database disk image is malformed"), "with the cause: {torn}");
    let explained = stage.output(&["explain", stage.path("runs").to_str().unwrap()]).stderr;
    let explained = String::from_utf8_lossy(&explained).into_owned();
    assert!(explained.contains("torn.tide: database disk image is malformed"), "{explained}");
    let json = stage.output(&["list", "--format", "json"]).stdout;
    let lines: Vec<serde_json::Value> =
        String::from_utf8_lossy(&json).lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines.len(), 3);
    assert_eq!(lines[0]["state"], serde_json::to_value(RunState::Finished).unwrap());
}

#[test]
fn a_recording_becomes_csv_and_a_trace() {
    let stage = Stage::new();
    let file = stage.path("run.tide");
    stage.output(&["run", "--quiet", "--out", file.to_str().unwrap(), "--", "sleep", "0.2"]);
    let csv = stage.output(&["export", file.to_str().unwrap(), "--to", "csv"]).stdout;
    let csv = String::from_utf8_lossy(&csv).into_owned();
    assert!(csv.lines().next().unwrap().contains("rss_bytes") && csv.lines().count() >= 2, "{csv}");
    let trace = stage.output(&["export", file.to_str().unwrap(), "--to", "perfetto"]).stdout;
    let trace: serde_json::Value = serde_json::from_slice(&trace).unwrap();
    assert!(trace["traceEvents"].as_array().is_some_and(|events| !events.is_empty()));
}
