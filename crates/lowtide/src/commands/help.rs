//! `lowtide help`: what `--help` says, for those who ask with a word; and what a line lacks that clap can't tell.

use crate::cli;
use crate::failure::Failure;
use crate::render;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use std::ffi::OsString;
use std::process::ExitCode;

pub(crate) fn help(of: Option<&str>) -> Result<ExitCode, Failure> {
    let words = ["lowtide"].into_iter().chain(of).chain(["--help"]);
    match cli::declaration().try_get_matches_from(words) {
        Err(shown) if shown.kind() == ErrorKind::DisplayHelp => render::say(&shown.render().to_string())?,
        Ok(_) | Err(_) => {
            let what = format!("there is no command `{}`", of.unwrap_or_default());
            return Err(Failure::new(what).hint("`lowtide help` lists them"));
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// A command that was given to `run` without `--` before it.
pub(crate) fn dashes(error: &clap::Error, words: &[OsString]) -> Option<String> {
    let Some(ContextValue::String(unknown)) = error.get(ContextKind::InvalidArg) else { return None };
    let runs = words.get(1).is_some_and(|verb| verb == "run") && error.kind() == ErrorKind::UnknownArgument;
    if !runs || unknown.starts_with('-') || words.iter().any(|word| word == "--") {
        return None;
    }
    let at = words.iter().skip(2).position(|word| word.to_str() == Some(unknown.as_str()))? + 2;
    let line = |words: &[OsString]| words.iter().map(|word| format!(" {}", word.to_string_lossy())).collect();
    let (flags, command): (String, String) = (line(&words[2..at]), line(&words[at..]));
    Some(format!("  hint: put -- before the command: lowtide run{flags} --{command}\n"))
}
