//! The control socket: how other lowtide processes look at a running recorder.
//!
//! It lives in a private folder (0700) and is itself 0600. Nothing here blocks: a slow or silent client is dropped, so
//! that a stopped `lowtide watch` can never hold up the recording.

use lowtide_wire::{Answer, Ask, LineReader, Said, Snapshot, encode};
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags};
use std::fs::{DirBuilder, Permissions};
use std::io::{ErrorKind, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

/// More than this many watchers at once is a mistake.
const MOST_CLIENTS: usize = 32;
/// A client that has not read this much is dropped.
const MOST_PENDING: usize = 4 << 20;
/// A client of whom so many lines in a row could not be understood is no client of ours.
const MOST_NONSENSE: u32 = 100;
/// The socket's file name in the run's private folder.
pub const SOCKET_NAME: &str = "control.sock";

/// What a client can want to see.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wanted {
    History,
    Snapshot,
}

/// What clients said that is not answered at once.
#[derive(Debug, Default)]
pub(crate) struct Heard {
    pub(crate) marks: Vec<Said>,
    pub(crate) scans: Vec<ScanAsked>,
    pub(crate) squeezes: Vec<SqueezeAsked>,
}

/// Somebody wants to know what cleaning up gives back.
#[derive(Debug)]
pub(crate) struct SqueezeAsked {
    /// Who asked: where the answer goes.
    pub(crate) client: u64,
    pub(crate) pid: u32,
}

/// Somebody wants to know what a process holds.
#[derive(Debug)]
pub(crate) struct ScanAsked {
    /// Who asked: where the answer goes.
    pub(crate) client: u64,
    pub(crate) pid: u32,
    pub(crate) before: Option<serde_json::Value>,
}

struct Client {
    number: u64,
    stream: UnixStream,
    reader: LineReader,
    outgoing: Vec<u8>,
    follows: bool,
    /// Lines in a row that could not be understood.
    nonsense: u32,
    /// Close when everything is sent.
    last: bool,
    /// We are woken when it takes more.
    armed: bool,
}

/// The listening end.
pub(crate) struct ControlSocket {
    listener: UnixListener,
    path: PathBuf,
    clients: Vec<Client>,
    /// Clients so far.
    seen: u64,
    /// Readable when the listener or any client is.
    any: Epoll,
}

impl ControlSocket {
    /// Makes the private folder and listens in it.
    pub(crate) fn listen(folder: &Path) -> std::io::Result<Self> {
        DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
        let path = folder.join(SOCKET_NAME);
        let listener = UnixListener::bind(&path)?;
        std::fs::set_permissions(&path, Permissions::from_mode(0o600))?;
        listener.set_nonblocking(true)?;
        let any = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)?;
        any.add(&listener, EpollEvent::new(EpollFlags::EPOLLIN, 0))?;
        Ok(Self { listener, path, clients: Vec::new(), seen: 0, any })
    }

    /// Whether anybody wants a snapshot at every tick.
    pub(crate) fn followed(&self) -> bool {
        self.clients.iter().any(|client| client.follows)
    }

    /// Takes new clients and their questions; `show` is asked only for what somebody wants. Gives what else came.
    pub(crate) fn serve(&mut self, mut show: impl FnMut(Wanted) -> Answer) -> Heard {
        while let Ok((stream, _)) = self.listener.accept() {
            let heard = self.any.add(&stream, EpollEvent::new(EpollFlags::EPOLLIN, 0)).is_ok();
            if heard && self.clients.len() < MOST_CLIENTS && stream.set_nonblocking(true).is_ok() {
                let reader = LineReader::default();
                self.seen += 1;
                self.clients.push(Client {
                    number: self.seen,
                    stream,
                    reader,
                    outgoing: Vec::new(),
                    follows: false,
                    nonsense: 0,
                    last: false,
                    armed: false,
                });
            }
        }
        let mut heard = Heard::default();
        self.clients.retain_mut(|client| {
            let stays = client.hear(&mut show, &mut heard);
            client.send() && stays
        });
        self.arm();
        heard
    }

    /// The last answer to one client, which may have left meanwhile.
    pub(crate) fn answer_last(&mut self, number: u64, answer: &Answer) {
        self.clients.retain_mut(|client| {
            if client.number != number {
                return true;
            }
            client.answer(answer);
            client.last = true;
            client.send()
        });
        self.arm();
    }

    /// Has us woken when a client that could not take all of its answer can take more.
    fn arm(&mut self) {
        for client in &mut self.clients {
            let pending = !client.outgoing.is_empty();
            if client.armed != pending {
                let more = if pending { EpollFlags::EPOLLOUT } else { EpollFlags::empty() };
                let mut event = EpollEvent::new(EpollFlags::EPOLLIN | more, 0);
                client.armed = self.any.modify(&client.stream, &mut event).is_ok() && pending;
            }
        }
    }

    /// Gives every follower the job as it is now.
    pub(crate) fn publish(&mut self, snapshot: &Snapshot) {
        let line = encode(&Answer::Snapshot(Box::new(snapshot.clone())));
        self.clients.retain_mut(|client| {
            if client.follows {
                client.outgoing.extend_from_slice(&line);
            }
            client.send()
        });
        self.arm();
    }
}

impl Client {
    /// Reads what arrived and answers it. False when the client is gone. A line that can't be understood is answered as
    /// that: a job that marks must not be cut off by one wrong mark.
    fn hear(&mut self, show: &mut impl FnMut(Wanted) -> Answer, heard: &mut Heard) -> bool {
        let stays = self.take_in();
        // Also of one that left: a shell writes its mark and goes.
        while let Some(message) = self.reader.next_ask() {
            self.nonsense = if message.is_ok() { 0 } else { self.nonsense + 1 };
            match message {
                Ok(Ask::Status) => {
                    self.last = true;
                    self.answer(&show(Wanted::Snapshot));
                }
                Ok(Ask::Follow) => {
                    self.follows = true;
                    self.answer(&show(Wanted::History));
                    self.answer(&show(Wanted::Snapshot));
                }
                Ok(Ask::Mark(mark)) => {
                    heard.marks.push(mark);
                    self.answer(&Answer::Marked);
                }
                Ok(Ask::Scan { pid, before }) => {
                    heard.scans.push(ScanAsked { client: self.number, pid, before });
                }
                Ok(Ask::Squeeze { pid }) => {
                    heard.squeezes.push(SqueezeAsked { client: self.number, pid });
                }
                Err(error) => {
                    self.answer(&Answer::Error { text: error.to_string() });
                    if self.nonsense >= MOST_NONSENSE {
                        self.last = true;
                        break;
                    }
                }
            }
        }
        stays
    }

    fn take_in(&mut self) -> bool {
        let mut buffer = [0; 4096];
        loop {
            match self.stream.read(&mut buffer) {
                Ok(0) => return false,
                Ok(length) if self.reader.feed(&buffer[..length]).is_err() => return false,
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return true,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => return false,
            }
        }
    }

    fn answer(&mut self, answer: &Answer) {
        self.outgoing.extend(encode(answer));
    }

    /// Sends what the client will take. False when it is gone, full, or was served its last.
    fn send(&mut self) -> bool {
        while !self.outgoing.is_empty() {
            match self.stream.write(&self.outgoing) {
                Ok(0) => return false,
                Ok(length) => drop(self.outgoing.drain(..length)),
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    return self.outgoing.len() < MOST_PENDING;
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => return false,
            }
        }
        !self.last
    }
}

impl AsFd for ControlSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.any.0.as_fd()
    }
}

impl Drop for ControlSocket {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
        if let Some(folder) = self.path.parent() {
            let _ = std::fs::remove_dir(folder);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{BufRead, BufReader};

    /// Whether the socket wakes the loop at once.
    fn wakes(socket: &ControlSocket) -> bool {
        let mut events = [EpollEvent::empty(); 1];
        socket.any.wait(&mut events, 10_u8).is_ok_and(|ready| ready > 0)
    }

    #[test]
    fn an_answer_larger_than_the_kernels_buffer_is_sent_to_its_end_without_a_tick() {
        let folder = tempfile::tempdir().unwrap();
        let mut socket = ControlSocket::listen(&folder.path().join("run")).unwrap();
        let mut client = UnixStream::connect(folder.path().join("run").join(SOCKET_NAME)).unwrap();
        client.write_all(b"{\"ask\":\"status\"}\n").unwrap();
        let long = Snapshot { name: "x".repeat(3 << 20), ..Snapshot::default() };
        let mut show = |_| Answer::Snapshot(Box::new(long.clone()));
        let reader = std::thread::spawn(move || {
            let mut text = String::new();
            client.read_to_string(&mut text).map(|_| text)
        });
        while !reader.is_finished() {
            if wakes(&socket) {
                socket.serve(&mut show);
            }
        }
        assert!(reader.join().unwrap().unwrap().len() > 3 << 20);
    }

    #[test]
    fn a_mark_of_a_client_that_left_at_once_is_heard() {
        let folder = tempfile::tempdir().unwrap();
        let mut socket = ControlSocket::listen(&folder.path().join("run")).unwrap();
        let mut client = UnixStream::connect(folder.path().join("run").join(SOCKET_NAME)).unwrap();
        client.write_all(b"mark step 7\nmark epoch 1 start\n").unwrap();
        drop(client);
        let said = socket.serve(|_| Answer::Marked).marks;
        assert_eq!(said.iter().map(|mark| mark.number).collect::<Vec<_>>(), [Some(7.0), Some(1.0)]);
        assert!(!wakes(&socket), "and it is forgotten");
    }

    #[test]
    fn a_wrong_line_is_answered_and_the_next_mark_is_heard() {
        let folder = tempfile::tempdir().unwrap();
        let mut socket = ControlSocket::listen(&folder.path().join("run")).unwrap();
        let client = UnixStream::connect(folder.path().join("run").join(SOCKET_NAME)).unwrap();
        let mut lines = BufReader::new(&client).lines();
        (&client).write_all(b"mark step x y\n").unwrap();
        assert!(socket.serve(|_| Answer::Marked).marks.is_empty());
        assert!(lines.next().unwrap().unwrap().contains("not a mark"));
        (&client).write_all(b"mark step 7\n").unwrap();
        assert_eq!(socket.serve(|_| Answer::Marked).marks.len(), 1);
        assert!(lines.next().unwrap().unwrap().contains("marked"));
        (&client).write_all("GET / HTTP/1.1\n".repeat(MOST_NONSENSE as usize).as_bytes()).unwrap();
        socket.serve(|_| Answer::Marked);
        assert_eq!(lines.count(), MOST_NONSENSE as usize, "who speaks only nonsense is let go in the end");
    }
}
