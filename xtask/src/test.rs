//! `cargo xtask test`: all tests, with a Python environment of the project's own for those that need one.

use crate::commands::{cargo, root, run};
use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// What the Python tests import.
const PYTHON_NEEDS: [&str; 2] = ["numpy", "pillow"];

/// The Python of a virtual environment under target/, made and filled when it is not there yet.
pub(crate) fn python(name: &str, needs: &[&str]) -> Result<PathBuf, String> {
    let home = root().join("target").join(name);
    let python = home.join("bin/python");
    let done = home.join("installed");
    let wanted = needs.join(" ");
    if std::fs::read_to_string(&done).is_ok_and(|had| had == wanted) {
        return Ok(python);
    }
    run(Command::new("python3").args(["-m", "venv"]).arg(&home))?;
    let pip = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check"];
    run(Command::new(&python).args(pip).args(needs))?;
    std::fs::write(&done, wanted).map_err(|error| format!("cannot write {}: {error}", done.display()))?;
    Ok(python)
}

/// The same command with every signal as it should be. Who starts us in the background or under nohup has some of them
/// ignored, which every process below inherits, and tests of signals would wait for ever.
fn with_default_signals(command: &Command) -> Command {
    let reset = ["--default-signal=INT,QUIT,HUP,TERM,USR1,USR2,TSTP"];
    let works = Command::new("env").args(reset).arg("true").stderr(Stdio::null()).status();
    let mut wrapped = Command::new(if works.is_ok_and(|status| status.success()) { "env" } else { "nice" });
    wrapped.args(if wrapped.get_program() == "env" { &reset[..] } else { &["-n", "0"][..] });
    wrapped.arg(command.get_program()).args(command.get_args()).current_dir(root());
    wrapped
}

/// Runs every test of the workspace and ends with one line that counts them.
pub(crate) fn test(rest: &[String]) -> Result<(), String> {
    let python = python("test-python", &PYTHON_NEEDS)?;
    let mut command = with_default_signals(&cargo());
    command.args(["test", "--workspace", "--locked", "--no-fail-fast"]).args(rest);
    command.env("LOWTIDE_TEST_PYTHON", python).stdout(Stdio::piped());
    let mut child = command.spawn().map_err(|error| format!("cannot start cargo test: {error}"))?;
    let mut count = Count::default();
    if let Some(stdout) = child.stdout.take() {
        for line in BufReader::new(stdout).lines().map_while(Result::ok) {
            count.take(&line);
            let _ = writeln!(std::io::stdout().lock(), "{line}");
        }
    }
    let status = child.wait().map_err(|error| format!("cannot wait for cargo test: {error}"))?;
    let _ = writeln!(std::io::stdout().lock(), "\n{} passed, {} failed", count.passed, count.failed);
    match (status.success(), count.passed) {
        (true, 0) => Err("no test ran".to_owned()),
        (true, _) => Ok(()),
        (false, _) => Err(format!("{} tests failed", count.failed)),
    }
}

/// Adds up the lines in which each test program counts its own.
#[derive(Default)]
struct Count {
    passed: u64,
    failed: u64,
}

impl Count {
    fn take(&mut self, line: &str) {
        let Some(rest) = line.strip_prefix("test result:") else {
            return;
        };
        let number = |word: &str| {
            let (before, _) = rest.split_once(word)?;
            before.split_whitespace().last()?.parse::<u64>().ok()
        };
        self.passed += number(" passed").unwrap_or(0);
        self.failed += number(" failed").unwrap_or(0);
    }
}
