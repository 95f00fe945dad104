//! What the live judge holds after a week, measured by the allocator itself.
//!
//! One file, one test: the allocator counts for the whole process. Not here: what it answers (see `recordings`).

#![allow(unsafe_code, reason = "a counting allocator can only be written so")]

use lowtide_model::{
    Bytes, Context, GpuRow, HostRow, Mark, MarkKind, MarkPhase, Meta, ProcKey, Process, SampleRow, Span, Tick,
};
use lowtide_verdict::{Group, LiveJudge};
use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};

static HELD: AtomicUsize = AtomicUsize::new(0);
static MOST: AtomicUsize = AtomicUsize::new(0);

struct Counting;

// SAFETY: every call is handed to the system's allocator unchanged; the counters are beside it.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let held = HELD.fetch_add(layout.size(), Ordering::Relaxed) + layout.size();
        MOST.fetch_max(held, Ordering::Relaxed);
        // SAFETY: the caller keeps the promises of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        HELD.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller got the pointer from `alloc` above with this layout.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

const MIB: usize = 1 << 20;
const WEEK_SECONDS: u32 = 7 * 24 * 3600;
/// A row a second; fewer where the compiler was told not to hurry.
const EVERY: usize = if cfg!(debug_assertions) { 20 } else { 1 };
/// A trainer, four workers and three helpers.
const PROCESSES: u32 = 8;

fn key(pid: u32) -> ProcKey {
    ProcKey { pid, start_ticks: u64::from(pid) }
}

fn process(pid: u32, second: f64, died: Option<f64>) -> Process {
    Process {
        key: key(pid),
        parent: (pid > 1).then(|| key(1)),
        born: Tick::from_seconds(second),
        died: died.map(Tick::from_seconds),
        exit: None,
        execed: pid == 1,
        comm: "trainer".into(),
        argv: vec!["python".into(), "train.py".into()],
        env: Vec::new(),
        cgroup: None,
        peak_rss: None,
    }
}

fn span(mib: f64) -> Span {
    Span::one(Bytes::from_f64(mib * MIB as f64))
}

/// A second of the run: a row of each process, of the machine and of a GPU, a step, now and then an evaluation; every
/// hour a process that comes and goes.
fn second(judge: &mut LiveJudge, s: u32) {
    let at = f64::from(s);
    let tick = Tick::from_seconds(at);
    for pid in 1..=PROCESSES {
        let leak = if pid == 1 { at / 600.0 } else { 0.0 };
        let need = 500.0 + leak + f64::from(s.wrapping_mul(2_654_435_761) >> 24) / 64.0;
        let row = SampleRow {
            process: key(pid),
            tick,
            rss: span(need + 40.0),
            anon: Some(span(need)),
            ..SampleRow::default()
        };
        judge.push_sample(&row);
    }
    let mark =
        |kind, phase| Mark { tick, process: Some(key(1)), kind, phase, number: at, rank: None, extra: None };
    judge.push_mark(&mark(MarkKind::Step, MarkPhase::Point));
    if s.is_multiple_of(600) {
        judge.push_mark(&mark(MarkKind::Eval, MarkPhase::Start));
        judge.push_mark(&mark(MarkKind::Eval, MarkPhase::End));
    }
    if s.is_multiple_of(60) {
        judge.push_host(&HostRow { tick, available: span(9000.0), ..HostRow::default() });
        judge.push_gpu(&GpuRow {
            gpu: 0,
            uuid: "GPU-0".into(),
            process: None,
            tick,
            used: span(4000.0),
            total: None,
        });
    }
    if s.is_multiple_of(3600) {
        judge.push_process(&process(1000 + s / 3600, at, Some(at + 1.0)));
        judge.push_sample(&SampleRow {
            process: key(1000 + s / 3600),
            tick,
            rss: span(30.0),
            anon: Some(span(20.0)),
            ..SampleRow::default()
        });
    }
}

#[test]
fn a_week_stays_within_eight_mebibytes() {
    let before = HELD.load(Ordering::Relaxed);
    let mut judge = LiveJudge::new(
        &Meta { kernel: "6.1.0".into(), cpus: 2, page_bytes: 4096, ..Meta::default() },
        Context::default(),
    );
    (1..=PROCESSES).for_each(|pid| judge.push_process(&process(pid, 0.0, None)));
    MOST.store(before, Ordering::Relaxed);
    (0..WEEK_SECONDS).step_by(EVERY).for_each(|s| second(&mut judge, s));
    let most = MOST.load(Ordering::Relaxed) - before;
    assert!(most > MIB / 8, "{most} bytes: the allocator did not count");
    assert!(most <= 8 * MIB, "{} KiB while a week was taken in", most / 1024);
    let verdict = judge.verdict();
    assert_eq!(verdict.main.group, Group::Leak, "{}", verdict.main.headline);
    let most = MOST.load(Ordering::Relaxed) - before;
    assert!(most <= 8 * MIB, "{} KiB with the answer being made", most / 1024);
    eprintln!("most held: {} KiB", most / 1024);
}
