//! Tells rows apart that have the same x: several processes wrote them in turn, and as one curve a leak of one of them
//! would look like peaks.
//!
//! A label (a column, or what stands at one place of each line) tells whose a row is if it has few values and each x comes
//! once with each of them. What comes again with x is no such label: a loss, a load, an epoch. Labels that say when in a
//! step a row was written (`before`, `backward`, `micro_batch 2`) part nothing: that is one process, with peaks.

use lowtide_model::Axis;
use std::collections::{BTreeMap, BTreeSet};

/// Rows that are looked at to find the label.
pub(crate) const LOOKED_AT: usize = 20_000;

/// Labels that are tried, alone and in twos.
const MOST_LABELS: usize = 12;

/// Rows of a value: fewer are no curve.
const FEWEST_ROWS: usize = 3;

/// How many rows, of a hundred, may come again with the same x and value: first hardly any, then what starts and
/// repeated lines make.
const TWICE_OF_HUNDRED: [usize; 2] = [2, 10];

/// How many of the places, of a hundred, between its first and its last row a value must stand at.
const COVERED_OF_HUNDRED: usize = 70;

/// Values stand at a part of all places, or they are measurements.
const PART_OF_PLACES: usize = 4;

/// How many times as rough rows are in the order of the file as each of the curves that they fall into.
const ROUGHER: f64 = 3.0;

/// Rows at one x of which each has a curve of its own by its size: among more, noise sorted by size looks smooth.
const FEW_AT_ONE_X: usize = 8;

/// Words that say when in a step a row was written.
const MOMENTS: &[&str] = &[
    "before",
    "after",
    "pre",
    "post",
    "start",
    "end",
    "begin",
    "forward",
    "backward",
    "fwd",
    "bwd",
    "train",
    "training",
    "val",
    "valid",
    "validation",
    "eval",
    "evaluation",
    "test",
    "optimizer",
    "opt",
    "step",
    "gc",
    "info",
    "debug",
    "warning",
    "error",
];

/// Names of labels that count, or name, what one process does in a step, or is in.
const WITHIN_A_STEP: &[&str] = &[
    "micro",
    "mb",
    "microbatch",
    "minibatch",
    "substep",
    "accum",
    "batch",
    "layer",
    "block",
    "attempt",
    "phase",
    "stage",
    "event",
    "when",
    "epoch",
    "epochs",
    "step",
    "steps",
    "iter",
    "iteration",
    "it",
    "time",
    "pass",
    "round",
    "cycle",
    "level",
    "line",
    "lineno",
    "py",
];

/// What may say whose a row is.
pub(crate) struct Label<'a> {
    pub(crate) name: &'a str,
    /// One a row.
    pub(crate) values: Vec<Option<&'a str>>,
}

/// What tells rows apart that have the same x.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Told {
    /// These labels, together.
    By(Vec<usize>),
    /// They are moments in one process.
    Moments,
    Nothing,
}

/// Where a row stands: how often x began anew before it, and x.
pub(crate) type Spot = (u32, u64);

/// The spots of rows, which begin anew where x falls by most of what it had run through: there begins another pass.
pub(crate) fn spots(x: &[f64]) -> Vec<Spot> {
    let (mut passes, mut lowest, mut highest, mut before) = (0, f64::INFINITY, f64::NEG_INFINITY, f64::NAN);
    let spot = |x: &f64| {
        if before - x > (highest - lowest) / 2.0 {
            passes += 1;
            (lowest, highest) = (*x, *x);
        }
        (lowest, highest, before) = (lowest.min(*x), highest.max(*x), *x);
        (passes, x.to_bits())
    };
    x.iter().map(spot).collect()
}

/// The same without passes: rows that were sorted by another column than x.
pub(crate) fn spots_in_any_order(x: &[f64]) -> Vec<Spot> {
    x.iter().map(|x| (0, x.to_bits())).collect()
}

/// Whether many spots have several rows.
pub(crate) fn share_spots(spots: &[Spot]) -> bool {
    let spots = &spots[..spots.len().min(LOOKED_AT)];
    let places: BTreeSet<&Spot> = spots.iter().collect();
    places.len() > 1 && spots.len() * 5 >= places.len() * 6
}

/// Which labels tell rows apart that share their spots.
pub(crate) fn told(spots: &[Spot], labels: &[Label<'_>]) -> Told {
    let spots = &spots[..spots.len().min(LOOKED_AT)];
    let (moments, labels_of_one): (Vec<usize>, Vec<usize>) = (0..labels.len())
        .filter(|label| has_few(&labels[*label], spots.len()))
        .partition(|label| says_when(&labels[*label]));
    let first = &labels_of_one[..labels_of_one.len().min(MOST_LABELS)];
    let alone = || first.iter().map(|label| vec![*label]);
    let in_twos = || first.iter().enumerate().flat_map(|(n, a)| first[n + 1..].iter().map(|b| vec![*a, *b]));
    for twice in TWICE_OF_HUNDRED {
        if let Some(found) = alone().chain(in_twos()).find(|set| tell(spots, labels, set, twice)) {
            return Told::By(found);
        }
    }
    let by_moments = moments.iter().any(|label| tell(spots, labels, &[*label], TWICE_OF_HUNDRED[1]));
    if by_moments { Told::Moments } else { Told::Nothing }
}

/// Whether a label has several values, and rows enough for each.
pub(crate) fn has_few(label: &Label<'_>, rows: usize) -> bool {
    let known = label.values.iter().take(rows).flatten();
    let values: BTreeSet<&str> = known.clone().copied().collect();
    values.len() > 1 && values.len() * FEWEST_ROWS <= rows && known.count() * 10 >= rows * 9
}

/// Whether a label comes back to its values again and again, as those do who write in turn.
pub(crate) fn takes_turns(label: &Label<'_>) -> bool {
    let known: Vec<&str> = label.values.iter().take(LOOKED_AT).flatten().copied().collect();
    let values: BTreeSet<&str> = known.iter().copied().collect();
    known.windows(2).filter(|pair| pair[0] != pair[1]).count() >= 2 * values.len()
}

/// Whether a label says when in a step a row was written. `train-0` and `train-1` are two that train.
pub(crate) fn says_when(label: &Label<'_>) -> bool {
    let lower = label.name.to_ascii_lowercase();
    if lower.split(|c: char| !c.is_ascii_alphabetic()).any(|part| WITHIN_A_STEP.contains(&part)) {
        return true;
    }
    let values: BTreeSet<&str> = label.values.iter().take(LOOKED_AT).flatten().copied().collect();
    let form = |value: &&str| value.chars().filter(|c| !c.is_ascii_digit()).collect::<String>();
    let forms: BTreeSet<String> = values.iter().map(form).collect();
    let is_moment = |form: &String| {
        let lower = form.to_ascii_lowercase();
        let mut words = lower.split(|c: char| !c.is_alphabetic()).filter(|word| !word.is_empty()).peekable();
        words.peek().is_some() && words.all(|word| MOMENTS.contains(&word))
    };
    forms.len() > 1 && forms.iter().any(is_moment)
}

/// Whether each spot has one row for each value, but for few; values may come later than others and go before them.
fn tell(spots: &[Spot], labels: &[Label<'_>], set: &[usize], twice_of_hundred: usize) -> bool {
    let mut places: BTreeMap<Spot, usize> = BTreeMap::new();
    let mut stands: BTreeMap<Vec<&str>, BTreeSet<usize>> = BTreeMap::new();
    let mut rows = 0;
    for (row, spot) in spots.iter().enumerate() {
        let next = places.len();
        let place = *places.entry(*spot).or_insert(next);
        let values: Option<Vec<&str>> = set.iter().map(|label| labels[*label].values[row]).collect();
        if let Some(values) = values {
            rows += 1;
            stands.entry(values).or_default().insert(place);
        }
    }
    let life = |at: &BTreeSet<usize>| at.last().zip(at.first()).map_or(0, |(last, first)| last - first + 1);
    let covered: usize = stands.values().map(BTreeSet::len).sum();
    let lived: usize = stands.values().map(life).sum();
    stands.len() > 1
        && stands.len() * FEWEST_ROWS <= rows
        && (rows - covered) * 100 <= rows * twice_of_hundred
        && covered * 100 >= lived * COVERED_OF_HUNDRED
        && covered * PART_OF_PLACES >= stands.len() * places.len()
}

/// What has to be known of rows that share their x and that nothing tells apart, where they fall into curves: each then
/// is far smoother than all in the order of the file.
pub(crate) fn note(spots: &[Spot], y: &[f64], axis: Axis) -> Option<String> {
    let mut numbers: BTreeMap<Spot, usize> = BTreeMap::new();
    let mut at: Vec<Vec<f64>> = Vec::new();
    for (spot, y) in spots.iter().zip(y).filter(|(_, y)| y.is_finite()) {
        let number = *numbers.entry(*spot).or_insert(at.len());
        if number == at.len() {
            at.push(Vec::new());
        }
        at[number].push(*y);
    }
    let mut sizes: Vec<usize> = at.iter().map(Vec::len).collect();
    sizes.sort_unstable();
    let usual = sizes.get(sizes.len() / 2).copied().filter(|usual| *usual > 1 && at.len() >= FEWEST_ROWS)?;
    let known: Vec<f64> = y.iter().copied().filter(|y| y.is_finite()).collect();
    let whole: f64 = known.windows(2).map(|pair| (pair[1] - pair[0]).abs()).sum();
    let by_place = roughness(&at);
    at.iter_mut().for_each(|at| at.sort_by(f64::total_cmp));
    let by_size = if usual <= FEW_AT_ONE_X { roughness(&at) } else { f64::INFINITY };
    let what = match axis {
        Axis::Step => "step",
        Axis::Epoch => "epoch",
        Axis::Seconds => "time",
        Axis::Sample => "x",
    };
    (whole > ROUGHER * by_place.min(by_size)).then(|| {
        format!(
            "most rows share their {what} with others ({usual} at a {what}) that tell other sizes, and nothing says whose \
             they are: if several processes wrote them, a leak of one may look like peaks; write a rank or a pid on each"
        )
    })
}

/// How far rows move from one spot to the next, the first of a spot to the first, and so on.
fn roughness(at: &[Vec<f64>]) -> f64 {
    let moved = |pair: &[Vec<f64>]| pair[0].iter().zip(&pair[1]).map(|(a, b)| (b - a).abs()).sum::<f64>();
    at.windows(2).map(moved).sum()
}
