//! Judges several runs of one program with different data sizes together.
//!
//! One curve can't prove a fill; two can: the same bytes per example, and an end of growth that moves with the size
//! of the data. A leak or a warm-up has no reason to know how many examples there are.

use crate::curve::judge;
use crate::phrases::{number, size};
use crate::verdict::{Group, Kind, Verdict};
use lowtide_model::Curve;
use serde::{Deserialize, Serialize};

/// What several runs say together.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Together {
    /// Each run by itself, in the order given; a proof raises their confidence.
    pub runs: Vec<Verdict>,
    /// Whether the runs prove a fill: same bytes per example, and a knee that moves with the data.
    pub proves_fill: bool,
    /// Bytes per example over all runs.
    pub bytes_per_example: Option<f64>,
    /// One sentence.
    pub headline: String,
    /// Lines with numbers.
    pub evidence: Vec<String>,
}

/// Bytes per example may differ by this factor between runs: examples differ in size.
const SAME: f64 = 1.35;
/// The end of growth may be off the end of the pass by this part.
const NEAR: f64 = 0.2;
/// Data sizes closer than this factor prove nothing.
const DIFFERENT: f64 = 1.2;

struct Seen {
    examples: f64,
    each: f64,
    /// Where growth ended over where the pass ended; `None` while it still grows.
    knee: Option<(f64, f64)>,
}

/// Judges runs that differ in how much data they had.
pub fn judge_together(curves: &[Curve]) -> Together {
    let mut runs: Vec<Verdict> = curves.iter().map(judge).collect();
    let seen: Vec<Seen> = curves.iter().zip(&runs).filter_map(|(c, v)| look(c, v)).collect();
    let proves_fill = proof(&seen);
    let bytes_per_example =
        (!seen.is_empty()).then(|| seen.iter().map(|s| s.each).sum::<f64>() / seen.len() as f64);
    if proves_fill {
        for run in runs.iter_mut().filter(|r| r.group == Group::Bounded) {
            run.verdict = Kind::CacheFill;
            run.confidence = run.confidence.max(0.97);
        }
    }
    let evidence: Vec<String> = seen.iter().map(line).collect();
    let headline = match (proves_fill, bytes_per_example) {
        (true, Some(each)) => format!(
            "proven cache fill: {} runs keep about {} per example, and growth ends where their data does",
            seen.len(),
            size(each)
        ),
        _ => format!(
            "{} runs, and they do not prove a fill: either their sizes are alike or not known, or growth does not follow them",
            runs.len()
        ),
    };
    Together { runs, proves_fill, bytes_per_example, headline, evidence }
}

fn line(seen: &Seen) -> String {
    let end = seen.knee.map_or_else(
        || "growth had not ended".to_owned(),
        |(knee, pass)| format!("growth ended at {}, the pass at {}", number(knee), number(pass)),
    );
    format!("{} examples: {} per example; {end}", number(seen.examples), size(seen.each))
}

fn look(curve: &Curve, verdict: &Verdict) -> Option<Seen> {
    let fill = verdict.fill?;
    let pass = crate::budget::pass(&curve.context, curve.axis)?;
    let at = verdict.settled_at.and_then(|s| s.step.or(s.seconds));
    Some(Seen { examples: fill.examples?, each: fill.bytes_per_example, knee: at.map(|at| (at, pass)) })
}

fn proof(seen: &[Seen]) -> bool {
    let settled: Vec<&Seen> = seen.iter().filter(|s| s.knee.is_some()).collect();
    let spread = |f: fn(&Seen) -> f64| {
        let high = settled.iter().map(|s| f(s)).fold(f64::MIN, f64::max);
        let low = settled.iter().map(|s| f(s)).fold(f64::MAX, f64::min);
        high / low
    };
    let follows = settled.iter().filter_map(|s| s.knee).all(|(knee, pass)| (knee / pass - 1.0).abs() <= NEAR);
    settled.len() >= 2 && follows && spread(|s| s.examples) >= DIFFERENT && spread(|s| s.each) <= SAME
}
