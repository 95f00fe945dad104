//! What a death says of the limit: a job that the kernel killed for memory did not fit, whatever its curve looks like.
//!
//! Three ways to know: the recorder saw the kill; a process died of a bus error with /dev/shm full; or the recording is
//! cut off while its last rows stand at a limit, because the recorder died with the job. Not here: whether a kill was
//! the kernel's (the recorder says that as it happens).

use crate::live::LiveJudge;
use crate::phrases::size;
use crate::verdict::{Fits, Outcome, Verdict};
use lowtide_model::{Bytes, CgroupRow, Event, EventKind, Exit, HostRow, Limit, ProcKey, Recording, RunState};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::sync::Arc;

/// From this part of a limit on, its end is the likely reason for being cut off ...
const NEAR: f64 = 0.9;
/// ... and from this part on, what came next did not fit.
const AT_LIMIT: f64 = 0.95;
/// /dev/shm is full from this part on: what did not fit is not in it.
const SHM_FULL: f64 = 0.8;
/// A bus error: what a process dies of when shared memory has no room for its pages; by itself, or told by a shell.
const SIGBUS: i32 = 7;
const SIGBUS_CODE: i32 = 128 + SIGBUS;
/// Kills and cgroups that are remembered.
const MOST: usize = 64;

/// What the recorder writes down of a kill; older ones wrote no limit.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct Call {
    certain: bool,
    limit_bytes: Option<u64>,
    limit_from: Option<String>,
}

/// A process that died of a limit.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Death {
    process: Option<ProcKey>,
    is: Fits,
    limit: Option<f64>,
    from: Option<String>,
    /// For the headline.
    short: String,
    /// For the evidence.
    sentence: String,
}

impl Death {
    /// Whether this process is the one that died.
    pub(crate) fn is_of(&self, key: ProcKey) -> bool {
        self.process == Some(key)
    }

    /// The outcome is what happened. What was needed is more than the limit that ended it.
    pub(crate) fn decide(&self, outcome: &mut Outcome, held: f64) {
        let planned = outcome.needs_bytes.unwrap_or(0.0);
        outcome.is = self.is;
        outcome.limit_bytes = self.limit.or(outcome.limit_bytes);
        outcome.limit_from = self.from.clone().or_else(|| outcome.limit_from.take());
        let least = if self.is == Fits::Exceeds { outcome.limit_bytes.unwrap_or(held) } else { held };
        outcome.needs_bytes = Some(planned.max(held).max(least));
        outcome.death = Some(self.short.clone());
    }
}

/// What speaks of deaths in a run.
#[derive(Clone, Debug, Default)]
pub(crate) struct Deaths {
    kills: Vec<(Option<ProcKey>, Call, String)>,
    /// Newest row of each cgroup that has a limit.
    cgroups: BTreeMap<Arc<str>, CgroupRow>,
    /// Whether the recorder died before it could close the file.
    pub(crate) cut_off: bool,
}

impl Deaths {
    pub(crate) fn push_event(&mut self, event: &Event) {
        if event.kind == EventKind::Oom && self.kills.len() < MOST {
            let call = event.data.as_deref().and_then(|text| serde_json::from_str(text).ok());
            self.kills.push((event.process, call.unwrap_or_default(), event.text.clone()));
        }
    }

    pub(crate) fn push_cgroup(&mut self, row: &CgroupRow) {
        let known = self.cgroups.contains_key(&row.path);
        if matches!(row.limit, Some(Limit::At(_))) && (known || self.cgroups.len() < MOST) {
            self.cgroups.insert(row.path.clone(), row.clone());
        }
    }

    /// The smallest limit at or above a cgroup.
    fn limit_of(&self, cgroup: &str) -> Option<(f64, String)> {
        let above = |path: &str| cgroup == path || path == "/" || cgroup.starts_with(&format!("{path}/"));
        let limits = self.cgroups.values().filter(|row| above(&row.path)).filter_map(|row| match row.limit {
            Some(Limit::At(limit)) => Some((limit.as_f64(), format!("cgroup {}", row.path))),
            Some(Limit::Unlimited) | None => None,
        });
        limits.min_by(|a, b| a.0.total_cmp(&b.0))
    }
}

impl LiveJudge {
    /// The death that decides the outcome of a run: the kernel's kill first, then what only looks like one.
    pub(crate) fn death(&self) -> Option<Death> {
        self.killed().or_else(|| self.bus_error()).or_else(|| self.cut_off())
    }

    fn killed(&self) -> Option<Death> {
        let (process, call, text) = self.deaths.kills.last()?;
        let told = call.limit_bytes.map(|limit| limit as f64).zip(call.limit_from.clone());
        let own = || {
            let cgroup = self.processes.get(&(*process)?)?.cgroup.as_deref()?;
            self.deaths.limit_of(cgroup)
        };
        let host = || self.host.map(|host| (host.total.as_f64(), "the machine's memory".to_owned()));
        let at = told.or_else(own).or_else(host);
        let many = self.deaths.kills.len();
        let kills = if many > 1 { format!(" ({many} kills in all)") } else { String::new() };
        let likely = if call.certain { "" } else { "likely " };
        let place =
            at.as_ref().map(|(limit, from)| format!(", at {} of {from}", size(*limit))).unwrap_or_default();
        let pid = process.map_or_else(|| "a process".to_owned(), |key| format!("process {}", key.pid));
        Some(Death {
            process: *process,
            is: Fits::Exceeds,
            short: format!("it did not fit: {pid} was {likely}killed for memory{place}{kills}"),
            sentence: text.clone(),
            limit: at.as_ref().map(|at| at.0),
            from: at.map(|at| at.1),
        })
    }

    /// Processes that died of a bus error.
    pub(crate) fn bus_errors(&self) -> impl Iterator<Item = ProcKey> + '_ {
        let died = |exit: Option<Exit>| matches!(exit, Some(Exit::Signal(SIGBUS) | Exit::Code(SIGBUS_CODE)));
        self.processes.values().filter(move |process| died(process.exit)).map(|process| process.key)
    }

    fn bus_error(&self) -> Option<Death> {
        let process = self.bus_errors().next()?;
        let (used, all) = self.host.and_then(|host| host.dev_shm_used.zip(host.dev_shm_total))?;
        let full = all > Bytes::ZERO && used.as_f64() >= SHM_FULL * all.as_f64();
        full.then(|| Death {
            process: Some(process),
            is: Fits::Exceeds,
            limit: Some(all.as_f64()),
            from: Some("/dev/shm".to_owned()),
            short: format!(
                "it did not fit: process {} died of a bus error with {used} of {all} in /dev/shm",
                process.pid
            ),
            sentence: format!(
                "process {} died of a bus error: shared memory had no room for its pages",
                process.pid
            ),
        })
    }

    fn cut_off(&self) -> Option<Death> {
        let near =
            self.deaths.cut_off.then(|| fullest(self.deaths.cgroups.values(), self.host.as_ref()))??;
        let is = if near.share() >= AT_LIMIT { Fits::Exceeds } else { Fits::Tight };
        let verdict = if is == Fits::Exceeds { "it likely did not fit" } else { "tight" };
        Some(Death {
            process: None,
            is,
            limit: Some(near.limit.as_f64()),
            from: Some(near.whose.clone()),
            short: format!("{verdict}: the recording is cut off at {} of {}", near.used, near.limit),
            sentence: near.sentence(),
        })
    }
}

impl Verdict {
    /// Adds the death to the evidence.
    pub(crate) fn tell_death(&mut self, death: &Death) {
        if !self.evidence.contains(&death.sentence) {
            self.evidence.insert(self.evidence.len().min(1), death.sentence.clone());
        }
        if self.outcome.death.is_none() {
            death.decide(&mut self.outcome, self.floor.end_bytes);
            self.headline = format!("{}; {}", self.headline, death.short);
        }
    }
}

/// A limit that was nearly reached when the recording was cut off.
struct Near {
    used: Bytes,
    limit: Bytes,
    whose: String,
}

impl Near {
    fn share(&self) -> f64 {
        self.used.as_f64() / self.limit.as_f64().max(1.0)
    }

    fn sentence(&self) -> String {
        format!(
            "cut off, and likely killed together with the job: at its last tick {} of {} were taken ({:.0} %), the limit of {}",
            self.used,
            self.limit,
            100.0 * self.share(),
            self.whose
        )
    }
}

/// One sentence, for a recording that was cut off near a limit.
pub fn cut_off_note(recording: &Recording) -> Option<String> {
    let last: BTreeMap<&str, &CgroupRow> = recording.cgroups.iter().map(|row| (&*row.path, row)).collect();
    let cut_off = recording.meta.state == Some(RunState::CutOff);
    let near = cut_off.then(|| fullest(last.into_values(), recording.host.last()))??;
    Some(near.sentence())
}

/// The cgroup that was fullest in its last row, else the machine: only where the limit was near.
fn fullest<'a>(cgroups: impl Iterator<Item = &'a CgroupRow>, host: Option<&HostRow>) -> Option<Near> {
    let held = cgroups.filter_map(|row| {
        let Some(Limit::At(limit)) = row.limit else { return None };
        // The highest of the last ticks, without what the kernel takes back before it kills.
        let used = row.usage.max.saturating_sub(row.inactive_file.unwrap_or_default());
        Some(Near { used, limit, whose: format!("cgroup {}", row.path) })
    });
    let near = |near: &Near| near.limit > Bytes::ZERO && near.share() >= NEAR;
    let machine = || {
        let host = host?;
        let used = host.total.saturating_sub(host.available.min);
        Some(Near { used, limit: host.total, whose: "this machine".to_owned() })
    };
    held.filter(near).max_by(|a, b| a.share().total_cmp(&b.share())).or_else(|| machine().filter(near))
}

#[cfg(test)]
mod tests {
    use super::*;
    use lowtide_model::{CgroupVersion, Meta, Span, Tick};

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

    #[test]
    fn the_smallest_limit_above_the_victim_is_the_one_that_ended_it() {
        let mut deaths = Deaths::default();
        deaths.push_cgroup(&cgroup(90, 0));
        deaths.push_cgroup(&CgroupRow {
            path: "/jobs".into(),
            limit: Some(Limit::At(Bytes(1))),
            ..cgroup(1, 0)
        });
        assert_eq!(deaths.limit_of("/job/step").map(|l| l.1), Some("cgroup /job".to_owned()));
        assert_eq!(deaths.limit_of("/elsewhere"), None);
    }
}
