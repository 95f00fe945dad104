//! A training job by plan: every step's time and memory, evaluations and saves, marked like a job with an agent.
//!
//! Ends with `finished STEPS`, or with `asked STEP` when it was asked to save and stop, which it then does.

use crate::held::Held;
use crate::page::{Kind, Page, Phase};
use serde::Deserialize;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// A step takes its memory in so many parts, at most ...
const MOST_PARTS: f64 = 8.0;
/// ... or in so many where several threads take it as fast as they can ...
const PARTS_IN_HASTE: f64 = 2.0;
/// ... each of this many milliseconds at least.
const PART_MS: f64 = 4.0;

/// What the job does. Sizes are bytes of the whole process, times milliseconds.
#[derive(Deserialize)]
pub(crate) struct Plan {
    /// Held before the first step.
    begins: usize,
    /// Held when each step ends, and how long it takes.
    steps: Vec<(usize, f64)>,
    /// Taken and given back within each step.
    swing: usize,
    keeps: Keeps,
    eval: Option<Beside>,
    save: Option<Beside>,
    /// Where checkpoints go.
    folder: PathBuf,
    /// Threads that take memory.
    threads: usize,
}

/// When a step takes what it keeps.
#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Keeps {
    First,
    Throughout,
    Last,
}

/// What an evaluation or a save takes beside training.
#[derive(Clone, Copy, Deserialize)]
struct Beside {
    every: usize,
    takes: usize,
    ms: f64,
}

struct Job {
    plan: Plan,
    held: Held,
    /// What the process has without it.
    own: usize,
    page: Option<Page>,
}

pub(crate) fn run(plan: &str) {
    let plan: Plan = match serde_json::from_str(plan) {
        Ok(plan) => plan,
        Err(error) => {
            eprintln!("no plan: {error}");
            std::process::exit(64);
        }
    };
    let taken = |beside: Option<Beside>| beside.map_or(0, |beside| beside.takes);
    let most = plan.steps.iter().map(|step| step.0).chain([plan.begins]).max().unwrap_or(0);
    let room = most + plan.swing + taken(plan.eval).max(taken(plan.save));
    let held = Held::reserve(room, plan.threads);
    let mut page = Page::open();
    let folder = serde_json::json!({ "save_dir": plan.folder }).to_string();
    page.iter_mut().for_each(|page| page.mark(Kind::Info, Phase::Point, 0.0, &folder));
    let mut job = Job { held, own: resident(), page, plan };
    job.train();
}

impl Job {
    fn train(&mut self) {
        let mut level = self.plan.begins;
        self.hold(level);
        let steps = std::mem::take(&mut self.plan.steps);
        let mut took = Duration::ZERO;
        for (at, &(after, ms)) in steps.iter().enumerate() {
            let began = Instant::now();
            self.step(level, after, ms);
            took += began.elapsed();
            level = after;
            let step = at + 1;
            self.page.iter().for_each(|page| page.step(step as u64));
            let due = |beside: &Beside| step.is_multiple_of(beside.every);
            if let Some(eval) = self.plan.eval.filter(due) {
                self.beside(Kind::Eval, eval, level, step);
            }
            let asked = self.page.as_ref().and_then(Page::take_request);
            if asked.is_some() || self.plan.save.as_ref().is_some_and(due) {
                let nothing = Beside { every: 1, takes: 0, ms: 0.0 };
                self.beside(Kind::Save, self.plan.save.unwrap_or(nothing), level, step);
            }
            if let Some(number) = asked {
                self.page.iter().for_each(|page| page.carried_out(number));
                say(&format!("asked {step}"), took, level.saturating_sub(self.plan.begins));
                return;
            }
        }
        say(&format!("finished {}", steps.len()), took, level.saturating_sub(self.plan.begins));
    }

    fn hold(&mut self, bytes: usize) {
        self.held.set(bytes.saturating_sub(self.own));
    }

    fn step(&mut self, before: usize, after: usize, ms: f64) {
        let most = if self.plan.threads > 1 { PARTS_IN_HASTE } else { MOST_PARTS };
        let parts = (ms / PART_MS).floor().clamp(1.0, most);
        let part_of = Duration::from_secs_f64(ms / parts / 1000.0);
        for part in 0..parts as usize {
            let began = Instant::now();
            let at = (part as f64 + 1.0) / parts;
            let kept = match self.plan.keeps {
                Keeps::First => (at * 2.0).min(1.0),
                Keeps::Throughout => at,
                Keeps::Last => (at * 5.0 - 4.0).max(0.0),
            };
            let swing = self.plan.swing as f64 * (1.0 - (at - 0.5).abs() * 2.0);
            self.hold((before as f64 + (after as f64 - before as f64) * kept + swing) as usize);
            std::thread::sleep(part_of.saturating_sub(began.elapsed()));
        }
    }

    /// An evaluation or a save, marked from its beginning to its end.
    fn beside(&mut self, kind: Kind, beside: Beside, level: usize, step: usize) {
        let name = format!("state-{step}.safetensors");
        let extra = match kind {
            Kind::Save => serde_json::json!({ "path": name }).to_string(),
            Kind::Eval | Kind::Info => String::new(),
        };
        let number = step as f64;
        self.page.iter_mut().for_each(|page| page.mark(kind, Phase::Start, number, &extra));
        self.hold(level + beside.takes);
        std::thread::sleep(Duration::from_secs_f64(beside.ms / 1000.0));
        if matches!(kind, Kind::Save)
            && let Err(error) = write(&self.plan.folder, &name, step as u64)
        {
            eprintln!("cannot save {name}: {error}");
            std::process::exit(74);
        }
        self.hold(level);
        self.page.iter_mut().for_each(|page| page.mark(kind, Phase::End, number, &extra));
    }
}

/// A safetensors file that holds the step.
fn write(folder: &Path, name: &str, step: u64) -> std::io::Result<()> {
    let header = br#"{"step":{"dtype":"U64","shape":[1],"data_offsets":[0,8]}}"#;
    let part = folder.join(format!("{name}.part"));
    let mut file = std::fs::File::create(&part)?;
    file.write_all(&(header.len() as u64).to_le_bytes())?;
    file.write_all(header)?;
    file.write_all(&step.to_le_bytes())?;
    drop(file);
    std::fs::rename(part, folder.join(name))
}

/// How it ended, with the bytes a second by which its steps grew.
fn say(what: &str, took: Duration, grew: usize) {
    println!("{what} {:.0}", grew as f64 / took.as_secs_f64().max(1e-9));
    let _ = std::io::stdout().flush();
}

fn resident() -> usize {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages = statm.split_whitespace().nth(1).and_then(|pages| pages.parse::<usize>().ok());
    pages.unwrap_or(0) * 4096
}
