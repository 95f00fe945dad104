//! The processes of the job: who lives, what each holds, and the rows that come of it.
//!
//! Dead processes leave nothing behind here but their row in the file, so a job that starts processes for weeks costs
//! no more memory than its living ones.

use crate::reaped::{Reap, Reaped};
use crate::rows::{Gather, Measured};
use lowtide_model::{
    Bytes, Event, EventKind, Exit, Limit, ProcKey, Process, Pss, Reading, Role, SampleRow, Span, Tick,
};
use lowtide_probe::tree::Change;
use lowtide_probe::{ProcessReader, Root, Stat, Statm, Status};
use lowtide_store::{Entry, mask_argv};
use lowtide_verdict::{Footprint, RoleFound, TreeTotal, roles};
use std::collections::BTreeMap;
use std::time::Duration;

/// `stat` and `status` are read when `statm` moved, and every so many ticks all the same: twice as many each time that
/// nothing in them moved either, but for processes whose faults alone would tell that they copy what they shared.
const SLOW_LEAST: u32 = 10;
const SLOW_MOST: u32 = 40;
/// What is kept of a command line.
const MOST_ARGV_BYTES: usize = 64 << 10;
/// Roles are worked out anew at most this often: they follow memory, which moves at every tick.
const ROLES_EVERY: Duration = Duration::from_secs(2);
/// Faults beyond growth worth a look: below this, un-sharing cannot matter to anybody.
const UNSHARING_LEAST: u64 = 16 << 20;

/// What every tick looks at, side by side: a flat process costs little more than the kernel's answer.
#[derive(Clone, Copy, Debug, Default)]
struct Lately {
    /// `statm` of the last tick.
    quick: Option<Statm>,
    /// Ticks until `stat` and `status` are read all the same, and how many it will be then.
    slow_in: u32,
    slow_every: u32,
    /// Pages shared with the parent are being copied.
    unsharing: bool,
}

/// One living process.
pub(crate) struct Member {
    pub(crate) facts: Process,
    reader: Option<ProcessReader>,
    gather: Gather,
    status: Status,
    stat: Stat,
    lately: Lately,
    footprint: Footprint,
    /// The last sharing split, and what the process had then.
    anchor: Option<(Pss, SampleRow)>,
    minute_start: Option<(Tick, Bytes)>,
    minute_ago: Option<(Tick, Bytes)>,
    /// Where its code and stack begin: changed only by an exec.
    layout: Option<(u64, u64)>,
    told_denied: bool,
    pub(crate) address_space: Option<Bytes>,
}

impl Member {
    /// The newest values.
    pub(crate) fn newest(&self) -> Option<&SampleRow> {
        self.gather.newest()
    }

    /// When it was last seen.
    pub(crate) fn seen(&self) -> Tick {
        self.gather.seen()
    }

    /// What it has now, by the cheapest look there is.
    fn look(&mut self) -> Option<Statm> {
        // Without an address space it is on its way out: its memory is no longer its own, and a zero would look like a floor.
        self.reader.as_mut()?.quick().known().filter(|quick| quick.size > Bytes::ZERO)
    }

    /// Whether nothing moved since the last look, and a closer one is not due.
    fn rests(&mut self, quick: Statm) -> bool {
        let rests = self.lately.quick == Some(quick) && self.lately.slow_in > 0;
        if rests {
            self.lately.slow_in -= 1;
        }
        rests
    }

    /// Says once that something of this process may not be read.
    fn denied(&mut self, tick: Tick, what: &str) -> Option<Entry> {
        if std::mem::replace(&mut self.told_denied, true) {
            return None;
        }
        let text = format!("process {}: {what} may not be read (denied)", self.facts.key.pid);
        let (kind, process) = (EventKind::Unreadable, Some(self.facts.key));
        Some(Entry::Event(Event { tick, kind, process, text, data: None }))
    }

    /// The proportional size when it was last read.
    pub(crate) fn pss(&self) -> Option<Bytes> {
        self.anchor.as_ref().map(|(pss, _)| pss.pss)
    }

    /// Change since about a minute ago, in bytes a minute.
    pub(crate) fn bytes_per_minute(&self, now: Tick) -> Option<f64> {
        let ((then, before), row) = self.minute_ago.zip(self.newest())?;
        let minutes = now.since(then).as_secs_f64() / 60.0;
        (minutes > 0.1).then(|| (row.rss.last.as_f64() - before.as_f64()) / minutes)
    }

    /// Keeps the RSS of one to two minutes ago.
    fn remember(&mut self, now: Tick, rss: Bytes) {
        let minute = Duration::from_secs(60);
        if self.minute_start.is_none_or(|(then, _)| now.since(then) >= minute) {
            self.minute_ago = self.minute_start.or(Some((now, rss)));
            self.minute_start = Some((now, rss));
        }
    }

    /// Whether it shares enough with its parent that copying it would matter: then only its faults tell, and soon enough.
    fn may_unshare(&self) -> bool {
        let shares = |(pss, _): &(Pss, SampleRow)| pss.shared_dirty.0 >= UNSHARING_LEAST;
        !self.facts.execed && self.anchor.as_ref().is_none_or(shares)
    }

    /// Faults without growth in a process made by fork alone: pages shared with the parent are being copied.
    fn unsharing(&self, page: u64) -> bool {
        let (Some((pss, then)), Some(now)) = (&self.anchor, self.newest()) else {
            return false;
        };
        let faulted = now.minor_faults.saturating_sub(then.minor_faults).saturating_mul(page);
        let grown = now.rss.last.saturating_sub(then.rss.last).0;
        let least = UNSHARING_LEAST.max(pss.shared_dirty.0 / 20);
        !self.facts.execed && pss.shared_dirty.0 >= UNSHARING_LEAST && faulted.saturating_sub(grown) > least
    }
}

/// Pages that stopped being shared, as two readings show it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Unshared {
    pub(crate) process: ProcKey,
    pub(crate) bytes: Bytes,
}

/// What came of a round of sharing readings.
pub(crate) struct Sharing {
    /// How long maps were held.
    pub(crate) held: Duration,
    /// Whether everybody was read.
    pub(crate) complete: bool,
    pub(crate) unshared: Vec<Unshared>,
}

/// All living processes.
pub(crate) struct Crew {
    root: Root,
    page: u64,
    started_boot_ns: u64,
    members: BTreeMap<ProcKey, Member>,
    total: TreeTotal,
    seen: u64,
    /// The largest RSS of one process among all that were waited for.
    waited_peak: Option<Bytes>,
    roles: BTreeMap<ProcKey, (Role, String)>,
    roles_at: Option<Tick>,
    /// Whether marks of progress came that name no process.
    unnamed_marks: bool,
}

impl Crew {
    pub(crate) fn new(root: Root, page: u64, started_boot_ns: u64) -> Self {
        Self {
            root,
            page,
            started_boot_ns,
            members: BTreeMap::new(),
            total: TreeTotal::new(page),
            seen: 0,
            waited_peak: None,
            roles: BTreeMap::new(),
            roles_at: None,
            unnamed_marks: false,
        }
    }

    pub(crate) fn tick_of(&self, boot_ns: u64) -> Tick {
        Tick(boot_ns.saturating_sub(self.started_boot_ns))
    }

    pub(crate) fn started_boot_ns(&self) -> u64 {
        self.started_boot_ns
    }

    pub(crate) fn members(&self) -> impl Iterator<Item = &Member> {
        self.members.values()
    }

    pub(crate) fn get(&self, key: ProcKey) -> Option<&Member> {
        self.members.get(&key)
    }

    pub(crate) fn by_pid(&self, pid: u32) -> Option<&Member> {
        self.members.values().find(|member| member.facts.key.pid == pid)
    }

    /// This process marks steps, passes or phases: it is where the training is.
    pub(crate) fn marks(&mut self, key: ProcKey) {
        if let Some(member) = self.members.get_mut(&key)
            && !std::mem::replace(&mut member.footprint.marks, true)
        {
            self.roles_at = None;
        }
    }

    /// Somebody marks steps, passes or phases: who is born from now on was not it.
    pub(crate) fn marks_unnamed(&mut self) {
        self.unnamed_marks = true;
    }

    /// The largest RSS of one process, by the kernel's word when those ended that we waited for.
    pub(crate) fn waited_peak(&self) -> Option<Bytes> {
        self.waited_peak
    }

    /// Processes seen so far, the short-lived ones too.
    pub(crate) fn seen(&self) -> u64 {
        self.seen
    }

    pub(crate) fn total(&self) -> &TreeTotal {
        &self.total
    }

    /// Stands for the set of living processes that were sampled.
    pub(crate) fn fingerprint(&self) -> u64 {
        let mix =
            |key: &ProcKey| (u64::from(key.pid) << 32 ^ key.start_ticks).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        self.members
            .iter()
            .filter(|(_, member)| member.lately.quick.is_some())
            .fold(0, |sum, (key, _)| sum ^ mix(key))
    }

    /// Whether some process seems to un-share pages.
    pub(crate) fn unsharing(&self) -> bool {
        self.members.values().any(|member| member.lately.unsharing)
    }

    /// Takes in a birth, an exec or a death.
    pub(crate) fn apply(&mut self, change: Change, reaped: &mut Reaped, out: &mut Vec<Entry>) {
        match change {
            Change::Born { key, parent, at_boot_ns, forked } => {
                let facts = newborn(key, parent, self.tick_of(at_boot_ns), forked);
                self.born(facts, out);
            }
            Change::Execed { key, .. } => self.execed(key, out),
            Change::Died { key, at_boot_ns, exit } => {
                let waited = reaped.take(key.pid);
                let exit = exit.or_else(|| waited.map(|reap| reap.exit)).unwrap_or(Exit::Unknown);
                let reap = Reap { exit, peak: waited.and_then(|reap| reap.peak) };
                self.died(key, self.tick_of(at_boot_ns), reap, out);
            }
        }
    }

    fn born(&mut self, mut facts: Process, out: &mut Vec<Entry>) {
        self.seen += 1;
        let (key, parent) = (facts.key, facts.parent);
        let mut reader = ProcessReader::open_key(&self.root, key).known();
        let address_space = reader.as_mut().and_then(|reader| identify(&mut facts, reader));
        let layout = reader.as_mut().and_then(|reader| reader.stat().known()).and_then(|stat| stat.layout);
        let family = parent.and_then(|parent| self.members.get(&parent));
        if facts.execed && layout.is_some() && family.is_some_and(|parent| parent.layout == layout) {
            // Nobody saw its fork, but only a fork gives a process its parent's random addresses.
            facts.execed = false;
        }
        if facts.argv.is_empty()
            && let Some(parent) = family
        {
            // Gone before it could be read: until its exec it was its parent's double.
            facts.comm.clone_from(&parent.facts.comm);
            facts.argv.clone_from(&parent.facts.argv);
            facts.cgroup.clone_from(&parent.facts.cgroup);
        }
        self.total.born(&facts);
        out.push(Entry::Process(facts.clone()));
        let member = Member {
            facts,
            reader,
            gather: Gather::default(),
            status: Status::default(),
            stat: Stat::default(),
            lately: Lately::default(),
            footprint: Footprint { after_marks: self.unnamed_marks, ..Footprint::default() },
            anchor: None,
            minute_start: None,
            minute_ago: None,
            layout,
            told_denied: false,
            address_space,
        };
        self.members.insert(key, member);
        self.roles_at = None;
    }

    fn execed(&mut self, key: ProcKey, out: &mut Vec<Entry>) {
        let Some(member) = self.members.get_mut(&key) else {
            return;
        };
        member.facts.execed = true;
        member.anchor = None;
        // What it showed since its fork was its parent's.
        member.gather.execed();
        member.footprint = Footprint { first: Bytes::ZERO, peak: Bytes::ZERO, ..member.footprint };
        if member.reader.is_none() {
            member.reader = ProcessReader::open_key(&self.root, key).known();
        }
        if let Some(reader) = &mut member.reader {
            member.address_space = identify(&mut member.facts, reader);
            member.layout = reader.stat().known().and_then(|stat| stat.layout).or(member.layout);
        }
        self.total.execed(key);
        out.push(Entry::Process(member.facts.clone()));
        self.roles_at = None;
    }

    fn died(&mut self, key: ProcKey, at: Tick, reap: Reap, out: &mut Vec<Entry>) {
        let Some(mut member) = self.members.remove(&key) else {
            return;
        };
        out.extend(member.gather.rest().map(Entry::Sample));
        member.facts.died = Some(at);
        member.facts.exit = Some(reap.exit);
        // Of a job that was one process all along it is that process's own.
        let own = reap.peak.filter(|_| self.seen == 1);
        let sampled = Some(member.footprint.peak).filter(|peak| peak.0 > 0);
        member.facts.peak_rss = member.status.peak_rss.max(sampled).max(own);
        self.waited_peak = self.waited_peak.max(reap.peak);
        self.total.died(key);
        self.roles.remove(&key);
        out.push(Entry::Process(member.facts));
    }

    /// Reads every process once; gives how many turned out to have become another program, somewhere else perhaps.
    pub(crate) fn sample(&mut self, now: Tick, out: &mut Vec<Entry>) -> usize {
        let mut execed = Vec::new();
        for member in self.members.values_mut() {
            let layout = member.layout;
            let Some(quick) = member.look() else { continue };
            if member.rests(quick) && member.gather.again(now) {
                continue;
            }
            let Some(row) = measure(member, quick, now) else { continue };
            if layout.is_some() && layout != member.layout {
                execed.push(member.facts.key);
            }
            member.footprint.peak = member.footprint.peak.max(row.rss.last);
            if member.footprint.first == Bytes::ZERO {
                member.footprint.first = row.rss.last;
            }
            let still =
                |last: &SampleRow| last.rss.last == row.rss.last && last.minor_faults == row.minor_faults;
            if !member.newest().is_some_and(still) {
                self.total.sampled(&row);
            }
            member.remember(now, row.rss.last);
            if member.gather.is_empty() && !member.facts.execed {
                member.gather.hold(Measured { row });
            } else {
                out.extend(member.gather.push(Measured { row }).map(Entry::Sample));
            }
            member.lately.unsharing = member.unsharing(self.page);
        }
        // A source without exec events leaves it to us to notice.
        execed.iter().for_each(|key| self.execed(*key, out));
        execed.len()
    }

    /// Reads the sharing split of every process, at once, so that the parts add up. Given up when it takes longer than
    /// `most`: a part of it would be worse than none. Gives how long maps were held and what was un-shared.
    pub(crate) fn read_sharing(&mut self, now: Tick, most: Duration, out: &mut Vec<Entry>) -> Sharing {
        let mut held = Duration::ZERO;
        let mut readings: Vec<(ProcKey, Pss)> = Vec::new();
        for (key, member) in &mut self.members {
            let Some(reading) = member.reader.as_mut().map(ProcessReader::rollup) else { continue };
            if reading == Reading::Denied {
                out.extend(member.denied(now, "sharing (smaps_rollup)"));
            }
            let Some((pss, took)) = reading.known() else { continue };
            held += took;
            readings.push((*key, pss));
            if held > most {
                return Sharing { held, complete: false, unshared: Vec::new() };
            }
        }
        let mut unshared = Vec::new();
        for (key, pss) in readings {
            let Some(member) = self.members.get_mut(&key) else { continue };
            // Faults are counted from here on: they must be of this moment.
            member.lately.slow_in = 0;
            let Some(row) = member.look().and_then(|quick| measure(member, quick, now)) else { continue };
            let row = SampleRow { pss: Some(pss), ..row };
            let before = member.anchor.replace((pss, row)).filter(|_| !member.facts.execed);
            let bytes = before.and_then(|(before, _)| copied(&before, &pss));
            unshared.extend(bytes.map(|bytes| Unshared { process: key, bytes }));
            self.total.sampled(&row);
            out.extend(member.gather.push(Measured { row }).map(Entry::Sample));
            member.lately.unsharing = member.unsharing(self.page);
        }
        Sharing { held, complete: true, unshared }
    }

    /// Everything gathered and not yet written, and the state of every process, for a recording that ends now.
    pub(crate) fn rest(&mut self, out: &mut Vec<Entry>) {
        for member in self.members.values_mut() {
            out.extend(member.gather.rest().map(Entry::Sample));
            member.facts.peak_rss = member.status.peak_rss;
            out.push(Entry::Process(member.facts.clone()));
        }
    }

    /// The role of every living process, worked out anew when it is time.
    pub(crate) fn roles(&mut self, now: Tick) -> &BTreeMap<ProcKey, (Role, String)> {
        let due = self.roles_at.is_none_or(|at| now.since(at) >= ROLES_EVERY);
        if due {
            self.roles_at = Some(now);
            let facts: Vec<Process> = self.members.values().map(|member| member.facts.clone()).collect();
            let memory = self.members.iter().map(|(key, member)| (*key, member.footprint)).collect();
            let named = |found: RoleFound| (found.process, (found.role, found.reason));
            self.roles = roles(&facts, &memory).into_iter().map(named).collect();
        }
        &self.roles
    }
}

/// What is known of a process before anything of it was read.
fn newborn(key: ProcKey, parent: Option<ProcKey>, born: Tick, forked: bool) -> Process {
    Process {
        key,
        parent,
        born,
        died: None,
        exit: None,
        execed: !forked,
        comm: String::new(),
        argv: Vec::new(),
        env: Vec::new(),
        cgroup: None,
        peak_rss: None,
    }
}

/// Written pages that went from shared to private between two readings.
fn copied(before: &Pss, now: &Pss) -> Option<Bytes> {
    let private = now.private_dirty.saturating_sub(before.private_dirty);
    let shared = before.shared_dirty.saturating_sub(now.shared_dirty);
    let both = private.min(shared);
    (both.0 >= UNSHARING_LEAST / 4).then_some(both)
}

/// A command line of thousands of words (a list of files) is cut: every fork of it would be kept with all of them.
fn shortened(mut argv: Vec<String>) -> Vec<String> {
    let mut bytes = 0;
    let fits = |word: &&String| {
        bytes += word.len() + size_of::<String>();
        bytes <= MOST_ARGV_BYTES
    };
    let kept = argv.iter().take_while(fits).count();
    if kept < argv.len() {
        let left = argv.len() - kept;
        argv.truncate(kept);
        argv.push(format!("[... {left} more]"));
    }
    argv
}

/// Fills in who a process is; gives its limit of address space.
fn identify(facts: &mut Process, reader: &mut ProcessReader) -> Option<Bytes> {
    let identity = reader.identity();
    if let Some(argv) = identity.argv.known().filter(|argv| !argv.is_empty()) {
        facts.argv = mask_argv(&shortened(argv));
    }
    facts.comm = identity.comm.known().unwrap_or_default();
    facts.env = identity.env.known().unwrap_or_default();
    facts.cgroup = identity.cgroup.known();
    match identity.address_space {
        Reading::Known(Limit::At(bytes)) => Some(bytes),
        Reading::Known(Limit::Unlimited) | Reading::Unsupported | Reading::Denied | Reading::Gone => None,
    }
}

/// One tick of one process. `statm` is read at every tick; `stat` and `status`, which cost the kernel several times as
/// much, when it moved, and now and then all the same: faults, swap and locked memory move without it.
fn measure(member: &mut Member, quick: Statm, now: Tick) -> Option<SampleRow> {
    let reader = member.reader.as_mut()?;
    let grown = member.lately.quick.is_none_or(|before| before.rss != quick.rss);
    if grown || member.lately.slow_in == 0 {
        let stat = reader.stat().known().filter(|stat| !stat.is_dead())?;
        let status = reader.status().known().unwrap_or(member.status);
        let faults = |stat: &Stat| (stat.minor_faults, stat.major_faults, stat.threads);
        let moved = grown || status != member.status || faults(&stat) != faults(&member.stat);
        let rarely = !moved && !member.may_unshare();
        member.lately.slow_every =
            if rarely { (member.lately.slow_every * 2).clamp(SLOW_LEAST, SLOW_MOST) } else { SLOW_LEAST };
        member.lately.slow_in = member.lately.slow_every;
        member.layout = stat.layout.or(member.layout);
        (member.stat, member.status) = (stat, status);
    }
    member.lately.quick = Some(quick);
    member.lately.slow_in -= 1;
    Some(row_of(member.facts.key, now, (quick, member.stat, &member.status)))
}

fn row_of(process: ProcKey, tick: Tick, (quick, stat, status): (Statm, Stat, &Status)) -> SampleRow {
    SampleRow {
        process,
        tick,
        ticks: 1,
        rss: Span::one(quick.rss),
        anon: status.anon.map(Span::one),
        file: status.file,
        shmem: status.shmem,
        swap: status.swap,
        locked: status.held_in_place(),
        size: quick.size,
        threads: Some(stat.threads),
        minor_faults: stat.minor_faults,
        major_faults: stat.major_faults,
        cpu_ns: stat.cpu_ns,
        pss: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_line_of_thousands_of_words_is_cut_and_says_so() {
        let long: Vec<String> = (0..20_000).map(|word| format!("file-{word}")).collect();
        let kept = shortened(long.clone());
        assert!(kept.iter().map(String::len).sum::<usize>() < MOST_ARGV_BYTES);
        let left = long.len() - (kept.len() - 1);
        assert_eq!(kept.last(), Some(&format!("[... {left} more]")));
        assert_eq!(kept[..kept.len() - 1], long[..kept.len() - 1]);
        assert_eq!(shortened(long[..50].to_vec()), long[..50]);
    }
}
