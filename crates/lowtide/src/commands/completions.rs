//! `lowtide completions SHELL`.

use crate::cli;
use crate::failure::Failure;
use crate::render;
use clap_complete::Shell;
use std::process::ExitCode;

pub(crate) fn completions(shell: Shell) -> Result<ExitCode, Failure> {
    let mut text = Vec::new();
    clap_complete::generate(shell, &mut cli::declaration(), "lowtide", &mut text);
    render::say(&String::from_utf8_lossy(&text))?;
    Ok(ExitCode::SUCCESS)
}
