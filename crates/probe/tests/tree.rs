//! Follows real process trees with each source of events this machine has.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails where it cannot go on")]

mod real;

use lowtide_model::{Exit, ProcKey};
use lowtide_probe::events::{Feed, Source};
use lowtide_probe::tree::{Change, Tree};
use lowtide_probe::{ProcessReader, Root, clock, stat_of};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use real::{Job, alone, sources};
use std::os::unix::process::CommandExt;
use std::process::Command;

fn end(key: ProcKey) {
    let _ = kill(Pid::from_raw(key.pid as i32), Signal::SIGKILL);
    let _ = nix::sys::wait::waitpid(Pid::from_raw(key.pid as i32), None);
}

fn argv(pid: u32) -> Vec<String> {
    let reader = ProcessReader::open(&Root::live(), pid).known();
    reader.and_then(|mut reader| reader.identity().argv.known()).unwrap_or_default()
}

fn is_sleep(key: ProcKey) -> bool {
    argv(key.pid).first().is_some_and(|name| name == "sleep")
}

#[test]
fn a_daemon_that_forked_twice_and_left_its_session_is_kept_after_its_parents_died() {
    let _alone = alone();
    for source in sources() {
        let mut job =
            Job::shell(source, "(setsid sh -c 'sleep 1000 & sleep 1000' >/dev/null 2>&1 &); exit 7");
        job.until_ended();
        job.until("two sleepers", |job| job.tree.living().filter(|key| is_sleep(*key)).count() == 2);
        let survivors: Vec<ProcKey> = job.tree.living().collect();
        for key in &survivors {
            assert!(stat_of(&Root::live(), key.pid).known().is_some());
            end(*key);
        }
        job.until("all ends", |job| job.tree.living().next().is_none());
        let deaths = job.deaths();
        if source == Source::Connector {
            assert_eq!(deaths[&job.first()], Some(Exit::Code(7)));
            let killed: Vec<_> =
                survivors.iter().filter(|key| deaths[key] == Some(Exit::Signal(9))).collect();
            assert!(killed.len() >= 2, "{deaths:?}");
        }
        assert_eq!(job.births().len(), deaths.len(), "{source:?}");
    }
}

#[test]
fn an_exec_keeps_the_process_and_is_told() {
    let _alone = alone();
    for source in sources().into_iter().filter(|source| *source != Source::Listing) {
        let mut job = Job::shell(source, "exec sleep 1000");
        job.update();
        let first = job.first();
        // The shell itself came by an exec, then became sleep.
        job.until("two execs", |job| {
            let execs = job
                .changes
                .iter()
                .filter(|change| matches!(change, Change::Execed { key, .. } if *key == first));
            execs.count() == 2
        });
        assert_eq!(argv(first.pid), ["sleep", "1000"]);
        assert_eq!(job.births().len(), 1);
        job.child.kill().unwrap();
        job.until_ended();
    }
}

#[test]
fn every_process_of_a_storm_is_told_once_and_the_kernel_counts_the_same() {
    let _alone = alone();
    for source in sources().into_iter().filter(|source| *source != Source::Listing) {
        // 200 processes of 20 ms, as fast as they can be started. A pid namespace has a counter of its own.
        let storm = "i=0; while [ $i -lt 200 ]; do sleep 0.02 & i=$((i+1)); done; wait";
        let script = format!("{storm}; exec cat /proc/sys/kernel/ns_last_pid");
        let own_namespace = nix::unistd::geteuid().is_root();
        let mut command = Command::new(if own_namespace { "unshare" } else { "sh" });
        if own_namespace {
            command.args(["--pid", "--fork", "--mount-proc", "sh"]);
        }
        command.args(["-c", &script]).stdout(std::process::Stdio::piped());
        let mut job = Job::start(source, &mut command);
        job.until_ended();
        job.until("all ends", |job| job.tree.living().next().is_none());
        let counted = job.births().len();
        assert_eq!(counted, job.deaths().len());
        let mut output = String::new();
        std::io::Read::read_to_string(&mut job.child.stdout.take().unwrap(), &mut output).unwrap();
        let kernel: usize = output.trim().parse().unwrap();
        if own_namespace {
            // The namespace counts its init and the sleepers; `unshare` stands outside.
            assert_eq!((kernel, counted), (201, 202), "{source:?}");
        } else {
            assert_eq!(counted, 201, "{source:?}");
        }
    }
}

#[test]
fn listing_finds_every_process_that_lives_longer_than_a_tick() {
    let _alone = alone();
    let mut job = Job::shell(
        Source::Listing,
        "i=0; while [ $i -lt 40 ]; do sleep 1000 & p=\"$p $!\"; i=$((i+1)); done; read x; kill $p; wait",
    );
    job.until("forty sleepers", |job| job.tree.living().filter(|key| is_sleep(*key)).count() == 40);
    let first = job.first();
    assert!(job.births().iter().all(|(key, parent)| *key == first || *parent == Some(first)));
    job.until_ended();
    job.until("all ends", |job| job.tree.living().next().is_none());
    assert_eq!(job.births().len(), job.deaths().len());
}

#[test]
fn strangers_are_not_taken_in() {
    let _alone = alone();
    for source in sources() {
        let mut stranger = Command::new("sh")
            .args(["-c", "sleep 1000 & read x"])
            .stdin(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        let mut job = Job::shell(source, "sleep 0.05; true");
        job.tree.ignore(stranger.id());
        let mut helper = Command::new("sleep").arg("1000").spawn().unwrap();
        job.tree.ignore(helper.id());
        job.until_ended();
        job.changes.extend(job.tree.resync());
        let strangers = [stranger.id(), helper.id()];
        assert!(job.births().keys().all(|key| !strangers.contains(&key.pid)), "{source:?}");
        drop(stranger.stdin.take());
        helper.kill().unwrap();
        helper.wait().unwrap();
        stranger.wait().unwrap();
        reap_sleepers();
    }
}

/// What a stranger's shell left behind came to us, the subreaper.
fn reap_sleepers() {
    for key in Tree::attached(&Root::live(), std::process::id()).living() {
        if is_sleep(key) {
            end(key);
        }
    }
}

#[test]
fn a_running_job_is_found_with_all_its_descendants() {
    let _alone = alone();
    let mut child = Command::new("sh")
        .args(["-c", "sh -c 'sleep 1000 & wait' & read x"])
        .stdin(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let root = Root::live();
    let begun = std::time::Instant::now();
    // Three processes as soon as the shells have started them.
    let mut tree = loop {
        let tree = Tree::attached(&root, child.id());
        if tree.living().any(is_sleep) {
            break tree;
        }
        assert!(begun.elapsed().as_secs() < 60);
    };
    let mut feed = Feed::open_as(&root, Source::Listing).known().unwrap();
    let born = tree.update(&mut feed, clock::boot_ns());
    assert_eq!(born.len(), tree.living().count());
    assert_eq!(tree.living().count(), 3);
    let sleeper = tree.living().find(|key| is_sleep(*key)).unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
    // Its grandparent is dead; it stays.
    tree.update(&mut feed, clock::boot_ns());
    assert!(tree.is_living(sleeper));
    for key in tree.living().collect::<Vec<_>>() {
        end(key);
    }
}

#[test]
#[ignore = "an actor that other tests start"]
fn actor_leader_ends_before_its_thread() {
    end_first_thread();
    let mut line = String::new();
    std::io::stdin().read_line(&mut line).unwrap();
    std::process::exit(5);
}

/// Sends the first thread a signal whose handler ends that thread alone.
#[allow(unsafe_code, reason = "no safe call ends one thread without unwinding")]
fn end_first_thread() {
    use nix::libc::{SYS_exit, SYS_tgkill, syscall};
    use nix::sys::signal::{SaFlags, SigAction, SigHandler, SigSet, sigaction};
    extern "C" fn end_thread(_: i32) {
        // SAFETY: ends the calling thread; nothing it borrows is used by others.
        unsafe { syscall(SYS_exit, 0) };
    }
    let action = SigAction::new(SigHandler::Handler(end_thread), SaFlags::empty(), SigSet::empty());
    // SAFETY: the handler makes one system call.
    unsafe { sigaction(Signal::SIGUSR1, &action) }.unwrap();
    let pid = std::process::id();
    // SAFETY: sends a signal to our own first thread.
    unsafe { syscall(SYS_tgkill, pid, pid, Signal::SIGUSR1 as i32) };
}

#[test]
#[ignore = "an actor that other tests start"]
fn actor_thread_calls_exec() {
    let thread = std::thread::spawn(|| Command::new("sleep").arg("1000").exec());
    panic!("{}", thread.join().unwrap());
}

fn actor(name: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args(["--ignored", "--exact", name, "--test-threads=1", "--quiet"])
        .stdout(std::process::Stdio::null());
    command
}

#[test]
fn a_process_lives_on_when_only_its_first_thread_ended() {
    let _alone = alone();
    for source in sources() {
        let mut job = Job::start(source, &mut actor("actor_leader_ends_before_its_thread"));
        job.update();
        let first = job.first();
        let is_zombie =
            |job: &Job| stat_of(&Root::live(), job.child.id()).known().is_some_and(|stat| stat.state == 'Z');
        job.until("the leader's end", is_zombie);
        job.until("a few more looks", |job| job.tree.is_living(first));
        job.update();
        assert!(job.tree.is_living(first), "{source:?}: {:?}", job.changes);
        job.until_ended();
        assert_eq!(job.deaths().len(), 1);
    }
}

#[test]
fn a_process_whose_second_thread_calls_exec_is_one_process() {
    let _alone = alone();
    for source in sources() {
        let mut job = Job::start(source, &mut actor("actor_thread_calls_exec"));
        job.update();
        let first = job.first();
        job.until("sleep", |job| is_sleep(job.first()));
        job.update();
        assert!(job.tree.is_living(first), "{source:?}: {:?}", job.changes);
        assert_eq!(job.births().len(), 1);
        job.child.kill().unwrap();
        job.until_ended();
        let killed = (source == Source::Connector).then_some(Exit::Signal(9));
        assert!(killed.is_none() || job.deaths()[&first] == killed, "{:?}", job.changes);
    }
}

#[test]
fn lost_events_are_made_good_by_a_listing() {
    let _alone = alone();
    let mut job = Job::shell(Source::Listing, "sleep 1000 & p=$!; sleep 1000 & read x; kill $p $!; wait");
    // Nobody drained anything while the children were started.
    let begun = std::time::Instant::now();
    while job.births_by_resync() < 3 {
        assert!(begun.elapsed().as_secs() < 60);
    }
    assert_eq!(job.births().len(), 3);
    job.until_ended();
}

impl Job {
    fn births_by_resync(&mut self) -> usize {
        self.update();
        let changes = self.tree.resync();
        self.changes.extend(changes);
        self.births().len()
    }
}

/// Lets the next process have this pid, where we may.
fn next_pid(pid: u32) -> bool {
    std::fs::write("/proc/sys/kernel/ns_last_pid", (pid - 1).to_string()).is_ok()
}

#[test]
fn a_pid_that_returns_is_another_process() {
    let _alone = alone();
    for source in sources() {
        let mut job = Job::shell(source, "sleep 1000 & wait $!; sleep 1000 & wait $!; read x");
        job.until("a sleeper", |job| job.tree.living().any(is_sleep));
        let before = job.tree.living().find(|key| is_sleep(*key)).unwrap();
        // Within one clock tick the kernel itself could not tell the two apart.
        job.until("three ticks", |_| clock::ticks_of(clock::boot_ns()) > before.start_ticks + 3);
        // Somebody else may take the pid first: then the shell gets another and the test still holds.
        let returned = next_pid(before.pid);
        kill(Pid::from_raw(before.pid as i32), Signal::SIGKILL).unwrap();
        job.until("another sleeper", |job| job.tree.living().any(|key| key != before && is_sleep(key)));
        let after = job.tree.living().find(|key| is_sleep(*key)).unwrap();
        assert_ne!(before, after, "{source:?} {returned}");
        assert!(job.deaths().contains_key(&before), "{source:?}");
        end(after);
        job.until_ended();
    }
}
