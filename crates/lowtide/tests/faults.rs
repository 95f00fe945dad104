//! What goes wrong: the recorder killed, the disk full, the folder gone, other users. The job must never notice.

#![allow(clippy::unwrap_used, reason = "a test that can't set its stage should fail loudly")]

mod support;

use lowtide_model::{EventKind, RunState, Tick};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use support::{Running, Stage, eventually, lives, snapshot};

/// Follows a recorder until it is gone; gives the newest tick it called durable, and the job's pid.
fn follow(stage: &Stage, until: Instant, recorder: Pid) -> (Option<u64>, u32) {
    let folder = stage.path("runtime/lowtide");
    let socket = eventually("a control socket", || {
        let entries = std::fs::read_dir(&folder).ok()?.filter_map(Result::ok);
        entries.map(|entry| entry.path().join("control.sock")).find_map(|path| UnixStream::connect(path).ok())
    });
    let mut asking = socket.try_clone().unwrap();
    asking.write_all(b"{\"ask\":\"follow\"}\n").unwrap();
    let (mut durable, mut job, mut killed) = (None, 0, false);
    for line in BufReader::new(socket).lines().map_while(Result::ok) {
        let answer: serde_json::Value = serde_json::from_str(&line).unwrap_or_default();
        durable = answer["durable"].as_u64().or(durable);
        job = answer["processes"][0]["key"]["pid"].as_u64().map_or(job, |pid| pid as u32);
        if !killed && job != 0 && Instant::now() >= until {
            kill(recorder, Signal::SIGKILL).unwrap();
            killed = true;
        }
    }
    (durable, job)
}

/// One round: kill the recorder after a while; the job lives on and the file keeps its word. Gives whether anything
/// had been announced by then.
fn kill_the_recorder(round: usize, wait: Duration) -> bool {
    let stage = Stage::new();
    let actor = stage.renamed("hold");
    let mut running = stage.run_until_ready(&["--interval", "20ms"], &[&actor, "hold", "8"]);
    let recorder = Pid::from_raw(running.pid());
    // Waiting closes the child's standard input, which is the job's as well.
    let stdin = running.child.stdin.take();
    let (durable, job) = follow(&stage, Instant::now() + wait, recorder);
    running.child.wait().unwrap();
    assert!(lives(job), "round {round}: the job does not notice");
    let mut reader = lowtide_store::open(&running.file).unwrap();
    let recording = reader.recording().unwrap();
    assert_eq!(reader.state(), RunState::CutOff, "round {round}");
    if let Some(durable) = durable {
        let kept = recording.meta.ended.unwrap_or_default();
        assert!(kept >= Tick(durable), "round {round}: announced up to {durable}, kept up to {kept:?}");
        assert!(!recording.samples.is_empty(), "round {round}: the first rows are there");
        assert!(recording.processes.iter().any(|process| process.key.pid == job), "round {round}");
    }
    drop(stdin);
    eventually("the job ends by itself", || (!lives(job)).then_some(()));
    let beside = std::fs::read_dir(stage.folder.path()).unwrap().filter_map(Result::ok);
    let rests = beside.filter(|entry| entry.file_name().to_string_lossy().starts_with("run.tide")).count();
    assert_eq!(rests, 1, "round {round}: after the first open it is one file");
    durable.is_some()
}

#[test]
fn sigkill_at_fifty_random_moments_loses_nothing_announced_and_the_job_lives_on() {
    let announced: usize = std::thread::scope(|scope| {
        let lanes: Vec<_> = (1..=5_u64).map(|lane| scope.spawn(move || kill_ten_times(lane))).collect();
        lanes.into_iter().map(|lane| lane.join().unwrap()).sum()
    });
    assert!(announced > 25, "most rounds lived long enough to announce something: {announced}");
}

fn kill_ten_times(lane: u64) -> usize {
    let mut random = 0x2545_F491_4F6C_DD1D_u64.wrapping_mul(lane);
    let mut round = |round: usize| {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        usize::from(kill_the_recorder(round, Duration::from_millis(random % 2500)))
    };
    (0..10).map(&mut round).sum()
}

/// A tmpfs of this size, for as long as the value lives.
struct SmallDisk {
    folder: tempfile::TempDir,
}

impl SmallDisk {
    fn new(kib: u32) -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        let size = format!("size={kib}k");
        let mounted =
            Command::new("mount").args(["-t", "tmpfs", "-o", &size, "tmpfs"]).arg(folder.path()).status();
        mounted.is_ok_and(|status| status.success()).then_some(Self { folder })
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(self.folder.path()).status();
    }
}

#[test]
fn a_full_disk_is_said_once_and_the_job_runs_on() {
    // Mounting needs root; where that is missing, crates/store tests the same with a file size limit.
    let Some(disk) = SmallDisk::new(512) else { return };
    let stage = Stage::new();
    let file = disk.folder.path().join("run.tide");
    let actor = stage.renamed("storm");
    let mut command = stage.command(&["run", "--interval", "10ms", "--out", file.to_str().unwrap(), "--"]);
    command.args(["sh", "-c", "\"$0\" leak 1 20 20; \"$0\" storm 100 5; echo done", &actor]);
    let running = Running::start(command, file);
    eventually("the recording is there", || running.file.exists().then_some(()));
    std::fs::write(disk.folder.path().join("ballast"), vec![1_u8; 512 << 10]).ok();
    let (code, said) = running.finish();
    assert_eq!(code, 0, "{said}");
    let complaints = said.lines().filter(|line| line.contains("the job runs on")).count();
    assert!(complaints <= 1, "{said}");
    let moved = said
        .lines()
        .find_map(|line| line.split("the recording is at ").nth(1))
        .unwrap_or_else(|| panic!("{said}"));
    let recording = support::read(Path::new(moved.trim()));
    assert!(recording.processes.len() > 100, "all of it is there: {}", recording.processes.len());
    let _ = std::fs::remove_file(moved.trim());
}

#[test]
fn a_disk_that_is_full_from_the_start_is_told_as_that_and_the_job_does_not_start() {
    let Some(disk) = SmallDisk::new(64) else { return };
    let stage = Stage::new();
    std::fs::write(disk.folder.path().join("ballast"), vec![1_u8; 64 << 10]).ok();
    let (file, touched) = (disk.folder.path().join("run.tide"), stage.path("touched"));
    let output =
        stage.output(&["run", "--out", file.to_str().unwrap(), "--", "touch", touched.to_str().unwrap()]);
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.starts_with("error: cannot write a recording to "), "{said}");
    assert!(said.contains("the command was not started") && !said.contains("goes on"), "{said}");
    assert!(!touched.exists());
}

#[test]
fn another_user_can_read_neither_the_recording_nor_the_socket() {
    let stage = Stage::new();
    let actor = stage.renamed("hold");
    std::fs::set_permissions(stage.folder.path(), PermissionsExt::from_mode(0o755)).unwrap();
    std::fs::set_permissions(stage.path("runtime"), PermissionsExt::from_mode(0o755)).unwrap();
    let running = stage.run_until_ready(&[], &[&actor, "hold", "8"]);
    let status = snapshot(&stage);
    assert_eq!(status["running"], true, "the owner may ask");
    let folder = std::fs::read_dir(stage.path("runtime/lowtide")).unwrap().next().unwrap().unwrap().path();
    let socket = folder.join("control.sock");
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(&running.file), mode(&socket), mode(&folder)), (0o600, 0o600, 0o700));
    let as_nobody = |program: &str, arguments: &[&str]| {
        let mut command = Command::new("setpriv");
        command.args(["--reuid=65534", "--regid=65534", "--clear-groups", program]).args(arguments);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status().unwrap()
    };
    if nix::unistd::geteuid().is_root() {
        assert!(as_nobody("true", &[]).success());
        assert!(!as_nobody("cat", &[running.file.to_str().unwrap()]).success());
        assert!(!as_nobody("ls", &[folder.to_str().unwrap()]).success());
    }
    running.finish();
}

#[test]
fn an_existing_file_is_never_overwritten() {
    let stage = Stage::new();
    let file = stage.path("mine.tide");
    std::fs::write(&file, "precious").unwrap();
    let output = stage.output(&["run", "--out", file.to_str().unwrap(), "--", "echo", "ran"]);
    assert_eq!(output.status.code(), Some(2));
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "precious");
    assert!(output.stdout.is_empty(), "nothing was started");
}

#[test]
fn processes_that_may_not_be_read_are_recorded_as_far_as_they_may() {
    if !nix::unistd::geteuid().is_root() {
        return;
    }
    let stage = Stage::new();
    std::fs::set_permissions(stage.folder.path(), PermissionsExt::from_mode(0o777)).unwrap();
    std::fs::set_permissions(stage.path("runtime"), PermissionsExt::from_mode(0o777)).unwrap();
    // lowtide as nobody, watching root's process: the numbers are public, the rest is not.
    let mut shell = Command::new("sh");
    shell.args(["-c", "exec 3<&0; (\"$@\" <&3 3<&- >/dev/null & echo $!)", "sh"]).arg(support::actor());
    let mut shell = shell.args(["hold", "32"]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let stdin = shell.stdin.take();
    let pid = String::from_utf8_lossy(&shell.wait_with_output().unwrap().stdout).trim().to_owned();
    let file = stage.path("run.tide");
    let inner = stage.command(&["watch", "--lines", "--for", "2s", "--out", file.to_str().unwrap()]);
    let mut command = Command::new("setpriv");
    command
        .args(["--reuid=65534", "--regid=65534", "--clear-groups"])
        .arg(stage.path("lowtide"))
        .args(inner.get_args());
    command.arg(pid);
    std::fs::copy(support::lowtide(), stage.path("lowtide")).unwrap();
    let output = command.env("XDG_RUNTIME_DIR", stage.path("runtime")).stdin(Stdio::null()).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(0), "{said}");
    let recording = stage.recording();
    let largest = recording.samples.iter().map(|row| row.rss.last.0).max().unwrap();
    assert!(largest > 32 << 20, "RSS is public");
    assert!(recording.samples.iter().all(|row| row.pss.is_none()), "sharing is not");
    let denied = recording.events.iter().find(|event| event.kind == EventKind::Unreadable);
    assert!(denied.is_some_and(|event| event.text.contains("denied")), "and the recording says so");
    drop(stdin);
}
