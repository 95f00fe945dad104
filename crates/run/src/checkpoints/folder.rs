//! A checkpoint that is a folder: which framework wrote it, and whether all it needs is there and whole.
//!
//! Frameworks write their parts in a fixed order; the part that comes last is the sign that the others are there. A save
//! that a disk or a kill cut short leaves the folder without it, or with a file that is shorter than it says.

use super::Kind;
use super::file::{self, step_in_name, suffix};
use super::formats::{Flaw, Source, json};
use lowtide_model::Bytes;
use std::collections::BTreeSet;
use std::io::{BufReader, Read};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// Files of one checkpoint that are looked at.
const MOST_FILES: usize = 20_000;
/// Folders inside folders: DeepSpeed inside a Trainer's checkpoint is one, its own parts are none.
const DEEPEST: usize = 3;
/// Longer than any list of shards; it names every tensor.
const LONGEST_INDEX: u64 = 64 * 1024 * 1024;
/// What a Trainer leaves in a checkpoint that it has not finished.
const INCOMPLETE: &str = "checkpoint-is-incomplete.txt";
const TRAINER_STATE: &str = "trainer_state.json";
const WEIGHTS: [&str; 5] = [
    "model.safetensors",
    "pytorch_model.bin",
    "adapter_model.safetensors",
    "adapter_model.bin",
    "pytorch_model_fsdp.bin",
];
const INDEXES: [&str; 2] = ["model.safetensors.index.json", "pytorch_model.bin.index.json"];

/// What lies in a folder: paths relative to it, and their sizes.
#[derive(Debug, Default)]
pub(super) struct Contents {
    folder: PathBuf,
    names: BTreeSet<String>,
    pub(super) bytes: Bytes,
    pub(super) modified: Option<SystemTime>,
}

impl Contents {
    /// Lists a folder, and what lies below it if it is a checkpoint.
    pub(super) fn of(folder: &Path) -> std::io::Result<Option<(Kind, Self)>> {
        let mut found = Self { folder: folder.to_owned(), ..Self::default() };
        found.list(folder, "", 0)?;
        let Some(kind) = found.kind() else { return Ok(None) };
        let mut all = Self { folder: found.folder, ..Self::default() };
        all.list(folder, "", DEEPEST)?;
        Ok(Some((kind, all)))
    }

    fn list(&mut self, folder: &Path, before: &str, depth: usize) -> std::io::Result<()> {
        for entry in std::fs::read_dir(folder)?.filter_map(Result::ok) {
            let Ok(name) = entry.file_name().into_string() else { continue };
            let Ok(facts) = std::fs::metadata(entry.path()) else { continue };
            let name = format!("{before}{name}");
            if facts.is_dir() && depth > 0 {
                let _ = self.list(&entry.path(), &format!("{name}/"), depth - 1);
            }
            if facts.is_file() && self.names.len() < MOST_FILES {
                self.bytes = Bytes(self.bytes.0.saturating_add(facts.len()));
                self.modified = self.modified.max(facts.modified().ok());
                self.names.insert(name);
            }
        }
        Ok(())
    }

    fn has(&self, name: &str) -> bool {
        self.names.contains(name)
    }

    fn any(&self, fits: impl Fn(&str) -> bool) -> bool {
        self.names.iter().any(|name| fits(name))
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// Which framework's checkpoint this folder is, if it is one, by the names in it.
    fn kind(&self) -> Option<Kind> {
        let name = self.folder.file_name().and_then(std::ffi::OsStr::to_str).unwrap_or_default();
        let numbered = |prefix| name.strip_prefix(prefix).is_some_and(all_digits);
        let accelerate = self.any(|name| name.starts_with("random_states_"))
            || (self.has("optimizer.bin") && !self.has(TRAINER_STATE));
        if self.has(TRAINER_STATE) || self.has(INCOMPLETE) {
            Some(Kind::Trainer)
        } else if accelerate {
            Some(Kind::Accelerate)
        } else if self.any(|name| name.ends_with("_model_states.pt")) {
            Some(Kind::DeepSpeed)
        } else if self.has("training_metadata.json") || self.has("latest.weights.h5") {
            Some(Kind::KerasBackup)
        } else if self.has(".metadata") || self.any(|name| name.ends_with(".distcp")) {
            Some(Kind::Distributed)
        } else if numbered("checkpoint-") {
            Some(Kind::Trainer)
        } else {
            None
        }
    }

    /// Checks the folder as a checkpoint of this kind and gives its step.
    pub(super) fn check(&self, kind: Kind) -> Result<Option<u64>, Flaw> {
        if self.has(INCOMPLETE) {
            return Err(Flaw::Cut(format!("{INCOMPLETE} lies in it: its save has not ended")));
        }
        let step = match kind {
            Kind::Trainer => Some(self.trainer()?),
            Kind::Accelerate => self.accelerate()?,
            Kind::DeepSpeed => self.deepspeed()?,
            Kind::KerasBackup => self.keras_backup()?,
            Kind::Distributed => self.distributed()?,
            Kind::Lightning | Kind::Keras | Kind::Torch | Kind::Plain => None,
        };
        for name in &self.names {
            file::member(&self.path(name)).map_err(|flaw| of_file(name, flaw))?;
        }
        Ok(step)
    }

    /// A Trainer writes weights, optimizer, scheduler, random states, and its own state at last.
    fn trainer(&self) -> Result<u64, Flaw> {
        if !self.has(TRAINER_STATE) {
            return Err(missing(TRAINER_STATE, "which is written last"));
        }
        self.weights()?;
        let sharded = self.any(|name| name.contains("optim_states.pt") || name.starts_with("optimizer_0/"));
        if self.has("optimizer.pt") && !self.has("scheduler.pt") {
            return Err(missing("scheduler.pt", "though optimizer.pt is there"));
        }
        if !self.has("optimizer.pt") && !self.has("optimizer.bin") && !sharded {
            let why =
                "holds no state of the optimizer (save_only_model): training can't go on from it as it was";
            return Err(Flaw::Wrong(why.into()));
        }
        self.ranks("rng_state_", ".pth")?;
        let source = file::open(&self.path(TRAINER_STATE))?;
        let step = json::number_under(&source, "global_step").map_err(|flaw| of_file(TRAINER_STATE, flaw))?;
        step.ok_or_else(|| Flaw::Wrong(format!("{TRAINER_STATE} names no global_step")))
    }

    fn weights(&self) -> Result<(), Flaw> {
        if let Some(index) = INDEXES.iter().find(|index| self.has(index)) {
            return self.shards(index);
        }
        let adapter =
            |name: &str| name.ends_with("/adapter_model.safetensors") || name.ends_with("/adapter_model.bin");
        let split = self.any(|name| {
            name.starts_with("pytorch_model_fsdp_0/") || name.ends_with("_model_states.pt") || adapter(name)
        });
        if split || WEIGHTS.iter().any(|name| self.has(name)) {
            Ok(())
        } else {
            Err(Flaw::Cut("holds no weights".into()))
        }
    }

    /// All files that the list of shards names.
    fn shards(&self, index: &str) -> Result<(), Flaw> {
        let source = file::open(&self.path(index))?;
        if source.size() > LONGEST_INDEX {
            return Err(Flaw::Wrong(format!("{index} is too long to be a list of shards")));
        }
        let text = BufReader::new(source.file.take(LONGEST_INDEX));
        let index_of: Index =
            serde_json::from_reader(text).map_err(|_| Flaw::Cut(format!("{index} makes no sense")))?;
        match index_of.weight_map.values().find(|shard| !self.has(shard)) {
            Some(shard) => Err(missing(shard, &format!("which {index} names"))),
            None => Ok(()),
        }
    }

    /// Files that every rank writes one of: none may be missing between the first and the last.
    fn ranks(&self, before: &str, behind: &str) -> Result<(), Flaw> {
        let rank = |name: &String| name.strip_prefix(before)?.strip_suffix(behind)?.parse::<u64>().ok();
        let found: BTreeSet<u64> = self.names.iter().filter_map(rank).collect();
        match (0..).zip(&found).find(|(wanted, rank)| wanted != *rank) {
            Some((wanted, _)) => {
                Err(missing(&format!("{before}{wanted}{behind}"), "which a rank has yet to write"))
            }
            None => Ok(()),
        }
    }

    /// accelerate writes weights, optimizers, schedulers, samplers, and random states at last.
    fn accelerate(&self) -> Result<Option<u64>, Flaw> {
        if !self.has("random_states_0.pkl") {
            return Err(missing("random_states_0.pkl", "which is written last"));
        }
        self.ranks("random_states_", ".pkl")?;
        Ok(step_in_name(&self.folder))
    }

    /// DeepSpeed names the newest folder in `latest` beside it, when all ranks have written.
    fn deepspeed(&self) -> Result<Option<u64>, Flaw> {
        let name = self.folder.file_name().and_then(std::ffi::OsStr::to_str).unwrap_or_default();
        let step = step_in_name(&self.folder);
        let latest = self.folder.with_file_name("latest");
        let mut named = String::new();
        let read = file::open(&latest)
            .and_then(|opened| opened.file.take(4096).read_to_string(&mut named).map_err(Flaw::from));
        let named = named.trim();
        let newer = step.zip(step_in_name(Path::new(named))).is_some_and(|(step, named)| step <= named);
        if read.is_err() || !(named == name || newer) {
            return Err(Flaw::Cut(
                "is not named by the file `latest` beside it, which is written last".into(),
            ));
        }
        Ok(step)
    }

    /// Keras writes the weights, then the epoch.
    fn keras_backup(&self) -> Result<Option<u64>, Flaw> {
        for name in ["latest.weights.h5", "training_metadata.json"] {
            if !self.has(name) {
                return Err(missing(name, "which every backup has"));
            }
        }
        Ok(None)
    }

    /// torch.distributed.checkpoint writes what each rank holds, then what lies where.
    fn distributed(&self) -> Result<Option<u64>, Flaw> {
        if self.has(".metadata") {
            Ok(step_in_name(&self.folder))
        } else {
            Err(missing(".metadata", "which is written last"))
        }
    }
}

#[derive(serde::Deserialize)]
struct Index {
    weight_map: std::collections::BTreeMap<String, String>,
}

fn all_digits(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

fn missing(name: &str, why: &str) -> Flaw {
    Flaw::Cut(format!("{name}, {why}, is missing"))
}

fn of_file(name: &str, flaw: Flaw) -> Flaw {
    match flaw {
        Flaw::Cut(why) => Flaw::Cut(format!("{name} {why}")),
        Flaw::Wrong(why) => Flaw::Wrong(format!("{name} {why}")),
    }
}

/// Whether a file by its name may be a checkpoint of its own.
pub(super) fn is_checkpoint_file(path: &Path) -> bool {
    matches!(suffix(path), "ckpt" | "pt" | "pth" | "keras")
}
