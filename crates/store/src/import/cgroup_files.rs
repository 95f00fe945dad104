//! What the files of a memory cgroup tell, version 1 and 2, by the names that people keep for their columns.
//!
//! `memory.current` begins as the columns of `nvidia-smi --query-gpu=memory.used` do, and is no card's. A cgroup's charge
//! holds page cache, which the kernel takes back: what has to fit is the rest.

use lowtide_model::Metric;

/// What a name of a cgroup's file says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CgroupFile {
    /// All that is charged, with page cache.
    Charge,
    Anon,
    File,
    /// The same in version 1, where `rss` is told without it.
    Cache,
    Shmem,
    Swap,
    Limit,
    /// The highest charge so far.
    Peak,
    /// Anything else: kernel memory, counts of faults.
    Other,
}

/// Files, and keys of `memory.stat`, by their plain names.
const NAMES: &[(&str, CgroupFile)] = &[
    ("memory.current", CgroupFile::Charge),
    ("memory.usage_in_bytes", CgroupFile::Charge),
    ("memory.max", CgroupFile::Limit),
    ("memory.high", CgroupFile::Other),
    ("memory.low", CgroupFile::Other),
    ("memory.min", CgroupFile::Other),
    ("memory.limit_in_bytes", CgroupFile::Limit),
    ("memory.peak", CgroupFile::Peak),
    ("memory.max_usage_in_bytes", CgroupFile::Peak),
    ("memory.swap.current", CgroupFile::Swap),
    ("memory.stat.anon", CgroupFile::Anon),
    ("memory.stat.rss", CgroupFile::Anon),
    ("memory.stat.total_rss", CgroupFile::Anon),
    ("memory.stat.file", CgroupFile::File),
    ("memory.stat.cache", CgroupFile::Cache),
    ("memory.stat.total_cache", CgroupFile::Cache),
    ("total_cache", CgroupFile::Cache),
    ("memory.stat.shmem", CgroupFile::Shmem),
    ("memory.stat.total_shmem", CgroupFile::Shmem),
    ("memory.stat.swap", CgroupFile::Swap),
    ("memory.stat.total_swap", CgroupFile::Swap),
];

/// How the names of all others begin.
const OTHERS: &[&str] = &["memory.stat.", "memory.swap.", "memory.memsw.", "memory.kmem.", "memory.events"];

/// What may stand behind a name.
const TAILS: &[&str] = &["_bytes", " bytes", " [bytes]", " (bytes)", "_b", " (b)"];

/// Which file of a cgroup a name is of, with a unit behind it or without, under folders or alone.
pub(crate) fn file(name: &str) -> Option<CgroupFile> {
    let lower = name.trim().to_ascii_lowercase();
    let plain = lower.rsplit('/').next().unwrap_or(&lower);
    let plain = TAILS.iter().find_map(|tail| plain.strip_suffix(*tail)).unwrap_or(plain);
    let known = NAMES.iter().find(|(known, _)| *known == plain || *known == plain.replace("stat_", "stat."));
    let other = || OTHERS.iter().any(|start| plain.starts_with(start)).then_some(CgroupFile::Other);
    known.map(|(_, file)| *file).or_else(other)
}

/// Whether a name is of all that is charged to a cgroup.
pub(crate) fn is_charge(name: &str) -> bool {
    file(name) == Some(CgroupFile::Charge)
}

/// Whether a name is of where a cgroup's memory ends.
pub(crate) fn is_limit(name: &str) -> bool {
    file(name) == Some(CgroupFile::Limit)
}

/// The kind of memory of such a file and how well it does as the curve to judge; page cache, limits and counts are none.
pub(crate) fn meaning(file: CgroupFile) -> Option<(Metric, u8)> {
    match file {
        CgroupFile::Charge => Some((Metric::Cgroup, 7)),
        CgroupFile::Anon => Some((Metric::Anon, 8)),
        CgroupFile::Peak => Some((Metric::MaxRss, 5)),
        CgroupFile::File
        | CgroupFile::Cache
        | CgroupFile::Shmem
        | CgroupFile::Swap
        | CgroupFile::Limit
        | CgroupFile::Other => None,
    }
}
