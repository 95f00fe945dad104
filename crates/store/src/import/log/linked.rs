//! Names of memory that do not stand right before their number: `RSS is 3000 MB`, `memory usage now 3000 MB`, `using 3000 MB
//! of memory`.

use super::super::memory_names::{is_now_word, meaning};
use super::super::numbers::{self, Found};

/// Words between a name and its number.
const LINKS: &[&str] =
    &["is", "at", "was", "to", "of", "about", "around", "reached", "uses", "using", "stands"];

/// A name that such words part from its number, with where it begins in the line.
pub(super) fn name_before(line: &str, item: &Found<'_>) -> Option<(String, usize)> {
    let is_link = |word: &str| LINKS.contains(&word) || is_now_word(word);
    let mut left = line[..item.at].trim_end_matches([' ', ':', '=', '~', '(']);
    for passed in 0..=MOST_LINKS {
        let start = left
            .rfind(|c: char| !(c.is_ascii_alphanumeric() || c == '_'))
            .map_or(0, |at| at + left[at..].chars().next().map_or(1, char::len_utf8));
        let word = left[start..].to_ascii_lowercase();
        if !is_link(&word) {
            let known = passed > 0 && meaning(&word).is_some() && numbers::unit(&word).is_none();
            return known.then_some((word, start));
        }
        left = left[..start].trim_end_matches(' ');
    }
    None
}

/// More words than these lead to another clause.
const MOST_LINKS: usize = 2;

/// What stands behind a size that has no name before it: `3000 MB of memory`.
pub(super) fn name_behind(item: &Found<'_>) -> Option<String> {
    item.unit?;
    let rest = item.rest.trim_start().strip_prefix(item.after)?.trim_start();
    let rest = rest.strip_prefix("of ")?.to_ascii_lowercase();
    let mut words = rest.split_whitespace().map(|word| word.trim_end_matches([',', '.', ';', ')']));
    let first = words.next()?;
    let name = match first {
        "memory" | "ram" | "rss" | "vram" => first.to_owned(),
        "gpu" | "cuda" | "host" | "cpu" => {
            format!("{first} {}", words.next().filter(|word| *word == "memory")?)
        }
        _ => return None,
    };
    meaning(&name).map(|_| name)
}
