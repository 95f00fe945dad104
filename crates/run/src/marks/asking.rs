//! Asking processes to save and stop, or to clean up, through their pages: the only thing the recorder ever writes there.

use super::{Marks, name_of};
use lowtide_model::ProcKey;
use lowtide_wire::page::{self, AgentState};
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};

/// A process that honours a request to save and stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stopper {
    pub(crate) key: ProcKey,
    pub(crate) steps: u64,
    /// The newest request that came too late for it.
    pub(crate) missed: u64,
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

/// Why an agent can't be asked to clean up.
#[derive(Debug)]
pub(crate) enum SqueezeRefusal {
    NoAgent,
    Withdrew,
    Cannot,
    Stopping,
    Unwritable(io::Error),
}

fn put(file: &File, at: usize, value: u64) -> io::Result<()> {
    file.write_all_at(&value.to_le_bytes(), at as u64)
}

impl Marks {
    /// Processes that honour a request.
    pub(crate) fn stoppers(&self) -> impl Iterator<Item = Stopper> {
        let able = self.pages.iter().filter(|(_, page)| page.header().flags & page::CAN_STOP != 0);
        able.map(|(key, page)| {
            let header = page.header();
            let several = header.world_size.is_some_and(|size| size > 1);
            Stopper { key: *key, steps: header.steps, missed: header.missed, several }
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

    /// A number that no request to any process had.
    pub(crate) fn next_number(&mut self) -> u64 {
        let headers = self.pages.values().map(super::Page::header);
        let seen = headers.map(|header| header.asked.1.max(header.requests.0).max(header.requests.1)).max();
        self.numbered = self.numbered.max(seen.unwrap_or(0)).saturating_add(1);
        self.numbered
    }

    /// Asks one process. The number is stored last: it is what makes the request a new one.
    pub(crate) fn ask(&self, key: ProcKey, request: Request) -> io::Result<()> {
        let file = self.writable(key)?;
        put(&file, page::STOP_AT_STEP_AT, request.stop_at)?;
        put(&file, page::REQUEST_AT, page::SAVE_AND_STOP)?;
        put(&file, page::REQUEST_AT + 8, request.number)
    }

    /// Asks the agent of a process to clean up. Gives the number of the request.
    pub(crate) fn ask_squeeze(&mut self, key: ProcKey) -> Result<u64, SqueezeRefusal> {
        let number = self.next_number();
        let header = self.pages.get(&key).ok_or(SqueezeRefusal::NoAgent)?.header();
        if header.state == AgentState::Off {
            return Err(SqueezeRefusal::Withdrew);
        }
        if header.flags & page::CAN_SQUEEZE == 0 {
            return Err(SqueezeRefusal::Cannot);
        }
        if header.asked.0 == page::SAVE_AND_STOP && header.asked.1 > header.requests.1 {
            return Err(SqueezeRefusal::Stopping);
        }
        let asked = self.writable(key).and_then(|file| {
            put(&file, page::REQUEST_AT, page::SQUEEZE)?;
            put(&file, page::REQUEST_AT + 8, number)
        });
        asked.map(|()| number).map_err(SqueezeRefusal::Unwritable)
    }

    /// Takes the request to clean up back, if it is still the newest.
    pub(crate) fn withdraw(&self, key: ProcKey, number: u64) {
        let asked = self.pages.get(&key).map(|page| page.header().asked);
        if asked == Some((page::SQUEEZE, number)) {
            // A page that can't be written any more is read no more either.
            let _ = self.writable(key).and_then(|file| put(&file, page::REQUEST_AT, 0));
        }
    }

    /// The newest request to a process, and its newest step; nothing when it has no page any more.
    pub(crate) fn asked(&self, key: ProcKey) -> Option<(u64, u64)> {
        self.pages.get(&key).map(|page| (page.header().asked.1, page.header().steps))
    }

    fn writable(&self, key: ProcKey) -> io::Result<File> {
        let Some(folder) = &self.folder else {
            return Err(io::ErrorKind::NotFound.into());
        };
        let flags = libc::O_NOFOLLOW | libc::O_CLOEXEC | libc::O_NONBLOCK | libc::O_NOCTTY;
        OpenOptions::new().write(true).custom_flags(flags).open(folder.join(name_of(key)))
    }
}
