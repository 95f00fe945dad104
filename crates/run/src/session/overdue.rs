//! A request that is not carried out: a save that hangs, a job that does not look, one that has saved and does not end.
//!
//! Such a job stands still and harms nobody, and what it does may still come to something, so it is not ended for it: that
//! would be worse than what it is kept from. It is said, with what it does and for how long, and said again each time twice
//! as much time has gone by; a signal it is known to save on is sent as well; and the user may set a time for its end. One
//! whose memory grows all the while, beyond what its saves took before, is ended a moment before the kernel does it.

use super::Session;
use crate::guard::{Asked, Rung, Watch};
use lowtide_model::Tick;
use std::time::Duration;

/// A request may take this many times a step and a save ...
const PATIENCE_FACTOR: u32 = 4;
/// ... and at least this long before it is called overdue.
const LEAST_PATIENCE: Duration = Duration::from_secs(20);

impl Watch {
    /// How long a request may take before it is called overdue.
    fn patience(&self) -> Duration {
        self.step_and_save().map_or(LEAST_PATIENCE, |each| (each * PATIENCE_FACTOR).max(LEAST_PATIENCE))
    }
}

impl Asked {
    /// Whether it took longer than it may.
    pub(super) fn is_overdue(&self, watch: &Watch, now: Tick) -> bool {
        now.since(self.at) > watch.patience()
    }

    /// Whether it hangs in a save that takes all memory that is left.
    pub(super) fn is_hung(&self, watch: &Watch, now: Tick) -> bool {
        watch.save_runs_over() || self.is_overdue(watch, now) && watch.reaches_limit_in_save()
    }

    /// Whether it was ended.
    pub(super) fn is_over(&self) -> bool {
        matches!(self.rung, Rung::Kill | Rung::Hung | Rung::Overdue)
    }
}

impl Session<'_> {
    /// What is said and done about a request that is not carried out.
    pub(super) fn chase(&mut self, watch: &Watch, asked: &mut Asked) {
        let passed = self.live.now.since(asked.at);
        if asked.is_over() {
            return;
        }
        if watch.options.stop_within.is_some_and(|within| passed >= within) && !asked.spared {
            if asked.done.is_some() || watch.has_something() {
                return self.end_all(asked, Rung::Overdue);
            }
            asked.spared = true;
            self.warn("not ended after --stop-within: there is no checkpoint to go back to".to_owned());
        }
        if asked.is_overdue(watch, self.live.now) && passed >= asked.told_overdue * 2 {
            asked.told_overdue = passed;
            asked.overdue.get_or_insert(self.live.now);
            self.tell_overdue(watch, asked, passed);
            self.signal_as_well(watch, asked);
        }
    }

    fn tell_overdue(&mut self, watch: &Watch, asked: &Asked, passed: Duration) {
        let seconds = |since: Tick| self.live.now.since(since).as_secs_f64();
        let doing = match (asked.done, asked.taken, watch.saves_since()) {
            (Some(done), ..) => format!("it saved {:.0} s ago and does not end", seconds(done)),
            (None, _, Some(since)) => format!("it has been saving for {:.0} s", seconds(since)),
            (None, Some(taken), None) => {
                format!("it took the request up {:.0} s ago and does not save", seconds(taken))
            }
            (None, None, None) => "it has not taken the request up".to_owned(),
        };
        let held = self.places.limits().iter().min_by_key(|held| held.limit.0.saturating_sub(held.used.0));
        let taken =
            held.map(|held| format!(", with {} of {} taken", held.used, held.limit)).unwrap_or_default();
        let next = match watch.options.stop_within {
            Some(_) if !asked.spared => "it is ended when --stop-within is over",
            Some(_) | None => "it is left alone until the kernel would end it",
        };
        let text = format!("asked to stop {:.0} s ago: {doing}{taken}; {next}", passed.as_secs_f64());
        self.guard_event("overdue", asked, text.clone());
        self.listener.warn(&text);
        self.show(text);
    }

    /// The next rung, where the job is known to have it.
    fn signal_as_well(&mut self, watch: &Watch, asked: &mut Asked) {
        let Some(signal) = watch.stop_signal() else { return };
        if asked.rung != Rung::Flag || asked.done.is_some() {
            return;
        }
        if self.send(signal, asked) {
            self.tell_signal(signal, asked);
        }
    }
}
