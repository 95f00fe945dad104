//! Passes a job's output on where it is no terminal: bytes unchanged, each stream by itself and in its order.
//!
//! A thread a stream, so that a stopped reader of one does not hold up the other. It ends when nobody holds the job's
//! side any more. When our own side is closed the job's is closed too, so that the job gets its SIGPIPE as without us.

use super::steps::{Finder, Speaker, StepPattern};
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{SigHandler, Signal, signal};
use nix::unistd::{read, write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::{Mutex, PoisonError};

const CHUNK_BYTES: usize = 64 * 1024;

/// The job's side of what it prints.
#[derive(Debug, Default)]
pub(crate) struct Streams {
    /// Goes to our standard output.
    pub(crate) stdout: Option<OwnedFd>,
    /// Goes to our standard error.
    pub(crate) stderr: Option<OwnedFd>,
}

/// Copies until the job's side is closed, and tells the recorder the steps that are printed.
pub(crate) fn pass(streams: Streams, socket: &Path, pattern: &StepPattern) {
    let speaker = Mutex::new(Speaker::new(socket.to_owned()));
    outlive_the_job();
    let (stdout, stderr) = (std::io::stdout(), std::io::stderr());
    let sides = [(streams.stdout, stdout.as_fd()), (streams.stderr, stderr.as_fd())];
    std::thread::scope(|scope| {
        for (from, to) in sides {
            let (speaker, finder) = (&speaker, Finder::new(pattern.clone()));
            // Closed with the thread: whoever writes to it then is told.
            from.map(|from| scope.spawn(move || copy(&from, to, finder, speaker)));
        }
    });
    speaker.into_inner().unwrap_or_else(PoisonError::into_inner).finish();
}

/// Signals to the whole group (Ctrl-C, kill of a group) are the job's affair: its last words still have to pass.
#[allow(unsafe_code, reason = "ignoring a signal has no safe interface")]
fn outlive_the_job() {
    for ignored in [Signal::SIGINT, Signal::SIGQUIT, Signal::SIGTERM, Signal::SIGHUP] {
        // SAFETY: no code of ours runs in a handler.
        let _ = unsafe { signal(ignored, SigHandler::SigIgn) };
    }
}

fn copy(from: &OwnedFd, to: BorrowedFd<'_>, mut finder: Finder, speaker: &Mutex<Speaker>) {
    let mut chunk = vec![0; CHUNK_BYTES];
    loop {
        wait(from, speaker);
        let arrived = match read(from, &mut chunk) {
            Ok(0) => break,
            Ok(count) => chunk.get(..count).unwrap_or_default(),
            Err(Errno::EINTR) => continue,
            Err(_) => break,
        };
        if print(to, arrived).is_err() {
            return;
        }
        say(finder.take(arrived), speaker);
    }
    say(finder.end(), speaker);
}

/// While nothing arrives, says what a recorder that only begins could not hear.
fn wait(from: &OwnedFd, speaker: &Mutex<Speaker>) {
    loop {
        let mut speaker = speaker.lock().unwrap_or_else(PoisonError::into_inner);
        speaker.flush();
        let again = speaker.again();
        drop(speaker);
        let Some(again) = again else { return };
        if poll(&mut [PollFd::new(from.as_fd(), PollFlags::POLLIN)], again) != Ok(0) {
            return;
        }
    }
}

fn say(step: Option<f64>, speaker: &Mutex<Speaker>) {
    let mut speaker = speaker.lock().unwrap_or_else(PoisonError::into_inner);
    match step {
        Some(step) => speaker.tell(step),
        None => speaker.flush(),
    }
}

/// Writes all of it, however slowly it is taken.
fn print(to: BorrowedFd<'_>, mut bytes: &[u8]) -> nix::Result<()> {
    while !bytes.is_empty() {
        match write(to, bytes) {
            Ok(count) => bytes = bytes.get(count..).unwrap_or_default(),
            Err(Errno::EINTR) => {}
            Err(Errno::EAGAIN) => {
                let _ = poll(&mut [PollFd::new(to, PollFlags::POLLOUT)], PollTimeout::NONE);
            }
            Err(errno) => return Err(errno),
        }
    }
    Ok(())
}
