//! Where a recording can be written: which file systems cannot carry a live one, and local scratch instead.
//!
//! A live recording needs shared memory beside it (`-shm`), which network and user-space file systems lack or fake;
//! there `SQLite` may answer `wal` and fail at the first write, or worse, later.

use crate::StoreError;
use crate::files::{self, free_name};
use std::fs::DirBuilder;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

/// File systems without shared memory between processes that one can count on: `f_type` of statfs(2), from
/// linux/magic.h and the vendors' headers.
const WITHOUT_SHARED_MEMORY: &[(i64, &str)] = &[
    (0x6969, "NFS"),
    (0x0BD0_0BD0, "Lustre"),
    (0x4750_4653, "GPFS"),
    (0xFF53_4D42, "CIFS"),
    (0xFE53_4D42, "SMB"),
    (0x517B, "SMB"),
    (0x6573_5546, "FUSE"),
    (0x0102_1997, "9p"),
    (0x00C3_6400, "Ceph"),
    (0x5346_414F, "AFS"),
    (0x6B41_4653, "AFS"),
    (0x1983_0326, "BeeGFS"),
    (0xAAD7_AAEA, "PanFS"),
    (0x786F_4256, "vboxsf"),
];

/// The name of the file system under `path`, if it cannot carry a live recording.
pub(crate) fn cannot_carry(path: &Path) -> Option<&'static str> {
    let there = path.ancestors().find(|place| place.exists())?;
    let kind = nix::sys::statfs::statfs(there).ok()?.filesystem_type();
    // The width of the magic differs between systems; the numbers are 32 bits.
    let magic = i64::from(kind.0 as u32);
    WITHOUT_SHARED_MEMORY.iter().find(|(known, _)| *known == magic).map(|(_, name)| *name)
}

/// An empty file of our own on local scratch, in a folder nobody else may enter.
pub(crate) fn scratch_file(asked: Option<&Path>, name: &str) -> Result<PathBuf, StoreError> {
    let mut last = StoreError::NoScratch;
    for base in candidates(asked) {
        let made = private_folder(&base).and_then(|folder| {
            let path = free_name(&folder, name, "tide");
            files::make_file(&path).map(|()| path)
        });
        match made {
            Ok(path) => return Ok(path),
            Err(error) => last = error,
        }
    }
    Err(last)
}

fn candidates(asked: Option<&Path>) -> Vec<PathBuf> {
    let usual = [std::env::temp_dir(), "/tmp".into(), "/var/tmp".into(), "/dev/shm".into()];
    let all = asked.map(Path::to_owned).into_iter().chain(usual);
    all.filter(|place| place.is_dir() && cannot_carry(place).is_none()).collect()
}

/// `lowtide-UID` in `base`, ours and closed to others; a stranger's folder of that name is not entered.
fn private_folder(base: &Path) -> Result<PathBuf, StoreError> {
    let uid = nix::unistd::geteuid().as_raw();
    let usual = base.join(format!("lowtide-{uid}"));
    // Failing to make it is told by what is found there.
    let _ = DirBuilder::new().mode(0o700).create(&usual);
    let ours =
        |found: std::fs::Metadata| found.is_dir() && found.uid() == uid && found.mode() & 0o7777 == 0o700;
    if usual.symlink_metadata().is_ok_and(ours) {
        return Ok(usual);
    }
    let own = free_name(base, &format!("lowtide-{uid}-{}", std::process::id()), "d");
    DirBuilder::new().mode(0o700).create(&own).map_err(StoreError::io("create the scratch folder", &own))?;
    Ok(own)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn proc_is_no_network_and_a_missing_folder_is_judged_by_its_parent() {
        assert_eq!(cannot_carry(Path::new("/proc/not/there")), None);
    }

    #[test]
    fn scratch_is_private_and_names_never_collide() {
        let base = tempfile::tempdir().unwrap();
        let first = scratch_file(Some(base.path()), "run").unwrap();
        let second = scratch_file(Some(base.path()), "run").unwrap();
        assert_ne!(first, second);
        assert_eq!(first.metadata().unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(first.parent().unwrap().metadata().unwrap().permissions().mode() & 0o777, 0o700);
        assert!(first.starts_with(base.path()));
    }

    #[test]
    fn a_scratch_folder_open_to_others_is_not_used() {
        let base = tempfile::tempdir().unwrap();
        let open = base.path().join(format!("lowtide-{}", nix::unistd::geteuid()));
        std::fs::create_dir(&open).unwrap();
        std::fs::set_permissions(&open, std::fs::Permissions::from_mode(0o777)).unwrap();
        let file = scratch_file(Some(base.path()), "run").unwrap();
        assert!(!file.starts_with(&open));
        assert_eq!(file.parent().unwrap().metadata().unwrap().permissions().mode() & 0o777, 0o700);
    }
}
