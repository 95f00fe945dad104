//! A memory cgroup of the test's own with a real limit, on whichever hierarchy this machine has the controller.

use std::path::PathBuf;
use std::process::{Child, Command};
use std::sync::atomic::{AtomicU32, Ordering};

static MADE: AtomicU32 = AtomicU32::new(0);

/// A cgroup with a limit; gone when dropped.
pub struct Cgroup {
    pub folder: PathBuf,
    limit_file: &'static str,
}

impl Cgroup {
    /// None where there is no memory controller that may be written to.
    pub fn new(limit_bytes: u64) -> Option<Self> {
        let name = format!("lowtide-test-{}-{}", std::process::id(), MADE.fetch_add(1, Ordering::Relaxed));
        let v1 = PathBuf::from("/sys/fs/cgroup/memory");
        let (base, limit_file) = if v1.is_dir() {
            (v1, "memory.limit_in_bytes")
        } else {
            (PathBuf::from("/sys/fs/cgroup"), "memory.max")
        };
        let folder = base.join(name);
        std::fs::create_dir(&folder).ok()?;
        let cgroup = Self { folder, limit_file };
        cgroup.set_limit(limit_bytes).then_some(cgroup)
    }

    /// Sets another limit. False when the kernel refuses: it holds more than that already.
    pub fn set_limit(&self, bytes: u64) -> bool {
        std::fs::write(self.folder.join(self.limit_file), bytes.to_string()).is_ok()
    }

    /// The command, started inside.
    pub fn inside(&self, command: &Command) -> Command {
        let procs = self.folder.join("cgroup.procs");
        let mut inside = Command::new("sh");
        inside.args(["-c", "echo $$ > \"$0\" && exec \"$@\""]).arg(procs).arg(command.get_program());
        inside.args(command.get_args());
        for (key, value) in command.get_envs() {
            match value {
                Some(value) => inside.env(key, value),
                None => inside.env_remove(key),
            };
        }
        inside
    }

    /// Somebody else in it.
    pub fn stranger(&self) -> Child {
        self.inside(Command::new("sleep").arg("60")).spawn().unwrap()
    }

    /// How many were killed in it for memory.
    pub fn kills(&self) -> u64 {
        let read = |name: &str| std::fs::read_to_string(self.folder.join(name)).unwrap_or_default();
        let text = read("memory.oom_control") + &read("memory.events");
        let line = text.lines().find_map(|line| line.strip_prefix("oom_kill "));
        line.and_then(|number| number.trim().parse().ok()).unwrap_or(0)
    }
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let _ = std::fs::remove_dir(&self.folder);
            return;
        }
        super::eventually("the cgroup is empty", || std::fs::remove_dir(&self.folder).is_ok().then_some(()));
    }
}
