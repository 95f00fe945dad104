//! Tables: CSV, TSV, columns parted by blanks; with names in the first line or without.
//!
//! Which column is x and which is y is guessed from the names and said in the notes.

mod columns;
mod groups;
mod machine;
mod nameless;
mod turns;

use super::locale::{self, Among};
use super::memory_names::{FREE, Meaning, count_series, heap_series, is_free, is_named, is_sum};
use super::numbers::{self, MIB, Unit};
use super::passes::{self, At, Counted, Run};
use super::{Attempt, Hints, Missing, cgroup_files, process_parts, time_units, times};
use columns::{Place, is_bound, only_falls, x_column, y_columns};
use groups::Group;
use lowtide_model::{Axis, Curve, Metric};
use std::cell::OnceCell;
use std::collections::BTreeMap;

/// Lines that decide how a table is parted.
const SNIFFED: usize = 64;

/// Columns that go beside the curve.
const MOST_SERIES: usize = 16;

/// Series beside a curve that are parts of it where it is of a process.
const HEAPS: &[&str] = &["heap_used", "heap_total"];

/// What tools write where there is nothing.
const VOID: &[&str] = &["", "n/a", "-", "--", "none", "null", "nan", "not supported", "not found"];

/// What is said of runs that were appended to each other.
const NAMED_AGAIN: &str =
    "the names of the columns stand there again where x begins anew: each time a run of its own begins";

struct Table {
    names: Vec<String>,
    rows: Vec<Vec<String>>,
    /// How the numbers of each column are written, where that was to be decided.
    written: Vec<Option<String>>,
    /// Rows before which the names stand again.
    named_again: Vec<usize>,
    /// What the names say that is asked for each column again.
    known: OnceCell<Known>,
}

/// What the names of a table say.
struct Known {
    parts: process_parts::Columns,
    /// Columns whose names say that their values tell rows apart.
    groups: Vec<usize>,
}

pub(crate) fn read(text: &str, hints: &Hints) -> Attempt {
    // Lines of records have their names in themselves.
    if text.trim_start().starts_with('{') {
        return Err("its lines are records, not cells".into());
    }
    curves(&split(text)?, hints)
}

/// The curves of rows that another form is written in, each as wide as the names.
pub(crate) fn of_cells(names: Vec<String>, rows: Vec<Vec<String>>, hints: &Hints) -> Attempt {
    let mut table = Table::new(names, rows, Vec::new());
    table.read_numbers(Among::Columns);
    curves(&table, hints)
}

fn curves(table: &Table, hints: &Hints) -> Attempt {
    if let Some(need) = machine::with_need(table, hints).filter(|_| hints.y.is_none()) {
        // It is in bytes, whatever unit was asked for.
        let in_bytes = Hints { unit: None, ..hints.clone() };
        let mut curves = curves_of(&need.table, &[need.y], &in_bytes)?;
        for curve in &mut curves {
            // What stands beside a machine's memory is told in another unit, and in it already.
            curve.series.clear();
            curve.notes.push(need.note.clone());
        }
        return Ok(curves);
    }
    let ys = y_columns(table, hints)?;
    let mut curves = curves_of(table, &ys, hints)?;
    let unread = columns::unread(table, &ys, hints)?.filter(|_| hints.y.is_none());
    if let Some(first) = curves.first_mut() {
        first.notes.extend(unread);
    }
    Ok(curves)
}

fn curves_of(table: &Table, ys: &[(usize, Meaning)], hints: &Hints) -> Attempt {
    let x = x_column(table, hints, ys)?;
    let kin = largest_of_kin(table, ys);
    let mut curves = Vec::new();
    for (column, meant) in ys {
        let title = if ys.len() > 1 { table.names[*column].as_str() } else { "" };
        let bare = || meant.unit.is_none() && !table.holds_sizes(*column);
        let largest = kin.iter().find(|(metric, _)| *metric == meant.metric).filter(|_| bare());
        for group in groups::of(table, *column, &x) {
            let said = group.note.clone();
            let runs = runs(table, group, &x);
            let note = (runs.len() > 1).then(|| NAMED_AGAIN.to_owned());
            for (name, rows) in runs {
                let Some(mut curve) = curve(
                    table,
                    &rows,
                    (*column, meant, largest.map(|(_, largest)| largest.as_slice())),
                    &x,
                    hints,
                ) else {
                    continue;
                };
                curve.name = super::named(&[&name, title]);
                curve.notes.extend(note.iter().chain(&said).cloned());
                curves.push(curve);
            }
        }
    }
    Ok(curves)
}

/// For each kind of which several columns say no unit the largest number of each row: a program writes them all in one.
fn largest_of_kin(table: &Table, ys: &[(usize, Meaning)]) -> Vec<(Metric, Vec<f64>)> {
    let mut kin: Vec<(Metric, Vec<usize>)> = Vec::new();
    for (column, meant) in ys {
        // A kind of its own name has no kin.
        if matches!(meant.metric, Metric::Other(_)) || meant.unit.is_some() || table.holds_sizes(*column) {
            continue;
        }
        match kin.iter_mut().find(|(metric, _)| *metric == meant.metric) {
            Some((_, columns)) => columns.push(*column),
            None => kin.push((meant.metric.clone(), vec![*column])),
        }
    }
    kin.retain(|(_, columns)| columns.len() > 1);
    let largest = |columns: &[usize], row: &[String]| {
        columns.iter().filter_map(|column| measured(&row[*column])).reduce(f64::max)
    };
    let of = |columns: Vec<usize>| table.rows.iter().filter_map(|row| largest(&columns, row)).collect();
    kin.into_iter().map(|(metric, columns)| (metric, of(columns))).collect()
}

/// Parts the lines the way that gives most of them the same number of fields.
fn split(text: &str) -> Result<Table, String> {
    let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
    let mut reasons = Vec::new();
    for parted in separators(&lines) {
        match table(&lines, parted) {
            Ok(table) => return Ok(table),
            Err(why) => reasons.push(why),
        }
    }
    Err(reasons.pop().unwrap_or_else(|| "it is empty".to_owned()))
}

/// What may part the columns, the likeliest first: a tab or a semicolon on every line is no accident, a comma may be a
/// decimal mark.
fn separators(lines: &[&str]) -> Vec<Option<char>> {
    let head = &lines[..lines.len().min(SNIFFED)];
    let always = |mark: &char| !head.is_empty() && head.iter().all(|line| line.contains(*mark));
    let sure = ['\t', ';'].into_iter().filter(always);
    sure.chain([',', '\t', ';']).map(Some).chain([None]).collect()
}

fn table(lines: &[&str], parted: Option<char>) -> Result<Table, String> {
    let lines = without_comments(lines, parted);
    let lines = parted.map_or(lines, |parted| without_preamble(lines, parted));
    let head: Vec<Vec<String>> = lines.iter().take(SNIFFED).map(|line| fields(line, parted)).collect();
    let width = head.get(1).or_else(|| head.first()).map_or(0, Vec::len);
    let even = head.iter().filter(|row| row.len() == width).count();
    if width == 0 || (width == 1 && parted.is_some()) || even * 10 < head.len() * 8 {
        return Err("lines do not part into the same number of columns".to_owned());
    }
    let first = head.first().cloned().unwrap_or_default();
    let named = first.len() == width && first.iter().all(|cell| value(cell).is_none());
    let (mut rows, mut named_again) = (Vec::new(), Vec::new());
    for row in lines.iter().skip(usize::from(named)).map(|line| fields(line, parted)) {
        if named && row == first {
            named_again.push(rows.len());
        } else if row.len() == width {
            rows.push(row);
        }
    }
    if rows.is_empty() {
        return Err("it has names but no rows".to_owned());
    }
    let mut names = if named { first } else { vec![String::new(); width] };
    for at in 1..names.len() {
        // `memory.used [MiB]`, parted by the blank within.
        if names[at].starts_with(['[', '('])
            && numbers::unit(names[at].trim_matches(['[', ']', '(', ')'])).is_some()
        {
            names[at - 1] = format!("{} {}", names[at - 1], names[at]);
        }
    }
    let mut table = Table::new(names, rows, named_again);
    table.read_numbers(if parted == Some(';') { Among::Semicolons } else { Among::Columns });
    // Without names every column has to be numbers, or any text with commas would be a table.
    let numeric = |column: usize| table.share_of_values(column) >= 0.6;
    let known = |column: usize| numeric(column) || table.is_void(column);
    if (0..width).any(numeric) && (named || (0..width).all(known)) {
        Ok(table)
    } else {
        Err("no columns of numbers".to_owned())
    }
}

/// The lines without comments at the top; a first line of names may begin with the same mark.
fn without_comments<'a, 'b>(lines: &'a [&'b str], parted: Option<char>) -> &'a [&'b str] {
    let Some(plain) = lines.iter().find(|line| !line.starts_with('#')) else { return lines };
    let width = fields(plain, parted).len();
    let is_comment = |line: &&&str| line.starts_with('#') && fields(line, parted).len() != width;
    &lines[lines.iter().take_while(is_comment).count()..]
}

/// The lines without what stands over the names of the columns, where the first is no row of the table: `dstat --output`
/// writes who made it. The names are right above the first row with numbers.
fn without_preamble<'a, 'b>(lines: &'a [&'b str], parted: char) -> &'a [&'b str] {
    let head: Vec<Vec<String>> = lines.iter().take(SNIFFED).map(|line| fields(line, Some(parted))).collect();
    let Some(width) = head.last().map(Vec::len).filter(|width| *width > 1 && head[0].len() != *width) else {
        return lines;
    };
    let is_row = |row: &Vec<String>| row.len() == width && row.iter().any(|cell| value(cell).is_some());
    let first = head.iter().position(is_row).and_then(|row| row.checked_sub(1));
    let names = first.filter(|names| head[*names].len() == width);
    names.map_or(lines, |names| &lines[names..])
}

/// The fields of a line, quotes as RFC 4180 has them.
fn fields(line: &str, parted: Option<char>) -> Vec<String> {
    let Some(comma) = parted else {
        return line.trim_start_matches('#').split_whitespace().map(str::to_owned).collect();
    };
    let (mut out, mut field, mut quoted) = (Vec::new(), String::new(), false);
    let mut chars = line.chars().peekable();
    while let Some(c) = chars.next() {
        match (c, quoted) {
            ('"', true) if chars.next_if_eq(&'"').is_some() => field.push('"'),
            ('"', _) => quoted = !quoted,
            (c, false) if c == comma => out.push(std::mem::take(&mut field)),
            (c, _) => field.push(c),
        }
    }
    out.push(field);
    out.into_iter().map(|field| field.trim().to_owned()).collect()
}

/// A cell as a number: plain, a size with a unit, or `used / limit`.
fn measured(cell: &str) -> Option<f64> {
    let cell = cell.split(" / ").next().unwrap_or(cell);
    numbers::number(cell).or_else(|| numbers::size(cell))
}

/// The same, and zero for a time: a cell that is no word.
fn value(cell: &str) -> Option<f64> {
    measured(cell).or_else(|| times::cell(cell).map(|_| 0.0))
}

/// The number a cell begins with, and what follows it.
fn leading_number(cell: &str) -> (&str, &str) {
    cell.split_at(cell.find(|c: char| !(c.is_ascii_digit() || matches!(c, ',' | '.'))).unwrap_or(cell.len()))
}

impl Table {
    fn new(names: Vec<String>, rows: Vec<Vec<String>>, named_again: Vec<usize>) -> Self {
        Self { written: vec![None; names.len()], names, rows, named_again, known: OnceCell::new() }
    }

    fn known(&self) -> &Known {
        self.known.get_or_init(|| Known {
            parts: process_parts::Columns::of(&self.names),
            groups: groups::columns(&self.names),
        })
    }

    fn parts(&self) -> &process_parts::Columns {
        &self.known().parts
    }

    /// Writes the numbers of each column as a program reads them.
    fn read_numbers(&mut self, among: Among) {
        for column in 0..self.names.len() {
            // Without a comma, a program's numbers are as a program reads them.
            if !self.rows.iter().any(|row| row[column].contains(',')) {
                continue;
            }
            let named = numbers::unit_in_name(&self.names[column]);
            let cells = self.rows.iter().map(|row| leading_number(&row[column]));
            let cells = cells.map(|(number, rest)| (number, numbers::unit(rest).or(named)));
            let decided = locale::decide(cells, among);
            for row in &mut self.rows {
                let (number, rest) = leading_number(&row[column]);
                let date = rest.starts_with([' ', '/', '-']) && times::cell(&row[column]).is_some();
                if let Some(english) = decided.read(number).filter(|_| !date) {
                    row[column] = format!("{english}{rest}");
                }
            }
            self.written[column] = decided.note;
        }
    }

    fn share_of_values(&self, column: usize) -> f64 {
        self.share(column, value)
    }

    /// The share of its cells that are numbers or sizes: times are not.
    fn share_of_sizes(&self, column: usize) -> f64 {
        self.share(column, measured)
    }

    fn share(&self, column: usize, read: fn(&str) -> Option<f64>) -> f64 {
        let known = self.rows.iter().filter(|row| read(&row[column]).is_some()).count();
        // W&B leaves cells empty where a run has no sample.
        let filled = self.rows.iter().filter(|row| !row[column].is_empty()).count();
        if filled == 0 { 0.0 } else { known as f64 / filled as f64 }
    }

    /// Whether a column holds nothing: `N/A` in each cell, as `nvidia-smi` writes it.
    fn is_void(&self, column: usize) -> bool {
        let nothing =
            |cell: &str| VOID.contains(&cell.trim_matches(['[', ']']).to_ascii_lowercase().as_str());
        self.rows.iter().all(|row| nothing(&row[column]))
    }

    /// Whether nearly all cells of a column are sizes with their unit: memory, whatever it is called.
    fn holds_sizes(&self, column: usize) -> bool {
        let filled = || self.rows.iter().map(|row| row[column].as_str()).filter(|cell| !cell.is_empty());
        let sizes =
            filled().filter(|cell| numbers::number(cell).is_none() && numbers::size(cell).is_some()).count();
        sizes > 0 && sizes * 10 >= filled().count() * 9
    }

    fn column(&self, asked: &str) -> Result<usize, Missing> {
        let by_name = self.names.iter().position(|name| is_named(name, asked));
        let by_number =
            || asked.parse::<usize>().ok().filter(|n| (1..=self.names.len()).contains(n)).map(|n| n - 1);
        by_name.or_else(by_number).ok_or_else(|| {
            let why = format!("no column `{asked}` among: {}", self.names.join(", "));
            if self.names.iter().all(String::is_empty) { Missing::Form(why) } else { Missing::Wanted(why) }
        })
    }
}

/// The rows of each run, where the names stand again and x begins anew: a run that was appended to the one before it. A
/// loop that prints the names with each row goes on counting.
fn runs(table: &Table, Group { title: group, rows, .. }: Group, place: &Place) -> Vec<(String, Vec<usize>)> {
    let begins_anew = |first: usize| {
        let at = rows.partition_point(|row| *row < first);
        let pair = [*rows.get(at.checked_sub(1)?)?, *rows.get(at)?];
        let x = x_values(table, &pair, place.column, place.axis).0;
        (x[1] < x[0]).then_some(at)
    };
    let mut ends: Vec<usize> = table.named_again.iter().filter_map(|first| begins_anew(*first)).collect();
    if ends.is_empty() {
        return vec![(group, rows)];
    }
    ends.push(rows.len());
    let starts = [0].into_iter().chain(ends.clone());
    let run = |(number, (start, end)): (usize, (usize, usize))| {
        (super::named(&[&group, &format!("run {}", number + 1)]), rows[start..end].to_vec())
    };
    starts.zip(ends).enumerate().map(run).collect()
}

fn curve(
    table: &Table,
    rows: &[usize],
    (column, meant, largest): (usize, &Meaning, Option<&[f64]>),
    place: &Place,
    hints: &Hints,
) -> Option<Curve> {
    let mut rows: Vec<usize> =
        rows.iter().copied().filter(|row| measured(&table.rows[*row][column]).is_some()).collect();
    // A table may have its newest row first.
    if only_falls(&x_values(table, &rows, place.column, place.axis).0) {
        rows.reverse();
    }
    let raw = |column: usize| -> Vec<f64> {
        rows.iter().map(|row| measured(&table.rows[*row][column]).unwrap_or(f64::NAN)).collect()
    };
    let first = &table.rows[*rows.first()?][column];
    let y = raw(column);
    let (unit, how) = unit_of(&table.names[column], first, meant, hints, largest.unwrap_or(&y));
    let (unit, how) = if how == numbers::BY_SIZE { nameless::unit(table, column, unit) } else { (unit, how) };
    let (x, said_x) = x_values(table, &rows, place.column, place.axis);
    let name = |column: usize| {
        let name = &table.names[column];
        if name.is_empty() { format!("column {}", column + 1) } else { format!("`{name}`") }
    };
    let x_name = place.column.map_or_else(|| "the number of the row".to_owned(), name);
    let mut notes =
        vec![format!("y is {}, taken as {}, {how}; x is {x_name}{said_x}", name(column), unit.name)];
    notes.extend(place.note.clone());
    notes.extend(table.written[column].clone());
    let y = y.into_iter().map(|value| value * unit.bytes).collect();
    let mut series = beside(table, (column, place.column), &raw, unit);
    let metric = meant.metric.clone();
    // The heap of a process is no part of a card's memory.
    series.retain(|name, _| metric != Metric::Gpu || !HEAPS.contains(&name.as_str()));
    let parts = parts(table, column, &raw, unit);
    let mut out = Curve { axis: place.axis, x, y, metric, series, notes, ..Curve::default() };
    process_parts::tell(&mut out, &table.names[column], parts);
    lay_passes_in_a_row(&mut out, &epochs(table, &rows));
    let bound =
        bound(table, &rows, column, unit).filter(|bound| out.y.iter().all(|y| y <= bound || y.is_nan()));
    out.notes.extend(nameless::note(table, column).filter(|_| bound.is_some()));
    super::set_limit(&mut out, bound);
    if is_free(&table.names[column]) {
        super::turn_round(&mut out, bound, &table.names[column]);
    }
    Some(out)
}

/// What y is held against: `used / limit` in its cells, else `memory.total` beside `memory.used`.
fn bound(table: &Table, rows: &[usize], y: usize, unit: Unit) -> Option<f64> {
    let in_cell = |row: &usize| Some(value(table.rows[*row][y].split(" / ").nth(1)?)? * unit.bytes);
    let column = nameless::total(table, y).or_else(|| total_column(table, y));
    if column.is_none() && !table.rows[*rows.first()?][y].contains(" / ") {
        return None;
    }
    let beside = |row: &usize| {
        let column = column?;
        let sized = numbers::number(&table.rows[*row][column]).is_none();
        let unit = if sized || cgroup_files::is_limit(&table.names[column]) {
            numbers::BYTES
        } else {
            numbers::unit_in_name(&table.names[column]).unwrap_or(unit)
        };
        Some(value(&table.rows[*row][column])? * unit.bytes)
    };
    let all: Vec<f64> = rows.iter().filter_map(|row| in_cell(row).or_else(|| beside(row))).collect();
    super::constant(&all).filter(|_| all.len() == rows.len())
}

/// The column named as y, with `total` or `limit` in place of what is used or free.
fn total_column(table: &Table, y: usize) -> Option<usize> {
    let level = if is_free(&table.names[y]) { FREE } else { &["used", "usage"] };
    let kin = |name: &str| {
        let words = level.iter().chain(&["total", "limit"]);
        words.fold(name.to_ascii_lowercase(), |name, word| name.replace(word, "*"))
    };
    let of_y = kin(&table.names[y]);
    let is_total = |name: &str| {
        let lower = name.to_ascii_lowercase();
        lower.contains("limit") || lower.contains("total") && !is_sum(name)
    };
    let has_kin = of_y.contains('*');
    let of_kin = |name: &String| has_kin && is_total(name) && kin(name) == of_y;
    let in_cgroup = cgroup_files::file(&table.names[y]).is_some();
    let of_cgroup = |name: &String| in_cgroup && cgroup_files::is_limit(name);
    let others = || table.names.iter().enumerate().filter(|(column, _)| *column != y);
    others().find(|(_, name)| of_kin(name) || of_cgroup(name)).map(|(column, _)| column)
}

/// The epoch of each row, where a column tells it.
fn epochs(table: &Table, rows: &[usize]) -> Vec<Option<f64>> {
    let column = table.names.iter().position(|name| is_named(name, "epoch"));
    rows.iter().map(|row| numbers::number(&table.rows[*row][column?])).collect()
}

/// Steps that begin anew with each epoch count on.
fn lay_passes_in_a_row(curve: &mut Curve, epochs: &[Option<f64>]) {
    if curve.axis != Axis::Step {
        return;
    }
    let at =
        |((x, y), epoch): ((&f64, &f64), &Option<f64>)| At { x: *x, y: *y, epoch: *epoch, ..At::default() };
    let points: Vec<At> = curve.x.iter().zip(&curve.y).zip(epochs).map(at).collect();
    if let [Run { passes: Some(passes), .. }] = passes::runs(&points, Counted::Steps).as_slice() {
        curve.x.clone_from(&passes.x);
        curve.context.epoch_steps = Some(passes.steps);
        curve.notes.push(passes.note.clone());
    }
}

fn unit_of(name: &str, first: &str, meant: &Meaning, hints: &Hints, y: &[f64]) -> (Unit, &'static str) {
    if let Some(unit) = hints.unit.as_deref().and_then(numbers::unit) {
        (unit, "as asked")
    } else if numbers::number(first).is_none() {
        (numbers::BYTES, "from the units in the cells")
    } else if name.contains("memory.rssMB") {
        (MIB, "as W&B counts")
    } else if let Some(unit) = meant.unit {
        (unit, "by its name")
    } else if numbers::is_of_node(name, y) {
        (numbers::BYTES, "as Node counts")
    } else if matches!(meant.metric, Metric::Other(_)) {
        (numbers::guess(y), numbers::BY_SIZE)
    } else {
        let unit = numbers::guess_of_process(y);
        (unit, numbers::how_guessed(unit))
    }
}

fn x_values(table: &Table, rows: &[usize], column: Option<usize>, axis: Axis) -> (Vec<f64>, String) {
    let Some(column) = column else { return ((0..rows.len()).map(|n| n as f64).collect(), String::new()) };
    let cells = || rows.iter().map(|row| table.rows[*row][column].as_str());
    let since = |(x, note): (Vec<f64>, Option<String>)| {
        let note = note.map(|note| format!("; {note}")).unwrap_or_default();
        (x, format!(", as seconds since the first{note}"))
    };
    let moment = |cell| times::cell(cell).or_else(|| times::in_units(cell).filter(|_| axis == Axis::Seconds));
    let moments: Vec<times::Moment> = cells().filter_map(moment).collect();
    if moments.len() == rows.len() {
        return since(times::laid(&moments));
    }
    let values: Vec<f64> = cells().map(|cell| numbers::number(cell).unwrap_or(f64::NAN)).collect();
    if axis != Axis::Seconds {
        return (values, String::new());
    }
    let told = time_units::unit_of_name(&table.names[column]);
    let clock = times::clock(values.iter().copied().find(|value| value.is_finite()).unwrap_or(0.0), told);
    let mut x: Vec<f64> = values.into_iter().map(|value| clock.x(value)).collect();
    if clock.since_1970 {
        let note = times::count_on(&mut x);
        return since((x, note));
    }
    let told = told.filter(|unit| (unit.seconds - 1.0).abs() > 0.0);
    (x, told.map(|unit| format!(", which counts {}; x is in seconds", unit.name)).unwrap_or_default())
}

/// The columns of the parts of a process, beside that of y.
fn parts(table: &Table, y: usize, raw: &dyn Fn(usize) -> Vec<f64>, unit: Unit) -> process_parts::Parts {
    let of = |(column, part): (usize, &'static str)| {
        let unit = numbers::unit_in_name(&table.names[column]).unwrap_or(unit);
        (part, raw(column).into_iter().map(|value| value * unit.bytes).collect())
    };
    table.parts().beside(y, &table.names).into_iter().map(of).collect()
}

/// Other columns of memory and counts, under plain names.
fn beside(
    table: &Table,
    (y, x): (usize, Option<usize>),
    raw: &dyn Fn(usize) -> Vec<f64>,
    unit: Unit,
) -> BTreeMap<String, Vec<f64>> {
    let mut out = BTreeMap::new();
    for (column, name) in table.names.iter().enumerate() {
        if column == y
            || Some(column) == x
            || is_bound(name)
            || name.contains(" - ")
            || out.len() >= MOST_SERIES
        {
            continue;
        }
        if let Some(series) = count_series(name) {
            out.insert(series.to_owned(), raw(column));
            continue;
        }
        if let Some(part) = heap_series(name).or_else(|| process_parts::part_beside(name)) {
            let unit = numbers::unit_in_name(name).unwrap_or(unit);
            let values = raw(column).into_iter().map(|value| value * unit.bytes).collect();
            out.entry(part.to_owned()).or_insert(values);
        }
    }
    out
}
