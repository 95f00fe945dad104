//! The files and screens of known tools: mprof, psrecord, docker stats, sstat, free, sar, ps and top in a loop.

mod atop;
mod cards;
mod dumps;
mod sar;
mod slurm;

use super::numbers::{self, KIB, MIB, Unit};
use super::times::{self, Moment};
use super::{Attempt, Hints};
use lowtide_model::{Axis, Curve, Metric};
use std::collections::BTreeMap;

/// A tool's name with its reader.
type Form = (&'static str, fn(&str, &Hints) -> Attempt);

/// Tools, the surest signs first.
pub(crate) const FORMS: &[Form] = &[
    ("mprof", mprof),
    ("psrecord", psrecord),
    ("docker stats", docker_stats),
    ("kubectl top or systemd-cgtop", cgroups),
    ("sstat or sacct", slurm::read),
    ("gpustat", cards::gpustat),
    ("nvidia-smi -q", cards::query),
    ("nvidia-smi", nvidia_smi),
    ("nvidia-smi dmon or pmon", dumps::dmon),
    ("/proc/meminfo", dumps::meminfo),
    ("free", free),
    ("vmstat", vmstat),
    ("statm", statm),
    ("sar", sar::read),
    ("atop -P MEM", atop::read),
    ("ps or top", ps),
    ("a number after each time", stamped),
];

fn unit(hints: &Hints, usual: Unit) -> Unit {
    hints.unit.as_deref().and_then(numbers::unit).unwrap_or(usual)
}

fn started_at_zero(mut x: Vec<f64>) -> Vec<f64> {
    let first = x.first().copied().unwrap_or(0.0);
    for x in &mut x {
        *x -= first;
    }
    x
}

/// `MEM 12.3 1700000000.1`, and `CHLD pid 12.3 1700000000.1` for children.
fn mprof(text: &str, hints: &Hints) -> Attempt {
    let unit = unit(hints, MIB);
    let mut lines: BTreeMap<&str, (Vec<f64>, Vec<f64>)> = BTreeMap::new();
    let mut add = |who, time: &str, size: &str| {
        if let (Some(time), Some(size)) = (numbers::number(time), numbers::number(size)) {
            let line = lines.entry(who).or_default();
            line.0.push(time);
            line.1.push(size * unit.bytes);
        }
    };
    for line in text.lines() {
        match *line.split_whitespace().collect::<Vec<_>>().as_slice() {
            ["MEM", size, time] => add("", time, size),
            ["CHLD", child, size, time] => add(child, time, size),
            _ => {}
        }
    }
    if !lines.contains_key("") {
        return Err("no MEM lines".into());
    }
    let note = format!("mprof counts in MiB; taken as {}", unit.name);
    let curve = |(who, (x, y)): (&str, (Vec<f64>, Vec<f64>))| Curve {
        name: if who.is_empty() { String::new() } else { format!("child {who}") },
        axis: Axis::Seconds,
        x: started_at_zero(x),
        y,
        notes: vec![note.clone()],
        ..Curve::default()
    };
    Ok(lines.into_iter().map(curve).collect())
}

/// `# Elapsed time   CPU (%)     Real (MB)   Virtual (MB)` and four columns.
fn psrecord(text: &str, hints: &Hints) -> Attempt {
    let head = text.lines().find(|line| !line.trim().is_empty()).unwrap_or("");
    if !(head.contains("Elapsed time") && head.contains("Real (MB)")) {
        return Err("no line `Elapsed time ... Real (MB)`".into());
    }
    let unit = unit(hints, MIB);
    let row = |line: &str| {
        let cells: Vec<f64> = line.split_whitespace().filter_map(numbers::number).collect();
        (cells.len() >= 3).then(|| (cells[0], cells[2] * unit.bytes))
    };
    let (x, y): (Vec<f64>, Vec<f64>) = text.lines().filter_map(row).unzip();
    let notes = vec![format!("psrecord's MB are 2^20 bytes; taken as {}", unit.name)];
    Ok(vec![Curve { axis: Axis::Seconds, x, y, notes, ..Curve::default() }])
}

/// Points of several things, each with the moment or the round it was seen in.
#[derive(Default)]
struct Rounds {
    now: Option<Moment>,
    round: usize,
    lines: BTreeMap<String, Line>,
}

#[derive(Default)]
struct Line {
    moments: Vec<Moment>,
    rounds: Vec<f64>,
    y: Vec<f64>,
    limit: Option<f64>,
}

impl Rounds {
    /// A line that is no row may be a `date` between two rounds.
    fn other(&mut self, line: &str) {
        self.now = times::find(line).or_else(|| times::epoch(line)).or(self.now);
    }

    fn add(&mut self, who: &str, y: f64, limit: Option<f64>) {
        let line = self.lines.entry(who.to_owned()).or_default();
        line.moments.extend(self.now);
        line.rounds.push(self.round as f64);
        line.y.push(y);
        line.limit = limit.or(line.limit);
    }

    fn curves(self, metric: &Metric, note: &str) -> Vec<Curve> {
        let curve = |(name, line): (String, Line)| {
            let timed = line.moments.len() == line.y.len();
            let (x, put_back) = if timed {
                times::laid(&line.moments)
            } else {
                ((0..line.y.len()).map(|n| n as f64).collect(), None)
            };
            let mut curve =
                Curve { name, axis: Axis::Sample, x, y: line.y, metric: metric.clone(), ..Curve::default() };
            curve.notes.push(note.to_owned());
            curve.notes.extend(put_back);
            if timed {
                curve.axis = Axis::Seconds;
            } else {
                curve.notes.push("no times between the rounds; x is their number".to_owned());
            }
            super::set_limit(&mut curve, line.limit);
            curve
        };
        self.lines.into_iter().map(curve).collect()
    }
}

/// `CONTAINER ID NAME CPU % MEM USAGE / LIMIT ...`, `1.2GiB / 31.3GiB` in each row.
fn docker_stats(text: &str, hints: &Hints) -> Attempt {
    if text.contains("\"MemUsage\"") {
        return Ok(docker_json(text, hints).curves(&Metric::Cgroup, DOCKER));
    }
    if !text.contains("MEM USAGE / LIMIT") {
        return Err("no heading `MEM USAGE / LIMIT`".into());
    }
    let mut rounds = Rounds::default();
    let mut name_at = 1;
    for line in text.lines() {
        if line.contains("MEM USAGE / LIMIT") {
            rounds.round += 1;
            name_at = usize::from(line.trim_start().starts_with("CONTAINER ID"));
            rounds.other(line);
            continue;
        }
        let cells: Vec<&str> = line.split_whitespace().collect();
        let slash = cells.iter().position(|cell| *cell == "/").unwrap_or(0);
        let used = slash.checked_sub(1).and_then(|at| size(cells.get(at)?, hints));
        match (used, cells.get(name_at)) {
            (Some(used), Some(name)) => {
                rounds.add(name, used, cells.get(slash + 1).and_then(|cell| size(cell, hints)));
            }
            _ => rounds.other(line),
        }
    }
    Ok(rounds.curves(&Metric::Cgroup, DOCKER))
}

const DOCKER: &str = "docker stats: usage without page cache that can be dropped, units from the cells";

/// The same with `--format json`: `{"Name":"trainer","MemUsage":"1.2GiB / 31.3GiB",...}` in each line.
fn docker_json(text: &str, hints: &Hints) -> Rounds {
    let mut rounds = Rounds::default();
    for line in text.lines() {
        let start = line.find('{').unwrap_or(line.len());
        rounds.other(&line[..start]);
        let Ok(row) = serde_json::from_str::<serde_json::Value>(&line[start..]) else { continue };
        let mut cells =
            row["MemUsage"].as_str().unwrap_or_default().split(" / ").map(|cell| size(cell, hints));
        if let Some(used) = cells.next().flatten() {
            rounds.add(row["Name"].as_str().unwrap_or_default(), used, cells.next().flatten());
        }
    }
    rounds
}

/// Rows under `NAME CPU(cores) MEMORY(bytes)` or `Control Group Tasks %CPU Memory Input/s`: a name, and a size.
fn cgroups(text: &str, hints: &Hints) -> Attempt {
    let is_heading = |line: &str| {
        line.contains("MEMORY(bytes)") || (line.contains("Control Group") && line.contains("Memory"))
    };
    let Some(heading) = text.lines().find(|line| is_heading(line)) else {
        return Err("no heading `MEMORY(bytes)` or `Control Group ... Memory`".into());
    };
    // What stands before the first number is the name: a namespace, a pod, a container, a path.
    let count = |line: &str| line.split_whitespace().count();
    let named = heading.find("CPU(").or_else(|| heading.find("Tasks")).map_or(1, |at| count(&heading[..at]));
    let named = if heading.contains("Control Group") { 1 } else { named.max(1) };
    let mut rounds = Rounds::default();
    for line in text.lines() {
        let cells: Vec<&str> = line.split_whitespace().collect();
        let rest = cells.get(named..).unwrap_or_default();
        match rest.iter().find_map(|cell| size(cell, hints).filter(|_| !cell.ends_with('m'))) {
            Some(_) if is_heading(line) => {}
            Some(used) => rounds.add(&cells[..named].join(" "), used, None),
            None => rounds.other(line),
        }
    }
    Ok(rounds.curves(&Metric::Cgroup, "the memory of each cgroup, units from the cells"))
}

const NO_CARDS: &str = "no `|  20000MiB / 81920MiB |`";
const NO_VMSTAT: &str = "no heading with swpd, free, buff and cache";

/// The screen of `nvidia-smi`, again and again: `|   0  NVIDIA A100 ...`, and under it `|  20000MiB / 81920MiB |`.
fn nvidia_smi(text: &str, hints: &Hints) -> Attempt {
    if !text.contains("MiB / ") {
        return Err(NO_CARDS.into());
    }
    let mut rounds = Rounds::default();
    let (mut card, mut counted) = (None, 0);
    for line in text.lines() {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        let used = cells.iter().find_map(|cell| {
            let (used, total) = cell.split_once(" / ")?;
            let mebibytes = used.ends_with("MiB") && total.ends_with("MiB");
            Some((size(used, hints)?, size(total, hints)?)).filter(|_| mebibytes)
        });
        if let Some((used, total)) = used.filter(|_| line.trim_start().starts_with('|')) {
            rounds.add(&format!("GPU {}", card.take().unwrap_or(counted)), used, Some(total));
            counted += 1;
        } else if let Some(time) = times::find(line) {
            (rounds.now, card, counted) = (Some(time), None, 0);
        } else {
            let first = cells.get(1).and_then(|cell| cell.split_whitespace().next());
            card = first.and_then(|word| word.parse::<u32>().ok()).or(card);
        }
    }
    if rounds.lines.is_empty() {
        return Err(NO_CARDS.into());
    }
    Ok(rounds.curves(&Metric::Gpu, "nvidia-smi: memory in use of each card, units from the cells"))
}

/// `procs ---memory--- ...` and ` r b swpd free buff cache ...`: memory in use is what is neither free nor cache.
fn vmstat(text: &str, hints: &Hints) -> Attempt {
    if !text.contains("swpd") {
        return Err(NO_VMSTAT.into());
    }
    let unit = unit(hints, KIB);
    let mut rounds = Rounds::default();
    let mut columns: Option<[usize; 3]> = None;
    for line in text.lines() {
        let cells: Vec<&str> = line.split_whitespace().collect();
        let at = |name: &str| cells.iter().position(|cell| *cell == name);
        if let (Some(_), Some(free), Some(buff), Some(cache)) =
            (at("swpd"), at("free"), at("buff"), at("cache"))
        {
            columns = Some([free, buff, cache]);
            continue;
        }
        let size = |at: &usize| cells.get(*at).and_then(|cell| numbers::number(cell));
        let sizes: Option<Vec<f64>> = columns.and_then(|columns| columns.iter().map(size).collect());
        if let Some(sizes) = sizes {
            rounds.now = times::find(line).or(rounds.now);
            rounds.add("", sizes.iter().sum::<f64>() * unit.bytes, None);
        }
    }
    if rounds.lines.is_empty() {
        return Err(NO_VMSTAT.into());
    }
    let note = format!("the whole machine, numbers taken as {}", unit.name);
    let mut curves = rounds.curves(&Metric::Host, &note);
    curves.iter_mut().for_each(|curve| super::turn_round(curve, None, "free + buff + cache"));
    Ok(curves)
}

/// `/proc/PID/statm` in a loop, with a time before it or without: seven counts of pages, the fifth and the last always 0.
fn statm(text: &str, _: &Hints) -> Attempt {
    let mut rounds = Rounds::default();
    for line in text.lines().filter(|line| !line.trim().is_empty()) {
        let cells: Vec<&str> = line.split_whitespace().collect();
        let start = cells.len().saturating_sub(STATM);
        let counts: Option<Vec<u64>> = cells[start..].iter().map(|cell| cell.parse().ok()).collect();
        let before = cells[..start].join(" ");
        rounds.other(&before);
        match counts.as_deref() {
            Some([all, resident, shared, text, 0, data, 0])
                if resident <= all && shared <= resident && text <= all && data <= all && *resident > 0 =>
            {
                rounds.add("", *resident as f64 * PAGE, None);
            }
            _ if cells.len() < STATM && times::find(line).or_else(|| times::epoch(line)).is_some() => {
                rounds.other(line);
            }
            _ => return Err("not the seven counts of statm".into()),
        }
    }
    if rounds.lines.is_empty() {
        return Err("not the seven counts of statm".into());
    }
    Ok(rounds.curves(&Metric::Rss, "statm's second count, in pages of 4 KiB"))
}

const STATM: usize = 7;
const PAGE: f64 = 4096.0;

/// A size with a unit; the asked unit overrules the kind of it.
fn size(cell: &str, hints: &Hints) -> Option<f64> {
    let plain = numbers::size(cell)?;
    let Some(asked) = hints.unit.as_deref().and_then(numbers::unit) else { return Some(plain) };
    let split = cell.find(|c: char| c.is_ascii_alphabetic())?;
    let said = numbers::unit(&cell[split..])?;
    Some(plain / said.bytes * numbers::overruled(said, asked).bytes)
}

/// What `free` calls the row of memory, by language.
const MEM: &[&str] =
    &["Mem:", "Mem.:", "Speicher:", "Mem :", "Mém. :", "Память:", "内存：", "内存:", "メモリ:"];

/// The cells of the row of memory.
fn row_of_free(line: &str) -> Option<std::str::SplitWhitespace<'_>> {
    let line = line.trim_start();
    let row = MEM.iter().find_map(|word| line.strip_prefix(word)).or_else(|| stamped_row_of_free(line));
    row.map(str::split_whitespace)
}

/// What follows `Mem:` where a time stands before it, or who wrote it: all cells of the row, none above the first.
fn stamped_row_of_free(line: &str) -> Option<&str> {
    let row = line.split_once(" Mem:").map(|(_, row)| row)?;
    let cells: Option<Vec<f64>> =
        row.split_whitespace().map(|cell| numbers::number(cell).or_else(|| numbers::size(cell))).collect();
    let cells = cells.filter(|cells| (FREE_WIDE - 1..=FREE_WIDE).contains(&cells.len()))?;
    cells.iter().all(|cell| *cell <= cells[0]).then_some(row)
}

/// The line `Mem: total used free shared buff/cache available`; with `-w` the cache has a column of its own.
fn free(text: &str, hints: &Hints) -> Attempt {
    let rows = || text.lines().filter_map(row_of_free);
    let total = rows().next().and_then(|mut cells| numbers::number(cells.next()?));
    let unit = unit(hints, rows().next().map_or(KIB, |_| unit_of_free(total)));
    // With a column `available`, the last, need is what is not available; older ones have only `used`. What is printed for
    // people has whole gigabytes in that column and tenths in `used`: one column for the whole file, or it would jump
    // between the two.
    let width = rows().map(Iterator::count).max().unwrap_or(0);
    let available = if width >= FREE_WIDE { FREE_WIDE - 1 } else { FREE_WIDE - 2 };
    let whole = |cell: &str| numbers::number(cell).is_none() && !cell.contains('.');
    let finer = |cells: &[&str]| cells.get(available).is_some_and(|cell| whole(cell) && !whole(cells[1]));
    let old = text.lines().any(|line| line.split_whitespace().eq(OLD_FREE));
    let used_is_finer = rows().any(|cells| finer(&cells.collect::<Vec<_>>()));
    let mut rounds = Rounds::default();
    for line in text.lines() {
        let Some(cells) = row_of_free(line) else {
            rounds.other(line);
            continue;
        };
        let cells: Vec<&str> = cells.collect();
        let cell = |at: usize| {
            let cell = cells.get(at)?;
            numbers::number(cell).map(|value| value * unit.bytes).or_else(|| numbers::size(cell))
        };
        let not_available = || Some(cell(0)? - cell(available)?);
        let neither = || Some(cell(1)? - cell(4)? - cell(5)?);
        let need = if old {
            neither()
        } else if used_is_finer {
            cell(1)
        } else {
            not_available().or_else(|| cell(1))
        };
        if let Some(need) = need {
            rounds.round += 1;
            rounds.now = times::find(line).or(rounds.now);
            rounds.add("", need, cell(0));
        }
    }
    if rounds.lines.is_empty() {
        return Err("no lines `Mem: ...`".into());
    }
    let column = if old {
        "used without buffers and cached"
    } else if used_is_finer {
        "`used`, which is finer than `available` here"
    } else {
        "total minus available"
    };
    let note = format!("the whole machine: {column}; numbers without a unit taken as {}", unit.name);
    Ok(rounds.curves(&Metric::Host, &note))
}

/// Before 2014 `free` counted the cache as used and told it apart.
const OLD_FREE: [&str; 6] = ["total", "used", "free", "shared", "buffers", "cached"];
/// Columns of `free -w`.
const FREE_WIDE: usize = 7;

/// `free` prints KiB; a machine of under 4 million KiB that trains is one printed with `-m`.
fn unit_of_free(total: Option<f64>) -> Unit {
    match total {
        Some(total) if total < 1000.0 => numbers::GIB,
        Some(total) if total < 4e6 => MIB,
        Some(total) if total >= 1e10 => numbers::BYTES,
        Some(_) | None => KIB,
    }
}

/// A heading with PID and RSS (ps) or RES (top), and rows under it, again and again.
fn ps(text: &str, hints: &Hints) -> Attempt {
    let mut rounds = Rounds::default();
    let mut columns = None;
    for line in text.lines() {
        let cells: Vec<&str> = line.split_whitespace().collect();
        if let Some(found) = ps_heading(&cells) {
            columns = Some(found);
            rounds.round += 1;
            continue;
        }
        columns = columns.or_else(|| aux_row(&cells));
        // pidstat begins its rows with the time.
        if let Some(time) = cells.first().and_then(|cell| times::find(cell)) {
            rounds.now = Some(time);
        }
        let row = columns.and_then(|(pid, rss): (Option<usize>, usize)| {
            let who = pid.map_or(Some(""), |pid| cells.get(pid).copied())?;
            who.chars().all(|c| c.is_ascii_digit()).then_some(())?;
            let cell = cells.get(rss)?;
            let plain = numbers::number(cell).map(|value| value * unit(hints, KIB).bytes);
            Some((who, plain.or_else(|| numbers::size(cell))?))
        });
        match row {
            Some((who, size)) => {
                rounds.add(&if who.is_empty() { String::new() } else { format!("pid {who}") }, size, None);
            }
            None => rounds.other(line),
        }
    }
    if columns.is_none() {
        return Err("no heading with PID and RSS or RES".into());
    }
    let note =
        format!("RSS as ps and top print it, numbers without a unit taken as {}", unit(hints, KIB).name);
    Ok(rounds.curves(&Metric::Rss, &note))
}

/// A row of `ps aux` whose heading was filtered out: USER PID %CPU %MEM VSZ RSS TTY STAT START TIME COMMAND.
fn aux_row(cells: &[&str]) -> Option<(Option<usize>, usize)> {
    let whole = |at: usize| cells.get(at).is_some_and(|cell| cell.chars().all(|c| c.is_ascii_digit()));
    let share =
        |at: usize| cells.get(at).is_some_and(|cell| cell.contains('.') && cell.parse::<f64>().is_ok());
    let state = cells.get(7).is_some_and(|cell| cell.starts_with(['R', 'S', 'D', 'T', 'Z', 'I']));
    (cells.len() >= 11 && whole(1) && share(2) && share(3) && whole(4) && whole(5) && state)
        .then_some((Some(1), 5))
}

/// Lines that are one number, each after a line with a time: `date; ps -o rss= -p PID`.
fn stamped(text: &str, hints: &Hints) -> Attempt {
    let mut rounds = Rounds::default();
    let mut values = Vec::new();
    let mut fresh = false;
    for line in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
        if let Some(time) = times::find(line).or_else(|| times::epoch(line)) {
            (rounds.now, fresh) = (Some(time), true);
        } else if let Some(value) = numbers::number(line).filter(|_| fresh) {
            values.push(value);
            rounds.add("", value, None);
            fresh = false;
        } else {
            return Err("not a time and a number in turn".into());
        }
    }
    if values.len() < 2 {
        return Err("not a time and a number in turn".into());
    }
    let unit = unit(hints, numbers::guess(&values));
    let mut curves = rounds
        .curves(&Metric::Rss, &format!("a number after each time, taken as {}, by its size", unit.name));
    curves.iter_mut().flat_map(|curve| &mut curve.y).for_each(|y| *y *= unit.bytes);
    Ok(curves)
}

fn ps_heading(cells: &[&str]) -> Option<(Option<usize>, usize)> {
    let place = |names: &[&str]| cells.iter().position(|cell| names.contains(cell));
    let rss = place(&["RSS", "RES", "RSZ"])?;
    // Commas or other text around it belong to other forms; `ps -o rss` alone has one word.
    let pid = place(&["PID"]);
    (pid.is_some() || cells.len() == 1).then_some((pid, rss))
}
