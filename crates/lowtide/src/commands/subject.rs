//! What `explain`, `check` and `compare` are asked about: recordings and the curves of others, from files and folders.
//!
//! Reads and judges; says nothing. Not here: words (see `render`), and any judgement (see `verdict`).

use crate::cli::AboutArgs;
use crate::failure::Failure;
use lowtide_model::{Context, Curve, Recording};
use lowtide_serve::remote;
use lowtide_store::import::{self, Hints};
use lowtide_verdict::{RunVerdict, Source, judge_recording_with};
use std::io::Read as _;
use std::path::{Path, PathBuf};

/// More files than this in one folder are a fleet: nobody reads that many answers.
const MOST_FILES: usize = 1000;
/// How deep a folder is looked through: runs of TensorBoard and of W&B lie three below.
const DEEPEST: usize = 3;
/// Standard input above this is refused rather than held in memory.
const MOST_INPUT_BYTES: u64 = 1 << 30;
/// How every recording begins.
const SQLITE: &[u8] = b"SQLite format 3\0";
/// What `--x` may be without standing in the file.
const KNOWN_X: [&str; 7] = ["sample", "step", "steps", "epoch", "time", "seconds", "wall_time"];
/// Ends of names that may hold a curve; a folder also holds weights, pictures and code.
const MAY_HOLD_A_CURVE: [&str; 9] = ["tide", "json", "jsonl", "csv", "tsv", "txt", "log", "dat", "out"];

/// What was read.
#[derive(Clone, Debug)]
pub(crate) enum What {
    Recording(Box<Recording>),
    Curve(Box<Curve>),
}

impl What {
    /// The same for those who compare it or draw it.
    pub(crate) fn source(&self) -> Source<'_> {
        match self {
            Self::Recording(recording) => Source::Recording(recording),
            Self::Curve(curve) => Source::Curve(curve),
        }
    }
}

/// One thing to judge.
#[derive(Clone, Debug)]
pub(crate) struct Subject {
    /// The file as the user wrote it, with the curve's own name where the file holds several.
    pub(crate) label: String,
    /// The curve's own name where the file holds several.
    pub(crate) curve: Option<String>,
    pub(crate) what: What,
    /// What the user said of it.
    pub(crate) asked: Context,
    /// Whether more of it will come.
    pub(crate) running: bool,
}

impl Subject {
    /// Why nothing can be held against how high this stands, if so.
    pub(crate) fn without_level(&self) -> Option<Failure> {
        match &self.what {
            What::Curve(curve) if curve.no_level => Some(no_level(&self.label, curve)),
            What::Curve(_) | What::Recording(_) => None,
        }
    }
}

/// A thing with what the engine says of it.
#[derive(Clone, Debug)]
pub(crate) struct Answer {
    pub(crate) subject: Subject,
    pub(crate) run: RunVerdict,
}

/// What came of reading a list of files.
#[derive(Debug, Default)]
pub(crate) struct Gathered {
    pub(crate) subjects: Vec<Subject>,
    /// Files the user named that could not be read, as the user wrote them.
    pub(crate) failures: Vec<(String, Failure)>,
    /// Files of a folder that hold no curve.
    pub(crate) passed_over: Vec<String>,
    /// Whether a folder was among them: its runs belong together.
    pub(crate) folder: bool,
}

/// Reads every file, and every file of every folder.
pub(crate) fn gather(files: &[PathBuf], about: &AboutArgs) -> Result<Gathered, Failure> {
    let hints = Hints { x: about.x.clone(), y: about.y.clone(), unit: about.unit.clone() };
    let mut out = Gathered::default();
    for file in files {
        if file.is_dir() {
            out.folder = true;
            read_folder(file, &hints, &mut out)?;
        } else {
            match read(file, &hints) {
                Ok(found) => out.subjects.extend(found),
                Err(failure) => out.failures.push((file.display().to_string(), failure)),
            }
        }
    }
    out.subjects.iter_mut().for_each(|subject| subject.running = about.running);
    tell_sizes(&mut out.subjects, about)?;
    Ok(out)
}

/// Judges what was read.
pub(crate) fn answer(subject: Subject) -> Answer {
    let mut run = match &subject.what {
        What::Recording(recording) => judge_recording_with(recording, subject.asked.clone()),
        What::Curve(curve) if subject.running => RunVerdict::of_running(curve),
        What::Curve(curve) => RunVerdict::of_curve(curve),
    };
    let file = Some(subject.label.clone());
    run.findings.iter_mut().for_each(|finding| finding.file.clone_from(&file));
    run.main.file = file;
    Answer { subject, run }
}

fn read_folder(folder: &Path, hints: &Hints, out: &mut Gathered) -> Result<(), Failure> {
    let mut files = Vec::new();
    walk(folder, DEEPEST, &mut files)?;
    if files.len() > MOST_FILES {
        let what = format!("{} holds {} files, more than {MOST_FILES}", folder.display(), files.len());
        return Err(Failure::new(what).hint("name the files, or a folder further down"));
    }
    let before = out.subjects.len();
    for file in &files {
        match read(file, hints) {
            Ok(found) => out.subjects.extend(found),
            Err(failure) => out.passed_over.push(failure.sentence()),
        }
    }
    if out.subjects.len() == before {
        let failure = Failure::new(format!("no recording and no memory curve in {}", folder.display()));
        return Err(out.passed_over.iter().take(5).fold(failure, Failure::because));
    }
    Ok(())
}

fn walk(folder: &Path, deep: usize, files: &mut Vec<PathBuf>) -> Result<(), Failure> {
    let cannot =
        |error: std::io::Error| Failure::new(format!("cannot list {}", folder.display())).because(error);
    let mut found: Vec<PathBuf> = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(cannot)? {
        found.push(entry.map_err(cannot)?.path());
    }
    found.sort();
    for path in found {
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        if name.starts_with('.') {
            continue;
        }
        if path.is_dir() && !path.is_symlink() {
            if deep > 1 {
                walk(&path, deep - 1, files)?;
            }
        } else if path.is_file() && may_hold_a_curve(&name) {
            files.push(path);
        }
    }
    Ok(())
}

fn may_hold_a_curve(name: &str) -> bool {
    let end = name.rsplit_once('.').map(|(_, end)| end.to_ascii_lowercase());
    end.is_some_and(|end| MAY_HOLD_A_CURVE.contains(&end.as_str())) || name.contains("tfevents")
}

fn read(file: &Path, hints: &Hints) -> Result<Vec<Subject>, Failure> {
    let label = file.display().to_string();
    if is_recording(file) {
        refuse_hints(&label, hints)?;
        let recording = lowtide_store::open(file)?.recording()?;
        return Ok(vec![Subject {
            label,
            curve: None,
            what: What::Recording(Box::new(recording)),
            asked: Context::default(),
            running: false,
        }]);
    }
    let curves = match address(file) {
        Some(address) => import::parse(Path::new("answer"), &remote::ask(address)?, hints)?,
        None if file == Path::new("-") => from_standard_input(hints)?,
        None => {
            let curves = import::read(file, hints)?;
            hold_to_x(file, hints)?;
            curves
        }
    };
    let stem = file.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
    let several = curves.len() > 1;
    let own_name = |curve: &Curve| {
        let own =
            curve.name.strip_prefix(&stem).map_or(curve.name.as_str(), |own| own.trim_start_matches(": "));
        (several && !own.is_empty()).then(|| own.to_owned())
    };
    let subject = |curve: Curve| {
        let own = own_name(&curve);
        Subject {
            label: own.as_ref().map_or_else(|| label.clone(), |own| format!("{label}: {own}")),
            curve: own,
            what: What::Curve(Box::new(curve)),
            asked: Context::default(),
            running: false,
        }
    };
    Ok(curves.into_iter().map(subject).collect())
}

/// A recording says by itself what is what.
fn refuse_hints(label: &str, hints: &Hints) -> Result<(), Failure> {
    let given = [("--x", &hints.x), ("--y", &hints.y), ("--unit", &hints.unit)];
    match given.iter().find(|(_, value)| value.is_some()) {
        Some((flag, _)) => {
            Err(Failure::new(format!("{flag} says nothing of {label}, a recording of lowtide's"))
                .hint("leave it out: it is for files of other tools"))
        }
        None => Ok(()),
    }
}

/// What x is can only be told by a name that is in the file, or by a word that needs none there.
fn hold_to_x(file: &Path, hints: &Hints) -> Result<(), Failure> {
    let Some(x) = hints.x.as_deref() else { return Ok(()) };
    let letters = |bytes: &[u8]| -> Vec<u8> {
        bytes.iter().filter(|byte| byte.is_ascii_alphanumeric()).map(u8::to_ascii_lowercase).collect()
    };
    let wanted = letters(x.as_bytes());
    // A pipe was read once and is empty now.
    if !file.is_file() || wanted.is_empty() || KNOWN_X.contains(&x.to_ascii_lowercase().as_str()) {
        return Ok(());
    }
    let bytes = std::fs::read(file).map_err(|error| Failure::new("cannot read it again").because(error))?;
    if letters(&bytes).windows(wanted.len()).any(|part| part == wanted) {
        return Ok(());
    }
    let known = KNOWN_X.join(", ");
    Err(Failure::new(format!("nothing in {} is named `{x}`, so it can't be x", file.display()))
        .hint(format!("give --x a name that stands in the file, or one of {known}; or leave it out")))
}

/// A file that is the address of a metrics engine.
fn address(file: &Path) -> Option<&str> {
    file.to_str().filter(|text| text.starts_with("http://") || text.starts_with("https://"))
}

fn from_standard_input(hints: &Hints) -> Result<Vec<Curve>, Failure> {
    let mut bytes = Vec::new();
    let read = std::io::stdin().lock().take(MOST_INPUT_BYTES + 1).read_to_end(&mut bytes);
    read.map_err(|error| Failure::new("cannot read standard input").because(error))?;
    if bytes.len() as u64 > MOST_INPUT_BYTES {
        return Err(Failure::new("standard input holds more than a gibibyte")
            .hint("write it to a file and cut it down"));
    }
    Ok(import::parse(Path::new("standard input"), &bytes, hints)?)
}

fn is_recording(file: &Path) -> bool {
    let begins = || {
        let mut start = [0_u8; SQLITE.len()];
        let read = std::fs::File::open(file).and_then(|mut open| open.read_exact(&mut start));
        read.is_ok() && start == SQLITE
    };
    let named = file.extension().is_some_and(|extension| extension == "tide");
    // A pipe is read once only: what is no plain file is not looked at first.
    named || (file.is_file() && begins())
}

/// Puts what the user said over what the files say.
fn tell_sizes(subjects: &mut [Subject], about: &AboutArgs) -> Result<(), Failure> {
    let sizes = &about.examples;
    if sizes.len() > 1 && sizes.len() != subjects.len() {
        let what = format!("--examples holds {} sizes for {} curves", sizes.len(), subjects.len());
        return Err(Failure::new(what).hint("give one size for all of them, or one for each in their order"));
    }
    for (number, subject) in subjects.iter_mut().enumerate() {
        subject.asked = about.context(sizes.get(number).or(sizes.first()).copied());
        match &mut subject.what {
            What::Curve(curve) if curve.no_level && subject.asked.limit.is_some() => {
                return Err(no_level(&subject.label, curve));
            }
            What::Curve(curve) => complete(&mut curve.context, &subject.asked),
            What::Recording(_) => {}
        }
    }
    Ok(())
}

/// Of a curve only changes are known: nothing can be said of how high it stands.
fn no_level(label: &str, curve: &Curve) -> Failure {
    let what = format!("{label} has no level that a limit could be held against");
    curve
        .notes
        .iter()
        .fold(Failure::new(what), Failure::because)
        .hint("ask for the total as well (node_memory_MemTotal_bytes), or for memory in use")
}

/// What the user says wins; it also ends what the file says of the same thing in other words.
fn complete(own: &mut Context, asked: &Context) {
    let says_pass = asked.examples.is_some() || asked.batch.is_some() || asked.accum.is_some();
    if asked.epoch_steps.is_some() || says_pass {
        own.epoch_steps = asked.epoch_steps;
    }
    own.examples = asked.examples.or(own.examples);
    own.batch = asked.batch.or(own.batch);
    own.accum = asked.accum.or(own.accum);
    own.world_size = asked.world_size.or(own.world_size);
    own.epochs = asked.epochs.or(own.epochs);
    if asked.limit.is_some() {
        own.limit = asked.limit;
        own.limit_from.clone_from(&asked.limit_from);
    }
}
