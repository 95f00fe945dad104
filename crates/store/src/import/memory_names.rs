//! Which name means memory, of what kind, and which of several is the one to judge.

use super::numbers::{BYTES, Unit, unit_in_name, unit_of_name};
use super::{cgroup_files, whose};
use lowtide_model::Metric;

/// What a name says.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Meaning {
    pub(crate) metric: Metric,
    /// Higher is the better curve to judge.
    pub(crate) rank: u8,
    pub(crate) unit: Option<Unit>,
}

/// Words in names of memory that is not what a job holds.
const OTHER_MEMORY: &[&str] =
    &["virtual", "vsz", "vms", "vmsize", "vmpeak", "swap", "vmswap", "cached", "shared", "total"];

/// Parts of names of memory that is not what a job holds, or of no memory.
const NOT_HELD: &[&str] =
    &["available", "free", "virtual", "vsz", "vms", "shared", "swap", "cached", "buff", "tokens", "total"];

fn parts(lower: &str) -> impl Iterator<Item = &str> {
    lower.split(|c: char| !c.is_ascii_alphanumeric())
}

/// Words for memory that nobody holds; the longer before those that they begin with.
pub(crate) const FREE: &[&str] = &["available", "avail", "free", "remaining", "left"];

/// What stands in one word with those: `MemAvailable`, `freemem`, `kbmemfree`.
const WITH_FREE: &[&str] = &["mem", "memory", "ram", "vram", "gpu", "gpumem", "kb", "kbmem"];

/// The function of torch.cuda that tells what is free, and after it the total.
pub(crate) const GET_INFO: &str = "mem_get_info";

const PEAK: &[&str] = &["peak", "max", "maximum", "highest"];

/// Parts of names of GPU memory. The functions of torch.cuda name no GPU, nor do the columns of `nvidia-smi
/// --query-gpu=memory.used`.
const OF_GPUS: &[&str] =
    &["gpu", "cuda", "vram", "hbm", "fb_used", "nvml", "memory_allocated", "memory_reserved", "bytes_in_use"];

/// Whether a name says that it is of a card.
pub(crate) fn says_gpu(name: &str) -> bool {
    let lower = name.to_ascii_lowercase();
    OF_GPUS.iter().any(|word| lower.contains(word))
}

/// Parts of names that say that it is memory, beside those.
const HELD_BY_GPUS: &[&str] = &["mem", "vram", "hbm", "fb_used", "alloc", "reserved", "used", "in_use"];

/// The rank from which on a name is of one process or container: there may be several, and each has its course.
const OF_ONE: u8 = 8;

/// Whether two names are of things that are alike: two processes, or two of a kind that have a number each.
pub(crate) fn are_alike(best: &str, other: &str) -> bool {
    let part = |name: &str| {
        let lower = name.to_ascii_lowercase();
        ["anon", "file", "shm", "shared", "lib", "stack"].iter().any(|part| lower.contains(part))
    };
    let (Some(a), Some(b)) = (meaning(best), meaning(other)) else { return false };
    let numbered = |name: &str| name.chars().filter(|c| !c.is_ascii_digit()).collect::<String>();
    let kin = numbered(best) == numbered(other);
    a.rank == b.rank && a.metric == b.metric && (kin || a.rank >= OF_ONE && part(best) == part(other))
}

/// Whether a name is of memory that nobody holds: `available memory`, `memory.free`, `MemAvailable`.
pub(crate) fn is_free(name: &str) -> bool {
    let lower = name.to_ascii_lowercase();
    lower.contains(GET_INFO) || parts(&lower).any(is_free_word)
}

pub(crate) fn is_free_word(word: &str) -> bool {
    let other = |free: &&str| word.strip_prefix(*free).or_else(|| word.strip_suffix(*free));
    FREE.iter().filter_map(other).any(|other| other.is_empty() || WITH_FREE.contains(&other))
}

/// What a name of memory that nobody holds is of: a card, or the machine. `None` where it says nothing of memory.
pub(crate) fn free_meaning(name: &str) -> Option<Meaning> {
    let lower = name.to_ascii_lowercase();
    let has = |words: &[&str]| words.iter().any(|word| lower.contains(word));
    let unit = unit_of_name(name);
    let memory = unit.is_some() || has(&["mem"]) || has(OF_GPUS) || parts(&lower).any(|part| part == "ram");
    let gpu = is_of_nvidia_smi(&lower) || has(OF_GPUS);
    let metric = if gpu { Metric::Gpu } else { Metric::Host };
    (is_free(name) && memory && !has(NO_SIZE) && !has(&["swap", "disk"])).then_some(Meaning {
        metric,
        rank: 1,
        unit: unit_in_name(name),
    })
}

/// What `nvidia-smi --query-gpu` tells of a card's memory.
const OF_NVIDIA_SMI: &[&str] = &["used", "free", "total", "reserved", "allocated"];

/// Whether a name in lower case is a column of `nvidia-smi`: a cgroup's files begin with `memory.` as well.
fn is_of_nvidia_smi(lower: &str) -> bool {
    let rest = lower.strip_prefix("memory.");
    rest.is_some_and(|rest| parts(rest).next().is_some_and(|word| OF_NVIDIA_SMI.contains(&word)))
}

/// Words beside `total` that make a sum of it: of processes or their parts, not all that the machine has.
const SUMMED: &[&str] = &[
    "rss",
    "pss",
    "uss",
    "vms",
    "anon",
    "proc",
    "procs",
    "process",
    "processes",
    "tree",
    "worker",
    "workers",
    "children",
    "main",
    "cache",
    "used",
    "usage",
    "allocated",
    "reserved",
];

/// Whether a name is of all the memory that there is, held or not: `memory.total`, `MemTotal`, and no sum such as
/// `total_rss`.
pub(crate) fn is_total(name: &str) -> bool {
    let lower = name.to_ascii_lowercase();
    let has = |words: &[&str]| parts(&lower).any(|part| words.contains(&part));
    cgroup_files::is_limit(&lower) || has(&["limit", "memtotal"]) || has(&["total"]) && !is_sum(&lower)
}

/// Whether a name that says `total` is of a sum of processes or of parts of them.
pub(crate) fn is_sum(name: &str) -> bool {
    parts(&name.to_ascii_lowercase()).any(|part| SUMMED.contains(&part))
}

/// The same, where the name says that it is of memory: `mem_total`, `gpu_total_mb`.
pub(crate) fn is_total_of_memory(name: &str) -> bool {
    let lower = name.to_ascii_lowercase();
    let has = |words: &[&str]| words.iter().any(|word| lower.contains(word));
    let memory = has(&["mem"]) || has(OF_GPUS) || parts(&lower).any(|part| part == "ram");
    is_total(name) && memory && !has(&["swap", "disk", "percent", "pct", "%"])
}

/// Whether a name is of memory, but not of what a job holds.
pub(crate) fn is_other_memory(name: &str) -> bool {
    is_free(name) || parts(&name.to_ascii_lowercase()).any(|part| OTHER_MEMORY.contains(&part))
}

/// Words for what is held at the moment.
const NOW: &[&str] = &["now", "current", "currently", "cur"];

pub(crate) fn is_now_word(word: &str) -> bool {
    NOW.contains(&word)
}

/// Whether a name is of what is held now, where a peak may stand beside it.
pub(crate) fn is_now(name: &str) -> bool {
    parts(&name.to_ascii_lowercase()).any(is_now_word)
}

/// Whether a name is of the highest value so far.
pub(crate) fn is_peak(name: &str) -> bool {
    parts(&name.to_ascii_lowercase()).any(|part| PEAK.contains(&part))
}

/// Parts of names of what is told of memory and is no size.
const NO_SIZE: &[&str] =
    &["percent", "pct", "%", "_frac", "memory_bandwidth", "limit", "memory clock", "memorytemp"];

/// What `torch.cuda.memory_stats()` tells of: of these, of all its pools and of each, one of the ends. People who log it put
/// `_` or `/` for its dots.
const STATS: &[&str] = &[
    "allocated.bytes",
    "reserved.bytes",
    "active.bytes",
    "requested.bytes",
    "inactive.split.bytes",
    "inactive.split",
    "allocation",
    "segment",
    "active",
];
const POOLS: &[&str] = &[".all", ".small.pool", ".large.pool"];
const ENDS: &[&str] = &[".current", ".peak", ".allocated", ".freed"];

/// Of those: what is held now, in all pools. The others are sums since the start, peaks and parts.
const HELD_IN_STATS: &[&str] = &["allocated.bytes", "reserved.bytes", "active.bytes"];

/// Whether a name in lower case is of what is held now; none if it is not one of `torch.cuda.memory_stats()`.
fn is_held_in_stats(lower: &str) -> Option<bool> {
    let plain = lower.replace(['_', '/'], ".");
    let (rest, end) = ENDS.iter().find_map(|end| Some((plain.strip_suffix(end)?, *end)))?;
    let (rest, pool) = POOLS.iter().find_map(|pool| Some((rest.strip_suffix(pool)?, *pool)))?;
    let stat = STATS.iter().find(|stat| {
        rest.strip_suffix(**stat)
            .is_some_and(|before| before.is_empty() || !before.ends_with(char::is_alphanumeric))
    })?;
    let whole = rest.strip_suffix(stat).is_some_and(|before| !before.ends_with("inactive."));
    Some(whole && HELD_IN_STATS.contains(stat) && pool == ".all" && end == ".current")
}

/// Whether the words of a name are of page cache, which nobody has to hold: `memory_cache` and no `memory_cached`, which is
/// what torch called what it reserved.
fn is_page_cache(parts: &[&str]) -> bool {
    let pair = |words: &[&str]| matches!(words, ["memory" | "page", "cache"]);
    parts.contains(&"pagecache") || parts.windows(2).any(pair)
}

/// Words in names of changes, rates and files.
const NO_LEVEL: &[&str] = &[
    "delta",
    "diff",
    "change",
    "growth",
    "increase",
    "throughput",
    "bandwidth",
    "speed",
    "disk",
    "download",
    "upload",
    "checkpoint",
    "ckpt",
    "num",
    "read",
    "write",
    "written",
    "sent",
    "recv",
    "received",
    "rx",
    "tx",
    "network",
];

/// Whether a name is of what is told of memory and is no size, or of changes, rates and files.
pub(crate) fn tells_no_level(name: &str) -> bool {
    let lower = name.to_ascii_lowercase();
    let has = |words: &[&str]| words.iter().any(|word| lower.contains(word));
    let is = |words: &[&str]| parts(&lower).any(|part| words.contains(&part));
    // A network moves bytes; its memory is memory.
    has(NO_SIZE) || is(NO_LEVEL) || is(&["net"]) && !has(&["mem"])
}

/// The meaning of a name in lower case that one program alone writes: what it tells and is no memory is none.
fn meaning_to_its_writer(lower: &str) -> Result<Option<Meaning>, NoWriterKnown> {
    if let Some(file) = cgroup_files::file(lower) {
        let unit = Some(unit_of_name(lower).unwrap_or(BYTES));
        return Ok(cgroup_files::meaning(file).map(|(metric, rank)| Meaning { metric, rank, unit }));
    }
    let held = is_held_in_stats(lower).ok_or(NoWriterKnown)?;
    Ok(held.then_some(Meaning { metric: Metric::Gpu, rank: 4, unit: Some(BYTES) }))
}

/// A name is anybody's.
struct NoWriterKnown;

/// What resident memory is to Windows: `Working Set`, and `WorkingSet64` in PowerShell.
fn is_working_set(lower: &str) -> bool {
    let plain: String = lower.chars().filter(char::is_ascii_alphabetic).collect();
    plain.ends_with("workingset")
}

/// Whether a word says alone that it is of memory in use: `memUsed`, `ramUsage`, `usedmem`.
fn is_memory_in_use(word: &str) -> bool {
    let other = |state: &&str| word.strip_suffix(*state).or_else(|| word.strip_prefix(*state));
    ["used", "usage"].iter().filter_map(other).any(|other| ["mem", "ram"].contains(&other))
}

/// Whether a name in lower case is of a card's memory.
fn is_of_gpu(lower: &str, unit: Option<Unit>) -> bool {
    let has = |words: &[&str]| words.iter().any(|word| lower.contains(word));
    let is = |words: &[&str]| parts(lower).any(|part| words.contains(&part));
    // What Transformers and its kin log beside `memory/max_allocated` is of the card too.
    let torch = has(&["mem"])
        && !has(&["heap", "cpu", "host"])
        && (is(&["allocated", "reserved"]) || is(PEAK) && is(&["active"]));
    let told = unit.is_some() || has(HELD_BY_GPUS) || is(&["ram"]);
    let device = is(&["device"]) && (unit.is_some() || has(&["mem"]));
    // What is in use in all, as rocm-smi says, is no total.
    let total = is(&["total"]) && !is(&["used"]);
    told && !total && (is_of_nvidia_smi(lower) || has(OF_GPUS) || torch || device)
}

/// The meaning of a column, key or tag; `None` when it is not about memory.
pub(crate) fn meaning(name: &str) -> Option<Meaning> {
    let lower = name.to_ascii_lowercase();
    if let Ok(known) = meaning_to_its_writer(&lower) {
        return known;
    }
    let has = |words: &[&str]| words.iter().any(|word| lower.contains(word));
    let parts: Vec<&str> = parts(&lower).collect();
    let is = |words: &[&str]| words.iter().any(|word| parts.contains(word));
    if is_free(name) || tells_no_level(&lower) {
        return None;
    }
    let peak = is(PEAK);
    let unit = unit_of_name(name);
    let gpu = is_of_gpu(&lower, unit);
    if !gpu && is_page_cache(&parts) {
        return None;
    }
    let machine = is(&["system", "sys", "machine"]) && !has(&["proc"]);
    let (metric, rank) = if has(&["maxrss", "max_rss", "peak_rss", "vmhwm", "ru_maxrss"])
        || peak && has(&["rss", "resident"])
    {
        (Metric::MaxRss, PEAK_RESIDENT)
    } else if has(&["rss", "resident"]) || is_working_set(&lower) {
        (Metric::Rss, RESIDENT)
    } else if has(&["pss"]) {
        (Metric::PssTree, 9)
    } else if is(&["anon", "uss"]) || has(&["private", "uss"]) && unit.is_some() {
        (Metric::Anon, 8)
    } else if has(&["working_set", "cgroup", "container"]) && has(&["mem", "working_set"]) {
        (Metric::Cgroup, 8)
    } else if has(&["virtual memory used", "virtual_memory_used"]) || is(&["anonpages"]) {
        // What psutil and DeepSpeed call so is the machine's memory in use.
        (Metric::Host, 7)
    } else if gpu && peak {
        (Metric::Gpu, 2)
    } else if gpu {
        (Metric::Gpu, 4)
    } else if has(NOT_HELD) {
        return None;
    } else if machine && !peak && (unit.is_some() || has(&["mem"]) || is(&["ram"])) {
        (Metric::Host, 4)
    } else if peak && (has(&["memory", "mem_"]) || is(&["mem", "ram"])) {
        (Metric::MaxRss, 5)
    } else if has(&["memory", "mem_", "speicher", "mémoire"])
        || is(&["mem", "ram", "footprint"])
        || lower.ends_with("mem")
        || parts.iter().any(|part| is_memory_in_use(part))
    {
        (Metric::Rss, 7)
    } else if has(&["heap"]) || is(&["used", "usage"]) {
        (Metric::Other(name.trim().to_owned()), 3)
    } else if has(&["allocated", "reserved"]) {
        (Metric::Gpu, 3)
    } else if unit.is_some() && !peak && whose::is_of_process(name) {
        (Metric::Rss, 5)
    } else if unit.is_some() {
        (Metric::Other(name.trim().to_owned()), 2)
    } else {
        return None;
    };
    Some(Meaning { metric, rank, unit: unit_in_name(name) })
}

/// Whether a meaning comes of a name that is only given to sizes of a process (`rss`, `pss`, `anon`): nobody tells those in
/// per cent.
pub(crate) fn is_size_by_name(meant: &Meaning) -> bool {
    match meant.metric {
        Metric::Anon | Metric::PssTree => true,
        Metric::Rss => meant.rank == RESIDENT,
        Metric::MaxRss => meant.rank == PEAK_RESIDENT,
        Metric::Host | Metric::Cgroup | Metric::Gpu | Metric::Other(_) => false,
    }
}

const RESIDENT: u8 = 10;
const PEAK_RESIDENT: u8 = 6;

/// Whether a name holds counts that go beside a memory curve: tensors, objects, workers.
pub(crate) fn count_series(name: &str) -> Option<&'static str> {
    let lower = name.to_ascii_lowercase();
    [
        ("tensor", "tensor_count"),
        ("live_buffers", "live_buffers"),
        ("objects", "objects"),
        ("workers", "workers"),
        ("threads", "threads"),
    ]
    .into_iter()
    .find(|(part, _)| lower.contains(part))
    .map(|(_, series)| series)
}

/// The name under which the engine knows a part of a process: what is live in a heap (`heapUsed`, `traced`), and what is
/// held for it.
pub(crate) fn heap_series(name: &str) -> Option<&'static str> {
    let lower = name.to_ascii_lowercase();
    let has = |words: &[&str]| words.iter().any(|word| lower.contains(word));
    if is_peak(name) || has(&["percent", "%", "limit"]) {
        return None;
    }
    let heap = lower.contains("heap");
    if heap && has(&["used", "live", "alloc", "inuse"]) || lower.contains("traced") {
        Some("heap_used")
    } else {
        (heap && has(&["total", "size", "committed", "sys"])).then_some("heap_total")
    }
}

/// Whether a name is the one the user meant.
pub(crate) fn is_named(name: &str, asked: &str) -> bool {
    let plain = |text: &str| text.trim().trim_matches(['"', '\'']).to_ascii_lowercase();
    plain(name) == plain(asked)
}
