//! The connection to a recorder: asks to follow it and hands out its answers.
//!
//! Foreign text stops being dangerous here: every string of a snapshot is cleaned of control characters before anyone
//! can print it. Not here: waiting (the callers poll [`Feed::as_fd`] beside their terminal).

use super::words;
use lowtide_wire::{Answer, Ask, LineReader, encode};
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

/// Read at a time.
const CHUNK_BYTES: usize = 64 * 1024;
/// Chunks taken in one go, so that a flood from the socket cannot starve the keys.
const CHUNKS_AT_ONCE: usize = 64;
/// A recorder that does not take our one line in this time does not listen.
const ASK_PATIENCE: Duration = Duration::from_secs(2);

/// Whether more can come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Link {
    /// The recorder is still there.
    Open,
    /// It closed the connection, died, or sent something that is not ours.
    Closed,
}

/// One connection that follows a recorder.
#[derive(Debug)]
pub(crate) struct Feed {
    stream: UnixStream,
    lines: LineReader,
    chunk: Vec<u8>,
    until: Option<Instant>,
}

impl Feed {
    /// Connects and asks to follow.
    pub(crate) fn connect(socket: &Path) -> io::Result<Self> {
        let mut stream = UnixStream::connect(socket)?;
        stream.set_write_timeout(Some(ASK_PATIENCE))?;
        stream.write_all(&encode(&Ask::Follow))?;
        stream.set_nonblocking(true)?;
        Ok(Self { stream, lines: LineReader::default(), chunk: vec![0; CHUNK_BYTES], until: None })
    }

    /// Ends by itself after this time.
    pub(crate) fn ending_after(mut self, length: Option<Duration>) -> Self {
        self.until = length.and_then(|length| Instant::now().checked_add(length));
        self
    }

    /// Whether its time is over.
    pub(crate) fn is_over(&self) -> bool {
        self.until.is_some_and(|until| Instant::now() >= until)
    }

    /// Takes what has arrived, without waiting. Lines that are no message of ours are skipped: a newer recorder may
    /// say more than we understand.
    pub(crate) fn take(&mut self, answers: &mut Vec<Answer>) -> io::Result<Link> {
        for _ in 0..CHUNKS_AT_ONCE {
            let count = match self.stream.read(&mut self.chunk) {
                Ok(0) => return Ok(Link::Closed),
                Ok(count) => count,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) if error.kind() == io::ErrorKind::ConnectionReset => return Ok(Link::Closed),
                Err(error) => return Err(error),
            };
            let arrived = self.chunk.get(..count).unwrap_or_default();
            if self.lines.feed(arrived).is_err() {
                return Ok(Link::Closed);
            }
            while let Some(message) = self.lines.next_message::<Answer>() {
                answers.extend(message.ok().map(cleaned));
            }
        }
        Ok(Link::Open)
    }
}

impl AsFd for Feed {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}

fn cleaned(answer: Answer) -> Answer {
    match answer {
        Answer::Snapshot(mut snapshot) => {
            words::clean_snapshot(&mut snapshot);
            Answer::Snapshot(snapshot)
        }
        Answer::Error { text } => Answer::Error { text: words::clean(&text) },
        answer @ (Answer::History { .. } | Answer::Marked | Answer::Scan { .. } | Answer::Squeeze { .. }) => {
            answer
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lowtide_wire::Snapshot;
    use std::os::unix::net::UnixListener;

    fn pair() -> (Feed, UnixStream, tempfile::TempDir) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("s");
        let listener = UnixListener::bind(&path).unwrap();
        let feed = Feed::connect(&path).unwrap();
        (feed, listener.accept().unwrap().0, folder)
    }

    #[test]
    fn following_begins_with_the_question() {
        let (_feed, mut recorder, _folder) = pair();
        let mut question = [0; 17];
        recorder.read_exact(&mut question).unwrap();
        assert_eq!(&question, b"{\"ask\":\"follow\"}\n");
    }

    #[test]
    fn a_line_of_a_newer_recorder_is_skipped_and_the_next_one_read() {
        let (mut feed, mut recorder, _folder) = pair();
        let snapshot = Snapshot { name: "a\x1b[2Jb".to_owned(), ..Snapshot::default() };
        recorder.write_all(b"{\"answer\":\"poem\",\"lines\":3}\n").unwrap();
        recorder.write_all(&encode(&Answer::Snapshot(Box::new(snapshot)))).unwrap();
        let mut answers = Vec::new();
        assert_eq!(feed.take(&mut answers).unwrap(), Link::Open);
        assert_eq!(answers.len(), 1);
        assert!(matches!(&answers[0], Answer::Snapshot(s) if s.name == "a\u{fffd}[2Jb"));
    }

    #[test]
    fn a_closed_socket_is_an_end_and_not_an_error() {
        let (mut feed, recorder, _folder) = pair();
        drop(recorder);
        assert_eq!(feed.take(&mut Vec::new()).unwrap(), Link::Closed);
    }
}
