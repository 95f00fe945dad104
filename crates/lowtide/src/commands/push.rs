//! `run --push`: a process of its own reads the growing recording and sends it, so that a receiver that hangs never
//! touches the recorder or the job.

use super::recorder;
use crate::failure::Failure;
use crate::render;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// How long the end of a run waits for the last samples to be sent.
const PATIENCE: Duration = Duration::from_secs(10);
const LOOK: Duration = Duration::from_millis(50);

/// The process that sends.
pub(crate) struct Pusher {
    child: Child,
    recording: PathBuf,
    url: String,
}

/// Starts it. It has no terminal and its own group: Ctrl-C is for the job.
pub(crate) fn start(recording: &Path, url: &str) -> Result<Pusher, Failure> {
    let recording = std::path::absolute(recording)?;
    let mut command = Command::new(recorder::own_program()?);
    command.arg("export").arg(&recording).args(["--to", "remote-write", url, "--follow"]);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).process_group(0);
    let child = command
        .spawn()
        .map_err(|error| Failure::new("cannot start the process that pushes").because(error))?;
    Ok(Pusher { child, recording, url: url.to_owned() })
}

impl Pusher {
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Waits a little for the last samples, and says what to do when they did not arrive.
    pub(crate) fn end(mut self) {
        let begun = Instant::now();
        while begun.elapsed() < PATIENCE {
            match self.child.try_wait() {
                Ok(Some(status)) if status.success() => return,
                Ok(None) => std::thread::sleep(LOOK),
                Ok(Some(_)) | Err(_) => break,
            }
        }
        let (file, url) = (self.recording.display(), &self.url);
        render::complain(&format!(
            "lowtide: not all was sent to {url}; later: lowtide export {file} --to remote-write {url}\n"
        ));
    }
}
