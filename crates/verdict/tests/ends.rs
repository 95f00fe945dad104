//! What the beginning of a curve must not hide, and what its end does not tell yet.

#![allow(clippy::unwrap_used, reason = "a test that can't set its stage should stop")]

use lowtide_model::{Axis, Bytes, Context, Curve};
use lowtide_verdict::{Fits, Group, Kind, judge};

fn noise(i: usize, seed: usize) -> f64 {
    let mut h = (i as u32).wrapping_mul(0x9e37_79b9) ^ (seed as u32).wrapping_mul(0x85eb_ca6b);
    h = (h ^ (h >> 15)).wrapping_mul(0x2c1b_3c6d);
    f64::from((h ^ (h >> 13)) >> 8) / f64::from(1_u32 << 24) - 0.5
}

fn curve(seed: usize, mb: impl Fn(f64) -> f64) -> Curve {
    let n = [120, 400, 900][seed % 3];
    let level = |i: usize| mb(i as f64 / n as f64) + 10.0 * noise(i, seed);
    let (x, y) = (0..n).map(|i| (5.0 * i as f64, level(i) * 1e6)).unzip();
    let context = Context { limit: Some(Bytes(12_000_000_000)), ..Context::default() };
    Curve { axis: Axis::Step, x, y, context, ..Curve::default() }
}

#[test]
fn what_was_let_go_once_does_not_hide_the_leak_after_it() {
    for seed in 0..18 {
        let until = [0.08, 0.15, 0.3, 0.5, 0.6][seed % 5];
        let leak = |u: f64| if u < until { 9000.0 } else { 3000.0 + 2500.0 * (u - until) };
        let found = judge(&curve(seed, leak));
        assert_eq!(found.verdict, Kind::Leak, "{seed}: {found:#?}");
        assert_eq!(found.outcome.is, Fits::Exceeds, "{seed}: {found:#?}");
        assert!(
            found.evidence.iter().any(|line| line.contains("memory came down once, before step")),
            "{found:#?}"
        );
        let stays = judge(&curve(seed, |u| if u < until { 9000.0 } else { 3000.0 }));
        assert_eq!(stays.group, Group::Flat, "{seed}: {stays:#?}");
    }
}

#[test]
fn a_climb_that_came_again_after_a_fall_is_neither_a_wave_nor_a_leak_yet() {
    for seed in 0..6 {
        let found = judge(&curve(seed, |u| 3000.0 + 4000.0 * (u % 0.52)));
        assert_eq!(found.group, Group::TooEarly, "{seed}: {found:#?}");
        assert_ne!(found.outcome.is, Fits::Fits, "{seed}: {found:#?}");
        let teeth = judge(&curve(seed, |u| 3000.0 + 4000.0 * (u % 0.13)));
        assert_eq!(teeth.group, Group::Flat, "{seed}: {teeth:#?}");
    }
}

#[test]
fn a_late_rise_that_rests_at_its_end_is_not_told_to_go_on() {
    for seed in 0..12 {
        let (from, rest) = ([0.6, 0.65, 0.7][seed % 3], [0.11, 0.15][seed / 3 % 2]);
        let found = judge(&curve(seed, |u| 4000.0 + 8000.0 * (u.min(1.0 - rest) - from).max(0.0)));
        assert_eq!(found.group, Group::TooEarly, "{seed}: {found:#?}");
        let on = judge(&curve(seed, |u| 4000.0 + 8000.0 * (u - from).max(0.0)));
        assert_eq!(on.verdict, Kind::Leak, "{seed}: {on:#?}");
    }
}

#[test]
fn a_climb_at_the_very_end_neither_went_nor_fits() {
    for seed in 0..6 {
        let found = judge(&curve(seed, |u| 3000.0 + 200_000.0 * (u - 0.96).max(0.0)));
        assert!(found.headline.contains("came at the end and still climbs"), "{seed}: {}", found.headline);
        assert_eq!(found.outcome.is, Fits::Exceeds, "{seed}: it may climb as much again: {found:#?}");
        let over = judge(&curve(seed, |u| 3000.0 + if (0.5..0.52).contains(&u) { 8000.0 } else { 0.0 }));
        assert!(over.headline.contains("came and went"), "{seed}: {}", over.headline);
        assert_eq!(over.outcome.is, Fits::Tight, "{seed}: {over:#?}");
    }
}

#[test]
fn a_rise_that_gets_faster_reaches_the_limit_when_it_does() {
    let mut held = 0;
    for seed in 0..12 {
        let power = [1.5, 2.0, 3.0][seed / 3 % 3];
        let curve = curve(seed, |u| 3000.0 + 800.0 * u.powf(power));
        let found = judge(&curve);
        assert_eq!(found.verdict, Kind::Leak, "{seed}: {found:#?}");
        let forecast = found.forecast.unwrap();
        let truth = (9000.0_f64 / 800.0).powf(1.0 / power) * curve.x.last().unwrap();
        held += usize::from((forecast.low..forecast.high).contains(&truth));
        let off = forecast.at_step.unwrap() / truth;
        assert!((0.7..1.35).contains(&off), "{seed}: {off} of {truth}: {forecast:?}");
    }
    assert!(held >= 10, "{held} of 12 intervals hold it");
}

#[test]
fn a_last_wave_as_high_as_the_others_asks_for_no_more_than_they_did() {
    for seed in 0..12 {
        // Six of them, the last cut at its top and up to a few per cent above the others.
        let wave = |u: f64| {
            let (at, number) = ((u * 6.0).fract(), (u * 6.0).floor());
            let height = if number > 4.5 { [0.97, 1.02, 1.06][seed % 3] } else { 1.0 };
            5000.0 + 2000.0 * height * (1.0 - (at - 0.9).abs() / 0.1).max(0.0)
        };
        let found = judge(&curve(seed, |u| wave(0.98 * u)));
        assert_eq!(found.group, Group::Flat, "{seed}: {found:#?}");
        assert_eq!(found.outcome.is, Fits::Fits, "{seed}: {found:#?}");
    }
}

#[test]
fn where_a_climb_may_fall_again_both_are_told_and_when_it_is_decided() {
    let found = judge(&curve(1, |u| 3000.0 + 4000.0 * (u % 0.52)));
    let kinds: Vec<Kind> = found.explanations.iter().map(|one| one.kind).collect();
    assert_eq!(kinds, [Kind::Leak, Kind::Spikes], "{found:#?}");
    assert!(found.explanations[1].predicts.starts_with("it falls again, as it did from "), "{found:#?}");
    // When it has risen about half as far again as it fell, which was 2,080 MB; a floor is lower than the tip of a tooth.
    let at = found.decided_at_step.unwrap() / (5.0 * 400.0) - 0.52;
    assert!((0.6..0.8).contains(&at), "{at}");
    let beyond = judge(&curve(1, |u| 3000.0 + 4000.0 * if u < 0.38 { u } else { u - 0.38 }));
    assert_eq!(beyond.verdict, Kind::Leak, "it rose far beyond where it fell from: {beyond:#?}");
}

#[test]
fn what_gets_faster_is_not_told_by_its_mean_pace() {
    let found = judge(&curve(1, |u| 2000.0 + 3000.0 * u * u));
    assert_eq!(found.verdict, Kind::Leak, "{found:#?}");
    assert!(found.headline.contains("rises ever faster, by "), "{}", found.headline);
    let all = format!("{} {:?} {:?}", found.headline, found.evidence, found.explanations);
    assert!(all.contains("as it gets faster") && !all.contains("at this rate"), "{all}");
}
