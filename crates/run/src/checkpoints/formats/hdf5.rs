//! HDF5, the weights of Keras: the first block says where the file ends.

use super::{Flaw, Source, u64_at};

const SIGNATURE: &[u8] = b"\x89HDF\r\n\x1a\n";

/// How an HDF5 file begins.
pub(crate) fn begins(first: &[u8]) -> bool {
    first.starts_with(SIGNATURE)
}

/// Compares the end that the file names with the end it has.
pub(crate) fn whole(source: &(impl Source + ?Sized)) -> Result<(), Flaw> {
    let mut head = [0; 16];
    source.fill(0, &mut head)?;
    let version = head[8];
    // Where the end's address stands, and how wide an address is, depends on the version of the block.
    let (end_at, width) = match version {
        0 => (40, head[13]),
        1 => (44, head[13]),
        2 | 3 => (28, head[9]),
        _ => return Err(Flaw::wrong("is HDF5 of a version that is not known")),
    };
    if width != 8 {
        return Err(Flaw::wrong("is HDF5 with addresses of an unusual width"));
    }
    let (end, size) = (u64_at(source, end_at)?, source.size());
    if end > size { Err(Flaw::Cut(format!("holds {size} of {end} bytes"))) } else { Ok(()) }
}
