//! The folder of recordings: what is in it, kept fresh, read through names only.
//!
//! A request names a run; the name is looked up among the files that were found, and never becomes a path. Summaries
//! are kept by what the file is (size, time, inode, log) and by the program that judged it, also over a restart, in a
//! file that may be deleted at any time.

use super::Shop;
use super::summary::{Judged, Summary};
use lowtide_model::RunState;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Time between two looks at the folder.
const LOOK: Duration = Duration::from_secs(2);
/// Time between two looks at every file in it, those of finished runs as well.
const WHOLE: Duration = Duration::from_secs(30);
/// A run that goes on is summed up again at most this often.
const AGAIN: Duration = Duration::from_secs(5);
/// ... and at least this often, changed or not.
const QUIET: Duration = Duration::from_secs(15);
/// Folders below the given one that are looked through: one a node, say.
const DEEPEST: usize = 2;
/// Files beyond these are not shown.
const MOST_RUNS: usize = 50_000;

/// What tells one state of a file from another.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Content {
    size: u64,
    changed_ns: i128,
    inode: u64,
    log_size: u64,
    log_changed_ns: i128,
}

impl Content {
    /// Of a plain file; links and other things have none.
    pub(crate) fn of(path: &Path) -> Option<Self> {
        let found = std::fs::symlink_metadata(path).ok().filter(std::fs::Metadata::is_file)?;
        let mut log = path.as_os_str().to_owned();
        log.push("-wal");
        let log = std::fs::symlink_metadata(log).ok().filter(std::fs::Metadata::is_file);
        let changed = |found: &std::fs::Metadata| {
            i128::from(found.mtime()) * 1_000_000_000 + i128::from(found.mtime_nsec())
        };
        Some(Self {
            size: found.len(),
            changed_ns: changed(&found),
            inode: found.ino(),
            log_size: log.as_ref().map_or(0, std::fs::Metadata::len),
            log_changed_ns: log.as_ref().map_or(0, changed),
        })
    }

    /// As an entity tag.
    pub(crate) fn tag(&self) -> String {
        format!("\"{:x}-{:x}-{:x}-{:x}\"", self.inode, self.size, self.changed_ns, self.log_changed_ns)
    }
}

#[derive(Clone, Debug)]
struct Entry {
    path: PathBuf,
    content: Content,
    /// Of which content; a run that goes on may lag a little.
    summed: Option<(Content, Instant, Arc<Summary>)>,
}

impl Entry {
    /// Whether nothing is expected of it any more.
    fn rests(&self) -> bool {
        let over = |summary: &Summary| summary.state == Some(RunState::Finished);
        self.summed.as_ref().is_some_and(|(content, _, summary)| *content == self.content && over(summary))
    }
}

/// Which runs are asked for their state.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Depth {
    /// Those that are new, go on, or can't be read.
    Moving,
    /// Every one.
    All,
}

/// The summaries as they are kept on disk.
#[derive(Default, Serialize, Deserialize)]
struct Kept {
    engine: String,
    runs: BTreeMap<String, (Content, Summary)>,
}

/// All runs of a folder.
#[derive(Debug)]
pub(crate) struct Library {
    dir: PathBuf,
    entries: Mutex<BTreeMap<String, Entry>>,
    cache: Option<PathBuf>,
}

impl Library {
    pub(crate) fn open(dir: &Path) -> std::io::Result<Self> {
        let dir = std::fs::canonicalize(dir)?;
        std::fs::read_dir(&dir)?;
        let library = Self { cache: cache_file(&dir), entries: Mutex::default(), dir };
        library.look(Depth::All);
        library.restore();
        Ok(library)
    }

    pub(crate) fn dir(&self) -> &Path {
        &self.dir
    }

    fn entries(&self) -> MutexGuard<'_, BTreeMap<String, Entry>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Where a run lies, by its name; nothing that was not found in the folder, and no link.
    pub(crate) fn path(&self, id: &str) -> Option<(PathBuf, Content)> {
        let path = self.entries().get(id).map(|entry| entry.path.clone())?;
        let content = Content::of(&path)?;
        Some((path, content))
    }

    /// All summaries; a run that was not read yet has its name only.
    pub(crate) fn all(&self) -> Vec<Arc<Summary>> {
        let waiting = |id: &String| Arc::new(Summary { error: None, ..Summary::broken(id, String::new()) });
        let entries = self.entries();
        entries
            .iter()
            .map(|(id, entry)| entry.summed.as_ref().map_or_else(|| waiting(id), |s| Arc::clone(&s.2)))
            .collect()
    }

    /// Finds what came, went and changed. A finished run is not asked for its state at every look: ten thousand of
    /// them would be twenty thousand questions to a file server every two seconds.
    fn look(&self, depth: Depth) {
        let mut found = BTreeMap::new();
        walk(&self.dir, &self.dir, DEEPEST, &mut found);
        let rests: BTreeMap<String, Content> = match depth {
            Depth::All => BTreeMap::new(),
            Depth::Moving => {
                let entries = self.entries();
                let rests = entries.iter().filter(|(_, entry)| entry.rests());
                rests.map(|(id, entry)| (id.clone(), entry.content)).collect()
            }
        };
        let state = |(id, path): (String, PathBuf)| {
            let content = rests.get(&id).copied().or_else(|| Content::of(&path))?;
            Some((id, (path, content)))
        };
        let found: BTreeMap<String, (PathBuf, Content)> = found.into_iter().filter_map(state).collect();
        let mut entries = self.entries();
        entries.retain(|id, _| found.contains_key(id));
        for (id, (path, content)) in found {
            let entry = entries.entry(id).or_insert(Entry { path, content, summed: None });
            entry.content = content;
        }
    }

    /// The next run whose summary is missing or old.
    fn stale(&self) -> Option<(String, PathBuf, Content)> {
        let entries = self.entries();
        let old = |entry: &Entry| match &entry.summed {
            None => true,
            // A recorder that was killed changes its file no more.
            Some((content, when, summary)) => {
                let goes_on = summary.state == Some(RunState::Running) && when.elapsed() >= QUIET;
                goes_on || (*content != entry.content && when.elapsed() >= AGAIN)
            }
        };
        // Missing ones first, the newest of them first: that is the page people open.
        let missing = entries.iter().filter(|(_, entry)| entry.summed.is_none());
        let missing = missing.max_by_key(|(_, entry)| entry.content.changed_ns);
        let (id, entry) = missing.or_else(|| entries.iter().find(|(_, entry)| old(entry)))?;
        Some((id.clone(), entry.path.clone(), entry.content))
    }

    fn put(&self, id: &str, content: Content, summary: Summary) {
        if let Some(entry) = self.entries().get_mut(id) {
            entry.summed = Some((content, Instant::now(), Arc::new(summary)));
        }
    }

    /// Sums up what is stale, one after the other; tells whether there was anything.
    fn freshen(&self) -> bool {
        let Some((id, path, content)) = self.stale() else { return false };
        let summary = match Judged::read(&path) {
            Ok(judged) => judged.summary(&id),
            Err(error) => Summary::broken(&id, error.to_string()),
        };
        self.put(&id, content, summary);
        true
    }

    fn restore(&self) {
        let Some(text) = self.cache.as_ref().and_then(|file| std::fs::read(file).ok()) else { return };
        let Ok(kept) = serde_json::from_slice::<Kept>(&text) else { return };
        if kept.engine != engine() {
            return;
        }
        let mut entries = self.entries();
        for (id, (content, summary)) in kept.runs {
            // A run that went on may have ended without a word: it is looked at again.
            let sure = summary.state == Some(RunState::Finished);
            if let Some(entry) = entries.get_mut(&id).filter(|entry| sure && entry.content == content) {
                entry.summed = Some((content, Instant::now(), Arc::new(summary)));
            }
        }
    }

    /// Keeps the summaries over a restart. A cache that can't be written costs time, nothing else.
    pub(crate) fn save(&self) {
        let Some(file) = &self.cache else { return };
        let entries = self.entries();
        let runs = entries.iter().filter_map(|(id, entry)| {
            let (content, _, summary) = entry.summed.as_ref()?;
            Some((id.clone(), (*content, (**summary).clone())))
        });
        let kept = Kept { engine: engine(), runs: runs.collect() };
        drop(entries);
        let _ = write_private(file, &serde_json::to_vec(&kept).unwrap_or_default());
    }
}

fn write_private(file: &Path, bytes: &[u8]) -> std::io::Result<()> {
    use std::io::Write as _;
    use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
    let folder = file.parent().unwrap_or(Path::new("."));
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    let part = file.with_extension(format!("part-{}", std::process::id()));
    let _ = std::fs::remove_file(&part);
    let mut out = std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&part)?;
    out.write_all(bytes)?;
    std::fs::rename(&part, file)
}

/// What judged: another program may say something else of the same file.
fn engine() -> String {
    let own = std::env::current_exe().ok().and_then(|path| Content::of(&path));
    format!("{} {}", env!("CARGO_PKG_VERSION"), own.unwrap_or_default().tag())
}

fn cache_file(dir: &Path) -> Option<PathBuf> {
    let set = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let home = set("XDG_CACHE_HOME").or_else(|| set("HOME").map(|home| home.join(".cache")))?;
    let inode = std::fs::metadata(dir).ok().map(|found| (found.dev(), found.ino()))?;
    Some(home.join(format!("lowtide/summaries-{:x}-{:x}.json", inode.0, inode.1)))
}

/// Recordings by their names: plain files, found without asking for more than their kind.
fn walk(root: &Path, folder: &Path, deep: usize, found: &mut BTreeMap<String, PathBuf>) {
    let Ok(entries) = std::fs::read_dir(folder) else { return };
    for entry in entries.flatten() {
        let (path, kind) = (entry.path(), entry.file_type());
        let hidden = entry.file_name().to_string_lossy().starts_with('.');
        if found.len() >= MOST_RUNS || hidden {
            continue;
        }
        if kind.as_ref().is_ok_and(std::fs::FileType::is_dir) && deep > 1 {
            walk(root, &path, deep - 1, found);
        } else if path.extension().is_some_and(|extension| extension == "tide")
            && kind.is_ok_and(|kind| kind.is_file())
            && let Ok(inside) = path.strip_prefix(root)
        {
            let id = inside.with_extension("").to_string_lossy().into_owned();
            found.insert(id, path);
        }
    }
}

/// Looks at the folder again and again, and reads what is new, away from those who answer requests.
pub(super) async fn keep_fresh(shop: Arc<Shop>) {
    let (mut saved, mut whole) = (Instant::now(), Instant::now());
    loop {
        let own = Arc::clone(&shop);
        let depth = if whole.elapsed() >= WHOLE { Depth::All } else { Depth::Moving };
        if depth == Depth::All {
            whole = Instant::now();
        }
        let worked = tokio::task::spawn_blocking(move || {
            own.library.look(depth);
            let begun = Instant::now();
            let mut worked = false;
            while begun.elapsed() < LOOK && own.library.freshen() {
                worked = true;
            }
            worked
        });
        let worked = worked.await.unwrap_or(false);
        if worked && saved.elapsed() > 10 * LOOK {
            let own = Arc::clone(&shop);
            let _ = tokio::task::spawn_blocking(move || own.library.save()).await;
            saved = Instant::now();
        }
        tokio::time::sleep(if worked { Duration::from_millis(20) } else { LOOK }).await;
    }
}
