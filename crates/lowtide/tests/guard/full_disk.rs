//! A save that fails because the disk is really full: a small file system of the test's own, under a real memory limit.

use crate::support::cgroup::Cgroup;
use crate::support::{Stage, read};
use crate::{MIB, guarded, noted, said, steps, unbroken};
use nix::mount::{MsFlags, mount, umount};
use std::path::{Path, PathBuf};

/// A file system in memory with a fixed size; gone when dropped.
struct Disk(PathBuf);

impl Disk {
    /// None where mounting is not allowed.
    fn new(folder: &Path, mib: u64) -> Option<Self> {
        std::fs::create_dir(folder).unwrap();
        let size = format!("size={mib}m");
        let mounted = mount(Some("tmpfs"), folder, Some("tmpfs"), MsFlags::empty(), Some(size.as_str()));
        if let Err(error) = mounted {
            eprintln!("not tested on a full disk: a tmpfs can't be mounted here: {error}");
            return None;
        }
        Some(Self(folder.to_owned()))
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = umount(&self.0);
    }
}

#[test]
fn a_save_that_finds_the_disk_full_is_told_with_the_room_left_and_the_older_checkpoint_is_gone_back_to() {
    let stage = Stage::new();
    let (Some(cgroup), Some(disk)) = (Cgroup::new(200 * MIB), Disk::new(&stage.path("saves"), 5)) else {
        return;
    };
    // The first of 3 MiB fits, the second does not.
    let job = ["--leak", "4", "--steps", "80", "--step-ms", "60", "--weigh", "3", "--save-at", "10"];
    let output = cgroup.inside(&guarded(&stage, &["--resume", "9"], &job)).output().unwrap();
    let words = said(&output);
    assert_eq!((output.status.code(), cgroup.kills()), (Some(75), 0), "{words}");
    assert!(
        words.contains("failed (OSError); the disk of") && words.contains("is full: 0 B of 5.00 MiB"),
        "{words}"
    );
    // It went back once, got no further than the step of that checkpoint, and is not started again and again.
    let lives = noted(&read(&stage.path("run.tide"))).iter().filter(|name| *name == "life").count();
    assert_eq!(lives, 1, "{words}");
    assert!(words.contains("it got no further than") && words.contains("ckpt-10.pt (step 10)"), "{words}");
    assert!(words.contains("a newer one can't be used") && words.contains("resume with"), "{words}");
    // Every life made the same steps from there; nothing was deleted, not even what is cut.
    let made = steps(&stage);
    let second = made.iter().rposition(|step| step.0 == 11).unwrap();
    let first_life = unbroken(made[second - 1].0);
    assert_eq!(made[..second], first_life[..], "{words}");
    assert_eq!(made[second..], unbroken(made.last().unwrap().0)[10..], "{words}");
    let cut = format!("ckpt-{}.pt", made[second - 1].0);
    let size = |name: &str| std::fs::metadata(disk.0.join(name)).map_or(0, |facts| facts.len());
    assert!(size("ckpt-10.pt") > 3 * MIB, "{words}");
    assert!((1..3 * MIB).contains(&size(&cut)), "{cut}: {words}");
}
