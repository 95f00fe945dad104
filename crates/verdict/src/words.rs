//! Makes all text of a verdict: the answer first, each evidence line with a number that can be checked, what it is
//! not, one action, one test that could prove it wrong.
//!
//! One place for all sentences, so that two commands can't tell the same thing differently. Not here: any decision.

use crate::assess::{Assessment, Because, PASSES};
use crate::budget::{Fill, pass};
use crate::decide::stand;
use crate::facts::Facts;
use crate::verdict::{Fits, Forecast, Kind, Outcome};
use lowtide_model::{Axis, Bytes, Context, Metric};

/// All a sentence may need.
pub(crate) struct Story<'a> {
    pub(crate) kind: Kind,
    pub(crate) seen: &'a Assessment,
    pub(crate) facts: &'a Facts,
    pub(crate) context: &'a Context,
    pub(crate) axis: Axis,
    pub(crate) metric: &'a Metric,
    pub(crate) fill: Option<Fill>,
    pub(crate) outcome: &'a Outcome,
    pub(crate) forecast: Option<&'a Forecast>,
    pub(crate) decided_at: Option<f64>,
    /// Growth of reclaimable file pages beside the need.
    pub(crate) file_grown: Option<f64>,
    /// Samples that were no numbers.
    pub(crate) unusable: u64,
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

/// A size as a person writes it.
pub(crate) fn size(bytes: f64) -> String {
    Bytes::from_f64(bytes.max(0.0)).to_string()
}

/// A number as a person writes it: three digits that count.
pub(crate) fn number(value: f64) -> String {
    let digits = usize::from(value.abs() < 100.0 && value.fract().abs() >= 1e-9);
    format!("{value:.digits$}")
}

/// A length of time as a person says it.
pub(crate) fn duration(seconds: f64) -> String {
    let (value, unit) = match seconds {
        s if s < 90.0 => (s, "s"),
        s if s < 5400.0 => (s / 60.0, "min"),
        s if s < 129_600.0 => (s / 3600.0, "h"),
        s => (s / 86400.0, "days"),
    };
    format!("{} {unit}", number(value))
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

    /// The rate in the unit a person would use: per hour where seconds would give crumbs.
    pub(crate) fn rate(&self, rate: f64) -> String {
        if self.axis == Axis::Seconds && rate.abs() < 65536.0 {
            return format!("{} per hour", size(rate * 3600.0));
        }
        format!("{} per {}", size(rate), self.per())
    }

    fn rate_between(&self) -> String {
        let g = &self.facts.growth;
        format!(
            "{} (between {} and {})",
            self.rate(g.rate),
            self.rate(g.rate - g.margin),
            self.rate(g.rate + g.margin)
        )
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
            Kind::Spikes if f.waves == 1 => format!(
                "spikes: the floor stays at {}; one peak of about {} came and went",
                size(f.end),
                size(f.peak_height)
            ),
            Kind::Spikes => format!(
                "spikes: the floor stays at {}; {} peaks of about {} come and go",
                size(f.end),
                f.waves,
                size(f.peak_height)
            ),
            Kind::PageCache => format!(
                "page cache: {} of file pages came in, which the kernel takes back; the job's own {} is flat at {}",
                size(self.file_grown.unwrap_or(0.0)),
                self.what(),
                size(f.end)
            ),
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

    /// What growth over the curve would still have been seen.
    pub(crate) fn bound(&self) -> f64 {
        let g = &self.facts.growth;
        ((g.rate.abs() + g.margin) * (self.facts.last - self.facts.first)).max(2.0 * self.facts.noise)
    }

    fn leak_headline(&self) -> String {
        if let Some(e) = self.seen.events {
            return format!(
                "leak: each evaluation keeps {}, {} of {} raised the floor",
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
            Some(crate::shapes::Shape::Late | crate::shapes::Shape::RampLate) => {
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
            let each =
                self.fill.map_or_else(|| self.rate(f.growth.rate), |fill| size(fill.bytes_per_example));
            return format!(
                "cache fill: every new example keeps {each} and nothing comes back; it ends with the data, not before"
            );
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
        if self.seen.samples < 4 {
            return format!("too early to say: {} samples show no floor yet", self.seen.samples);
        }
        let when =
            self.decided_at.map_or_else(String::new, |at| format!("; decided at step {}", number(at.ceil())));
        if f.growth.rate <= f.growth.margin {
            return format!(
                "too early to say: {} samples are too few to tell a floor from a wave{when}",
                self.seen.samples
            );
        }
        format!(
            "too early to say: {} grows by {}, and two explanations still fit{when}",
            self.what(),
            self.rate(f.growth.rate)
        )
    }

    fn fits(&self) -> String {
        let limit = self.outcome.limit_bytes.map(size).unwrap_or_default();
        match (self.outcome.is, self.outcome.needs_bytes) {
            (Fits::Fits, Some(needs)) => format!("it fits: {} of {limit}", size(needs)),
            (Fits::Tight, Some(needs)) => format!("tight: {} of {limit}", size(needs)),
            (Fits::Exceeds, Some(needs)) => format!("it does not fit: {} of {limit}", size(needs)),
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
        let mut lines = vec![format!(
            "{} samples from {} to {}; the floor went from {} to {}",
            self.seen.samples,
            self.place(f.first),
            self.place(f.last),
            size(f.start),
            size(f.end)
        )];
        if self.kind.group() != crate::Group::Flat && f.growth.rate > 0.0 {
            lines.push(format!("while it grew, it grew by {}", self.rate_between()));
        }
        if let Some((x, level)) = f.knee {
            let share = 100.0 * (f.last - x) / (f.last - f.first).max(f64::MIN_POSITIVE);
            lines.push(format!(
                "growth ended at {} at {}; the {share:.0} % after it added {}",
                self.place(x),
                size(level),
                size(f.end - level)
            ));
        }
        lines.extend(self.pass_line());
        lines.extend(self.fill_line());
        lines.extend(self.count_line());
        lines.extend(self.wave_lines());
        if let Some(e) = self.seen.events {
            lines.push(format!(
                "{:.0} % of the growth happened across {} evaluations, the rest between them",
                100.0 * e.across,
                e.events
            ));
        }
        if let Some(fc) = self.forecast {
            lines.push(format!(
                "at this rate {} is reached {} (between {} and {})",
                size(fc.limit_bytes),
                self.when(fc),
                self.place(fc.low),
                self.place(fc.high)
            ));
        }
        lines
    }

    /// What stands above the floor or beside it.
    fn wave_lines(&self) -> Vec<String> {
        let f = self.facts;
        let mut lines = Vec::new();
        if self.unusable > 0 {
            lines.push(format!(
                "{} samples could not be used: not a number, or beyond any memory",
                self.unusable
            ));
        }
        if f.peaks > 0 {
            lines.push(format!(
                "{} samples stand above the floor, by {} typically, {} at most",
                f.peaks,
                size(f.peak_height),
                size(f.peak - f.end)
            ));
        }
        if let (Some(grown), Kind::PageCache) = (self.file_grown, self.kind) {
            lines.push(format!(
                "file pages grew by {} while anonymous memory moved by {}",
                size(grown),
                size((f.end - f.start).abs())
            ));
        }
        lines
    }

    fn pass_line(&self) -> Option<String> {
        let pass = pass(self.context, self.axis)?;
        let place = self.place(pass);
        Some(match self.matches_pass() {
            Some(true) => {
                format!("one pass over the data is {} long ({place}): growth ended there", number(pass))
            }
            Some(false) => format!(
                "the numbers don't match: one pass over the data would end at {place}, growth ended at {}; check examples, batch and accumulation",
                self.knee()
            ),
            None if self.facts.last < pass => format!(
                "the first pass over the data ends at {place}; this curve ends before, at {}",
                self.place(self.facts.last)
            ),
            None => format!("the curve covers {} passes over the data", number(self.facts.last / pass)),
        })
    }

    fn fill_line(&self) -> Option<String> {
        let fill = self.fill?;
        if !matches!(self.kind, Kind::CacheFill | Kind::TooEarly) {
            return None;
        }
        let needs = |n: f64| format!("{} examples need {}", number(n), size(fill.needs(n)));
        let mut line = format!("{} per example", size(fill.bytes_per_example));
        if let Some(n) = fill.examples {
            line = format!("{line}; {}", needs(n));
        }
        line = format!("{line}; {}", needs(2000.0));
        if let Some(limit) = self.outcome.limit_bytes {
            line = format!("{line}; about {} fill {}", number(fill.fits(limit)), size(limit));
        }
        Some(line)
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

    /// The whole reasoning.
    pub(crate) fn why(&self) -> Vec<String> {
        let s = self.seen;
        let mut lines = vec![
            format!(
                "floor: {} points from {} samples, scatter {}",
                s.floor.len(),
                s.samples,
                size(s.floor.noise)
            ),
            format!(
                "neighbouring points correlate by {:.2}: {} points count as {:.1}",
                s.correlation,
                s.floor.len(),
                s.effective
            ),
        ];
        for fit in s.fits.iter().take(8) {
            lines.push(format!(
                "shape: {:<34} weight {:.3}, misfit {}, says {}",
                fit.shape.words(),
                fit.weight,
                size(fit.error.sqrt()),
                stand(fit).words()
            ));
        }
        let o = s.odds;
        lines.push(format!(
            "evidence: flat {:.2}, settled {:.2}, slowing {:.2}, rising {:.2}",
            o.flat, o.settled, o.open, o.rising
        ));
        if let Some(pace) = s.pace {
            lines.push(format!("pace at the end over pace at the start, lower bound: {pace:.2}"));
        }
        lines.push(match pass(self.context, self.axis) {
            Some(p) => format!(
                "one pass over the data: {} ({} seen; a leak is called from {PASSES} on)",
                self.place(p),
                number(self.facts.last / p)
            ),
            None => {
                "the length of a pass over the data is not known: it would decide between a fill and a leak"
                    .to_owned()
            }
        });
        lines.push(format!("decided by: {}", s.because.words()));
        lines
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
            Self::FewSamplesRise => "a rise in fewer than ten samples",
            Self::PeakInFewSamples => "one peak in fewer than eight samples",
            Self::AtEvents => "the floor rises at each evaluation and not between",
            Self::EveryLifeClimbs => "every life of the process climbs until it ends",
            Self::SeenOnce => {
                "the run goes on, and a leak is called when it was there before its newest part too"
            }
            Self::OnePass => "one pass is all there will be, and growth follows it",
            Self::MoreThanData => "each example keeps more than the largest one decodes to",
            Self::KeepsInEvaluation => "evaluations keep memory too, and they touch no new training example",
            Self::RecoversAfterRestart => "after the restart it climbed back to its old level, not beyond",
        }
    }
}
