//! How often to look: often while a job starts or moves, seldom while nothing happens.
//!
//! A pure state machine, so the file can say why every tick was as long as it was.

use std::time::Duration;

/// The first minute is where jobs load models, fork workers and show their shape.
const EAGER: Duration = Duration::from_secs(60);
/// How much faster the tick is in the first minute and while memory moves.
const QUICKEN: u32 = 4;
/// Faster than this is only done when asked for by `--interval`: the signal is not worth the wake-ups.
const QUICKEST: Duration = Duration::from_millis(250);
/// The first seconds decide what short jobs leave behind, and workers are forked in them.
const OPENING: Duration = Duration::from_secs(2);
/// The tick in them.
const OPENING_TICK: Duration = Duration::from_millis(50);
/// Nothing moved for this long: the tick may stretch, unless the user chose it.
const FLAT: Duration = Duration::from_secs(120);
/// How far it stretches.
const STRETCH: u32 = 4;
/// A move is a change of the tree by more than this part within a tick.
const MOVE_PART: f64 = 0.005;
/// A move lasts at least this long in the pace, so that a saw-tooth does not flip it at every tick.
const STILL_MOVING: Duration = Duration::from_secs(5);

/// Why the tick is as long as it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Gait {
    /// The first minute.
    Eager,
    /// Memory moves.
    Moving,
    /// Nothing special.
    Steady,
    /// Nothing moved for a while.
    Flat,
}

impl Gait {
    pub(crate) const fn word(self) -> &'static str {
        match self {
            Self::Eager => "first minute",
            Self::Moving => "memory moves",
            Self::Steady => "steady",
            Self::Flat => "flat",
        }
    }
}

/// Decides the length of the next tick.
#[derive(Debug)]
pub(crate) struct Pace {
    base: Duration,
    chosen: bool,
    last_total: Option<f64>,
    last_move: Duration,
    gait: Gait,
}

impl Pace {
    /// `chosen` is whether the user asked for this interval: then it is never made longer.
    pub(crate) fn new(base: Duration, chosen: Chosen) -> Self {
        let chosen = matches!(chosen, Chosen::ByUser);
        Self { base, chosen, last_total: None, last_move: Duration::ZERO, gait: Gait::Eager }
    }

    /// Takes in one tick and answers how long the next one is, and why.
    pub(crate) fn next(&mut self, elapsed: Duration, total_bytes: f64) -> (Duration, Gait) {
        let before = self.last_total.replace(total_bytes).unwrap_or(total_bytes);
        if (total_bytes - before).abs() > before.max(1.0) * MOVE_PART {
            self.last_move = elapsed;
        }
        let still = elapsed.saturating_sub(self.last_move);
        self.gait = if elapsed < EAGER {
            Gait::Eager
        } else if still < STILL_MOVING && self.last_move > Duration::ZERO {
            Gait::Moving
        } else if still > FLAT && !self.chosen {
            Gait::Flat
        } else {
            Gait::Steady
        };
        if elapsed < OPENING {
            return (OPENING_TICK.min(self.base), self.gait);
        }
        (self.interval(), self.gait)
    }

    fn interval(&self) -> Duration {
        match self.gait {
            Gait::Eager | Gait::Moving => (self.base / QUICKEN).max(QUICKEST).min(self.base),
            Gait::Steady => self.base,
            Gait::Flat => self.base * STRETCH,
        }
    }
}

/// Who chose the interval.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Chosen {
    /// The user, with `--interval`.
    ByUser,
    /// Nobody.
    ByDefault,
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn after(pace: &mut Pace, seconds: std::ops::Range<u64>, total: impl Fn(u64) -> f64) -> (Duration, Gait) {
        seconds.fold((SECOND, Gait::Eager), |_, second| pace.next(SECOND * second as u32, total(second)))
    }

    #[test]
    fn the_first_minute_is_quick_then_the_base_returns() {
        let mut pace = Pace::new(SECOND, Chosen::ByDefault);
        assert_eq!(after(&mut pace, 0..59, |_| 1e9), (SECOND / 4, Gait::Eager));
        assert_eq!(after(&mut pace, 59..100, |_| 1e9), (SECOND, Gait::Steady));
    }

    #[test]
    fn a_flat_job_is_looked_at_seldom_unless_the_user_chose() {
        let mut pace = Pace::new(SECOND, Chosen::ByDefault);
        assert_eq!(after(&mut pace, 0..400, |_| 1e9), (SECOND * 4, Gait::Flat));
        let mut pace = Pace::new(SECOND, Chosen::ByUser);
        assert_eq!(after(&mut pace, 0..400, |_| 1e9), (SECOND, Gait::Steady));
    }

    #[test]
    fn growth_after_a_flat_time_quickens_at_once() {
        let mut pace = Pace::new(SECOND, Chosen::ByDefault);
        after(&mut pace, 0..400, |_| 1e9);
        assert_eq!(pace.next(SECOND * 401, 1.1e9), (SECOND / 4, Gait::Moving));
    }

    #[test]
    fn an_interval_of_ten_milliseconds_is_never_made_longer_by_being_quick() {
        let mut pace = Pace::new(Duration::from_millis(10), Chosen::ByUser);
        assert_eq!(pace.next(Duration::ZERO, 1e9).0, Duration::from_millis(10));
    }
}
