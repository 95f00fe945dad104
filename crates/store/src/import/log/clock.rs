//! The time that a line of a log tells in numbers: `elapsed=12.5`, `time: 100 ms`, `elapsed_ms=4000`, `[1m05s]`.

use super::super::numbers::{self, Found};
use super::super::time_units::{self, TimeUnit};
use super::super::times;

/// Names of clocks, by themselves.
const CLOCKS: &[&str] = &[
    "elapsed",
    "seconds",
    "secs",
    "sec",
    "t",
    "time",
    "ts",
    "timestamp",
    "uptime",
    "runtime",
    "walltime",
    "minutes",
    "hours",
];

/// Words before a time, where the unit says that it is one: `after 2 min:`.
const BEFORE_A_TIME: &[&str] = &["after", "at"];

/// What a clock showed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Shown {
    pub(super) seconds: f64,
    /// The unit that it counts, if that is not the second.
    pub(super) unit: Option<&'static str>,
}

impl Shown {
    fn new(seconds: f64, unit: Option<TimeUnit>) -> Self {
        let other = unit.filter(|unit| (unit.seconds - 1.0).abs() > 0.0);
        Self { seconds, unit: other.map(|unit| unit.name) }
    }
}

/// Whether a key is the name of a clock: `elapsed`, `wall_time_s`, `train/elapsed_ms`.
pub(super) fn is_name(key: &str) -> bool {
    let short = key.rsplit(['/', '.']).next().unwrap_or(key);
    let parted = short.contains(|c: char| !c.is_alphanumeric() || c.is_uppercase());
    let several = || parted && time_units::words(short).len() > 1 && time_units::is_clock(short);
    let known = CLOCKS.iter().any(|word| word.eq_ignore_ascii_case(short));
    (known || several()) && !time_units::is_duration(key)
}

/// The time that a number tells under its key; a rate (`0.6 s/it`) and a time of day are none.
pub(super) fn shown(line: &str, item: &Found<'_>) -> Option<Shown> {
    if item.unit.is_some() || item.percent || item.rest.starts_with([':', '-', '/']) {
        return None;
    }
    let key = item.key.trim_matches(['.', '/', '-', '_']);
    let bracketed = || name_before_brackets(line, item).filter(|_| key.is_empty());
    let name = bracketed().unwrap_or(key);
    let clock = is_name(name);
    if !(clock || BEFORE_A_TIME.iter().any(|word| word.eq_ignore_ascii_case(name))) {
        return None;
    }
    let Some((seconds, unit, rest)) = time_units::leading(&line[item.at..]) else {
        if !clock {
            return None;
        }
        let unit = time_units::unit_of_name(name);
        return Some(Shown::new(times::clock(item.value, unit).seconds(item.value), unit));
    };
    let rest = rest.trim_start();
    let rate = rest.starts_with('/') || rest.starts_with("per ");
    (!rate && !goes_on(rest)).then(|| Shown::new(seconds, Some(unit)))
}

/// Whether a time of day follows: `1 day, 2:03:04`.
fn goes_on(rest: &str) -> bool {
    let rest = rest.trim_start_matches([' ', ',']).trim_start_matches(|c: char| c.is_ascii_digit());
    rest.starts_with(':') && rest[1..].starts_with(|c: char| c.is_ascii_digit())
}

/// The name of `elapsed (ms): 4000`, with its brackets.
fn name_before_brackets<'a>(line: &'a str, item: &Found<'_>) -> Option<&'a str> {
    let left = line[..item.at].trim_end_matches([':', '=', '"', '\'', ' ']);
    let open = left.strip_suffix([')', ']'])?.rfind(['(', '['])?;
    let name = left[..open].trim_end_matches([' ', '_']);
    let start = name.rfind(|c: char| !c.is_ascii_alphanumeric() && c != '_').map_or(0, |at| at + 1);
    left.get(start..).filter(|_| start < name.len())
}

/// The seconds that a line begins with: `[   12.500]` as dmesg and `ts` write them, `[30s]`, `[1m05s]`, `[100 ms]`.
pub(super) fn in_bracket(line: &str) -> Option<Shown> {
    let text = line.trim_start().strip_prefix('[')?.split_once(']')?.0.trim();
    let bare =
        || numbers::number(text).filter(|_| text.contains('.')).map(|seconds| Shown::new(seconds, None));
    let Some((seconds, unit, rest)) = time_units::leading(text) else { return bare() };
    rest.is_empty().then(|| Shown::new(seconds, Some(unit)))
}
