//! Numbers as a person writes them: sizes, counts, lengths of time.
//!
//! Beside `words`, which makes the sentences around them. Not here: any decision.

use lowtide_model::Bytes;

/// A size as a person writes it.
pub(crate) fn size(bytes: f64) -> String {
    Bytes::from_f64(bytes.max(0.0)).to_string()
}

/// A size in the units of the kernel and in those of data sheets and logs.
pub fn both(bytes: f64) -> String {
    if bytes >= 1e9 { format!("{} ({:.1} GB)", size(bytes), bytes / 1e9) } else { size(bytes) }
}

/// What a level did.
pub(crate) fn moved(by: f64) -> String {
    match size(by.abs()).as_str() {
        "0 B" => "did not move".to_owned(),
        bytes if by > 0.0 => format!("rose by {bytes}"),
        bytes => format!("fell by {bytes}"),
    }
}

/// From here on thousands are parted.
const LONG: f64 = 10_000.0;

/// A number as a person writes it: three digits that count, thousands parted where there are many.
pub(crate) fn number(value: f64) -> String {
    let digits = usize::from(value.abs() < 100.0 && value.fract().abs() >= 0.05);
    // Nobody writes -0.
    let value = if value.abs() < 0.05 { 0.0 } else { value };
    if value.abs() >= LONG && value.is_finite() { parted(value) } else { format!("{value:.digits$}") }
}

/// A whole number with its thousands parted.
pub(crate) fn parted(value: f64) -> String {
    let plain = format!("{value:.0}");
    let digits = plain.len() - plain.find(|c: char| c.is_ascii_digit()).unwrap_or(0);
    let comma = |at: usize| at > 0 && (digits - at).is_multiple_of(3);
    let sign = &plain[..plain.len() - digits];
    let parted = plain[sign.len()..].chars().enumerate();
    let parted: String =
        parted.map(|(at, c)| if comma(at) { format!(",{c}") } else { c.to_string() }).collect();
    format!("{sign}{parted}")
}

/// `75 %`.
pub(crate) fn per_cent(part: f64) -> String {
    format!("{} %", number((100.0 * part).round()))
}

/// So many of something, one of it without an s.
pub(crate) fn counted(count: f64, what: &str) -> String {
    let one = (count - 1.0).abs() < 1e-9;
    format!("{} {what}{}", number(count), if one { "" } else { "s" })
}

/// A length of time as a person says it.
pub(crate) fn duration(seconds: f64) -> String {
    let (value, unit) = match seconds {
        s if s < 90.0 => (s, "s"),
        s if s < 5400.0 => (s / 60.0, "min"),
        s if s < 129_600.0 => (s / 3600.0, "h"),
        s => (s / 86400.0, "days"),
    };
    // Whoever counts in minutes does not count their tenths.
    let value = if value >= 10.0 { value.round() } else { value };
    format!("{} {unit}", number(value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_read_as_a_person_writes_them() {
        assert_eq!(
            [82.52, 82.0, 6529.0, 370_000.0, -1_234_567.0].map(number),
            ["82.5", "82", "6529", "370,000", "-1,234,567"]
        );
        assert_eq!(
            [counted(1.0, "sample"), counted(0.0, "step"), counted(6.5, "step")],
            ["1 sample", "0 steps", "6.5 steps"]
        );
        assert_eq!([number(f64::NAN), number(f64::INFINITY)], ["NaN", "inf"]);
    }

    #[test]
    fn times_are_rounded_and_never_minus_nothing() {
        assert_eq!(
            [-0.01, 82.9, 825.0, 3786.0, 172_800.0].map(duration),
            ["0 s", "83 s", "14 min", "63 min", "2 days"]
        );
    }

    #[test]
    fn a_level_that_fell_did_not_add_nothing() {
        assert_eq!(
            [moved(-1_048_576.0), moved(1024.0), moved(0.2)],
            ["fell by 1.00 MiB", "rose by 1.00 KiB", "did not move"]
        );
    }
}
