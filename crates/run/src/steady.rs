//! A tick in which nothing happened allocates nothing: the whole of it, counted by the allocator itself, which also tells
//! other tests of this crate how much was asked for at once.
#![allow(unsafe_code, reason = "an allocator that counts has to be one")]

use crate::session::{Session, Subject};
use crate::{Began, Chosen, Listener, Options, Setting, header, prepare};
use lowtide_probe::events::{Feed, Scope};
use lowtide_probe::tree::Tree;
use lowtide_probe::{Root, clock};
use lowtide_store::Writer;
use lowtide_wire::Snapshot;
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::collections::BTreeSet;
use std::process::{Child, Command};
use std::time::Duration;

struct Counting;

thread_local! {
    static COUNT: Cell<u64> = const { Cell::new(0) };
    static LARGEST: Cell<usize> = const { Cell::new(0) };
}

// SAFETY: everything is passed on to the system's allocator; counting does not allocate.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        COUNT.with(|count| count.set(count.get() + 1));
        LARGEST.with(|largest| largest.set(largest.get().max(layout.size())));
        // SAFETY: the caller's promise is the same.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise is the same.
        unsafe { System.dealloc(block, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// What something gives, and the largest block of memory that was asked for on the way.
pub(crate) fn largest_block<T>(work: impl FnOnce() -> T) -> (T, usize) {
    LARGEST.with(|largest| largest.set(0));
    let given = work();
    (given, LARGEST.with(Cell::get))
}

struct Nobody;

impl Listener for Nobody {
    fn began(&mut self, _: &Began) {}
    fn wants_ticks(&self) -> bool {
        false
    }
    fn tick(&mut self, _: &Snapshot) {}
    fn say(&mut self, _: &str) {}
    fn warn(&mut self, _: &str) {}
}

/// A child that does nothing, ended with the test.
struct Sleeper(Child);

impl Drop for Sleeper {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn options(folder: &std::path::Path) -> Options {
    Options {
        out: folder.join("steady.tide"),
        name: "steady".to_owned(),
        run_id: "steady".to_owned(),
        interval: Duration::from_secs(1),
        chosen: Chosen::ByUser,
        hooks: Vec::new(),
        private_dir: None,
        source: None,
        helper: "/nonexistent".into(),
        version: "0".to_owned(),
        length: None,
        companions: Vec::new(),
        relay: None,
        marks: None,
        agent: true,
        scans: true,
        limit: None,
        guard: None,
        isolate: None,
    }
}

/// A process with a mark page in which nothing moves.
fn setting(pid: u32, options: &Options, marks: &std::path::Path) -> Setting {
    let root = Root::live();
    let start_ticks = lowtide_probe::stat_of(&root, pid).known().unwrap().start_ticks;
    crate::marks::lay_page(marks, lowtide_model::ProcKey { pid, start_ticks });
    let meta = header(options, vec!["sleep".to_owned()]);
    Setting {
        signals: crate::signals::Signals::take().unwrap(),
        tree: Tree::attached(&root, pid),
        feed: Feed::open(&root, Scope::Anybody),
        writer: Writer::create(&options.out, meta.clone()).unwrap(),
        meta,
        gpu: None,
        own: BTreeSet::from([std::process::id()]),
        started: clock::boot_ns(),
        pid,
        root,
        marks: Some(marks.to_owned()),
        watch: None,
    }
}

/// One tick, a second after the one before; whether it allocated.
fn allocates(session: &mut Session<'_>, now: &mut u64) -> bool {
    *now += 1_000_000_000;
    let before = COUNT.with(Cell::get);
    session.tick(*now);
    COUNT.with(Cell::get) != before
}

#[test]
fn a_tick_in_which_nothing_happened_allocates_nothing() {
    let child = Sleeper(Command::new("sleep").arg("600").spawn().unwrap());
    let folder = tempfile::tempdir().unwrap();
    std::fs::set_permissions(folder.path(), std::os::unix::fs::PermissionsExt::from_mode(0o700)).unwrap();
    let (options, mut listener) = (options(folder.path()), Nobody);
    let mut session = prepare(
        setting(child.0.id(), &options, folder.path()),
        Subject::Stranger(None),
        &options,
        &mut listener,
    );
    let mut now = clock::boot_ns();
    // The first minutes open files, take readings of sharing and change the pace.
    let _ = (0..200).filter(|_| allocates(&mut session, &mut now)).count();
    let loud = (0..600).filter(|_| allocates(&mut session, &mut now)).count();
    assert_eq!(session.marks.agents(), 1);
    // Not every second, but now and then something does happen: a heartbeat row, the judge is asked, the machine's
    // own memory moved by more than the limits' deadband.
    assert!(loud <= 100, "{loud} of 600 ticks allocated");
}
