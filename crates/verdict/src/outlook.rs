//! The part of a verdict's text that looks beyond the curve: what it is not, what may come, what to do, what would
//! prove it wrong. Beside `words`, which tells what was seen.

use crate::assess::Because;
use crate::budget::{pass, pass_steps};
use crate::phrases::{moved, number, per_cent, size};
use crate::verdict::{Explanation, Kind, RuledOut};
use crate::words::{NOT_ONE_LEVEL, Story};
use lowtide_model::{Axis, Metric};

/// A floor that is called flat may still move by this part of itself.
pub(crate) const ROOM: f64 = 0.02;
/// Of a file whose rise is a leak only if the file is all there will be.
pub(crate) const IF_NOT_OVER: &str =
    "if the run is not over yet, look with --running: so early a rise like this is not called a leak";

/// Of growth whose holder nobody has named yet, as an action of its own and after another one.
pub(crate) const SCAN: &str =
    "run `lowtide scan` twice, some steps apart: the difference names the type that grows and who holds it";
pub(crate) const AND_SCAN: &str = "; `lowtide scan` twice, some steps apart, names what grows";

/// Below this the lower bound of a pace shows no more than that little was seen of it.
const TELLS_NO_PACE: f64 = 0.25;

impl Story<'_> {
    /// What it is not.
    pub(crate) fn ruled_out(&self) -> Vec<RuledOut> {
        let f = self.facts;
        let out = |kind, because: String| RuledOut { kind, because };
        let quiet = f.knee.map_or(0.0, |k| f.last - k.0);
        let settled_so = || {
            if f.knee.is_none() {
                return "nothing in the curve goes on rising at one pace".to_owned();
            }
            format!(
                "after {} the floor {} over {}",
                self.knee(),
                moved(self.since_knee()),
                self.length(quiet)
            )
        };
        match self.kind {
            // Without a second pass nothing tells a fill from a leak that follows the examples.
            Kind::CacheFill if self.seen.because == Because::OnePass => {
                vec![out(Kind::WarmUp, self.pace_line())]
            }
            Kind::CacheFill if let Some(filled) = self.seen.filled => {
                let ratio = per_cent(filled.ratio());
                vec![
                    out(
                        Kind::Leak,
                        format!("each pass adds {ratio} of what the one before added; a leak keeps its pace"),
                    ),
                    out(Kind::WarmUp, format!("it bends where passes over the data end, by just {ratio}")),
                ]
            }
            Kind::CacheFill => vec![
                out(Kind::Leak, settled_so()),
                out(
                    Kind::WarmUp,
                    format!(
                        "it grew at one pace ({}) and stopped at once, {}",
                        self.rate(f.growth.rate),
                        if self.matches_pass() == Some(true) {
                            "where the data began to repeat"
                        } else {
                            "which pools and compilers don't"
                        }
                    ),
                ),
            ],
            Kind::WarmUp | Kind::AllocatorKept | Kind::WorkerCopies => vec![out(Kind::Leak, settled_so())],
            // What can't fall shows no lowest level.
            Kind::Leak if self.counts_peaks() => vec![out(Kind::WarmUp, self.pace_line())],
            Kind::Leak => vec![
                out(Kind::WarmUp, self.pace_line()),
                out(
                    Kind::Spikes,
                    format!("the lowest level itself rose from {} to {}", size(f.start), size(f.end)),
                ),
            ],
            Kind::Spikes | Kind::Steady | Kind::PageCache => {
                vec![out(Kind::Leak, self.flat_line())]
            }
            Kind::TooEarly => Vec::new(),
        }
    }

    /// Why a floor that is flat does not leak.
    fn flat_line(&self) -> String {
        let f = self.facts;
        let over = self.length(f.last - f.first);
        if self.bound() < 1.0 {
            format!("the floor did not move over {over}")
        } else if self.bound() > NOT_ONE_LEVEL * f.end {
            let falls = self.falls();
            let words =
                if falls { "the floor fell" } else { "what came went again: the floor does not keep rising" };
            format!("{words} over {over}")
        } else {
            format!("after its start the floor moved by no more than {} over {over}", size(self.bound()))
        }
    }

    fn pace_line(&self) -> String {
        if let Some(e) = self.seen.events {
            return format!("the later half of {} {}s still raised the floor", e.events, self.event());
        }
        let odds = self.seen.odds;
        match self.seen.pace {
            Some(pace) if pace < TELLS_NO_PACE => format!(
                "how its pace changes can't be told, but shapes that have not stopped weigh {:.0} %",
                100.0 * (odds.rising + odds.open)
            ),
            Some(pace) => format!(
                "at its end it still grows at {:.0} % of its first pace or more; a warm-up slows down",
                100.0 * pace.min(1.0)
            ),
            None if self.seen.because == Because::EveryLifeClimbs => {
                "every life of the process climbs until it ends".to_owned()
            }
            None => format!("it grew by {} until its end", self.rate(self.facts.growth.rate)),
        }
    }

    /// What still has weight and what it says will come.
    pub(crate) fn explanations(&self) -> Vec<Explanation> {
        let pass = pass(self.context, self.axis);
        let mut all = self.weights();
        let sum: f64 = all.iter().map(|a| a.1).sum::<f64>().max(1e-9);
        all.retain(|a| a.1 / sum >= 0.02);
        all.sort_by(|a, b| b.1.total_cmp(&a.1));
        all.into_iter()
            .map(|(kind, w)| Explanation {
                kind,
                weight: (w / sum * 1000.0).round() / 1000.0,
                predicts: self.predicts(kind, pass),
            })
            .collect()
    }

    /// What it may be, with weights that need not add up to one.
    fn weights(&self) -> Vec<(Kind, f64)> {
        let o = self.seen.odds;
        let growing = o.rising + o.open;
        match self.kind {
            Kind::TooEarly if self.seen.because == Because::PeakInFewSamples => {
                vec![(Kind::Spikes, 0.5), (Kind::WarmUp, 0.5)]
            }
            // A rise that does not keep its pace is as likely one that will settle.
            Kind::TooEarly if self.seen.because == Because::SlowsDown => {
                let half = 0.5 * o.rising;
                vec![(Kind::Leak, half), (Kind::WarmUp, half + o.open + o.settled), (Kind::Steady, o.flat)]
            }
            // It rises as it did before it fell.
            Kind::TooEarly if self.seen.because == Because::MayFallAgain => {
                vec![(Kind::Leak, 0.5), (Kind::Spikes, 0.5)]
            }
            // It stopped where the data began to repeat, or as it never did before.
            Kind::TooEarly if self.facts.since_pass.is_some() || self.facts.rests.is_some() => vec![
                (Kind::CacheFill, 0.5_f64.mul_add(growing, o.settled)),
                (Kind::Leak, 0.5 * growing),
                (Kind::Steady, o.flat),
            ],
            Kind::TooEarly if self.seen.filled.is_some() => vec![(Kind::CacheFill, 0.5), (Kind::Leak, 0.5)],
            // What rises straight may be a leak or the first pass over the data, also where nobody told its size.
            Kind::TooEarly => {
                vec![
                    (Kind::CacheFill, 0.5 * growing),
                    (Kind::Leak, 0.5 * growing),
                    (Kind::WarmUp, o.settled),
                    (Kind::Steady, o.flat),
                ]
            }
            Kind::Leak
            | Kind::CacheFill
            | Kind::WarmUp
            | Kind::AllocatorKept
            | Kind::WorkerCopies
            | Kind::Spikes
            | Kind::PageCache
            | Kind::Steady => {
                let kind = self.kind;
                let own = match kind.group() {
                    crate::Group::Leak => o.rising,
                    crate::Group::Bounded => o.settled + o.open,
                    crate::Group::Flat => o.flat,
                    crate::Group::TooEarly => 0.0,
                };
                let mut rest = vec![(kind, own.max(0.5))];
                rest.extend(
                    [(Kind::Leak, o.rising), (Kind::WarmUp, o.settled + o.open), (Kind::Steady, o.flat)]
                        .into_iter()
                        .filter(|r| r.0.group() != kind.group()),
                );
                rest
            }
        }
    }

    fn predicts(&self, kind: Kind, pass: Option<f64>) -> String {
        let f = self.facts;
        match (kind, pass) {
            (Kind::CacheFill, _) if let Some(filled) = self.seen.filled => {
                format!("each pass adds less, and growth ends near {}", size(filled.origin + filled.all()))
            }
            (Kind::CacheFill, Some(pass)) if f.last < pass && self.split.parts > 1.5 => {
                let (first, base) = (f.growth.at(pass).max(f.end), f.growth.at(f.first));
                format!(
                    "growth ends at {} at {} if every process meets the same examples again; if they are dealt out anew it slows down with each pass and ends near {}",
                    self.place(pass),
                    size(first),
                    size(self.split.parts.mul_add(first - base, base))
                )
            }
            (Kind::CacheFill, Some(pass)) if f.last < pass => {
                format!("growth ends at {} at {}", self.place(pass), size(f.growth.at(pass).max(f.end)))
            }
            (Kind::CacheFill, None) if self.kind == Kind::TooEarly => {
                "growth ends with the first pass over the data; tell its size to know where".to_owned()
            }
            (Kind::Leak, _) if self.pace_is_open() => {
                "the floor goes on rising; how fast can't be told yet".to_owned()
            }
            (Kind::WarmUp, _) if self.kind == Kind::TooEarly && self.seen.because == Because::SlowsDown => {
                format!("growth ends not far above {}", size(f.end))
            }
            (Kind::Leak, _) => match self.forecast {
                Some(fc) => {
                    format!("{}; {} is reached {}", self.rises_on(), size(fc.limit_bytes), self.when(fc))
                }
                None => self.rises_on(),
            },
            (Kind::WarmUp, _) if self.seen.because == Because::PeakInFewSamples => {
                format!("it comes to stay near {}", size(f.peak))
            }
            (Kind::WarmUp | Kind::CacheFill | Kind::AllocatorKept | Kind::WorkerCopies, _) => {
                let level = f.knee.map_or(f.end, |k| k.1);
                format!("the floor stays near {}", size(level.max(f.end)))
            }
            (Kind::Spikes, _) if let Some(fall) = self.seen.fell => {
                format!("it falls again, as it did from {} to {}", size(fall.from), size(fall.to))
            }
            (Kind::Steady | Kind::Spikes | Kind::PageCache | Kind::TooEarly, _) => {
                format!("the floor stays near {}", size(f.end))
            }
        }
    }

    fn rises_on(&self) -> String {
        match self.facts.faster {
            Some(faster) => {
                format!("the floor goes on rising ever faster, by {} now", self.rate(faster.pace))
            }
            None => format!("the floor goes on rising by {}", self.rate(self.facts.alive().rate.max(0.0))),
        }
    }

    /// Whether too little is known of how fast it grows to tell a number.
    pub(crate) fn pace_is_open(&self) -> bool {
        let g = self.facts.alive();
        self.kind == Kind::TooEarly && g.rate <= g.margin
    }

    /// What to do, the first thing first.
    pub(crate) fn advice(&self) -> Vec<String> {
        let died = self.outcome.death.is_some();
        let mut advice = vec![if died { self.after_death() } else { self.action().to_owned() }];
        if self.asks_for_size() {
            advice.push("tell the size of the data set (--examples, --batch, --accum): lowtide then says whether growth ended with the first pass, and what other sizes need".to_owned());
        }
        advice
    }

    /// Whether the data set's size would change the answer's worth.
    fn asks_for_size(&self) -> bool {
        let growth = matches!(self.kind, Kind::CacheFill | Kind::WarmUp | Kind::TooEarly | Kind::Leak);
        let asked = pass_steps(self.context).is_none() && self.context.epoch_seconds.is_none();
        let moves = self.seen.because != Because::PeakInFewSamples;
        growth && asked && moves && self.axis == Axis::Step && !matches!(self.metric, Metric::Gpu)
    }

    /// What helps a job that has just died of its limit.
    fn after_death(&self) -> String {
        let more = self
            .outcome
            .limit_bytes
            .map_or_else(|| "more memory".to_owned(), |l| format!("more than {}", size(l)));
        match self.kind {
            Kind::Leak => format!("stop the leak first: a higher limit only delays the next kill{AND_SCAN}"),
            Kind::CacheFill => format!(
                "bound the cache in bytes, or decode examples when they are used; as it is, the job needs {more}"
            ),
            Kind::WorkerCopies => format!(
                "use fewer workers, or hold the data in arrays or Arrow instead of lists of Python objects; as it is, the job needs {more}"
            ),
            Kind::Spikes => {
                format!("make the peaks smaller or give the job {more}: its floor alone would fit")
            }
            Kind::WarmUp | Kind::AllocatorKept | Kind::PageCache | Kind::Steady | Kind::TooEarly => {
                format!(
                    "give the job {more}, or let it hold less: a smaller batch, fewer workers, one copy of the data instead of several"
                )
            }
        }
    }

    fn action(&self) -> &'static str {
        match self.kind {
            Kind::Leak if self.seen.events.is_some() && self.event() == "save" => {
                "look at what saving keeps: states gathered for a checkpoint, copies for an asynchronous writer, a list of saved files; let go of it after each save"
            }
            Kind::Leak if self.seen.events.is_some() => {
                "look at what evaluation keeps: collected predictions, metric state, a loader made anew each time; clear it after each evaluation"
            }
            Kind::Leak if matches!(self.metric, Metric::Gpu) => {
                "look for tensors kept across steps: a loss summed without detach(), outputs appended to a list"
            }
            Kind::Leak => SCAN,
            Kind::CacheFill if let Some(filled) = self.seen.filled => {
                if filled.split.workers {
                    "keep one copy for all of them (shared memory, a memory-mapped file) or keep examples encoded: a cache inside a data set is filled again in every process that reads it; fewer loader workers need less"
                } else {
                    "keep one copy for all ranks (shared memory, a memory-mapped file) or keep examples encoded: a cache inside a data set is filled again in every process that reads it"
                }
            }
            Kind::CacheFill if matches!(self.metric, Metric::Gpu) => {
                "plan for the level it settled at; what fills GPU memory and stops is mostly one graph or kernel plan for each input shape: pad or bucket lengths"
            }
            Kind::CacheFill if self.matches_pass() != Some(true) && self.seen.because != Because::OnePass => {
                "plan for the level it settled at; if it holds decoded examples, more data needs more: keep them encoded, or bound the cache in bytes"
            }
            Kind::CacheFill => {
                "keep examples encoded and decode them when they are used, or bound the cache in bytes; before a larger data set, do the division"
            }
            Kind::WarmUp => "nothing to fix; plan for the level it settled at",
            Kind::AllocatorKept => {
                "set MALLOC_ARENA_MAX=2 or preload jemalloc; `lowtide squeeze` shows what a trim gives back"
            }
            Kind::WorkerCopies => {
                "use fewer workers, or hold the data in arrays or Arrow instead of lists of Python objects"
            }
            Kind::Spikes if self.facts.climb.is_some() => {
                "look at what gets larger from peak to peak: results that are gathered, longer inputs, a growing set to evaluate; the highest peak is still to come"
            }
            Kind::Spikes => "plan for the peaks, not for the floor: reserve room for the highest one",
            Kind::PageCache => "nothing to fix: judge by the working set, not by usage with file pages",
            Kind::Steady => "nothing to do",
            Kind::TooEarly => "let it run on and look again",
        }
    }

    /// The test that could prove it wrong.
    pub(crate) fn disprove(&self) -> String {
        let f = self.facts;
        match self.kind {
            Kind::Leak => format!(
                "let it run as long again: if the floor at {} is below {}, it is no leak",
                self.place(2.0 * f.last - f.first),
                size(0.5_f64.mul_add(f.growth.rate * (f.last - f.first), f.end))
            ),
            Kind::CacheFill if let Some(filled) = self.seen.filled => format!(
                "let it run on: the pass after this one must add no more than {} (the first one added {}), and it must never hold more than {}",
                size(filled.next_at_most()),
                size(filled.first),
                size(1.1 * (filled.origin + filled.all()))
            ),
            Kind::CacheFill => {
                let examples = self.fill.and_then(|fill| fill.examples).filter(|n| *n >= 2.0);
                let told = pass(self.context, self.axis).zip(examples);
                match told.filter(|_| self.matches_pass() != Some(false)) {
                    Some((pass, n)) => format!(
                        "run it with {} examples: growth must end near {} instead",
                        number((n / 2.0).floor()),
                        self.place(pass / 2.0)
                    ),
                    None => "run it with half the data: growth must end at half the way and half the height"
                        .to_owned(),
                }
            }
            Kind::WarmUp | Kind::AllocatorKept | Kind::WorkerCopies => format!(
                "let it run as long again: the floor must stay below {}",
                size(f.end + (0.1 * f.grown()).max(self.bound()))
            ),
            Kind::Spikes if let Some(climb) = f.climb => format!(
                "let it run as long again: if no peak is above {}, they do not get higher",
                size(f.end + climb.line.at(1.5_f64.mul_add(f.last - f.first, f.first)))
            ),
            Kind::Spikes | Kind::Steady | Kind::PageCache => {
                let room = self.bound().max(ROOM * f.end);
                format!("let it run as long again: the floor must stay below {}", size(f.end + room))
            }
            Kind::TooEarly => match self.decided() {
                Some(at) if self.seen.because == Because::PeakInFewSamples => {
                    format!("look again at step {at}: a wave will have gone, growth will have stayed")
                }
                Some(at) if self.seen.fell.is_some() => {
                    format!("look again at step {at}: it has fallen again by then, or it is a leak")
                }
                Some(at) if self.axis != Axis::Step => format!(
                    "look again after the first pass over the data, {at} steps: a fill or a warm-up will have stopped, a leak will not"
                ),
                Some(at) => {
                    format!("look again at step {at}: a fill or a warm-up will have stopped, a leak will not")
                }
                None => "look again when the curve is twice as long".to_owned(),
            },
        }
    }
}
