//! What `run`, `watch` and `demo` share: where a recording goes, what is told while it is made, the words at its end.

use crate::cli::{Format, RecordingArgs, SourceArg};
use crate::failure::Failure;
use crate::render;
use lowtide_model::{EventKind, Exit, Recording, Source};
use lowtide_run::{Chosen, Finished, Hook, HookWhen, Hooks, OomCall, Options};
use lowtide_verdict::{RunVerdict, Summary};
use std::fs::DirBuilder;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Without `--interval`.
const INTERVAL: Duration = Duration::from_secs(1);

/// The folder for control sockets of this user: private, in the place the system keeps for such things.
pub(crate) fn runtime_dir() -> Result<PathBuf, Failure> {
    let uid = nix::unistd::getuid();
    // The kernel takes at most 108 bytes for a socket's path; ours adds a few dozen.
    let fits = |dir: &PathBuf| dir.as_os_str().len() <= 64;
    let given =
        std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from).filter(|dir| dir.is_dir() && fits(dir));
    let folder =
        given.map_or_else(|| std::env::temp_dir().join(format!("lowtide-{uid}")), |dir| dir.join("lowtide"));
    let cannot = |error: std::io::Error| {
        Failure::new(format!("cannot make the folder {}", folder.display())).because(error)
    };
    DirBuilder::new().recursive(true).mode(0o700).create(&folder).map_err(cannot)?;
    let found = std::fs::symlink_metadata(&folder).map_err(cannot)?;
    if !found.is_dir() || found.uid() != uid.as_raw() || found.mode() & 0o077 != 0 {
        return Err(Failure::new(format!("the folder {} is not private to this user", folder.display()))
            .hint("remove it, or set XDG_RUNTIME_DIR to a folder of your own"));
    }
    Ok(folder)
}

/// Puts together how to record.
pub(crate) fn options(args: &RecordingArgs, program: &str) -> Result<Options, Failure> {
    let run_id = random_id()?;
    let name = args.name.clone().unwrap_or_else(|| program.to_owned());
    let out = match &args.out {
        Some(file) => file.clone(),
        None => lowtide_store::run_path(&lowtide_store::runs_dir()?, &name, unix_now(), &run_id),
    };
    // Without a folder for the socket the job is recorded all the same; it only can't be followed from elsewhere.
    let private_dir = runtime_dir().ok().map(|folder| folder.join(&run_id));
    Ok(Options {
        out,
        name,
        run_id,
        interval: args.interval.unwrap_or(INTERVAL),
        chosen: if args.interval.is_some() { Chosen::ByUser } else { Chosen::ByDefault },
        hooks: args.on.iter().map(|(when, command)| Hook { when: *when, command: command.clone() }).collect(),
        private_dir,
        source: args.source.map(|source| match source {
            SourceArg::Connector => Source::Connector,
            SourceArg::Perf => Source::Perf,
            SourceArg::Listing => Source::Listing,
        }),
        helper: own_program()?,
        version: env!("CARGO_PKG_VERSION").to_owned(),
        length: None,
        companions: Vec::new(),
        relay: None,
        marks: None,
        agent: false,
        scans: !args.no_scan,
        limit: None,
        guard: None,
        isolate: None,
    })
}

/// The file this program was started from.
pub(crate) fn own_program() -> Result<PathBuf, Failure> {
    std::env::current_exe()
        .map_err(|error| Failure::new("cannot find lowtide's own program file").because(error))
}

fn random_id() -> Result<String, Failure> {
    use std::io::Read;
    let mut bytes = [0; 5];
    let read = std::fs::File::open("/dev/urandom").and_then(|mut file| file.read_exact(&mut bytes));
    read.map_err(|error| Failure::new("cannot read /dev/urandom").because(error))?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// A finished recording with what is said of it.
pub(crate) struct Told {
    pub(crate) recording: Recording,
    pub(crate) summary: Summary,
    pub(crate) verdict: RunVerdict,
}

/// Reads a recording that was just closed.
pub(crate) fn read_back(path: &Path) -> Result<Told, Failure> {
    let recording = lowtide_store::open(path)?.recording()?;
    let summary = lowtide_verdict::summarize(&recording);
    let verdict = lowtide_verdict::judge_recording(&recording);
    Ok(Told { recording, summary, verdict })
}

/// Prints the end of a recording and runs the hooks for it. Whatever goes wrong here is said and changes nothing: the
/// exit code is the job's.
pub(crate) fn tell_end(finished: &Finished, args: &RecordingArgs) {
    let told = match &finished.recording {
        Ok(path) => read_back(path).map(|told| (path, told)),
        Err(error) => Err(Failure::new(error.to_string())),
    };
    let facts = match &told {
        Ok((path, told)) => {
            let ending = render::Ending { finished, recording: path, told };
            if !args.quiet {
                match args.format {
                    Format::Text => render::complain(&ending.text()),
                    Format::Json => render::complain(&format!("{}\n", ending.json())),
                }
            }
            ending.json()
        }
        Err(failure) => {
            render::complain(&failure.text());
            serde_json::json!({"schema": "lowtide.summary/1", "event": "end", "exit": finished.exit})
        }
    };
    let end = |(when, command): &(HookWhen, String)| Hook { when: *when, command: command.clone() };
    let mut hooks = Hooks::new(args.on.iter().map(end).collect());
    for trouble in hooks.fire(HookWhen::End, &facts) {
        render::complain(&format!("lowtide: {trouble}\n"));
    }
    hooks.wait();
}

/// A process and those above it.
pub(crate) fn ancestors(pid: u32) -> Vec<u32> {
    let root = lowtide_probe::Root::live();
    let above = |pid: &u32| {
        let parent = lowtide_probe::stat_of(&root, *pid).known()?.ppid;
        (parent > 0 && parent != *pid).then_some(parent)
    };
    std::iter::successors(Some(pid), above).take(64).collect()
}

/// The exit code a shell would give.
pub(crate) fn code_of(exit: Exit) -> u8 {
    match exit {
        Exit::Code(code) => code as u8,
        Exit::Signal(signal) => (128 + signal) as u8,
        Exit::Unknown => 0,
    }
}

fn unix_now() -> i64 {
    jiff::Timestamp::now().as_nanosecond() as i64
}

/// Deaths that the kernel's OOM killer explains, from a recording.
pub(crate) fn ooms_of(recording: &Recording) -> Vec<OomCall> {
    let told = recording.events.iter().filter(|event| event.kind == EventKind::Oom);
    told.filter_map(|event| serde_json::from_str(event.data.as_deref()?).ok()).collect()
}
