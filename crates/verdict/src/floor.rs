//! Finds the floor of a memory curve: the level it comes back to between two waves.
//!
//! Why the floor: validation adds gigabytes for seconds and gives them back; a slope over raw samples reads that as
//! a leak. A leak is a floor that rises. Not here: naming the shape (see `shapes`) or the cause.

use crate::ebb::{between_waves, is_saw, leg, turns};
use crate::series::{Bin, Series};

/// The curve is cut into this many equal stretches of x; each gives one floor point.
/// Enough to place a knee within 3 %, few enough that each stretch of a usual curve holds several samples.
pub(crate) const STRETCHES: usize = 36;
/// Below this many samples every sample is its own floor point: there is nothing to spare.
const UNBINNED: usize = 48;
/// The floor of a stretch is this quantile of its samples. The minimum would follow one stray dip; the median
/// would follow a spike that lasts half the stretch.
const LOW: f64 = 0.2;
/// Shorter curves are not opened (see `open`): with so few points a bump may be half of what is known.
const OPENED: usize = 12;

/// Bumps up to this many points wide are removed by the opening; the rest of a tooth that is longer is left out.
const OPENING: usize = 2;

/// A lower envelope with the noise around it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Floor {
    /// Where each point stands, rising.
    pub(crate) x: Vec<f64>,
    /// The level there.
    pub(crate) y: Vec<f64>,
    /// How far one floor point is from the next by chance alone (standard deviation).
    pub(crate) noise: f64,
    /// The very first sample: where the program started, which the first stretch has no eye for.
    pub(crate) first: f64,
    /// Whether it was found between waves so wide that they hide it most of the time.
    pub(crate) ebbs: bool,
}

impl Floor {
    pub(crate) fn of(series: &Series) -> Self {
        let bins = series.bins();
        let (x, y) = if bins.len() <= UNBINNED { points(bins) } else { stretches(bins) };
        let mut y = if y.len() >= OPENED { open(&y) } else { y };
        let mut x = x;
        let known = last_trough(bins).map_or(x.len(), |last| x.partition_point(|x| *x <= last));
        if known + OPENING < x.len() {
            x.truncate(known);
            y.truncate(known);
        }
        let first = bins.first().map_or(0.0, |b| b.low);
        let between = if bins.len() > UNBINNED { between_waves(bins, &y, stretch(bins)) } else { None };
        let ebbs = between.is_some();
        let (x, y) = between.unwrap_or((x, y));
        Self { noise: jitter(&y), x, y, first, ebbs }
    }

    pub(crate) fn len(&self) -> usize {
        self.y.len()
    }

    /// Highest minus lowest point.
    pub(crate) fn range(&self) -> f64 {
        let low = self.y.iter().copied().fold(f64::INFINITY, f64::min);
        let high = self.y.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        (high - low).max(0.0)
    }

    /// The level at a place in 0..1, straight between the two points beside it.
    pub(crate) fn at(&self, place: f64) -> f64 {
        let u = self.unit();
        let after = u.partition_point(|u| *u < place).min(u.len().saturating_sub(1));
        let before = after.saturating_sub(1);
        let (Some(a), Some(b)) = (self.y.get(before), self.y.get(after)) else { return 0.0 };
        let length = u[after] - u[before];
        let share = if length > 0.0 { ((place - u[before]) / length).clamp(0.0, 1.0) } else { 1.0 };
        share.mul_add(b - a, *a)
    }

    /// Positions scaled to 0..1.
    pub(crate) fn unit(&self) -> Vec<f64> {
        let (Some(&first), Some(&last)) = (self.x.first(), self.x.last()) else {
            return Vec::new();
        };
        let width = last - first;
        if width > 0.0 {
            self.x.iter().map(|x| (x - first) / width).collect()
        } else {
            let n = self.x.len().max(2) - 1;
            (0..self.x.len()).map(|i| i as f64 / n as f64).collect()
        }
    }
}

fn points(bins: &[Bin]) -> (Vec<f64>, Vec<f64>) {
    bins.iter().map(|b| (b.x(), b.low)).unzip()
}

/// How long one stretch is.
fn stretch(bins: &[Bin]) -> f64 {
    bins.first()
        .zip(bins.last())
        .map_or(0.0, |(first, last)| (last.x_last - first.x_first) / STRETCHES as f64)
}

fn stretches(bins: &[Bin]) -> (Vec<f64>, Vec<f64>) {
    let (first, last) = (bins[0].x_first, bins[bins.len() - 1].x_last);
    let width = last - first;
    // The nudge keeps samples that lie on a border on the same side of it in any unit of x.
    let place = |b: &Bin| {
        let part = if width > 0.0 { (b.x() - first) / width } else { 0.0 };
        (part.mul_add(STRETCHES as f64, 1e-9) as usize).min(STRETCHES - 1)
    };
    let (mut xs, mut ys) = (Vec::new(), Vec::new());
    for group in bins.chunk_by(|a, b| place(a) == place(b)) {
        let (x, y) = lowest(group.iter());
        xs.push(x);
        ys.push(y);
    }
    (xs, ys)
}

/// The level that the lowest samples of a part come back to. Their own places give x: on a rise they lie early in it.
pub(crate) fn lowest<'a>(part: impl Iterator<Item = &'a Bin>) -> (f64, f64) {
    let mut low: Vec<(f64, f64)> = part.map(|b| (b.low, b.x())).collect();
    low.sort_unstable_by(|a, b| a.0.total_cmp(&b.0));
    low.truncate(((2.0 * LOW * low.len() as f64).ceil() as usize).max(1));
    let x = low.iter().map(|l| l.1).sum::<f64>() / low.len().max(1) as f64;
    (x, quantile(&mut low.iter().map(|l| l.0).collect::<Vec<f64>>(), 0.5))
}

/// Where the last tooth begins, for a curve that is one saw-tooth after the other. A tooth that is not over says nothing of the
/// floor, and its rise would be taken for growth.
fn last_trough(bins: &[Bin]) -> Option<f64> {
    let after_start = &bins[bins.len() / 10..];
    let levels: Vec<f64> = after_start.iter().map(|b| b.low).collect();
    let turns = turns(&levels, leg(&levels));
    let last = turns.iter().step_by(2).next_back().filter(|_| is_saw(&levels, &turns))?;
    Some(after_start[*last].x_last)
}

/// Linear interpolation between the two nearest ranks. Sorts `values`.
pub(crate) fn quantile(values: &mut [f64], q: f64) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    let Some(top) = values.len().checked_sub(1) else {
        return 0.0;
    };
    let at = q.clamp(0.0, 1.0) * top as f64;
    let below = values[at as usize];
    let above = values[(at as usize + 1).min(top)];
    (above - below).mul_add(at.fract(), below)
}

/// Removes bumps up to two points wide: a spike or a saw-tooth longer than one stretch. (Morphological opening:
/// lowest of three, then highest of three; a rising or falling line passes unchanged.)
fn open(y: &[f64]) -> Vec<f64> {
    let lowest = three(y, f64::min);
    let mut opened = three(&lowest, f64::max);
    // At the right edge no later point can prove a rise to be a bump, and the opening would cut every rising curve's
    // last point: it may rise as fast as the points before it did.
    if let ([.., first, _, _, before, last], Some(end)) = (&opened.clone()[..], y.last()) {
        let pace = ((before - first) / 3.0).max(0.0);
        let at_least = *last;
        if let Some(o) = opened.last_mut() {
            *o = end.min(before + pace).max(at_least.min(*end));
        }
    }
    opened
}

fn three(y: &[f64], pick: fn(f64, f64) -> f64) -> Vec<f64> {
    (0..y.len())
        .map(|i| {
            let left = y[i.saturating_sub(1)];
            let right = y[(i + 1).min(y.len() - 1)];
            pick(pick(left, y[i]), right)
        })
        .collect()
}

/// Noise from second differences: a line, however steep, has none. Scaled for a normal distribution.
fn jitter(y: &[f64]) -> f64 {
    if y.len() < 4 {
        return 0.0;
    }
    let mut bends: Vec<f64> = y.windows(3).map(|w| (w[0] - 2.0 * w[1] + w[2]).abs()).collect();
    // Var(a - 2b + c) = 6 sigma^2; the median of |N(0,s)| is 0.6745 s.
    quantile(&mut bends, 0.5) / (0.6745 * 6_f64.sqrt())
}
