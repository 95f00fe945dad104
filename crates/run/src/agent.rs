//! Brings the Python agent into the job: its files in a private folder, and an environment that leads Python to them.
//!
//! The agent's sources are part of the binary (build.rs). A job that is not Python sees a few variables more and
//! nothing else. Not here: what the agent does (python/lowtide/_agent), reading what it writes (see `marks`).

use crate::SOCKET_NAME;
use std::ffi::{OsStr, OsString};
use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

/// Names the folder of mark pages to the job.
pub const MARKS_VARIABLE: &str = "LOWTIDE_MARKS";
/// Names the recorder's socket to the job.
pub const SOCKET_VARIABLE: &str = "LOWTIDE_SOCKET";
/// Names the run to the job.
pub const RUN_VARIABLE: &str = "LOWTIDE_RUN";
/// Names the folder with the agent, so that a run inside a run can take it out again.
const AGENT_VARIABLE: &str = "LOWTIDE_AGENT";
const PYTHON_PATH: &str = "PYTHONPATH";
const MARKS_FOLDER: &str = "marks";
const AGENT_FOLDER: &str = "agent";
/// The package the agent is, once it lies in the folder.
const PACKAGE: &str = "lowtide_agent";
const SITE: &str = "sitecustomize.py";

/// The agent's files, by their path below python/lowtide/_agent.
const FILES: &[(&str, &str)] = include!(concat!(env!("OUT_DIR"), "/agent_files.rs"));

/// What the job's environment gets: a value, or nothing where a variable has to go.
pub(crate) type Environment = Vec<(OsString, Option<OsString>)>;

/// Where marks come from and what the job has to be told for it.
#[derive(Debug, Default)]
pub(crate) struct Prepared {
    pub(crate) marks: Option<PathBuf>,
    pub(crate) environment: Environment,
}

/// Makes the folders and puts together the environment. Where no folder can be made the job runs without marks.
pub(crate) fn prepare(private: Option<&Path>, run_id: &str, with_agent: bool) -> Prepared {
    let get = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
    let Some(private) = private else {
        return Prepared { marks: None, environment: without_us(&get) };
    };
    let marks = private.join(MARKS_FOLDER);
    if make_private(private).and_then(|()| make_private(&marks)).is_err() {
        return Prepared { marks: None, environment: without_us(&get) };
    }
    let agent = folder(private);
    let agent = (with_agent && lay_out(&agent).is_ok()).then_some(agent);
    let environment = environment(&get, private, run_id, agent.as_deref());
    Prepared { marks: Some(marks), environment }
}

/// The folder with the agent's files.
pub(crate) fn folder(private: &Path) -> PathBuf {
    private.join(AGENT_FOLDER)
}

/// Removes the agent's files, which nobody took; pages stay.
pub(crate) fn clear_unused(private: &Path) {
    let _ = std::fs::remove_dir_all(folder(private));
    let _ = std::fs::remove_dir(private.join(MARKS_FOLDER));
}

/// Removes what the job needs no more.
pub(crate) fn clear(private: Option<&Path>) {
    if let Some(private) = private {
        let _ = std::fs::remove_dir_all(folder(private));
        let _ = std::fs::remove_dir_all(private.join(MARKS_FOLDER));
        let _ = std::fs::remove_dir(private);
    }
}

/// Removes what a recorder that was killed left behind, once nobody has a page there any more.
pub(crate) fn clear_left_behind(marks: &Path) {
    let Some(private) = marks.parent() else { return };
    if marks.file_name() == Some(MARKS_FOLDER.as_ref()) && std::fs::remove_dir(marks).is_ok() {
        let _ = std::fs::remove_file(private.join(SOCKET_NAME));
        clear(Some(private));
    }
}

/// Writes the agent: what Python loads at its start beside the package that it is.
fn lay_out(folder: &Path) -> io::Result<()> {
    let package = folder.join(PACKAGE);
    for (name, text) in FILES {
        let path = if *name == SITE { folder.join(SITE) } else { package.join(name) };
        if let Some(parent) = path.parent() {
            make_private(parent)?;
        }
        std::fs::write(path, text)?;
    }
    Ok(())
}

fn make_private(folder: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(folder)
}

fn environment(
    get: &dyn Fn(&str) -> Option<OsString>,
    private: &Path,
    run_id: &str,
    agent: Option<&Path>,
) -> Environment {
    let mut environment = without_us(get);
    let mut set = |name: &str, value: OsString| {
        environment.retain(|(known, _)| known != name);
        environment.push((name.into(), Some(value)));
    };
    set(MARKS_VARIABLE, private.join(MARKS_FOLDER).into());
    set(SOCKET_VARIABLE, private.join(SOCKET_NAME).into());
    set(RUN_VARIABLE, run_id.into());
    if let Some(agent) = agent {
        set(AGENT_VARIABLE, agent.into());
        set(PYTHON_PATH, joined(agent, users_path(get).as_deref()));
    }
    environment
}

/// The environment as it would be had no other recorder put itself into it.
fn without_us(get: &dyn Fn(&str) -> Option<OsString>) -> Environment {
    let ours = [MARKS_VARIABLE, SOCKET_VARIABLE, RUN_VARIABLE, AGENT_VARIABLE];
    let mut environment: Environment =
        ours.iter().filter(|name| get(name).is_some()).map(|name| (name.into(), None)).collect();
    if get(AGENT_VARIABLE).is_some() {
        environment.push((PYTHON_PATH.into(), users_path(get)));
    }
    environment
}

/// The user's own PYTHONPATH: without the agent of a recorder around this one.
fn users_path(get: &dyn Fn(&str) -> Option<OsString>) -> Option<OsString> {
    let path = get(PYTHON_PATH)?;
    let Some(other) = get(AGENT_VARIABLE) else {
        return Some(path);
    };
    let own: Vec<PathBuf> =
        std::env::split_paths(&path).filter(|folder| folder.as_os_str() != other.as_os_str()).collect();
    std::env::join_paths(own).ok().filter(|left| !left.is_empty())
}

/// As bytes: an empty part of a PYTHONPATH means something (the current folder) and stays.
fn joined(agent: &Path, users: Option<&OsStr>) -> OsString {
    let mut path = agent.as_os_str().to_owned();
    if let Some(users) = users {
        path.push(":");
        path.push(users);
    }
    path
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a variable is set to; `taken out` for one that goes, `as it was` for one that is left alone.
    fn told(environment: &Environment, name: &str) -> String {
        match environment.iter().find(|(known, _)| known == name) {
            Some((_, Some(value))) => value.to_string_lossy().into_owned(),
            Some((_, None)) => "taken out".to_owned(),
            None => "as it was".to_owned(),
        }
    }

    fn with(known: &'static [(&str, &str)]) -> impl Fn(&str) -> Option<OsString> {
        move |name| known.iter().find(|(known, _)| *known == name).map(|(_, value)| value.into())
    }

    #[test]
    fn the_users_own_path_stays_behind_the_agent() {
        let get = with(&[("PYTHONPATH", "src::lib")]);
        let environment = environment(&get, Path::new("/p"), "id", Some(Path::new("/p/agent")));
        assert_eq!(told(&environment, "PYTHONPATH"), "/p/agent:src::lib");
        assert_eq!(told(&environment, "LOWTIDE_MARKS"), "/p/marks");
        assert_eq!(told(&environment, "LOWTIDE_SOCKET"), "/p/control.sock");
    }

    #[test]
    fn without_the_agent_python_is_left_alone_but_callbacks_find_their_folder() {
        let environment = environment(&with(&[]), Path::new("/p"), "id", None);
        assert_eq!(told(&environment, "PYTHONPATH"), "as it was");
        assert_eq!(told(&environment, "LOWTIDE_MARKS"), "/p/marks");
    }

    #[test]
    fn a_run_inside_a_run_has_one_agent_and_without_it_none() {
        let get = with(&[
            ("PYTHONPATH", "/outer/agent:src"),
            ("LOWTIDE_AGENT", "/outer/agent"),
            ("LOWTIDE_MARKS", "/outer/marks"),
        ]);
        let inner = environment(&get, Path::new("/p"), "id", Some(Path::new("/p/agent")));
        assert_eq!(told(&inner, "PYTHONPATH"), "/p/agent:src");
        let off = environment(&get, Path::new("/p"), "id", None);
        assert_eq!(told(&off, "PYTHONPATH"), "src");
        assert_eq!(told(&off, "LOWTIDE_AGENT"), "taken out");
        let nowhere = without_us(&get);
        assert_eq!(told(&nowhere, "LOWTIDE_MARKS"), "taken out");
    }

    #[test]
    fn the_folder_holds_what_python_loads_and_is_private() {
        use std::os::unix::fs::PermissionsExt;
        let place = tempfile::tempdir().unwrap();
        let prepared = prepare(Some(&place.path().join("run")), "id", true);
        let agent = place.path().join("run/agent");
        assert!(agent.join(SITE).is_file());
        for folder in [place.path().join("run"), agent, prepared.marks.unwrap()] {
            assert_eq!(folder.metadata().unwrap().permissions().mode() & 0o777, 0o700);
        }
        clear(Some(&place.path().join("run")));
        assert!(!place.path().join("run").exists());
    }
}
