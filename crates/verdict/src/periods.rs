//! Holds growth and peaks against everything that comes back in a job: micro-batches, accumulation, logs, evaluations,
//! saves, shards. What lines up is a suspect with an address; what does not is one less.
//!
//! Not here: whether growth at evaluations is a leak (see `assess`); this only says what was found.

use crate::events::{EventGrowth, at_events, grows_between, resolved, saw_tooth};
use crate::facts::Facts;
use crate::phrases::{counted, size};
use crate::series::Series;
use lowtide_model::{Axis, Context};

/// Of all peaks, this part must begin at the events.
const MOST_PEAKS: f64 = 0.66;
/// Peaks that line up with anything.
const FEWEST_PEAKS: usize = 3;
/// A peak may begin this part of the way to the next event after its own.
const LATE: f64 = 0.1;
/// Samples that must lie between two events on average.
const APART: usize = 3;
/// Ends of steps that are made up from the length of one; more than a curve can show.
const MOST_PLACES: usize = 10_000;

/// One thing that comes back, with what growth does there.
#[derive(Clone, Debug)]
pub(crate) struct Period {
    pub(crate) name: &'static str,
    /// How many stretches between two of them have enough samples to tell.
    stretches: usize,
    /// Growth that happens there and not between.
    pub(crate) growth: Option<EventGrowth>,
    /// Growth surely goes on between them.
    between: bool,
    /// What is let go at each, after it came between them.
    saw: Option<f64>,
    /// Peaks that begin there.
    peaks: usize,
}

/// All that was tested.
#[derive(Clone, Debug, Default)]
pub(crate) struct Periods {
    tested: Vec<Period>,
    grows: bool,
    waves: usize,
}

impl Periods {
    pub(crate) fn of(series: &Series, facts: &Facts, context: &Context, axis: Axis) -> Self {
        let known = [
            ("micro-batch", micro(context, axis, facts)),
            ("step", ends_of_steps(context, axis, facts)),
            ("log", context.log_x.clone()),
            ("evaluation", evaluations(context, facts.last)),
            ("save", context.save_x.clone()),
            ("shard", context.shard_x.clone()),
            ("rollout", context.rollout_x.clone()),
        ];
        let tested = known.into_iter().filter(|(_, places)| !places.is_empty());
        let tested = tested.map(|(name, places)| {
            // Events as close as the samples: nothing can be seen between two of them.
            let apart = APART * places.len() <= series.bins().len();
            let seen: &[f64] = if apart { &places } else { &[] };
            Period {
                name,
                stretches: resolved(series, seen),
                growth: at_events(series, seen),
                between: grows_between(series, seen),
                saw: saw_tooth(series, seen),
                peaks: begin_at(&facts.wave_x, seen),
            }
        });
        let grows = facts.growth.rate > facts.growth.margin;
        Self { tested: tested.collect(), grows, waves: facts.waves }
    }

    /// What most peaks begin at.
    pub(crate) fn peaks_at(&self) -> Option<&'static str> {
        self.peaks().map(|period| period.name)
    }

    fn peaks(&self) -> Option<&Period> {
        let best = self.tested.iter().max_by_key(|period| period.peaks)?;
        let most = best.peaks as f64 >= MOST_PEAKS * self.waves as f64;
        (most && best.peaks >= FEWEST_PEAKS).then_some(best)
    }

    /// What growth follows: the rarest thing that explains it, because what follows saves follows every step too.
    pub(crate) fn follows(&self) -> Option<&Period> {
        let aligned = self.tested.iter().filter(|period| period.growth.is_some());
        aligned.min_by_key(|period| period.stretches)
    }

    /// What a saw-tooth lines up with.
    pub(crate) fn saw_tooth(&self) -> Option<&'static str> {
        self.tested.iter().find(|period| period.saw.is_some()).map(|period| period.name)
    }

    /// Lines of evidence.
    pub(crate) fn lines(&self) -> Vec<String> {
        let mut lines = Vec::new();
        if let Some(best) = self.peaks() {
            lines.push(format!(
                "{} of {} begin at {} {}",
                best.peaks,
                counted(self.waves as f64, "peak"),
                if best.name == "evaluation" { "an" } else { "a" },
                best.name
            ));
        }
        for period in &self.tested {
            if let Some(held) = period.saw {
                lines.push(format!(
                    "a saw-tooth: each {} lets go of {} that came since the one before",
                    period.name,
                    size(held)
                ));
            }
        }
        let told = self.follows().filter(|period| period.name != "evaluation");
        if let Some((period, growth)) = told.and_then(|period| Some((period, period.growth?))) {
            lines.push(format!(
                "growth follows each {}: {} of {} raised the floor, by {} each; {:.0} % of it happened there",
                period.name,
                growth.rose,
                growth.events,
                size(growth.each),
                100.0 * growth.across
            ));
        }
        let apart: Vec<String> = self.apart().map(|p| counted(p.stretches as f64, p.name)).collect();
        if self.grows && self.follows().is_none() && !apart.is_empty() {
            lines.push(format!(
                "growth does not line up with any of {}: it goes on between them",
                apart.join(", ")
            ));
        }
        lines
    }

    fn apart(&self) -> impl Iterator<Item = &Period> {
        self.tested.iter().filter(|period| {
            period.stretches > FEWEST_PEAKS
                && period.between
                && period.growth.is_none()
                && period.saw.is_none()
        })
    }

    /// Every period with what came of it, for `--why`.
    pub(crate) fn why(&self) -> Vec<String> {
        let one = |period: &Period| {
            let found = match (period.growth, period.stretches) {
                (Some(growth), _) => format!("growth follows it, {:.0} %", 100.0 * growth.across),
                (None, few) if few <= FEWEST_PEAKS => {
                    "too few samples between two of them to tell".to_owned()
                }
                (None, _) if period.between => "growth goes on between two of them".to_owned(),
                (None, _) => "growth neither surely follows it nor surely ignores it".to_owned(),
            };
            format!("period: each {}: {found}", period.name)
        };
        self.tested.iter().map(one).collect()
    }
}

/// How many waves begin at one of the places: from a little before it to a tenth of the way to the next.
fn begin_at(waves: &[f64], places: &[f64]) -> usize {
    let mut sorted: Vec<f64> = places.iter().copied().filter(|p| p.is_finite()).collect();
    sorted.sort_unstable_by(f64::total_cmp);
    let (Some(first), Some(last)) = (sorted.first(), sorted.last()) else { return 0 };
    let usual = if sorted.len() > 1 { (last - first) / (sorted.len() - 1) as f64 } else { 0.0 };
    let at = |wave: &&f64| {
        let next = sorted.partition_point(|p| *p <= **wave + LATE / 2.0 * usual);
        next.checked_sub(1).is_some_and(|i| **wave - sorted[i] <= LATE * usual)
    };
    waves.iter().filter(at).count()
}

/// Every so many x up to the end.
pub(crate) fn every(length: f64, end: f64) -> Vec<f64> {
    if !(length.is_finite() && length > 0.0) {
        return Vec::new();
    }
    (1..MOST_PLACES).map(|i| i as f64 * length).take_while(|x| *x < end).collect()
}

/// Where evaluations were: as told, or every so many x.
pub(crate) fn evaluations(context: &Context, end: f64) -> Vec<f64> {
    if context.validation_x.is_empty() {
        every(context.validation_every.unwrap_or(f64::NAN), end)
    } else {
        context.validation_x.clone()
    }
}

/// Ends of steps: whole numbers of a curve over steps, or as marks told them.
fn ends_of_steps(context: &Context, axis: Axis, facts: &Facts) -> Vec<f64> {
    if !context.step_x.is_empty() || axis != Axis::Step {
        return context.step_x.clone();
    }
    let first = facts.first.ceil();
    every(1.0, facts.last - first).into_iter().map(|x| x + first).collect()
}

/// Ends of micro-batches: steps cut into as many parts as are accumulated.
fn micro(context: &Context, axis: Axis, facts: &Facts) -> Vec<f64> {
    let Some(parts) = context.accum.filter(|a| *a >= 2.0 && *a <= 1024.0) else { return Vec::new() };
    let steps = ends_of_steps(context, axis, facts);
    let cut = |pair: &[f64]| {
        let (from, to) = (pair[0], pair[1]);
        (0..parts as usize).map(move |i| (to - from).mul_add(i as f64 / parts, from)).collect::<Vec<_>>()
    };
    steps.windows(2).flat_map(cut).take(MOST_PLACES).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::judge::Judge;
    use crate::series::Point;
    use lowtide_model::Metric;

    const MIB: f64 = 1_048_576.0;

    /// What is said of a curve of 400 samples, one a second, that grows by `grown` up to each second.
    fn said(context: Context, grown: impl Fn(f64) -> f64) -> Vec<String> {
        let mut judge = Judge::new(context, Axis::Seconds, Metric::Anon);
        for i in 0..400_u32 {
            let x = f64::from(i);
            let noise = f64::from(i.wrapping_mul(2_654_435_761) >> 24) / 512.0;
            judge.push(Point::one(x, (900.0 + grown(x) + noise) * MIB));
        }
        judge.verdict().evidence
    }

    fn every_30() -> Vec<f64> {
        every(30.0, 400.0)
    }

    fn staircase(x: f64) -> f64 {
        8.0 * (x / 30.0).floor()
    }

    fn found(lines: &[String], words: &str) -> bool {
        lines.iter().any(|line| line.contains(words))
    }

    #[test]
    fn growth_at_each_known_period_is_told_by_its_name() {
        let table = [
            ("log", Context { log_x: every_30(), ..Context::default() }),
            ("save", Context { save_x: every_30(), ..Context::default() }),
            ("shard", Context { shard_x: every_30(), ..Context::default() }),
            ("rollout", Context { rollout_x: every_30(), ..Context::default() }),
            ("step", Context { step_x: every_30(), ..Context::default() }),
            ("micro-batch", Context { step_x: every(60.0, 400.0), accum: Some(2.0), ..Context::default() }),
        ];
        for (name, context) in table {
            let lines = said(context, staircase);
            assert!(found(&lines, &format!("growth follows each {name}: ")), "{name}: {lines:?}");
        }
        let lines = said(Context { validation_x: every_30(), ..Context::default() }, staircase);
        assert!(found(&lines, "happened across") && found(&lines, "evaluations"), "{lines:?}");
    }

    #[test]
    fn growth_between_them_clears_every_period() {
        let context = Context { log_x: every_30(), shard_x: every(50.0, 400.0), ..Context::default() };
        let lines = said(context, |x| 0.4 * x);
        assert!(found(&lines, "growth does not line up with any of"), "{lines:?}");
        assert!(found(&lines, "logs, ") && found(&lines, "shards"), "{lines:?}");
    }

    #[test]
    fn a_step_too_short_to_be_seen_is_not_talked_about() {
        let context = Context { step_x: every(1.0, 400.0), accum: Some(8.0), ..Context::default() };
        let lines = said(context, |x| 0.4 * x);
        assert!(!found(&lines, "step:") && !found(&lines, "line up"), "{lines:?}");
    }

    #[test]
    fn a_buffer_that_empties_at_each_shard_is_a_saw_tooth() {
        let context = Context { shard_x: every_30(), ..Context::default() };
        let lines = said(context, |x| 3.0 * (x % 30.0));
        assert!(found(&lines, "a saw-tooth: each shard lets go of"), "{lines:?}");
    }

    #[test]
    fn peaks_at_saves_are_told_with_their_number() {
        let context = Context { save_x: every_30(), validation_x: every(47.0, 400.0), ..Context::default() };
        let lines = said(context, |x| if x >= 30.0 && x % 30.0 < 2.0 { 300.0 } else { 0.0 });
        assert!(found(&lines, "begin at a save"), "{lines:?}");
    }
}
