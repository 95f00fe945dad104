//! Plain training logs: lines that hold a step (or epoch, or time) and a size of memory.
//!
//! `Step 10:  5,552 MB  (baseline)`, `{'loss': 1.2, 'epoch': 0.1, 'memory_gb': 5.2}`, progress bars, `13:18:20  6.2 GB`.
//! Several runs in one text are parted where the step falls back or a heading says `Run 2`.

use super::memory_names::{count_series, is_named, meaning};
use super::numbers::{self, Found, Unit, scan};
use super::times::{self, Moment};
use super::{Attempt, Hints};
use lowtide_model::{Axis, Curve, Metric};
use std::collections::{BTreeMap, BTreeSet};

/// A run of fewer points is a mention in prose, where a longer run is there.
const FEWEST_POINTS: usize = 3;

/// Rank of a size that stands without a name.
const NAMELESS_RANK: u8 = 7;

const STEP_WORDS: &[&str] =
    &["step", "global_step", "globalstep", "iter", "iteration", "it", "optimizer_step", "train_step"];
const SECOND_WORDS: &[&str] = &["elapsed", "seconds", "secs", "sec", "t", "time", "uptime", "runtime"];

/// What a line says.
#[derive(Clone, Debug, Default)]
struct Point {
    run: usize,
    /// The line without its digits: lines that a program prints look alike.
    shape: String,
    asked: Option<f64>,
    step: Option<f64>,
    epoch: Option<f64>,
    seconds: Option<f64>,
    moment: Option<Moment>,
    sizes: Vec<(String, f64, Option<Unit>)>,
    counts: Vec<(&'static str, f64)>,
}

/// A count over a stretch of steps: `Steps 10-80:  6,529 tensors`.
struct Stretch {
    series: &'static str,
    from: f64,
    to: f64,
    count: f64,
}

#[derive(Default)]
struct Log {
    points: Vec<Point>,
    stretches: Vec<Stretch>,
    headings: Vec<String>,
}

pub(crate) fn read(text: &str, hints: &Hints) -> Attempt {
    let log = gather(text, hints);
    let name = best_name(&log.points, hints)?;
    let points: Vec<&Point> = log.points.iter().filter(|point| size_of(point, &name).is_some()).collect();
    let axis = best_axis(&points, hints);
    let points = if axis == Axis::Sample { of_one_shape(&points)? } else { placed(&points, axis) };
    let runs = split_runs(&points, axis);
    let least = FEWEST_POINTS.min(runs.iter().map(Vec::len).max().unwrap_or(0));
    let kept = runs.iter().filter(|run| run.len() >= least);
    let several = kept.clone().count() > 1;
    let mut curves = Vec::new();
    for (number, run) in kept.enumerate() {
        let mut curve = curve(&log, run, &name, axis, hints);
        let heading =
            run.first().and_then(|point| log.headings.get(point.run)).filter(|heading| !heading.is_empty());
        if let Some(heading) = heading {
            curve.name.clone_from(heading);
        } else if several {
            curve.name = format!("run {}", number + 1);
        }
        curve.notes.extend(note_on_runs(&runs, least));
        curves.push(curve);
    }
    Ok(curves)
}

fn note_on_runs(runs: &[Vec<&Point>], least: usize) -> Option<String> {
    let kept = runs.iter().filter(|run| run.len() >= least).count();
    let short = runs.len() - kept;
    let left_out =
        if short > 0 { format!("; {short} of fewer than {least} points left out") } else { String::new() };
    (runs.len() > 1).then(|| {
        format!("{kept} runs in this text, parted where x falls back or a heading says so{left_out}")
    })
}

fn gather(text: &str, hints: &Hints) -> Log {
    let mut log = Log { headings: vec![String::new()], ..Log::default() };
    let mut bar_step = None;
    for line in text.lines().filter(|line| line.len() < 10_000) {
        let found = scan(line);
        if found.is_empty() {
            continue;
        }
        if let Some(stretch) = stretch(&found) {
            log.stretches.push(stretch);
            continue;
        }
        let mut point = point(line, &found, hints);
        if let Some(step) = progress_bar(line, &found) {
            point.step = point.step.or(Some(step));
            bar_step = Some(step);
        }
        if point.sizes.is_empty() {
            if is_heading(line) {
                log.headings
                    .push(line.trim().trim_end_matches(':').trim_matches(['=', '#', '-', ' ']).to_owned());
            }
            continue;
        }
        // The bar above a line of values tells its step; once.
        point.step = point.step.or_else(|| bar_step.take());
        point.run = log.headings.len() - 1;
        log.points.push(point);
    }
    log
}

/// `Run 2 (Process 179532):`, `=== run 3 ===`.
fn is_heading(line: &str) -> bool {
    let line = line.trim().trim_start_matches(['=', '#', '-', '*', ' ']).to_ascii_lowercase();
    let number = line.strip_prefix("run").map(|rest| rest.trim_start_matches([' ', '#', ':']));
    number.is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit())) && line.len() < 80
}

fn point(line: &str, found: &[Found<'_>], hints: &Hints) -> Point {
    let mut point = Point { moment: times::find(line), shape: shape(line), ..Point::default() };
    for item in found {
        let key = item.key.trim_matches(['.', '/', '-']).to_ascii_lowercase();
        let short = key.rsplit(['/', '.']).next().unwrap_or(&key).to_owned();
        if hints.x.as_deref().is_some_and(|asked| is_named(&key, asked)) {
            point.asked = Some(item.value);
        } else if STEP_WORDS.contains(&short.as_str()) && item.unit.is_none() {
            point.step = point.step.or(Some(item.value));
        } else if short == "epoch" && item.unit.is_none() {
            point.epoch = point.epoch.or(Some(item.value));
        } else if SECOND_WORDS.contains(&short.as_str()) && item.unit.is_none() && !item.rest.starts_with(':')
        {
            point.seconds = point.seconds.or(Some(item.value));
        } else if let Some(series) = count_of(item, &key) {
            point.counts.push((series, item.value));
        } else {
            point.sizes.extend(size_in(item, &key, hints));
        }
    }
    point
}

fn shape(line: &str) -> String {
    let digits = |c: char| c.is_ascii_digit() || matches!(c, '.' | ',' | '+' | '-') || c.is_whitespace();
    line.chars().filter(|c| !digits(*c)).take(80).collect()
}

fn count_of(item: &Found<'_>, key: &str) -> Option<&'static str> {
    let after = item.after.to_ascii_lowercase();
    let counted =
        count_series(&after).filter(|_| ["tensors", "objects", "workers"].contains(&after.as_str()));
    counted.or_else(|| count_series(key).filter(|_| item.unit.is_none()))
}

/// A level of memory: no change (`+1,607 MB`), no share, and either a unit or a name that means memory.
fn size_in(item: &Found<'_>, key: &str, hints: &Hints) -> Option<(String, f64, Option<Unit>)> {
    if item.signed || item.percent {
        return None;
    }
    if hints.y.as_deref().is_some_and(|asked| is_named(key, asked)) {
        return Some((key.to_owned(), item.value, item.unit.or_else(|| numbers::unit_of_name(key))));
    }
    // The kernel writes kB and means 1,024 bytes.
    let kernels = ["vmrss", "vmhwm", "vmswap", "rssanon", "pss_", "private_"];
    let kernels = kernels.iter().any(|start| key.to_ascii_lowercase().starts_with(start));
    let unit =
        item.unit.map(|unit| if kernels && (unit.bytes - 1e3).abs() < 0.5 { numbers::KIB } else { unit });
    match (meaning(key), unit) {
        // A word that is itself a unit is the tail of another size.
        (meant, Some(unit)) if unit.bytes > 1.0 || meant.is_some() => {
            let name = if meant.is_some() && numbers::unit(key).is_none() { key } else { "" };
            Some((name.to_owned(), item.value, Some(unit)))
        }
        (Some(meant), None) if numbers::unit(key).is_none() => Some((key.to_owned(), item.value, meant.unit)),
        _ => None,
    }
}

/// The step of a progress bar: `12%|###   | 83/663 [00:12<01:23,  2.1it/s]`.
fn progress_bar(line: &str, found: &[Found<'_>]) -> Option<f64> {
    let bar = line.find("%|")?;
    let after = &line[bar..];
    let slash = found.iter().find(|item| after.len() > item.rest.len() && item.rest.starts_with('/'))?;
    slash.rest.contains('[').then_some(slash.value)
}

/// `Steps 10-80: 6,529 tensors`, `Steps 90+: 7,070 tensors`.
fn stretch(found: &[Found<'_>]) -> Option<Stretch> {
    let first = found.first().filter(|item| item.key.eq_ignore_ascii_case("steps"))?;
    let counted = found.iter().find_map(|item| Some((count_of(item, "")?, item.value)))?;
    let to = if first.rest.starts_with('+') {
        f64::INFINITY
    } else if first.rest.starts_with(['-', '–', '.']) {
        found.get(1)?.value
    } else {
        return None;
    };
    Some(Stretch { series: counted.0, from: first.value, to, count: counted.1 })
}

fn size_of<'a>(point: &'a Point, name: &str) -> Option<&'a (String, f64, Option<Unit>)> {
    point.sizes.iter().find(|(key, ..)| key == name)
}

/// The name that stands on most lines; among those on half as many, the one that means the most.
fn best_name(points: &[Point], hints: &Hints) -> Result<String, String> {
    let mut lines: BTreeMap<&str, usize> = BTreeMap::new();
    for point in points {
        let names: BTreeSet<&str> = point.sizes.iter().map(|(key, ..)| key.as_str()).collect();
        for name in names {
            *lines.entry(name).or_default() += 1;
        }
    }
    if let Some(asked) = &hints.y {
        let named = lines.keys().find(|name| is_named(name, asked)).map(|name| (*name).to_owned());
        return named.ok_or_else(|| format!("no line with `{asked}` and a number"));
    }
    let most = lines.values().copied().max().ok_or("no line with a size of memory")?;
    let rank = |name: &str| {
        if name.is_empty() { NAMELESS_RANK } else { meaning(name).map_or(0, |meant| meant.rank) }
    };
    let often = lines.into_iter().filter(|(_, count)| count * 2 >= most);
    let best = often.max_by_key(|(name, count)| (rank(name), *count));
    best.map(|(name, _)| name.to_owned()).ok_or_else(|| "no line with a size of memory".to_owned())
}

/// An axis that at least three lines have, and a tenth of them: prose and start-up lines around them have none.
fn best_axis(points: &[&Point], hints: &Hints) -> Axis {
    let some = |has: fn(&Point) -> bool| {
        let count = points.iter().filter(|point| has(point)).count();
        count >= FEWEST_POINTS.min(points.len()) && count * 10 >= points.len()
    };
    let asked = hints.x.as_deref().map(str::to_ascii_lowercase);
    let by_name = match asked.as_deref() {
        Some("step" | "steps") => Some(Axis::Step),
        Some("epoch") => Some(Axis::Epoch),
        Some("time" | "seconds") => Some(Axis::Seconds),
        Some("sample") => Some(Axis::Sample),
        Some(_) if some(|point| point.asked.is_some()) => Some(Axis::Step),
        Some(_) | None => None,
    };
    if let Some(axis) = by_name {
        axis
    } else if some(|point| point.step.is_some()) {
        Axis::Step
    } else if some(|point| point.epoch.is_some()) && moves(points) {
        Axis::Epoch
    } else if some(|point| point.seconds.is_some() || point.moment.is_some()) {
        Axis::Seconds
    } else {
        Axis::Sample
    }
}

/// The points that have a place on the axis.
fn placed<'a>(points: &[&'a Point], axis: Axis) -> Vec<&'a Point> {
    let timed = points.iter().filter(|point| point.seconds.is_some()).count() * 2 > points.len();
    let has = |point: &&&Point| {
        x_of(point, axis).is_some() || (axis == Axis::Seconds && !timed && point.moment.is_some())
    };
    points.iter().filter(has).copied().collect()
}

/// Sizes without step or time are a curve only where a program printed them, all in one form.
fn of_one_shape<'a>(points: &[&'a Point]) -> Result<Vec<&'a Point>, String> {
    let mut shapes: BTreeMap<&str, usize> = BTreeMap::new();
    for point in points {
        *shapes.entry(&point.shape).or_default() += 1;
    }
    let best = shapes.into_iter().max_by_key(|(_, count)| *count);
    let (shape, count) = best.ok_or("no line with a size of memory")?;
    if count < FEWEST_POINTS || count * 2 < points.len() {
        return Err("sizes stand on lines that have neither step nor time nor a common form".to_owned());
    }
    Ok(points.iter().filter(|point| point.shape == shape).copied().collect())
}

/// An epoch that is the same on many lines orders nothing.
fn moves(points: &[&Point]) -> bool {
    let epochs: BTreeSet<u64> = points.iter().filter_map(|point| point.epoch.map(f64::to_bits)).collect();
    epochs.len() * 2 > points.len()
}

fn x_of(point: &Point, axis: Axis) -> Option<f64> {
    match axis {
        Axis::Step => point.asked.or(point.step),
        Axis::Epoch => point.asked.or(point.epoch),
        Axis::Seconds => point.asked.or(point.seconds),
        Axis::Sample => None,
    }
}

/// Parts the points at headings and where x falls back. A log of many ranks at once falls back all the time: then not.
fn split_runs<'a>(points: &[&'a Point], axis: Axis) -> Vec<Vec<&'a Point>> {
    let falls = |pair: &[&Point]| match (x_of(pair[0], axis), x_of(pair[1], axis)) {
        (Some(before), Some(after)) => after < before,
        _ => false,
    };
    let restless = points.windows(2).filter(|pair| falls(pair)).count() * 4 > points.len();
    let mut runs: Vec<Vec<&Point>> = Vec::new();
    let mut last: Option<&Point> = None;
    for &point in points {
        let parted = last.is_none_or(|last| last.run != point.run || (!restless && falls(&[last, point])));
        if parted {
            runs.push(Vec::new());
        }
        runs.last_mut().into_iter().for_each(|run| run.push(point));
        last = Some(point);
    }
    runs
}

fn curve(log: &Log, run: &[&Point], name: &str, axis: Axis, hints: &Hints) -> Curve {
    let (y, unit_note) = sizes(run, name, hints);
    let (x, x_note) = positions(run, axis);
    let title = if name.is_empty() { "the size on each line".to_owned() } else { format!("`{name}`") };
    let mut out = Curve {
        axis,
        x,
        y,
        metric: meaning(name).map_or(Metric::Rss, |meant| meant.metric),
        notes: vec![format!("y is {title}, {unit_note}; x is {x_note}")],
        ..Curve::default()
    };
    counts(log, run, &mut out);
    let others: BTreeSet<&str> =
        run.iter().flat_map(|point| &point.sizes).map(|(key, ..)| key.as_str()).collect();
    for other in others.into_iter().filter(|other| !other.is_empty() && *other != name) {
        let known = run.iter().filter(|point| size_of(point, other).is_some()).count();
        if known * 2 > run.len() {
            out.series.insert(other.to_owned(), sizes(run, other, hints).0);
        }
    }
    out
}

/// The sizes under a name in bytes, and what was taken for their unit.
fn sizes(run: &[&Point], name: &str, hints: &Hints) -> (Vec<f64>, String) {
    let found: Vec<Option<(f64, Option<Unit>)>> =
        run.iter().map(|point| size_of(point, name).map(|(_, value, unit)| (*value, *unit))).collect();
    let bare: Vec<f64> =
        found.iter().flatten().filter(|(_, unit)| unit.is_none()).map(|(value, _)| *value).collect();
    let asked = hints.unit.as_deref().and_then(numbers::unit);
    let guessed = asked.unwrap_or_else(|| numbers::guess(&bare));
    let unit = |said: Option<Unit>| match (said, asked) {
        (Some(said), Some(asked)) => numbers::overruled(said, asked),
        (Some(said), None) => said,
        (None, _) => guessed,
    };
    let units: BTreeSet<&str> = found.iter().flatten().map(|(_, said)| unit(*said).name).collect();
    let how = if asked.is_some() {
        "as asked"
    } else if bare.is_empty() {
        "from the text"
    } else {
        "by its size"
    };
    let note = format!("taken as {}, {how}", units.into_iter().collect::<Vec<_>>().join(" and "));
    let bytes =
        |item: Option<(f64, Option<Unit>)>| item.map_or(f64::NAN, |(value, said)| value * unit(said).bytes);
    (found.into_iter().map(bytes).collect(), note)
}

fn positions(run: &[&Point], axis: Axis) -> (Vec<f64>, &'static str) {
    let known: Vec<f64> = run.iter().filter_map(|point| x_of(point, axis)).collect();
    let moments: Vec<Moment> = run.iter().filter_map(|point| point.moment).collect();
    if known.len() == run.len() && axis != Axis::Sample {
        let word = match axis {
            Axis::Step => "the step",
            Axis::Epoch => "the epoch",
            Axis::Seconds | Axis::Sample => "the seconds",
        };
        (known, word)
    } else if moments.len() == run.len() && axis == Axis::Seconds {
        (times::since_first(&moments), "the time of day, as seconds since the first")
    } else {
        ((0..run.len()).map(|n| n as f64).collect(), "the number of the line")
    }
}

/// Counts on the lines themselves, else from stretches that cover the run.
fn counts(log: &Log, run: &[&Point], out: &mut Curve) {
    let names: BTreeSet<&str> =
        run.iter().flat_map(|point| &point.counts).map(|(series, _)| *series).collect();
    for name in names {
        let count = |point: &&Point| {
            point.counts.iter().find(|(series, _)| *series == name).map_or(f64::NAN, |found| found.1)
        };
        out.series.insert(name.to_owned(), run.iter().map(count).collect());
    }
    let stretched: BTreeSet<&str> = log.stretches.iter().map(|stretch| stretch.series).collect();
    for name in stretched {
        let at = |x: &f64| {
            let covers =
                |stretch: &&Stretch| stretch.series == name && stretch.from <= *x && *x <= stretch.to;
            log.stretches.iter().find(covers).map_or(f64::NAN, |stretch| stretch.count)
        };
        let values: Vec<f64> = out.x.iter().map(at).collect();
        if out.axis == Axis::Step && values.iter().any(|value| value.is_finite()) {
            out.series.entry(name.to_owned()).or_insert(values);
        }
    }
}
