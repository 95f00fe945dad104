//! Finds the memory cgroup of a process from `/proc/PID/cgroup` and the mounts.
//!
//! `/proc/PID/cgroup` tells a path in the hierarchy; `mountinfo` tells which part of that hierarchy is mounted
//! where. In a container one or both are cut short: by a cgroup namespace (paths begin at its root, and `/..` leads
//! out of it) or by a bind mount (the mount's root is not `/`).

use crate::Root;
use crate::open_file::{CAP, Kind, read_capped, read_feature, refusal};
use crate::parse::{self, Membership, Mount};
use lowtide_model::{CgroupVersion, Reading};
use std::path::{Path, PathBuf};

/// Inode of the first cgroup namespace, fixed in the kernel.
const FIRST_NAMESPACE: &str = "cgroup:[4026531835]";

/// Where a memory cgroup is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) version: CgroupVersion,
    /// The mount point.
    pub(super) mount: PathBuf,
    /// The path below the mount point, `/` for the mount point itself.
    pub(super) path: String,
    /// Whether there are levels above the mount point that we cannot see.
    pub(super) hidden: bool,
}

impl Place {
    /// The cgroup itself and its visible ancestors, with their folders.
    pub(super) fn levels(&self) -> Vec<(String, PathBuf)> {
        let below = self.path.trim_matches('/');
        let mut path = PathBuf::from(below);
        let mut levels = Vec::new();
        loop {
            levels.push((format!("/{}", path.display()), self.mount.join(&path)));
            if !path.pop() {
                return levels;
            }
        }
    }
}

/// Path of the memory cgroup of a process, as our cgroup namespace sees it. The unified path where there is no v1
/// memory controller.
pub fn path_of(root: &Root, pid: u32) -> Reading<String> {
    memberships(root, pid).and_then(|lines| memory_line(&lines).map(|(_, line)| line.path.clone()).into())
}

fn memberships(root: &Root, pid: u32) -> Reading<Vec<Membership>> {
    match read_capped(&root.process(pid).join("cgroup"), CAP) {
        Ok(bytes) => Reading::Known(parse::membership(&bytes)),
        Err(error) => refusal(&error, Kind::Process),
    }
}

fn memory_line(lines: &[Membership]) -> Option<(CgroupVersion, &Membership)> {
    let v1 = lines.iter().find(|line| line.controllers.iter().any(|name| name == "memory"));
    let v2 = || lines.iter().find(|line| line.hierarchy == 0 && line.controllers.is_empty());
    v1.map(|line| (CgroupVersion::V1, line)).or_else(|| v2().map(|line| (CgroupVersion::V2, line)))
}

pub(super) fn memory_cgroup(root: &Root, pid: u32) -> Reading<Place> {
    memberships(root, pid).and_then(|lines| match memory_line(&lines) {
        // Our own mounts: the paths we can open.
        Some((version, line)) => read_feature(&root.proc.join("self/mountinfo"))
            .and_then(|mounts| place(root, version, line, &mounts).into()),
        None => Reading::Unsupported,
    })
}

fn place(root: &Root, version: CgroupVersion, line: &Membership, mounts: &[u8]) -> Option<Place> {
    let mounts = parse::mountinfo(mounts, |kind| kind.starts_with(b"cgroup"));
    let reachable = mounts
        .iter()
        .filter(|mount| carries(mount, version))
        .filter_map(|mount| Some((mount, below(&mount.root, &line.path)?)));
    // The mount that shows the most: one whose root is nearest to the hierarchy's.
    let (mount, path) = reachable.min_by_key(|(mount, _)| mount.root.len())?;
    let point = root.place(&mount.point);
    let hidden = hides(root, mount, &point, version);
    Some(Place { version, mount: point, path, hidden })
}

fn carries(mount: &Mount, version: CgroupVersion) -> bool {
    match version {
        CgroupVersion::V1 => mount.kind == "cgroup" && mount.options.iter().any(|option| option == "memory"),
        CgroupVersion::V2 => mount.kind == "cgroup2",
    }
}

/// The part of `path` below the mount's root. `None` when the cgroup cannot be reached through this mount.
fn below(mount_root: &str, path: &str) -> Option<String> {
    let leads_out = |path: &str| path.split('/').any(|part| part == "..");
    if leads_out(mount_root) || leads_out(path) {
        return None;
    }
    let rest = path.strip_prefix(mount_root.trim_end_matches('/'))?;
    (rest.is_empty() || rest.starts_with('/')).then(|| format!("/{}", rest.trim_matches('/')))
}

/// Whether the top of the mount is not the top of the hierarchy.
fn hides(root: &Root, mount: &Mount, point: &Path, version: CgroupVersion) -> bool {
    if mount.root != "/" {
        return true;
    }
    let namespace = std::fs::read_link(root.proc.join("self/ns/cgroup"));
    if namespace.is_ok_and(|link| link.as_os_str() == FIRST_NAMESPACE) {
        return false;
    }
    // In a namespace the top may still be the real one. It shows: on v2 only the real root lacks this file, on v1
    // only the real root has that one.
    match version {
        CgroupVersion::V1 => !point.join("release_agent").exists(),
        CgroupVersion::V2 => point.join("cgroup.type").exists(),
    }
}
