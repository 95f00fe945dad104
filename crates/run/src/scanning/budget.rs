//! When the recorder scans by itself: the floor of the largest process rises, and the scans so far were cheap enough.
//!
//! Two scans tell what grows; a third, much later, tells whether it is still the same. A run gets three at most, and all
//! of them together may take one part in a hundred of the job's time. Nothing here allocates: it is asked at every tick.

use lowtide_model::{Bytes, ProcKey, Tick};
use std::time::Duration;

/// Scans in a run.
const MOST: usize = 3;
/// All scans together may take this part of the job's time.
const SHARE: u32 = 100;
/// Guess of what a scan costs before the first was made: a tenth of a second and half a second for each GB that was there before
/// the floor rose. What came since is not counted: it would be dearer to wait for each second. A helper that takes more than its
/// share is ended by the kernel, and the next try is made when there is this many times as much.
const GUESS: Duration = Duration::from_millis(100);
const GUESS_NS_PER_KB: u64 = 500;
const MORE: u32 = 4;
/// The floor is the lowest size within so long.
const WINDOW: Duration = Duration::from_secs(10);
/// Sizes remembered in a window.
const SLOTS: usize = 20;
/// A floor that rose by less than this, or by less than one part in thirty, is noise.
const STEP: Bytes = Bytes::from_mib(32);
const STEP_PART: u64 = 30;
/// Between two scans.
const APART: Duration = Duration::from_secs(15);

/// Why it is time for a scan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Occasion {
    pub(crate) process: ProcKey,
    /// The floor, and by how much it rose.
    pub(crate) floor: Bytes,
    pub(crate) rose: Bytes,
}

/// What was spent, and what the largest process did.
#[derive(Debug, Default)]
pub(crate) struct Budget {
    process: Option<ProcKey>,
    /// The lowest size in each part of the window, by number of the part.
    sizes: [(u64, u64); SLOTS],
    since: Tick,
    /// Where the floor stood when it was last worth looking.
    base: Option<Bytes>,
    made: usize,
    last: Option<Tick>,
    spent: Duration,
    cost: Option<Duration>,
    /// Where the floor of this process stood at first.
    first: Option<Bytes>,
}

impl Budget {
    /// Takes the size of the job's largest process; tells when it is time to look into it.
    pub(crate) fn due(&mut self, now: Tick, process: ProcKey, rss: Bytes) -> Option<Occasion> {
        if self.process != Some(process) {
            *self = Self {
                process: Some(process),
                since: now,
                made: self.made,
                last: self.last,
                spent: self.spent,
                ..Self::default()
            };
        }
        let floor = self.floor(now, rss)?;
        let base = *self.base.get_or_insert(floor);
        self.first.get_or_insert(floor);
        if floor < base {
            self.base = Some(floor);
            return None;
        }
        let rose = Bytes(floor.0 - base.0);
        let enough = rose.0 >= STEP.0.max(base.0 / STEP_PART);
        (enough && self.affordable(now)).then_some(Occasion { process, floor, rose })
    }

    /// A scan begins: the next one wants growth beyond this.
    pub(crate) fn begun(&mut self, now: Tick, occasion: Occasion) {
        self.made += 1;
        self.last = Some(now);
        self.base = Some(occasion.floor);
    }

    /// The CPU time that the next scan may take: the kernel ends a helper that takes more.
    pub(crate) fn share(&self, now: Tick) -> Duration {
        (now.since(Tick::START) / SHARE).saturating_sub(self.spent)
    }

    /// What it took.
    pub(crate) fn took(&mut self, cost: Duration) {
        self.spent += cost;
        self.cost = Some(cost);
    }

    /// It was ended at its share: that is gone, nothing was seen, and it is tried again when it can be several times as dear.
    pub(crate) fn ended_at(&mut self, share: Duration) {
        self.made = self.made.saturating_sub(1);
        self.spent += share;
        self.cost = Some(share * MORE);
    }

    fn affordable(&self, now: Tick) -> bool {
        let first = self.first.unwrap_or_default();
        let guess = || GUESS + Duration::from_nanos((first.0 / 1000).saturating_mul(GUESS_NS_PER_KB));
        let next = self.cost.unwrap_or_else(guess);
        let age = now.since(Tick::START);
        // The third is to tell whether it still is the same: later than twice the age of the second.
        let apart = match (self.made, self.last) {
            (0 | 1, last) => last.is_none_or(|last| now.since(last) >= APART),
            (2, Some(last)) => age >= last.since(Tick::START) * 2,
            _ => false,
        };
        self.made < MOST && apart && (self.spent + next) * SHARE <= age
    }

    /// The lowest size within the window; nothing before one has passed.
    fn floor(&mut self, now: Tick, rss: Bytes) -> Option<Bytes> {
        let part = WINDOW.as_nanos() as u64 / SLOTS as u64;
        let number = now.0 / part + 1;
        let slot = self.sizes.get_mut((number % SLOTS as u64) as usize)?;
        *slot = if slot.0 == number { (number, slot.1.min(rss.0)) } else { (number, rss.0) };
        let fresh = |slot: &&(u64, u64)| slot.0 + SLOTS as u64 > number;
        let floor = self.sizes.iter().filter(fresh).map(|slot| slot.1).min();
        floor.filter(|_| now.since(self.since) >= WINDOW).map(Bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const KEY: ProcKey = ProcKey { pid: 7, start_ticks: 1 };

    /// One size a second; gives the seconds at which a scan began.
    fn scans(sizes: impl Fn(u64) -> u64, seconds: u64, cost: Duration) -> Vec<u64> {
        let mut budget = Budget::default();
        let mut begun = Vec::new();
        for second in 0..seconds {
            let now = Tick(second * 1_000_000_000);
            if let Some(occasion) = budget.due(now, KEY, Bytes::from_mib(sizes(second))) {
                budget.begun(now, occasion);
                budget.took(cost);
                begun.push(second);
            }
        }
        begun
    }

    #[test]
    fn a_flat_job_is_never_scanned_and_neither_is_one_that_spikes() {
        assert!(scans(|_| 900, 3600, Duration::ZERO).is_empty());
        assert!(scans(|second| if second % 30 < 8 { 3000 } else { 900 }, 3600, Duration::ZERO).is_empty());
    }

    #[test]
    fn a_rising_floor_gives_two_scans_and_a_late_third() {
        let begun = scans(|second| 200 + second * 3, 3600, Duration::from_millis(20));
        assert_eq!(begun.len(), 3);
        assert!(begun[1] >= begun[0] + 15 && begun[2] >= begun[1] * 2, "{begun:?}");
    }

    #[test]
    fn dear_scans_wait_until_they_are_one_part_in_a_hundred() {
        let begun = scans(|second| 8000 + second * 3, 20_000, Duration::from_secs(4));
        assert!(begun[0] >= 400, "{begun:?}");
        assert_eq!(begun.len(), 3);
        for (made, second) in begun.iter().enumerate().skip(1) {
            assert!((made as u64 + 1) * 4 * 100 <= *second, "{begun:?}");
        }
    }

    #[test]
    fn however_fast_it_leaks_it_is_looked_at_within_the_first_minute() {
        for mib_a_second in [4, 12, 50, 150] {
            let begun = scans(|second| 300 + second * mib_a_second, 120, Duration::from_millis(80));
            assert!(begun.len() >= 2 && begun[1] <= 60, "{mib_a_second} MiB/s: {begun:?}");
        }
    }

    #[test]
    fn a_scan_that_was_ended_at_its_share_is_tried_again_when_there_is_more() {
        let (mut budget, mut tries) = (Budget::default(), Vec::new());
        for second in 0..4000 {
            let now = Tick(second * 1_000_000_000);
            if let Some(occasion) = budget.due(now, KEY, Bytes::from_mib(1000 + second * 20)) {
                budget.begun(now, occasion);
                let share = budget.share(now);
                tries.push((second, share));
                budget.ended_at(share);
            }
        }
        assert!((3..8).contains(&tries.len()), "{tries:?}");
        assert!(tries.windows(2).all(|pair| pair[1].1 >= pair[0].1 * 3), "{tries:?}");
    }

    proptest! {
        /// Whatever the sizes do and whatever a scan would cost: with the kernel ending each at its share, the scans of
        /// a run never take more than one part in a hundred of its time, and never more than three are begun.
        #[test]
        fn all_scans_together_stay_below_one_part_in_a_hundred(
            ticks in proptest::collection::vec((1_u64..30_000, 1_u64..200_000, 0_u64..60_000, 0_u32..3), 1..600)
        ) {
            let (mut budget, mut now, mut spent, mut begun) = (Budget::default(), 0, Duration::ZERO, 0);
            for (apart_ms, mib, cost_ms, pid) in ticks {
                now += apart_ms * 1_000_000;
                let tick = Tick(now);
                let process = ProcKey { pid, start_ticks: 1 };
                if let Some(occasion) = budget.due(tick, process, Bytes::from_mib(mib)) {
                    budget.begun(tick, occasion);
                    let (cost, share) = (Duration::from_millis(cost_ms), budget.share(tick));
                    spent += cost.min(share);
                    prop_assert!(spent * SHARE <= tick.since(Tick::START), "{spent:?} by {now}");
                    if cost > share {
                        budget.ended_at(share);
                    } else {
                        budget.took(cost);
                        begun += 1;
                    }
                }
            }
            prop_assert!(begun <= MOST);
        }
    }

    #[test]
    fn a_new_largest_process_begins_anew_within_the_same_budget() {
        let mut budget = Budget::default();
        let other = ProcKey { pid: 8, start_ticks: 1 };
        for second in 0..5 {
            let now = Tick(second * 1_000_000_000);
            assert_eq!(budget.due(now, KEY, Bytes::from_mib(100 + second * 50)), None);
        }
        for second in 5..14 {
            let now = Tick(second * 1_000_000_000);
            assert_eq!(budget.due(now, other, Bytes::from_mib(100 + second * 50)), None);
        }
    }
}
