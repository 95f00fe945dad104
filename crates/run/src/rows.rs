//! Thinning: which ticks become rows.
//!
//! A row is written when a value left its deadband or a heartbeat is due, and holds min, max and last of every tick
//! since the row before. So a flat process costs two rows a minute, and no peak or floor is ever lost.

use lowtide_model::{Bytes, CgroupRow, HostRow, SampleRow, Span, Tick};
use std::time::Duration;

/// A row at least this often, so that a reader can tell "flat" from "not looked at".
pub(crate) const HEARTBEAT: Duration = Duration::from_secs(30);
/// Below this a move is page-allocator noise (the kernel batches RSS updates per CPU: 128 KiB on a small machine).
const DEADBAND_LEAST: u64 = 256 * 1024;
/// And below this part of the value it changes no judgement; min and max still hold it.
const DEADBAND_PART: u64 = 500;

fn left_deadband(now: Bytes, before: Bytes) -> bool {
    now.distance(before).0 > DEADBAND_LEAST.max(before.0 / DEADBAND_PART)
}

/// One tick of one process, before thinning.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Measured {
    /// The row this tick alone would be: spans of one value.
    pub(crate) row: SampleRow,
}

/// Gathers the ticks of one process into rows.
#[derive(Debug, Default)]
pub(crate) struct Gather {
    /// The first tick of a process just forked. Until its exec it shows its parent's memory, so the row waits for the
    /// next tick, and an exec before that drops it.
    newborn: Option<SampleRow>,
    open: Option<SampleRow>,
    written: Option<SampleRow>,
    rested: Rested,
}

/// Ticks in which nothing moved, counted and not yet taken into a row: a flat process touches only this.
#[derive(Clone, Copy, Debug, Default)]
struct Rested {
    ticks: u32,
    /// The newest tick of all.
    newest: Tick,
    /// A row is due from here on.
    due: Tick,
}

impl Gather {
    /// Counts a tick in which nothing moved. Says no where it must be pushed: a row is due, or there was none before.
    pub(crate) fn again(&mut self, now: Tick) -> bool {
        let rests = now < self.rested.due;
        if rests {
            self.rested.ticks = self.rested.ticks.saturating_add(1);
            self.rested.newest = now;
        }
        rests
    }

    /// Takes what was counted into the open row.
    fn settle(&mut self) {
        let Rested { ticks, newest, .. } = self.rested;
        self.rested.ticks = 0;
        if ticks == 0 {
            return;
        }
        let one = |span: Span| Span::one(span.last);
        let anew = |row: SampleRow| SampleRow {
            ticks: 0,
            rss: one(row.rss),
            anon: row.anon.map(one),
            pss: None,
            ..row
        };
        let row = self.open.or_else(|| self.written.map(anew));
        self.open = row.map(|row| SampleRow { tick: newest, ticks: row.ticks.saturating_add(ticks), ..row });
    }

    /// Takes in the first tick of a process that was forked and may be about to become another program.
    pub(crate) fn hold(&mut self, measured: Measured) {
        self.rested.newest = measured.row.tick;
        self.newborn = Some(measured.row);
    }

    /// Whether nothing was taken in yet.
    pub(crate) fn is_empty(&self) -> bool {
        self.newest().is_none()
    }

    /// It became another program: what it showed right after its fork was its parent's.
    pub(crate) fn execed(&mut self) {
        self.newborn = None;
    }

    fn write(&mut self, row: SampleRow) -> SampleRow {
        self.rested.due = Tick(row.tick.0.saturating_add(HEARTBEAT.as_nanos() as u64));
        self.written = Some(row);
        row
    }

    /// Takes in a tick; gives the rows that are now due. A move after a rest gives two: the rest up to its end, then the
    /// move, so that a plateau stands in the file as long as it was.
    pub(crate) fn push(&mut self, measured: Measured) -> impl Iterator<Item = SampleRow> + use<> {
        self.settle();
        let first = self.newborn.take().map(|row| self.write(row));
        let tick = measured.row;
        self.rested.newest = tick.tick;
        let moves = self.written.as_ref().is_some_and(|written| moved(&tick, written));
        let rest = if moves { self.rest() } else { None };
        let row = merge(self.open.take(), tick);
        let due = match &self.written {
            None => true,
            Some(written) => moves || row.tick.since(written.tick) >= HEARTBEAT || row.pss.is_some(),
        };
        let now = due.then(|| self.write(row));
        if now.is_none() {
            self.open = Some(row);
        }
        first.into_iter().chain(rest).chain(now)
    }

    /// What was gathered and not written: to be written when the process dies or the recording ends.
    pub(crate) fn rest(&mut self) -> Option<SampleRow> {
        self.settle();
        let row = self.newborn.take().or_else(|| self.open.take())?;
        self.written = Some(row);
        Some(row)
    }

    /// The newest values, written or not.
    pub(crate) fn newest(&self) -> Option<&SampleRow> {
        self.newborn.as_ref().or(self.open.as_ref()).or(self.written.as_ref())
    }

    /// When they were last seen.
    pub(crate) fn seen(&self) -> Tick {
        self.rested.newest
    }
}

fn merge(open: Option<SampleRow>, tick: SampleRow) -> SampleRow {
    let Some(mut row) = open else { return tick };
    row.tick = tick.tick;
    row.ticks = row.ticks.saturating_add(1);
    row.rss.push(tick.rss.last);
    row.anon = match (row.anon, tick.anon) {
        (Some(mut span), Some(now)) => {
            span.push(now.last);
            Some(span)
        }
        (_, now) => now,
    };
    SampleRow { rss: row.rss, anon: row.anon, ticks: row.ticks, pss: tick.pss.or(row.pss), ..tick }
}

fn moved(row: &SampleRow, written: &SampleRow) -> bool {
    let option = |now: Option<Bytes>, before: Option<Bytes>| match (now, before) {
        (Some(now), Some(before)) => left_deadband(now, before),
        (now, before) => now.is_some() != before.is_some(),
    };
    left_deadband(row.rss.last, written.rss.last)
        || option(row.anon.map(|span| span.last), written.anon.map(|span| span.last))
        || option(row.file, written.file)
        || option(row.shmem, written.shmem)
        || option(row.swap, written.swap)
}

/// A row of something that is not a process: it has a tick, a count of ticks and one value that decides.
pub(crate) trait Thinned: Clone {
    fn tick(&self) -> Tick;
    fn value(&mut self) -> (&mut u32, &mut Span);
    /// A change that must be seen at once, however small the value's move (an OOM kill, a new limit).
    fn notable(&self, written: &Self) -> bool;
}

impl Thinned for CgroupRow {
    fn tick(&self) -> Tick {
        self.tick
    }
    fn value(&mut self) -> (&mut u32, &mut Span) {
        (&mut self.ticks, &mut self.usage)
    }
    fn notable(&self, written: &Self) -> bool {
        self.oom_kills != written.oom_kills || self.limit != written.limit
    }
}

impl Thinned for HostRow {
    fn tick(&self) -> Tick {
        self.tick
    }
    fn value(&mut self) -> (&mut u32, &mut Span) {
        (&mut self.ticks, &mut self.available)
    }
    fn notable(&self, written: &Self) -> bool {
        self.oom_kills != written.oom_kills
    }
}

/// Gathers ticks of a cgroup or the host into rows.
#[derive(Debug)]
pub(crate) struct Thin<R> {
    open: Option<R>,
    written: Option<R>,
}

impl<R> Default for Thin<R> {
    fn default() -> Self {
        Self { open: None, written: None }
    }
}

impl<R: Thinned> Thin<R> {
    /// Takes in a tick; gives the row that is now due, if one is.
    pub(crate) fn push(&mut self, mut row: R) -> Option<R> {
        if let Some(mut open) = self.open.take() {
            let (ticks, span) = open.value();
            let (mine, value) = row.value();
            span.push(value.max);
            span.push(value.last);
            *value = *span;
            *mine = ticks.saturating_add(1);
        }
        let due = match &mut self.written {
            None => true,
            Some(written) => {
                row.notable(written)
                    || row.tick().since(written.tick()) >= HEARTBEAT
                    || left_deadband(row.value().1.last, written.value().1.last)
                    || left_deadband(row.value().1.max, written.value().1.max.max(row.value().1.last))
            }
        };
        if due {
            self.written = Some(row.clone());
            return Some(row);
        }
        self.open = Some(row);
        None
    }

    /// What was gathered and not written.
    pub(crate) fn rest(&mut self) -> Option<R> {
        self.open.take()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn tick(second: u64, mib: u64) -> Measured {
        let rss = Span::one(Bytes::from_mib(mib));
        Measured {
            row: SampleRow { tick: Tick(second * 1_000_000_000), ticks: 1, rss, ..SampleRow::default() },
        }
    }

    #[test]
    fn a_flat_process_writes_two_rows_a_minute() {
        let mut gather = Gather::default();
        let rows = (0..=600).flat_map(|second| gather.push(tick(second, 100))).count();
        assert_eq!(rows, 21);
    }

    #[test]
    fn a_move_after_a_rest_gives_the_rest_and_the_move() {
        let mut gather = Gather::default();
        assert_eq!(gather.push(tick(0, 1000)).count(), 1);
        assert_eq!(gather.push(tick(1, 1001)).count(), 0, "inside the deadband");
        let rows: Vec<SampleRow> = gather.push(tick(2, 2000)).collect();
        let told: Vec<_> = rows.iter().map(|row| (row.tick.seconds(), row.rss.max)).collect();
        assert_eq!(
            told,
            [(1.0, Bytes::from_mib(1001)), (2.0, Bytes::from_mib(2000))],
            "the rest to its end, then the move"
        );
    }

    #[test]
    fn the_first_tick_after_a_fork_waits_and_an_exec_drops_it() {
        let first = |gather: &mut Gather| {
            gather.hold(tick(0, 1000));
            assert_eq!(gather.newest().map(|row| row.rss.last), Some(Bytes::from_mib(1000)));
        };
        let told = |rows: Vec<SampleRow>| -> Vec<_> { rows.iter().map(|row| row.rss.last.0 >> 20).collect() };
        let mut worker = Gather::default();
        first(&mut worker);
        assert_eq!(told(worker.push(tick(1, 1200)).collect()), [1000, 1200], "no exec came: it was its own");
        let mut short = Gather::default();
        first(&mut short);
        assert_eq!(told(short.rest().into_iter().collect()), [1000], "it died before the next tick");
        let mut program = Gather::default();
        first(&mut program);
        program.execed();
        assert!(program.is_empty());
        assert_eq!(told(program.push(tick(1, 7)).collect()), [7]);
    }

    /// Resident memory of this test program.
    fn own_rss() -> u64 {
        let text = std::fs::read_to_string("/proc/self/statm").unwrap();
        text.split(' ').nth(1).unwrap().parse::<u64>().unwrap() * 4096
    }

    #[test]
    fn a_week_at_1_hz_costs_no_more_memory_than_its_first_day() {
        use crate::{anchor::Anchors, anchor::View, history::History};
        const DAY: u64 = 86_400;
        let mut gathers: Vec<Gather> = (0..25).map(|_| Gather::default()).collect();
        let (mut history, mut anchors) = (History::default(), Anchors::new());
        let meta = lowtide_model::Meta { cpus: 2, page_bytes: 4096, ..lowtide_model::Meta::default() };
        let mut judge = lowtide_verdict::LiveJudge::new(&meta, lowtide_model::Context::default());
        let (mut rows, mut after_a_day) = (0_u64, 0);
        for second in 0..7 * DAY {
            for (pid, gather) in gathers.iter_mut().enumerate() {
                // Mostly flat, with a wobble inside the deadband; one of them moves once a minute.
                let wobble = if pid == 0 { second / 60 % 50 } else { 0 };
                let mut measured = tick(second, 400 + wobble);
                measured.row.process = lowtide_model::ProcKey { pid: pid as u32 + 1, start_ticks: 1 };
                for row in gather.push(measured) {
                    rows += 1;
                    judge.push_sample(&row);
                }
            }
            let now = Tick(second * 1_000_000_000);
            history.push(now, Bytes::from_mib(10_000));
            anchors.due(View {
                now,
                rss_sum: Bytes::from_mib(10_000),
                members: 7,
                unsharing: second % 7 == 0,
            });
            if second == DAY {
                after_a_day = own_rss();
            }
        }
        let grown = own_rss().saturating_sub(after_a_day);
        assert!(grown < 8 << 20, "grew by {grown} bytes in six days");
        assert!(rows > 25 * 7 * DAY / 60, "and it did write: {rows}");
    }

    proptest! {
        #[test]
        fn a_tick_counted_as_rest_gives_the_rows_of_a_tick_pushed(levels in prop::collection::vec(0u64..3, 1..300)) {
            let (mut pushed, mut counted) = (Gather::default(), Gather::default());
            let (mut expected, mut told, mut before) = (Vec::new(), Vec::new(), None);
            for (at, level) in levels.iter().enumerate() {
                let now = tick(at as u64, 400 + level / 2 * 100);
                expected.extend(pushed.push(now));
                if before != Some(*level) || !counted.again(now.row.tick) {
                    told.extend(counted.push(now));
                }
                prop_assert_eq!(counted.seen(), now.row.tick);
                before = Some(*level);
            }
            expected.extend(pushed.rest());
            told.extend(counted.rest());
            prop_assert_eq!(expected, told);
        }

        #[test]
        fn thinning_never_hides_a_peak_or_a_floor_or_a_tick(levels in prop::collection::vec(0u64..5000, 1..200)) {
            let mut gather = Gather::default();
            let mut rows: Vec<SampleRow> =
                levels.iter().enumerate().flat_map(|(at, mib)| gather.push(tick(at as u64, *mib))).collect();
            rows.extend(gather.rest());
            let min = rows.iter().map(|row| row.rss.min).min().unwrap();
            let max = rows.iter().map(|row| row.rss.max).max().unwrap();
            prop_assert_eq!(min, Bytes::from_mib(*levels.iter().min().unwrap()));
            prop_assert_eq!(max, Bytes::from_mib(*levels.iter().max().unwrap()));
            prop_assert_eq!(rows.iter().map(|row| row.ticks as usize).sum::<usize>(), levels.len());
            prop_assert_eq!(rows.last().unwrap().rss.last, Bytes::from_mib(*levels.last().unwrap()));
        }
    }
}
