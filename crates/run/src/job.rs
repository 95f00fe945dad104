//! Starting the job so that it cannot tell that we are there: its caller's terminal, descriptors, limits and signal mask.

use crate::checkpoints::{CHECKPOINT_VARIABLE, RESUME_VARIABLE, STEP_VARIABLE};
use crate::isolation::Isolation;
use nix::fcntl::OFlag;
use nix::sys::prctl;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::sys::signal::{SigSet, SigmaskHow, Signal, signal, sigprocmask};
use nix::sys::stat::Mode;
use std::ffi::OsString;
use std::io::IsTerminal;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command};

/// How much likelier than its recorder the kernel takes a guarded job when memory runs out.
const MORE_LIKELY: i32 = 300;
/// And we are never, where that is allowed.
const NEVER: &str = "-1000";
/// Before all that is not in a hurry, and after all else that is.
const LEAST_AHEAD: libc::c_int = 1;
const OWN_SCORE: &str = "/proc/self/oom_score_adj";

/// What the job talks to.
#[derive(Debug, Default)]
pub enum Terminal {
    /// The caller's own descriptors, as if lowtide were not there.
    #[default]
    Callers,
    /// The slave side of a terminal of its own, whose other side a relay holds.
    Own(OwnedFd),
    /// The caller's, but for output, whose other side a relay holds; none of a pair is the caller's own.
    Piped(Option<OwnedFd>, Option<OwnedFd>),
}

/// What to start.
#[derive(Debug)]
pub struct JobSpec {
    /// The program and its arguments.
    pub argv: Vec<OsString>,
    /// What it talks to.
    pub terminal: Terminal,
}

/// Why a job could not be started.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// Nothing to start.
    #[error("no command was given")]
    Nothing,
    /// The kernel refused.
    #[error("cannot start `{program}`")]
    Spawn {
        /// What was to be started.
        program: String,
        /// The kernel's word.
        #[source]
        cause: std::io::Error,
    },
}

/// Orphans of the job come to us instead of init, so that no process of it is lost.
pub(crate) fn become_subreaper() -> nix::Result<()> {
    prctl::set_child_subreaper(true)
}

/// Raises the number of descriptors we may hold and gives what it was, for the job to get back.
pub(crate) fn raise_descriptor_limit() -> Option<(u64, u64)> {
    let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE).ok()?;
    setrlimit(Resource::RLIMIT_NOFILE, hard, hard).ok()?;
    Some((soft, hard))
}

/// What the child must get before it becomes the job.
pub(crate) struct Restore {
    pub(crate) mask: SigSet,
    pub(crate) descriptors: Option<(u64, u64)>,
    /// What its environment has beside ours; nothing where a variable has to go.
    pub(crate) environment: crate::agent::Environment,
    /// What the kernel is told about killing it for memory; nothing leaves it as it is.
    pub(crate) oom_score: Option<OomScore>,
    /// A cgroup of its own.
    pub(crate) isolation: Option<Isolation>,
    /// When the caller wants it to run, where we run ahead of that.
    pub(crate) turn: Option<Turn>,
}

/// A value for `oom_score_adj`, as the kernel reads it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OomScore {
    text: [u8; 4],
    length: usize,
}

impl OomScore {
    /// Higher than ours, so that the kernel takes the job and not its recorder. Only raising needs no rights.
    pub(crate) fn above_ours() -> Option<Self> {
        let ours: i32 = std::fs::read_to_string(OWN_SCORE).ok()?.trim().parse().ok()?;
        let score = (ours + MORE_LIKELY).clamp(0, 1000).to_string();
        let mut text = [0; 4];
        text.get_mut(..score.len())?.copy_from_slice(score.as_bytes());
        Some(Self { text, length: score.len() })
    }

    /// Between fork and exec: no allocation.
    fn apply(&self) -> nix::Result<()> {
        let file =
            nix::fcntl::open(c"/proc/self/oom_score_adj", OFlag::O_WRONLY | OFlag::O_CLOEXEC, Mode::empty())?;
        nix::unistd::write(&file, &self.text[..self.length]).map(drop)
    }
}

/// Where we may, the kernel never takes us: a job that it killed gives its memory back so late that it takes the next one
/// too, and a score that is only lower does not help where nobody else is left.
pub(crate) fn be_spared() {
    let _ = std::fs::write(OWN_SCORE, NEVER);
}

/// Keeps the pages we use in memory, as far as we may: the reckoning has to go on while memory runs out.
#[allow(unsafe_code, reason = "mlockall with MCL_ONFAULT has no safe interface")]
pub(crate) fn stay_in_memory() {
    // SAFETY: changes only how the kernel treats this process's pages; a refusal changes nothing.
    let _ = unsafe { libc::mlockall(libc::MCL_CURRENT | libc::MCL_ONFAULT) };
}

/// How the caller has us scheduled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Turn {
    policy: libc::c_int,
    nice: libc::c_int,
}

impl Turn {
    /// As this thread is now; none where it is in a hurry already.
    #[allow(unsafe_code, reason = "how a thread is scheduled has no safe interface")]
    fn now() -> Option<Self> {
        // SAFETY: both calls only read what the kernel knows of this thread.
        let (policy, nice) =
            unsafe { (libc::sched_getscheduler(0), libc::getpriority(libc::PRIO_PROCESS, 0)) };
        matches!(policy, libc::SCHED_OTHER | libc::SCHED_BATCH | libc::SCHED_IDLE)
            .then_some(Self { policy, nice })
    }

    /// Takes it again. Between fork and exec: no allocation.
    #[allow(unsafe_code, reason = "how a thread is scheduled has no safe interface")]
    fn take(self) {
        scheduled(self.policy, 0);
        // SAFETY: the call changes only when the kernel lets this thread run.
        unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, self.nice) };
    }
}

/// Comes before whatever else runs, as far as we may, for as long as it is held: a look that comes late on a busy machine
/// may come too late. Only this thread: what is started from it does not inherit it, nor the caller's nice, which the job
/// therefore has to take again.
pub(crate) struct Ahead {
    pub(crate) turn: Turn,
}

impl Ahead {
    pub(crate) fn come() -> Option<Self> {
        let turn = Turn::now()?;
        scheduled(libc::SCHED_RR | libc::SCHED_RESET_ON_FORK, LEAST_AHEAD).then_some(Self { turn })
    }
}

impl Drop for Ahead {
    fn drop(&mut self) {
        self.turn.take();
    }
}

/// Has this thread scheduled in some way; false where that is refused.
#[allow(unsafe_code, reason = "how a thread is scheduled has no safe interface")]
fn scheduled(policy: libc::c_int, priority: libc::c_int) -> bool {
    // SAFETY: the call reads one number, and changes only when the kernel lets this thread run. By its number: some C
    // libraries refuse to make it.
    unsafe { libc::syscall(libc::SYS_sched_setscheduler, 0, policy, &raw const priority) == 0 }
}

impl Restore {
    /// The same with variables of this start alone; those of another start are taken out.
    pub(crate) fn with(&self, variables: &[(&'static str, OsString)]) -> Self {
        let mut environment = self.environment.clone();
        for name in [CHECKPOINT_VARIABLE, RESUME_VARIABLE, STEP_VARIABLE] {
            let value = variables.iter().find(|(known, _)| *known == name).map(|(_, value)| value.clone());
            environment.push((name.into(), value));
        }
        let isolation = self.isolation.clone();
        Self {
            mask: self.mask,
            descriptors: self.descriptors,
            oom_score: self.oom_score,
            environment,
            isolation,
            turn: self.turn,
        }
    }
}

/// Starts the job.
pub(crate) fn start(spec: &JobSpec, restore: &Restore) -> Result<Child, StartError> {
    start_as(spec, &spec.argv, restore)
}

/// Starts the job with another command.
pub(crate) fn start_as(spec: &JobSpec, argv: &[OsString], restore: &Restore) -> Result<Child, StartError> {
    let argv = restore.isolation.as_ref().map_or_else(|| argv.to_vec(), |isolation| isolation.command(argv));
    let (program, arguments) = argv.split_first().ok_or(StartError::Nothing)?;
    let mut command = Command::new(program);
    command.args(arguments);
    for (name, value) in &restore.environment {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    let copy_of = |fd: &OwnedFd| fd.try_clone().map_err(|cause| refused(program, cause));
    let slave = match &spec.terminal {
        Terminal::Callers => None,
        Terminal::Own(slave) => {
            let copy = || copy_of(slave);
            command.stdout(copy()?);
            // What the caller led elsewhere stays there.
            if std::io::stdin().is_terminal() {
                command.stdin(copy()?);
            }
            if std::io::stderr().is_terminal() {
                command.stderr(copy()?);
            }
            Some(copy()?)
        }
        Terminal::Piped(stdout, stderr) => {
            stdout.as_ref().map(copy_of).transpose()?.map(|stdout| command.stdout(stdout));
            stderr.as_ref().map(copy_of).transpose()?.map(|stderr| command.stderr(stderr));
            None
        }
    };
    prepare(&mut command, restore, slave);
    command.spawn().map_err(|cause| refused(program, cause))
}

fn refused(program: &OsString, cause: std::io::Error) -> StartError {
    StartError::Spawn { program: program.to_string_lossy().into_owned(), cause }
}

#[allow(unsafe_code, reason = "work between fork and exec has no safe interface")]
fn prepare(command: &mut Command, restore: &Restore, slave: Option<OwnedFd>) {
    let Restore { mask, descriptors, oom_score, turn, .. } = *restore;
    let broken_pipe = before_main::broken_pipe();
    let procs = restore.isolation.as_ref().and_then(Isolation::procs);
    let before_exec = move || {
        if let Some(procs) = &procs {
            let list = nix::fcntl::open(procs.as_c_str(), OFlag::O_WRONLY | OFlag::O_CLOEXEC, Mode::empty())?;
            nix::unistd::write(&list, b"0")?;
        }
        if let Some((soft, hard)) = descriptors {
            setrlimit(Resource::RLIMIT_NOFILE, soft, hard)?;
        }
        let _ = turn.map(Turn::take);
        // Where it may not be told, nothing is lost.
        let _ = oom_score.map(|score| score.apply());
        if let Some(slave) = &slave {
            nix::unistd::setsid()?;
            // SAFETY: the descriptor is open and a terminal; the call changes only kernel state of this new session.
            let taken = unsafe { libc::ioctl(slave.as_raw_fd(), libc::TIOCSCTTY, 0) };
            nix::errno::Errno::result(taken)?;
        }
        // SAFETY: neither disposition runs code of ours.
        unsafe { signal(Signal::SIGPIPE, broken_pipe) }?;
        sigprocmask(SigmaskHow::SIG_SETMASK, Some(&mask), None)?;
        Ok(())
    };
    // SAFETY: the closure makes only async-signal-safe system calls and allocates nothing.
    unsafe { command.pre_exec(before_exec) };
}

/// What the caller wanted done about a broken pipe. Rust's runtime changes it before `main`, so it is read before that.
mod before_main {
    #![allow(unsafe_code, reason = "only the program's table of initialisers comes before the runtime")]

    use nix::sys::signal::SigHandler;
    use std::sync::atomic::{AtomicBool, Ordering};

    static IGNORED: AtomicBool = AtomicBool::new(false);

    extern "C" fn look() {
        // SAFETY: all zeroes is a valid sigaction, and the call only fills it in.
        let ignored = unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            libc::sigaction(libc::SIGPIPE, std::ptr::null(), &raw mut action) == 0
                && action.sa_sigaction == libc::SIG_IGN
        };
        IGNORED.store(ignored, Ordering::Relaxed);
    }

    // SAFETY: the table holds addresses of functions that may be called before `main`; this one makes one system call.
    #[used]
    #[unsafe(link_section = ".init_array")]
    static LOOK: extern "C" fn() = look;

    pub(super) fn broken_pipe() -> SigHandler {
        if IGNORED.load(Ordering::Relaxed) { SigHandler::SigIgn } else { SigHandler::SigDfl }
    }
}
