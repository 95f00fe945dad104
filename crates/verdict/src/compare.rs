//! What differs between two runs, or two sides of several runs, and whether it is more than noise.
//!
//! Every run becomes a list of numbers with a name: a level, a growth or a peak of one kind of memory of one role. The
//! sides are compared number by number. With several runs a side their spread is the noise; with one a side there is
//! only the scatter inside each run, and that is said. Not here: tables (see `lowtide` and `serve`).

mod measure;
mod words;

use crate::{Fits, Kind, RunVerdict};
use lowtide_model::{Axis, Curve, Recording};
pub use measure::{Key, Memory, Phase, Until};
use measure::{Measured, end_of, has_seconds, measure};
use std::collections::{BTreeMap, BTreeSet};

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

/// Where the numbers of a run come from.
#[derive(Clone, Copy, Debug)]
pub enum Source<'a> {
    /// A recording of ours.
    Recording(&'a Recording),
    /// A curve of another tool.
    Curve(&'a Curve),
}

/// A run that is compared.
#[derive(Clone, Copy, Debug)]
pub struct Compared<'a> {
    /// What people call it.
    pub name: &'a str,
    /// Its facts.
    pub what: Source<'a>,
    /// What it is by itself.
    pub run: &'a RunVerdict,
}

/// What one side says of one number.
#[derive(Clone, Copy, Debug, serde::Serialize)]
pub struct Side {
    /// Runs that have it.
    pub runs: usize,
    /// Their mean.
    pub mean_bytes: f64,
    /// Standard error of the mean.
    #[serde(skip)]
    error: f64,
    /// Degrees of freedom behind it; none where only one run was seen.
    #[serde(skip)]
    freedom: Option<f64>,
}

/// One number on both sides.
#[derive(Clone, Debug, serde::Serialize)]
pub struct Difference {
    /// Its name.
    #[serde(flatten)]
    pub key: Key,
    /// On side A.
    pub a: Side,
    /// On side B.
    pub b: Side,
    /// B less A.
    pub bytes: f64,
    /// 95 % interval of it.
    pub low: f64,
    /// ... and its upper end.
    pub high: f64,
    /// Whether it is more than noise and worth a word.
    pub real: bool,
}

/// What the comparison found.
#[derive(Debug, serde::Serialize)]
pub struct Comparison {
    /// Runs of side A.
    pub a: Vec<Told>,
    /// Runs of side B.
    pub b: Vec<Told>,
    /// The largest first.
    pub differences: Vec<Difference>,
    /// Whether the spread between runs is known.
    pub spread_known: bool,
    /// Up to where levels are compared, when one run is clearly longer than another.
    pub cut: Option<(Axis, f64)>,
    /// Whether runs are measured over different axes: then nobody knows whether one is longer.
    pub mixed_axes: bool,
}

/// What one run is, in a line.
#[derive(Debug, serde::Serialize)]
pub struct Told {
    /// Its name or file.
    pub file: String,
    /// What it is.
    pub verdict: Kind,
    /// Whether it fits.
    pub outcome: Fits,
    /// In a sentence.
    pub headline: String,
}

/// The numbers of one run: all that is left of it once it was looked at.
#[derive(Debug)]
pub struct Measures {
    told: Told,
    end: Option<Until>,
    /// Whether it can be looked at over time.
    has_seconds: bool,
    numbers: BTreeMap<Key, Measured>,
}

impl Measures {
    /// Looks at a run, up to a place where that is wanted.
    pub fn of(run: &Compared<'_>, until: Option<Until>) -> Self {
        let main = &run.run.main;
        let told = Told {
            file: run.name.to_owned(),
            verdict: main.verdict,
            outcome: main.outcome.is,
            headline: main.headline.clone(),
        };
        Self { told, end: end_of(run, until), has_seconds: has_seconds(run), numbers: measure(run, until) }
    }

    fn axis(&self) -> Option<Axis> {
        self.end.map(|(axis, _)| axis)
    }
}

/// Compares two sides of one run or several.
pub fn compare(a: &[Compared<'_>], b: &[Compared<'_>]) -> Comparison {
    let runs: Vec<&Compared<'_>> = a.iter().chain(b).collect();
    let looked = compare_by(a.len(), b.len(), |n, until| {
        Ok::<_, std::convert::Infallible>(Measures::of(runs[n], until))
    });
    match looked {
        Ok(found) => found,
        Err(never) => match never {},
    }
}

/// Compares two sides whose runs are too large to be held together: `look` is asked for one after the other, those of
/// side A first, and again where not all of them tell steps, and where levels are compared up to a place.
pub fn compare_by<E>(
    a: usize,
    b: usize,
    mut look: impl FnMut(usize, Option<Until>) -> Result<Measures, E>,
) -> Result<Comparison, E> {
    let mut all = |until| (0..a + b).map(|n| look(n, until)).collect::<Result<Vec<_>, E>>();
    let mut runs = all(None)?;
    if are_mixed(&runs) && runs.iter().all(|run| run.has_seconds) {
        runs = all(Some((Axis::Seconds, f64::INFINITY)))?;
    }
    let cut = shorter_end(&runs);
    if cut.is_some() {
        runs = all(cut)?;
    }
    let mixed_axes = are_mixed(&runs);
    let b = runs.split_off(a);
    Ok(Comparison {
        differences: differences(&runs, &b),
        spread_known: runs.len() > 1 && b.len() > 1,
        a: runs.into_iter().map(|run| run.told).collect(),
        b: b.into_iter().map(|run| run.told).collect(),
        cut,
        mixed_axes,
    })
}

fn are_mixed(runs: &[Measures]) -> bool {
    runs.windows(2).any(|pair| pair[0].axis() != pair[1].axis())
}

fn differences(a: &[Measures], b: &[Measures]) -> Vec<Difference> {
    let (left, right) = (all(a), all(b));
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
    differences
}

/// Levels are compared where all runs still have some: growth that one run had no time for is no difference.
fn shorter_end(runs: &[Measures]) -> Option<Until> {
    let ends: Vec<Until> = runs.iter().filter_map(|run| run.end).collect();
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
fn all(side: &[Measures]) -> BTreeMap<Key, Vec<Measured>> {
    let mut out: BTreeMap<Key, Vec<Measured>> = BTreeMap::new();
    for (key, value) in side.iter().flat_map(|run| &run.numbers) {
        out.entry(key.clone()).or_default().push(*value);
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
