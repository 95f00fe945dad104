use super::*;
use crate::fake::FakeProc;

const RECORDER: u32 = 50;

struct Machine {
    _dir: tempfile::TempDir,
    fake: FakeProc,
    feed: Feed,
}

/// init(1), recorder(50), job(100) with child(101), stranger(200).
fn machine() -> Machine {
    let dir = tempfile::tempdir().unwrap();
    let fake = FakeProc::at(dir.path()).unwrap();
    for (pid, parent) in [(1, 0), (RECORDER, 1), (100, RECORDER), (101, 100), (200, 1)] {
        fake.process(pid).parent(parent).started(u64::from(pid)).write().unwrap();
    }
    let feed = Feed::open_as(fake.root(), Source::Listing).known().unwrap();
    Machine { _dir: dir, fake, feed }
}

impl Machine {
    fn start(&self) -> Tree {
        Tree::started(self.fake.root(), 100, RECORDER, &[])
    }

    fn update(&mut self, tree: &mut Tree) -> Vec<Change> {
        tree.update(&mut self.feed, 9_000_000_000)
    }

    fn newest_pid(&self, pid: u32) {
        self.fake.file("proc/sys/kernel/ns_last_pid", format!("{pid}\n")).unwrap();
    }
}

fn key(pid: u32) -> ProcKey {
    ProcKey { pid, start_ticks: u64::from(pid) }
}

fn pids(tree: &Tree) -> Vec<u32> {
    tree.living().map(|key| key.pid).collect()
}

#[test]
fn a_made_up_machine_has_no_events_to_offer() {
    let machine = machine();
    assert_eq!(Feed::open_as(machine.fake.root(), Source::Connector).map(|_| ()), Reading::Unsupported);
    assert_eq!(Feed::open(machine.fake.root(), crate::events::Scope::Anybody).source(), Source::Listing);
}

#[test]
fn the_first_update_tells_all_members_and_the_second_nothing() {
    let mut machine = machine();
    let mut tree = machine.start();
    let changes = machine.update(&mut tree);
    let born = |pid, parent| Change::Born {
        key: key(pid),
        parent,
        at_boot_ns: u64::from(pid) * NS_PER_TICK,
        forked: false,
    };
    assert_eq!(changes, [born(100, None), born(101, Some(key(100)))]);
    assert_eq!(machine.update(&mut tree), []);
}

#[test]
fn orphans_come_to_the_recorder_and_its_own_helpers_do_not_count() {
    let mut machine = machine();
    let mut tree = machine.start();
    machine.update(&mut tree);
    machine.fake.process(60).parent(RECORDER).started(300).write().unwrap();
    tree.ignore(60);
    machine.fake.process(102).parent(RECORDER).started(301).write().unwrap();
    machine.fake.process(103).parent(102).started(302).write().unwrap();
    machine.fake.process(104).parent(200).started(303).write().unwrap();
    machine.update(&mut tree);
    assert_eq!(pids(&tree), [100, 101, 102, 103]);
}

#[test]
fn a_returned_pid_is_a_death_and_a_birth() {
    for counted in [false, true] {
        let mut machine = machine();
        if counted {
            machine.newest_pid(200);
        }
        let mut tree = machine.start();
        machine.update(&mut tree);
        machine.fake.process(101).parent(100).started(500).write().unwrap();
        let changes = machine.update(&mut tree);
        let new = ProcKey { pid: 101, start_ticks: 500 };
        assert!(matches!(changes[0], Change::Died { key: old, .. } if old == key(101)), "{changes:?}");
        assert!(matches!(changes[1], Change::Born { key, .. } if key == new), "{changes:?}");
        assert_eq!(changes.len(), 2);
    }
}

#[test]
fn a_strangers_pid_that_came_to_the_job_is_noticed_by_the_kernels_counter() {
    let mut machine = machine();
    machine.newest_pid(300);
    let mut tree = machine.start();
    machine.update(&mut tree);
    // The counter went once around and handed out 200 again, this time to the job.
    machine.fake.process(200).parent(100).started(900).write().unwrap();
    machine.newest_pid(200);
    machine.update(&mut tree);
    assert_eq!(pids(&tree), [100, 101, 200]);
}

#[test]
fn while_no_pid_was_handed_out_nothing_is_looked_for() {
    let mut machine = machine();
    machine.newest_pid(200);
    let mut tree = machine.start();
    machine.update(&mut tree);
    machine.fake.process(105).parent(100).started(700).write().unwrap();
    assert_eq!(machine.update(&mut tree), [], "the counter says there is none");
    assert_eq!(tree.resync().len(), 1, "a full look finds it all the same");
}

#[test]
fn a_thread_that_answers_under_its_own_number_is_no_process() {
    let mut machine = machine();
    machine.newest_pid(200);
    let mut tree = machine.start();
    machine.update(&mut tree);
    machine.fake.process(201).parent(100).started(700).write().unwrap();
    machine.fake.file("proc/201/status", "Name:\tx\nTgid:\t101\nPid:\t201\n").unwrap();
    machine.newest_pid(201);
    assert_eq!(machine.update(&mut tree), []);
}

#[test]
fn the_dead_are_told_with_how_they_ended_and_the_unreadable_live_on() {
    let mut machine = machine();
    let mut tree = machine.start();
    machine.update(&mut tree);
    machine.fake.file("proc/101/stat", "garbage").unwrap();
    assert_eq!(machine.update(&mut tree), []);
    machine.fake.process(101).parent(100).started(101).state('Z').write().unwrap();
    let died = Change::Died { key: key(101), at_boot_ns: 9_000_000_000, exit: None };
    assert_eq!(machine.update(&mut tree), [died]);
    machine.fake.end(100).unwrap();
    assert_eq!(tree.check(key(100), 7), Some(Change::Died { key: key(100), at_boot_ns: 7, exit: None }));
    assert_eq!(tree.check(key(100), 7), None);
}

#[test]
fn forks_are_taken_from_members_only_and_each_once() {
    let machine = machine();
    let mut tree = machine.start();
    tree.pending.clear();
    let mut changes = Vec::new();
    let fork = |parent, child, ticks: u64| TaskEvent::Fork { parent, child, at: Some(ticks * NS_PER_TICK) };
    let exit =
        |pid, ticks: u64| TaskEvent::Exit { pid, at: Some(ticks * NS_PER_TICK), exit: Some(Exit::Code(3)) };
    let events = [
        fork(200, 201, 600),
        fork(RECORDER, 61, 600),
        fork(RECORDER, 100, 100),
        // Gone before it could be read: its start is the time of its fork.
        fork(100, 300, 610),
        fork(300, 301, 611),
        exit(300, 612),
        // The same pid again, later.
        fork(301, 300, 900),
        // An old exit of the pid's owner before.
        exit(300, 640),
        exit(201, 650),
    ];
    for event in &events {
        tree.take(event, 0, &mut changes);
    }
    let at = |pid, start_ticks| ProcKey { pid, start_ticks };
    let told: Vec<_> = changes
        .iter()
        .map(|change| match change {
            Change::Born { key, parent, .. } => ("born", *key, *parent),
            Change::Execed { key, .. } => ("execed", *key, None),
            Change::Died { key, .. } => ("died", *key, None),
        })
        .collect();
    let first = Some(key(100));
    let expected = [
        ("born", at(300, 610), first),
        ("born", at(301, 611), Some(at(300, 610))),
        ("died", at(300, 610), None),
        ("born", at(300, 900), Some(at(301, 611))),
    ];
    assert_eq!(told, expected);
}

#[test]
fn helpers_seen_being_forked_are_not_taken_for_orphans_later() {
    let mut machine = machine();
    let mut tree = machine.start();
    machine.update(&mut tree);
    let mut changes = Vec::new();
    tree.take(&TaskEvent::Fork { parent: RECORDER, child: 61, at: Some(600 * NS_PER_TICK) }, 0, &mut changes);
    machine.fake.process(61).parent(RECORDER).started(600).write().unwrap();
    assert_eq!(tree.resync(), []);
}
