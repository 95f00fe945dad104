//! Says how often an answer like this one is right.
//!
//! Weights of shapes are no probabilities: they know nothing of leaks that hide under a warm-up or of warm-ups that look
//! like a start. So each kind of evidence is mapped to the share of right answers it had on made curves with known
//! causes, by a few points with straight lines between: monotone, the same for every curve, and checked on curves that
//! were made afterwards (the reliability table in docs/verdict.md). Not here: the evidence itself.

use crate::assess::{Assessment, Because};
use crate::decide::AFTER_START;
use crate::shapes::{Fit, Shape};
use crate::verdict::{Group, Kind};

/// Evidence, and the share of right answers with it.
type Points = [(f64, f64)];

/// By the log-odds that a rise goes on.
const LEAK: &Points = &[(0.8, 0.7), (1.3, 0.82), (2.0, 0.91), (2.6, 0.94), (3.5, 0.97), (5.0, 0.99)];
/// By the weight of shapes that have stopped or slow down.
const BOUNDED: &Points = &[(0.45, 0.6), (0.55, 0.7), (0.75, 0.86), (0.93, 0.9), (0.98, 0.95), (1.0, 0.97)];
/// By the weight of flat shapes, ...
const FLAT: &Points = &[(0.4, 0.8), (0.65, 0.93), (0.8, 0.97), (1.0, 0.99)];
/// ... and, where the start of the program rose, by where that was over: it may have been a warm-up that ended just then.
const FLAT_AFTER_START: &Points = &[(0.03, 0.99), (0.05, 0.97), (0.07, 0.92), (0.085, 0.86), (0.12, 0.82)];
/// Settled although it only slows down, by the log-odds that it goes on.
const SLOWED: &Points = &[(-4.5, 0.95), (-3.0, 0.85), (-2.0, 0.76), (-1.0, 0.54), (0.0, 0.36)];
/// Too early because it slows down, by the same.
const SLOWING: &Points = &[(-4.5, 0.98), (-3.0, 0.85), (-1.5, 0.62), (0.0, 0.25)];
/// Flat because only the start rose, by the same.
const STARTED: &Points = &[(-2.0, 0.93), (-1.0, 0.66), (0.0, 0.38)];

/// A fill that several processes share is surer from so many passes on.
const PASSES: f64 = 4.0;

/// How often an answer like this is right.
pub(crate) fn confidence(kind: Kind, seen: &Assessment) -> f64 {
    let o = seen.odds;
    let goes_on = seen.goes_on.unwrap_or(-3.0);
    if kind == Kind::PageCache {
        // What the kernel can take back was measured apart: no shape has to tell it.
        return 0.97;
    }
    let value = match seen.because {
        Because::TooFew
        | Because::TooBrief
        | Because::InsideFirstPass
        | Because::AtEvents
        | Because::EveryLifeClimbs => 0.97,
        Because::NothingMoves | Because::FewSamplesRise | Because::PeakInFewSamples => 0.95,
        Because::OnePass => 0.7,
        Because::DealtOut if seen.filled.is_some_and(|filled| filled.seen < PASSES) => 0.8,
        Because::MoreThanData | Because::KeepsInEvaluation | Because::DealtOut => 0.9,
        Because::RecoversAfterRestart if seen.group == Group::Flat => 0.9,
        Because::RecoversAfterRestart => 0.4,
        Because::MayBeDealtOut => 0.5,
        Because::NotYetSure | Because::RestsNow | Because::MayFallAgain => 0.27,
        Because::UnderTheFill | Because::AfterTheFall => mapped(LEAK, goes_on),
        Because::OverWithStart => mapped(STARTED, goes_on),
        Because::SlowsDown if seen.group == Group::TooEarly => mapped(SLOWING, goes_on),
        Because::SlowsDown => mapped(SLOWED, goes_on),
        Because::Shapes => match seen.group {
            Group::Leak => mapped(LEAK, goes_on),
            Group::Bounded => mapped(BOUNDED, o.settled + o.open),
            Group::Flat => mapped(FLAT, o.flat).min(mapped(FLAT_AFTER_START, start_over(seen))),
            Group::TooEarly => 0.5,
        },
    };
    (value * 100.0).round() / 100.0
}

/// Where the start was over, by the best shape: the first place within five per cent of its end. Zero where none rose.
fn start_over(seen: &Assessment) -> f64 {
    let rose = |f: &&Fit| !matches!(f.shape, Shape::Flat | Shape::Drop | Shape::Falling);
    let Some(fit) = seen.best().filter(rose) else { return 0.0 };
    let high = fit.at(1.0) - AFTER_START * fit.rise(0.0, 1.0);
    (0..=100).map(|i| f64::from(i) / 100.0).find(|u| fit.at(*u) >= high).unwrap_or(1.0)
}

fn mapped(points: &Points, at: f64) -> f64 {
    let (Some(first), Some(last)) = (points.first(), points.last()) else { return 0.5 };
    let between = points.windows(2).find(|w| at < w[1].0);
    match between {
        _ if at <= first.0 => first.1,
        Some(w) => (w[1].1 - w[0].1).mul_add((at - w[0].0) / (w[1].0 - w[0].0), w[0].1),
        None => last.1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_evidence_never_means_less_confidence() {
        for points in [LEAK, BOUNDED, FLAT] {
            let values: Vec<f64> = (-40..60).map(|i| mapped(points, f64::from(i) / 10.0)).collect();
            assert!(values.windows(2).all(|w| w[0] <= w[1]), "{values:?}");
            assert!(values.iter().all(|v| (0.5..=0.99).contains(v)));
        }
        for points in [FLAT_AFTER_START, SLOWED, SLOWING, STARTED] {
            assert!(points.windows(2).all(|w| w[0].0 < w[1].0 && w[0].1 >= w[1].1));
        }
    }
}
