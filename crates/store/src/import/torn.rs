//! A last line that was cut off: a file that is still being written, or whose writer was killed, may end within a number.
//!
//! Many files end without a newline and are whole: the last line is left out only where it looks like the lines above it
//! and its last number lost digits, or its unit letters, against them.

/// Lines above in which one of the same form is looked for.
const LOOKED_BACK: usize = 64;

/// A number that lost a digit before its point has a tenth of its value, or little more where it grew.
const LOST: f64 = 0.2;

/// Letters of the longest unit that may be missing: `GiB`.
const LONGEST_UNIT: usize = 3;

/// The text without a last line that was cut off, and a note on it.
pub(crate) fn cut(text: &str) -> (&str, Option<String>) {
    let Some((above, last)) = text.rsplit_once('\n').filter(|(_, last)| !last.trim().is_empty()) else {
        return (text, None);
    };
    if above.lines().rev().take(LOOKED_BACK).find_map(|line| is_cut(last, line)) != Some(true) {
        return (text, None);
    }
    let shown: String = last.trim().chars().take(60).collect();
    let note = format!("the file ends within its last line, `{shown}`, which is left out");
    (&text[..=above.len()], Some(note))
}

/// Whether a line was cut off, told by one above it; `None` where that one has another form.
fn is_cut(last: &str, above: &str) -> Option<bool> {
    let (form, wanted) = (form(last), form(above));
    let missing = wanted.strip_prefix(form.as_str())?;
    let unit = !missing.is_empty()
        && missing.len() <= LONGEST_UNIT
        && missing.bytes().all(|letter| letter.is_ascii_alphabetic());
    let ends_in_number = last.ends_with(|c: char| c.is_ascii_digit() || c == '.');
    let numbers = numbers(last);
    let (number, before) = (numbers.last()?, *self::numbers(above).get(numbers.len() - 1)?);
    let value = |text: &str| text.parse::<f64>().ok();
    let lost =
        number.len() < before.len() && value(number).zip(value(before)).is_some_and(|(n, b)| n < LOST * b);
    match ends_in_number {
        true if lost => Some(true),
        _ if unit => Some(true),
        // A form that goes on after the number is another one, unless the number says that it was cut.
        _ => missing.is_empty().then_some(false),
    }
}

/// A line without its numbers and blanks.
fn form(line: &str) -> String {
    line.chars().filter(|c| !(c.is_ascii_digit() || *c == '.' || c.is_whitespace())).collect()
}

fn numbers(line: &str) -> Vec<&str> {
    let parts = line.split(|c: char| !(c.is_ascii_digit() || c == '.'));
    parts.filter(|part| part.starts_with(|c: char| c.is_ascii_digit())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn lost_digits_and_units_tell_a_cut() {
        for (text, cut_off) in [
            ("step,rss_mb\n98,5454.3\n99,5482.0\n100,55", true),
            ("98,5454.3\n99,5482.0\n100,550", true),
            ("98,5454\n99,5482\n100,5501", false),
            ("98,5454\n99,5482\n100,4100", false),
            ("98,5454\n99,5482\n100,55\n", false),
            ("step 9 rss 5454 MB\nstep 10 rss 5482 M", true),
            ("step 9 rss 5454 MB\nstep 10 rss 5482", true),
            ("step 9 rss 5454 MB\nstep 10 rss 5482 MB", false),
            ("step 9 rss 5454 MB\nDone in 5", false),
            ("{'rss': 5454, 'epoch': 0.1}\n{'rss': 54", true),
            ("{'rss': 5454, 'epoch': 0.1}\n{'rss': 5482, 'epoch': 0.2}", false),
            ("4000\n4010\n40", true),
            ("2,0\n3,0\n10,0", false),
        ] {
            assert_eq!(cut(text).1.is_some(), cut_off, "{text}");
        }
    }

    proptest! {
        #[test]
        fn no_text_panics(text in "(.|[0-9.,\n])*") {
            let _ = cut(&text);
        }
    }
}
