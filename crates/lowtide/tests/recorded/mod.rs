//! Recordings made by hand through the real writer: what a job of known behaviour would have left behind.

#![allow(dead_code, reason = "each test program uses its own part of this")]
#![allow(clippy::unwrap_used, reason = "a test that can't set its stage should stop")]

use lowtide_model::{
    Bytes, CgroupRow, CgroupVersion, GpuRow, Limit, Mark, MarkKind, MarkPhase, Meta, ProcKey, Process,
    RunState, SampleRow, Span, Tick,
};
use lowtide_store::{Entry, Writer, own_key};
use std::path::Path;

/// A job of one trainer and two forked workers, sampled once a second.
pub(crate) struct Job {
    /// Anonymous memory of the trainer by the second, in MiB.
    pub(crate) trainer: fn(u64) -> u64,
    pub(crate) file_mib: u64,
    pub(crate) shmem_mib: u64,
    pub(crate) swap_mib: u64,
    /// GPU memory of the trainer.
    pub(crate) gpu_mib: Option<u64>,
    pub(crate) seconds: u64,
    pub(crate) rank: Option<u32>,
    /// A step a second, told by marks.
    pub(crate) steps: bool,
    /// ... or one in so many seconds.
    pub(crate) step_seconds: u64,
    /// Whether rows are written as a recorder does: when something moves, or every 30 seconds.
    pub(crate) thinned: bool,
    /// The charge of its cgroup at the end, of 1,000 MiB.
    pub(crate) charge_mib: Option<u64>,
    pub(crate) state: RunState,
}

impl Default for Job {
    fn default() -> Self {
        Self {
            trainer: steady,
            file_mib: 50,
            shmem_mib: 0,
            swap_mib: 0,
            gpu_mib: None,
            seconds: 240,
            rank: None,
            steps: false,
            step_seconds: 1,
            thinned: false,
            charge_mib: None,
            state: RunState::Finished,
        }
    }
}

pub(crate) fn steady(second: u64) -> u64 {
    1000 + second % 3
}

pub(crate) fn leak(second: u64) -> u64 {
    1000 + 5 * second + second % 3
}

/// Fills for 80 seconds, then stays.
pub(crate) fn fill(second: u64) -> u64 {
    1000 + 10 * second.min(80) + second % 3
}

fn key(pid: u32) -> ProcKey {
    ProcKey { pid, start_ticks: 7 }
}

fn process(pid: u32, parent: u32, rank: Option<u32>) -> Process {
    Process {
        key: key(pid),
        parent: Some(key(parent)),
        born: Tick(0),
        died: None,
        exit: None,
        execed: pid == 100,
        comm: "python".into(),
        argv: vec!["python".into(), "train.py".into()],
        env: rank.map(|rank| ("RANK".to_owned(), rank.to_string())).into_iter().collect(),
        cgroup: None,
        peak_rss: None,
    }
}

fn sample(pid: u32, second: u64, anon_mib: u64, file_mib: u64) -> SampleRow {
    SampleRow {
        process: key(pid),
        tick: Tick(second * 1_000_000_000),
        ticks: 1,
        rss: Span::one(Bytes::from_mib(anon_mib + file_mib)),
        anon: Some(Span::one(Bytes::from_mib(anon_mib))),
        file: Some(Bytes::from_mib(file_mib)),
        shmem: Some(Bytes::ZERO),
        swap: Some(Bytes::ZERO),
        ..SampleRow::default()
    }
}

fn cgroup(second: u64, charge_mib: u64) -> CgroupRow {
    CgroupRow {
        path: "/job".into(),
        version: CgroupVersion::V2,
        tick: Tick(second * 1_000_000_000),
        ticks: 1,
        usage: Span::one(Bytes::from_mib(charge_mib)),
        limit: Some(Limit::At(Bytes::from_mib(1000))),
        anon: None,
        file: None,
        shmem: None,
        inactive_file: Some(Bytes::ZERO),
        kernel: None,
        swap: None,
        oom_kills: Some(0),
        limit_hits: None,
        pressure: None,
        strangers: Some(0),
    }
}

fn gpu(second: u64, used_mib: u64) -> GpuRow {
    GpuRow {
        gpu: 0,
        uuid: "GPU-0".into(),
        process: Some(key(100)),
        tick: Tick(second * 1_000_000_000),
        used: Span::one(Bytes::from_mib(used_mib)),
        total: None,
    }
}

fn mark(step: u64) -> Mark {
    Mark {
        tick: Tick(step * 1_000_000_000),
        process: Some(key(100)),
        kind: MarkKind::Step,
        phase: MarkPhase::Point,
        number: step as f64,
        rank: None,
        extra: None,
    }
}

impl Job {
    /// How many seconds the row of this second stands for; none where there is no row.
    fn covers(&self, second: u64) -> Option<u32> {
        let rests = |second: u64| {
            let moves = |second: u64| (self.trainer)(second) != (self.trainer)(second - 1);
            let ends = second == 0 || second + 1 == self.seconds;
            self.thinned && !ends && !second.is_multiple_of(30) && !moves(second) && !moves(second + 1)
        };
        let before = (0..second).rev().take_while(|before| rests(*before)).count();
        (!rests(second)).then_some(before as u32 + 1)
    }

    pub(crate) fn write(&self, path: &Path) {
        let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap().trim().to_owned();
        // A recorder that is no process any more has been killed.
        let dead = Some(ProcKey { pid: u32::MAX / 2, start_ticks: 1 });
        let cut_off = self.state == RunState::CutOff;
        let meta = Meta {
            run_id: "7f3a2c91".into(),
            name: "train.py".into(),
            argv: vec!["python".into(), "train.py".into()],
            boot_id: boot,
            started_unix_ns: 1_700_000_000_000_000_000,
            cpus: 4,
            page_bytes: 4096,
            recorder: if cut_off { dead } else { own_key() },
            root: Some(key(100)),
            state: Some(RunState::Running),
            ..Meta::default()
        };
        let writer = Writer::create(path, meta.clone()).unwrap();
        for (pid, parent) in [(100, 1), (101, 100), (102, 100)] {
            writer.push(Entry::Process(process(pid, parent, self.rank)));
        }
        for second in 0..self.seconds {
            let row = sample(100, second, (self.trainer)(second), self.file_mib);
            if let Some(ticks) = self.covers(second) {
                writer.push(Entry::Sample(SampleRow {
                    ticks,
                    rss: Span::one(row.rss.last.saturating_add(Bytes::from_mib(self.shmem_mib))),
                    shmem: Some(Bytes::from_mib(self.shmem_mib)),
                    swap: Some(Bytes::from_mib(self.swap_mib)),
                    ..row
                }));
            }
            if let Some(gpu_mib) = self.gpu_mib {
                writer.push(Entry::Gpu(gpu(second, gpu_mib)));
            }
            if self.steps && second.is_multiple_of(self.step_seconds) {
                let tick = Tick(second * 1_000_000_000);
                writer.push(Entry::Mark(Mark { tick, ..mark(second / self.step_seconds) }));
            }
            if let Some(charge) = self.charge_mib {
                let before = if second + 1 == self.seconds { charge } else { charge / 2 };
                writer.push(Entry::Cgroup(cgroup(second, before)));
            }
        }
        for second in [0, self.seconds - 1] {
            writer.push(Entry::Sample(sample(101, second, 20, 5)));
            writer.push(Entry::Sample(sample(102, second, 20, 5)));
        }
        let ended = Tick((self.seconds - 1) * 1_000_000_000);
        writer.announce(ended);
        if cut_off {
            drop(writer);
        } else {
            writer.finish(Meta { state: Some(self.state), ended: Some(ended), ..meta }).unwrap();
        }
    }
}
