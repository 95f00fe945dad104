//! `cargo xtask check`: what must hold before a commit.

use crate::arrows::arrows;
use crate::commands::{cargo, run};
use crate::test::test;

pub(crate) fn check() -> Result<(), String> {
    run(cargo().args(["fmt", "--all", "--check"]))?;
    arrows()?;
    run(cargo().args([
        "clippy",
        "--workspace",
        "--all-targets",
        "--locked",
        "--",
        "-D",
        "warnings",
    ]))?;
    run(cargo()
        .args(["doc", "--workspace", "--no-deps", "--locked"])
        .env("RUSTDOCFLAGS", "-D warnings"))?;
    test(&[])
}
