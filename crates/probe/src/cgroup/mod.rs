//! The memory cgroup of a process: where it is, what it and its ancestors hold, and which limit is the tightest.
//!
//! Works for v1, v2 and both side by side. A cgroup namespace or a bind mount can hide the levels above: their
//! limits are then unknown, never "none". Not here: whether a death was the limit's doing.

mod find;
mod level;

use crate::Root;
use crate::open_file::{OpenFile, read_feature};
use crate::parse;
use lowtide_model::{Bytes, CgroupVersion, Limit, Reading};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub use find::path_of;
pub use level::{CgroupReading, Level};

/// Most folders that are walked to list the members of a cgroup.
const MOST_FOLDERS: usize = 4096;

/// A limit and whose it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TightLimit {
    /// Path of the cgroup, as seen from our mount.
    pub path: Arc<str>,
    /// The limit.
    pub limit: Bytes,
    /// The whole charge of that cgroup, without what the kernel takes back first; `None` when it cannot be read.
    pub used: Option<Bytes>,
}

/// The memory cgroup of a process with all visible levels above it.
#[derive(Debug)]
pub struct Cgroups {
    version: CgroupVersion,
    levels: Vec<Level>,
    hidden: bool,
    procs: Reading<OpenFile>,
    nameless: Arc<str>,
}

impl Cgroups {
    /// Finds the memory cgroup of a process. `Unsupported` where no memory controller is mounted.
    pub fn open(root: &Root, pid: u32) -> Reading<Self> {
        find::memory_cgroup(root, pid).and_then(|place| Self::at(&place))
    }

    fn at(place: &find::Place) -> Reading<Self> {
        let mut levels = Vec::new();
        for (path, dir) in place.levels() {
            // On v2 the controller may be switched off in the lower levels, and the root has no files of its own.
            if let Reading::Known(level) = Level::open(place.version, path.into(), dir) {
                levels.push(level);
            }
        }
        if levels.is_empty() {
            return Reading::Unsupported;
        }
        let procs = levels.first().map_or(Reading::Unsupported, |level: &Level| {
            OpenFile::open_feature(level.dir().join("cgroup.procs"))
        });
        let nameless = Arc::from("(hidden)");
        Reading::Known(Self { version: place.version, levels, hidden: place.hidden, procs, nameless })
    }

    /// Which interface it is.
    pub const fn version(&self) -> CgroupVersion {
        self.version
    }

    /// Path of the cgroup itself, as seen from our mount.
    pub fn path(&self) -> &Arc<str> {
        self.levels.first().map_or(&self.nameless, |level| level.path())
    }

    /// Whether there are levels above that we cannot see. v1 still tells the lowest limit of them.
    pub const fn hides_ancestors(&self) -> bool {
        self.hidden
    }

    /// The cgroup itself, then its visible ancestors.
    pub fn levels(&mut self) -> &mut [Level] {
        &mut self.levels
    }

    /// Reads the cgroup itself.
    pub fn read(&mut self) -> CgroupReading {
        self.levels.first_mut().map_or_else(CgroupReading::default, Level::read)
    }

    /// The lowest limit on the way up. `Known(None)`: there is none. `Unsupported`: none is seen, but levels are
    /// hidden that may have one.
    pub fn tight_limit(&mut self) -> Reading<Option<TightLimit>> {
        let mut tight: Option<TightLimit> = None;
        let mut inherited = None;
        for level in &mut self.levels {
            let reading = level.read_usage();
            if let Reading::Known(Limit::At(limit)) = reading.limit
                && tight.as_ref().is_none_or(|known| limit < known.limit)
            {
                tight =
                    Some(TightLimit { path: Arc::clone(level.path()), limit, used: reading.working_set() });
            }
            inherited = inherited.or(reading.hierarchical_limit);
        }
        match (tight, inherited) {
            // v1 tells the lowest limit of all levels, the hidden ones too.
            (known, Some(Limit::At(limit))) if known.as_ref().is_none_or(|known| limit < known.limit) => {
                Reading::Known(Some(TightLimit { path: Arc::clone(&self.nameless), limit, used: None }))
            }
            (Some(known), _) => Reading::Known(Some(known)),
            (None, None) if self.hidden => Reading::Unsupported,
            (None, _) => Reading::Known(None),
        }
    }

    /// The processes in the cgroup and below it: all that are charged to it. One that our pid namespace hides
    /// counts as pid 0.
    pub fn members(&self) -> Reading<Vec<u32>> {
        let Some(level) = self.levels.first() else {
            return Reading::Unsupported;
        };
        members_of(level.dir())
    }

    /// Stands for who is in the cgroup: the same as long as nobody comes or goes, and much cheaper than a list. `None`
    /// where there are cgroups below it, or the list cannot be read.
    pub fn crowd(&self) -> Option<u64> {
        let dir = self.levels.first()?.dir();
        // A folder without folders in it has two links: its name and its own dot.
        let leaf = std::fs::metadata(dir).is_ok_and(|dir| dir.nlink() <= 2);
        self.procs.as_known().filter(|_| leaf)?.print().ok()
    }
}

fn members_of(dir: &Path) -> Reading<Vec<u32>> {
    let mut members = match read_feature(&dir.join("cgroup.procs")) {
        Reading::Known(bytes) => parse::cgroup_pids(&bytes).collect::<Vec<_>>(),
        // A threaded cgroup does not tell processes.
        Reading::Unsupported if dir.join("cgroup.procs").exists() => Vec::new(),
        Reading::Unsupported => return Reading::Unsupported,
        Reading::Denied => return Reading::Denied,
        Reading::Gone => return Reading::Gone,
    };
    let mut folders: Vec<PathBuf> = folders_in(dir);
    let mut walked = 0;
    while let Some(folder) = folders.pop() {
        walked += 1;
        if walked > MOST_FOLDERS {
            return Reading::Unsupported;
        }
        if let Reading::Known(bytes) = read_feature(&folder.join("cgroup.procs")) {
            members.extend(parse::cgroup_pids(&bytes));
        }
        folders.extend(folders_in(&folder));
    }
    members.sort_unstable();
    members.dedup();
    Reading::Known(members)
}

fn folders_in(dir: &Path) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(dir) else {
        return Vec::new();
    };
    let is_folder = |entry: &std::fs::DirEntry| entry.file_type().is_ok_and(|kind| kind.is_dir());
    entries.filter_map(Result::ok).filter(is_folder).map(|entry| entry.path()).collect()
}

#[cfg(test)]
mod tests;
