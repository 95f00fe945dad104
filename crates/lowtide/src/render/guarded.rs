//! The guard's after-action report: what was forecast, when it asked, how long that took, what was kept and what it cost.

use super::plain;
use crate::duration;
use lowtide_run::{Guarded, Rung, Stop};
use std::fmt::Write as _;
use std::time::Duration;

/// Stops told one by one; of more, the first and the newest.
const MOST_TOLD: usize = 6;

/// Nothing when the guard had nothing to do.
pub(super) fn text(guarded: &Guarded) -> String {
    let stops = &guarded.stops;
    if stops.is_empty() {
        return String::new();
    }
    let mut text = format!("  guard: {}\n", sum(guarded));
    let left_out = stops.len().saturating_sub(MOST_TOLD);
    for (at, stop) in stops.iter().enumerate() {
        if left_out > 0 && at == 1 {
            let _ = writeln!(text, "    - {left_out} more, all in the recording (events of kind `guard`)");
        }
        if left_out == 0 || at == 0 || at > left_out {
            let _ = writeln!(text, "    - {}", plain(&one(stop), 400));
        }
    }
    text.push('\n');
    text
}

fn sum(guarded: &Guarded) -> String {
    let times = |count: usize| match count {
        1 => "once".to_owned(),
        count => format!("{count} times"),
    };
    let (stopped, again) = (times(guarded.stops.len()), guarded.restarts as usize);
    let repeated: f64 = guarded.stops.iter().filter_map(|stop| stop.repeated_steps).sum();
    match again {
        0 => format!("it was stopped {stopped} and not started again"),
        _ => format!(
            "it was stopped {stopped} and started again {}; {repeated:.0} steps were made once more",
            times(again)
        ),
    }
}

fn one(stop: &Stop) -> String {
    let step = stop.step.map(|step| format!(", after step {step:.0}")).unwrap_or_default();
    let when = stop.asked_seconds.map(|at| format!("at {}{step}: ", seconds(at))).unwrap_or_default();
    let how = match stop.rung {
        Some(rung) => format!("{}, {}", stop.because, rung.words()),
        None => format!("{}{step}", stop.because),
    };
    let mut parts = vec![format!("{when}{how}")];
    let after = |name: &str, time: Option<f64>| time.map(|time| format!("{name} after {}", seconds(time)));
    parts.extend(after("taken up", stop.taken_up_after_seconds));
    parts.extend(after("called overdue", stop.overdue_after_seconds));
    parts.extend(after("saved", stop.saved_after_seconds));
    parts.extend(after("ended", stop.ended_after_seconds.filter(|_| stop.rung != Some(Rung::Kill))));
    parts.extend(stop.save_failed.clone());
    parts.push(
        stop.kept.as_ref().map_or_else(|| "nothing kept".to_owned(), |kept| format!("kept {}", kept.words())),
    );
    if let Some(newer) = stop.kept.as_ref().and_then(|kept| kept.newer_is.as_ref()) {
        parts.push(format!("a newer one can't be used, {newer}"));
    }
    parts.extend(stop.repeated_steps.map(|steps| format!("{steps:.0} steps repeated")));
    parts.extend(stop.over_because.as_ref().map(|why| format!("not started again: {why}")));
    parts.join("; ")
}

fn seconds(seconds: f64) -> String {
    Duration::try_from_secs_f64(seconds).map_or_else(
        |_| format!("{seconds} s"),
        |time| {
            if time < Duration::from_secs(1) {
                format!("{} ms", time.as_millis())
            } else {
                duration::words(time)
            }
        },
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use lowtide_run::{Again, Kept};

    fn stop(step: f64) -> Stop {
        Stop {
            because: "9.64 MiB left of 200 MiB".to_owned(),
            rung: Some(Rung::Flag),
            asked_seconds: Some(63.0),
            taken_up_after_seconds: Some(0.03),
            overdue_after_seconds: None,
            saved_after_seconds: Some(1.5),
            ended_after_seconds: Some(2.0),
            step: Some(step),
            save_failed: None,
            kept: Some(Kept { path: Some("/out/c".into()), step: Some(step), ..Kept::default() }),
            again: Again::Helps,
            began_again: true,
            over_because: None,
            repeated_steps: Some(0.0),
        }
    }

    #[test]
    fn a_stop_is_told_with_its_times_and_what_it_cost() {
        let guarded = Guarded { stops: vec![stop(46.0)], restarts: 1, ..Guarded::default() };
        insta::assert_snapshot!(text(&guarded), @"
          guard: it was stopped once and started again once; 0 steps were made once more
            - at 1 min 3 s, after step 46: 9.64 MiB left of 200 MiB, it was asked to save and stop; taken up after 30 ms; saved after 1.5 s; ended after 2.0 s; kept /out/c (step 46); 0 steps repeated
        ");
        assert_eq!(text(&Guarded::default()), "");
    }

    #[test]
    fn of_many_stops_the_first_and_the_newest_are_told() {
        let stops: Vec<Stop> = (1..=20).map(|step| stop(f64::from(step))).collect();
        let told = text(&Guarded { stops, restarts: 20, ..Guarded::default() });
        assert_eq!(told.lines().count(), 1 + 1 + 1 + 5 + 1, "{told}");
        assert!(
            told.contains("after step 1:") && told.contains("after step 20:") && told.contains("14 more")
        );
    }
}
