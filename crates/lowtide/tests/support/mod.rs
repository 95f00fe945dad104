//! What the end-to-end tests share: a private place, the real binary, real actors.

#![allow(dead_code, unreachable_pub, reason = "each test program uses its own part of this")]
#![allow(
    clippy::unwrap_used,
    clippy::missing_panics_doc,
    reason = "a test that can't set its stage should fail loudly"
)]

pub mod cgroup;

use lowtide_model::{Process, Recording};
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Output, Stdio};
use std::time::{Duration, Instant};

/// Longer than anything here takes, even on a machine under load.
pub const PATIENCE: Duration = Duration::from_secs(180);

/// The binary under test.
pub fn lowtide() -> PathBuf {
    PathBuf::from(env!("CARGO_BIN_EXE_lowtide"))
}

/// The actor, which cargo builds beside it as an example.
pub fn actor() -> PathBuf {
    let path = lowtide().with_file_name("examples").join("actor");
    assert!(path.exists(), "{} is missing: run the tests with cargo", path.display());
    path
}

/// A place of its own for each test: recordings, sockets, programs under other names.
pub struct Stage {
    pub folder: tempfile::TempDir,
}

impl Stage {
    pub fn new() -> Self {
        let stage = Self { folder: tempfile::tempdir().unwrap() };
        std::fs::create_dir(stage.path("runtime")).unwrap();
        std::fs::create_dir(stage.path("bin")).unwrap();
        stage
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The actor under another name, so that no name can help.
    pub fn renamed(&self, name: &str) -> String {
        let path = self.path("bin").join(name);
        if !path.exists() {
            // By another process: a file that is open for writing here, in a fork of some other thread, can't be run.
            assert!(Command::new("cp").arg(actor()).arg(&path).status().unwrap().success());
        }
        path.to_str().unwrap().to_owned()
    }

    /// `lowtide ARGS`, with everything private to this stage.
    pub fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(lowtide());
        command.args(args).env("LOWTIDE_DIR", self.path("runs")).env("XDG_RUNTIME_DIR", self.path("runtime"));
        command.env_remove("LOWTIDE_TASK_EVENTS").env("TZ", "UTC");
        command
    }

    pub fn output(&self, args: &[&str]) -> Output {
        self.command(args).stdin(Stdio::null()).output().unwrap()
    }

    /// `lowtide run FLAGS -- COMMAND` with both ends of its pipes in our hands, once the actor says `ready`.
    pub fn run_until_ready(&self, flags: &[&str], job: &[&str]) -> Running {
        let file = self.path("run.tide");
        let mut command = self.command(&["run", "--out", file.to_str().unwrap()]);
        command.args(flags).arg("--").args(job);
        let mut running = Running::start(command, file);
        running.wait_for_line("ready");
        running
    }

    pub fn recording(&self) -> Recording {
        read(&self.path("run.tide"))
    }
}

pub fn read(path: &Path) -> Recording {
    lowtide_store::open(path).unwrap().recording().unwrap()
}

/// A started lowtide.
pub struct Running {
    pub child: Child,
    pub stdout: BufReader<ChildStdout>,
    pub file: PathBuf,
}

impl Running {
    pub fn start(mut command: Command, file: PathBuf) -> Self {
        let mut child =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        Self { child, stdout, file }
    }

    pub fn pid(&self) -> i32 {
        self.child.id() as i32
    }

    /// Reads lines until one starts with this; gives it.
    pub fn wait_for_line(&mut self, start: &str) -> String {
        let mut line = String::new();
        loop {
            line.clear();
            assert!(self.stdout.read_line(&mut line).unwrap() > 0, "ended before it said `{start}`");
            if line.starts_with(start) {
                return line.trim_end().to_owned();
            }
        }
    }

    /// Lets the actor end and waits for lowtide. Gives its exit code and what it said on standard error.
    pub fn finish(mut self) -> (i32, String) {
        drop(self.child.stdin.take());
        let mut said = String::new();
        self.child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
        let status = self.child.wait().unwrap();
        (status.code().unwrap_or(-1), said)
    }
}

/// A Python 3.14, if the machine has one: only there can the agent come into a process that runs, or work without steps.
pub fn python_3_14() -> Option<String> {
    let fetched = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/python3.14/usr/bin/python3.14");
    let answers = |path: &PathBuf| {
        let mut command = Command::new(path);
        command.args(["-c", "import sys; sys.remote_exec"]).stderr(Stdio::null());
        command.status().is_ok_and(|status| status.success())
    };
    let found = [fetched, "python3.14".into()].into_iter().find(answers);
    if found.is_none() {
        eprintln!("not tested, for want of a Python 3.14: python3 tests/python314.py fetches one");
    }
    found.map(|path| path.to_str().unwrap().to_owned())
}

/// Waits until something holds; fails with the question when it never does.
pub fn eventually<T>(what: &str, mut question: impl FnMut() -> Option<T>) -> T {
    let until = Instant::now() + PATIENCE;
    loop {
        if let Some(answer) = question() {
            return answer;
        }
        assert!(Instant::now() < until, "never came true: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// The recorder's snapshot, through the control socket that the only run of this stage has.
pub fn snapshot(stage: &Stage) -> serde_json::Value {
    use std::io::Write;
    let folder = stage.path("runtime/lowtide");
    let socket = eventually("a control socket", || {
        let entries = std::fs::read_dir(&folder).ok()?.filter_map(Result::ok);
        entries.map(|entry| entry.path().join("control.sock")).find(|path| path.exists())
    });
    let mut stream = std::os::unix::net::UnixStream::connect(socket).unwrap();
    stream.write_all(b"{\"ask\":\"status\"}\n").unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    serde_json::from_str(&text).unwrap()
}

/// Whether a process still lives.
pub fn lives(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit(')').next().is_some_and(|rest| !rest.trim().is_empty() && !rest.trim_start().starts_with('Z'))
}

/// The processes whose arguments contain a word.
pub fn with_argument<'a>(recording: &'a Recording, word: &str) -> Vec<&'a Process> {
    recording
        .processes
        .iter()
        .filter(|process| process.argv.iter().any(|argument| argument == word))
        .collect()
}
