//! JSON as Python writes it, NaN and Infinity included: is it whole, and which number stands under a key.
//!
//! A scanner of its own because the state of a Trainer holds every logged loss, and a loss may be NaN, which is no JSON;
//! and because memory has to stay flat whatever a file says: of a word of any length only the beginning is kept. It reads
//! as it goes: a state of a week's run is long, and so is the header of a model of many tensors.

use super::{Flaw, Source, Stretch};
use std::io::{BufReader, Read};

/// Deeper than anything a framework writes.
const DEEPEST: usize = 200;
/// Longer than any key or number that is asked for.
const LONGEST_WORD: usize = 64;

/// What is met on the way, with how many brackets are open around it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Met<'a> {
    /// The name of a value that comes.
    Key(usize, &'a [u8]),
    /// A text, a number or a word, as far as it is kept.
    Value(usize, &'a [u8]),
    /// A bracket opens; it counts itself.
    Opens(usize),
    /// The bracket that was counted so closes.
    Closes(usize),
}

/// Checks that brackets and quotes close, and gives the whole number under `key` of the outermost object.
pub(crate) fn number_under(source: &(impl Source + ?Sized), key: &str) -> Result<Option<u64>, Flaw> {
    let (mut asked, mut found) = (false, None);
    walk(source, 0, source.size(), |met| {
        match met {
            Met::Key(1, word) => asked = !key.is_empty() && word == key.as_bytes(),
            Met::Value(1, word) if asked => found = number(word),
            Met::Opens(_) | Met::Value(1, _) => asked = false,
            Met::Key(..) | Met::Value(..) | Met::Closes(_) => {}
        }
        Ok(())
    })?;
    Ok(found)
}

/// Checks that it is whole.
pub(crate) fn whole(source: &(impl Source + ?Sized)) -> Result<(), Flaw> {
    number_under(source, "").map(drop)
}

/// A whole number.
pub(super) fn number(word: &[u8]) -> Option<u64> {
    std::str::from_utf8(word).ok()?.parse().ok()
}

/// Goes through a stretch of a file that has to be one object or list, and tells what it meets.
pub(super) fn walk(
    source: &(impl Source + ?Sized),
    at: u64,
    bytes: u64,
    mut each: impl FnMut(Met<'_>) -> Result<(), Flaw>,
) -> Result<(), Flaw> {
    let mut scan = Scan::default();
    for byte in BufReader::new(Stretch::new(source, at, bytes)).bytes() {
        scan.take(byte?, &mut each)?;
    }
    scan.end()
}

#[derive(Default)]
struct Scan {
    open: Vec<u8>,
    began: bool,
    text: Option<Text>,
    /// The text, number or name that was read last, as far as it may matter.
    word: Vec<u8>,
}

#[derive(PartialEq, Eq)]
enum Text {
    Plain,
    Escaped,
}

type Each<'a> = dyn FnMut(Met<'_>) -> Result<(), Flaw> + 'a;

impl Scan {
    fn take(&mut self, byte: u8, each: &mut Each<'_>) -> Result<(), Flaw> {
        if byte < b' ' && (self.text.is_some() || !byte.is_ascii_whitespace()) {
            return Err(Flaw::wrong("is not JSON"));
        }
        match (&self.text, byte) {
            (Some(Text::Escaped), _) => self.text = Some(Text::Plain),
            (Some(Text::Plain), b'\\') => self.text = Some(Text::Escaped),
            (Some(Text::Plain), b'"') => self.text = None,
            (Some(Text::Plain), _) => self.keep(byte),
            (None, _) => return self.outside(byte, each),
        }
        Ok(())
    }

    fn outside(&mut self, byte: u8, each: &mut Each<'_>) -> Result<(), Flaw> {
        if self.open.is_empty() && self.began && !byte.is_ascii_whitespace() {
            return Err(Flaw::wrong("goes on behind its last bracket"));
        }
        match byte {
            b'"' => {
                self.word.clear();
                self.text = Some(Text::Plain);
            }
            b'{' | b'[' => self.opens(byte, each)?,
            b'}' | b']' => self.closes(byte, each)?,
            b':' => {
                each(Met::Key(self.open.len(), &self.word))?;
                self.word.clear();
            }
            b',' => self.value_ends(each)?,
            _ if byte.is_ascii_whitespace() => {}
            _ => self.keep(byte),
        }
        if self.began || byte.is_ascii_whitespace() { Ok(()) } else { Err(Flaw::wrong("is not JSON")) }
    }

    fn opens(&mut self, byte: u8, each: &mut Each<'_>) -> Result<(), Flaw> {
        self.began = true;
        self.word.clear();
        self.open.push(byte);
        if self.open.len() > DEEPEST {
            return Err(Flaw::wrong("is nested too deeply"));
        }
        each(Met::Opens(self.open.len()))
    }

    fn closes(&mut self, byte: u8, each: &mut Each<'_>) -> Result<(), Flaw> {
        self.value_ends(each)?;
        let opened = if byte == b'}' { b'{' } else { b'[' };
        if self.open.pop() == Some(opened) {
            each(Met::Closes(self.open.len() + 1))
        } else {
            Err(Flaw::wrong("has a bracket that fits no other"))
        }
    }

    fn value_ends(&mut self, each: &mut Each<'_>) -> Result<(), Flaw> {
        if !self.word.is_empty() {
            each(Met::Value(self.open.len(), &self.word))?;
        }
        self.word.clear();
        Ok(())
    }

    fn keep(&mut self, byte: u8) {
        if self.word.len() < LONGEST_WORD {
            self.word.push(byte);
        }
    }

    fn end(self) -> Result<(), Flaw> {
        if self.began && self.open.is_empty() && self.text.is_none() {
            Ok(())
        } else {
            Err(Flaw::cut("ends before its last bracket"))
        }
    }
}
