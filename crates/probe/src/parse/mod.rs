//! The kernel's text files, read as pure functions over bytes.
//!
//! Anybody can put spaces, parentheses, newlines and invalid UTF-8 into a process's name and arguments, and a file
//! can be cut off anywhere: nothing here panics, and nothing allocates more than a small multiple of its input. A
//! number that does not fit is unknown, not wrapped. Not here: opening files (see the readers).

mod cgroup;
mod machine;
mod process;

pub use cgroup::{
    CgroupStat, Membership, MemoryEvents, Mount, cgroup_limit, cgroup_pids, cgroup_stat_v1, cgroup_stat_v2,
    membership, memory_events_v1, memory_events_v2, mountinfo, single_number,
};
pub use machine::{Meminfo, PidRange, meminfo, oom_kills, pid_max, pressure};
pub(crate) use process::exit_of;
pub use process::{
    Mapping, Stat, Statm, Status, address_space_limit, cmdline, comm, environ, mapping, smaps_rollup, stat,
    statm, status,
};

/// Longest argument list kept, in bytes: more is cut off, because a name is wanted, not a copy of the input.
pub const ARGV_CAP: usize = 16 << 10;

/// The lines of a file.
pub(crate) fn lines(bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    bytes.split(|byte| *byte == b'\n').filter(|line| !line.is_empty())
}

/// The words of a line.
pub(crate) fn words(line: &[u8]) -> impl Iterator<Item = &[u8]> {
    line.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty())
}

/// A decimal number that fills the whole word.
pub(crate) fn number(word: &[u8]) -> Option<u64> {
    if word.is_empty() {
        return None;
    }
    word.iter().try_fold(0_u64, |sum, byte| {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        sum.checked_mul(10)?.checked_add(u64::from(digit))
    })
}

/// A decimal number with an optional sign.
pub(crate) fn signed(word: &[u8]) -> Option<i64> {
    match word.strip_prefix(b"-") {
        Some(rest) => number(rest).and_then(|value| 0_i64.checked_sub_unsigned(value)),
        None => number(word).and_then(|value| i64::try_from(value).ok()),
    }
}

/// A hexadecimal number that fills the whole word.
pub(crate) fn hexadecimal(word: &[u8]) -> Option<u64> {
    if word.is_empty() || word.len() > 16 {
        return None;
    }
    word.iter().try_fold(0_u64, |sum, byte| {
        let digit = char::from(*byte).to_digit(16)?;
        Some((sum << 4) | u64::from(digit))
    })
}

/// The first word of the value of a `Key:  value` line.
pub(crate) fn value_of<'a>(line: &'a [u8], key: &[u8]) -> Option<&'a [u8]> {
    words(line.strip_prefix(key)?.strip_prefix(b":")?).next()
}

/// Text as people may read it.
pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[cfg(test)]
mod tests;
