//! What is left of a life when it ends: the newest complete checkpoint, and whether it is a step forward.

use crate::checkpoints::{self, Places, State};
use serde::Serialize;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// What a job can begin from again.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Kept {
    /// The checkpoint; nothing where only the job knows it.
    pub path: Option<PathBuf>,
    /// Its step; where it does not say, the newest step of the job when it said that it had saved.
    pub step: Option<f64>,
    /// When it was written.
    #[serde(skip)]
    pub modified: Option<SystemTime>,
    /// What is wrong with a newer one, if there is one.
    pub newer_is: Option<String>,
}

impl Kept {
    /// The newest complete checkpoint of these places.
    pub(crate) fn newest(places: &Places) -> Option<Self> {
        let found = checkpoints::find(places);
        let (one, newer) = checkpoints::newest_complete(&found)?;
        let newer_is = found.first().filter(|_| newer > 0).map(|newest| {
            let why = match &newest.state {
                State::Complete => "",
                State::Unfinished { why } | State::Broken { why } => why,
            };
            format!("{}: {why}", newest.path.display())
        });
        let step = one.step.map(|step| step as f64);
        Some(Self { path: Some(one.path.clone()), step, modified: Some(one.modified), newer_is })
    }

    /// A checkpoint that was named.
    pub(crate) fn named(path: &Path) -> Self {
        let modified = std::fs::metadata(path).and_then(|facts| facts.modified()).ok();
        Self { path: Some(path.to_owned()), modified, ..Self::default() }
    }

    /// Whether a job that begins from here has more behind it than one that begins from `before`.
    pub(crate) fn is_further_than(&self, before: &Self) -> bool {
        match (self.step, before.step, self.modified, before.modified) {
            (Some(now), Some(then), ..) => now > then,
            (_, _, Some(now), Some(then)) => now > then,
            _ => self.path != before.path,
        }
    }

    /// In words: `checkpoint out/checkpoint-80 (step 80)`.
    pub fn words(&self) -> String {
        let step = self.step.map(|step| format!("step {step:.0}"));
        match (&self.path, step) {
            (Some(path), Some(step)) => format!("{} ({step})", path.display()),
            (Some(path), None) => path.display().to_string(),
            (None, Some(step)) => format!("what it saved at {step}"),
            (None, None) => "what it saved".to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(step: Option<f64>, path: &str) -> Kept {
        Kept { step, path: Some(path.into()), ..Kept::default() }
    }

    #[test]
    fn a_higher_step_is_further_and_the_same_one_is_not() {
        assert!(at(Some(8.0), "b").is_further_than(&at(Some(4.0), "a")));
        assert!(!at(Some(8.0), "b").is_further_than(&at(Some(8.0), "a")));
        assert!(at(None, "b").is_further_than(&at(None, "a")));
        assert!(!at(None, "a").is_further_than(&at(None, "a")));
    }
}
