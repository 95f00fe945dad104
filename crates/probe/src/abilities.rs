//! What can be read here, for `doctor`: each thing is tried, not guessed from a version.

use crate::cgroup::Cgroups;
use crate::events::{Feed, Source, trial};
use crate::gpu::Gpu;
use crate::open_file::read_feature;
use crate::{ProcessReader, Root, parse};
use lowtide_model::{CgroupVersion, Reading};
use std::time::Duration;

/// One thing that can or cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ability {
    /// What.
    pub name: &'static str,
    /// Whether.
    pub reading: Reading<()>,
    /// What was found.
    pub detail: String,
    /// What to do about it, when something is missing.
    pub advice: Option<&'static str>,
}

impl Ability {
    /// Whether it is there.
    pub const fn is_there(&self) -> bool {
        matches!(self.reading, Reading::Known(()))
    }

    fn new<T>(
        name: &'static str,
        reading: Reading<T>,
        detail: impl FnOnce(&T) -> String,
        advice: &'static str,
    ) -> Self {
        let text = reading.as_known().map_or_else(|| reading.word().to_owned(), detail);
        let advice = reading.as_known().is_none().then_some(advice);
        Self { name, reading: reading.map(|_| ()), detail: text, advice }
    }
}

/// Tries everything. Takes up to a second, more where an NVIDIA driver has to wake up.
pub fn all(root: &Root) -> Vec<Ability> {
    let mut abilities = vec![ptrace_scope(root)];
    abilities.extend(child(root));
    abilities.extend([pressure(root), oom_counter(root), cgroup(root), hidden_limits(root)]);
    abilities.extend(sources(root));
    abilities.extend([perf_paranoid(root), gpu()]);
    abilities
}

fn first_line(root: &Root, path: &str) -> Reading<String> {
    read_feature(&root.proc.join(path))
        .map(|bytes| parse::lines(&bytes).next().map(parse::text).unwrap_or_default())
}

fn ptrace_scope(root: &Root) -> Ability {
    let scope = first_line(root, "sys/kernel/yama/ptrace_scope");
    // Yama restricts attaching and /proc/PID/mem, not the other files: those go by the owner alone.
    let detail = match scope.as_known().map(String::as_str) {
        Some("0") => "0: the memory of any process of the same user may be looked into".to_owned(),
        Some("1") => {
            "1: only an ancestor may look into a process's memory; sizes are not restricted".to_owned()
        }
        Some(other) => {
            format!("{other}: only root may look into a process's memory; sizes are not restricted")
        }
        None => "no restriction by Yama".to_owned(),
    };
    let strict = scope.as_known().is_some_and(|scope| !matches!(scope.as_str(), "0" | "1"));
    let advice =
        strict.then_some("recording works as it is; to look into memory, set kernel.yama.ptrace_scope to 1");
    let reading = if strict { Reading::Denied } else { Reading::Known(()) };
    Ability { name: "ptrace scope", reading, detail, advice }
}

/// What can be read of a child of ours: that is what a job under `run` is.
fn child(root: &Root) -> Vec<Ability> {
    let paused = trial::PausedChild::start();
    let reader = paused.as_ref().map(|child| ProcessReader::open(root, child.pid()));
    let mut reader = reader.unwrap_or_default();
    let mut ask = |name, advice, what: fn(&mut ProcessReader) -> Reading<String>| {
        let reading = match &mut reader {
            Reading::Known(reader) => what(reader),
            Reading::Denied => Reading::Denied,
            Reading::Gone => Reading::Gone,
            Reading::Unsupported => Reading::Unsupported,
        };
        Ability::new(name, reading, String::clone, advice)
    };
    vec![
        ask("memory of a child", "mount /proc without hidepid for this user", |reader| {
            reader.status().map(|status| {
                if status.anon.is_some() { "split by kind" } else { "total only (before Linux 4.5)" }
                    .to_owned()
            })
        }),
        ask("sharing (smaps_rollup)", "needs Linux 4.14 and a job that may be traced by us", |reader| {
            reader.rollup().map(|(_, held)| format!("read in {} us", held.as_micros()))
        }),
        ask("page flags (pagemap)", "run lowtide as the job's user", |reader| {
            let pages = reader.exclusive_pages(Duration::from_millis(100));
            pages.map(|pages| format!("read in {} us", pages.took.as_micros()))
        }),
    ]
}

fn pressure(root: &Root) -> Ability {
    let reading =
        read_feature(&root.proc.join("pressure/memory")).and_then(|bytes| parse::pressure(&bytes).into());
    let detail =
        |pressure: &lowtide_model::Pressure| format!("some {:.2} % of the last 10 s", pressure.some_avg10);
    Ability::new("pressure (PSI)", reading, detail, "boot with psi=1 (Linux 4.20 on)")
}

fn oom_counter(root: &Root) -> Ability {
    let reading = read_feature(&root.proc.join("vmstat")).and_then(|bytes| parse::oom_kills(&bytes).into());
    Ability::new("OOM kill counter", reading, |kills| format!("{kills} since boot"), "needs Linux 4.13")
}

fn cgroup(root: &Root) -> Ability {
    let reading = Cgroups::open(root, std::process::id());
    let detail = |cgroups: &Cgroups| {
        let version = match cgroups.version() {
            CgroupVersion::V1 => "v1",
            CgroupVersion::V2 => "v2",
        };
        format!("{version}, {}", cgroups.path())
    };
    Ability::new(
        "memory cgroup",
        reading,
        detail,
        "mount the memory controller, or go by the host's memory alone",
    )
}

fn hidden_limits(root: &Root) -> Ability {
    let limit = Cgroups::open(root, std::process::id()).and_then(|mut cgroups| cgroups.tight_limit());
    let detail = |limit: &Option<crate::cgroup::TightLimit>| match limit {
        Some(tight) => format!("{} at {}", tight.limit, tight.path),
        None => "none on the way to the root".to_owned(),
    };
    Ability::new(
        "cgroup limits",
        limit,
        detail,
        "limits above this container are hidden: ask whoever runs it which one holds",
    )
}

fn sources(root: &Root) -> Vec<Ability> {
    let connector = Feed::open_as(root, Source::Connector).map(|_| ());
    let perf = Feed::open_as(root, Source::Perf).map(|_| ());
    let proven = |(): &()| "proven with a child".to_owned();
    vec![
        Ability::new(
            "fork events (connector)",
            connector,
            proven,
            "needs root or Linux 6.6, outside containers; otherwise perf or listing is used",
        ),
        Ability::new(
            "fork events (perf)",
            perf,
            proven,
            "allow perf_event_open (kernel.perf_event_paranoid at most 2, and the container's seccomp profile), or accept that processes shorter than a tick are not seen",
        ),
    ]
}

fn perf_paranoid(root: &Root) -> Ability {
    let level = first_line(root, "sys/kernel/perf_event_paranoid");
    Ability::new("perf_event_paranoid", level, String::clone, "this kernel has no perf events")
}

fn gpu() -> Ability {
    let detail = |gpu: &Gpu| {
        let cards = gpu.read();
        let hidden = cards.iter().any(|card| card.processes.as_known().is_none());
        let processes = if hidden {
            "per card only, a pid namespace hides the processes"
        } else {
            "per card and process"
        };
        format!("{} found, {processes}", cards.len())
    };
    Ability::new(
        "NVIDIA GPU (NVML)",
        Gpu::open(),
        detail,
        "no NVIDIA driver here; GPU memory is not recorded",
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::FakeProc;

    #[test]
    fn everything_is_tried_and_what_is_missing_has_advice() {
        let abilities = all(&Root::live());
        assert!(abilities.len() >= 10);
        for ability in &abilities {
            assert!(!ability.detail.is_empty(), "{ability:?}");
            assert_eq!(ability.is_there(), ability.advice.is_none(), "{ability:?}");
        }
        let memory = abilities.iter().find(|ability| ability.name == "memory of a child").unwrap();
        assert!(memory.is_there(), "{memory:?}");
        let names: std::collections::BTreeSet<_> = abilities.iter().map(|ability| ability.name).collect();
        assert_eq!(names.len(), abilities.len());
    }

    #[test]
    fn a_strict_ptrace_scope_is_told_with_what_to_do() {
        let dir = tempfile::tempdir().unwrap();
        let fake = FakeProc::at(dir.path()).unwrap();
        assert!(ptrace_scope(fake.root()).is_there());
        for (scope, there) in [("0\n", true), ("1\n", true), ("2\n", false), ("3\n", false)] {
            fake.file("proc/sys/kernel/yama/ptrace_scope", scope).unwrap();
            assert_eq!(ptrace_scope(fake.root()).is_there(), there, "{scope}");
        }
    }

    #[test]
    fn a_bare_machine_lacks_nearly_everything_and_says_so() {
        let dir = tempfile::tempdir().unwrap();
        let fake = FakeProc::at(dir.path()).unwrap();
        let missing = [pressure(fake.root()), oom_counter(fake.root()), perf_paranoid(fake.root())];
        assert!(
            missing.iter().all(|ability| ability.reading == Reading::Unsupported && ability.advice.is_some())
        );
        assert!(sources(fake.root()).iter().all(|ability| !ability.is_there()));
    }
}
