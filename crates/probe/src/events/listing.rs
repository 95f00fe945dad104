//! Finds new pids by listing /proc, looking closely only at those that can be new.
//!
//! The kernel hands out pids in rising order and tells the newest one (`ns_last_pid`): while that does not move,
//! nothing was started. When it moved a little, the few pids in between are asked for one by one; only when it moved
//! far is /proc listed. A pid that changed its owner lies in the range too, so that is noticed. Without that file
//! /proc is listed each time, and a pid is new if it was not there the time before.

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

/// Up to this many pids are asked for one by one (about 1 us for one that is not there), instead of listing all.
const FEW: u32 = 1024;

impl Listing {
    pub(crate) fn new(root: &Root) -> Self {
        let newest = OpenFile::open_feature(root.proc.join("sys/kernel/ns_last_pid"));
        Self { newest, cursor: None, before: Vec::new() }
    }

    /// The pids that can be new since the last call, sorted. Some may be threads or not there at all.
    pub(crate) fn look(&mut self, root: &Root) -> Vec<u32> {
        // Before the listing: what starts in between is looked at again next time.
        let cursor = crate::host::from::<64, _>(&self.newest, parse::pid_max).known();
        let range = self.cursor.zip(cursor).map(|(after, up_to)| PidRange { after, up_to });
        self.cursor = cursor;
        match range {
            Some(PidRange { after, up_to }) if after <= up_to && up_to - after <= FEW => {
                (after + 1..=up_to).collect()
            }
            Some(range) => pids(root).into_iter().filter(|pid| range.contains(*pid)).collect(),
            None => {
                let all = pids(root);
                let before = std::mem::replace(&mut self.before, all.clone());
                all.into_iter().filter(|pid| before.binary_search(pid).is_err()).collect()
            }
        }
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
