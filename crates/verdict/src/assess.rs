//! Looks at one curve with all tests and says which of four answers it supports.
//!
//! This is where shapes, straightness, events, restarts and the data's own period meet. The result is numbers and a
//! call; the kind and the words come later (see `judge` and `words`).

use crate::decide::{ABOVE_MISFIT, AFTER_START, LAST_QUARTER, Odds, START, Stand, stand};
use crate::events::{EventGrowth, at_events};
use crate::evidence::{Evidence, Look, goes_on, rises_from};
use crate::facts::Line;
use crate::fall::{Fall, restarts};
use crate::floor::{Floor, quantile};
use crate::rest;
use crate::series::{Bin, Series};
use crate::shapes::{Contest, Fit, contest};
use crate::split::{Filled, Split};
use crate::verdict::Group;

/// A rise of a few pages is the allocator's own, whatever the curve looks like.
pub(crate) const LEAST_RISE: f64 = 65_536.0;
/// What holds less than this is no process in bytes: a count, or a curve in units of its own.
pub(crate) const OF_PAGES: f64 = 1_048_576.0;
/// A curve with fewer samples than this says nothing but its level.
const FEWEST: u64 = 4;
/// Below this many samples a rise is never called a leak: ten points are the least that can bend visibly.
const FEWEST_FOR_LEAK: u64 = 10;
/// Below this many samples one peak may be half of what will come.
const FEWEST_WITH_PEAK: u64 = 8;
/// Differences below this part of the whole curve's range (waves included) are not looked at.
const RESOLUTION: f64 = 0.004;
/// Below this many samples a rise must be straight beyond its scatter: this pace, at so many standard errors.
const FEW: u64 = 60;
const STRICT: (f64, f64) = (0.6, 0.7);
/// The logarithm of the odds that a rise goes on from which on it is called a leak, when all there will be was seen ...
const ENOUGH: f64 = 0.8;
/// ... and while more samples will come: waiting costs little then, and a false alarm costs trust.
pub(crate) const ENOUGH_RUNNING: f64 = 1.0;
/// With the length of a pass known, no leak is called before this many passes: the second pass is the experiment.
pub(crate) const PASSES: f64 = 1.3;
/// Of a single pass, this part must be seen before growth is told as its fill.
const HALF_PASS: f64 = 0.5;
/// A rise that keeps less of its pace than this, at the least, slows down.
const SLOWS: f64 = 0.3;
/// Growth in the second pass must keep this part of the pace of the first, at the least its scatter allows.
const ON_IN_SECOND: f64 = 0.25;
/// The last of a fill may come so much after the pass that it belongs to, ...
const JUST_AFTER: f64 = 1.1;
/// ... and of what comes after that so many points of the floor must be seen.
const FEWEST_AFTER: usize = 4;
/// Inside the first pass nearly all growth must happen at events: a fill grows beside them, half of it where that is looked for, and
/// chance must not hide it.
const AGAINST_FILL: f64 = 0.97;
const BETWEEN: f64 = 0.5;
const AGAINST_FILL_EVENTS: usize = 6;
/// A floor that is flat as surely as this does not leak, and growth at events counts only where it is not surely settled
/// either.
const SURELY_NOT: f64 = 0.9;
/// The level at the end is the middle of this many points of the floor.
const END: usize = 3;
/// Growth this likely keeps a curve inside its first pass undecided.
const MAY_GROW: f64 = 0.3;

/// After a fall so many samples must be seen.
const FEWEST_AFTER_FALL: u64 = 30;
/// A leak under a fill is looked for when so many passes were seen, ...
const PASSES_UNDER_A_FILL: f64 = 1.9;
/// ... and called from these odds on (natural logarithm: 20 to 1), because a fill that is over is what anybody expects, ...
const SURELY: f64 = 3.0;
/// ... where it adds this part of all that memory moved.
const PART_UNDER_A_FILL: f64 = 0.03;

/// What is known besides the curve, in the curve's own x.
#[derive(Clone, Debug, Default)]
pub(crate) struct Known {
    /// Length of one pass over the data.
    pub(crate) pass: Option<f64>,
    /// Where evaluations, saves and other events were.
    pub(crate) events: Vec<f64>,
    /// How often the process was restarted inside the curve.
    pub(crate) restarts: usize,
    /// ... and where, if somebody told.
    pub(crate) restart_x: Vec<f64>,
    /// Differences below this are the instrument's, in bytes.
    pub(crate) resolution: f64,
    /// Whether more samples will come.
    pub(crate) running: bool,
    /// Whether only one pass over the data is planned: no second one will ever tell.
    pub(crate) one_pass: bool,
    /// What each evaluation keeps beyond the first, where that was measured.
    pub(crate) kept_outside: Option<f64>,
    /// How a pass is dealt out among processes.
    pub(crate) split: Option<Split>,
}

/// Why a rise was not called a leak, or what decided otherwise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Because {
    TooFew,
    NothingMoves,
    Shapes,
    InsideFirstPass,
    SlowsDown,
    FewSamplesRise,
    PeakInFewSamples,
    AtEvents,
    EveryLifeClimbs,
    RecoversAfterRestart,
    /// It rises, but that it goes on is not likely enough yet.
    NotYetSure,
    /// It rose straight, and rests now as it never did before; how long that will last was not seen.
    RestsNow,
    /// A recording of a few seconds shows the start of a program.
    TooBrief,
    /// One pass is all there will be, and growth follows it.
    OnePass,
    /// It still creeps, but nearly all of it rose with the start of the program.
    OverWithStart,
    /// Bytes per example exceed the largest example.
    MoreThanData,
    /// With the first pass left out, what comes after it leaks by itself.
    UnderTheFill,
    /// It fell once, and what came after that leaks by itself.
    AfterTheFall,
    /// It rises as it did before it fell once.
    MayFallAgain,
    /// Evaluations keep memory beyond the first.
    KeepsInEvaluation,
    /// Each of the processes that share a pass keeps what it meets: its curve bends by the ratio that makes.
    DealtOut,
    /// It rises, and a fill of that kind would look the same so far.
    MayBeDealtOut,
}

/// All that was found out about one curve.
#[derive(Clone, Debug)]
pub(crate) struct Assessment {
    pub(crate) group: Group,
    pub(crate) because: Because,
    pub(crate) odds: Odds,
    pub(crate) floor: Floor,
    pub(crate) fits: Vec<Fit>,
    pub(crate) effective: f64,
    pub(crate) correlation: f64,
    /// Pace at the end over pace at the start of the rise, at its lower bound.
    pub(crate) pace: Option<f64>,
    /// Natural logarithm of the odds that the rise goes on.
    pub(crate) goes_on: Option<f64>,
    /// The same while more samples will come, the line that stops counted in.
    pub(crate) so_far: Option<f64>,
    pub(crate) events: Option<EventGrowth>,
    pub(crate) samples: u64,
    /// Where the judged part begins in the series, after the last restart that counts.
    pub(crate) cut: usize,
    /// What a fill by several processes would be, where that is the answer or may be.
    pub(crate) filled: Option<Filled>,
    /// The one fall of a curve that rises as it did before that.
    pub(crate) fell: Option<Fall>,
}

impl Assessment {
    fn bare(floor: Floor, samples: u64, group: Group, because: Because) -> Self {
        Self {
            group,
            because,
            odds: Odds::default(),
            floor,
            fits: Vec::new(),
            effective: 0.0,
            correlation: 0.0,
            pace: None,
            goes_on: None,
            so_far: None,
            events: None,
            samples,
            cut: 0,
            filled: None,
            fell: None,
        }
    }

    /// The same curve, of which nothing but its level counts.
    pub(crate) fn bare_of(self, group: Group, because: Because) -> Self {
        Self { cut: self.cut, ..Self::bare(self.floor, self.samples, group, because) }
    }

    pub(crate) fn with(mut self, group: Group, because: Because) -> Self {
        self.group = group;
        self.because = because;
        self
    }

    /// The best shape that supports the call.
    pub(crate) fn best(&self) -> Option<&Fit> {
        let wanted = |f: &&Fit| match self.group {
            Group::Leak => stand(f) == Stand::Rising,
            // What only slows down has no corner, however well one would suit.
            Group::Bounded if self.because == Because::SlowsDown => {
                matches!(stand(f), Stand::Settled | Stand::Open) && !f.shape.is_rising()
            }
            Group::Bounded => stand(f) == Stand::Settled,
            Group::Flat => stand(f) == Stand::Flat,
            Group::TooEarly => true,
        };
        self.fits.iter().find(wanted).or_else(|| self.fits.first())
    }
}

/// Judges a curve, its restarts included.
pub(crate) fn assess(series: &Series, known: &Known) -> Assessment {
    let cuts = restarts(series, known.restarts, &known.restart_x);
    let Some(&last_cut) = cuts.last() else {
        return after_the_fall(assess_life(series, known), series, known);
    };
    let mut edges = vec![0];
    edges.extend(&cuts);
    edges.push(series.bins().len());
    let lives: Vec<(usize, usize)> = edges.windows(2).map(|w| (w[0], w[1])).collect();
    if let Some(found) = every_life_climbs(series, known, &lives) {
        return found;
    }
    // The longest life speaks for the program; a later one that only climbs back to the old level changes nothing.
    let Some(&(from, to)) = lives.iter().max_by_key(|(a, b)| b - a) else {
        return assess_life(series, known);
    };
    let mut main = assess_life(&series.part(from, to), known);
    main.cut = from;
    if let Some(together) = lives_together(series, known, &lives, &main) {
        main.goes_on = Some(together);
        return main.with(Group::Leak, Because::EveryLifeClimbs);
    }
    let before = level(&series.bins()[..last_cut]);
    let after = level(&series.bins()[last_cut..]);
    if main.group != Group::Leak && from == last_cut && after <= before {
        let first = assess_life(&series.part(0, last_cut), known);
        let group = if first.group == Group::TooEarly { main.group } else { first.group };
        return main.with(group, Because::RecoversAfterRestart);
    }
    main
}

/// What came after the one large fall of a curve, if it leaks by itself beyond doubt: beside the fall it looks small. Where it rose
/// alike before, it may fall again.
fn after_the_fall(seen: Assessment, series: &Series, known: &Known) -> Assessment {
    let fall = Fall::of(&seen.floor).filter(|_| seen.group != Group::Leak);
    let Some(fall) = fall else { return seen };
    let bins = series.bins();
    let from = bins.partition_point(|bin| bin.x() < fall.x);
    let later = series.part(from, bins.len());
    if later.samples() < FEWEST_AFTER_FALL {
        return seen;
    }
    let found = assess_life(&later, known);
    let by_shape = matches!(found.because, Because::Shapes | Because::UnderTheFill);
    let surely = found.group == Group::Leak && found.goes_on.is_some_and(|odds| odds >= SURELY);
    let after = Assessment { cut: from + found.cut, ..found };
    match surely && by_shape {
        true if fall.again => {
            Assessment { fell: Some(fall), ..after }.with(Group::TooEarly, Because::MayFallAgain)
        }
        true => after.with(Group::Leak, Because::AfterTheFall),
        false => seen,
    }
}

fn level(bins: &[Bin]) -> f64 {
    let mut values: Vec<f64> = bins.iter().rev().take((bins.len() / 4).max(1)).map(|b| b.low).collect();
    quantile(&mut values, 0.5)
}

/// Two lives or more that each climb until they end: what stops them is the end of memory, not of growth.
fn every_life_climbs(series: &Series, known: &Known, lives: &[(usize, usize)]) -> Option<Assessment> {
    let lives: Vec<(usize, usize)> = lives.iter().copied().filter(|(a, b)| b - a >= 4).collect();
    if lives.len() < 2 {
        return None;
    }
    let climbs = |&(from, to): &(usize, usize)| {
        let part = series.part(from, to);
        let found = assess_life(&part, known);
        // A life that ends inside its first pass over the data may only have been filling.
        let fills = known.pass.is_some_and(|pass| span(part.bins()) < PASSES * pass);
        let few = part.samples() < FEWEST_FOR_LEAK && ends_at_its_top(part.bins()) && !fills;
        (found.group == Group::Leak || few).then_some(found)
    };
    let found: Option<Vec<Assessment>> = lives.iter().map(climbs).collect();
    let (at, main) = found?.into_iter().enumerate().max_by_key(|(_, a)| a.samples)?;
    let mut main = main.with(Group::Leak, Because::EveryLifeClimbs);
    main.cut = lives.get(at)?.0;
    Some(main)
}

/// How far a part reaches.
fn span(bins: &[Bin]) -> f64 {
    bins.first().zip(bins.last()).map_or(0.0, |(first, last)| last.x() - first.x())
}

/// Lives that rise alike, each too short to tell, may tell together; the odds that they do.
fn lives_together(
    series: &Series,
    known: &Known,
    lives: &[(usize, usize)],
    main: &Assessment,
) -> Option<f64> {
    let open = matches!(main.because, Because::NotYetSure | Because::SlowsDown);
    if main.group != Group::TooEarly || !open {
        return None;
    }
    let parts = lives.iter().map(|&(from, to)| series.part(from, to));
    let parts: Vec<Series> = parts.filter(|part| part.samples() >= FEWEST_FOR_LEAK).collect();
    let each: Option<Vec<Evidence>> = parts.iter().map(|part| evidence(&look(part, known), part)).collect();
    let each = each.filter(|each| each.len() >= 2)?;
    let together = each.into_iter().reduce(Evidence::with)?;
    let samples = parts.iter().map(Series::samples).sum();
    is_leak(&together, samples, true, known.running).then_some(together.log_odds)
}

fn ends_at_its_top(bins: &[Bin]) -> bool {
    let (Some(first), Some(last)) = (bins.first(), bins.last()) else { return false };
    let high = bins.iter().map(|b| b.high).fold(f64::NEG_INFINITY, f64::max);
    let low = bins.iter().map(|b| b.low).fold(f64::INFINITY, f64::min);
    last.last >= high - 0.05 * (high - low) && first.low <= low + 0.05 * (high - low) && high > low
}

fn assess_life(series: &Series, known: &Known) -> Assessment {
    let whole = look(series, known);
    let Some(filled) = dealt_out(&whole, known) else { return by_passes(whole, series, known) };
    if filled.is_sure() {
        let filled = Some(filled);
        return Assessment { filled, ..whole }.with(Group::Bounded, Because::DealtOut);
    }
    let seen = by_passes(whole.clone(), series, known);
    let by_shape = matches!(seen.because, Because::Shapes | Because::UnderTheFill);
    if seen.group == Group::Leak && by_shape && filled.may_be() {
        let filled = Some(filled);
        return Assessment { filled, ..whole }.with(Group::TooEarly, Because::MayBeDealtOut);
    }
    if seen.group == Group::Bounded && filled.hides_a_rise() {
        return seen.with(Group::TooEarly, Because::NotYetSure);
    }
    seen
}

/// What goes on after the first pass, or begins then.
fn by_passes(whole: Assessment, series: &Series, known: &Known) -> Assessment {
    let seen = after_the_pass(whole, series, known);
    if seen.group == Group::Leak { seen } else { under_the_fill(series, known).unwrap_or(seen) }
}

/// The curve as a fill by several processes that share each pass, once the second one can tell.
fn dealt_out(whole: &Assessment, known: &Known) -> Option<Filled> {
    let (pass, split) = known.pass.zip(known.split)?;
    let seen = whole.floor.x.last().is_some_and(|last| *last >= PASSES * pass);
    let grows = whole.group != Group::Flat && !whole.fits.is_empty() && whole.because != Because::AtEvents;
    if seen && grows { Filled::of(&whole.floor, &whole.fits, (pass, split)) } else { None }
}

/// A leak under a fill much larger than itself: the whole curve bends and looks settled, but what came after the first pass
/// leaks by itself, beyond doubt. Told from there on.
fn under_the_fill(series: &Series, known: &Known) -> Option<Assessment> {
    let pass = known.pass?;
    let bins = series.bins();
    let enough = series.last().is_some_and(|last| last.x_last >= PASSES_UNDER_A_FILL * pass);
    let from = bins.partition_point(|b| b.x_first < pass);
    let later = series.part(from, bins.len());
    if !enough || from == 0 || later.samples() < FEW {
        return None;
    }
    let seen = look(&later, &Known { pass: None, ..known.clone() });
    let leaks = seen.group == Group::Leak && seen.because == Because::Shapes;
    let surely = leaks && seen.goes_on.is_some_and(|odds| odds >= SURELY);
    let counts = seen.floor.range() >= PART_UNDER_A_FILL * range(bins);
    (surely && counts).then(|| Assessment { cut: from, ..seen }.with(Group::Leak, Because::UnderTheFill))
}

/// With the second pass seen, growth must go on in it: what stopped with the first pass was its fill. What is much slower than
/// the fill must be a leak by itself, with the fill left out.
fn after_the_pass(seen: Assessment, series: &Series, known: &Known) -> Assessment {
    let by_shape = seen.group == Group::Leak && seen.because == Because::Shapes;
    let Some(pass) = known.pass.filter(|_| by_shape) else { return seen };
    let points = || seen.floor.x.iter().copied().zip(seen.floor.y.iter().copied());
    let before: Vec<(f64, f64)> = points().filter(|p| p.0 <= pass).collect();
    let after: Vec<(f64, f64)> = points().filter(|p| p.0 >= JUST_AFTER * pass).collect();
    if after.len() < FEWEST_AFTER {
        return seen.with(Group::TooEarly, Because::NotYetSure);
    }
    let (Some(before), Some(after)) = (Line::through(&before), Line::through(&after)) else { return seen };
    let slower = before.rate > 0.0 && after.rate - after.margin < ON_IN_SECOND * before.rate;
    if !slower || leaks_after(series, pass, known) {
        return seen;
    }
    seen.with(Group::Bounded, Because::SlowsDown)
}

/// Whether what comes after the first pass is a leak by itself.
fn leaks_after(series: &Series, pass: f64, known: &Known) -> bool {
    let from = series.bins().partition_point(|b| b.x_first < pass);
    let later = series.part(from, series.bins().len());
    look(&later, &Known { pass: None, ..known.clone() }).group == Group::Leak
}

fn look(series: &Series, known: &Known) -> Assessment {
    let samples = series.samples();
    let mut floor = Floor::of(series);
    if known.pass.is_some() {
        // A pass over the data that is known can be told, however small its fill is beside the start of the program.
        floor.first = floor.y.first().copied().unwrap_or(floor.first);
    }
    if samples < FEWEST {
        return Assessment::bare(floor, samples, Group::TooEarly, Because::TooFew);
    }
    let resolution = (RESOLUTION * range(series.bins())).max(known.resolution);
    let held = floor.y.iter().copied().fold(0.0, f64::max);
    let least = if held >= OF_PAGES { LEAST_RISE } else { 0.0 };
    if floor.range() <= known.resolution.max(least) {
        let peak = samples < FEWEST_WITH_PEAK && has_peak(series.bins());
        let group = if peak { Group::TooEarly } else { Group::Flat };
        return Assessment::bare(floor, samples, group, Because::NothingMoves);
    }
    let Contest { fits, effective, correlation } = contest(&floor, resolution);
    let odds = Odds::of(&fits);
    let seen = Assessment {
        odds,
        fits,
        effective,
        correlation,
        ..Assessment::bare(floor, samples, Group::Flat, Because::Shapes)
    };
    call(seen, series, known)
}

fn range(bins: &[Bin]) -> f64 {
    let low = bins.iter().map(|b| b.low).fold(f64::INFINITY, f64::min);
    bins.iter().map(|b| b.high).fold(f64::NEG_INFINITY, f64::max) - low
}

fn call(seen: Assessment, series: &Series, known: &Known) -> Assessment {
    let odds = seen.odds;
    let end = series.last().map_or(0.0, |b| b.x_last);
    let filling = known.pass.is_some_and(|pass| end < PASSES * pass);
    let clear = |e: &EventGrowth| {
        let always = 5 * e.rose >= 4 * e.events;
        let no_fill = known.pass.is_none() || always;
        let only_there = e.across >= AGAINST_FILL && e.between < BETWEEN;
        let beside = !filling || (only_there && e.events >= AGAINST_FILL_EVENTS);
        // A floor that has surely stopped or slowed down is a fill or a warm-up that ends, whatever it lines up with.
        (e.steady || odds.flat.max(odds.settled + odds.open) < SURELY_NOT) && no_fill && beside
    };
    // After the first pass only what happens later can speak against a fill, if enough of it was seen.
    let after = known.pass.filter(|_| !filling).map_or(f64::NEG_INFINITY, |pass| pass);
    let from = series.bins().partition_point(|b| b.x() < after);
    let part = series.part(from, series.bins().len());
    if let Some(events) = at_events(&part, &known.events).filter(clear) {
        let seen = Assessment { events: Some(events), ..seen };
        return seen.with(Group::Leak, Because::AtEvents);
    }
    if filling && (odds.rising + odds.open > MAY_GROW || climbs_on(&seen)) {
        return inside_first_pass(seen, end, known);
    }
    if seen.samples < FEWEST_WITH_PEAK && has_peak(series.bins()) {
        return seen.with(Group::TooEarly, Because::PeakInFewSamples);
    }
    let mut seen = seen;
    let evidence = evidence(&seen, series);
    seen.pace = evidence.map(|e| e.bend.pace_kept(STRICT.1));
    seen.goes_on = evidence.map(|e| e.log_odds);
    seen.so_far = evidence.filter(|_| known.running).map(|e| e.so_far);
    let most = odds.flat.max(odds.settled).max(odds.open).max(odds.rising);
    // However straight the last wave of a flat curve or the last bit of one that slows down is.
    let enough = part.samples() >= FEWEST_FOR_LEAK && odds.rising > 1.0 - SURELY_NOT;
    let leaks = |running: bool| {
        enough && evidence.is_some_and(|e| is_leak(&e, seen.samples, odds.rising >= most, running))
    };
    let rests = seen.samples >= FEW && rest::at_end(&seen.floor, rises_from(&seen.fits)).is_some();
    if rests && (leaks(known.running) || leaks(false)) {
        return seen.with(Group::TooEarly, Because::RestsNow);
    }
    if leaks(known.running) {
        return seen.with(Group::Leak, Because::Shapes);
    }
    // What would be a leak if nothing more came is neither flat nor over because more will come.
    if known.running && leaks(false) {
        return seen.with(Group::TooEarly, Because::NotYetSure);
    }
    if odds.flat >= most {
        return seen.with(Group::Flat, Because::Shapes);
    }
    if filling && may_still_fill(&seen, PASSES * known.pass.unwrap_or(0.0) - end) {
        return inside_first_pass(seen, end, known);
    }
    if odds.settled >= most {
        return seen.with(Group::Bounded, Because::Shapes);
    }
    if odds.open >= most || seen.pace.is_none_or(|pace| pace < SLOWS) {
        return slowing(seen);
    }
    let few = seen.samples < FEWEST_FOR_LEAK;
    let because = if few { Because::FewSamplesRise } else { Because::NotYetSure };
    seen.with(Group::TooEarly, because)
}

fn evidence(seen: &Assessment, series: &Series) -> Option<Evidence> {
    let (floor, fits) = (&seen.floor, &seen.fits[..]);
    let moved = range(series.bins());
    goes_on(&Look { floor, fits, odds: seen.odds, samples: seen.samples, moved })
}

/// Whether so much speaks for a rise that goes on that it is called a leak.
fn is_leak(e: &Evidence, samples: u64, leads: bool, running: bool) -> bool {
    if running {
        return e.so_far >= ENOUGH_RUNNING;
    }
    let straight = leads && e.bend.pace_kept(STRICT.1) >= STRICT.0;
    e.log_odds >= ENOUGH && (samples >= FEW || straight)
}

/// The floor after its start: a third of the curve is left out, or all of a rise that is surely over.
fn later(seen: &Assessment) -> Vec<(f64, f64)> {
    let floor = &seen.floor;
    let over = seen.fits.iter().find(|fit| stand(fit) == Stand::Settled).and_then(Fit::ends);
    let over = over.filter(|_| seen.odds.settled >= SURELY_NOT).unwrap_or(0.0);
    let points = floor.unit().into_iter().zip(floor.x.iter().copied().zip(floor.y.iter().copied()));
    points.skip(floor.len().div_ceil(3)).filter(|(u, _)| *u > over).map(|(_, point)| point).collect()
}

/// Whether the floor still climbs after its start, however small that is beside the start: it must rise by several times its
/// scatter.
fn climbs_on(seen: &Assessment) -> bool {
    let later = later(seen);
    let Some(line) = Line::through(&later).filter(|l| later.len() >= 5 && l.rate > l.margin) else {
        return false;
    };
    let misses = later.iter().map(|p| (p.1 - line.at(p.0)).powi(2)).sum::<f64>() / later.len() as f64;
    line.rate * (line.to - line.from) > ABOVE_MISFIT * misses.sqrt()
}

/// Whether the rest of the pass could still add a part of the rise that counts: before its end that growth is over has
/// to be shown, and a few samples in which none can be seen do not show it. The pace is taken at its upper bound.
fn may_still_fill(seen: &Assessment, rest: f64) -> bool {
    let fastest = Line::through(&later(seen)).map_or(f64::INFINITY, |line| line.rate + line.margin);
    fastest * rest > LAST_QUARTER * seen.floor.range()
}

/// Before the second pass only something other than the curve can tell a fill from a leak.
fn inside_first_pass(seen: Assessment, end: f64, known: &Known) -> Assessment {
    if known.kept_outside.is_some() {
        return seen.with(Group::Leak, Because::KeepsInEvaluation);
    }
    let half_seen = known.pass.is_some_and(|pass| end >= HALF_PASS * pass);
    if known.one_pass && half_seen && seen.samples >= FEWEST_FOR_LEAK {
        if seen.odds.settled > seen.odds.rising + seen.odds.open && !climbs_on(&seen) {
            // A cache that is full before the data are.
            return seen.with(Group::Bounded, Because::Shapes);
        }
        return seen.with(Group::Bounded, Because::OnePass);
    }
    seen.with(Group::TooEarly, Because::InsideFirstPass)
}

/// A rise that slows down: over with the start if little came after it; settled if its last quarter added little and it
/// rather stops than goes on; else undecided.
fn slowing(seen: Assessment) -> Assessment {
    if over_with_the_start(&seen.floor) {
        return seen.with(Group::Flat, Because::OverWithStart);
    }
    let settled = last_quarter(&seen.floor) < LAST_QUARTER && seen.goes_on.is_none_or(|odds| odds < 0.0);
    let group = if settled { Group::Bounded } else { Group::TooEarly };
    seen.with(group, Because::SlowsDown)
}

/// Whether what came after the start is too little beside all that memory rose since the very first sample.
fn over_with_the_start(floor: &Floor) -> bool {
    let mut last: Vec<f64> = floor.y.iter().rev().take(END).copied().collect();
    let end = quantile(&mut last, 0.5);
    end - floor.at(START) < AFTER_START * (end - floor.first)
}

/// Part of the whole rise that the last quarter of the curve added.
fn last_quarter(floor: &Floor) -> f64 {
    let u = floor.unit();
    let near = |at: f64| {
        let mut ys: Vec<f64> =
            u.iter().zip(&floor.y).filter(|(u, _)| (*u - at).abs() <= 0.07).map(|p| *p.1).collect();
        (!ys.is_empty()).then(|| quantile(&mut ys, 0.5))
    };
    let (Some(three), Some(end)) = (near(0.75), near(0.97)) else { return 1.0 };
    let range = floor.range();
    if range > 0.0 { (end - three) / range } else { 0.0 }
}

/// Whether one sample stands out from the others by ten times what they scatter.
fn has_peak(bins: &[Bin]) -> bool {
    let mut values: Vec<f64> = bins.iter().map(Bin::mean).collect();
    let middle = quantile(&mut values, 0.5);
    let mut away: Vec<f64> = values.iter().map(|v| (v - middle).abs()).collect();
    let scatter = quantile(&mut away, 0.5);
    values.last().is_some_and(|top| top - middle > 10.0 * scatter)
}
