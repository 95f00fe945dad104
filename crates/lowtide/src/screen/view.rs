//! What the full screen knows and what its keys do. Pure: drawing is in `draw`, the terminal in `full`.

use super::table;
use lowtide_model::{ProcKey, Role};
use lowtide_wire::{Answer, Point, Snapshot};
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use ratatui::style::{Color, Modifier, Style as Look};
use ratatui::widgets::TableState;

/// Points kept for the curve; more than any screen has dots. Beyond it neighbours are merged.
const MOST_POINTS: usize = 4_096;
/// Lines a page key moves.
const PAGE: isize = 10;

/// What the table lists.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Listing {
    /// One line a role.
    #[default]
    Roles,
    /// One line a process, indented under its parent.
    Processes,
}

/// What comes after a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// Go on.
    Stay,
    /// Leave the view.
    Leave,
    /// Stop like any program on Ctrl-Z, and come back with `fg`.
    Suspend,
}

/// Colours, or none of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Palette {
    /// As the terminal can.
    Coloured,
    /// `NO_COLOR` is set: bold, dim and reversed only.
    Plain,
}

impl Palette {
    /// As <https://no-color.org> asks: set and not empty means no colour.
    pub(super) fn from_env() -> Self {
        match std::env::var_os("NO_COLOR") {
            Some(value) if !value.is_empty() => Self::Plain,
            Some(_) | None => Self::Coloured,
        }
    }

    /// Text in a colour, where there are colours.
    pub(super) fn look(self, color: Color) -> Look {
        match self {
            Self::Coloured => Look::new().fg(color),
            Self::Plain => Look::new(),
        }
    }

    /// Text that stands back.
    pub(super) fn faint(self) -> Look {
        self.look(Color::Reset).add_modifier(Modifier::DIM)
    }

    /// The look of something this full, per cent.
    pub(super) fn fullness(self, percent: f64) -> Look {
        match percent {
            p if p >= 90.0 => self.look(Color::Red).add_modifier(Modifier::BOLD),
            p if p >= 75.0 => self.look(Color::Yellow),
            _ => self.look(Color::Green),
        }
    }
}

/// The state of the full screen.
#[derive(Debug)]
pub(super) struct View {
    pub(super) palette: Palette,
    pub(super) points: Vec<Point>,
    pub(super) snapshot: Option<Box<Snapshot>>,
    pub(super) listing: Listing,
    pub(super) help: bool,
    pub(super) rows: TableState,
    chosen_role: Option<Role>,
    chosen_process: Option<ProcKey>,
}

impl View {
    /// A view that has heard nothing yet.
    pub(super) fn new(palette: Palette) -> Self {
        Self {
            palette,
            points: Vec::new(),
            snapshot: None,
            listing: Listing::default(),
            help: false,
            rows: TableState::new(),
            chosen_role: None,
            chosen_process: None,
        }
    }

    /// Takes in an answer; gives back the recorder's words when it refuses.
    pub(super) fn take(&mut self, answer: Answer) -> Result<(), String> {
        match answer {
            Answer::History { points } => self.begin_with(points),
            Answer::Snapshot(snapshot) => {
                let total = snapshot.total.bytes;
                self.append(Point { seconds: snapshot.tick.seconds(), low_bytes: total, high_bytes: total });
                self.snapshot = Some(snapshot);
                self.follow_choice();
            }
            Answer::Error { text } => return Err(text),
            Answer::Marked | Answer::Scan { .. } | Answer::Squeeze { .. } => {}
        }
        Ok(())
    }

    fn begin_with(&mut self, mut points: Vec<Point>) {
        points.retain(|point| point.seconds.is_finite() && point.low_bytes <= point.high_bytes);
        points.sort_by(|a, b| a.seconds.total_cmp(&b.seconds));
        self.points = points;
        self.thin();
    }

    fn append(&mut self, point: Point) {
        if self.points.last().is_none_or(|last| last.seconds < point.seconds) {
            self.points.push(point);
            self.thin();
        }
    }

    /// Halves the number of points; a merged one keeps the lowest low and the highest high.
    fn thin(&mut self) {
        while self.points.len() > MOST_POINTS {
            self.points = self.points.chunks(2).filter_map(merged).collect();
        }
    }

    /// What a key does.
    #[allow(clippy::wildcard_enum_match_arm, reason = "every other key, of crossterm's many, does nothing")]
    pub(super) fn key(&mut self, key: KeyEvent) -> Next {
        if key.modifiers.contains(KeyModifiers::CONTROL) {
            return control_key(key.code);
        }
        match key.code {
            KeyCode::Char('q' | 'Q') => return Next::Leave,
            KeyCode::Char('?' | 'h') => self.help = !self.help,
            KeyCode::Esc => self.help = false,
            KeyCode::Tab | KeyCode::BackTab | KeyCode::Char('r') => self.toggle(),
            KeyCode::Up | KeyCode::Char('k') => self.select_by(-1),
            KeyCode::Down | KeyCode::Char('j') => self.select_by(1),
            KeyCode::PageUp => self.select_by(-PAGE),
            KeyCode::PageDown => self.select_by(PAGE),
            KeyCode::Home | KeyCode::Char('g') => self.select_by(isize::MIN),
            KeyCode::End | KeyCode::Char('G') => self.select_by(isize::MAX),
            _ => {}
        }
        Next::Stay
    }

    fn toggle(&mut self) {
        self.listing = match self.listing {
            Listing::Roles => Listing::Processes,
            Listing::Processes => Listing::Roles,
        };
        self.rows = TableState::new();
        self.follow_choice();
    }

    fn select_by(&mut self, lines: isize) {
        let Some(snapshot) = &self.snapshot else { return };
        let count = match self.listing {
            Listing::Roles => snapshot.roles.len(),
            Listing::Processes => snapshot.processes.len(),
        };
        let now = self.rows.selected().unwrap_or(0);
        let row = now.saturating_add_signed(lines).min(count.saturating_sub(1));
        match self.listing {
            Listing::Roles => self.chosen_role = snapshot.roles.get(row).map(|line| line.role),
            Listing::Processes => {
                let order = table::tree_order(&snapshot.processes);
                self.chosen_process = order.get(row).map(|place| place.line.key);
            }
        }
        self.rows.select(Some(row));
    }

    /// Keeps the selection on the same role or process while the lines move under it.
    fn follow_choice(&mut self) {
        let Some(snapshot) = &self.snapshot else { return };
        let found = match self.listing {
            Listing::Roles => snapshot.roles.iter().position(|line| Some(line.role) == self.chosen_role),
            Listing::Processes => table::tree_order(&snapshot.processes)
                .iter()
                .position(|place| Some(place.line.key) == self.chosen_process),
        };
        self.rows.select(Some(found.unwrap_or(0)));
    }
}

fn control_key(code: KeyCode) -> Next {
    if let KeyCode::Char(letter) = code {
        match letter.to_ascii_lowercase() {
            'c' => return Next::Leave,
            'z' => return Next::Suspend,
            _ => {}
        }
    }
    Next::Stay
}

fn merged(points: &[Point]) -> Option<Point> {
    Some(Point {
        seconds: points.last()?.seconds,
        low_bytes: points.iter().map(|point| point.low_bytes).min()?,
        high_bytes: points.iter().map(|point| point.high_bytes).max()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use lowtide_model::{Bytes, Tick};
    use lowtide_wire::{ProcessLine, RoleLine};

    fn press(view: &mut View, code: KeyCode) -> Next {
        view.key(KeyEvent::new(code, KeyModifiers::NONE))
    }

    fn process(pid: u32) -> ProcessLine {
        ProcessLine {
            key: ProcKey { pid, start_ticks: 1 },
            parent: None,
            role: Role::Helper,
            reason: String::new(),
            command: String::new(),
            rss_bytes: Bytes::ZERO,
            anon_bytes: None,
            pss_bytes: None,
            swap_bytes: None,
            threads: None,
        }
    }

    fn snapshot(pids: &[u32], seconds: f64) -> Answer {
        Answer::Snapshot(Box::new(Snapshot {
            tick: Tick::from_seconds(seconds),
            processes: pids.iter().copied().map(process).collect(),
            roles: vec![RoleLine {
                role: Role::Helper,
                count: 1,
                rss_bytes: Bytes::ZERO,
                bytes_per_minute: None,
            }],
            ..Snapshot::default()
        }))
    }

    #[test]
    fn the_selection_stays_with_its_process_when_the_order_changes() {
        let mut view = View::new(Palette::Plain);
        view.take(snapshot(&[1, 2, 3], 1.0)).unwrap();
        press(&mut view, KeyCode::Tab);
        press(&mut view, KeyCode::Char('j'));
        assert_eq!(view.rows.selected(), Some(1));
        view.take(snapshot(&[3, 1, 2], 2.0)).unwrap();
        assert_eq!(view.rows.selected(), Some(2));
        view.take(snapshot(&[3], 3.0)).unwrap();
        assert_eq!(view.rows.selected(), Some(0));
    }

    #[test]
    fn selecting_stops_at_both_ends() {
        let mut view = View::new(Palette::Plain);
        press(&mut view, KeyCode::Down);
        view.take(snapshot(&[1, 2, 3], 1.0)).unwrap();
        press(&mut view, KeyCode::Char('r'));
        press(&mut view, KeyCode::End);
        press(&mut view, KeyCode::PageDown);
        assert_eq!(view.rows.selected(), Some(2));
        press(&mut view, KeyCode::Home);
        press(&mut view, KeyCode::Up);
        assert_eq!(view.rows.selected(), Some(0));
    }

    #[test]
    fn q_and_ctrl_c_leave_and_nothing_else_does() {
        let mut view = View::new(Palette::Plain);
        assert_eq!(press(&mut view, KeyCode::Char('q')), Next::Leave);
        assert_eq!(view.key(KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL)), Next::Leave);
        assert_eq!(press(&mut view, KeyCode::Char('c')), Next::Stay);
        assert_eq!(press(&mut view, KeyCode::Esc), Next::Stay);
    }

    #[test]
    fn a_long_history_is_thinned_without_losing_its_peak_or_its_floor() {
        let point = |i: u32, low, high| Point {
            seconds: f64::from(i),
            low_bytes: Bytes(low),
            high_bytes: Bytes(high),
        };
        let mut points: Vec<Point> = (0..10_000).map(|i| point(i, 50, 60)).collect();
        points[5_000] = point(5_000, 50, 999);
        points[5_003] = point(5_003, 1, 60);
        let mut view = View::new(Palette::Plain);
        view.take(Answer::History { points }).unwrap();
        assert!(view.points.len() <= MOST_POINTS);
        assert_eq!(view.points.iter().map(|point| point.high_bytes).max(), Some(Bytes(999)));
        assert_eq!(view.points.iter().map(|point| point.low_bytes).min(), Some(Bytes(1)));
    }
}
