//! `cargo xtask check`: what must hold before a commit. `cargo xtask lint`: the part of it that runs nothing.

use crate::arrows::arrows;
use crate::commands::{cargo, root, run};
use crate::test::{python, test};
use std::process::Command;

/// Pinned: what these find by default changes from version to version.
const PYTHON_LINTERS: [&str; 3] = ["ruff==0.17.4", "mypy==2.4.1", "pytest>=8"];

pub(crate) fn check() -> Result<(), String> {
    lint()?;
    test(&[])
}

pub(crate) fn lint() -> Result<(), String> {
    run(cargo().args(["fmt", "--all", "--check"]))?;
    arrows()?;
    run(cargo().args(["clippy", "--workspace", "--all-targets", "--locked", "--", "-D", "warnings"]))?;
    run(cargo().args(["doc", "--workspace", "--no-deps", "--locked"]).env("RUSTDOCFLAGS", "-D warnings"))?;
    lint_python()
}

/// The Python package and its tests: ruff's rules and format, mypy's strict types (pyproject.toml).
fn lint_python() -> Result<(), String> {
    let interpreter = python("lint-python", &PYTHON_LINTERS)?;
    let with = |words: &[&str]| run(Command::new(&interpreter).arg("-m").args(words).current_dir(root()));
    with(&["ruff", "check", "--quiet", "python", "tests/package"])?;
    with(&["ruff", "format", "--check", "--quiet", "python/lowtide", "tests/package"])?;
    with(&["mypy"])
}
