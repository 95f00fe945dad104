//! Was it the kernel's OOM killer? A death by signal 9 looks the same from outside, whoever sent it.
//!
//! It is called OOM only if a kill counter rose around the death: the cgroup's own, or the machine's where that can't be
//! read, as when systemd was quicker and removed the cgroup. Where strangers share the counter, the kill may have been
//! theirs, so it is only "likely".

use lowtide_model::{Bytes, Exit, ProcKey, Tick};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

const SIGKILL: i32 = 9;
/// A rise explains only a death that follows at once: between the two lies the time in which the kernel takes the
/// victim's memory apart. Longer, and a kill by hand after a stranger's death would be called the kernel's.
const CLAIM_TIME: Duration = Duration::from_millis(600);

/// One counter of OOM kills, with whom it is shared.
#[derive(Clone, Debug)]
pub(crate) struct Counter {
    /// The cgroup's path, or the machine.
    pub(crate) place: Place,
    pub(crate) kills: u64,
    /// Processes there that are not of the job; `None` when that can't be told.
    pub(crate) strangers: Option<u32>,
    /// The limit that holds there, and the cgroup it belongs to; of the machine, that of a cgroup of the job that is gone.
    pub(crate) limit: Option<(Bytes, Arc<str>)>,
}

/// Whose counter.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Place {
    Cgroup(Arc<str>),
    Machine,
}

/// What is said of a death.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OomCall {
    /// Who died.
    pub process: ProcKey,
    /// Whether nothing else can explain it.
    pub certain: bool,
    /// The sentence.
    pub text: String,
    /// The limit that ended it, where it is known.
    #[serde(default)]
    pub limit_bytes: Option<Bytes>,
    /// Whose limit that is.
    #[serde(default)]
    pub limit_from: Option<String>,
}

/// Remembers the counters and which of their rises already have a death.
#[derive(Debug, Default)]
pub(crate) struct OomWatch {
    last: BTreeMap<Place, u64>,
    unclaimed: Vec<(Tick, Counter)>,
}

impl OomWatch {
    /// Takes in the counters as they are now. A kill in a cgroup raises the machine's too, which therefore only counts
    /// where it is alone.
    pub(crate) fn look(&mut self, now: Tick, counters: impl IntoIterator<Item = Counter, IntoIter: Clone>) {
        self.unclaimed.retain(|(at, _)| now.since(*at) < CLAIM_TIME);
        let counters = counters.into_iter();
        let alone = counters.clone().all(|counter| counter.place == Place::Machine);
        for counter in counters {
            let before = self.last.insert(counter.place.clone(), counter.kills);
            let rose = before.map_or(0, |before| counter.kills.saturating_sub(before));
            if alone || counter.place != Place::Machine {
                self.unclaimed.extend((0..rose.min(64)).map(|_| (now, counter.clone())));
            }
        }
    }

    /// Whether this death was the kernel's doing. A rise of a counter explains one death only.
    pub(crate) fn call(&mut self, process: ProcKey, exit: Exit) -> Option<OomCall> {
        if exit != Exit::Signal(SIGKILL) {
            return None;
        }
        if self.unclaimed.is_empty() {
            return None;
        }
        let (_, counter) = self.unclaimed.remove(0);
        Some(sentence(process, &counter))
    }
}

fn sentence(process: ProcKey, counter: &Counter) -> OomCall {
    let (what, doubt) = match (&counter.place, counter.strangers) {
        (Place::Cgroup(path), strangers) => {
            let what = match &counter.limit {
                Some((limit, owner)) => format!("the memory limit of {limit} of cgroup {owner}"),
                None => format!("a memory limit at or above cgroup {path}"),
            };
            let doubt = match strangers {
                Some(0) => None,
                Some(1) => Some("another process shares that cgroup".to_owned()),
                Some(n) => Some(format!("{n} other processes share that cgroup")),
                None => Some("it could not be told who else lives in that cgroup".to_owned()),
            };
            (what, doubt)
        }
        (Place::Machine, _) => match &counter.limit {
            Some((limit, owner)) => {
                let doubt = "that cgroup was removed before its counter could be read; the machine's rose";
                (format!("the memory limit of {limit} of cgroup {owner}"), Some(doubt.to_owned()))
            }
            None => {
                let doubt = "the counter is the machine's, shared by all its processes";
                ("the machine running out of memory".to_owned(), Some(doubt.to_owned()))
            }
        },
    };
    let pid = process.pid;
    let text = match &doubt {
        None => format!("process {pid} was killed by the kernel: out of memory, by {what}"),
        Some(doubt) => {
            format!(
                "process {pid} was likely killed by the kernel: out of memory, by {what} (likely, not sure: {doubt})"
            )
        }
    };
    let limit = counter.limit.as_ref();
    OomCall {
        process,
        certain: doubt.is_none(),
        text,
        limit_bytes: limit.map(|limit| limit.0),
        limit_from: limit.map(|limit| format!("cgroup {}", limit.1)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WHO: ProcKey = ProcKey { pid: 7, start_ticks: 1 };
    const KILLED: Exit = Exit::Signal(SIGKILL);

    fn cgroup(kills: u64, strangers: Option<u32>) -> Counter {
        Counter {
            place: Place::Cgroup("/job".into()),
            kills,
            strangers,
            limit: Some((Bytes::from_mib(512), "/job".into())),
        }
    }

    fn second(second: u64) -> Tick {
        Tick(second * 1_000_000_000)
    }

    #[test]
    fn a_kill_without_a_counter_is_somebodys_kill() {
        let mut watch = OomWatch::default();
        watch.look(second(1), [cgroup(3, Some(0))]);
        watch.look(second(2), [cgroup(3, Some(0))]);
        assert_eq!(watch.call(WHO, KILLED), None);
    }

    #[test]
    fn a_risen_counter_explains_one_death_by_sigkill() {
        let mut watch = OomWatch::default();
        watch.look(second(1), [cgroup(0, Some(0))]);
        watch.look(second(2), [cgroup(1, Some(0))]);
        assert_eq!(watch.call(WHO, Exit::Code(1)), None, "a normal exit is none of it");
        assert!(watch.call(WHO, KILLED).unwrap().certain);
        assert_eq!(watch.call(WHO, KILLED), None, "claimed");
    }

    #[test]
    fn strangers_in_the_cgroup_make_it_likely_only() {
        let mut watch = OomWatch::default();
        watch.look(second(1), [cgroup(0, Some(4))]);
        watch.look(second(2), [cgroup(1, Some(4))]);
        let call = watch.call(WHO, KILLED).unwrap();
        assert!(!call.certain && call.text.contains("4 other processes"), "{}", call.text);
    }

    #[test]
    fn a_kill_in_a_cgroup_that_is_gone_is_told_by_the_machines_counter() {
        let machine = |kills, limit| Counter { place: Place::Machine, kills, strangers: None, limit };
        let limit = cgroup(0, None).limit;
        let mut watch = OomWatch::default();
        watch.look(second(1), [cgroup(0, Some(0)), machine(4, None)]);
        watch.look(second(2), [machine(5, limit.clone())]);
        let call = watch.call(WHO, KILLED).unwrap();
        assert!(!call.certain && call.text.contains("512 MiB of cgroup /job (likely"), "{}", call.text);
        assert_eq!(watch.call(WHO, KILLED), None, "claimed");
        watch.look(second(3), [cgroup(1, Some(0)), machine(6, None)]);
        assert!(watch.call(WHO, KILLED).unwrap().certain, "a cgroup that can be read speaks for itself");
        assert_eq!(watch.call(WHO, KILLED), None, "the same kill in two counters is one");
        watch.look(second(4), [cgroup(1, Some(0)), machine(9, None)]);
        assert_eq!(watch.call(WHO, KILLED), None, "kills elsewhere");
    }

    #[test]
    fn a_first_look_at_an_old_counter_accuses_nobody() {
        let mut watch = OomWatch::default();
        watch.look(second(1), [cgroup(9, Some(0))]);
        assert_eq!(watch.call(WHO, KILLED), None);
    }

    #[test]
    fn an_old_rise_is_forgotten() {
        let mut watch = OomWatch::default();
        watch.look(second(1), [cgroup(0, Some(0))]);
        watch.look(second(2), [cgroup(1, Some(0))]);
        watch.look(second(60), [cgroup(1, Some(0))]);
        assert_eq!(watch.call(WHO, KILLED), None);
    }
}
