//! The live view of a recorded job: `lowtide watch` in another terminal.
//!
//! It only follows a recorder over its control socket, so leaving it, killing it or breaking it can never touch the
//! job. Not here: recording, judging, finding the socket (see `commands::watch`), and the status block around a job's
//! own output (see `relay`, which shares `feed`, `signals` and `words` with this module).

mod curve;
mod draw;
pub(crate) mod feed;
mod full;
mod limits;
mod lines;
pub(crate) mod signals;
mod table;
mod view;
pub(crate) mod words;

use feed::Feed;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How the view is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Style {
    /// The whole terminal, on its alternate screen.
    Full,
    /// Plain lines, for a pipe or a file.
    Lines,
}

/// Why the view ended, when nothing went wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    /// The user left; the job goes on.
    Left,
    /// The recorder told that the job is over, and ended.
    RecorderDone,
    /// The recorder went away without that; the job may still run.
    RecorderGone,
    /// A signal asked us to go.
    Signal(i32),
}

impl Ended {
    /// How it ended, for the caller to print below the last state.
    pub(crate) fn words(self) -> String {
        match self {
            Self::Left => "left the view; the job goes on".to_owned(),
            Self::RecorderDone => "the recorder ended".to_owned(),
            Self::RecorderGone => "the recorder is gone; the job may still run".to_owned(),
            Self::Signal(number) => format!("left the view on signal {number}; the job goes on"),
        }
    }
}

/// Why there is no view.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ScreenError {
    /// Nobody listens there.
    #[error("cannot reach the recorder at {}", path.display())]
    Connect {
        /// Its socket.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The recorder said no.
    #[error("the recorder refused to be followed: {text}")]
    Refused {
        /// Its words.
        text: String,
    },
    /// The connection broke in a way that is not an end.
    #[error("cannot follow the recorder")]
    Follow(#[source] io::Error),
    /// The terminal did not do what was asked.
    #[error("cannot draw on the terminal")]
    Terminal(#[source] io::Error),
}

/// Follows the recorder behind `socket` until one side ends or the time is over. The last state is left on stdout as a
/// line.
pub(crate) fn follow(socket: &Path, style: Style, length: Option<Duration>) -> Result<Ended, ScreenError> {
    let feed =
        Feed::connect(socket).map_err(|source| ScreenError::Connect { path: socket.to_owned(), source })?;
    let feed = feed.ending_after(length);
    match style {
        Style::Full => full::follow(feed),
        Style::Lines => lines::follow(feed, &mut io::stdout().lock()),
    }
}
