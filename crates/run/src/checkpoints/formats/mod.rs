//! Whether a file that a framework wrote is whole, from its first and last bytes: never by loading it.
//!
//! Each format says its own length somewhere: a zip in its end record, safetensors and HDF5 in their header, a pickle by
//! its last byte, JSON by its last bracket. The bytes are a stranger's: a size in them is compared with the file before
//! it is believed, and memory stays flat whatever they claim. Not here: which files a checkpoint needs (see `folder`).

pub(super) mod hdf5;
pub(super) mod json;
pub(super) mod pickle;
pub(super) mod safetensors;
pub(super) mod zip;

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::FileExt;

/// Bytes that can be read anywhere.
pub(super) trait Source {
    /// How many there are.
    fn size(&self) -> u64;
    /// Fills the whole buffer from there on.
    fn fill(&self, at: u64, buffer: &mut [u8]) -> io::Result<()>;
}

/// A file with the size it had when it was opened.
#[derive(Debug)]
pub(super) struct Opened {
    pub(super) file: File,
    pub(super) bytes: u64,
}

impl Source for Opened {
    fn size(&self) -> u64 {
        self.bytes
    }

    fn fill(&self, at: u64, buffer: &mut [u8]) -> io::Result<()> {
        self.file.read_exact_at(buffer, at)
    }
}

impl Source for [u8] {
    fn size(&self) -> u64 {
        self.len() as u64
    }

    fn fill(&self, at: u64, buffer: &mut [u8]) -> io::Result<()> {
        let from = usize::try_from(at).ok().and_then(|at| self.get(at..)).unwrap_or_default();
        let found = from.get(..buffer.len()).ok_or(io::ErrorKind::UnexpectedEof)?;
        buffer.copy_from_slice(found);
        Ok(())
    }
}

/// Why a file is not whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Flaw {
    /// It ends too early: it is being written, or its writer was stopped.
    Cut(String),
    /// What it says makes no sense.
    Wrong(String),
}

impl Flaw {
    fn cut(why: impl Into<String>) -> Self {
        Self::Cut(why.into())
    }

    fn wrong(why: impl Into<String>) -> Self {
        Self::Wrong(why.into())
    }
}

impl From<io::Error> for Flaw {
    fn from(error: io::Error) -> Self {
        if error.kind() == io::ErrorKind::UnexpectedEof {
            Self::cut("ends too early")
        } else {
            Self::Wrong(format!("can't be read ({})", error.kind()))
        }
    }
}

/// A number of eight bytes at a place.
fn u64_at(source: &(impl Source + ?Sized), at: u64) -> Result<u64, Flaw> {
    let mut bytes = [0; 8];
    source.fill(at, &mut bytes)?;
    Ok(u64::from_le_bytes(bytes))
}

/// Reads a stretch of a source from its beginning to its end.
struct Stretch<'a, S: ?Sized> {
    source: &'a S,
    at: u64,
    end: u64,
}

impl<'a, S: Source + ?Sized> Stretch<'a, S> {
    fn new(source: &'a S, at: u64, bytes: u64) -> Self {
        Self { source, at, end: at.saturating_add(bytes).min(source.size()) }
    }
}

impl<S: Source + ?Sized> Read for Stretch<'_, S> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let left = usize::try_from(self.end.saturating_sub(self.at)).unwrap_or(usize::MAX);
        let now = left.min(buffer.len());
        self.source.fill(self.at, &mut buffer[..now])?;
        self.at += now as u64;
        Ok(now)
    }
}

#[cfg(test)]
mod tests;
