//! The writer's thread and the desk between it and the recorder.
//!
//! The desk's lock is held for moving entries only, never over a disk operation. Quiet data is committed every 5 s;
//! something notable at once, but not more than once a second.

use super::disk::{Disk, Standing};
use super::queue::{BOUND_BYTES, Batch, Queue};
use super::{Entry, Health, Kind, Options};
use crate::StoreError;
use lowtide_model::{Meta, Tick};
use std::path::PathBuf;
use std::sync::mpsc::Sender;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Quiet data may wait this long: each commit writes whole pages.
const QUIET: Duration = Duration::from_secs(5);

/// Two commits are at least this far apart, however notable.
const SOON: Duration = Duration::from_secs(1);

/// A disk that failed is asked again after this long.
const RETRY: Duration = Duration::from_secs(2);

/// A queue this heavy is written without waiting.
const HEAVY_BYTES: usize = BOUND_BYTES / 8;

/// Where the recorder leaves entries and reads how it goes.
#[derive(Debug, Default)]
pub(crate) struct Desk {
    state: Mutex<State>,
    bell: Condvar,
}

#[derive(Debug, Default)]
struct State {
    queue: Queue,
    urgent: bool,
    closing: bool,
    failing: bool,
    durable: Option<Tick>,
    trouble: Option<String>,
    written_bytes: Option<u64>,
    snapshot_every: Option<Duration>,
}

impl Desk {
    fn lock(&self) -> MutexGuard<'_, State> {
        // A panic elsewhere leaves the queue whole: every change of it is one step.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn push(&self, entry: Entry) {
        let mut state = self.lock();
        let was_heavy = state.queue.bytes() >= HEAVY_BYTES;
        state.queue.push(entry);
        if !was_heavy && state.queue.bytes() >= HEAVY_BYTES {
            self.bell.notify_all();
        }
    }

    pub(crate) fn announce(&self, tick: Tick) {
        self.lock().queue.announce(tick);
    }

    pub(crate) fn flush_soon(&self) {
        self.lock().urgent = true;
        self.bell.notify_all();
    }

    pub(crate) fn close(&self, meta: Option<Box<Meta>>) {
        let mut state = self.lock();
        if let Some(meta) = meta {
            state.queue.push(Entry::Meta(meta));
        }
        state.closing = true;
        self.bell.notify_all();
    }

    pub(crate) fn health(&self) -> Health {
        let state = self.lock();
        Health {
            durable: state.durable,
            trouble: state.trouble.clone(),
            dropped_rows: state.queue.dropped(),
            written_bytes: state.written_bytes,
            kind: state.snapshot_every.map_or(Kind::Direct, |every| Kind::Snapshot { every }),
        }
    }

    /// Waits until something is due, and takes it.
    fn next(&self, last_commit: Instant) -> (Batch, bool) {
        let mut state = self.lock();
        loop {
            let wait = state.due_in(last_commit.elapsed());
            if wait.is_zero() {
                state.urgent = false;
                let closing = state.closing;
                return (state.queue.take(), closing);
            }
            state = self.bell.wait_timeout(state, wait).unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

impl State {
    /// A batch is written.
    fn settle(&mut self, batch: &Batch, standing: Standing) {
        self.queue.written();
        self.trouble = standing.trouble;
        self.snapshot_every = standing.snapshot_every;
        if batch.whole {
            self.durable = standing.durable;
        }
    }

    /// How long the next commit may still wait.
    fn due_in(&self, since_commit: Duration) -> Duration {
        if self.closing {
            return Duration::ZERO;
        }
        let gap = if self.failing {
            RETRY
        } else if self.queue.bytes() >= HEAVY_BYTES {
            Duration::ZERO
        } else if self.urgent {
            SOON
        } else {
            QUIET
        };
        gap.saturating_sub(since_commit)
    }
}

/// What the thread is to do.
pub(crate) struct Order {
    pub(crate) path: PathBuf,
    pub(crate) meta: Meta,
    pub(crate) options: Options,
    pub(crate) desk: Arc<Desk>,
}

/// The thread: creates the file, says so, writes until it is closed, and says where the recording lies.
pub(crate) fn run(
    order: Order,
    opened: &Sender<Result<(), StoreError>>,
    ended: &Sender<Result<PathBuf, StoreError>>,
) {
    // Sending fails only when the recorder no longer waits; then there is nobody to tell.
    let mut disk = match Disk::create(&order.path, order.meta, order.options) {
        Ok(disk) => disk,
        Err(error) => return opened.send(Err(error)).unwrap_or(()),
    };
    order.desk.lock().snapshot_every = disk.snapshot_every();
    let _ = opened.send(Ok(()));
    let last = write_until_closed(&order.desk, &mut disk);
    let _ = ended.send(last.map(|announced| disk.close(announced)));
}

fn write_until_closed(desk: &Desk, disk: &mut Disk) -> Result<Option<Tick>, StoreError> {
    // The first rows are the most precious: they wait for nothing.
    let begun = Instant::now();
    let mut last_commit = begun.checked_sub(SOON).unwrap_or(begun);
    loop {
        let (batch, closing) = desk.next(last_commit);
        let result = disk.commit(&batch, Instant::now());
        last_commit = Instant::now();
        let written_bytes = disk.written_bytes();
        let mut state = desk.lock();
        state.written_bytes = written_bytes;
        state.failing = result.is_err();
        match result {
            Ok(standing) => {
                state.settle(&batch, standing);
                if closing && batch.whole {
                    return Ok(batch.announced);
                }
            }
            Err(error) => {
                state.trouble = Some(said(&error));
                state.queue.put_back(batch);
                if closing && !disk.leave() {
                    return Err(error);
                }
            }
        }
    }
}

/// An error with its cause, in one sentence.
fn said(error: &StoreError) -> String {
    let mut text = error.to_string();
    let mut cause = std::error::Error::source(error);
    while let Some(inner) = cause {
        text.push_str(": ");
        text.push_str(&inner.to_string());
        cause = inner.source();
    }
    text
}
