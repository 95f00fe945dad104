//! When to read proportional sizes, and what that may cost the job.
//!
//! Reading `smaps_rollup` holds the target's memory map: its mmap and munmap wait as long as we read (50-130 ms at
//! 4-12 GB). So it is never done on a timer: only when forks settled, when memory settled at a new level, or when
//! pages seem to be un-shared; and never beyond a budget, which the summary shows.

use lowtide_model::{Bytes, Tick};
use std::time::Duration;

/// The job's map is held for at most this long in any minute.
const BUDGET: Duration = Duration::from_millis(50);
const MINUTE: Duration = Duration::from_secs(60);
/// A first guess of what a byte costs (80 ns a page of 4 KiB, measured); replaced by what readings really take.
const NS_PER_BYTE: f64 = 80.0 / 4096.0;
/// A price beyond the budget is believed for no longer than this many minutes.
const MOST_DOUBTS: u32 = 64;
/// Processes younger than this don't call for a reading: most are gone before it would be of use.
const SETTLE: Duration = Duration::from_secs(1);
/// Level means: within this part over this time.
const LEVEL_PART: f64 = 0.01;
const LEVEL_TIME: Duration = Duration::from_secs(15);
/// A new level differs by this part from the one at the last round.
const NEW_LEVEL_PART: f64 = 0.05;
/// Suspected un-sharing is checked at most this often.
const UNSHARING_EVERY: Duration = Duration::from_secs(10);

/// Why proportional sizes are read now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Why {
    /// Processes came or went, and it is calm again.
    Changed,
    /// Memory settled at a new level.
    Settled,
    /// Faults without growth: pages are being un-shared.
    Unsharing,
}

/// The tree at one tick, as far as this decision goes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct View {
    pub(crate) now: Tick,
    /// Sum of RSS: what a round would have to read through.
    pub(crate) rss_sum: Bytes,
    /// Stands for the set of living processes.
    pub(crate) members: u64,
    /// Some forked process faults without growing.
    pub(crate) unsharing: bool,
}

/// Decides when a round of readings is due and affordable.
#[derive(Debug)]
pub(crate) struct Anchors {
    spent: Vec<(Tick, Duration)>,
    total: Duration,
    ns_per_byte: f64,
    learnt_at: Tick,
    /// Minutes for which a price beyond the budget is believed.
    doubts: u32,
    members: u64,
    changed_at: Tick,
    round: Option<Round>,
    level: (Tick, Bytes),
    refused: bool,
}

#[derive(Clone, Copy, Debug)]
struct Round {
    at: Tick,
    members: u64,
    rss_sum: Bytes,
}

impl Anchors {
    pub(crate) fn new() -> Self {
        Self {
            spent: Vec::new(),
            total: Duration::ZERO,
            ns_per_byte: NS_PER_BYTE,
            learnt_at: Tick::START,
            doubts: 1,
            members: 0,
            changed_at: Tick::START,
            round: None,
            level: (Tick::START, Bytes::ZERO),
            refused: false,
        }
    }

    /// Takes in a tick; answers whether a round is due and within the budget.
    pub(crate) fn due(&mut self, view: View) -> Option<Why> {
        if view.members != self.members {
            self.members = view.members;
            self.changed_at = view.now;
        }
        if part(view.rss_sum, self.level.1) > LEVEL_PART {
            self.level = (view.now, view.rss_sum);
        }
        let why = self.reason(view)?;
        self.spent.retain(|(at, _)| view.now.since(*at) < MINUTE);
        if self.ns_per_byte > NS_PER_BYTE && view.now.since(self.learnt_at) >= MINUTE * self.doubts {
            // One reading on a busy machine must not forbid all others: its price is forgotten after a while, and after a
            // longer one each time that it was true.
            self.ns_per_byte = NS_PER_BYTE;
        }
        let left = self.left();
        let need = Duration::from_nanos((view.rss_sum.as_f64() * self.ns_per_byte) as u64);
        self.refused = need > left;
        (!self.refused).then_some(why)
    }

    fn reason(&self, view: View) -> Option<Why> {
        let calm = view.now.since(self.changed_at) >= SETTLE;
        let Some(round) = self.round else {
            return calm.then_some(Why::Changed);
        };
        let since = view.now.since(round.at);
        if round.members != self.members && calm {
            return Some(Why::Changed);
        }
        if view.unsharing && since >= UNSHARING_EVERY {
            return Some(Why::Unsharing);
        }
        let level = view.now.since(self.level.0) >= LEVEL_TIME;
        (level && part(view.rss_sum, round.rss_sum) > NEW_LEVEL_PART).then_some(Why::Settled)
    }

    /// What is left of the budget in this minute.
    pub(crate) fn left(&self) -> Duration {
        BUDGET.saturating_sub(self.spent.iter().map(|(_, took)| *took).sum())
    }

    /// A round was made, or given up: what it read through and how long the maps were held.
    pub(crate) fn made(&mut self, view: View, took: Duration, complete: bool) {
        self.spent.push((view.now, took));
        self.total += took;
        if view.rss_sum > Bytes::from_mib(64) {
            let measured = took.as_nanos() as f64 / view.rss_sum.as_f64();
            self.ns_per_byte = measured.max(0.5 * self.ns_per_byte + 0.5 * measured);
            self.learnt_at = view.now;
        }
        if !complete {
            self.refused = true;
            self.doubts = (self.doubts * 2).min(MOST_DOUBTS);
            return;
        }
        self.doubts = 1;
        self.round = Some(Round { at: view.now, members: self.members, rss_sum: view.rss_sum });
    }

    /// How long the job's maps were held in all.
    pub(crate) fn total(&self) -> Duration {
        self.total
    }

    /// Whether the last round that was due did not fit the budget.
    pub(crate) fn refused(&self) -> bool {
        self.refused
    }
}

fn part(now: Bytes, before: Bytes) -> f64 {
    now.distance(before).as_f64() / before.as_f64().max(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn view(seconds: f64, mib: u64, members: u64) -> View {
        View { now: Tick::from_seconds(seconds), rss_sum: Bytes::from_mib(mib), members, unsharing: false }
    }

    #[test]
    fn a_fork_is_read_once_it_is_calm_and_then_left_alone() {
        let mut anchors = Anchors::new();
        assert_eq!(anchors.due(view(0.2, 100, 7)), None, "too fresh");
        assert_eq!(anchors.due(view(1.3, 100, 7)), Some(Why::Changed));
        anchors.made(view(1.3, 100, 7), Duration::from_millis(1), true);
        assert_eq!(anchors.due(view(30.0, 100, 7)), None);
    }

    #[test]
    fn a_tree_too_big_for_the_budget_is_never_read() {
        let mut anchors = Anchors::new();
        for second in 0..600 {
            assert_eq!(anchors.due(view(f64::from(second), 40 * 1024, 7)), None);
        }
        assert!(anchors.refused());
        assert_eq!(anchors.total(), Duration::ZERO);
    }

    #[test]
    fn a_reading_that_took_too_long_is_tried_again_and_a_tree_that_always_does_is_not() {
        let mut anchors = Anchors::new();
        assert_eq!(anchors.due(view(0.5, 500, 7)), None);
        assert!(anchors.due(view(2.0, 500, 7)).is_some());
        anchors.made(view(2.0, 500, 7), Duration::from_millis(200), false);
        let again = (3..600).find(|second| anchors.due(view(f64::from(*second), 500, 7)).is_some());
        assert!(again.is_some_and(|second| (62..200).contains(&second)), "{again:?}");
        let mut anchors = Anchors::new();
        let rounds = (2..3600).filter(|second| {
            let now = view(f64::from(*second), 500, 7);
            let due = anchors.due(now).is_some();
            if due {
                anchors.made(now, Duration::from_millis(60), false);
            }
            due
        });
        let rounds = rounds.count();
        assert!((3..=8).contains(&rounds), "{rounds} in an hour");
    }

    #[test]
    fn a_new_level_is_read_when_it_has_settled() {
        let mut anchors = Anchors::new();
        anchors.due(view(2.0, 100, 7));
        anchors.made(view(2.0, 100, 7), Duration::from_millis(1), true);
        assert_eq!(anchors.due(view(10.0, 200, 7)), None, "still moving");
        assert_eq!(anchors.due(view(26.0, 200, 7)), Some(Why::Settled));
    }

    #[test]
    fn a_minute_never_costs_more_than_the_budget() {
        let mut anchors = Anchors::new();
        let mut spent = Vec::new();
        for step in 0..6000_u32 {
            let at = f64::from(step) / 10.0;
            let view = View { unsharing: true, ..view(at, 300, u64::from(step / 20)) };
            if anchors.due(view).is_some() {
                anchors.made(view, Duration::from_millis(9), true);
                spent.push(at);
            }
        }
        let worst =
            spent.iter().map(|at| spent.iter().filter(|other| **other >= *at && **other < at + 60.0).count());
        assert!(worst.max().unwrap() * 9 <= 50 + 9, "the last one may overshoot by its own surprise");
        assert!(!spent.is_empty());
    }
}
