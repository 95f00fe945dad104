//! Where the kernel's file trees are: the real ones, or a made-up one in a test.

use std::path::{Path, PathBuf};

/// The mounts every reader starts from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Root {
    /// The proc file system.
    pub proc: PathBuf,
    /// The sys file system.
    pub sys: PathBuf,
    /// The tmpfs that shared memory of user programs lives in.
    pub dev_shm: PathBuf,
}

impl Root {
    /// This machine.
    pub fn live() -> Self {
        Self { proc: "/proc".into(), sys: "/sys".into(), dev_shm: "/dev/shm".into() }
    }

    /// A tree under `dir` with the folders `proc`, `sys` and `dev/shm`.
    pub fn fake(dir: &Path) -> Self {
        Self { proc: dir.join("proc"), sys: dir.join("sys"), dev_shm: dir.join("dev/shm") }
    }

    /// The folder of a process.
    pub fn process(&self, pid: u32) -> PathBuf {
        self.proc.join(pid.to_string())
    }

    /// A mount point as `mountinfo` names it, placed under this root: `/sys/fs/cgroup` of a fake tree lies in it.
    pub(crate) fn place(&self, mount_point: &str) -> PathBuf {
        match mount_point.strip_prefix("/sys") {
            Some(rest) if rest.is_empty() || rest.starts_with('/') => {
                self.sys.join(rest.trim_start_matches('/'))
            }
            _ => PathBuf::from(mount_point),
        }
    }
}

impl Default for Root {
    fn default() -> Self {
        Self::live()
    }
}
