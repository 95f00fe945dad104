//! Small dealings with files that reader and writer both need.

use crate::StoreError;
use std::fs::{DirBuilder, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// `path` with a tail: `x.tide` and `x.tide-wal`.
pub(crate) fn beside(path: &Path, tail: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(tail);
    name.into()
}

/// The folders above `path`, closed to others where we make them.
pub(crate) fn make_parents(path: &Path) -> Result<(), StoreError> {
    let Some(parent) = path.parent() else {
        return Ok(());
    };
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(parent)
        .map_err(StoreError::io("create the folder", parent))
}

/// An empty file of our own; never one that is there.
pub(crate) fn make_file(path: &Path) -> Result<(), StoreError> {
    match create_new(path) {
        Ok(_) => Ok(()),
        Err(source) if source.kind() == io::ErrorKind::AlreadyExists => {
            Err(StoreError::Exists { path: path.to_owned() })
        }
        Err(source) => Err(StoreError::Io { doing: "create", path: path.to_owned(), source }),
    }
}

fn create_new(path: &Path) -> io::Result<File> {
    OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)
}

/// A recording and what may lie beside it. What is not there needs no removal.
pub(crate) fn remove(path: &Path) {
    for tail in ["", "-wal", "-shm", "-journal"] {
        let _ = std::fs::remove_file(beside(path, tail));
    }
}

/// A name in `folder` that nothing has yet.
pub(crate) fn free_name(folder: &Path, stem: &str, extension: &str) -> PathBuf {
    let numbered = |n: u32| match n {
        0 => folder.join(format!("{stem}.{extension}")),
        n => folder.join(format!("{stem}-{n}.{extension}")),
    };
    (0..10_000)
        .map(numbered)
        .find(|path| path.symlink_metadata().is_err())
        .unwrap_or_else(|| numbered(10_000))
}

/// What tells a file from another that later has its name.
pub(crate) fn identity(path: &Path) -> Option<(u64, u64)> {
    let found = std::fs::metadata(path).ok()?;
    Some((found.dev(), found.ino()))
}

/// Puts the bytes of `from` at `to`: either all of them are there or what was there before.
pub(crate) fn place(from: &Path, to: &Path) -> io::Result<()> {
    let part = beside(to, &format!(".part-{}", std::process::id()));
    let placed = copy_through(from, &part).and_then(|()| {
        // A log left beside an older file would be taken for the new one's.
        for tail in ["-wal", "-shm", "-journal"] {
            let _ = std::fs::remove_file(beside(to, tail));
        }
        std::fs::rename(&part, to)
    });
    if placed.is_err() {
        let _ = std::fs::remove_file(&part);
    }
    placed?;
    // The rename is done; a file system that cannot sync folders makes it no less so.
    let _ = to.parent().map(|folder| File::open(folder).and_then(|folder| folder.sync_all()));
    Ok(())
}

fn copy_through(from: &Path, part: &Path) -> io::Result<()> {
    let _ = std::fs::remove_file(part);
    let mut target = create_new(part)?;
    io::copy(&mut File::open(from)?, &mut target)?;
    target.sync_all()
}
