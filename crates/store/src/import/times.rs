//! Moments as logs write them, turned into seconds since the first.

/// A moment: seconds, and whether a date stood with it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Moment {
    seconds: f64,
    dated: bool,
}

const DAY: f64 = 86_400.0;

/// The first time of day in a line (`13:18:20`, `13:18:20,123`), with the date before it if there is one.
pub(crate) fn find(line: &str) -> Option<Moment> {
    let bytes = line.as_bytes();
    let first_colon = line.find(':')?;
    for at in first_colon.saturating_sub(2)..bytes.len().min(first_colon + 60) {
        let starts = bytes[at].is_ascii_digit()
            && (at == 0 || !(bytes[at - 1].is_ascii_digit() || bytes[at - 1] == b':'));
        if starts && let Some(seconds) = time_of_day(&bytes[at..]) {
            let day = date_before(line, at);
            return Some(Moment { seconds: seconds + day.unwrap_or(0.0) * DAY, dated: day.is_some() });
        }
    }
    None
}

/// Seconds or milliseconds since 1970, alone on a line, as `date +%s` prints them.
pub(crate) fn epoch(line: &str) -> Option<Moment> {
    let told: f64 = line.trim().parse().ok()?;
    let seconds = if told > 1e12 { told / 1000.0 } else { told };
    (1e9..1e10).contains(&seconds).then_some(Moment { seconds, dated: true })
}

/// A whole cell: a dated moment, a time of day, or seconds or milliseconds since 1970.
pub(crate) fn cell(text: &str) -> Option<Moment> {
    find(text)
}

fn time_of_day(bytes: &[u8]) -> Option<f64> {
    let digits = |from: usize| {
        let end = bytes
            .get(from..)?
            .iter()
            .position(|byte| !byte.is_ascii_digit())
            .map_or(bytes.len(), |n| from + n);
        let text = std::str::from_utf8(bytes.get(from..end)?).ok()?;
        Some((text.parse::<f64>().ok()?, end, end - from))
    };
    let (hours, end, long) = digits(0)?;
    let (minutes, end, minute_digits) = digits(colon(bytes, end)?)?;
    let (seconds, end, second_digits) = digits(colon(bytes, end)?)?;
    if long > 2
        || minute_digits != 2
        || second_digits != 2
        || hours > 23.0
        || minutes > 59.0
        || seconds > 60.0
    {
        return None;
    }
    let fraction = match bytes.get(end) {
        Some(b'.' | b',') => {
            digits(end + 1).map_or(0.0, |(value, _, long)| value / 10_f64.powi(long.min(18) as i32))
        }
        Some(_) | None => 0.0,
    };
    Some(hours * 3600.0 + minutes * 60.0 + seconds + fraction)
}

fn colon(bytes: &[u8], at: usize) -> Option<usize> {
    (bytes.get(at) == Some(&b':')).then_some(at + 1)
}

/// The day number of a date that ends right before `at`.
fn date_before(line: &str, at: usize) -> Option<f64> {
    let left = line.get(..at)?.trim_end_matches([' ', 'T', '_']);
    let text = left.get(left.len().checked_sub(10)?..)?.replace('/', "-");
    let date: jiff::civil::Date = text.parse().ok()?;
    let epoch = jiff::civil::date(1970, 1, 1);
    Some(f64::from(date.since(epoch).ok()?.get_days()))
}

/// Seconds since the first; a time of day that falls back by hours has passed midnight.
pub(crate) fn since_first(moments: &[Moment]) -> Vec<f64> {
    let mut days = 0.0;
    let mut last = f64::NEG_INFINITY;
    let mut out = Vec::with_capacity(moments.len());
    for moment in moments {
        if !moment.dated && moment.seconds + days < last - DAY / 2.0 {
            days += DAY;
        }
        last = moment.seconds + if moment.dated { 0.0 } else { days };
        out.push(last);
    }
    let first = out.first().copied().unwrap_or(0.0);
    out.into_iter().map(|at| at - first).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn seconds(lines: &[&str]) -> Vec<f64> {
        since_first(&lines.iter().filter_map(|line| find(line)).collect::<Vec<_>>())
    }

    #[test]
    fn times_are_read_with_and_without_a_date_and_over_midnight() {
        assert_eq!(seconds(&["13:18:20  6.2 GB", "[13:18:50] x"]), [0.0, 30.0]);
        assert_eq!(seconds(&["23:59:50", "00:00:10"]), [0.0, 20.0]);
        assert_eq!(seconds(&["2026-11-15 13:00:00,500 INFO", "2026-11-16T13:00:01Z"]), [0.0, 86_400.5]);
        let told = |line| epoch(line).map(|moment| moment.seconds);
        assert_eq!(
            [told("1700000000"), told(" 1700000000500 "), told("4711")],
            [Some(1.7e9), Some(1_700_000_000.5), None]
        );
        assert!(find("ratio 1:2 and 99:99:99").is_none());
    }

    proptest! {
        #[test]
        fn no_text_panics(text in ".*", digits in "[0-9:., T/-]{0,40}") {
            let _ = (find(&text), find(&digits));
        }
    }
}
