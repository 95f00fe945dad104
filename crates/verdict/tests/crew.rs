//! Processes that share a pass over the data: workers of one loader, ranks of one job.

#![allow(clippy::unwrap_used, reason = "a test that can't set its stage should stop")]
#![allow(missing_docs, reason = "a test program")]

mod made;

use lowtide_model::{Context, MarkKind, MarkPhase, Recording, Tick};
use lowtide_verdict::{Fits, Group, Kind, LiveJudge, RunVerdict, judge_recording};
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
    for count in [2, 4, 8] {
        let run = job(count, 4, Keeps::Cache, true);
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
        for steps in (40..=4 * PASS).step_by(20) {
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
    let leak = |row: &mut lowtide_model::SampleRow| {
        let more = row.tick.seconds() * MIB;
        let anon = row.anon.unwrap().last.as_f64() + more;
        let bytes = lowtide_model::Bytes::from_f64(anon);
        (row.anon, row.rss) = (Some(lowtide_model::Span::one(bytes)), lowtide_model::Span::one(bytes));
    };
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
        let mut told = mark(MarkKind::Step, MarkPhase::Point, second, second);
        told.process = Some(made::key(10));
        run.recording.marks.push(told);
        for (rank, held) in held.iter().enumerate() {
            let noise = 0.3 * wobble((step * 31 + rank) as u32);
            run.recording.samples.push(row(10 + rank as u32, second, 400.0 + held + noise, 40.0));
        }
    }
    assert_eq!(run.recording.marks.len() - 1, passes * pass);
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
