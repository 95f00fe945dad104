//! Steps that are counted anew in each pass over the data, laid one behind the other.
//!
//! `Epoch 2/4 | step 12/83` is step 95 of one run, not step 12 of another: a fill that ends with the first pass shows
//! only when the passes stand in a row. What falls back without being a next pass is another run.

use std::ops::Range;

/// Points at each end of a pass that say where memory stood.
const AT_AN_END: usize = 5;
/// Memory that moved by less in a pass says nothing of whether it went on.
const STILL: f64 = 0.02;

/// A point as far as passes need it.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct At {
    pub(crate) x: f64,
    pub(crate) y: f64,
    pub(crate) epoch: Option<f64>,
    /// Steps in a pass, where the line says so: the 83 of `12/83`.
    pub(crate) of: Option<f64>,
    pub(crate) pid: Option<f64>,
}

/// What x counts: only steps begin anew with a pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Counted {
    Steps,
    Other,
}

/// Points that belong together.
#[derive(Clone, Debug)]
pub(crate) struct Run {
    pub(crate) range: Range<usize>,
    pub(crate) passes: Option<Passes>,
}

/// The places of a run's points over all its passes.
#[derive(Clone, Debug)]
pub(crate) struct Passes {
    pub(crate) x: Vec<f64>,
    /// Steps in one pass.
    pub(crate) steps: f64,
    pub(crate) note: String,
}

/// Holds the step still over loops beside the training within an epoch: an evaluation has a bar of its own, out of fewer.
pub(crate) fn hold_side_loops(points: &mut [At]) {
    for epoch in points.chunk_by_mut(|a, b| a.epoch == b.epoch) {
        let most = epoch.iter().filter_map(|at| at.of).fold(0.0, f64::max);
        let mut last = None;
        for at in epoch.iter_mut().filter(|at| at.epoch.is_some()) {
            if at.of.is_some_and(|of| of < most) {
                at.x = last.unwrap_or(at.x);
            } else {
                last = Some(at.x);
            }
        }
    }
}

/// Parts points where x falls back, unless the next pass begins there. Where x falls back all the time it orders
/// nothing (many ranks at once, rows in no order): then all is one run.
pub(crate) fn runs(points: &[At], counted: Counted) -> Vec<Run> {
    let parts = rising(points);
    let steps = counted == Counted::Steps;
    let unnumbered =
        steps && parts.len() > 1 && points.iter().all(|at| at.epoch.is_none()) && goes_on(points, &parts);
    let mut joined: Vec<Vec<Range<usize>>> = Vec::new();
    for part in parts {
        let next = joined.last().and_then(|run| run.last()).is_some_and(|before| {
            unnumbered || steps && is_next_epoch(&points[before.end - 1], &points[part.start])
        });
        match joined.last_mut().filter(|_| next) {
            Some(run) => run.push(part),
            None => joined.push(vec![part]),
        }
    }
    if joined.len().saturating_sub(1) * 4 > points.len() {
        return vec![Run { range: 0..points.len(), passes: None }];
    }
    joined.iter().map(|parts| run(points, parts)).collect()
}

fn rising(points: &[At]) -> Vec<Range<usize>> {
    let mut starts = vec![0];
    starts.extend((1..points.len()).filter(|at| points[*at].x < points[at - 1].x));
    let ends = starts.iter().skip(1).copied().chain([points.len()]);
    starts.iter().copied().zip(ends).map(|(start, end)| start..end).filter(|part| !part.is_empty()).collect()
}

fn is_next_epoch(before: &At, after: &At) -> bool {
    let whole = |epoch: &f64| epoch.fract().abs() < 1e-9;
    let epochs = before.epoch.filter(whole).zip(after.epoch.filter(whole));
    epochs.is_some_and(|(before, after)| after > before) && before.pid == after.pid
}

/// Whether parts without an epoch are passes of one run: each from the same beginning to the same end, the last as far
/// as it came, and memory goes on from where it stood. A run that was started again begins at the bottom.
fn goes_on(points: &[At], parts: &[Range<usize>]) -> bool {
    let first = |part: &Range<usize>| points[part.start];
    let last = |part: &Range<usize>| points[part.end - 1];
    let (whole, tail) = parts.split_at(parts.len() - 1);
    let stride = stride(points, parts);
    let alike = |a: f64, b: f64| (a - b).abs() < stride;
    let evenly = parts.iter().all(|part| alike(first(part).x, first(&parts[0]).x))
        && whole.iter().all(|part| alike(last(part).x, last(&parts[0]).x))
        && tail.iter().all(|part| last(part).x < last(&parts[0]).x + stride);
    let ends = |part: &[At]| (part.len() / 4).clamp(1, AT_AN_END);
    let begin = |part: &Range<usize>| level(&points[part.clone()][..ends(&points[part.clone()])]);
    let bottom = begin(&parts[0]);
    let stays = |pair: &[Range<usize>]| {
        let before = &points[pair[0].clone()];
        let top = level(&before[before.len() - ends(before)..]);
        let moved = top - bottom;
        moved.abs() <= STILL * top.abs() || (begin(&pair[1]) - bottom) / moved > 0.5
    };
    let same_process = points.windows(2).all(|pair| pair[0].pid == pair[1].pid);
    evenly && same_process && parts.windows(2).all(stays)
}

fn level(points: &[At]) -> f64 {
    let mut y: Vec<f64> = points.iter().map(|at| at.y).filter(|y| y.is_finite()).collect();
    y.sort_by(f64::total_cmp);
    y.get(y.len() / 2).copied().unwrap_or(f64::NAN)
}

/// The usual distance of two points of a pass.
fn stride(points: &[At], parts: &[Range<usize>]) -> f64 {
    let mut all: Vec<f64> = parts
        .iter()
        .flat_map(|part| points[part.clone()].windows(2))
        .map(|pair| pair[1].x - pair[0].x)
        .filter(|distance| *distance > 0.0)
        .collect();
    all.sort_by(f64::total_cmp);
    all.get(all.len() / 2).copied().unwrap_or(1.0)
}

fn run(points: &[At], parts: &[Range<usize>]) -> Run {
    let (Some(first), Some(last)) = (parts.first(), parts.last()) else {
        return Run { range: 0..0, passes: None };
    };
    let range = first.start..last.end;
    let passes = (parts.len() > 1).then(|| in_a_row(points, parts));
    Run { range, passes }
}

fn in_a_row(points: &[At], parts: &[Range<usize>]) -> Passes {
    let all = || parts.iter().flat_map(|part| &points[part.clone()]);
    let told = all().filter_map(|at| at.of).fold(0.0, f64::max);
    let highest = all().map(|at| at.x).fold(f64::NEG_INFINITY, f64::max);
    let lowest = all().map(|at| at.x).fold(f64::INFINITY, f64::min);
    let reached = highest - lowest + stride(points, parts);
    let is_told = told >= highest - lowest && told > 0.0;
    let steps = if is_told { told } else { reached };
    // The first pass is number 0 or 1; a log that begins with a later one was resumed there.
    let base = all().find_map(|at| at.epoch).map_or(0.0, |first| first.min(1.0));
    let number = |nth: usize, part: &Range<usize>| points[part.start].epoch.map_or(nth as f64, |e| e - base);
    let x = parts
        .iter()
        .enumerate()
        .flat_map(|(nth, part)| {
            let before = number(nth, part) * steps;
            points[part.clone()].iter().map(move |at| before + at.x)
        })
        .collect();
    let numbered = all().any(|at| at.epoch.is_some());
    let how = if is_told { "as the file says" } else { "by how far each counts" };
    let why = if numbered {
        "the step begins anew with each epoch"
    } else {
        "the step falls back to its beginning while memory goes on from where it stood"
    };
    let note = format!("{} passes of {steps} steps, {how}, laid in a row: {why}", parts.len());
    Passes { x, steps, note }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(epoch: Option<f64>, steps: usize, y: impl Fn(f64) -> f64) -> Vec<At> {
        (0..steps).map(|n| At { x: n as f64, y: y(n as f64), epoch, ..At::default() }).collect()
    }

    #[test]
    fn epochs_in_a_row_are_one_run_and_a_restart_is_another() {
        let pass = |epoch: f64| part(Some(epoch), 10, |_| 5.0);
        let found = runs(&[pass(1.0), pass(2.0), pass(3.0)].concat(), Counted::Steps);
        assert_eq!(found.len(), 1);
        let passes = found[0].passes.as_ref().unwrap();
        assert!((passes.steps - 10.0).abs() < 1e-9 && (passes.x[29] - 29.0).abs() < 1e-9, "{passes:?}");
        let again = runs(&[pass(1.0), pass(2.0), pass(1.0), pass(2.0)].concat(), Counted::Steps);
        assert_eq!(again.iter().map(|run| run.range.clone()).collect::<Vec<_>>(), [0..20, 20..40]);
        let resumed = runs(&[pass(4.0), pass(5.0)].concat(), Counted::Steps);
        assert!((resumed[0].passes.as_ref().unwrap().x[0] - 30.0).abs() < 1e-9);
    }

    #[test]
    fn without_an_epoch_memory_says_whether_it_went_on() {
        let climbs = |from: f64| part(None, 20, move |n| from + n);
        let going_on = runs(&[climbs(100.0), climbs(120.0), climbs(140.0)].concat(), Counted::Steps);
        assert_eq!(going_on.len(), 1);
        let restarted = runs(&[climbs(100.0), climbs(100.0), climbs(100.0)].concat(), Counted::Steps);
        assert_eq!(restarted.len(), 3);
        let shorter = runs(
            &[part(None, 20, |n| n), part(None, 7, |n| 20.0 + n), part(None, 20, |n| 27.0 + n)].concat(),
            Counted::Steps,
        );
        assert_eq!(shorter.len(), 3, "a part that ended early was stopped");
    }

    #[test]
    fn another_process_is_another_run_whatever_its_epoch() {
        let of = |pid: f64, epoch: f64| {
            let mut points = part(Some(epoch), 10, |_| 5.0);
            points.iter_mut().for_each(|at| at.pid = Some(pid));
            points
        };
        assert_eq!(runs(&[of(7.0, 1.0), of(7.0, 2.0), of(9.0, 3.0)].concat(), Counted::Steps).len(), 2);
    }

    #[test]
    fn an_evaluation_within_an_epoch_is_no_run() {
        let bars = |epoch: f64| {
            let bar = |steps: usize| {
                part(Some(epoch), steps, |_| 5.0)
                    .into_iter()
                    .map(move |at| At { of: Some(steps as f64), ..at })
            };
            bar(20).chain(bar(5)).collect::<Vec<At>>()
        };
        let mut points = [bars(0.0), bars(1.0)].concat();
        hold_side_loops(&mut points);
        let found = runs(&points, Counted::Steps);
        assert_eq!(found.len(), 1);
        let x = &found[0].passes.as_ref().unwrap().x;
        assert!((x[24] - 19.0).abs() < 1e-9 && (x[49] - 39.0).abs() < 1e-9, "{x:?}");
    }

    #[test]
    fn no_order_at_all_is_one_run() {
        let shuffled: Vec<At> =
            (0..100_u32).map(|n| At { x: f64::from(n * 37 % 100), ..At::default() }).collect();
        assert_eq!(runs(&shuffled, Counted::Steps).len(), 1);
        assert!(runs(&[], Counted::Steps).iter().all(|run| run.range.is_empty()));
    }
}
