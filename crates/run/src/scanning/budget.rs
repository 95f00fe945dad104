//! When the recorder scans by itself: the floor of a process rises, and the scans so far were cheap enough.
//!
//! The process whose floor rose most is looked into, be it the trainer or a worker. Two scans tell what grows; a third, much
//! later, tells whether it is still the same. A process gets three at most and a run six, those before its first step not counted,
//! and all of them together may take one part in a hundred of the job's time. Asked at every tick, it allocates for a new process
//! only.

use lowtide_model::{Bytes, ProcKey, Tick};
use std::time::Duration;

/// Scans in a run, ...
const MOST: usize = 6;
/// ... of one process, ...
const MOST_OF_ONE: usize = 3;
/// ... and in the first minutes of a run, when everything grows and little of it goes on.
const MOST_EARLY: usize = 3;
const EARLY: Duration = Duration::from_secs(120);
/// After these a process that has lived for less than one part in so many of the run is not begun with: workers that are made anew
/// for each epoch begin by growing, and are gone before a second scan.
const PART_OF_RUN: u32 = 3;
/// Scans of one process that make a difference.
const PAIR: usize = 2;
/// Processes whose floors are followed.
const MOST_WATCHED: usize = 16;
/// Growth of a process that was looked into once counts so many times: of workers that grow alike one is looked into twice.
const BEGUN: u64 = 2;
/// All scans together may take this part of the job's time.
const SHARE: u32 = 100;
/// Guess of what the first scan of a process costs: a tenth of a second, one second for each GB while that is code and
/// its small objects, and less than half for what is there beyond it. What came since the floor rose is not counted: it would be
/// dearer to wait for each second. A helper that takes more than its share is ended by the kernel, and the next try is made when
/// there is this many times as much.
const GUESS: Duration = Duration::from_millis(100);
const CODE: Bytes = Bytes::from_mib(512);
const CODE_NS_PER_KB: u64 = 1000;
const GUESS_NS_PER_KB: u64 = 450;
const MORE: u32 = 2;
/// The first scan of a process looks for types only; one that looks for holders as well takes half as long again, and a process that
/// grows holds more by then. A scan that is ended at its share is lost, so there is room.
const HOLDERS: f64 = 2.0;
const GROWN: f64 = 1.3;
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
    /// The process of the scan that runs.
    running: Option<ProcKey>,
    /// Since when the scans count: the start, or the first step.
    since: Option<Tick>,
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
    /// Where the floor stood when it was last worth looking, at first, and now.
    base: Option<Bytes>,
    first: Option<Bytes>,
    floor: Option<Bytes>,
    /// Its floor rose by enough.
    due: Option<Occasion>,
    /// Scans of it, the newest, and what the next one will take.
    made: usize,
    last: Option<Tick>,
    cost: Option<Duration>,
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
            floor: None,
            due: None,
            made: 0,
            last: None,
            cost: None,
        }
    }

    /// Takes its size; it is due when its floor rose by enough.
    fn push(&mut self, now: Tick, size: Bytes) {
        (self.size, self.seen) = (size, now);
        self.floor = self.lowest(now);
        self.due = self.rose();
    }

    fn rose(&mut self) -> Option<Occasion> {
        let floor = self.floor?;
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
    fn lowest(&mut self, now: Tick) -> Option<Bytes> {
        let part = WINDOW.as_nanos() as u64 / SLOTS as u64;
        let number = now.0 / part + 1;
        let slot = self.sizes.get_mut((number % SLOTS as u64) as usize)?;
        *slot = if slot.0 == number { (number, slot.1.min(self.size.0)) } else { (number, self.size.0) };
        let fresh = |slot: &&(u64, u64)| slot.0 + SLOTS as u64 > number;
        let floor = self.sizes.iter().filter(fresh).map(|slot| slot.1).min();
        floor.filter(|_| now.since(self.since) >= WINDOW).map(Bytes)
    }

    /// How far its floor rose in all; one that was looked into once is to be looked into again, so that there is a difference.
    fn weight(&self) -> u64 {
        let (floor, first) = (self.floor.unwrap_or_default(), self.first.unwrap_or_default());
        let begun = if self.made > 0 && self.made < PAIR { BEGUN } else { 1 };
        floor.saturating_sub(first).0.saturating_mul(begun)
    }

    /// Scans that are still to be made of it before any growth of it can be told.
    const fn wanted(&self) -> usize {
        if self.made < PAIR { PAIR - self.made } else { 1 }
    }

    /// What a scan of it will take: as much as the one before, or a guess.
    fn cost(&self) -> Duration {
        let first = self.first.unwrap_or_default();
        let code = first.min(CODE);
        let nanos = (code.0 / 1000)
            .saturating_mul(CODE_NS_PER_KB)
            .saturating_add(((first.0 - code.0) / 1000).saturating_mul(GUESS_NS_PER_KB));
        self.cost.unwrap_or_else(|| GUESS + Duration::from_nanos(nanos))
    }
}

impl Budget {
    /// Takes the sizes of the job's processes; tells when it is time to look into one of them.
    pub(crate) fn due(
        &mut self,
        now: Tick,
        sizes: impl Iterator<Item = (ProcKey, Bytes)>,
    ) -> Option<Occasion> {
        self.since.get_or_insert(now);
        for (process, size) in sizes {
            if let Some(watched) = self.watch(now, process, size) {
                watched.push(now, size);
            }
        }
        self.watched.retain(|watched| watched.seen == now);
        self.next(now)
    }

    /// The one that rose most of those that can be looked into now. Where that is not the one that rose most of all, because it is
    /// dearer, enough scans are left for that one.
    fn next(&self, now: Tick) -> Option<Occasion> {
        let due =
            || self.watched.iter().filter(|watched| watched.due.is_some() && self.may_be_told(now, watched));
        let most = due().max_by_key(|watched| watched.weight())?;
        let leaves_enough = |watched: &&Watched| {
            let kept = if watched.process == most.process { 0 } else { most.wanted() };
            self.made + watched.wanted() + kept <= MOST
        };
        let able = due().filter(leaves_enough).filter(|watched| self.affordable(now, watched));
        able.max_by_key(|watched| watched.weight())?.due
    }

    /// Where a process is watched; only so many of the largest are.
    fn watch(&mut self, now: Tick, process: ProcKey, size: Bytes) -> Option<&mut Watched> {
        let known = self.watched.iter().position(|watched| watched.process == process);
        let at = match known {
            Some(at) => at,
            None if self.watched.len() < MOST_WATCHED => {
                self.watched.push(Watched::new(now, process));
                self.watched.len() - 1
            }
            None => {
                let least = self.watched.iter().enumerate().min_by_key(|(_, watched)| watched.size);
                let (at, _) = least.filter(|(_, least)| size.0 / 2 > least.size.0)?;
                self.watched[at] = Watched::new(now, process);
                at
            }
        };
        self.watched.get_mut(at)
    }

    /// A step was told; true when it was the first. What rose before it was loaded, and so were those that were looked into: the
    /// scans of the run begin to count here.
    pub(crate) fn stepped(&mut self) -> bool {
        let first = !std::mem::replace(&mut self.steps, true);
        if first {
            self.watched.clear();
            (self.made, self.since) = (0, None);
        }
        first
    }

    /// A scan begins.
    pub(crate) fn begun(&mut self, now: Tick, occasion: Occasion) {
        self.made += 1;
        (self.last, self.running) = (Some(now), Some(occasion.process));
        if let Some(watched) = self.of(occasion.process) {
            watched.made += 1;
            watched.last = Some(now);
        }
    }

    fn of(&mut self, process: ProcKey) -> Option<&mut Watched> {
        self.watched.iter_mut().find(|watched| watched.process == process)
    }

    /// The CPU time that the next scan may take: the kernel ends a helper that takes more.
    pub(crate) fn share(&self, now: Tick) -> Duration {
        (now.since(Tick::START) / SHARE).saturating_sub(self.spent)
    }

    /// It worked, and this is what it took. The next one wants growth beyond this, whosoever it is.
    pub(crate) fn took(&mut self, cost: Duration) {
        self.spent += cost;
        for watched in &mut self.watched {
            watched.base = watched.floor.or(watched.base);
            if self.running == Some(watched.process) {
                watched.cost = Some(cost.mul_f64(if watched.made == 1 { HOLDERS } else { GROWN }));
            }
        }
        self.running = None;
    }

    /// It was ended at its share: that is gone, nothing was seen, and it is tried again when it can be several times as dear.
    pub(crate) fn ended_at(&mut self, process: ProcKey, share: Duration) {
        self.made = self.made.saturating_sub(1);
        if let Some(watched) = self.of(process) {
            watched.made = watched.made.saturating_sub(1);
            watched.cost = Some(share * MORE);
        }
        self.spent += share;
        self.running = None;
    }

    /// Whether a scan of it could still tell something.
    fn may_be_told(&self, now: Tick, watched: &Watched) -> bool {
        let run = now.since(self.since.unwrap_or(now));
        let lasts = watched.made > 0 || run < EARLY || now.since(watched.since) * PART_OF_RUN >= run;
        let most = if run < EARLY { MOST_EARLY } else { MOST };
        watched.made < MOST_OF_ONE && lasts && self.made < most
    }

    fn affordable(&self, now: Tick, watched: &Watched) -> bool {
        let age = now.since(Tick::START);
        let apart = self.last.is_none_or(|last| now.since(last) >= APART);
        // The third of a process is to tell whether it still is the same: later than twice the age of the second.
        let later = match watched.last {
            Some(last) if watched.made >= PAIR => age >= last.since(Tick::START) * 2,
            Some(_) | None => true,
        };
        apart && later && (self.spent + watched.cost()) * SHARE <= age
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
    fn the_second_scan_waits_until_looking_for_holders_can_be_paid_for() {
        let cost = Duration::from_millis(500);
        let begun = scans(|second| 400 + second * 10, 300, cost);
        // A half for the first, one for the second, in hundreds of seconds.
        assert!(begun.len() >= 2 && begun[1] >= 150, "{begun:?}");
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
    fn however_fast_it_leaks_it_is_looked_at_twice_within_seventy_five_seconds() {
        for mib_a_second in [4, 12, 50, 150] {
            let begun = scans(|second| 300 + second * mib_a_second, 120, Duration::from_millis(80));
            assert!(begun.len() >= 2 && begun[1] <= 75, "{mib_a_second} MiB/s: {begun:?}");
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
        assert!(begun.len() >= 2 && begun[0].0 == begun[1].0, "one of them twice: {begun:?}");
        assert!(begun.len() <= MOST && begun.iter().all(|b| b.0 >= 10), "{begun:?}");
    }

    #[test]
    fn what_was_looked_into_while_it_loaded_takes_no_scan_from_a_worker() {
        let begun = looked_into(60, |second| 500 + 100 * second.min(60), |second| 300 + 2 * second);
        let who: Vec<u32> = begun.iter().filter(|b| b.1 >= 60).map(|b| b.0).collect();
        assert!(begun[0].1 < 60 && (3..=MOST).contains(&who.len()), "{begun:?}");
        assert!(who[0] == who[1] && who.iter().all(|pid| *pid >= 10), "{begun:?}");
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
        /// Whatever the sizes do, whenever the first step is told and whatever a scan would cost: with the kernel ending each at
        /// its share, the scans of a run never take more than one part in a hundred of its time, and never more than six
        /// come to an end before its first step or after it.
        #[test]
        fn all_scans_together_stay_below_one_part_in_a_hundred(
            ticks in proptest::collection::vec((1_u64..30_000, 1_u64..200_000, 0_u64..60_000, 0_u32..3), 1..600),
            first_step in 0_usize..800
        ) {
            let (mut budget, mut now, mut spent, mut begun) = (Budget::default(), 0, Duration::ZERO, 0);
            for (at, (apart_ms, mib, cost_ms, pid)) in ticks.into_iter().enumerate() {
                if at >= first_step && budget.stepped() {
                    begun = 0;
                }
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
                prop_assert!(begun <= MOST);
            }
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

    /// What a scan of so many MiB takes on a slow machine, as the whole run of a job: a trainer (1) and workers (10 and up), which
    /// are other processes with each generation. Gives who was looked into and when, and whether it was ended.
    fn whole_run(
        hours: u64,
        trainer: impl Fn(u64) -> u64,
        worker: impl Fn(u64) -> (u32, u64),
        ms_per_gib: u64,
    ) -> Vec<(u32, u64, bool)> {
        let process = |pid| ProcKey { pid, start_ticks: 1 };
        let (mut budget, mut all) = (Budget::default(), Vec::new());
        for second in (0..hours * 900).map(|tick| 4 * tick) {
            let now = Tick(second * 1_000_000_000);
            if second == 20 {
                budget.stepped();
            }
            let (generation, mib) = worker(second);
            let workers = (0..4).map(|n| (process(10 + 4 * generation + n), Bytes::from_mib(mib)));
            let sizes = std::iter::once((process(1), Bytes::from_mib(trainer(second)))).chain(workers);
            if let Some(occasion) = budget.due(now, sizes) {
                budget.begun(now, occasion);
                let share = budget.share(now);
                let cost = Duration::from_millis(80 + (occasion.floor.0 >> 20) * ms_per_gib / 1024);
                if cost > share {
                    budget.ended_at(occasion.process, share);
                } else {
                    budget.took(cost);
                }
                all.push((occasion.process.pid, second, cost > share));
            }
        }
        all
    }

    fn of_trainer(all: &[(u32, u64, bool)]) -> usize {
        all.iter().filter(|scan| scan.0 == 1 && !scan.2).count()
    }

    #[test]
    fn workers_that_warm_up_leave_scans_for_a_trainer_that_leaks() {
        for rate in [1, 4] {
            for ms_per_gib in [100, 450] {
                let warm = |second: u64| (0, 300 + 128 * second.min(80) / 80);
                let all = whole_run(2, |second| 4000 + rate * second, warm, ms_per_gib);
                assert!(of_trainer(&all) >= 2, "{rate} MiB/s, {ms_per_gib} ms a GiB: {all:?}");
                assert!(all.len() <= 2 * MOST, "{all:?}");
            }
        }
    }

    #[test]
    fn workers_that_are_made_anew_for_each_epoch_leave_scans_for_a_trainer_that_leaks() {
        for ms_per_gib in [0, 100, 450] {
            let anew = |second: u64| ((second / 60) as u32, 300 + second % 60);
            let all = whole_run(1, |second| 4000 + second, anew, ms_per_gib);
            assert!(of_trainer(&all) >= 2, "{ms_per_gib} ms a GiB: {all:?}");
            let later = all.iter().filter(|scan| scan.0 != 1 && scan.1 > 200);
            assert_eq!(later.count(), 0, "{all:?}");
        }
    }

    #[test]
    fn a_large_trainer_is_not_tried_at_the_price_of_a_small_worker() {
        let small = |second: u64| (0, 300 + 2 * second.min(60));
        let all = whole_run(4, |second| 60_000 + 2 * second.saturating_sub(200), small, 450);
        assert!(of_trainer(&all) >= 2, "{all:?}");
        let ended: Vec<u64> = all.iter().filter(|scan| scan.2).map(|scan| scan.1).collect();
        assert!(
            ended.windows(2).all(|pair| pair[1] >= 2 * pair[0]),
            "each try waits for twice as much: {all:?}"
        );
    }

    #[test]
    fn a_scan_that_failed_leaves_the_growth_that_it_was_for() {
        let mut budget = Budget::default();
        let at = |second: u64| Tick(second * 1_000_000_000);
        let size = |second: u64| one(KEY, 300 + 10 * second.min(20));
        let began = (0..60).find_map(|second| Some((second, budget.due(at(second), size(second))?)));
        let (second, occasion) = began.unwrap();
        budget.begun(at(second), occasion);
        budget.ended_at(KEY, Duration::from_millis(1));
        let again = (second + 1..200).find_map(|second| budget.due(at(second), size(second)));
        assert!(again.is_some(), "its floor stays where it rose to");
    }
}
