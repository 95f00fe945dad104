//! Small words of a page: times, lengths, states.

use lowtide_model::RunState;

/// With a capital at its start.
pub(crate) fn capital(words: &str) -> String {
    let mut letters = words.chars();
    let first: String = letters.next().map(|letter| letter.to_uppercase().collect()).unwrap_or_default();
    format!("{first}{}", letters.as_str())
}

/// Not longer than a line.
pub(crate) fn clipped(text: &str, most: usize) -> String {
    match text.char_indices().nth(most) {
        Some((cut, _)) => format!("{}\u{2026}", text[..cut].trim_end()),
        None => text.to_owned(),
    }
}

/// A length of time, as short as a table needs it.
pub(crate) fn duration(seconds: f64) -> String {
    let whole = seconds.max(0.0).round() as u64;
    let (days, hours, minutes, rest) = (whole / 86_400, whole / 3600 % 24, whole / 60 % 60, whole % 60);
    match (days, hours, minutes, rest) {
        (0, 0, 0, _) => format!("{rest} s"),
        (0, 0, _, 0) => format!("{minutes} min"),
        (0, 0, ..) => format!("{minutes} min {rest} s"),
        (0, _, 0, _) => format!("{hours} h"),
        (0, ..) => format!("{hours} h {minutes} min"),
        (_, 0, ..) => format!("{days} d"),
        (..) => format!("{days} d {hours} h"),
    }
}

/// A calendar time in UTC: a report is read far from where it was made.
pub(crate) fn moment(unix_ns: i64) -> String {
    let time = jiff::Timestamp::from_nanosecond(i128::from(unix_ns)).unwrap_or_default();
    time.strftime("%Y-%m-%d %H:%M UTC").to_string()
}

pub(crate) const fn state_word(state: RunState) -> &'static str {
    match state {
        RunState::Running => "running",
        RunState::Finished => "finished",
        RunState::CutOff => "cut off",
    }
}
