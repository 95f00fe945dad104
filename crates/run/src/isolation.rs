//! A memory cgroup for the job alone, so that it dies alone when it takes too much: the machine, the shell and lowtide live.
//!
//! On v1 a folder below our own cgroup, which takes root or a folder handed to this user. On v2 the same where our cgroup is
//! delegated to us; a cgroup with limits below it may hold no processes itself, so we move aside first. Where neither is
//! allowed, systemd makes a scope for the user. Not here: what the limit is for (see `guard`).

use lowtide_model::{Bytes, CgroupVersion};
use lowtide_probe::Root;
use lowtide_probe::cgroup::Cgroups;
use std::ffi::{CString, OsString};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Where we go so that our cgroup may have limits below it.
const ASIDE: &str = "lowtide-recorder";

/// How the job is kept apart.
#[derive(Clone, Debug)]
pub(crate) enum Isolation {
    /// In this folder of ours.
    Folder {
        /// The cgroup.
        folder: PathBuf,
        /// Its list of processes.
        procs: CString,
    },
    /// In a scope that systemd makes at each start.
    Scope {
        /// What comes before the command.
        before: Vec<OsString>,
    },
}

/// Why a job can't be kept apart.
#[derive(Debug, thiserror::Error)]
pub enum IsolationError {
    /// There is no controller.
    #[error("there is no memory cgroup here to put the job into")]
    NoController,
    /// It may not be made, and systemd would not make one either.
    #[error("cannot make a memory cgroup in {}", folder.display())]
    Denied {
        /// Where.
        folder: PathBuf,
        /// The kernel's word.
        #[source]
        cause: io::Error,
    },
}

impl Isolation {
    /// Makes a place for this run, with this much memory at most.
    pub(crate) fn make(run_id: &str, max: Option<Bytes>) -> Result<Self, IsolationError> {
        let mut cgroups =
            Cgroups::open(&Root::live(), std::process::id()).known().ok_or(IsolationError::NoController)?;
        let version = cgroups.version();
        let parent = cgroups.levels().first().map(|level| level.dir().to_owned());
        let parent = parent.ok_or(IsolationError::NoController)?;
        match in_folder(&parent, version, run_id, max) {
            Ok(folder) => {
                let procs = CString::new(folder.join("cgroup.procs").as_os_str().as_bytes());
                let procs = procs.map_err(|_| IsolationError::NoController)?;
                Ok(Self::Folder { folder, procs })
            }
            Err(_) if version == CgroupVersion::V2 && systemd_makes_scopes() => {
                Ok(Self::Scope { before: scope(max) })
            }
            Err(cause) => Err(IsolationError::Denied { folder: parent, cause }),
        }
    }

    /// The command as it has to be started.
    pub(crate) fn command(&self, argv: &[OsString]) -> Vec<OsString> {
        match self {
            Self::Folder { .. } => argv.to_vec(),
            Self::Scope { before } => before.iter().chain(argv).cloned().collect(),
        }
    }

    /// The list that the job writes itself into before it begins.
    pub(crate) fn procs(&self) -> Option<CString> {
        match self {
            Self::Folder { procs, .. } => Some(procs.clone()),
            Self::Scope { .. } => None,
        }
    }

    /// Removes the place, once nobody is there any more.
    pub(crate) fn clear(&self) {
        if let Self::Folder { folder, .. } = self {
            let _ = std::fs::remove_dir(folder);
        }
    }
}

fn in_folder(parent: &Path, version: CgroupVersion, run_id: &str, max: Option<Bytes>) -> io::Result<PathBuf> {
    if version == CgroupVersion::V2 {
        allow_limits_below(parent)?;
    }
    let folder = parent.join(format!("lowtide-{run_id}"));
    std::fs::create_dir(&folder)?;
    let limited = set_limits(&folder, version, max);
    if limited.is_err() {
        let _ = std::fs::remove_dir(&folder);
    }
    limited.map(|()| folder)
}

fn set_limits(folder: &Path, version: CgroupVersion, max: Option<Bytes>) -> io::Result<()> {
    let Some(max) = max else { return Ok(()) };
    let (memory, swap) = match version {
        CgroupVersion::V1 => ("memory.limit_in_bytes", ("memory.memsw.limit_in_bytes", max.0.to_string())),
        CgroupVersion::V2 => ("memory.max", ("memory.swap.max", "0".to_owned())),
    };
    std::fs::write(folder.join(memory), max.0.to_string())?;
    // Without swap accounting there is no such file, and nothing to limit.
    let _ = std::fs::write(folder.join(swap.0), swap.1);
    Ok(())
}

/// Has the memory controller work below our cgroup.
fn allow_limits_below(parent: &Path) -> io::Result<()> {
    let control = parent.join("cgroup.subtree_control");
    let on = std::fs::read_to_string(&control)?.split_whitespace().any(|name| name == "memory");
    if on {
        return Ok(());
    }
    if std::fs::write(&control, "+memory").is_ok() {
        return Ok(());
    }
    let aside = parent.join(ASIDE);
    match std::fs::create_dir(&aside) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
        _ => {}
    }
    std::fs::write(aside.join("cgroup.procs"), "0")?;
    std::fs::write(&control, "+memory")
}

fn systemd_makes_scopes() -> bool {
    let quiet = |command: &mut Command| {
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status()
    };
    let made = quiet(Command::new("systemd-run").args(["--user", "--scope", "--quiet", "true"]));
    made.is_ok_and(|status| status.success())
}

fn scope(max: Option<Bytes>) -> Vec<OsString> {
    let mut words: Vec<OsString> = ["systemd-run", "--user", "--scope", "--quiet"].map(OsString::from).into();
    if let Some(max) = max {
        words.extend([format!("--property=MemoryMax={}", max.0).into(), "--property=MemorySwapMax=0".into()]);
    }
    words.push("--".into());
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_of_both_kinds_of_cgroup_go_into_their_files() {
        let place = tempfile::tempdir().unwrap();
        let read = |name: &str| std::fs::read_to_string(place.path().join("lowtide-x").join(name)).unwrap();
        in_folder(place.path(), CgroupVersion::V1, "x", Some(Bytes(4096))).unwrap();
        assert_eq!(read("memory.limit_in_bytes"), "4096");
        std::fs::remove_dir_all(place.path().join("lowtide-x")).unwrap();
        std::fs::write(place.path().join("cgroup.subtree_control"), "cpu memory\n").unwrap();
        in_folder(place.path(), CgroupVersion::V2, "x", Some(Bytes(8192))).unwrap();
        assert_eq!((read("memory.max"), read("memory.swap.max")), ("8192".to_owned(), "0".to_owned()));
    }

    #[test]
    fn a_folder_that_may_not_be_written_is_an_error_with_its_cause() {
        let error = in_folder(Path::new("/proc/self"), CgroupVersion::V1, "x", None).unwrap_err();
        assert!(error.raw_os_error().is_some());
    }

    #[test]
    fn a_scope_comes_before_the_command() {
        let isolation = Isolation::Scope { before: scope(Some(Bytes(1 << 30))) };
        let words = isolation.command(&["./train".into()]);
        assert_eq!(words.first().unwrap(), "systemd-run");
        assert_eq!(words.last().unwrap(), "./train");
        assert!(words.contains(&"--property=MemoryMax=1073741824".into()));
    }
}
