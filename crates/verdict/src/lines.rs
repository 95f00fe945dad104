//! The evidence of a verdict: lines that each hold a number which can be checked. Beside `words`, which gives the answer.

use crate::assess::Because;
use crate::budget::{Fill, pass};
use crate::climb::Climb;
use crate::facts::LastWave;
use crate::phrases::{both, counted, moved, number, parted, per_cent, size};
use crate::verdict::{Forecast, Kind};
use crate::words::{START, Story, knee_matches};
use lowtide_model::Axis;

/// Data-set sizes people ask for next, and as many of them as fit into a line.
const SIZES: [f64; 5] = [500.0, 1000.0, 2000.0, 5000.0, 10_000.0];
const SIZES_SHOWN: usize = 3;
/// What came within a short first pass is worth a line from this part of all on.
const CACHE_PART: f64 = 0.05;

impl Story<'_> {
    /// Lines that each hold a number.
    pub(crate) fn evidence(&self) -> Vec<String> {
        let f = self.facts;
        let mut lines = vec![self.course_line()];
        let paced = f.growth.rate > 0.0 && !f.jumped && !self.pace_is_open();
        if self.kind.group() != crate::Group::Flat && paced {
            lines.push(format!("while it grew, it grew by {}", self.rate_between()));
        }
        if let Some(faster) = f.faster.filter(|_| paced && self.kind.group() != crate::Group::Flat) {
            lines.push(format!("it gets faster: {} at its end", self.rate(faster.pace)));
        }
        if self.counts_peaks() {
            lines.push("the curve counts the highest level so far: it can't fall, so that nothing came back says nothing, and what comes and goes below it is not seen".to_owned());
        }
        lines.extend(self.knee_line());
        lines.extend(self.restart_line());
        if matches!(self.seen.because, Because::AfterTheFall | Because::MayFallAgain) {
            let place = self.place(self.facts.first);
            lines.push(format!("memory came down once, before {place}: what was before that is left out"));
        }
        lines.extend(self.pass_line());
        lines.extend(self.dealt_out_line());
        lines.extend(self.fill_line());
        lines.extend(self.short_pass_line());
        lines.extend(self.beyond_line());
        lines.extend(self.matters());
        lines.extend(self.count_line());
        lines.extend(self.wave_lines());
        lines.extend(self.periods.lines());
        // What growth at saves comes to is said among the periods.
        let said =
            self.event() == "save" && self.periods.follows().is_some_and(|period| period.name == "save");
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
            // It may have been a little over a tenth.
            let over = (f.end - f.after_start).abs() <= self.bound().max(f.noise);
            let (to, place) =
                if over { (f.after_start, "in the first tenth") } else { (f.end, "at its start") };
            format!("the floor rose from {} to {} {place} and {after} after it", size(f.start), size(to))
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
        let (place, since) = (self.place(x), moved(self.since_knee()));
        Some(if f.bends {
            format!("97 % of the growth had come by {place}; in the {share:.0} % after it the floor {since}")
        } else {
            let level = size(level);
            format!("growth ended at {place} at {level}; in the {share:.0} % after it the floor {since}")
        })
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
        let highest = self.facts.waves_to_come().most;
        let with = if highest > 0.0 {
            format!(", by waves of {} above the floor", size(highest))
        } else {
            String::new()
        };
        let limit = size(forecast.limit_bytes);
        format!("{} {limit} is reached {}{between}{with}", self.going_on(), self.when(forecast))
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
        lines.extend(self.freed_line());
        // Less than a hundredth of the floor is no peak that anybody plans for.
        let none = f.peak_most < 0.01 * f.end || self.counts_peaks() || f.jumped;
        let peaks = if none { 0 } else { f.peaks };
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
        if let (crate::Group::Flat, LastWave::Climbs(height)) = (self.kind.group(), f.last_wave) {
            let which = if f.waves > 1 { "the last peak, far above all before," } else { "the peak" };
            lines.push(format!(
                "{which} still climbs at the end, {} above the floor: it may climb as much again",
                size(height)
            ));
        }
        lines.extend(self.climb_line());
        lines.extend(self.file_line());
        lines
    }

    /// Peaks that get higher, with what can be checked: the first and the last by their line.
    fn climb_line(&self) -> Option<String> {
        let Climb { line, peaks, each } = self.facts.climb?;
        Some(format!(
            "{} get higher: from about {} above the floor to {}, each by {} (chance alone does that less than once in 100 runs)",
            counted(peaks as f64, "peak"),
            size(line.at(line.from)),
            size(line.at(line.to)),
            size(each)
        ))
    }

    fn freed_line(&self) -> Option<String> {
        let (samples, low) = self.freed?;
        let last = match samples {
            1 => "the last sample is left out, a fall to".to_owned(),
            many => format!("the last {} samples are left out, a fall to", number(many as f64)),
        };
        Some(format!("{last} {}: programs give memory back when they end", size(low)))
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
                "the numbers don't match: {words}, and growth ended at {}; {}",
                self.knee(),
                self.would_match(pass).unwrap_or_else(|| "check examples, batch and accumulation".to_owned())
            ),
            None if self.seen.because == Because::UnderTheFill => format!(
                "{words}; the first of {} is left out, with what it filled: memory goes on rising after it",
                number(self.facts.last / pass)
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

    /// What a pass that is dealt out makes of a cache.
    fn dealt_out_line(&self) -> Option<String> {
        let filled = self.seen.filled?;
        let (parts, ratio) = (number(filled.split.parts), per_cent(filled.ratio()));
        let shared = format!(
            "{parts} processes share each pass and keep what they meet: then each pass adds {ratio} of the one before"
        );
        Some(if self.kind == Kind::CacheFill {
            format!("{shared}, and so it is here; {} are still to come", size(filled.ahead))
        } else {
            format!("if {shared}; a leak adds as much in each")
        })
    }

    /// What the curve's steps would have to be for the growth to end with the first pass.
    fn would_match(&self, pass: f64) -> Option<String> {
        let (knee, c) = (self.facts.knee?.0, self.context);
        let (batch, accum) = (c.batch.unwrap_or(1.0), c.accum.unwrap_or(1.0));
        let each = [(accum, "micro-batch"), (batch * accum * c.world_size.unwrap_or(1.0), "example")];
        let fits = |(times, _): &(f64, &str)| {
            *times > 1.0 && knee_matches(knee, times * pass, self.facts, self.seen.floor.len())
        };
        let (times, what) = each.into_iter().filter(|_| self.axis == Axis::Step).find(fits)?;
        Some(format!(
            "they would if each step here is one {what}: then a pass is {} of them",
            number(times * pass)
        ))
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
        let known = self.matches_pass() != Some(false);
        let needs = |n: f64| format!("; {} need {}", counted(n, "example"), size(fill.needs(n)));
        let each = size(fill.bytes_per_example);
        let each = if known { each } else { format!("{each}, by the batch and accumulation told,") };
        Some(format!("{each} per example{}", fill.examples.filter(|_| known).map(needs).unwrap_or_default()))
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
        let fill = self.fill.filter(able).filter(|_| self.matches_pass() != Some(false))?;
        let own = fill.examples.unwrap_or(0.0);
        let next = SIZES.into_iter().filter(|size| *size > own).take(SIZES_SHOWN);
        let mut parts: Vec<String> =
            next.map(|n| format!("{} examples need {}", parted(n), both(fill.needs(n)))).collect();
        if let Some(limit) = self.outcome.limit_bytes {
            let most = fill.fits(limit - self.beside.held);
            let (s, verb) = if (most - 1.0).abs() < 0.5 { ("", "fills") } else { ("s", "fill") };
            parts.push(format!("{} example{s} {verb} {}", parted(most), both(limit)));
        }
        let doubt = if self.kind == Kind::TooEarly { "if it is a fill, " } else { "" };
        (!parts.is_empty()).then(|| format!("{doubt}memory depends on the data set: {}", parts.join("; ")))
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
