//! `cargo xtask score`: how often the verdict is right, on curves with known answers.
//!
//! usage: `score [--seeds 31,32] [--n 900] [--generator FILE] [--synthetic FILE.jsonl] [--real DIR] [--online] [--wrong]
//! [--rows FILE]`
//!
//! Prints the table of the corpus page with our row beside simple rules, the confusion table, the calibration table,
//! and with `--online` what is said at ten moments of each curve's life. Labels are read here and nowhere else.

mod baselines;
mod curves;

use curves::{Case, load, load_folder};
use lowtide_model::Curve;
use lowtide_verdict::{Group, Kind, Verdict, judge, judge_running};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

struct Options {
    seeds: Vec<u64>,
    count: u64,
    generator: PathBuf,
    synthetic: Vec<PathBuf>,
    real: Option<PathBuf>,
    online: bool,
    wrong: bool,
    rows: Option<PathBuf>,
}

/// Scores the engine and prints the tables.
pub(crate) fn score(args: &[String]) -> Result<(), String> {
    let options = options(args)?;
    let mut sets: Vec<(String, Vec<Case>)> = Vec::new();
    for seed in &options.seeds {
        sets.push((format!("seed {seed}"), load(&generate(&options, *seed)?)?));
    }
    for file in &options.synthetic {
        sets.push((file.display().to_string(), load(file)?));
    }
    if let Some(folder) = &options.real {
        sets.push((folder.display().to_string(), load_folder(folder)?));
    }
    if sets.is_empty() {
        return Err("nothing to score: give --seeds, --synthetic or --real".to_owned());
    }
    if let Some(file) = &options.rows {
        let all: Vec<&Case> = sets.iter().flat_map(|s| &s.1).collect();
        std::fs::write(file, rows(&judge_all(&all))).map_err(|e| e.to_string())?;
    }
    let mut out = String::new();
    for (name, cases) in &sets {
        report(&mut out, name, cases, &options);
    }
    if sets.len() > 1 {
        let all: Vec<&Case> = sets.iter().flat_map(|s| &s.1).collect();
        let judged = judge_all(&all);
        let _ = writeln!(out, "\nall {} curves together", all.len());
        tables(&mut out, &judged);
        if options.online {
            online(&mut out, &all);
        }
    }
    std::io::stdout().write_all(out.as_bytes()).map_err(|e| e.to_string())
}

/// The folder with `generate.py` and `real/`: in the repository, or in any folder beside it.
fn corpus() -> PathBuf {
    let root = crate::commands::root();
    let beside = root
        .parent()
        .map(std::fs::read_dir)
        .and_then(Result::ok)
        .into_iter()
        .flatten()
        .filter_map(Result::ok);
    let mut places =
        std::iter::once(root.join("corpus")).chain(beside.map(|entry| entry.path().join("corpus")));
    places.find(|place| place.join("generate.py").exists()).unwrap_or_else(|| PathBuf::from("corpus"))
}

fn options(args: &[String]) -> Result<Options, String> {
    let mut o = Options {
        seeds: Vec::new(),
        count: 900,
        generator: corpus().join("generate.py"),
        synthetic: Vec::new(),
        real: Some(corpus().join("real")).filter(|folder| folder.is_dir()),
        online: false,
        wrong: false,
        rows: None,
    };
    let mut rest = args.iter();
    while let Some(flag) = rest.next() {
        let mut value = || rest.next().ok_or_else(|| format!("{flag} needs a value"));
        match flag.as_str() {
            "--seeds" => {
                o.seeds = value()?
                    .split(',')
                    .map(|s| s.parse().map_err(|_| format!("`{s}` is no seed")))
                    .collect::<Result<_, _>>()?;
            }
            "--n" => o.count = value()?.parse().map_err(|_| "--n needs a number".to_owned())?,
            "--generator" => o.generator = value()?.into(),
            "--synthetic" => o.synthetic.push(value()?.into()),
            "--real" => o.real = Some(value()?.into()),
            "--online" => o.online = true,
            "--wrong" => o.wrong = true,
            "--rows" => o.rows = Some(value()?.into()),
            other => return Err(format!("`{other}` is not an option of score")),
        }
    }
    Ok(o)
}

/// Runs the generator for a seed, in a Python environment of its own with numpy.
fn generate(options: &Options, seed: u64) -> Result<PathBuf, String> {
    let folder = Path::new("target/score");
    std::fs::create_dir_all(folder).map_err(|e| e.to_string())?;
    let python = folder.join("venv/bin/python");
    if !python.exists() {
        run(Command::new("python3").args(["-m", "venv"]).arg(folder.join("venv")))?;
        run(Command::new(&python).args(["-m", "pip", "-q", "install", "numpy"]))?;
    }
    let stem = options.generator.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let file = folder.join(format!("{stem}-{seed}-{}.jsonl", options.count));
    if !file.exists() {
        let (n, s) = (options.count.to_string(), seed.to_string());
        run(Command::new(&python)
            .arg(&options.generator)
            .args(["--n", &n, "--seed", &s, "--out"])
            .arg(&file))?;
    }
    Ok(file)
}

fn run(command: &mut Command) -> Result<(), String> {
    let status = command.status().map_err(|e| format!("cannot run {command:?}: {e}"))?;
    if status.success() { Ok(()) } else { Err(format!("{command:?} failed: {status}")) }
}

struct Judged<'a> {
    case: &'a Case,
    verdict: Verdict,
}

impl Judged<'_> {
    fn got(&self) -> Group {
        scored(self.verdict.verdict)
    }
}

/// The corpus counts a page-cache verdict as a fill.
const fn scored(kind: Kind) -> Group {
    if matches!(kind, Kind::PageCache) { Group::Bounded } else { kind.group() }
}

fn judge_all<'a>(cases: &[&'a Case]) -> Vec<Judged<'a>> {
    cases.iter().map(|case| Judged { case, verdict: judge(&case.curve) }).collect()
}

/// One line a curve: whether the answer is right, what it was, with which confidence, and the reasoning. Calibration is
/// learned from these.
fn rows(judged: &[Judged]) -> String {
    let mut out = String::new();
    for j in judged {
        let right = u8::from(j.got() == j.case.group);
        let why = j.verdict.why.join("\t");
        let _ = writeln!(out, "{right}\t{:?}\t{}\t{why}", j.got(), j.verdict.confidence);
    }
    out
}

fn report(out: &mut String, name: &str, cases: &[Case], options: &Options) {
    let _ = writeln!(out, "\n== {name}: {} curves", cases.len());
    let all: Vec<&Case> = cases.iter().collect();
    let judged = judge_all(&all);
    tables(out, &judged);
    if options.wrong {
        for j in judged.iter().filter(|j| j.got() != j.case.group) {
            let _ = writeln!(
                out,
                "wrong: {} ({}, {} samples): {} at {:.2}: {}",
                j.case.id,
                j.case.label,
                j.case.curve.x.len(),
                j.verdict.verdict.word(),
                j.verdict.confidence,
                j.verdict.headline
            );
        }
    }
    if options.online {
        online(out, &all);
    }
}

fn tables(out: &mut String, judged: &[Judged]) {
    let hit = |f: &dyn Fn(&Judged) -> bool| judged.iter().filter(|j| f(j)).count();
    let leaks = hit(&|j| j.case.group == Group::Leak);
    let called = hit(&|j| j.got() == Group::Leak);
    let found = hit(&|j| j.got() == Group::Leak && j.case.group == Group::Leak);
    let right = hit(&|j| j.got() == j.case.group);
    let _ = writeln!(out, "{:<44} {:>5} {:>9} {:>6} {:>6}", "rule", "F1", "precision", "recall", "four");
    row(out, "lowtide", [found, called, leaks], Some((right, judged.len())));
    for (name, rule) in baselines::RULES {
        let says: Vec<bool> = judged.iter().map(|j| rule(&j.case.curve)).collect();
        let called = says.iter().filter(|s| **s).count();
        let found = says.iter().zip(judged).filter(|(s, j)| **s && j.case.group == Group::Leak).count();
        row(out, name, [found, called, leaks], None);
    }
    let _ = writeln!(
        out,
        "leak precision {}, recall {}, four groups {}",
        share(found, called),
        share(found, leaks),
        share(right, judged.len())
    );
    confusion(out, judged);
    calibration(out, judged);
}

fn row(out: &mut String, name: &str, [found, called, leaks]: [usize; 3], four: Option<(usize, usize)>) {
    let part = |a: usize, b: usize| if b == 0 { 0.0 } else { a as f64 / b as f64 };
    let (p, r) = (part(found, called), part(found, leaks));
    let f1 = if p + r > 0.0 { 2.0 * p * r / (p + r) } else { 0.0 };
    let four = four.map_or_else(|| "     -".to_owned(), |(a, b)| format!("{:6.3}", part(a, b)));
    let _ = writeln!(out, "{name:<44} {f1:5.3} {p:9.3} {r:6.3} {four}");
}

/// A share with its 95 % interval (Wilson).
fn share(part: usize, of: usize) -> String {
    if of == 0 {
        return "none".to_owned();
    }
    let (n, p, z) = (of as f64, part as f64 / of as f64, 1.96_f64);
    let middle = (p + z * z / (2.0 * n)) / (1.0 + z * z / n);
    let half = z / (1.0 + z * z / n) * (p * (1.0 - p) / n + z * z / (4.0 * n * n)).sqrt();
    format!("{part}/{of} = {p:.3} ({:.3} to {:.3})", middle - half, middle + half)
}

const GROUPS: [Group; 4] = [Group::Leak, Group::Bounded, Group::Flat, Group::TooEarly];

fn confusion(out: &mut String, judged: &[Judged]) {
    let mut counts: BTreeMap<(&str, Group), usize> = BTreeMap::new();
    for j in judged {
        *counts.entry((j.case.class.as_str(), j.got())).or_default() += 1;
    }
    let classes: std::collections::BTreeSet<&str> = judged.iter().map(|j| j.case.class.as_str()).collect();
    let _ = writeln!(out, "{:<16} {:>6} {:>8} {:>6} {:>10}", "class", "leak", "bounded", "flat", "too early");
    for class in classes {
        let n = |g| counts.get(&(class, g)).copied().unwrap_or(0);
        let [leak, bounded, flat, early] = GROUPS.map(n);
        let _ = writeln!(out, "{class:<16} {leak:>6} {bounded:>8} {flat:>6} {early:>10}");
    }
}

fn calibration(out: &mut String, judged: &[Judged]) {
    let _ = writeln!(out, "said with        right");
    for (low, high) in [(0.0, 0.6), (0.6, 0.7), (0.7, 0.8), (0.8, 0.9), (0.9, 0.96), (0.96, 1.01)] {
        let inside: Vec<&Judged> =
            judged.iter().filter(|j| (low..high).contains(&j.verdict.confidence)).collect();
        let right = inside.iter().filter(|j| j.got() == j.case.group).count();
        let _ = writeln!(out, "{low:.2} to {:.2}     {}", f64::min(high, 1.0), share(right, inside.len()));
    }
}

/// What is said at ten moments: by the live judge, for which only the last is the end of the run, and by plain
/// `explain`, which takes each part for all there is.
fn online(out: &mut String, cases: &[&Case]) {
    let live = |part: &Curve, tenth: usize| if tenth == 10 { judge(part) } else { judge_running(part) };
    moments(out, "live judge", cases, live);
    moments(out, "plain explain", cases, |part, _| judge(part));
}

/// Which of ten moments of each life were called a leak.
fn moments(out: &mut String, name: &str, cases: &[&Case], say: impl Fn(&Curve, usize) -> Verdict) {
    let called = |case: &Case| -> Vec<usize> {
        let leak = |t: &usize| say(&curves::prefix(&case.curve, *t), *t).verdict == Kind::Leak;
        (1..=10).filter(leak).collect()
    };
    let (mut harmless, mut ever, mut fills, mut fills_called) = (0, 0, 0, 0);
    let mut named = String::new();
    let (mut leaks, mut found, mut delays) = (0, 0, Vec::new());
    for case in cases {
        if case.group == Group::Bounded {
            let moments = called(case);
            let any = usize::from(!moments.is_empty());
            let context = &case.curve.context;
            let known = usize::from(context.epoch_steps.is_some() || context.epoch_seconds.is_some());
            (harmless, ever, fills, fills_called) =
                (harmless + 1, ever + any, fills + known, fills_called + known * any);
            if known * any > 0 {
                let _ = write!(named, " [{} at tenths {moments:?}]", case.id);
            }
        } else if case.group == Group::Leak {
            let moments = called(case);
            leaks += 1;
            found += usize::from(moments.last() == Some(&10));
            delays.push(delay(case, moments.first().copied()));
        }
    }
    delays.sort_by(f64::total_cmp);
    let by_half = delays.partition_point(|delay| *delay <= 0.5);
    let _ = writeln!(
        out,
        "online by {name}: harmless growing runs ever called a leak {}; fills with a known pass {}{named}; \
         leaks found at the end {}; called within half of their life {}; median delay {:.2} of a leak's life",
        share(ever, harmless),
        share(fills_called, fills),
        share(found, leaks),
        share(by_half, leaks),
        delays.get(delays.len() / 2).copied().unwrap_or(1.0)
    );
}

/// The part of a leak's life that had been seen when it was first called; all of it when it never was.
fn delay(case: &Case, first: Option<usize>) -> f64 {
    let Some(first) = first else { return 1.0 };
    let last = |curve: &Curve| curve.x.last().copied().unwrap_or(0.0);
    let (called, end) = (last(&curves::prefix(&case.curve, first)), last(&case.curve));
    let onset = case.onset.or_else(|| case.curve.x.first().copied()).unwrap_or(0.0);
    ((called - onset) / (end - onset).max(f64::MIN_POSITIVE)).clamp(0.0, 1.0)
}
