//! Memory of a whole tree, every shared page counted once, with an error band.
//!
//! Why: forked workers share their parent's pages, so a sum of RSS counts them once for each worker (measured: twice
//! the truth for one trainer with four workers). The kernel's proportional size (PSS) is right but dear to read, so it
//! is read seldom (an anchor) and the changes of RSS since then are added. What may be wrong since the anchor is the band.

use crate::series::clean_up;
use lowtide_model::{Bytes, ProcKey, Process, Recording, SampleRow, Tick};
use std::collections::BTreeMap;

/// The tree at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Estimate {
    /// Best estimate.
    pub bytes: Bytes,
    /// Not below this.
    pub low: Bytes,
    /// Not above this.
    pub high: Bytes,
    /// The plain sum of RSS.
    pub rss_sum: Bytes,
}

#[derive(Clone, Copy, Debug)]
struct Anchor {
    pss: Bytes,
    private: Bytes,
    shared: Bytes,
    rss: Bytes,
    minor_faults: u64,
}

#[derive(Clone, Debug, Default)]
struct Member {
    parent: Option<ProcKey>,
    forked: bool,
    /// RSS when first sampled: what a forked child got from its parent.
    first_rss: Option<Bytes>,
    rss: Bytes,
    anon: Option<Bytes>,
    minor_faults: u64,
    anchor: Option<Anchor>,
    /// Shared memory that dead relatives were counted for and that lives on here, until the next anchor.
    inherited: Bytes,
}

/// Follows a tree and knows its total at any moment.
#[derive(Clone, Debug, Default)]
pub struct TreeTotal {
    members: BTreeMap<ProcKey, Member>,
    page: u64,
}

impl TreeTotal {
    /// An empty tree on a machine with pages of `page_bytes`.
    pub fn new(page_bytes: u64) -> Self {
        Self { members: BTreeMap::new(), page: page_bytes.max(1) }
    }

    /// A process joined. `forked` is true as long as it has not called exec.
    pub fn born(&mut self, process: &Process) {
        let member = self.members.entry(process.key).or_default();
        member.parent = process.parent;
        member.forked = !process.execed;
    }

    /// A process called exec: it shares nothing with its parent any more.
    pub fn execed(&mut self, key: ProcKey) {
        if let Some(member) = self.members.get_mut(&key) {
            *member = Member { parent: member.parent, ..Member::default() };
        }
    }

    /// A process was sampled.
    pub fn sampled(&mut self, row: &SampleRow) {
        let member = self.members.entry(row.process).or_default();
        member.rss = row.rss.last;
        member.anon = row.anon.map(|span| span.last);
        member.minor_faults = row.minor_faults;
        member.first_rss.get_or_insert(row.rss.last);
        if let Some(pss) = row.pss {
            let (rss, minor_faults) = (row.rss.last, row.minor_faults);
            member.anchor =
                Some(Anchor { pss: pss.pss, private: pss.private, shared: pss.shared, rss, minor_faults });
            member.inherited = Bytes::ZERO;
        }
    }

    /// A process is gone. Its part of shared pages lives on in its parent or a sibling.
    pub fn died(&mut self, key: ProcKey) {
        let Some(gone) = self.members.remove(&key) else { return };
        let left = gone.anchor.map_or(Bytes::ZERO, |anchor| anchor.pss.saturating_sub(anchor.private));
        let left = left.saturating_add(gone.inherited);
        if left == Bytes::ZERO {
            return;
        }
        let heir =
            gone.parent.filter(|parent| gone.forked && self.members.contains_key(parent)).or_else(|| {
                let kin = |member: &Member| {
                    member.forked
                        && (member.parent == Some(key) || (gone.forked && member.parent == gone.parent))
                };
                self.members.iter().find(|(_, member)| kin(member)).map(|(key, _)| *key)
            });
        if let Some(member) = heir.and_then(|heir| self.members.get_mut(&heir)) {
            member.inherited = member.inherited.saturating_add(left);
        }
    }

    /// The tree now.
    pub fn now(&self) -> Estimate {
        let mut sum = Estimate::default();
        for member in self.members.values() {
            let one = self.estimate(member);
            sum.bytes = sum.bytes.saturating_add(one.bytes);
            sum.low = sum.low.saturating_add(one.low);
            sum.high = sum.high.saturating_add(one.high);
            sum.rss_sum = sum.rss_sum.saturating_add(one.rss_sum);
        }
        sum.high = sum.high.min(sum.rss_sum);
        sum.bytes = sum.bytes.min(sum.high);
        sum.low = sum.low.min(sum.bytes);
        sum
    }

    fn estimate(&self, member: &Member) -> Estimate {
        let rss_sum = member.rss;
        let Some(anchor) = member.anchor else { return unanchored(member) };
        let moved = |from: Bytes| Bytes::from_f64(from.as_f64() + member.rss.as_f64() - anchor.rss.as_f64());
        let bytes = moved(anchor.pss).saturating_add(member.inherited).min(member.rss);
        // A page that stops being shared costs a minor fault; so does every new page, which RSS already tells.
        let faulted = member.minor_faults.saturating_sub(anchor.minor_faults).saturating_mul(self.page);
        let new = member.rss.saturating_sub(anchor.rss);
        let unshared = Bytes(faulted).saturating_sub(new).min(anchor.shared);
        let high = bytes.saturating_add(unshared).min(member.rss);
        let low = moved(anchor.private).min(bytes);
        let low = if unshared == Bytes::ZERO && member.inherited == Bytes::ZERO { bytes } else { low };
        Estimate { bytes, low, high, rss_sum }
    }

    /// Whether any living process was made by fork alone and so may share written pages with its parent.
    pub fn shares(&self) -> bool {
        self.members.values().any(|member| member.forked && member.parent.is_some())
    }
}

fn unanchored(member: &Member) -> Estimate {
    let rss_sum = member.rss;
    let own = match member.first_rss {
        Some(first) if member.forked && member.parent.is_some() => member.rss.saturating_sub(first),
        Some(_) | None => member.rss,
    };
    let low = own.min(member.anon.unwrap_or(own));
    let bytes = own.saturating_add(member.inherited).min(member.rss);
    Estimate { bytes, low, high: member.rss, rss_sum }
}

/// When processes that ended began to give back what they held, on their way out.
pub(crate) fn clean_ups(recording: &Recording) -> BTreeMap<ProcKey, Tick> {
    let ended = recording.processes.iter().filter(|process| process.died.is_some());
    let mut lives: BTreeMap<ProcKey, Vec<&SampleRow>> =
        ended.map(|process| (process.key, Vec::new())).collect();
    for row in &recording.samples {
        if let Some(rows) = lives.get_mut(&row.process) {
            rows.push(row);
        }
    }
    let began = |rows: &[&SampleRow]| {
        let part = |row: &&SampleRow| (row.rss.min.as_f64(), row.ticks as usize);
        let life = rows.len() - clean_up(&rows.iter().map(part).collect::<Vec<_>>());
        rows.get(life).map(|row| row.tick)
    };
    lives.iter().filter_map(|(process, rows)| Some((*process, began(rows)?))).collect()
}

/// The rows of a recording without those of a clean-up: they say nothing of the life before it.
pub(crate) fn rows_of_life(recording: &Recording) -> impl Iterator<Item = &SampleRow> {
    let clean_ups = clean_ups(recording);
    let lives = move |row: &&SampleRow| clean_ups.get(&row.process).is_none_or(|began| row.tick < *began);
    recording.samples.iter().filter(lives)
}

/// The total at every moment a sample was written, with the number of processes then, from a recording.
pub fn tree_totals(recording: &Recording) -> Vec<(Tick, Estimate, usize)> {
    enum Step<'a> {
        Born(&'a Process),
        Row(&'a SampleRow),
        Died(ProcKey),
    }
    let mut steps: Vec<(Tick, u8, Step<'_>)> = Vec::new();
    for process in &recording.processes {
        steps.push((process.born, 0, Step::Born(process)));
        if let Some(died) = process.died {
            steps.push((died, 2, Step::Died(process.key)));
        }
    }
    steps.extend(rows_of_life(recording).map(|row| (row.tick, 1, Step::Row(row))));
    steps.sort_by_key(|(tick, order, _)| (*tick, *order));
    let mut tree = TreeTotal::new(recording.meta.page_bytes);
    let mut totals: Vec<(Tick, Estimate, usize)> = Vec::new();
    for (tick, _, step) in steps {
        match step {
            Step::Born(process) => tree.born(process),
            Step::Died(key) => tree.died(key),
            Step::Row(row) => {
                tree.sampled(row);
                let now = (tick, tree.now(), tree.members.len());
                match totals.last_mut() {
                    Some(last) if last.0 == tick => *last = now,
                    Some(_) | None => totals.push(now),
                }
            }
        }
    }
    totals
}

#[cfg(test)]
mod tests {
    use super::*;
    use lowtide_model::{Pss, Span};

    const PAGE: u64 = 4096;

    fn key(pid: u32) -> ProcKey {
        ProcKey { pid, start_ticks: 1 }
    }

    fn process(pid: u32, parent: Option<u32>, execed: bool) -> Process {
        Process {
            key: key(pid),
            parent: parent.map(key),
            born: Tick(0),
            died: None,
            exit: None,
            execed,
            comm: String::new(),
            argv: Vec::new(),
            env: Vec::new(),
            cgroup: None,
            peak_rss: None,
        }
    }

    fn row(pid: u32, rss_mib: u64, pss_private_mib: Option<(u64, u64)>, faults: u64) -> SampleRow {
        let rss = Bytes::from_mib(rss_mib);
        let pss = pss_private_mib.map(|(pss, private)| Pss {
            pss: Bytes::from_mib(pss),
            private: Bytes::from_mib(private),
            shared: Bytes::from_mib(rss_mib - private),
            ..Pss::default()
        });
        SampleRow {
            process: key(pid),
            rss: Span::one(rss),
            minor_faults: faults,
            pss,
            ..SampleRow::default()
        }
    }

    fn trainer_with_four_workers() -> TreeTotal {
        let mut tree = TreeTotal::new(PAGE);
        tree.born(&process(1, None, true));
        (2..6).for_each(|pid| tree.born(&process(pid, Some(1), false)));
        tree
    }

    #[test]
    fn shared_pages_count_once() {
        let mut tree = trainer_with_four_workers();
        (1..6).for_each(|pid| tree.sampled(&row(pid, 1000, Some((200, 0)), 0)));
        let now = tree.now();
        assert_eq!((now.bytes, now.rss_sum), (Bytes::from_mib(1000), Bytes::from_mib(5000)));
        assert_eq!((now.low, now.high), (now.bytes, now.bytes), "nothing happened since the anchor");
    }

    #[test]
    fn growth_since_the_anchor_is_added() {
        let mut tree = trainer_with_four_workers();
        (1..6).for_each(|pid| tree.sampled(&row(pid, 1000, Some((200, 0)), 0)));
        tree.sampled(&row(1, 1300, None, 300 * 256));
        assert_eq!(tree.now().bytes, Bytes::from_mib(1300));
    }

    #[test]
    fn un_sharing_that_rss_cannot_show_widens_the_band_upwards() {
        let mut tree = trainer_with_four_workers();
        (1..6).for_each(|pid| tree.sampled(&row(pid, 1000, Some((200, 0)), 0)));
        tree.sampled(&row(2, 1000, None, 100 * 256));
        let now = tree.now();
        assert_eq!((now.bytes, now.high), (Bytes::from_mib(1000), Bytes::from_mib(1100)));
    }

    #[test]
    fn what_dead_workers_shared_stays_with_their_parent() {
        let mut tree = trainer_with_four_workers();
        (1..6).for_each(|pid| tree.sampled(&row(pid, 1000, Some((200, 0)), 0)));
        (2..6).for_each(|pid| tree.died(key(pid)));
        assert_eq!(tree.now().bytes, Bytes::from_mib(1000));
    }

    #[test]
    fn a_fresh_fork_without_an_anchor_adds_only_what_it_grew() {
        let mut tree = TreeTotal::new(PAGE);
        tree.born(&process(1, None, true));
        tree.sampled(&row(1, 1000, None, 0));
        tree.born(&process(2, Some(1), false));
        tree.sampled(&row(2, 900, None, 0));
        tree.sampled(&row(2, 950, None, 0));
        let now = tree.now();
        assert_eq!(now.bytes, Bytes::from_mib(1050));
        assert!(now.high >= Bytes::from_mib(1900), "it may share nothing at all");
    }
}
