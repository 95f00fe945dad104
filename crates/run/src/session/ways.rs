//! Which ways there are to stop this job in order, and what would be a better one: said once, when it is known.

use super::{Session, Subject};
use crate::guard::{Telling, Watch};
use lowtide_model::{EventKind, Tick};
use std::time::Duration;

/// Who has no way to be asked is told after so many steps without one: a loop that asks, asks at every step ...
const STEPS_WITHOUT: f64 = 3.0;
/// ... or after so long since the first of them ...
const AFTER_A_STEP: Duration = Duration::from_secs(5);
/// ... or since the start, where nobody marks steps.
const WITHOUT_STEPS: Duration = Duration::from_secs(20);
/// What a loop of the user's own has to do.
pub(super) const ADVICE: &str =
    "add `if lowtide.should_stop(): save(); lowtide.stop_done(); break` after a step";

impl Session<'_> {
    /// Says it once; what was said too early is put right.
    pub(super) fn tell_ways(&mut self, watch: &mut Watch) {
        if watch.has_told(Telling::Ways) || !matches!(self.subject, Subject::Job(_)) {
            return;
        }
        let (here, ranks) = self.marks.ranks_that_stop();
        if (here == 0 || here < ranks) && !self.has_waited_for_ways(watch) {
            return;
        }
        let (what, text) = if here > 0 && here < ranks {
            let text =
                format!("only {here} of {ranks} ranks run here, and one must not stop without the others");
            (Telling::NoWay, text)
        } else if here > 1 {
            (Telling::Ways, format!("{here} processes save and stop together when asked"))
        } else if here == 1 {
            (Telling::Ways, watch.manner.words().to_owned())
        } else if let Some(signal) = watch.stop_signal() {
            (Telling::NoWay, format!("{signal} asks this job to save and stop"))
        } else {
            let text = format!(
                "this job can't be asked to save, so only its last checkpoint is kept; {ADVICE}, or name a signal it saves \
                 on with --stop-signal"
            );
            (Telling::NoWay, text)
        };
        if watch.tells(what) {
            let text = format!("guard: {text}");
            self.event(EventKind::Guard, None, text.clone());
            self.listener.say(&text);
        }
    }

    /// A framework may load a model for minutes before it can be asked; a job that makes steps is past that.
    fn has_waited_for_ways(&self, watch: &Watch) -> bool {
        let since = |from: Tick| self.live.now.since(from);
        let life = &watch.life;
        let steps = life.newest_step.zip(life.first_step).map_or(0.0, |(newest, first)| newest - first);
        match life.first_step_at {
            Some(stepped) => steps >= STEPS_WITHOUT || since(stepped) >= AFTER_A_STEP,
            None => !self.marks.hooked() && since(watch.life.began) >= WITHOUT_STEPS,
        }
    }
}
