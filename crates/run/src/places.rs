//! Where the job lives: its cgroups, the machine, and every limit held against the thing it limits.
//!
//! A cgroup's limit counts its whole charge, strangers included; the machine's counts what is available to anybody;
//! `RLIMIT_AS` counts one process's address space. Comparing the job's RSS with any of them would be wrong.

use crate::crew::{Crew, Member};
use crate::oom::{Counter, Place as OomPlace};
use crate::rows::Thin;
use lowtide_model::{
    Bytes, CgroupRow, CgroupVersion, Event, EventKind, HostRow, LimitHeld, LimitKind, Reading, Span, Tick,
};
use lowtide_probe::cgroup::{CgroupReading, Cgroups};
use lowtide_probe::host::{Host, HostReading};
use lowtide_probe::{Root, stat_of};
use lowtide_store::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// Who else lives in a cgroup, and which limit above it holds, is looked up this often: it takes a walk over folders.
const LOOK_EVERY: Duration = Duration::from_secs(2);
/// More strangers than this are many: then they are counted at every 15th look only.
const MANY: u32 = 16;
const MANY_EVERY: u32 = 15;
/// Limits go into the recording this often, and whenever one changes.
const LIMITS_EVERY: Duration = Duration::from_secs(30);
/// ... or when this part more of one is taken.
const NEWS_PART: f64 = 0.02;
/// /dev/shm is a limit only for those who use it.
const SHM_IN_USE: Bytes = Bytes::from_mib(1);

struct Place {
    cgroups: Cgroups,
    thin: Thin<CgroupRow>,
    last: CgroupReading,
    /// The highest charge ever, as the kernel knew it at the last row.
    peak: Option<Bytes>,
    /// How far above its charge of now it was since the look before, where the kernel kept that.
    above: Bytes,
    strangers: Option<u32>,
    strangers_before: Option<u32>,
    /// Stands for those who lived there, and for the job, when strangers were counted.
    crowd: Option<(u64, u64)>,
    /// The lowest limit on the way up with its cgroup, and how much of it was taken.
    tight: Option<(Bytes, Arc<str>)>,
    tight_used: Option<Bytes>,
    /// When strangers and limits were last looked up, and how often.
    looked_at: Option<Tick>,
    looks: u32,
}

/// The job's surroundings.
pub(crate) struct Places {
    root: Root,
    own_pids: BTreeSet<u32>,
    cgroups: BTreeMap<Arc<str>, Place>,
    /// The limit of the last cgroup that nobody of the job lives in any more.
    left: Option<(Bytes, Arc<str>)>,
    host: Host,
    host_last: HostReading,
    host_thin: Thin<HostRow>,
    slurm: Option<Bytes>,
    /// What the user said with `--limit`.
    asked: Option<Bytes>,
    closely: bool,
    limits: Vec<LimitHeld>,
    written: Option<(Tick, Vec<LimitHeld>)>,
}

impl Places {
    /// `own_pids` are lowtide's own processes, which are no strangers; `asked` is a limit of the user's own.
    pub(crate) fn new(
        root: Root,
        own_pids: BTreeSet<u32>,
        slurm: Option<Bytes>,
        asked: Option<Bytes>,
    ) -> Self {
        let mut host = Host::open(&root);
        let host_last = host.read();
        Self {
            root,
            own_pids,
            cgroups: BTreeMap::new(),
            left: None,
            host,
            host_last,
            host_thin: Thin::default(),
            slurm,
            asked,
            closely: false,
            limits: Vec::new(),
            written: None,
        }
    }

    /// For a guard: limits above the cgroup are looked at as often as the cgroup.
    pub(crate) fn watch_closely(&mut self) {
        self.closely = true;
    }

    /// A process of lowtide's own came or went: it is no stranger in the job's cgroup.
    pub(crate) fn is_ours(&mut self, pid: u32) {
        self.own_pids.insert(pid);
    }

    pub(crate) fn was_ours(&mut self, pid: u32) {
        self.own_pids.remove(&pid);
    }

    /// Follows the processes into their cgroups.
    pub(crate) fn settle(&mut self, now: Tick, crew: &Crew, out: &mut Vec<Entry>) {
        let mut lived_in = BTreeSet::new();
        for member in crew.members() {
            let Some(path) = &member.facts.cgroup else {
                continue;
            };
            lived_in.insert(path.as_str());
            if !self.cgroups.contains_key(path.as_str())
                && let Reading::Known(cgroups) = Cgroups::open(&self.root, member.facts.key.pid)
            {
                if cgroups.hides_ancestors() {
                    out.push(Entry::Event(hidden(now, path)));
                }
                self.cgroups.insert(path.as_str().into(), Place::new(cgroups));
            }
        }
        let left = &mut self.left;
        self.cgroups.retain(|path, place| {
            let stays = lived_in.contains(&**path);
            if !stays {
                left.clone_from(&place.tight);
                out.extend(place.farewell(now).map(Entry::Cgroup));
            }
            stays
        });
    }

    /// Reads the machine and every cgroup once.
    pub(crate) fn read(&mut self, now: Tick, crew: &Crew, out: &mut Vec<Entry>) {
        self.host_last = self.host.read();
        out.extend(host_row(now, &self.host_last).and_then(|row| self.host_thin.push(row)).map(Entry::Host));
        for place in self.cgroups.values_mut() {
            place.read(&self.root, now, crew, &self.own_pids);
            if self.closely {
                place.look_up();
            }
            out.extend(place.row(now).and_then(|row| place.thin.push(row)).map(Entry::Cgroup));
        }
        let alive = |member: &Member| member.seen() == now;
        // A job that is gone takes nothing: what was left for it is what was left while it lived.
        if self.limits.is_empty() || crew.members().any(alive) {
            self.hold_limits(crew);
        }
        self.write_limits(now, out);
    }

    /// Reads only how much of each limit is taken.
    pub(crate) fn glance(&mut self, crew: &Crew) {
        self.host_last = self.host.read();
        for place in self.cgroups.values_mut() {
            place.read_charge();
            place.look_up();
        }
        self.hold_limits(crew);
    }

    /// The folder of the job's own cgroup of v1, if it has the lowest limit, with what is taken and the limit.
    pub(crate) fn folder_v1(&mut self) -> Option<(PathBuf, Bytes, Bytes)> {
        let v1 = |place: &&mut Place| place.cgroups.version() == CgroupVersion::V1;
        let place = self.cgroups.values_mut().find(v1)?;
        let (limit, path) = place.tight.clone()?;
        let used = place.last.usage.known().filter(|_| path == *place.cgroups.path())?;
        Some((place.cgroups.levels().first()?.dir().to_owned(), used, limit))
    }

    /// Whether some limit is held against what processes have, which only reading each of them tells.
    pub(crate) fn counts_processes(&self) -> bool {
        let counted = |held: &LimitHeld| match held.kind {
            LimitKind::AddressSpace { .. } | LimitKind::Slurm => true,
            LimitKind::Asked => self.own_charge().is_none(),
            LimitKind::Cgroup { .. } | LimitKind::Host | LimitKind::DevShm => false,
        };
        self.limits.iter().any(counted)
    }

    fn write_limits(&mut self, now: Tick, out: &mut Vec<Entry>) {
        let same = |(held, before): (&LimitHeld, &LimitHeld)| {
            let moved = held.used.distance(before.used).as_f64();
            held.kind == before.kind && held.limit == before.limit && moved < held.limit.as_f64() * NEWS_PART
        };
        let fresh = |(at, before): &(Tick, Vec<LimitHeld>)| {
            now.since(*at) < LIMITS_EVERY
                && before.len() == self.limits.len()
                && self.limits.iter().zip(before).all(same)
        };
        if !self.written.as_ref().is_some_and(fresh) {
            self.written = Some((now, self.limits.clone()));
            out.push(Entry::Limits(self.limits.clone()));
        }
    }

    /// What was gathered and not yet written.
    pub(crate) fn rest(&mut self, out: &mut Vec<Entry>) {
        out.extend(self.host_thin.rest().map(Entry::Host));
        out.extend(self.cgroups.values_mut().filter_map(|place| place.thin.rest()).map(Entry::Cgroup));
        out.push(Entry::Limits(self.limits.clone()));
    }

    /// The job's memory as its own cgroup counts it: exact, but only where nobody else lives there.
    pub(crate) fn own_charge(&self) -> Option<Bytes> {
        let mut all = self.cgroups.values();
        let (only, None) = (all.next()?, all.next()) else {
            return None;
        };
        if only.strangers != Some(0) {
            return None;
        }
        Some(only.last.anon?.saturating_add(only.last.shmem?))
    }

    /// The counters of OOM kills as of the last tick: of the cgroups that are still there, and the machine's.
    pub(crate) fn counters(&self) -> impl Iterator<Item = Counter> + Clone {
        let cgroups = self.cgroups.iter().filter_map(|(path, place)| place.counter(path));
        let gone = self.cgroups.values().find(|place| place.is_gone());
        // The last process of the job may have been taken off the list before its death was told.
        let left = self.left.as_ref().filter(|_| self.cgroups.is_empty());
        let limit = gone.and_then(|place| place.tight.as_ref()).or(left).cloned();
        let of_machine = |kills| Counter { place: OomPlace::Machine, kills, strangers: None, limit };
        cgroups.chain(self.host_last.oom_kills.known().map(of_machine))
    }

    /// The counters as they are at this moment.
    pub(crate) fn counters_now(&mut self) -> impl Iterator<Item = Counter> + Clone {
        for place in self.cgroups.values_mut() {
            place.last = place.cgroups.read();
        }
        self.host_last.oom_kills = self.host.oom_kills();
        self.counters()
    }

    /// How much higher than now it was since the look before, as far as the kernel kept that.
    pub(crate) fn above(&self, kind: &LimitKind) -> Bytes {
        let LimitKind::Cgroup { path } = kind else { return Bytes::ZERO };
        let place = self.cgroups.values().find(|place| place.cgroups.path() == path);
        place.map(|place| place.above).unwrap_or_default()
    }

    /// Limits, the smallest headroom first.
    pub(crate) fn limits(&self) -> &[LimitHeld] {
        &self.limits
    }

    fn hold_limits(&mut self, crew: &Crew) {
        self.limits.clear();
        if let Some(memory) = self.host_last.memory.known() {
            let used = memory.total.saturating_sub(memory.available);
            self.limits.push(LimitHeld { kind: LimitKind::Host, limit: memory.total, used });
        }
        if let Some(shm) = self.host_last.dev_shm.known().filter(|shm| shm.used >= SHM_IN_USE) {
            self.limits.push(LimitHeld { kind: LimitKind::DevShm, limit: shm.total, used: shm.used });
        }
        for place in self.cgroups.values() {
            if let Some((limit, path)) = &place.tight {
                // A limit above the cgroup counts more than the cgroup; what that was a moment ago is near enough.
                let here = place.last.working_set().filter(|_| path == place.cgroups.path());
                let used = here.or(place.tight_used).or_else(|| place.last.working_set()).unwrap_or_default();
                let kind = LimitKind::Cgroup { path: Arc::clone(path) };
                self.limits.push(LimitHeld { kind, limit: *limit, used });
            }
        }
        for member in crew.members() {
            if let (Some(limit), Some(row)) = (member.address_space, member.newest()) {
                let kind = LimitKind::AddressSpace { process: member.facts.key };
                self.limits.push(LimitHeld { kind, limit, used: row.size });
            }
        }
        if let Some(limit) = self.slurm {
            let used = crew.total().now().bytes;
            self.limits.push(LimitHeld { kind: LimitKind::Slurm, limit, used });
        }
        if let Some(limit) = self.asked {
            let used = self.own_charge().unwrap_or_else(|| crew.total().now().bytes);
            self.limits.push(LimitHeld { kind: LimitKind::Asked, limit, used });
        }
        self.limits.sort_unstable_by_key(LimitHeld::headroom);
        self.limits.dedup();
    }
}

impl Place {
    fn new(mut cgroups: Cgroups) -> Self {
        let last = cgroups.read();
        let mut place = Self {
            cgroups,
            thin: Thin::default(),
            peak: last.peak.known(),
            above: Bytes::ZERO,
            last,
            strangers: None,
            strangers_before: None,
            crowd: None,
            tight: None,
            tight_used: None,
            looked_at: None,
            looks: 0,
        };
        place.look_up();
        place
    }

    fn read(&mut self, root: &Root, now: Tick, crew: &Crew, own_pids: &BTreeSet<u32>) {
        self.read_charge();
        if self.looked_at.is_some_and(|at| now.since(at) < LOOK_EVERY) {
            return;
        }
        self.looked_at = Some(now);
        self.look_up();
        // Where many others live, one more or less changes nothing, and listing them all is dear.
        self.looks += 1;
        if self.strangers.is_some_and(|strangers| strangers > MANY) && !self.looks.is_multiple_of(MANY_EVERY)
        {
            return;
        }
        let crowd = self.cgroups.crowd().map(|crowd| (crowd, crew.fingerprint()));
        if crowd.is_some() && crowd == std::mem::replace(&mut self.crowd, crowd) {
            self.strangers_before = self.strangers;
            return;
        }
        let ours: BTreeSet<u32> = crew.members().map(|member| member.facts.key.pid).collect();
        let known = |pid: &u32| ours.contains(pid) || own_pids.contains(pid);
        let others: Option<Vec<u32>> =
            self.cgroups.members().known().map(|pids| pids.into_iter().filter(|pid| !known(pid)).collect());
        // A child of the job that is younger than the last event is not in the crew yet, and no stranger.
        let newborn = |pid: &u32| stat_of(root, *pid).known().is_none_or(|stat| known(&stat.ppid));
        let count = others.map(|others| match others.len() as u32 {
            many if many > MANY => many,
            _ => others.iter().filter(|pid| !newborn(pid)).count() as u32,
        });
        // One that was there a moment ago may be the one that was killed.
        self.strangers_before = std::mem::replace(&mut self.strangers, count);
    }

    fn read_charge(&mut self) {
        let peak = self.last.peak.known();
        self.last = self.cgroups.read();
        let rose = self.last.peak.known().filter(|now| peak.is_some_and(|before| *now > before));
        let above = rose.zip(self.last.usage.known()).map(|(peak, usage)| peak.saturating_sub(usage));
        self.above = above.unwrap_or_default();
    }

    /// Whether somebody removed it: systemd does as soon as the last process of a scope is dead.
    fn is_gone(&self) -> bool {
        self.last.usage.known().is_none()
    }

    /// Looks for the lowest limit on the way up. One that is gone had the limit it had.
    fn look_up(&mut self) {
        if self.is_gone() && self.tight.is_some() {
            return;
        }
        let tight = self.cgroups.tight_limit().known().flatten();
        self.tight_used = tight.as_ref().and_then(|tight| tight.used);
        self.tight = tight.map(|tight| (tight.limit, tight.path));
    }

    fn counter(&self, path: &Arc<str>) -> Option<Counter> {
        let strangers = self.strangers.map(|now| now.max(self.strangers_before.unwrap_or(0)));
        let (kills, limit) = (self.last.oom_kills.known()?, self.tight.clone());
        Some(Counter { place: OomPlace::Cgroup(Arc::clone(path)), kills, strangers, limit })
    }

    /// One last look: a job that was killed leaves its peak behind.
    fn farewell(&mut self, now: Tick) -> Option<CgroupRow> {
        self.last = self.cgroups.read();
        let whole = self.row(now).and_then(|row| self.thin.push(row));
        whole.or_else(|| self.thin.rest())
    }

    fn row(&mut self, now: Tick) -> Option<CgroupRow> {
        let used = self.last.usage.known()?;
        let mut usage = Span::one(used);
        let before = std::mem::replace(&mut self.peak, self.last.peak.known());
        if let (Some(peak), Some(before)) = (self.peak, before)
            && peak > before
        {
            // It rose since the last look and may have fallen again: the kernel kept it for us.
            usage.max = peak.max(used);
        }
        Some(CgroupRow {
            path: Arc::clone(self.cgroups.path()),
            version: self.cgroups.version(),
            tick: now,
            ticks: 1,
            usage,
            limit: self.last.limit.known(),
            anon: self.last.anon,
            file: self.last.file,
            shmem: self.last.shmem,
            inactive_file: self.last.inactive_file,
            kernel: self.last.kernel,
            swap: self.last.swap.known(),
            oom_kills: self.last.oom_kills.known(),
            limit_hits: self.last.limit_hits.known(),
            pressure: self.last.pressure.known(),
            strangers: self.strangers,
        })
    }
}

fn hidden(tick: Tick, path: &str) -> Event {
    let text = format!("limits of the cgroups above {path} are hidden here: unknown, not absent");
    Event { tick, kind: EventKind::Unreadable, process: None, text, data: None }
}

fn host_row(now: Tick, reading: &HostReading) -> Option<HostRow> {
    let memory = reading.memory.known()?;
    let shm = reading.dev_shm.known();
    Some(HostRow {
        tick: now,
        ticks: 1,
        total: memory.total,
        available: Span::one(memory.available),
        swap_total: memory.swap_total,
        swap_free: memory.swap_free,
        oom_kills: reading.oom_kills.known(),
        pressure: reading.pressure.known(),
        dev_shm_used: shm.map(|shm| shm.used),
        dev_shm_total: shm.map(|shm| shm.total),
    })
}
