//! Wakes the guard between two looks, when a cgroup's charge passes a mark. Only cgroup v1 has such a thing.

use nix::sys::eventfd::{EfdFlags, EventFd};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::path::Path;

/// Marks between what is taken now and the limit.
const MARKS: u64 = 16;

/// Marks on the way to a limit.
pub(crate) struct Wake {
    event: EventFd,
    limit: u64,
    /// The kernel watches as long as it is open.
    _usage: File,
}

impl Wake {
    /// Sets marks in a cgroup of v1.
    pub(crate) fn set(folder: &Path, used: u64, limit: u64) -> io::Result<Self> {
        let event = EventFd::from_value_and_flags(0, EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK)?;
        let usage = File::open(folder.join("memory.usage_in_bytes"))?;
        let room = limit.saturating_sub(used);
        for mark in 1..=MARKS {
            let at = used + room / (MARKS + 1) * mark;
            let line = format!("{} {} {at}", event.as_fd().as_raw_fd(), usage.as_raw_fd());
            std::fs::write(folder.join("cgroup.event_control"), line)?;
        }
        Ok(Self { event, limit, _usage: usage })
    }

    /// The limit it leads to.
    pub(crate) fn limit(&self) -> u64 {
        self.limit
    }

    /// Whether a mark was passed since the last time.
    pub(crate) fn passed(&self) -> bool {
        self.event.read().is_ok()
    }
}

impl AsFd for Wake {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.event.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
    use std::path::PathBuf;
    use std::process::Command;

    #[test]
    fn a_real_charge_that_passes_a_mark_wakes_us() {
        let folder = PathBuf::from(format!("/sys/fs/cgroup/memory/lowtide-wake-{}", std::process::id()));
        // Without a v1 controller to write to there is nothing to be woken by, and looks alone have to do.
        if std::fs::create_dir(&folder).is_err() {
            return;
        }
        let wake = Wake::set(&folder, 0, 256 << 20);
        let taken = wake.as_ref().map(|wake| {
            assert!(!wake.passed() || !wake.passed(), "setting marks may tell once where it stands");
            let take =
                "echo $$ > \"$0\"/cgroup.procs; head -c 100000000 /dev/zero | tail -c 90000000 > /dev/null";
            let status = Command::new("sh").args(["-c", take]).arg(&folder).status().unwrap();
            assert!(status.success());
            let mut ready = [PollFd::new(wake.as_fd(), PollFlags::POLLIN)];
            poll(&mut ready, PollTimeout::from(10_000_u16)).unwrap() == 1 && wake.passed()
        });
        for _ in 0..500 {
            if std::fs::remove_dir(&folder).is_ok() {
                break;
            }
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        assert!(taken.unwrap());
    }
}
