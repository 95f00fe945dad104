//! Says of a recording that was cut off whether its last moments look like the end of memory.
//!
//! When a limit kills the job and its recorder at once, nobody is left to write down why. The last rows still tell how
//! near the limit was. Not here: kills that the recorder outlived (it writes those down as events).

use lowtide_model::{Bytes, Limit, Recording, RunState};
use std::collections::BTreeMap;

/// From this part of a limit on, its end is the likely reason.
const NEAR: f64 = 0.9;

/// One sentence, for a recording that was cut off near a limit.
pub(crate) fn cut_off_note(recording: &Recording) -> Option<String> {
    if recording.meta.state != Some(RunState::CutOff) {
        return None;
    }
    let (used, limit, whose) = near_cgroup(recording).or_else(|| near_host(recording))?;
    let share = 100.0 * used.as_f64() / limit.as_f64().max(1.0);
    Some(format!(
        "cut off, and likely killed together with the job: at its last tick {used} of {limit} were taken ({share:.0} %), the limit of {whose}"
    ))
}

/// The cgroup that was fullest in its last row.
fn near_cgroup(recording: &Recording) -> Option<(Bytes, Bytes, String)> {
    let last: BTreeMap<&str, _> = recording.cgroups.iter().map(|row| (&*row.path, row)).collect();
    let near = last.into_iter().filter_map(|(path, row)| {
        let Some(Limit::At(limit)) = row.limit else { return None };
        // The highest of the last ticks, without what the kernel takes back before it kills.
        let used = row.usage.max.saturating_sub(row.inactive_file.unwrap_or_default());
        is_near(used, limit).then(|| (used, limit, format!("cgroup {path}")))
    });
    near.max_by(|a, b| share(a).total_cmp(&share(b)))
}

fn near_host(recording: &Recording) -> Option<(Bytes, Bytes, String)> {
    let row = recording.host.last()?;
    let used = row.total.saturating_sub(row.available.min);
    is_near(used, row.total).then(|| (used, row.total, "this machine".to_owned()))
}

fn is_near(used: Bytes, limit: Bytes) -> bool {
    limit > Bytes::ZERO && used.as_f64() >= NEAR * limit.as_f64()
}

fn share(held: &(Bytes, Bytes, String)) -> f64 {
    held.0.as_f64() / held.1.as_f64()
}

#[cfg(test)]
mod tests {
    use super::*;
    use lowtide_model::{CgroupRow, CgroupVersion, HostRow, Meta, Span, Tick};

    fn cgroup(used_mib: u64, file_mib: u64) -> CgroupRow {
        CgroupRow {
            path: "/job".into(),
            version: CgroupVersion::V2,
            tick: Tick(1),
            ticks: 1,
            usage: Span::one(Bytes::from_mib(used_mib)),
            limit: Some(Limit::At(Bytes::from_mib(100))),
            anon: None,
            file: None,
            shmem: None,
            inactive_file: Some(Bytes::from_mib(file_mib)),
            kernel: None,
            swap: None,
            oom_kills: None,
            limit_hits: None,
            pressure: None,
            strangers: None,
        }
    }

    fn recording(state: RunState, cgroups: Vec<CgroupRow>) -> Recording {
        let host = HostRow {
            total: Bytes::from_mib(1000),
            available: Span::one(Bytes::from_mib(700)),
            ..HostRow::default()
        };
        let meta = Meta { state: Some(state), ..Meta::default() };
        Recording { meta, cgroups, host: vec![host], ..Recording::default() }
    }

    #[test]
    fn a_run_cut_off_at_its_limit_was_likely_killed_by_it() {
        let note = cut_off_note(&recording(RunState::CutOff, vec![cgroup(40, 0), cgroup(97, 0)])).unwrap();
        assert!(note.contains("97.0 MiB of 100 MiB were taken (97 %), the limit of cgroup /job"), "{note}");
    }

    #[test]
    fn page_cache_at_the_limit_is_no_reason_nor_is_a_finished_run() {
        assert_eq!(cut_off_note(&recording(RunState::CutOff, vec![cgroup(97, 50)])), None);
        assert_eq!(cut_off_note(&recording(RunState::Finished, vec![cgroup(97, 0)])), None);
        assert_eq!(cut_off_note(&recording(RunState::CutOff, Vec::new())), None);
    }

    #[test]
    fn a_machine_without_memory_is_a_reason_too() {
        let mut full = recording(RunState::CutOff, Vec::new());
        full.host[0].available = Span::one(Bytes::from_mib(20));
        assert!(cut_off_note(&full).unwrap().contains("this machine"));
    }
}
