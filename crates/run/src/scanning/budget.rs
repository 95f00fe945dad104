//! When the recorder scans by itself: the floor of a process rises, and the scans so far were cheap enough.
//!
//! The process whose floor rises most is looked into, be it the trainer or a worker. Two scans tell what grows; a third, much
//! later, tells whether it is still the same. A run gets three at most, those before its first step not counted, and all of
//! them together may take one part in a hundred of the job's time. Asked at every tick, it allocates for a new process only.

use lowtide_model::{Bytes, ProcKey, Tick};
use std::time::Duration;

/// Scans in a run.
const MOST: usize = 3;
/// Scans of one process that make a difference.
const PAIR: usize = 2;
/// Processes whose floors are followed.
const MOST_WATCHED: usize = 16;
/// Growth of a process that was looked into before counts so many times.
const KNOWN: u64 = 4;
/// All scans together may take this part of the job's time.
const SHARE: u32 = 100;
/// Guess of what a scan costs before the first was made: a tenth of a second, nine tenths of a second for each GB while that is code and
/// its small objects, and less than half for what is there beyond it. What came since the floor rose is not counted: it would be
/// dearer to wait for each second. A helper that takes more than its share is ended by the kernel, and the next try is made when
/// there is this many times as much.
const GUESS: Duration = Duration::from_millis(100);
const CODE: Bytes = Bytes::from_mib(512);
const CODE_NS_PER_KB: u64 = 900;
const GUESS_NS_PER_KB: u64 = 450;
const MORE: u32 = 2;
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

/// What was spent, and what the processes of the job did.
#[derive(Debug, Default)]
pub(crate) struct Budget {
    /// The largest ones.
    watched: Vec<Watched>,
    made: usize,
    last: Option<Tick>,
    spent: Duration,
    cost: Option<Duration>,
    /// Steps were told.
    steps: bool,
}

/// One process and its floor.
#[derive(Debug)]
struct Watched {
    process: ProcKey,
    /// Its newest size, and when that was.
    size: Bytes,
    seen: Tick,
    /// The lowest size in each part of the window, by number of the part.
    sizes: [(u64, u64); SLOTS],
    since: Tick,
    /// Where the floor stood when it was last worth looking, and at first.
    base: Option<Bytes>,
    first: Option<Bytes>,
    /// Scans of it, and the newest.
    made: usize,
    last: Option<Tick>,
}

impl Watched {
    fn new(now: Tick, process: ProcKey) -> Self {
        Self {
            process,
            size: Bytes::ZERO,
            seen: now,
            sizes: Default::default(),
            since: now,
            base: None,
            first: None,
            made: 0,
            last: None,
        }
    }

    /// Takes its size; tells when its floor rose by enough.
    fn rose(&mut self, now: Tick, size: Bytes) -> Option<Occasion> {
        (self.size, self.seen) = (size, now);
        let floor = self.floor(now)?;
        let base = *self.base.get_or_insert(floor);
        self.first.get_or_insert(floor);
        if floor < base {
            self.base = Some(floor);
            return None;
        }
        let rose = Bytes(floor.0 - base.0);
        let enough = rose.0 >= STEP.0.max(base.0 / STEP_PART);
        enough.then_some(Occasion { process: self.process, floor, rose })
    }

    /// The lowest size within the window; nothing before one has passed.
    fn floor(&mut self, now: Tick) -> Option<Bytes> {
        let part = WINDOW.as_nanos() as u64 / SLOTS as u64;
        let number = now.0 / part + 1;
        let slot = self.sizes.get_mut((number % SLOTS as u64) as usize)?;
        *slot = if slot.0 == number { (number, slot.1.min(self.size.0)) } else { (number, self.size.0) };
        let fresh = |slot: &&(u64, u64)| slot.0 + SLOTS as u64 > number;
        let floor = self.sizes.iter().filter(fresh).map(|slot| slot.1).min();
        floor.filter(|_| now.since(self.since) >= WINDOW).map(Bytes)
    }

    /// Scans that are still to be made of it before any growth of it can be told.
    const fn wanted(&self) -> usize {
        if self.made < PAIR { PAIR - self.made } else { 1 }
    }
}

impl Budget {
    /// Takes the sizes of the job's processes; tells when it is time to look into one of them.
    pub(crate) fn due(
        &mut self,
        now: Tick,
        sizes: impl Iterator<Item = (ProcKey, Bytes)>,
    ) -> Option<Occasion> {
        let mut due: Option<(u64, Occasion)> = None;
        for (process, size) in sizes {
            let Some(at) = self.watch(now, process, size) else { continue };
            let Some(occasion) = self.watched[at].rose(now, size) else { continue };
            // One that was looked into is looked into again, so that there is a difference: unless another one grows far more.
            let known = if self.watched[at].made > 0 { KNOWN } else { 1 };
            let weight = occasion.rose.0.saturating_mul(known);
            if due.is_none_or(|(most, _)| weight > most) && self.affordable(now, &self.watched[at]) {
                due = Some((weight, occasion));
            }
        }
        self.watched.retain(|watched| watched.seen == now);
        due.map(|(_, occasion)| occasion)
    }

    /// Where a process is watched; only so many of the largest are.
    fn watch(&mut self, now: Tick, process: ProcKey, size: Bytes) -> Option<usize> {
        let known = self.watched.iter().position(|watched| watched.process == process);
        if known.is_some() || self.watched.len() < MOST_WATCHED {
            return known.or_else(|| {
                self.watched.push(Watched::new(now, process));
                Some(self.watched.len() - 1)
            });
        }
        let least = self.watched.iter().enumerate().min_by_key(|(_, watched)| watched.size);
        let (at, _) = least.filter(|(_, least)| size.0 / 2 > least.size.0)?;
        self.watched[at] = Watched::new(now, process);
        Some(at)
    }

    /// A step was told. What rose before the first one was loaded, and so were those that were looked into: the scans of the run
    /// begin to count here.
    pub(crate) fn stepped(&mut self) {
        if !std::mem::replace(&mut self.steps, true) {
            self.watched.clear();
            self.made = 0;
        }
    }

    /// A scan begins: the next one wants growth beyond this, whosoever it is.
    pub(crate) fn begun(&mut self, now: Tick, occasion: Occasion) {
        self.made += 1;
        self.last = Some(now);
        for watched in &mut self.watched {
            watched.base = watched.floor(now).or(watched.base);
            if watched.process == occasion.process {
                watched.made += 1;
                watched.last = Some(now);
            }
        }
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
    pub(crate) fn ended_at(&mut self, process: ProcKey, share: Duration) {
        self.made = self.made.saturating_sub(1);
        if let Some(watched) = self.watched.iter_mut().find(|watched| watched.process == process) {
            watched.made = watched.made.saturating_sub(1);
        }
        self.spent += share;
        self.cost = Some(share * MORE);
    }

    fn affordable(&self, now: Tick, watched: &Watched) -> bool {
        let first = watched.first.unwrap_or_default();
        let code = first.min(CODE);
        let nanos = (code.0 / 1000)
            .saturating_mul(CODE_NS_PER_KB)
            .saturating_add(((first.0 - code.0) / 1000).saturating_mul(GUESS_NS_PER_KB));
        let guess = || GUESS + Duration::from_nanos(nanos);
        let next = self.cost.unwrap_or_else(guess);
        let age = now.since(Tick::START);
        let apart = match watched.last {
            // The third of a process is to tell whether it still is the same: later than twice the age of the second.
            Some(last) if watched.made >= PAIR => age >= last.since(Tick::START) * 2,
            Some(_) | None => self.last.is_none_or(|last| now.since(last) >= APART),
        };
        self.made + watched.wanted() <= MOST && apart && (self.spent + next) * SHARE <= age
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const KEY: ProcKey = ProcKey { pid: 7, start_ticks: 1 };

    fn one(process: ProcKey, mib: u64) -> impl Iterator<Item = (ProcKey, Bytes)> {
        std::iter::once((process, Bytes::from_mib(mib)))
    }

    /// One size a second; gives the seconds at which a scan began.
    fn scans(sizes: impl Fn(u64) -> u64, seconds: u64, cost: Duration) -> Vec<u64> {
        let mut budget = Budget::default();
        let mut begun = Vec::new();
        for second in 0..seconds {
            let now = Tick(second * 1_000_000_000);
            if let Some(occasion) = budget.due(now, one(KEY, sizes(second))) {
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
    fn however_fast_it_leaks_it_is_looked_at_twice_within_seventy_seconds() {
        for mib_a_second in [4, 12, 50, 150] {
            let begun = scans(|second| 300 + second * mib_a_second, 120, Duration::from_millis(80));
            assert!(begun.len() >= 2 && begun[1] <= 70, "{mib_a_second} MiB/s: {begun:?}");
        }
    }

    #[test]
    fn a_scan_that_was_ended_at_its_share_is_tried_again_when_there_is_more() {
        let (mut budget, mut tries) = (Budget::default(), Vec::new());
        for second in 0..4000 {
            let now = Tick(second * 1_000_000_000);
            if let Some(occasion) = budget.due(now, one(KEY, 1000 + second * 20)) {
                budget.begun(now, occasion);
                let share = budget.share(now);
                tries.push((second, share));
                budget.ended_at(KEY, share);
            }
        }
        assert!((4..12).contains(&tries.len()), "{tries:?}");
        assert!(tries.windows(2).all(|pair| pair[1].1 * 10 >= pair[0].1 * 18), "{tries:?}");
    }

    /// A trainer of a size that changes, and workers beside it; gives who was looked into, and when.
    fn looked_into(
        stepped: u64,
        trainer: impl Fn(u64) -> u64,
        worker: impl Fn(u64) -> u64,
    ) -> Vec<(u32, u64)> {
        let process = |pid| ProcKey { pid, start_ticks: 1 };
        let (mut budget, mut begun) = (Budget::default(), Vec::new());
        for second in 0..400 {
            let now = Tick(second * 1_000_000_000);
            let workers = (10..14).map(|pid| (process(pid), Bytes::from_mib(worker(second))));
            if second >= stepped {
                budget.stepped();
            }
            let all = std::iter::once((process(1), Bytes::from_mib(trainer(second)))).chain(workers);
            if let Some(occasion) = budget.due(now, all) {
                budget.begun(now, occasion);
                budget.took(Duration::from_millis(50));
                begun.push((occasion.process.pid, second));
            }
        }
        begun
    }

    #[test]
    fn a_worker_that_grows_beside_a_larger_trainer_is_looked_into_twice() {
        let begun = looked_into(5, |_| 2000, |second| 300 + second);
        let who: Vec<u32> = begun.iter().map(|b| b.0).collect();
        assert!(who.len() >= 2 && who.iter().all(|pid| *pid == who[0] && *pid >= 10), "{begun:?}");
    }

    #[test]
    fn what_was_looked_into_while_it_loaded_takes_no_scan_from_a_worker() {
        let begun = looked_into(60, |second| 500 + 100 * second.min(60), |second| 300 + 2 * second);
        let who: Vec<u32> = begun.iter().filter(|b| b.1 >= 60).map(|b| b.0).collect();
        assert!(begun[0].1 < 60 && who.len() == 3, "{begun:?}");
        assert!(who.iter().all(|pid| *pid == who[0] && *pid >= 10), "{begun:?}");
    }

    #[test]
    fn the_trainer_is_looked_into_where_it_grows_with_its_workers() {
        let begun = looked_into(5, |second| 2000 + 8 * second, |second| 300 + 2 * second);
        // A worker is small, and may be looked into before there is time for more.
        let pair = begun.windows(2).any(|pair| pair.iter().all(|b| b.0 == 1));
        assert!(pair && begun.iter().all(|b| b.1 < 200), "{begun:?}");
    }

    #[test]
    fn of_a_hundred_processes_the_large_ones_are_followed() {
        let process = |pid| ProcKey { pid, start_ticks: 1 };
        let (mut budget, mut begun) = (Budget::default(), Vec::new());
        for second in 0..120_u64 {
            let now = Tick(second * 1_000_000_000);
            let small = (2..100).map(|pid| (process(pid), Bytes::from_mib(20)));
            let large = std::iter::once((process(200), Bytes::from_mib(1000 + 10 * second)));
            if let Some(occasion) = budget.due(now, small.chain(large)) {
                budget.begun(now, occasion);
                begun.push(occasion.process.pid);
            }
        }
        assert!(begun.len() >= 2 && begun.iter().all(|pid| *pid == 200), "{begun:?}");
        assert_eq!(budget.watched.len(), MOST_WATCHED);
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
                if let Some(occasion) = budget.due(tick, one(process, mib)) {
                    budget.begun(tick, occasion);
                    let (cost, share) = (Duration::from_millis(cost_ms), budget.share(tick));
                    spent += cost.min(share);
                    prop_assert!(spent * SHARE <= tick.since(Tick::START), "{spent:?} by {now}");
                    if cost > share {
                        budget.ended_at(process, share);
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
            assert_eq!(budget.due(now, one(KEY, 100 + second * 50)), None);
        }
        for second in 5..14 {
            let now = Tick(second * 1_000_000_000);
            assert_eq!(budget.due(now, one(other, 100 + second * 50)), None);
        }
    }
}
