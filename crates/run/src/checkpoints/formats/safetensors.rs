//! Safetensors: a length, a JSON header that says where each tensor lies, the tensors.
//!
//! The header may be 100 MB long, and lowtide reads it when memory is short: it is gone through byte by byte, and nothing
//! of it is kept but the end of the last tensor.

use super::json::{Met, number, walk};
use super::{Flaw, Source, u64_at};

/// The format's own limit for a header.
const LONGEST_HEADER: u64 = 100_000_000;

/// Compares the end of the last tensor with the end of the file.
pub(crate) fn whole(source: &(impl Source + ?Sized)) -> Result<(), Flaw> {
    let size = source.size();
    let header = u64_at(source, 0)?;
    if !(2..=LONGEST_HEADER).contains(&header) {
        return Err(Flaw::wrong("does not begin with the length of a safetensors header"));
    }
    if 8 + header > size {
        return Err(Flaw::cut("ends inside its header"));
    }
    let mut tensors = Tensors::default();
    walk(source, 8, header, |met| tensors.take(met)).map_err(of_header)?;
    match tensors.end.checked_add(8 + header) {
        Some(wanted) if wanted == size => Ok(()),
        Some(wanted) if wanted > size => Err(Flaw::Cut(format!("holds {size} of {wanted} bytes"))),
        _ => Err(Flaw::wrong("is longer than its tensors")),
    }
}

/// What a flaw of the header says of the file.
fn of_header(flaw: Flaw) -> Flaw {
    match flaw {
        Flaw::Cut(_) => Flaw::cut("ends inside its header"),
        Flaw::Wrong(why) => Flaw::Wrong(format!("has a header that {why}")),
    }
}

fn senseless() -> Flaw {
    Flaw::wrong("makes no sense")
}

/// Takes the end of the last tensor, one tensor at a time.
#[derive(Default)]
struct Tensors {
    end: u64,
    /// What comes describes the file, not a tensor.
    about_file: bool,
    /// The offsets of a tensor come, or came.
    offsets_come: bool,
    offsets_came: bool,
    from: Option<u64>,
    until: Option<u64>,
}

impl Tensors {
    fn take(&mut self, met: Met<'_>) -> Result<(), Flaw> {
        match met {
            Met::Key(1, name) => {
                self.about_file = name == b"__metadata__";
                (self.offsets_come, self.offsets_came) = (false, false);
            }
            _ if self.about_file => {}
            Met::Key(2, name) => {
                self.offsets_come = name == b"data_offsets";
                (self.from, self.until) = (None, None);
            }
            Met::Value(3, word) if self.offsets_come => self.offset(word)?,
            Met::Closes(3) if self.offsets_come => self.offsets_end()?,
            // A tensor is an object, and tells where it lies.
            Met::Closes(2) if self.offsets_came => {}
            Met::Value(1, _) | Met::Closes(2) => return Err(senseless()),
            Met::Key(..) | Met::Value(..) | Met::Opens(_) | Met::Closes(_) => {}
        }
        Ok(())
    }

    fn offset(&mut self, word: &[u8]) -> Result<(), Flaw> {
        let number = Some(number(word).ok_or_else(senseless)?);
        match (self.from, self.until) {
            (None, _) => self.from = number,
            (Some(_), None) => self.until = number,
            (Some(_), Some(_)) => return Err(senseless()),
        }
        Ok(())
    }

    fn offsets_end(&mut self) -> Result<(), Flaw> {
        let (Some(from), Some(until)) = (self.from, self.until) else { return Err(senseless()) };
        if from > until {
            return Err(senseless());
        }
        self.end = self.end.max(until);
        (self.offsets_come, self.offsets_came) = (false, true);
        Ok(())
    }
}
