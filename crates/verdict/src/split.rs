//! A cache that several processes fill side by side: in each pass over the data each of them meets another part of it.
//!
//! Loader workers and ranks share a pass, and a shuffled one is dealt out anew each time. A process that keeps what it meets
//! finds in pass n only what it has not met before: of its part, (1 - 1/parts)^(n-1). So its curve bends where each pass ends,
//! by a ratio known beforehand, and ends where every process holds all of the data: `parts` times what its first pass added.
//! Only a level and that first pass are fitted. A leak keeps its pace. Not here: which processes share a pass (see `crew`).

use crate::floor::Floor;
use crate::shapes::{Columns, Fit, effective_points, residual_correlation, solve};

/// With more parts than this a fill and a leak differ by less than can be seen within three passes: then a rise is judged as if
/// nobody shared the data.
const MOST_PARTS: f64 = 8.0;

/// How a pass over the data is dealt out among processes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Split {
    /// Processes that share a pass.
    pub(crate) parts: f64,
    /// How many of them the curve is of.
    pub(crate) own: f64,
    /// All of them that can be seen grow alike, as they do where each keeps what it meets.
    pub(crate) alike: bool,
    /// Examples of a pass, where known.
    pub(crate) examples: Option<f64>,
    /// They are workers of a loader, and not ranks.
    pub(crate) workers: bool,
}

impl Split {
    /// A pass that one process meets alone.
    pub(crate) const WHOLE: Self =
        Self { parts: 1.0, own: 1.0, alike: false, examples: None, workers: false };

    /// Whether the curve may be such a fill, and could be told from a leak in time.
    pub(crate) fn may_fill(self) -> bool {
        self.alike && (2.0..=MOST_PARTS).contains(&self.parts)
    }

    /// What chance makes of the level, in units of what the first pass adds: each example of a further pass is new or is not.
    fn chance(self) -> f64 {
        let ratio = 1.0 - 1.0 / self.parts;
        let chance = |examples: f64| FITTED * (ratio * (1.0 - ratio) / (examples * self.share())).sqrt();
        self.examples.map_or(CHANCE, chance)
    }

    /// The same over so many passes: each adds to what the ones before it made, and one is taken by the slope that is fitted.
    fn strays(self, passes: f64) -> f64 {
        let (further, ratio) = ((passes.ceil() - 1.0).clamp(1.0, MOST_STRAYING), 1.0 - 1.0 / self.parts);
        let new = (1..=further as i32).map(|pass| ratio.powi(pass));
        let all: f64 = new.map(|new| new * (1.0 - new)).sum();
        let fitted = ((further - 1.0) / further * all).sqrt() * STRAYING;
        self.examples.map_or(CHANCE, |examples| fitted / (examples * self.share()).sqrt())
    }

    /// The part of a pass that these processes meet.
    pub(crate) fn share(self) -> f64 {
        self.own / self.parts
    }

    /// What is held after so many passes, in units of what the first one adds.
    fn held(self, passes: f64) -> f64 {
        let whole = passes.max(0.0).floor();
        let new = (1.0 - 1.0 / self.parts).powf(whole);
        self.parts.mul_add(1.0 - new, (passes - whole) * new)
    }
}

/// Below this part of a pass workers start and import: that is no cache.
const STARTED: f64 = 0.05;
/// Fewer points of the floor than this tell no bend.
const FEWEST: usize = 8;
/// Loaders fetch ahead by such parts of a pass: two batches a worker is usual.
const AHEAD: [f64; 6] = [0.0, 0.02, 0.04, 0.08, 0.16, 0.32];
/// Passes before it is sure: two of two processes, 1 and 1/2, are also a first pass and a leak after it.
const FEWEST_PASSES: f64 = 2.5;
/// It is sure where it misses the curve by no more than this many times what the best shape does.
const AS_GOOD: f64 = 1.25;
/// It may be one while it misses it by no more than this many times that, ...
const NEAR: f64 = 1.6;
/// ... or by less than this part of the rise.
const CLOSE: f64 = 0.02;
/// Whose turn it is to meet an example is chance. A level and a slope that are fitted take this part of what that makes.
const FITTED: f64 = 0.35;
/// ... and this part of what several passes make of it, of so many at most: later ones add next to nothing.
const STRAYING: f64 = 0.5;
const MOST_STRAYING: f64 = 64.0;
/// Without the number of examples that chance is taken for this part of what the first pass adds.
const CHANCE: f64 = 0.01;
/// It is sure where a rise that goes on under it would be less than this part of what the first pass adds, ...
const UNDER: f64 = 0.15;
/// ... with so many standard errors counted in.
const ERRORS: f64 = 2.0;
/// The logarithm of the odds from which on one of two explanations is taken: 4.5 to 1.
const SURE: f64 = 1.5;
/// What a further number costs in evidence, at the least.
const LEAST_PRICE: f64 = 2.0;
/// Few points that move together are still worth so many.
const FEWEST_EFFECTIVE: f64 = 4.0;

/// A curve held against such a fill.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Filled {
    /// How the pass is dealt out that makes it.
    pub(crate) split: Split,
    /// Length of a pass, what the first one added, and the level before it.
    pub(crate) pass: f64,
    pub(crate) first: f64,
    pub(crate) origin: f64,
    /// What is still to come until every process holds all.
    pub(crate) ahead: f64,
    /// Passes that were seen.
    pub(crate) seen: f64,
    /// Natural logarithm of the odds for it, against a rise that keeps its pace, ...
    odds: f64,
    /// ... and against one that keeps it after a first pass that added more.
    odds_after: f64,
    /// What it misses the curve by, the best shape does, and chance may.
    misfit: f64,
    best: f64,
    strays: f64,
    range: f64,
    /// The most that a rise under it may add in a pass, and whether one surely does.
    under: f64,
    leaks_under: bool,
    /// What both together miss the curve by.
    both: f64,
}

impl Filled {
    /// Holds a floor against it; `fits` are the shapes that were tried. Nothing before a second pass has begun to tell.
    pub(crate) fn of(floor: &Floor, fits: &[Fit], (pass, split): (f64, Split)) -> Option<Self> {
        let points: Vec<(f64, f64)> = floor.x.iter().map(|x| x / pass).zip(floor.y.iter().copied()).collect();
        let points: Vec<(f64, f64)> = points.into_iter().filter(|p| p.0 >= STARTED).collect();
        let seen = points.last()?.0;
        if points.len() < FEWEST || split.parts < 2.0 {
            return None;
        }
        let fill = best(&points, |at| [1.0, split.held(at), 0.0, 0.0], 2)?;
        let line = best(&points, |at| [1.0, at, 0.0, 0.0], 2)?;
        let after = best(&points, |at| [1.0, at, at.min(1.0), 0.0], 3)?;
        let both = best(&points, |at| [1.0, split.held(at), at, 0.0], 3);
        let first = fill.coefficients[1];
        if first <= 0.0 {
            return None;
        }
        let chance = split.chance() * first;
        let closest = if fill.error < line.error { &fill } else { &line };
        let n = points.len() as f64;
        let effective = effective_points(n, closest.correlation).max(FEWEST_EFFECTIVE).min(n);
        let cost = |found: &Found, free: f64| {
            let scatter = found.error + chance * chance;
            effective.mul_add(scatter.ln(), free * effective.ln().max(LEAST_PRICE))
        };
        let alone = cost(&fill, 2.0);
        let clear = |both: &Found| {
            let [_, fill, line, _] = both.coefficients;
            fill > 0.0 && line > 0.0 && (alone - cost(both, 3.0)) / 2.0 > SURE
        };
        Some(Self {
            split,
            pass,
            first,
            origin: fill.coefficients[0],
            ahead: (first * (split.parts - split.held(seen))).max(0.0),
            seen,
            odds: (cost(&line, 2.0) - alone) / 2.0,
            odds_after: (cost(&after, 3.0) - alone) / 2.0,
            misfit: fill.error.sqrt(),
            best: fits.iter().map(|fit| fit.error).fold(f64::INFINITY, f64::min).sqrt(),
            strays: split.strays(seen) * first,
            range: floor.range(),
            under: both.as_ref().map_or(f64::INFINITY, |both| most_under(&points, split, both, chance)),
            leaks_under: both.as_ref().is_some_and(clear),
            both: both.as_ref().map_or(f64::INFINITY, |both| both.error.sqrt()),
        })
    }

    /// It is one, and no rise that goes on.
    pub(crate) fn is_sure(&self) -> bool {
        let explains = self.misfit <= AS_GOOD * self.best.hypot(self.strays);
        let nothing_else = self.odds.min(self.odds_after) >= SURE && self.under < UNDER * self.first;
        self.seen >= FEWEST_PASSES && explains && nothing_else && !self.leaks_under
    }

    /// A rise that goes on is not surely something else than one.
    pub(crate) fn may_be(&self) -> bool {
        let explains = self.misfit <= (NEAR * self.best).max(CLOSE * self.range);
        self.odds.min(self.odds_after) > -SURE && explains && !self.leaks_under
    }

    /// It is one with a rise under it that goes on: then nothing has settled.
    pub(crate) fn hides_a_rise(&self) -> bool {
        let explains = self.both <= AS_GOOD * self.best.hypot(self.strays);
        self.seen >= FEWEST_PASSES && explains && self.leaks_under
    }

    /// What a pass adds, as a part of what the one before it did.
    pub(crate) fn ratio(&self) -> f64 {
        1.0 - 1.0 / self.split.parts
    }

    /// What the pass after the one that runs adds at most, with room for chance: a leak as large as one that could hide here adds more.
    pub(crate) fn next_at_most(&self) -> f64 {
        let passes = self.seen.ceil();
        let next = self.first * (self.split.held(passes + 1.0) - self.split.held(passes));
        next + UNDER * self.first
    }

    /// What they hold in the end.
    pub(crate) fn all(&self) -> f64 {
        self.first * self.split.parts
    }
}

/// The most that a rise under a fill adds in a pass, by the fit of both. The scatter of single points and that of whole passes
/// count by themselves: the one has as many looks as there are points that move by themselves, the other as many as passes.
fn most_under(points: &[(f64, f64)], split: Split, both: &Found, chance: f64) -> f64 {
    let (n, passes) = (points.len() as f64, points.last().map_or(1.0, |p| p.0.max(1.0)));
    let rows: Vec<Columns> = points.iter().map(|p| [1.0, split.held(p.0), 0.0, 0.0]).collect();
    let line: Vec<f64> = points.iter().map(|p| p.0).collect();
    let Some([level, slope, ..]) = solve(&rows, &line, 2) else { return f64::INFINITY };
    let apart: f64 =
        rows.iter().zip(&line).map(|(row, at)| (at - slope.mul_add(row[1], level)).powi(2)).sum();
    let effective = effective_points(n, both.correlation).max(FEWEST_EFFECTIVE).min(n);
    let scatter = both.error * n / effective + chance * chance * n / passes;
    ERRORS.mul_add((scatter / apart).sqrt(), both.coefficients[2])
}

struct Found {
    coefficients: Columns,
    error: f64,
    correlation: f64,
}

/// The best fit over how far ahead the loader fetches.
fn best(points: &[(f64, f64)], basis: impl Fn(f64) -> Columns, columns: usize) -> Option<Found> {
    let y: Vec<f64> = points.iter().map(|p| p.1).collect();
    let fitted = AHEAD.iter().filter_map(|ahead| {
        // What is fetched ahead belongs to the pass that runs: its last batches are in memory before their steps.
        let fetched = |at: f64| (at + ahead).min(at.floor() + 1.0);
        let rows: Vec<Columns> = points.iter().map(|p| basis(fetched(p.0))).collect();
        let coefficients = solve(&rows, &y, columns)?;
        let level =
            |row: &Columns| row.iter().zip(&coefficients).take(columns).map(|(a, b)| a * b).sum::<f64>();
        let residuals: Vec<f64> = rows.iter().zip(&y).map(|(row, y)| y - level(row)).collect();
        let error = residuals.iter().map(|r| r * r).sum::<f64>() / y.len() as f64;
        Some(Found { coefficients, error, correlation: residual_correlation(&residuals) })
    });
    fitted.min_by(|a, b| a.error.total_cmp(&b.error))
}

#[cfg(test)]
mod tests {
    use super::*;

    const FOUR: Split = Split { parts: 4.0, own: 4.0, alike: true, examples: None, workers: true };

    #[test]
    fn each_pass_adds_what_was_not_met_before_and_in_the_end_all_is_held() {
        let added: Vec<f64> = (0..4).map(|n| FOUR.held(f64::from(n + 1)) - FOUR.held(f64::from(n))).collect();
        assert_eq!(added, [1.0, 0.75, 0.5625, 0.421_875]);
        assert!((FOUR.held(200.0) - 4.0).abs() < 1e-9);
        assert!((Split::WHOLE.held(3.5) - 1.0).abs() < 1e-9, "one process alone has met all after one pass");
    }

    type Level = fn(f64) -> f64;

    /// A floor over `passes` of 100 steps.
    fn floor(passes: f64, at: impl Fn(f64) -> f64) -> Floor {
        let x: Vec<f64> = (0..36).map(|i| f64::from(i) / 35.0 * passes * 100.0).collect();
        let wobble = |i: usize| ((i * 7919) % 13) as f64 / 13.0 - 0.5;
        let y = x.iter().enumerate().map(|(i, x)| at(x / 100.0) + wobble(i)).collect();
        Floor { x, y, noise: 0.3, first: 0.0, ebbs: false }
    }

    fn found(passes: f64, at: impl Fn(f64) -> f64) -> Filled {
        Filled::of(&floor(passes, at), &[], (100.0, FOUR)).unwrap()
    }

    #[test]
    fn a_fill_that_is_dealt_out_is_told_from_a_leak_and_from_a_fill_with_a_leak_under_it() {
        let fill = found(3.0, |at| 100.0 * FOUR.held(at));
        assert!(fill.is_sure() && fill.may_be(), "{fill:?}");
        assert!(!found(2.3, |at| 100.0 * FOUR.held(at)).is_sure(), "two passes and a bit");
        assert!((fill.first - 100.0).abs() < 3.0 && (fill.all() - 400.0).abs() < 12.0, "{fill:?}");
        assert!((fill.ahead - 100.0 * (4.0 - FOUR.held(3.0))).abs() < 8.0, "{fill:?}");
        let leak = found(3.0, |at| 100.0 * at);
        assert!(!leak.is_sure() && !leak.may_be(), "{leak:?}");
        let both = found(6.0, |at| 60.0f64.mul_add(at, 100.0 * FOUR.held(at)));
        assert!(!both.is_sure(), "{both:?}");
    }

    #[test]
    fn what_is_fetched_ahead_changes_nothing() {
        let ahead = |at: f64| (at + 0.16_f64).min(at.floor() + 1.0);
        let fill = found(3.0, |at| 100.0 * FOUR.held(ahead(at)));
        assert!(fill.is_sure(), "{fill:?}");
        let leak = found(3.0, |at| 100.0 * ahead(at));
        assert!(!leak.is_sure() && !leak.may_be(), "{leak:?}");
    }

    #[test]
    fn a_fill_that_ends_with_the_first_pass_is_none_of_these() {
        assert!(!found(3.0, |at| 100.0 * at.min(1.0)).is_sure());
    }

    #[test]
    fn a_leak_under_a_fill_is_never_surely_a_fill_alone_and_in_time_surely_more() {
        for (parts, leak) in [(2.0, 20.0), (4.0, 20.0), (8.0, 20.0), (8.0, 40.0)] {
            let split = Split { parts, own: parts, ..FOUR };
            let both = |at: f64| 100.0_f64.mul_add(split.held(at), leak * at);
            for passes in [2.0, 2.6, 3.0, 4.0, 6.0, 8.0] {
                let of = Filled::of(&floor(passes, both), &[], (100.0, split)).unwrap();
                assert!(!of.is_sure(), "{parts} {leak} {passes}: {of:?}");
                assert!(passes < 8.0 || !of.may_be(), "{parts} {leak}: {of:?}");
            }
        }
    }

    #[test]
    fn what_bends_without_passes_is_no_fill() {
        let shapes: [(&str, Level); 4] = [
            ("root", |at| 200.0 * at.sqrt()),
            ("logarithm", |at| 100.0 * (3.0 * at).ln_1p()),
            ("a first pass and a leak after it", |at| {
                100.0f64.mul_add(at.min(1.0), 50.0 * (at - 1.0).max(0.0))
            }),
            ("a first pass over a leak", |at| 60.0f64.mul_add(at.min(1.0), 70.0 * at)),
        ];
        for (name, shape) in shapes {
            for parts in [2.0, 4.0, 8.0] {
                let split = Split { parts, own: 1.0, examples: Some(400.0 * parts), ..FOUR };
                for passes in [2.0, 3.0, 6.0] {
                    let floor = floor(passes, shape);
                    let fits = crate::shapes::contest(&floor, 0.0).fits;
                    let of = Filled::of(&floor, &fits, (100.0, split)).unwrap();
                    assert!(!of.is_sure(), "{name} {parts} {passes}: {of:?}");
                }
            }
        }
    }
}
