//! The answer of a verdict in words, and what all its sentences share: places, lengths, rates.
//!
//! Each kind has its sentences in one place, so that two commands can't tell the same thing differently: the answer here, the
//! evidence in `lines`, what it is not and what to do in `outlook`. Not here: any decision.

use crate::assess::{Assessment, Because};
use crate::budget::{Beside, Fill, pass};
use crate::facts::{Facts, LastWave};
use crate::periods::{Periods, evaluations};
use crate::phrases::{counted, duration, number, size};
use crate::shapes::Shape;
use crate::split::{Filled, Split};
use crate::verdict::{Fits, Forecast, Kind, Outcome};
use lowtide_model::{Axis, Context, Metric};

/// A rise that is over within this part of a curve is its start.
pub(crate) const START: f64 = 0.1;

/// A floor that moves by more than this part of itself stays at no level that could be told.
pub(crate) const NOT_ONE_LEVEL: f64 = 0.1;

/// A floor falls if its end is lower by this part of all that it moved.
const MOST_OF_IT: f64 = 0.7;

/// All a sentence may need.
pub(crate) struct Story<'a> {
    pub(crate) kind: Kind,
    pub(crate) seen: &'a Assessment,
    pub(crate) facts: &'a Facts,
    pub(crate) context: &'a Context,
    pub(crate) axis: Axis,
    pub(crate) metric: &'a Metric,
    pub(crate) fill: Option<Fill>,
    /// How a pass over the data is dealt out among the processes that share it.
    pub(crate) split: Split,
    /// Bytes kept for each example, and the largest example.
    pub(crate) beyond: Option<(f64, f64)>,
    pub(crate) outcome: &'a Outcome,
    pub(crate) beside: &'a Beside,
    pub(crate) forecast: Option<&'a Forecast>,
    pub(crate) decided_at: Option<f64>,
    /// Where steps begin to count here: what people read is counted from the first step of all.
    pub(crate) origin: f64,
    /// Whether more samples will come: then people count from now, else from the end of the curve.
    pub(crate) running: bool,
    /// Growth of reclaimable file pages beside the need.
    pub(crate) file_grown: Option<f64>,
    /// Samples that were no numbers.
    pub(crate) unusable: u64,
    /// How many of the last samples are left out as given back at the end, and how low they fall.
    pub(crate) freed: Option<(u64, f64)>,
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
            Axis::Step | Axis::Sample | Axis::Epoch => format!("{} {}", self.per(), number(x + self.origin)),
        }
    }

    /// When explanations part, as people read it.
    pub(crate) fn decided(&self) -> Option<String> {
        self.decided_at.map(|at| number((at + self.origin).ceil()))
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
    pub(crate) fn rate_between(&self) -> String {
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
        match self.metric {
            Metric::Gpu => "GPU memory",
            Metric::MaxRss => "the highest memory so far",
            Metric::Rss
            | Metric::Anon
            | Metric::PssTree
            | Metric::Cgroup
            | Metric::Host
            | Metric::Other(_) => "memory",
        }
    }

    /// Whether the curve counts the highest level so far, which can't fall.
    pub(crate) const fn counts_peaks(&self) -> bool {
        matches!(self.metric, Metric::MaxRss)
    }

    /// What the floor did since growth ended.
    pub(crate) fn since_knee(&self) -> f64 {
        let (f, floor) = (self.facts, &self.seen.floor);
        let Some((x, level)) = f.knee else { return 0.0 };
        let then = floor.x.partition_point(|at| *at < x);
        let level = if f.bends { floor.y.get(then).copied().unwrap_or(level) } else { level };
        f.end - level
    }

    /// The answer in one sentence.
    pub(crate) fn headline(&self) -> String {
        let f = self.facts;
        let answer = match self.kind {
            Kind::Leak => self.leak_headline(),
            Kind::CacheFill => self.fill_headline(),
            Kind::WarmUp => self.warm_headline(),
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
            Kind::Spikes | Kind::Steady if self.moves() => self.moving_headline(),
            Kind::Spikes => self.spikes_headline(),
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

    fn warm_headline(&self) -> String {
        let (f, what, knee) = (self.facts, self.what(), self.knee());
        let grown = size(f.grown());
        if f.jumped {
            format!("warm-up: {what} rose by {grown} at once, at {knee}, and has stayed there since")
        } else if f.bends {
            format!("warm-up: {what} grew {grown} ever slower; nearly all of it had come by {knee}")
        } else {
            format!("warm-up: {what} grew {grown} until {knee} and has stayed there since")
        }
    }

    fn spikes_headline(&self) -> String {
        let (f, floor) = (self.facts, size(self.facts.end));
        let height = size(f.peak_height);
        if f.waves == 1 {
            let what = match f.last_wave {
                LastWave::Over => "came and went",
                LastWave::Open => "came at the end and is not over",
                LastWave::Climbs(_) => "came at the end and still climbs",
            };
            return format!("spikes: the floor stays at {floor}; one peak of about {height} {what}");
        }
        let peaks = number(f.waves as f64);
        let at = self.periods.peaks_at().map(|name| format!(", at {name}s")).unwrap_or_default();
        match f.climb {
            None => {
                format!("spikes: the floor stays at {floor}; {peaks} peaks of about {height} come and go{at}")
            }
            // One that is not over yet is no part of the trend.
            Some(climb) => format!(
                "spikes: the floor stays at {floor}; {} peaks that get higher, each by about {}, came and went{at}",
                number(climb.peaks as f64),
                size(climb.each)
            ),
        }
    }

    pub(crate) fn knee(&self) -> String {
        self.facts.knee.map_or_else(|| "its end".to_owned(), |k| self.place(k.0))
    }

    /// How far the floor moved once it had started, or since growth ended: what any growth there stayed below.
    pub(crate) fn bound(&self) -> f64 {
        let (f, floor) = (self.facts, &self.seen.floor);
        let started = START.mul_add(f.last - f.first, f.first);
        let from = f.knee.map_or(started, |knee| knee.0);
        // A step is told by the last point before it.
        let after = |x: f64| if f.jumped { x > from } else { x >= from };
        let later = || floor.x.iter().zip(&floor.y).filter(|p| after(*p.0)).map(|p| *p.1);
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

    /// Whether there is no one level that it stays at most of the time.
    fn moves(&self) -> bool {
        self.seen.floor.ebbs || self.bound() > NOT_ONE_LEVEL * self.facts.end
    }

    /// Of a floor that moves and does not grow: it falls, or it comes and goes.
    fn moving_headline(&self) -> String {
        let (f, kind) = (self.facts, self.kind.word());
        if self.falls() && self.bound() > NOT_ONE_LEVEL * f.end {
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
        let floor = if self.counts_peaks() { "" } else { "the floor of " };
        let pace = match self.facts.faster {
            Some(faster) => format!("ever faster, by {} at its end,", self.rate(faster.pace)),
            None => format!("by {}", self.rate(self.facts.growth.rate)),
        };
        format!("leak: {floor}{} rises {pace}{since} with no end in sight", self.what())
    }

    /// How a forecast goes on from here.
    pub(crate) const fn going_on(&self) -> &'static str {
        if self.facts.faster.is_some() { "as it gets faster" } else { "at this rate" }
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
        if let Some(filled) = self.seen.filled {
            return self.dealt_out_headline(&filled);
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

    /// A cache that each of several processes fills for itself.
    fn dealt_out_headline(&self, filled: &Filled) -> String {
        let what = match self.fill {
            Some(fill) => format!("{} of every example", size(fill.bytes_per_example)),
            None => "every example".to_owned(),
        };
        let who = match filled.split.own {
            own if own > 1.5 => format!("{} processes keep {what}, each for itself", number(own)),
            _ => format!("this process keeps {what} that it meets, and meets others in each pass"),
        };
        let (all, now) = (size(filled.all()), size(filled.all() - filled.ahead));
        format!("cache fill: {who}: {now} so far, {all} when all has been met")
    }

    fn early_headline(&self) -> String {
        let f = self.facts;
        let samples = counted(self.seen.samples as f64, "sample");
        if self.seen.samples < 4 {
            let verb = if self.seen.samples == 1 { "shows" } else { "show" };
            return format!("too early to say: {samples} {verb} no floor yet");
        }
        let when = match (self.decided(), self.axis) {
            (Some(at), Axis::Step) => format!("; decided at step {at}"),
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
        } else if let Some(since) = f.since_pass {
            let (what, rate) = (self.what(), self.rate(f.growth.rate));
            let goes_on = if since.rate <= since.margin { "not" } else { "little" };
            format!(
                "too early to say: {what} grew by {rate} in the first pass over the data and {goes_on} since{when}"
            )
        } else if let Some(rests) = f.rests {
            let (what, rate, at) = (self.what(), self.rate(f.growth.rate), self.place(rests));
            format!(
                "too early to say: {what} grew by {rate} until {at} and rests since, as it never did before{when}"
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
            (Fits::Exceeds | Fits::Tight, None) if self.facts.climb.is_some() => {
                let reach = |f: &Forecast| format!("at this pace peaks reach {limit} {}", self.when(f));
                self.forecast.map_or_else(|| format!("its peaks are beyond {limit}"), reach)
            }
            (Fits::Exceeds, None) => self.forecast.map_or_else(
                || format!("it {} {limit}", if self.is_beyond() { "is beyond" } else { "will reach" }),
                |f| format!("{} {limit} is reached {}", self.going_on(), self.when(f)),
            ),
            (Fits::Unknown, _) | (Fits::Fits | Fits::Tight, None) => String::new(),
        }
    }

    /// Whether the limit was passed already.
    fn is_beyond(&self) -> bool {
        self.outcome.limit_bytes.is_some_and(|limit| self.facts.end + self.beside.held >= limit)
    }

    pub(crate) fn when(&self, f: &Forecast) -> String {
        let clock = |seconds: f64| {
            let length = duration(seconds);
            if self.running { format!("in {length}") } else { format!("{length} after its end") }
        };
        let step = |step: f64| format!("at {} {}", self.per(), number((step + self.origin).floor()));
        match (f.at_step, f.in_seconds) {
            (Some(at), Some(seconds)) => format!("{}, {}", step(at), clock(seconds)),
            (Some(at), None) => step(at),
            (None, Some(seconds)) => clock(seconds),
            (None, None) => "later".to_owned(),
        }
    }

    /// Whether the knee is where the first pass over the data ended; `None` when the length of a pass is not known.
    pub(crate) fn matches_pass(&self) -> Option<bool> {
        let (knee, pass) = (self.facts.knee?.0, pass(self.context, self.axis)?);
        Some(knee_matches(knee, pass, self.facts, self.seen.floor.len()))
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
            Self::RestsNow => "it rests now as it never did before, and not long enough to be over",
            Self::NotYetSure => "it rises, but that it will go on is not yet likely enough",
            Self::OnePass => "one pass is all there will be, and growth follows it",
            Self::MoreThanData => "each example keeps more than the largest one decodes to",
            Self::UnderTheFill => "with the first pass left out, what comes after it leaks by itself",
            Self::AfterTheFall => "with what came before its one large fall left out, it leaks by itself",
            Self::MayFallAgain => "it rises as it did before it fell once, and may fall again",
            Self::KeepsInEvaluation => "evaluations keep memory too, and they touch no new training example",
            Self::DealtOut => "each pass adds what processes that share it and keep what they meet must add",
            Self::MayBeDealtOut => {
                "it rises, and processes that share each pass and keep what they meet would rise alike so far"
            }
            Self::RecoversAfterRestart => "after the restart it climbed back to its old level, not beyond",
        }
    }
}
