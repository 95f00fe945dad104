//! Peaks that get higher over a floor that stays.

#![allow(clippy::unwrap_used, reason = "a test that can't set its stage should stop")]

use lowtide_model::{Axis, Bytes, Context, Curve};
use lowtide_verdict::{Fits, Kind, judge};

/// Peaks over a flat floor, each higher than the one before by `each` MB beside a scatter.
fn peaks(count: usize, each: f64, seed: u64) -> Curve {
    let chance = |i: u64| ((i * 7919 + seed * 104_729) % 1009) as f64 / 1009.0 - 0.5;
    let level = |i: usize| {
        let high = i % 25 >= 20;
        let top = 1000.0 + each * (i / 25) as f64 + 60.0 * chance(i as u64 / 25);
        2000.0 + 20.0 * chance(i as u64) + if high { top } else { 0.0 }
    };
    let (x, y) = (0..25 * count).map(|i| (i as f64, level(i) * 1e6)).unzip();
    let limit = Some(Bytes(6_000_000_000));
    let context = Context { limit, ..Context::default() };
    Curve { axis: Axis::Step, x, y, context, ..Curve::default() }
}

#[test]
fn peaks_that_get_higher_over_a_flat_floor_are_told_with_when_they_reach_the_limit() {
    for seed in 0..20 {
        let rising = judge(&peaks(16, 100.0, seed));
        assert_eq!((rising.verdict, rising.outcome.is), (Kind::Spikes, Fits::Exceeds), "{rising:#?}");
        assert!(rising.headline.contains("that get higher, each by about 9"), "{}", rising.headline);
        let at = rising.forecast.and_then(|forecast| forecast.at_step).unwrap();
        assert!(
            (650.0..850.0).contains(&at),
            "{at}: 3,000 MB over the floor at 100 each 25 steps are 20 more peaks"
        );
        let far = judge(&peaks(16, 30.0, seed));
        assert_eq!(far.outcome.is, Fits::Tight, "not within as long again: {far:#?}");
        assert!(far.outcome_words().starts_with("tight: its peaks get higher; the limit is"), "{far:#?}");
        let few = judge(&peaks(5, 100.0, seed));
        assert_eq!(few.outcome.is, Fits::Fits, "{few:#?}");
    }
    let called = (0..100).filter(|seed| judge(&peaks(16, 0.0, *seed)).forecast.is_some()).count();
    assert!(called <= 2, "{called} of 100 by chance");
}

#[test]
fn peaks_that_get_higher_fit_where_the_run_ends_before_they_do_not() {
    let mut planned = peaks(16, 30.0, 3);
    (planned.context.epochs, planned.context.epoch_steps) = (Some(2.0), Some(210.0));
    assert_eq!(judge(&planned).outcome.is, Fits::Fits);
    planned.context.epochs = Some(20.0);
    let exceeds = judge(&planned);
    assert_eq!(exceeds.outcome.is, Fits::Exceeds, "{exceeds:#?}");
}
