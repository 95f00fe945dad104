//! Lists the recordings of a folder. A broken one is listed with its error; it never spoils the list.

use crate::{StoreError, open};
use lowtide_model::{Meta, RunState, Tick};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// One recording of a folder.
#[derive(Debug)]
pub struct Listed {
    /// The file.
    pub path: PathBuf,
    /// What is in it, or why that can't be told.
    pub run: Result<Summary, StoreError>,
}

/// What a list tells of a recording.
#[derive(Clone, Debug, PartialEq)]
pub struct Summary {
    /// The header.
    pub meta: Meta,
    /// Finished, running or cut off.
    pub state: RunState,
    /// How long it recorded.
    pub length: Duration,
}

/// The recordings (`*.tide`) in `dir`, newest first; broken ones at the end.
pub fn list(dir: &Path) -> Result<Vec<Listed>, StoreError> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(dir).map_err(StoreError::io("list", dir))? {
        let path = entry.map_err(StoreError::io("list", dir))?.path();
        if path.extension().is_some_and(|extension| extension == "tide") && path.is_file() {
            let run = summary(&path);
            found.push(Listed { path, run });
        }
    }
    let key = |listed: &Listed| {
        listed.run.as_ref().map_or(i64::MAX, |run| run.meta.started_unix_ns.saturating_neg())
    };
    found.sort_by(|a, b| key(a).cmp(&key(b)).then_with(|| a.path.cmp(&b.path)));
    Ok(found)
}

/// The header says it all, but for a run that goes on: there the newest sample tells how far it is.
fn summary(path: &Path) -> Result<Summary, StoreError> {
    let mut reader = open(path)?;
    let meta = reader.meta()?;
    let end = match meta.ended {
        Some(end) => end,
        None => reader.recording()?.samples.last().map_or(Tick::START, |row| row.tick),
    };
    Ok(Summary { state: reader.state(), length: end.since(Tick::START), meta })
}
