//! `lowtide compare`: what differs between two runs, or two sides of several runs, and whether it is more than noise.
//!
//! Every run becomes a list of numbers with a name: a level, a growth or a peak of one kind of memory of one role. The
//! sides are compared number by number. With several runs a side their spread is the noise; with one a side there is
//! only the scatter inside each run, and that is said. Not here: how it looks (see `render::compare`).

mod measure;

use super::subject::{self, Answer};
use crate::cli::{CompareArgs, Format};
use crate::failure::Failure;
use crate::render;
use lowtide_model::Axis;
pub(crate) use measure::{Key, Memory, Phase};
use measure::{Measured, end_of, measure};
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::process::ExitCode;

/// Two-sided 95 % quantiles of Student's t for 1, 2, ... degrees of freedom.
const STUDENT: [f64; 30] = [
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131,
    2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042,
];
/// ... and for more.
const NORMAL: f64 = 1.96;
/// A difference below this part of the larger level is not worth a word, however sure it is.
const WORTH: f64 = 0.01;
/// ... nor below this part where each side is one run: two runs of one program differ by that much by themselves.
const WORTH_ALONE: f64 = 0.03;
/// ... and below this many bytes neither: the kernel itself counts that coarsely.
const LEAST_BYTES: f64 = 1_048_576.0;

/// A run is clearly longer when the other lacks this part of it.
const LONGER: f64 = 0.1;

/// What one side says of one number.
#[derive(Clone, Copy, Debug, serde::Serialize)]
pub(crate) struct Side {
    pub(crate) runs: usize,
    pub(crate) mean_bytes: f64,
    /// Standard error of the mean.
    #[serde(skip)]
    error: f64,
    /// Degrees of freedom behind it; none where only one run was seen.
    #[serde(skip)]
    freedom: Option<f64>,
}

/// One number on both sides.
#[derive(Clone, Debug, serde::Serialize)]
pub(crate) struct Difference {
    #[serde(flatten)]
    pub(crate) key: Key,
    pub(crate) a: Side,
    pub(crate) b: Side,
    /// B less A.
    pub(crate) bytes: f64,
    /// 95 % interval of it.
    pub(crate) low: f64,
    pub(crate) high: f64,
    /// Whether it is more than noise and worth a word.
    pub(crate) real: bool,
}

/// What the comparison found.
#[derive(Debug, serde::Serialize)]
pub(crate) struct Comparison {
    pub(crate) a: Vec<Told>,
    pub(crate) b: Vec<Told>,
    /// The largest first.
    pub(crate) differences: Vec<Difference>,
    /// Whether the spread between runs is known.
    pub(crate) spread_known: bool,
    /// Up to where levels are compared, when one run is clearly longer than another.
    pub(crate) cut: Option<(Axis, f64)>,
}

/// What one run is, in a line.
#[derive(Debug, serde::Serialize)]
pub(crate) struct Told {
    pub(crate) file: String,
    pub(crate) verdict: lowtide_verdict::Kind,
    pub(crate) headline: String,
}

pub(crate) fn compare(args: &CompareArgs) -> Result<ExitCode, Failure> {
    let one = |at: usize| args.pair.get(at).cloned().into_iter().collect::<Vec<PathBuf>>();
    let (a, b) = if args.pair.is_empty() { (args.a.clone(), args.b.clone()) } else { (one(0), one(1)) };
    let (a, b) = (side(&a, args)?, side(&b, args)?);
    let found = comparison(&a, &b);
    if found.differences.is_empty() {
        return Err(Failure::new("the two sides have nothing in common that could be compared")
            .hint("compare two recordings, or two curves that measure the same thing"));
    }
    match args.format {
        Format::Text => render::say(&render::compare_text(&found, render::text_width()))?,
        Format::Json => render::say(&render::compare_json(&found))?,
    }
    Ok(ExitCode::SUCCESS)
}

/// A side is all runs of its files; one that can't be read spoils it.
fn side(files: &[PathBuf], args: &CompareArgs) -> Result<Vec<Answer>, Failure> {
    let mut gathered = subject::gather(files, &args.about)?;
    if !gathered.failures.is_empty() {
        return Err(gathered.failures.swap_remove(0));
    }
    Ok(gathered.subjects.into_iter().map(subject::answer).collect())
}

fn comparison(a: &[Answer], b: &[Answer]) -> Comparison {
    let cut = shorter_end(a, b);
    let until = cut.as_ref().map_or(f64::INFINITY, |(_, end)| *end);
    let (left, right) = (all(a, until), all(b, until));
    let keys: BTreeSet<&Key> = left.keys().chain(right.keys()).collect();
    let both = |key: &&Key| Some(((*key).clone(), held(key, &left, a.len())?, held(key, &right, b.len())?));
    let mut differences: Vec<Difference> =
        keys.iter().filter_map(both).map(|(key, a, b)| difference(key, &a, &b)).collect();
    differences.sort_by(|x, y| {
        let rank = |d: &Difference| (d.real, !d.key.phase.is_rate());
        rank(y)
            .cmp(&rank(x))
            .then_with(|| y.bytes.abs().total_cmp(&x.bytes.abs()))
            .then_with(|| x.key.cmp(&y.key))
    });
    let told = |answer: &Answer| Told {
        file: answer.subject.label.clone(),
        verdict: answer.run.main.verdict,
        headline: answer.run.main.headline.clone(),
    };
    Comparison {
        a: a.iter().map(told).collect(),
        b: b.iter().map(told).collect(),
        differences,
        spread_known: a.len() > 1 && b.len() > 1,
        cut,
    }
}

/// Levels are compared where all runs still have some: growth that one run had no time for is no difference.
fn shorter_end(a: &[Answer], b: &[Answer]) -> Option<(Axis, f64)> {
    let ends: Vec<(Axis, f64)> = a.iter().chain(b).filter_map(end_of).collect();
    let (axis, _) = *ends.first()?;
    let shortest = ends.iter().map(|end| end.1).fold(f64::INFINITY, f64::min);
    let longest = ends.iter().map(|end| end.1).fold(f64::NEG_INFINITY, f64::max);
    let comparable = ends.iter().all(|end| end.0 == axis);
    (comparable && shortest < (1.0 - LONGER) * longest).then_some((axis, shortest))
}

/// A number of one side. A role or a kind of memory that its recordings lack is nothing there, and that is a number too.
fn held(key: &Key, side: &BTreeMap<Key, Vec<Measured>>, runs: usize) -> Option<Vec<Measured>> {
    if let Some(values) = side.get(key) {
        return Some(values.clone());
    }
    let tells_roles = side.keys().any(|key| key.role.is_some() && !key.phase.is_rate());
    let nothing = Measured { bytes: 0.0, error: 0.0 };
    (tells_roles && key.role.is_some() && !key.phase.is_rate()).then(|| vec![nothing; runs])
}

/// The numbers of all runs of a side, by name.
fn all(answers: &[Answer], until: f64) -> BTreeMap<Key, Vec<Measured>> {
    let runs: Vec<BTreeMap<Key, Measured>> = answers.iter().map(|answer| measure(answer, until)).collect();
    let mut out: BTreeMap<Key, Vec<Measured>> = BTreeMap::new();
    for (key, value) in runs.into_iter().flatten() {
        out.entry(key).or_default().push(value);
    }
    out
}

fn difference(key: Key, a: &[Measured], b: &[Measured]) -> Difference {
    let (a, b) = (summed(a), summed(b));
    let bytes = b.mean_bytes - a.mean_bytes;
    let half = quantile(&a, &b) * a.error.hypot(b.error);
    let (low, high) = (bytes - half, bytes + half);
    let level = a.mean_bytes.abs().max(b.mean_bytes.abs());
    let worth = if a.freedom.is_some() && b.freedom.is_some() { WORTH } else { WORTH_ALONE };
    // A rate is small by nature: only its interval counts.
    let least = if key.phase.is_rate() { 0.0 } else { (worth * level).max(LEAST_BYTES) };
    let real = (low > 0.0 || high < 0.0) && bytes.abs() > least;
    Difference { key, a, b, bytes, low, high, real }
}

fn summed(values: &[Measured]) -> Side {
    let n = values.len() as f64;
    let mean = values.iter().map(|value| value.bytes).sum::<f64>() / n;
    if values.len() < 2 {
        let error = values.first().map_or(0.0, |value| value.error);
        return Side { runs: values.len(), mean_bytes: mean, error, freedom: None };
    }
    let variance = values.iter().map(|value| (value.bytes - mean).powi(2)).sum::<f64>() / (n - 1.0);
    Side { runs: values.len(), mean_bytes: mean, error: (variance / n).sqrt(), freedom: Some(n - 1.0) }
}

/// Welch's degrees of freedom where both sides have a spread.
fn quantile(a: &Side, b: &Side) -> f64 {
    let part = |side: &Side| side.freedom.map_or(0.0, |freedom| side.error.powi(4) / freedom);
    let (sum, parts) = ((a.error.powi(2) + b.error.powi(2)).powi(2), part(a) + part(b));
    if parts <= 0.0 {
        return NORMAL;
    }
    let freedom = (sum / parts).floor().max(1.0);
    STUDENT.get(freedom as usize - 1).copied().unwrap_or(NORMAL)
}

#[cfg(test)]
mod tests {
    use super::*;
    use lowtide_model::Role;

    fn key() -> Key {
        Key { role: Some(Role::Trainer), memory: Memory::Anon, phase: Phase::End }
    }

    fn runs(gib: &[f64]) -> Vec<Measured> {
        gib.iter().map(|gib| Measured { bytes: gib * 1e9, error: 1e6 }).collect()
    }

    #[test]
    fn three_runs_a_side_tell_a_fix_from_luck() {
        let fixed = difference(key(), &runs(&[17.0, 17.2, 16.9]), &runs(&[5.1, 5.3, 5.0]));
        assert!(fixed.real && fixed.high < -11e9 && fixed.low > -13e9, "{fixed:?}");
        let luck = difference(key(), &runs(&[17.0, 14.0, 19.0]), &runs(&[15.0, 18.0, 16.0]));
        assert!(!luck.real && luck.low < 0.0 && luck.high > 0.0, "{luck:?}");
    }

    #[test]
    fn one_run_a_side_has_only_its_own_scatter() {
        let quiet = difference(key(), &runs(&[17.0]), &runs(&[16.0]));
        assert!(quiet.real && (quiet.high - quiet.low) < 1e7, "{quiet:?}");
        let crumbs = difference(key(), &runs(&[17.0]), &runs(&[17.2]));
        assert!(!crumbs.real, "two runs of one program differ by that much by themselves");
    }

    #[test]
    fn welch_is_careful_with_few_runs() {
        let few = quantile(&summed(&runs(&[1.0, 2.0])), &summed(&runs(&[1.0, 2.0])));
        assert!((few - 4.303).abs() < 0.01, "{few}");
    }
}
