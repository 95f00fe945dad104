//! A machine's memory told in parts: free, buffers, page cache, available, used.
//!
//! The cache grows as files are read and is given back: what is needed is what is not available, or what is neither free
//! nor cache. Tools differ in whether `used` holds the cache; the sum of used and free tells, which then never moves.

use super::super::memory_names::{Meaning, meaning};
use super::super::numbers::{self, BYTES, KIB, Unit};
use super::super::{Hints, page_cache, time_units};
use super::columns::x_column;
use super::{Table, groups, measured};
use lowtide_model::Metric;
use std::collections::BTreeMap;

/// A part of a machine's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Part {
    Total,
    Used,
    Free,
    Available,
    Buffers,
    Cached,
}

/// What parts are called, without words that say that it is memory, and in what unit.
const PARTS: &[(&str, Part)] = &[
    ("total", Part::Total),
    ("tot", Part::Total),
    ("used", Part::Used),
    ("free", Part::Free),
    ("available", Part::Available),
    ("avail", Part::Available),
    ("buffers", Part::Buffers),
    ("buffered", Part::Buffers),
    ("buff", Part::Buffers),
    ("buf", Part::Buffers),
    ("cached", Part::Cached),
    ("cache", Part::Cached),
    ("cach", Part::Cached),
];

/// What stands before or after them: `kbmemfree`, `node_memory_MemFree_bytes`, `[MEM]Free`, `mem.free`.
const AROUND: &[&str] =
    &["node", "memory", "mem", "system", "sys", "ram", "kb", "kib", "mb", "mib", "gb", "gib", "bytes"];

fn part(name: &str) -> Option<Part> {
    let words = time_units::words(name);
    let mut left = words.iter().filter(|word| !AROUND.contains(&word.as_str()));
    let (word, None) = (left.next()?, left.next()) else { return None };
    let plain = word.trim_start_matches("kb").trim_start_matches("mem");
    PARTS.iter().find(|(known, _)| *known == plain).map(|(_, part)| *part)
}

/// Other parts that such tools tell.
const OTHERS: &[&str] = &[
    "slab",
    "map",
    "mapped",
    "commit",
    "committed",
    "active",
    "inactive",
    "inact",
    "dirty",
    "shared",
    "writeback",
    "shmem",
];

fn is_other_part(name: &str) -> bool {
    let words = time_units::words(name);
    let mut left = words.iter().filter(|word| !AROUND.contains(&word.as_str()));
    left.all(|word| OTHERS.contains(&word.trim_start_matches("kb")))
}

/// A table with a column of what the machine needs, and one of all that it has where that is known.
pub(super) struct Needed {
    pub(super) table: Table,
    pub(super) y: (usize, Meaning),
    /// How the need is reckoned.
    pub(super) note: String,
}

/// What a machine needs, where a table tells its parts and nothing of a process.
pub(super) fn with_need(table: &Table, hints: &Hints) -> Option<Needed> {
    let columns = parts(table)?;
    let need = need(table, &columns, &rows_of_each(table, &columns, hints))?;
    let unit = unit(table, &columns, hints);
    let bytes = unit.map_or(1.0, |(unit, _)| unit.bytes);
    let told = |value: &Option<f64>| value.map_or(String::new(), |value| format!("{}", value * bytes));
    let rows = table.rows.iter().enumerate().map(|(at, row)| {
        let all = need.total.as_ref().map(|total| told(&total[at]));
        row.iter().cloned().chain([told(&need.values[at])]).chain(all).collect()
    });
    let more = [need.title.to_owned()].into_iter().chain(need.total.as_ref().map(|_| TOTAL.to_owned()));
    let names: Vec<String> = table.names.iter().cloned().chain(more).collect();
    let mut written = table.written.clone();
    written.resize(names.len(), None);
    let rows = rows.collect();
    let table_of_need = Table { written, ..Table::new(names, rows, table.named_again.clone()) };
    let meant = Meaning { metric: Metric::Host, rank: 4, unit: Some(BYTES) };
    let note = match unit {
        Some((unit, how)) => format!("{}; all of them taken as {}, {how}", need.note, unit.name),
        None => need.note,
    };
    Some(Needed { table: table_of_need, y: (table.names.len(), meant), note })
}

/// Names of the columns that are added, which go with each other.
const USED: &str = "memory used";
const TOTAL: &str = "memory total";
const FREE: &str = "memory free";

/// What is needed in each row, or what is free of it.
struct Need {
    title: &'static str,
    note: String,
    values: Vec<Option<f64>>,
    total: Option<Vec<Option<f64>>>,
}

/// The column of each part, where they are those of a machine of which page cache is one.
fn parts(table: &Table) -> Option<BTreeMap<Part, usize>> {
    let mut out = BTreeMap::new();
    for (column, name) in table.names.iter().enumerate() {
        let Some(part) = part(name).filter(|_| table.share(column, measured) >= 0.5) else {
            // What is anonymous is told apart from page cache already.
            let other =
                |meant: Meaning| meant.rank >= 7 || !matches!(meant.metric, Metric::Other(_) | Metric::Host);
            if !is_other_part(name) && meaning(name).is_some_and(other) {
                return None;
            }
            continue;
        };
        out.entry(part).or_insert(column);
    }
    let known = out.contains_key(&Part::Free) && out.contains_key(&Part::Cached);
    known.then_some(out)
}

/// The rows of each machine.
fn rows_of_each(table: &Table, columns: &BTreeMap<Part, usize>, hints: &Hints) -> Vec<Vec<usize>> {
    let place = x_column(table, hints, &[]).ok();
    let parted = place.map(|place| groups::of(table, columns[&Part::Free], &place));
    parted.unwrap_or_default().into_iter().map(|group| group.rows).collect()
}

/// The unit of all parts: as asked, in a name, the kernel's, or by how large the largest is; `None` where the cells say it.
fn unit(table: &Table, columns: &BTreeMap<Part, usize>, hints: &Hints) -> Option<(Unit, &'static str)> {
    let names = || columns.values().map(|column| table.names[*column].as_str());
    let of_kernel = |name: &str| name.to_ascii_lowercase().starts_with("kb") || name.starts_with("[MEM]");
    if columns.values().any(|column| table.holds_sizes(*column)) {
        return None;
    }
    if let Some(unit) = hints.unit.as_deref().and_then(numbers::unit) {
        return Some((unit, "as asked"));
    }
    if let Some(unit) = names().find_map(numbers::unit_in_name) {
        return Some((unit, "by a name"));
    }
    if names().any(of_kernel) {
        return Some((KIB, "as the kernel counts"));
    }
    let cells = |column: &usize| {
        let column = *column;
        table.rows.iter().filter_map(move |row| measured(&row[column]))
    };
    let all: Vec<f64> = columns.values().flat_map(cells).collect();
    Some((numbers::guess_of_machine(&all), numbers::BY_SIZE))
}

/// The numbers of one row.
struct Row<'a> {
    cells: &'a [String],
    columns: &'a BTreeMap<Part, usize>,
}

impl Row<'_> {
    fn at(&self, part: Part) -> Option<f64> {
        measured(self.cells.get(*self.columns.get(&part)?)?)
    }

    /// What the kernel gives back.
    fn cache(&self) -> Option<f64> {
        Some(self.at(Part::Cached)? + self.at(Part::Buffers).unwrap_or(0.0))
    }

    fn used_and_free(&self) -> Option<f64> {
        Some(self.at(Part::Used)? + self.at(Part::Free)?)
    }
}

/// In which rows what is called used holds the page cache: it is one tool on one machine that decides, so all rows of a
/// machine decide together.
fn with_cache(table: &Table, columns: &BTreeMap<Part, usize>, machines: &[Vec<usize>]) -> Vec<bool> {
    let mut out = vec![false; table.rows.len()];
    for rows in machines {
        let of = |value: &dyn Fn(&Row<'_>) -> Option<f64>| -> Vec<f64> {
            let told = |row: &usize| value(&Row { cells: &table.rows[*row], columns }).unwrap_or(f64::NAN);
            rows.iter().map(told).collect()
        };
        let [used, free] = [Part::Used, Part::Free].map(|part| of(&|row| row.at(part)));
        let mut rest = of(&|row| Some((row.used_and_free()? - row.at(Part::Total)?) / row.at(Part::Total)?));
        rest.retain(|rest| rest.is_finite());
        let is_all = !rest.is_empty() && rest.iter().all(|rest| rest.abs() < 0.01);
        let holds = is_all || page_cache::is_in_used(&used, &free, &of(&|row| row.cache()));
        rows.iter().for_each(|row| out[*row] = holds);
    }
    out
}

/// What is needed by the parts that there are, the surest first.
fn need(table: &Table, columns: &BTreeMap<Part, usize>, machines: &[Vec<usize>]) -> Option<Need> {
    let each = |of: &dyn Fn(&Row<'_>) -> Option<f64>| -> Vec<Option<f64>> {
        table.rows.iter().map(|cells| of(&Row { cells, columns })).collect()
    };
    let name = |part: Part| columns.get(&part).map_or("", |column| table.names[*column].as_str());
    let cache = super::super::named(&[name(Part::Cached), name(Part::Buffers)]);
    let has = |part: Part| columns.contains_key(&part);
    let total = has(Part::Total).then(|| each(&|row| row.at(Part::Total)));
    let need = |title, note: String, values, total| Some(Need { title, note, values, total });
    let (all, free, used) = (name(Part::Total), name(Part::Free), name(Part::Used));
    let available = name(Part::Available);
    if has(Part::Total) && has(Part::Available) {
        let values = each(&|row| Some(row.at(Part::Total)? - row.at(Part::Available)?));
        return need(USED, format!("memory used is `{all}` minus `{available}`"), values, total);
    }
    if has(Part::Used) {
        let holds = with_cache(table, columns, machines);
        let values = table.rows.iter().zip(&holds).map(|(cells, holds)| {
            let row = Row { cells, columns };
            if *holds { Some(row.at(Part::Used)? - row.cache()?) } else { row.at(Part::Used) }
        });
        let all_hold = holds.iter().all(|holds| *holds);
        let how = match holds.contains(&true) {
            true if all_hold => format!(", which holds page cache, minus {cache}"),
            true => format!(", minus {cache} on the machines where it holds page cache"),
            false => ", which holds no page cache".to_owned(),
        };
        let wholes = || all_hold.then(|| each(&|row| row.used_and_free()));
        let values = values.collect();
        return need(USED, format!("memory used is `{used}`{how}"), values, total.or_else(wholes));
    }
    if has(Part::Total) {
        let values = each(&|row| Some(row.at(Part::Total)? - row.at(Part::Free)? - row.cache()?));
        return need(USED, format!("memory used is `{all}` minus {free}, {cache}"), values, total);
    }
    if has(Part::Available) {
        return need(
            FREE,
            format!("memory free is `{available}`"),
            each(&|row| row.at(Part::Available)),
            None,
        );
    }
    let values = each(&|row| Some(row.at(Part::Free)? + row.cache()?));
    need(
        FREE,
        format!("memory free is the sum of {free}, {cache}: the kernel gives page cache back"),
        values,
        None,
    )
}
