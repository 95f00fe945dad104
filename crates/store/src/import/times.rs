//! Moments as logs write them, turned into seconds since the first.

use super::numbers;
use super::time_units::{self, TimeUnit};

/// A moment: seconds, and whether a date stood with it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Moment {
    seconds: f64,
    dated: bool,
}

const DAY: f64 = 86_400.0;
const HOUR: f64 = 3600.0;

/// The first time of day in a line (`13:18:20`, `13:18:20,123`, `1:18:20 PM`), with the date before it if there is one.
/// Without seconds it is one only after a date or before AM or PM.
pub(crate) fn find(line: &str) -> Option<Moment> {
    let bytes = line.as_bytes();
    let first_colon = line.find(':')?;
    for at in first_colon.saturating_sub(2)..bytes.len().min(first_colon + 60) {
        let starts = bytes[at].is_ascii_digit()
            && (at == 0 || !(bytes[at - 1].is_ascii_digit() || bytes[at - 1] == b':'));
        if starts && let Some(clock) = shown(&bytes[at..]) {
            let day = date_before(line, at, &clock);
            if clock.to_the_second || clock.halved || day.is_some() {
                let seconds = clock.seconds + day.unwrap_or(0.0) * DAY;
                return Some(Moment { seconds, dated: day.is_some() });
            }
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

/// What the numbers of a clock count.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Clock {
    /// The number at which x is zero.
    zero: f64,
    /// Seconds of one.
    seconds: f64,
    /// The zero of the clock itself is 1970.
    pub(crate) since_1970: bool,
}

impl Clock {
    /// The seconds of a number, from where the curve begins if the clock counts from 1970.
    pub(crate) fn x(self, value: f64) -> f64 {
        self.seconds(value - self.zero)
    }

    /// The seconds of a number.
    pub(crate) fn seconds(self, value: f64) -> f64 {
        // A thousandth is no number of a computer; a thousand is one.
        if self.seconds < 1.0 { value / (1.0 / self.seconds).round() } else { value * self.seconds }
    }
}

/// Seconds since 1970 are more in our time, and no job has run for as long.
pub(crate) const SINCE_1970: f64 = 1e9;
/// They are fewer in our time: what is beyond counts something smaller.
const BEYOND_SECONDS: f64 = 1e11;

/// What a clock counts that begins with this number: the unit that it tells, as far as that can be, else seconds; since 1970
/// also milliseconds (thirteen digits in our time), microseconds, nanoseconds (nineteen).
pub(crate) fn clock(first: f64, told: Option<TimeUnit>) -> Clock {
    let by_size = [1.0, 1e-3, 1e-6, 1e-9].into_iter().find(|seconds| first * seconds < BEYOND_SECONDS);
    let told = told.map(|unit| unit.seconds).filter(|seconds| first * seconds < BEYOND_SECONDS);
    let seconds = told.or(by_size).unwrap_or(1e-9);
    let since_1970 = first * seconds >= SINCE_1970;
    Clock { zero: if since_1970 { first } else { 0.0 }, seconds, since_1970 }
}

/// A whole cell: a dated moment, a time of day, or a time since the start.
pub(crate) fn cell(text: &str) -> Option<Moment> {
    // `5m` is a size, where nothing says that it is a time.
    let in_units = || in_units(text).filter(|_| numbers::size(text).is_none());
    elapsed(text).or_else(in_units).or_else(|| find(text))
}

/// `1m05s`, `0.5h`, `100 ms`, `5m`.
pub(crate) fn in_units(text: &str) -> Option<Moment> {
    Some(Moment { seconds: time_units::whole(text)?, dated: false })
}

/// Hours beyond a day, or days before them: `49:45:00`, `2-01:45:00`, `2 days, 1:45:00`.
fn elapsed(text: &str) -> Option<Moment> {
    let text = text.trim();
    let (days, hours) = [" days, ", " day, ", " days ", " day ", "d ", "-"]
        .iter()
        .find_map(|mark| text.split_once(mark))
        .map_or((Some(0.0), text), |(days, rest)| (whole(days), rest));
    let (hours, rest) = hours.split_once(':')?;
    let minutes = shown(format!("0:{rest}").as_bytes()).filter(|clock| clock.to_the_second)?;
    let plain = rest.bytes().all(|byte| byte.is_ascii_digit() || matches!(byte, b':' | b'.' | b','));
    let seconds = days? * DAY + whole(hours)? * HOUR + minutes.seconds;
    plain.then_some(Moment { seconds, dated: false })
}

/// A count of few digits.
fn whole(text: &str) -> Option<f64> {
    text.parse::<u16>().ok().map(f64::from)
}

/// A time as a clock shows it.
struct Shown {
    seconds: f64,
    to_the_second: bool,
    /// AM or PM stood after it.
    halved: bool,
}

fn shown(bytes: &[u8]) -> Option<Shown> {
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
    let second = colon(bytes, end).map(digits);
    let (seconds, end, second_digits) = second.unwrap_or(Some((0.0, end, 2)))?;
    if long > 2
        || minute_digits != 2
        || second_digits != 2
        || hours > 23.0
        || minutes > 59.0
        || seconds > 60.0
    {
        return None;
    }
    let (fraction, end) = match bytes.get(end) {
        Some(b'.' | b',') if second.is_some() => digits(end + 1)
            .map_or((0.0, end), |(value, end, long)| (value / 10_f64.powi(long.min(18) as i32), end)),
        Some(_) | None => (0.0, end),
    };
    let half = half_of_day(bytes.get(end..)?).filter(|_| (1.0..=12.0).contains(&hours));
    let hours = half.map_or(hours, |noon| hours % 12.0 + noon);
    Some(Shown {
        seconds: hours * HOUR + minutes * 60.0 + seconds + fraction,
        to_the_second: second.is_some(),
        halved: half.is_some(),
    })
}

/// The hours that AM and PM add.
fn half_of_day(after: &[u8]) -> Option<f64> {
    let after = after.trim_ascii_start();
    let ends = !after.get(2).is_some_and(u8::is_ascii_alphanumeric);
    let half = after.get(..2).filter(|_| ends)?.to_ascii_uppercase();
    match half.as_slice() {
        b"AM" => Some(0.0),
        b"PM" => Some(12.0),
        _ => None,
    }
}

fn colon(bytes: &[u8], at: usize) -> Option<usize> {
    (bytes.get(at) == Some(&b':')).then_some(at + 1)
}

/// The day number of a date that ends right before `at`. `3/4/2025` is one where AM or PM says that it is American.
fn date_before(line: &str, at: usize, clock: &Shown) -> Option<f64> {
    let left = line.get(..at)?.trim_end_matches([' ', 'T', '_', ',']);
    let written = || {
        let text = left.get(left.len().checked_sub(10)?..)?.replace('/', "-");
        text.parse::<jiff::civil::Date>().ok()
    };
    let american = || {
        let word = left.rsplit(|c: char| !(c.is_ascii_digit() || c == '/')).next()?;
        let parts: Option<Vec<i16>> = word.split('/').map(|part| part.parse().ok()).collect();
        let [month, day, year] = parts?[..] else { return None };
        let year = if year < 100 { year + 2000 } else { year };
        jiff::civil::Date::new(year, month.try_into().ok()?, day.try_into().ok()?).ok()
    };
    let date = written().or_else(|| american().filter(|_| clock.halved))?;
    let epoch = jiff::civil::date(1970, 1, 1);
    Some(f64::from(date.since(epoch).ok()?.get_days()))
}

/// Seconds since the first; a time of day that falls back by hours has passed midnight.
pub(crate) fn since_first(moments: &[Moment]) -> Vec<f64> {
    laid(moments).0
}

/// The same, and a note where the clock was put back meanwhile.
pub(crate) fn laid(moments: &[Moment]) -> (Vec<f64>, Option<String>) {
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
    out.iter_mut().for_each(|at| *at -= first);
    let note = count_on(&mut out);
    (out, note)
}

/// Points for one fall of the clock: what falls more often is in no order.
const RARELY: usize = 20;
/// A clock is set right by less.
const A_LITTLE: f64 = 300.0;

/// Counts on where a clock was put back, by an hour in autumn or by little when it was set right, and went on from there:
/// rows stand in the order they were written in. Gives a note where it did.
pub(crate) fn count_on(x: &mut [f64]) -> Option<String> {
    let falls = x.windows(2).filter(|pair| pair[1] < pair[0]).count();
    if falls == 0 || falls * RARELY > x.len() {
        return None;
    }
    let mut usual: Vec<f64> = x.windows(2).map(|pair| pair[1] - pair[0]).filter(|step| *step > 0.0).collect();
    usual.sort_by(f64::total_cmp);
    let usual = usual.get(usual.len() / 2).copied()?;
    let told = x.to_vec();
    let (mut shift, mut most) = (0.0, 0.0_f64);
    for at in 1..told.len() {
        let back = told[at - 1] - told[at];
        let put_back = back > 0.0 && (back <= A_LITTLE || (back + usual - HOUR).abs() <= 60.0 + usual);
        // A line that is only out of its place is followed by one that is not.
        let stays = told.get(at + 1).is_none_or(|next| next - told[at] - usual < back / 2.0);
        if put_back && stays {
            shift += back + usual;
            most = most.max(back + usual);
        }
        x[at] += shift;
    }
    let how =
        || format!("the clock was put back by {most:.0} s meanwhile; time counts on from where it stood");
    (most > 0.0).then(how)
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

    #[test]
    fn times_since_the_start_and_american_ones_are_read() {
        let told = |text: &str| cell(text).map(|moment| moment.seconds);
        assert_eq!(told("49:45:00"), Some(49.75 * HOUR));
        assert_eq!([told("2-01:45:00"), told("2 days, 1:45:00")], [Some(49.75 * HOUR); 2]);
        assert_eq!(
            seconds(&["12:59:00 PM", "1:00:00 PM", "11:59:30 PM", "12:00:30 AM"])[1..],
            [60.0, 39_630.0, 39_690.0]
        );
        let dates = ["3/4/2025 9:00 AM", "3/4/2025 1:59 PM", "3/5/2025, 9:00:00 AM", "2025-03-05 09:01"];
        assert_eq!(seconds(&dates), [0.0, 17_940.0, DAY, DAY + 60.0]);
        for text in ["9:45", "00:12<01:23", "1:99 AM", "49:45"] {
            assert_eq!(cell(text), None, "{text}");
        }
    }

    #[test]
    fn a_clock_that_is_put_back_counts_on_and_a_line_out_of_place_does_not() {
        let autumn = |n: i32| f64::from(if n < 60 { n } else { n - 60 }) * 60.0;
        let mut x: Vec<f64> = (0..120).map(autumn).collect();
        assert!(count_on(&mut x).is_some_and(|note| note.contains("3600 s")));
        assert_eq!(x, (0..120).map(|n| f64::from(n) * 60.0).collect::<Vec<_>>());
        let mut swapped: Vec<f64> = (0..120).map(f64::from).collect();
        swapped.swap(50, 51);
        let before = swapped.clone();
        assert_eq!((count_on(&mut swapped), swapped), (None, before));
        let mut newest_first: Vec<f64> = (0..120).rev().map(f64::from).collect();
        assert_eq!(count_on(&mut newest_first), None);
    }

    proptest! {
        #[test]
        fn no_text_panics(text in ".*", digits in "[0-9:., T/-]{0,40}") {
            let _ = (find(&text), find(&digits), cell(&text), cell(&digits));
        }
    }
}
