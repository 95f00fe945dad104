//! `lowtide run`: record a command and everything it starts.

use super::recorder;
use crate::cli::{RelayArgs, RunArgs};
use crate::failure::Failure;
use crate::relay as relaying;
use crate::render::{self, Console};
use lowtide_model::Exit;
use lowtide_run::{JobSpec, Options, SOCKET_NAME, Terminal};
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
    let (terminal, relay) = if args.screen { screen(&options)? } else { (Terminal::Callers, None) };
    options.companions.extend(relay.as_ref().map(Child::id));
    let mut console = Console::new(args.recording.quiet || relay.is_some());
    let job = JobSpec { argv: args.command, terminal };
    let finished = lowtide_run::run(job, &options, &mut console);
    console.end();
    if let Some(mut relay) = relay {
        // It ends when the job has closed its terminal; what it still has to show comes before our words.
        let _ = relay.wait();
    }
    let finished = finished?;
    if let Ok(path) = &finished.recording
        && std::path::absolute(&options.out).is_ok_and(|asked| asked != *path)
    {
        let (asked, path) = (options.out.display(), path.display());
        render::complain(&format!("lowtide: {asked} could not be written; the recording is at {path}\n"));
    }
    recorder::tell_end(&finished, &args.recording);
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

/// Makes a terminal for the job and starts the relay that shows it.
fn screen(options: &Options) -> Result<(Terminal, Option<Child>), Failure> {
    if !std::io::stdout().is_terminal() || !std::io::stdin().is_terminal() {
        return Err(
            Failure::new("--screen needs a terminal").hint("leave it out, or use `lowtide watch` elsewhere")
        );
    }
    let (master, slave) = relaying::open_pty(std::io::stdout().as_fd(), relaying::STATUS_ROWS)?;
    fcntl(&master, FcntlArg::F_SETFD(FdFlag::empty()))?;
    let relay = Command::new(recorder::own_program()?)
        .arg("relay")
        .args(["--master", &master.as_raw_fd().to_string()])
        .arg("--socket")
        .arg(options.private_dir.as_deref().unwrap_or(Path::new("")).join(SOCKET_NAME))
        .spawn()
        .map_err(|error| Failure::new("cannot start the relay").because(error))?;
    Ok((Terminal::Own(slave), Some(relay)))
}

#[allow(unsafe_code, reason = "a descriptor that came by inheritance has to be taken over once")]
pub(crate) fn relay(args: &RelayArgs) -> Result<ExitCode, Failure> {
    // SAFETY: the recorder left this descriptor open for us and names it; nobody else in this process owns it.
    let master = unsafe { OwnedFd::from_raw_fd(args.master) };
    fcntl(&master, FcntlArg::F_SETFD(FdFlag::FD_CLOEXEC))?;
    relaying::relay(master, &args.socket)?;
    Ok(ExitCode::SUCCESS)
}
