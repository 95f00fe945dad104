//! Says what each process of a job is for, and why we think so.
//!
//! Names lie: `python`, `uv`, `sh` and a renamed binary all start trainers, and a forked worker carries its
//! trainer's arguments. So the role comes from what can't be renamed: who forked without exec, where a process
//! stands in the tree, and how much memory it holds. Names only break ties. Not here: whether a process leaks.

use lowtide_model::{Bytes, ProcKey, Process, Role, Tick};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// What a process was seen to hold; all that roles need to know of its samples.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Footprint {
    /// Resident memory when it was first seen.
    pub first: Bytes,
    /// The most it held.
    pub peak: Bytes,
    /// GPU memory it held at most.
    pub gpu: Bytes,
    /// Whether it sent steps, epochs or other marks: only a training loop does.
    pub marks: bool,
    /// Whether somebody, nobody knows who, had sent such marks before it was born.
    pub after_marks: bool,
}

/// One process with its role and the reason in words.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RoleFound {
    /// Which process.
    pub process: ProcKey,
    /// What it is for.
    pub role: Role,
    /// Why we think so, with the numbers.
    pub reason: String,
}

/// A parent this many times smaller than its children is a launcher; one that holds more is at work itself.
const LAUNCHER_FACTOR: u64 = 2;
/// Siblings within this many per cent of the largest hold "the same": ranks of one job, workers of one pool.
const EQUAL_PERCENT: u64 = 60;
/// Fewer equal siblings than this are no pool.
const POOL: usize = 3;
/// A process that grew by more than this many per cent since it was first seen is not flat.
const FLAT_PERCENT: u64 = 50;

/// Finds the role of every process, in the order given.
pub fn roles(processes: &[Process], memory: &BTreeMap<ProcKey, Footprint>) -> Vec<RoleFound> {
    let tree = Tree::new(processes, memory);
    let trainers = tree.trainers();
    processes
        .iter()
        .enumerate()
        .map(|(i, process)| {
            let (role, reason) = tree.role_of(i, &trainers);
            RoleFound { process: process.key, role, reason }
        })
        .collect()
}

/// The engine behind rollouts, when this process is a part of it: what can't be told by memory alone is told by name.
pub(crate) fn rollout_engine(process: &Process) -> Option<&'static str> {
    let first = process.argv.first().map_or("", String::as_str);
    let program = first.rsplit('/').next().unwrap_or("");
    if first.starts_with("ray::") || matches!(program, "raylet" | "gcs_server") || process.comm == "raylet" {
        Some("Ray")
    } else if first.starts_with("VLLM::") || program == "vllm" {
        Some("vLLM")
    } else {
        None
    }
}

struct Tree<'a> {
    processes: &'a [Process],
    held: Vec<Option<Footprint>>,
    parent: Vec<Option<usize>>,
    children: Vec<Vec<usize>>,
}

impl<'a> Tree<'a> {
    fn new(processes: &'a [Process], memory: &BTreeMap<ProcKey, Footprint>) -> Self {
        let index: BTreeMap<ProcKey, usize> = processes.iter().enumerate().map(|(i, p)| (p.key, i)).collect();
        let mut parent: Vec<Option<usize>> = vec![None; processes.len()];
        let mut children = vec![Vec::new(); processes.len()];
        for (i, process) in processes.iter().enumerate() {
            let above = process.parent.and_then(|key| index.get(&key).copied()).filter(|&p| p != i);
            parent[i] = above;
            if let Some(p) = above {
                children[p].push(i);
            }
        }
        let held = processes.iter().map(|p| memory.get(&p.key).copied()).collect();
        Self { processes, held, parent, children }
    }

    fn peak(&self, i: usize) -> u64 {
        self.held[i].map_or(0, |h| h.peak.0)
    }

    fn marked(&self, i: usize) -> bool {
        self.held[i].is_some_and(|h| h.marks)
    }

    /// Ancestors, nearest first. A foreign table may hold a loop: it ends after as many steps as there are processes.
    fn ancestors(&self, i: usize) -> impl Iterator<Item = usize> + '_ {
        std::iter::successors(self.parent[i], |&p| self.parent[p]).take(self.processes.len())
    }

    /// Forked without exec from a process that is itself at work: a worker, whoever it claims to be.
    ///
    /// Two forks are no workers: children that all hold far more than the parent (ranks forked by a launcher, a
    /// daemon), and one that sends marks of its own.
    fn forked_worker(&self, i: usize) -> bool {
        let Some(parent) = self.parent[i].filter(|_| !self.processes[i].execed) else {
            return false;
        };
        if self.marked(i) {
            return false;
        }
        if self.marked(parent) {
            return true;
        }
        let mut peaks: Vec<u64> = self.children[parent]
            .iter()
            .filter(|&&c| !self.processes[c].execed)
            .map(|&c| self.peak(c))
            .collect();
        peaks.sort_unstable();
        let typical = peaks.get(peaks.len() / 2).copied().unwrap_or(0);
        typical <= self.peak(parent).saturating_mul(LAUNCHER_FACTOR)
    }

    /// The processes whose memory matters: the largest that is no worker, with its equals.
    fn trainers(&self) -> Vec<usize> {
        let able: Vec<usize> = (0..self.processes.len()).filter(|&i| !self.forked_worker(i)).collect();
        let marked: Vec<usize> = able.iter().copied().filter(|&i| self.marked(i)).collect();
        if !marked.is_empty() {
            return marked;
        }
        let ranks: Vec<usize> = able.iter().copied().filter(|&i| self.is_rank(i)).collect();
        if !ranks.is_empty() {
            return ranks;
        }
        let on_gpu = |i: usize| self.held[i].map_or(0, |h| h.gpu.0);
        let Some(mut top) = able.iter().copied().max_by_key(|&i| (on_gpu(i) > 0, self.peak(i))) else {
            return Vec::new();
        };
        // A pool of equals below a process that holds as much as each of them, or that trained before there was any of
        // them, works for that process.
        while let Some(above) = self.parent[top] {
            let at_work = self.peak(above).saturating_mul(LAUNCHER_FACTOR) > self.peak(top);
            let pool = self.equals(top);
            let works = at_work || self.came_later(&pool, above);
            if !(works && pool.len() >= POOL && able.contains(&above)) {
                break;
            }
            top = above;
        }
        if self.peak(top) == 0 {
            return Vec::new();
        }
        self.equals(top)
    }

    /// Whether steps were told when none of a pool that lived together was born, and their parent was: it told them.
    fn came_later(&self, pool: &[usize], above: usize) -> bool {
        let later = |i: usize| self.held[i].is_some_and(|held| held.after_marks);
        let ends = |i: usize| self.processes[i].died.unwrap_or(Tick(u64::MAX));
        let last_born = pool.iter().map(|&i| self.processes[i].born).max();
        let together = last_born.is_some_and(|born| pool.iter().all(|&i| ends(i) > born));
        together && pool.iter().all(|&i| later(i)) && !later(above)
    }

    /// Whether a launcher gave this process a rank: it is in its environment and not (or another) in its parent's.
    fn is_rank(&self, i: usize) -> bool {
        let rank = |i: usize| {
            let named =
                |name: &str| self.processes[i].env.iter().find(|(key, _)| key == name).map(|(_, rank)| rank);
            named("RANK").or_else(|| named("LOCAL_RANK"))
        };
        let own = rank(i);
        own.is_some() && self.peak(i) > 0 && self.parent[i].is_some_and(|parent| rank(parent) != own)
    }

    /// Siblings that hold about as much, the process itself among them.
    fn equals(&self, i: usize) -> Vec<usize> {
        let Some(parent) = self.parent[i] else {
            return vec![i];
        };
        let alike = |c: usize| self.processes[c].execed == self.processes[i].execed && self.near(c, i);
        self.children[parent].iter().copied().filter(|&c| c == i || alike(c)).collect()
    }

    fn near(&self, a: usize, b: usize) -> bool {
        let (small, large) = (self.peak(a).min(self.peak(b)), self.peak(a).max(self.peak(b)));
        large > 0 && small.saturating_mul(100) >= large.saturating_mul(EQUAL_PERCENT)
    }

    fn flat(&self, i: usize) -> bool {
        self.held[i].is_some_and(|h| {
            let grown = h.peak.0.saturating_sub(h.first.0);
            grown.saturating_mul(100) <= h.peak.0.saturating_mul(FLAT_PERCENT)
        })
    }

    fn role_of(&self, i: usize, trainers: &[usize]) -> (Role, String) {
        if self.held[i].is_none() {
            return (Role::Unknown, "it ended before it could be sampled".to_owned());
        }
        if trainers.contains(&i) {
            return (Role::Trainer, self.why_trainer(i, trainers));
        }
        if let Some(found) = self.as_wrapper(i, trainers) {
            return found;
        }
        self.as_worker(i, trainers)
    }

    fn why_trainer(&self, i: usize, trainers: &[usize]) -> String {
        let held = Bytes(self.peak(i));
        if self.marked(i) {
            return format!("it sends the marks of the training loop and held {held}");
        }
        if self.is_rank(i) {
            return format!("its launcher gave it a rank, and it held {held}");
        }
        if trainers.len() > 1 {
            return format!(
                "one of {} siblings that hold about the same, {held}: the ranks of one job",
                trainers.len()
            );
        }
        if self.processes.len() == 1 {
            return format!("the only process, it held {held}");
        }
        format!("it held {held}, more than any other process that is not a forked worker")
    }

    fn as_wrapper(&self, i: usize, trainers: &[usize]) -> Option<(Role, String)> {
        let below = trainers
            .iter()
            .copied()
            .filter(|&t| self.ancestors(t).any(|a| a == i))
            .max_by_key(|&t| self.peak(t))?;
        if self.forked_worker(i) {
            return None;
        }
        let (own, theirs) = (Bytes(self.peak(i)), Bytes(self.peak(below)));
        let pid = self.processes[below].key.pid;
        Some((
            Role::Wrapper,
            format!("it started process {pid}, which held {theirs}, and held only {own} itself"),
        ))
    }

    fn as_worker(&self, i: usize, trainers: &[usize]) -> (Role, String) {
        let above = self.ancestors(i).find(|a| trainers.contains(a));
        let parent = self.parent[i];
        let hint = name_hint(&self.processes[i]);
        if let (Some(trainer), true) = (above, self.forked_worker(i))
            && parent.is_some_and(|p| p == trainer || self.forked_worker(p))
        {
            let pid = self.processes[trainer].key.pid;
            return (
                Role::LoaderWorker,
                format!("forked from trainer {pid} without starting another program"),
            );
        }
        let pool = self.equals(i).len();
        if above.is_some() && hint == Some(Role::LoaderWorker) {
            return (
                Role::LoaderWorker,
                "started below the trainer with the arguments of a spawned worker".to_owned(),
            );
        }
        if above.is_some()
            && self.held[i].is_some()
            && (hint == Some(Role::CompileWorker) || (pool >= POOL && self.flat(i)))
        {
            let held = Bytes(self.peak(i));
            return (
                Role::CompileWorker,
                format!("one of {pool} equal processes below the trainer, flat at {held}"),
            );
        }
        if self.held[i].is_none() {
            return (Role::Unknown, "gone before its memory could be read".to_owned());
        }
        let held = Bytes(self.peak(i));
        let place = if above.is_some() { "below the trainer" } else { "beside the trainer" };
        (Role::Helper, format!("another program {place}, it held {held}"))
    }
}

/// What the arguments suggest. Only ever a hint: it decides between kinds of worker, never who the trainer is.
fn name_hint(process: &Process) -> Option<Role> {
    let says = |text: &str| process.argv.iter().any(|arg| arg.contains(text));
    if says("compile_worker") {
        return Some(Role::CompileWorker);
    }
    (says("--multiprocessing-fork") || says("multiprocessing.spawn")).then_some(Role::LoaderWorker)
}

#[cfg(test)]
mod tests {
    use super::*;
    use Role::{LoaderWorker, Trainer, Wrapper};
    use proptest::prelude::*;

    const MIB: u64 = 1 << 20;

    struct Job {
        processes: Vec<Process>,
        memory: BTreeMap<ProcKey, Footprint>,
    }

    impl Job {
        fn new() -> Self {
            Self { processes: Vec::new(), memory: BTreeMap::new() }
        }

        /// Adds a process with a name that tells nothing; returns its pid.
        fn add(&mut self, parent: u32, execed: bool, mib: u64) -> u32 {
            let pid = self.processes.len() as u32 + 1;
            let key = ProcKey { pid, start_ticks: u64::from(pid) };
            let above = (parent > 0).then(|| ProcKey { pid: parent, start_ticks: u64::from(parent) });
            self.processes.push(Process {
                key,
                parent: above,
                born: Tick::START,
                died: None,
                exit: None,
                execed,
                comm: "x".into(),
                argv: vec!["./x".into()],
                env: Vec::new(),
                cgroup: None,
                peak_rss: None,
            });
            let held = Bytes(mib * MIB);
            self.memory.insert(key, Footprint { first: held, peak: held, ..Footprint::default() });
            pid
        }

        fn roles(&self) -> Vec<Role> {
            roles(&self.processes, &self.memory).into_iter().map(|found| found.role).collect()
        }
    }

    #[test]
    fn a_renamed_wrapper_leads_to_the_trainer_and_its_forked_workers() {
        let mut job = Job::new();
        let wrapper = job.add(0, true, 12);
        let launcher = job.add(wrapper, true, 180);
        let trainer = job.add(launcher, true, 6200);
        for _ in 0..4 {
            job.add(trainer, false, 5900);
        }
        assert_eq!(
            job.roles(),
            [Wrapper, Wrapper, Trainer, LoaderWorker, LoaderWorker, LoaderWorker, LoaderWorker]
        );
    }

    #[test]
    fn ranks_are_trainers_even_when_their_launcher_holds_as_much() {
        let mut job = Job::new();
        let launcher = job.add(0, true, 190);
        for rank in 0..2 {
            let pid = job.add(launcher, true, 200);
            job.processes[pid as usize - 1].env = vec![("RANK".into(), rank.to_string())];
        }
        assert_eq!(job.roles(), [Wrapper, Trainer, Trainer]);
    }

    #[test]
    fn what_was_never_sampled_has_no_role() {
        let mut job = Job::new();
        let trainer = job.add(0, true, 200);
        let short = job.add(trainer, false, 1);
        job.memory.remove(&job.processes[short as usize - 1].key);
        assert_eq!(job.roles(), [Trainer, Role::Unknown]);
    }

    #[test]
    fn many_equal_flat_children_of_a_coordinator_are_compile_workers() {
        let mut job = Job::new();
        let wrapper = job.add(0, true, 20);
        let trainer = job.add(wrapper, true, 6200);
        let coordinator = job.add(trainer, true, 665);
        for _ in 0..19 {
            job.add(coordinator, false, 398);
        }
        let found = job.roles();
        assert_eq!(&found[..3], &[Role::Wrapper, Role::Trainer, Role::Helper]);
        assert!(found[3..].iter().all(|r| *r == Role::CompileWorker), "{found:?}");
    }

    #[test]
    fn equal_siblings_under_a_small_launcher_are_ranks() {
        let mut job = Job::new();
        let launcher = job.add(0, true, 300);
        for _ in 0..4 {
            job.add(launcher, true, 9000);
        }
        assert_eq!(job.roles(), [Role::Wrapper, Role::Trainer, Role::Trainer, Role::Trainer, Role::Trainer]);
    }

    #[test]
    fn ranks_forked_by_a_small_launcher_are_trainers_too() {
        let mut job = Job::new();
        let launcher = job.add(0, true, 300);
        for _ in 0..2 {
            job.add(launcher, false, 9000);
        }
        assert_eq!(job.roles(), [Role::Wrapper, Role::Trainer, Role::Trainer]);
    }

    #[test]
    fn one_forked_worker_that_outgrows_its_trainer_stays_a_worker() {
        let mut job = Job::new();
        let trainer = job.add(0, true, 4000);
        for _ in 0..3 {
            job.add(trainer, false, 3900);
        }
        job.add(trainer, false, 34_900);
        let found = job.roles();
        assert_eq!(found[0], Role::Trainer);
        assert!(found[1..].iter().all(|r| *r == Role::LoaderWorker), "{found:?}");
    }

    #[test]
    fn a_pool_as_large_as_its_parent_works_for_it() {
        let mut job = Job::new();
        let trainer = job.add(0, true, 350);
        for _ in 0..4 {
            job.add(trainer, true, 400);
        }
        let found = job.roles();
        assert_eq!(found[0], Role::Trainer);
        assert!(found[1..].iter().all(|r| *r == Role::CompileWorker), "{found:?}");
    }

    #[test]
    fn what_a_process_that_steps_starts_again_and_again_are_no_ranks() {
        let mut job = Job::new();
        let parent = job.add(0, true, 12);
        let pool: Vec<u32> = (0..4).map(|_| job.add(parent, true, 42)).collect();
        assert_eq!(job.roles()[0], Wrapper, "with no marks they may be ranks");
        for pid in pool {
            job.memory.get_mut(&job.processes[pid as usize - 1].key).unwrap().after_marks = true;
        }
        let found = job.roles();
        assert_eq!(found[0], Trainer);
        assert!(found[1..].iter().all(|role| *role == Role::CompileWorker), "{found:?}");
        // Lives of one program, each after the other, are not together.
        for (process, second) in job.processes[1..].iter_mut().zip(0..) {
            (process.born, process.died) =
                (Tick(second * 1_000_000_000), Some(Tick(second * 1_000_000_000 + 1)));
        }
        assert_eq!(job.roles()[0], Wrapper);
    }

    #[test]
    fn marks_name_the_trainer_before_it_has_grown() {
        let mut job = Job::new();
        let wrapper = job.add(0, true, 80);
        let trainer = job.add(wrapper, true, 40);
        job.memory.get_mut(&job.processes[trainer as usize - 1].key).unwrap().marks = true;
        assert_eq!(job.roles(), [Role::Wrapper, Role::Trainer]);
    }

    #[test]
    fn a_process_without_samples_is_unknown_not_small() {
        let mut job = Job::new();
        let trainer = job.add(0, true, 500);
        job.add(trainer, true, 1);
        job.memory.remove(&job.processes[1].key);
        assert_eq!(job.roles(), [Role::Trainer, Role::Unknown]);
    }

    proptest! {
        #[test]
        fn no_tree_panics_and_every_process_has_a_reason(
            nodes in proptest::collection::vec((0u32..12, any::<bool>(), any::<u64>()), 0..12)
        ) {
            let mut job = Job::new();
            for (parent, execed, mib) in nodes {
                job.add(parent, execed, mib % 100_000);
            }
            let found = roles(&job.processes, &job.memory);
            prop_assert_eq!(found.len(), job.processes.len());
            prop_assert!(found.iter().all(|f| !f.reason.is_empty()));
        }
    }
}
