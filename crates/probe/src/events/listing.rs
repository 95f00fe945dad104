//! Finds new pids by listing /proc, looking closely only at those that can be new.
//!
//! The kernel hands out pids in rising order and tells the newest one (`ns_last_pid`): while that does not move,
//! nothing was started and /proc is not listed at all. When it moved, a pid is new if it was not there at the last
//! listing or lies in the range handed out since: so a pid that changed its owner between two listings is noticed.

use crate::Root;
use crate::open_file::OpenFile;
use crate::parse::{self, PidRange};
use lowtide_model::Reading;

/// What was there last time.
#[derive(Debug)]
pub(crate) struct Listing {
    newest: Reading<OpenFile>,
    cursor: Option<u32>,
    before: Vec<u32>,
}

/// The outcome of one listing.
#[derive(Debug, Default)]
pub(crate) struct Listed {
    /// All pids, sorted.
    pub(crate) all: Vec<u32>,
    /// Those that can be new.
    pub(crate) new: Vec<u32>,
}

impl Listing {
    pub(crate) fn new(root: &Root) -> Self {
        let newest = OpenFile::open_feature(root.proc.join("sys/kernel/ns_last_pid"));
        Self { newest, cursor: None, before: Vec::new() }
    }

    /// Lists /proc unless nothing can have been started since the last call.
    pub(crate) fn look(&mut self, root: &Root) -> Option<Listed> {
        // Before the listing: what starts in between is looked at again next time.
        let cursor = crate::host::from::<64, _>(&self.newest, parse::pid_max).known();
        let range = self.cursor.zip(cursor).map(|(after, up_to)| PidRange { after, up_to });
        if range.is_some_and(PidRange::is_empty) {
            return None;
        }
        let all = pids(root);
        let is_new = |pid: u32| {
            self.before.binary_search(&pid).is_err() || range.is_some_and(|range| range.contains(pid))
        };
        let new = all.iter().copied().filter(|pid| is_new(*pid)).collect();
        self.cursor = cursor;
        self.before.clone_from(&all);
        Some(Listed { all, new })
    }

    /// Forgets what was there, so that the next look sees every pid as new.
    pub(crate) fn forget(&mut self) {
        self.cursor = None;
        self.before.clear();
    }
}

/// All pids, sorted. Unreadable means none.
pub(crate) fn pids(root: &Root) -> Vec<u32> {
    let Ok(entries) = std::fs::read_dir(&root.proc) else {
        return Vec::new();
    };
    let mut pids: Vec<u32> = entries
        .filter_map(|entry| parse::number(entry.ok()?.file_name().as_encoded_bytes()))
        .filter_map(|pid| u32::try_from(pid).ok())
        .collect();
    pids.sort_unstable();
    pids
}
