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

/// How long the end of a run waits for the last samples while a receiver takes them.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long a receiver that is away is waited for at the end, as `export --wait` reads it.
const AWAY: &str = "2s";
const LOOK: Duration = Duration::from_millis(50);
/// Letters of what is told of a refusal.
const LONGEST: usize = 300;

/// The process that sends.
pub(crate) struct Pusher {
    child: Child,
    recording: PathBuf,
    url: String,
}

/// Starts it. It has no terminal and its own group: Ctrl-C is for the job. Its standard input is open while the run goes on.
pub(crate) fn start(recording: &Path, url: &str) -> Result<Pusher, Failure> {
    let recording = std::path::absolute(recording)?;
    let mut command = Command::new(recorder::own_program()?);
    command.arg("export").arg(&recording).args(["--to", "remote-write", url, "--follow", "--until-closed"]);
    command.args(["--wait", AWAY]);
    command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped()).process_group(0);
    let child = command
        .spawn()
        .map_err(|error| Failure::new("cannot start the process that pushes").because(error))?;
    Ok(Pusher { child, recording, url: url.to_owned() })
}

impl Pusher {
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Tells it that the recording is whole, so that it sends the rest at once.
    pub(crate) fn run_ended(&mut self) {
        drop(self.child.stdin.take());
    }

    /// Waits a little for the last samples, and says what to do when they did not arrive.
    pub(crate) fn end(mut self) {
        let begun = Instant::now();
        let mut why = format!(" (no answer within {} s)", PATIENCE.as_secs());
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

    /// Why it gave up, in its own words without the advice: what a receiver refused, or why it does not answer.
    fn said(&mut self) -> String {
        let mut text = String::new();
        let read = self.child.stderr.take().map(|mut pipe| pipe.read_to_string(&mut text));
        let lines: Vec<&str> =
            text.lines().map(str::trim).filter(|line| !line.starts_with("hint: ")).collect();
        let words = lines.join("; ");
        let words = words.strip_prefix("error: ").unwrap_or(&words).chars().take(LONGEST).collect::<String>();
        if read.is_none() || words.is_empty() { String::new() } else { format!(" ({words})") }
    }
}
