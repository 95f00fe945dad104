//! Says how often an answer like this one is right.
//!
//! Weights of shapes are no probabilities: they know nothing of leaks that hide under a warm-up or of warm-ups that look
//! like a start. So each kind of evidence is mapped to the share of right answers it had on made curves with known
//! causes, by a few points with straight lines between: monotone, the same for every curve, and checked on curves that
//! were made afterwards (the reliability table in docs/verdict.md). Not here: the evidence itself.

use crate::assess::{Assessment, Because};
use crate::shapes::Shape;
use crate::verdict::Group;

/// Evidence, and the share of right answers with it.
type Points = [(f64, f64)];

/// By the log-odds that a rise goes on.
const LEAK: &Points = &[(0.4, 0.68), (0.9, 0.82), (1.3, 0.92), (1.8, 0.97), (3.0, 0.99)];
/// By the weight of shapes that have stopped or slow down.
const BOUNDED: &Points = &[(0.45, 0.55), (0.65, 0.68), (0.8, 0.79), (0.92, 0.9), (0.99, 0.93), (1.0, 0.97)];
/// By the weight of flat shapes, where nothing rose ...
const FLAT: &Points = &[(0.4, 0.7), (0.7, 0.9), (1.0, 0.97)];
/// ... and where the start of the program did: it may have been a warm-up that ended just then.
const FLAT_AFTER_START: &Points = &[(0.4, 0.6), (0.8, 0.8), (1.0, 0.86)];
/// Settled although it only slows down, by the log-odds that it goes on.
const SLOWED: &Points = &[(-2.5, 0.96), (-1.5, 0.74), (-0.5, 0.48), (0.0, 0.38)];
/// Too early because it slows down, by the same.
const SLOWING: &Points = &[(-2.5, 0.93), (-1.0, 0.72), (0.0, 0.42)];

/// How often an answer like this is right.
pub(crate) fn confidence(seen: &Assessment) -> f64 {
    let o = seen.odds;
    let goes_on = seen.goes_on.unwrap_or(-3.0);
    let value = match seen.because {
        Because::TooFew | Because::TooBrief | Because::InsideFirstPass | Because::AtEvents => 0.97,
        Because::NothingMoves | Because::EveryLifeClimbs => 0.95,
        Because::MoreThanData
        | Because::KeepsInEvaluation
        | Because::FewSamplesRise
        | Because::PeakInFewSamples => 0.9,
        Because::OnePass | Because::RecoversAfterRestart | Because::OverWithStart => 0.7,
        Because::NotYetSure => 0.35,
        Because::SlowsDown if seen.group == Group::TooEarly => mapped(SLOWING, goes_on),
        Because::SlowsDown => mapped(SLOWED, goes_on),
        Because::Shapes => match seen.group {
            Group::Leak => mapped(LEAK, goes_on),
            Group::Bounded => mapped(BOUNDED, o.settled + o.open),
            Group::Flat if started(seen) => mapped(FLAT_AFTER_START, o.flat),
            Group::Flat => mapped(FLAT, o.flat),
            Group::TooEarly => 0.5,
        },
    };
    (value * 100.0).round() / 100.0
}

/// Whether the best shape has a rise in it that was over with the start.
fn started(seen: &Assessment) -> bool {
    seen.best().is_some_and(|f| !matches!(f.shape, Shape::Flat | Shape::Drop | Shape::Falling))
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
        for points in [LEAK, BOUNDED, FLAT, FLAT_AFTER_START] {
            let values: Vec<f64> = (-40..60).map(|i| mapped(points, f64::from(i) / 10.0)).collect();
            assert!(values.windows(2).all(|w| w[0] <= w[1]), "{values:?}");
            assert!(values.iter().all(|v| (0.5..=0.99).contains(v)));
        }
        for points in [SLOWED, SLOWING] {
            assert!(points.windows(2).all(|w| w[0].0 < w[1].0 && w[0].1 >= w[1].1));
        }
    }
}
