//! Lists the recordings of a folder. A broken one is listed with its error; it never spoils the list.

use crate::{StoreError, open};
use lowtide_model::{Bytes, Meta, ProcKey, Recording, RunState, SampleRow, Tick};
use std::collections::BTreeMap;
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
    /// The largest sum over the tree: each process's RSS less what its last PSS reading showed to be shared. `None`
    /// without samples.
    pub peak: Option<Bytes>,
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

fn summary(path: &Path) -> Result<Summary, StoreError> {
    let mut reader = open(path)?;
    let recording = reader.recording()?;
    let newest = recording.samples.last().map_or(Tick::START, |row| row.tick);
    let end = recording.meta.ended.unwrap_or(newest).max(newest);
    let peak = tree_peak(&recording);
    Ok(Summary { state: reader.state(), length: end.since(Tick::START), peak, meta: recording.meta })
}

/// The largest total of the tree. Shared pages are taken off by what the last PSS reading of each process showed.
pub fn tree_peak(recording: &Recording) -> Option<Bytes> {
    let mut deaths: Vec<(Tick, ProcKey)> =
        recording.processes.iter().filter_map(|process| Some((process.died?, process.key))).collect();
    deaths.sort_unstable();
    let mut deaths = deaths.into_iter().peekable();
    let mut tree = Tree::default();
    let mut peak = None;
    for row in &recording.samples {
        while let Some((_, dead)) = deaths.next_if(|(died, _)| *died < row.tick) {
            tree.remove(dead);
        }
        peak = peak.max(Some(tree.take(row)));
    }
    peak.map(Bytes)
}

#[derive(Default)]
struct Tree {
    total: u64,
    parts: BTreeMap<ProcKey, (u64, u64)>,
}

impl Tree {
    /// Takes a row in; gives the total at its highest moment.
    fn take(&mut self, row: &SampleRow) -> u64 {
        let (before, mut shared) = self.parts.get(&row.process).copied().unwrap_or_default();
        if let Some(pss) = row.pss {
            shared = row.rss.last.0.saturating_sub(pss.pss.0);
        }
        let (last, max) = (row.rss.last.0.saturating_sub(shared), row.rss.max.0.saturating_sub(shared));
        self.total = self.total.saturating_sub(before);
        let high = self.total.saturating_add(max);
        self.total = self.total.saturating_add(last);
        self.parts.insert(row.process, (last, shared));
        high
    }

    fn remove(&mut self, dead: ProcKey) {
        if let Some((last, _)) = self.parts.remove(&dead) {
            self.total = self.total.saturating_sub(last);
        }
    }
}
