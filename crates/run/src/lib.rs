//! One job's life under the recorder: start it, follow it, write down what it does, pass signals on, end with it.
//!
//! Not here: how anything looks. A [`Listener`] is told what happens; screens connect to the control socket.

mod agent;
mod anchor;
mod census;
pub mod checkpoints;
mod crew;
mod gpu;
mod guard;
mod history;
mod hooks;
mod isolation;
mod job;
mod judging;
mod marks;
mod oom;
mod pace;
mod places;
mod python;
mod reaped;
mod remote;
mod rows;
pub mod scanning;
mod session;
mod signals;
mod snapshot;
mod socket;
pub mod squeezing;
#[cfg(test)]
mod steady;

pub use agent::{MARKS_VARIABLE, RUN_VARIABLE, SOCKET_VARIABLE};
pub use guard::{Again, Chunk, GuardOptions, Guarded, Kept, Rung, Stop};
pub use hooks::{Hook, HookWhen, Hooks};
pub use isolation::IsolationError;
pub use job::{JobSpec, StartError, Terminal};
pub use oom::OomCall;
pub use pace::Chosen;
pub use socket::SOCKET_NAME;

use crew::Crew;
use gpu::GpuHelper;
use guard::Watch;
use isolation::Isolation;
use lowtide_model::{Bytes, Exit, Meta, ProcKey, RunState, Source};
use lowtide_probe::events::{Feed, Scope};
use lowtide_probe::tree::Tree;
use lowtide_probe::{Ending, Root, clock, host, limits, mapped, stat_of, variable};
use lowtide_store::{StoreError, Writer, mask_argv};
use lowtide_wire::Snapshot;
use pace::Pace;
use places::Places;
use session::{Ended, Live, Scans, Session, Subject};
use signals::{Forwarder, Signals, Stand, Witness};
use socket::ControlSocket;
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::Child;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// What is told while the job runs.
pub trait Listener {
    /// The recording has begun.
    fn began(&mut self, run: &Began);
    /// Whether it wants to be told of ticks now. Putting a picture of the job together costs more than a tick.
    fn wants_ticks(&self) -> bool;
    /// The job as it is now; every two seconds or so.
    fn tick(&mut self, snapshot: &Snapshot);
    /// Something worth one calm line.
    fn say(&mut self, text: &str);
    /// Something a person should know now. Rare.
    fn warn(&mut self, text: &str);
}

/// What is known when a recording begins.
#[derive(Debug)]
pub struct Began {
    /// The process it is about.
    pub root: ProcKey,
    /// How forks and exits are learnt.
    pub source: Source,
    /// Where the recording goes.
    pub recording: PathBuf,
    /// The control socket, if one could be made.
    pub socket: Option<PathBuf>,
}

/// How to record.
#[derive(Debug)]
pub struct Options {
    /// The file to write.
    pub out: PathBuf,
    /// What the user calls the run.
    pub name: String,
    /// Random, unique to the run.
    pub run_id: String,
    /// Time between two ticks.
    pub interval: Duration,
    /// Who chose it.
    pub chosen: Chosen,
    /// Commands to run when something happens.
    pub hooks: Vec<Hook>,
    /// Private folder for the control socket; none where no folder could be made.
    pub private_dir: Option<PathBuf>,
    /// A source of task events to use instead of the best one.
    pub source: Option<Source>,
    /// The program that reads GPUs when called with `gpu-helper`.
    pub helper: PathBuf,
    /// Version of lowtide, for the header.
    pub version: String,
    /// Stop watching after this time.
    pub length: Option<Duration>,
    /// Processes the caller started for itself; they are not of the job.
    pub companions: Vec<u32>,
    /// The one of them that passes the job's output on: it may still say a step when the job is gone.
    pub relay: Option<u32>,
    /// The folder in which a process that is watched says its pages are; else its environment is asked.
    pub marks: Option<PathBuf>,
    /// Whether Python processes of the job get lowtide's agent: at their start, or while they run (3.14 and later).
    pub agent: bool,
    /// Whether the process whose floor rises most is scanned.
    pub scans: bool,
    /// A limit of the user's own, beside those that hold.
    pub limit: Option<Bytes>,
    /// How the job is guarded, if it is.
    pub guard: Option<GuardOptions>,
    /// Whether the job gets a cgroup of its own.
    pub isolate: Option<Isolate>,
}

/// A cgroup of the job's own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Isolate {
    /// Its limit; without one it is only kept apart.
    pub max: Option<Bytes>,
}

/// How a recording ended.
#[derive(Debug)]
pub struct Finished {
    /// How the job ended.
    pub exit: Exit,
    /// Where the recording lies: not always where it was asked for. An error when it could not be closed.
    pub recording: Result<PathBuf, StoreError>,
    /// Processes of the job that still run.
    pub survivors: Vec<(ProcKey, String)>,
    /// Deaths that the kernel's OOM killer explains.
    pub ooms: Vec<OomCall>,
    /// What the guard did.
    pub guarded: Option<Guarded>,
}

/// Why a job could not be recorded.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The job did not start.
    #[error(transparent)]
    Start(#[from] StartError),
    /// The job could not be kept apart.
    #[error(transparent)]
    Isolation(#[from] IsolationError),
    /// The recording could not be begun or closed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The kernel would not let us wait for events.
    #[error("cannot wait for events")]
    Wait(#[source] nix::Error),
    /// There is no such process.
    #[error("there is no process {pid}")]
    NoProcess {
        /// The pid that was asked for.
        pid: u32,
    },
}

/// Starts a command and records it until it ends.
///
/// Must be called on the main thread before any other thread exists: signals are blocked for all threads to come.
pub fn run(job: JobSpec, options: &Options, listener: &mut dyn Listener) -> Result<Finished, RunError> {
    let isolate = |isolate: Isolate| Isolation::make(&options.run_id, isolate.max);
    let isolation = options.isolate.map(isolate).transpose()?;
    let signals = Signals::take().map_err(RunError::Wait)?;
    let stand = match job.terminal {
        Terminal::Callers | Terminal::Piped(..) => Stand::InOurGroup,
        Terminal::Own(_) => Stand::Apart,
    };
    let witness = Witness::post(stand).ok();
    job::become_subreaper().map_err(RunError::Wait)?;
    let descriptors = job::raise_descriptor_limit();
    let argv: Vec<String> = job.argv.iter().map(|word| word.to_string_lossy().into_owned()).collect();
    let mut meta = header(options, mask_argv(&argv));
    let writer = Writer::create(&options.out, meta.clone())?;
    let root = Root::live();
    let feed = open_feed(options, Scope::OwnChildren);
    let prepared = agent::prepare(options.private_dir.as_deref(), &options.run_id, options.agent);
    let started = clock::boot_ns();
    meta.started_unix_ns = unix_ns();
    let environment = prepared.environment;
    let keeps_apart = options.guard.is_some() || options.isolate.is_some();
    let oom_score = if keeps_apart { job::OomScore::above_ours() } else { None };
    if keeps_apart {
        job::be_spared();
    }
    let ahead = options.guard.is_some().then(job::Ahead::come).flatten();
    if options.guard.is_some() {
        job::stay_in_memory();
    }
    let apart = isolation.clone();
    let (turn, mask) = (ahead.as_ref().map(|ahead| ahead.turn), signals.mask_before());
    let restore = job::Restore { mask, descriptors, environment, oom_score, isolation, turn };
    let child = match first_start(&job, &restore, options) {
        Ok(child) => child,
        Err(error) => {
            // There was no job, so there is no recording.
            let path = writer.path().to_owned();
            drop(writer);
            let _ = std::fs::remove_file(path);
            agent::clear(options.private_dir.as_deref());
            apart.iter().for_each(Isolation::clear);
            return Err(error.into());
        }
    };
    let pid = child.id();
    // Its end is waited for by the loop, together with every orphan's.
    drop(child);
    let gpu = GpuHelper::start(&options.helper, gpu_interval(options));
    let mut own = own_pids(witness.as_ref(), gpu.as_ref());
    own.extend(&options.companions);
    let ignore: Vec<u32> = own.iter().copied().collect();
    let tree = Tree::started(&root, pid, std::process::id(), &ignore);
    let forwarder = Forwarder { job: nix::unistd::Pid::from_raw(pid as i32), witness, stand };
    let marks = prepared.marks;
    let watch = options.guard.clone().map(|guard| Box::new(Watch::new(guard, job, restore)));
    let setting = Setting { root, signals, tree, feed, writer, meta, gpu, own, started, pid, marks, watch };
    let finished = record(setting, Subject::Job(forwarder), options, listener)?;
    drop(ahead);
    if finished.survivors.is_empty() {
        agent::clear(options.private_dir.as_deref());
        apart.iter().for_each(Isolation::clear);
    }
    Ok(finished)
}

/// Records a process that already runs, with everything below it, until it ends or we are asked to leave.
pub fn watch(pid: u32, options: &Options, listener: &mut dyn Listener) -> Result<Finished, RunError> {
    let root = Root::live();
    if stat_of(&root, pid).known().is_none_or(|stat| stat.is_dead()) {
        return Err(RunError::NoProcess { pid });
    }
    let signals = Signals::take().map_err(RunError::Wait)?;
    job::raise_descriptor_limit();
    let argv = lowtide_probe::ProcessReader::open(&root, pid).known();
    let argv = argv.and_then(|mut reader| reader.identity().argv.known()).unwrap_or_default();
    let mut meta = header(options, mask_argv(&argv));
    meta.attached = true;
    let writer = Writer::create(&options.out, meta.clone())?;
    let feed = open_feed(options, Scope::Anybody);
    let gpu = GpuHelper::start(&options.helper, gpu_interval(options));
    let own = own_pids(None, gpu.as_ref());
    let started = clock::boot_ns();
    meta.started_unix_ns = unix_ns();
    let tree = Tree::attached(&root, pid);
    let ending = Ending::of(pid).known();
    // What a recorder before us gave the job still stands: its pages are read from where they are.
    let left = if options.marks.is_none() { marks_of(&root, &tree) } else { None };
    let marks = options.marks.clone().or_else(|| left.clone());
    let private = options.private_dir.as_deref();
    let ours = if options.agent { agent::prepare(private, &options.run_id, true).marks } else { None };
    let marks = marks.or(ours);
    let watch = None;
    let setting = Setting { root, signals, tree, feed, writer, meta, gpu, own, started, pid, marks, watch };
    let finished = record(setting, Subject::Stranger(ending), options, listener)?;
    if stat_of(&Root::live(), pid).known().is_none_or(|stat| stat.is_dead()) {
        left.as_deref().into_iter().for_each(agent::clear_left_behind);
        agent::clear(private);
    }
    Ok(finished)
}

/// The folder in which a job that already runs has its pages: as a recorder told it, or where one lies that it holds.
fn marks_of(root: &Root, tree: &Tree) -> Option<PathBuf> {
    let told = || tree.living().find_map(|key| variable(root, key.pid, MARKS_VARIABLE).known());
    let told = told().map(PathBuf::from).filter(|folder| marks::is_private(folder));
    let held = |key: ProcKey| mapped(root, key.pid, &marks::name_of(key)).known();
    told.or_else(|| Some(tree.living().find_map(held)?.parent()?.to_owned()))
}

struct Setting {
    root: Root,
    signals: Signals,
    tree: Tree,
    feed: Feed,
    writer: Writer,
    meta: Meta,
    gpu: Option<GpuHelper>,
    own: BTreeSet<u32>,
    started: u64,
    pid: u32,
    marks: Option<PathBuf>,
    watch: Option<Box<Watch>>,
}

/// The first start: a guarded job may begin from a checkpoint, and its command has a place for one.
fn first_start(job: &JobSpec, restore: &job::Restore, options: &Options) -> Result<Child, StartError> {
    let Some(guard) = &options.guard else { return job::start(job, restore) };
    let checkpoints::Restart { argv, variables } = guard.way.command(&job.argv, guard.from.as_deref());
    job::start_as(job, &argv, &restore.with(&variables))
}

fn record(
    setting: Setting,
    subject: Subject,
    options: &Options,
    listener: &mut dyn Listener,
) -> Result<Finished, RunError> {
    let Ended { exit, recording, survivors, ooms, guarded } =
        prepare(setting, subject, options, listener).live()?;
    Ok(Finished { exit, recording, survivors, ooms, guarded })
}

fn prepare<'a>(
    mut setting: Setting,
    subject: Subject,
    options: &'a Options,
    listener: &'a mut dyn Listener,
) -> Session<'a> {
    let key = setting.tree.living().find(|key| key.pid == setting.pid);
    let key = key.unwrap_or(ProcKey { pid: setting.pid, start_ticks: 0 });
    setting.meta.root = Some(key);
    setting.meta.source = Some(setting.feed.source());
    setting.writer.push(lowtide_store::Entry::Meta(Box::new(setting.meta.clone())));
    let socket = options.private_dir.as_deref().and_then(|folder| ControlSocket::listen(folder).ok());
    let recording = setting.writer.path().to_owned();
    let socket_path =
        socket.as_ref().and(options.private_dir.as_ref()).map(|folder| folder.join(SOCKET_NAME));
    let source = setting.feed.source();
    listener.began(&Began { root: key, source, recording, socket: socket_path });
    let judging = judging::Judging::new(&setting.meta);
    let slurm = limits::slurm(|name| std::env::var(name).ok());
    let mut places = Places::new(setting.root.clone(), setting.own, slurm, options.limit);
    if setting.watch.is_some() {
        places.watch_closely();
    }
    Session {
        options,
        listener,
        subject,
        signals: setting.signals,
        tree: setting.tree,
        feed: setting.feed,
        crew: Crew::new(setting.root, setting.meta.page_bytes, setting.started),
        places,
        writer: setting.writer,
        meta: setting.meta,
        socket,
        gpu: setting.gpu,
        hooks: Hooks::new(options.hooks.clone()),
        pace: Pace::new(options.interval, options.chosen),
        judging,
        marks: marks::Marks::of(setting.marks),
        scans: Scans::new(options.scans),
        watch: setting.watch,
        squeeze: None,
        censuses: census::Censuses::default(),
        live: Live::new(key, options.interval),
    }
}

fn open_feed(options: &Options, scope: Scope) -> Feed {
    let asked = options.source.and_then(|source| Feed::open_as(&Root::live(), source).known());
    asked.unwrap_or_else(|| Feed::open(&Root::live(), scope))
}

fn gpu_interval(options: &Options) -> u64 {
    (options.interval.as_millis() as u64).max(500)
}

fn own_pids(witness: Option<&Witness>, gpu: Option<&GpuHelper>) -> BTreeSet<u32> {
    let helpers = witness.map(Witness::pid).into_iter().chain(gpu.map(GpuHelper::pid));
    helpers.chain([std::process::id()]).collect()
}

fn unix_ns() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos() as i64)
}

fn header(options: &Options, argv: Vec<String>) -> Meta {
    let facts = host::facts(&Root::live());
    let pid = std::process::id();
    let start_ticks = stat_of(&Root::live(), pid).known().map_or(0, |stat| stat.start_ticks);
    Meta {
        run_id: options.run_id.clone(),
        name: options.name.clone(),
        argv,
        cwd: std::env::current_dir().map(|dir| dir.display().to_string()).unwrap_or_default(),
        host: facts.name,
        boot_id: facts.boot_id,
        started_unix_ns: unix_ns(),
        lowtide: options.version.clone(),
        kernel: facts.kernel,
        cpus: facts.cpus,
        page_bytes: facts.page_bytes,
        recorder: Some(ProcKey { pid, start_ticks }),
        interval_ns: options.interval.as_nanos() as u64,
        state: Some(RunState::Running),
        ..Meta::default()
    }
}
