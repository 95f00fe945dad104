//! What waits for the disk, within a constant bound of memory.
//!
//! Facts (processes, events, marks) are few and dear, rows (samples) are many. When the disk is slow or full the oldest
//! rows go first and are counted; the newest stay. A process waits once, with its newest facts, however often it was
//! told: a storm of short lives costs one write each. Nothing here touches a disk.

use super::Entry;
use super::thin::StepThinner;
use lowtide_model::{LimitHeld, Meta, ProcKey, Process, Tick};
use std::collections::{BTreeMap, VecDeque};

/// All that may wait, being written included.
pub(crate) const BOUND_BYTES: usize = 4 << 20;

/// Facts may take this much of it: 2,000 processes that start at once must fit.
const FACTS_BYTES: usize = 3 << 20;

/// Rows in one transaction: a longer one would hold too much of the bound while the disk hangs.
const BATCH_BYTES: usize = 1 << 20;

/// A line of entries that knows its weight.
#[derive(Debug, Default)]
struct Line {
    entries: VecDeque<Entry>,
    bytes: usize,
}

impl Line {
    fn push(&mut self, entry: Entry) {
        self.bytes += weight(&entry);
        self.entries.push_back(entry);
    }

    fn put_back(&mut self, entry: Entry) {
        self.bytes += weight(&entry);
        self.entries.push_front(entry);
    }

    fn pop(&mut self) -> Option<Entry> {
        let entry = self.entries.pop_front()?;
        self.bytes -= weight(&entry);
        Some(entry)
    }

    /// Takes from the front up to `bytes`, at least one.
    fn take(&mut self, bytes: usize) -> Vec<Entry> {
        let mut taken = Vec::new();
        let mut weighed = 0;
        while weighed < bytes {
            let Some(entry) = self.pop() else { break };
            weighed += weight(&entry);
            taken.push(entry);
        }
        taken
    }
}

/// What one transaction writes.
#[derive(Debug, Default)]
pub(crate) struct Batch {
    pub(crate) facts: Vec<Entry>,
    pub(crate) rows: Vec<Entry>,
    pub(crate) meta: Option<Box<Meta>>,
    pub(crate) limits: Option<Vec<LimitHeld>>,
    pub(crate) announced: Option<Tick>,
    /// Nothing was left behind: with this batch all that was announced is on disk.
    pub(crate) whole: bool,
    pub(crate) dropped: u64,
}

impl Batch {
    pub(crate) fn is_empty(&self) -> bool {
        self.facts.is_empty() && self.rows.is_empty() && self.meta.is_none() && self.limits.is_none()
    }
}

/// The lines and what replaces itself.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    processes: BTreeMap<ProcKey, Process>,
    process_bytes: usize,
    facts: Line,
    rows: Line,
    thin: StepThinner,
    meta: Option<Box<Meta>>,
    limits: Option<Vec<LimitHeld>>,
    announced: Option<Tick>,
    in_flight: usize,
    dropped: u64,
}

impl Queue {
    pub(crate) fn push(&mut self, entry: Entry) {
        match entry {
            Entry::Meta(meta) => self.meta = Some(meta),
            Entry::Limits(limits) => self.limits = Some(limits),
            Entry::Mark(mark) => {
                let facts = &mut self.facts;
                self.thin.push(mark, |mark| facts.push(Entry::Mark(mark)));
            }
            Entry::Process(process) => self.push_process(process),
            Entry::Event(_) | Entry::Scan(_) => self.facts.push(entry),
            Entry::Sample(_) | Entry::Cgroup(_) | Entry::Host(_) | Entry::Gpu(_) => self.rows.push(entry),
        }
        self.keep_bound();
    }

    fn push_process(&mut self, process: Process) {
        self.process_bytes += process_weight(&process);
        if let Some(before) = self.processes.insert(process.key, process) {
            self.process_bytes -= process_weight(&before);
        }
    }

    fn take_processes(&mut self) -> impl Iterator<Item = Entry> + use<> {
        self.process_bytes = 0;
        std::mem::take(&mut self.processes).into_values().map(Entry::Process)
    }

    pub(crate) fn announce(&mut self, tick: Tick) {
        self.announced = self.announced.max(Some(tick));
    }

    pub(crate) fn bytes(&self) -> usize {
        self.process_bytes + self.facts.bytes + self.rows.bytes
    }

    pub(crate) fn dropped(&self) -> u64 {
        self.dropped
    }

    /// The next transaction's worth. It stays counted until `written` or `put_back`.
    pub(crate) fn take(&mut self) -> Batch {
        let facts = &mut self.facts;
        self.thin.flush(|mark| facts.push(Entry::Mark(mark)));
        let before = self.bytes();
        let mut facts: Vec<Entry> = self.take_processes().collect();
        facts.extend(self.facts.take(FACTS_BYTES));
        let rows = self.rows.take(BATCH_BYTES);
        self.in_flight = before - self.bytes();
        Batch {
            facts,
            rows,
            meta: self.meta.take(),
            limits: self.limits.take(),
            announced: self.announced,
            whole: self.bytes() == 0,
            dropped: self.dropped,
        }
    }

    /// The batch is on disk.
    pub(crate) fn written(&mut self) {
        self.in_flight = 0;
    }

    /// The batch could not be written: it waits again, before what came later.
    pub(crate) fn put_back(&mut self, batch: Batch) {
        self.in_flight = 0;
        for entry in batch.facts.into_iter().rev() {
            let Entry::Process(process) = entry else {
                self.facts.put_back(entry);
                continue;
            };
            // Facts that came since are newer.
            if !self.processes.contains_key(&process.key) {
                self.push_process(process);
            }
        }
        batch.rows.into_iter().rev().for_each(|entry| self.rows.put_back(entry));
        self.meta = self.meta.take().or(batch.meta);
        self.limits = self.limits.take().or(batch.limits);
        self.keep_bound();
    }

    /// The oldest fact goes, and with no other left a process.
    fn drop_fact(&mut self) -> bool {
        if self.facts.pop().is_some() {
            return true;
        }
        let gone = self.processes.pop_first();
        self.process_bytes -= gone.as_ref().map_or(0, |(_, process)| process_weight(process));
        gone.is_some()
    }

    fn keep_bound(&mut self) {
        while self.facts.bytes + self.process_bytes > FACTS_BYTES && self.drop_fact() {
            self.dropped += 1;
        }
        while self.bytes() + self.in_flight > BOUND_BYTES && self.rows.pop().is_some() {
            self.dropped += 1;
        }
    }
}

/// Memory a process's facts take.
fn process_weight(process: &Process) -> usize {
    let argv: usize = process.argv.iter().map(|arg| arg.len() + size_of::<String>()).sum();
    let env: usize = process.env.iter().map(|(k, v)| k.len() + v.len() + 2 * size_of::<String>()).sum();
    let texts = process.comm.len() + process.cgroup.as_ref().map_or(0, String::len) + argv + env;
    size_of::<ProcKey>() + size_of::<Process>() + texts
}

/// Memory an entry takes, its texts included.
fn weight(entry: &Entry) -> usize {
    let texts = match entry {
        Entry::Process(process) => process_weight(process),
        Entry::Cgroup(row) => row.path.len(),
        Entry::Gpu(row) => row.uuid.len(),
        Entry::Mark(mark) => mark.extra.as_ref().map_or(0, String::len),
        Entry::Event(event) => event.text.len() + event.data.as_ref().map_or(0, String::len),
        Entry::Scan(row) => row.report.len(),
        Entry::Sample(_) | Entry::Host(_) | Entry::Limits(_) | Entry::Meta(_) => 0,
    };
    size_of::<Entry>() + texts
}

#[cfg(test)]
mod tests {
    use super::*;
    use lowtide_model::{Event, EventKind, SampleRow};

    fn sample(second: u64) -> Entry {
        Entry::Sample(SampleRow { tick: Tick(second), ..SampleRow::default() })
    }

    fn event(second: u64) -> Entry {
        let text = "x".repeat(1000);
        Entry::Event(Event { tick: Tick(second), kind: EventKind::Note, process: None, text, data: None })
    }

    fn ticks(batch: &Batch) -> Vec<u64> {
        let mut ticks = Vec::new();
        for entry in &batch.rows {
            let Entry::Sample(row) = entry else { panic!("no sample: {entry:?}") };
            ticks.push(row.tick.0);
        }
        ticks
    }

    #[test]
    fn the_oldest_samples_go_first_and_are_counted() {
        let mut queue = Queue::default();
        for second in 0..100_000 {
            queue.push(sample(second));
            assert!(queue.bytes() <= BOUND_BYTES);
        }
        let dropped = queue.dropped();
        assert!(dropped > 0);
        assert_eq!(ticks(&queue.take()).first(), Some(&dropped));
    }

    #[test]
    fn a_full_line_of_samples_drops_no_event() {
        let mut queue = Queue::default();
        queue.push(event(0));
        (0..100_000).for_each(|second| queue.push(sample(second)));
        assert_eq!(queue.take().facts.len(), 1);
    }

    #[test]
    fn events_alone_are_bounded_too() {
        let mut queue = Queue::default();
        (0..100_000).for_each(|second| queue.push(event(second)));
        assert!(queue.bytes() <= FACTS_BYTES);
        assert!(queue.dropped() > 90_000);
    }

    fn process(pid: u32, comm: &str) -> Entry {
        Entry::Process(Process {
            key: ProcKey { pid, start_ticks: 1 },
            parent: None,
            born: Tick(0),
            died: None,
            exit: None,
            execed: false,
            comm: comm.to_owned(),
            argv: vec!["x".repeat(500)],
            env: Vec::new(),
            cgroup: None,
            peak_rss: None,
        })
    }

    fn comms(batch: &Batch) -> Vec<String> {
        let mut comms = Vec::new();
        for entry in &batch.facts {
            let Entry::Process(process) = entry else { panic!("no process: {entry:?}") };
            comms.push(process.comm.clone());
        }
        comms
    }

    #[test]
    fn two_thousand_processes_at_once_are_all_kept() {
        let mut queue = Queue::default();
        (0..2000).for_each(|pid| queue.push(process(pid, "a")));
        (0..50_000).for_each(|second| queue.push(sample(second)));
        assert_eq!(queue.take().facts.len(), 2000);
    }

    #[test]
    fn a_process_told_twice_is_written_once_with_its_newest_facts() {
        let mut queue = Queue::default();
        queue.push(process(1, "old"));
        let batch = queue.take();
        queue.push(process(1, "new"));
        queue.push(process(2, "b"));
        queue.push(process(2, "c"));
        queue.put_back(batch);
        assert_eq!(comms(&queue.take()), ["new", "c"]);
        assert_eq!(queue.bytes(), 0);
    }

    #[test]
    fn a_storm_of_processes_stays_within_the_bound() {
        let mut queue = Queue::default();
        for pid in 0..50_000 {
            queue.push(process(pid, "a"));
            assert!(queue.bytes() <= BOUND_BYTES);
        }
        assert_eq!(queue.dropped() as usize + queue.take().facts.len(), 50_000);
    }

    #[test]
    fn what_is_being_written_counts_and_comes_back_in_order() {
        let mut queue = Queue::default();
        (0..100).for_each(|second| queue.push(sample(second)));
        let batch = queue.take();
        assert!(batch.whole);
        queue.push(sample(100));
        queue.put_back(batch);
        assert_eq!(ticks(&queue.take()), (0..=100).collect::<Vec<_>>());
    }

    #[test]
    fn a_newer_header_is_not_replaced_by_one_that_comes_back() {
        let mut queue = Queue::default();
        let meta = |name: &str| Box::new(Meta { name: name.to_owned(), ..Meta::default() });
        queue.push(Entry::Meta(meta("old")));
        let batch = queue.take();
        queue.push(Entry::Meta(meta("new")));
        queue.put_back(batch);
        assert_eq!(queue.take().meta.map(|meta| meta.name), Some("new".to_owned()));
    }
}
