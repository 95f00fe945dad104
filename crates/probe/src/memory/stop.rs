//! Holding a process still while its memory is read, for those who ask for it.
//!
//! By ptrace SEIZE and INTERRUPT, thread by thread: no signal is sent, its parent is told nothing, and the kernel lets
//! every thread go when this thread of ours dies, however that happens (`PTRACE_O_EXITKILL` is not set). Must be dropped
//! on the thread that made it.

use crate::Root;
use lowtide_model::Reading;
use nix::errno::Errno;
use nix::sys::ptrace;
use nix::sys::wait::{WaitPidFlag, waitpid};
use nix::unistd::Pid;
use std::collections::BTreeSet;
use std::time::{Duration, Instant};

/// Rounds over the list of threads: one may start another before it is held.
const ROUNDS: usize = 8;

/// A process that stands still until this is dropped.
#[derive(Debug)]
pub struct Held {
    threads: BTreeSet<i32>,
    since: Instant,
    /// A tracer belongs to one thread.
    _here: std::marker::PhantomData<*const ()>,
}

impl Held {
    /// Stops every thread. `Denied` without the right to trace, or when somebody else does.
    pub fn stop(root: &Root, pid: u32) -> Reading<Self> {
        let mut held =
            Self { threads: BTreeSet::new(), since: Instant::now(), _here: std::marker::PhantomData };
        for _ in 0..ROUNDS {
            let Ok(entries) = std::fs::read_dir(root.process(pid).join("task")) else {
                return Reading::Gone;
            };
            let names = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<i32>().ok());
            let fresh: Vec<i32> = names.filter(|thread| !held.threads.contains(thread)).collect();
            if fresh.is_empty() {
                return Reading::Known(held);
            }
            for thread in fresh {
                match hold(Pid::from_raw(thread)) {
                    Ok(()) => drop(held.threads.insert(thread)),
                    Err(Errno::ESRCH) => {}
                    Err(_) => return Reading::Denied,
                }
            }
        }
        Reading::Known(held)
    }

    /// For how long it has stood still.
    pub fn length(&self) -> Duration {
        self.since.elapsed()
    }

    /// How many threads stand still.
    pub fn threads(&self) -> usize {
        self.threads.len()
    }
}

fn hold(thread: Pid) -> nix::Result<()> {
    ptrace::seize(thread, ptrace::Options::empty())?;
    ptrace::interrupt(thread)?;
    waitpid(thread, Some(WaitPidFlag::__WALL)).map(drop)
}

impl Drop for Held {
    fn drop(&mut self) {
        for thread in &self.threads {
            // A thread that was killed meanwhile has nothing to be let go of.
            let _ = ptrace::detach(Pid::from_raw(*thread), None);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{BufRead, BufReader};
    use std::process::{Child, Command, Stdio};

    /// Four threads that do nothing but count.
    const BUSY: &str = "
import threading, time
def spin():
    while True: time.sleep(0.0005)
for _ in range(4): threading.Thread(target=spin, daemon=True).start()
print('ready', flush=True)
spin()";

    fn busy() -> Child {
        let mut child = Command::new("python3").args(["-c", BUSY]).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert_eq!(line, "ready\n");
        child
    }

    fn states(pid: u32) -> Vec<char> {
        let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).unwrap().filter_map(Result::ok);
        let stat = tasks.filter_map(|task| std::fs::read(task.path().join("stat")).ok());
        stat.filter_map(|bytes| crate::parse::stat(&bytes)).map(|stat| stat.state).collect()
    }

    fn until(what: &str, mut holds: impl FnMut() -> bool) {
        let end = Instant::now() + Duration::from_secs(30);
        while !holds() {
            assert!(Instant::now() < end, "never came true: {what}");
            std::thread::yield_now();
        }
    }

    #[test]
    fn every_thread_stands_still_and_goes_on_afterwards() {
        let mut child = busy();
        let held = Held::stop(&Root::live(), child.id()).known().unwrap();
        assert_eq!(held.threads(), 5);
        assert!(states(child.id()).iter().all(|state| *state == 't'), "{:?}", states(child.id()));
        drop(held);
        until("all run again", || states(child.id()).iter().all(|state| *state != 't'));
        child.kill().unwrap();
        child.wait().unwrap();
    }

    #[test]
    fn a_thread_of_ours_that_dies_lets_it_go() {
        let mut child = busy();
        let pid = child.id();
        let dying = std::thread::spawn(move || {
            let held = Held::stop(&Root::live(), pid).known().unwrap();
            std::mem::forget(held);
        });
        dying.join().unwrap();
        until("all run again", || states(pid).iter().all(|state| *state != 't'));
        child.kill().unwrap();
        child.wait().unwrap();
    }

    #[test]
    fn nobody_is_held_where_nobody_is() {
        assert!(matches!(Held::stop(&Root::live(), u32::MAX), Reading::Gone));
    }
}
