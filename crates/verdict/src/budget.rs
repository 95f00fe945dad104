//! What will be needed and whether it is there: fills, limits, forecasts.
//!
//! Bounded never means safe: two thousand examples of a fill that ends may need more than the machine has.

use crate::assess::{Assessment, Because};
use crate::climb::Climb;
use crate::facts::{Facts, Line};
use crate::phrases::size;
use crate::verdict::{Fits, Forecast, Group, Outcome};
use lowtide_model::{Axis, Context};
use serde::{Deserialize, Serialize};

/// Needs above this part of the limit are tight: what lies beside the job (page tables, other processes, the next
/// spike) has to live in the rest.
const TIGHT: f64 = 0.9;

/// A fill: what lies there before the first example, and what each keeps.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Fill {
    /// Bytes before the first example.
    pub base_bytes: f64,
    /// Bytes each example keeps.
    pub bytes_per_example: f64,
    /// Examples in the data set, where known.
    pub examples: Option<f64>,
    /// How many times what is judged keeps each example of the data set: less than once where others keep the rest of them, once for
    /// each process where all of them come to hold all.
    #[serde(default = "once")]
    pub copies: f64,
}

const fn once() -> f64 {
    1.0
}

impl Fill {
    /// What so many examples need.
    pub fn needs(&self, examples: f64) -> f64 {
        (self.bytes_per_example * self.copies).mul_add(examples, self.base_bytes)
    }

    /// The most examples that fit under a limit.
    pub fn fits(&self, limit_bytes: f64) -> f64 {
        ((limit_bytes - self.base_bytes) / (self.bytes_per_example * self.copies)).max(0.0).floor()
    }
}

/// Length of one pass in the curve's own x, if the units allow it.
pub(crate) fn pass(context: &Context, axis: Axis) -> Option<f64> {
    let length = match axis {
        Axis::Step => pass_steps(context),
        Axis::Seconds => context.epoch_seconds,
        Axis::Epoch => Some(1.0),
        Axis::Sample => None,
    };
    length.filter(|l| l.is_finite() && *l > 0.0)
}

/// Length of one pass in steps.
pub(crate) fn pass_steps(context: &Context) -> Option<f64> {
    let told = || Some(context.examples? / context.examples_per_step()?);
    context.epoch_steps.or_else(told).filter(|l| l.is_finite() && *l > 0.0)
}

/// Examples touched per x.
pub(crate) fn examples_per_x(context: &Context, axis: Axis) -> Option<f64> {
    let by_pass = || Some(context.examples? / pass(context, axis)?);
    let per_step = || (axis == Axis::Step).then(|| context.examples_per_step()).flatten();
    per_step().or_else(by_pass).filter(|e| e.is_finite() && *e > 0.0)
}

/// The fill that the growth would be, if it is one.
pub(crate) fn fill(facts: &Facts, context: &Context, axis: Axis) -> Option<Fill> {
    let per_x = examples_per_x(context, axis)?;
    let rate = facts.growth.rate;
    if rate <= 0.0 {
        return None;
    }
    let origin = if axis == Axis::Seconds { facts.growth.at(facts.first) } else { facts.growth.origin };
    let examples = context.examples;
    Some(Fill { base_bytes: origin.max(0.0), bytes_per_example: rate / per_x, examples, copies: 1.0 })
}

/// What lies beside a curve under the same limit, where that is for all of it: the curve's own limit is what is left.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Beside {
    /// The limit for all of it.
    pub(crate) limit: Option<f64>,
    /// What the others hold.
    pub(crate) held: f64,
    /// The most that all of them held together.
    pub(crate) together: f64,
    /// How much the others grow by in one x.
    pub(crate) pace: f64,
    /// What those of them that will settle still take until then.
    pub(crate) ahead: f64,
    /// By how much the highest peak is above all that was sampled.
    pub(crate) unseen: f64,
}

/// What others hold or grow by counts from this part of a process's own on.
pub(crate) const COUNTS: f64 = 0.05;

impl Beside {
    /// Why less than the limit is left for a process that holds so much.
    pub(crate) fn words(&self, own: f64) -> Option<String> {
        let counts = |bytes: f64| (bytes > COUNTS * own).then(|| size(bytes));
        Some(match (counts(self.held), counts(self.ahead)) {
            (Some(held), Some(ahead)) => format!(
                "beside it the other processes of the job hold {held} and will still take {ahead}: the limit is for all of them"
            ),
            (Some(held), None) => {
                format!("beside it the other processes of the job hold {held}: the limit is for all of them")
            }
            (None, Some(ahead)) => {
                format!("beside it the other processes of the job will still take {ahead}")
            }
            (None, None) => return None,
        })
    }
}

/// When the growth reaches the limit, if it goes on.
pub(crate) fn forecast(
    seen: &Assessment,
    facts: &Facts,
    context: &Context,
    (clock, beside): (&Clock, &Beside),
) -> Option<Forecast> {
    let limit = context.limit?.as_f64();
    if let Some(climb) = &facts.climb {
        return peaks_reach(climb, facts, limit, (clock, beside));
    }
    let growing = matches!(seen.group, Group::Leak | Group::TooEarly);
    let Line { rate, margin, .. } = *facts.alive();
    if !growing || rate <= 0.0 || margin >= rate || facts.end >= limit {
        return None;
    }
    if facts.peak >= limit {
        return None;
    }
    let grows = if facts.rests.is_some() { facts.end } else { facts.alive().at(facts.last) };
    let level = facts.end.max(grows);
    let limit = limit - beside.ahead;
    let x_at = |rate: f64, above: f64| facts.last + ((limit - level - above) / (rate + beside.pace)).max(0.0);
    let waves = facts.waves_to_come();
    let at = x_at(rate, waves.most);
    // What comes at random tells its pace less exactly, and does not keep to it on the way.
    let pace = margin
        .max(2.0 * (facts.strays / (facts.growth.to - facts.growth.from).max(f64::MIN_POSITIVE)).sqrt());
    let astray = 2.0 * facts.noise.hypot((facts.strays * (at - facts.last)).sqrt()) / rate;
    let slowest = (rate - pace).max(rate * 0.01);
    // By the clock people count from now; by steps, from the first.
    let from = if clock.axis == Axis::Seconds { facts.last } else { 0.0 };
    let steady = (x_at(rate + pace, waves.most), x_at(slowest, waves.height));
    // About a parabola it does not stray as about a line.
    let astray = facts.faster.map_or(astray, |faster| 2.0 * facts.noise / faster.pace);
    let (at, (low, high)) = match &facts.faster {
        Some(faster) => {
            let takes = |above: f64| (limit - level - above).max(0.0);
            let (soonest, _) = faster.between(takes(waves.most), beside.pace);
            let (_, latest) = faster.between(takes(waves.height), beside.pace);
            let at = facts.last + faster.takes(takes(waves.most), beside.pace);
            (at, (facts.last + soonest, facts.last + latest))
        }
        None => (at, steady),
    };
    Some(Forecast {
        limit_bytes: beside.limit.unwrap_or(limit + beside.ahead),
        at_step: (clock.axis != Axis::Seconds).then_some(at),
        in_seconds: clock.seconds(at - facts.last),
        low: (low - astray).max(facts.last) - from,
        // The limit is met by a wave, and the next one may have to be waited for.
        high: high + waves.apart + astray - from,
    })
}

/// When peaks that get higher reach the limit.
fn peaks_reach(
    climb: &Climb,
    facts: &Facts,
    limit: f64,
    (clock, beside): (&Clock, &Beside),
) -> Option<Forecast> {
    if facts.peak >= limit {
        return None;
    }
    let now = facts.end + climb.line.at(facts.last);
    let x_at = |rate: f64| facts.last + ((limit - beside.ahead - now) / (rate + beside.pace)).max(0.0);
    let Line { rate, margin, .. } = climb.line;
    let from = if clock.axis == Axis::Seconds { facts.last } else { 0.0 };
    let at = x_at(rate);
    Some(Forecast {
        limit_bytes: beside.limit.unwrap_or(limit),
        at_step: (clock.axis != Axis::Seconds).then_some(at),
        in_seconds: clock.seconds(at - facts.last),
        low: x_at(rate + margin) - from,
        high: x_at((rate - margin).max(0.01 * rate)) - from,
    })
}

/// How the curve's x relates to seconds.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Clock {
    pub(crate) axis: Axis,
    /// Seconds per x, where known.
    pub(crate) pace: Option<f64>,
}

impl Clock {
    pub(crate) fn seconds(&self, x: f64) -> Option<f64> {
        match self.axis {
            Axis::Seconds => Some(x),
            Axis::Step | Axis::Sample | Axis::Epoch => self.pace.map(|p| p * x),
        }
    }
}

/// Whether a need that is known fits under a limit that is known.
pub(crate) fn fits(needs: f64, limit: f64) -> Fits {
    if needs > limit {
        Fits::Exceeds
    } else if needs > TIGHT * limit {
        Fits::Tight
    } else {
        Fits::Fits
    }
}

/// Whether it fits, by the winning explanation or the worst one still standing.
pub(crate) fn outcome(
    seen: &Assessment,
    facts: &Facts,
    context: &Context,
    axis: Axis,
    beside: &Beside,
) -> Outcome {
    let limit = beside.limit.or(context.limit.map(lowtide_model::Bytes::as_f64));
    let peak = facts.peak + beside.unseen;
    let needs = needs(seen, facts, context, (axis, beside.pace))
        .map(|needs| (needs.max(peak) + beside.held).max(beside.together + beside.unseen) + beside.ahead);
    let is = match (needs, limit) {
        (Some(needs), Some(limit)) => fits(needs, limit),
        (None, Some(limit)) if facts.climb.is_some() => climbs_to(facts, limit - beside.held - beside.ahead),
        (None, Some(_)) if seen.group == Group::Leak || endless(seen, facts) => Fits::Exceeds,
        (None | Some(_), None) | (None, Some(_)) => Fits::Unknown,
    };
    Outcome {
        is,
        needs_bytes: needs,
        limit_bytes: limit,
        limit_from: context.limit_from.clone(),
        death: None,
    }
}

/// Of peaks that get higher with no end known: they exceed a limit that they reach within as long again as was seen.
fn climbs_to(facts: &Facts, limit: f64) -> Fits {
    let again = 2.0_f64.mul_add(facts.last, -facts.first);
    let most = facts.climb.map_or(facts.peak, |climb| facts.end + climb.line.at(again));
    if most.max(facts.peak) > limit { Fits::Exceeds } else { Fits::Tight }
}

fn endless(seen: &Assessment, facts: &Facts) -> bool {
    seen.group == Group::TooEarly && facts.alive().rate > facts.alive().margin && seen.samples >= 4
}

/// What will still be taken beyond the highest peak so far by what ends.
pub(crate) fn ahead(seen: &Assessment, facts: &Facts, context: &Context, axis: Axis) -> f64 {
    if seen.group != Group::Bounded {
        // So much comes at the least, if what it may be has an end at all.
        return seen.filled.map_or(0.0, |filled| filled.ahead);
    }
    let needs = needs(seen, facts, context, (axis, 0.0));
    needs.map_or(0.0, |needs| (needs - facts.peak).max(0.0))
}

/// The most that will be needed; `None` when nothing bounds it or nothing is known. `beside` is how much others grow by in one x.
fn needs(seen: &Assessment, facts: &Facts, context: &Context, (axis, beside): (Axis, f64)) -> Option<f64> {
    match seen.group {
        Group::Bounded if seen.because == Because::OnePass => {
            by_the_end(facts, context, (axis, 0.0)).or(Some(facts.peak))
        }
        Group::Flat if facts.climb.is_some() && context.limit.is_some() => {
            peaks_by_the_end(facts, context, axis)
        }
        Group::Flat => Some(facts.peak + facts.last_wave.to_come()),
        // What they held before the first sample is theirs, and is in its level already.
        Group::Bounded => {
            let all = seen.filled.map_or(0.0, |filled| filled.all());
            Some((facts.peak + still_to_come(seen, facts)).max(all))
        }
        Group::TooEarly if seen.samples < 4 => None,
        Group::TooEarly if facts.alive().rate <= facts.alive().margin => Some(facts.peak),
        Group::Leak | Group::TooEarly => by_the_end(facts, context, (axis, beside)),
    }
}

/// Shapes that weigh less than this stand no more.
const STANDS: f64 = 0.05;

/// What a rise that only slows down still adds, by the shape that adds most of those that still stand.
fn still_to_come(seen: &Assessment, facts: &Facts) -> f64 {
    if let Some(filled) = seen.filled {
        return filled.ahead;
    }
    if facts.sharp || facts.jumped {
        return 0.0;
    }
    let standing = seen.fits.iter().filter(|fit| fit.weight >= STANDS);
    let most = standing.filter_map(crate::shapes::Fit::comes_to).fold(facts.end, f64::max);
    most - facts.end
}

/// The highest of peaks that get higher to the planned end of the run.
fn peaks_by_the_end(facts: &Facts, context: &Context, axis: Axis) -> Option<f64> {
    let end = (context.epochs? * pass(context, axis)?).max(facts.last);
    facts.climb.map(|climb| facts.end + climb.line.at(end))
}

/// A rise that goes on to the planned end of the run.
fn by_the_end(facts: &Facts, context: &Context, (axis, beside): (Axis, f64)) -> Option<f64> {
    let end = context.epochs? * pass(context, axis)?;
    let ahead = end - facts.last;
    let rises = facts.faster.map_or(facts.alive().rate * ahead, |faster| faster.rises(ahead));
    (ahead > 0.0).then_some(beside.mul_add(ahead, facts.peak + rises))
}
