//! What can go wrong with a recording, and on which file.

use std::path::{Path, PathBuf};

/// Why a recording could not be written or read.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// A recording is never written over something else.
    #[error("{} is already there; a recording never replaces a file", path.display())]
    Exists {
        /// The file.
        path: PathBuf,
    },
    /// The operating system refused.
    #[error("cannot {doing} {}", path.display())]
    Io {
        /// What was tried.
        doing: &'static str,
        /// On which file.
        path: PathBuf,
        /// Why not.
        #[source]
        source: std::io::Error,
    },
    /// `SQLite` refused.
    #[error("cannot {doing} {}", path.display())]
    Sqlite {
        /// What was tried.
        doing: &'static str,
        /// On which file.
        path: PathBuf,
        /// Why not.
        #[source]
        source: rusqlite::Error,
    },
    /// Some other file.
    #[error("{} is not a lowtide recording: {why}", path.display())]
    NotARecording {
        /// The file.
        path: PathBuf,
        /// What was missing.
        why: String,
    },
    /// Written by a newer lowtide.
    #[error(
        "{} has recording format {found}, this lowtide reads up to format {known}; a newer lowtide is needed",
        path.display()
    )]
    Newer {
        /// The file.
        path: PathBuf,
        /// Its format version.
        found: i64,
        /// Ours.
        known: i64,
    },
    /// The disk hangs.
    #[error("the disk did not answer within {seconds} s while trying to {doing} {}", path.display())]
    TimedOut {
        /// What was tried.
        doing: &'static str,
        /// The file.
        path: PathBuf,
        /// How long it was waited for.
        seconds: u64,
    },
    /// The writer thread could not be started or ended early.
    #[error("the thread that writes {} is gone", path.display())]
    WriterGone {
        /// The file.
        path: PathBuf,
    },
    /// No local disk to write to first.
    #[error("no local scratch folder can hold a recording; set TMPDIR to one")]
    NoScratch,
    /// There is no folder for recordings.
    #[error("no folder for recordings: neither LOWTIDE_DIR nor XDG_STATE_HOME nor HOME is set")]
    NoFolder,
}

impl StoreError {
    pub(crate) fn io(doing: &'static str, path: &Path) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::Io { doing, path, source }
    }

    pub(crate) fn sqlite(doing: &'static str, path: &Path) -> impl FnOnce(rusqlite::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::Sqlite { doing, path, source }
    }
}
