//! What the job says of itself, taken from the pages that agents write: one private file a process.
//!
//! New pages are told by inotify, or found by listing the folder where that is not to be had. A tick costs one read of
//! 544 bytes a page and allocates nothing while nothing changed. A page is read a last time when its process has ended
//! and then removed, so that no mark is lost at an exit and a fork storm fills no memory. Not here: the layout (see
//! `wire::page`), and what a mark means.

mod asking;
mod reader;

pub(crate) use asking::{Request, SqueezeRefusal, Stopper};
use lowtide_model::{Event, EventKind, Mark, MarkKind, MarkPhase, ProcKey, Tick};
use lowtide_store::Entry;
use lowtide_wire::page::AgentState;
use lowtide_wire::{Progress, Said};
use nix::sys::inotify::{AddWatchFlags, InitFlags, Inotify};
pub(crate) use reader::Moment;
use reader::{Page, Refusal, phase_after};
use std::collections::BTreeMap;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// A page whose process the tree does not know yet waits this long for it.
const PATIENCE: Duration = Duration::from_secs(3);
/// Pages that may wait at once; more are strangers' work.
const MOST_WAITING: usize = 1024;
/// Where inotify is not to be had the folder is listed this often.
const LIST_EVERY: Duration = Duration::from_secs(2);

/// The pages of the job.
#[derive(Default)]
pub(crate) struct Marks {
    folder: Option<PathBuf>,
    notices: Option<Inotify>,
    pages: BTreeMap<ProcKey, Page>,
    waiting: Vec<(ProcKey, Tick)>,
    listed: Option<Tick>,
    /// How far the job was as far as processes that are gone, shells and output say.
    before: Progress,
    /// When the first page came.
    first: Option<Tick>,
    /// What processes that are gone had answered to requests.
    last_answers: BTreeMap<ProcKey, (u64, u64)>,
    /// The newest number of a request, whatever it was for: an agent takes a request for new when its number is.
    numbered: u64,
}

impl Marks {
    /// Reads the pages of this folder from now on. A folder that is not private to this user is none.
    pub(crate) fn of(folder: Option<PathBuf>) -> Self {
        let folder = folder.filter(|folder| is_private(folder));
        let notices = folder.as_deref().and_then(notices);
        Self { folder, notices, ..Self::default() }
    }

    /// Readable when pages came.
    pub(crate) fn notices(&self) -> Option<BorrowedFd<'_>> {
        self.notices.as_ref().map(AsFd::as_fd)
    }

    /// The place where pages come, if there is one.
    pub(crate) fn folder(&self) -> Option<&Path> {
        self.folder.as_deref()
    }

    /// Processes with a page.
    pub(crate) fn agents(&self) -> usize {
        self.pages.len()
    }

    /// Whether this process has a page.
    pub(crate) fn knows(&self, key: ProcKey) -> bool {
        self.pages.contains_key(&key)
    }

    /// When the first page came, if one did.
    pub(crate) fn first(&self) -> Option<Tick> {
        self.first
    }

    /// Whether some framework was hooked.
    pub(crate) fn hooked(&self) -> bool {
        self.pages.values().any(|page| page.state() == AgentState::Hooked)
    }

    /// How far the job is, as the leading rank says it.
    pub(crate) fn progress(&self) -> Option<Progress> {
        let speaking = self.pages.values().filter(|page| page.progress().step.is_some());
        let lead = speaking.min_by_key(|page| page.rank().unwrap_or(u32::MAX));
        let now = lead.map_or(self.before, Page::progress);
        (now != Progress::default()).then_some(now)
    }

    /// Takes note of pages that came.
    pub(crate) fn hear(&mut self, now: Tick) {
        let Some(notices) = &self.notices else { return };
        let Ok(events) = notices.read_events() else { return };
        if events.iter().any(|event| event.mask.contains(AddWatchFlags::IN_Q_OVERFLOW)) {
            self.listed = None;
        }
        for event in events {
            self.came(event.name.as_deref().and_then(std::ffi::OsStr::to_str), now);
        }
    }

    fn came(&mut self, name: Option<&str>, now: Tick) {
        if let Some(key) = name.and_then(key_of)
            && self.waiting.len() < MOST_WAITING
        {
            self.waiting.retain(|(known, _)| *known != key);
            self.waiting.push((key, now));
        }
    }

    /// One look at everything: new pages, then what moved. `lives` tells who belongs to the job.
    pub(crate) fn read(&mut self, moment: Moment, lives: impl Fn(ProcKey) -> bool, out: &mut Vec<Entry>) {
        if self.folder.is_none() {
            return;
        }
        self.list_when_due(moment.now);
        if !self.waiting.is_empty() {
            self.let_in(moment, &lives, out);
        }
        let (begin, mut broken) = (out.len(), None);
        for (key, page) in &mut self.pages {
            if let Err(refusal) = page.read(moment, out) {
                out.push(note(moment.now, Some(*key), refusal.words(*key)));
                broken = Some(*key);
            }
        }
        // As they happened, whichever page they came from.
        if out.len() > begin + 1 {
            out[begin..].sort_by_key(tick_of);
        }
        // One a tick is enough: the next tick finds the next.
        if let Some(page) = broken.and_then(|key| self.pages.remove(&key)) {
            self.keep_progress(&page);
        }
    }

    /// A process ended: its page is read a last time, also when nobody had seen it yet.
    pub(crate) fn ended(&mut self, key: ProcKey, moment: Moment, out: &mut Vec<Entry>) {
        let Some(folder) = &self.folder else { return };
        self.waiting.retain(|(known, _)| *known != key);
        let known = self.pages.remove(&key);
        let path = folder.join(name_of(key));
        let Some(mut page) = known.or_else(|| Page::open(&path, key).ok()) else { return };
        self.first.get_or_insert(moment.now);
        page.read_last(moment, out);
        if page.header().requests.0 > 0 {
            self.last_answers.insert(key, page.header().requests);
        }
        self.keep_progress(&page);
        let _ = std::fs::remove_file(path);
    }

    /// The recording ends: everything once more. Pages of processes that run on stay for the next recorder.
    pub(crate) fn rest(&mut self, moment: Moment, lives: impl Fn(ProcKey) -> bool, out: &mut Vec<Entry>) {
        self.hear(moment.now);
        self.listed = None;
        self.read(moment, lives, out);
        let pages = std::mem::take(&mut self.pages);
        for mut page in pages.into_values() {
            page.read_last(moment, out);
            self.keep_progress(&page);
        }
    }

    /// A mark that came over the socket.
    pub(crate) fn said(&mut self, said: Said, now: Tick) -> Option<Mark> {
        let said = said.checked()?;
        let step = self.progress().and_then(|progress| progress.step);
        let number = said.number.or(step).unwrap_or(0.0);
        self.before.phase = phase_after(self.before.phase, said.kind, said.phase);
        if said.kind == MarkKind::Step {
            self.before.step = Some(number);
        } else if said.kind == MarkKind::Epoch && said.phase != MarkPhase::End {
            self.before.epoch = said.number;
        }
        let Said { kind, phase, rank, extra, .. } = said;
        Some(Mark { tick: now, process: None, kind, phase, number, rank, extra })
    }

    fn keep_progress(&mut self, page: &Page) {
        let last = page.progress();
        if last.step >= self.before.step && last.step.is_some() {
            self.before = Progress { phase: lowtide_wire::Phase::Training, ..last };
        }
    }

    fn list_when_due(&mut self, now: Tick) {
        let due = match self.listed {
            None => true,
            Some(listed) => self.notices.is_none() && now.since(listed) >= LIST_EVERY,
        };
        if !due {
            return;
        }
        self.listed = Some(now);
        let entries = self.folder.as_deref().map(std::fs::read_dir).into_iter().flatten().flatten();
        for name in entries.filter_map(Result::ok).map(|entry| entry.file_name()) {
            let known = name.to_str().and_then(key_of).is_some_and(|key| self.knows(key));
            if !known {
                self.came(name.to_str(), now);
            }
        }
    }

    /// Opens the pages of processes that the tree knows; the others wait for it to learn of them.
    fn let_in(&mut self, moment: Moment, lives: &impl Fn(ProcKey) -> bool, out: &mut Vec<Entry>) {
        let waiting = std::mem::take(&mut self.waiting);
        for (key, since) in waiting {
            if lives(key) {
                self.open(key, moment, out);
            } else if moment.now.since(since) < PATIENCE {
                self.waiting.push((key, since));
            } else {
                let text = format!("a mark page says it is of process {}, which is not of this job", key.pid);
                out.push(note(moment.now, None, text));
            }
        }
    }

    fn open(&mut self, key: ProcKey, moment: Moment, out: &mut Vec<Entry>) {
        let Some(folder) = &self.folder else { return };
        match Page::open(&folder.join(name_of(key)), key) {
            Ok(page) => {
                self.first.get_or_insert(moment.now);
                // The same process with a new page is a new program after an exec.
                if let Some(mut old) = self.pages.insert(key, page) {
                    old.read_last(moment, out);
                }
            }
            Err(Refusal::Gone) => {}
            Err(refusal) => out.push(note(moment.now, Some(key), refusal.words(key))),
        }
    }
}

fn tick_of(entry: &Entry) -> Tick {
    match entry {
        Entry::Mark(mark) => mark.tick,
        Entry::Event(event) => event.tick,
        Entry::Process(_)
        | Entry::Sample(_)
        | Entry::Cgroup(_)
        | Entry::Host(_)
        | Entry::Gpu(_)
        | Entry::Scan(_)
        | Entry::Limits(_)
        | Entry::Meta(_) => Tick::START,
    }
}

fn note(tick: Tick, process: Option<ProcKey>, text: String) -> Entry {
    Entry::Event(Event { tick, kind: EventKind::Note, process, text, data: None })
}

fn notices(folder: &Path) -> Option<Inotify> {
    let inotify = Inotify::init(InitFlags::IN_CLOEXEC | InitFlags::IN_NONBLOCK).ok()?;
    inotify.add_watch(folder, AddWatchFlags::IN_MOVED_TO | AddWatchFlags::IN_ONLYDIR).ok()?;
    Some(inotify)
}

/// Whether this is a folder that only this user can reach into.
pub(crate) fn is_private(folder: &Path) -> bool {
    let found = std::fs::symlink_metadata(folder);
    found.is_ok_and(|found| {
        found.is_dir() && found.uid() == nix::unistd::geteuid().as_raw() && found.mode().trailing_zeros() >= 6
    })
}

/// A page's file name: `PID.START`.
pub(crate) fn name_of(key: ProcKey) -> String {
    format!("{}.{}", key.pid, key.start_ticks)
}

fn key_of(name: &str) -> Option<ProcKey> {
    let (pid, start) = name.split_once('.')?;
    let key = ProcKey { pid: pid.parse().ok()?, start_ticks: start.parse().ok()? };
    (name_of(key) == name).then_some(key)
}

#[cfg(test)]
mod tests;
#[cfg(test)]
pub(crate) use tests::lay_page;
