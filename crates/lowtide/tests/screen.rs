//! `lowtide relay` and `lowtide watch` on real pseudo-terminals: what the user's terminal shows is read through a
//! terminal emulator, the recorder is a socket that writes its answers.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use lowtide_model::{Bytes, LimitHeld, LimitKind, ProcKey, Role, Tick};
use lowtide_wire::{Answer, Ask, Point, ProcessLine, RoleLine, Snapshot, encode};
use nix::fcntl::{FcntlArg, FdFlag, OFlag, fcntl, open};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::pty::{Winsize, grantpt, posix_openpt, ptsname_r, unlockpt};
use nix::sys::signal::{Signal, kill};
use nix::sys::stat::Mode;
use nix::unistd::{Pid, read, write};
use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::fs::DirBuilderExt as _;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::time::{Duration, Instant};

const LOWTIDE: &str = env!("CARGO_BIN_EXE_lowtide");
/// Far beyond what any step needs; a test that gets here failed.
const PATIENCE: Duration = Duration::from_secs(20);
/// A descriptor meant for one child must not slip into another test's.
static SPAWN: Mutex<()> = Mutex::new(());

#[allow(unsafe_code, reason = "the size of a terminal is only had through ioctl")]
fn set_size(terminal: &OwnedFd, rows: u16, columns: u16) {
    nix::ioctl_write_ptr_bad!(tiocswinsz, nix::libc::TIOCSWINSZ, Winsize);
    let size = Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
    // SAFETY: the descriptor is open for the call, and the kernel reads one Winsize from a Winsize.
    unsafe { tiocswinsz(terminal.as_raw_fd(), &raw const size) }.unwrap();
}

fn pseudo_terminal(rows: u16, columns: u16) -> (OwnedFd, OwnedFd) {
    let flags = OFlag::O_RDWR | OFlag::O_NOCTTY | OFlag::O_CLOEXEC;
    let master = posix_openpt(flags).unwrap();
    grantpt(&master).unwrap();
    unlockpt(&master).unwrap();
    let slave = open(ptsname_r(&master).unwrap().as_str(), flags, Mode::empty()).unwrap();
    let master = OwnedFd::from(master);
    set_size(&master, rows, columns);
    (master, slave)
}

/// A session of its own on `terminal`, as a login shell has it.
fn session_on(terminal: &OwnedFd) -> Command {
    let end = || Stdio::from(terminal.try_clone().unwrap());
    let mut command = Command::new("setsid");
    command.arg("-c").stdin(end()).stdout(end()).stderr(end()).env_remove("NO_COLOR");
    command
}

/// A recorder that says what the test wants.
struct Recorder {
    folder: tempfile::TempDir,
    listener: UnixListener,
    path: PathBuf,
}

impl Recorder {
    /// Where `lowtide watch` looks for one when the folder is the user's runtime folder.
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let all = folder.path().join("lowtide");
        fs::DirBuilder::new().mode(0o700).create(&all).unwrap();
        fs::create_dir(all.join("run")).unwrap();
        let path = all.join("run/control.sock");
        Self { listener: UnixListener::bind(&path).unwrap(), path, folder }
    }

    fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Tells everyone who asks how the job is, until one wants to follow it.
    fn follower(&self) -> Follower {
        loop {
            let mut follower = Follower(self.listener.accept().unwrap().0);
            let mut line = String::new();
            BufReader::new(&follower.0).read_line(&mut line).unwrap();
            let ask: Ask = serde_json::from_str(&line).unwrap();
            if ask == Ask::Follow {
                let point = |i| Point {
                    seconds: f64::from(i),
                    low_bytes: Bytes::from_mib(100),
                    high_bytes: Bytes::from_mib(200),
                };
                follower.send(&Answer::History { points: (0..50).map(point).collect() });
                follower.tell(&snapshot());
                return follower;
            }
            follower.tell(&snapshot());
        }
    }
}

struct Follower(UnixStream);

impl Follower {
    fn send(&mut self, answer: &Answer) {
        self.0.write_all(&encode(answer)).unwrap();
    }

    fn tell(&mut self, snapshot: &Snapshot) {
        self.send(&Answer::Snapshot(Box::new(snapshot.clone())));
    }
}

fn snapshot() -> Snapshot {
    Snapshot {
        name: "vlm".to_owned(),
        tick: Tick::from_seconds(61.0),
        running: true,
        total: lowtide_wire::Total { bytes: Bytes::from_mib(777), ..Default::default() },
        limits: vec![LimitHeld {
            kind: LimitKind::Host,
            limit: Bytes::from_mib(1000),
            used: Bytes::from_mib(800),
        }],
        roles: vec![RoleLine {
            role: Role::Trainer,
            count: 1,
            rss_bytes: Bytes::from_mib(700),
            bytes_per_minute: None,
        }],
        processes: vec![ProcessLine {
            key: ProcKey { pid: 4711, start_ticks: 1 },
            parent: None,
            role: Role::Trainer,
            reason: "it is the only one".to_owned(),
            command: "python train.py".to_owned(),
            rss_bytes: Bytes::from_mib(700),
            anon_bytes: None,
            pss_bytes: None,
            swap_bytes: None,
            threads: None,
        }],
        headline: Some("nothing to see".to_owned()),
        ..Snapshot::default()
    }
}

/// The user's terminal with a shell on it that runs one command and then waits.
struct Terminal {
    master: OwnedFd,
    shell: Child,
    emulator: vt100::Parser,
    raw: Vec<u8>,
}

/// Runs its arguments and keeps the terminal's settings before and after in files of the folder that is argument 1.
const SHELL: &str = r#"d=$1; shift; stty -g >"$d/before"; "$@"; echo "[code $?]"; stty -g >"$d/after"; echo "[end]"; exec cat"#;

impl Terminal {
    fn running(folder: &Path, arguments: &[&str], inherited: Option<OwnedFd>) -> Self {
        Self::with_shell(SHELL, folder, arguments, inherited)
    }

    fn with_shell(script: &str, folder: &Path, arguments: &[&str], inherited: Option<OwnedFd>) -> Self {
        let (master, slave) = pseudo_terminal(24, 80);
        let lock = SPAWN.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if let Some(fd) = &inherited {
            fcntl(fd, FcntlArg::F_SETFD(FdFlag::empty())).unwrap();
        }
        let mut command = session_on(&slave);
        command.env("XDG_RUNTIME_DIR", folder);
        command.args(["sh", "-c", script, "sh"]).arg(folder).arg(LOWTIDE).args(arguments);
        let shell = command.spawn().unwrap();
        drop(inherited);
        drop(lock);
        Self { master, shell, emulator: vt100::Parser::new(24, 80, 1000), raw: Vec::new() }
    }

    fn rows(&self) -> Vec<String> {
        self.emulator.screen().rows(0, 200).map(|row| row.trim_end().to_owned()).collect()
    }

    /// Reads what is printed until the rows are as wanted.
    fn until(&mut self, what: &str, wanted: impl Fn(&[String]) -> bool) {
        let end = Instant::now() + PATIENCE;
        while !wanted(&self.rows()) {
            assert!(Instant::now() < end, "not seen: {what}\n{}", self.rows().join("\n"));
            let mut fds = [PollFd::new(self.master.as_fd(), PollFlags::POLLIN)];
            if poll(&mut fds, PollTimeout::from(100_u8)).unwrap() > 0 {
                let mut bytes = [0; 4096];
                let count = read(&self.master, &mut bytes).unwrap();
                self.emulator.process(&bytes[..count]);
                self.raw.extend(&bytes[..count]);
            }
        }
    }

    fn until_seen(&mut self, text: &str) {
        self.until(text, |rows| rows.iter().any(|row| row.contains(text)));
    }

    /// The status is whole and stands on the last four lines.
    fn until_status(&mut self, news: &str) {
        self.until(&format!("status with {news}"), |rows| {
            let block = &rows[rows.len() - 4..];
            block[0].starts_with("── lowtide")
                && block[1].starts_with("777 MiB")
                && block[2] == "trainer 700 MiB"
                && block[3] == news
        });
    }

    fn type_in(&self, keys: &str) {
        assert_eq!(write(&self.master, keys.as_bytes()).unwrap(), keys.len());
    }

    fn resize(&mut self, rows: u16, columns: u16) {
        self.emulator.screen_mut().set_size(rows, columns);
        set_size(&self.master, rows, columns);
    }

    /// The pid of the command the shell runs.
    fn command_pid(&self) -> Pid {
        let shell = self.shell.id();
        let end = Instant::now() + PATIENCE;
        loop {
            let children = fs::read_to_string(format!("/proc/{shell}/task/{shell}/children")).unwrap();
            let lowtide = children.split_whitespace().find(|pid| {
                fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|comm| comm.trim() == "lowtide")
            });
            if let Some(pid) = lowtide {
                return Pid::from_raw(pid.parse().unwrap());
            }
            assert!(Instant::now() < end, "the shell runs nothing");
            std::thread::yield_now();
        }
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = self.shell.kill();
        let _ = self.shell.wait();
    }
}

/// A job on a pseudo-terminal of its own, and the relay that shows it.
struct Relayed {
    recorder: Recorder,
    terminal: Terminal,
    job: Child,
}

impl Relayed {
    fn job(script: &str) -> Self {
        Self::job_under(SHELL, script)
    }

    fn job_under(shell: &str, script: &str) -> Self {
        let recorder = Recorder::new();
        let (master, slave) = pseudo_terminal(20, 80);
        let lock = SPAWN.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let job = session_on(&slave).args(["sh", "-c", script]).spawn().unwrap();
        drop(lock);
        drop(slave);
        let fd = master.as_raw_fd().to_string();
        let socket = recorder.path.to_str().unwrap().to_owned();
        let arguments = ["relay", "--master", &fd, "--socket", &socket];
        let terminal = Terminal::with_shell(shell, recorder.folder(), &arguments, Some(master));
        Self { recorder, terminal, job }
    }

    /// The terminal has its settings back, the status is gone, and the whole screen scrolls again.
    fn assert_restored(&mut self) {
        self.terminal.until_seen("[end]");
        let settings = |name| fs::read_to_string(self.recorder.folder().join(name)).unwrap();
        assert_eq!(settings("before"), settings("after"));
        let rows = self.terminal.rows();
        assert!(!rows.iter().any(|row| row.contains("── lowtide")), "{}", rows.join("\n"));
        let (height, _) = self.terminal.emulator.screen().size();
        self.terminal.emulator.process(format!("\x1b[{height};1Hlowest\r\n").as_bytes());
        assert_eq!(self.terminal.rows()[usize::from(height) - 2], "lowest");
        assert!(!self.terminal.emulator.screen().hide_cursor());
    }
}

impl Drop for Relayed {
    fn drop(&mut self) {
        let _ = self.job.kill();
        let _ = self.job.wait();
    }
}

#[test]
fn output_and_colours_pass_while_the_status_stays_at_the_bottom() {
    let script = r"printf '\033[31mred\033[0m plain\n'; seq 1 100; printf 'asking: '; read answer; echo bye";
    let mut relayed = Relayed::job(script);
    let _follower = relayed.recorder.follower();
    relayed.terminal.until_status("nothing to see");
    relayed.terminal.until_seen("asking:");
    let rows = relayed.terminal.rows();
    let last = rows.iter().position(|row| row == "100").unwrap();
    assert_eq!(rows[last + 1], "asking:");
    assert_eq!(rows[last - 1], "99");
    assert!(last + 1 < 20, "the job writes into the status:\n{}", rows.join("\n"));
    let raw = String::from_utf8_lossy(&relayed.terminal.raw).into_owned();
    assert!(raw.contains("\x1b[31mred\x1b[0m plain\r\n"));
    relayed.terminal.type_in("\r");
    relayed.terminal.until_seen("bye");
    relayed.assert_restored();
    assert!(relayed.terminal.rows().iter().any(|row| row == "[code 0]"));
}

#[test]
fn a_bar_is_drawn_over_itself_in_its_colour_between_two_statuses() {
    let script =
        r"printf '\033[32m'; for i in 1 2 3; do printf '\rbar %s' $i; read go; done; printf '\033[0m\n'";
    let mut relayed = Relayed::job(script);
    let mut follower = relayed.recorder.follower();
    for i in 1..=3 {
        relayed.terminal.until_seen(&format!("bar {i}"));
        let news = format!("news {i}");
        follower.tell(&Snapshot { headline: Some(news.clone()), ..snapshot() });
        relayed.terminal.until_status(&news);
        let rows = relayed.terminal.rows();
        let row = rows.iter().position(|row| row.contains("bar")).unwrap();
        let cell = relayed.terminal.emulator.screen().cell(row as u16, 4).unwrap();
        assert_eq!(cell.fgcolor(), vt100::Color::Idx(2));
        relayed.terminal.type_in("\r");
    }
    relayed.assert_restored();
}

#[test]
fn keys_reach_the_job_and_ctrl_c_becomes_its_signal() {
    let script =
        r#"trap 'echo interrupted; exit 0' INT; read name; echo "hello $name"; while :; do sleep 0.05; done"#;
    let mut relayed = Relayed::job(script);
    let _follower = relayed.recorder.follower();
    relayed.terminal.until_status("nothing to see");
    relayed.terminal.type_in("tide\r");
    relayed.terminal.until_seen("hello tide");
    relayed.terminal.type_in("\x03");
    relayed.terminal.until_seen("interrupted");
    relayed.assert_restored();
}

#[test]
fn a_resize_reaches_the_job_and_moves_the_status() {
    let script = "trap 'stty size' WINCH; stty size; while :; do sleep 0.05; done";
    let mut relayed = Relayed::job(script);
    let _follower = relayed.recorder.follower();
    relayed.terminal.until_seen("20 80");
    relayed.terminal.until_status("nothing to see");
    relayed.terminal.resize(40, 100);
    relayed.terminal.until_seen("36 100");
    relayed.terminal.until_status("nothing to see");
    relayed.terminal.resize(14, 60);
    relayed.terminal.until_seen("10 60");
    relayed.terminal.until_status("nothing to see");
    let titles = relayed.terminal.rows().iter().filter(|row| row.starts_with("── lowtide")).count();
    assert_eq!(titles, 1, "{}", relayed.terminal.rows().join("\n"));
    relayed.terminal.resize(8, 60);
    relayed.terminal.until_seen("8 60");
}

#[test]
fn the_status_comes_back_after_the_job_clears_resets_or_reaches_below() {
    for wipe in
        [r"\033[2J\033[H", r"\033c", r"\033[r", r"\033[999;1Hdeep", r"\033[?1049h\033[?1049l", r"\033[!p"]
    {
        let mut relayed = Relayed::job(&format!("read go; printf '{wipe}'; seq 1 60; read go"));
        let _follower = relayed.recorder.follower();
        relayed.terminal.until_status("nothing to see");
        relayed.terminal.type_in("\r");
        relayed.terminal.until_seen("60");
        relayed.terminal.until_status("nothing to see");
        let rows = relayed.terminal.rows();
        assert!(rows[..20].iter().any(|row| row == "60"), "{wipe}\n{}", rows.join("\n"));
        relayed.terminal.type_in("\r");
        relayed.assert_restored();
    }
}

#[test]
fn a_dead_recorder_leaves_relay_and_job_running() {
    let script = r#"while read word; do echo "job says $word"; done"#;
    let mut relayed = Relayed::job(script);
    let follower = relayed.recorder.follower();
    relayed.terminal.until_status("nothing to see");
    drop(follower);
    relayed.terminal.until_status("recorder gone, job runs on");
    relayed.terminal.type_in("again\r");
    relayed.terminal.until_seen("job says again");
    relayed.terminal.type_in("\x04");
    relayed.assert_restored();
}

#[test]
fn a_relay_told_to_go_gives_the_terminal_back_and_does_not_hang_up_the_job() {
    let mut relayed = Relayed::job(r"echo here; read never; echo not reached");
    let _follower = relayed.recorder.follower();
    relayed.terminal.until_status("nothing to see");
    let relay = relayed.terminal.command_pid();
    kill(relay, Signal::SIGTERM).unwrap();
    relayed.terminal.until("no status", |rows| !rows.iter().any(|row| row.contains("── lowtide")));
    assert!(relayed.job.try_wait().unwrap().is_none(), "the job was hung up");
    kill(relay, Signal::SIGTERM).unwrap();
    relayed.assert_restored();
}

/// Starts its command in the background, reads a line itself, then fetches the command to the front.
const JOB_CONTROL: &str = r#"d=$1; shift; stty -g >"$d/before"; set -m; "$@" & read line; echo "shell read $line"; fg; stty -g >"$d/after"; echo "[end]"; exec cat"#;

#[test]
fn in_the_background_the_relay_only_prints_and_comes_back_with_fg() {
    let script = r#"echo started; read word; echo "job read $word""#;
    let mut relayed = Relayed::job_under(JOB_CONTROL, script);
    let _follower = relayed.recorder.follower();
    relayed.terminal.until_seen("started");
    assert!(!relayed.terminal.rows().iter().any(|row| row.contains("── lowtide")));
    relayed.terminal.type_in("mine\r");
    relayed.terminal.until_seen("shell read mine");
    relayed.terminal.until_status("nothing to see");
    relayed.terminal.type_in("yours\r");
    relayed.terminal.until_seen("job read yours");
    relayed.assert_restored();
}

/// Fetches its command to the front again after it was stopped and a line was typed.
const STOPPING: &str = r#"d=$1; shift; stty -g >"$d/before"; set -m; "$@"; stty -g >"$d/paused"; echo paused; read line; fg; stty -g >"$d/after"; echo "[end]"; exec cat"#;

#[test]
fn a_stopped_relay_gives_the_terminal_back_and_takes_it_again() {
    let mut relayed = Relayed::job_under(STOPPING, r#"read word; echo "job read $word""#);
    let _follower = relayed.recorder.follower();
    relayed.terminal.until_status("nothing to see");
    kill(relayed.terminal.command_pid(), Signal::SIGTSTP).unwrap();
    relayed.terminal.until_seen("paused");
    assert!(!relayed.terminal.rows().iter().any(|row| row.contains("── lowtide")));
    let settings = |name| fs::read_to_string(relayed.recorder.folder().join(name)).unwrap();
    assert_eq!(settings("before"), settings("paused"));
    relayed.terminal.type_in("\r");
    relayed.terminal.until_status("nothing to see");
    relayed.terminal.type_in("on\r");
    relayed.terminal.until_seen("job read on");
    relayed.assert_restored();
}

#[test]
fn with_the_recorder_dead_an_interrupt_for_the_relay_reaches_the_job() {
    let mut relayed = Relayed::job("trap 'echo interrupted; exit 0' INT; while :; do sleep 0.05; done");
    let follower = relayed.recorder.follower();
    relayed.terminal.until_status("nothing to see");
    drop(follower);
    relayed.terminal.until_status("recorder gone, job runs on");
    kill(relayed.terminal.command_pid(), Signal::SIGINT).unwrap();
    relayed.terminal.until_seen("interrupted");
    relayed.assert_restored();
}

#[test]
fn a_hangup_ends_the_relay_with_the_terminal_restored() {
    let mut relayed = Relayed::job("read never");
    let _follower = relayed.recorder.follower();
    relayed.terminal.until_status("nothing to see");
    kill(relayed.terminal.command_pid(), Signal::SIGHUP).unwrap();
    relayed.assert_restored();
}

#[test]
fn a_flood_of_output_arrives_whole_with_keys_nobody_reads() {
    let mut relayed = Relayed::job("stty -echo; echo ready; read go; seq 1 20000; echo flood over; read go");
    let _follower = relayed.recorder.follower();
    relayed.terminal.until_seen("ready");
    relayed.terminal.type_in("\r");
    for _ in 0..200 {
        relayed.terminal.type_in("keys nobody reads\r");
    }
    relayed.terminal.until_seen("flood over");
    let raw = String::from_utf8_lossy(&relayed.terminal.raw).into_owned();
    let lines = raw.matches("\r\n").count();
    assert!(lines >= 20_000, "{lines} lines of 20,000 arrived");
}

#[test]
fn without_a_terminal_the_output_is_copied_as_it_is() {
    let recorder = Recorder::new();
    let (master, slave) = pseudo_terminal(24, 80);
    let lock = SPAWN.lock().unwrap();
    let mut job = session_on(&slave).args(["sh", "-c", r"printf '\033[31mred\033[0m\n'"]).spawn().unwrap();
    fcntl(&master, FcntlArg::F_SETFD(FdFlag::empty())).unwrap();
    let mut command = Command::new(LOWTIDE);
    command.args(["relay", "--master", &master.as_raw_fd().to_string(), "--socket"]).arg(&recorder.path);
    let relay = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
    drop((lock, slave, master));
    let output = relay.wait_with_output().unwrap();
    assert!(output.status.success());
    assert_eq!(output.stdout, b"\x1b[31mred\x1b[0m\r\n");
    job.wait().unwrap();
}

fn watched(recorder: &Recorder) -> Terminal {
    Terminal::running(recorder.folder(), &["watch", "4711"], None)
}

fn assert_settings_restored(recorder: &Recorder, terminal: &mut Terminal) {
    terminal.until_seen("[end]");
    let settings = |name| fs::read_to_string(recorder.folder().join(name)).unwrap();
    assert_eq!(settings("before"), settings("after"));
    assert!(!terminal.emulator.screen().alternate_screen());
    assert!(!terminal.emulator.screen().hide_cursor());
}

#[test]
fn watching_shows_the_job_and_q_leaves_it_alone() {
    let recorder = Recorder::new();
    let mut terminal = watched(&recorder);
    let mut follower = recorder.follower();
    terminal.until_seen("777 MiB");
    assert!(terminal.emulator.screen().alternate_screen());
    terminal.until_seen("q leaves, the job goes on");
    follower.tell(&Snapshot { headline: Some("later news".to_owned()), tick: Tick(99 << 30), ..snapshot() });
    terminal.until_seen("later news");
    terminal.resize(12, 50);
    terminal.until("a footer on line 12", |rows| rows[11].contains("q leaves, the job goes on"));
    terminal.type_in("q");
    terminal.until_seen("left the view; the job goes on");
    assert_settings_restored(&recorder, &mut terminal);
}

#[test]
fn an_ended_and_a_dead_recorder_are_told_apart_and_leave_their_last_state() {
    for (running, words) in
        [(false, "the recorder ended"), (true, "the recorder is gone; the job may still run")]
    {
        let recorder = Recorder::new();
        let mut terminal = watched(&recorder);
        let mut follower = recorder.follower();
        terminal.until_seen("q leaves");
        follower.tell(&Snapshot { running, tick: Tick(99 << 30), ..snapshot() });
        drop(follower);
        terminal.until_seen(words);
        terminal.until_seen("777 MiB");
        assert_settings_restored(&recorder, &mut terminal);
    }
}

#[test]
fn a_signal_restores_the_terminal_of_the_view() {
    let recorder = Recorder::new();
    let mut terminal = watched(&recorder);
    let _follower = recorder.follower();
    terminal.until_seen("777 MiB");
    kill(terminal.command_pid(), Signal::SIGTERM).unwrap();
    assert_settings_restored(&recorder, &mut terminal);
}
