//! Brings the agent into a Python that already runs, through CPython's own remote execution (3.14 and later).
//!
//! The process's own interpreter file is run once more, for a moment, and asks the process to run a small script: so
//! the offsets are those of exactly that build, and nothing here writes to foreign memory. No process is stopped; the
//! script runs when the main thread next comes round to Python code. Only when the user asks for it: it changes the job.
//! Not here: what the agent does then (python/lowtide/_agent/late.py).

use lowtide_model::Reading;
use lowtide_probe::{Program, Root, program, sees, variable};
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// A second interpreter needs a tenth of a second at worst; one that takes longer waits for something.
const PATIENCE: Duration = Duration::from_secs(5);
/// The first version that takes code while it runs.
pub(crate) const SINCE: u32 = 14;
/// Where the dynamic loader finds libraries: an interpreter that was started with it may not start without.
const LIBRARIES: &str = "LD_LIBRARY_PATH";
/// What the second interpreter runs; it also has to be understood by versions that can't do it.
const ASK: &str = r#"
import sys
try:
    if hasattr(sys, "remote_exec"):
        sys.remote_exec(int(sys.argv[1]), sys.argv[2])
        print("asked")
    else:
        print("old %d.%d" % sys.version_info[:2])
except BaseException as error:
    first = error
    while error is not None:
        if isinstance(error, PermissionError):
            print("denied")
            break
        error = error.__cause__ or error.__context__
    else:
        print("failed %s" % first)
"#;

/// What the process runs. It has no file name there, so the folders are given in full, as bytes.
const SCRIPT: &str = r"
def _lowtide(agent, marks):
    import os, sys
    agent, marks = os.fsdecode(bytes.fromhex(agent)), os.fsdecode(bytes.fromhex(marks))
    kept = sys.dont_write_bytecode, sys.pycache_prefix
    try:
        sys.dont_write_bytecode, sys.pycache_prefix = False, None
        sys.path.insert(0, agent)
        try:
            from lowtide_agent import late
        finally:
            sys.path.remove(agent)
            sys.dont_write_bytecode, sys.pycache_prefix = kept
        late.begin(agent, marks)
    except Exception:
        pass
";

/// What a process with the agent runs: the agent looks what the recorder wants.
const NUDGE: &str = r#"
def _lowtide():
    import sys
    for agent in ("lowtide_agent", "lowtide._agent"):
        if agent + ".page" in sys.modules:
            try:
                __import__(agent + ".squeeze")
            except Exception:
                continue
            return sys.modules[agent + ".squeeze"].here()
_lowtide()
del _lowtide
"#;

/// Why the agent can't be brought into a process.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Refusal {
    /// Not even its program may be looked at.
    #[error("the kernel does not let lowtide look at it: run lowtide as the user who owns it")]
    Hidden,
    /// Running its program would give its owner our rights.
    #[error("it belongs to another user: run lowtide as that user")]
    OtherUser,
    /// It would look for the script in another place, or name its page differently.
    #[error("it runs in a container of its own: run lowtide in there")]
    Elsewhere,
    /// The file that could ask it is gone.
    #[error("its program {} was replaced or removed after it started, or lies in a container", .0.display())]
    Replaced(PathBuf),
    /// Before 3.14 there is no way.
    #[error("it is Python {0}, and only 3.14 and later take an agent while they run")]
    Old(String),
    /// The process was told not to.
    #[error(
        "it was started with remote debugging off (PYTHON_DISABLE_REMOTE_DEBUG or -X disable-remote-debug)"
    )]
    SwitchedOff,
    /// Yama, a sandbox, a lost capability.
    #[error("the kernel does not let lowtide reach into it (ptrace rights; see kernel.yama.ptrace_scope)")]
    Denied,
    /// In Python's own words.
    #[error("its Python says: {0}")]
    Failed(String),
    /// The interpreter could not be run a second time.
    #[error("its program {} can't be run a second time", .path.display())]
    Run {
        path: PathBuf,
        #[source]
        cause: io::Error,
    },
}

/// The program of a process that is a Python and may run a training.
pub(crate) fn python(root: &Root, pid: u32, argv: &[String]) -> Option<Reading<Program>> {
    // It waits in the kernel for the end of the job, and trains nothing.
    if argv.iter().any(|word| word.contains("multiprocessing.resource_tracker")) {
        return None;
    }
    let found = program(root, pid);
    let is_python = match &found {
        Reading::Known(program) => crate::python::is_name(&program.path),
        Reading::Denied => crate::python::of(argv).is_some(),
        Reading::Unsupported | Reading::Gone => false,
    };
    is_python.then_some(found)
}

/// Whether a program file's name says that it could take an agent while it runs.
pub(crate) fn takes_an_agent(program: &Program) -> bool {
    let name = program.path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let minor = name.strip_prefix("python3.").map(|rest| rest.trim_end_matches('t'));
    minor.and_then(|minor| minor.parse().ok()).is_some_and(|minor: u32| minor >= SINCE)
}

/// Where the agent lies and where pages go.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Folders<'a> {
    pub(crate) agent: &'a Path,
    pub(crate) marks: &'a Path,
}

/// Asks a process to load the agent. It does so when its main thread next runs Python code.
pub(crate) fn ask(
    root: &Root,
    pid: u32,
    program: Reading<Program>,
    folders: Folders<'_>,
) -> Result<(), Refusal> {
    send(root, pid, program, folders.agent, &script_for(folders))
}

/// Asks a process that has the agent to look for a request now. It does so when its main thread next runs Python code.
pub(crate) fn nudge(root: &Root, pid: u32, program: Reading<Program>, agent: &Path) -> Result<(), Refusal> {
    send(root, pid, program, agent, NUDGE)
}

/// Has a process run a script that lies in `folder` meanwhile.
fn send(root: &Root, pid: u32, program: Reading<Program>, folder: &Path, text: &str) -> Result<(), Refusal> {
    let program = program.known().ok_or(Refusal::Hidden)?;
    if !program.is_ours {
        return Err(Refusal::OtherUser);
    }
    if !program.same_pids || !sees(root, pid, folder) {
        return Err(Refusal::Elsewhere);
    }
    if !program.is_here {
        return Err(Refusal::Replaced(program.path));
    }
    let cannot = |cause| Refusal::Run { path: program.path.clone(), cause };
    let script = folder.join("remote.py");
    std::fs::write(&script, text).map_err(cannot)?;
    let mut command = Command::new(&program.path);
    command.args(["-I", "-S", "-c", ASK]).arg(pid.to_string()).arg(&script).env_clear();
    if let Some(libraries) = variable(root, pid, LIBRARIES).known() {
        command.env(LIBRARIES, libraries);
    }
    let said = run(command).map_err(cannot)?;
    understand(&said)
}

fn script_for(folders: Folders<'_>) -> String {
    let hexadecimal = |path: &Path| {
        path.as_os_str().as_bytes().iter().fold(String::new(), |text, byte| format!("{text}{byte:02x}"))
    };
    format!("{SCRIPT}\n_lowtide('{}', '{}')\n", hexadecimal(folders.agent), hexadecimal(folders.marks))
}

/// What a command says, if it says it in time.
fn run(mut command: Command) -> io::Result<String> {
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
    let until = Instant::now() + PATIENCE;
    while child.try_wait()?.is_none() {
        if Instant::now() > until {
            child.kill()?;
            child.wait()?;
            return Err(io::ErrorKind::TimedOut.into());
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    Ok(said(&mut child))
}

/// Its answer, or else its complaint; both fit into a pipe.
fn said(child: &mut Child) -> String {
    let mut text = Vec::new();
    if let Some(stdout) = &mut child.stdout {
        let _ = stdout.take(4096).read_to_end(&mut text);
    }
    if let Some(stderr) = child.stderr.as_mut().filter(|_| text.is_empty()) {
        let _ = stderr.take(4096).read_to_end(&mut text);
    }
    String::from_utf8_lossy(&text).trim().to_owned()
}

fn understand(said: &str) -> Result<(), Refusal> {
    match said.split_once(' ').unwrap_or((said, "")) {
        ("asked", _) => Ok(()),
        ("denied", _) => Err(Refusal::Denied),
        ("old", version) => Err(Refusal::Old(version.to_owned())),
        ("failed", words) if words.contains("not enabled") => Err(Refusal::SwitchedOff),
        ("failed", words) => Err(Refusal::Failed(words.to_owned())),
        _ => Err(Refusal::Failed(said.lines().last().unwrap_or("nothing").to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn program_at(path: &str) -> Program {
        Program { path: path.into(), is_here: true, is_ours: true, same_pids: true }
    }

    #[test]
    fn only_names_of_3_14_and_later_promise_that_an_agent_can_come() {
        for (path, can) in [
            ("/usr/bin/python3.14", true),
            ("/opt/bin/python3.14t", true),
            ("/opt/bin/python3.20", true),
            ("/usr/bin/python3.13", false),
            ("/usr/bin/python3", false),
            ("/usr/bin/perl", false),
        ] {
            assert_eq!(takes_an_agent(&program_at(path)), can, "{path}");
        }
    }

    #[test]
    fn a_program_is_not_run_for_another_user_nor_in_another_place() {
        let folder = tempfile::tempdir().unwrap();
        let folders = Folders { agent: folder.path(), marks: folder.path() };
        let ask = |program| {
            let refusal = ask(&Root::live(), std::process::id(), program, folders).unwrap_err();
            assert!(!folder.path().join("remote.py").exists(), "nothing was left for it");
            refusal
        };
        let good = program_at("/bin/false");
        assert!(matches!(ask(Reading::Denied), Refusal::Hidden));
        let other = Program { is_ours: false, ..good.clone() };
        assert!(matches!(ask(Reading::Known(other)), Refusal::OtherUser));
        let other = Program { same_pids: false, ..good.clone() };
        assert!(matches!(ask(Reading::Known(other)), Refusal::Elsewhere));
        let other = Program { is_here: false, ..good };
        assert!(matches!(ask(Reading::Known(other)), Refusal::Replaced(_)));
    }

    #[test]
    fn what_the_second_interpreter_says_is_understood() {
        assert!(understand("asked").is_ok());
        assert!(matches!(understand("denied"), Err(Refusal::Denied)));
        assert!(matches!(understand("old 3.12"), Err(Refusal::Old(version)) if version == "3.12"));
        let off = "failed Remote debugging is not enabled in the remote process";
        assert!(matches!(understand(off), Err(Refusal::SwitchedOff)));
        let words = understand("Traceback\nUnknown option: -I").unwrap_err().to_string();
        assert_eq!(words, "its Python says: Unknown option: -I");
    }

    proptest! {
        #[test]
        fn whatever_it_says_is_an_answer(said in ".*") {
            let _ = understand(&said);
        }
    }
}
