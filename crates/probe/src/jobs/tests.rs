use super::*;
use crate::fake::FakeProc;

/// init(1) - sshd(10) - bash(20, at a terminal) - uv(30) - python(40) - four workers.
fn machine() -> (tempfile::TempDir, FakeProc) {
    let dir = tempfile::tempdir().unwrap();
    let fake = FakeProc::at(dir.path()).unwrap();
    let small = Bytes::from_mib(4);
    fake.process(1).parent(0).comm("systemd").argv(&["/sbin/init"]).rss(small).write().unwrap();
    fake.process(10).parent(1).comm("sshd").argv(&["sshd: ada@pts/0"]).rss(small).write().unwrap();
    fake.process(20).parent(10).comm("bash").argv(&["-bash"]).session(20, 34816).rss(small).write().unwrap();
    fake.process(30)
        .parent(20)
        .comm("uv")
        .argv(&["uv", "run", "train"])
        .session(20, 34816)
        .rss(small)
        .write()
        .unwrap();
    let big = fake.process(40).parent(30).argv(&["tr", "--lr", "1e-4"]).session(20, 34816);
    big.rss(Bytes::from_mib(4000)).write().unwrap();
    for pid in 41..45 {
        let worker = fake.process(pid).parent(40).argv(&["tr", "--lr", "1e-4"]).session(20, 34816);
        worker.rss(Bytes::from_mib(4100)).write().unwrap();
    }
    fake.process(50).parent(1).comm("cron").argv(&["cron"]).rss(small).write().unwrap();
    (dir, fake)
}

#[test]
fn a_job_begins_below_the_shell_that_started_it() {
    let (_dir, fake) = machine();
    for pid in [30, 40, 41, 44] {
        assert_eq!(root_of(fake.root(), pid), Some(30), "{pid}");
    }
    assert_eq!(root_of(fake.root(), 999), None);
}

#[test]
fn the_process_with_the_memory_is_found_under_a_wrapper_and_is_not_a_worker() {
    let (_dir, fake) = machine();
    assert_eq!(heavy_descendant(fake.root(), 30), Some(40));
    assert_eq!(heavy_descendant(fake.root(), 40), Some(40));
    assert_eq!(heavy_descendant(fake.root(), 43), Some(43));
    assert_eq!(heavy_descendant(fake.root(), 999), None);
}

#[test]
fn the_list_holds_jobs_and_nothing_of_their_surroundings() {
    let (_dir, fake) = machine();
    let jobs = candidates(fake.root());
    assert_eq!(jobs.iter().map(|job| job.key.pid).collect::<Vec<_>>(), [30]);
    let job = &jobs[0];
    assert_eq!(job.argv, ["uv", "run", "train"]);
    assert_eq!((job.rss, job.descendants), (Bytes::from_mib(4), 5));
    assert_eq!(job.rss_below, Bytes::from_mib(4000 + 4 * 4100));
}

#[test]
fn a_text_finds_the_job_of_any_process_that_has_it() {
    let (_dir, fake) = machine();
    let find = |text| matching(fake.root(), text).iter().map(|job| job.key.pid).collect::<Vec<_>>();
    assert_eq!(find("--lr 1e-4"), [30]);
    assert_eq!(find("no such thing"), Vec::<u32>::new());
}

#[test]
fn a_script_is_part_of_its_job_and_a_trainer_may_be_pid_one() {
    let dir = tempfile::tempdir().unwrap();
    let fake = FakeProc::at(dir.path()).unwrap();
    fake.process(1).parent(0).argv(&["python", "train.py"]).rss(Bytes::from_mib(2000)).write().unwrap();
    fake.process(7).parent(1).argv(&["/bin/sh", "-c", "helper"]).write().unwrap();
    fake.process(8).parent(7).argv(&["helper"]).write().unwrap();
    assert_eq!(root_of(fake.root(), 8), Some(1));
}

#[test]
fn a_tree_that_bites_its_own_tail_ends() {
    let dir = tempfile::tempdir().unwrap();
    let fake = FakeProc::at(dir.path()).unwrap();
    fake.process(5).parent(6).write().unwrap();
    fake.process(6).parent(5).write().unwrap();
    assert!(root_of(fake.root(), 5).is_some());
    assert!(heavy_descendant(fake.root(), 5).is_some());
    assert!(candidates(fake.root()).len() <= 2);
}

/// A VM's own init that is no known one, with a server below it that started, long after itself, a shell script and in
/// it a Python job.
#[test]
fn what_a_job_was_started_by_does_not_count_its_memory_and_python_comes_first() {
    let dir = tempfile::tempdir().unwrap();
    let fake = FakeProc::at(dir.path()).unwrap();
    let mib = Bytes::from_mib;
    let late = 100 * LAUNCH_TICKS;
    fake.process(1).parent(0).comm("vm-init").argv(&["/vm-init"]).rss(mib(15)).write().unwrap();
    fake.process(5)
        .parent(1)
        .comm("server")
        .argv(&["server"])
        .execed()
        .started(late)
        .rss(mib(9))
        .write()
        .unwrap();
    let script = fake.process(20).parent(5).comm("sh").argv(&["sh", "train.sh"]).execed().started(2 * late);
    script.rss(mib(1)).write().unwrap();
    let python =
        fake.process(21).parent(20).comm("python3").argv(&["python3", "train.py"]).execed().started(2 * late);
    python.rss(mib(300)).write().unwrap();
    fake.process(30)
        .parent(5)
        .comm("db")
        .argv(&["db"])
        .execed()
        .started(3 * late)
        .rss(mib(900))
        .write()
        .unwrap();
    let found: Vec<u32> = candidates(fake.root()).iter().map(|job| job.key.pid).collect();
    assert_eq!(found, [20, 30], "neither init nor the server");
}
