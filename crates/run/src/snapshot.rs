//! Puts together what screens and other processes see of the job.

use crate::session::Session;
use lowtide_model::{Bytes, Exit, LimitHeld, LimitKind, ProcKey, Role, Tick};
use lowtide_wire::{Cost, ProcessLine, RoleLine, Snapshot, Total};
use std::collections::BTreeMap;

/// A rate is taken over about this many seconds: long enough to see past saw-teeth, short enough to be now.
const RATE_SECONDS: f64 = 60.0;
/// A command line longer than this is cut for a screen.
const COMMAND_CHARS: usize = 120;

/// A limit in words: "the limit of 4.00 GiB of cgroup /job".
pub(crate) fn limit_words(held: &LimitHeld) -> String {
    let limit = held.limit;
    match &held.kind {
        LimitKind::Cgroup { path } => format!("the limit of {limit} of cgroup {path}"),
        LimitKind::AddressSpace { process } => {
            format!("the address space of {limit} of process {}", process.pid)
        }
        LimitKind::Host => format!("the machine's {limit}"),
        LimitKind::DevShm => format!("the {limit} of /dev/shm"),
        LimitKind::Slurm => format!("the {limit} that Slurm granted"),
        LimitKind::Asked => format!("the {limit} asked for"),
    }
}

/// How a snapshot changes when the job is over.
pub(crate) struct Ending {
    pub(crate) exit: Option<Exit>,
    pub(crate) running: bool,
}

impl Ending {
    pub(crate) fn apply(self, mut snapshot: Snapshot) -> Snapshot {
        snapshot.running = self.running;
        let how = match self.exit {
            Some(Exit::Code(code)) => format!("the job ended with code {code}"),
            Some(Exit::Signal(signal)) => format!("the job was ended by signal {signal}"),
            Some(Exit::Unknown) => "the job ended; how is not known".to_owned(),
            None => "lowtide stopped watching; the job runs on".to_owned(),
        };
        snapshot.warnings.push(how);
        snapshot
    }
}

/// The most memory this process ever held. Not from `getrusage`: that remembers what ran in this process before its exec.
pub(crate) fn own_peak() -> Bytes {
    let text = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib = line.and_then(|rest| rest.split_whitespace().next()).and_then(|word| word.parse().ok());
    Bytes::from_kib(kib.unwrap_or(0))
}

fn own_rss() -> Bytes {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages = text.split_whitespace().nth(1).and_then(|word| word.parse().ok()).unwrap_or(0);
    Bytes::from_pages(pages, lowtide_probe::host::page_bytes())
}

impl Session<'_> {
    /// The job now.
    pub(crate) fn snapshot(&mut self) -> Snapshot {
        let now = self.live.now;
        let roles = self.crew.roles(now).clone();
        let estimate = self.crew.total().now();
        let total = self.total();
        let before = self.live.history.before(now, RATE_SECONDS);
        let minutes = before.map_or(0.0, |point| (now.seconds() - point.seconds) / 60.0);
        let grown = before.map_or(0.0, |point| total.as_f64() - point.low_bytes.as_f64());
        Snapshot {
            run_id: self.meta.run_id.clone(),
            name: self.meta.name.clone(),
            command: shorten(&self.meta.argv.join(" ")),
            recording: self.writer.path().display().to_string(),
            tick: now,
            tick_number: self.live.tick_number,
            durable: self.writer.health().durable,
            interval_ns: self.live.interval.as_nanos() as u64,
            running: true,
            total: Total {
                bytes: total,
                low_bytes: estimate.low.min(total),
                high_bytes: estimate.high.max(total),
                rss_sum_bytes: estimate.rss_sum,
            },
            bytes_per_minute: (minutes > 0.1).then(|| grown / minutes),
            limits: self.places.limits().to_vec(),
            roles: self.role_lines(&roles),
            processes: self.process_lines(&roles),
            processes_seen: self.crew.seen(),
            progress: self.marks.progress(),
            agents: self.marks.agents() as u32,
            headline: self.judging.headline(),
            warnings: self.live.warnings.iter().cloned().collect(),
            cost: self.cost(now),
        }
    }

    fn cost(&self, now: Tick) -> Cost {
        let cpu = self.live.own_cpu_ns() as f64;
        Cost {
            cpu_percent: if now.0 > 0 { cpu / now.0 as f64 * 100.0 } else { 0.0 },
            rss_bytes: own_rss(),
            stall_ms: self.live.stall().as_secs_f64() * 1e3,
        }
    }

    fn role_lines(&self, roles: &BTreeMap<ProcKey, (Role, String)>) -> Vec<RoleLine> {
        let mut lines: BTreeMap<Role, RoleLine> = BTreeMap::new();
        for member in self.crew.members() {
            let role = roles.get(&member.facts.key).map_or(Role::Unknown, |(role, _)| *role);
            let empty = RoleLine { role, count: 0, rss_bytes: Bytes::ZERO, bytes_per_minute: None };
            let line = lines.entry(role).or_insert(empty);
            line.count += 1;
            let rss = member.newest().map_or(Bytes::ZERO, |row| row.rss.last);
            line.rss_bytes = line.rss_bytes.saturating_add(rss);
            let rate = member.bytes_per_minute(self.live.now);
            line.bytes_per_minute =
                rate.map_or(line.bytes_per_minute, |rate| Some(line.bytes_per_minute.unwrap_or(0.0) + rate));
        }
        let mut lines: Vec<RoleLine> = lines.into_values().collect();
        lines.sort_by_key(|line| std::cmp::Reverse(line.rss_bytes));
        lines
    }

    fn process_lines(&self, roles: &BTreeMap<ProcKey, (Role, String)>) -> Vec<ProcessLine> {
        let line = |member: &crate::crew::Member| {
            let row = member.newest();
            let (role, reason) =
                roles.get(&member.facts.key).cloned().unwrap_or((Role::Unknown, String::new()));
            let argv = if member.facts.argv.is_empty() {
                member.facts.comm.clone()
            } else {
                member.facts.argv.join(" ")
            };
            ProcessLine {
                key: member.facts.key,
                parent: member.facts.parent,
                role,
                reason,
                command: shorten(&argv),
                rss_bytes: row.map_or(Bytes::ZERO, |row| row.rss.last),
                anon_bytes: row.and_then(|row| row.anon).map(|span| span.last),
                pss_bytes: member.pss(),
                swap_bytes: row.and_then(|row| row.swap),
                threads: row.and_then(|row| row.threads),
            }
        };
        let mut lines: Vec<ProcessLine> = self.crew.members().map(line).collect();
        lines.sort_by_key(|line| std::cmp::Reverse(line.rss_bytes));
        lines
    }
}

fn shorten(command: &str) -> String {
    match command.char_indices().nth(COMMAND_CHARS) {
        Some((cut, _)) => format!("{}...", &command[..cut]),
        None => command.to_owned(),
    }
}
