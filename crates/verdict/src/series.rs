//! Keeps a curve of any length in bounded memory: bins that hold lowest, highest, newest and mean.
//!
//! A week of samples must fit beside the job it watches. While the curve is short every sample is its own bin, so
//! nothing is lost; when the bins are full, neighbours merge and each bin stands for twice as many samples.
//! Merging keeps the lowest and the highest, so it can hide neither a floor nor a peak. Not here: any opinion.

/// One sample on its way in. A plain sample has `low == high == last`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point {
    /// Where: step, second or number of the sample.
    pub x: f64,
    /// The lowest value since the sample before.
    pub low: f64,
    /// The highest value since the sample before.
    pub high: f64,
    /// The newest value.
    pub last: f64,
}

impl Point {
    /// One measured value.
    pub const fn one(x: f64, y: f64) -> Self {
        Self { x, low: y, high: y, last: y }
    }

    /// Two neighbours as one.
    pub(crate) const fn join(self, later: Self) -> Self {
        Self { x: later.x, low: self.low.min(later.low), high: self.high.max(later.high), last: later.last }
    }

    /// Two at one place, added up.
    fn beside(self, other: Self) -> Self {
        Self {
            x: self.x,
            low: self.low + other.low,
            high: self.high + other.high,
            last: self.last + other.last,
        }
    }

    /// What lies above a base. Below it nothing is its own.
    fn above(self, base: f64) -> Self {
        let own = |level: f64| (level - base).max(0.0);
        Self { x: self.x, low: own(self.low), high: own(self.high), last: own(self.last) }
    }

    fn is_usable(&self) -> bool {
        self.x.is_finite() && [self.low, self.high, self.last].iter().all(|v| v.abs() <= LARGEST)
    }
}

/// Values beyond this are no memory: 2^70 bytes. Keeps every square and sum finite.
const LARGEST: f64 = 1.2e21;

/// A clean-up takes at most one in so many of the samples of a life, ...
const MOST_ENDING: usize = 20;
/// ... is compared with one in so many before it, ...
const STRETCH_BEFORE: usize = 8;
/// ... and is not looked for in a curve so short that every sample counts.
const FEWEST_TO_CUT: usize = 8;

/// How many of the last parts of a life are its clean-up: a fall at the very end, below all of the stretch before it.
/// That is the program's doing or the kernel's, and says nothing of its life. Each part is its lowest level and how many
/// samples it stands for.
pub(crate) fn clean_up(parts: &[(f64, usize)]) -> usize {
    let all: usize = parts.iter().map(|part| part.1).sum();
    if all < FEWEST_TO_CUT {
        return 0;
    }
    let most = (all / MOST_ENDING).max(1);
    let from_end = parts.iter().rev().scan(0, |sum, part| {
        *sum += part.1;
        Some((*sum - part.1, *sum))
    });
    let ending = parts.len() - from_end.clone().take_while(|(_, to)| *to <= most).count();
    let reach = most + (all / STRETCH_BEFORE).max(3);
    let stretch = parts.len() - from_end.take_while(|(from, _)| *from < reach).count();
    let lowest = parts[stretch..ending].iter().map(|part| part.0).fold(f64::INFINITY, f64::min);
    parts[ending..].iter().rev().take_while(|part| part.0 < lowest).count()
}

/// A curve of others says nothing of its end: there a clean-up falls by this part of all that the curve moved before, ...
const DEEP: f64 = 0.5;
/// ... and by this part of it below all that was seen once the program had started.
const BELOW_ALL: f64 = 0.05;

/// Samples that were merged into one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Bin {
    pub(crate) x_first: f64,
    pub(crate) x_last: f64,
    pub(crate) low: f64,
    pub(crate) high: f64,
    pub(crate) last: f64,
    sum: f64,
    pub(crate) count: u32,
}

impl Bin {
    fn new(p: &Point) -> Self {
        let mean = f64::midpoint(p.low, p.high);
        Self { x_first: p.x, x_last: p.x, low: p.low, high: p.high, last: p.last, sum: mean, count: 1 }
    }

    fn absorb(&mut self, next: &Self) {
        self.x_last = next.x_last;
        self.low = self.low.min(next.low);
        self.high = self.high.max(next.high);
        self.last = next.last;
        self.sum += next.sum;
        self.count = self.count.saturating_add(next.count);
    }

    /// The middle of what it covers.
    pub(crate) fn x(&self) -> f64 {
        f64::midpoint(self.x_first, self.x_last)
    }

    /// Mean of its samples.
    pub(crate) fn mean(&self) -> f64 {
        self.sum / f64::from(self.count.max(1))
    }
}

/// A curve in bounded memory.
#[derive(Clone, Debug)]
pub(crate) struct Series {
    bins: Vec<Bin>,
    capacity: usize,
    /// Samples a full bin holds.
    stride: u32,
    samples: u64,
    unusable: u64,
}

impl Series {
    /// Room for `capacity` bins; at least 64, so that shapes can still be told apart.
    pub(crate) fn new(capacity: usize) -> Self {
        Self { bins: Vec::new(), capacity: capacity.max(64), stride: 1, samples: 0, unusable: 0 }
    }

    /// Takes the next sample. A step back in x (a resumed counter) is held at the newest x.
    pub(crate) fn push(&mut self, mut point: Point) {
        if !point.is_usable() {
            self.unusable += 1;
            return;
        }
        self.samples += 1;
        if let Some(end) = self.bins.last() {
            point.x = point.x.max(end.x_last);
        }
        let bin = Bin::new(&point);
        match self.bins.last_mut() {
            Some(open) if open.count < self.stride => open.absorb(&bin),
            _ => {
                if self.bins.len() >= self.capacity {
                    self.halve();
                }
                self.bins.push(bin);
            }
        }
    }

    fn halve(&mut self) {
        let merged = self.bins.chunks(2).map(|pair| {
            let mut bin = pair[0];
            if let Some(next) = pair.get(1) {
                bin.absorb(next);
            }
            bin
        });
        self.bins = merged.collect();
        self.stride = self.stride.saturating_mul(2);
    }

    pub(crate) fn bins(&self) -> &[Bin] {
        &self.bins
    }

    /// How many samples came in and could be used.
    pub(crate) const fn samples(&self) -> u64 {
        self.samples
    }

    /// How many could not: NaN, infinite, beyond any memory.
    pub(crate) const fn unusable(&self) -> u64 {
        self.unusable
    }

    pub(crate) fn first(&self) -> Option<&Bin> {
        self.bins.first()
    }

    pub(crate) fn last(&self) -> Option<&Bin> {
        self.bins.last()
    }

    /// The curve of a process that ended, without what it gave back on its way out.
    pub(crate) fn without_ending(&self) -> Self {
        self.part(0, self.life())
    }

    /// The newest bin before that.
    pub(crate) fn last_of_life(&self) -> Option<&Bin> {
        self.bins.get(..self.life())?.last()
    }

    fn life(&self) -> usize {
        let parts: Vec<(f64, usize)> = self.bins.iter().map(|b| (b.low, 1)).collect();
        parts.len() - clean_up(&parts)
    }

    /// How many of the last bins are the clean-up of a program, where nobody told that it ended: a fall so deep, to where it
    /// was at no time since its start, that it is no wave.
    pub(crate) fn freed_at_the_end(&self) -> usize {
        let parts: Vec<(f64, usize)> = self.bins.iter().map(|b| (b.low, 1)).collect();
        let freed = clean_up(&parts);
        if freed == 0 {
            return 0;
        }
        let (life, ending) = self.bins.split_at(self.bins.len() - freed);
        let lowest = |bins: &[Bin]| bins.iter().map(|b| b.low).fold(f64::INFINITY, f64::min);
        let moved = life.iter().map(|b| b.high).fold(f64::NEG_INFINITY, f64::max) - lowest(life);
        let before = lowest(&life[life.len() - (life.len() / STRETCH_BEFORE).clamp(1, life.len().max(1))..]);
        let (end, started) = (lowest(ending), lowest(&life[life.len() / 10..]));
        let deep = before - end >= DEEP * moved && started - end > BELOW_ALL * moved;
        if deep { freed } else { 0 }
    }

    /// The same with every place moved; `to` keeps their order.
    pub(crate) fn moved(&self, to: impl Fn(f64) -> f64) -> Self {
        let place = |b: &Bin| Bin { x_first: to(b.x_first), x_last: to(b.x_last), ..*b };
        Self { bins: self.bins.iter().map(place).collect(), ..self.clone() }
    }

    /// Several curves as one, each less its base, from where all of them have begun: over the places of the one that has most of
    /// them, so that it does not matter at which moments each was looked at. In a place each gives its lowest, its highest and
    /// its newest level; where nothing was written it is where it was.
    pub(crate) fn sum(parts: &[(&Self, f64)], capacity: usize) -> Self {
        let mut sum = Self::new(capacity);
        let begun = parts.iter().filter_map(|(part, _)| part.first()).map(|bin| bin.x_first);
        let begun = begun.fold(f64::NEG_INFINITY, f64::max);
        let mut parts: Vec<Carried> =
            parts.iter().map(|(part, base)| Carried::new(&part.bins, *base)).collect();
        for x in places(&parts) {
            let each: Option<Vec<Point>> = parts.iter_mut().map(|part| part.until(x)).collect();
            let all = each.filter(|_| x >= begun);
            let all = all.and_then(|each| each.into_iter().reduce(|a, b| Point { x, ..a.beside(b) }));
            all.into_iter().for_each(|point| sum.push(point));
        }
        sum
    }

    /// The part from bin `from` on, for cutting at a restart.
    pub(crate) fn part(&self, from: usize, to: usize) -> Self {
        let bins: Vec<Bin> = self.bins.get(from..to.min(self.bins.len())).unwrap_or_default().to_vec();
        let samples = bins.iter().map(|b| u64::from(b.count)).sum();
        Self { bins, capacity: self.capacity, stride: self.stride, samples, unusable: 0 }
    }
}

/// A curve on its way into a sum: the bins that are still to come, and where it was last.
struct Carried<'a> {
    rest: &'a [Bin],
    base: f64,
    last: Option<f64>,
}

impl<'a> Carried<'a> {
    const fn new(bins: &'a [Bin], base: f64) -> Self {
        Self { rest: bins, base, last: None }
    }

    /// What it did up to a place, since the place before.
    fn until(&mut self, x: f64) -> Option<Point> {
        let (here, rest) = self.rest.split_at(self.rest.partition_point(|bin| bin.x_last <= x));
        self.rest = rest;
        let point = |bin: &Bin| Point { x, low: bin.low, high: bin.high, last: bin.last };
        let seen = here.iter().map(point).reduce(Point::join);
        let found = seen.or_else(|| self.last.map(|last| Point::one(x, last)))?;
        self.last = Some(found.last);
        Some(found.above(self.base))
    }
}

/// Where the curve that has most places was looked at, and where the last one ends.
fn places(parts: &[Carried<'_>]) -> Vec<f64> {
    let most = parts.iter().max_by_key(|part| part.rest.len()).map_or(&[][..], |part| part.rest);
    let mut places: Vec<f64> = most.iter().map(|bin| bin.x_last).collect();
    let end = parts.iter().filter_map(|part| part.rest.last()).map(|bin| bin.x_last);
    places.push(end.fold(f64::NEG_INFINITY, f64::max));
    places.dedup_by(|later, before| *later <= *before);
    places
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn merging_hides_neither_floor_nor_peak() {
        let mut series = Series::new(64);
        for i in 0..100_000 {
            let y = match i {
                5_003 => 9.0,
                70_001 => -4.0,
                _ => 1.0,
            };
            series.push(Point::one(f64::from(i), y));
        }
        assert!(series.bins().len() <= 64);
        assert_eq!(series.samples(), 100_000);
        let low = series.bins().iter().map(|b| b.low).fold(f64::INFINITY, f64::min);
        let high = series.bins().iter().map(|b| b.high).fold(f64::NEG_INFINITY, f64::max);
        assert!(low < -3.9 && high > 8.9, "{low} {high}");
        assert!(series.last().unwrap().x_last > 99_998.0);
    }

    #[test]
    fn the_clean_up_at_the_end_of_a_life_is_cut_and_nothing_else() {
        let of = |ys: &[f64]| {
            let mut series = Series::new(64);
            ys.iter().enumerate().for_each(|(i, y)| series.push(Point::one(i as f64, *y)));
            series.without_ending()
        };
        let mut rise: Vec<f64> = (0..40).map(f64::from).collect();
        assert_eq!(of(&rise).samples(), 40, "a rise has no such end");
        rise[39] = 4.0;
        assert_eq!(of(&rise).samples(), 39, "cut from 38 to 4");
        let mut spikes: Vec<f64> = (0..40).map(|i| if i % 10 > 7 { 90.0 } else { 10.0 }).collect();
        spikes.push(10.0);
        assert_eq!(of(&spikes).samples(), 41, "back from a spike is no ending");
        let falling: Vec<f64> = (0..40).map(|i| 100.0 - f64::from(i)).collect();
        assert_eq!(of(&falling).samples(), 38, "a falling curve loses no more than its last twentieth");
        assert_eq!(of(&[5.0, 5.0, 5.0, 1.0]).samples(), 4);
        assert_eq!(clean_up(&[(5.0, 1), (5.0, 30), (1.0, 1)]), 1, "a row stands for the ticks it covers");
        assert_eq!(clean_up(&[(5.0, 1), (5.0, 30), (1.0, 9)]), 0, "a level that stays is life");
    }

    #[test]
    fn a_fall_at_the_end_of_a_curve_of_others_is_cut_only_where_no_wave_goes_as_low() {
        let freed = |ys: &[f64]| {
            let mut series = Series::new(64);
            ys.iter().enumerate().for_each(|(i, y)| series.push(Point::one(i as f64, *y)));
            series.freed_at_the_end()
        };
        let mut rise: Vec<f64> = (0..60).map(|i| 300.0 + f64::from(i)).collect();
        assert_eq!(freed(&rise), 0);
        rise[58..].fill(60.0);
        assert_eq!(freed(&rise), 2);
        rise[55..].fill(60.0);
        assert_eq!(freed(&rise), 0, "more than a twentieth is life");
        let wide: Vec<f64> = (0..59).map(|i| if i % 20 > 17 { 10.0 } else { 90.0 }).collect();
        assert_eq!(freed(&wide), 0, "it was as low between other waves");
        let falling: Vec<f64> = (0..40).map(|i| 100.0 - f64::from(i)).collect();
        assert_eq!(freed(&falling), 0);
        assert_eq!(freed(&[]), 0);
        assert_eq!(freed(&[5.0]), 0);
    }

    #[test]
    fn what_is_no_number_is_counted_not_kept() {
        let mut series = Series::new(64);
        series.push(Point::one(f64::NAN, 1.0));
        series.push(Point::one(1.0, f64::INFINITY));
        series.push(Point::one(1.0, 1e300));
        series.push(Point::one(2.0, 1.0));
        assert_eq!((series.samples(), series.unusable()), (1, 3));
    }

    fn curve(points: &[(f64, f64, f64, f64)]) -> Series {
        let mut series = Series::new(64);
        points.iter().for_each(|&(x, low, high, last)| series.push(Point { x, low, high, last }));
        series
    }

    fn levels(parts: &[(&Series, f64)]) -> Vec<(f64, f64, f64, f64)> {
        Series::sum(parts, 64).bins().iter().map(|b| (b.x_last, b.low, b.high, b.last)).collect()
    }

    #[test]
    fn rows_of_one_place_are_looked_at_together_before_curves_are_added_up() {
        let waves =
            curve(&[(1.0, 5.0, 9.0, 5.0), (2.0, 4.0, 8.0, 5.0), (2.0, 5.0, 9.0, 5.0), (2.0, 5.0, 7.0, 6.0)]);
        assert_eq!(
            levels(&[(&waves, 0.0), (&waves, 0.0)]),
            [(1.0, 10.0, 18.0, 10.0), (2.0, 8.0, 18.0, 12.0)]
        );
    }

    #[test]
    fn a_sum_is_the_same_at_whichever_moments_its_parts_were_looked_at() {
        let spikes = |offset: f64| -> Series {
            let points: Vec<_> = (0..20).map(|i| (f64::from(i) + offset, 300.0, 800.0, 300.0)).collect();
            curve(&points)
        };
        for offset in [0.0, 0.1, 0.7] {
            let found = levels(&[(&spikes(0.0), 0.0), (&spikes(offset), 0.0)]);
            assert!(
                found.iter().skip(1).all(|f| (f.1, f.2, f.3) == (600.0, 1600.0, 600.0)),
                "{offset}: {found:?}"
            );
        }
    }

    #[test]
    fn curves_that_are_written_seldom_make_no_floor_below_their_own() {
        let often: Vec<_> = (0..40).map(|i| (f64::from(i), 10.0, 60.0, 60.0)).collect();
        let seldom = [(0.0, 10.0, 10.0, 10.0), (19.5, 10.0, 90.0, 20.0), (39.0, 8.0, 90.0, 20.0)];
        let found = levels(&[(&curve(&often), 10.0), (&curve(&seldom), 10.0)]);
        assert_eq!(found.len(), 40);
        assert!(found.iter().all(|f| f.1 >= 0.0 && f.1 <= f.3 && f.3 <= f.2), "{found:?}");
    }
}
