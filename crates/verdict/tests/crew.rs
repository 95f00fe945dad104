//! Processes that share a pass over the data: workers of one loader, ranks of one job.

#![allow(clippy::unwrap_used, reason = "a test that can't set its stage should stop")]
#![allow(missing_docs, reason = "a test program")]

mod made;

use lowtide_model::{Context, Exit, MarkKind, MarkPhase, Process, Recording, Tick};
use lowtide_verdict::{Fits, Group, Kind, LiveJudge, RunVerdict, judge_recording, judge_recording_with};
use made::{MIB, Run, mark, process, row, wobble};

const EXAMPLES: usize = 400;
const PASS: usize = 100;
const KEEPS: f64 = 0.5;

/// A small generator: the order of examples has to be a real shuffle.
struct Dice(u64);

impl Dice {
    fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % n
    }

    fn shuffle(&mut self, of: &mut [usize]) {
        (1..of.len()).rev().for_each(|i| of.swap(i, self.below(i + 1)));
    }
}

/// What each of the processes does with what it reads.
#[derive(Clone, Copy, PartialEq)]
enum Keeps {
    /// Every example the first time it meets it.
    Cache,
    /// Every example each time.
    Leak,
    /// The first so many that it meets, each once: a bounded cache.
    Capped(usize),
    /// Every example the first time it meets it, and this part of it each time.
    CacheAndLeak(f64),
}

/// What each of `count` processes holds after each step, as four examples a step are dealt out in turns.
fn held(count: usize, passes: usize, keeps: Keeps, shuffled: bool) -> Vec<Vec<f64>> {
    let mut dice = Dice(count as u64);
    let mut met = vec![vec![false; EXAMPLES]; count];
    let mut held = vec![0.0; count];
    let mut all = Vec::new();
    for _ in 0..passes {
        let mut order: Vec<usize> = (0..EXAMPLES).collect();
        if shuffled {
            dice.shuffle(&mut order);
        }
        for (batch, examples) in order.chunks(EXAMPLES / PASS).enumerate() {
            let worker = batch % count;
            for &example in examples {
                let new = !std::mem::replace(&mut met[worker][example], true);
                let kept = match keeps {
                    Keeps::Cache => new,
                    Keeps::Leak => true,
                    Keeps::Capped(most) => new && held[worker] < most as f64 * KEEPS,
                    Keeps::CacheAndLeak(part) => {
                        held[worker] += part * KEEPS;
                        new
                    }
                };
                held[worker] += if kept { KEEPS } else { 0.0 };
            }
            all.push(held.clone());
        }
    }
    all
}

/// A trainer that stays, and its loader's workers; a step a second.
fn job(count: usize, passes: usize, keeps: Keeps, shuffled: bool) -> Run {
    let mut run = Run::new();
    run.tell(0.0, r#"{"examples":400,"batch":4,"accum":1}"#);
    for worker in 0..count as u32 {
        run.recording.processes.push(process(10 + worker, Some(2), false, 0.1 * f64::from(worker)));
    }
    for (step, held) in held(count, passes, keeps, shuffled).iter().enumerate() {
        let second = step as f64 + 1.0;
        run.recording.marks.push(mark(MarkKind::Step, MarkPhase::Point, second, second));
        run.recording.samples.push(row(2, second, 500.0 + wobble(step as u32), 40.0));
        for (worker, held) in held.iter().enumerate() {
            let noise = 0.3 * wobble((step * 31 + worker) as u32);
            run.recording.samples.push(row(10 + worker as u32, second, 400.0 + held + noise, 40.0));
        }
    }
    run
}

/// The recording as it was after so many steps, while it went on.
fn until(run: &Run, steps: usize) -> RunVerdict {
    let r = &run.recording;
    let end = Tick::from_seconds(steps as f64 + 0.5);
    let mut judge = LiveJudge::new(&r.meta, Context::default());
    r.processes.iter().for_each(|p| judge.push_process(p));
    let mut marks = r.marks.iter().peekable();
    for sample in r.samples.iter().filter(|sample| sample.tick <= end) {
        while let Some(mark) = marks.next_if(|mark| mark.tick <= sample.tick) {
            judge.push_mark(mark);
        }
        judge.push_sample(sample);
    }
    judge.verdict()
}

fn leaks(found: &RunVerdict) -> bool {
    std::iter::once(&found.main).chain(&found.findings).any(|told| told.group == Group::Leak)
}

#[test]
fn a_cache_in_every_worker_of_a_shuffled_loader_is_one_fill_with_a_copy_for_each() {
    // With more workers each pass adds nearly as much as the one before: that takes longer to see.
    for (count, passes) in [(2, 4), (4, 4), (8, 8)] {
        let run = job(count, passes, Keeps::Cache, true);
        let found = judge_recording(&run.recording);
        assert_eq!(found.main.verdict, Kind::CacheFill, "{count}: {:#?}", found.main);
        assert!(found.findings.is_empty(), "{count}: told once, not for each worker: {:#?}", found.findings);
        let who = found.main.process.as_ref().unwrap();
        assert_eq!(who.with.len(), count - 1);
        let each = found.main.bytes_per_example.unwrap() / MIB;
        assert!((each / KEEPS - 1.0).abs() < 0.08, "{count}: {each}");
        let needs = found.main.outcome.needs_bytes.unwrap() / MIB;
        let all = count as f64 * EXAMPLES as f64 * KEEPS;
        assert!((needs / all - 1.0).abs() < 0.1, "{count}: {needs} of {all}");
        for steps in (40..=passes * PASS).step_by(20) {
            let found = until(&run, steps);
            assert!(!leaks(&found), "{count} after {steps}: {:#?}", found.main);
        }
    }
}

#[test]
fn a_leak_in_every_worker_is_one_leak_and_is_called_in_the_second_or_third_pass() {
    for count in [2, 4, 8] {
        let run = job(count, 4, Keeps::Leak, true);
        let found = judge_recording(&run.recording);
        assert_eq!(found.main.verdict, Kind::Leak, "{count}: {:#?}", found.main);
        assert!(found.findings.is_empty(), "{count}: {:#?}", found.findings);
        let rate = found.main.floor.bytes_per_step / MIB;
        assert!((rate - 4.0 * KEEPS).abs() < 0.1, "{count}: {rate}");
        assert!(leaks(&until(&run, 5 * PASS / 2)), "{count}: {:#?}", until(&run, 5 * PASS / 2).main);
    }
}

#[test]
fn a_leak_under_the_fill_of_a_crew_is_not_hidden_by_the_fill() {
    for count in [2, 4, 8] {
        for part in [0.2, 0.4] {
            for passes in [3, 6, 10] {
                let found = judge_recording(&job(count, passes, Keeps::CacheAndLeak(part), true).recording);
                let open = leaks(&found) || found.main.group == Group::TooEarly;
                assert!(open, "{count} {part} {passes}: {:#?}", found.main);
            }
            let found = judge_recording(&job(count, 20, Keeps::CacheAndLeak(part), true).recording);
            let open = leaks(&found) || found.main.group == Group::TooEarly;
            assert!(open, "{count} {part}: {:#?}", found.main);
        }
    }
}

#[test]
fn a_real_leak_after_a_first_pass_that_added_more_is_no_fill() {
    for count in [2, 4, 8] {
        for passes in [3_u32, 6, 12] {
            let mut run = Run::new();
            run.tell(
                0.0,
                &format!(r#"{{"examples":{},"batch":4,"accum":1,"world_size":{count}}}"#, 400 * count),
            );
            for second in 1..=passes * 100 {
                let at = f64::from(second) / 100.0;
                let level = 100.0f64.mul_add(at.min(1.0), 2000.0) + 50.0 * (at - 1.0).max(0.0);
                run.recording.marks.push(mark(
                    MarkKind::Step,
                    MarkPhase::Point,
                    f64::from(second),
                    f64::from(second),
                ));
                run.recording.samples.push(row(2, f64::from(second), level + 0.5 * wobble(second), 40.0));
            }
            let found = run.judged();
            assert_ne!(found.main.verdict, Kind::CacheFill, "{count} {passes}: {:#?}", found.main);
            assert!(passes < 12 || found.main.verdict == Kind::Leak, "{count}: {:#?}", found.main);
        }
    }
}

#[test]
fn workers_that_meet_the_same_examples_again_fill_once() {
    let found = judge_recording(&job(4, 3, Keeps::Cache, false).recording);
    assert_eq!(found.main.verdict, Kind::CacheFill, "{:#?}", found.main);
    let each = found.main.bytes_per_example.unwrap() / MIB;
    assert!((each / KEEPS - 1.0).abs() < 0.05, "{each}");
    let needs = found.main.outcome.needs_bytes.unwrap() / MIB;
    assert!((needs / 200.0 - 1.0).abs() < 0.05, "{needs}");
    assert!(!found.main.evidence.iter().any(|line| line.contains("buffers")), "{:?}", found.main.evidence);
}

#[test]
fn buffers_that_fill_up_are_no_cache_of_examples() {
    let found = judge_recording(&job(4, 3, Keeps::Capped(10), true).recording);
    assert!(!leaks(&found), "{:#?}", found.main);
    assert_eq!(found.main.outcome.is, Fits::Unknown, "no limit is known here");
    let needs = found.main.outcome.needs_bytes.unwrap_or_default() / MIB;
    assert!(needs < 540.0, "{needs}");
}

#[test]
fn one_worker_that_leaks_is_not_hidden_in_its_crew() {
    let mut run = job(4, 3, Keeps::Capped(10), true);
    let leak = |row: &mut lowtide_model::SampleRow| add(row, row.tick.seconds());
    run.recording.samples.iter_mut().filter(|row| row.process.pid == 12).for_each(leak);
    let found = judge_recording(&run.recording);
    assert_eq!(found.main.verdict, Kind::Leak, "{:#?}", found.main);
    let who = found.main.process.as_ref().unwrap();
    assert!(who.key.pid == 12 && who.with.is_empty(), "{who:?}");
}

/// Ranks without workers, each with a cache of its own.
fn ranks(count: usize, passes: usize, keeps: Keeps) -> Recording {
    let mut run = Run::new();
    run.recording.processes.truncate(1);
    let facts = format!(r#"{{"examples":400,"batch":4,"accum":1,"world_size":{count}}}"#);
    run.tell(0.0, &facts);
    run.recording.marks[0].process = Some(made::key(10));
    for rank in 0..count as u32 {
        let mut process = process(10 + rank, Some(1), true, 0.0);
        process.env = vec![("RANK".into(), rank.to_string())];
        run.recording.processes.push(process);
    }
    let pass = PASS / count;
    for (step, held) in held(count, passes, keeps, true).iter().skip(count - 1).step_by(count).enumerate() {
        let second = step as f64 + 1.0;
        for (rank, held) in held.iter().enumerate() {
            let mut told = mark(MarkKind::Step, MarkPhase::Point, second, second);
            (told.process, told.rank) = (Some(made::key(10 + rank as u32)), Some(rank as u32));
            run.recording.marks.push(told);
            let noise = 0.3 * wobble((step * 31 + rank) as u32);
            run.recording.samples.push(row(10 + rank as u32, second, 400.0 + held + noise, 40.0));
        }
    }
    assert_eq!(run.recording.marks.len() - 1, count * passes * pass);
    run.recording
}

#[test]
fn a_cache_in_every_rank_is_a_fill_and_a_list_in_every_rank_a_leak() {
    for count in [2, 4] {
        let found = judge_recording(&ranks(count, 8, Keeps::Cache));
        assert!(!leaks(&found), "{count}: {:#?}", found.main);
        assert_eq!(found.main.verdict, Kind::CacheFill, "{count}: {:#?}", found.main);
        let each = found.main.bytes_per_example.unwrap() / MIB;
        assert!((each / KEEPS - 1.0).abs() < 0.1, "{count}: {each}");
        assert!(leaks(&judge_recording(&ranks(count, 8, Keeps::Leak))), "{count}");
    }
}

/// Gives a process its own memory: `level` by second, from its birth on.
fn lives(run: &mut Run, of: Process, until: u32, level: impl Fn(f64) -> f64) {
    let (pid, born) = (of.key.pid, of.born.seconds());
    let died = of.died.map_or(f64::INFINITY, Tick::seconds);
    run.recording.processes.push(of);
    let seconds = (0..until).map(|i| f64::from(i) + 0.3).filter(|t| *t > born && *t < died);
    let rows = seconds.map(|t| row(pid, t, level(t) + 0.3 * wobble((t as u32) * 7 + pid), 40.0));
    run.recording.samples.extend(rows);
}

fn ended(mut process: Process, second: f64) -> Process {
    process.died = Some(Tick::from_seconds(second));
    process.exit = Some(Exit::Code(0));
    process
}

/// Workers of an evaluation, made anew each time.
fn evaluated_by(run: &mut Run, times: &[f64], count: u32) {
    for (n, time) in times.iter().enumerate() {
        for worker in 0..count {
            let pid = 40 + 10 * n as u32 + worker;
            let process = ended(process(pid, Some(2), false, time + 0.1 * f64::from(worker)), time + 15.0);
            lives(run, process, 500, |_| 405.0);
        }
    }
}

fn who(found: &RunVerdict) -> (u32, usize) {
    let process = found.main.process.as_ref().unwrap();
    (process.key.pid, process.with.len())
}

#[test]
fn a_leak_of_many_ranks_or_of_one_among_many_workers_is_no_fill_that_ends_never() {
    for count in [16, 64, 512] {
        let mut run = Run::new();
        run.tell(0.0, &format!(r#"{{"examples":{},"batch":4,"accum":1,"world_size":{count}}}"#, 400 * count));
        for second in 1..=300_u32 {
            let at = f64::from(second);
            run.recording.marks.push(mark(MarkKind::Step, MarkPhase::Point, at, at));
            run.recording.samples.push(row(2, at, 2000.0 + 2.0 * at + wobble(second), 40.0));
        }
        let found = run.judged();
        assert_eq!(found.main.verdict, Kind::Leak, "{count}: {:#?}", found.main);
    }
    let mut run = job(8, 3, Keeps::Capped(0), true);
    let leak = |row: &mut lowtide_model::SampleRow| add(row, 2.0 * row.tick.seconds());
    run.recording.samples.iter_mut().filter(|row| row.process.pid == 12).for_each(leak);
    let found = run.judged();
    assert_eq!((found.main.verdict, who(&found)), (Kind::Leak, (12, 0)), "{:#?}", found.main);
}

#[test]
fn a_trainer_that_leaks_beside_its_loader_workers_fills_nothing() {
    let mut run = job(4, 3, Keeps::Capped(0), true);
    run.recording.marks[0].extra = Some(r#"{"examples":1600,"batch":4,"accum":1,"world_size":4}"#.into());
    let leak = |row: &mut lowtide_model::SampleRow| add(row, 2.0 * row.tick.seconds());
    run.recording.samples.iter_mut().filter(|row| row.process.pid == 2).for_each(leak);
    let found = until(&run, 200);
    assert_eq!((found.main.verdict, who(&found)), (Kind::Leak, (2, 0)), "{:#?}", found.main);
}

#[test]
fn of_more_workers_than_are_followed_a_leak_is_told_all_the_same() {
    let mut run = Run::new();
    for pid in 10..138 {
        lives(&mut run, process(pid, Some(2), false, 0.01 * f64::from(pid)), 120, |t| 400.0 + 2.0 * t);
    }
    run.rows(2, 1, 120, |_| 500.0);
    let found = run.judged();
    assert_eq!(found.main.verdict, Kind::Leak, "{:#?}", found.main);
    assert!(found.main.process.as_ref().unwrap().with.is_empty(), "not all of them were followed");
    assert!(found.findings.len() < 16, "{}", found.findings.len());
    let rest = |line: &&String| line.starts_with("beside those that are told here ");
    assert!(found.main.evidence.iter().any(|line| rest(&line)), "{:?}", found.main.evidence);
}

#[test]
fn workers_that_persist_are_judged_whatever_comes_and_goes_beside_them() {
    for count in [1, 4] {
        let mut run = job(4, 4, Keeps::Leak, true);
        evaluated_by(&mut run, &[100.0, 200.0, 300.0], count);
        let found = run.judged();
        assert_eq!(found.main.verdict, Kind::Leak, "{count}: {:#?}", found.main);
        assert_eq!(who(&found).1, 3);
        assert!(
            !found.main.evidence.iter().any(|line| line.contains("gave that back")),
            "{:?}",
            found.main.evidence
        );
    }
}

#[test]
fn workers_that_grow_are_one_beside_others_that_were_started_with_them_and_stay() {
    for (keeps, kind) in [(Keeps::Cache, Kind::CacheFill), (Keeps::Leak, Kind::Leak)] {
        let mut run = job(4, 4, keeps, true);
        for pid in 30..34 {
            lives(&mut run, process(pid, Some(2), false, 2.0), 400, |_| 410.0);
        }
        let found = run.judged();
        assert_eq!((found.main.verdict, who(&found).1), (kind, 3), "{:#?}", found.main);
    }
}

#[test]
fn what_grows_and_has_no_name_yet_is_told_beside_a_trainer_that_stays() {
    let mut run = job(2, 1, Keeps::Capped(0), true);
    let more = |row: &mut lowtide_model::SampleRow| add(row, 0.6 * row.tick.seconds());
    run.recording.samples.iter_mut().filter(|row| row.process.pid == 11).for_each(more);
    let found = until(&run, 60);
    let all: Vec<u32> = std::iter::once(&found.main)
        .chain(&found.findings)
        .map(|told| told.process.as_ref().unwrap().key.pid)
        .collect();
    assert!(all.contains(&11), "{all:?}");
}

#[test]
fn a_trainer_that_grows_is_told_beside_the_crew_that_grows_by_more() {
    let mut run = job(4, 4, Keeps::Cache, true);
    let more = |row: &mut lowtide_model::SampleRow| add(row, 3.0 * row.tick.seconds().sqrt());
    run.recording.samples.iter_mut().filter(|row| row.process.pid == 2).for_each(more);
    let found = until(&run, 300);
    let of = |told: &lowtide_verdict::Verdict| told.process.as_ref().map(|process| process.key.pid);
    assert_eq!(who(&found).1, 3, "the crew leads: {:#?}", found.main);
    assert!(found.findings.iter().any(|told| of(told) == Some(2)), "{:#?}", found.findings);
}

#[test]
fn a_worker_that_left_long_ago_holds_nothing_any_more() {
    let mut run = job(4, 4, Keeps::Leak, true);
    run.recording.samples.retain(|row| row.process.pid != 12 || row.tick.seconds() < 150.0);
    let at = run.recording.processes.iter().position(|process| process.key.pid == 12).unwrap();
    run.recording.processes[at].died = Some(Tick::from_seconds(150.0));
    let found = run.judged();
    assert_eq!((found.main.verdict, who(&found).1), (Kind::Leak, 2), "{:#?}", found.main);
    let rate = found.main.floor.bytes_per_step / MIB;
    assert!((rate - 1.5).abs() < 0.1, "{rate}");
}

#[test]
fn rows_of_one_step_do_not_add_up() {
    let mut run = job(4, 4, Keeps::Capped(60), true);
    run.recording
        .marks
        .iter_mut()
        .filter(|mark| mark.kind == MarkKind::Step && mark.tick.seconds() > 200.0)
        .for_each(|mark| {
            mark.kind = MarkKind::Custom;
        });
    run.recording.marks.push(mark(MarkKind::Eval, MarkPhase::Start, 200.5, 0.0));
    for row in &mut run.recording.samples {
        let level = row.anon.unwrap().last.as_f64();
        let high = lowtide_model::Bytes::from_f64(level + 20.0 * MIB);
        let anon = row.anon.as_mut().unwrap();
        anon.max = high;
    }
    let found = run.judged();
    let most = found.main.outcome.needs_bytes.unwrap_or_default() / MIB;
    assert!(most < 4.0 * (30.0 + 20.0 + 5.0), "{most}: {:#?}", found.main);
    let low = found.main.floor.start_bytes.min(found.main.floor.end_bytes);
    assert!(low >= 0.0, "{low}");
}

fn add(row: &mut lowtide_model::SampleRow, mib: f64) {
    let bytes = lowtide_model::Bytes::from_f64(row.anon.unwrap().last.as_f64() + mib * MIB);
    (row.anon, row.rss) = (Some(lowtide_model::Span::one(bytes)), lowtide_model::Span::one(bytes));
}

#[test]
fn several_are_named_as_several() {
    let found = judge_recording(&job(4, 4, Keeps::Leak, true).recording);
    assert_eq!(found.main.process.as_ref().unwrap().who(), "4 loader workers together");
    let alone = judge_recording(&job(2, 1, Keeps::Capped(0), true).recording);
    assert_eq!(alone.main.process.as_ref().unwrap().who(), "trainer 2");
}

#[test]
fn ranks_that_grow_alike_are_one_and_what_they_will_still_keep_counts() {
    // Each will hold 400 + 200 MiB, 2,400 in all: more than the smaller limit, which they keep so far.
    for passes in [4, 8] {
        let recording = ranks(4, passes, Keeps::Cache);
        for (limit, fits) in [(2350.0, Fits::Exceeds), (2900.0, Fits::Fits)] {
            let limit = Some(lowtide_model::Bytes::from_f64(limit * MIB));
            let found = judge_recording_with(&recording, Context { limit, ..Context::default() }).main;
            assert_eq!((found.verdict, found.process.as_ref().unwrap().with.len()), (Kind::CacheFill, 3));
            let needs = found.outcome.needs_bytes.unwrap() / MIB;
            assert!(
                found.outcome.is == fits && (needs - 2400.0).abs() < 50.0,
                "{passes}: {needs} {found:#?}"
            );
            assert!(found.advice[0].starts_with("keep one copy for all ranks"), "{:?}", found.advice);
        }
    }
}

#[test]
fn a_rank_that_leaks_is_not_hidden_among_ranks_that_grow_nearly_as_much() {
    let mut run = Run { recording: ranks(4, 8, Keeps::Capped(0)) };
    for row in run.recording.samples.iter_mut().filter(|row| row.process.pid >= 10) {
        let second = row.tick.seconds();
        let leak = if row.process.pid == 12 { 0.4 * second } else { 0.0 };
        add(row, 300.0f64.mul_add(1.0 - (-second / 8.0).exp(), leak));
    }
    let found = run.judged();
    assert_eq!((found.main.verdict, who(&found)), (Kind::Leak, (12, 0)), "{:#?}", found.main);
}

#[test]
fn what_two_crews_will_still_keep_counts_for_both() {
    // Two loaders, each of two workers that come to keep 200 MiB, and a trainer of 500: 1,300 in all, and 1,200 so far.
    let mut run = job(2, 3, Keeps::Cache, true);
    let second = job(2, 3, Keeps::Cache, true);
    for worker in 0..2 {
        run.recording.processes.push(process(20 + worker, Some(2), false, 20.0));
    }
    let theirs = second.recording.samples.into_iter().filter(|row| row.process.pid >= 10);
    run.recording.samples.extend(theirs.filter(|row| row.tick.seconds() > 20.0).map(|mut row| {
        row.process = made::key(row.process.pid + 10);
        row
    }));
    let limit = Some(lowtide_model::Bytes::from_f64(1275.0 * MIB));
    run.recording.samples.sort_by_key(|row| (row.tick, row.process));
    let found = judge_recording_with(&run.recording, Context { limit, ..Context::default() });
    assert_eq!(found.main.verdict, Kind::CacheFill, "{:#?}", found.main);
    let needs = found.main.outcome.needs_bytes.unwrap() / MIB;
    assert!((needs - 1300.0).abs() < 20.0, "{needs} {:#?}", found.main);
    let told: Vec<Fits> = found.findings.iter().map(|told| told.outcome.is).collect();
    assert_eq!((found.main.outcome.is, &told[..]), (Fits::Exceeds, &[Fits::Exceeds][..]));
}

#[test]
fn a_second_loader_that_is_started_with_the_first_hides_no_fill() {
    for others in [2, 4] {
        let mut run = job(4, 8, Keeps::Cache, true);
        for worker in 0..others {
            let process = process(30 + worker, Some(2), false, 1.0 + 0.1 * f64::from(worker));
            lives(&mut run, process, 800, |second| if second < 4.0 { 400.0 } else { 450.0 });
        }
        let found = run.judged();
        assert_eq!((found.main.verdict, who(&found).1), (Kind::CacheFill, 3), "{others}: {:#?}", found.main);
    }
}

#[test]
fn many_that_only_warmed_up_do_not_hide_the_one_that_fills() {
    let mut run = job(4, 3, Keeps::Cache, true);
    for helper in 0..16 {
        let mut process = process(100 + helper, Some(2), true, 0.5);
        process.argv = vec!["compile_worker".into(), helper.to_string()];
        lives(&mut run, process, 300, |second| 300.0f64.mul_add(1.0 - (-second / 6.0).exp(), 900.0));
    }
    let found = run.judged();
    assert_eq!((found.main.verdict, who(&found).1), (Kind::CacheFill, 3), "{:#?}", found.main);
    let named = |line: &String| line.contains("grow too") || line.contains("grows too");
    assert!(!found.main.evidence.iter().any(named), "{:#?}", found.main.evidence);
}

#[test]
fn a_short_loader_at_the_end_hides_no_leak_of_workers_that_lived_far_longer() {
    let mut run = job(4, 6, Keeps::Leak, true);
    let end = Tick::from_seconds(580.0);
    for process in run.recording.processes.iter_mut().filter(|process| process.key.pid >= 10) {
        (process.died, process.exit) = (Some(end), Some(Exit::Code(0)));
    }
    run.recording.samples.retain(|row| row.process.pid == 2 || row.tick < end);
    for worker in 0..4 {
        let process = ended(process(30 + worker, Some(2), false, 580.2), 599.9);
        lives(&mut run, process, 600, |_| 402.0);
    }
    let found = judge_recording(&run.recording);
    assert_eq!((found.main.verdict, who(&found).1), (Kind::Leak, 3), "{:#?}", found.main);
}
