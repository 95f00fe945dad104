//! `lowtide run`: record a command and everything it starts.

use super::{guarding, push, recorder};
use crate::cli::{RelayArgs, RunArgs};
use crate::failure::Failure;
use crate::relay as relaying;
use crate::render::{self, Console};
use lowtide_model::Exit;
use lowtide_run::{Isolate, JobSpec, Options, RunError, SOCKET_NAME, Terminal};
use nix::fcntl::{FcntlArg, FdFlag, fcntl};
use std::ffi::OsString;
use std::io::IsTerminal;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::path::Path;
use std::process::{Child, Command, ExitCode};

pub(crate) fn run(args: RunArgs) -> Result<ExitCode, Failure> {
    let program = args.command.first().map(program_name).unwrap_or_default();
    let mut options = recorder::options(&args.recording, &program)?;
    options.agent = !args.no_agent;
    options.limit = guarding::limit(&args.guarding);
    options.guard = guarding::options(&args.guarding, &args.command)?;
    options.isolate = args.guarding.isolate.then_some(Isolate { max: args.guarding.max });
    let (terminal, relay) = relayed(&args, &options)?;
    options.relay = relay.as_ref().map(Child::id);
    options.companions.extend(options.relay);
    let mut pusher = args.push.as_deref().map(|url| push::start(&options.out, url)).transpose()?;
    options.companions.extend(pusher.as_ref().map(push::Pusher::pid));
    let mut console = Console::new(args.recording.quiet || args.screen);
    let job = JobSpec { argv: args.command, terminal };
    let finished = lowtide_run::run(job, &options, &mut console);
    console.end();
    pusher.iter_mut().for_each(push::Pusher::run_ended);
    let survived = finished.as_ref().is_ok_and(|finished| !finished.survivors.is_empty());
    if let Some(mut relay) = relay.filter(|_| args.screen || !survived) {
        // It ends when the job has closed its side; what it still has to show comes before our words. Output of
        // survivors it passes on without us.
        let _ = relay.wait();
    }
    let finished = finished.map_err(|error| match error {
        RunError::Isolation(_) => Failure::from(error)
            .hint("run as root, or where systemd gives this user a session, or leave --isolate out"),
        RunError::Store(_) => Failure::from(error)
            .hint("the command was not started; --out FILE writes the recording somewhere else"),
        RunError::Start(_) | RunError::Wait(_) | RunError::NoProcess { .. } => error.into(),
    })?;
    if let Ok(path) = &finished.recording
        && std::path::absolute(&options.out).is_ok_and(|asked| asked != *path)
    {
        let (asked, path) = (options.out.display(), path.display());
        render::complain(&format!("lowtide: {asked} could not be written; the recording is at {path}\n"));
    }
    recorder::tell_end(&finished, &args.recording);
    pusher.into_iter().for_each(push::Pusher::end);
    let guarded = finished.guarded.as_ref();
    if let Some((kept, again)) =
        guarded.and_then(|guarded| Some((guarded.resumable.as_ref()?, guarded.again)))
    {
        if !args.recording.quiet {
            render::complain(&guarding::resume_words(kept, again));
        }
        return Ok(ExitCode::from(guarding::STOPPED_IN_ORDER));
    }
    die_as_the_job_did(finished.exit);
    Ok(ExitCode::from(recorder::code_of(finished.exit)))
}

/// A job that Ctrl-C ended makes us end by it too: a shell loop around us must stop as it would without us.
#[allow(unsafe_code, reason = "the default disposition of a signal has no safe interface")]
fn die_as_the_job_did(exit: Exit) {
    use nix::sys::signal::{SigHandler, SigSet, Signal, raise, signal};
    if exit != Exit::Signal(Signal::SIGINT as i32) || std::process::id() == 1 {
        return;
    }
    // SAFETY: the default handler runs no code of ours.
    let reset = unsafe { signal(Signal::SIGINT, SigHandler::SigDfl) };
    if reset.is_ok() && raise(Signal::SIGINT).is_ok() {
        // It is still blocked; this lets it through.
        let _ = SigSet::from_iter([Signal::SIGINT]).thread_unblock();
    }
}

/// What a run is called when nobody named it: the script, else the program.
pub(crate) fn program_name(word: &OsString) -> String {
    Path::new(word).file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
}

/// What the job talks to, and the relay between them if one was asked for.
fn relayed(args: &RunArgs, options: &Options) -> Result<(Terminal, Option<Child>), Failure> {
    let pattern = args.step_pattern.as_ref();
    if args.screen && (!std::io::stdout().is_terminal() || !std::io::stdin().is_terminal()) {
        return Err(
            Failure::new("--screen needs a terminal").hint("leave it out, or use `lowtide watch` elsewhere")
        );
    }
    let begins_again = options.guard.as_ref().is_some_and(|guard| guard.resumes > 0 || guard.chunk.is_some());
    if begins_again && (args.screen || (pattern.is_some() && std::io::stdout().is_terminal())) {
        return Err(Failure::new(
            "a job on a terminal of its own (--screen, --step-pattern) can't be started again in it",
        )
        .hint("leave it out and use `lowtide watch` in another terminal, or lead the output to a file"));
    }
    if !args.screen && pattern.is_none() {
        return Ok((Terminal::Callers, None));
    }
    let socket = options.private_dir.as_deref().unwrap_or(Path::new("")).join(SOCKET_NAME);
    let mut relay = Command::new(recorder::own_program()?);
    relay.arg("relay").arg("--socket").arg(socket);
    if let Some(pattern) = pattern {
        relay.arg("--step-pattern").arg(pattern.as_str());
    }
    // Held until the relay has its own.
    let (terminal, _held) = if std::io::stdout().is_terminal() {
        let rows = if args.screen { relaying::STATUS_ROWS } else { 0 };
        let (master, slave) = relaying::open_pty(std::io::stdout().as_fd(), rows)?;
        hand_on(&mut relay, "--master", &master)?;
        if !args.screen {
            relay.arg("--plain");
        }
        (Terminal::Own(slave), vec![master])
    } else {
        pipes(&mut relay)?
    };
    let relay = relay.spawn().map_err(|error| Failure::new("cannot start the relay").because(error))?;
    Ok((terminal, Some(relay)))
}

/// Pipes for the job's output: one for both streams where both go to the same place, so that their order stays.
fn pipes(relay: &mut Command) -> Result<(Terminal, Vec<OwnedFd>), Failure> {
    let pipe = || nix::unistd::pipe2(nix::fcntl::OFlag::O_CLOEXEC);
    let (from_stdout, stdout) = pipe()?;
    hand_on(relay, "--stdout", &from_stdout)?;
    let mut held = vec![from_stdout];
    let stderr = if std::io::stderr().is_terminal() {
        None
    } else if same_place() {
        Some(stdout.try_clone()?)
    } else {
        let (from_stderr, stderr) = pipe()?;
        hand_on(relay, "--stderr", &from_stderr)?;
        held.push(from_stderr);
        Some(stderr)
    };
    Ok((Terminal::Piped(Some(stdout), stderr), held))
}

/// Whether standard output and standard error are one file.
fn same_place() -> bool {
    let place = |fd: std::os::fd::BorrowedFd<'_>| {
        let found = nix::sys::stat::fstat(fd).ok()?;
        Some((found.st_dev, found.st_ino))
    };
    let stdout = place(std::io::stdout().as_fd());
    stdout.is_some() && stdout == place(std::io::stderr().as_fd())
}

/// Leaves a descriptor open for the relay and names it to it.
fn hand_on(relay: &mut Command, name: &str, fd: &OwnedFd) -> Result<(), Failure> {
    fcntl(fd, FcntlArg::F_SETFD(FdFlag::empty()))?;
    relay.args([name, &fd.as_raw_fd().to_string()]);
    Ok(())
}

pub(crate) fn relay(args: &RelayArgs) -> Result<ExitCode, Failure> {
    if let Some(master) = args.master {
        let rows = if args.plain { 0 } else { relaying::STATUS_ROWS };
        let task = relaying::Task { rows, pattern: args.step_pattern.clone() };
        relaying::relay(inherited(master)?, &args.socket, task)?;
    } else if let Some(pattern) = &args.step_pattern {
        let streams = relaying::Streams {
            stdout: args.stdout.map(inherited).transpose()?,
            stderr: args.stderr.map(inherited).transpose()?,
        };
        relaying::pass(streams, &args.socket, pattern);
    }
    Ok(ExitCode::SUCCESS)
}

#[allow(unsafe_code, reason = "a descriptor that came by inheritance has to be taken over once")]
fn inherited(fd: i32) -> Result<OwnedFd, Failure> {
    // SAFETY: the recorder left this descriptor open for us and names it; nobody else in this process owns it.
    let fd = unsafe { OwnedFd::from_raw_fd(fd) };
    fcntl(&fd, FcntlArg::F_SETFD(FdFlag::FD_CLOEXEC))?;
    Ok(fd)
}
