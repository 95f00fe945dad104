//! Files that say which cgroup a process is in, where cgroups are mounted, and what a memory cgroup holds.

use super::{lines, number, text, words};
use lowtide_model::{Bytes, Limit};

/// One line of `/proc/PID/cgroup`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Membership {
    /// Number of the hierarchy; 0 is the unified one.
    pub hierarchy: u32,
    /// Controllers of a v1 hierarchy; empty for the unified one.
    pub controllers: Vec<String>,
    /// The path in that hierarchy, as seen from our cgroup namespace.
    pub path: String,
}

/// Reads `/proc/PID/cgroup`. The kernel escapes newlines in paths, and a path may hold colons.
pub fn membership(bytes: &[u8]) -> Vec<Membership> {
    lines(bytes).filter_map(membership_line).collect()
}

fn membership_line(line: &[u8]) -> Option<Membership> {
    let mut parts = line.splitn(3, |byte| *byte == b':');
    let (hierarchy, controllers, path) = (parts.next()?, parts.next()?, parts.next()?);
    // "(deleted)" is added when the cgroup was removed under the process.
    let path = path.strip_suffix(b" (deleted)").unwrap_or(path);
    Some(Membership {
        hierarchy: u32::try_from(number(hierarchy)?).ok()?,
        controllers: controllers
            .split(|byte| *byte == b',')
            .filter(|name| !name.is_empty())
            .map(text)
            .collect(),
        path: text(path),
    })
}

/// One line of `mountinfo`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mount {
    /// Which part of the file system is mounted here.
    pub root: String,
    /// Where.
    pub point: String,
    /// File system type.
    pub kind: String,
    /// Options of the file system; for a v1 cgroup mount they name its controllers.
    pub options: Vec<String>,
}

/// Reads the lines of `mountinfo` whose file system type `wanted` accepts.
pub fn mountinfo(bytes: &[u8], wanted: impl Fn(&[u8]) -> bool) -> Vec<Mount> {
    lines(bytes).filter_map(|line| mount_line(line, &wanted)).collect()
}

fn mount_line(line: &[u8], wanted: impl Fn(&[u8]) -> bool) -> Option<Mount> {
    let mut fields = line.split(|byte| *byte == b' ');
    let (root, point) = (fields.nth(3)?, fields.next()?);
    // Optional fields follow, ended by a lone dash.
    fields.by_ref().find(|field| *field == b"-")?;
    let kind = fields.next().filter(|kind| wanted(kind))?;
    let options = fields.nth(1)?;
    Some(Mount {
        root: unescape(root),
        point: unescape(point),
        kind: text(kind),
        options: options.split(|byte| *byte == b',').map(text).collect(),
    })
}

/// Undoes the kernel's `\040` for space, tab, newline and backslash.
fn unescape(field: &[u8]) -> String {
    let mut plain = Vec::with_capacity(field.len());
    let mut rest = field;
    while let Some((&byte, tail)) = rest.split_first() {
        let code = (byte == b'\\').then(|| tail.get(..3).and_then(octal)).flatten();
        let (plain_byte, skip) = code.map_or((byte, 0), |code| (code, 3));
        plain.push(plain_byte);
        rest = tail.get(skip..).unwrap_or_default();
    }
    text(&plain)
}

fn octal(digits: &[u8]) -> Option<u8> {
    digits.iter().try_fold(0_u8, |sum, byte| {
        let digit = char::from(*byte).to_digit(8)?;
        sum.checked_mul(8)?.checked_add(digit as u8)
    })
}

/// A file that holds one number.
pub fn single_number(bytes: &[u8]) -> Option<u64> {
    words(bytes).next().and_then(number)
}

/// A file that holds a limit: a number, or `max` (v2), or a number beyond all memory (v1's way to say none).
pub fn cgroup_limit(bytes: &[u8]) -> Option<Limit> {
    // v1 stores limits in pages: none is the largest signed count, rounded down to the page size in use. No page
    // is larger than 1 MiB.
    const NONE_FROM: u64 = (i64::MAX as u64) & !0xf_ffff;
    match words(bytes).next()? {
        b"max" => Some(Limit::Unlimited),
        word => {
            number(word).map(|size| if size >= NONE_FROM { Limit::Unlimited } else { Limit::At(Bytes(size)) })
        }
    }
}

/// `memory.stat`, as far as it matters here, the cgroups below included.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CgroupStat {
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
    /// Swapped out; only v1 tells it here.
    pub swap: Option<Bytes>,
    /// The lowest limit on the way to the root, hidden levels included; only v1 tells.
    pub hierarchical_limit: Option<Limit>,
}

/// Reads v2's `memory.stat`.
pub fn cgroup_stat_v2(bytes: &[u8]) -> CgroupStat {
    let mut stat = CgroupStat::default();
    let mut kernel_parts = None::<Bytes>;
    for (key, value) in pairs(bytes) {
        let size = number(value).map(Bytes);
        match key {
            b"anon" => stat.anon = size,
            b"file" => stat.file = size,
            b"shmem" => stat.shmem = size,
            b"inactive_file" => stat.inactive_file = size,
            b"kernel" => stat.kernel = size,
            // Before Linux 5.18 there is no sum, only its parts.
            b"kernel_stack" | b"slab" | b"pagetables" | b"percpu" => {
                kernel_parts =
                    Some(kernel_parts.unwrap_or_default().saturating_add(size.unwrap_or_default()));
            }
            _ => {}
        }
    }
    stat.kernel = stat.kernel.or(kernel_parts);
    stat
}

/// Reads v1's `memory.stat`; the `total_` lines hold the cgroups below too.
pub fn cgroup_stat_v1(bytes: &[u8]) -> CgroupStat {
    let mut stat = CgroupStat::default();
    for (key, value) in pairs(bytes) {
        let size = number(value).map(Bytes);
        match key {
            b"total_rss" => stat.anon = size,
            b"total_cache" => stat.file = size,
            b"total_shmem" => stat.shmem = size,
            b"total_inactive_file" => stat.inactive_file = size,
            b"total_swap" => stat.swap = size,
            b"hierarchical_memory_limit" => stat.hierarchical_limit = cgroup_limit(value),
            _ => {}
        }
    }
    stat
}

/// What happened in a memory cgroup.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemoryEvents {
    /// Processes killed for memory.
    pub oom_kills: Option<u64>,
    /// How often the limit was hit; v1 tells it in a file of its own.
    pub limit_hits: Option<u64>,
    /// How often `memory.high` was exceeded; only v2.
    pub high_hits: Option<u64>,
}

/// Reads v2's `memory.events` and `memory.events.local`.
pub fn memory_events_v2(bytes: &[u8]) -> MemoryEvents {
    let find =
        |wanted: &[u8]| pairs(bytes).find(|(key, _)| *key == wanted).and_then(|(_, value)| number(value));
    MemoryEvents { oom_kills: find(b"oom_kill"), limit_hits: find(b"max"), high_hits: find(b"high") }
}

/// Reads v1's `memory.oom_control`.
pub fn memory_events_v1(bytes: &[u8]) -> MemoryEvents {
    let oom_kills = pairs(bytes).find(|(key, _)| *key == b"oom_kill").and_then(|(_, value)| number(value));
    MemoryEvents { oom_kills, ..MemoryEvents::default() }
}

/// The pids of `cgroup.procs`. A process outside our pid namespace stands there as 0.
pub fn cgroup_pids(bytes: &[u8]) -> impl Iterator<Item = u32> {
    lines(bytes).filter_map(number).filter_map(|pid| u32::try_from(pid).ok())
}

fn pairs(bytes: &[u8]) -> impl Iterator<Item = (&[u8], &[u8])> {
    lines(bytes).filter_map(|line| {
        let mut fields = words(line);
        Some((fields.next()?, fields.next()?))
    })
}
