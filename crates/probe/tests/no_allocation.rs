//! A steady tick allocates nothing: counted by the allocator itself.
#![allow(unsafe_code, reason = "an allocator that counts has to be one")]
#![allow(clippy::unwrap_used, reason = "a test fails where it cannot go on")]

use lowtide_probe::cgroup::Cgroups;
use lowtide_probe::events::{Feed, Scope};
use lowtide_probe::host::Host;
use lowtide_probe::tree::Tree;
use lowtide_probe::{ProcessReader, Root, clock};
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

struct Counting;

thread_local! {
    static COUNT: Cell<u64> = const { Cell::new(0) };
}

// SAFETY: everything is passed on to the system's allocator; counting does not allocate.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        COUNT.with(|count| count.set(count.get() + 1));
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

fn allocations(work: impl FnOnce()) -> u64 {
    let before = COUNT.with(Cell::get);
    work();
    COUNT.with(Cell::get) - before
}

#[test]
fn a_steady_tick_over_processes_host_and_cgroup_allocates_nothing() {
    let root = Root::live();
    let mut reader = ProcessReader::open(&root, std::process::id()).known().unwrap();
    let mut host = Host::open(&root);
    let mut cgroups = Cgroups::open(&root, std::process::id()).known();
    let mut feed = Feed::open(&root, Scope::OwnChildren);
    let mut tree = Tree::attached(&root, std::process::id());
    let mut tick = || {
        assert!(reader.quick().as_known().is_some());
        assert!(reader.stat().as_known().is_some());
        assert!(reader.status().as_known().is_some());
        assert!(host.read().memory.as_known().is_some());
        if let Some(cgroups) = &mut cgroups {
            assert!(cgroups.read().usage.as_known().is_some());
        }
    };
    // The first tick opens what is opened late.
    tick();
    assert_eq!(allocations(|| (0..100).for_each(|_| tick())), 0);
    tree.update(&mut feed, clock::boot_ns());
    if feed.fd().is_some() {
        // With events an update without news costs nothing either; a stranger's storm may make the buffer grow.
        let mut update = || allocations(|| drop(tree.update(&mut feed, clock::boot_ns())));
        assert!((0..50).any(|_| update() == 0));
    }
}
