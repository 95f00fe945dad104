//! How forks, execs and exits are learnt, so that a process of 20 ms is seen as surely as one of a week.
//!
//! Three sources, best first: the proc connector (everybody's processes, with exit codes), perf task records (our
//! own children only, no exit codes), and listing /proc. The first two are silent instead of failing where a
//! namespace or a sandbox is in the way, so each has to prove itself when opened: a child is started and its life
//! must be seen. See docs/decisions/0002-process-events.md. Not here: who belongs to the job (see `tree`).

mod connector;
pub(crate) mod listing;
mod perf;
pub(crate) mod trial;

use crate::Root;
use connector::Connector;
use lowtide_model::{Exit, Reading};
use perf::Perf;
use std::os::fd::BorrowedFd;

pub use lowtide_model::Source;

/// Names a source (`connector`, `perf`, `listing`) to try instead of the best one.
pub const SOURCE_VARIABLE: &str = "LOWTIDE_TASK_EVENTS";

/// Something in the life of a process. Threads are left out. Times are nanoseconds on the boot clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TaskEvent {
    /// A process was made.
    Fork {
        /// By whom: the parent the kernel gave it.
        parent: u32,
        /// Its pid.
        child: u32,
        /// When.
        at: Option<u64>,
    },
    /// A process became another program.
    Exec {
        /// Its pid.
        pid: u32,
        /// When.
        at: Option<u64>,
    },
    /// The first thread of a process ended. Mostly that is the end of the process; not when other threads go on
    /// or another thread called exec.
    Exit {
        /// Its pid.
        pid: u32,
        /// When.
        at: Option<u64>,
        /// How, where the source tells.
        exit: Option<Exit>,
    },
}

impl TaskEvent {
    /// When it happened.
    pub const fn at(&self) -> Option<u64> {
        match self {
            Self::Fork { at, .. } | Self::Exec { at, .. } | Self::Exit { at, .. } => *at,
        }
    }
}

/// Whose processes matter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// Those that the calling thread will start after opening the feed, and all below.
    OwnChildren,
    /// Any process on the machine.
    Anybody,
}

/// What came of a drain.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Drained {
    /// Whether the kernel had to throw events away: list /proc to find out what they were.
    pub lost: bool,
}

/// The stream of events from one source.
#[derive(Debug)]
pub struct Feed {
    inner: Inner,
}

#[derive(Debug)]
enum Inner {
    Connector(Connector),
    Perf(Perf),
    Listing,
}

impl Feed {
    /// Opens the best source that proves itself. For [`Scope::OwnChildren`] call it on the thread that will start
    /// the job, before it is started. Takes a few milliseconds.
    pub fn open(root: &Root, scope: Scope) -> Self {
        if let Some(feed) = asked_for().and_then(|source| Self::open_as(root, source).known()) {
            return feed;
        }
        let mut sources = vec![Source::Connector];
        if scope == Scope::OwnChildren {
            sources.push(Source::Perf);
        }
        let best = sources.into_iter().find_map(|source| Self::open_as(root, source).known());
        best.unwrap_or(Self { inner: Inner::Listing })
    }

    /// Opens this source, or says why it cannot be had. A made-up tree has no events: it can only be listed.
    pub fn open_as(root: &Root, source: Source) -> Reading<Self> {
        let live = *root == Root::live();
        let inner = match source {
            Source::Connector if live => Connector::open().map(Inner::Connector),
            Source::Perf if live => Perf::open().map(Inner::Perf),
            Source::Connector | Source::Perf => Reading::Unsupported,
            Source::Listing => Reading::Known(Inner::Listing),
        };
        inner.map(|inner| Self { inner })
    }

    /// Which source it is.
    pub const fn source(&self) -> Source {
        match self.inner {
            Inner::Connector(_) => Source::Connector,
            Inner::Perf(_) => Source::Perf,
            Inner::Listing => Source::Listing,
        }
    }

    /// Readable when there is something to drain. The unprivileged connector holds only a few hundred events:
    /// drain soon after this becomes readable, not only at ticks.
    pub fn fd(&self) -> Option<BorrowedFd<'_>> {
        match &self.inner {
            Inner::Connector(connector) => Some(connector.fd()),
            Inner::Perf(perf) => Some(perf.fd()),
            Inner::Listing => None,
        }
    }

    /// Appends all events that are waiting, in the order they happened. Listing never has any.
    pub fn drain(&mut self, out: &mut Vec<TaskEvent>) -> Drained {
        match &mut self.inner {
            Inner::Connector(connector) => connector.drain(out),
            Inner::Perf(perf) => perf.drain(out),
            Inner::Listing => Drained::default(),
        }
    }
}

fn asked_for() -> Option<Source> {
    match std::env::var(SOURCE_VARIABLE).ok()?.as_str() {
        "connector" => Some(Source::Connector),
        "perf" => Some(Source::Perf),
        "listing" => Some(Source::Listing),
        _ => None,
    }
}
