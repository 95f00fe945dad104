//! `cargo xtask test`: all tests, with a Python environment of the project's own for those that need one.

use crate::commands::{cargo, root, run};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// What the Python tests import.
const PYTHON_NEEDS: [&str; 6] = ["numpy", "pillow", "pytest>=8", "ipython", "ipykernel", "nbclient"];

/// Tests at once, at least: most of them wait for a real job to go on.
const AT_ONCE: usize = 4;

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

/// Runs every test of the workspace and of the Python package, and ends with one line that counts them. With arguments
/// only cargo's tests run: the arguments are its own.
pub(crate) fn test(rest: &[String]) -> Result<(), String> {
    let interpreter = python("test-python", &PYTHON_NEEDS)?;
    let mut count = Count::default();
    let mut command = with_default_signals(&cargo());
    command.args(["test", "--workspace", "--locked", "--no-fail-fast"]).args(rest);
    command.env("LOWTIDE_TEST_PYTHON", &interpreter);
    if std::env::var_os("RUST_TEST_THREADS").is_none() {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        command.env("RUST_TEST_THREADS", cores.max(AT_ONCE).to_string());
    }
    let mut well = counted(&mut command, &mut count)?;
    if rest.is_empty() {
        well &= counted(&mut package_tests(&interpreter), &mut count)?;
    }
    finish(well, &count)
}

/// Runs the tests of the Python package alone, with the program as it is now.
pub(crate) fn package(rest: &[String]) -> Result<(), String> {
    let interpreter = python("test-python", &PYTHON_NEEDS)?;
    run(cargo().args(["build", "--locked", "--workspace", "--bins", "--examples"]))?;
    let mut count = Count::default();
    let well = counted(package_tests(&interpreter).args(rest), &mut count)?;
    finish(well, &count)
}

/// Runs real torch, transformers, lightning, keras and accelerate jobs under the agent, and under `lowtide run`.
pub(crate) fn frameworks(rest: &[String]) -> Result<(), String> {
    run(Command::new("python3").arg("tests/frameworks/build.py").current_dir(root()))?;
    run(cargo().args(["build", "--locked", "--workspace", "--bins", "--examples"]))?;
    let interpreter = root().join("target/frameworks-python/bin/python");
    let mut command = with_default_signals(&Command::new(interpreter));
    // Three at a time, whoever is free takes the next: many wait for a limit to come near.
    let at_once = ["--numprocesses=3", "--dist=worksteal"];
    command.args(["-m", "pytest", "-q", "--durations=10"]).args(at_once).arg("tests/frameworks").args(rest);
    command.env("LOWTIDE_BIN", root().join("target/debug/lowtide"));
    let mut count = Count::default();
    let well = counted(&mut command, &mut count)?;
    finish(well, &count)
}

fn package_tests(interpreter: &Path) -> Command {
    let mut command = with_default_signals(&Command::new(interpreter));
    command.args(["-m", "pytest", "-q", "tests/package"]);
    command.env("LOWTIDE_BIN", root().join("target/debug/lowtide"));
    command
}

/// Runs a test program, passes on what it prints and counts its tests. Says whether it ended well.
fn counted(command: &mut Command, count: &mut Count) -> Result<bool, String> {
    let cannot = |what: &str, error: std::io::Error| format!("cannot {what} the tests: {error}");
    let mut child = command.stdout(Stdio::piped()).spawn().map_err(|error| cannot("start", error))?;
    if let Some(stdout) = child.stdout.take() {
        for line in BufReader::new(stdout).lines().map_while(Result::ok) {
            count.take(&line);
            let _ = writeln!(std::io::stdout().lock(), "{line}");
        }
    }
    let status = child.wait().map_err(|error| cannot("wait for", error))?;
    Ok(status.success())
}

fn finish(well: bool, count: &Count) -> Result<(), String> {
    let _ = writeln!(std::io::stdout().lock(), "\n{} passed, {} failed", count.passed, count.failed);
    match (well, count.passed) {
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
    /// `test result: ok. 12 passed; 0 failed; ...` of cargo, `3 failed, 40 passed, 1 error in 9.12s` of pytest.
    fn take(&mut self, line: &str) {
        let of_pytest = || line.starts_with(|first: char| first.is_ascii_digit()) && line.contains(" in ");
        let Some(rest) = line.strip_prefix("test result:").or_else(|| of_pytest().then_some(line)) else {
            return;
        };
        let number = |word: &str| {
            let (before, _) = rest.split_once(word)?;
            before.split_whitespace().last()?.parse::<u64>().ok()
        };
        self.passed += number(" passed").unwrap_or(0);
        self.failed += number(" failed").unwrap_or(0) + number(" error").unwrap_or(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tests_of_cargo_and_of_pytest_are_counted_alike() {
        let mut count = Count::default();
        count.take("test result: FAILED. 12 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out");
        count.take("3 failed, 40 passed, 2 errors in 9.12s");
        count.take("5 passed in 1.06s");
        count.take("test a_name_with_4_passed_in_it ... ok");
        assert_eq!((count.passed, count.failed), (57, 6));
    }
}
