//! A recording with something in every field, and the means to write it.
#![allow(dead_code, reason = "each test file uses its part")]
#![allow(clippy::unwrap_used, reason = "a test that cannot begin should stop")]
#![allow(clippy::too_many_lines, reason = "a table of every field")]

use lowtide_model::*;
use lowtide_store::{Entry, Writer, own_key};
use std::time::{Duration, Instant};

pub(crate) fn key(pid: u32) -> ProcKey {
    ProcKey { pid, start_ticks: 1000 + u64::from(pid) }
}

pub(crate) fn meta() -> Meta {
    Meta {
        run_id: "7f3a2c91".into(),
        name: "123".into(),
        argv: vec!["python".into(), "train.py".into()],
        cwd: "/home/ada".into(),
        host: "node1".into(),
        boot_id: std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap().trim().into(),
        started_unix_ns: 1_700_000_000_000_000_000,
        lowtide: "0.1.0".into(),
        kernel: "6.12".into(),
        cpus: 8,
        page_bytes: 4096,
        recorder: own_key(),
        root: Some(key(10)),
        attached: true,
        source: Some(Source::Connector),
        interval_ns: 1_000_000_000,
        state: Some(RunState::Running),
        ..Meta::default()
    }
}

pub(crate) fn finished() -> Meta {
    Meta {
        state: Some(RunState::Finished),
        ended: Some(Tick(9)),
        own_cpu_ns: 5,
        own_peak_bytes: 6,
        stall_ns: 7,
        ..meta()
    }
}

pub(crate) fn process(pid: u32) -> Process {
    Process {
        key: key(pid),
        parent: Some(key(1)),
        born: Tick(1),
        died: None,
        exit: None,
        execed: true,
        comm: "py (x) \n".into(),
        argv: vec!["python".into(), "a \"b\"".into()],
        env: vec![("RANK".into(), "0".into())],
        cgroup: Some("/user.slice".into()),
        peak_rss: Some(Bytes(4096)),
    }
}

pub(crate) fn sample(pid: u32, tick: u64, rss: u64) -> SampleRow {
    let mut span = Span::one(Bytes(rss));
    span.push(Bytes(rss + 4096));
    span.push(Bytes(rss + 1024));
    SampleRow {
        process: key(pid),
        tick: Tick(tick),
        ticks: 3,
        rss: span,
        anon: Some(Span::one(Bytes(rss / 2))),
        file: Some(Bytes(11)),
        shmem: Some(Bytes(0)),
        swap: None,
        locked: Some(Bytes(1)),
        size: Bytes(rss * 3),
        threads: Some(4),
        minor_faults: 100,
        major_faults: 2,
        cpu_ns: 123_456_789,
        pss: None,
    }
}

pub(crate) fn everything() -> Recording {
    let pressure = Some(Pressure { some_avg10: 0.25, full_avg10: 0.0, some_total_us: 9, full_total_us: 3 });
    let pss = Pss {
        pss: Bytes(1),
        pss_anon: Some(Bytes(2)),
        private: Bytes(3),
        shared: Bytes(4),
        private_dirty: Bytes(5),
        shared_dirty: Bytes(6),
    };
    let span = Span { min: Bytes(5), max: Bytes(50), last: Bytes(20) };
    let cgroup = |tick, limit| CgroupRow {
        path: "/job".into(),
        version: CgroupVersion::V2,
        tick: Tick(tick),
        ticks: 1,
        usage: span,
        limit,
        anon: Some(Bytes(1)),
        file: Some(Bytes(2)),
        shmem: None,
        inactive_file: Some(Bytes(4)),
        kernel: None,
        swap: Some(Bytes(0)),
        oom_kills: Some(1),
        limit_hits: None,
        pressure,
        strangers: Some(2),
    };
    let dead = Process { died: Some(Tick(8)), exit: Some(Exit::Signal(9)), execed: false, ..process(11) };
    Recording {
        meta: finished(),
        processes: vec![
            process(10),
            dead,
            Process { exit: Some(Exit::Code(-1)), parent: None, ..process(12) },
        ],
        samples: vec![
            sample(10, 2, 5_000_000_000),
            SampleRow { pss: Some(pss), anon: None, threads: None, ..sample(11, 2, 70_000) },
            sample(10, 4, 5_100_000_000),
        ],
        cgroups: vec![
            cgroup(2, None),
            cgroup(3, Some(Limit::Unlimited)),
            cgroup(4, Some(Limit::At(Bytes(9)))),
        ],
        host: vec![HostRow {
            tick: Tick(3),
            ticks: 2,
            total: Bytes(100),
            available: span,
            swap_total: Bytes(1),
            swap_free: Bytes(0),
            oom_kills: None,
            pressure: None,
            dev_shm_used: Some(Bytes(3)),
            dev_shm_total: Some(Bytes(4)),
        }],
        gpus: vec![
            GpuRow {
                gpu: 0,
                uuid: "GPU-1".into(),
                process: None,
                tick: Tick(2),
                used: span,
                total: Some(Bytes(80)),
            },
            GpuRow {
                gpu: 1,
                uuid: "GPU-2".into(),
                process: Some(key(10)),
                tick: Tick(3),
                used: span,
                total: None,
            },
        ],
        marks: vec![mark(MarkKind::Info, 1, 0.0), mark(MarkKind::Step, 2, 1.0), mark(MarkKind::Eval, 3, 1.5)],
        scans: vec![ScanRow {
            tick: Tick(3_000_000_000),
            process: key(10),
            report: "{\"schema\":\"lowtide.scan/1\",\"types\":[]}".to_owned(),
        }],
        events: vec![Event {
            tick: Tick(5),
            kind: EventKind::Gap,
            process: Some(key(10)),
            text: "slept".into(),
            data: Some("{\"s\":3}".into()),
        }],
        limits: vec![
            LimitHeld { kind: LimitKind::Cgroup { path: "/job".into() }, limit: Bytes(10), used: Bytes(9) },
            LimitHeld {
                kind: LimitKind::AddressSpace { process: key(10) },
                limit: Bytes(10),
                used: Bytes(5),
            },
            LimitHeld { kind: LimitKind::Host, limit: Bytes(100), used: Bytes(5) },
        ],
    }
}

pub(crate) fn mark(kind: MarkKind, tick: u64, number: f64) -> Mark {
    let extra = (kind == MarkKind::Info).then(|| "{\"examples\":663}".to_owned());
    Mark {
        tick: Tick(tick),
        process: Some(key(10)),
        kind,
        phase: MarkPhase::Point,
        number,
        rank: Some(0),
        extra,
    }
}

pub(crate) fn push_all(writer: &Writer, recording: &Recording) {
    recording.processes.iter().cloned().map(Entry::Process).for_each(|entry| writer.push(entry));
    recording.samples.iter().copied().map(Entry::Sample).for_each(|entry| writer.push(entry));
    recording.cgroups.iter().cloned().map(Entry::Cgroup).for_each(|entry| writer.push(entry));
    recording.host.iter().copied().map(Entry::Host).for_each(|entry| writer.push(entry));
    recording.gpus.iter().cloned().map(Entry::Gpu).for_each(|entry| writer.push(entry));
    recording.marks.iter().cloned().map(Entry::Mark).for_each(|entry| writer.push(entry));
    recording.events.iter().cloned().map(Entry::Event).for_each(|entry| writer.push(entry));
    recording.scans.iter().cloned().map(Entry::Scan).for_each(|entry| writer.push(entry));
    writer.push(Entry::Limits(recording.limits.clone()));
}

/// Waits for an event that must come.
pub(crate) fn wait_for(mut happened: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !happened() {
        assert!(begun.elapsed() < Duration::from_mins(1), "it never happened");
        std::thread::sleep(Duration::from_millis(10));
    }
}
