//! `lowtide completions SHELL`.

use crate::cli;
use crate::failure::Failure;
use crate::render;
use clap_complete::Shell;
use std::process::ExitCode;

pub(crate) fn completions(shell: Shell) -> Result<ExitCode, Failure> {
    let mut text = Vec::new();
    let whole = cli::declaration();
    // What other parts of lowtide call is nothing to be offered to a person.
    let shown = whole.get_subcommands().filter(|command| !command.is_hide_set());
    let mut shown = clap::Command::new("lowtide").args(whole.get_arguments()).subcommands(shown);
    clap_complete::generate(shell, &mut shown, "lowtide", &mut text);
    render::say(&String::from_utf8_lossy(&text))?;
    Ok(ExitCode::SUCCESS)
}
