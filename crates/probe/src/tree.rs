//! Who belongs to the job: every process it started, through fork, exec, double fork, setsid and dead parents.
//!
//! With events each fork from a member makes a member, so a process is seen however short it lives and whoever
//! adopts it later. Without, /proc is listed and parents are followed; orphans come to the recorder, which is the
//! subreaper of a job it started. Pids return, so a member is its pid and its start. The start of a process that was
//! gone before /proc could be read is the tick of its fork event: what the kernel would have said, and unique,
//! because a pid cannot be given out twice within 10 ms.
//! Not here: what a process is for (roles), and reaping.

use crate::Root;
use crate::clock::{self, NS_PER_TICK};
use crate::events::listing::Listing;
use crate::events::{Feed, Source, TaskEvent};
use crate::parse::{self, Stat};
use crate::process::stat_of;
use lowtide_model::{Exit, ProcKey, Reading};
use std::collections::{BTreeMap, HashMap, HashSet};

/// A fork event may be this much later than the start the kernel noted, when the parent was preempted in between.
const FORK_DELAY_TICKS: u64 = 50;

/// A change in who belongs to the job. Times are nanoseconds on the boot clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// A process joined.
    Born {
        /// Who.
        key: ProcKey,
        /// The member that started it, where known.
        parent: Option<ProcKey>,
        /// When it was started.
        at_boot_ns: u64,
        /// Whether its fork was seen: it then runs its parent's program until `Execed`. Otherwise not known.
        forked: bool,
    },
    /// A member became another program.
    Execed {
        /// Who.
        key: ProcKey,
        /// When.
        at_boot_ns: u64,
    },
    /// A member ended.
    Died {
        /// Who.
        key: ProcKey,
        /// When it ended, or when that was noticed.
        at_boot_ns: u64,
        /// How, where the source tells.
        exit: Option<Exit>,
    },
}

/// The living members of one job.
#[derive(Debug)]
pub struct Tree {
    root: Root,
    recorder: Option<u32>,
    ignored: HashMap<u32, Option<u64>>,
    living: BTreeMap<u32, ProcKey>,
    /// Members whose first thread ended while the process did not (yet): looked at on each update.
    leaderless: Vec<(ProcKey, Option<Exit>)>,
    listing: Listing,
    events: Vec<TaskEvent>,
    pending: Vec<Change>,
}

impl Tree {
    /// The job the recorder started as `child_pid`. Other children of the recorder are its own business when
    /// named in `ignore` or [`Tree::ignore`]; those that are not count as orphans of the job when they turn up in
    /// a listing.
    pub fn started(root: &Root, child_pid: u32, recorder_pid: u32, ignore: &[u32]) -> Self {
        let mut tree = Self::empty(root, Some(recorder_pid));
        for pid in ignore {
            tree.ignore(*pid);
        }
        tree.adopt_root(child_pid);
        tree
    }

    /// A job that already runs: `pid` and all its descendants. Orphans are kept if they were seen before their
    /// parent died.
    pub fn attached(root: &Root, pid: u32) -> Self {
        let mut tree = Self::empty(root, None);
        tree.adopt_root(pid);
        let descendants = tree.resync();
        tree.pending.extend(descendants);
        tree
    }

    fn empty(root: &Root, recorder: Option<u32>) -> Self {
        Self {
            root: root.clone(),
            recorder,
            ignored: HashMap::new(),
            living: BTreeMap::new(),
            leaderless: Vec::new(),
            listing: Listing::new(root),
            events: Vec::new(),
            pending: Vec::new(),
        }
    }

    /// The job was started again, as this process. Call it before the next update.
    pub fn adopt_root(&mut self, pid: u32) {
        let now = clock::boot_ns();
        let start_ticks =
            stat_of(&self.root, pid).known().map_or(clock::ticks_of(now), |stat| stat.start_ticks);
        let key = ProcKey { pid, start_ticks };
        let mut changes = std::mem::take(&mut self.pending);
        self.join(key, None, start_ticks.saturating_mul(NS_PER_TICK), &mut changes);
        self.pending = changes;
    }

    /// Leaves out a helper the recorder started for itself. Call it before the next update.
    pub fn ignore(&mut self, pid: u32) {
        let start = stat_of(&self.root, pid).known().map(|stat| stat.start_ticks);
        self.ignored.insert(pid, start);
    }

    /// The living members by pid.
    pub fn living(&self) -> impl Iterator<Item = ProcKey> + '_ {
        self.living.values().copied()
    }

    /// Whether this process is a living member.
    pub fn is_living(&self, key: ProcKey) -> bool {
        self.living.get(&key.pid) == Some(&key)
    }

    /// Takes in what happened since the last update. The first update also tells the members found at the start.
    pub fn update(&mut self, feed: &mut Feed, now_boot_ns: u64) -> Vec<Change> {
        let mut changes = std::mem::take(&mut self.pending);
        let mut events = std::mem::take(&mut self.events);
        let drained = feed.drain(&mut events);
        for event in &events {
            self.take(event, now_boot_ns, &mut changes);
        }
        events.clear();
        self.events = events;
        self.look_at_leaderless(now_boot_ns, &mut changes);
        if drained.lost {
            changes.extend(self.resync());
        } else if feed.source() == Source::Listing {
            self.list(now_boot_ns, &mut changes);
        }
        changes
    }

    /// Compares with all of /proc, whatever the events said.
    pub fn resync(&mut self) -> Vec<Change> {
        let mut changes = Vec::new();
        self.listing.forget();
        self.list(clock::boot_ns(), &mut changes);
        changes
    }

    /// For a reader that was told "gone": checks this member now. `Some` when it has ended.
    pub fn check(&mut self, key: ProcKey, now_boot_ns: u64) -> Option<Change> {
        let mut changes = Vec::new();
        if self.is_living(key) {
            self.bury_if_dead(key, now_boot_ns, &mut changes);
        }
        changes.pop()
    }
}

/// Taking in events.
impl Tree {
    fn take(&mut self, event: &TaskEvent, now: u64, changes: &mut Vec<Change>) {
        let at = event.at().unwrap_or(now);
        match *event {
            TaskEvent::Fork { parent, child, .. } => self.forked(parent, child, at, changes),
            TaskEvent::Exec { pid, .. } => {
                let member = self.living.get(&pid).filter(|key| key.start_ticks <= clock::ticks_of(at) + 1);
                changes.extend(member.map(|key| Change::Execed { key: *key, at_boot_ns: at }));
            }
            TaskEvent::Exit { pid, exit, .. } => self.exited(pid, exit, at, changes),
        }
    }

    fn forked(&mut self, parent: u32, child: u32, at: u64, changes: &mut Vec<Change>) {
        let Some(parent) = self.living.get(&parent).copied() else {
            // The recorder's own helpers must not be taken for orphans later.
            if self.recorder == Some(parent) && !self.living.contains_key(&child) {
                self.ignored.insert(child, Some(clock::ticks_of(at)));
            }
            return;
        };
        let told = clock::ticks_of(at);
        let seen = stat_of(&self.root, child).known().map(|stat| stat.start_ticks);
        let start_ticks = seen.filter(|start| is_start_of_fork(*start, told)).unwrap_or(told);
        let key = ProcKey { pid: child, start_ticks };
        match self.living.get(&child).copied() {
            // Already found by a listing.
            Some(known) if is_start_of_fork(known.start_ticks, told) => return,
            // The pid has a new owner and the end of the old one went unseen.
            Some(known) => self.leave(known, at, None, changes),
            None => {}
        }
        self.living.insert(child, key);
        changes.push(Change::Born { key, parent: Some(parent), at_boot_ns: at, forked: true });
    }

    fn exited(&mut self, pid: u32, exit: Option<Exit>, at: u64, changes: &mut Vec<Change>) {
        let Some(key) = self.living.get(&pid).copied() else {
            self.ignored.remove(&pid);
            return;
        };
        // An old event about the pid's owner before.
        if clock::ticks_of(at) + 1 < key.start_ticks {
            return;
        }
        if self.is_alive(key) {
            self.leaderless.push((key, exit));
        } else {
            self.leave(key, at, exit, changes);
        }
    }

    fn look_at_leaderless(&mut self, now: u64, changes: &mut Vec<Change>) {
        for (key, exit) in std::mem::take(&mut self.leaderless) {
            if !self.is_living(key) {
                continue;
            }
            match stat_of(&self.root, key.pid).known().filter(|stat| stat.start_ticks == key.start_ticks) {
                // An exec by another thread: a whole process again.
                Some(stat) if stat.state != 'Z' && exit.is_some() => {}
                Some(stat) if !stat.is_dead() => self.leaderless.push((key, exit)),
                stat => self.leave(key, now, stat.and_then(|stat| stat.exit()).or(exit), changes),
            }
        }
    }

    fn is_alive(&self, key: ProcKey) -> bool {
        let stat = stat_of(&self.root, key.pid).known();
        stat.is_some_and(|stat| stat.start_ticks == key.start_ticks && !stat.is_dead())
    }

    fn join(&mut self, key: ProcKey, parent: Option<ProcKey>, at: u64, changes: &mut Vec<Change>) {
        self.living.insert(key.pid, key);
        changes.push(Change::Born { key, parent, at_boot_ns: at, forked: false });
    }

    fn leave(&mut self, key: ProcKey, at: u64, exit: Option<Exit>, changes: &mut Vec<Change>) {
        self.living.remove(&key.pid);
        changes.push(Change::Died { key, at_boot_ns: at, exit });
    }
}

fn is_start_of_fork(start: u64, told: u64) -> bool {
    start <= told + 1 && start + FORK_DELAY_TICKS >= told
}

/// Looks at a process that seems to be dead.
const LOOKS: usize = 3;

/// Listing /proc.
impl Tree {
    fn list(&mut self, now: u64, changes: &mut Vec<Change>) {
        let members: Vec<ProcKey> = self.living().collect();
        let mut again = Vec::new();
        for key in members {
            if self.bury_if_dead(key, now, changes) {
                again.push(key.pid);
            }
        }
        again.extend(self.listing.look(&self.root));
        again.sort_unstable();
        again.dedup();
        let mut strangers: Vec<Stat> = again.into_iter().filter_map(|pid| self.stranger(pid)).collect();
        while self.settle(&mut strangers, changes) {}
    }

    /// A process is looked at more than once before it is called dead: while one of its threads calls exec and takes the place of
    /// the first one, it is not there for a moment.
    fn bury_if_dead(&mut self, key: ProcKey, now: u64, changes: &mut Vec<Change>) -> bool {
        let mut last = None;
        for _ in 0..LOOKS {
            last = match stat_of(&self.root, key.pid) {
                Reading::Known(stat) if stat.start_ticks == key.start_ticks => Some(stat),
                Reading::Known(_) | Reading::Gone => None,
                // Not readable for another reason says nothing about its life.
                Reading::Denied | Reading::Unsupported => return false,
            };
            if last.as_ref().is_some_and(|stat| !stat.is_dead()) {
                return false;
            }
            std::thread::yield_now();
        }
        self.leave(key, now, last.and_then(|stat| stat.exit()), changes);
        true
    }

    /// A process that is no member yet, unless it is dead already.
    fn stranger(&self, pid: u32) -> Option<Stat> {
        if self.living.contains_key(&pid) {
            return None;
        }
        stat_of(&self.root, pid).known().filter(|stat| !stat.is_dead() && !stat.is_kernel_thread())
    }

    /// Takes in those strangers whose parent is a member; true when another round may find more.
    fn settle(&mut self, strangers: &mut Vec<Stat>, changes: &mut Vec<Change>) -> bool {
        let mut found = false;
        let mut rest = Vec::new();
        let here: HashSet<u32> = strangers.iter().map(|stat| stat.pid).collect();
        for stat in strangers.drain(..) {
            if self.belongs(&stat) {
                found = true;
                if !self.is_process(stat.pid) {
                    continue;
                }
                let key = ProcKey { pid: stat.pid, start_ticks: stat.start_ticks };
                let parent = self.living.get(&stat.ppid).copied();
                self.join(key, parent, stat.start_ticks.saturating_mul(NS_PER_TICK), changes);
            } else if here.contains(&stat.ppid) {
                rest.push(stat);
            } else {
                // Its parent may have ended while we looked: see who has it now.
                let now = self.stranger(stat.pid);
                found |= now.is_some_and(|now| now.ppid != stat.ppid);
                rest.extend(now);
            }
        }
        *strangers = rest;
        found
    }

    /// A thread can be asked for by its number as if it were a process. One that left meanwhile is taken for a thread.
    fn is_process(&self, pid: u32) -> bool {
        let status = std::fs::read(self.root.process(pid).join("status")).ok();
        let status = status.and_then(|bytes| parse::status(&bytes));
        status.is_some_and(|status| status.group_pid.is_none_or(|group| group == pid))
    }

    fn belongs(&self, stat: &Stat) -> bool {
        if self.living.contains_key(&stat.ppid) {
            return true;
        }
        let ignored = || match self.ignored.get(&stat.pid) {
            Some(Some(start)) => stat.start_ticks.abs_diff(*start) <= FORK_DELAY_TICKS,
            Some(None) => true,
            None => false,
        };
        self.recorder == Some(stat.ppid) && !ignored()
    }
}

#[cfg(test)]
mod tests;
