//! A question to a recorder whose answer takes its time: a scan, a squeeze.

use lowtide_wire::{Answer, Ask, LineReader, WireError, encode};
use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

/// Why there was no answer.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NoAnswer {
    /// The socket failed, or it took too long.
    #[error(transparent)]
    Socket(#[from] io::Error),
    /// What came is none of our messages.
    #[error(transparent)]
    Words(#[from] WireError),
    /// It closed the connection without one.
    #[error("the recorder ended")]
    Ended,
}

/// Asks, and waits for the report or for the reason why there is none.
pub(crate) fn ask(socket: &Path, question: &Ask, patience: Duration) -> Result<Answer, NoAnswer> {
    let mut stream = UnixStream::connect(socket)?;
    stream.write_all(&encode(question))?;
    let (mut lines, mut buffer) = (LineReader::default(), vec![0; 64 << 10]);
    let until = Instant::now() + patience;
    loop {
        match lines.next_message::<Answer>().transpose()? {
            Some(answer @ (Answer::Scan { .. } | Answer::Squeeze { .. } | Answer::Error { .. })) => {
                return Ok(answer);
            }
            Some(Answer::History { .. } | Answer::Snapshot(_) | Answer::Marked) => {}
            None => {
                let left = until.saturating_duration_since(Instant::now()).max(Duration::from_millis(1));
                stream.set_read_timeout(Some(left))?;
                let length = stream.read(&mut buffer)?;
                if length == 0 {
                    return Err(NoAnswer::Ended);
                }
                lines.feed(&buffer[..length])?;
            }
        }
    }
}
