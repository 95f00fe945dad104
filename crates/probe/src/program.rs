//! A foreign process's program file, and whether that process stands where we stand.
//!
//! Why: who wants to run the same program, or to leave a file for the process, has to know that both mean the same file
//! by the same path. Not here: what is done with it.

use crate::Root;
use crate::open_file::{Kind, refusal};
use crate::parse::lines;
use lowtide_model::Reading;
use std::ffi::OsStr;
use std::fs::Metadata;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// The program a process runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program {
    /// Its path, as the process sees it.
    pub path: PathBuf,
    /// Whether that path leads us to the very same file: not in another container, not replaced since.
    pub is_here: bool,
    /// Whether the process is ours: of the same user.
    pub is_ours: bool,
    /// Whether the process counts processes as we do.
    pub same_pids: bool,
}

/// What is known of the program of a process.
pub fn program(root: &Root, pid: u32) -> Reading<Program> {
    let dir = root.process(pid);
    let found = std::fs::read_link(dir.join("exe")).and_then(|path| {
        let is_ours = std::fs::metadata(&dir)?.uid() == nix::unistd::geteuid().as_raw();
        let same_pids =
            std::fs::read_link(dir.join("ns/pid"))? == std::fs::read_link(root.proc.join("self/ns/pid"))?;
        let path = as_started(path);
        Ok(Program { is_here: same(&dir.join("exe"), &path), path, is_ours, same_pids })
    });
    match found {
        Ok(program) => Reading::Known(program),
        Err(error) => refusal(&error, Kind::Process),
    }
}

/// Whether a process sees this file or folder of ours under the same path.
pub fn sees(root: &Root, pid: u32, path: &Path) -> bool {
    let below = path.strip_prefix("/").unwrap_or(path);
    same(&root.process(pid).join("root").join(below), path)
}

/// The path of a file of this name that a process has mapped; not known where it has none.
pub fn mapped(root: &Root, pid: u32, name: &str) -> Reading<PathBuf> {
    let maps = match std::fs::read(root.process(pid).join("maps")) {
        Ok(maps) => maps,
        Err(error) => return refusal(&error, Kind::Process),
    };
    let ending = [b"/", name.as_bytes()].concat();
    let line = lines(&maps).find(|line| line.ends_with(&ending));
    let path = line.and_then(|line| Some(&line[line.iter().position(|byte| *byte == b'/')?..]));
    path.map(|path| PathBuf::from(OsStr::from_bytes(path))).into()
}

/// The kernel adds a word when the file was removed or replaced.
fn as_started(path: PathBuf) -> PathBuf {
    match path.as_os_str().as_bytes().strip_suffix(b" (deleted)") {
        Some(bytes) => PathBuf::from(OsStr::from_bytes(bytes)),
        None => path,
    }
}

fn same(one: &Path, other: &Path) -> bool {
    let file = |found: Metadata| (found.dev(), found.ino());
    let (one, other) = (std::fs::metadata(one).map(file), std::fs::metadata(other).map(file));
    one.ok().zip(other.ok()).is_some_and(|(one, other)| one == other)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn our_own_program_is_here_and_ours() {
        let program = program(&Root::live(), std::process::id()).known().unwrap();
        assert_eq!(program.path, std::env::current_exe().unwrap());
        assert!(program.is_here && program.is_ours && program.same_pids);
        assert!(sees(&Root::live(), std::process::id(), &program.path));
    }

    #[test]
    fn a_file_that_took_a_programs_place_is_not_the_program() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("sleeper");
        // By another process: a file that is open for writing in a fork of some other thread can't be run.
        let copy = || Command::new("cp").arg("/bin/sleep").arg(&path).status().unwrap();
        assert!(copy().success());
        let mut child = Command::new(&path).arg("60").spawn().unwrap();
        let before = program(&Root::live(), child.id()).known().unwrap();
        std::fs::remove_file(&path).unwrap();
        assert!(copy().success());
        let after = program(&Root::live(), child.id()).known().unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(before.is_here && !after.is_here);
        assert_eq!(after.path, path);
    }

    #[test]
    fn a_mapped_file_is_found_by_its_name_alone() {
        let folder = tempfile::tempdir().unwrap();
        let process = folder.path().join("proc/7");
        std::fs::create_dir_all(&process).unwrap();
        let maps = "7f00-7f10 rw-s 00000000 08:01 3  /run/a b/marks/7.99\n7f20-7f30 rw-s 00000000 08:01 4 /x/8.99 (deleted)\n";
        std::fs::write(process.join("maps"), maps).unwrap();
        let root = Root::fake(folder.path());
        assert_eq!(mapped(&root, 7, "7.99"), Reading::Known("/run/a b/marks/7.99".into()));
        assert_eq!(mapped(&root, 7, "8.99").known(), None, "removed since");
        assert_eq!(mapped(&root, 8, "8.99"), Reading::Gone);
    }
}
