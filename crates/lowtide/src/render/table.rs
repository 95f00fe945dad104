//! Plain tables: columns as wide as they must be, numbers to the right, no lines.

use std::fmt::Write as _;

/// One column.
#[derive(Clone, Copy)]
pub(crate) enum Align {
    Left,
    Right,
}

/// Rows of cells under a heading.
pub(crate) struct Table {
    columns: Vec<Align>,
    rows: Vec<Vec<String>>,
}

impl Table {
    pub(crate) fn new(heading: &[(&str, Align)]) -> Self {
        let columns = heading.iter().map(|(_, align)| *align).collect();
        let rows = vec![heading.iter().map(|(name, _)| (*name).to_owned()).collect()];
        Self { columns, rows }
    }

    pub(crate) fn row(&mut self, cells: Vec<String>) {
        self.rows.push(cells);
    }

    /// The table, each line indented by two spaces.
    pub(crate) fn text(&self) -> String {
        let width = |column: usize| {
            self.rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max()
        };
        let widths: Vec<usize> = (0..self.columns.len()).map(|column| width(column).unwrap_or(0)).collect();
        let mut text = String::new();
        for row in &self.rows {
            let mut line = String::from(" ");
            for ((cell, width), align) in row.iter().zip(&widths).zip(&self.columns) {
                line.push(' ');
                let _ = match align {
                    Align::Left => write!(line, "{cell:<width$} "),
                    Align::Right => write!(line, "{cell:>width$} "),
                };
            }
            text.push_str(line.trim_end());
            text.push('\n');
        }
        text
    }
}
