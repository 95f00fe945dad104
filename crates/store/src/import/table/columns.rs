//! Which column of a table is memory, and which says where a row stands: guessed from names and values.

use super::super::memory_names::{
    Meaning, are_alike, count_series, free_meaning, heap_series, is_now, is_other_memory, is_peak,
    is_size_by_name, is_total, meaning, tells_no_level,
};
use super::super::{
    Hints, MOST_BESIDE, Missing, allocator, numbers, process_parts, time_units, times, whose,
};
use super::{Table, measured, nameless, x_values};
use lowtide_model::{Axis, Metric};
use std::collections::BTreeSet;

/// The columns to judge: the one asked for, else the best named; several where a column is a run (W&B), and beside it
/// GPU memory, which grows for reasons of its own.
pub(super) fn y_columns(table: &Table, hints: &Hints) -> Result<Vec<(usize, Meaning)>, Missing> {
    let plain = Meaning { metric: Metric::Rss, rank: 0, unit: None };
    if let Some(asked) = &hints.y {
        let column = table.column(asked)?;
        if is_share(&table.names[column]) {
            return Err(Missing::Wanted(in_per_cent(&table.names[column])));
        }
        let name = &table.names[column];
        return Ok(vec![(column, meaning(name).or_else(|| free_meaning(name)).unwrap_or(plain))]);
    }
    let width = table.names.len();
    if nameless::is_nameless(table) {
        return nameless::y_columns(table);
    }
    let mut found: Vec<(usize, Meaning)> = (0..width)
        .filter(|column| !is_bound(&table.names[*column]) && !is_share(&table.names[*column]))
        .filter(|column| table.share_of_sizes(*column) >= 0.5)
        .filter_map(|column| Some((column, meaning_in(table, column)?)))
        .collect();
    refuse_shares(table, &mut found, hints)?;
    if found.iter().any(|(column, _)| !process_parts::is_file(&table.names[*column])) {
        found.retain(|(column, _)| !process_parts::is_file(&table.names[*column]));
    } else if let Some((column, _)) = found.first() {
        return Err(process_parts::only_file(&table.names[*column]));
    }
    best_first(table, &mut found);
    let Some(best) = found.first().map(|(column, meant)| (*column, meant.rank)) else {
        return without_names_of_memory(table, &plain);
    };
    let runs = table.names[best.0].contains(" - ");
    let peaks = is_peak(&table.names[best.0]);
    let names = table.names.iter().map(String::as_str);
    let beside_reserved = allocator::peak_of_use(&table.names[best.0], names);
    let mut gpus = 0;
    let mut judged: Vec<&str> = Vec::new();
    let mut cards_alone = !runs && found.first().is_some_and(|(_, meant)| meant.metric == Metric::Gpu);
    found.retain(|(column, meant)| {
        let name = &table.names[*column];
        let of_runs = runs && meant.rank == best.1 && name.contains(" - ");
        let kin = *column == best.0 || of_runs || !runs && are_alike(&table.names[best.0], name);
        let now = peaks || !is_peak(name) || beside_reserved == Some(name);
        let gpu = !kin && meant.metric == Metric::Gpu && now;
        gpus += usize::from(gpu);
        let another = !runs && whose::is_of_another(name, meant, &judged);
        let of_process = cards_alone && whose::is_beside_cards(name, meant);
        cards_alone &= !of_process;
        let another = another || of_process;
        let kept = kin || gpu && gpus <= MOST_BESIDE || another && judged.len() <= MOST_BESIDE;
        judged.extend(kept.then_some(name.as_str()));
        kept
    });
    Ok(found)
}

/// Leaves out what is in per cent or a part of one; tells why if nothing is left.
fn refuse_shares(table: &Table, found: &mut Vec<(usize, Meaning)>, hints: &Hints) -> Result<(), Missing> {
    type Form = (fn(&Table, usize) -> bool, fn(&str) -> String, fn(&Meaning) -> bool);
    const FORMS: [Form; 2] =
        [(is_per_cent, beside_per_cent, is_size_by_name), (holds_parts, below_one, |_| false)];
    for (is, why, sized) in FORMS {
        let out = |(column, meant): &(usize, Meaning)| {
            hints.unit.is_none() && meant.unit.is_none() && !sized(meant) && is(table, *column)
        };
        let left_out = found.iter().filter(|one| out(one)).max_by_key(|(_, meant)| meant.rank);
        let left_out = left_out.map(|(column, _)| *column);
        found.retain(|one| !out(one));
        if let Some(column) = left_out.filter(|_| found.is_empty()) {
            return Err(Missing::Wanted(why(&table.names[column])));
        }
    }
    Ok(())
}

/// Sorts columns by how well they do: what is there now before a peak of the same, the whole before its parts.
fn best_first(table: &Table, found: &mut [(usize, Meaning)]) {
    let name = |column: usize| table.names[column].as_str();
    let nows = found.iter().map(|(column, _)| name(*column)).filter(|name| is_now(name));
    let nows: BTreeSet<Vec<String>> = nows.map(whose::subject).collect();
    let peak = |name: &str| is_peak(name) && nows.contains(&whose::subject(name));
    let part = |name: &str| process_parts::part(name).is_some();
    found.sort_by_cached_key(|(column, meant)| {
        let name = name(*column);
        // Beside the machine's memory a card has a curve of its own, and not the other way round.
        let machine = meant.metric == Metric::Host;
        (peak(name), std::cmp::Reverse(meant.rank), !machine, part(name), *column)
    });
}

/// The meaning of a column; a total that moves is a sum over processes.
fn meaning_in(table: &Table, column: usize) -> Option<Meaning> {
    let moves = || {
        let mut values = table.rows.iter().filter_map(|row| measured(&row[column]));
        let first = values.next();
        values.any(|value| first.is_some_and(|first| (value - first).abs() > first * 0.01))
    };
    // Beside its parts it is the sum of those.
    let parts =
        || table.names.iter().any(|name| meaning(name).is_some_and(|meant| meant.metric == Metric::Anon));
    let sum = || whose::sum_meaning(&table.names[column]).filter(|_| moves() && !parts());
    meaning_among(&table.names, column).or_else(sum)
}

/// A number above is no share of anything, and more than most counts.
const NO_SHARE: f64 = 1e6;

/// What has to be said of columns of memory that are neither judged nor stand beside what is.
pub(super) fn unread(
    table: &Table,
    ys: &[(usize, Meaning)],
    hints: &Hints,
) -> Result<Option<String>, Missing> {
    let x = x_column(table, hints, ys)?;
    let beside = |name: &str| {
        process_parts::part(name).or(heap_series(name)).or(count_series(name)).is_some()
            || process_parts::part_beside(name).is_some()
            || is_bound(name)
            || is_total(name)
            || is_share(name)
    };
    let memory = |column: usize| {
        let name = &table.names[column];
        let large =
            || table.rows.iter().filter_map(|row| measured(&row[column])).any(|value| value > NO_SHARE);
        let size = |meant: &Meaning| whose::is_size(meant) || large();
        meaning_in(table, column).or_else(|| free_meaning(name)).as_ref().is_some_and(size)
            || table.holds_sizes(column)
            || is_other_memory(name) && name.to_ascii_lowercase().contains("mem")
            || numbers::unit_of_name(name).is_some() && !tells_no_level(name)
    };
    let parts = ys.iter().flat_map(|(y, _)| table.parts().beside(*y, &table.names));
    let parts: BTreeSet<usize> = parts.map(|(column, _)| column).collect();
    let left = (0..table.names.len())
        .filter(|column| !parts.contains(column))
        .filter(|column| ys.iter().all(|(y, _)| y != column) && x.column != Some(*column))
        .filter(|column| !beside(&table.names[*column]) && table.share_of_sizes(*column) >= 0.5)
        .filter(|column| memory(*column));
    Ok(whose::unread(left.map(|column| table.names[column].as_str()).collect()))
}

/// The meaning of a column: `alloc` beside a column `reserved` is what an allocator of GPU memory says.
fn meaning_among(names: &[String], column: usize) -> Option<Meaning> {
    let has = |name: &str, word: &str| {
        name.to_ascii_lowercase().split(|c: char| !c.is_ascii_alphanumeric()).any(|part| part == word)
    };
    let name = &names[column];
    let of_gpu = has(name, "alloc") && names.iter().any(|name| has(name, "reserved"));
    if of_gpu { meaning(&format!("gpu {name}")) } else { meaning(name) }
}

/// The columns to judge where no name is of memory that is held: what is free, else whatever has units in its cells.
fn without_names_of_memory(table: &Table, plain: &Meaning) -> Result<Vec<(usize, Meaning)>, Missing> {
    let free = free_columns(table);
    if !free.is_empty() {
        return Ok(free);
    }
    let is_all = |name: &str| is_total(name) && name.to_ascii_lowercase().contains("mem");
    let sized: Vec<(usize, Meaning)> = (0..table.names.len())
        .filter(|column| table.holds_sizes(*column) && !is_all(&table.names[*column]))
        .map(|column| (column, plain.clone()))
        .collect();
    if !sized.is_empty() {
        return Ok(sized);
    }
    if let Some(all) = table.names.iter().find(|name| is_all(name)) {
        let why =
            format!("`{all}` is all the memory that there is, held or not; no column tells what is held");
        return Err(Missing::Wanted(why));
    }
    let share = table.names.iter().find(|name| is_share(name) && !is_bound(name));
    Err(match share {
        Some(share) => Missing::Wanted(in_per_cent(share)),
        None => {
            let names = table.names.join(", ");
            Missing::Form(format!("no column is named after memory among: {names}; name one as y"))
        }
    })
}

/// Columns of memory that nobody holds, where none tells what is held: of each card, or of the machine; what is available
/// before what is free, which the page cache takes from.
fn free_columns(table: &Table) -> Vec<(usize, Meaning)> {
    let mut found: Vec<(usize, Meaning)> = (0..table.names.len())
        .filter(|column| !is_bound(&table.names[*column]) && table.share_of_sizes(*column) >= 0.5)
        .filter_map(|column| Some((column, free_meaning(&table.names[column])?)))
        .collect();
    let name = |column: usize| table.names[column].to_ascii_lowercase();
    found.sort_by_key(|(column, _)| (!name(*column).contains("avail"), *column));
    let form = |column: usize| name(column).replace(|c: char| c.is_ascii_digit(), "");
    let best = found.first().map(|(column, _)| form(*column));
    found.retain(|(column, _)| Some(form(*column)) == best);
    found
}

/// Whether a column without a name says where a row stands: it rises with each, or holds times.
pub(super) fn is_place(table: &Table, column: usize) -> bool {
    is_timed(table, column) || (column == 0 && rises(table, column))
}

pub(super) fn is_timed(table: &Table, column: usize) -> bool {
    table.rows.iter().all(|row| times::cell(&row[column]).is_some())
}

fn rises(table: &Table, column: usize) -> bool {
    let values: Vec<f64> = table.rows.iter().filter_map(|row| measured(&row[column])).collect();
    values.len() > 2 && values.windows(2).all(|pair| pair[0] < pair[1])
}

/// W&B exports a lower and an upper bound beside each column.
pub(super) fn is_bound(name: &str) -> bool {
    name.ends_with("__MIN") || name.ends_with("__MAX")
}

fn in_per_cent(name: &str) -> String {
    format!(
        "`{name}` is in per cent of a whole that the file does not tell; export a size, such as W&B's \
         system.proc.memory.rssMB or gpu.0.memoryAllocatedBytes"
    )
}

/// Whether no cell of a column is above one, and some are between: parts of a whole, or sizes of which nobody knows.
fn holds_parts(table: &Table, column: usize) -> bool {
    let values: Vec<f64> = table.rows.iter().filter_map(|row| measured(&row[column])).collect();
    let bare = !table.holds_sizes(column);
    bare && values.iter().all(|value| (0.0..=1.0).contains(value))
        && values.iter().any(|value| value.fract() > 0.0)
}

/// Words of what is told in per cent beside memory, alone or with those that say that it is in use.
const BUSY: &[&str] = &["cpu", "disk"];
const IN_USE: &[&str] = &["usage", "load"];

/// Whether a bare column between 0 and 100 stands beside another that is how busy or full something is.
fn is_per_cent(table: &Table, column: usize) -> bool {
    let up_to_hundred = |column: usize| {
        let mut values = table.rows.iter().filter_map(|row| measured(&row[column]));
        !table.holds_sizes(column) && values.all(|value| (0.0..=100.0).contains(&value))
    };
    let busy = |name: &String| {
        let words = time_units::words(name);
        words.iter().any(|word| BUSY.contains(&word.as_str()))
            && words.iter().all(|word| [BUSY, IN_USE].iter().any(|known| known.contains(&word.as_str())))
    };
    let others = || (0..table.names.len()).filter(|other| *other != column && busy(&table.names[*other]));
    let moves = |other: &usize| table.share_of_sizes(*other) >= 0.5 && up_to_hundred(*other);
    up_to_hundred(column) && (busy(&table.names[column]) || others().any(|other| moves(&other)))
}

fn beside_per_cent(name: &str) -> String {
    format!(
        "`{name}` is between 0 and 100, as are the columns beside it: per cent of a whole that the file does not tell; if it is \
         a size, say which with --unit, such as --unit GB"
    )
}

fn below_one(name: &str) -> String {
    format!(
        "`{name}` is nowhere above 1: a part of a whole that the file does not tell, or a size without its unit; if it is \
         one, say which with --unit, such as --unit GB"
    )
}

/// W&B's `system/memory`, `gpu.0.memory` and `gpu.0.memoryAllocated` are per cent; others say so.
fn is_share(name: &str) -> bool {
    let last = name.rsplit(" - ").next().unwrap_or(name);
    let lower = last.to_ascii_lowercase();
    let util = |word: &str| matches!(word, "util" | "utilization" | "utilisation");
    let says_so = ["percent", "pct", "%"].iter().any(|word| lower.contains(word))
        || numbers::unit_of_name(last).is_none() && time_units::words(last).iter().any(|word| util(word));
    let memory = ["mem", "ram", "swap"].iter().any(|word| lower.contains(word));
    (says_so && memory)
        || matches!(last, "system/memory" | "system.memory")
        || last.ends_with(".memoryAllocated")
        || last.starts_with("system") && last.ends_with(".memory")
}

/// What x is.
pub(super) struct Place {
    /// None: the number of the row.
    pub(super) column: Option<usize>,
    pub(super) axis: Axis,
    /// What was passed over for it.
    pub(super) note: Option<String>,
}

/// The column to lay the curve over: the one asked for, else the best named of those that order the rows.
pub(super) fn x_column(table: &Table, hints: &Hints, ys: &[(usize, Meaning)]) -> Result<Place, Missing> {
    if let Some(asked) = &hints.x {
        let column = table.column(asked)?;
        let name = &table.names[column];
        let memory = axis_of(name).is_none() && (table.holds_sizes(column) || meaning(name).is_some());
        if ys.iter().any(|(y, _)| *y == column) || memory {
            let name = if name.is_empty() { asked } else { name };
            return Err(Missing::Wanted(format!("`{name}` is memory, which orders nothing; name another x")));
        }
        let axis = axis_of(&table.names[column]).map_or(Axis::Sample, |(axis, _)| axis);
        return Ok(Place { column: Some(column), axis, note: None });
    }
    // A size with its unit orders nothing either.
    let sized = |column: usize| table.holds_sizes(column) && axis_of(&table.names[column]).is_none();
    let is_memory = |column: usize| ys.iter().any(|(y, _)| *y == column) || sized(column);
    let free = || {
        (0..table.names.len()).filter(|column| !is_memory(*column) && table.share_of_values(*column) >= 0.6)
    };
    let mut named: Vec<(u8, usize, Axis)> = free()
        .filter_map(|column| axis_of(&table.names[column]).map(|(axis, rank)| (rank, column, axis)))
        .collect();
    named.sort_by_key(|(rank, column, _)| (*rank, *column));
    let best = named.iter().find(|(_, column, axis)| orders(table, *column, *axis));
    let passed = named.first().filter(|first| best.is_none_or(|best| best.1 != first.1));
    let note = passed.map(|(_, column, _)| {
        format!("`{}` does not order the rows; it is not used as x", table.names[*column])
    });
    if let Some((_, column, axis)) = best {
        return Ok(Place { column: Some(*column), axis: *axis, note });
    }
    // A column of times orders the rows whatever it is called.
    if let Some(column) =
        free().find(|column| is_timed(table, *column) && orders(table, *column, Axis::Seconds))
    {
        return Ok(Place { column: Some(column), axis: Axis::Seconds, note });
    }
    let bare = nameless::is_nameless(table) && !nameless::may_both_be_memory(table);
    let column = free().find(|column| rises(table, *column)).filter(|_| bare);
    let since_1970 = |column: usize| {
        (SINCE_1970.0..SINCE_1970.1).contains(&measured(&table.rows[0][column]).unwrap_or(0.0))
    };
    let axis = if column.is_some_and(since_1970) { Axis::Seconds } else { Axis::Sample };
    Ok(Place { column, axis, note })
}

/// Seconds since 1970, in our time.
const SINCE_1970: (f64, f64) = (1e9, 2.5e9);

/// Whether a column moves. Seconds must also mostly rise: a column `time` that goes up and down, or falls nearly as often as it
/// rises, is how long a step took.
fn orders(table: &Table, column: usize, axis: Axis) -> bool {
    let filled: Vec<usize> =
        (0..table.rows.len()).filter(|row| !table.rows[*row][column].is_empty()).collect();
    let x = x_values(table, &filled, Some(column), axis).0;
    let moves = x.windows(2).any(|pair| (pair[1] - pair[0]).abs() > 0.0);
    let falls = x.windows(2).filter(|pair| pair[1] < pair[0]).count();
    let rises = x.windows(2).filter(|pair| pair[1] > pair[0]).count();
    let newest_first = falls > 0 && only_falls(&x);
    let forward = falls * 4 <= x.len() && falls * 2 <= rises;
    x.len() < 2 || (moves && (axis != Axis::Seconds || forward || newest_first))
}

pub(super) fn only_falls(x: &[f64]) -> bool {
    x.len() > 2 && x.windows(2).all(|pair| pair[1] <= pair[0]) && x[x.len() - 1] < x[0]
}

/// The kind of axis a name means, the better first.
pub(super) fn axis_of(name: &str) -> Option<(Axis, u8)> {
    if time_units::is_duration(name) {
        return None;
    }
    let lower = name.to_ascii_lowercase();
    let parts: Vec<&str> = lower.split(|c: char| !c.is_ascii_alphanumeric()).collect();
    let is = |words: &[&str]| words.iter().any(|word| parts.contains(word));
    if is(&["step", "steps", "iteration", "iter", "iterations", "schritt"]) || lower.ends_with("global_step")
    {
        Some((Axis::Step, 0))
    } else if is(&[
        "time",
        "timestamp",
        "elapsed",
        "seconds",
        "sec",
        "date",
        "datetime",
        "runtime",
        "t",
        "ts",
        "uptime",
        "zeit",
        "datum",
        "zeitstempel",
        "uhrzeit",
    ]) || time_units::is_clock(name)
    {
        Some((Axis::Seconds, 1))
    } else if is(&["epoch", "epochs"]) {
        Some((Axis::Epoch, 2))
    } else {
        None
    }
}
