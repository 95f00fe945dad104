//! Reads rows of a table that may be anything: columns missing, of a wrong type, negative, huge.
//!
//! A value that is not what it should be reads as absent; a table that is not a table reads as damaged. Rows come in
//! small portions, so that no transaction lives long.

use lowtide_model::{Bytes, Span};
use rusqlite::types::ValueRef;
use rusqlite::{Connection, OptionalExtension, Result, Row};
use std::collections::BTreeSet;

/// Rows in one portion: about 2 ms of reading, so that the writer's fold never waits.
const PORTION: usize = 4096;

/// The next cells of a row, from left to right.
pub(crate) struct Cells<'a> {
    row: &'a Row<'a>,
    next: usize,
}

impl<'a> Cells<'a> {
    /// All cells of a row.
    pub(crate) fn of(row: &'a Row<'a>) -> Self {
        Self { row, next: 0 }
    }

    fn cell(&mut self) -> ValueRef<'a> {
        let at = self.next;
        self.next += 1;
        self.row.get_ref(at).unwrap_or(ValueRef::Null)
    }

    /// A whole number that is not negative.
    pub(crate) fn count(&mut self) -> Option<u64> {
        match self.cell() {
            ValueRef::Integer(value) => u64::try_from(value).ok(),
            ValueRef::Real(value) if (0.0..9.2e18).contains(&value) => Some(value as u64),
            ValueRef::Null | ValueRef::Real(_) | ValueRef::Text(_) | ValueRef::Blob(_) => None,
        }
    }

    pub(crate) fn small(&mut self) -> Option<u32> {
        self.count().and_then(|value| u32::try_from(value).ok())
    }

    pub(crate) fn signed(&mut self) -> Option<i64> {
        match self.cell() {
            ValueRef::Integer(value) => Some(value),
            ValueRef::Null | ValueRef::Real(_) | ValueRef::Text(_) | ValueRef::Blob(_) => None,
        }
    }

    pub(crate) fn real(&mut self) -> Option<f64> {
        match self.cell() {
            ValueRef::Integer(value) => Some(value as f64),
            ValueRef::Real(value) => Some(value),
            ValueRef::Null | ValueRef::Text(_) | ValueRef::Blob(_) => None,
        }
    }

    pub(crate) fn bytes(&mut self) -> Option<Bytes> {
        self.count().map(Bytes)
    }

    /// `*_bytes`, `*_min_bytes`, `*_max_bytes`: the neighbours are there only where they differ.
    pub(crate) fn span(&mut self) -> Option<Span> {
        let (last, min, max) = (self.bytes(), self.bytes(), self.bytes());
        let last = last?;
        Some(Span { min: min.unwrap_or(last).min(last), max: max.unwrap_or(last).max(last), last })
    }

    pub(crate) fn text(&mut self) -> Option<String> {
        match self.cell() {
            ValueRef::Text(bytes) => Some(String::from_utf8_lossy(bytes).into_owned()),
            ValueRef::Null | ValueRef::Integer(_) | ValueRef::Real(_) | ValueRef::Blob(_) => None,
        }
    }

    /// A cell as JSON: what a header field is made of.
    pub(crate) fn json(&mut self) -> serde_json::Value {
        match self.cell() {
            ValueRef::Integer(value) => value.into(),
            ValueRef::Real(value) => value.into(),
            ValueRef::Text(bytes) => String::from_utf8_lossy(bytes).into_owned().into(),
            ValueRef::Null | ValueRef::Blob(_) => serde_json::Value::Null,
        }
    }
}

/// A table with the columns to read.
pub(crate) struct Table {
    pub(crate) name: &'static str,
    pub(crate) columns: &'static [&'static str],
    /// A table joined by its rowid, with the columns read after those of the first.
    pub(crate) beside: Option<(&'static str, &'static [&'static str])>,
}

/// The newest row, or none for a table that is not there.
pub(crate) fn newest(conn: &Connection, table: &str) -> i64 {
    let known = is_table(conn, table).unwrap_or(false);
    let ask = || conn.query_row(&format!("SELECT max(rowid) FROM \"{table}\""), [], |row| row.get(0));
    if known { ask().unwrap_or(None).unwrap_or(0) } else { 0 }
}

/// Gives every row after `after` up to `upto` to `take`, oldest first.
pub(crate) fn each(
    conn: &Connection,
    table: &Table,
    (after, upto): (i64, i64),
    mut take: impl FnMut(i64, &mut Cells<'_>),
) -> Result<()> {
    let sql = select(conn, table)?;
    let mut statement = conn.prepare(&sql)?;
    let mut from = after;
    loop {
        let mut rows = statement.query((from, upto))?;
        let mut seen = 0;
        while let Some(row) = rows.next()? {
            let id: i64 = row.get(0)?;
            take(id, &mut Cells { row, next: 1 });
            from = id;
            seen += 1;
        }
        if seen < PORTION {
            return Ok(());
        }
    }
}

fn select(conn: &Connection, table: &Table) -> Result<String> {
    let mut list = listed(conn, table.name, "a", table.columns)?;
    let mut join = String::new();
    if let Some((other, columns)) = table.beside {
        if is_table(conn, other)? {
            list.push_str(&listed(conn, other, "b", columns)?);
            join = format!(" LEFT JOIN \"{other}\" b ON b.rowid = a.rowid");
        } else {
            list.push_str(&", NULL".repeat(columns.len()));
        }
    }
    let name = table.name;
    Ok(format!(
        "SELECT a.rowid{list} FROM \"{name}\" a{join} WHERE a.rowid > ?1 AND a.rowid <= ?2 ORDER BY a.rowid LIMIT {PORTION}"
    ))
}

/// The columns that are there by name, NULL for the others.
fn listed(conn: &Connection, table: &str, alias: &str, columns: &[&str]) -> Result<String> {
    let there = columns_of(conn, table)?;
    let one = |column: &&str| {
        if there.contains(*column) { format!(", {alias}.\"{column}\"") } else { ", NULL".to_owned() }
    };
    Ok(columns.iter().map(one).collect())
}

/// Whether there is a real table of that name: no view, nothing virtual.
pub(crate) fn is_table(conn: &Connection, table: &str) -> Result<bool> {
    let found: Option<i64> = conn
        .query_row("SELECT rootpage FROM sqlite_schema WHERE type = 'table' AND name = ?1", [table], |row| {
            row.get(0)
        })
        .optional()?;
    Ok(found.is_some_and(|page| page > 0))
}

fn columns_of(conn: &Connection, table: &str) -> Result<BTreeSet<String>> {
    if !is_table(conn, table)? {
        return Err(rusqlite::Error::InvalidColumnName(format!("no table {table}")));
    }
    // Generated columns are hidden here (`table_info` leaves them out), so no foreign expression is evaluated.
    let mut statement = conn.prepare("SELECT name FROM pragma_table_info(?1)")?;
    let names = statement.query_map([table], |row| row.get(0))?;
    names.collect()
}
