//! The jobs of short steps that real processes play in `crates/lowtide/tests/guard/harmless.rs`, played by the reckoning
//! alone: look for look the same every time, and thousands of them in seconds.

#[path = "../../../lowtide/tests/guard/drawn.rs"]
mod drawn;

use super::play::{Dice, Job, Keeps, Manner, Phase};
use drawn::{Variant, drawn};

/// How fast a process takes memory, on a machine that is quiet and on one that is not.
const MIB_A_SECOND: (f64, f64) = (100.0, 2000.0);

/// The job of this number, on a machine that is more or less busy.
pub(crate) fn short(seed: u64) -> (&'static str, Job) {
    let variant = drawn(seed);
    let mut dice = Dice(!seed);
    let rate = dice.scale(MIB_A_SECOND.0, MIB_A_SECOND.1) / variant.limit_mib as f64;
    let stalls = dice.happens(0.5).then(|| (dice.scale(1.5, 30.0), dice.scale(0.01, 0.15)));
    let keeps = match variant.keeps {
        "first" => Keeps::First,
        "throughout" => Keeps::Throughout,
        _ => Keeps::Last,
    };
    let steps = variant.steps(seed);
    let levels: Vec<f64> =
        variant.levels.iter().take(1).copied().chain(steps.iter().map(|step| step.0)).collect();
    // What is touched takes time on top.
    let taken = |at: usize| (levels[at + 1] - levels[at]).max(0.0) + variant.swing;
    let paces = steps.iter().enumerate().map(|(at, step)| step.1.max(taken(at) / rate)).collect();
    let last = levels.len() - 1;
    let mut job = Job::new(last, variant.step_seconds, move |step| levels[step.min(last)]);
    let phase =
        |of: Option<(usize, f64, f64)>| of.map(|(every, takes, seconds)| Phase { every, takes, seconds });
    (job.paces, job.swing) = (Some(paces), variant.swing);
    (job.eval, job.save) = (phase(variant.eval), phase(variant.save));
    if let Some(save) = job.save {
        (job.save_takes, job.save_seconds) = (save.takes, save.seconds);
    }
    job.manner = Manner { stalls, keeps, ..Manner::default() };
    let Variant { shape, .. } = variant;
    (shape, job)
}
