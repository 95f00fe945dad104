//! Finds step numbers in a job's output (`--step-pattern`) and tells them to the recorder.
//!
//! Output comes in any pieces; a line ends at a line feed or, as progress bars do, at a carriage return. The bytes
//! themselves pass on elsewhere, untouched. Not here: copying (see `pipes` and the relay itself).

use nix::poll::PollTimeout;
use regex::bytes::Regex;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::{Duration, Instant};

/// More of a line than this is not looked at: somebody prints data.
const LONGEST_LINE: usize = 16 * 1024;
/// A recorder that is not there is tried again this often: none is there yet, or none any more.
const CONNECT_EVERY: Duration = Duration::from_millis(100);
/// The last step is worth waiting for a recorder that is busy, but not for one that is gone.
const LAST_WORD: Duration = Duration::from_millis(500);
/// The group that holds the number, where the pattern names it.
const GROUP: &str = "step";

/// A pattern whose group `step`, or whose first group, is the number of a step.
#[derive(Clone, Debug)]
pub(crate) struct StepPattern(Regex);

impl FromStr for StepPattern {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let regex = Regex::new(text).map_err(|error| error.to_string())?;
        if regex.captures_len() < 2 {
            return Err("it has no group for the number; write it like 'step (\\d+)'".to_owned());
        }
        Ok(Self(regex))
    }
}

impl StepPattern {
    pub(crate) fn as_str(&self) -> &str {
        self.0.as_str()
    }

    /// The step in a line, if it holds one. Thousands may be set apart (`1,200` or `1_200`).
    fn step(&self, line: &[u8]) -> Option<f64> {
        let found = self.0.captures(line)?;
        let number = found.name(GROUP).or_else(|| found.get(1))?;
        let text = std::str::from_utf8(number.as_bytes()).ok()?.replace([',', '_'], "");
        text.trim().parse().ok().filter(|step: &f64| step.is_finite())
    }
}

/// Looks through one stream.
#[derive(Debug)]
pub(super) struct Finder {
    pattern: StepPattern,
    line: Vec<u8>,
}

impl Finder {
    pub(super) fn new(pattern: StepPattern) -> Self {
        Self { pattern, line: Vec::new() }
    }

    /// Takes what arrived; gives the newest step in the lines that are whole.
    pub(super) fn take(&mut self, bytes: &[u8]) -> Option<f64> {
        let mut newest = None;
        for piece in bytes.split_inclusive(|byte| matches!(byte, b'\n' | b'\r')) {
            let room = LONGEST_LINE.saturating_sub(self.line.len());
            self.line.extend_from_slice(&piece[..piece.len().min(room)]);
            if piece.ends_with(b"\n") || piece.ends_with(b"\r") {
                newest = self.end().or(newest);
            }
        }
        newest
    }

    /// The line so far is all there will be.
    pub(super) fn end(&mut self) -> Option<f64> {
        let found = self.pattern.step(self.line.trim_ascii_end());
        self.line.clear();
        found
    }
}

/// Tells steps to the recorder. A recorder that is slow or gone costs nothing: numbers are absolute, and the newest one
/// is all that is kept.
#[derive(Debug)]
pub(super) struct Speaker {
    socket: PathBuf,
    stream: Option<UnixStream>,
    tried: Option<Instant>,
    unsaid: Option<f64>,
}

impl Speaker {
    pub(super) fn new(socket: PathBuf) -> Self {
        Self { socket, stream: None, tried: None, unsaid: None }
    }

    pub(super) fn tell(&mut self, step: f64) {
        self.unsaid = Some(step);
        self.flush();
    }

    /// When to flush again, if something could not be said.
    pub(super) fn again(&self) -> Option<PollTimeout> {
        self.unsaid.and_then(|_| PollTimeout::try_from(CONNECT_EVERY).ok())
    }

    /// Says the last step, also to a recorder that is busy or only begins.
    pub(super) fn finish(mut self) {
        let until = Instant::now() + LAST_WORD;
        self.flush();
        while self.unsaid.is_some() && Instant::now() < until {
            std::thread::sleep(CONNECT_EVERY / 5);
            self.flush();
        }
    }

    /// Says what could not be said yet.
    pub(super) fn flush(&mut self) {
        let Some(step) = self.unsaid else { return };
        if self.stream.is_none() && self.tried.is_none_or(|tried| tried.elapsed() >= CONNECT_EVERY) {
            self.tried = Some(Instant::now());
            self.stream = connect(&self.socket);
        }
        let Some(stream) = &mut self.stream else { return };
        // Its answers are of no use to us but must not fill its side.
        let mut answers = [0; 4096];
        while stream.read(&mut answers).is_ok_and(|count| count > 0) {}
        let line = format!("mark step {step}\n");
        match stream.write(line.as_bytes()) {
            Ok(written) if written == line.len() => self.unsaid = None,
            // Half a line would spoil the next one.
            Ok(_) | Err(_) => self.stream = None,
        }
    }
}

fn connect(socket: &std::path::Path) -> Option<UnixStream> {
    let stream = UnixStream::connect(socket).ok()?;
    stream.set_nonblocking(true).ok()?;
    Some(stream)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn finder(pattern: &str) -> Finder {
        Finder::new(pattern.parse().unwrap())
    }

    #[test]
    fn the_newest_step_of_whole_lines_is_found_in_any_pieces() {
        let text = b"step 1 loss 3\nnothing\r step 12/100 \rstep 1,300\nstep 9";
        for cut in 0..text.len() {
            let mut finder = finder(r"step\s+([\d,]+)");
            let (early, late) = (finder.take(&text[..cut]), finder.take(&text[cut..]));
            assert_eq!(late.or(early), Some(1300.0), "cut at {cut}");
            assert_eq!(finder.end(), Some(9.0));
        }
    }

    #[test]
    fn a_named_group_is_the_number_wherever_it_stands() {
        let mut finder = finder(r"epoch (\d+) .*it=(?P<step>\d+)");
        assert_eq!(finder.take(b"epoch 3 and it=77\n"), Some(77.0));
    }

    #[test]
    fn a_pattern_without_a_group_or_with_a_fault_is_refused() {
        assert!("step".parse::<StepPattern>().unwrap_err().contains("no group"));
        assert!("step (".parse::<StepPattern>().is_err());
    }

    #[test]
    fn an_endless_line_costs_no_memory() {
        let mut finder = finder(r"step (\d+)");
        for _ in 0..100 {
            assert_eq!(finder.take(&[b'x'; 4096]), None);
        }
        assert!(finder.line.len() <= LONGEST_LINE);
        assert_eq!(finder.take(b"\nstep 5\n"), Some(5.0));
    }

    #[test]
    fn the_recorder_reads_what_is_said() {
        for step in [0.0, 7.0, 1e15, 0.5] {
            let said = lowtide_wire::Said::from_words(&format!("step {step}"));
            assert_eq!(said.and_then(|said| said.number), Some(step));
        }
    }

    proptest! {
        #[test]
        fn no_output_panics(pieces: Vec<Vec<u8>>) {
            let mut finder = finder(r"(\d+)");
            for piece in &pieces {
                prop_assert!(finder.take(piece).is_none_or(f64::is_finite));
            }
        }
    }
}
