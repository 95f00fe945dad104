//! Whole runs built in code: how they ended, and what the job's own numbers say of the cause.

#![allow(clippy::unwrap_used, reason = "a test that can't set its stage should stop")]

mod made;

use lowtide_model::{
    Bytes, CgroupRow, CgroupVersion, Context, Event, EventKind, Exit, GpuRow, HostRow, Limit, LimitHeld,
    LimitKind, MarkKind, MarkPhase, RunState, Span, Tick,
};
use lowtide_verdict::{Fits, Group, Kind, LiveJudge, judge_recording};
use made::{MIB, Run, key, mark, process, wobble};

fn cgroup(second: f64, used_mib: u64, limit_mib: u64) -> CgroupRow {
    CgroupRow {
        path: "/job".into(),
        version: CgroupVersion::V2,
        tick: Tick::from_seconds(second),
        ticks: 1,
        usage: Span::one(Bytes::from_mib(used_mib)),
        limit: Some(Limit::At(Bytes::from_mib(limit_mib))),
        anon: None,
        file: None,
        shmem: None,
        inactive_file: None,
        kernel: None,
        swap: None,
        oom_kills: Some(0),
        limit_hits: None,
        pressure: None,
        strangers: Some(0),
    }
}

fn kill(pid: u32, second: f64, data: Option<&str>) -> Event {
    Event {
        tick: Tick::from_seconds(second),
        kind: EventKind::Oom,
        process: Some(key(pid)),
        text: format!(
            "process {pid} was killed by the kernel: out of memory, by the memory limit of 1000 MiB of cgroup /job"
        ),
        data: data.map(str::to_owned),
    }
}

const CALL: &str = r#"{"certain":true,"limit_bytes":1048576000,"limit_from":"cgroup /job"}"#;

#[test]
fn a_trainer_killed_for_memory_did_not_fit_however_flat_it_was() {
    let mut run = Run::new();
    run.rows(2, 0, 100, |_| 800.0);
    run.recording.processes[1].died = Some(Tick::from_seconds(100.0));
    run.recording.events.push(kill(2, 100.0, Some(CALL)));
    let main = run.judged().main;
    assert_eq!(main.group, Group::Flat);
    assert_eq!(main.outcome.is, Fits::Exceeds);
    assert_eq!(main.outcome.limit_bytes, Some(1000.0 * MIB));
    assert_eq!(main.outcome.limit_from.as_deref(), Some("cgroup /job"));
    assert!(main.outcome.needs_bytes.unwrap() >= 1000.0 * MIB, "{:?}", main.outcome);
    let words = "it did not fit: process 2 was killed for memory, at 1000 MiB of cgroup /job";
    assert!(main.headline.ends_with(words), "{}", main.headline);
    assert!(!main.headline.contains("it fits"), "{}", main.headline);
    assert!(main.evidence.iter().any(|l| l.contains("out of memory")), "{:?}", main.evidence);
    assert!(main.advice[0].contains("more than 1000 MiB"), "{:?}", main.advice);
    assert_eq!(main.forecast, None);
}

#[test]
fn an_old_recording_without_the_limit_takes_it_from_the_victims_cgroup() {
    let mut run = Run::new();
    run.rows(2, 0, 100, |t| 100.0 + 8.0 * t);
    run.recording.processes[1].cgroup = Some("/job/step".into());
    run.recording.cgroups = vec![cgroup(50.0, 500, 1000), cgroup(99.0, 990, 1000)];
    run.recording.events.push(kill(2, 100.0, Some(r#"{"certain":false}"#)));
    let main = run.judged().main;
    assert_eq!((main.verdict, main.outcome.is), (Kind::Leak, Fits::Exceeds));
    assert_eq!(main.outcome.limit_bytes, Some(1000.0 * MIB));
    assert!(main.headline.contains("likely killed"), "{}", main.headline);
    assert!(main.advice[0].contains("stop the leak"), "{:?}", main.advice);
}

#[test]
fn a_worker_killed_for_memory_decides_the_outcome_of_the_run() {
    let mut run = Run::new();
    run.rows(2, 0, 100, |_| 800.0);
    run.recording.processes.push(process(3, Some(2), false, 1.0));
    run.rows(3, 1, 60, |_| 100.0);
    run.recording.processes[2].died = Some(Tick::from_seconds(60.0));
    run.recording.processes[2].exit = Some(Exit::Signal(9));
    run.recording.events.push(kill(3, 60.0, Some(CALL)));
    let main = run.judged().main;
    assert_eq!(main.process.as_ref().unwrap().key, key(2));
    assert_eq!(main.outcome.is, Fits::Exceeds);
    assert!(main.headline.contains("process 3 was killed for memory"), "{}", main.headline);
}

#[test]
fn a_recording_cut_off_near_its_limit_is_tight_and_at_it_exceeds() {
    let cut = |used| {
        let mut run = Run::new();
        run.rows(2, 0, 100, |_| 800.0);
        run.recording.meta.state = Some(RunState::CutOff);
        run.recording.cgroups = vec![cgroup(99.0, used, 1000)];
        judge_recording(&run.recording).main
    };
    let at = cut(985);
    assert_eq!(at.outcome.is, Fits::Exceeds);
    assert!(
        at.headline.contains("it likely did not fit: the recording is cut off at 985 MiB of 1000 MiB"),
        "{}",
        at.headline
    );
    assert!(at.evidence.iter().any(|l| l.contains("(98 %), the limit of cgroup /job")), "{:?}", at.evidence);
    assert_eq!(cut(930).outcome.is, Fits::Tight);
    let early = cut(500);
    assert_eq!(early.outcome.death, None);
    let said = |line: &String| line.starts_with("the recording was cut off after 1.6 min");
    assert!(early.evidence.iter().any(said), "{:?}", early.evidence);
}

#[test]
fn what_an_ended_process_held_does_not_count_twice() {
    let mut run = Run::new();
    run.rows(2, 0, 200, |t| 200.0 + 4.0 * t);
    run.recording.processes[1].died = Some(Tick::from_seconds(199.5));
    let mut judge = LiveJudge::new(&run.recording.meta, Context::default());
    run.recording.processes.iter().for_each(|process| judge.push_process(process));
    run.recording.samples.iter().for_each(|row| judge.push_sample(row));
    // Nothing of the cgroup is taken any more when the last answer is given.
    let (limit, used) = (Bytes::from_mib(1500), Bytes::from_mib(20));
    judge.set_limits(&[LimitHeld { kind: LimitKind::Cgroup { path: "/job".into() }, limit, used }]);
    judge.finish();
    assert_eq!(judge.verdict().main.outcome.limit_bytes, Some(1500.0 * MIB));
}

#[test]
fn a_bus_error_with_a_full_dev_shm_is_a_limit_too() {
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
    let main = run.judged().main;
    assert_eq!((main.outcome.is, main.outcome.limit_from.as_deref()), (Fits::Exceeds, Some("/dev/shm")));
    assert!(main.advice[0].contains("/dev/shm"), "{:?}", main.advice);
}

/// Lives of one program, each of `seconds`, that climb from `from` by `by` MiB.
fn lives(count: u32, seconds: u32, from: f64, by: f64) -> Run {
    let mut run = Run::new();
    run.recording.processes.truncate(1);
    run.rows(1, 0, count * seconds, |_| 8.0);
    for n in 0..count {
        let (pid, start) = (10 + n, n * seconds);
        let mut life = process(pid, Some(1), true, f64::from(start));
        life.argv = vec!["python".into(), "train.py".into()];
        life.died = Some(Tick::from_seconds(f64::from(start + seconds) - 0.1));
        run.recording.processes.push(life);
        run.rows(pid, start, start + seconds, |t| {
            from + by * (t - f64::from(start)) / f64::from(seconds - 1)
        });
    }
    run
}

#[test]
fn lives_of_one_program_are_told_together() {
    let found = lives(3, 60, 500.0, 2000.0).judged();
    assert_eq!(found.main.verdict, Kind::Leak, "{:#?}", found.main);
    let line = found.main.evidence.iter().find(|l| l.starts_with("3 lives of this program")).unwrap();
    assert!(
        line.contains("each began at about 500 MiB") && line.contains("grew by about 1.95 GiB"),
        "{line}"
    );
    assert!(found.findings.is_empty(), "one program, one answer: {:#?}", found.findings);
}

/// The guard began a life with this process, from this checkpoint.
fn began(run: &mut Run, pid: u32, path: &str) {
    let key = run.recording.processes.iter().find(|process| process.key.pid == pid).unwrap().key;
    let born = Tick::from_seconds(1.0);
    let data = Some(format!(r#"{{"guard":"life","number":2,"from":{{"path":"{path}","step":4}}}}"#));
    let (kind, text) = (EventKind::Guard, "life 2 began".to_owned());
    run.recording.events.push(Event { tick: born, kind, process: Some(key), text, data });
}

#[test]
fn lives_whose_command_names_another_checkpoint_each_are_told_together() {
    let commands: [[&[&str]; 3]; 3] = [
        [&[], &["--from", "/out/c-4.pt"], &["--from", "/out/c-8.pt"]],
        [&["--from=/out/c-1.pt"], &["--from=/out/c-4.pt"], &["--from=/out/c-8.pt"]],
        [&["--seed", "1"], &["--seed", "1", "/out/c-4.pt"], &["--seed", "1", "/out/c-8.pt"]],
    ];
    for words in commands {
        let made = || {
            let mut run = lives(3, 60, 500.0, 2000.0);
            for (process, words) in run.recording.processes.iter_mut().skip(1).zip(words) {
                process.argv.extend(words.iter().map(|word| (*word).to_owned()));
            }
            run
        };
        assert!(
            !made().judged().main.evidence.iter().any(|line| line.starts_with("3 lives")),
            "nobody could know"
        );
        // As a shell starts it: the guard knows the shell.
        let mut run = made();
        ["/out/c-1.pt", "/out/c-4.pt", "/out/c-8.pt"].into_iter().for_each(|path| began(&mut run, 1, path));
        let found = run.judged();
        let evidence = &found.main.evidence;
        assert!(
            evidence.iter().any(|line| line.starts_with("3 lives of this program")),
            "{words:?}: {evidence:?}"
        );
        assert!(found.findings.is_empty(), "one program, one answer: {:#?}", found.findings);
    }
}

#[test]
fn what_the_guard_started_again_is_one_program_whatever_its_command() {
    let mut run = lives(3, 60, 500.0, 2000.0);
    // The command itself leaks, without a shell above it.
    run.recording.processes.remove(0);
    run.recording.samples.retain(|row| row.process.pid != 1);
    for (process, word) in run.recording.processes.iter_mut().zip(["--begin", "--resume", "--resume-other"]) {
        process.argv.push(word.to_owned());
    }
    began(&mut run, 11, "/out/c-4.pt");
    began(&mut run, 12, "/out/c-8.pt");
    let evidence = run.judged().main.evidence;
    assert!(evidence.iter().any(|line| line.starts_with("3 lives of this program")), "{evidence:?}");
}

#[test]
fn lives_too_short_to_tell_alone_tell_together() {
    let alone = lives(1, 8, 500.0, 2000.0).judged();
    assert_eq!(alone.main.group, Group::TooEarly, "{:#?}", alone.main);
    let together = lives(4, 8, 500.0, 2000.0).judged();
    assert_eq!(together.main.verdict, Kind::Leak, "{:#?}", together.main);
    assert!(together.main.evidence.iter().any(|l| l.starts_with("4 lives")), "{:?}", together.main.evidence);
}

#[test]
fn lives_inside_a_first_pass_that_is_known_stay_undecided() {
    let mut run = lives(4, 8, 500.0, 2000.0);
    run.tell(0.0, r#"{"epoch_steps":100}"#);
    assert_eq!(run.judged().main.group, Group::TooEarly);
}

fn allocator(run: &mut Run, of: impl Fn(f64) -> (f64, f64)) {
    for i in 0..200 {
        let t = f64::from(i);
        let (allocated, reserved) = of(t);
        let bytes = |mib: f64| ((mib + wobble(i)) * MIB).round();
        run.tell(
            t,
            &format!(
                r#"{{"gpu_allocated_bytes":{},"gpu_reserved_bytes":{}}}"#,
                bytes(allocated),
                bytes(reserved)
            ),
        );
    }
}

#[test]
fn allocated_gpu_memory_that_grows_is_a_leak_of_tensors() {
    // Over the socket nobody says which process speaks.
    for named in [true, false] {
        let mut run = Run::new();
        run.rows(2, 0, 200, |_| 800.0);
        allocator(&mut run, |t| (2000.0 + 5.0 * t, 2400.0 + 5.0 * t));
        run.recording.marks.iter_mut().for_each(|mark| mark.process = mark.process.filter(|_| named));
        let found = run.judged();
        assert_eq!(found.main.verdict, Kind::Leak, "{:#?}", found.main);
        assert!(found.main.headline.starts_with("GPU tensors: leak:"), "{}", found.main.headline);
        assert!(found.main.advice[0].contains("detach()"), "{:?}", found.main.advice);
        assert_eq!(found.main.process.unwrap().key, key(2));
    }
}

#[test]
fn reserved_gpu_memory_that_grows_beside_its_tensors_is_fragmentation() {
    let mut run = Run::new();
    run.rows(2, 0, 200, |_| 800.0);
    allocator(&mut run, |t| (2000.0, 2400.0 + 10.0 * t));
    // The driver sees the same growth; it is told once, with its reason.
    for i in 0..200 {
        let (tick, used) = (Tick::from_seconds(f64::from(i)), 2900.0 + 10.0 * f64::from(i));
        let used = Span::one(Bytes::from_f64(used * MIB));
        run.recording.gpus.push(GpuRow {
            gpu: 0,
            uuid: "GPU-0".into(),
            process: Some(key(2)),
            tick,
            used,
            total: Some(Bytes(80 << 30)),
        });
    }
    let found = run.judged();
    assert_eq!(found.main.verdict, Kind::AllocatorKept, "{:#?}", found.main);
    assert!(found.main.headline.starts_with("fragmentation of GPU memory"), "{}", found.main.headline);
    let limit = found.main.outcome.limit_bytes.unwrap();
    assert!((70.0 * 1024.0 * MIB..80.0 * 1024.0 * MIB).contains(&limit), "{:#?}", found.main.outcome);
    assert!(found.main.advice[0].contains("expandable_segments:True"), "{:?}", found.main.advice);
    assert!(found.findings.iter().all(|f| f.group != Group::Leak), "{:#?}", found.findings);
}

#[test]
fn an_allocator_that_falls_silent_has_settled() {
    let mut run = Run::new();
    run.rows(2, 0, 600, |_| 800.0);
    // Counters are told when they move: nothing after half a minute means that nothing moved.
    for i in 0..30 {
        let bytes = (500.0 + 100.0 * f64::from(i)) * MIB;
        run.tell(f64::from(i), &format!(r#"{{"gpu_allocated_bytes":{bytes},"gpu_reserved_bytes":{bytes}}}"#));
    }
    let found = run.judged();
    let all = std::iter::once(&found.main).chain(&found.findings);
    assert!(all.clone().all(|verdict| verdict.group != Group::Leak), "{found:#?}");
}

#[test]
fn a_flat_allocator_is_no_finding() {
    let mut run = Run::new();
    run.rows(2, 0, 200, |_| 800.0);
    allocator(&mut run, |_| (2000.0, 2400.0));
    let found = run.judged();
    assert_eq!(found.main.group, Group::Flat, "{:#?}", found.main);
    assert!(found.findings.is_empty(), "{:#?}", found.findings);
}

fn with_tensors(per_second: f64) -> Run {
    let mut run = Run::new();
    run.rows(2, 0, 200, |t| 800.0 + 4.0 * t);
    for i in 0..200 {
        let grown = per_second * f64::from(i);
        let (count, bytes) = (6000 + grown as u64, ((100.0 + grown) * MIB) as u64);
        run.tell(
            f64::from(i),
            &format!(r#"{{"tensors":{count},"tensor_cpu_bytes":{bytes},"tensor_device_bytes":0}}"#),
        );
    }
    run
}

#[test]
fn tensors_that_grow_in_step_are_named() {
    let main = with_tensors(4.0).judged().main;
    assert_eq!(main.verdict, Kind::Leak);
    assert!(main.evidence.iter().any(|l| l.contains("they are what grows")), "{:?}", main.evidence);
    assert!(
        main.evidence.iter().any(|l| l.starts_with("live tensors went from 6004 to 679")),
        "{:?}",
        main.evidence
    );
    assert!(main.advice.iter().any(|l| l.contains("who keeps tensors")), "{:?}", main.advice);
}

#[test]
fn tensors_that_stay_are_ruled_out() {
    let main = with_tensors(0.0).judged().main;
    assert_eq!(main.verdict, Kind::Leak);
    assert!(main.evidence.iter().any(|l| l.contains("it is not tensors")), "{:?}", main.evidence);
    assert!(main.evidence.iter().any(|l| l == "live tensors stayed at 6000"), "{:?}", main.evidence);
    assert!(!main.advice.iter().any(|l| l.contains("who keeps tensors")), "{:?}", main.advice);
}

#[test]
fn memory_that_follows_new_input_shapes_is_told_as_a_cache_of_kernels() {
    // New lengths come fast at first and seldom later.
    let distinct = |t: f64| (40.0 * (1.0 - (-t / 60.0).exp())).floor();
    let mut run = Run::new();
    run.rows(2, 0, 400, |t| 800.0 + 12.0 * distinct(t));
    for i in 0..400 {
        let t = f64::from(i);
        run.recording.marks.push(mark(MarkKind::Step, MarkPhase::Point, t, t));
        run.tell(t, &format!(r#"{{"seq_len":{}}}"#, 128.0 + 8.0 * distinct(t)));
    }
    let main = run.judged().main;
    assert_eq!(main.group, Group::Bounded, "{main:#?}");
    assert!(
        main.evidence.iter().any(|l| l.contains("40 input shapes") || l.contains("39 input shapes")),
        "{:?}",
        main.evidence
    );
    assert!(main.advice[0].contains("bucket"), "{:?}", main.advice);
}

#[test]
fn a_driver_of_rollouts_that_grows_beside_a_flat_object_store_is_told() {
    let mut run = Run::new();
    run.rows(2, 0, 200, |t| 800.0 + 6.0 * t);
    let mut raylet = process(5, Some(2), true, 0.0);
    raylet.argv = vec!["/opt/ray/core/src/ray/raylet/raylet".into()];
    run.recording.processes.push(raylet);
    run.rows(5, 0, 200, |_| 60.0);
    for second in [0.0, 199.0] {
        run.recording.host.push(HostRow {
            tick: Tick::from_seconds(second),
            dev_shm_used: Some(Bytes::from_mib(500)),
            dev_shm_total: Some(Bytes::from_mib(64_000)),
            ..HostRow::default()
        });
    }
    let main = run.judged().main;
    assert_eq!(main.verdict, Kind::Leak, "{main:#?}");
    assert!(main.evidence.iter().any(|l| l.contains("a job with Ray grew by 1.1")), "{:?}", main.evidence);
    assert!(main.advice.iter().any(|l| l.contains("object store")), "{:?}", main.advice);
}

#[test]
fn loader_workers_that_each_fill_a_buffer_are_told_with_their_product() {
    let mut run = Run::new();
    run.rows(2, 0, 300, |_| 2000.0);
    for pid in 3..=6 {
        run.recording.processes.push(process(pid, Some(2), false, 1.0));
        run.rows(pid, 1, 300, |t| 100.0 + 5.0 * t.min(80.0));
    }
    let found = run.judged();
    let line = "4 loader workers each filled buffers of about ";
    assert!(found.main.evidence.iter().any(|l| l.starts_with(line)), "{:#?}", found.main);
    assert!(found.main.advice[0].contains("fewer loader workers"), "{:?}", found.main.advice);
}

#[test]
fn a_buffer_that_empties_with_each_shard_is_told_by_the_marks() {
    let mut run = Run::new();
    run.rows(2, 0, 400, |t| 800.0 + 12.0 * (t % 40.0));
    (1..10).for_each(|n| run.tell(40.0 * f64::from(n), &format!(r#"{{"shard":{n}}}"#)));
    let main = run.judged().main;
    assert_ne!(main.group, Group::Leak, "{main:#?}");
    assert!(
        main.evidence.iter().any(|l| l.starts_with("a saw-tooth: each shard lets go of")),
        "{:?}",
        main.evidence
    );
}

#[test]
fn growth_at_each_log_is_told_by_the_marks() {
    let mut run = Run::new();
    run.rows(2, 0, 400, |t| 800.0 + 8.0 * (t / 40.0).floor());
    for n in 1..10 {
        let mut log = mark(MarkKind::Custom, MarkPhase::Point, 40.0 * f64::from(n), f64::NAN);
        log.extra = Some(r#"{"name":"log"}"#.to_owned());
        run.recording.marks.push(log);
    }
    let main = run.judged().main;
    assert!(main.evidence.iter().any(|l| l.starts_with("growth follows each log: ")), "{:?}", main.evidence);
}
