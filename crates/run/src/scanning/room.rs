//! How much memory a scan may take: a tenth of what it looks at, and never more than a quarter of what is left.

use super::Refusal;
use lowtide_model::{Bytes, Reading};
use lowtide_probe::Root;
use lowtide_probe::cgroup::Cgroups;
use lowtide_probe::host::Host;

/// A scan takes at most this part of what it looks at.
const PART: u64 = 10;
/// With less than this nothing useful can be done.
const LEAST: Bytes = Bytes::from_mib(24);
/// More than this is never needed.
const MOST: Bytes = Bytes::from_mib(1024);
/// This many times what a scan takes must be left: the job's own next step comes first.
const LEFT_TIMES: u64 = 4;

/// What a scan of a process of this size may take where so much is left.
pub(super) fn allowed(rss: Bytes, left: Option<Bytes>) -> Result<Bytes, Refusal> {
    let wanted = Bytes((rss.0 / PART).clamp(LEAST.0, MOST.0));
    let Some(left) = left else {
        return Ok(wanted);
    };
    let share = left.0 / LEFT_TIMES;
    if share < LEAST.0 {
        return Err(Refusal::NoRoom { left_bytes: left.0, needed_bytes: LEAST.0 * LEFT_TIMES });
    }
    Ok(Bytes(wanted.0.min(share)))
}

/// What is left here, by our own cgroup's limit and by the machine. Unknown where neither tells.
pub(super) fn left(root: &Root, pid: u32) -> Option<Bytes> {
    let machine = Host::open(root).read().memory.known().map(|memory| memory.available);
    let limit = match Cgroups::open(root, pid).and_then(|mut cgroups| cgroups.tight_limit()) {
        Reading::Known(limit) => limit,
        Reading::Unsupported | Reading::Denied | Reading::Gone => None,
    };
    let in_cgroup = limit.and_then(|limit| Some(Bytes(limit.limit.0.saturating_sub(limit.used?.0))));
    machine.into_iter().chain(in_cgroup).min()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scan_takes_a_tenth_and_leaves_three_quarters() {
        let gib = |count: u64| Bytes(count << 30);
        assert_eq!(allowed(gib(5), Some(gib(100))), Ok(Bytes(gib(5).0 / 10)));
        assert_eq!(allowed(gib(100), None), Ok(MOST));
        assert_eq!(allowed(Bytes::from_mib(10), Some(gib(1))), Ok(LEAST));
        assert_eq!(allowed(gib(17), Some(Bytes::from_mib(800))), Ok(Bytes::from_mib(200)));
    }

    #[test]
    fn a_nearly_full_place_refuses() {
        let left = Bytes::from_mib(60);
        let refusal = allowed(Bytes(17 << 30), Some(left)).unwrap_err();
        assert_eq!(refusal, Refusal::NoRoom { left_bytes: left.0, needed_bytes: LEAST.0 * LEFT_TIMES });
    }

    #[test]
    fn this_machine_has_something_left() {
        assert!(left(&Root::live(), std::process::id()).is_some_and(|left| left.0 > 0));
    }
}
