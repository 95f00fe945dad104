//! `lowtide doctor`: what can be read here, which limits hold, and what to do about what is missing.

use crate::cli::{DoctorArgs, Format};
use crate::failure::Failure;
use crate::render::{self, Checkup};
use lowtide_model::{LimitHeld, LimitKind, ProcKey, Reading};
use lowtide_probe::cgroup::Cgroups;
use lowtide_probe::host::{self, Host};
use lowtide_probe::{ProcessReader, Root, abilities, limits};
use std::process::ExitCode;

pub(crate) fn doctor(args: &DoctorArgs) -> Result<ExitCode, Failure> {
    let root = Root::live();
    let pid = args.pid.unwrap_or_else(std::process::id);
    let mut reader = match ProcessReader::open(&root, pid) {
        Reading::Known(reader) => reader,
        Reading::Gone | Reading::Unsupported => {
            return Err(Failure::new(format!("there is no process {pid}")));
        }
        Reading::Denied => {
            return Err(Failure::new(format!("cannot read process {pid}"))
                .because("permission denied")
                .hint("run lowtide as the user who owns the process"));
        }
    };
    let (limits, unknown) = limits_of(&root, &mut reader);
    let checkup = Checkup {
        facts: host::facts(&root),
        abilities: abilities::all(&root),
        limits,
        unknown,
        process: args.pid,
        signals: args.pid.and_then(|_| reader.status().known()),
    };
    match args.format {
        Format::Text => render::say(&render::doctor_text(&checkup))?,
        Format::Json => render::say(&format!("{}\n", render::doctor_json(&checkup)))?,
    }
    Ok(ExitCode::SUCCESS)
}

/// Every limit that holds for a process, smallest headroom first, and sentences on those that can't be seen.
fn limits_of(root: &Root, reader: &mut ProcessReader) -> (Vec<LimitHeld>, Vec<String>) {
    let mut held = Vec::new();
    let mut unknown = Vec::new();
    let key = reader.key();
    let reading = Host::open(root).read();
    if let Some(memory) = reading.memory.known() {
        let used = memory.total.saturating_sub(memory.available);
        held.push(LimitHeld { kind: LimitKind::Host, limit: memory.total, used });
    }
    if let Some(shm) = reading.dev_shm.known() {
        held.push(LimitHeld { kind: LimitKind::DevShm, limit: shm.total, used: shm.used });
    }
    cgroup_limit(root, key, &mut held, &mut unknown);
    let address_space = match limits::address_space(root, key.pid) {
        Reading::Known(lowtide_model::Limit::At(limit)) => Some(limit),
        Reading::Known(lowtide_model::Limit::Unlimited) | Reading::Gone | Reading::Unsupported => None,
        Reading::Denied => {
            unknown.push("the process's own limits may not be read".to_owned());
            None
        }
    };
    if let (Some(limit), Some(quick)) = (address_space, reader.quick().known()) {
        held.push(LimitHeld { kind: LimitKind::AddressSpace { process: key }, limit, used: quick.size });
    }
    if let Some(limit) = limits::slurm(|name| std::env::var(name).ok()) {
        let used = reader.quick().known().map(|quick| quick.rss).unwrap_or_default();
        held.push(LimitHeld { kind: LimitKind::Slurm, limit, used });
    }
    held.sort_by_key(LimitHeld::headroom);
    (held, unknown)
}

fn cgroup_limit(root: &Root, key: ProcKey, held: &mut Vec<LimitHeld>, unknown: &mut Vec<String>) {
    let mut cgroups = match Cgroups::open(root, key.pid) {
        Reading::Known(cgroups) => cgroups,
        other @ (Reading::Unsupported | Reading::Denied | Reading::Gone) => {
            unknown.push(format!("a cgroup's limit: its memory controller is {}", other.word()));
            return;
        }
    };
    if cgroups.hides_ancestors() {
        unknown.push("limits of cgroups above this one: a cgroup namespace or mount hides them".to_owned());
    }
    if let Reading::Known(Some(tight)) = cgroups.tight_limit() {
        let used = tight.used.or_else(|| cgroups.read().working_set()).unwrap_or_default();
        held.push(LimitHeld { kind: LimitKind::Cgroup { path: tight.path }, limit: tight.limit, used });
    }
}
