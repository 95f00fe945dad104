//! Units of time: in the name of a column or key (`elapsed_ms`, `time [min]`), or behind a number (`0.5h`, `1m05s`).

use super::numbers;

/// A unit of time with its size.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct TimeUnit {
    pub(crate) seconds: f64,
    /// In the plural.
    pub(crate) name: &'static str,
}

const NANO: TimeUnit = TimeUnit { seconds: 1e-9, name: "nanoseconds" };
const MICRO: TimeUnit = TimeUnit { seconds: 1e-6, name: "microseconds" };
const MILLI: TimeUnit = TimeUnit { seconds: 1e-3, name: "milliseconds" };
const SECOND: TimeUnit = TimeUnit { seconds: 1.0, name: "seconds" };
const MINUTE: TimeUnit = TimeUnit { seconds: 60.0, name: "minutes" };
const HOUR: TimeUnit = TimeUnit { seconds: 3600.0, name: "hours" };
const DAY: TimeUnit = TimeUnit { seconds: 86_400.0, name: "days" };

/// What people and programs write for a unit.
const WORDS: &[(&[&str], TimeUnit)] = &[
    (&["ns", "nsec", "nsecs", "nanos", "nanosecond", "nanoseconds"], NANO),
    (&["us", "usec", "usecs", "micros", "microsecond", "microseconds"], MICRO),
    (&["ms", "msec", "msecs", "millis", "millisecond", "milliseconds"], MILLI),
    (&["s", "sec", "secs", "second", "seconds"], SECOND),
    (&["min", "mins", "minute", "minutes"], MINUTE),
    (&["h", "hr", "hrs", "hour", "hours"], HOUR),
    (&["d", "day", "days"], DAY),
];

/// Words of a clock.
const CLOCKS: &[&str] =
    &["time", "timestamp", "ts", "t", "elapsed", "uptime", "runtime", "walltime", "seconds", "sec"];

/// What may stand beside them.
const BESIDE: &[&str] = &["wall", "since", "start", "relative", "total", "in", "from"];

/// What a step is called where a name is of how long one took.
const STEPS: &[&str] = &["step", "steps", "iter", "iters", "iteration", "iterations", "it", "batch"];

/// The unit of a word, in lower case.
fn unit(word: &str) -> Option<TimeUnit> {
    WORDS.iter().find(|(words, _)| words.contains(&word)).map(|(_, unit)| *unit)
}

/// The words of a name in lower case: of `elapsed_ms`, `elapsedMs`, `Elapsed (ms)`.
pub(crate) fn words(name: &str) -> Vec<String> {
    let mut out = vec![String::new()];
    let mut last_is_lower = false;
    for c in name.chars().map(|c| if matches!(c, 'µ' | 'μ') { 'u' } else { c }) {
        if !c.is_alphanumeric() || (last_is_lower && c.is_uppercase()) {
            out.push(String::new());
        }
        if let Some(word) = out.last_mut().filter(|_| c.is_alphanumeric()) {
            word.extend(c.to_lowercase());
        }
        last_is_lower = c.is_lowercase();
    }
    out.retain(|word| !word.is_empty());
    out
}

/// The unit that the name of a clock tells: at its end, or before `since`. `min_time` and `items` tell none.
pub(crate) fn unit_of_name(name: &str) -> Option<TimeUnit> {
    let words = words(name);
    let last = words.last()?;
    let before = || words.windows(2).find(|pair| ["since", "from"].contains(&pair[1].as_str()));
    // A lone letter is anything.
    let at_end = unit(last).filter(|_| words.len() > 1 || last.len() > 1);
    at_end.or_else(|| unit(&before()?[0]))
}

/// Whether a name is of a clock and says nothing else: `elapsed_ms`, `wall_time_s`, `minutes`, `timestampMs`.
pub(crate) fn is_clock(name: &str) -> bool {
    let words = words(name);
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let told = |word: &&str| CLOCKS.contains(word) || unit(word).is_some();
    match words[..] {
        // A lone `min` is the least of something.
        [only] => CLOCKS.contains(&only) || (only.len() > 1 && only != "min" && unit(only).is_some()),
        ["epoch" | "unix", word] => unit(word).is_some(),
        _ => words.iter().any(told) && words.iter().all(|word| told(word) || BESIDE.contains(word)),
    }
}

/// Whether a name is of how long something took, or how often it comes: `step_time_ms`, `sec_per_step`, `steps/s`.
pub(crate) fn is_duration(name: &str) -> bool {
    let words = words(name);
    let is_step = |word: &String| STEPS.contains(&word.as_str());
    let took = |word: &String| ["time", "duration", "took"].contains(&word.as_str()) || unit(word).is_some();
    let step = words.iter().position(is_step);
    let of_step = step.is_some_and(|step| words[step + 1..].iter().any(took));
    let per = words.windows(3).any(|three| three[1] == "per");
    of_step || per || is_rate(name)
}

/// Whether a name is a fraction of steps and time: `steps/s`, `s/it`.
fn is_rate(name: &str) -> bool {
    let Some((over, under)) = name.rsplit_once('/') else { return false };
    let (over, under) = (words(over), words(under));
    let (Some(over), Some(under)) = (over.last(), under.first()) else { return false };
    let is_step = |word: &String| STEPS.contains(&word.as_str());
    is_step(over) && unit(under).is_some() || unit(over).is_some() && is_step(under)
}

/// The seconds that a text with units of time begins with, and what follows it: `1m05s`, `0.5h`, `100 ms`, `2 days 3h`.
pub(crate) fn leading(text: &str) -> Option<(f64, TimeUnit, &str)> {
    let mut rest = text;
    let mut told: Option<(f64, TimeUnit)> = None;
    while let Some((seconds, unit, after)) = one(rest) {
        // The units go down: `5 min 3 s`, not `5 s 3 min`.
        if told.is_some_and(|(_, last)| unit.seconds >= last.seconds) {
            break;
        }
        told = Some((told.map_or(0.0, |(sum, _)| sum) + seconds, unit));
        rest = after;
    }
    told.map(|(seconds, unit)| (seconds, unit, rest))
}

/// One number with its unit.
fn one(text: &str) -> Option<(f64, TimeUnit, &str)> {
    let text = text.trim_start_matches([' ', ',']);
    let digits = |c: char| c.is_ascii_digit() || matches!(c, '.' | ',' | '_');
    let (number, rest) = text.split_at(text.find(|c| !digits(c))?);
    let value = numbers::number(number)?;
    let spaced = rest.strip_prefix(' ');
    let rest = spaced.unwrap_or(rest);
    let end = rest.find(|c: char| !c.is_alphabetic()).unwrap_or(rest.len());
    let word = rest[..end].replace(['µ', 'μ'], "u").to_ascii_lowercase();
    // In `t=5 h=3` and `t 5 h: 3` that is the next key.
    let is_key = rest[end..].starts_with(['=', '_'])
        || word.len() == 1 && spaced.is_some() && rest[end..].starts_with(':');
    if is_key {
        return None;
    }
    let unit = if word == "m" { Some(MINUTE) } else { unit(&word) }?;
    Some((value * unit.seconds, unit, &rest[end..]))
}

/// A whole text with units of time, in seconds: `1m05s`, `100 ms`.
pub(crate) fn whole(text: &str) -> Option<f64> {
    leading(text.trim()).filter(|(_, _, rest)| rest.is_empty()).map(|(seconds, ..)| seconds)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_unit_of_a_clock_stands_in_its_name() {
        for (name, seconds) in [
            ("elapsed_ms", 1e-3),
            ("elapsedMs", 1e-3),
            ("Time [min]", 60.0),
            ("time (us)", 1e-6),
            ("time_µs", 1e-6),
            ("t/h", 3600.0),
            ("minutes", 60.0),
            ("uptime_seconds", 1.0),
            ("timestamp_ns", 1e-9),
            ("minutes_since_start", 60.0),
            ("epoch_ms", 1e-3),
        ] {
            assert_eq!(unit_of_name(name).map(|unit| unit.seconds), Some(seconds), "{name}");
            assert!(is_clock(name), "{name}");
        }
        for name in ["items", "time", "s", "columns", "rpm", "min_time", "timeline", ""] {
            assert_eq!(unit_of_name(name), None, "{name}");
        }
    }

    #[test]
    fn what_is_no_clock_is_none() {
        for name in [
            "items",
            "rpm",
            "min",
            "rss_min",
            "gpu_hours",
            "data_time_ms",
            "step_time_ms",
            "loss_s",
            "total",
            "epoch_time",
            "epoch",
            "h",
            "",
        ] {
            assert!(!is_clock(name), "{name}");
        }
        for name in ["step_time_ms", "iter_time", "sec_per_step", "time/iter_ms", "steps/s", "stepTimeMs"] {
            assert!(is_duration(name), "{name}");
        }
        for name in [
            "time_step",
            "elapsed_ms",
            "step",
            "timestamp",
            "epoch",
            "per",
            "global_step",
            "train/step",
            "epoch_seconds",
        ] {
            assert!(!is_duration(name), "{name}");
        }
    }

    #[test]
    fn a_time_with_units_is_read_to_its_end() {
        for (text, seconds) in [
            ("1m05s", 65.0),
            ("0m00s", 0.0),
            ("0.5h", 1800.0),
            ("100 ms", 0.1),
            ("2 days 3h", 183_600.0),
            ("1h 2min 3s", 3723.0),
            ("5µs", 5e-6),
            ("1,000 ms", 1.0),
        ] {
            assert!(
                whole(text).is_some_and(|told| (told - seconds).abs() < 1e-9),
                "{text}: {:?}",
                whole(text)
            );
        }
        for text in ["5", "t", "5 h=3", "5 h: 3", "5 items", "5 rpm", "m5", "5s 3min", "5 MB", "1:05", ""] {
            assert_eq!(whole(text), None, "{text}");
        }
        assert_eq!(leading("3 s/it").map(|(seconds, _, rest)| (seconds, rest)), Some((3.0, "/it")));
    }

    proptest! {
        #[test]
        fn no_text_panics(text in ".*", near in "[0-9., a-zµ/]{0,30}") {
            let _ = (whole(&text), whole(&near), unit_of_name(&text), is_clock(&text), is_duration(&near));
        }
    }
}
