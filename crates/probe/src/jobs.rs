//! Finds jobs that already run: what `watch` lists, where a job begins, and which process under a wrapper has the
//! memory.
//!
//! Names are only a hint for what is not a job (shells, terminals, init); where the memory is decides the rest.
//! Not here: roles.

use crate::clock::{self, NS_PER_TICK};
use crate::events::listing;
use crate::identity;
use crate::parse::{self, Stat};
use crate::process::stat_of;
use crate::{Root, host};
use lowtide_model::{Bytes, ProcKey};
use std::collections::{BTreeMap, HashSet};
use std::time::Duration;

/// Programs that start jobs but are never part of one.
const SURROUNDINGS: &[&str] = &[
    "(sd-pam)",
    "agetty",
    "code",
    "code-server",
    "containerd",
    "containerd-shim",
    "cron",
    "crond",
    "dbus-daemon",
    "docker-init",
    "dockerd",
    "dumb-init",
    "gdm",
    "gnome-terminal-",
    "init",
    "kitty",
    "konsole",
    "kubelet",
    "login",
    "node",
    "runc",
    "screen",
    "slurmd",
    "slurmstepd",
    "sshd",
    "sshd-session",
    "su",
    "sudo",
    "supervisord",
    "systemd",
    "tini",
    "tmux",
    "tmux: server",
    "xterm",
    "zellij",
];
const SHELLS: &[&str] = &["ash", "bash", "csh", "dash", "fish", "ksh", "nu", "sh", "tcsh", "xonsh", "zsh"];

/// Programs that most training jobs are run by, as their names begin.
const LIKELY: &[&str] = &["accelerate", "deepspeed", "java", "julia", "pypy", "python", "torchrun"];

/// A launcher starts its job within this time (60 s, in clock ticks of 10 ms): environments are resolved, images pulled.
const LAUNCH_TICKS: u64 = 6000;

/// The first process of a pid namespace: it adopts orphans and starts everything, so it is nobody's job, unless it holds
/// the memory of a trainer itself, as in a container.
const INIT: u32 = 1;

/// Resident memory from which a tree is worth listing: less than any interpreter with a tensor library loaded.
const WORTH_LISTING: Bytes = Bytes::from_mib(48);

/// A job that could be watched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// Its first process.
    pub key: ProcKey,
    /// Arguments of it.
    pub argv: Vec<String>,
    /// Resident memory of that process.
    pub rss: Bytes,
    /// Sum of the resident memory of all below it that is no job of its own; shared pages count several times.
    pub rss_below: Bytes,
    /// How many of those there are.
    pub descendants: usize,
    /// Whether some process of it is run by a program that most training jobs are run by.
    pub likely: bool,
    /// How long it has run.
    pub age: Duration,
}

/// The likely jobs of this machine: those that run by an interpreter of such jobs first, the largest of each kind first.
/// The caller and what started it are left out.
pub fn candidates(root: &Root) -> Vec<Candidate> {
    Machine::read(root).candidates(|_| true)
}

/// Those in which some process has `text` in its arguments, of any size.
pub fn matching(root: &Root, text: &str) -> Vec<Candidate> {
    let machine = Machine::read(root);
    let found: HashSet<u32> = machine
        .processes
        .keys()
        .copied()
        .filter(|pid| argv(root, *pid).join(" ").contains(text))
        .map(|pid| machine.root_of(pid))
        .collect();
    machine.roots(|candidate| found.contains(&candidate.key.pid))
}

/// Where the job of this process begins: its topmost ancestor that is not a shell at a terminal, a login, a
/// terminal multiplexer, a service manager or init. `None` when there is no such process.
pub fn root_of(root: &Root, pid: u32) -> Option<u32> {
    let machine = Machine::read(root);
    machine.processes.contains_key(&pid).then(|| machine.root_of(pid))
}

/// The process at or below `pid` that has the memory: the largest one, or its ancestor when that is more than half
/// as large, because a forked worker is as large as its parent without owning anything.
pub fn heavy_descendant(root: &Root, pid: u32) -> Option<u32> {
    let machine = Machine::read(root);
    let mut tree = machine.below(pid);
    tree.push(pid);
    let mut heavy = tree
        .iter()
        .copied()
        .filter(|pid| machine.processes.contains_key(pid))
        .max_by_key(|pid| machine.rss(*pid))?;
    while heavy != pid {
        let parent = machine.processes.get(&heavy)?.stat.ppid;
        if !tree.contains(&parent) || machine.rss(parent).0 < machine.rss(heavy).0 / 2 {
            break;
        }
        heavy = parent;
    }
    Some(heavy)
}

#[derive(Debug)]
struct Entry {
    stat: Stat,
    rss: Bytes,
    surrounding: bool,
    shell: bool,
}

/// All processes at one moment.
#[derive(Debug)]
struct Machine<'a> {
    root: &'a Root,
    processes: BTreeMap<u32, Entry>,
    children: BTreeMap<u32, Vec<u32>>,
}

impl<'a> Machine<'a> {
    fn read(root: &'a Root) -> Self {
        let page = host::page_bytes();
        let mut machine = Self { root, processes: BTreeMap::new(), children: BTreeMap::new() };
        for pid in listing::pids(root) {
            let Some(stat) = stat_of(root, pid).known().filter(|stat| !stat.is_kernel_thread()) else {
                continue;
            };
            let statm = std::fs::read(root.process(pid).join("statm")).ok();
            let rss =
                statm.and_then(|bytes| parse::statm(&bytes, page)).map(|statm| statm.rss).unwrap_or_default();
            machine.children.entry(stat.ppid).or_default().push(pid);
            machine.processes.insert(
                pid,
                Entry { stat, rss, surrounding: is_surrounding(root, &stat), shell: is_shell(root, pid) },
            );
        }
        machine
    }

    fn rss(&self, pid: u32) -> Bytes {
        self.processes.get(&pid).map(|entry| entry.rss).unwrap_or_default()
    }

    /// All descendants. A made-up tree may have circles: none is walked twice.
    fn below(&self, pid: u32) -> Vec<u32> {
        let mut found = Vec::new();
        let mut seen = HashSet::from([pid]);
        let mut open = vec![pid];
        while let Some(next) = open.pop() {
            for child in self.children.get(&next).into_iter().flatten() {
                if seen.insert(*child) {
                    found.push(*child);
                    open.push(*child);
                }
            }
        }
        found
    }

    fn root_of(&self, pid: u32) -> u32 {
        let ours = self.chain(std::process::id());
        let mut top = pid;
        for _ in 0..self.processes.len() {
            let parent = self.processes.get(&top).map_or(0, |entry| entry.stat.ppid);
            match self.processes.get(&parent) {
                // What is above us as well started the person who asks, not the job.
                Some(entry)
                    if !entry.surrounding
                        && !ours.contains(&parent)
                        && self.belongs_with(pid, top, entry) =>
                {
                    top = parent;
                }
                _ => break,
            }
        }
        top
    }

    /// A process and all above it.
    fn chain(&self, pid: u32) -> HashSet<u32> {
        let mut chain = HashSet::new();
        let mut next = pid;
        while let Some(entry) = self.processes.get(&next).filter(|_| chain.insert(next)) {
            next = entry.stat.ppid;
        }
        chain
    }

    /// Whether a parent is of the same job: it made the child by fork alone, or started it soon after it was started
    /// itself, as wrappers and launchers do. Servers, notebooks and agents live long before the jobs they start; so
    /// does a shell that somebody types into, which also forks for everything it starts.
    fn belongs_with(&self, asked: u32, child: u32, parent: &Entry) -> bool {
        let (Some(asked), Some(child)) = (self.processes.get(&asked), self.processes.get(&child)) else {
            return false;
        };
        let soon =
            |later: &Entry| later.stat.start_ticks.saturating_sub(parent.stat.start_ticks) <= LAUNCH_TICKS;
        if parent.shell {
            return soon(asked);
        }
        let forked = child.stat.layout.is_some() && child.stat.layout == parent.stat.layout;
        let bare_init = parent.stat.pid == INIT && parent.rss < WORTH_LISTING;
        forked || soon(child) && !bare_init
    }

    fn candidates(&self, wanted: impl Fn(&Candidate) -> bool) -> Vec<Candidate> {
        self.roots(|candidate| {
            candidate.rss.saturating_add(candidate.rss_below) >= WORTH_LISTING && wanted(candidate)
        })
    }

    fn roots(&self, wanted: impl Fn(&Candidate) -> bool) -> Vec<Candidate> {
        let own = self.root_of(std::process::id());
        let is_root = |pid: &&u32| self.root_of(**pid) == **pid;
        let job = |(pid, entry): &(&u32, &Entry)| !entry.surrounding && **pid != own;
        let mut found: Vec<Candidate> = self
            .processes
            .iter()
            .filter(job)
            .map(|(pid, _)| pid)
            .filter(is_root)
            .filter_map(|pid| self.candidate(*pid))
            .filter(wanted)
            .collect();
        let rank = |job: &Candidate| (job.likely, job.rss.saturating_add(job.rss_below));
        found.sort_by_key(|job| std::cmp::Reverse(rank(job)));
        found
    }

    fn candidate(&self, pid: u32) -> Option<Candidate> {
        let entry = self.processes.get(&pid)?;
        // What a shell, an init or a server started long after itself is listed by itself and counted there.
        let below: Vec<u32> = self.below(pid).into_iter().filter(|one| self.root_of(*one) == pid).collect();
        let likely = below.iter().chain([&pid]).any(|one| is_likely(self.root, *one));
        let started = entry.stat.start_ticks.saturating_mul(NS_PER_TICK);
        Some(Candidate {
            key: ProcKey { pid, start_ticks: entry.stat.start_ticks },
            argv: argv(self.root, pid),
            rss: entry.rss,
            rss_below: below.iter().map(|pid| self.rss(*pid)).sum(),
            descendants: below.len(),
            likely,
            age: Duration::from_nanos(clock::boot_ns().saturating_sub(started)),
        })
    }
}

fn argv(root: &Root, pid: u32) -> Vec<String> {
    identity::argv(&root.process(pid)).known().unwrap_or_default()
}

/// Whether a process starts jobs but is part of none: by name, or a session leader at a terminal, or a shell that
/// runs no script.
fn is_surrounding(root: &Root, stat: &Stat) -> bool {
    let argv = argv(root, stat.pid);
    let name = argv.first().map_or("", |first| program_name(first));
    if SURROUNDINGS.contains(&name) || name.starts_with("sshd") || name.starts_with("tmux") {
        return true;
    }
    let is_shell = SHELLS.contains(&name);
    let runs_nothing = argv.iter().skip(1).all(|argument| argument.starts_with('-') && argument != "-c");
    let leads_terminal = stat.session == stat.pid && stat.terminal != 0;
    is_shell && (runs_nothing || leads_terminal && argv.len() == 1)
}

fn is_likely(root: &Root, pid: u32) -> bool {
    let argv = argv(root, pid);
    let name = argv.first().map_or("", |first| program_name(first));
    LIKELY.iter().any(|likely| name.starts_with(likely))
}

fn is_shell(root: &Root, pid: u32) -> bool {
    let comm = std::fs::read_to_string(root.process(pid).join("comm")).unwrap_or_default();
    SHELLS.contains(&program_name(comm.trim_end()))
}

/// The last part of the path; a login shell's name begins with a dash, a server's may end with a colon.
fn program_name(first: &str) -> &str {
    let word = first.split([' ', ':']).next().unwrap_or(first);
    word.rsplit('/').next().unwrap_or(word).trim_start_matches('-')
}

#[cfg(test)]
mod tests;
