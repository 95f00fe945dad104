//! Where checkpoints may lie: folders that the user names, folders that the job tells, and what the job saved itself.
//!
//! A folder of a framework's checkpoints is searched. Beside a file that the program saved itself only files of the same
//! shape of name count (`ckpt-100.pt`, `ckpt-200.pt`): a data set in the same folder is no checkpoint.

use lowtide_model::{Mark, MarkKind, MarkPhase, ProcKey};
use serde_json::{Map, Value};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::path::{Path, PathBuf};

/// Folders and files that are kept in mind; the oldest go first.
const MOST: usize = 256;
/// A path that grows longer is none.
const LONGEST: usize = 4096;

/// Where to look.
#[derive(Clone, Debug, Default)]
pub struct Places {
    named: BTreeSet<PathBuf>,
    told: VecDeque<PathBuf>,
    saved: VecDeque<PathBuf>,
    /// The newest save, if it failed: what was to be written, and the name of the error.
    failed: Option<(PathBuf, String)>,
    /// Long paths come in pieces, and saves tell only their last part.
    of_process: BTreeMap<Option<ProcKey>, Telling>,
}

#[derive(Clone, Debug, Default)]
struct Telling {
    checkpoints: String,
    saves: String,
}

impl Places {
    /// A folder that the user names.
    pub fn name(&mut self, folder: impl Into<PathBuf>) {
        self.named.insert(folder.into());
    }

    /// Whether nobody named or told a place.
    pub fn is_empty(&self) -> bool {
        self.named.is_empty() && self.told.is_empty() && self.saved.is_empty()
    }

    /// Takes what a mark says of folders and saves.
    pub fn hear(&mut self, mark: &Mark) {
        let interesting =
            mark.kind == MarkKind::Info || (mark.kind == MarkKind::Save && mark.phase != MarkPhase::Start);
        let extra = mark.extra.as_deref().filter(|_| interesting);
        let Some(facts) = extra.and_then(|text| serde_json::from_str::<Map<String, Value>>(text).ok()) else {
            return;
        };
        if mark.kind == MarkKind::Save {
            self.hear_save(mark.process, &facts);
        } else {
            self.hear_folders(mark.process, &facts);
        }
    }

    fn hear_save(&mut self, process: Option<ProcKey>, facts: &Map<String, Value>) {
        let Some(name) = facts.get("path").and_then(Value::as_str) else { return };
        let folder = self.of_process.get(&process).map(|telling| telling.saves.as_str()).unwrap_or_default();
        let path = Path::new(folder).join(name);
        if !path.is_absolute() {
            return;
        }
        self.failed = match facts.get("failed") {
            Some(error) => Some((path, error.as_str().unwrap_or("an error").to_owned())),
            None => {
                remember(&mut self.saved, path);
                None
            }
        };
    }

    /// The newest save, if it failed: what was to be written, and the name of the error.
    pub(crate) fn failed_save(&self) -> Option<(&Path, &str)> {
        self.failed.as_ref().map(|(path, error)| (path.as_path(), error.as_str()))
    }

    /// A new life has not failed at anything.
    pub(crate) fn begin(&mut self) {
        self.failed = None;
    }

    fn hear_folders(&mut self, process: Option<ProcKey>, facts: &Map<String, Value>) {
        let text = |key: &str| facts.get(key).and_then(Value::as_str);
        let telling = self.of_process.entry(process).or_default();
        piece(&mut telling.saves, text("save_dir"), text("save_dir_more"));
        if piece(&mut telling.checkpoints, text("checkpoint_dir"), text("checkpoint_dir_more")) {
            let path = PathBuf::from(&telling.checkpoints);
            if text("checkpoint_dir").is_none() {
                // The rest of the one that was told before.
                self.told.pop_back();
            }
            if path.is_absolute() {
                remember(&mut self.told, path);
            }
        }
        if self.of_process.len() > MOST {
            self.of_process.pop_first();
        }
    }

    /// Folders that the user named: searched to some depth.
    pub(super) fn named(&self) -> impl Iterator<Item = &Path> {
        self.named.iter().map(PathBuf::as_path)
    }

    /// Folders of a framework's checkpoints: searched.
    pub(super) fn told(&self) -> impl Iterator<Item = &Path> {
        self.told.iter().map(PathBuf::as_path)
    }

    /// What the job saved: looked at, with those beside it whose names have the same shape.
    pub(super) fn saved(&self) -> impl Iterator<Item = &Path> {
        self.saved.iter().map(PathBuf::as_path)
    }
}

fn piece(whole: &mut String, first: Option<&str>, more: Option<&str>) -> bool {
    if let Some(first) = first {
        first.clone_into(whole);
    }
    if let Some(more) = more.filter(|more| whole.len() + more.len() <= LONGEST) {
        whole.push_str(more);
    }
    first.is_some() || more.is_some()
}

fn remember(places: &mut VecDeque<PathBuf>, path: PathBuf) {
    if places.back() == Some(&path) {
        return;
    }
    places.retain(|known| *known != path);
    places.push_back(path);
    if places.len() > MOST {
        places.pop_front();
    }
}

/// A name with its numbers left open: `ckpt-100.pt` and `ckpt-99.pt` are alike.
pub(super) fn shape(name: &str) -> String {
    let mut shape = String::new();
    for letter in name.chars() {
        if !letter.is_ascii_digit() {
            shape.push(letter);
        } else if !shape.ends_with('0') {
            shape.push('0');
        }
    }
    shape
}
