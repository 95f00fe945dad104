//! `cargo xtask check`: what must hold before a commit. `cargo xtask lint`: the part of it that runs nothing.

use crate::arrows::arrows;
use crate::commands::{cargo, run};
use crate::test::test;

pub(crate) fn check() -> Result<(), String> {
    lint()?;
    test(&[])
}

pub(crate) fn lint() -> Result<(), String> {
    run(cargo().args(["fmt", "--all", "--check"]))?;
    arrows()?;
    run(cargo().args(["clippy", "--workspace", "--all-targets", "--locked", "--", "-D", "warnings"]))?;
    run(cargo().args(["doc", "--workspace", "--no-deps", "--locked"]).env("RUSTDOCFLAGS", "-D warnings"))
}
