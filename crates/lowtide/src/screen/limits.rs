//! The limits as bars, the one with the least room first.

use super::view::Palette;
use super::words;
use lowtide_model::LimitHeld;
use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::text::{Line, Span};

/// Widest and narrowest bar that is worth drawing.
const BAR: (usize, usize) = (30, 6);
/// The name of a limit gets at most this share of the line.
const NAME_SHARE: f64 = 0.35;

/// Draws as many limits as there are lines.
pub(super) fn draw(frame: &mut Frame<'_>, area: Rect, limits: &[LimitHeld], palette: Palette) {
    if limits.is_empty() {
        frame.render_widget(Line::styled("no limit found", palette.faint()), area);
        return;
    }
    let mut sorted: Vec<&LimitHeld> = limits.iter().collect();
    sorted.sort_by_key(|limit| limit.headroom());
    sorted.truncate(usize::from(area.height));
    let width = usize::from(area.width);
    let names: Vec<String> = sorted.iter().map(|limit| words::limit_name(&limit.kind)).collect();
    let longest = names.iter().map(|name| Span::raw(name.as_str()).width()).max().unwrap_or(0);
    let room = longest.min((width as f64 * NAME_SHARE) as usize);
    for ((limit, name), row) in sorted.iter().zip(&names).zip(area.rows()) {
        frame.render_widget(limit_line(limit, &tail(name, room), width, palette), row);
    }
}

fn limit_line(limit: &LimitHeld, name: &str, width: usize, palette: Palette) -> Line<'static> {
    let percent = words::percent(limit);
    let share = format!("{:>4} %", format!("{percent:.0}"));
    let long = format!("{} of {}, {} left", limit.used, limit.limit, limit.headroom());
    let short = format!("{} left", limit.headroom());
    let taken = Span::raw(name).width() + share.len() + 3;
    let words = if width >= taken + long.len() + BAR.1 { long } else { short };
    let bar = width.saturating_sub(taken + words.len()).min(BAR.0);
    let mut spans = vec![Span::raw(format!("{name} "))];
    if bar >= BAR.1 {
        let full = ((percent / 100.0).clamp(0.0, 1.0) * bar as f64).round() as usize;
        spans.push(Span::styled("█".repeat(full), palette.fullness(percent)));
        spans.push(Span::styled("░".repeat(bar - full.min(bar)), palette.faint()));
    }
    spans.push(Span::styled(format!("{share} "), palette.fullness(percent)));
    spans.push(Span::raw(words));
    Line::from(spans)
}

/// The end of a name, padded: the last parts of a cgroup's path tell them apart, the first ones don't.
fn tail(name: &str, room: usize) -> String {
    let mut width = Span::raw(name).width();
    let mut rest = name;
    let mut mark = "";
    while width + mark.chars().count() > room {
        let Some(first) = rest.chars().next() else { break };
        rest = rest.get(first.len_utf8()..).unwrap_or_default();
        width = Span::raw(rest).width();
        mark = "…";
    }
    let pad = room.saturating_sub(width + mark.chars().count());
    format!("{mark}{rest}{}", " ".repeat(pad))
}

#[cfg(test)]
mod tests {
    use super::*;
    use lowtide_model::{Bytes, LimitKind};

    #[test]
    fn a_long_path_keeps_its_end() {
        assert_eq!(tail("cgroup /kubepods/pod1/abc", 10), "…/pod1/abc");
        assert_eq!(tail("host", 10), "host      ");
        assert_eq!(tail("host", 0), "…");
    }

    #[test]
    fn the_line_says_used_limit_and_what_is_left() {
        let limit =
            LimitHeld { kind: LimitKind::Host, limit: Bytes::from_mib(1000), used: Bytes::from_mib(750) };
        let line = limit_line(&limit, "host", 70, Palette::Plain).to_string();
        assert_eq!(
            line,
            format!("host {}{}  75 % 750 MiB of 1000 MiB, 250 MiB left", "█".repeat(18), "░".repeat(6))
        );
    }
}
