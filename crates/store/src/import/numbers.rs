//! Numbers and units as people and programs write them.

/// A unit of memory with its size.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Unit {
    pub(crate) bytes: f64,
    pub(crate) name: &'static str,
}

/// Decimal units are powers of ten, binary ones of two; the bare letter is binary, as tools print it (`1.5G`).
const UNITS: &[(&str, f64, &str)] = &[
    ("b", 1.0, "bytes"),
    ("byte", 1.0, "bytes"),
    ("bytes", 1.0, "bytes"),
    ("kb", 1e3, "KB = 10^3 bytes"),
    ("mb", 1e6, "MB = 10^6 bytes"),
    ("gb", 1e9, "GB = 10^9 bytes"),
    ("tb", 1e12, "TB = 10^12 bytes"),
    ("kib", 1024.0, "KiB = 2^10 bytes"),
    ("mib", 1_048_576.0, "MiB = 2^20 bytes"),
    ("gib", 1_073_741_824.0, "GiB = 2^30 bytes"),
    ("tib", 1_099_511_627_776.0, "TiB = 2^40 bytes"),
    ("k", 1024.0, "K = 2^10 bytes"),
    ("m", 1_048_576.0, "M = 2^20 bytes"),
    ("g", 1_073_741_824.0, "G = 2^30 bytes"),
    ("t", 1_099_511_627_776.0, "T = 2^40 bytes"),
    ("ki", 1024.0, "KiB = 2^10 bytes"),
    ("mi", 1_048_576.0, "MiB = 2^20 bytes"),
    ("gi", 1_073_741_824.0, "GiB = 2^30 bytes"),
    ("ti", 1_099_511_627_776.0, "TiB = 2^40 bytes"),
    ("ko", 1e3, "KB = 10^3 bytes"),
    ("mo", 1e6, "MB = 10^6 bytes"),
    ("go", 1e9, "GB = 10^9 bytes"),
    ("mio", 1_048_576.0, "MiB = 2^20 bytes"),
    ("gio", 1_073_741_824.0, "GiB = 2^30 bytes"),
    ("megabytes", 1e6, "MB = 10^6 bytes"),
    ("gigabytes", 1e9, "GB = 10^9 bytes"),
];

pub(crate) const KIB: Unit = Unit { bytes: 1024.0, name: "KiB = 2^10 bytes" };
pub(crate) const MIB: Unit = Unit { bytes: 1_048_576.0, name: "MiB = 2^20 bytes" };
pub(crate) const GIB: Unit = Unit { bytes: 1_073_741_824.0, name: "GiB = 2^30 bytes" };
pub(crate) const MB: Unit = Unit { bytes: 1e6, name: "MB = 10^6 bytes" };
pub(crate) const GB: Unit = Unit { bytes: 1e9, name: "GB = 10^9 bytes" };
pub(crate) const BYTES: Unit = Unit { bytes: 1.0, name: "bytes" };

/// The unit of a word, in any case.
pub(crate) fn unit(word: &str) -> Option<Unit> {
    let lower = word.trim().to_ascii_lowercase();
    UNITS.iter().find(|(known, ..)| *known == lower).map(|(_, bytes, name)| Unit { bytes: *bytes, name })
}

/// The unit a name ends in: `rss_mb`, `rssMB`, `Real (MB)`, `memory [GiB]`, `used_bytes`.
pub(crate) fn unit_of_name(name: &str) -> Option<Unit> {
    let name = name.trim_end_matches([')', ']', ' ', '}']);
    let word = name.rsplit([' ', '_', '(', '[', '.', '/', '-', '{']).next()?;
    if let Some(found) = unit(word).filter(|_| word.len() > 1) {
        return Some(found);
    }
    // camelCase: `rssMB`, `memoryAllocatedBytes`.
    ["Bytes", "KiB", "MiB", "GiB", "TiB", "KB", "MB", "GB", "TB"]
        .iter()
        .find(|tail| name.ends_with(**tail))
        .and_then(|tail| unit(tail))
}

/// The same of a name that means memory, also where bytes are not its last word: `bytes_in_use`, `heap_bytes_used`. That is
/// no reason to take a name for memory: `bytes_processed` counts.
pub(crate) fn unit_in_name(name: &str) -> Option<Unit> {
    let bytes = |word: &str| word.eq_ignore_ascii_case("bytes");
    let says_bytes = || name.split(|c: char| !c.is_ascii_alphanumeric()).any(bytes);
    unit_of_name(name).or_else(|| unit_in_brackets(name)).or_else(|| says_bytes().then_some(BYTES))
}

/// The unit that stands in brackets within a name: `host/memory_used (GiB)/mean`, `VRAM Total Used Memory (B)`.
fn unit_in_brackets(name: &str) -> Option<Unit> {
    let inside = |part: &str| {
        let word = &part[..part.find([')', ']'])?];
        // A lone letter is anything, but for `B`.
        unit(word).filter(|_| word.len() > 1 || word == "B")
    };
    name.split(['(', '[']).skip(1).find_map(inside)
}

/// A process that is looked at holds more.
const LEAST_BYTES: f64 = 1e7;
/// Memory comes in pages, on a GPU in blocks of 512: kilobytes have no reason to be such numbers, all of them.
const BLOCK: f64 = 512.0;

fn in_blocks(values: &[f64]) -> bool {
    values.len() > 2 && values.iter().all(|value| value % BLOCK == 0.0)
}

/// The unit of numbers that say none, by their size: said in the notes.
pub(crate) fn guess(values: &[f64]) -> Unit {
    let mut known: Vec<f64> =
        values.iter().copied().filter(|value| value.is_finite()).map(f64::abs).collect();
    known.sort_by(f64::total_cmp);
    match known.get(known.len() / 2).copied().unwrap_or(0.0) {
        // No job has under a gigabyte times a thousand kilobytes, few have under 100 MB.
        middle if middle >= 1e9 || (middle >= LEAST_BYTES && in_blocks(&known)) => BYTES,
        middle if middle >= 1e5 => KIB,
        _ => MB,
    }
}

/// The unit of all parts of a machine's memory, by the largest: `free` prints KiB, and a machine of under 4 million of them
/// that trains is one told in MiB. Bytes come in pages.
pub(crate) fn guess_of_machine(parts: &[f64]) -> Unit {
    let known: Vec<f64> = parts.iter().copied().filter(|value| value.is_finite()).collect();
    match known.iter().copied().fold(0.0, f64::max) {
        largest if largest < 1000.0 => GIB,
        largest if largest < 4e6 => MIB,
        largest if largest >= 1e10 || largest >= 1e9 && in_blocks(&known) => BYTES,
        _ => KIB,
    }
}

/// Fewer megabytes than this is no process that trains; as gigabytes they are what people log with decimals.
const LEAST_MEGABYTES: f64 = 100.0;

/// The same for what a process or a card holds: decimals below a hundred are gigabytes.
pub(crate) fn guess_of_process(values: &[f64]) -> Unit {
    let known = || values.iter().copied().filter(|value| value.is_finite());
    let small = known().map(f64::abs).fold(0.0, f64::max) < LEAST_MEGABYTES;
    let decimals = known().filter(|value| value.fract().abs() > 0.0).count() * 2 > known().count();
    if small && decimals { GB } else { guess(values) }
}

/// What Node's `process.memoryUsage()` calls what it tells, which is bytes.
const OF_NODE: &[&str] = &["heapUsed", "heapTotal", "arrayBuffers"];
/// As bytes no heap is smaller; people who divide have smaller numbers.
const LEAST_OF_NODE: f64 = 1e6;

/// Whether a size without a unit has a name that Node gives to bytes.
pub(crate) fn is_of_node(name: &str, values: &[f64]) -> bool {
    let last = name.rsplit(['.', '/', '_']).next().unwrap_or(name);
    let large =
        || values.iter().copied().filter(|value| value.is_finite()).all(|value| value >= LEAST_OF_NODE);
    OF_NODE.contains(&last) && large()
}

/// What is said of a unit that was guessed.
pub(crate) const BY_SIZE: &str = "by its size";

/// The same, and why it is not MB.
pub(crate) fn how_guessed(unit: Unit) -> &'static str {
    if unit == GB {
        "by its size: no process that trains has so few MB (--unit tells otherwise)"
    } else {
        BY_SIZE
    }
}

/// The unit to use where the file says one and the user another: the user's, or its kin of the file's size (`GB` in a
/// log that is asked to be read in `MiB` is GiB).
pub(crate) fn overruled(said: Unit, asked: Unit) -> Unit {
    let power = |unit: Unit| (unit.bytes.log10() / 3.0).round();
    if asked.bytes <= 1.0 || said.bytes <= 1.0 || (power(said) - power(asked)).abs() < 0.5 {
        return asked;
    }
    let binary = (asked.bytes.log2() % 10.0).abs() < 1e-9;
    let base = if binary { 1024_f64 } else { 1000.0 };
    let bytes = base.powf(power(said));
    UNITS
        .iter()
        .find(|(word, size, _)| word.len() > 1 && (size - bytes).abs() < 0.5)
        .map_or(said, |(_, bytes, name)| Unit { bytes: *bytes, name })
}

/// A number with thousands separators: `5,552`, `1_000`, `1.5e3`, `-3`. The whole text must be one.
pub(crate) fn number(text: &str) -> Option<f64> {
    let text = text.trim();
    if text.is_empty() || text.len() > 64 {
        return None;
    }
    if text.contains(',') && !has_groups_of_three(text) {
        return None;
    }
    let plain: String = text.chars().filter(|c| !matches!(c, ',' | '_')).collect();
    let starts = plain.trim_start_matches(['+', '-']).starts_with(|c: char| c.is_ascii_digit() || c == '.');
    if starts { plain.parse().ok() } else { None }
}

fn has_groups_of_three(text: &str) -> bool {
    let whole = text.split(['.', 'e', 'E']).next().unwrap_or("");
    !text[whole.len()..].contains(',') && whole.split(',').skip(1).all(|group| group.len() == 3)
}

/// A size with its unit: `5.2GiB`, `123 MB`. The whole text must be one.
pub(crate) fn size(text: &str) -> Option<f64> {
    let text = text.trim();
    let split = text.find(|c: char| !(c.is_ascii_digit() || matches!(c, '.' | ',' | '_')))?;
    let (digits, word) = text.split_at(split);
    Some(number(digits)? * unit(word)?.bytes)
}

/// A number in a line, with the word before it and the unit after it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Found<'a> {
    /// The word it belongs to: `rss` in `rss=5`, `memory` in `'memory': 5`; empty if there is none.
    pub(crate) key: &'a str,
    pub(crate) value: f64,
    pub(crate) unit: Option<Unit>,
    /// It has a sign: in logs that is a change, not a level.
    pub(crate) signed: bool,
    /// It is a share of something.
    pub(crate) percent: bool,
    /// The word right after it: `tensors` in `6,529 tensors`.
    pub(crate) after: &'a str,
    /// The text that follows.
    pub(crate) rest: &'a str,
    /// Where it begins in the line.
    pub(crate) at: usize,
    /// Where its key begins.
    pub(crate) key_at: usize,
}

/// Every number of a line.
pub(crate) fn scan(line: &str) -> Vec<Found<'_>> {
    let bytes = line.as_bytes();
    let mut out = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        let inside_word = at > 0 && (bytes[at - 1].is_ascii_alphanumeric() || bytes[at - 1] == b'_');
        if !bytes[at].is_ascii_digit() || inside_word {
            at += 1;
            continue;
        }
        let end = end_of_number(bytes, at);
        if let Some(value) = number(&line[at..end]) {
            let signed = at > 0 && matches!(bytes[at - 1], b'+' | b'-') && !is_range(bytes, at);
            let (start, end) = unwrapped(line, at, end);
            let rest = line[end..].trim_start_matches(' ');
            let word_end = rest.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(rest.len());
            let word = &rest[..word_end];
            // `2026-03-01T10:00` holds no terabyte, and `step 5 bytes_in_use=7` is no step of five bytes.
            let joined = rest[word_end..].starts_with(|c: char| c.is_ascii_digit() || matches!(c, '_' | '='));
            // A lone letter is a unit only where it is written as one: `5.2G`, not `5 m`.
            let lone =
                word.len() == 1 && !(line[end..].starts_with(word) && word.starts_with(char::is_uppercase));
            let (key, bracketed) = key_before(line, start);
            out.push(Found {
                key: &line[key.clone()],
                key_at: key.start,
                value,
                unit: if lone || joined { None } else { unit(word) }.or(bracketed),
                signed,
                percent: rest.starts_with('%'),
                after: word,
                rest: &line[end..],
                at,
            });
        }
        at = end;
    }
    out
}

fn is_range(bytes: &[u8], at: usize) -> bool {
    at >= 2 && bytes[at - 2].is_ascii_digit()
}

fn end_of_number(bytes: &[u8], start: usize) -> usize {
    let digit = |at: usize| bytes.get(at).is_some_and(u8::is_ascii_digit);
    let mut at = start;
    while digit(at) {
        at += 1;
    }
    // A comma belongs to the number only as a thousands separator: three digits follow, and no fourth.
    while matches!(bytes.get(at), Some(b',' | b'_'))
        && digit(at + 1)
        && digit(at + 2)
        && digit(at + 3)
        && !digit(at + 4)
    {
        at += 4;
    }
    if bytes.get(at) == Some(&b'.') && digit(at + 1) {
        at += 1;
        while digit(at) {
            at += 1;
        }
    }
    if matches!(bytes.get(at), Some(b'e' | b'E')) {
        let sign = usize::from(matches!(bytes.get(at + 1), Some(b'+' | b'-')));
        if digit(at + 1 + sign) {
            at += 1 + sign;
            while digit(at) {
                at += 1;
            }
        }
    }
    at
}

/// What Python prints around a number that is not its own.
const WRAPPERS: &[&str] = &[
    "float64", "float32", "float16", "bfloat16", "int64", "int32", "uint64", "float", "int", "tensor",
    "Array",
];

/// The ends of a number with what is printed around it: `np.float64(4.018)`, `tensor(4.01, device='cuda:0')`.
fn unwrapped(line: &str, at: usize, end: usize) -> (usize, usize) {
    let Some(left) = line[..at].strip_suffix('(') else { return (at, end) };
    let start = left
        .rfind(|c: char| !(c.is_ascii_alphanumeric() || matches!(c, '_' | '.')))
        .map_or(0, |found| found + left[found..].chars().next().map_or(1, char::len_utf8));
    let word = left[start..].rsplit('.').next().unwrap_or("");
    let closed = line[end..].find([')', '(']).filter(|at| line[end + at..].starts_with(')'));
    match closed.filter(|_| WRAPPERS.contains(&word)) {
        Some(close) => (start, end + close + 1),
        None => (at, end),
    }
}

/// The word left of a number, over what may stand between: `:`, `=`, quotes, brackets, spaces, a sign, `~`; and the unit of
/// `memory(gib): 4` and `RSS [MB] 4`.
fn key_before(line: &str, at: usize) -> (std::ops::Range<usize>, Option<Unit>) {
    let between =
        |c: char| matches!(c, ':' | '=' | '"' | '\'' | ' ' | '\t' | '(' | '[' | '+' | '-' | '~' | '#' | '|');
    let left = line[..at].trim_end_matches(between);
    let (left, unit) = without_unit(left).map_or((left, None), |(left, unit)| (left, Some(unit)));
    let start = left
        .rfind(|c: char| !(c.is_alphanumeric() || matches!(c, '_' | '.' | '/' | '-')))
        .map_or(0, |found| found + left[found..].chars().next().map_or(1, char::len_utf8));
    // Another number is no key.
    let end = if left[start..].starts_with(|c: char| c.is_ascii_digit()) { start } else { left.len() };
    (start..end, unit.filter(|_| start < end))
}

/// A name without a unit in brackets at its end, and the unit.
fn without_unit(name: &str) -> Option<(&str, Unit)> {
    let inside = name.strip_suffix([')', ']'])?;
    let open = inside.rfind(['(', '['])?;
    let unit = unit(&inside[open + 1..]).filter(|_| inside.len() > open + 2)?;
    Some((name[..open].trim_end(), unit))
}

/// Text without terminal colours and byte order mark; carriage returns (progress bars) end lines; digits in groups that
/// only a number has (`2'000`, or parted by a space that does not break) stand together.
pub(crate) fn plain_text(bytes: &[u8]) -> String {
    let text = match bytes {
        [0xFF, 0xFE, rest @ ..] => utf16(rest, u16::from_le_bytes),
        [0xFE, 0xFF, rest @ ..] => utf16(rest, u16::from_be_bytes),
        _ => String::from_utf8_lossy(bytes).into_owned(),
    };
    let text = text.trim_start_matches('\u{feff}');
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '\u{1b}' => skip_escape(&mut chars),
            '\r' => out.push('\n'),
            '\'' | '\u{2019}' | '\u{a0}' | '\u{202f}' | '\u{2009}' if joins_digits(&out, &chars) => {}
            '\u{a0}' | '\u{202f}' | '\u{2009}' => out.push(' '),
            c => out.push(c),
        }
    }
    out
}

/// Whether a group of three digits follows a number's first one to three, or another group.
fn joins_digits(before: &str, after: &std::iter::Peekable<std::str::Chars<'_>>) -> bool {
    let mut after = after.clone();
    before.ends_with(|c: char| c.is_ascii_digit())
        && (0..3).all(|_| after.next().is_some_and(|c| c.is_ascii_digit()))
        && !after.next().is_some_and(|c| c.is_ascii_digit())
}

/// What PowerShell's `>` writes.
fn utf16(bytes: &[u8], order: fn([u8; 2]) -> u16) -> String {
    let units: Vec<u16> = bytes.chunks_exact(2).map(|pair| order([pair[0], pair[1]])).collect();
    String::from_utf16_lossy(&units)
}

fn skip_escape(chars: &mut std::iter::Peekable<std::str::Chars<'_>>) {
    if chars.next_if_eq(&'[').is_some() {
        while chars.next_if(|c| !c.is_ascii_alphabetic() && !c.is_control()).is_some() {}
        chars.next_if(char::is_ascii_alphabetic);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_line_is_read_as_a_person_reads_it() {
        let found = scan("Step 10:  5,552 MB  (+1,607 MB)  loss=2.5e-3 mem 45%");
        let told: Vec<_> =
            found.iter().map(|f| (f.key, f.value, f.unit.map(|u| u.bytes), f.signed, f.percent)).collect();
        assert_eq!(
            told,
            [
                ("Step", 10.0, None, false, false),
                ("", 5552.0, Some(1e6), false, false),
                ("MB", 1607.0, Some(1e6), true, false),
                ("loss", 2.5e-3, None, false, false),
                ("mem", 45.0, None, false, true),
            ]
        );
    }

    #[test]
    fn what_python_prints_around_a_number_is_no_key() {
        for (line, key, bytes) in [
            ("'cpu_mem_gb': np.float64(4.018)}", "cpu_mem_gb", None),
            ("step mem tensor(4.018) GB", "mem", Some(1e9)),
            ("mem: tensor(4.018, device='cuda:0') MB", "mem", Some(1e6)),
            ("'memory/device_mem_reserved(gib)': 4.018", "memory/device_mem_reserved", Some(1_073_741_824.0)),
            (r#""memory/max_active (GiB)": 4.018"#, "memory/max_active", Some(1_073_741_824.0)),
            ("RSS [MB] = 4.018", "RSS", Some(1e6)),
            ("max(4.018)", "max", None),
        ] {
            let found = &scan(line)[0];
            assert_eq!(
                (found.key, found.value, found.unit.map(|unit| unit.bytes)),
                (key, 4.018, bytes),
                "{line}"
            );
        }
    }

    #[test]
    fn a_date_holds_no_terabyte() {
        assert!(scan("2026-03-01T10:00:00Z up").iter().all(|found| found.unit.is_none()));
        assert_eq!(
            scan("used 3T").first().and_then(|found| found.unit).map(|unit| unit.bytes > 1e12),
            Some(true)
        );
    }

    #[test]
    fn names_tell_their_unit() {
        for (name, bytes) in [
            ("rss_mb", 1e6),
            ("rssMB", 1e6),
            ("Real (MB)", 1e6),
            ("used [GiB]", 1_073_741_824.0),
            ("x_bytes", 1.0),
        ] {
            assert_eq!(unit_of_name(name).map(|unit| unit.bytes), Some(bytes), "{name}");
        }
        for name in ["step", "memory", "item_b", "thumb", ""] {
            assert_eq!(unit_of_name(name), None, "{name}");
        }
    }

    #[test]
    fn colours_and_progress_bars_become_lines() {
        assert_eq!(plain_text(b"\x1b[31mred\x1b[0m\ra\x1b[2Kb"), "red\nab");
        assert_eq!(plain_text(b"\xff\xfea\0b\0"), "ab");
    }

    proptest! {
        #[test]
        fn no_text_panics(text in ".*", bytes: Vec<u8>) {
            let _ = (scan(&text), number(&text), size(&text), unit_of_name(&text), plain_text(&bytes));
        }
    }
}
