//! Who wrote which line of a log: what launchers write before it, else what stands at one place of each line and tells
//! those apart that have the same step.
//!
//! `cuda:1 step=5`, `INFO:root:[1] step=5`, `{"step": 5, "worker": "a"}`: no list of words would know all of these. What
//! stands there is a label if each step has one line for each of its values (see `apart`); of workers, processes and
//! ranks, who are named so, it is enough that they take turns.

use super::super::apart::{self, Label, Told};
use super::super::memory_names::{free_meaning, heap_series, is_other_memory, is_total, meaning};
use super::super::{Hints, named, numbers};
use super::axis::{self, Place};
use super::line::{Point, Writer};
use super::{FEWEST_POINTS, size_of};
use std::collections::{BTreeMap, BTreeSet};

/// Lines that are looked at to find the places of labels, spread over the log.
const SAMPLED: usize = 16;

/// Places that are tried.
const MOST_PLACES: usize = 64;

/// The longest label.
const LONGEST: usize = 100;

/// What those are called who write.
const WRITERS: &[&str] = &[
    "rank",
    "local_rank",
    "global_rank",
    "world_rank",
    "worker",
    "worker_id",
    "replica",
    "process",
    "proc",
    "actor",
];

/// Points that one writer wrote, as far as the log says.
pub(super) struct Part<'a> {
    pub(super) title: String,
    pub(super) points: Vec<&'a Point>,
    /// What has to be known where nothing tells more of them apart.
    pub(super) note: Option<String>,
}

/// The points with a size under this name, of each that wrote them.
pub(super) fn parts<'a>(text: &str, points: &'a [Point], name: &str, hints: &Hints) -> Vec<Part<'a>> {
    let named = by_writer(points, name);
    named.into_iter().flat_map(|(title, points)| by_label(text, (title, points), name, hints)).collect()
}

/// The points of each writer that its lines name by themselves.
fn by_writer<'a>(points: &'a [Point], name: &str) -> Vec<(String, Vec<&'a Point>)> {
    let points: Vec<&Point> = points.iter().filter(|point| size_of(point, name).is_some()).collect();
    let mut writers: BTreeMap<&Writer, Vec<&Point>> = BTreeMap::new();
    for point in &points {
        if let Some(writer) = &point.writer {
            writers.entry(writer).or_default().push(point);
        }
    }
    writers.retain(|_, points| points.len() >= FEWEST_POINTS);
    if writers.len() < 2 {
        return vec![(String::new(), points)];
    }
    writers.into_iter().map(|(writer, points)| (writer.name.clone(), points)).collect()
}

/// The points of each value of the label that tells them apart.
fn by_label<'a>(
    text: &str,
    (title, points): (String, Vec<&'a Point>),
    name: &str,
    hints: &Hints,
) -> Vec<Part<'a>> {
    let place = axis::choose(&points, hints).place;
    let placed: Vec<&Point> = points.iter().copied().filter(|point| place.has(point)).collect();
    let spots = apart::spots(&place.x(&placed));
    let shared = place != Place::Line && apart::share_spots(&spots);
    let lines: Vec<&str> =
        placed.iter().take(apart::LOOKED_AT).map(|point| &text[point.line.clone()]).collect();
    let found = Places::of(&lines);
    let whole = |note| vec![Part { title: title.clone(), points: points.clone(), note }];
    let told = if shared { apart::told(&spots, &found.labels()) } else { Told::Nothing };
    let told = match told {
        Told::Nothing => found.of_writers().map_or(Told::Nothing, |label| Told::By(vec![label])),
        told @ (Told::By(_) | Told::Moments) => told,
    };
    match told {
        Told::By(labels) => of_each(&found, &labels, &title, &points, text),
        Told::Nothing if shared => {
            let size = |point: &&Point| {
                size_of(point, name)
                    .map_or(f64::NAN, |(_, size, unit)| size * unit.map_or(1.0, |unit| unit.bytes))
            };
            let y: Vec<f64> = placed.iter().map(size).collect();
            whole(apart::note(&spots, &y, place.axis()))
        }
        Told::Nothing | Told::Moments => whole(None),
    }
}

/// The points with each of the values of these labels.
fn of_each<'a>(
    found: &Places<'_>,
    labels: &[usize],
    title: &str,
    points: &[&'a Point],
    text: &str,
) -> Vec<Part<'a>> {
    let mut parts: BTreeMap<Vec<Named>, Vec<&Point>> = BTreeMap::new();
    for point in points {
        let tokens = tokens(&text[point.line.clone()]);
        let names: Option<Vec<Named>> =
            labels.iter().map(|label| Some(found.places[*label].in_line(&tokens)?.named())).collect();
        if let Some(names) = names {
            parts.entry(names).or_default().push(point);
        }
    }
    parts.retain(|_, points| points.len() >= FEWEST_POINTS);
    let left_out = points.len() - parts.values().map(Vec::len).sum::<usize>();
    let note =
        (left_out > 0).then(|| format!("{left_out} lines do not say who wrote them, and are left out"));
    let part = |(names, points): (Vec<Named>, Vec<&'a Point>)| {
        let words: Vec<&str> =
            [title].into_iter().chain(names.iter().map(|named| named.title.as_str())).collect();
        Part { title: named(&words), points, note: note.clone() }
    };
    parts.into_iter().map(part).collect()
}

/// What a label calls a writer, in the order of their numbers.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Named {
    number: Option<u64>,
    title: String,
}

/// A word or a number of a line.
#[derive(Clone, Copy, Debug)]
struct Token<'a> {
    text: &'a str,
    /// The word before it, if it is one.
    key: Option<&'a str>,
    /// The line on both sides of it.
    left: &'a str,
    right: &'a str,
    number: usize,
}

impl Token<'_> {
    /// Who is meant: `worker 3`, and `3` where that stands in brackets of its own.
    fn named(&self) -> Named {
        let number = self.text.rsplit(|c: char| !c.is_ascii_digit()).find(|digits| !digits.is_empty());
        let apart = self.left.ends_with(['[', '(', '<']) || self.left.ends_with(' ') && !is_whole(self.text);
        let key = self.key.filter(|_| !apart);
        let title = key.map_or_else(|| self.text.to_owned(), |key| format!("{key} {}", self.text));
        Named { number: number.and_then(|number| number.parse().ok()), title }
    }

    /// Whether it may say who wrote the line: a word or a whole number that is no size, no part of a time, a date or a
    /// fraction, and stands after no name of memory.
    fn may_be_label(&self) -> bool {
        let is_number = || numbers::number(self.text).is_some() || numbers::size(self.text).is_some();
        let plain = if is_whole(self.text) {
            !self.is_joined() && !self.has_unit()
        } else {
            self.text.contains(char::is_alphabetic) && !is_number()
        };
        plain && self.text.len() <= LONGEST && !self.key.is_some_and(is_of_memory)
    }

    /// Whether digits stand right beside it, as in `12:30`, `2026-01-02` and `1/4`.
    fn is_joined(&self) -> bool {
        let digit = |c: Option<char>| c.is_some_and(|c| c.is_ascii_digit());
        let joint = |c: Option<char>| c.is_some_and(|c| matches!(c, ':' | ',' | '.' | '-' | '/'));
        let (mut before, mut after) = (self.left.chars().rev(), self.right.chars());
        joint(before.next()) && digit(before.next()) || joint(after.next()) && digit(after.next())
    }

    /// Whether a unit of memory stands after it.
    fn has_unit(&self) -> bool {
        let word = self.right.trim_start().split(|c: char| !c.is_alphabetic()).next().unwrap_or("");
        numbers::unit(word).is_some() && (word.len() > 1 || word.starts_with(char::is_uppercase))
    }
}

/// Where a label stands: after a word, else by its number in the line.
#[derive(Clone, Debug, PartialEq, Eq)]
enum LabelPlace {
    After(String),
    At(usize),
}

impl LabelPlace {
    fn of(token: &Token<'_>) -> Self {
        token.key.map_or(Self::At(token.number), |key| Self::After(form(key)))
    }

    fn is_of(&self, token: &Token<'_>) -> bool {
        match self {
            Self::After(word) => token.key.is_some_and(|key| is_form(key, word)),
            Self::At(number) => token.key.is_none() && token.number == *number,
        }
    }

    fn in_line<'a>(&self, tokens: &[Token<'a>]) -> Option<Token<'a>> {
        tokens.iter().find(|token| self.is_of(token)).filter(|token| token.may_be_label()).copied()
    }

    /// The word that stands before it, if one does.
    fn name(&self) -> &str {
        match self {
            Self::After(word) => word,
            Self::At(_) => "",
        }
    }
}

/// What may be labels in the lines of a log.
struct Places<'a> {
    places: Vec<LabelPlace>,
    /// For each place what stands there in each line.
    values: Vec<Vec<Option<&'a str>>>,
}

impl<'a> Places<'a> {
    fn of(lines: &[&'a str]) -> Self {
        let mut places = Vec::new();
        for line in lines.iter().step_by(lines.len().div_ceil(SAMPLED).max(1)) {
            for token in tokens(line).iter().filter(|token| token.may_be_label()) {
                let place = LabelPlace::of(token);
                if places.len() < MOST_PLACES && !places.contains(&place) {
                    places.push(place);
                }
            }
        }
        let mut values = vec![vec![None; lines.len()]; places.len()];
        for (row, line) in lines.iter().enumerate() {
            // Of several tokens at one place the first counts.
            for token in tokens(line).iter().rev() {
                if let Some(place) = places.iter().position(|place| place.is_of(token)) {
                    values[place][row] = Some(token.text).filter(|_| token.may_be_label());
                }
            }
        }
        Self { places, values }
    }

    fn labels(&self) -> Vec<Label<'_>> {
        let both = self.places.iter().zip(&self.values);
        both.map(|(place, values)| Label { name: place.name(), values: values.clone() }).collect()
    }

    /// The label of those who write in turn and are called so: `worker-1`, `local_rank=1`.
    fn of_writers(&self) -> Option<usize> {
        let called = |label: &Label<'_>| {
            let forms: BTreeSet<String> = label.values.iter().flatten().map(|value| form(value)).collect();
            let word = forms.first().map_or("", |form| form.trim_end_matches(['-', '_', '#']));
            let kind = word.rsplit(['-', '_', '.']).next().unwrap_or(word);
            WRITERS.contains(&label.name)
                || forms.len() == 1 && WRITERS.iter().any(|writer| kind.ends_with(writer))
        };
        let fits = |label: &Label<'_>| {
            apart::has_few(label, label.values.len()) && apart::takes_turns(label) && called(label)
        };
        self.labels().iter().position(fits)
    }
}

/// A word without its digits, in small letters.
fn form(word: &str) -> String {
    word.chars().filter(|c| !c.is_ascii_digit()).collect::<String>().to_ascii_lowercase()
}

/// Whether a word is of this form.
fn is_form(word: &str, form: &str) -> bool {
    let letters = word.chars().filter(|c| !c.is_ascii_digit()).map(|c| c.to_ascii_lowercase());
    letters.eq(form.chars())
}

fn is_whole(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// The words and numbers of a line.
fn tokens(line: &str) -> Vec<Token<'_>> {
    let mut out: Vec<Token<'_>> = Vec::new();
    for text in line.split(is_between).filter(|text| !text.is_empty()) {
        let at = text.as_ptr() as usize - line.as_ptr() as usize;
        let key = out.last().map(|token| token.text).filter(|word| word.contains(char::is_alphabetic));
        let (left, right) = (&line[..at], &line[at + text.len()..]);
        out.push(Token { text, key, left, right, number: out.len() });
    }
    out
}

fn is_between(c: char) -> bool {
    c.is_whitespace()
        || matches!(
            c,
            '[' | ']' | '(' | ')' | '{' | '}' | '<' | '>' | '|' | ',' | ';' | '=' | '"' | '\'' | ':'
        )
}

fn is_of_memory(name: &str) -> bool {
    meaning(name).is_some()
        || heap_series(name).is_some()
        || free_meaning(name).is_some()
        || is_other_memory(name)
        || is_total(name)
}
