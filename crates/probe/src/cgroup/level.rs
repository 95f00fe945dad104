//! One memory cgroup, with its files kept open.

use crate::host::from;
use crate::open_file::OpenFile;
use crate::parse::{self, CgroupStat};
use lowtide_model::{Bytes, CgroupVersion, Limit, Pressure, Reading};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// One look at a memory cgroup. The charge and its split include the cgroups below.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct CgroupReading {
    /// The whole charge, page cache included.
    pub usage: Reading<Bytes>,
    /// The largest charge so far.
    pub peak: Reading<Bytes>,
    /// Its own limit.
    pub limit: Reading<Limit>,
    /// Where the kernel begins to slow it down (v2), or its soft limit (v1).
    pub high: Reading<Limit>,
    /// Swap charged to it.
    pub swap: Reading<Bytes>,
    /// Its limit of swap (v2), or of memory and swap together (v1).
    pub swap_limit: Reading<Limit>,
    /// Anonymous memory.
    pub anon: Option<Bytes>,
    /// Page cache, shared memory included.
    pub file: Option<Bytes>,
    /// tmpfs and shared memory.
    pub shmem: Option<Bytes>,
    /// Page cache the kernel takes back first.
    pub inactive_file: Option<Bytes>,
    /// Kernel memory.
    pub kernel: Option<Bytes>,
    /// Processes killed for memory; on v2 those below included.
    pub oom_kills: Reading<u64>,
    /// Processes killed for memory in this cgroup alone; only v2 tells them apart.
    pub local_oom_kills: Reading<u64>,
    /// How often the limit was hit.
    pub limit_hits: Reading<u64>,
    /// Pressure on memory inside it; only v2.
    pub pressure: Reading<Pressure>,
    /// The lowest limit on the way to the root, hidden levels included; only v1 tells.
    pub hierarchical_limit: Option<Limit>,
}

impl CgroupReading {
    /// The charge without what the kernel takes back at once.
    pub fn working_set(&self) -> Option<Bytes> {
        self.usage.known().map(|usage| usage.saturating_sub(self.inactive_file.unwrap_or_default()))
    }
}

/// One cgroup on the way up.
#[derive(Debug)]
pub struct Level {
    version: CgroupVersion,
    path: Arc<str>,
    dir: PathBuf,
    usage: OpenFile,
    limit: Reading<OpenFile>,
    stat: Reading<OpenFile>,
    /// Opened at the first full read: ancestors are mostly asked for usage and limit only.
    rest: Option<Rest>,
}

#[derive(Debug)]
struct Rest {
    peak: Reading<OpenFile>,
    high: Reading<OpenFile>,
    swap: Reading<OpenFile>,
    swap_limit: Reading<OpenFile>,
    events: Reading<OpenFile>,
    /// v2: `memory.events.local`; v1: `memory.failcnt`.
    second_events: Reading<OpenFile>,
    /// v2: pressure; v1: kernel memory.
    extra: Reading<OpenFile>,
}

impl Level {
    pub(super) fn open(version: CgroupVersion, path: Arc<str>, dir: PathBuf) -> Reading<Self> {
        let (usage, limit) = match version {
            CgroupVersion::V1 => ("memory.usage_in_bytes", "memory.limit_in_bytes"),
            CgroupVersion::V2 => ("memory.current", "memory.max"),
        };
        OpenFile::open_feature(dir.join(usage)).map(|usage| Self {
            version,
            path,
            usage,
            limit: OpenFile::open_feature(dir.join(limit)),
            stat: OpenFile::open_feature(dir.join("memory.stat")),
            rest: None,
            dir,
        })
    }

    /// Path, as seen from our mount.
    pub fn path(&self) -> &Arc<str> {
        &self.path
    }

    /// Its folder.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Charge, limit and split alone.
    pub fn read_usage(&mut self) -> CgroupReading {
        let mut reading = CgroupReading {
            usage: number(&self.usage).map(Bytes),
            limit: limit(&self.limit),
            ..CgroupReading::default()
        };
        let parse_stat = match self.version {
            CgroupVersion::V1 => parse::cgroup_stat_v1,
            CgroupVersion::V2 => parse::cgroup_stat_v2,
        };
        if let Reading::Known(stat) = from::<8192, _>(&self.stat, |bytes| Some(parse_stat(bytes))) {
            reading.take(stat);
        }
        reading
    }

    /// Everything.
    pub fn read(&mut self) -> CgroupReading {
        let mut reading = self.read_usage();
        let rest = self.rest.get_or_insert_with(|| Rest::open(self.version, &self.dir));
        reading.peak = optional_number(&rest.peak).map(Bytes);
        reading.high = limit(&rest.high);
        reading.swap_limit = limit(&rest.swap_limit);
        match self.version {
            CgroupVersion::V1 => rest.read_v1(&mut reading),
            CgroupVersion::V2 => rest.read_v2(&mut reading),
        }
        reading
    }
}

impl CgroupReading {
    fn take(&mut self, stat: CgroupStat) {
        self.anon = stat.anon;
        self.file = stat.file;
        self.shmem = stat.shmem;
        self.inactive_file = stat.inactive_file;
        self.kernel = stat.kernel;
        self.swap = stat.swap.into();
        self.hierarchical_limit = stat.hierarchical_limit;
    }
}

impl Rest {
    fn open(version: CgroupVersion, dir: &Path) -> Self {
        let names = match version {
            CgroupVersion::V1 => [
                "memory.max_usage_in_bytes",
                "memory.soft_limit_in_bytes",
                "memory.memsw.usage_in_bytes",
                "memory.memsw.limit_in_bytes",
                "memory.oom_control",
                "memory.failcnt",
                "memory.kmem.usage_in_bytes",
            ],
            CgroupVersion::V2 => [
                "memory.peak",
                "memory.high",
                "memory.swap.current",
                "memory.swap.max",
                "memory.events",
                "memory.events.local",
                "memory.pressure",
            ],
        };
        let [peak, high, swap, swap_limit, events, second_events, extra] =
            names.map(|name| OpenFile::open_feature(dir.join(name)));
        Self { peak, high, swap, swap_limit, events, second_events, extra }
    }

    fn read_v1(&self, reading: &mut CgroupReading) {
        let events = from::<512, _>(&self.events, |bytes| parse::memory_events_v1(bytes).oom_kills);
        reading.oom_kills = events;
        reading.limit_hits = optional_number(&self.second_events);
        reading.kernel = optional_number(&self.extra).known().map(Bytes);
        // Older kernels do not tell swap in memory.stat: it is what memory and swap have over memory.
        if reading.swap.as_known().is_none()
            && let (Reading::Known(both), Reading::Known(memory)) =
                (optional_number(&self.swap), reading.usage)
        {
            reading.swap = Reading::Known(Bytes(both).saturating_sub(memory));
        }
    }

    fn read_v2(&self, reading: &mut CgroupReading) {
        let events = |file| from::<512, _>(file, |bytes| Some(parse::memory_events_v2(bytes)));
        let all = events(&self.events);
        reading.oom_kills = all.known().and_then(|events| events.oom_kills).into();
        reading.limit_hits = all.known().and_then(|events| events.limit_hits).into();
        reading.local_oom_kills =
            events(&self.second_events).known().and_then(|events| events.oom_kills).into();
        reading.swap = optional_number(&self.swap).map(Bytes);
        reading.pressure = from::<512, _>(&self.extra, parse::pressure);
    }
}

fn number(file: &OpenFile) -> Reading<u64> {
    file.parse::<64, _>(crate::open_file::Kind::Feature, parse::single_number)
}

fn optional_number(file: &Reading<OpenFile>) -> Reading<u64> {
    from::<64, _>(file, parse::single_number)
}

fn limit(file: &Reading<OpenFile>) -> Reading<Limit> {
    from::<64, _>(file, parse::cgroup_limit)
}
