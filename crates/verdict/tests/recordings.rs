//! Whole runs built in code: which process, which memory, what it is.

mod made;

use lowtide_model::{
    Bytes, Context, Event, EventKind, Exit, GpuRow, HostRow, MarkKind, MarkPhase, Pss, Recording, Role,
    SampleRow, Span, Tick,
};
use lowtide_verdict::{Fits, Group, Kind, Verdict, judge_recording, judge_recording_with};
use made::{MIB, Run, key, mark, process, row, wobble};

#[test]
fn a_leaking_grandchild_among_flat_workers_is_the_answer() {
    let mut run = Run::new();
    for pid in 3..=6 {
        run.recording.processes.push(process(pid, Some(2), false, 1.0));
        run.rows(pid, 1, 200, |_| 300.0);
    }
    run.recording.processes.push(process(7, Some(3), true, 2.0));
    run.rows(1, 0, 200, |_| 8.0);
    run.rows(2, 0, 200, |_| 900.0);
    run.rows(7, 2, 200, |t| 50.0 + 1.5 * t);
    let found = run.judged();
    assert_eq!(found.main.verdict, Kind::Leak, "{:#?}", found.main);
    assert_eq!(found.main.process.as_ref().unwrap().key, key(7));
    assert!(found.findings.iter().all(|f| f.group != Group::Leak), "{:#?}", found.findings);
    let role = |pid: u32| found.roles.iter().find(|r| r.process == key(pid)).unwrap().role;
    assert_eq!((role(1), role(2), role(3)), (Role::Wrapper, Role::Trainer, Role::LoaderWorker));
}

#[test]
fn what_a_process_gives_back_as_it_ends_is_not_part_of_its_life() {
    let spike = |t: f64| if t % 24.0 >= 21.0 { 90.0 } else { 0.0 };
    let mut run = Run::new();
    run.recording.processes[1].died = Some(Tick::from_seconds(140.5));
    run.rows(2, 0, 140, |t| 60.0 + 0.4 * t + spike(t));
    run.rows(2, 140, 141, |_| 20.0);
    let found = run.judged().main;
    assert_eq!(found.verdict, Kind::Leak, "{found:#?}");
    assert!(found.floor.end_bytes > 110.0 * MIB, "{:?}", found.floor);
}

#[test]
fn a_row_for_many_ticks_says_that_nothing_moved_before_it_did() {
    let mut run = Run::new();
    for i in 0..20 {
        let (from, low) = (f64::from(10 * i), 100.0 + wobble(i));
        run.recording.samples.push(row(2, from, low, 40.0));
        let mut long = row(2, from + 7.0, low + 80.0, 40.0);
        (long.ticks, long.anon) = (
            7,
            Some(Span {
                min: Bytes::from_f64(low * MIB),
                max: Bytes::from_f64((low + 80.0) * MIB),
                last: Bytes::from_f64((low + 80.0) * MIB),
            }),
        );
        run.recording.samples.push(long);
    }
    let found = run.judged().main;
    assert_eq!(found.group, Group::Flat, "{found:#?}");
    assert!(found.floor.end_bytes < 110.0 * MIB, "seven ticks in ten were low: {:?}", found.floor);
}

#[test]
fn a_night_asleep_is_no_plateau() {
    let mut run = Run::new();
    run.rows(2, 0, 61, |t| 400.0 + 3.0 * t);
    run.rows(2, 3000, 3060, |t| 400.0 + 3.0 * (t - 2940.0));
    run.recording.events.push(Event {
        tick: Tick::from_seconds(3000.0),
        kind: EventKind::Gap,
        process: None,
        text: "no samples for 2940.0 s".into(),
        data: Some(r#"{"from_ns":60000000000,"to_ns":3000000000000}"#.into()),
    });
    let found = run.judged().main;
    assert_eq!(found.verdict, Kind::Leak, "{found:#?}");
    assert!((2.8..=3.2).contains(&(found.floor.bytes_per_step / MIB)), "{:?}", found.floor);
    assert!(found.evidence.iter().any(|line| line.contains("nobody watched")), "{:?}", found.evidence);
}

#[test]
fn peaks_inside_saves_are_told_with_what_helps() {
    let mut run = Run::new();
    run.rows(2, 0, 200, |t| if t % 50.0 >= 47.0 { 1400.0 } else { 800.0 });
    for i in 0..200 {
        let t = f64::from(i);
        run.recording.marks.push(mark(MarkKind::Step, MarkPhase::Point, t, t));
        match i % 50 {
            47 => run.recording.marks.push(mark(MarkKind::Save, MarkPhase::Start, t, t)),
            49 => run.recording.marks.push(mark(MarkKind::Save, MarkPhase::End, t + 0.5, t)),
            _ => {}
        }
    }
    let found = run.judged().main;
    assert_eq!(found.verdict, Kind::Spikes, "{found:#?}");
    assert!(found.advice[0].contains("shards"), "{:?}", found.advice);
    assert!(
        found.evidence.iter().any(|line| line.starts_with("inside saves it reached 1.37 GiB")),
        "{found:#?}"
    );
}

#[test]
fn a_full_dev_shm_and_a_bus_error_are_told() {
    let mut run = Run::new();
    run.rows(2, 0, 100, |_| 800.0);
    run.recording.processes.push(process(3, Some(2), false, 1.0));
    run.recording.processes[2].exit = Some(Exit::Signal(7));
    run.recording.host.push(HostRow {
        tick: Tick::from_seconds(99.0),
        dev_shm_used: Some(Bytes::from_mib(63)),
        dev_shm_total: Some(Bytes::from_mib(64)),
        ..HostRow::default()
    });
    let found = run.judged().main;
    assert!(found.advice[0].contains("/dev/shm"), "{:?}", found.advice);
    let line = "/dev/shm holds 63.0 MiB of 64.0 MiB; processes that died of a bus error: 1";
    assert!(found.evidence.iter().any(|l| l == line), "{:?}", found.evidence);
}

#[test]
fn a_fill_over_two_epochs_is_told_by_its_marks() {
    let mut run = Run::new();
    run.rows(1, 0, 300, |_| 8.0);
    run.rows(2, 0, 300, |t| 400.0 + 20.0 * t.min(100.0));
    let mut info = mark(MarkKind::Info, MarkPhase::Point, 0.0, 0.0);
    info.extra = Some(r#"{"examples":800,"batch":2,"accum":4,"epochs":3}"#.into());
    run.recording.marks.push(info);
    for i in 0..300 {
        run.recording.marks.push(mark(MarkKind::Step, MarkPhase::Point, f64::from(i), f64::from(i)));
    }
    let found = run.judged();
    assert_eq!(found.main.verdict, Kind::CacheFill, "{:#?}", found.main);
    let settled = found.main.settled_at.unwrap().step.unwrap();
    assert!((settled - 100.0).abs() <= 3.0, "{settled}");
    let each = found.main.bytes_per_example.unwrap() / MIB;
    assert!((2.3..=2.7).contains(&each), "{each}");
}

#[test]
fn inside_the_first_epoch_the_same_fill_is_too_early() {
    let mut run = Run::new();
    run.rows(2, 0, 60, |t| 400.0 + 20.0 * t);
    let mut info = mark(MarkKind::Info, MarkPhase::Point, 0.0, 0.0);
    info.extra = Some(r#"{"examples":800,"batch":2,"accum":4,"epochs":3}"#.into());
    run.recording.marks.push(info);
    for i in 0..60 {
        run.recording.marks.push(mark(MarkKind::Step, MarkPhase::Point, f64::from(i), f64::from(i)));
    }
    let found = run.judged();
    assert_eq!(found.main.verdict, Kind::TooEarly);
    assert_eq!(found.main.decided_at_step, Some(100.0));
}

#[test]
fn forked_workers_that_un_share_are_told_as_copies() {
    let mut run = Run::new();
    run.rows(2, 0, 120, |_| 2000.0);
    for pid in 3..=4 {
        run.recording.processes.push(process(pid, Some(2), false, 1.0));
        for i in 1..120 {
            let t = f64::from(i);
            let mut sample = row(pid, t, 1900.0, 40.0);
            if i % 10 == 1 {
                let (private, shared) = (50.0 + 10.0 * t, 1850.0 - 10.0 * t);
                let mib = |v: f64| Bytes::from_f64(v * MIB);
                sample.pss = Some(Pss {
                    pss: mib(private),
                    private: mib(private),
                    shared: mib(shared),
                    ..Pss::default()
                });
            }
            run.recording.samples.push(sample);
        }
    }
    let found = run.judged();
    assert_eq!(found.main.verdict, Kind::WorkerCopies, "{:#?}", found.main);
    assert!(found.main.evidence[0].contains("2 processes"));
    let needs = found.main.outcome.needs_bytes.unwrap() / MIB;
    assert!((3700.0..=3900.0).contains(&needs), "two workers with all 1,900 MiB of their own, not {needs}");
}

#[test]
fn file_pages_alone_are_page_cache() {
    let mut run = Run::new();
    for i in 0..200 {
        let t = f64::from(i);
        run.recording.samples.push(row(2, t, 500.0 + wobble(i), 40.0 + 12.0 * t));
    }
    let found = run.judged();
    assert_eq!(found.main.verdict, Kind::PageCache, "{:#?}", found.main);
}

#[test]
fn a_little_page_cache_beside_a_large_flat_job_is_a_second_line() {
    let mut run = Run::new();
    for i in 0..200 {
        let t = f64::from(i);
        run.recording.samples.push(row(2, t, 3000.0 + wobble(i), 40.0 + 0.4 * t));
    }
    let found = run.judged();
    assert_eq!(found.main.verdict, Kind::Steady, "{:#?}", found.main);
    let beside = |line: &&String| line.contains("of file pages came in");
    assert_eq!(found.main.evidence.iter().filter(beside).count(), 1, "{:#?}", found.main.evidence);
    assert!(found.findings.is_empty(), "{:#?}", found.findings);
}

#[test]
fn processes_that_multiply_are_told_as_that() {
    let mut run = Run::new();
    run.rows(2, 0, 400, |_| 800.0);
    for n in 0..20 {
        let (pid, born) = (10 + n, 20 * n + 1);
        run.recording.processes.push(process(pid, Some(2), false, f64::from(born)));
        run.rows(pid, born, 400, |_| 200.0);
    }
    let found = run.judged();
    assert_eq!(found.main.verdict, Kind::Leak, "{:#?}", found.main);
    assert!(found.main.headline.contains("multiply"), "{}", found.main.headline);
}

#[test]
fn gpu_memory_that_grows_is_a_finding() {
    let mut run = Run::new();
    run.rows(2, 0, 200, |_| 800.0);
    for i in 0..200 {
        let used = Span::one(Bytes::from_f64((2000.0 + 3.0 * f64::from(i) + wobble(i)) * MIB));
        let tick = Tick::from_seconds(f64::from(i));
        run.recording.gpus.push(GpuRow {
            gpu: 0,
            uuid: "GPU-0".into(),
            process: Some(key(2)),
            tick,
            used,
            total: None,
        });
    }
    let found = run.judged();
    assert_eq!(found.main.verdict, Kind::Leak, "{:#?}", found.main);
    assert!(found.main.headline.starts_with("GPU 0"), "{}", found.main.headline);
}

#[test]
fn a_gpu_that_fills_up_is_the_answer_though_the_flat_host_leaves_few_rows() {
    let mut run = Run::new();
    run.recording.processes[1].died = Some(Tick::from_seconds(29.2));
    run.rows(2, 0, 4, |t| 75.0 * t);
    run.recording.samples.push(SampleRow { ticks: 500, ..row(2, 29.0, 300.0, 40.0) });
    let total = 140_000.0 * MIB;
    let mut tell = |process, second: f64, used: f64| {
        run.recording.gpus.push(GpuRow {
            gpu: 0,
            uuid: "GPU-0".into(),
            process,
            tick: Tick::from_seconds(second),
            used: Span::one(Bytes::from_f64(used * MIB)),
            total: Some(Bytes::from_f64(total)),
        });
    };
    for second in 4..29 {
        let used = 5600.0 * f64::from(second - 3);
        tell(None, f64::from(second), used + 10.0);
        tell(Some(key(2)), f64::from(second), used);
    }
    // It died of it; the card is empty again.
    tell(None, 30.0, 0.0);
    for step in 0..100 {
        let second = 4.0 + f64::from(step) / 4.0;
        run.recording.marks.push(mark(MarkKind::Step, MarkPhase::Point, second, f64::from(step)));
    }
    let found = run.judged().main;
    assert!(found.headline.starts_with("GPU 0"), "{found:#?}");
    let pace = found.floor.bytes_per_step / MIB;
    assert!((1_350.0..=1_450.0).contains(&pace), "{pace} MiB a step");
    let limit = found.outcome.limit_bytes.unwrap();
    assert!((limit - total).abs() < 0.01 * total, "{limit}");
}

#[test]
fn a_gpu_that_is_told_three_times_and_then_stays_is_steady() {
    let mut run = Run::new();
    run.rows(2, 0, 200, |_| 800.0);
    // A row is written when a value moves: a model is loaded in three pieces, then nothing moves.
    for (second, used) in [(4.0, 586.0), (8.0, 858.0), (8.4, 1146.0)] {
        run.recording.gpus.push(GpuRow {
            gpu: 0,
            uuid: "GPU-0".into(),
            process: Some(key(2)),
            tick: Tick::from_seconds(second),
            used: Span::one(Bytes::from_f64(used * MIB)),
            total: Some(Bytes(140 << 30)),
        });
    }
    let found = run.judged();
    assert_eq!(found.main.verdict, Kind::Steady, "{:#?}", found.main);
    assert!(found.main.process.is_some(), "{:#?}", found.main);
    assert!(found.findings.iter().all(|finding| finding.group == Group::Bounded), "{:#?}", found.findings);
}

fn one_epoch_run(leaks_in_eval: bool) -> Run {
    let mut run = Run::new();
    let keep = if leaks_in_eval { 2.0 } else { 0.0 };
    run.rows(2, 0, 300, |t| 400.0 + 3.0 * t + keep * (t / 30.0).floor());
    let mut info = mark(MarkKind::Info, MarkPhase::Point, 0.0, 0.0);
    info.extra = Some(r#"{"examples":2400,"batch":2,"accum":4,"epochs":1}"#.into());
    run.recording.marks.push(info);
    for i in 0..300 {
        let t = f64::from(i);
        if i % 30 == 29 {
            run.recording.marks.push(mark(MarkKind::Eval, MarkPhase::Start, t, t));
            run.recording.marks.push(mark(MarkKind::Eval, MarkPhase::End, t + 0.9, t));
        }
        run.recording.marks.push(mark(MarkKind::Step, MarkPhase::Point, t, t));
    }
    run
}

#[test]
fn a_one_epoch_job_does_not_stay_undecided_for_life() {
    let found = one_epoch_run(false).judged();
    assert_ne!(found.main.group, Group::TooEarly, "{:#?}", found.main);
    assert!(found.main.headline.contains("nothing comes back"), "{}", found.main.headline);
}

#[test]
fn a_one_epoch_job_that_leaks_beyond_its_examples_is_a_leak() {
    let mut run = one_epoch_run(false);
    run.recording.marks[0].extra =
        Some(r#"{"examples":2400,"batch":2,"accum":4,"epochs":1,"largest_example_bytes":100000}"#.into());
    assert_eq!(run.judged().main.verdict, Kind::Leak);
}

#[test]
fn an_eval_that_keeps_memory_is_a_leak_even_in_the_first_epoch() {
    let mut run = Run::new();
    run.rows(2, 0, 300, |t| 400.0 + 12.0 * (t / 30.0).floor());
    let mut info = mark(MarkKind::Info, MarkPhase::Point, 0.0, 0.0);
    info.extra = Some(r#"{"examples":8000,"batch":2,"accum":4,"epochs":2}"#.into());
    run.recording.marks.push(info);
    for i in 0..300 {
        let t = f64::from(i);
        if i % 30 == 29 {
            run.recording.marks.push(mark(MarkKind::Eval, MarkPhase::Start, t, t));
            run.recording.marks.push(mark(MarkKind::Eval, MarkPhase::End, t + 0.9, t));
        }
        run.recording.marks.push(mark(MarkKind::Step, MarkPhase::Point, t, t));
    }
    let found = run.judged();
    assert_eq!(found.main.verdict, Kind::Leak, "{:#?}", found.main);
    assert!(found.main.headline.contains("evaluation"), "{}", found.main.headline);
}

#[test]
fn the_machines_memory_is_the_limit_when_no_other_is_known() {
    let mut run = Run::new();
    run.rows(2, 0, 200, |t| 400.0 + 5.0 * t);
    let tick = Tick::from_seconds(199.0);
    let free = Span::one(Bytes::from_f64(1000.0 * MIB));
    run.recording.host.push(HostRow {
        tick,
        total: Bytes::from_mib(8000),
        available: free,
        ..HostRow::default()
    });
    let forecast = run.judged().main.forecast.unwrap();
    let seconds = forecast.in_seconds.unwrap();
    assert!((180.0..=220.0).contains(&seconds), "{forecast:?}");
    assert!(forecast.low <= seconds && seconds <= forecast.high, "the interval holds it: {forecast:?}");
}

#[test]
fn workers_that_are_made_anew_for_each_epoch_do_not_leak() {
    let epochs = |exit: Option<Exit>| {
        let mut run = Run::new();
        run.rows(2, 0, 240, |t| 500.0 + wobble(t as u32));
        for epoch in 0..4_u32 {
            for worker in 0..2 {
                let (pid, born) = (10 + epoch * 2 + worker, epoch * 60);
                let mut process = process(pid, Some(2), false, f64::from(born));
                (process.died, process.exit) = (Some(Tick::from_seconds(f64::from(born) + 59.0)), exit);
                run.recording.processes.push(process);
                run.rows(pid, born, born + 59, |t| 100.0 + 4.0 * (t - f64::from(born)));
            }
        }
        run.recording.samples.sort_by_key(|row| row.tick);
        run.judged()
    };
    let found = epochs(Some(Exit::Code(0)));
    assert_eq!(found.main.group, Group::Flat, "{:#?}", found.main);
    assert!(found.findings.iter().all(|finding| finding.group != Group::Leak), "{:#?}", found.findings);
    let told = "8 processes came one after the other and went, each grew by up to 233 MiB";
    assert!(found.main.evidence.iter().any(|line| line.starts_with(told)), "{:?}", found.main.evidence);
    assert_eq!(epochs(Some(Exit::Signal(9))).main.group, Group::Leak, "killed, each time");
}

/// A trainer and three more processes beside it, each of them in its own way.
fn four(forked: bool, held: impl Fn(f64) -> f64 + Copy) -> Run {
    let mut run = Run::new();
    run.rows(2, 0, 120, held);
    for pid in 3..=5 {
        run.recording.processes.push(process(pid, Some(2), !forked, 0.0));
        run.rows(pid, 0, 120, held);
    }
    run.recording.samples.sort_by_key(|row| row.tick);
    run
}

#[test]
fn a_limit_that_is_given_is_for_all_processes_together() {
    let judged = |run: &Run, mib: u64| {
        let limit = Some(Bytes::from_mib(mib));
        judge_recording_with(&run.recording, Context { limit, ..Context::default() }).main
    };
    let flat = four(false, |_| 300.0);
    let over = judged(&flat, 700);
    assert_eq!(over.outcome.is, Fits::Exceeds, "{over:#?}");
    assert_eq!(over.outcome.limit_bytes, Some(700.0 * MIB));
    assert!((over.outcome.needs_bytes.unwrap() - 1200.0 * MIB).abs() < 20.0 * MIB, "{:?}", over.outcome);
    assert!(over.evidence.iter().any(|line| line.contains("hold 90")), "{:?}", over.evidence);
    assert_eq!(judged(&flat, 2000).outcome.is, Fits::Fits);
    let shared = four(true, |_| 300.0);
    assert_eq!(judged(&shared, 700).outcome.is, Fits::Fits, "what a fork has from its parent is there once");
}

#[test]
fn processes_that_grow_side_by_side_reach_their_limit_together() {
    let run = four(false, |t| 100.0 + t);
    let limit = Some(Bytes::from_mib(2000));
    let found = judge_recording_with(&run.recording, Context { limit, ..Context::default() }).main;
    assert_eq!(found.verdict, Kind::Leak, "{found:#?}");
    // 2000 less four times 219, by 4 a second.
    let left = found.forecast.unwrap().in_seconds.unwrap();
    assert!((left - 281.0).abs() < 15.0, "{:#?}", found.forecast);
    assert!(found.headline.contains("1.95 GiB is reached"), "{}", found.headline);
}

#[test]
fn the_first_seconds_of_a_new_worker_are_no_pace_for_the_whole_job() {
    let mut run = Run::new();
    run.rows(2, 0, 120, |t| 100.0 + t);
    for pid in 3..=4 {
        run.recording.processes.push(process(pid, Some(2), false, 108.0));
        run.rows(pid, 108, 120, |t| 10.0 + 20.0 * (t - 108.0));
    }
    run.recording.samples.sort_by_key(|row| row.tick);
    let limit = Some(Bytes::from_mib(2000));
    let found = judge_recording_with(&run.recording, Context { limit, ..Context::default() });
    let all = || std::iter::once(&found.main).chain(&found.findings);
    let of_trainer = |told: &&Verdict| told.process.as_ref().is_some_and(|of| of.key.pid == 2);
    let found = all().find(of_trainer).unwrap();
    // 2000 less 219 and what the workers hold, by one a second; with their pace it would be half a minute.
    let left = found.forecast.unwrap().in_seconds.unwrap();
    assert!((1000.0..1800.0).contains(&left), "{:#?}", found.forecast);
}

#[test]
fn a_peak_that_no_sample_saw_is_needed_all_the_same() {
    let mut run = Run::new();
    run.rows(2, 0, 120, |_| 300.0);
    run.recording.processes[1].peak_rss = Some(Bytes::from_mib(900));
    let limit = Some(Bytes::from_mib(600));
    let found = judge_recording_with(&run.recording, Context { limit, ..Context::default() }).main;
    assert_eq!(found.outcome.is, Fits::Exceeds, "{:?}", found.outcome);
}

#[test]
fn an_empty_recording_is_too_early_not_an_error() {
    assert_eq!(judge_recording(&Recording::default()).main.verdict, Kind::TooEarly);
}

/// A job that loads for 20 s, makes ten steps a second of which one in ten is told, and takes as long to clean up.
fn trained(held: impl Fn(f64) -> f64) -> Run {
    let mut run = Run::new();
    run.recording.processes[1].died = Some(Tick::from_seconds(60.0));
    run.rows(2, 0, 20, |t| 15.0 * t);
    for quarter in 0..80 {
        let t = 20.0 + f64::from(quarter) / 4.0;
        run.recording.samples.push(row(2, t, held(10.0 * (t - 20.0)), 40.0));
    }
    run.rows(2, 40, 60, |_| 250.0);
    for second in 20..=40 {
        let t = f64::from(second);
        run.recording.marks.push(mark(MarkKind::Step, MarkPhase::Point, t, 10.0 * (t - 20.0)));
    }
    run
}

#[test]
fn loading_and_cleaning_up_are_no_part_of_a_curve_over_steps() {
    let found = trained(|_| 300.0).judged().main;
    assert_eq!(found.verdict, Kind::Steady, "{found:#?}");
}

#[test]
fn a_fill_ends_at_its_step_though_few_steps_are_told() {
    let mut run = trained(|step| 300.0 + 9.6 * step.min(75.0));
    run.tell(20.0, r#"{"examples":300,"batch":2,"accum":2}"#);
    let found = run.judged().main;
    assert_eq!(found.verdict, Kind::CacheFill, "{found:#?}");
    let ended = found.settled_at.unwrap().step.unwrap();
    assert!((ended - 75.0).abs() <= 2.0, "{ended}");
    let each = found.bytes_per_example.unwrap() / MIB;
    assert!((2.3..=2.5).contains(&each), "{each} MiB an example");
}

#[test]
fn a_flat_job_is_judged_over_its_steps_though_it_leaves_one_row() {
    let mut run = trained(|_| 300.0);
    run.recording.samples.retain(|row| row.tick.seconds() <= 20.0);
    let mut rest = row(2, 50.0, 300.0, 40.0);
    rest.ticks = 120;
    run.recording.samples.push(rest);
    let found = run.judged().main;
    assert_eq!(found.verdict, Kind::Steady, "{found:#?}");
}

#[test]
fn the_first_seconds_of_a_program_are_too_early_whatever_they_show() {
    let growths: [fn(f64) -> f64; 3] =
        [|t| 30.0 * t, |t| 60.0 * t.min(0.8), |t| 90.0 * (1.0 - (-4.0 * t).exp())];
    for grow in growths {
        let mut run = Run::new();
        run.rows(1, 0, 2, |_| 2.0);
        for i in 0..19 {
            let t = f64::from(i) / 10.0;
            run.recording.samples.push(row(2, t, 20.0 + grow(t) + 0.1 * wobble(i), 40.0));
        }
        let found = run.judged();
        assert_eq!(found.main.verdict, Kind::TooEarly, "{}", found.main.headline);
        assert!(found.main.why.iter().any(|w| w.contains("how a program starts")), "{:?}", found.main.why);
    }
}

/// Four seconds in which nothing moves, then an event of one second that keeps 30 MiB after half of it. The quiet is one
/// row, written when memory moves: inside the event.
fn keeps_in(kind: MarkKind, facts: &str) -> Run {
    let mut run = Run::new();
    run.tell(0.0, facts);
    run.recording.samples.push(row(2, 0.1, 5.0, 40.0));
    for event in 0..12 {
        let (began, held) = (5.0 * f64::from(event), 30.0f64.mul_add(f64::from(event), 5.0));
        for step in 0..20 {
            let number = f64::from(event * 20 + step + 1);
            let second = 0.2f64.mul_add(f64::from(step), began) + 0.2;
            run.recording.marks.push(mark(MarkKind::Step, MarkPhase::Point, second, number));
        }
        run.recording.marks.push(mark(kind, MarkPhase::Start, began + 4.05, 0.0));
        run.recording.marks.push(mark(kind, MarkPhase::End, began + 4.95, 0.0));
        run.recording.samples.push(lowtide_model::SampleRow { ticks: 16, ..row(2, began + 4.4, held, 40.0) });
        run.recording.samples.push(row(2, began + 4.6, held + 10.0, 40.0));
        run.recording.samples.push(row(2, began + 4.8, held + 30.0, 40.0));
    }
    run
}

#[test]
fn what_each_event_keeps_is_told_though_the_quiet_before_it_is_one_row_inside_it() {
    for (kind, word) in [(MarkKind::Save, "save"), (MarkKind::Eval, "evaluation")] {
        for facts in [r#"{"examples":160,"batch":4}"#, r#"{"examples":80000,"batch":4,"epochs":3}"#] {
            let found = keeps_in(kind, facts).judged().main;
            assert_eq!(found.verdict, Kind::Leak, "{word}, {facts}: {found:#?}");
            assert!(found.headline.contains(&format!("each {word} keeps 30")), "{facts}: {}", found.headline);
            assert!(found.advice[0].contains(&word[..3]), "{facts}: {:?}", found.advice);
            let wrong = |line: &String| line.contains("at every step") || line.contains("does not line up");
            assert!(!found.evidence.iter().any(wrong), "{facts}: {found:#?}");
        }
    }
}
