//! Every signal sent to lowtide reaches the job exactly once, however it was sent.

#![allow(clippy::unwrap_used, reason = "a test that can't set its stage should fail loudly")]

mod support;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::io::{Read, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use support::{Running, Stage, eventually};

/// What the actor wrote down.
fn heard(stage: &Stage) -> Vec<String> {
    let text = std::fs::read_to_string(stage.path("heard")).unwrap_or_default();
    text.lines().map(str::to_owned).collect()
}

fn listening(stage: &Stage, own_group: bool) -> Running {
    let (file, log) = (stage.path("run.tide"), stage.path("heard"));
    let actor = stage.renamed("zeta");
    let mut command = stage.command(&["run", "--out", file.to_str().unwrap(), "--", &actor, "signals"]);
    command.arg(log);
    if own_group {
        command.process_group(0);
    }
    let mut running = Running::start(command, file);
    running.wait_for_line("ready");
    running
}

/// Sends one signal, waits until it is heard, then a second kind as a fence: what came twice would stand before it.
fn once_each(stage: &Stage, send: impl Fn(Signal)) {
    let sent =
        [Signal::SIGHUP, Signal::SIGINT, Signal::SIGQUIT, Signal::SIGUSR1, Signal::SIGUSR2, Signal::SIGTERM];
    for (at, signal) in sent.iter().enumerate() {
        send(*signal);
        eventually("it was heard", || (heard(stage).len() > at).then_some(()));
    }
    send(Signal::SIGUSR1);
    eventually("the fence was heard", || {
        heard(stage).iter().filter(|name| *name == "SIGUSR1").nth(1).map(|_| ())
    });
    let mut expected: Vec<String> = sent.iter().map(ToString::to_string).collect();
    expected.push("SIGUSR1".to_owned());
    assert_eq!(heard(stage), expected);
}

#[test]
fn a_signal_to_lowtide_alone_is_passed_on_once() {
    let stage = Stage::new();
    let running = listening(&stage, false);
    let lowtide = Pid::from_raw(running.pid());
    once_each(&stage, |signal| kill(lowtide, signal).unwrap());
    kill(lowtide, Signal::SIGTERM).unwrap();
    assert_eq!(running.finish().0, 0, "the actor ends by itself after the second TERM");
}

#[test]
fn a_signal_to_the_whole_group_is_not_passed_on_a_second_time() {
    let stage = Stage::new();
    let running = listening(&stage, true);
    let group = Pid::from_raw(-running.pid());
    once_each(&stage, |signal| kill(group, signal).unwrap());
    kill(group, Signal::SIGTERM).unwrap();
    assert_eq!(running.finish().0, 0);
}

#[test]
fn a_signal_sent_to_every_process_one_by_one_is_heard_once() {
    let stage = Stage::new();
    let running = listening(&stage, true);
    let group = running.pid();
    let everybody = || -> Vec<i32> {
        let pids = std::fs::read_dir("/proc")
            .unwrap()
            .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
        pids.filter(|pid| {
            nix::unistd::getpgid(Some(Pid::from_raw(*pid))).is_ok_and(|of| of.as_raw() == group)
        })
        .collect()
    };
    once_each(&stage, |signal| {
        everybody().into_iter().for_each(|pid| kill(Pid::from_raw(pid), signal).unwrap_or(()));
    });
    everybody().into_iter().for_each(|pid| kill(Pid::from_raw(pid), Signal::SIGTERM).unwrap_or(()));
    assert_eq!(running.finish().0, 0);
}

#[test]
fn a_stop_and_a_continue_reach_the_job_once_and_lowtide_stops_with_it() {
    let stage = Stage::new();
    let running = listening(&stage, false);
    let lowtide = Pid::from_raw(running.pid());
    kill(lowtide, Signal::SIGTSTP).unwrap();
    eventually("lowtide is stopped", || (state(running.pid()) == 'T').then_some(()));
    eventually("the job heard it", || (heard(&stage) == ["SIGTSTP"]).then_some(()));
    kill(lowtide, Signal::SIGCONT).unwrap();
    eventually("the job goes on", || (heard(&stage) == ["SIGTSTP", "SIGCONT"]).then_some(()));
    kill(lowtide, Signal::SIGTERM).unwrap();
    eventually("one more", || (heard(&stage).len() == 3).then_some(()));
    kill(lowtide, Signal::SIGTERM).unwrap();
    assert_eq!(running.finish().0, 0);
    assert_eq!(heard(&stage), ["SIGTSTP", "SIGCONT", "SIGTERM", "SIGTERM"]);
}

fn state(pid: i32) -> char {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit(')').next().and_then(|rest| rest.trim_start().chars().next()).unwrap_or('?')
}

/// lowtide as the foreground job of a terminal of its own.
fn in_a_terminal(stage: &Stage) -> (Child, OwnedFd) {
    let pty = nix::pty::openpty(None, None).unwrap();
    let slave = pty.slave;
    let actor = stage.renamed("zeta");
    let file = stage.path("run.tide");
    let mut command = stage.command(&["run", "--out", file.to_str().unwrap(), "--", &actor, "signals"]);
    command.arg(stage.path("heard"));
    let copy = || Stdio::from(slave.try_clone().unwrap());
    command.stdin(copy()).stdout(copy()).stderr(copy());
    take_terminal(&mut command, slave.as_raw_fd());
    (command.spawn().unwrap(), pty.master)
}

#[allow(unsafe_code, reason = "a controlling terminal is taken between fork and exec")]
fn take_terminal(command: &mut Command, slave: i32) {
    let take = move || {
        nix::unistd::setsid()?;
        // SAFETY: the descriptor is the open slave of a fresh terminal.
        nix::errno::Errno::result(unsafe { libc::ioctl(slave, libc::TIOCSCTTY, 0) })?;
        Ok(())
    };
    // SAFETY: only async-signal-safe calls.
    unsafe { command.pre_exec(take) };
}

#[test]
fn ctrl_c_at_the_terminal_reaches_the_job_once() {
    let stage = Stage::new();
    let (mut child, master) = in_a_terminal(&stage);
    let mut terminal = std::fs::File::from(master);
    let mut seen = String::new();
    while !seen.contains("ready") {
        let mut buffer = [0; 1024];
        let length = terminal.read(&mut buffer).unwrap();
        seen.push_str(&String::from_utf8_lossy(&buffer[..length]));
    }
    terminal.write_all(b"\x03").unwrap();
    eventually("INT", || (heard(&stage) == ["SIGINT"]).then_some(()));
    terminal.write_all(b"\x1c").unwrap();
    eventually("QUIT", || (heard(&stage) == ["SIGINT", "SIGQUIT"]).then_some(()));
    let lowtide = Pid::from_raw(child.id() as i32);
    for count in [3, 4] {
        kill(lowtide, Signal::SIGTERM).unwrap();
        eventually("TERM", || (heard(&stage).len() == count).then_some(()));
    }
    assert!(child.wait().unwrap().success());
    assert_eq!(heard(&stage), ["SIGINT", "SIGQUIT", "SIGTERM", "SIGTERM"]);
}

/// A terminal that is read word by word.
struct Terminal {
    file: std::fs::File,
    unread: String,
}

impl Terminal {
    /// Reads on until these words appear.
    fn until(&mut self, words: &str) {
        loop {
            if let Some(at) = self.unread.find(words) {
                self.unread.drain(..at + words.len());
                return;
            }
            let mut buffer = [0; 1024];
            let length = self.file.read(&mut buffer).unwrap();
            self.unread.push_str(&String::from_utf8_lossy(&buffer[..length]));
        }
    }

    fn type_in(&mut self, keys: &str) {
        self.file.write_all(keys.as_bytes()).unwrap();
    }
}

#[test]
fn ctrl_z_at_a_shell_stops_the_job_and_fg_wakes_it() {
    for screen in [&[][..], &["--screen"]] {
        let stage = Stage::new();
        let pty = nix::pty::openpty(None, None).unwrap();
        let mut shell = Command::new("bash");
        let copy = || Stdio::from(pty.slave.try_clone().unwrap());
        shell.args(["--norc", "--noprofile", "-i"]).env("PS1", "shell> ").env("TERM", "xterm");
        shell.stdin(copy()).stdout(copy()).stderr(copy());
        take_terminal(&mut shell, pty.slave.as_raw_fd());
        let mut shell = shell.spawn().unwrap();
        let mut terminal = Terminal { file: pty.master.into(), unread: String::new() };
        terminal.until("shell>");
        let (pid_file, lowtide) = (stage.path("pid"), support::lowtide());
        let job = format!("sh -c 'echo $$ >{}; echo re\"\"ady; exec sleep 300'", pid_file.display());
        let (file, screen) = (stage.path("run.tide"), screen.join(" "));
        let line = format!("{} run --out {} {screen} -- {job}\n", lowtide.display(), file.display());
        terminal.type_in(&line);
        terminal.until("ready");
        let job: i32 = std::fs::read_to_string(pid_file).unwrap().trim().parse().unwrap();
        terminal.type_in("\x1a");
        terminal.until("Stopped");
        terminal.until("shell>");
        eventually("the job is stopped", || (state(job) == 'T').then_some(()));
        terminal.type_in("fg\n");
        eventually("the job goes on", || (state(job) == 'S').then_some(()));
        terminal.type_in("\x03");
        terminal.until("shell>");
        assert!(!support::lives(job as u32), "Ctrl-C after fg reaches the job");
        terminal.type_in("exit\n");
        shell.wait().unwrap();
    }
}

#[test]
fn the_job_ignores_blocks_and_catches_what_it_would_without_lowtide() {
    let stage = Stage::new();
    // 32 and 33 belong to the C library, which takes them over in whatever has threads.
    let own = |hex: &str| u64::from_str_radix(hex, 16).unwrap() & !(3 << 31);
    let sets = |ignored: &str, through: bool| -> Vec<(String, u64)> {
        let file = stage.path(&format!("{}.tide", ignored.replace(' ', "-")));
        let run = format!("{} run --quiet --out {} --", support::lowtide().display(), file.display());
        let front = if through { run.as_str() } else { "" };
        let mut shell = Command::new("sh");
        shell.args(["-c", &format!("trap '' {ignored}; {front} cat /proc/self/status")]);
        let text = String::from_utf8(shell.output().unwrap().stdout).unwrap();
        let sets = text.lines().filter(|line| line.starts_with("Sig") && !line.starts_with("SigQ"));
        sets.filter_map(|line| line.split_once(":\t"))
            .map(|(name, hex)| (name.to_owned(), own(hex)))
            .collect()
    };
    for ignored in ["PIPE", "HUP PIPE USR1", "QUIT"] {
        let without = sets(ignored, false);
        assert_eq!(without.len(), 4, "{without:?}");
        assert_eq!(sets(ignored, true), without, "with {ignored} ignored");
    }
}
