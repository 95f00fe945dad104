//! Reads memory curves that others wrote: JSON, CSV, training logs, the files of known tools.
//!
//! The form is told by what is in the file, not by its name. What had to be guessed (which column, which unit) stands
//! in the curve's notes, for the user to see and to overrule with `Hints`. Foreign bytes: nothing here panics.

mod allocator;
mod apart;
mod cgroup_files;
mod curve_json;
mod json_table;
mod locale;
mod log;
mod lowtide_series;
mod memory_names;
mod numbers;
mod page_cache;
mod passes;
mod pauses;
mod process_parts;
mod prometheus;
mod table;
mod tensorboard;
mod thin;
mod time_units;
mod times;
mod tools;
mod torn;
mod whose;

use lowtide_model::{Axis, Bytes, Curve};
use std::path::{Path, PathBuf};

/// A file above this is refused rather than read into memory.
const LARGEST_FILE_BYTES: u64 = 1 << 30;

/// More curves than this in one file would be no answer to anybody; the highest are kept.
const MOST_CURVES: usize = 10_000;

/// Curves of GPU memory beside the one that is judged first: eight cards with two sizes each.
const MOST_BESIDE: usize = 16;

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
    /// Nothing is in it.
    #[error("{} is empty", path.display())]
    Empty {
        /// The file.
        path: PathBuf,
    },
    /// Its form is known, and what was wanted is not in it.
    #[error("no memory curve in {}: {why}", path.display())]
    Wanting {
        /// The file.
        path: PathBuf,
        /// What is wrong, and what helps.
        why: String,
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

/// What was said of sizes of memory beside a curve that no curve was made of: who passes the curve passes nothing of them.
pub fn left_out(curve: &Curve) -> Option<&str> {
    curve.notes.iter().find(|note| note.starts_with(whose::NOT_READ)).map(String::as_str)
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
    if bytes.trim_ascii().is_empty() {
        return Err(ImportError::Empty { path: path.to_owned() });
    }
    let mut tried = Vec::new();
    let curves = first_form_that_fits(bytes, hints, &mut tried);
    let name = path.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
    let mut curves = curves.ok_or_else(|| no_curve(path, tried))?;
    if let Some(why) = refuse_what_no_memory_is(&mut curves) {
        return Err(ImportError::Wanting { path: path.to_owned(), why });
    }
    allocator::join(&mut curves);
    keep_the_highest(&mut curves);
    for curve in &mut curves {
        name_after_file(curve, &name);
        pauses::leave_out(curve);
        thin::thin(curve);
        count_points_where_x_stands_still(curve);
    }
    Ok(curves)
}

/// Why a form gives no curve.
#[derive(Debug)]
enum Missing {
    /// The file may have another form.
    Form(String),
    /// The file has this form; something else is wrong.
    Wanted(String),
}

impl From<String> for Missing {
    fn from(why: String) -> Self {
        Self::Form(why)
    }
}

impl From<&str> for Missing {
    fn from(why: &str) -> Self {
        Self::Form(why.to_owned())
    }
}

/// What a form makes of a file: curves, or what was missing.
type Attempt = Result<Vec<Curve>, Missing>;

fn no_curve(path: &Path, tried: Vec<(String, Missing)>) -> ImportError {
    let path = path.to_owned();
    let wanted = tried.iter().find_map(|(_, missing)| match missing {
        Missing::Wanted(why) => Some(why.clone()),
        Missing::Form(_) => None,
    });
    if let Some(why) = wanted {
        return ImportError::Wanting { path, why };
    }
    let tried = tried.into_iter().map(|(form, missing)| match missing {
        Missing::Form(why) | Missing::Wanted(why) => format!("{form}: {why}"),
    });
    ImportError::NoCurve { path, tried: tried.collect() }
}

fn first_form_that_fits(
    bytes: &[u8],
    hints: &Hints,
    tried: &mut Vec<(String, Missing)>,
) -> Option<Vec<Curve>> {
    let mut attempt = |form: &str, result: Attempt| {
        let missing = match result {
            Ok(curves) if !curves.is_empty() => return Some(curves),
            Ok(_) => Missing::Form("no points".to_owned()),
            Err(missing) => missing,
        };
        tried.push((form.to_owned(), missing));
        None
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
        let table = json_table::read(&text, hints);
        let sure = is_sure(&table);
        let curves = attempt("a table in JSON", table);
        if curves.is_some() || sure {
            return curves;
        }
    }
    let (text, torn) = torn::cut(&text);
    let (plain, decided) = locale::plain(text);
    let mut found = None;
    for (form, read) in tools::FORMS {
        let result = read(&plain, hints);
        let sure = is_sure(&result);
        found = attempt(form, result);
        if sure {
            return None;
        }
        if found.is_some() {
            break;
        }
    }
    // A table decides by column how its numbers are written.
    if found.is_none() {
        let table = table::read(text, hints);
        // A column that was asked for and is not there may be a word in a log.
        let sure = is_sure(&table) && hints.y.is_none();
        let curves = attempt("a table (CSV, TSV)", table);
        if curves.is_some() || sure {
            return Some(noted(curves?, &[torn]));
        }
    }
    let curves = found.or_else(|| attempt("a training log", log::read(&plain, hints)))?;
    Some(noted(curves, &[decided, torn]))
}

/// Whether a file has this form, and another need not be tried: it would only find what this one refused.
fn is_sure(result: &Attempt) -> bool {
    matches!(result, Err(Missing::Wanted(_)))
}

fn noted(mut curves: Vec<Curve>, notes: &[Option<String>]) -> Vec<Curve> {
    curves.iter_mut().for_each(|curve| curve.notes.extend(notes.iter().flatten().cloned()));
    curves
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

/// No machine has more.
const MOST_BYTES: f64 = (1_u64 << 60) as f64;

/// Leaves out curves most of which no memory can be, and says of the others what is not read; tells why if none is left.
fn refuse_what_no_memory_is(curves: &mut Vec<Curve>) -> Option<String> {
    let told = |curve: &Curve| {
        let known = curve.y.iter().filter(|y| !y.is_nan()).count();
        let below = curve.y.iter().filter(|y| **y < 0.0).count();
        let above = curve.y.iter().filter(|y| **y > MOST_BYTES).count();
        (known, below, above)
    };
    let absurd = |curve: &Curve| {
        let (known, below, above) = told(curve);
        (below + above) * 2 > known
    };
    if let Some(first) = curves.first().filter(|_| curves.iter().all(absurd)) {
        let (known, below, above) = told(first);
        let what = if below > above { "below zero" } else { "more than any machine has" };
        let how = first.notes.first().map_or("", String::as_str);
        return Some(format!("{} of {known} values are {what} ({how})", below.max(above)));
    }
    curves.retain(|curve| !absurd(curve));
    for curve in curves {
        let (known, below, above) = told(curve);
        if below + above > 0 {
            curve
                .notes
                .push(format!("{} of {known} values are no size of memory and not used", below + above));
            let holds = |y: &f64| (0.0..=MOST_BYTES).contains(y);
            curve.y.iter_mut().filter(|y| !holds(y)).for_each(|y| *y = f64::NAN);
        }
    }
    None
}

/// An x that is everywhere the same would make any curve look as if no time had passed.
fn count_points_where_x_stands_still(curve: &mut Curve) {
    let first = curve.x.iter().copied().find(|x| x.is_finite());
    let moves = curve.x.iter().any(|x| x.is_finite() && first.is_some_and(|first| (x - first).abs() > 0.0));
    if curve.x.len() > 1 && !moves {
        curve.x = (0..curve.y.len()).map(|n| n as f64).collect();
        curve.axis = Axis::Sample;
        let why = if first.is_some() { "x is everywhere the same" } else { "x holds no numbers" };
        curve.notes.push(format!("{why}; the points are counted instead"));
    }
}

/// Takes down where memory ends, as the file says.
fn set_limit(curve: &mut Curve, limit: Option<f64>) {
    curve.context.limit = limit.filter(|limit| *limit > 0.0 && *limit < 9e18).map(Bytes::from_f64);
    curve.context.limit_from = curve.context.limit.map(|_| "the file".to_owned());
}

/// The value of what is told again and again and hardly differs, as a total does.
fn constant(values: &[f64]) -> Option<f64> {
    let first = *values.first()?;
    values.iter().all(|one| (one - first).abs() <= first * 0.01).then_some(first)
}

/// Memory that is free becomes memory in use: what there is in all minus it. Where nobody says how much there is, the
/// curve has its shape and no level.
fn turn_round(curve: &mut Curve, total: Option<f64>, name: &str) {
    let top = total.unwrap_or_else(|| curve.y.iter().copied().fold(0.0, f64::max));
    for y in &mut curve.y {
        *y = top - *y;
    }
    curve.no_level = total.is_none();
    if name.to_ascii_lowercase().contains("memfree") {
        curve.notes.push(format!("`{name}` falls when files are read, too: the page cache is not free"));
    }
    curve.notes.push(if total.is_some() {
        format!("`{name}` turned into memory in use: the machine's total minus it")
    } else {
        format!("`{name}` turned into memory in use: its highest value minus it, so only the change is true, not the level")
    });
}

/// The words that are there, in a row.
fn named(words: &[&str]) -> String {
    let there = words.iter().copied().filter(|word| !word.is_empty());
    there.collect::<Vec<_>>().join(", ")
}

fn name_after_file(curve: &mut Curve, file: &str) {
    curve.name = match curve.name.as_str() {
        "" => file.to_owned(),
        own if file.is_empty() || own == file => own.to_owned(),
        own => format!("{file}: {own}"),
    };
}
