//! The tree of processes: by role, or each process under its parent.

use super::view::{Listing, Palette, View};
use super::words;
use lowtide_model::{Bytes, ProcKey};
use lowtide_wire::{ProcessLine, RoleLine, Snapshot};
use ratatui::Frame;
use ratatui::layout::{Alignment, Constraint, Rect};
use ratatui::style::{Color, Modifier, Style as Look};
use ratatui::text::{Line, Text};
use ratatui::widgets::{Row, Table};
use std::collections::{BTreeMap, BTreeSet};

/// Room for a size: `1023 MiB`.
const SIZE: u16 = 8;
/// Deeper than this, indenting stops: the line must keep room for the command.
const DEEPEST_INDENT: usize = 8;

/// A process and how deep it stands under the job's root.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place<'a> {
    pub(super) line: &'a ProcessLine,
    pub(super) depth: usize,
}

/// Every process once, each under its parent, siblings in the order they came. Foreign: parents may be missing, repeated
/// or go in a circle.
pub(super) fn tree_order(lines: &[ProcessLine]) -> Vec<Place<'_>> {
    let known: BTreeSet<ProcKey> = lines.iter().map(|line| line.key).collect();
    let mut children: BTreeMap<ProcKey, Vec<usize>> = BTreeMap::new();
    let mut roots = Vec::new();
    for (index, line) in lines.iter().enumerate() {
        match line.parent.filter(|parent| known.contains(parent) && *parent != line.key) {
            Some(parent) => children.entry(parent).or_default().push(index),
            None => roots.push(index),
        }
    }
    let mut placed = vec![false; lines.len()];
    let mut order = Vec::with_capacity(lines.len());
    // What is in no root's reach stands in a circle of parents: it comes last, as roots of its own.
    for start in roots.into_iter().chain(0..lines.len()) {
        let mut pending = vec![(start, 0)];
        while let Some((index, depth)) = pending.pop() {
            let Some(line) = lines.get(index) else { continue };
            if std::mem::replace(&mut placed[index], true) {
                continue;
            }
            order.push(Place { line, depth });
            let below = children.get(&line.key).into_iter().flatten().rev();
            pending.extend(below.map(|child| (*child, depth + 1)));
        }
    }
    order
}

/// Draws the table of the chosen listing.
pub(super) fn draw(frame: &mut Frame<'_>, area: Rect, view: &mut View) {
    let Some(snapshot) = &view.snapshot else { return };
    let table = match view.listing {
        Listing::Roles => roles(snapshot, view.palette),
        Listing::Processes => processes(snapshot, view.palette, area.width),
    };
    let table = table.row_highlight_style(Look::new().add_modifier(Modifier::REVERSED)).column_spacing(1);
    frame.render_stateful_widget(table, area, &mut view.rows);
}

/// Why the selected process has its role; nothing in the listing by role.
pub(super) fn reason(view: &View) -> Option<String> {
    let snapshot = view.snapshot.as_ref()?;
    match view.listing {
        Listing::Roles => None,
        Listing::Processes => {
            let order = tree_order(&snapshot.processes);
            let line = order.get(view.rows.selected()?)?.line;
            Some(match line.reason.as_str() {
                "" => format!("{} is a {}", line.key.pid, line.role.word()),
                reason => format!("{} is a {}: {reason}", line.key.pid, line.role.word()),
            })
        }
    }
}

/// How many lines the listing would like, its head included.
pub(super) fn wanted(view: &View) -> usize {
    view.snapshot.as_ref().map_or(0, |snapshot| {
        1 + match view.listing {
            Listing::Roles => snapshot.roles.len(),
            Listing::Processes => snapshot.processes.len(),
        }
    })
}

fn right(text: impl Into<String>) -> Text<'static> {
    Text::from(Line::from(text.into()).alignment(Alignment::Right))
}

fn size(bytes: Option<Bytes>) -> Text<'static> {
    right(bytes.map_or_else(|| "-".to_owned(), |bytes| bytes.to_string()))
}

fn roles(snapshot: &Snapshot, palette: Palette) -> Table<'static> {
    let head = Row::new([Text::from("role"), right("count"), right("RSS"), right("change")]);
    let rows = snapshot.roles.iter().map(|line| role_row(line, palette));
    let widths =
        [Constraint::Length(15), Constraint::Length(6), Constraint::Length(SIZE), Constraint::Length(14)];
    Table::new(rows, widths).header(head.style(palette.faint()))
}

fn role_row(line: &RoleLine, palette: Palette) -> Row<'static> {
    let grows = line.bytes_per_minute.is_some_and(|rate| rate > line.rss_bytes.as_f64() * 0.01);
    let look = if grows { palette.look(Color::Yellow) } else { Look::new() };
    Row::new([
        Text::from(line.role.word()),
        right(line.count.to_string()),
        size(Some(line.rss_bytes)),
        right(words::rate(line.bytes_per_minute)).style(look),
    ])
}

/// Columns of the listing by process that fit into a width, dearest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Column {
    Role,
    Rss,
    Anon,
    Pss,
    Swap,
    Threads,
}

impl Column {
    /// Each with the width of the screen from which it is shown.
    const ALL: [(Self, u16); 6] = [
        (Self::Role, 50),
        (Self::Rss, 0),
        (Self::Anon, 62),
        (Self::Pss, 72),
        (Self::Swap, 88),
        (Self::Threads, 96),
    ];

    fn shown(width: u16) -> Vec<Self> {
        Self::ALL.iter().filter(|(_, from)| width >= *from).map(|(column, _)| *column).collect()
    }

    fn width(self) -> Constraint {
        match self {
            Self::Role => Constraint::Length(14),
            Self::Rss | Self::Anon | Self::Pss | Self::Swap => Constraint::Length(SIZE),
            Self::Threads => Constraint::Length(7),
        }
    }

    fn head(self) -> Text<'static> {
        match self {
            Self::Role => Text::from("role"),
            Self::Rss => right("RSS"),
            Self::Anon => right("anon"),
            Self::Pss => right("PSS"),
            Self::Swap => right("swap"),
            Self::Threads => right("threads"),
        }
    }

    fn cell(self, line: &ProcessLine) -> Text<'static> {
        match self {
            Self::Role => Text::from(line.role.word()),
            Self::Rss => size(Some(line.rss_bytes)),
            Self::Anon => size(line.anon_bytes),
            Self::Pss => size(line.pss_bytes),
            Self::Swap => size(line.swap_bytes),
            Self::Threads => right(line.threads.map_or_else(|| "-".to_owned(), |count| count.to_string())),
        }
    }
}

fn processes(snapshot: &Snapshot, palette: Palette, width: u16) -> Table<'static> {
    let columns = Column::shown(width);
    let head = std::iter::once(Text::from("process")).chain(columns.iter().map(|column| column.head()));
    let rows = tree_order(&snapshot.processes).into_iter().map(|place| process_row(place, &columns));
    let widths = std::iter::once(Constraint::Fill(1)).chain(columns.iter().map(|column| column.width()));
    Table::new(rows, widths).header(Row::new(head).style(palette.faint()))
}

fn process_row(place: Place<'_>, columns: &[Column]) -> Row<'static> {
    let indent = "  ".repeat(place.depth.min(DEEPEST_INDENT));
    let name = Text::from(format!("{indent}{} {}", place.line.key.pid, place.line.command));
    Row::new(std::iter::once(name).chain(columns.iter().map(|column| column.cell(place.line))))
}

#[cfg(test)]
mod tests {
    use super::*;
    use lowtide_model::Role;
    use proptest::prelude::*;

    fn line(pid: u32, parent: Option<u32>) -> ProcessLine {
        let key = |pid| ProcKey { pid, start_ticks: 0 };
        ProcessLine {
            key: key(pid),
            parent: parent.map(key),
            role: Role::Unknown,
            reason: String::new(),
            command: String::new(),
            rss_bytes: Bytes::ZERO,
            anon_bytes: None,
            pss_bytes: None,
            swap_bytes: None,
            threads: None,
        }
    }

    fn shape(lines: &[ProcessLine]) -> Vec<(u32, usize)> {
        tree_order(lines).iter().map(|place| (place.line.key.pid, place.depth)).collect()
    }

    #[test]
    fn children_stand_under_their_parent_largest_first() {
        let lines = [line(3, Some(2)), line(2, Some(1)), line(9, None), line(1, Some(77)), line(4, Some(2))];
        assert_eq!(shape(&lines), [(9, 0), (1, 0), (2, 1), (3, 2), (4, 2)]);
    }

    #[test]
    fn a_circle_of_parents_is_listed_once() {
        let lines = [line(1, Some(2)), line(2, Some(1)), line(3, Some(3))];
        assert_eq!(shape(&lines), [(3, 0), (1, 0), (2, 1)]);
    }

    proptest! {
        #[test]
        fn every_process_is_listed_exactly_once(parents in prop::collection::vec((0_u32..12, prop::option::of(0_u32..14)), 0..40)) {
            let lines: Vec<_> = parents.iter().map(|(pid, parent)| line(*pid, *parent)).collect();
            prop_assert_eq!(tree_order(&lines).len(), lines.len());
        }
    }
}
