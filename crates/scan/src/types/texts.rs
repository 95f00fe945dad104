//! Which objects are texts, told before their type was ever met: by the flags that every type has.
//!
//! Names are read at places where anything may stand; what is no text must never be shown as one.

use super::{Family, family, field, flag};
use crate::reader::{Reader, half, plausible, word};

/// Whether the object at an address is a text, by the flags of its type.
pub(crate) fn is_text(reader: &Reader<'_>, address: u64) -> bool {
    let of = address.checked_add(field::TYPE as u64).and_then(|at| reader.word(at));
    let of = of.filter(|of| plausible(*of)).and_then(|of| of.checked_add(field::FLAGS as u64));
    of.and_then(|at| reader.word(at))
        .is_some_and(|flags| flags & flag::READY != 0 && family(flags) == Family::Str)
}

/// Looks in bytes of a library's data for a type of texts: which is of the type of types and derived from no other type of texts
/// there.
pub(crate) fn text_type(bytes: &[u8], base: u64, type_type: u64) -> Option<u64> {
    (0..bytes.len().saturating_sub(field::END)).step_by(8).find_map(|at| {
        let flags = word(bytes, at + field::FLAGS);
        let fits = word(bytes, at + field::TYPE) == type_type
            && flags & (flag::READY | flag::HEAP_TYPE) == flag::READY
            && family(flags) == Family::Str
            && half(bytes, at) != 0;
        fits.then_some(base + at as u64)
    })
}
