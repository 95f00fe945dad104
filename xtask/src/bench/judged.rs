//! `cargo xtask bench verdict`: what the engine takes to judge a million samples, in CPU time.
//!
//! Measured inside this program, because the promise is the engine's: reading a file is somebody else's time.

use crate::commands::{cargo, run};
use lowtide_model::{Axis, Context, Curve, Metric};
use lowtide_verdict::{Judge, Point, judge};

const SAMPLES: usize = 1_000_000;
/// Each figure is the median of so many rounds.
const ROUNDS: usize = 5;
/// What was promised, in milliseconds.
const MOST: f64 = 100.0;

/// Judges curves of three kinds, whole and fed one sample at a time. An engine that was not optimised says nothing of
/// one that was: a debug build starts the other.
pub(super) fn judged() -> Result<(), String> {
    if cfg!(debug_assertions) {
        return run(cargo().args(["run", "--release", "--quiet", "-p", "xtask", "--", "bench", "verdict"]));
    }
    println!("a million samples judged, ms of CPU (median of {ROUNDS}, least to most):");
    let mut slowest: f64 = 0.0;
    for (name, level) in KINDS {
        let curve = made(level);
        let whole = rounds(|| drop(judge(&curve)));
        let fed = rounds(|| drop(one_by_one(&curve)));
        println!("  {name:<22} whole {}   fed {}", super::spread(whole.clone()), super::spread(fed.clone()));
        slowest = slowest.max(middle(whole)).max(middle(fed));
    }
    if slowest > MOST {
        return Err(format!("promise missed: {slowest:.1} ms for a million samples, {MOST} at most"));
    }
    println!("  ok   the slowest: {slowest:.1} ms (promised: at most {MOST})");
    Ok(())
}

type Level = fn(f64) -> f64;

/// Levels over 0..1, in GB.
const KINDS: [(&str, Level); 3] = [
    ("a leak under spikes", |u| 4.0 + u + f64::from(u8::from((u * 40.0).fract() > 0.9))),
    ("a fill that ends", |u| 4.0 + (3.0 * u).min(1.0)),
    ("a collector's saw-tooth", |u| 4.0 + 0.5 * (u * 11.3).fract()),
];

fn made(level: Level) -> Curve {
    let wobble = |i: usize| f64::from((i as u32).wrapping_mul(2_654_435_761) >> 20) / 4096.0;
    let at = |i: usize| 1e9 * 0.01_f64.mul_add(wobble(i), level(i as f64 / SAMPLES as f64));
    let (x, y) = (0..SAMPLES).map(|i| (i as f64, at(i))).unzip();
    Curve { axis: Axis::Step, x, y, ..Curve::default() }
}

fn one_by_one(curve: &Curve) -> lowtide_verdict::Verdict {
    let mut judge = Judge::new(Context::default(), Axis::Step, Metric::Rss);
    for (x, y) in curve.x.iter().zip(&curve.y) {
        judge.push(Point::one(*x, *y));
    }
    judge.verdict()
}

/// Milliseconds of CPU of each round.
fn rounds(work: impl Fn()) -> Vec<f64> {
    let timed = |_| {
        let before = super::cpu_of(std::process::id());
        work();
        (super::cpu_of(std::process::id()) - before) * 1e3
    };
    (0..ROUNDS).map(timed).collect()
}

fn middle(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
