//! Makes all text of a verdict: the answer first, each evidence line with a number that can be checked, what it is
//! not, one action, one test that could prove it wrong.
//!
//! One place for all sentences, so that two commands can't tell the same thing differently. Not here: any decision.

use crate::assess::{Assessment, Because};
use crate::budget::{Fill, pass};
use crate::facts::Facts;
use crate::periods::{Periods, evaluations};
use crate::phrases::{both, counted, duration, moved, number, parted, size};
use crate::shapes::Shape;
use crate::verdict::{Fits, Forecast, Kind, Outcome};
use lowtide_model::{Axis, Context, Metric};

/// Data-set sizes people ask for next, and as many of them as fit into a line.
const SIZES: [f64; 5] = [500.0, 1000.0, 2000.0, 5000.0, 10_000.0];
const SIZES_SHOWN: usize = 3;

/// A rise that is over within this part of a curve is its start.
const START: f64 = 0.1;

/// A floor that moves by more than this part of itself stays at no level that could be told.
pub(crate) const NOT_ONE_LEVEL: f64 = 0.1;

/// A floor falls if its end is lower by this part of all that it moved.
const MOST_OF_IT: f64 = 0.7;
/// What came within a short first pass is worth a line from this part of all on.
const CACHE_PART: f64 = 0.05;

/// All a sentence may need.
pub(crate) struct Story<'a> {
    pub(crate) kind: Kind,
    pub(crate) seen: &'a Assessment,
    pub(crate) facts: &'a Facts,
    pub(crate) context: &'a Context,
    pub(crate) axis: Axis,
    pub(crate) metric: &'a Metric,
    pub(crate) fill: Option<Fill>,
    /// Bytes kept for each example, and the largest example.
    pub(crate) beyond: Option<(f64, f64)>,
    pub(crate) outcome: &'a Outcome,
    pub(crate) forecast: Option<&'a Forecast>,
    pub(crate) decided_at: Option<f64>,
    /// Growth of reclaimable file pages beside the need.
    pub(crate) file_grown: Option<f64>,
    /// Samples that were no numbers.
    pub(crate) unusable: u64,
    /// What growth and peaks line up with.
    pub(crate) periods: &'a Periods,
    /// How a count of objects or tensors went: name, first, last, and where it changed if it did once.
    pub(crate) count: Option<CountFact>,
}

/// What a recorded count of objects did.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct CountFact {
    pub(crate) name: String,
    pub(crate) first: f64,
    pub(crate) last: f64,
    /// Between which x it changed, when it changed once.
    pub(crate) changed: Option<(f64, f64)>,
}

impl Story<'_> {
    pub(crate) fn per(&self) -> &'static str {
        match self.axis {
            Axis::Step => "step",
            Axis::Seconds => "second",
            Axis::Sample => "sample",
            Axis::Epoch => "epoch",
        }
    }

    pub(crate) fn place(&self, x: f64) -> String {
        match self.axis {
            Axis::Seconds => duration(x),
            Axis::Step | Axis::Sample | Axis::Epoch => format!("{} {}", self.per(), number(x)),
        }
    }

    /// So much of x, as a length.
    pub(crate) fn length(&self, x: f64) -> String {
        match self.axis {
            Axis::Seconds => duration(x),
            Axis::Step | Axis::Sample | Axis::Epoch => counted(x, self.per()),
        }
    }

    /// The unit a person would give a rate in: per minute or hour where the curve is that long. With its x.
    fn pace_unit(&self) -> (&'static str, f64) {
        let length = self.facts.last - self.facts.first;
        match self.axis {
            Axis::Seconds if length >= 3.0 * 3600.0 => ("hour", 3600.0),
            Axis::Seconds if length >= 180.0 => ("minute", 60.0),
            Axis::Seconds | Axis::Step | Axis::Sample | Axis::Epoch => (self.per(), 1.0),
        }
    }

    pub(crate) fn rate(&self, rate: f64) -> String {
        let (unit, x) = self.pace_unit();
        format!("{} per {unit}", size(rate * x))
    }

    /// The rate with its interval, where the interval says more than the rate.
    fn rate_between(&self) -> String {
        let g = &self.facts.growth;
        let (_, x) = self.pace_unit();
        let at = |rate: f64| size(rate * x);
        let (low, high) = (g.rate - g.margin, g.rate + g.margin);
        let rate = self.rate(g.rate);
        if at(low) == at(high) {
            rate
        } else if low <= 0.0 {
            format!("{rate} (at most {})", at(high))
        } else {
            format!("{rate} (between {} and {})", at(low), at(high))
        }
    }

    pub(crate) fn what(&self) -> &'static str {
        if matches!(self.metric, Metric::Gpu) { "GPU memory" } else { "memory" }
    }

    /// The answer in one sentence.
    pub(crate) fn headline(&self) -> String {
        let f = self.facts;
        let answer = match self.kind {
            Kind::Leak => self.leak_headline(),
            Kind::CacheFill => self.fill_headline(),
            Kind::WarmUp => format!(
                "warm-up: {} grew {} until {} and has stayed there since",
                self.what(),
                size(f.grown()),
                self.knee()
            ),
            Kind::AllocatorKept => {
                format!(
                    "kept by the allocator: {} ratcheted up by {} until {} and stopped",
                    self.what(),
                    size(f.grown()),
                    self.knee()
                )
            }
            Kind::WorkerCopies => {
                format!(
                    "worker copies: forked processes un-shared {} until {}; it ends when all is copied",
                    size(f.grown()),
                    self.knee()
                )
            }
            Kind::Spikes | Kind::Steady if self.bound() > NOT_ONE_LEVEL * f.end => self.moving_headline(),
            Kind::Spikes if f.waves == 1 => format!(
                "spikes: the floor stays at {}; one peak of about {} came and went",
                size(f.end),
                size(f.peak_height)
            ),
            Kind::Spikes => format!(
                "spikes: the floor stays at {}; {} peaks of about {} come and go{}",
                size(f.end),
                number(f.waves as f64),
                size(f.peak_height),
                self.periods.peaks_at().map(|name| format!(", at {name}s")).unwrap_or_default()
            ),
            Kind::PageCache => format!(
                "page cache: {} of file pages came in, which the kernel takes back; the job's own {} is flat at {}",
                size(self.file_grown.unwrap_or(0.0)),
                self.what(),
                size(f.end)
            ),
            Kind::Steady if self.bound() < 1.0 => {
                format!("steady: the floor stays at {} and does not move", size(f.end))
            }
            Kind::Steady => {
                format!("steady: the floor stays at {} within {}", size(f.end), size(self.bound()))
            }
            Kind::TooEarly => self.early_headline(),
        };
        let fits = self.fits();
        if fits.is_empty() { answer } else { format!("{answer}; {fits}") }
    }

    pub(crate) fn knee(&self) -> String {
        self.facts.knee.map_or_else(|| "its end".to_owned(), |k| self.place(k.0))
    }

    /// How far the floor moved once it had started, or since growth ended: what any growth there stayed below.
    pub(crate) fn bound(&self) -> f64 {
        let (f, floor) = (self.facts, &self.seen.floor);
        let started = START.mul_add(f.last - f.first, f.first);
        let from = f.knee.map_or(started, |knee| knee.0);
        let later = || floor.x.iter().zip(&floor.y).filter(|p| *p.0 >= from).map(|p| *p.1);
        let range = later().fold(f64::NEG_INFINITY, f64::max) - later().fold(f64::INFINITY, f64::min);
        range.max(2.0 * f.noise)
    }

    /// What growth was held against: evaluations, or saves where no evaluation is known.
    pub(crate) fn event(&self) -> &'static str {
        if evaluations(self.context, self.facts.last).is_empty() { "save" } else { "evaluation" }
    }

    pub(crate) fn falls(&self) -> bool {
        self.facts.after_start - self.facts.end > MOST_OF_IT * self.bound()
    }

    /// Of a floor that moves and does not grow: it falls, or it comes and goes.
    fn moving_headline(&self) -> String {
        let (f, kind) = (self.facts, self.kind.word());
        if self.falls() {
            return format!("{kind}: {} fell from {} to {}", self.what(), size(f.after_start), size(f.end));
        }
        let low = self.seen.floor.y.iter().copied().fold(f64::INFINITY, f64::min);
        format!("{kind}: {} comes and goes between {} and {}", self.what(), size(low), size(f.peak))
    }

    fn leak_headline(&self) -> String {
        if let Some(e) = self.seen.events {
            return format!(
                "leak: each {} keeps {}, {} of {} raised the floor",
                self.event(),
                size(e.each),
                e.rose,
                e.events
            );
        }
        if self.seen.because == Because::KeepsInEvaluation {
            return format!(
                "leak: {} grows by {}, in evaluation too, where no new example is touched",
                self.what(),
                self.rate(self.facts.growth.rate)
            );
        }
        let since = match self.seen.best().map(|b| b.shape) {
            Some(Shape::Late | Shape::RampLate) => {
                format!(" since {}", self.place(self.facts.growth.from))
            }
            _ => String::new(),
        };
        format!(
            "leak: the floor of {} rises by {}{since} with no end in sight",
            self.what(),
            self.rate(self.facts.growth.rate)
        )
    }

    fn fill_headline(&self) -> String {
        let f = self.facts;
        let grown = size(f.grown());
        if self.seen.because == Because::OnePass {
            let keeps = match self.fill {
                Some(fill) => format!("every new example keeps {}", size(fill.bytes_per_example)),
                None => format!("new examples keep {}", self.rate(f.growth.rate)),
            };
            return format!("cache fill: {keeps} and nothing comes back; it ends with the data, not before");
        }
        match (self.fill, self.matches_pass()) {
            (Some(fill), Some(true)) => format!(
                "cache fill: every example keeps {} the first time it is used; growth of {grown} ended at {}, with the first pass over the data",
                size(fill.bytes_per_example),
                self.knee()
            ),
            (None, Some(true)) => {
                format!(
                    "cache fill: growth of {grown} ended at {}, with the first pass over the data",
                    self.knee()
                )
            }
            _ => format!(
                "cache fill: {} grew {grown} at one pace and stopped at once at {}",
                self.what(),
                self.knee()
            ),
        }
    }

    fn early_headline(&self) -> String {
        let f = self.facts;
        let samples = counted(self.seen.samples as f64, "sample");
        if self.seen.samples < 4 {
            let verb = if self.seen.samples == 1 { "shows" } else { "show" };
            return format!("too early to say: {samples} {verb} no floor yet");
        }
        let when = match (self.decided_at, self.axis) {
            (Some(at), Axis::Step) => format!("; decided at step {}", number(at.ceil())),
            (Some(_) | None, _) => String::new(),
        };
        let because = self.seen.because;
        if because == Because::PeakInFewSamples {
            format!("too early to say: a peak in {samples} may be a wave or half of what will come{when}")
        } else if because == Because::SlowsDown && f.end > f.start {
            let (from, to) = (size(f.start), size(f.end));
            let what = self.what();
            format!(
                "too early to say: {what} grew from {from} to {to} and slows down, but has not settled{when}"
            )
        } else if f.growth.rate <= f.growth.margin {
            format!("too early to say: {samples} do not tell a floor from a wave{when}")
        } else {
            let (what, rate) = (self.what(), self.rate(f.growth.rate));
            format!("too early to say: {what} grows by {rate}, and {} still fit{when}", self.futures())
        }
    }

    fn futures(&self) -> String {
        match self.explanations().len() {
            0 | 1 => "several explanations".to_owned(),
            2 => "two explanations".to_owned(),
            3 => "three explanations".to_owned(),
            many => format!("{many} explanations"),
        }
    }

    fn fits(&self) -> String {
        if let Some(death) = &self.outcome.death {
            return death.clone();
        }
        let limit = self.outcome.limit_bytes.map(size).unwrap_or_default();
        match (self.outcome.is, self.outcome.needs_bytes) {
            (Fits::Fits, Some(needs)) => format!("it fits: {} of {limit}", size(needs)),
            (Fits::Tight, Some(needs)) => format!("tight: {} of {limit}", size(needs)),
            (Fits::Exceeds, Some(needs)) => {
                let doubt = if self.kind == Kind::TooEarly { "if it goes on like this, " } else { "" };
                let when = self.forecast.map(|f| format!("; the limit is reached {}", self.when(f)));
                format!("{doubt}it does not fit: {} of {limit}{}", size(needs), when.unwrap_or_default())
            }
            (Fits::Exceeds, None) => self.forecast.map_or_else(
                || format!("it will reach {limit}"),
                |f| format!("at this rate {limit} is reached {}", self.when(f)),
            ),
            (Fits::Unknown, _) | (Fits::Fits | Fits::Tight, None) => String::new(),
        }
    }

    pub(crate) fn when(&self, f: &Forecast) -> String {
        match (f.at_step, f.in_seconds) {
            (Some(step), Some(s)) => {
                format!("at {} {}, in {}", self.per(), number(step.floor()), duration(s))
            }
            (Some(step), None) => format!("at {} {}", self.per(), number(step.floor())),
            (None, Some(s)) => format!("in {}", duration(s)),
            (None, None) => "later".to_owned(),
        }
    }

    /// Whether the knee is where the first pass over the data ended; `None` when the length of a pass is not known.
    pub(crate) fn matches_pass(&self) -> Option<bool> {
        let (knee, pass) = (self.facts.knee?.0, pass(self.context, self.axis)?);
        Some(knee_matches(knee, pass, self.facts, self.seen.floor.len()))
    }

    /// Lines that each hold a number.
    pub(crate) fn evidence(&self) -> Vec<String> {
        let f = self.facts;
        let mut lines = vec![self.course_line()];
        if self.kind.group() != crate::Group::Flat && f.growth.rate > 0.0 {
            lines.push(format!("while it grew, it grew by {}", self.rate_between()));
        }
        lines.extend(self.knee_line());
        lines.extend(self.restart_line());
        lines.extend(self.pass_line());
        lines.extend(self.fill_line());
        lines.extend(self.short_pass_line());
        lines.extend(self.beyond_line());
        lines.extend(self.matters());
        lines.extend(self.count_line());
        lines.extend(self.wave_lines());
        lines.extend(self.periods.lines());
        let said = self.periods.follows().is_some_and(|period| period.name == "save");
        if let Some(e) = self.seen.events.filter(|_| !said) {
            let (share, rest) = match 100.0 * e.across {
                all if all >= 99.5 => ("all".to_owned(), ""),
                share => (format!("{share:.0} %"), ", the rest between them"),
            };
            let events = counted(e.events as f64, self.event());
            lines.push(format!("{share} of the growth happened across {events}{rest}"));
        }
        lines.extend(self.forecast.map(|forecast| self.forecast_line(forecast)));
        lines
    }

    /// What was looked at, and where the floor went.
    fn course_line(&self) -> String {
        let f = self.facts;
        let samples = counted(self.seen.samples as f64, "sample");
        let seen = match self.axis {
            Axis::Sample => samples,
            Axis::Step | Axis::Seconds | Axis::Epoch if f.last > f.first => {
                format!("{samples} from {} to {}", self.place(f.first), self.place(f.last))
            }
            Axis::Step | Axis::Seconds | Axis::Epoch => format!("{samples} at {}", self.place(f.first)),
        };
        let started = f.after_start - f.start > 2.0 * self.bound();
        let floor = if self.kind.group() == crate::Group::Flat && started {
            let after = match self.bound() {
                bound if bound < 1.0 => "did not move".to_owned(),
                bound => format!("moved by {}", size(bound)),
            };
            let (from, to) = (size(f.start), size(f.after_start));
            format!("the floor rose from {from} to {to} in the first tenth and {after} after it")
        } else if size(f.start) == size(f.end) {
            format!("the floor stayed at {}", size(f.end))
        } else {
            format!("the floor went from {} to {}", size(f.start), size(f.end))
        };
        format!("{seen}; {floor}")
    }

    fn knee_line(&self) -> Option<String> {
        let f = self.facts;
        let (x, level) = f.knee?;
        let share = 100.0 * (f.last - x) / (f.last - f.first).max(f64::MIN_POSITIVE);
        Some(format!(
            "growth ended at {} at {}; in the {share:.0} % after it the floor {}",
            self.place(x),
            size(level),
            moved(f.end - level)
        ))
    }

    fn restart_line(&self) -> Option<String> {
        let restarts = self.context.restarts.filter(|restarts| *restarts >= 1.0)?;
        let who = if self.seen.because == Because::EveryLifeClimbs {
            "every life climbs until it ends"
        } else {
            "the longest life is the one told here"
        };
        Some(format!("the curve holds {}; {who}", counted(restarts, "restart")))
    }

    fn forecast_line(&self, forecast: &Forecast) -> String {
        let (low, high) = (self.place(forecast.low), self.place(forecast.high));
        let between = if low == high { String::new() } else { format!(" (between {low} and {high})") };
        format!("at this rate {} is reached {}{between}", size(forecast.limit_bytes), self.when(forecast))
    }

    /// What stands above the floor or beside it.
    fn wave_lines(&self) -> Vec<String> {
        let f = self.facts;
        let mut lines = Vec::new();
        if self.unusable > 0 {
            lines.push(format!(
                "{} could not be used: not a number, or beyond any memory",
                counted(self.unusable as f64, "sample")
            ));
        }
        // Less than a hundredth of the floor is no peak that anybody plans for.
        let peaks = if f.peak_most < 0.01 * f.end { 0 } else { f.peaks };
        match peaks {
            0 => {}
            1 => lines.push(format!("1 sample stands {} above the floor", size(f.peak_most))),
            peaks => lines.push(format!(
                "{} samples stand above the floor, by {} typically, {} at most",
                number(peaks as f64),
                size(f.peak_height),
                size(f.peak_most)
            )),
        }
        lines.extend(self.file_line());
        lines
    }

    /// What file pages did beside a need that is flat.
    fn file_line(&self) -> Option<String> {
        let grown = size(self.file_grown?);
        match self.kind {
            Kind::PageCache => Some(format!(
                "file pages grew by {grown} while anonymous memory moved by {}",
                size(self.bound())
            )),
            Kind::Steady | Kind::Spikes => Some(format!(
                "beside it {grown} of file pages came in, which the kernel takes back (page cache)"
            )),
            Kind::Leak
            | Kind::CacheFill
            | Kind::WarmUp
            | Kind::AllocatorKept
            | Kind::WorkerCopies
            | Kind::TooEarly => None,
        }
    }

    /// How long a pass is, with the division where it is one.
    fn pass_words(&self, pass: f64) -> String {
        let c = self.context;
        let length = self.length(pass);
        let told = c.epoch_steps.is_some() || self.axis != Axis::Step;
        let Some((examples, batch)) = c.examples.zip(c.batch).filter(|_| !told) else {
            return format!("one pass over the data is {length}");
        };
        let by: Vec<String> = std::iter::once(batch).chain(c.accum).chain(c.world_size).map(number).collect();
        let by = if by.len() > 1 { format!("({})", by.join(" x ")) } else { by.join("") };
        format!("one pass over the data is {} / {by} = {length}", number(examples))
    }

    fn pass_line(&self) -> Option<String> {
        let pass = pass(self.context, self.axis)?;
        let words = self.pass_words(pass);
        Some(match self.matches_pass() {
            Some(true) => format!("{words}: growth ended there"),
            Some(false) => format!(
                "the numbers don't match: {words}, and growth ended at {}; check examples, batch and accumulation",
                self.knee()
            ),
            None if self.facts.last < pass => {
                format!("{words}; this curve ends before, at {}", self.place(self.facts.last))
            }
            None => {
                let first = self.first_pass_line(pass).unwrap_or_default();
                format!("{words}; the curve covers {} of them{first}", number(self.facts.last / pass))
            }
        })
    }

    /// What the first pass added, where a leak goes on after it.
    fn first_pass_line(&self, pass: f64) -> Option<String> {
        let (f, floor) = (self.facts, &self.seen.floor);
        let at = floor.y.get(floor.x.partition_point(|x| *x < pass))?;
        let (first, later) = (at - f.start, f.end - at);
        let passes = (f.last - pass) / pass;
        // As much in every pass is one growth; a first pass that added much more was a fill with a leak under it.
        let fill =
            self.kind == Kind::Leak && self.seen.events.is_none() && first > 2.0 * later / passes.max(1.0);
        fill.then(|| format!(": the first added {}, those after it {} so far", size(first), size(later)))
    }

    fn fill_line(&self) -> Option<String> {
        let fill = self.fill.filter(|_| matches!(self.kind, Kind::CacheFill | Kind::TooEarly))?;
        let needs = |n: f64| format!("; {} need {}", counted(n, "example"), size(fill.needs(n)));
        let each = size(fill.bytes_per_example);
        Some(format!("{each} per example{}", fill.examples.map(needs).unwrap_or_default()))
    }

    /// A small data set is in memory before anybody looks: what came within its first pass may be a cache of it, and a larger
    /// one would need more.
    fn short_pass_line(&self) -> Option<String> {
        let (f, pass) = (self.facts, pass(self.context, self.axis)?);
        let examples = self.context.examples.filter(|_| self.kind.group() == crate::Group::Flat)?;
        let came = f.after_start - f.start;
        let short = pass <= START * (f.last - f.first) && came > (2.0 * self.bound()).max(CACHE_PART * f.end);
        let more = 10.0 * examples;
        short.then(|| {
            format!(
                "{} came within the first pass over the data ({}): if that is a cache of examples, {} need about {}",
                size(came),
                self.length(pass),
                counted(more, "example"),
                size((came / examples).mul_add(more, f.start))
            )
        })
    }

    /// Why growth is more than a cache of examples.
    fn beyond_line(&self) -> Option<String> {
        let (each, largest) = self.beyond.filter(|_| self.seen.because == Because::MoreThanData)?;
        Some(format!(
            "each example keeps {}, and the largest one decodes to {}: more than a cache of examples could hold",
            size(each),
            size(largest)
        ))
    }

    /// What other data sets need, and the largest that fits.
    pub(crate) fn matters(&self) -> Option<String> {
        let able = |fill: &Fill| {
            fill.bytes_per_example > 0.0 && matches!(self.kind, Kind::CacheFill | Kind::TooEarly)
        };
        let fill = self.fill.filter(able)?;
        let own = fill.examples.unwrap_or(0.0);
        let next = SIZES.into_iter().filter(|size| *size > own).take(SIZES_SHOWN);
        let mut parts: Vec<String> =
            next.map(|n| format!("{} examples need {}", parted(n), both(fill.needs(n)))).collect();
        if let Some(limit) = self.outcome.limit_bytes {
            parts.push(format!("{} fill {}", parted(fill.fits(limit)), both(limit)));
        }
        let doubt = if self.kind == Kind::TooEarly { "if it is a fill, " } else { "" };
        Some(format!("{doubt}memory depends on the data set: {}", parts.join("; ")))
    }

    fn count_line(&self) -> Option<String> {
        let count = self.count.as_ref()?;
        let name = count.name.replace('_', " ");
        Some(match count.changed {
            Some((a, b)) => format!(
                "{name} changed once, from {} to {}, between {} and {}",
                number(count.first),
                number(count.last),
                self.place(a),
                self.place(b)
            ),
            None if (count.last - count.first).abs() < f64::EPSILON => {
                format!("{name} stayed at {}", number(count.last))
            }
            None => format!("{name} went from {} to {}", number(count.first), number(count.last)),
        })
    }
}

/// Whether a knee is where a pass ends: within a fiftieth of the curve, a tenth of the pass, or two floor points.
pub(crate) fn knee_matches(knee: f64, pass: f64, facts: &Facts, points: usize) -> bool {
    let spacing = (facts.last - facts.first) / points.max(2) as f64;
    (knee - pass).abs() <= (1.5 * spacing).max(0.1 * pass)
}

impl Because {
    pub(crate) const fn words(self) -> &'static str {
        match self {
            Self::TooFew => "fewer than four samples",
            Self::NothingMoves => "nothing moves beyond what can be resolved",
            Self::Shapes => "the shape with the most evidence",
            Self::InsideFirstPass => "the curve ends before the second pass over the data can tell",
            Self::SlowsDown => "the rise slows down",
            Self::OverWithStart => "nearly all of it rose with the start of the program",
            Self::FewSamplesRise => "a rise in fewer than ten samples",
            Self::PeakInFewSamples => "one peak in fewer than eight samples",
            Self::AtEvents => "the floor rises at each evaluation and not between",
            Self::EveryLifeClimbs => "every life of the process climbs until it ends",
            Self::TooBrief => "a few seconds show how a program starts, not what it does",
            Self::NotYetSure => "it rises, but that it will go on is not yet likely enough",
            Self::OnePass => "one pass is all there will be, and growth follows it",
            Self::MoreThanData => "each example keeps more than the largest one decodes to",
            Self::KeepsInEvaluation => "evaluations keep memory too, and they touch no new training example",
            Self::RecoversAfterRestart => "after the restart it climbed back to its old level, not beyond",
        }
    }
}
