//! Where recordings lie and what they are called.

use crate::StoreError;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// Longest part of a run's name that goes into its file name.
const LONGEST_NAME: usize = 40;

/// Characters of the run id in a file name: two runs of one minute meet with a chance of one in 16 million, and then
/// more of it is taken.
const SHORT_ID: usize = 6;

/// The folder of recordings: `$LOWTIDE_DIR`, else `$XDG_STATE_HOME/lowtide/runs`, else `~/.local/state/lowtide/runs`.
pub fn runs_dir() -> Result<PathBuf, StoreError> {
    runs_dir_from(|name| std::env::var_os(name))
}

fn runs_dir_from(env: impl Fn(&str) -> Option<OsString>) -> Result<PathBuf, StoreError> {
    let set = |name| env(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    // A relative XDG path is invalid and to be ignored, says the base directory specification.
    let state = || set("XDG_STATE_HOME").filter(|path| path.is_absolute());
    let home = || set("HOME").map(|home| home.join(".local/state"));
    set("LOWTIDE_DIR")
        .or_else(|| state().or_else(home).map(|state| state.join("lowtide/runs")))
        .ok_or(StoreError::NoFolder)
}

/// A file name that tells when, what and which: `2026-11-15_0912-train-7f3a2c.tide`, in local time.
pub fn run_path(dir: &Path, name: &str, started_unix_ns: i64, run_id: &str) -> PathBuf {
    let when = jiff::Timestamp::from_nanosecond(started_unix_ns.into()).map_or_else(
        |_| "undated".to_owned(),
        |at| at.to_zoned(jiff::tz::TimeZone::system()).strftime("%Y-%m-%d_%H%M").to_string(),
    );
    let (name, id) = (plain(name, LONGEST_NAME), plain(run_id, 64));
    let path = |letters: usize| dir.join(format!("{when}-{name}-{}.tide", id.get(..letters).unwrap_or(&id)));
    let free = (SHORT_ID..=id.len().max(SHORT_ID)).map(path).find(|path| path.symlink_metadata().is_err());
    free.unwrap_or_else(|| path(id.len()))
}

/// Letters, digits, dot, dash and underscore; anything else a dash, never a leading dot.
fn plain(text: &str, longest: usize) -> String {
    let stem = text.rsplit('/').find(|part| !part.is_empty()).unwrap_or("");
    let mut out = String::new();
    for letter in stem.chars() {
        let keep = letter.is_ascii_alphanumeric() || matches!(letter, '.' | '_' | '-');
        let letter = if keep { letter } else { '-' };
        if letter != '-' || !out.ends_with('-') {
            out.push(letter);
        }
    }
    out.truncate(longest);
    let trimmed = out.trim_matches(['-', '.']);
    if trimmed.is_empty() { "run".to_owned() } else { trimmed.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn dir_with(vars: &[(&str, &str)]) -> Option<PathBuf> {
        let find =
            |name: &str| vars.iter().find(|(key, _)| *key == name).map(|(_, value)| OsString::from(value));
        runs_dir_from(find).ok()
    }

    #[test]
    fn the_folder_is_the_one_a_user_would_expect() {
        assert_eq!(dir_with(&[("HOME", "/h")]), Some("/h/.local/state/lowtide/runs".into()));
        assert_eq!(dir_with(&[("HOME", "/h"), ("XDG_STATE_HOME", "/x")]), Some("/x/lowtide/runs".into()));
        assert_eq!(
            dir_with(&[("HOME", "/h"), ("XDG_STATE_HOME", "x")]),
            Some("/h/.local/state/lowtide/runs".into())
        );
        assert_eq!(dir_with(&[("HOME", "/h"), ("LOWTIDE_DIR", "/l")]), Some("/l".into()));
        assert_eq!(dir_with(&[("HOME", "")]), None);
    }

    #[test]
    fn a_name_tells_when_what_and_which() {
        let path = run_path(Path::new("/r"), "python train.py", 1_794_734_000_000_000_000, "7f3a2c91aa");
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        assert!(name.starts_with("2026-11-") && name.ends_with("-python-train.py-7f3a2c.tide"), "{name}");
    }

    #[test]
    fn two_runs_whose_ids_begin_alike_get_two_files() {
        let folder = tempfile::tempdir().unwrap();
        let first = run_path(folder.path(), "a", 0, "abcdef11");
        std::fs::write(&first, "").unwrap();
        assert_ne!(run_path(folder.path(), "a", 0, "abcdef22"), first);
    }

    proptest! {
        #[test]
        fn any_name_makes_one_plain_file_in_the_folder(name: String, started: i64, id: String) {
            let path = run_path(Path::new("/r"), &name, started, &id);
            prop_assert_eq!(path.parent(), Some(Path::new("/r")));
            let file = path.file_name().unwrap().to_str().unwrap();
            prop_assert!(file.len() < 160 && !file.starts_with('.'), "{}", file);
            prop_assert_eq!(path.extension().unwrap(), "tide");
        }
    }
}
