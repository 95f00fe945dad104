//! Asking processes to save and stop, through their pages: the only thing the recorder ever writes there.

use super::{Marks, name_of};
use lowtide_model::ProcKey;
use lowtide_wire::page;
use std::fs::OpenOptions;
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};

/// A process that honours a request to save and stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stopper {
    pub(crate) key: ProcKey,
    pub(crate) steps: u64,
    /// Whether it is one of several ranks, which have to stop together.
    pub(crate) several: bool,
}

/// A request to save and stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Request {
    pub(crate) number: u64,
    /// After which step; 0 is at once.
    pub(crate) stop_at: u64,
}

impl Marks {
    /// Processes that honour a request.
    pub(crate) fn stoppers(&self) -> impl Iterator<Item = Stopper> {
        let able = self.pages.iter().filter(|(_, page)| page.header().flags & page::CAN_STOP != 0);
        able.map(|(key, page)| {
            let header = page.header();
            let several = header.world_size.is_some_and(|size| size > 1);
            Stopper { key: *key, steps: header.steps, several }
        })
    }

    /// How many ranks can be asked here, and how many there are. One rank alone is one of one.
    pub(crate) fn ranks_that_stop(&self) -> (usize, usize) {
        let able = self.pages.values().filter(|page| page.header().flags & page::CAN_STOP != 0);
        let (mut here, mut ranks) = (0, 0);
        for page in able {
            here += 1;
            ranks = ranks.max(page.header().world_size.map_or(1, |size| size as usize));
        }
        (here, ranks)
    }

    /// Processes that mark steps: where a signal has to go.
    pub(crate) fn steppers(&self) -> impl Iterator<Item = ProcKey> {
        self.pages.iter().filter(|(_, page)| page.header().steps > 0).map(|(key, _)| *key)
    }

    /// The newest request a process took up, and the newest it carried out, also when it has ended since.
    pub(crate) fn answered(&self, key: ProcKey) -> (u64, u64) {
        let living = self.pages.get(&key).map(|page| page.header().requests);
        living.or_else(|| self.last_answers.get(&key).copied()).unwrap_or_default()
    }

    /// Asks one process. The number is stored last: it is what makes the request a new one.
    pub(crate) fn ask(&self, key: ProcKey, request: Request) -> io::Result<()> {
        let Some(folder) = &self.folder else {
            return Err(io::ErrorKind::NotFound.into());
        };
        let flags = libc::O_NOFOLLOW | libc::O_CLOEXEC | libc::O_NONBLOCK | libc::O_NOCTTY;
        let file = OpenOptions::new().write(true).custom_flags(flags).open(folder.join(name_of(key)))?;
        let put = |at: usize, value: u64| file.write_all_at(&value.to_le_bytes(), at as u64);
        put(page::STOP_AT_STEP_AT, request.stop_at)?;
        put(page::REQUEST_AT, page::SAVE_AND_STOP)?;
        put(page::REQUEST_AT + 8, request.number)
    }
}
