//! `lowtide run --guard`: what is asked of the guard, and the one command that resumes a job it stopped.

use crate::cli::{GuardArgs, GuardLimit};
use crate::failure::Failure;
use lowtide_model::Bytes;
use lowtide_run::checkpoints::{self, CHECKPOINT_VARIABLE, Places, Way};
use lowtide_run::{Again, Chunk, GuardOptions, Kept};
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

/// The exit code of a job that was stopped in order to begin again, and did not: `EX_TEMPFAIL`.
pub(crate) const STOPPED_IN_ORDER: u8 = 75;

/// A limit of the user's own, if there is one.
pub(crate) fn limit(args: &GuardArgs) -> Option<Bytes> {
    match args.limit? {
        GuardLimit::Auto => None,
        GuardLimit::At(limit) => Some(limit),
    }
}

/// How the job is guarded, if it is.
pub(crate) fn options(args: &GuardArgs, command: &[OsString]) -> Result<Option<GuardOptions>, Failure> {
    if !args.guard {
        return Ok(None);
    }
    let way = Way::of(command, args.resume_with.as_deref())?;
    let checkpoints = folders(&args.checkpoints)?;
    let from = beginning(&way, &checkpoints)?;
    let chunk = args.chunk_steps.map(Chunk::Steps).or(args.chunk_time.map(Chunk::Time));
    let (resumes, stop_signal, stop_within) = (args.resume, args.stop_signal, args.stop_within);
    Ok(Some(GuardOptions { resumes, chunk, stop_signal, stop_within, checkpoints, from, way }))
}

fn folders(given: &[PathBuf]) -> Result<Vec<PathBuf>, Failure> {
    let absolute = |folder: &PathBuf| {
        let cannot =
            |error| Failure::new(format!("cannot use the folder {}", folder.display())).because(error);
        std::path::absolute(folder).map_err(cannot)
    };
    given.iter().map(absolute).collect()
}

/// What the first life begins from: the checkpoint that the environment names; else, where the command has a place for
/// one, the newest complete one.
fn beginning(way: &Way, folders: &[PathBuf]) -> Result<Option<PathBuf>, Failure> {
    if let Some(named) = std::env::var_os(CHECKPOINT_VARIABLE).filter(|value| !value.is_empty()) {
        let path = PathBuf::from(named);
        return match path.try_exists() {
            Ok(true) => Ok(Some(path)),
            Ok(false) | Err(_) => Err(Failure::new(format!("there is no checkpoint {}", path.display()))
                .hint(format!("unset {CHECKPOINT_VARIABLE} to begin at nothing"))),
        };
    }
    if *way != Way::Placeholder {
        return Ok(None);
    }
    let mut places = Places::default();
    folders.iter().for_each(|folder| places.name(folder));
    let found = checkpoints::find(&places);
    Ok(checkpoints::newest_complete(&found).map(|(newest, _)| newest.path.clone()))
}

/// What is said when a job was stopped and not started again: the command that goes on, and what has to come before it
/// where going on alone would only fill memory up again.
pub(crate) fn resume_words(kept: &Kept, again: Again) -> String {
    let words: Vec<OsString> = std::env::args_os().collect();
    format!("{}  {}\n", lead(again), resume_command(kept.path.as_deref(), &words))
}

const fn lead(again: Again) -> &'static str {
    match again {
        Again::Helps => "  resume with",
        Again::MayRefill => {
            "  it was stopped inside its first pass over the data, where a cache and a leak look the same:\n  \
             if it is a cache, it will fill up again: more memory or a smaller cache comes first;\n  \
             if it leaks, going on from the checkpoint helps\n  \
             goes on with"
        }
        Again::Refills => {
            "  the cache would fill up again: give it more memory, or fewer or smaller examples (a job known to leak \
             is cut by --chunk-steps)\n  \
             then it goes on with"
        }
    }
}

/// The command line of this run, from that checkpoint on.
fn resume_command(checkpoint: Option<&Path>, words: &[OsString]) -> String {
    let variable = checkpoint.map(|path| format!("{CHECKPOINT_VARIABLE}={}", quoted(path.as_os_str())));
    let words = words.iter().map(|word| quoted(word));
    variable.into_iter().chain(words).collect::<Vec<_>>().join(" ")
}

/// As a shell takes it.
fn quoted(word: &OsStr) -> String {
    let text = word.to_string_lossy();
    let plain = |letter: char| letter.is_ascii_alphanumeric() || "-_./=:,@%+".contains(letter);
    if !text.is_empty() && text.chars().all(plain) {
        return text.into_owned();
    }
    format!("'{}'", text.replace('\'', "'\\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cache_that_would_fill_up_again_gets_no_advice_to_resume() {
        assert_eq!(lead(Again::Helps), "  resume with");
        for again in [Again::MayRefill, Again::Refills] {
            let words = lead(again);
            assert!(
                words.contains("more memory") && words.lines().all(|line| line.starts_with("  ")),
                "{words}"
            );
            assert!(!words.contains("resume") && !words.contains("start"), "{words}");
        }
    }

    #[test]
    fn the_command_is_one_line_that_a_shell_takes() {
        let words: Vec<OsString> = ["lowtide", "run", "--guard", "--", "python", "it's.py", "{checkpoint}"]
            .map(OsString::from)
            .into();
        let line = resume_command(Some(Path::new("/out/my run/c-4")), &words);
        assert_eq!(
            line,
            r"LOWTIDE_CHECKPOINT='/out/my run/c-4' lowtide run --guard -- python 'it'\''s.py' '{checkpoint}'"
        );
        assert_eq!(resume_command(None, &words[..2]), "lowtide run");
    }
}
