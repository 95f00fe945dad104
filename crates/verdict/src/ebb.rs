//! Finds the floor of a curve that is high most of the time: the levels it falls back to between wide waves.
//!
//! A phase of large batches or an evaluation that takes most of the time hides the floor from stretches of equal length: most
//! of them lie inside a wave. Then only what lies between the waves is the floor. Not here: narrow waves (see `floor`).

use crate::floor::{lowest, quantile};
use crate::series::Bin;

/// A wave rises and falls by this part of the curve's range at least, ...
const LEG: f64 = 0.5;
/// ... there are so many levels between waves, ...
const FEWEST: usize = 4;
/// ... and from one to the next there are so many samples at the least: fewer are noise.
const SAMPLES: usize = 8;
/// A tooth falls within one in so many of its samples, ...
const SUDDEN: usize = 4;
/// ... and half of them stand higher than this part of it, where a spike's stand on the floor.
const RESTS: f64 = 0.25;
/// What is lower than this part of the wave beside it lies between waves.
const LOW_WATER: f64 = 0.2;

/// By how much levels must turn to be a wave.
pub(crate) fn leg(levels: &[f64]) -> f64 {
    let mut levels = levels.to_vec();
    LEG * (quantile(&mut levels, 0.95) - quantile(&mut levels, 0.05))
}

/// Where levels turn by more than a leg: a trough first, then a peak and a trough in turn.
pub(crate) fn turns(levels: &[f64], leg: f64) -> Vec<usize> {
    let (mut found, mut lowest, mut highest) = (Vec::new(), 0, 0);
    for (at, level) in levels.iter().enumerate() {
        let rises = found.len() % 2 == 1;
        if *level < levels[lowest] {
            lowest = at;
        }
        if *level > levels[highest] {
            highest = at;
        }
        if !rises && level - levels[lowest] > leg {
            found.push(lowest);
            highest = at;
        } else if rises && levels[highest] - level > leg {
            found.push(highest);
            lowest = at;
        }
    }
    found
}

/// Whether turns are one saw-tooth after the other (a collector, a history that each epoch's end writes out, workers that live
/// for an epoch), and neither noise nor spikes on a floor that is seen between them.
pub(crate) fn is_saw(levels: &[f64], turns: &[usize]) -> bool {
    let teeth = || turns.windows(3).step_by(2);
    let sharp = teeth().filter(|tooth| is_tooth(levels, [tooth[0], tooth[1], tooth[2]])).count();
    let all = teeth().count();
    all >= FEWEST && 5 * sharp >= 4 * all
}

/// Whether it takes long to rise, falls at once, and does not rest on its way up.
fn is_tooth(levels: &[f64], [from, top, to]: [usize; 3]) -> bool {
    let (low, high) = (levels[from], levels[top]);
    let middle = quantile(&mut levels[from..to].to_vec(), 0.5);
    (to - top) * SUDDEN <= to - from && middle - low > RESTS * (high - low)
}

/// The floor between wide waves, in points about as far apart as `stretch`; `None` where the floor that was found is one: it
/// does not come and go with the curve.
pub(crate) fn between_waves(bins: &[Bin], floor: &[f64], stretch: f64) -> Option<(Vec<f64>, Vec<f64>)> {
    // Where a program starts there is no wave yet, and so few points have no second one that soon.
    let bins = &bins[bins.len() / 10..];
    let levels: Vec<f64> = bins.iter().map(|b| b.low).collect();
    let leg = leg(&levels);
    let mut turns = turns(&levels, leg);
    // Two waves stand in the floor as well (up, down, up and down), or there is nothing but teeth.
    if self::turns(floor, leg).len() < 4 && !is_saw(&levels, &turns) {
        return None;
    }
    if let Some(&top) = turns.last().filter(|_| turns.len().is_multiple_of(2)) {
        turns.extend((top..levels.len()).min_by(|a, b| levels[*a].total_cmp(&levels[*b])));
    }
    // Where nothing came down to the first trough, the curve begins there, maybe half up a wave.
    let high = levels[..*turns.first()?].iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let first = if high - levels[turns[0]] > leg { 0 } else { 2 };
    let troughs = turns.len().saturating_sub(first).div_ceil(2);
    if troughs < FEWEST || bins.len() < SAMPLES * troughs {
        return None;
    }
    let points = (first..turns.len()).step_by(2).flat_map(|k| low_water(bins, &turns, k, stretch));
    Some(points.unzip())
}

/// What lies between two waves around the trough `turns[k]`.
fn low_water(bins: &[Bin], turns: &[usize], k: usize, stretch: f64) -> Vec<(f64, f64)> {
    let trough = bins[turns[k]].low;
    let before = k.checked_sub(1).map(|k| turns[k]);
    let after = turns.get(k + 1).copied();
    let tops = before.into_iter().chain(after).map(|at| bins[at].low);
    let least = LOW_WATER.mul_add(tops.fold(f64::INFINITY, f64::min) - trough, trough);
    let part = &bins[before.unwrap_or(0)..after.unwrap_or(bins.len())];
    let low: Vec<&Bin> = part.iter().filter(|b| b.low <= least).collect();
    let (Some(first), Some(last)) = (low.first(), low.last()) else { return Vec::new() };
    let width = last.x_last - first.x_first;
    let pieces = if stretch > 0.0 { (width / stretch).round().max(1.0) as usize } else { 1 };
    low.chunks(low.len().div_ceil(pieces)).map(|piece| lowest(piece.iter().copied())).collect()
}
