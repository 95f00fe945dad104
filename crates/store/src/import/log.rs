//! Plain training logs: lines that hold a step (or epoch, or time) and a size of memory.
//!
//! `Step 10:  5,552 MB  (baseline)`, `{'loss': 1.2, 'epoch': 0.1, 'memory_gb': 5.2}`, progress bars, `13:18:20  6.2 GB`.
//! Several runs in one text are parted where the step falls back without a new epoch, or a heading says `Run 2`.

mod axis;
mod clock;
mod line;
mod linked;
mod lists;
mod nested;
mod no_level;
mod stamps;
mod writers;

use super::memory_names::{
    FREE, Meaning, are_alike, free_meaning, heap_series, is_free, is_named, is_now, is_peak, is_total,
    meaning,
};
use super::numbers::{self, Unit};
use super::passes::{self, At, Counted, Passes};
use super::process_parts::Parts;
use super::{
    Attempt, Hints, MOST_BESIDE, Missing, allocator, cgroup_files, named, process_parts, times, whose,
};
use axis::{Chosen, Place};
use line::{Point, Size, Stretch, Writer};
use lowtide_model::{Axis, Curve, Metric};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

/// A run of fewer points is a mention in prose, where a longer run is there.
const FEWEST_POINTS: usize = 3;

/// Why a log that tells parts gives no curve.
const IN_PER_CENT: &str =
    "memory stands there as a part of a whole that nobody tells (per cent); log a size, such as psutil's rss";

/// Rank of a size that stands without a name.
const NAMELESS_RANK: u8 = 7;

#[derive(Default)]
struct Log {
    points: Vec<Point>,
    stretches: Vec<Stretch>,
    headings: Vec<String>,
    /// Lines on which memory stands in per cent.
    in_per_cent: usize,
}

/// The points of one run, their places, and what is known of its passes.
struct Run<'a> {
    points: Vec<&'a Point>,
    x: Vec<f64>,
    passes: Option<Passes>,
}

pub(crate) fn read(text: &str, hints: &Hints) -> Attempt {
    let text = &nested::named(text);
    let log = gather(text, hints);
    if log.points.is_empty() && log.in_per_cent >= FEWEST_POINTS {
        return Err(Missing::Wanted(IN_PER_CENT.to_owned()));
    }
    let names = names_to_judge(&log.points, hints)?;
    let mut curves = Vec::new();
    let mut failed = None;
    for name in &names {
        let title = if names.len() > 1 { name.as_str() } else { "" };
        for part in writers::parts(text, &log.points, name, hints) {
            let found = match of_one(&log, part.points, name, hints) {
                Ok(found) => found,
                Err(missing) => {
                    failed = Some(missing);
                    continue;
                }
            };
            curves.extend(found.into_iter().map(|mut curve| {
                curve.name = named(&[&part.title, title, &curve.name]);
                curve.notes.extend(part.note.clone());
                curve
            }));
        }
    }
    if let Some(first) = curves.first_mut().filter(|_| hints.y.is_none()) {
        first.notes.extend(unread(&log.points, &names));
    }
    match failed.filter(|_| curves.is_empty()) {
        Some(missing) => Err(missing),
        None => Ok(curves),
    }
}

/// What has to be said of sizes of memory on many lines that are neither judged nor parts of what is.
fn unread(points: &[Point], names: &[String]) -> Option<String> {
    let mut lines: BTreeMap<&str, usize> = BTreeMap::new();
    for (name, ..) in points.iter().flat_map(|point| &point.sizes) {
        *lines.entry(name).or_default() += 1;
    }
    let beside = |name: &str| process_parts::part(name).or(heap_series(name)).is_some() || is_total(name);
    let memory = |name: &str| meant(name).is_some_and(|meant| whose::is_size(&meant));
    lines.retain(|name, _| memory(name) && !is_still_sum(points, name));
    for name in points.iter().flat_map(|point| &point.others) {
        *lines.entry(name).or_default() += 1;
    }
    lines.retain(|name, count| *count * 2 >= points.len() && !beside(name));
    whose::unread(lines.into_keys().filter(|name| names.iter().all(|judged| judged != name)).collect())
}

/// The curves of points that one process wrote, or several in turn.
fn of_one(log: &Log, points: Vec<&Point>, name: &str, hints: &Hints) -> Attempt {
    let points = axis::oldest_first(points);
    let chosen = axis::choose(&points, hints);
    let points = if chosen.place == Place::Line {
        of_one_shape(&points)?
    } else {
        points.into_iter().filter(|point| chosen.place.has(point)).collect()
    };
    let runs = split_runs(&points, name, chosen.place);
    let least = FEWEST_POINTS.min(runs.iter().map(|run| run.points.len()).max().unwrap_or(0));
    let kept = runs.iter().filter(|run| run.points.len() >= least);
    let several = kept.clone().count() > 1;
    let mut curves = Vec::new();
    for (number, run) in kept.enumerate() {
        let mut curve = curve(log, run, name, &chosen, hints);
        let heading = run
            .points
            .first()
            .and_then(|point| log.headings.get(point.run))
            .filter(|heading| !heading.is_empty());
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

fn note_on_runs(runs: &[Run<'_>], least: usize) -> Option<String> {
    let kept = runs.iter().filter(|run| run.points.len() >= least).count();
    let short = runs.len() - kept;
    let left_out =
        if short > 0 { format!("; {short} of fewer than {least} points left out") } else { String::new() };
    (runs.len() > 1).then(|| {
        format!("{kept} runs in this text, parted where x falls back or a heading says so{left_out}")
    })
}

fn gather(text: &str, hints: &Hints) -> Log {
    let mut log = Log { headings: vec![String::new()], ..Log::default() };
    let mut bar = None;
    let mut above = None;
    let mut under_epoch = None;
    let mut under_moment = None;
    let mut in_status = false;
    let stamp = stamps::find(text).filter(|_| hints.x.is_none());
    for line in text.lines().filter(|line| line.len() < 10_000) {
        let mut found = numbers::scan(line);
        let stamped = stamp.and_then(|stamp| stamps::take(&mut found, stamp));
        if found.is_empty() {
            continue;
        }
        if let Some(stretch) = line::stretch(&found) {
            log.stretches.push(stretch);
            continue;
        }
        let mut point = line::point(line, &found, hints);
        point.seconds = point.seconds.or(stamped);
        log.in_per_cent += usize::from(point.per_cent);
        under_epoch = point.epoch.or(under_epoch);
        if point.sizes.is_empty() {
            in_status = false;
            under_moment = point.moment.or_else(|| times::epoch(line)).or(under_moment);
            if is_heading(line) {
                log.headings
                    .push(line.trim().trim_end_matches(':').trim_matches(['=', '#', '-', ' ']).to_owned());
                under_epoch = None;
            }
            above =
                Some((point.step, point.epoch)).filter(|(step, epoch)| step.or(*epoch).is_some()).or(above);
            bar = point.step.filter(|_| point.in_bar).map(|step| (step, point.of)).or(bar);
            continue;
        }
        // The bar above a line of values tells its step; once.
        if let Some((step, of)) = bar.take_if(|_| point.step.is_none()) {
            (point.step, point.of) = (Some(step), of);
        }
        point.under_epoch = under_epoch;
        point.under_moment = under_moment;
        point.above = above.take();
        point.run = log.headings.len() - 1;
        point.line = line_in(text, line);
        let of_status = is_of_status(&point);
        match log.points.last_mut().filter(|above| in_status && of_status && is_part_of(above, &point)) {
            Some(above) => above.sizes.append(&mut point.sizes),
            None => log.points.push(point),
        }
        in_status = of_status;
    }
    take_from_above(&mut log.points);
    take_times_from_above(&mut log.points);
    take_labels_as_writers(&mut log.points);
    log
}

/// Whether a line is one of /proc/PID/status, which has each size on a line of its own.
fn is_of_status(point: &Point) -> bool {
    matches!(&point.sizes[..], [(name, ..)] if process_parts::is_of_status(name)) && !placed(point)
}

/// Whether a line goes on with what the one above it began.
fn is_part_of(above: &Point, point: &Point) -> bool {
    above.run == point.run && point.sizes.iter().all(|(name, ..)| size_of(above, name).is_none())
}

/// Where a line of a text stands in it.
fn line_in(text: &str, line: &str) -> Range<usize> {
    let start = line.as_ptr() as usize - text.as_ptr() as usize;
    start..start + line.len()
}

/// Launchers write before each line who wrote it: `3: `, `[default3]:`, `trainer-3  | `. A step or an epoch there only
/// rises; writers take turns, and their names differ in numbers alone.
fn take_labels_as_writers(points: &mut [Point]) {
    let labels: Vec<&Writer> = points.iter().filter_map(|point| point.label.as_ref()).collect();
    let writers: BTreeSet<&Writer> = labels.iter().copied().collect();
    let forms: BTreeSet<String> = writers.iter().map(|writer| writer.form()).collect();
    let falls = labels.windows(2).filter(|pair| pair[1] < pair[0]).count();
    let unnamed = points.iter().all(|point| point.writer.is_none());
    let each = labels.len() * 10 >= points.len() * 8 && forms.len() == 1;
    if unnamed && each && writers.len() > 1 && falls >= writers.len() {
        points.iter_mut().for_each(|point| point.writer = point.label.take());
    }
}

/// Whether a line says where it stands.
fn placed(point: &Point) -> bool {
    point.step.or(point.epoch).or(point.seconds).or(point.asked).is_some() || point.moment.is_some()
}

/// A loop prints the time, and under it what it looks at, on one line or several: where no line with a size says its place,
/// all have the time that was printed last, if it was printed about as often as they were.
fn take_times_from_above(points: &mut [Point]) {
    if !points.iter().all(|point| point.under_moment.is_some() && !placed(point)) {
        return;
    }
    let mut lines: BTreeMap<&str, usize> = BTreeMap::new();
    for (name, ..) in points.iter().flat_map(|point| &point.sizes) {
        *lines.entry(name).or_default() += 1;
    }
    let most = lines.into_values().max().unwrap_or(0);
    let times = 1 + points.windows(2).filter(|pair| pair[0].under_moment != pair[1].under_moment).count();
    if most * 4 <= times * 5 {
        points.iter_mut().for_each(|point| point.moment = point.under_moment);
    }
}

/// A trainer's line has step and epoch, the line under it the size: where sizes stand on lines that say no place, and
/// nearly each has such a line above, they belong there.
fn take_from_above(points: &mut [Point]) {
    let from_above = points.iter().filter(|point| !placed(point) && point.above.is_some()).count();
    if from_above * 10 >= points.len() * 8 {
        for point in points.iter_mut().filter(|point| !placed(point)) {
            (point.step, point.epoch) = point.above.unwrap_or_default();
        }
    }
}

/// `Run 2 (Process 179532):`, `=== run 3 ===`.
fn is_heading(line: &str) -> bool {
    let line = line.trim().trim_start_matches(['=', '#', '-', '*', ' ']).to_ascii_lowercase();
    let number = line.strip_prefix("run").map(|rest| rest.trim_start_matches([' ', '#', ':']));
    number.is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit())) && line.len() < 80
}

fn size_of<'a>(point: &'a Point, name: &str) -> Option<&'a Size> {
    point.sizes.iter().chain(&point.totals).find(|(key, ..)| key == name)
}

/// The name that stands on most lines; among those on half as many, the one that means the most. Beside it GPU memory,
/// which grows for reasons of its own.
fn names_to_judge(points: &[Point], hints: &Hints) -> Result<Vec<String>, Missing> {
    let mut lines: BTreeMap<&str, usize> = BTreeMap::new();
    for point in points {
        let names: BTreeSet<&str> = point.sizes.iter().map(|(key, ..)| key.as_str()).collect();
        for name in names {
            *lines.entry(name).or_default() += 1;
        }
    }
    if let Some(asked) = &hints.y {
        let is = |name: &str| {
            is_named(name, asked) || name.rsplit(' ').next().is_some_and(|key| is_named(key, asked))
        };
        let named = lines.keys().find(|name| is(name)).map(|name| vec![(*name).to_owned()]);
        return named.ok_or_else(|| format!("no line with `{asked}` and a number").into());
    }
    let most = lines.values().copied().max().ok_or("no line with a size of memory")?;
    if lines.keys().any(|name| !process_parts::is_file(name)) {
        lines.retain(|name, _| !process_parts::is_file(name));
    } else if let Some(file) = lines.keys().next() {
        return Err(process_parts::only_file(file));
    }
    let rank = |name: &str| {
        if name.is_empty() || meant(name).is_none() && is_now(name) {
            return NAMELESS_RANK;
        }
        meant(name).map_or(0, |meant| meant.rank)
    };
    lines.retain(|_, count| *count * 2 >= most);
    let is_share = |name: &str| {
        points
            .iter()
            .filter_map(|point| size_of(point, name))
            .all(|(_, value, unit)| unit.is_none() && *value <= 1.0)
    };
    lines.retain(|name, _| hints.unit.is_some() || !is_share(name));
    if lines.is_empty() {
        return Err(Missing::Wanted(IN_PER_CENT.to_owned()));
    }
    // Of several that mean and count as much, the whole before its parts, and the first that has a name.
    let whole = |name: &str| process_parts::part(name).is_none();
    // What is there now before a peak of the same.
    let now = |name: &str| {
        let peak_of = |other: &&&str| is_now(other) && whose::of_the_same(name, other);
        !(is_peak(name) && lines.keys().any(|other| peak_of(&other)))
    };
    let worth =
        |(name, count): &(&&str, &usize)| (now(name), rank(name), **count, whole(name), !name.is_empty());
    let best = lines.iter().rev().max_by_key(worth).map(|(name, _)| *name);
    let peaks = best.is_some_and(is_peak);
    let beside_reserved = best.and_then(|best| allocator::peak_of_use(best, lines.keys().copied()));
    let gpu = |name: &str| {
        (peaks || !is_peak(name) || beside_reserved == Some(name))
            && meaning(name).is_some_and(|meant| meant.metric == Metric::Gpu)
    };
    let alike = |name: &str| best.is_some_and(|best| are_alike(best, name));
    let mut judged: Vec<&str> = best.into_iter().collect();
    let told = lines.keys().copied().filter(|name| Some(*name) != best && !is_still_sum(points, name));
    judged.extend(told.clone().filter(|name| gpu(name) || alike(name)).take(MOST_BESIDE));
    add_others(&mut judged, told);
    Ok(judged.into_iter().map(str::to_owned).collect())
}

/// Whether a name of a sum never moves: then it is a total of which something is in use.
fn is_still_sum(points: &[Point], name: &str) -> bool {
    let is_sum = meaning(name).is_none() && whose::sum_of_processes(name).is_some();
    let values = || points.iter().filter_map(|point| size_of(point, name)).map(|(_, value, _)| *value);
    is_sum && super::constant(&values().collect::<Vec<f64>>()).is_some()
}

/// Adds the names of other processes, cards and sums than those that are judged already, the best first.
fn add_others<'a>(judged: &mut Vec<&'a str>, told: impl Iterator<Item = &'a str>) {
    let meant = |name| Some((name, meaning(name).or_else(|| whose::sum_of_processes(name))?));
    let mut others: Vec<(&str, Meaning)> =
        told.filter(|name| !judged.contains(name)).filter_map(meant).collect();
    others.sort_by_key(|(_, meant)| std::cmp::Reverse(meant.rank));
    let is_card = |name: &&str| meaning(name).is_some_and(|meant| meant.metric == Metric::Gpu);
    let process = others.iter().find(|(name, meant)| whose::is_beside_cards(name, meant));
    let process = process.map(|(name, _)| *name).filter(|_| judged.iter().all(is_card));
    judged.extend(process);
    for (name, meant) in others.into_iter().filter(|(name, _)| Some(*name) != process) {
        if judged.len() <= MOST_BESIDE && whose::is_of_another(name, &meant, judged) {
            judged.push(name);
        }
    }
}

fn meant(name: &str) -> Option<Meaning> {
    meaning(name).or_else(|| whose::sum_of_processes(name)).or_else(|| free_meaning(name))
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

/// Parts the points at headings, and where x falls back without a new pass.
fn split_runs<'a>(points: &[&'a Point], name: &str, place: Place) -> Vec<Run<'a>> {
    let counted = match place {
        Place::Step | Place::Asked => Counted::Steps,
        Place::Epoch | Place::Seconds | Place::Moment | Place::Line => Counted::Other,
    };
    let mut out = Vec::new();
    for under in points.chunk_by(|a, b| a.run == b.run) {
        if matches!(place, Place::Moment | Place::Line) {
            out.push(Run { points: under.to_vec(), x: place.x(under), passes: None });
            continue;
        }
        let x = place.x(under);
        let at = |(point, x): (&&Point, f64)| At {
            x,
            y: size_of(point, name)
                .map_or(f64::NAN, |(_, value, unit)| value * unit.map_or(1.0, |u| u.bytes)),
            epoch: point.epoch.or(point.under_epoch),
            of: point.of,
            pid: point.pid,
        };
        let mut at: Vec<At> = under.iter().zip(x).map(at).collect();
        passes::hold_side_loops(&mut at);
        let held: Vec<f64> = at.iter().map(|at| at.x).collect();
        for run in passes::runs(&at, counted) {
            let x = run
                .passes
                .as_ref()
                .map_or_else(|| held[run.range.clone()].to_vec(), |passes| passes.x.clone());
            out.push(Run { points: under[run.range].to_vec(), x, passes: run.passes });
        }
    }
    out
}

fn curve(log: &Log, run: &Run<'_>, name: &str, chosen: &Chosen, hints: &Hints) -> Curve {
    let points = &run.points;
    let (y, unit_note) = sizes(points, name, hints);
    let title = if name.is_empty() { "the size on each line".to_owned() } else { format!("`{name}`") };
    let mut out = Curve {
        axis: chosen.place.axis(),
        x: run.x.clone(),
        y,
        metric: meant(name).map_or(Metric::Rss, |meant| meant.metric),
        notes: vec![format!("y is {title}, {unit_note}; x is {}", chosen.place.words())],
        ..Curve::default()
    };
    out.notes.extend(chosen.note.clone());
    out.notes.extend(chosen.place.note(points));
    out.notes.extend(run.passes.as_ref().map(|passes| passes.note.clone()));
    out.notes.extend(note_on_name(points, name));
    out.context.epoch_steps = run.passes.as_ref().map(|passes| passes.steps);
    let beside =
        || total_beside(points, name, hints).filter(|_| is_free(name) || cgroup_files::is_charge(name));
    let bound = bound(points, name, hints).or_else(beside);
    let bound = bound.filter(|bound| out.y.iter().all(|y| y <= bound || y.is_nan()));
    super::set_limit(&mut out, bound);
    counts(log, points, &mut out);
    if is_free(name) {
        super::turn_round(&mut out, bound, name);
    }
    let others: BTreeSet<&str> =
        points.iter().flat_map(|point| &point.sizes).map(|(key, ..)| key.as_str()).collect();
    let mut parts = Parts::new();
    for other in others.into_iter().filter(|other| !other.is_empty() && *other != name) {
        let known = points.iter().filter(|point| size_of(point, other).is_some()).count();
        if known * 2 > points.len() {
            let values = sizes(points, other, hints).0;
            if let Some(part) = process_parts::part(other) {
                parts.insert(part, values.clone());
            }
            let name = heap_series(other).unwrap_or(other).to_owned();
            out.series.insert(name, values);
        }
    }
    process_parts::tell(&mut out, name, parts);
    out
}

/// What has to be known of a size to take its curve for what it is.
fn note_on_name(points: &[&Point], name: &str) -> Option<String> {
    let of = |held: &str| format!("`{name}` is {held}");
    if is_peak(name) {
        return Some(of("the highest so far: it cannot fall"));
    }
    // Beside what is allocated it is judged with it.
    let alone = points.iter().all(|point| !point.sizes.iter().any(|(other, ..)| other.contains("alloc")));
    (name.contains("reserved") && alone).then(|| {
        of("what the allocator took from the driver: without what is allocated of it, fragmentation looks like a leak")
    })
}

/// What the sizes are held against on their own lines, where all of them agree.
fn bound(points: &[&Point], name: &str, hints: &Hints) -> Option<f64> {
    let asked = hints.unit.as_deref().and_then(numbers::unit);
    let bytes = |(_, value, unit): &Size| {
        let said = (*unit)?;
        Some(value * asked.map_or(said, |asked| numbers::overruled(said, asked)).bytes)
    };
    let all: Vec<f64> =
        points.iter().filter_map(|point| bytes(point.bounds.iter().find(|(key, ..)| key == name)?)).collect();
    super::constant(&all).filter(|_| all.len() * 2 > points.len())
}

/// The total that stands on the lines beside what is free.
fn total_beside(points: &[&Point], name: &str, hints: &Hints) -> Option<f64> {
    let told = points.iter().flat_map(|point| point.sizes.iter().chain(&point.totals));
    let names: BTreeSet<&str> = told.map(|(key, ..)| key.as_str()).collect();
    let totals: Vec<&str> = names.into_iter().filter(|other| *other != name && is_total(other)).collect();
    // Of several, the one that is called as this is: `gpu_total` beside `gpu_free`.
    let kin = |name: &str| {
        FREE.iter().chain(&["total", "limit"]).fold(name.to_owned(), |name, word| name.replace(word, "*"))
    };
    let akin = || totals.iter().copied().find(|total| kin(total) == kin(name));
    let total = if let [only] = totals[..] { only } else { akin()? };
    let mut values = sizes(points, total, hints).0;
    values.retain(|value| value.is_finite());
    super::constant(&values).filter(|_| values.len() * 2 > points.len())
}

/// The sizes under a name in bytes, and what was taken for their unit.
fn sizes(run: &[&Point], name: &str, hints: &Hints) -> (Vec<f64>, String) {
    let found: Vec<Option<(f64, Option<Unit>)>> =
        run.iter().map(|point| size_of(point, name).map(|(_, value, unit)| (*value, *unit))).collect();
    let asked = hints.unit.as_deref().and_then(numbers::unit);
    let guessed = asked.unwrap_or_else(|| guessed(run));
    let unit = |said: Option<Unit>| match (said, asked) {
        (Some(said), Some(asked)) => numbers::overruled(said, asked),
        (Some(said), None) => said,
        (None, _) => guessed,
    };
    let units: BTreeSet<&str> = found.iter().flatten().map(|(_, said)| unit(*said).name).collect();
    let how = if asked.is_some() {
        "as asked"
    } else if found.iter().flatten().all(|(_, unit)| unit.is_some()) {
        "from the text"
    } else {
        numbers::how_guessed(guessed)
    };
    let note = format!("taken as {}, {how}", units.into_iter().collect::<Vec<_>>().join(" and "));
    let bytes =
        |item: Option<(f64, Option<Unit>)>| item.map_or(f64::NAN, |(value, said)| value * unit(said).bytes);
    (found.into_iter().map(bytes).collect(), note)
}

/// The unit of sizes that have none, where some of the lines tell of a process or a card: a heap may be small.
fn guessed(run: &[&Point]) -> Unit {
    let holds = |name: &str| meant(name).is_some_and(|meant| !matches!(meant.metric, Metric::Other(_)));
    let of_process = run.iter().any(|point| point.sizes.iter().any(|(name, ..)| holds(name)));
    let values = largest_bare(run);
    if of_process { numbers::guess_of_process(&values) } else { numbers::guess(&values) }
}

/// The largest size of each line that has no unit: a program writes all of them in one.
fn largest_bare(run: &[&Point]) -> Vec<f64> {
    let bare = |point: &&Point| {
        let sizes = point.sizes.iter().chain(&point.totals).filter(|(_, _, unit)| unit.is_none());
        sizes.map(|(_, value, _)| *value).reduce(f64::max)
    };
    run.iter().filter_map(bare).collect()
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
