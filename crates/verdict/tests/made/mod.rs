//! Runs built in code, row by row.

#![allow(dead_code, missing_docs, reason = "each test program uses its own part of this")]
#![allow(clippy::unwrap_used, reason = "a test that can't set its stage should stop")]

use lowtide_model::{
    Bytes, Context, Mark, MarkKind, MarkPhase, Meta, ProcKey, Process, Recording, SampleRow, Span, Tick,
};
use lowtide_verdict::{LiveJudge, RunVerdict, judge_recording};
use std::collections::BTreeSet;

pub(crate) const MIB: f64 = 1_048_576.0;

pub(crate) fn key(pid: u32) -> ProcKey {
    ProcKey { pid, start_ticks: u64::from(pid) }
}

pub(crate) fn process(pid: u32, parent: Option<u32>, execed: bool, born: f64) -> Process {
    Process {
        key: key(pid),
        parent: parent.map(key),
        born: Tick::from_seconds(born),
        died: None,
        exit: None,
        execed,
        comm: "renamed".into(),
        argv: vec!["./renamed".into()],
        env: Vec::new(),
        cgroup: None,
        peak_rss: None,
    }
}

pub(crate) fn row(pid: u32, second: f64, anon_mib: f64, file_mib: f64) -> SampleRow {
    let bytes = |mib: f64| Bytes::from_f64(mib * MIB);
    SampleRow {
        process: key(pid),
        tick: Tick::from_seconds(second),
        ticks: 1,
        rss: Span::one(bytes(anon_mib + file_mib)),
        anon: Some(Span::one(bytes(anon_mib))),
        file: Some(bytes(file_mib)),
        ..SampleRow::default()
    }
}

pub(crate) fn mark(kind: MarkKind, phase: MarkPhase, second: f64, number: f64) -> Mark {
    let tick = Tick::from_seconds(second);
    Mark { tick, process: Some(key(2)), kind, phase, number, rank: None, extra: None }
}

/// A small deterministic wobble, so that nothing is free of noise.
pub(crate) fn wobble(i: u32) -> f64 {
    f64::from(i.wrapping_mul(2_654_435_761) >> 16 & 0xff) / 255.0
}

pub(crate) struct Run {
    pub(crate) recording: Recording,
}

impl Run {
    /// A wrapper (1) that started a trainer (2).
    pub(crate) fn new() -> Self {
        let mut recording = Recording {
            meta: Meta { kernel: "6.1.0".into(), cpus: 2, page_bytes: 4096, ..Meta::default() },
            ..Recording::default()
        };
        recording.processes = vec![process(1, None, true, 0.0), process(2, Some(1), true, 0.0)];
        Self { recording }
    }

    pub(crate) fn rows(&mut self, pid: u32, from: u32, to: u32, need: impl Fn(f64) -> f64) {
        for i in from..to {
            let t = f64::from(i);
            self.recording.samples.push(row(pid, t, need(t) + wobble(i + pid), 40.0));
        }
    }

    pub(crate) fn judged(mut self) -> RunVerdict {
        self.recording.samples.sort_by_key(|s| (s.tick, s.process));
        self.recording.marks.sort_by_key(|m| m.tick);
        let verdict = judge_recording(&self.recording);
        let live = self.live();
        assert_eq!(live.main.verdict, verdict.main.verdict, "live and replay agree");
        assert_eq!(live.main.process, verdict.main.process);
        verdict
    }

    /// Facts that the trainer tells at a second.
    pub(crate) fn tell(&mut self, second: f64, facts: &str) {
        let mut info = mark(MarkKind::Info, MarkPhase::Point, second, 0.0);
        info.extra = Some(facts.to_owned());
        self.recording.marks.push(info);
    }

    /// The same rows, one by one in the order of their ticks.
    pub(crate) fn live(&self) -> RunVerdict {
        let r = &self.recording;
        let mut judge = LiveJudge::new(&r.meta, Context::default());
        r.processes.iter().for_each(|p| judge.push_process(p));
        let mut marks = r.marks.iter().peekable();
        let mut gpus = r.gpus.iter().peekable();
        let mut samples = r.samples.iter().peekable();
        let ticks = r.marks.iter().map(|m| m.tick).chain(r.gpus.iter().map(|g| g.tick));
        let ticks: BTreeSet<Tick> = ticks.chain(r.samples.iter().map(|s| s.tick)).collect();
        for tick in ticks {
            while let Some(mark) = marks.next_if(|m| m.tick == tick) {
                judge.push_mark(mark);
            }
            while let Some(gpu) = gpus.next_if(|g| g.tick == tick) {
                judge.push_gpu(gpu);
            }
            while let Some(sample) = samples.next_if(|s| s.tick == tick) {
                judge.push_sample(sample);
            }
        }
        r.host.iter().for_each(|h| judge.push_host(h));
        r.cgroups.iter().for_each(|c| judge.push_cgroup(c));
        r.events.iter().for_each(|e| judge.push_event(e));
        judge.finish();
        judge.verdict()
    }
}
