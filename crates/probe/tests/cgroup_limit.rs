//! A real memory cgroup (v1 or v2) with a limit, and a real OOM kill in it. Where none can be made (no memory
//! controller, not root), the same steps run on a made-up tree whose counter is moved by hand.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails where it cannot go on")]

use lowtide_model::{Bytes, Limit, Reading};
use lowtide_probe::Root;
use lowtide_probe::cgroup::Cgroups;
use lowtide_probe::fake::FakeProc;
use lowtide_probe::host::Host;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const LIMIT: u64 = 16 << 20;

/// A cgroup of our own, removed at the end.
struct Own(PathBuf);

impl Own {
    /// Under v1's memory hierarchy, else under v2's root.
    fn make() -> Option<Self> {
        let name = format!("lowtide-test-{}", std::process::id());
        let v1 = || Self::with_limit(Path::new("/sys/fs/cgroup/memory").join(&name), "memory.limit_in_bytes");
        let v2 = || Self::with_limit(Path::new("/sys/fs/cgroup").join(&name), "memory.max");
        v1().or_else(v2)
    }

    fn with_limit(dir: PathBuf, file: &str) -> Option<Self> {
        std::fs::create_dir(&dir).ok()?;
        let own = Self(dir);
        // Where the controller is not switched on there is no such file, and none can be made.
        std::fs::write(own.0.join(file), LIMIT.to_string()).ok()?;
        Some(own)
    }
}

impl Drop for Own {
    fn drop(&mut self) {
        // The kernel needs a moment to take the last charges out.
        for _ in 0..100 {
            if std::fs::remove_dir(&self.0).is_ok() {
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
    }
}

#[test]
fn a_kill_by_a_real_limit_is_counted_where_it_happened() {
    let Some(own) = Own::make() else { return on_a_made_up_machine() };
    let enter = format!("echo $$ > {}/cgroup.procs && read x && exec tail /dev/zero", own.0.display());
    let mut child = Command::new("sh").args(["-c", &enter]).stdin(Stdio::piped()).spawn().unwrap();
    let root = Root::live();
    let name = own.0.file_name().unwrap().to_string_lossy().into_owned();
    let begun = std::time::Instant::now();
    let mut cgroups = loop {
        let cgroups = Cgroups::open(&root, child.id()).known().unwrap();
        if cgroups.path().ends_with(&name) {
            break cgroups;
        }
        assert!(begun.elapsed().as_secs() < 60, "{}", cgroups.path());
    };
    let mut host = Host::open(&root);
    let (before, host_before) = (cgroups.read(), host.read().oom_kills.known().unwrap());
    assert_eq!(before.limit, Reading::Known(Limit::At(Bytes(LIMIT))));
    assert_eq!(before.oom_kills, Reading::Known(0));
    let tight = cgroups.tight_limit().known().flatten().unwrap();
    assert_eq!((&tight.path, tight.limit), (cgroups.path(), Bytes(LIMIT)));
    assert_eq!(cgroups.members(), Reading::Known(vec![child.id()]));
    drop(child.stdin.take().map(|mut stdin| std::io::Write::write_all(&mut stdin, b"go\n")));
    let status = child.wait().unwrap();
    assert_eq!(status.signal(), Some(9));
    let after = cgroups.read();
    assert_eq!(after.oom_kills, Reading::Known(1));
    assert!(after.limit_hits.known().unwrap() > 0);
    assert!(after.peak.known().unwrap() >= Bytes(LIMIT * 9 / 10));
    assert!(host.read().oom_kills.known().unwrap() > host_before);
    assert_eq!(cgroups.members(), Reading::Known(Vec::new()));
    drop(own);
    assert_eq!(cgroups.read().usage, Reading::Gone, "the cgroup was removed under its reader");
}

fn on_a_made_up_machine() {
    let dir = tempfile::tempdir().unwrap();
    let fake = FakeProc::at(dir.path()).unwrap();
    let file = |name: &str, text: &str| fake.file(&format!("sys/fs/cgroup/memory/own/{name}"), text).unwrap();
    fake.file("proc/5/cgroup", "4:memory:/own\n").unwrap();
    let mount = "35 31 0:32 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n";
    fake.file("proc/self/mountinfo", mount).unwrap();
    file("memory.usage_in_bytes", "1000\n");
    file("memory.limit_in_bytes", &format!("{LIMIT}\n"));
    file("memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 0\n");
    let mut cgroups = Cgroups::open(fake.root(), 5).known().unwrap();
    assert_eq!(cgroups.read().limit, Reading::Known(Limit::At(Bytes(LIMIT))));
    assert_eq!(cgroups.read().oom_kills, Reading::Known(0));
    file("memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 1\n");
    assert_eq!(cgroups.read().oom_kills, Reading::Known(1));
}

#[test]
fn the_machine_answers_with_its_memory_and_its_shared_memory() {
    let reading = Host::open(&Root::live()).read();
    let memory = reading.memory.known().unwrap();
    assert!(memory.available <= memory.total && memory.total > Bytes(64 << 20));
    let space = reading.dev_shm.known().unwrap();
    assert!(space.used <= space.total);
    let facts = lowtide_probe::host::facts(&Root::live());
    assert!(!facts.kernel.is_empty() && facts.cpus >= 1 && facts.page_bytes.is_power_of_two());
    assert_eq!(facts.boot_id.len(), 36);
}

#[test]
fn a_machine_without_the_files_has_unknown_values() {
    let dir = tempfile::tempdir().unwrap();
    let fake = FakeProc::at(dir.path()).unwrap();
    let reading = Host::open(fake.root()).read();
    assert_eq!(reading.memory, Reading::Unsupported);
    assert_eq!((reading.oom_kills, reading.pressure), (Reading::Unsupported, Reading::Unsupported));
}
