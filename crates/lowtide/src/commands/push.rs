//! `run --push`: a process of its own reads the growing recording and sends it, so that a receiver that hangs never
//! touches the recorder or the job.

use super::recorder;
use crate::failure::Failure;
use crate::render;
use std::io::Read as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// How long the end of a run waits for the last samples to be sent.
const PATIENCE: Duration = Duration::from_secs(10);
const LOOK: Duration = Duration::from_millis(50);
/// Letters of what is told of a refusal.
const LONGEST: usize = 300;

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
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).process_group(0);
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
        let (begun, mut why) = (Instant::now(), String::new());
        while begun.elapsed() < PATIENCE {
            match self.child.try_wait() {
                Ok(Some(status)) if status.success() => return,
                Ok(None) => std::thread::sleep(LOOK),
                Ok(Some(_)) | Err(_) => {
                    why = self.said();
                    break;
                }
            }
        }
        let (file, url) = (self.recording.display(), &self.url);
        render::complain(&format!(
            "lowtide: not all was sent to {url}{why}; later: lowtide export {file} --to remote-write {url}\n"
        ));
    }

    /// Why it gave up, in its own first line: what a receiver refused, or that it does not answer.
    fn said(&mut self) -> String {
        let mut text = String::new();
        let read = self.child.stderr.take().map(|mut pipe| pipe.read_to_string(&mut text));
        let line = text.lines().next().unwrap_or_default();
        let line = line.strip_prefix("error: ").unwrap_or(line).chars().take(LONGEST).collect::<String>();
        if read.is_none() || line.is_empty() { String::new() } else { format!(" ({line})") }
    }
}
