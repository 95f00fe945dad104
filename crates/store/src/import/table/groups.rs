//! Whose rows are whose: by columns that name a process, a card or a run, and by any other that tells rows with the same x
//! apart.

use super::super::apart::{self, Label, Told};
use super::super::memory_names::{heap_series, is_named, is_other_memory, is_total, meaning};
use super::super::{named, numbers};
use super::columns::{Place, axis_of};
use super::{Table, turns, value, x_values};
use std::collections::{BTreeMap, BTreeSet};

/// Columns whose values tell runs or processes apart.
const GROUPS: &[&str] = &[
    "host",
    "hostname",
    "node",
    "instance",
    "namespace",
    "pod",
    "container",
    "run",
    "process",
    "pid",
    "rank",
    "local_rank",
    "global_rank",
    "world_rank",
    "node_rank",
    "worker",
    "worker_id",
    "replica",
    "gpu",
    "gpu_id",
    "index",
    "uuid",
    "gpu_uuid",
    "pci.bus_id",
    "device",
];

/// Parts of names of columns whose numbers name something: rows of one may stand in a block.
const NAMING: &[&str] = &["id", "no", "nr", "num", "name", "rank", "worker"];

/// Rows that belong together.
pub(super) struct Group {
    pub(super) title: String,
    pub(super) rows: Vec<usize>,
    /// What has to be known where nothing tells more of them apart.
    pub(super) note: Option<String>,
}

/// The rows of each process or run, where columns tell them apart.
pub(super) fn of(table: &Table, y: usize, place: &Place) -> Vec<Group> {
    by_name(table, y).into_iter().flat_map(|(title, rows)| by_x(table, (title, rows), y, place)).collect()
}

/// The columns whose names say that they are of somebody.
pub(super) fn columns(names: &[String]) -> Vec<usize> {
    GROUPS.iter().filter_map(|group| names.iter().position(|name| is_named(name, group))).collect()
}

/// The rows parted by the columns whose names say that they are of somebody.
fn by_name(table: &Table, y: usize) -> Vec<(String, Vec<usize>)> {
    let rows: Vec<usize> =
        (0..table.rows.len()).filter(|row| value(&table.rows[*row][y]).is_some()).collect();
    let telling = |column: &usize| {
        let values: BTreeSet<&str> = rows.iter().map(|row| table.rows[*row][*column].as_str()).collect();
        // A value a row is no group.
        *column != y && values.len() > 1 && values.len() * 2 <= rows.len()
    };
    let columns: Vec<usize> = table.known().groups.iter().copied().filter(telling).collect();
    let parts = parts(table, &rows, &columns);
    if parts.len() < 2 || parts.len() * 2 > rows.len() {
        return vec![(String::new(), (0..table.rows.len()).collect())];
    }
    parts
}

/// The rows with each of the values of these columns, and what they are called.
fn parts(table: &Table, rows: &[usize], columns: &[usize]) -> Vec<(String, Vec<usize>)> {
    let mut parts: BTreeMap<Vec<&str>, Vec<usize>> = BTreeMap::new();
    for row in rows {
        parts
            .entry(columns.iter().map(|column| table.rows[*row][*column].as_str()).collect())
            .or_default()
            .push(*row);
    }
    let title = |values: &[&str]| {
        let each =
            columns.iter().zip(values).map(|(column, value)| format!("{} {value}", table.names[*column]));
        each.collect::<Vec<_>>().join(", ")
    };
    parts.into_iter().map(|(values, rows)| (title(&values), rows)).collect()
}

/// Rows that share their x, parted by the column that tells them apart.
fn by_x(table: &Table, (title, rows): (String, Vec<usize>), y: usize, place: &Place) -> Vec<Group> {
    if let Some(cards) = turns::cards(table, y).filter(|_| place.column.is_none() && title.is_empty()) {
        let whole = turns::whole_rounds(table.rows.len(), cards);
        let card = |card: usize| Group {
            title: format!("card {} of {cards}", card + 1),
            rows: rows.iter().copied().filter(|row| *row < whole && row % cards == card).collect(),
            note: Some(turns::note(cards)),
        };
        return (0..cards).map(card).collect();
    }
    let whole = |note| vec![Group { title: title.clone(), rows: rows.clone(), note }];
    let known: Vec<usize> =
        rows.iter().copied().filter(|row| value(&table.rows[*row][y]).is_some()).collect();
    if place.column.is_none() || known.is_empty() {
        return whole(None);
    }
    let x = x_values(table, &known, place.column, place.axis).0;
    match told(table, &known, &x, (y, place)) {
        None | Some(Told::Moments) => whole(None),
        Some(Told::By(columns)) => {
            let held = held_rows(table, &known, &columns);
            let left_out = known.len() - held.len();
            let note = (left_out > 0).then(|| {
                format!(
                    "{left_out} rows tell what no process has to hold (caches, free memory), and are left out"
                )
            });
            let group = |(name, rows): (String, Vec<usize>)| Group {
                title: named(&[&title, &name]),
                rows,
                note: note.clone(),
            };
            parts(table, &held, &columns).into_iter().map(group).collect()
        }
        Some(Told::Nothing) => {
            let y: Vec<f64> = known.iter().filter_map(|row| value(&table.rows[*row][y])).collect();
            whole(apart::note(&apart::spots(&x), &y, place.axis))
        }
    }
}

/// Names in cells, beside those of memory that is held, of what nobody has to hold.
const NOT_HELD: &[&str] = &["cache", "file", "pagecache", "page_cache", "buffers", "mapped"];

/// The rows without those that tell, where a column names what each row measures, of what no process holds: `cache`
/// beside `rss`.
fn held_rows(table: &Table, rows: &[usize], columns: &[usize]) -> Vec<usize> {
    let not_held = |cell: &str| {
        NOT_HELD.contains(&cell.to_ascii_lowercase().as_str()) || is_other_memory(cell) || is_total(cell)
    };
    let held = |cell: &str| !not_held(cell) && meaning(cell).is_some_and(|meant| meant.rank >= LEAST_RANK);
    let measures = |column: &&usize| rows.iter().any(|row| held(&table.rows[*row][**column]));
    let Some(column) = columns.iter().find(measures) else { return rows.to_vec() };
    rows.iter().copied().filter(|row| !not_held(&table.rows[*row][*column])).collect()
}

/// The rank from which on a name is of memory, not only of something that is in use.
const LEAST_RANK: u8 = 4;

/// Which columns tell rows apart that share their x; `None` where they share none.
fn told(table: &Table, rows: &[usize], x: &[f64], (y, place): (usize, &Place)) -> Option<Told> {
    let column_told = |spots: &[apart::Spot], may: &dyn Fn(usize) -> bool| {
        let columns: Vec<usize> = (0..table.names.len())
            .filter(|column| *column != y && Some(*column) != place.column && may(*column))
            .filter(|column| is_label(table, rows, *column))
            .collect();
        let cells =
            |column: &usize| rows.iter().map(|row| Some(table.rows[*row][*column].as_str())).collect();
        let labels: Vec<Label<'_>> = columns
            .iter()
            .map(|column| Label { name: &table.names[*column], values: cells(column) })
            .collect();
        match apart::told(spots, &labels) {
            Told::By(found) => Told::By(found.into_iter().map(|label| columns[label]).collect()),
            other @ (Told::Moments | Told::Nothing) => other,
        }
    };
    let spots = apart::spots(x);
    if apart::share_spots(&spots) {
        return Some(column_told(&spots, &|_| true));
    }
    // Rows that are sorted by whose they are stand in blocks; so do the passes of one run, which are only numbered.
    let in_blocks = apart::spots_in_any_order(x);
    let found = apart::share_spots(&in_blocks)
        .then(|| column_told(&in_blocks, &|column| names_rows(table, rows, column)));
    found.filter(|found| matches!(found, Told::By(_)))
}

/// Whether a column may say whose a row is: words or whole numbers, of nothing that is measured.
fn is_label(table: &Table, rows: &[usize], column: usize) -> bool {
    let name = &table.names[column];
    let of_memory = meaning(name).is_some() || heap_series(name).is_some() || is_total(name);
    let fits = |cell: &str| {
        let digits = cell.bytes().all(|byte| byte.is_ascii_digit());
        !cell.is_empty() && (digits || value(cell).is_none() && numbers::size(cell).is_none())
    };
    !of_memory && axis_of(name).is_none() && rows.iter().all(|row| fits(&table.rows[*row][column]))
}

/// Whether a column holds names, or numbers that stand for one.
fn names_rows(table: &Table, rows: &[usize], column: usize) -> bool {
    let lower = table.names[column].to_ascii_lowercase();
    let naming = lower.split(|c: char| !c.is_ascii_alphabetic()).any(|part| NAMING.contains(&part));
    naming || rows.iter().all(|row| value(&table.rows[*row][column]).is_none())
}
