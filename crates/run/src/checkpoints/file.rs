//! One file of a checkpoint, or a checkpoint that is one file: what it is, by its first bytes, and whether it is whole.

use super::Kind;
use super::formats::{Flaw, Opened, Source, hdf5, json, pickle, safetensors, zip};
use std::fs::OpenOptions;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// Enough to tell the formats apart.
const FIRST: usize = 16;
/// How a zip, an HDF5 file and a pickle begin: less than that is a file that was cut off.
const BEGINNINGS: [&[u8]; 3] = [b"PK\x03\x04", b"\x89HDF\r\n\x1a\n", b"\x80\x02"];

/// Opens a plain file; a pipe or device of that name holds nobody up.
pub(super) fn open(path: &Path) -> Result<Opened, Flaw> {
    let flags = libc::O_CLOEXEC | libc::O_NONBLOCK | libc::O_NOCTTY;
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path)?;
    let found = file.metadata()?;
    if !found.is_file() {
        return Err(Flaw::Wrong("is no plain file".into()));
    }
    Ok(Opened { file, bytes: found.len() })
}

/// What a checkpoint of one file says of itself.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Said {
    pub(super) kind: Kind,
    pub(super) step: Option<u64>,
}

/// Checks a checkpoint that is one file.
pub(super) fn alone(path: &Path) -> Result<Said, Flaw> {
    said_by(&open(path)?, path)
}

/// Checks the contents of a file of that name.
pub(super) fn said_by(source: &(impl Source + ?Sized), path: &Path) -> Result<Said, Flaw> {
    match format_of(source, path)? {
        Format::Zip => {
            let archive = zip::archive(source)?;
            let told = archive.pickle.map(|(at, bytes)| pickle::told(source, at, bytes)).unwrap_or_default();
            let kind = match suffix(path) {
                "keras" => Kind::Keras,
                _ if told.by_lightning => Kind::Lightning,
                _ if archive.pickle.is_some() => Kind::Torch,
                _ => Kind::Plain,
            };
            Ok(Said { kind, step: told.step.or_else(|| step_in_name(path)) })
        }
        Format::Pickle => {
            pickle::whole(source)?;
            let told = pickle::told(source, 0, source.size());
            Ok(Said { kind: Kind::Plain, step: told.step.or_else(|| step_in_name(path)) })
        }
        Format::Json => {
            let step = json::number_under(source, "step")?;
            Ok(Said { kind: Kind::Plain, step: step.or_else(|| step_in_name(path)) })
        }
        Format::Hdf5 => hdf5::whole(source).map(|()| Said { kind: Kind::Keras, step: step_in_name(path) }),
        Format::Safetensors => {
            safetensors::whole(source).map(|()| Said { kind: Kind::Plain, step: step_in_name(path) })
        }
        Format::Other => Ok(Said { kind: Kind::Plain, step: step_in_name(path) }),
    }
}

/// Checks one of the files of a folder, as far as its format is known.
pub(super) fn member(path: &Path) -> Result<(), Flaw> {
    let by_torch = matches!(suffix(path), "pt" | "pth");
    if !by_torch && !matches!(suffix(path), "bin" | "pkl" | "safetensors" | "json" | "h5" | "keras") {
        return Ok(());
    }
    let source = open(path)?;
    match format_of(&source, path)? {
        Format::Zip => zip::archive(&source).map(drop),
        Format::Pickle => pickle::whole(&source),
        Format::Json => json::whole(&source),
        Format::Hdf5 => hdf5::whole(&source),
        Format::Safetensors => safetensors::whole(&source),
        Format::Other if by_torch => Err(Flaw::Wrong("is not what torch writes".into())),
        Format::Other => Ok(()),
    }
}

enum Format {
    Zip,
    Pickle,
    Json,
    Hdf5,
    Safetensors,
    Other,
}

fn format_of(source: &(impl Source + ?Sized), path: &Path) -> Result<Format, Flaw> {
    let mut first = [0; FIRST];
    let reach = usize::try_from(source.size()).map_or(FIRST, |size| size.min(FIRST));
    source.fill(0, &mut first[..reach])?;
    let first = &first[..reach];
    if first.is_empty() {
        return Err(Flaw::Cut("is empty".into()));
    }
    if suffix(path) == "safetensors" {
        return Ok(Format::Safetensors);
    }
    if BEGINNINGS.iter().any(|whole| first.len() < whole.len() && whole.starts_with(first)) {
        return Err(Flaw::Cut("ends with its first bytes".into()));
    }
    if first.iter().all(|byte| *byte == 0) {
        return Err(Flaw::Wrong("begins with nothing but zeros".into()));
    }
    Ok(match suffix(path) {
        _ if zip::begins(first) => Format::Zip,
        _ if hdf5::begins(first) => Format::Hdf5,
        _ if pickle::begins(first) => Format::Pickle,
        "json" => Format::Json,
        _ => Format::Other,
    })
}

/// The end of a name behind its last dot.
pub(super) fn suffix(path: &Path) -> &str {
    path.extension().and_then(std::ffi::OsStr::to_str).unwrap_or_default()
}

/// The step that a name tells: `epoch=3-step=40.ckpt`, `ckpt_000100.pt`, `checkpoint-7`.
pub(super) fn step_in_name(path: &Path) -> Option<u64> {
    const WORDS: [&str; 6] = ["global_step", "step", "iteration", "iter", "checkpoint", "ckpt"];
    let name = path.file_name()?.to_str()?.to_ascii_lowercase();
    WORDS.iter().find_map(|word| {
        let behind = &name[name.rfind(word)? + word.len()..];
        let digits = behind.trim_start_matches(['=', '-', '_', '.']);
        let end = digits.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(digits.len());
        digits[..end].parse().ok()
    })
}
