//! Writes a recording from a thread of its own, so that a slow, full or hung disk never delays sampling or stopping.
//!
//! `push` puts an entry into a bounded queue and returns; the thread commits in batches. What `Health::durable` names
//! survives SIGKILL. Not here: what is worth a row (the recorder's choice).

mod disk;
mod file;
mod place;
mod queue;
mod rows;
mod thin;
mod thread;

use crate::StoreError;
pub(crate) use file::one_file;
use lowtide_model::{
    CgroupRow, Event, GpuRow, HostRow, LimitHeld, Mark, Meta, Process, SampleRow, ScanRow, Tick,
};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;
use thread::Desk;

/// How long the disk may take for the first or the last word.
const PATIENCE: Duration = Duration::from_secs(10);

/// How long a writer that is dropped unfinished may take.
const SHORT_PATIENCE: Duration = Duration::from_secs(2);

/// Something to write.
#[derive(Clone, Debug, PartialEq)]
pub enum Entry {
    /// A process; one with the same key is replaced.
    Process(Process),
    /// A sample row.
    Sample(SampleRow),
    /// A cgroup row.
    Cgroup(CgroupRow),
    /// A host row.
    Host(HostRow),
    /// A GPU row.
    Gpu(GpuRow),
    /// A mark. Steps are thinned to one a second; the first, the newest and the last of each pass are kept.
    Mark(Mark),
    /// An event.
    Event(Event),
    /// What a process held.
    Scan(ScanRow),
    /// The limits, in place of those before.
    Limits(Vec<LimitHeld>),
    /// The header, in place of the one before.
    Meta(Box<Meta>),
}

/// How the asked file comes about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// It is written in place.
    Direct,
    /// Its file system cannot be written in place: the recording lies on local scratch and is copied this often.
    Snapshot {
        /// Time between two copies.
        every: Duration,
    },
}

/// How the writing goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Health {
    /// Every entry pushed before this tick was announced survives SIGKILL. `None`: nothing does yet, or no longer.
    pub durable: Option<Tick>,
    /// What is wrong now, in a sentence; `None` when all is well (again).
    pub trouble: Option<String>,
    /// Rows lost for want of room.
    pub dropped_rows: u64,
    /// Bytes handed to the file system so far, where the kernel counts them.
    pub written_bytes: Option<u64>,
    /// How the asked file comes about.
    pub kind: Kind,
}

/// What most writers leave as it is.
#[derive(Clone, Debug)]
pub struct Options {
    /// Record on scratch and copy, whatever the file system.
    pub always_snapshot: bool,
    /// Time between two copies.
    pub snapshot_every: Duration,
    /// Local folder to record in where the asked place cannot carry a live recording; else `$TMPDIR`, /tmp and kin.
    pub scratch: Option<PathBuf>,
}

impl Default for Options {
    fn default() -> Self {
        Self { always_snapshot: false, snapshot_every: Duration::from_mins(1), scratch: None }
    }
}

type Done = Receiver<Result<PathBuf, StoreError>>;

/// A recording being written.
#[derive(Debug)]
pub struct Writer {
    desk: Arc<Desk>,
    done: Done,
    path: PathBuf,
    closed: bool,
}

impl Writer {
    /// Begins a recording at `path`: mode 0600, folders made as needed (0700), no file ever replaced. Returns when a
    /// first write is proven.
    pub fn create(path: &Path, meta: Meta) -> Result<Self, StoreError> {
        Self::create_with(path, meta, Options::default())
    }

    /// `create`, otherwise than usual.
    pub fn create_with(path: &Path, meta: Meta, options: Options) -> Result<Self, StoreError> {
        let path = std::path::absolute(path).map_err(StoreError::io("resolve", path))?;
        let desk = Arc::new(Desk::default());
        let (opened, first) = channel();
        let (ended, done) = channel();
        let order = thread::Order { path: path.clone(), meta, options, desk: Arc::clone(&desk) };
        std::thread::Builder::new()
            .name("tide-writer".to_owned())
            .spawn(move || thread::run(order, &opened, &ended))
            .map_err(StoreError::io("start a thread to write", &path))?;
        wait(&first, PATIENCE, "create", &path)??;
        Ok(Self { desk, done, path, closed: false })
    }

    /// Hands over an entry. Never waits for a disk.
    pub fn push(&self, entry: Entry) {
        self.desk.push(entry);
    }

    /// Says that everything pushed so far belongs to ticks up to `tick`.
    pub fn announce(&self, tick: Tick) {
        self.desk.announce(tick);
    }

    /// Asks for a commit now (at most one a second) instead of at the next batch.
    pub fn flush_soon(&self) {
        self.desk.flush_soon();
    }

    /// How it goes.
    pub fn health(&self) -> Health {
        self.desk.health()
    }

    /// The place that was asked for.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Writes what is left and closes the file. `meta.state` should say `Finished`. Gives where the recording lies,
    /// or an error after 10 s on a disk that hangs.
    pub fn finish(mut self, meta: Meta) -> Result<PathBuf, StoreError> {
        self.closed = true;
        self.desk.close(Some(Box::new(meta)));
        wait(&self.done, PATIENCE, "finish", &self.path)?
    }
}

impl Drop for Writer {
    /// Writes what is left; without a last header the file says that it was cut off.
    fn drop(&mut self) {
        if !self.closed {
            self.desk.close(None);
            // The result has nobody to go to.
            let _ = self.done.recv_timeout(SHORT_PATIENCE);
        }
    }
}

fn wait<T>(
    from: &Receiver<T>,
    patience: Duration,
    doing: &'static str,
    path: &Path,
) -> Result<T, StoreError> {
    from.recv_timeout(patience).map_err(|error| match error {
        RecvTimeoutError::Timeout => {
            StoreError::TimedOut { doing, path: path.to_owned(), seconds: patience.as_secs() }
        }
        RecvTimeoutError::Disconnected => StoreError::WriterGone { path: path.to_owned() },
    })
}
