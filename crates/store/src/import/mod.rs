//! Reads memory curves that others wrote: JSON, CSV, training logs, the files of known tools.
//!
//! The form is told by what is in the file, not by its name. What had to be guessed (which column, which unit) stands
//! in the curve's notes, for the user to see and to overrule with `Hints`. Foreign bytes: nothing here panics.

mod curve_json;
mod locale;
mod log;
mod lowtide_series;
mod memory_names;
mod numbers;
mod passes;
mod prometheus;
mod table;
mod tensorboard;
mod thin;
mod times;
mod tools;

use lowtide_model::{Axis, Bytes, Curve};
use std::path::{Path, PathBuf};

/// A file above this is refused rather than read into memory.
const LARGEST_FILE_BYTES: u64 = 1 << 30;

/// More curves than this in one file would be no answer to anybody; the highest are kept.
const MOST_CURVES: usize = 10_000;

/// How files begin that hold no curve as they are.
const OTHERS: &[(&[u8], &str)] = &[
    (b"SQLite format 3\0", "an SQLite file"),
    (&[0x1F, 0x8B], "packed by gzip"),
    (b"PK\x03\x04", "a zip archive"),
    (&[0x28, 0xB5, 0x2F, 0xFD], "packed by zstd"),
    (b"PAR1", "a Parquet file"),
    (b"%PDF", "a PDF"),
    (b"\x89PNG", "a picture"),
];

/// What the user says of a file, in place of guesses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Hints {
    /// Column, key or tag that holds x.
    pub x: Option<String>,
    /// Column, key or tag that holds y.
    pub y: Option<String>,
    /// Unit of y: `MB`, `MiB`, `bytes`, ...
    pub unit: Option<String>,
}

/// Why no curve came of a file.
#[derive(Debug, thiserror::Error)]
pub enum ImportError {
    /// It could not be read.
    #[error("cannot read {}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// Why not.
        #[source]
        source: std::io::Error,
    },
    /// Folders are for the caller to walk.
    #[error("{} is a folder, not a file", path.display())]
    Folder {
        /// The folder.
        path: PathBuf,
    },
    /// It is too large to be a memory curve.
    #[error("{} holds {size} bytes, more than the {LARGEST_FILE_BYTES} that are read", path.display())]
    TooLarge {
        /// The file.
        path: PathBuf,
        /// Its size.
        size: u64,
    },
    /// It is for `open`, or for another program.
    #[error("{} is {what}, not a text or event file", path.display())]
    Other {
        /// The file.
        path: PathBuf,
        /// What it is.
        what: &'static str,
    },
    /// No form fits.
    #[error("no memory curve found in {}; tried {}", path.display(), tried.join("; "))]
    NoCurve {
        /// The file.
        path: PathBuf,
        /// The forms that were tried, each with what was missing.
        tried: Vec<String>,
    },
    /// The unit that was asked for is none.
    #[error("`{unit}` is not a unit of memory; write bytes, KB, MB, GB, KiB, MiB or GiB")]
    Unit {
        /// What was asked for.
        unit: String,
    },
}

/// Reads every memory curve of a file: one a run, process, container or GPU.
pub fn read(path: &Path, hints: &Hints) -> Result<Vec<Curve>, ImportError> {
    let failed = |source| ImportError::Io { path: path.to_owned(), source };
    let found = std::fs::metadata(path).map_err(failed)?;
    if found.is_dir() {
        return Err(ImportError::Folder { path: path.to_owned() });
    }
    let too_large = |size| ImportError::TooLarge { path: path.to_owned(), size };
    if found.len() > LARGEST_FILE_BYTES {
        return Err(too_large(found.len()));
    }
    // A pipe or a growing file says nothing true of its size: the reading itself is bounded as well.
    let mut bytes = Vec::new();
    let mut bounded = std::io::Read::take(std::fs::File::open(path).map_err(failed)?, LARGEST_FILE_BYTES + 1);
    std::io::Read::read_to_end(&mut bounded, &mut bytes).map_err(failed)?;
    if bytes.len() as u64 > LARGEST_FILE_BYTES {
        return Err(too_large(bytes.len() as u64));
    }
    parse(path, &bytes, hints)
}

/// Reads curves from the bytes of a file; `path` gives the name only.
pub fn parse(path: &Path, bytes: &[u8], hints: &Hints) -> Result<Vec<Curve>, ImportError> {
    if let Some(unit) = &hints.unit
        && numbers::unit(unit).is_none()
    {
        return Err(ImportError::Unit { unit: unit.clone() });
    }
    if let Some((_, what)) = OTHERS.iter().find(|(start, _)| bytes.starts_with(start)) {
        return Err(ImportError::Other { path: path.to_owned(), what });
    }
    let mut tried = Vec::new();
    let curves = first_form_that_fits(bytes, hints, &mut tried);
    let name = path.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
    let mut curves = curves.ok_or_else(|| ImportError::NoCurve { path: path.to_owned(), tried })?;
    keep_the_highest(&mut curves);
    for curve in &mut curves {
        name_after_file(curve, &name);
        thin::thin(curve);
        count_points_where_x_stands_still(curve);
    }
    Ok(curves)
}

/// What a form makes of a file: curves, or what was missing.
type Attempt = Result<Vec<Curve>, String>;

fn first_form_that_fits(bytes: &[u8], hints: &Hints, tried: &mut Vec<String>) -> Option<Vec<Curve>> {
    let mut attempt = |form: &str, result: Attempt| match result {
        Ok(curves) if !curves.is_empty() => Some(curves),
        Ok(_) => {
            tried.push(format!("{form}: no points"));
            None
        }
        Err(why) => {
            tried.push(format!("{form}: {why}"));
            None
        }
    };
    if let Some(curves) = attempt("TensorBoard events", tensorboard::read(bytes, hints)) {
        return Some(curves);
    }
    let text = numbers::plain_text(bytes);
    if text.trim_start().starts_with(['{', '[']) {
        if let Some(curves) = attempt("Prometheus JSON", prometheus::read(&text, hints)) {
            return Some(curves);
        }
        if let Some(curves) = attempt("curve JSON", curve_json::read(&text, hints)) {
            return Some(curves);
        }
    }
    let (plain, decided) = locale::plain(&text);
    let mut found = None;
    for (form, read) in tools::FORMS {
        found = found.or_else(|| attempt(form, read(&plain, hints)));
    }
    // A table decides by column how its numbers are written.
    if found.is_none()
        && let Some(curves) = attempt("a table (CSV, TSV)", table::read(&text, hints))
    {
        return Some(curves);
    }
    let mut curves = found.or_else(|| attempt("a training log", log::read(&plain, hints)))?;
    curves.iter_mut().for_each(|curve| curve.notes.extend(decided.clone()));
    Some(curves)
}

fn keep_the_highest(curves: &mut Vec<Curve>) {
    if curves.len() > MOST_CURVES {
        let count = curves.len();
        let peak = |curve: &Curve| curve.y.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        curves.sort_by(|a, b| peak(b).total_cmp(&peak(a)));
        curves.truncate(MOST_CURVES);
        curves[0].notes.push(format!("{count} curves in the file; the {MOST_CURVES} highest were read"));
    }
}

/// An x that is everywhere the same would make any curve look as if no time had passed.
fn count_points_where_x_stands_still(curve: &mut Curve) {
    let first = curve.x.iter().copied().find(|x| x.is_finite());
    let moves = curve.x.iter().any(|x| x.is_finite() && first.is_some_and(|first| (x - first).abs() > 0.0));
    if curve.x.len() > 1 && !moves {
        curve.x = (0..curve.y.len()).map(|n| n as f64).collect();
        curve.axis = Axis::Sample;
        curve.notes.push("x is everywhere the same; the points are counted instead".to_owned());
    }
}

/// Takes down where memory ends, as the file says.
fn set_limit(curve: &mut Curve, limit: Option<f64>) {
    curve.context.limit = limit.filter(|limit| *limit > 0.0 && *limit < 9e18).map(Bytes::from_f64);
    curve.context.limit_from = curve.context.limit.map(|_| "the file".to_owned());
}

/// Memory that is free becomes memory in use: what there is in all minus it. Where nobody says how much there is, the
/// curve has its shape and no level.
fn turn_round(curve: &mut Curve, total: Option<f64>, name: &str) {
    let top = total.unwrap_or_else(|| curve.y.iter().copied().fold(0.0, f64::max));
    for y in &mut curve.y {
        *y = top - *y;
    }
    curve.no_level = total.is_none();
    curve.notes.push(if total.is_some() {
        format!("`{name}` turned into memory in use: the machine's total minus it")
    } else {
        format!("`{name}` turned into memory in use: its highest value minus it, so only the change is true, not the level")
    });
}

fn name_after_file(curve: &mut Curve, file: &str) {
    curve.name = match curve.name.as_str() {
        "" => file.to_owned(),
        own if file.is_empty() || own == file => own.to_owned(),
        own => format!("{file}: {own}"),
    };
}
