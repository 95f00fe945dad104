//! Hands out the lines of the screen and fills them. What matters most gets its lines first, so that 10 lines tell the
//! same story as 100, only shorter.

use super::view::{Listing, Palette, View};
use super::{curve, limits, table, words};
use lowtide_wire::Snapshot;
use ratatui::Frame;
use ratatui::layout::{Alignment, Rect};
use ratatui::style::{Color, Modifier, Style as Look};
use ratatui::text::{Line, Span, Text};
use ratatui::widgets::{Block, Clear, Paragraph, Wrap};

const HELP: [&str; 12] = [
    "q, Ctrl-C      leave; the job goes on",
    "Tab, r         roles or processes",
    "arrows, j, k   select a line",
    "PgUp, PgDn     ten lines",
    "Home, End      first, last line",
    "?, Esc         this help",
    "",
    "The total counts shared pages once;",
    "RSS counts them for every user.",
    "A limit's room is what is left of it",
    "for everyone who shares it.",
    "PSS is from its last reading.",
];

/// The parts of the screen, top to bottom.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    Header,
    Total,
    Curve,
    Limits,
    Table,
    Reason,
    Warnings,
    Headline,
    Footer,
}

/// In this order from top to bottom.
const PARTS: [Part; 9] = [
    Part::Header,
    Part::Total,
    Part::Curve,
    Part::Limits,
    Part::Table,
    Part::Reason,
    Part::Warnings,
    Part::Headline,
    Part::Footer,
];
/// Fewer lines than this show no curve.
const SMALLEST_CURVE: u16 = 4;

/// How many lines each part could use.
#[derive(Clone, Copy, Debug, Default)]
struct Wants {
    limits: u16,
    table: u16,
    reason: u16,
    warnings: u16,
    headline: u16,
}

/// Shares out the height: every step lifts one part to a number of lines while lines are left.
fn share(height: u16, wants: Wants) -> [u16; PARTS.len()] {
    let steps = [
        (Part::Total, 1),
        (Part::Footer, 1),
        (Part::Header, 1),
        (Part::Limits, 1),
        (Part::Headline, wants.headline.min(1)),
        (Part::Table, wants.table.min(4)),
        (Part::Curve, 5),
        (Part::Reason, wants.reason),
        (Part::Limits, wants.limits.clamp(1, 4)),
        (Part::Warnings, wants.warnings.min(2)),
        (Part::Table, wants.table.min(8)),
        (Part::Headline, wants.headline),
        (Part::Curve, height / 3),
        (Part::Table, wants.table),
        (Part::Limits, wants.limits.clamp(1, 8)),
        (Part::Warnings, wants.warnings),
        (Part::Curve, u16::MAX),
    ];
    let mut rooms = [0_u16; PARTS.len()];
    let mut left = height;
    for (part, target) in steps {
        let room = &mut rooms[part as usize];
        let grant = target.saturating_sub(*room).min(left);
        if part == Part::Curve && *room + grant < SMALLEST_CURVE {
            continue;
        }
        *room += grant;
        left -= grant;
    }
    rooms
}

/// Draws the whole screen.
pub(super) fn draw(frame: &mut Frame<'_>, view: &mut View) {
    let area = frame.area();
    let wants = wants(view, area.width);
    let mut top = area.y;
    for (part, height) in PARTS.into_iter().zip(share(area.height, wants)) {
        if height > 0 && area.width > 0 {
            draw_part(frame, part, Rect { x: area.x, y: top, width: area.width, height }, view);
        }
        top += height;
    }
    if view.help {
        draw_help(frame, area);
    }
}

fn wants(view: &View, width: u16) -> Wants {
    let Some(snapshot) = &view.snapshot else {
        return Wants::default();
    };
    let lines = |count: usize| u16::try_from(count).unwrap_or(u16::MAX);
    let headline = snapshot.headline.as_ref().map_or(0, |text| {
        let width = usize::from(width.max(1));
        // A wrapped line loses up to half of its width to a long word.
        Span::raw(text.as_str()).width().div_ceil(width).clamp(1, 3)
    });
    Wants {
        limits: lines(snapshot.limits.len()),
        table: lines(table::wanted(view)),
        reason: u16::from(view.listing == Listing::Processes),
        warnings: lines(snapshot.warnings.len()),
        headline: lines(headline),
    }
}

fn draw_part(frame: &mut Frame<'_>, part: Part, area: Rect, view: &mut View) {
    let palette = view.palette;
    let Some(snapshot) = view.snapshot.as_deref() else {
        return draw_waiting(frame, part, area, palette);
    };
    match part {
        Part::Header => frame.render_widget(header(snapshot, area.width), area),
        Part::Total => frame.render_widget(total(snapshot, palette), area),
        Part::Curve => curve::draw(frame, area, &view.points, snapshot, palette),
        Part::Limits => limits::draw(frame, area, &snapshot.limits, palette),
        Part::Table => table::draw(frame, area, view),
        Part::Reason => frame.render_widget(Line::raw(table::reason(view).unwrap_or_default()), area),
        Part::Warnings => frame.render_widget(warnings(snapshot, area.height, palette), area),
        Part::Headline => frame.render_widget(headline(snapshot), area),
        Part::Footer => footer(frame, area, view.listing, snapshot, palette),
    }
}

fn draw_waiting(frame: &mut Frame<'_>, part: Part, area: Rect, palette: Palette) {
    if part == Part::Header {
        frame.render_widget(Line::raw("waiting for the recorder's first tick"), area);
    } else if part == Part::Footer {
        frame.render_widget(Line::styled("q leaves, the job goes on", palette.faint()), area);
    }
}

/// Name and time first: the command and the path of the recording only where they fit.
fn header(snapshot: &Snapshot, width: u16) -> Line<'static> {
    let name = if snapshot.name.is_empty() { "job" } else { snapshot.name.as_str() };
    let state = if snapshot.running { "" } else { " (ended)" };
    let mut spans = vec![
        Span::styled(name.to_owned(), Look::new().add_modifier(Modifier::BOLD)),
        Span::raw(format!("{state}  {}", words::elapsed(snapshot.tick.seconds()))),
    ];
    if let Some(progress) = words::progress(snapshot) {
        spans.push(Span::raw(format!("  {progress}")));
    }
    for more in [&snapshot.command, &snapshot.recording] {
        let used: usize = spans.iter().map(Span::width).sum();
        let room = usize::from(width).saturating_sub(used + 2);
        if more != name && !more.is_empty() && Span::raw(more.as_str()).width() <= room {
            spans.push(Span::raw(format!("  {more}")));
        }
    }
    Line::from(spans)
}

fn total(snapshot: &Snapshot, palette: Palette) -> Line<'static> {
    let total = snapshot.total;
    let grows = snapshot.bytes_per_minute.is_some_and(|rate| rate > total.bytes.as_f64() * 0.01);
    let look = if grows { palette.look(Color::Yellow) } else { Look::new() };
    let mut spans = vec![
        Span::styled(total.bytes.to_string(), Look::new().add_modifier(Modifier::BOLD)),
        Span::styled(format!("  {}", words::rate(snapshot.bytes_per_minute)), look),
        Span::raw(format!("  {}", words::processes(snapshot.processes.len()))),
    ];
    if snapshot.processes_seen > snapshot.processes.len() as u64 {
        spans.push(Span::raw(format!(" ({} seen)", snapshot.processes_seen)));
    }
    if total.low_bytes < total.high_bytes {
        spans.push(Span::styled(
            format!("  between {} and {}", total.low_bytes, total.high_bytes),
            palette.faint(),
        ));
    }
    spans.push(Span::styled(format!("  RSS sum {}", total.rss_sum_bytes), palette.faint()));
    Line::from(spans)
}

fn headline(snapshot: &Snapshot) -> Paragraph<'static> {
    let text = snapshot.headline.clone().unwrap_or_default();
    Paragraph::new(text).style(Look::new().add_modifier(Modifier::BOLD)).wrap(Wrap { trim: true })
}

fn warnings(snapshot: &Snapshot, height: u16, palette: Palette) -> Text<'static> {
    let skip = snapshot.warnings.len().saturating_sub(usize::from(height));
    let line = |text: &String| Line::styled(format!("warning: {text}"), palette.look(Color::Yellow));
    snapshot.warnings.iter().skip(skip).map(line).collect()
}

fn footer(frame: &mut Frame<'_>, area: Rect, listing: Listing, snapshot: &Snapshot, palette: Palette) {
    let other = match listing {
        Listing::Roles => "processes",
        Listing::Processes => "roles",
    };
    let keys = if area.width < 60 {
        "q leaves, the job goes on  ? help".to_owned()
    } else {
        format!("q leaves, the job goes on  Tab {other}  ? help")
    };
    let cost = snapshot.cost;
    let own = format!(
        "lowtide: {:.2} % of a core, {}, stalls {:.0} ms",
        cost.cpu_percent, cost.rss_bytes, cost.stall_ms
    );
    let fits = keys.len() + own.len() + 2 <= usize::from(area.width);
    frame.render_widget(Line::styled(keys, palette.faint()), area);
    if fits {
        frame.render_widget(Line::styled(own, palette.faint()).alignment(Alignment::Right), area);
    }
}

fn draw_help(frame: &mut Frame<'_>, area: Rect) {
    let width = area.width.min(42);
    let height = area.height.min(HELP.len() as u16 + 2);
    let place =
        Rect { x: area.x + (area.width - width) / 2, y: area.y + (area.height - height) / 2, width, height };
    frame.render_widget(Clear, place);
    frame.render_widget(Paragraph::new(HELP.join("\n")).block(Block::bordered().title("keys")), place);
}

#[cfg(test)]
#[path = "draw_tests.rs"]
mod tests;
