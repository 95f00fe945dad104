//! Asking a recorder, and its answers.

use crate::{Point, Said, Snapshot};
use serde::{Deserialize, Serialize, de::DeserializeOwned};

/// A longer line than this is not ours: the connection is closed instead of the memory filled.
pub const MAX_LINE_BYTES: usize = 1 << 20;

/// What another lowtide process (or a person with a socket) may ask.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "ask", rename_all = "snake_case")]
pub enum Ask {
    /// One snapshot, then the connection ends.
    Status,
    /// The history so far, then a snapshot at every tick until one side ends.
    Follow,
    /// A mark of the job. The connection stays open for more.
    Mark(Said),
    /// What a process of the job holds: the recorder may read it where others may not. The answer comes when it is
    /// ready, then the connection ends.
    Scan {
        /// Which process.
        pid: u32,
        /// The types of an earlier scan: holders are looked for where these grew.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        before: Option<serde_json::Value>,
    },
    /// Clean up inside a process of the job and measure what that gives back: through its agent. The answer comes when it
    /// is done, then the connection ends.
    Squeeze {
        /// Which process.
        pid: u32,
    },
}

/// What a recorder answers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "answer", rename_all = "snake_case")]
pub enum Answer {
    /// The course of the job so far, thinned to a few hundred points.
    History {
        /// Oldest first.
        points: Vec<Point>,
    },
    /// The job now.
    Snapshot(Box<Snapshot>),
    /// The mark was taken.
    Marked,
    /// What a process holds (`lowtide.scan/1`).
    Scan {
        /// The report.
        report: serde_json::Value,
    },
    /// What cleaning up gave back (`lowtide.squeeze/1`).
    Squeeze {
        /// The report.
        report: serde_json::Value,
    },
    /// The question could not be answered.
    Error {
        /// Why, in words.
        text: String,
    },
}

/// Why a line could not be taken.
#[derive(Debug, thiserror::Error)]
pub enum WireError {
    /// Longer than any message of ours.
    #[error("a message is longer than {MAX_LINE_BYTES} bytes")]
    TooLong,
    /// Not one of our messages.
    #[error("not a message of lowtide's control socket")]
    Foreign(#[source] serde_json::Error),
    /// A line that begins as a mark and is none.
    #[error("not a mark: write `mark KIND [NUMBER] [start|end|point] [JSON]`")]
    NoMark,
}

/// One message as a line. Our own types always encode; a failure would be a bug and gives an empty line.
pub fn encode<T: Serialize>(message: &T) -> Vec<u8> {
    let mut line = serde_json::to_vec(message).unwrap_or_default();
    line.push(b'\n');
    line
}

/// Cuts a byte stream into messages, whatever pieces it arrives in.
#[derive(Debug, Default)]
pub struct LineReader {
    pending: Vec<u8>,
}

impl LineReader {
    /// Takes in what arrived.
    pub fn feed(&mut self, bytes: &[u8]) -> Result<(), WireError> {
        self.pending.extend_from_slice(bytes);
        let open_line = self.pending.iter().rev().take_while(|byte| **byte != b'\n').count();
        if open_line > MAX_LINE_BYTES {
            self.pending.clear();
            return Err(WireError::TooLong);
        }
        Ok(())
    }

    /// The next whole message, if one has arrived.
    pub fn next_message<T: DeserializeOwned>(&mut self) -> Option<Result<T, WireError>> {
        let line = self.next_line()?;
        Some(serde_json::from_slice(&line).map_err(WireError::Foreign))
    }

    /// The next question, if one has arrived: JSON, or the short form `mark step 120`.
    pub fn next_ask(&mut self) -> Option<Result<Ask, WireError>> {
        let line = self.next_line()?;
        let text = std::str::from_utf8(&line).unwrap_or_default();
        match text.trim().strip_prefix("mark ") {
            Some(words) => Some(Said::from_words(words).map(Ask::Mark).ok_or(WireError::NoMark)),
            None => Some(serde_json::from_slice(&line).map_err(WireError::Foreign)),
        }
    }

    fn next_line(&mut self) -> Option<Vec<u8>> {
        let end = self.pending.iter().position(|byte| *byte == b'\n')?;
        Some(self.pending.drain(..=end).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_message_survives_any_cut() {
        let line = encode(&Ask::Follow);
        for cut in 0..line.len() {
            let mut reader = LineReader::default();
            reader.feed(&line[..cut]).unwrap();
            assert!(reader.next_message::<Ask>().is_none());
            reader.feed(&line[cut..]).unwrap();
            assert_eq!(reader.next_message::<Ask>().unwrap().unwrap(), Ask::Follow);
        }
    }

    #[test]
    fn a_shell_can_write_the_question() {
        let mut reader = LineReader::default();
        reader.feed(b"{\"ask\":\"status\"}\n").unwrap();
        assert_eq!(reader.next_message::<Ask>().unwrap().unwrap(), Ask::Status);
    }

    #[test]
    fn a_mark_is_one_line_of_words_or_of_json() {
        let mut reader = LineReader::default();
        reader.feed(b"mark step 120\n{\"ask\":\"mark\",\"kind\":\"step\",\"number\":120}\nmark  \nmark step x y\n").unwrap();
        let words = reader.next_ask().unwrap().unwrap();
        assert_eq!(words, reader.next_ask().unwrap().unwrap());
        assert!(matches!(words, Ask::Mark(Said { number: Some(120.0), .. })));
        assert!(matches!(reader.next_ask(), Some(Err(_))));
        assert!(matches!(reader.next_ask(), Some(Err(WireError::NoMark))));
        assert!(reader.next_ask().is_none());
    }

    #[test]
    fn an_endless_line_is_refused_and_forgotten() {
        let mut reader = LineReader::default();
        let chunk = vec![b'x'; MAX_LINE_BYTES / 2 + 1];
        reader.feed(&chunk).unwrap();
        assert!(matches!(reader.feed(&chunk), Err(WireError::TooLong)));
        assert!(reader.pending.is_empty());
    }

    proptest! {
        #[test]
        fn no_bytes_panic(bytes: Vec<u8>) {
            let mut reader = LineReader::default();
            reader.feed(&bytes).unwrap();
            while let Some(message) = reader.next_ask() {
                let _ = message;
            }
        }
    }
}
