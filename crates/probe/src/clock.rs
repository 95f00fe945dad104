//! The clocks lowtide stamps with, and the bridge between them.
//!
//! Everything is told on the boot clock (`CLOCK_BOOTTIME`), which runs on through suspend and which the kernel uses
//! for a process's start. The proc connector stamps with the monotonic clock, which stands still in suspend.

use nix::time::{ClockId, clock_gettime};

/// Nanoseconds in one clock tick of `/proc/PID/stat`. `USER_HZ` is 100 on every Linux we run on; it is part of the
/// kernel's interface, not of its configuration.
pub const NS_PER_TICK: u64 = 10_000_000;

fn now(clock: ClockId) -> u64 {
    // These clocks cannot fail on a kernel that boots this program; zero would only make a time unknown.
    clock_gettime(clock).map_or(0, |time| {
        (time.tv_sec() as u64).saturating_mul(1_000_000_000).saturating_add(time.tv_nsec() as u64)
    })
}

/// Now on the boot clock, in nanoseconds.
pub fn boot_ns() -> u64 {
    now(ClockId::CLOCK_BOOTTIME)
}

/// Now on the monotonic clock, in nanoseconds.
pub fn monotonic_ns() -> u64 {
    now(ClockId::CLOCK_MONOTONIC)
}

/// CPU time this process has used, in nanoseconds.
pub fn own_cpu_ns() -> u64 {
    now(ClockId::CLOCK_PROCESS_CPUTIME_ID)
}

/// The start ticks the kernel gives to a process born at this boot-clock moment.
pub const fn ticks_of(boot_ns: u64) -> u64 {
    boot_ns / NS_PER_TICK
}

/// What has to be added to a monotonic time to get a boot time, now. It grows with each suspend, so a stamp from
/// before the last suspend comes out late by that suspend's length.
pub fn boot_minus_monotonic() -> u64 {
    // Read in this order the difference can only be too large, by the nanoseconds between the two calls.
    let monotonic = monotonic_ns();
    boot_ns().saturating_sub(monotonic)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_tick_of_the_kernel_is_ten_milliseconds() {
        let per_second = nix::unistd::sysconf(nix::unistd::SysconfVar::CLK_TCK).unwrap().unwrap();
        assert_eq!(1_000_000_000 / per_second as u64, NS_PER_TICK);
    }

    #[test]
    fn the_boot_clock_is_never_behind_the_monotonic_one() {
        let monotonic = monotonic_ns();
        assert!(boot_ns() >= monotonic);
    }
}
