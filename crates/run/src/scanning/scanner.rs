//! Starts a helper and hears what it says.

use super::{Depth, Refusal, Reply, Report, Task};
use lowtide_probe::Root;
use lowtide_probe::memory::{Doors, stack_pointers};
use lowtide_scan::TypeUse;
use nix::fcntl::{FcntlArg, FdFlag, OFlag, fcntl};
use nix::sys::signal::Signal;
use std::io::{ErrorKind, Read, Seek, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};
use std::time::Duration;

/// The most a helper may say.
const MOST_BYTES: usize = 8 << 20;

/// Why there is no report.
#[derive(Debug, thiserror::Error)]
pub enum ScanError {
    /// The helper would not or could not look.
    #[error("process {pid} was not scanned")]
    Refused {
        /// Which process.
        pid: u32,
        /// Why.
        refusal: Refusal,
    },
    /// The helper could not be started.
    #[error("cannot start the scan of process {pid}")]
    Start {
        /// Which process.
        pid: u32,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// The helper ended without an answer.
    #[error("the scan of process {pid} ended before it was done")]
    Ended {
        /// Which process.
        pid: u32,
        /// What ended it.
        end: End,
    },
}

/// What ended a helper that gave no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// It got no more memory than it may take.
    Memory,
    /// It used up its CPU time.
    Time,
    /// It took too long: minutes, on a machine that has no time for it.
    Clock,
    /// It was killed: by the kernel when memory ran out, which takes it first, or by somebody.
    Killed,
    /// A mistake of ours.
    Failed,
    /// Whoever waits for all processes of the job heard of it first.
    Unheard,
}

impl End {
    /// What it was, in words.
    pub fn words(self) -> &'static str {
        match self {
            Self::Memory => {
                "it needed more memory than it may take: a tenth of the process, and a quarter of what is left here"
            }
            Self::Time => "it used up the CPU time it may take",
            Self::Clock => "it took too long: this machine has too little time for it",
            Self::Killed => {
                "it was killed: when memory runs out the kernel takes the scan first, and never the job for it"
            }
            Self::Failed => "lowtide made a mistake",
            Self::Unheard => "it was killed, or had too little memory or time",
        }
    }

    fn of(status: Option<ExitStatus>) -> Self {
        let Some(status) = status else { return Self::Unheard };
        match status.signal().and_then(|signal| signal.try_into().ok()) {
            Some(Signal::SIGABRT) => Self::Memory,
            Some(Signal::SIGPROF | Signal::SIGXCPU) => Self::Time,
            Some(Signal::SIGALRM) => Self::Clock,
            Some(Signal::SIGKILL | Signal::SIGTERM) => Self::Killed,
            _ => Self::Failed,
        }
    }
}

/// Whose descriptors the helper works with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Opened {
    /// We open them, as an ancestor of the job, and hand them over.
    Here,
    /// The helper opens its own.
    There,
}

/// What to scan.
#[derive(Debug)]
pub struct Order {
    /// Which process.
    pub pid: u32,
    /// Who opens its memory.
    pub opened: Opened,
    /// Types of an earlier scan.
    pub before: Option<Vec<TypeUse>>,
    /// What is looked for.
    pub depth: Depth,
    /// CPU time it may take.
    pub most_cpu: Duration,
    /// Hold it still meanwhile.
    pub stop: bool,
}

impl Order {
    /// CPU time no scan needs; a bound on our own mistakes.
    pub const LONGEST: Duration = Duration::from_secs(120);
}

/// A helper at work. Dropping it ends it.
#[derive(Debug)]
pub struct Scanner {
    pid: u32,
    child: Child,
    output: ChildStdout,
    said: Vec<u8>,
    /// It has said all it will.
    done: bool,
}

impl Scanner {
    /// Starts `program scan-helper`.
    pub fn start(program: &Path, order: Order) -> Result<Self, ScanError> {
        let pid = order.pid;
        let root = Root::live();
        let doors = match order.opened {
            Opened::There => None,
            Opened::Here => match Doors::open(&root, pid) {
                lowtide_model::Reading::Known(doors) => Some(doors),
                lowtide_model::Reading::Denied => {
                    return Err(ScanError::Refused { pid, refusal: Refusal::Denied });
                }
                lowtide_model::Reading::Gone => {
                    return Err(ScanError::Refused { pid, refusal: Refusal::Gone });
                }
                lowtide_model::Reading::Unsupported => {
                    return Err(ScanError::Refused { pid, refusal: Refusal::Unsupported });
                }
            },
        };
        let task = Task {
            pid,
            doors: doors.as_ref().map(Doors::numbers),
            stack_pointers: doors.as_ref().map(|_| stack_pointers(&root, pid)).unwrap_or_default(),
            before: order.before,
            depth: order.depth,
            most_cpu_ms: order.most_cpu.as_millis() as u64,
            stop: order.stop,
        };
        start(program, pid, &task, doors.as_ref()).map_err(|source| ScanError::Start { pid, source })
    }

    /// The helper's own pid.
    pub fn helper_pid(&self) -> u32 {
        self.child.id()
    }

    /// The process it looks at.
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// Makes [`Scanner::hear`] return when there is nothing to hear yet.
    pub(crate) fn without_waiting(&self) -> nix::Result<()> {
        fcntl(&self.output, FcntlArg::F_SETFL(OFlag::O_NONBLOCK)).map(drop)
    }

    /// Takes what was said. Gives the end of it, or nothing while more may come.
    pub fn hear(&mut self) -> Option<Result<Report, ScanError>> {
        let mut buffer = vec![0; 64 << 10];
        loop {
            match self.output.read(&mut buffer) {
                Ok(0) => break,
                Ok(length) => self.said.extend_from_slice(&buffer[..length]),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return None,
                Err(_) => {
                    let _ = self.child.kill();
                    break;
                }
            }
            if self.said.len() > MOST_BYTES {
                let _ = self.child.kill();
                break;
            }
        }
        self.done = true;
        let pid = self.pid;
        Some(match serde_json::from_slice(&self.said) {
            Ok(Reply::Report(report)) => Ok(*report),
            Ok(Reply::Refused(refusal)) => Err(ScanError::Refused { pid, refusal }),
            Err(_) => Err(ScanError::Ended { pid, end: End::of(self.child.wait().ok()) }),
        })
    }

    /// Waits for the report.
    pub fn wait(mut self) -> Result<Report, ScanError> {
        let pid = self.pid;
        self.hear().unwrap_or(Err(ScanError::Ended { pid, end: End::Failed }))
    }
}

fn start(program: &Path, pid: u32, task: &Task, doors: Option<&Doors>) -> std::io::Result<Scanner> {
    let mut input = std::fs::File::from(nix::sys::memfd::memfd_create(
        c"lowtide-scan",
        nix::sys::memfd::MFdFlags::MFD_CLOEXEC,
    )?);
    serde_json::to_writer(&mut input, task)?;
    input.flush()?;
    input.rewind()?;
    let inherit = |flag: FdFlag| {
        doors
            .into_iter()
            .flat_map(Doors::files)
            .try_for_each(|file| fcntl(file, FcntlArg::F_SETFD(flag)).map(drop))
    };
    inherit(FdFlag::empty())?;
    let child = Command::new(program)
        .arg("scan-helper")
        // At its cap the helper has no memory left to print a backtrace with, and would wait for it for ever.
        .env("RUST_BACKTRACE", "0")
        .stdin(input)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn();
    let _ = inherit(FdFlag::FD_CLOEXEC);
    let mut child = child?;
    // It says so itself as well; until it gets there it would have our score, and the kernel may be told to spare us.
    let _ = std::fs::write(format!("/proc/{}/oom_score_adj", child.id()), "1000");
    let output = child.stdout.take().ok_or(ErrorKind::BrokenPipe)?;
    Ok(Scanner { pid, child, output, said: Vec::new(), done: false })
}

impl AsFd for Scanner {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.output.as_fd()
    }
}

impl Drop for Scanner {
    fn drop(&mut self) {
        // One that is done may have been reaped already, and its pid belong to somebody else.
        if !self.done {
            let _ = self.child.kill();
        }
        let _ = self.child.wait();
    }
}
