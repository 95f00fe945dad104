//! Sizes on the command line. A bare `32` is 32 bytes to a machine and 32 GB to who wrote it, so it is asked about.

use lowtide_model::Bytes;
use std::str::FromStr;

/// A number without a unit is a count of bytes from here on: programs write such numbers, people do not.
const PLAIN_FROM: Bytes = Bytes::from_mib(1);

/// A size above nothing, with its unit.
pub(super) fn parse_size(text: &str) -> Result<Bytes, String> {
    let size = Bytes::from_str(text).map_err(|error| error.to_string())?;
    let plain = text.trim().ends_with(|last: char| last.is_ascii_digit() || last == '.');
    if size == Bytes::ZERO {
        return Err("nothing fits into nothing; write a size like 20GiB or 500MB".to_owned());
    }
    if plain && size < PLAIN_FROM {
        let number = text.trim();
        return Err(format!("`{number}` has no unit; write {number}GiB, {number}GB or {number}MiB"));
    }
    Ok(size)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bare_number_is_asked_for_its_unit_unless_a_program_wrote_it() {
        assert_eq!(parse_size("32GB"), Ok(Bytes(32_000_000_000)));
        assert_eq!(parse_size("4k"), Ok(Bytes(4096)));
        assert_eq!(parse_size("34359738368"), Ok(Bytes(32 << 30)));
        assert_eq!(parse_size("512B"), Ok(Bytes(512)));
        for bare in ["32", "20.", "1.5", "4096"] {
            assert!(parse_size(bare).is_err_and(|error| error.contains("has no unit")), "{bare}");
        }
        for nothing in ["0", "0GB"] {
            assert!(parse_size(nothing).is_err_and(|error| error.contains("nothing")), "{nothing}");
        }
    }
}
