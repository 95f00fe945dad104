//! The numbers of a verdict in the curve's own units: rates with intervals, where growth ended, what stays.
//!
//! Everything here is read off the curve before the data set's size is looked at, so that agreement with it is
//! evidence and not an assumption. Not here: limits and data-set sizes (see `budget`).

use crate::assess::{Assessment, Because};
use crate::climb::Climb;
use crate::decide::AFTER_START;
use crate::evidence::rises_from;
use crate::faster::Faster;
use crate::floor::{Floor, quantile};
use crate::rest;
use crate::series::{Bin, Series};
use crate::shapes::{Fit, Shape, effective_points, residual_correlation};
use crate::split::Filled;
use crate::verdict::Group;

/// A straight piece of the floor.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Line {
    /// Level at x = 0.
    pub(crate) origin: f64,
    /// Growth per x.
    pub(crate) rate: f64,
    /// Half of the 95 % interval of the rate.
    pub(crate) margin: f64,
    /// Where it begins and ends.
    pub(crate) from: f64,
    pub(crate) to: f64,
}

impl Line {
    /// Least squares; points that move together widen the interval.
    pub(crate) fn through(points: &[(f64, f64)]) -> Option<Self> {
        let n = points.len() as f64;
        let (from, to) = (points.first()?.0, points.last()?.0);
        let mx = points.iter().map(|p| p.0).sum::<f64>() / n;
        let my = points.iter().map(|p| p.1).sum::<f64>() / n;
        let spread: f64 = points.iter().map(|p| (p.0 - mx).powi(2)).sum();
        if points.len() < 2 || spread <= 0.0 {
            return None;
        }
        let rate = points.iter().map(|p| (p.0 - mx) * (p.1 - my)).sum::<f64>() / spread;
        let residuals: Vec<f64> = points.iter().map(|p| p.1 - my - rate * (p.0 - mx)).collect();
        let effective = effective_points(n, residual_correlation(&residuals)).max(2.5);
        let variance =
            residuals.iter().map(|r| r * r).sum::<f64>() / n * effective / (effective - 2.0).max(0.5);
        let margin = 2.0 * (variance / spread * n / effective).sqrt();
        Some(Self { origin: my - rate * mx, rate, margin, from, to })
    }

    pub(crate) fn at(&self, x: f64) -> f64 {
        self.rate.mul_add(x, self.origin)
    }
}

/// What the floor did, in numbers.
#[derive(Clone, Debug, Default)]
pub(crate) struct Facts {
    /// First and last x of the judged part.
    pub(crate) first: f64,
    pub(crate) last: f64,
    /// Floor at the start and at the end.
    pub(crate) start: f64,
    pub(crate) end: f64,
    /// Floor after the first tenth.
    pub(crate) after_start: f64,
    /// Highest value ever seen.
    pub(crate) peak: f64,
    /// Scatter of the floor.
    pub(crate) noise: f64,
    /// The part that grows or grew.
    pub(crate) growth: Line,
    /// What it did since the first pass over the data ended, where it is too early to call that an end but it has all but
    /// stopped: growth is that of the pass then.
    pub(crate) since_pass: Option<Line>,
    /// Where it began to rest, as it never did before, where that is too lately to tell what follows: growth is what was before.
    pub(crate) rests: Option<f64>,
    /// By how much the growth strays from its line, as a variance for each x: what comes at random does not come at one pace.
    pub(crate) strays: f64,
    /// How it goes on if it gets ever faster.
    pub(crate) faster: Option<Faster>,
    /// Where growth ended and the level it ended at.
    pub(crate) knee: Option<(f64, f64)>,
    /// Whether it grew at one pace and stopped at once.
    pub(crate) sharp: bool,
    /// Whether it came in one step.
    pub(crate) jumped: bool,
    /// Whether it grew ever slower: where that ended is a convention, 97 % of it.
    pub(crate) bends: bool,
    /// How many samples stand clearly above the floor, and their typical height over it.
    pub(crate) peaks: usize,
    /// How many times it rose above the floor: samples that follow each other are one.
    pub(crate) waves: usize,
    pub(crate) peak_height: f64,
    /// The highest of them over the floor, and where each wave begins.
    pub(crate) peak_most: f64,
    pub(crate) wave_x: Vec<f64>,
    /// How the last wave ended.
    pub(crate) last_wave: LastWave,
    /// Peaks that get higher over a floor that stays.
    pub(crate) climb: Option<Climb>,
}

impl Facts {
    pub(crate) fn of(series: &Series, seen: &Assessment) -> Self {
        let (Some(first), Some(last)) = (series.first(), series.last()) else { return Self::default() };
        let points: Vec<(f64, f64)> =
            seen.floor.x.iter().copied().zip(seen.floor.y.iter().copied()).collect();
        // Of a single pass that is not over, nothing has ended yet.
        let ended =
            seen.group == Group::Bounded && !matches!(seen.because, Because::OnePass | Because::DealtOut);
        let settled = settled_shape(seen).filter(|_| ended);
        let stretch = 1.0 / points.len().saturating_sub(1).max(1) as f64;
        let jumped = settled.is_some_and(|f| {
            // A rise within two points of the floor took less time than can be told.
            f.shape == Shape::Step || f.shape == Shape::Rise && f.knots[1] - f.knots[0] <= 2.5 * stretch
        });
        let knee = settled.and_then(|fit| knee(fit, &points));
        let knee = knee.map(|(x, level)| if jumped { (jump(series, x, &points), level) } else { (x, level) });
        let lately = seen.because == Because::RestsNow;
        let rests = lately.then(|| rest::at_end(&seen.floor, rises_from(&seen.fits))).flatten();
        let part = growing_part(seen, &points, knee.map(|k| k.0).or(rests));
        let growth = Line::through(&part).unwrap_or_default();
        let growth = seen
            .filled
            .filter(|_| seen.group == Group::Bounded)
            .map_or(growth, |filled| in_first_pass(&filled, &points, growth));
        let Waves { peaks, begin: wave_x, tops, height: peak_height, most: peak_most, last: last_wave } =
            Waves::of(series, seen);
        let climb = Climb::of(&tops).filter(|_| seen.group == Group::Flat);
        Self {
            first: first.x_first,
            last: last.x_last,
            start: points.first().map_or(0.0, |p| p.1),
            after_start: points.get(points.len() / 10).map_or(0.0, |p| p.1),
            end: points.last().map_or(0.0, |p| p.1),
            peak: series.bins().iter().map(|b| b.high).fold(f64::NEG_INFINITY, f64::max),
            noise: seen.floor.noise,
            growth,
            strays: strays(&part, &growth, seen.floor.noise),
            since_pass: None,
            faster: faster(&part, seen.floor.noise).filter(|_| rests.is_none() && knee.is_none()),
            rests,
            knee,
            sharp: part.len() >= FEWEST_IN_PACE
                && settled.is_some_and(|f| {
                    matches!(f.shape, Shape::Knee | Shape::KneeFalling) && is_over(f, &seen.floor)
                }),
            jumped,
            bends: settled.is_some_and(|f| {
                matches!(f.shape, Shape::Saturation | Shape::RampSaturation | Shape::Logarithm)
            }),
            peaks,
            waves: wave_x.len(),
            peak_height,
            peak_most,
            last_wave,
            wave_x,
            climb,
        }
    }

    /// The waves above the floor that will come again, where more than one came.
    pub(crate) fn waves_to_come(&self) -> ToCome {
        let (Some(first), Some(last)) = (self.wave_x.first(), self.wave_x.last()) else {
            return ToCome::default();
        };
        if self.waves < OFTEN {
            return ToCome::default();
        }
        let apart = (last - first) / (self.waves - 1) as f64;
        ToCome { height: self.peak_height, most: self.peak_most, apart }
    }

    /// Tells the first pass over the data, which ends at `pass`, from what came after it, if growth has all but stopped since.
    pub(crate) fn part_at(&mut self, pass: f64, floor: &Floor) {
        let points = || floor.x.iter().copied().zip(floor.y.iter().copied());
        let line = |inside: fn(f64, f64) -> bool| {
            Line::through(&points().filter(|point| inside(point.0, pass)).collect::<Vec<_>>())
        };
        let (Some(growth), Some(since)) = (line(|x, pass| x <= pass), line(|x, pass| x >= pass)) else {
            return;
        };
        // Two or three points are on a line by chance: the floor's own scatter says how much that is worth.
        let scatter = 2.0 * floor.noise / (since.to - since.from).max(f64::MIN_POSITIVE);
        let since = Line { margin: since.margin.max(scatter), ..since };
        if growth.rate > 0.0 && since.rate < STOPPED * growth.rate {
            (self.growth, self.since_pass) = (growth, Some(since));
        }
    }

    /// The part that is still alive.
    pub(crate) fn alive(&self) -> &Line {
        self.since_pass.as_ref().unwrap_or(&self.growth)
    }

    /// How much the part that grows has risen so far.
    pub(crate) fn risen(&self) -> f64 {
        self.growth.rate * (self.growth.to - self.growth.from)
    }

    /// How much the floor grew.
    pub(crate) fn grown(&self) -> f64 {
        self.knee.map_or(self.end, |k| k.1) - self.start
    }
}

/// The growth of the first pass, of a fill that slows down with each.
fn in_first_pass(filled: &Filled, points: &[(f64, f64)], all: Line) -> Line {
    let first: Vec<(f64, f64)> = points.iter().copied().filter(|p| p.0 <= filled.pass).collect();
    let margin = Line::through(&first).map_or(all.margin, |line| line.margin);
    Line { origin: filled.origin, rate: filled.first / filled.pass, margin, from: all.from, to: filled.pass }
}

/// Two points are on a line whatever they are.
const FEWEST_IN_PACE: usize = 3;
/// Less than this part of the pace of the first pass has all but stopped.
const STOPPED: f64 = 0.25;
/// Waves that came so many times come again.
const OFTEN: usize = 2;

/// Waves that will come again: how high they are above the floor, usually and at most, and how far apart.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ToCome {
    pub(crate) height: f64,
    pub(crate) most: f64,
    pub(crate) apart: f64,
}

/// How the last wave of a curve ended.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) enum LastWave {
    #[default]
    Over,
    /// The curve ended before it did.
    Open,
    /// It is so much above the floor, far more than any other, and climbs to the end of the curve: it may climb as much again.
    Climbs(f64),
}

impl LastWave {
    /// By how much it may still climb.
    pub(crate) fn to_come(self) -> f64 {
        if let Self::Climbs(height) = self { height } else { 0.0 }
    }
}

/// Stretches that growth is compared over: long enough for noise to matter little, and several of them.
const STRAY_STRETCHES: usize = 6;

/// By how much points stray from a line, as a variance for each x: what is the same at any distance is noise and not counted.
fn strays(points: &[(f64, f64)], line: &Line, noise: f64) -> f64 {
    let lag = (points.len() / STRAY_STRETCHES).max(1);
    let off = |p: &(f64, f64)| p.1 - line.at(p.0);
    let pairs = points.iter().zip(points.iter().skip(lag));
    let (sum, length, count) = pairs.fold((0.0, 0.0, 0.0), |(sum, length, count), (a, b)| {
        (sum + (off(b) - off(a)).powi(2), length + (b.0 - a.0), count + 1.0)
    });
    if count < STRAY_STRETCHES as f64 || length <= 0.0 {
        return 0.0;
    }
    (sum - count * 2.0 * noise.powi(2)).max(0.0) / length
}

/// How a rise goes on that gets faster beyond what comes at random.
fn faster(points: &[(f64, f64)], noise: f64) -> Option<Faster> {
    let (found, rest) = Faster::of(points)?;
    found.is_no_chance(strays(&rest, &Line::default(), noise)).then_some(found)
}

/// The first sample after a jump that is near `x`: the one that parts lower from higher samples best.
fn jump(series: &Series, x: f64, floor: &[(f64, f64)]) -> f64 {
    const NEAR: f64 = 2.5;
    let (Some(first), Some(last)) = (floor.first(), floor.last()) else { return x };
    let near = NEAR * (last.0 - first.0) / floor.len().max(2).saturating_sub(1) as f64;
    let bins: Vec<&Bin> = series.bins().iter().filter(|b| (b.x() - x).abs() <= near).collect();
    let all: f64 = bins.iter().map(|b| b.low).sum();
    let (count, mut before) = (bins.len() as f64, 0.0);
    let mut best = (0.0, x);
    for (number, pair) in bins.windows(2).enumerate() {
        before += pair[0].low;
        let (low, high) = (number as f64 + 1.0, count - number as f64 - 1.0);
        let apart = ((all - before) / high - before / low).max(0.0).powi(2) * low * high;
        if apart > best.0 {
            best = (apart, pair[1].x_first);
        }
    }
    best.1
}

/// A plain corner that misses the floor by less than this part of the rise is preferred to a finer shape.
const CORNER: f64 = 0.02;

/// The shape that says where growth ended: a plain corner when it fits well, else the one with the most evidence.
fn settled_shape(seen: &Assessment) -> Option<&Fit> {
    let corner = |f: &&Fit| {
        let plain = matches!(f.shape, Shape::Knee | Shape::KneeFalling);
        plain && f.error.sqrt() <= CORNER * f.rise(0.0, f.knots[0]) && is_over(f, &seen.floor)
    };
    seen.fits.iter().find(corner).or_else(|| seen.best())
}

/// Whether the floor adds little after the corner of a shape: what bends has no corner.
fn is_over(corner: &Fit, floor: &Floor) -> bool {
    let (rose, at) = (corner.rise(0.0, corner.knots[0]), corner.knots[0]);
    let after: Vec<f64> = floor.unit().iter().zip(&floor.y).filter(|(u, _)| **u > at).map(|p| *p.1).collect();
    let few = (after.len() / 3).max(1);
    let middle = |part: &[f64]| quantile(&mut part.to_vec(), 0.5);
    after.len() < 2 * few || middle(&after[after.len() - few..]) - middle(&after[..few]) < AFTER_START * rose
}

/// The points that carry the growth: up to the knee, from the onset, or all.
fn growing_part(seen: &Assessment, points: &[(f64, f64)], knee: Option<f64>) -> Vec<(f64, f64)> {
    let (Some(first), Some(last)) = (points.first(), points.last()) else { return Vec::new() };
    let to = knee.unwrap_or(last.0);
    let from = match seen.best().map(|f| (f.shape, f.knots)) {
        Some((Shape::Late | Shape::RampLine | Shape::Rise, [a, _])) if seen.group == Group::Leak => a,
        Some((Shape::RampLate, [_, b])) => b,
        Some((Shape::SaturationLine, [tau, _])) => (3.0 * tau).min(0.4),
        Some((Shape::Rise, [a, _])) => a,
        _ => 0.0,
    };
    let from = from.mul_add(last.0 - first.0, first.0);
    let part: Vec<(f64, f64)> = points.iter().copied().filter(|p| p.0 >= from && p.0 <= to).collect();
    if part.len() >= 2 { part } else { points.to_vec() }
}

/// Where growth ended: the growing line meets the level right after it. For a curve that bends, where 97 % is reached.
fn knee(fit: &Fit, points: &[(f64, f64)]) -> Option<(f64, f64)> {
    let (first, last) = (points.first()?.0, points.last()?.0);
    let place = |u: f64| u.mul_add(last - first, first);
    let [a, b] = fit.knots;
    match fit.shape {
        Shape::Knee | Shape::KneeFalling => {
            let from = place(0.0);
            corner(points, from, place(a)).or_else(|| Some((place(a), fit.at(a))))
        }
        Shape::TwoStage | Shape::Rise => {
            corner(points, place(a), place(b)).or_else(|| Some((place(b), fit.at(b))))
        }
        Shape::Step => Some((place(a), fit.at(1.0))),
        Shape::RampStep => Some((place(b), fit.at(1.0))),
        Shape::Saturation | Shape::RampSaturation | Shape::Logarithm => {
            let whole = fit.rise(0.0, 1.0);
            let u = (0..=100).map(|i| f64::from(i) / 100.0).find(|u| fit.rise(0.0, *u) >= 0.97 * whole)?;
            Some((place(u), fit.at(1.0)))
        }
        Shape::Flat
        | Shape::Drop
        | Shape::Falling
        | Shape::Line
        | Shape::Accelerating
        | Shape::RampLine
        | Shape::Late
        | Shape::RampLate
        | Shape::SaturationLine => None,
    }
}

/// The corner near `guess`: among the neighbouring ways to split, the one whose line meets its plateau between the
/// last growing and the first settled point.
fn corner(points: &[(f64, f64)], from: f64, guess: f64) -> Option<(f64, f64)> {
    let near = points.iter().position(|p| p.0 >= guess)?;
    let start = points.iter().position(|p| p.0 >= from)?;
    let candidates = near.saturating_sub(2)..=(near + 1).min(points.len().saturating_sub(2));
    let mut best: Option<(f64, (f64, f64))> = None;
    for split in candidates.filter(|s| *s > start) {
        let (growing, after) = (&points[start..=split], &points[split + 1..]);
        let Some(line) = Line::through(growing).filter(|l| l.rate > 0.0) else { continue };
        let level = plateau(after);
        let x = (level - line.origin) / line.rate;
        let misfit = growing.iter().map(|p| (p.1 - line.at(p.0)).powi(2)).sum::<f64>() / growing.len() as f64;
        let outside = (points[split].0 - x).max(x - points[split + 1].0).max(0.0) * line.rate;
        let cost = outside.mul_add(outside, misfit);
        if best.is_none_or(|b| cost < b.0) {
            // A stretch that holds the corner may already show the plateau: the corner can lie one point before.
            let earliest = points[split.saturating_sub(1)].0;
            best = Some((cost, (x.clamp(earliest, points[split + 1].0), level)));
        }
    }
    best.map(|b| b.1)
}

/// The level right after growth ended: later trimming may lower the rest of the plateau.
fn plateau(after: &[(f64, f64)]) -> f64 {
    let take = (after.len() / 3).max(3).min(after.len());
    let mut ys: Vec<f64> = after[..take].iter().map(|p| p.1).collect();
    quantile(&mut ys, 0.5)
}

/// Samples that stand above the floor by much more than the usual scatter.
#[derive(Default)]
struct Waves {
    peaks: usize,
    /// Where each wave begins: samples that follow each other are one.
    begin: Vec<f64>,
    /// Where the top of each stands that is over, and how high over the floor.
    tops: Vec<(f64, f64)>,
    /// Typical and highest height over the floor.
    height: f64,
    most: f64,
    last: LastWave,
}

impl Waves {
    fn of(series: &Series, seen: &Assessment) -> Self {
        let (x, y) = (&seen.floor.x, &seen.floor.y);
        if y.is_empty() {
            return Self::default();
        }
        let between = |at: f64| {
            let after = x.partition_point(|x| *x < at).min(y.len() - 1);
            (after.saturating_sub(1), after)
        };
        let level = |at: f64| {
            let (before, after) = between(at);
            let length = x[after] - x[before];
            let share = if length > 0.0 { ((at - x[before]) / length).clamp(0.0, 1.0) } else { 1.0 };
            share.mul_add(y[after] - y[before], y[before])
        };
        // What the floor itself grows by there: a corner between two of its points, or what comes behind the last, is no wave.
        let growing = |at: f64| {
            let (before, after) = between(at);
            let near = y.get(before.saturating_sub(1)..(after + 2).min(y.len())).unwrap_or_default();
            near.windows(2).map(|pair| pair[1] - pair[0]).fold(0.0, f64::max)
        };
        // While a program starts, its curve runs ahead of the floor: that is no wave.
        let tenth = y.len() / 10;
        let started = |b: &&Bin| b.x() >= x[tenth] || level(b.x()) >= y[tenth] - PEAK * seen.floor.noise;
        let over: Vec<(f64, f64)> =
            series.bins().iter().filter(started).map(|b| (b.x_first, b.high - level(b.x()))).collect();
        if over.is_empty() {
            return Self::default();
        }
        let mut all: Vec<f64> = over.iter().map(|o| o.1).collect();
        // Scatter alone lies half as high at two fifths as at three; waves that are there nearly half of the time do not.
        let usual = quantile(&mut all, 0.6).min(2.0 * quantile(&mut all, 0.4)).max(2.0 * seen.floor.noise);
        let highest = all.last().copied().unwrap_or(0.0);
        let least = (PEAK * usual).max(CRUMBS * highest);
        let above = |o: &(f64, f64)| o.1 > least && o.1 > growing(o.0);
        let runs = over.chunk_by(|a, b| above(a) == above(b)).filter(|run| above(&run[0]));
        let begin = runs.clone().map(|run| run[0].0).collect();
        let end = over.last().map_or(0.0, |last| last.0);
        let climbs = runs.clone().next_back().filter(|run| climbs(run, end)).and_then(|run| run.last());
        let climbs = climbs.map_or(0.0, |last| last.1);
        let waves = runs.clone().count();
        let over_by_now = runs.filter(|run| run.last().is_some_and(|last| last.0 < end));
        let tops = over_by_now.filter_map(|run| run.iter().copied().max_by(|a, b| a.1.total_cmp(&b.1)));
        let tops: Vec<(f64, f64)> = tops.collect();
        let others = tops.iter().map(|top| top.1).fold(0.0, f64::max);
        let last = match (tops.len() < waves, climbs > FAR_ABOVE * others) {
            (true, true) => LastWave::Climbs(climbs),
            (true, false) => LastWave::Open,
            (false, _) => LastWave::Over,
        };
        let mut high: Vec<f64> = over.iter().filter(|o| above(o)).map(|o| o.1).collect();
        let height = if high.is_empty() { 0.0 } else { quantile(&mut high, 0.5) };
        Self { peaks: high.len(), begin, tops, height, most: high.iter().copied().fold(0.0, f64::max), last }
    }
}

/// A wave that is not over says what comes where it is so many times as high as all before it; else those say it.
const FAR_ABOVE: f64 = 1.5;
/// Samples in which a wave is seen to climb.
const CLIMBING: usize = 3;

/// Whether a wave climbs to the end of the curve, each of its last samples above the one before.
fn climbs(wave: &[(f64, f64)], end: f64) -> bool {
    let last = wave.get(wave.len().saturating_sub(CLIMBING)..).unwrap_or_default();
    last.len() == CLIMBING && last[CLIMBING - 1].0 >= end && last.windows(2).all(|pair| pair[0].1 < pair[1].1)
}

/// ... and at least this part of the highest one: beside it, less is a crumb.
const CRUMBS: f64 = 0.05;
/// A peak is this many times higher than the scatter that most samples have.
const PEAK: f64 = 4.0;
