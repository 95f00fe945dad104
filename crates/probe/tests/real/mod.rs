//! Real processes for the tests: a job under a tree, watched until something has happened.

use lowtide_model::{Exit, ProcKey};
use lowtide_probe::events::{Feed, Source};
use lowtide_probe::tree::{Change, Tree};
use lowtide_probe::{Root, clock};
use nix::poll::{PollFd, PollFlags, poll};
use std::collections::BTreeMap;
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Long enough for a machine that is busy with other things.
const PATIENCE: Duration = Duration::from_secs(30);

static ALONE: Mutex<()> = Mutex::new(());

/// Orphans of one test must not be taken for those of another.
pub(crate) fn alone() -> MutexGuard<'static, ()> {
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The sources that work here. The kernel of every machine these tests run on can be listed.
pub(crate) fn sources() -> Vec<Source> {
    let all = [Source::Connector, Source::Perf, Source::Listing];
    all.into_iter().filter(|source| Feed::open_as(&Root::live(), *source).known().is_some()).collect()
}

/// A job started by this process, as the recorder would.
pub(crate) struct Job {
    pub(crate) child: Child,
    pub(crate) tree: Tree,
    pub(crate) feed: Feed,
    pub(crate) changes: Vec<Change>,
}

impl Job {
    /// Starts a shell script.
    pub(crate) fn shell(source: Source, script: &str) -> Self {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        Self::start(source, &mut command)
    }

    pub(crate) fn start(source: Source, command: &mut Command) -> Self {
        nix::sys::prctl::set_child_subreaper(true).unwrap();
        let root = Root::live();
        let feed = Feed::open_as(&root, source).known().unwrap();
        assert_eq!(feed.source(), source);
        let child = command.stdin(Stdio::piped()).spawn().unwrap();
        let tree = Tree::started(&root, child.id(), std::process::id(), &[]);
        Self { child, tree, feed, changes: Vec::new() }
    }

    /// Updates until `enough`, or fails with what was seen.
    pub(crate) fn until(&mut self, what: &str, enough: impl Fn(&Self) -> bool) {
        let begun = Instant::now();
        loop {
            self.update();
            if enough(self) {
                return;
            }
            assert!(begun.elapsed() < PATIENCE, "waited for {what}: {:#?}", self.changes);
            match self.feed.fd() {
                Some(fd) => drop(poll(&mut [PollFd::new(fd, PollFlags::POLLIN)], 10_u8)),
                None => std::thread::yield_now(),
            }
        }
    }

    pub(crate) fn update(&mut self) {
        self.changes.extend(self.tree.update(&mut self.feed, clock::boot_ns()));
    }

    /// Waits for the command and then for the tree to know.
    pub(crate) fn until_ended(&mut self) {
        drop(self.child.stdin.take());
        self.update();
        let key = self.first();
        let begun = Instant::now();
        while self.child.try_wait().unwrap().is_none() {
            assert!(begun.elapsed() < PATIENCE, "the command did not end");
            self.update();
        }
        self.until("the end of the command", |job| job.deaths().contains_key(&key));
    }

    /// The command itself.
    pub(crate) fn first(&self) -> ProcKey {
        let root = self.births().keys().copied().find(|key| key.pid == self.child.id());
        root.expect("the command is told with the first update")
    }

    /// Everybody that was told, with the parent. Fails on one told twice.
    pub(crate) fn births(&self) -> BTreeMap<ProcKey, Option<ProcKey>> {
        let mut births = BTreeMap::new();
        for change in &self.changes {
            if let Change::Born { key, parent, .. } = change {
                assert!(births.insert(*key, *parent).is_none(), "{key} was born twice");
            }
        }
        births
    }

    /// Everybody that was told dead. Fails on one that died twice or was never born.
    pub(crate) fn deaths(&self) -> BTreeMap<ProcKey, Option<Exit>> {
        let births = self.births();
        let mut deaths = BTreeMap::new();
        for change in &self.changes {
            if let Change::Died { key, exit, .. } = change {
                assert!(births.contains_key(key), "{key} died unborn");
                assert!(deaths.insert(*key, *exit).is_none(), "{key} died twice");
            }
        }
        deaths
    }
}

impl Drop for Job {
    /// A failed test leaves nothing running.
    fn drop(&mut self) {
        for key in self.tree.living().collect::<Vec<_>>() {
            let pid = nix::unistd::Pid::from_raw(key.pid as i32);
            let _ = nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGKILL);
            let _ = nix::sys::wait::waitpid(pid, None);
        }
    }
}
