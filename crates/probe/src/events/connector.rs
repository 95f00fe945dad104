//! The kernel's proc connector: a netlink group that tells every fork, exec and exit on the machine.
//!
//! Root could always listen, others can from Linux 6.6 on. Outside the first pid and user namespace it stays mute.
//! A filter in the kernel drops threads and other event kinds, so foreign work does not wake us; from 6.6 on the
//! kernel does not even make the events that nobody asked for.
#![allow(unsafe_code, reason = "the connector's protocol and socket filters have no safe wrapper")]

use super::{Drained, TaskEvent, trial};
use crate::clock;
use crate::parse::exit_of;
use lowtide_model::Reading;
use nix::errno::Errno;
use nix::sys::socket::{self, MsgFlags, NetlinkAddr, SetSockOpt, sockopt};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

const GROUP_PROC: u32 = 1;
const LISTEN: u32 = 1;
const FORK: u32 = 0x1;
const EXEC: u32 = 0x2;
const EXIT: u32 = 0x8000_0000;

/// Where things lie in a message: 16 bytes of netlink header, 20 of connector header, then the event.
const SENDER: usize = 16;
const WHAT: usize = 36;
const STAMP: usize = 44;
const BODY: usize = 52;

/// Room for some ten thousand events: each takes about 1 KiB of the kernel's accounting.
const ROOM: usize = 8 << 20;

/// A monotonic stamp further from our own clock than this comes from another time namespace.
const SKEW_NS: u64 = 1_000_000_000;

#[derive(Debug)]
pub(super) struct Connector {
    socket: OwnedFd,
    /// Added to the kernel's stamps: the offset of our time namespace.
    skew_ns: i64,
}

impl Connector {
    pub(super) fn open() -> Reading<Self> {
        // Asking for three kinds of event only is understood from 6.6 on and ignored before: then ask for all.
        let asked = Self::listening(&[LISTEN, FORK | EXEC | EXIT]);
        if matches!(asked, Reading::Unsupported) { Self::listening(&[LISTEN]) } else { asked }
    }

    fn listening(request: &[u32]) -> Reading<Self> {
        match Self::bind().and_then(|connector| connector.ask(request).map(|()| connector)) {
            Ok(connector) => connector.proven(),
            Err(Errno::EPERM | Errno::EACCES) => Reading::Denied,
            Err(_) => Reading::Unsupported,
        }
    }

    fn bind() -> nix::Result<Self> {
        let kind = libc::SOCK_DGRAM | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
        // SAFETY: plain system call; the result is checked.
        let fd = Errno::result(unsafe { libc::socket(libc::AF_NETLINK, kind, libc::NETLINK_CONNECTOR) })?;
        // SAFETY: the call succeeded, so the descriptor is ours alone.
        let socket = unsafe { OwnedFd::from_raw_fd(fd) };
        // Forcing the size needs CAP_NET_ADMIN; asking for it is cut down to the system's limit.
        if sockopt::RcvBufForce.set(&socket, &ROOM).is_err() {
            sockopt::RcvBuf.set(&socket, &ROOM)?;
        }
        attach_filter(&socket)?;
        socket::bind(fd, &NetlinkAddr::new(0, GROUP_PROC))?;
        Ok(Self { socket, skew_ns: 0 })
    }

    fn ask(&self, request: &[u32]) -> nix::Result<()> {
        let body: Vec<u8> = request.iter().flat_map(|word| word.to_ne_bytes()).collect();
        let length = (WHAT + body.len()) as u32;
        let mut message = Vec::with_capacity(length as usize);
        // Netlink header: length, type NLMSG_DONE and no flags, sequence, sender.
        for word in [length, 3, 0, std::process::id()] {
            message.extend_from_slice(&word.to_ne_bytes());
        }
        // Connector header: index and value of the proc connector, sequence, ack, length and flags.
        for word in [GROUP_PROC, 1, 0, 0] {
            message.extend_from_slice(&u32::to_ne_bytes(word));
        }
        message.extend_from_slice(&(body.len() as u16).to_ne_bytes());
        message.extend_from_slice(&[0; 2]);
        message.extend_from_slice(&body);
        socket::send(self.socket.as_raw_fd(), &message, MsgFlags::empty()).map(drop)
    }

    fn proven(mut self) -> Reading<Self> {
        let before = clock::boot_ns();
        let told = trial::is_told(self.fd(), |events| {
            self.drain(events);
        });
        let Some(at) = told else {
            return Reading::Unsupported;
        };
        if at.abs_diff(before) > SKEW_NS {
            self.skew_ns = before.cast_signed().wrapping_sub(at.cast_signed());
        }
        Reading::Known(self)
    }

    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    pub(super) fn drain(&self, out: &mut Vec<TaskEvent>) -> Drained {
        let mut drained = Drained::default();
        let to_boot = clock::boot_minus_monotonic().cast_signed().saturating_add(self.skew_ns);
        let mut buffer = [0; 512];
        loop {
            match socket::recvfrom::<NetlinkAddr>(self.socket.as_raw_fd(), &mut buffer) {
                // Only the kernel has the address 0.
                Ok((count, sender)) if sender.is_some_and(|sender| sender.pid() == 0) => {
                    out.extend(buffer.get(..count).and_then(|message| event(message, to_boot)));
                }
                Ok(_) | Err(Errno::EINTR) => {}
                Err(Errno::ENOBUFS) => drained.lost = true,
                Err(_) => return drained,
            }
        }
    }
}

/// Reads one message; `None` for threads and for anything that is no task event.
fn event(message: &[u8], to_boot: i64) -> Option<TaskEvent> {
    let word = |at: usize| message.get(at..at + 4)?.try_into().ok().map(u32::from_ne_bytes);
    if word(SENDER)? != GROUP_PROC {
        return None;
    }
    let stamp = message.get(STAMP..STAMP + 8)?.try_into().ok().map(u64::from_ne_bytes)?;
    let at = Some(stamp.saturating_add_signed(to_boot));
    let body = |index: usize| word(BODY + 4 * index);
    match word(WHAT)? {
        FORK if body(2)? == body(3)? => Some(TaskEvent::Fork { parent: body(1)?, child: body(3)?, at }),
        EXEC if body(0)? == body(1)? => Some(TaskEvent::Exec { pid: body(1)?, at }),
        EXIT if body(0)? == body(1)? => {
            let exit = Some(exit_of(body(2)?.cast_signed()));
            Some(TaskEvent::Exit { pid: body(1)?, at, exit })
        }
        _ => None,
    }
}

const fn step(code: u32, k: u32) -> libc::sock_filter {
    libc::sock_filter { code: code as u16, jt: 0, jf: 0, k }
}

const fn jump(code: u32, k: u32, yes: u8, no: u8) -> libc::sock_filter {
    libc::sock_filter { code: code as u16, jt: yes, jf: no, k }
}

/// Lets through forks and exits of whole processes, and execs. The filter reads words as big-endian, the messages
/// are in the machine's order: constants are turned around, comparing two words needs no turning.
fn attach_filter(socket: &OwnedFd) -> nix::Result<()> {
    use libc::{BPF_ABS, BPF_JEQ, BPF_JMP, BPF_K, BPF_LD, BPF_MISC, BPF_RET, BPF_TAX, BPF_W, BPF_X};
    let load = |at: usize| step(BPF_LD | BPF_W | BPF_ABS, at as u32);
    let is = |what: u32, yes: u8, no: u8| {
        jump(BPF_JMP | BPF_JEQ | BPF_K, u32::from_be_bytes(what.to_ne_bytes()), yes, no)
    };
    let same = |yes: u8, no: u8| jump(BPF_JMP | BPF_JEQ | BPF_X, 0, yes, no);
    let keep = |value: u32| step(BPF_RET | BPF_K, value);
    let to_x = step(BPF_MISC | BPF_TAX, 0);
    // Jumps count from the next line; the last two lines are "keep" and "drop".
    let mut program = [
        load(WHAT),
        is(EXEC, 10, 0),
        is(FORK, 5, 0),
        is(EXIT, 0, 9),
        // Exit: keep it if thread and thread group are the same.
        load(BODY),
        to_x,
        load(BODY + 4),
        same(4, 5),
        // Fork: the same for the child.
        load(BODY + 8),
        to_x,
        load(BODY + 12),
        same(0, 1),
        keep(u32::MAX),
        keep(0),
    ];
    let filter = libc::sock_fprog { len: program.len() as u16, filter: program.as_mut_ptr() };
    // SAFETY: the kernel copies the program, which lives until after the call, and checks it.
    let result = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_ATTACH_FILTER,
            (&raw const filter).cast(),
            size_of::<libc::sock_fprog>() as u32,
        )
    };
    Errno::result(result).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;
    use lowtide_model::Exit;
    use proptest::prelude::*;
    use std::process::Command;

    fn message(what: u32, body: &[u32]) -> Vec<u8> {
        let mut message = vec![0; STAMP];
        message[SENDER..SENDER + 4].copy_from_slice(&GROUP_PROC.to_ne_bytes());
        message[WHAT..WHAT + 4].copy_from_slice(&what.to_ne_bytes());
        message.extend_from_slice(&1000_u64.to_ne_bytes());
        message.extend(body.iter().flat_map(|word| word.to_ne_bytes()));
        message
    }

    #[test]
    fn processes_are_told_and_threads_are_not() {
        let read = |what, body: &[u32]| event(&message(what, body), 5);
        assert_eq!(
            read(FORK, &[11, 10, 20, 20]),
            Some(TaskEvent::Fork { parent: 10, child: 20, at: Some(1005) })
        );
        assert_eq!(read(FORK, &[10, 10, 21, 10]), None);
        assert_eq!(read(EXEC, &[20, 20]), Some(TaskEvent::Exec { pid: 20, at: Some(1005) }));
        let exit = Some(Exit::Signal(9));
        assert_eq!(read(EXIT, &[20, 20, 9, 17]), Some(TaskEvent::Exit { pid: 20, at: Some(1005), exit }));
        assert_eq!(read(EXIT, &[21, 20, 0, 17]), None);
        assert_eq!(read(0x4, &[1, 1, 1, 1]), None);
    }

    #[test]
    fn events_that_did_not_fit_are_reported_as_lost_and_the_feed_goes_on() {
        // Where the connector cannot be had there is nothing that could overflow.
        let Some(connector) = Connector::open().known() else { return };
        let tiny: libc::c_int = 1;
        // SAFETY: the kernel reads one int.
        let set = unsafe {
            let size = size_of::<libc::c_int>() as u32;
            libc::setsockopt(
                connector.socket.as_raw_fd(),
                libc::SOL_SOCKET,
                libc::SO_RCVBUF,
                (&raw const tiny).cast(),
                size,
            )
        };
        assert_eq!(set, 0);
        let mut events = Vec::new();
        let mut lost = false;
        for _ in 0..100 {
            for _ in 0..10 {
                assert!(Command::new("true").status().is_ok());
            }
            lost |= connector.drain(&mut events).lost;
            if lost {
                break;
            }
        }
        assert!(lost, "{} events fitted", events.len());
        sockopt::RcvBuf.set(&connector.socket, &ROOM).unwrap();
        assert!(connector.proven().as_known().is_some());
    }

    proptest! {
        #[test]
        fn no_message_panics(bytes in proptest::collection::vec(any::<u8>(), 0..128), shift: i64) {
            let _ = event(&bytes, shift);
        }
    }
}
