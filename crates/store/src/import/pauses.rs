//! Takes out of x what nobody watched: hours between two samples in which memory stood still.
//!
//! A pause whose two sides stand at different levels is kept: there the job ran on unseen, and its time was real. The
//! same is done for recordings, which know their pauses (`verdict::gaps`); a foreign curve shows them by its strides.

use lowtide_model::{Axis, Curve};

/// A distance of so many usual ones is a pause.
const USUAL: f64 = 100.0;
/// Fewer points have no usual distance.
const FEWEST: usize = 20;
/// A curve with more pauses than one in so many points has two paces instead.
const ONE_IN: usize = 50;
/// Points on each side that say how far memory moves by itself.
const AROUND: usize = 6;

pub(crate) fn leave_out(curve: &mut Curve) {
    let counts_steps = curve.axis == Axis::Step && curve.context.epoch_steps.is_none();
    let places = &curve.context;
    let placed = [
        &places.validation_x,
        &places.save_x,
        &places.log_x,
        &places.shard_x,
        &places.rollout_x,
        &places.step_x,
        &places.restart_x,
    ];
    if !(counts_steps || curve.axis == Axis::Seconds) || placed.iter().any(|x| !x.is_empty()) {
        return;
    }
    let x = &curve.x[..curve.x.len().min(curve.y.len())];
    if x.len() < FEWEST || !x.is_sorted() {
        return;
    }
    let usual = usual(x);
    let long: Vec<usize> = (1..x.len()).filter(|at| x[*at] - x[at - 1] > USUAL * usual).collect();
    if usual <= 0.0 || long.len() > (x.len() / ONE_IN).max(1) {
        return;
    }
    let still: Vec<usize> = long.into_iter().filter(|at| stands_still(&curve.y, *at)).collect();
    let mut left_out = 0.0;
    for at in &still {
        let pause = curve.x[*at] - curve.x[at - 1] - usual;
        curve.x[*at..].iter_mut().for_each(|x| *x -= pause);
        left_out += pause;
    }
    if !still.is_empty() {
        let what = if counts_steps { "steps" } else { "seconds" };
        curve.notes.push(format!(
            "{left_out:.0} {what} without a sample, over which memory stood still, are left out of x (pauses: {})",
            still.len()
        ));
    }
}

fn usual(x: &[f64]) -> f64 {
    let mut all: Vec<f64> = x.windows(2).map(|pair| pair[1] - pair[0]).collect();
    all.sort_by(f64::total_cmp);
    all.get(all.len() / 2).copied().unwrap_or(0.0)
}

/// Whether memory moved no further over a pause than it does within the points beside it.
fn stands_still(y: &[f64], at: usize) -> bool {
    let spread = |part: &[f64]| {
        part.iter().copied().fold(f64::NEG_INFINITY, f64::max)
            - part.iter().copied().fold(f64::INFINITY, f64::min)
    };
    let before = &y[at.saturating_sub(AROUND)..at];
    let after = &y[at..(at + AROUND).min(y.len())];
    (y[at] - y[at - 1]).abs() <= spread(before) + spread(after)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn curve(axis: Axis, jump: f64, raised: f64) -> Curve {
        let late = |n: u32| if n < 50 { 0.0 } else { 1.0 };
        let x = (0..100).map(|n| f64::from(n) * 10.0 + late(n) * jump).collect();
        let y = (0..100).map(|n| 5e9 + f64::from(n) * 1e7 + late(n) * raised).collect();
        Curve { axis, x, y, ..Curve::default() }
    }

    #[test]
    fn a_pause_in_which_memory_stood_still_is_left_out() {
        for axis in [Axis::Seconds, Axis::Step] {
            let mut paused = curve(axis, 36_000.0, 0.0);
            leave_out(&mut paused);
            assert!((paused.x[99] - 990.0).abs() < 1e-6, "{}", paused.x[99]);
            assert!(paused.notes[0].contains("36000 ") && paused.notes[0].contains("pauses: 1"));
        }
    }

    #[test]
    fn a_pause_in_which_memory_grew_is_kept() {
        let mut grown = curve(Axis::Seconds, 36_000.0, 3e9);
        leave_out(&mut grown);
        assert!((grown.x[99] - 36_990.0).abs() < 1e-6 && grown.notes.is_empty());
        let mut shorter = curve(Axis::Seconds, 500.0, 0.0);
        leave_out(&mut shorter);
        assert!(shorter.notes.is_empty(), "fifty times the usual is a slow step");
    }

    #[test]
    fn a_file_with_two_paces_has_no_pauses() {
        let x = (0..100).map(|n| if n < 60 { f64::from(n) } else { f64::from(n - 59) * 1000.0 }).collect();
        let mut paced = Curve { axis: Axis::Step, x, y: vec![5e9; 100], ..Curve::default() };
        leave_out(&mut paced);
        assert!(paced.notes.is_empty());
    }
}
