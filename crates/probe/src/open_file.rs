//! Kernel files that stay open and are read again from their start, and what an error on them means.
//!
//! Why: opening and closing a file under /proc costs three times the read itself. Descriptors of `stat`, `statm` and
//! `status` are bound to the process, not to its pid: once it is gone they answer ESRCH for ever, also when the pid
//! has a new owner. Not so for `maps`, `pagemap`, `mem` and `smaps_rollup`, which hold on to the old memory after an
//! exec: those are opened anew each time (see [`read_capped`]).

use lowtide_model::Reading;
use nix::sys::resource::{Resource, getrlimit};
use std::fs::File;
use std::hash::{DefaultHasher, Hasher};
use std::io::{self, Read};
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// The most that is read of one kernel file whose length nothing else bounds.
pub(crate) const CAP: usize = 4 << 20;

/// What a path stands for, which decides what "no such file" means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A file that every process has: when it is not there, the process is gone.
    Process,
    /// A file that only some kernels or configurations have.
    Feature,
}

/// Why there is no value.
pub(crate) fn refusal<T>(error: &io::Error, kind: Kind) -> Reading<T> {
    match error.raw_os_error() {
        Some(libc::EACCES | libc::EPERM) => Reading::Denied,
        // ENODEV: a cgroup that was removed while its file was open.
        Some(libc::ESRCH | libc::ENODEV) => Reading::Gone,
        Some(libc::ENOENT) if kind == Kind::Process => Reading::Gone,
        _ => Reading::Unsupported,
    }
}

/// A whole file, but never more than `cap` bytes of it.
pub(crate) fn read_capped(path: &Path, cap: usize) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path)?.take(cap as u64).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// As [`read_capped`], with the error told as a reading.
pub(crate) fn read_feature(path: &Path) -> Reading<Vec<u8>> {
    match read_capped(path, CAP) {
        Ok(bytes) => Reading::Known(bytes),
        Err(error) => refusal(&error, Kind::Feature),
    }
}

/// A feature file of a process: when it is missing, look whether the process is still there.
pub(crate) fn refusal_in<T>(error: &io::Error, process: &Path) -> Reading<T> {
    let kind = if process.join("stat").exists() { Kind::Feature } else { Kind::Process };
    refusal(error, kind)
}

/// Descriptors left free for everything else, and for reading files that are not kept open.
const ROOM: u64 = 64;

/// Whether keeping this file leaves enough descriptors. The kernel gives out the lowest free number, so the number
/// of a new one says how many are taken.
fn leaves_room(file: &File) -> bool {
    let (taken, limit) = (file.as_raw_fd().unsigned_abs(), getrlimit(Resource::RLIMIT_NOFILE));
    limit.is_ok_and(|(soft, _)| u64::from(taken) + ROOM < soft)
}

/// A file that stays open. Where the process is short of descriptors it is opened for each read instead.
#[derive(Debug)]
pub(crate) struct OpenFile {
    path: PathBuf,
    file: Option<File>,
}

impl OpenFile {
    /// Opens `path`. Running out of descriptors is no error here.
    pub(crate) fn open(path: PathBuf) -> io::Result<Self> {
        match File::open(&path) {
            Ok(file) => Ok(Self { path, file: Some(file).filter(leaves_room) }),
            Err(error) if matches!(error.raw_os_error(), Some(libc::EMFILE | libc::ENFILE)) => {
                Ok(Self { path, file: None })
            }
            Err(error) => Err(error),
        }
    }

    /// Opens a file that need not be there.
    pub(crate) fn open_feature(path: PathBuf) -> Reading<Self> {
        match Self::open(path) {
            Ok(file) => Reading::Known(file),
            Err(error) => refusal(&error, Kind::Feature),
        }
    }

    /// Whether the descriptor is kept, so that the file cannot have become another process's.
    pub(crate) const fn is_kept(&self) -> bool {
        self.file.is_some()
    }

    fn with_file<T>(&self, read: impl FnOnce(&File) -> io::Result<T>) -> io::Result<T> {
        match &self.file {
            Some(file) => read(file),
            None => read(&File::open(&self.path)?),
        }
    }

    /// Stands for the content: the same as long as that is.
    pub(crate) fn print(&self) -> io::Result<u64> {
        let mut hasher = DefaultHasher::new();
        let mut buffer = [0; 4096];
        self.with_file(|file| {
            let mut at = 0;
            while at < CAP as u64 {
                match file.read_at(&mut buffer, at)? {
                    0 => break,
                    count => {
                        hasher.write(buffer.get(..count).unwrap_or_default());
                        at += count as u64;
                    }
                }
            }
            Ok(hasher.finish())
        })
    }

    /// Reads and parses in one go, on a buffer of `N` bytes on the stack; longer files go to the heap.
    pub(crate) fn parse<const N: usize, T>(
        &self,
        kind: Kind,
        parse: impl Fn(&[u8]) -> Option<T>,
    ) -> Reading<T> {
        let mut buffer = [0; N];
        match self.with_file(|file| fill(file, &mut buffer, kind)) {
            Ok(count) if count < N => parse(buffer.get(..count).unwrap_or_default()).into(),
            Ok(_) => match self.with_file(read_long) {
                Ok(bytes) => parse(&bytes).into(),
                Err(error) => refusal(&error, kind),
            },
            Err(error) => refusal(&error, kind),
        }
    }
}

/// Fills `buffer` from the start of the file. The files of a process come whole in one read; others may come in
/// pieces of a page.
fn fill(file: &File, buffer: &mut [u8], kind: Kind) -> io::Result<usize> {
    let mut filled = 0;
    while let Some(rest) = buffer.get_mut(filled..).filter(|rest| !rest.is_empty()) {
        match file.read_at(rest, filled as u64) {
            Ok(0) => break,
            Ok(count) => filled += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        }
        if kind == Kind::Process {
            break;
        }
    }
    Ok(filled)
}

/// The whole file, up to [`CAP`].
fn read_long(file: &File) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; 1 << 16];
    loop {
        let filled = fill(file, &mut bytes, Kind::Feature)?;
        if filled < bytes.len() || bytes.len() >= CAP {
            bytes.truncate(filled);
            return Ok(bytes);
        }
        bytes.resize(bytes.len() * 4, 0);
    }
}
