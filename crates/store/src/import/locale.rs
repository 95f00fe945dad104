//! Numbers as other countries write them: `2.007,4`, `2,00 GB`, `2 000 MB`, `2'000`.
//!
//! What one number leaves open (`2,000` is two thousand here and two there) is decided over all numbers of the file, and
//! where only the size can tell, by which reading gives memory that a training job could have.

use super::memory_names::meaning;
use super::numbers::{self, Unit};
use std::borrow::Cow;

/// A training job has at least this: an interpreter alone takes as much.
const LEAST_BYTES: f64 = 16e6;
/// Above this, people write TB, and no longer thousands of GB.
const MOST_BYTES: f64 = 1e12;

/// How a number can be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Style {
    /// Digits alone.
    Plain,
    /// A point before the decimals.
    English,
    /// A comma before the decimals.
    European,
    /// One comma and three digits: `2,000`.
    OpenComma,
    /// One point and three digits: `2.000`.
    OpenPoint,
    /// No number: a list, a version, a date.
    Other,
}

fn style(number: &str) -> Style {
    let count = |mark: char| number.matches(mark).count();
    let last = |mark: char| number.rfind(mark).map_or("", |at| &number[at + 1..]);
    let head = number.split([',', '.']).next().unwrap_or("");
    let grouped = |text: &str, mark: char| {
        let mut groups = text.split(mark);
        let first = groups.next().unwrap_or("");
        (1..=3).contains(&first.len()) && !first.starts_with('0') && groups.all(|group| group.len() == 3)
    };
    let before = |mark: char| number.rfind(mark).map_or("", |at| &number[..at]);
    match (count('.'), count(',')) {
        (0, 0) => Style::Plain,
        (0, 1) if grouped(number, ',') => Style::OpenComma,
        (0, 1) if !last(',').is_empty() && !head.is_empty() => Style::European,
        (1, 0) if grouped(number, '.') => Style::OpenPoint,
        (1, 0) => Style::English,
        (0, _) if grouped(number, ',') => Style::English,
        (_, 0) if grouped(number, '.') => Style::European,
        (_, 1) if number.rfind('.') < number.find(',') && grouped(before(','), '.') => Style::European,
        (1, _) if number.rfind(',') < number.find('.') && grouped(before('.'), ',') => Style::English,
        _ => Style::Other,
    }
}

/// A European number as a program reads it.
fn english(number: &str) -> String {
    number.replace('.', "").replace(',', ".")
}

/// Where numbers stand: it says which marks they can have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Among {
    /// Words, as people and programs write them.
    Words,
    /// Columns parted by `;`, as programs write them where the comma is the decimal mark.
    Semicolons,
    /// Other columns: a program wrote them, and it does not group digits by points.
    Columns,
}

/// What all numbers of a file, or of a column, agree on.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Decided {
    commas: bool,
    points: bool,
    /// Why, for the notes; nothing where there was nothing to decide.
    pub(crate) note: Option<String>,
}

impl Decided {
    /// The number as a program reads it, where it has to change.
    pub(crate) fn read(&self, number: &str) -> Option<String> {
        match style(number) {
            Style::European => Some(english(number)),
            Style::OpenComma if self.commas => Some(english(number)),
            Style::OpenPoint if self.points => Some(english(number)),
            Style::Plain | Style::English | Style::OpenComma | Style::OpenPoint | Style::Other => None,
        }
    }
}

/// Decides over numbers with their units.
pub(crate) fn decide<'a>(numbers: impl Iterator<Item = (&'a str, Option<Unit>)>, among: Among) -> Decided {
    let mut sure = [false; 2];
    let mut open: [Vec<(f64, &str)>; 2] = Default::default();
    for (number, unit) in numbers {
        // In thousands, whatever the mark stands for.
        let whole = || number.replace([',', '.'], "").parse().unwrap_or(f64::NAN);
        let size = || unit.map_or(f64::NAN, |unit| whole() * unit.bytes);
        match style(number) {
            Style::English => sure[0] = true,
            Style::European => sure[1] = true,
            Style::OpenComma => open[0].push((size(), number)),
            Style::OpenPoint => open[1].push((size(), number)),
            Style::Plain | Style::Other => {}
        }
    }
    let [commas, points] = open;
    let by_form = sure == [false, true] || (among == Among::Semicolons && !sure[0] && !commas.is_empty());
    // `2,000 GB` would be two thousand gigabytes, `2.000 MB` two megabytes: neither is a training job.
    let too_much =
        || middle(&commas).filter(|_| !sure[0] && points.is_empty()).is_some_and(|m| m > MOST_BYTES);
    let too_little = || {
        middle(&points)
            .filter(|_| among != Among::Columns && !sure[0] && commas.is_empty())
            .is_some_and(|m| m / 1000.0 < LEAST_BYTES && (LEAST_BYTES..MOST_BYTES).contains(&m))
    };
    let (commas_in, points_in) = (by_form || too_much(), by_form || too_little());
    let example = |open: &[(f64, &str)]| {
        open.first().map(|(_, number)| format!("`{number}` read as {}", english(number)))
    };
    let told = [example(&commas).filter(|_| commas_in), example(&points).filter(|_| points_in)];
    let why = if by_form {
        "a comma is the decimal mark in this file"
    } else {
        "the other reading gives no memory that a job could have"
    };
    let note = told.into_iter().flatten().next().map(|example| format!("{example}: {why}"));
    let note =
        note.or_else(|| sure[1].then(|| "numbers with a comma read with decimals after it".to_owned()));
    Decided { commas: commas_in, points: points_in, note }
}

fn middle(open: &[(f64, &str)]) -> Option<f64> {
    let mut sizes: Vec<f64> = open.iter().map(|(size, _)| *size).filter(|size| size.is_finite()).collect();
    sizes.sort_by(f64::total_cmp);
    sizes.get(sizes.len() / 2).copied()
}

/// A number that a unit of memory follows and that can be read in more than one way.
struct Token<'a> {
    start: usize,
    end: usize,
    /// Without the spaces between its groups.
    text: Cow<'a, str>,
    unit: Unit,
}

/// The lines of a log with its numbers as a program reads them, and what was decided for that.
pub(crate) fn plain(text: &str) -> (Cow<'_, str>, Option<String>) {
    let tokens = tokens(text);
    let decided = decide(tokens.iter().map(|token| (token.text.as_ref(), Some(token.unit))), Among::Words);
    let mut out = String::new();
    let mut from = 0;
    for token in &tokens {
        let read = decided.read(&token.text).map(Cow::Owned);
        let spaced = || matches!(token.text, Cow::Owned(_)).then(|| Cow::Borrowed(token.text.as_ref()));
        if let Some(read) = read.or_else(spaced) {
            out.push_str(&text[from..token.start]);
            out.push_str(&read);
            from = token.end;
        }
    }
    if from == 0 {
        return (Cow::Borrowed(text), None);
    }
    out.push_str(&text[from..]);
    (Cow::Owned(out), decided.note)
}

fn tokens(text: &str) -> Vec<Token<'_>> {
    let bytes = text.as_bytes();
    let mut out = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        if !bytes[at].is_ascii_digit() {
            at += 1;
            continue;
        }
        let (start, end) = (at, end_of(bytes, at));
        at = end;
        let inside = start > 0 && (bytes[start - 1].is_ascii_alphanumeric() || bytes[start - 1] == b'_');
        if inside {
            continue;
        }
        let digits = bytes[start..end].iter().all(u8::is_ascii_digit);
        let (end, token) = if digits {
            let Some(last) = end_of_groups(bytes, start, end).filter(|_| may_be_spaced(text, start)) else {
                continue;
            };
            (last, Cow::Owned(text[start..last].replace(' ', "")))
        } else {
            (end, Cow::Borrowed(&text[start..end]))
        };
        if let Some(unit) = unit_at(bytes, end).filter(|_| !is_cell(bytes, start, end)) {
            out.push(Token { start, end, text: token, unit });
            at = end;
        }
    }
    out
}

/// Whether the commas around a number part cells: `0,4000MiB,81920MiB`.
fn is_cell(bytes: &[u8], start: usize, end: usize) -> bool {
    let word = bytes[end..].iter().take_while(|byte| byte.is_ascii_alphabetic() || **byte == b' ').count();
    let next = bytes.get(end + word + 1).is_some_and(u8::is_ascii_digit);
    let before = bytes[..start].ends_with(b",");
    let comma = bytes[start..end].contains(&b',');
    comma && (before || next && bytes.get(end + word) == Some(&b','))
}

fn end_of(bytes: &[u8], start: usize) -> usize {
    let digit = |at: usize| bytes.get(at).is_some_and(u8::is_ascii_digit);
    let mut at = start;
    while digit(at) || (matches!(bytes.get(at), Some(b',' | b'.')) && digit(at + 1)) {
        at += 1;
    }
    at
}

/// The end of `2 000` and `1 002 000`: groups of three digits after one to three.
fn end_of_groups(bytes: &[u8], start: usize, end: usize) -> Option<usize> {
    let group = |at: usize| {
        bytes.get(at) == Some(&b' ')
            && bytes.get(at + 1..at + 4).is_some_and(|group| group.iter().all(u8::is_ascii_digit))
            && end_of(bytes, at + 1) == at + 4
    };
    let mut last = end;
    while end - start <= 3 && group(last) {
        last += 4;
    }
    (last > end).then_some(last)
}

/// Whether digits here may be parted by spaces: after a mark or a name of memory, not after another word
/// (`step 5 100 MB`).
fn may_be_spaced(text: &str, start: usize) -> bool {
    let left = text[..start].trim_end_matches(' ');
    let from = left.rfind(|c: char| !(c.is_alphanumeric() || c == '_')).map_or(0, |at| at + 1);
    left.ends_with([':', '=', '|', '(', '~', '>'])
        || left.get(from..).is_some_and(|word| meaning(word).is_some())
}

fn unit_at(bytes: &[u8], end: usize) -> Option<Unit> {
    let start = end + bytes.get(end..)?.iter().position(|byte| *byte != b' ')?;
    let letters = bytes[start..].iter().take_while(|byte| byte.is_ascii_alphabetic()).count();
    let word = std::str::from_utf8(bytes.get(start..start + letters)?).ok()?;
    if (2..=9).contains(&letters) { numbers::unit(word).filter(|unit| unit.bytes > 1.0) } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_number_tells_its_style() {
        for (number, found) in [
            ("2000", Style::Plain),
            ("2,007.4", Style::English),
            ("2.007,4", Style::European),
            ("2,00", Style::European),
            ("2000,12", Style::European),
            ("2,000", Style::OpenComma),
            ("2.000", Style::OpenPoint),
            ("0.512", Style::English),
            ("0,512", Style::European),
            ("1,234,567", Style::English),
            ("1.234.567", Style::European),
            ("1,2,3", Style::Other),
            ("1.2.3", Style::Other),
        ] {
            assert_eq!(style(number), found, "{number}");
        }
    }

    #[test]
    fn spaces_join_groups_only_where_a_size_stands() {
        assert_eq!(plain("rss: 2 000 MB\n").0, "rss: 2000 MB\n");
        assert_eq!(plain("RSS 1 002 000 KB\n").0, "RSS 1002000 KB\n");
        for text in [
            "0,4000MiB,81920MiB",
            "train,0,4000MiB,N/A",
            "step 5 100 MB",
            "5 100 MB",
            "x: 2 0001 MB",
            "shape (2,64) and 3 MB",
        ] {
            assert_eq!(plain(text).0, text);
        }
    }

    proptest! {
        #[test]
        fn no_text_panics(text in "(.|[0-9., ]|MB|\n){0,80}") {
            let _ = plain(&text);
        }
    }
}
