//! JSON as Python writes it, NaN and Infinity included: is it whole, and which number stands under a key.
//!
//! A scanner of its own because the state of a Trainer holds every logged loss, and a loss may be NaN, which is no JSON.
//! It reads as it goes: a state of a week's run is long.

use super::{Flaw, Source, Stretch};
use std::io::{BufReader, Read};

/// Deeper than anything a framework writes.
const DEEPEST: usize = 200;
/// Longer than any key or number that is asked for.
const LONGEST_WORD: usize = 64;

/// Checks that brackets and quotes close, and gives the whole number under `key` of the outermost object.
pub(crate) fn number_under(source: &(impl Source + ?Sized), key: &str) -> Result<Option<u64>, Flaw> {
    let mut scan = Scan { wanted: key.as_bytes(), ..Scan::default() };
    for byte in BufReader::new(Stretch::new(source, 0, source.size())).bytes() {
        scan.take(byte?)?;
    }
    scan.end()
}

/// Checks that it is whole.
pub(crate) fn whole(source: &(impl Source + ?Sized)) -> Result<(), Flaw> {
    number_under(source, "").map(drop)
}

#[derive(Default)]
struct Scan<'a> {
    wanted: &'a [u8],
    open: Vec<u8>,
    began: bool,
    text: Option<Text>,
    /// The text, number or name that was read last, as far as it may matter.
    word: Vec<u8>,
    /// The last text was a key that is wanted, and its value comes.
    asked: bool,
    found: Option<u64>,
}

#[derive(PartialEq, Eq)]
enum Text {
    Plain,
    Escaped,
}

impl Scan<'_> {
    fn take(&mut self, byte: u8) -> Result<(), Flaw> {
        match (&self.text, byte) {
            (Some(Text::Escaped), _) => self.text = Some(Text::Plain),
            (Some(Text::Plain), b'\\') => self.text = Some(Text::Escaped),
            (Some(Text::Plain), b'"') => self.text = None,
            (Some(Text::Plain), _) => self.keep(byte),
            (None, _) => return self.outside(byte),
        }
        Ok(())
    }

    fn outside(&mut self, byte: u8) -> Result<(), Flaw> {
        if self.open.is_empty() && self.began && !byte.is_ascii_whitespace() {
            return Err(Flaw::wrong("goes on behind its last bracket"));
        }
        match byte {
            b'"' => {
                self.word.clear();
                self.text = Some(Text::Plain);
            }
            b'{' | b'[' => self.opens(byte)?,
            b'}' | b']' => self.closes(byte)?,
            b':' => {
                self.asked = self.open.len() == 1 && !self.wanted.is_empty() && self.word == self.wanted;
                self.word.clear();
            }
            b',' => self.value_ends(),
            _ if byte.is_ascii_whitespace() => {}
            _ => self.keep(byte),
        }
        if self.began || byte.is_ascii_whitespace() { Ok(()) } else { Err(Flaw::wrong("is not JSON")) }
    }

    fn opens(&mut self, byte: u8) -> Result<(), Flaw> {
        self.began = true;
        self.word.clear();
        self.asked = false;
        self.open.push(byte);
        if self.open.len() > DEEPEST { Err(Flaw::wrong("is nested too deeply")) } else { Ok(()) }
    }

    fn closes(&mut self, byte: u8) -> Result<(), Flaw> {
        self.value_ends();
        let opened = if byte == b'}' { b'{' } else { b'[' };
        if self.open.pop() == Some(opened) {
            Ok(())
        } else {
            Err(Flaw::wrong("has a bracket that fits no other"))
        }
    }

    fn value_ends(&mut self) {
        if self.asked {
            self.found = std::str::from_utf8(&self.word).ok().and_then(|word| word.parse().ok());
            self.asked = false;
        }
        self.word.clear();
    }

    fn keep(&mut self, byte: u8) {
        if self.word.len() < LONGEST_WORD {
            self.word.push(byte);
        }
    }

    fn end(self) -> Result<Option<u64>, Flaw> {
        if self.began && self.open.is_empty() && self.text.is_none() {
            Ok(self.found)
        } else {
            Err(Flaw::cut("ends before its last bracket"))
        }
    }
}
