//! `lowtide watch`: look at a job that already runs.
//!
//! Recording and showing are two processes, so that a closed terminal or a crashed screen costs no sample: a job that
//! nobody records yet gets a recorder of its own, and the screen follows that one's socket like any other.

use super::recorder;
use crate::cli::{Format, WatchArgs};
use crate::failure::Failure;
use crate::render::{self, Console};
use crate::screen::{self, Style};
use lowtide_model::Exit;
use lowtide_probe::Root;
use lowtide_probe::jobs::{self, Candidate};
use lowtide_run::{Finished, HookWhen, SOCKET_NAME};
use lowtide_wire::{Answer, Ask, LineReader, Snapshot, encode};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use std::ffi::OsString;
use std::io::{IsTerminal, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

/// A recorder answers at once; one that does not is stopped or gone.
const PATIENCE: Duration = Duration::from_secs(2);
/// A new recorder needs a moment to open its socket.
const START_PATIENCE: Duration = Duration::from_secs(15);

pub(crate) fn watch(args: &WatchArgs) -> Result<ExitCode, Failure> {
    if args.recorder {
        return args.pid.map_or_else(|| Err(Failure::new("no process was named")), |pid| record(args, pid));
    }
    let recorded = running();
    let asked_for = |run: &&Run| args.pid.is_some_and(|pid| run.holds(pid)) || run.is_named(args);
    if let Some(run) = recorded.iter().find(asked_for) {
        render::say(&format!("following {} ({})\n", run.snapshot.name, run.snapshot.recording))?;
        if args.agent {
            render::complain(
                "lowtide: --agent does nothing here: only who records a job can bring the agent into it\n",
            );
        }
        return follow(&run.socket, args, args.length).map(|()| ExitCode::SUCCESS);
    }
    match wanted(args)? {
        Some(pid) => record_and_follow(args, pid),
        None => list_jobs(args, &recorded),
    }
}

/// A recorder that answers.
pub(crate) struct Run {
    pub(crate) socket: PathBuf,
    pub(crate) recorder: u32,
    pub(crate) snapshot: Snapshot,
}

impl Run {
    /// Whether this pid is the recorder or a process it records.
    pub(crate) fn holds(&self, pid: u32) -> bool {
        self.recorder == pid || self.snapshot.processes.iter().any(|process| process.key.pid == pid)
    }

    /// The process that is meant by a pid: the recorder's own means the largest of its job.
    pub(crate) fn meant(&self, pid: u32) -> u32 {
        let largest = self.snapshot.processes.first().filter(|_| self.recorder == pid);
        largest.map_or(pid, |process| process.key.pid)
    }

    /// Whether this text is its id, or the pid of it or of one of its processes.
    pub(crate) fn is_called(&self, text: &str) -> bool {
        self.snapshot.run_id == text || text.parse().is_ok_and(|pid| self.holds(pid))
    }

    fn is_named(&self, args: &WatchArgs) -> bool {
        let commands = self.snapshot.processes.iter().map(|process| process.command.as_str());
        let mut commands = commands.chain([self.snapshot.command.as_str()]);
        args.matching.as_ref().is_some_and(|text| commands.any(|command| command.contains(text.as_str())))
    }
}

/// The pid that was asked for, by number or by text.
fn wanted(args: &WatchArgs) -> Result<Option<u32>, Failure> {
    let Some(text) = &args.matching else {
        return Ok(args.pid);
    };
    let found = jobs::matching(&Root::live(), text);
    match found.as_slice() {
        [] => Err(Failure::new(format!("no process has `{text}` in its command"))
            .hint("`lowtide watch` without an argument lists what looks like a job")),
        [one] => Ok(Some(one.key.pid)),
        several => {
            let lines: String = several.iter().map(|job| format!("\n  {}", render::job_line(job))).collect();
            Err(Failure::new(format!("`{text}` is in the command of {} jobs:{lines}", several.len()))
                .hint("give the pid of the one you mean"))
        }
    }
}

fn list_jobs(args: &WatchArgs, recorded: &[Run]) -> Result<ExitCode, Failure> {
    let candidates: Vec<Candidate> = jobs::candidates(&Root::live())
        .into_iter()
        .filter(|job| !recorded.iter().any(|run| run.holds(job.key.pid)))
        .collect();
    let snapshots: Vec<&Snapshot> = recorded.iter().map(|run| &run.snapshot).collect();
    match args.recording.format {
        Format::Text => render::say(&render::jobs_text(&snapshots, &candidates))?,
        Format::Json => render::say(&format!("{}\n", render::jobs_json(&snapshots, &candidates)))?,
    }
    Ok(ExitCode::SUCCESS)
}

/// Every recorder of this user that answers, with what it says.
pub(crate) fn running() -> Vec<Run> {
    let Ok(folder) = recorder::runtime_dir() else {
        return Vec::new();
    };
    let entries = std::fs::read_dir(folder).into_iter().flatten().filter_map(Result::ok);
    let sockets = entries.map(|entry| entry.path().join(SOCKET_NAME));
    sockets.filter_map(ask_status).collect()
}

pub(crate) fn ask_status(socket: PathBuf) -> Option<Run> {
    let mut stream = UnixStream::connect(&socket).ok()?;
    let peer = nix::sys::socket::getsockopt(&stream, nix::sys::socket::sockopt::PeerCredentials).ok()?;
    stream.set_read_timeout(Some(PATIENCE)).ok()?;
    stream.write_all(&encode(&Ask::Status)).ok()?;
    let mut lines = LineReader::default();
    let mut buffer = [0; 16384];
    loop {
        match lines.next_message::<Answer>() {
            Some(Ok(Answer::Snapshot(snapshot))) => {
                return Some(Run { socket, recorder: peer.pid() as u32, snapshot: *snapshot });
            }
            Some(Ok(
                Answer::History { .. } | Answer::Marked | Answer::Scan { .. } | Answer::Squeeze { .. },
            )) => {}
            Some(Ok(Answer::Error { .. }) | Err(_)) => return None,
            None => {
                let length = stream.read(&mut buffer).ok().filter(|length| *length > 0)?;
                lines.feed(&buffer[..length]).ok()?;
            }
        }
    }
}

fn follow(socket: &Path, args: &WatchArgs, length: Option<Duration>) -> Result<(), Failure> {
    let full = !args.lines && std::io::stdout().is_terminal();
    let ended = screen::follow(socket, if full { Style::Full } else { Style::Lines }, length)?;
    render::say(&format!("{}\n", ended.words()))?;
    Ok(())
}

/// Starts a recorder, shows it, and ends it when the user leaves.
fn record_and_follow(args: &WatchArgs, pid: u32) -> Result<ExitCode, Failure> {
    let (recorder, recording, socket) = start_recorder(args, pid)?;
    let mut recorder = Leaving(recorder);
    match socket.filter(|_| !args.recording.quiet) {
        Some(socket) => follow(&socket, args, None)?,
        None => {
            let _ = recorder.0.wait();
        }
    }
    recorder.end();
    let told = recorder::read_back(&recording)?;
    let root = told.recording.meta.root;
    let process = told.recording.processes.iter().find(|process| Some(process.key) == root);
    let exit = process.and_then(|process| process.exit).unwrap_or(Exit::Unknown);
    let ooms = recorder::ooms_of(&told.recording);
    let finished = Finished { exit, recording: Ok(recording), survivors: Vec::new(), ooms, guarded: None };
    recorder::tell_end(&finished, &args.recording);
    Ok(ExitCode::SUCCESS)
}

/// A recorder that is asked to close its file whatever happens to us.
struct Leaving(Child);

impl Leaving {
    fn end(&mut self) {
        if matches!(self.0.try_wait(), Ok(None)) {
            let pid = nix::unistd::Pid::from_raw(self.0.id() as i32);
            let _ = nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGINT);
            let _ = self.0.wait();
        }
    }
}

impl Drop for Leaving {
    fn drop(&mut self) {
        self.end();
    }
}

fn start_recorder(args: &WatchArgs, pid: u32) -> Result<(Child, PathBuf, Option<PathBuf>), Failure> {
    let mut command = Command::new(recorder::own_program()?);
    command.args(["watch", "--recorder", &pid.to_string()]).stdin(Stdio::null()).stdout(Stdio::piped());
    if let Some(out) = &args.recording.out {
        command.arg("--out").arg(out);
    }
    if let Some(name) = &args.recording.name {
        command.arg("--name").arg(name);
    }
    let milliseconds = |time: Duration| format!("{}ms", time.as_millis());
    command
        .args(args.recording.interval.iter().flat_map(|time| ["--interval".to_owned(), milliseconds(*time)]));
    command.args(args.length.iter().flat_map(|time| ["--for".to_owned(), milliseconds(*time)]));
    for (when, hook) in args.recording.on.iter().filter(|(when, _)| *when != HookWhen::End) {
        command.arg("--on").arg(format!("{}={hook}", when.word()));
    }
    command.args(args.agent.then_some("--agent"));
    command.args(args.recording.no_scan.then_some("--no-scan"));
    // A group of its own: a Ctrl-C that ends the view must not cut the recording, and neither must a closed terminal.
    command.process_group(0);
    let mut child =
        command.spawn().map_err(|error| Failure::new("cannot start a recorder").because(error))?;
    let line = child.stdout.take().map(first_line).unwrap_or_default();
    match serde_json::from_slice::<(Vec<u8>, Option<Vec<u8>>)>(&line) {
        Ok((recording, socket)) => Ok((child, path_of(recording), socket.map(path_of))),
        Err(_) => {
            let _ = child.kill();
            let _ = child.wait();
            Err(Failure::new(format!("cannot watch process {pid}"))
                .because("its recorder did not start (see above)"))
        }
    }
}

fn path_of(bytes: Vec<u8>) -> PathBuf {
    PathBuf::from(OsString::from_vec(bytes))
}

/// The first line a recorder says, or what came of it in time.
fn first_line(mut from: ChildStdout) -> Vec<u8> {
    let until = Instant::now() + START_PATIENCE;
    let (mut line, mut byte) = (Vec::new(), [0]);
    while !line.ends_with(b"\n") && Instant::now() < until {
        let mut waiting = [PollFd::new(from.as_fd(), PollFlags::POLLIN)];
        let ready = poll(&mut waiting, PollTimeout::from(100_u8));
        match ready {
            Ok(0) | Err(nix::errno::Errno::EINTR) => {}
            Ok(_) if matches!(from.read(&mut byte), Ok(1)) => line.push(byte[0]),
            Ok(_) | Err(_) => break,
        }
    }
    line
}

/// The recorder itself: no screen, one line on standard output that says where it is.
fn record(args: &WatchArgs, pid: u32) -> Result<ExitCode, Failure> {
    let top = jobs::root_of(&Root::live(), pid).unwrap_or(pid);
    let mut reader = lowtide_probe::ProcessReader::open(&Root::live(), top).known();
    let comm = reader.as_mut().and_then(|reader| reader.identity().comm.known());
    let mut options = recorder::options(&args.recording, &comm.unwrap_or_else(|| top.to_string()))?;
    options.length = args.length;
    options.marks.clone_from(&args.marks);
    options.agent = args.agent;
    let mut console = Console::for_recorder();
    lowtide_run::watch(top, &options, &mut console)?;
    Ok(ExitCode::SUCCESS)
}
