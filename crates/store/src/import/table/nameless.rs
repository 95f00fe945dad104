//! Tables without names: which column is memory, and which is the total it is held against.
//!
//! `nvidia-smi --query-gpu=memory.used,memory.total --format=csv,noheader` writes such tables. A column with units of memory
//! orders nothing; of two where one never moves and is never below the other, that one is the total. Where numbers alone
//! could as well be steps and a steady memory, nobody can know, and the user is asked.

use super::super::Missing;
use super::super::memory_names::Meaning;
use super::super::numbers::{self, MIB, Unit};
use super::columns::is_place;
use super::{Table, measured};
use lowtide_model::Metric;

/// Whether no column has a name.
pub(super) fn is_nameless(table: &Table) -> bool {
    table.names.iter().all(String::is_empty)
}

/// The column to judge, where one is left.
pub(super) fn y_columns(table: &Table) -> Result<Vec<(usize, Meaning)>, Missing> {
    let width = table.names.len();
    let plain = Meaning { metric: Metric::Rss, rank: 0, unit: None };
    let (sized, rest): (Vec<usize>, Vec<usize>) =
        (0..width).filter(|column| !table.is_void(*column)).partition(|column| table.holds_sizes(*column));
    let moving: Vec<usize> = rest.into_iter().filter(|column| !is_place(table, *column)).collect();
    if let Some(steady) = steps_or_used(table) {
        return Err(Missing::Wanted(in_two_ways(table, steady)));
    }
    if sized.is_empty() && may_both_be_memory(table) {
        return Err(Missing::Wanted(TWO_SIZES.to_owned()));
    }
    let told = if sized.is_empty() {
        used_of_pair(table).map_or(moving, |used| vec![used])
    } else if width > 2 && moving.iter().any(|column| Extent::of(table, *column).moves()) {
        // What moves beside sizes may be a card, or another size.
        sized.iter().copied().chain(moving).collect()
    } else {
        sized.iter().copied().filter(|column| !is_total_among(table, *column, &sized)).collect()
    };
    match told[..] {
        [only] => Ok(vec![(only, plain)]),
        [] if width <= 2 => Ok(vec![(width - 1, plain)]),
        [_, second] if width == 2 && sized.is_empty() => Ok(vec![(second, plain)]),
        _ => {
            Err(Missing::Wanted(format!("{width} columns without names; say which is memory, such as --y 2")))
        }
    }
}

/// The unit of bare numbers: beside a total of whole gibibytes they are what `nvidia-smi` counts in.
pub(super) fn unit(table: &Table, y: usize, guessed: Unit) -> (Unit, &'static str) {
    let total = total(table, y).map(|total| Extent::of(table, total).most);
    let of_cards = guessed == numbers::MB && total.is_some_and(|total| total % 1024.0 == 0.0);
    if of_cards { (MIB, "as nvidia-smi counts") } else { (guessed, numbers::BY_SIZE) }
}

/// What has to be said of a total.
pub(super) fn note(table: &Table, y: usize) -> Option<String> {
    total(table, y)
        .map(|total| format!("column {}, which never moves, is taken as the total of it", total + 1))
}

/// The total that a column of memory is held against.
pub(super) fn total(table: &Table, y: usize) -> Option<usize> {
    if !is_nameless(table) {
        return None;
    }
    let others = || (0..table.names.len()).filter(|column| *column != y && !table.is_void(*column));
    let alike = |column: &usize| table.holds_sizes(*column) == table.holds_sizes(y);
    // Beside a place, bare numbers that never move are anything.
    let bare = !table.holds_sizes(y);
    let mut found = others().filter(alike).filter(|column| is_total_of(table, *column, y));
    let (total, None) = (found.next()?, found.next()) else { return None };
    (!bare || table.names.len() == 2).then_some(total)
}

/// The lowest and the highest number of a column, and how they follow.
struct Extent {
    least: f64,
    most: f64,
    falls: bool,
}

impl Extent {
    fn of(table: &Table, column: usize) -> Self {
        let values: Vec<f64> = table.rows.iter().filter_map(|row| measured(&row[column])).collect();
        Self {
            least: values.iter().copied().fold(f64::INFINITY, f64::min),
            most: values.iter().copied().fold(f64::NEG_INFINITY, f64::max),
            falls: values.windows(2).any(|pair| pair[1] < pair[0]),
        }
    }

    fn moves(&self) -> bool {
        self.most > self.least
    }
}

/// Whether a column never moves and is never below the other. Of two that never move, the larger is the total.
fn is_total_of(table: &Table, column: usize, of: usize) -> bool {
    let (total, used) = (Extent::of(table, column), Extent::of(table, of));
    !total.moves() && total.least > used.least && total.least >= used.most
}

fn is_total_among(table: &Table, column: usize, sized: &[usize]) -> bool {
    sized.iter().any(|other| *other != column && is_total_of(table, column, *other))
}

/// The column `used` of two with bare numbers: it falls now and then, or never moves, so it counts nothing.
fn used_of_pair(table: &Table) -> Option<usize> {
    if table.names.len() != 2 || (0..2).any(|column| super::columns::is_timed(table, column)) {
        return None;
    }
    let counts_nothing = |used: &usize| {
        let used = Extent::of(table, *used);
        used.falls || !used.moves()
    };
    (0..2).filter(counts_nothing).find(|used| is_total_of(table, 1 - *used, *used))
}

/// The second of two columns with bare numbers, where the first may count steps over a steady memory, and may be what is
/// used of a total.
fn steps_or_used(table: &Table) -> Option<f64> {
    if table.names.len() != 2 || (0..2).any(|column| table.holds_sizes(column)) {
        return None;
    }
    let first = Extent::of(table, 0);
    let open = first.moves() && !first.falls && is_total_of(table, 1, 0) && !counts_from_the_start(table);
    open.then(|| Extent::of(table, 1).most)
}

/// Whether the first column counts evenly from about zero, as steps and seconds do.
fn counts_from_the_start(table: &Table) -> bool {
    let values: Vec<f64> = table.rows.iter().filter_map(|row| measured(&row[0])).collect();
    let (Some(first), Some(last)) = (values.first(), values.last()) else { return false };
    let usual = (last - first) / (values.len().max(2) - 1) as f64;
    let even = |pair: &[f64]| (usual * 0.5..=usual * 2.0).contains(&(pair[1] - pair[0]));
    *first <= usual * 2.0 && values.windows(2).all(even)
}

/// What is said of `ps -o rss=,vsz=` in a loop.
const TWO_SIZES: &str = "two columns without names that may both be memory, as `ps -o rss=,vsz=` prints them; say which to \
                         read, such as --y 1";

/// Fewer kilobytes are no process, and more steps are seldom counted.
const LEAST_OF_PAIR: f64 = 1e6;

/// Whether each of two columns may be memory: large, and neither a time nor a count from the start.
pub(super) fn may_both_be_memory(table: &Table) -> bool {
    let large = |column: usize| Extent::of(table, column).least >= LEAST_OF_PAIR;
    let clock = |column: usize| super::columns::is_timed(table, column) || is_since_1970(table, column);
    table.names.len() == 2
        && (0..2).all(|column| large(column) && !clock(column))
        && !counts_from_the_start(table)
        && (0..2).any(|column| Extent::of(table, column).moves())
        && steps_or_used(table).is_none()
        && used_of_pair(table).is_none()
}

/// Whether a column holds seconds or milliseconds since 1970 that never fall.
fn is_since_1970(table: &Table, column: usize) -> bool {
    let extent = Extent::of(table, column);
    let seconds = |value: f64| (1e9..2.2e9).contains(&value) || (1e12..2.2e12).contains(&value);
    seconds(extent.least) && seconds(extent.most) && !extent.falls
}

fn in_two_ways(table: &Table, steady: f64) -> String {
    let first = &table.rows[0][0];
    format!(
        "two columns without names, the first rising from {first} and the second {steady} throughout: memory that is used of a \
         total, or steady memory at steps; --y 1 says the first, --y 2 the second"
    )
}
