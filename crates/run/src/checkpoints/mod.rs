//! Which checkpoints a job has, which of them are complete, and how the job is started again from one.
//!
//! A checkpoint is trusted by what its files say of themselves, not by its name or its age: a save that a full disk, a
//! kill or a crash cut short looks like any other from outside. Nothing here writes, renames or deletes. Not here: when
//! to ask for a checkpoint, and how long to wait for one (see `guard`).

mod file;
mod folder;
mod formats;
mod places;
mod resume;

pub use places::Places;
pub use resume::{CHECKPOINT_VARIABLE, RESUME_VARIABLE, Restart, STEP_VARIABLE, TemplateError, Way};

use file::Said;
use folder::Contents;
use formats::Flaw;
use lowtide_model::Bytes;
use std::collections::BTreeMap;
use std::fmt;
use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// Checkpoints that are checked: the newest. Older ones are not fallen back to.
const MOST_CHECKED: usize = 32;
/// How deep a folder that the user names is searched; Lightning puts its files three folders down.
const DEEPEST: usize = 4;
/// Entries of a folder that are looked at.
const MOST_ENTRIES: usize = 20_000;

/// Who wrote a checkpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The Trainer of transformers, and all that is built on it.
    Trainer,
    /// Lightning.
    Lightning,
    /// A `torch.save` of the program's own.
    Torch,
    /// A `.keras` or weights file.
    Keras,
    /// The folder of `BackupAndRestore` of Keras.
    KerasBackup,
    /// `Accelerator.save_state`.
    Accelerate,
    /// DeepSpeed.
    DeepSpeed,
    /// `torch.distributed.checkpoint`.
    Distributed,
    /// Any other file that the program said it saved.
    Plain,
}

impl fmt::Display for Kind {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::Trainer => "Trainer",
            Self::Lightning => "Lightning",
            Self::Torch => "torch",
            Self::Keras => "Keras",
            Self::KerasBackup => "Keras backup",
            Self::Accelerate => "accelerate",
            Self::DeepSpeed => "DeepSpeed",
            Self::Distributed => "torch distributed",
            Self::Plain => "plain",
        })
    }
}

/// Whether a checkpoint can be resumed from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    /// All of it is there.
    Complete,
    /// Its writer has not ended, or never will.
    Unfinished {
        /// What shows it.
        why: String,
    },
    /// It will never be whole.
    Broken {
        /// What is wrong.
        why: String,
    },
}

/// A checkpoint that was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Checkpoint {
    /// The file or folder, as an absolute path.
    pub path: PathBuf,
    /// Who wrote it.
    pub kind: Kind,
    /// The step it was written at, if it says so.
    pub step: Option<u64>,
    /// All its files together.
    pub bytes: Bytes,
    /// When its newest file was written.
    pub modified: SystemTime,
    /// Whether it can be resumed from.
    pub state: State,
}

impl Checkpoint {
    /// Whether it can be resumed from.
    pub fn is_complete(&self) -> bool {
        self.state == State::Complete
    }
}

/// Whether a file of this name with these bytes is a whole checkpoint, as far as its own bytes can tell.
pub fn state_of_bytes(name: &Path, bytes: &[u8]) -> State {
    state_of(file::said_by(bytes, name)).1
}

fn state_of(said: Result<Said, Flaw>) -> (Option<Said>, State) {
    match said {
        Ok(said) => (Some(said), State::Complete),
        Err(Flaw::Cut(why)) => (None, State::Unfinished { why }),
        Err(Flaw::Wrong(why)) => (None, State::Broken { why }),
    }
}

/// The checkpoints that lie in these places, newest first, each checked.
pub fn find(places: &Places) -> Vec<Checkpoint> {
    let mut found = candidates(places);
    found.sort_by(|a, b| (b.modified, &a.path).cmp(&(a.modified, &b.path)));
    found.truncate(MOST_CHECKED);
    let mut checked: Vec<Checkpoint> = found.into_iter().map(Candidate::check).collect();
    // Written within the same tick of the clock: the higher step is the newer one.
    checked.sort_by_key(|one| std::cmp::Reverse((one.modified, one.step)));
    checked
}

/// The same list, where what moved between two looks is told as unfinished: somebody still writes it.
pub fn settled(before: &[Checkpoint], mut after: Vec<Checkpoint>) -> Vec<Checkpoint> {
    for now in after.iter_mut().filter(|now| now.is_complete()) {
        let then = before.iter().find(|then| then.path == now.path);
        if then.is_none_or(|then| (then.bytes, then.modified) != (now.bytes, now.modified)) {
            now.state = State::Unfinished { why: "it is still being written".into() };
        }
    }
    after
}

/// The newest complete one, and how many newer ones can't be used.
pub fn newest_complete(found: &[Checkpoint]) -> Option<(&Checkpoint, usize)> {
    found.iter().enumerate().find(|(_, one)| one.is_complete()).map(|(newer, one)| (one, newer))
}

/// Something that may be a checkpoint.
struct Candidate {
    path: PathBuf,
    modified: SystemTime,
    bytes: Bytes,
    folder: Option<(Kind, Contents)>,
}

impl Candidate {
    fn check(self) -> Checkpoint {
        let said = match &self.folder {
            Some((kind, contents)) => contents.check(*kind).map(|step| Said { kind: *kind, step }),
            None => file::alone(&self.path),
        };
        let kind = self.folder.as_ref().map_or_else(|| kind_by_name(&self.path), |(kind, _)| *kind);
        let (said, state) = state_of(said);
        let said = said.unwrap_or(Said { kind, step: None });
        let step = said.step.or_else(|| file::step_in_name(&self.path));
        let Self { path, modified, bytes, .. } = self;
        Checkpoint { path, kind: said.kind, step, bytes, modified, state }
    }
}

fn kind_by_name(path: &Path) -> Kind {
    match file::suffix(path) {
        "keras" | "h5" => Kind::Keras,
        "pt" | "pth" => Kind::Torch,
        "ckpt" => Kind::Lightning,
        _ => Kind::Plain,
    }
}

fn candidates(places: &Places) -> Vec<Candidate> {
    let mut search = Search::default();
    for folder in places.named() {
        search.folder(folder, DEEPEST);
    }
    for folder in places.told() {
        search.folder(folder, 1);
    }
    for path in places.saved() {
        search.saved(path);
    }
    search.found.into_values().collect()
}

/// Finds each file once, whatever names lead to it.
#[derive(Default)]
struct Search {
    found: BTreeMap<(u64, u64), Candidate>,
    entries: usize,
}

impl Search {
    /// The folder itself, or checkpoints in it, or deeper.
    fn folder(&mut self, folder: &Path, depth: usize) {
        if self.checkpoint_folder(folder) || depth == 0 {
            return;
        }
        for path in entries(folder) {
            self.entries += 1;
            let Ok(facts) = std::fs::metadata(&path) else { continue };
            if self.entries > MOST_ENTRIES {
                return;
            }
            if facts.is_dir() && !is_hidden(&path) {
                self.folder(&path, depth - 1);
            } else if facts.is_file() && folder::is_checkpoint_file(&path) {
                self.file(&path, &facts);
            }
        }
    }

    /// What the job saved, and what lies beside it under a name of the same shape.
    fn saved(&mut self, path: &Path) {
        let (Some(folder), Some(name)) = (path.parent(), path.file_name().and_then(std::ffi::OsStr::to_str))
        else {
            return;
        };
        let alike = places::shape(name);
        for path in entries(folder).filter(|path| {
            path.file_name()
                .and_then(std::ffi::OsStr::to_str)
                .is_some_and(|name| places::shape(name) == alike)
        }) {
            match std::fs::metadata(&path) {
                Ok(facts) if facts.is_file() => self.file(&path, &facts),
                Ok(facts) if facts.is_dir() => drop(self.checkpoint_folder(&path)),
                _ => {}
            }
        }
    }

    fn file(&mut self, path: &Path, facts: &Metadata) {
        let modified = facts.modified().unwrap_or(SystemTime::UNIX_EPOCH);
        let bytes = Bytes(facts.len());
        self.add(facts, Candidate { path: path.to_owned(), modified, bytes, folder: None });
    }

    fn checkpoint_folder(&mut self, path: &Path) -> bool {
        let (Ok(Some((kind, contents))), Ok(facts)) = (Contents::of(path), std::fs::metadata(path)) else {
            return false;
        };
        let modified = contents.modified.or(facts.modified().ok()).unwrap_or(SystemTime::UNIX_EPOCH);
        let bytes = contents.bytes;
        self.add(
            &facts,
            Candidate { path: path.to_owned(), modified, bytes, folder: Some((kind, contents)) },
        );
        true
    }

    fn add(&mut self, facts: &Metadata, candidate: Candidate) {
        self.found.entry((facts.dev(), facts.ino())).or_insert(candidate);
    }
}

fn entries(folder: &Path) -> impl Iterator<Item = PathBuf> {
    std::fs::read_dir(folder).into_iter().flatten().filter_map(Result::ok).map(|entry| entry.path())
}

fn is_hidden(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"."))
}

#[cfg(test)]
mod made;
#[cfg(test)]
mod tests;
