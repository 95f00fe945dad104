//! Durations as people write them: `250ms`, `1s`, `1.5s`, `2m`, `1h`.

use std::time::Duration;

/// Reads a duration; a bare number counts seconds.
pub(crate) fn parse(text: &str) -> Result<Duration, String> {
    let bad = || format!("`{text}` is not a duration; write it like 250ms, 1s or 2m");
    let trimmed = text.trim();
    let split = trimmed.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(trimmed.len());
    let (number, unit) = trimmed.split_at(split);
    let number: f64 = number.parse().map_err(|_| bad())?;
    let seconds = match unit.trim() {
        "ms" => number / 1e3,
        "" | "s" => number,
        "m" | "min" => number * 60.0,
        "h" => number * 3600.0,
        _ => return Err(bad()),
    };
    Duration::try_from_secs_f64(seconds).map_err(|_| bad())
}

/// Reads a sampling interval: 10 ms to 10 minutes.
pub(crate) fn parse_interval(text: &str) -> Result<Duration, String> {
    let interval = parse(text)?;
    let allowed = Duration::from_millis(10)..=Duration::from_secs(600);
    if allowed.contains(&interval) {
        Ok(interval)
    } else {
        Err(format!("`{text}` is out of range; an interval is between 10ms and 10m"))
    }
}

/// A length of time as a person says it: `4.2 s`, `12 min 5 s`, `3 h 20 min`, `2 d 4 h`.
pub(crate) fn words(duration: Duration) -> String {
    let seconds = duration.as_secs_f64();
    let whole = duration.as_secs();
    if seconds < 60.0 {
        format!("{seconds:.1} s")
    } else if whole < 3600 {
        format!("{} min {} s", whole / 60, whole % 60)
    } else if whole < 86_400 {
        format!("{} h {} min", whole / 3600, whole % 3600 / 60)
    } else {
        format!("{} d {} h", whole / 86_400, whole % 86_400 / 3600)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_usual_spellings_are_read() {
        assert_eq!(parse("250ms"), Ok(Duration::from_millis(250)));
        assert_eq!(parse("1.5s"), Ok(Duration::from_millis(1500)));
        assert_eq!(parse("2m"), Ok(Duration::from_secs(120)));
        assert_eq!(parse("3"), Ok(Duration::from_secs(3)));
        for bad in ["", "s", "-1s", "1 fortnight", "999999999999999999999h", "1..5s"] {
            assert!(parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn an_interval_has_bounds() {
        assert!(parse_interval("9ms").is_err());
        assert!(parse_interval("10ms").is_ok());
        assert!(parse_interval("11m").is_err());
    }

    #[test]
    fn lengths_read_like_speech() {
        assert_eq!(words(Duration::from_millis(4200)), "4.2 s");
        assert_eq!(words(Duration::from_secs(725)), "12 min 5 s");
        assert_eq!(words(Duration::from_secs(12_000)), "3 h 20 min");
        assert_eq!(words(Duration::from_secs(187_200)), "2 d 4 h");
    }
}
