//! Tables written as one JSON document: a list of records, or a list a column, as `json.dump` and pandas write them.
//!
//! On one line such a document looks like a line of a log, of which only the first sample would be read. What is a table
//! here is therefore a table or nothing.

use super::{Attempt, Hints, Missing, table};
use serde_json::{Map, Value};
use std::collections::BTreeSet;

/// More columns are no table that anybody looks at.
const MOST_COLUMNS: usize = 1000;

/// How deep a table may lie: `{"run": {"history": [...]}}`.
const DEEPEST: usize = 3;

/// Names and rows, all rows as wide as the names.
type Cells = (Vec<String>, Vec<Vec<String>>);

pub(crate) fn read(text: &str, hints: &Hints) -> Attempt {
    let whole: Value = serde_json::from_str(text).map_err(|error| error.to_string())?;
    let (names, rows) = cells(&whole, DEEPEST).ok_or("no list of records, and no lists of one length")?;
    table::of_cells(names, rows, hints).map_err(|missing| match missing {
        Missing::Form(why) | Missing::Wanted(why) => Missing::Wanted(why),
    })
}

fn cells(value: &Value, deep: usize) -> Option<Cells> {
    let found = match value {
        Value::Array(list) => of_list(list),
        Value::Object(object) => split(object).or_else(|| columns(object)).or_else(|| {
            let deep = deep.checked_sub(1)?;
            // The settings of a run may hold short lists, too.
            object.values().filter_map(|value| cells(value, deep)).max_by_key(|(_, rows)| rows.len())
        }),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => None,
    };
    found.filter(|(names, rows)| (1..=MOST_COLUMNS).contains(&names.len()) && !rows.is_empty())
}

/// A list of records, of rows, or of numbers.
fn of_list(list: &[Value]) -> Option<Cells> {
    if list.len() < 2 {
        return None;
    }
    let records: Option<Vec<&Map<String, Value>>> = list.iter().map(Value::as_object).collect();
    if let Some(records) = records {
        return of_records(&records);
    }
    let row = |value: &Value| match value {
        Value::Array(cells) => Some(cells.iter().map(cell).collect()),
        Value::Number(_) => Some(vec![cell(value)]),
        Value::Null | Value::Bool(_) | Value::String(_) | Value::Object(_) => None,
    };
    let rows: Vec<Vec<String>> = list.iter().map(row).collect::<Option<_>>()?;
    let width = rows[0].len();
    rows.iter().all(|row| row.len() == width).then(|| (vec![String::new(); width], rows))
}

fn of_records(records: &[&Map<String, Value>]) -> Option<Cells> {
    let mut names: Vec<String> = Vec::new();
    let mut known = BTreeSet::new();
    let flat: Vec<Vec<(String, String)>> = records.iter().map(|record| flat(record)).collect();
    for (name, _) in flat.iter().flatten() {
        if known.insert(name.as_str()) {
            names.push(name.clone());
        }
        if names.len() > MOST_COLUMNS {
            return None;
        }
    }
    let row = |record: &Vec<(String, String)>| {
        let of = |name: &String| record.iter().find(|(own, _)| own == name);
        names.iter().map(|name| of(name).map_or(String::new(), |(_, cell)| cell.clone())).collect()
    };
    let rows = flat.iter().map(row).collect();
    Some((names, rows))
}

/// The cells of a record; `{"mem": {"rss": 1}}` is `mem.rss`.
fn flat(record: &Map<String, Value>) -> Vec<(String, String)> {
    let each = |(name, value): (&String, &Value)| match value {
        Value::Object(inner) => {
            inner.iter().map(|(part, value)| (format!("{name}.{part}"), cell(value))).collect()
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
            vec![(name.clone(), cell(value))]
        }
    };
    record.iter().flat_map(each).collect()
}

/// What pandas writes with `orient="split"`.
fn split(object: &Map<String, Value>) -> Option<Cells> {
    let names: Vec<String> = object.get("columns")?.as_array()?.iter().map(cell).collect();
    let row = |row: &Value| Some(row.as_array()?.iter().map(cell).collect::<Vec<_>>());
    let rows: Vec<Vec<String>> = object.get("data")?.as_array()?.iter().map(row).collect::<Option<_>>()?;
    rows.iter().all(|row| row.len() == names.len()).then_some((names, rows))
}

/// A list a column, or what pandas writes: an object a column, of its values by the number of their row. Lists of another
/// length stand beside the table.
fn columns(object: &Map<String, Value>) -> Option<Cells> {
    let column = |(name, value): (&String, &Value)| {
        let cells = match value {
            Value::Array(list) if list.iter().all(is_plain) => list.iter().map(cell).collect(),
            Value::Object(by_row) if by_row.values().all(is_plain) => in_order(by_row)?,
            Value::Array(_)
            | Value::Object(_)
            | Value::Null
            | Value::Bool(_)
            | Value::Number(_)
            | Value::String(_) => return None,
        };
        Some((name.clone(), cells))
    };
    let mut columns: Vec<(String, Vec<String>)> = object.iter().filter_map(column).collect();
    let longest = columns.iter().map(|(_, cells)| cells.len()).max().filter(|rows| *rows > 1)?;
    columns.retain(|(_, cells)| cells.len() == longest);
    let rows = (0..longest).map(|row| columns.iter().map(|(_, cells)| cells[row].clone()).collect());
    let rows = rows.collect();
    Some((columns.into_iter().map(|(name, _)| name).collect(), rows))
}

/// The values of keys that are numbers, in their order.
fn in_order(by_row: &Map<String, Value>) -> Option<Vec<String>> {
    let numbered = |(key, value): (&String, &Value)| Some((key.parse::<u64>().ok()?, cell(value)));
    let mut cells: Vec<(u64, String)> = by_row.iter().map(numbered).collect::<Option<_>>()?;
    cells.sort_by_key(|(row, _)| *row);
    Some(cells.into_iter().map(|(_, cell)| cell).collect())
}

fn is_plain(value: &Value) -> bool {
    !value.is_array() && !value.is_object()
}

fn cell(value: &Value) -> String {
    match value {
        Value::Number(number) => number.to_string(),
        Value::String(text) => text.trim().to_owned(),
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => String::new(),
    }
}
