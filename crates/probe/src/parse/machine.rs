//! Files of the whole machine: `meminfo`, `vmstat`, PSI, and the range pids are taken from.

use super::{lines, number, value_of, words};
use lowtide_model::{Bytes, Pressure};

/// `meminfo`, as far as it matters here.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Meminfo {
    /// All memory.
    pub total: Bytes,
    /// What can still be had without swapping.
    pub available: Bytes,
    /// All swap.
    pub swap_total: Bytes,
    /// Free swap.
    pub swap_free: Bytes,
}

/// Reads `meminfo`.
pub fn meminfo(bytes: &[u8]) -> Option<Meminfo> {
    let mut found = [None; 4];
    for line in lines(bytes) {
        let keys: [&[u8]; 4] = [b"MemTotal", b"MemAvailable", b"SwapTotal", b"SwapFree"];
        for (slot, key) in found.iter_mut().zip(keys) {
            if slot.is_none() {
                *slot = value_of(line, key).and_then(number).map(Bytes::from_kib);
            }
        }
        if found.iter().all(Option::is_some) {
            break;
        }
    }
    let [total, available, swap_total, swap_free] = found;
    Some(Meminfo {
        total: total?,
        available: available?,
        swap_total: swap_total.unwrap_or_default(),
        swap_free: swap_free.unwrap_or_default(),
    })
}

/// OOM kills since boot, from `vmstat` (Linux 4.13 on).
pub fn oom_kills(bytes: &[u8]) -> Option<u64> {
    let value = lines(bytes).find_map(|line| line.strip_prefix(b"oom_kill "))?;
    words(value).next().and_then(number)
}

/// Reads a PSI file. The line `full` is missing where it makes no sense; it counts as zero there.
pub fn pressure(bytes: &[u8]) -> Option<Pressure> {
    let line = |kind: &[u8]| lines(bytes).find_map(|line| line.strip_prefix(kind));
    let some = line(b"some ")?;
    let full = line(b"full ").unwrap_or_default();
    Some(Pressure {
        some_avg10: share(some, b"avg10=")?,
        full_avg10: share(full, b"avg10=").unwrap_or_default(),
        some_total_us: total(some)?,
        full_total_us: total(full).unwrap_or_default(),
    })
}

fn share(line: &[u8], key: &[u8]) -> Option<f64> {
    let word = words(line).find_map(|word| word.strip_prefix(key))?;
    let value: f64 = std::str::from_utf8(word).ok()?.parse().ok()?;
    (0.0..=100.0).contains(&value).then_some(value)
}

fn total(line: &[u8]) -> Option<u64> {
    words(line).find_map(|word| word.strip_prefix(b"total=")).and_then(number)
}

/// The largest pid there can be, from `sys/kernel/pid_max`, or the newest one, from `sys/kernel/ns_last_pid`.
pub fn pid_max(bytes: &[u8]) -> Option<u32> {
    words(bytes).next().and_then(number).and_then(|pid| u32::try_from(pid).ok())
}

/// The pids handed out between two moments. The kernel counts up and wraps around, so they lie in one range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PidRange {
    /// The newest pid at the first moment.
    pub after: u32,
    /// The newest pid at the second moment.
    pub up_to: u32,
}

impl PidRange {
    /// Whether this pid may have been handed out between the two moments.
    pub const fn contains(self, pid: u32) -> bool {
        if self.after <= self.up_to {
            pid > self.after && pid <= self.up_to
        } else {
            pid > self.after || pid <= self.up_to
        }
    }
}
