//! A memory cgroup for the job alone, so that it dies alone when it takes too much: the machine, the shell and lowtide live.
//!
//! On v1 a folder below our own cgroup, which takes root or a folder handed to this user. On v2 the same where our cgroup is
//! delegated to us; a cgroup with limits below it may hold no processes itself, so we move aside first. Where a shell is in
//! it too, systemd makes a scope; without one, root gets a folder beside our own, with our own limit. Not here: what the
//! limit is for (see `guard`).

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
/// Which controllers work below a cgroup of v2.
const CONTROL: &str = "cgroup.subtree_control";
const PROCS: &str = "cgroup.procs";
/// Says the limit of the cgroup it runs in.
const TELL_LIMIT: &str = r#"cat "/sys/fs/cgroup$(sed -n 's/^0:://p' /proc/self/cgroup)/memory.max""#;
/// Limits are rounded down to pages.
const LARGEST_PAGE: u64 = 64 * 1024;

/// How the job is kept apart.
#[derive(Clone, Debug)]
pub(crate) enum Isolation {
    /// In this folder of ours.
    Folder {
        /// The cgroup.
        folder: PathBuf,
        /// Its list of processes.
        procs: CString,
        /// Where we were before we moved aside, if we had to.
        home: Option<PathBuf>,
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
            Ok((folder, seat)) => {
                let home = (seat == Seat::Aside).then_some(parent);
                Self::folder(folder, home).ok_or(IsolationError::NoController)
            }
            Err(_) if version == CgroupVersion::V2 && systemd_makes_scopes(max) => {
                Ok(Self::Scope { before: scope(max) })
            }
            Err(cause) => {
                match beside(&parent, version, run_id, max).and_then(|folder| Self::folder(folder, None)) {
                    Some(made) => Ok(made),
                    None => Err(IsolationError::Denied { folder: parent, cause }),
                }
            }
        }
    }

    fn folder(folder: PathBuf, home: Option<PathBuf>) -> Option<Self> {
        let procs = CString::new(folder.join(PROCS).as_os_str().as_bytes()).ok()?;
        Some(Self::Folder { folder, procs, home })
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

    /// Removes the place, once nobody is there any more, and leaves our own cgroup as it was.
    pub(crate) fn clear(&self) {
        if let Self::Folder { folder, home, .. } = self {
            let _ = std::fs::remove_dir(folder);
            home.iter().for_each(|home| go_home(home));
        }
    }
}

/// Where lowtide itself is while the job has a cgroup below.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Seat {
    /// Where it was.
    Same,
    /// In a cgroup beside the job's.
    Aside,
}

fn in_folder(
    parent: &Path,
    version: CgroupVersion,
    run_id: &str,
    max: Option<Bytes>,
) -> io::Result<(PathBuf, Seat)> {
    let seat = match version {
        CgroupVersion::V1 => Seat::Same,
        CgroupVersion::V2 => allow_limits_below(parent)?,
    };
    let folder = parent.join(format!("lowtide-{run_id}"));
    let made = std::fs::create_dir(&folder).and_then(|()| set_limits(&folder, version, max));
    if made.is_err() {
        let _ = std::fs::remove_dir(&folder);
        if seat == Seat::Aside {
            go_home(parent);
        }
    }
    made.map(|()| (folder, seat))
}

/// A folder beside our own cgroup, where limits work already. It takes root. Our own limit holds there too, or a job could
/// get around it.
fn beside(own: &Path, version: CgroupVersion, run_id: &str, max: Option<Bytes>) -> Option<PathBuf> {
    let above = own.parent().filter(|above| version == CgroupVersion::V2 && limits_work_below(above))?;
    let limit = std::fs::read_to_string(own.join("memory.max")).ok()?;
    let limit = limit.trim().parse().map(Bytes).ok();
    let least = [max, limit].into_iter().flatten().min();
    in_folder(above, version, run_id, least).ok().map(|(folder, _)| folder)
}

fn limits_work_below(cgroup: &Path) -> bool {
    let control = std::fs::read_to_string(cgroup.join(CONTROL));
    control.is_ok_and(|names| names.split_whitespace().any(|name| name == "memory"))
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

/// Has the memory controller work below our cgroup. One that limits others may hold nobody itself, so we go aside; where
/// somebody else is in it, a shell for one, that does not help.
fn allow_limits_below(parent: &Path) -> io::Result<Seat> {
    let control = parent.join(CONTROL);
    if limits_work_below(parent) || std::fs::write(&control, "+memory").is_ok() {
        return Ok(Seat::Same);
    }
    let aside = parent.join(ASIDE);
    match std::fs::create_dir(&aside) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
        _ => {}
    }
    let moved = std::fs::write(aside.join(PROCS), "0").and_then(|()| std::fs::write(&control, "+memory"));
    if moved.is_err() {
        go_home(parent);
    }
    moved.map(|()| Seat::Aside)
}

/// Undoes it: nobody could be put into our cgroup any more. Left as it is while anybody else has a cgroup below.
fn go_home(parent: &Path) {
    let aside = parent.join(ASIDE);
    let folders = std::fs::read_dir(parent).into_iter().flatten().filter_map(Result::ok);
    let mut folders = folders.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
    if folders.any(|entry| entry.path() != aside) {
        return;
    }
    let _ = std::fs::write(parent.join(CONTROL), "-memory");
    let _ = std::fs::write(parent.join(PROCS), "0");
    let _ = std::fs::remove_dir(&aside);
}

/// Whether a scope has the limit it was asked for: a systemd without the memory controller sets none and does not say so.
fn systemd_makes_scopes(max: Option<Bytes>) -> bool {
    let before = scope(max);
    let Some((program, words)) = before.split_first() else { return false };
    let mut trial = Command::new(program);
    trial.args(words).args(["sh", "-c", TELL_LIMIT]).stdin(Stdio::null()).stderr(Stdio::null());
    let told = trial.output().ok().filter(|told| told.status.success());
    told.is_some_and(|told| max.is_none_or(|max| is_limit(&told.stdout, max)))
}

/// Whether the kernel's word for a limit is this one, whole pages of it.
fn is_limit(told: &[u8], max: Bytes) -> bool {
    let told = std::str::from_utf8(told).ok().and_then(|text| text.trim().parse::<u64>().ok());
    told.is_some_and(|told| told <= max.0 && max.0 - told < LARGEST_PAGE)
}

fn scope(max: Option<Bytes>) -> Vec<OsString> {
    let mut words: Vec<OsString> = ["systemd-run", "--scope", "--quiet"].map(OsString::from).into();
    // Root has the machine's own systemd, and often no other.
    if !nix::unistd::geteuid().is_root() {
        words.push("--user".into());
    }
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
        std::fs::write(place.path().join(CONTROL), "cpu memory\n").unwrap();
        in_folder(place.path(), CgroupVersion::V2, "x", Some(Bytes(8192))).unwrap();
        assert_eq!((read("memory.max"), read("memory.swap.max")), ("8192".to_owned(), "0".to_owned()));
    }

    #[test]
    fn beside_our_own_cgroup_our_own_limit_holds_too() {
        let above = tempfile::tempdir().unwrap();
        let own = above.path().join("own");
        std::fs::create_dir(&own).unwrap();
        std::fs::write(own.join("memory.max"), "8192\n").unwrap();
        let beside = |id: &str, max| beside(&own, CgroupVersion::V2, id, max);
        assert_eq!(beside("a", None), None, "limits do not work there");
        std::fs::write(above.path().join(CONTROL), "memory\n").unwrap();
        for (id, max, held) in
            [("a", None, "8192"), ("b", Some(Bytes(4096)), "4096"), ("c", Some(Bytes(1 << 20)), "8192")]
        {
            let made = beside(id, max).unwrap();
            assert_eq!(made, above.path().join(format!("lowtide-{id}")));
            assert_eq!(std::fs::read_to_string(made.join("memory.max")).unwrap(), held);
        }
    }

    #[test]
    fn a_folder_that_may_not_be_written_is_an_error_with_its_cause() {
        let error = in_folder(Path::new("/proc/self"), CgroupVersion::V1, "x", None).unwrap_err();
        assert!(error.raw_os_error().is_some());
    }

    #[test]
    fn a_limit_that_was_not_set_is_none() {
        assert!(is_limit(b"67108864\n", Bytes(64 << 20)) && is_limit(b"67108864\n", Bytes((64 << 20) + 100)));
        for told in [&b"max\n"[..], b"", b"134217728\n", b"4096\n", b"\xff"] {
            assert!(!is_limit(told, Bytes(64 << 20)), "{told:?}");
        }
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
