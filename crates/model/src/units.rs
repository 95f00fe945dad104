//! Sizes that know their unit.
//!
//! The kernel speaks kB (meaning KiB) and pages, people write MB and GiB: both enter here and nowhere else.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// A size in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Bytes(pub u64);

/// A difference of two sizes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ByteDelta(pub i64);

impl Bytes {
    /// Nothing.
    pub const ZERO: Self = Self(0);

    /// The kernel's "kB", which is 1,024 bytes. A lying number saturates instead of wrapping.
    pub const fn from_kib(kib: u64) -> Self {
        Self(kib.saturating_mul(1024))
    }

    /// A size in mebibytes.
    pub const fn from_mib(mib: u64) -> Self {
        Self(mib.saturating_mul(1024 * 1024))
    }

    /// A number of pages of `page` bytes each.
    pub const fn from_pages(pages: u64, page: u64) -> Self {
        Self(pages.saturating_mul(page))
    }

    /// `self - other`, or zero.
    #[must_use]
    pub const fn saturating_sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }

    /// `self + other`, or the largest size there is.
    #[must_use]
    pub const fn saturating_add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }

    /// How far `self` is from `other`, with its sign.
    pub const fn since(self, other: Self) -> ByteDelta {
        let wide = self.0 as i128 - other.0 as i128;
        if wide > i64::MAX as i128 {
            ByteDelta(i64::MAX)
        } else if wide < i64::MIN as i128 {
            ByteDelta(i64::MIN)
        } else {
            ByteDelta(wide as i64)
        }
    }

    /// The distance between two sizes, without sign.
    #[must_use]
    pub const fn distance(self, other: Self) -> Self {
        Self(self.0.abs_diff(other.0))
    }

    /// As a float, for arithmetic on curves.
    pub const fn as_f64(self) -> f64 {
        self.0 as f64
    }

    /// From a float; NaN and negatives become zero, infinity the largest size.
    pub fn from_f64(value: f64) -> Self {
        Self(value.round() as u64)
    }
}

impl std::iter::Sum for Bytes {
    fn sum<I: Iterator<Item = Self>>(iter: I) -> Self {
        iter.fold(Self::ZERO, Self::saturating_add)
    }
}

const STEPS: [(&str, f64); 5] = [
    ("B", 1.0),
    ("KiB", 1024.0),
    ("MiB", 1_048_576.0),
    ("GiB", 1_073_741_824.0),
    ("TiB", 1_099_511_627_776.0),
];

fn write_size(f: &mut fmt::Formatter<'_>, size: f64) -> fmt::Result {
    // 1,023.96 MiB would print as "1024 MiB": step up as soon as rounding would.
    let (symbol, unit) = STEPS.iter().rev().find(|(_, unit)| size >= unit * 0.9995).unwrap_or(&STEPS[0]);
    let value = size / unit;
    let digits = if *symbol == "B" || value >= 100.0 {
        0
    } else if value >= 10.0 {
        1
    } else {
        2
    };
    let text = format!("{value:.digits$} {symbol}");
    f.pad(&text)
}

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_size(f, self.0 as f64)
    }
}

impl fmt::Display for ByteDelta {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = if self.0 < 0 { "-" } else { "+" };
        let size = Bytes(self.0.unsigned_abs()).to_string();
        f.pad(&format!("{sign}{size}"))
    }
}

/// Why a text is not a size.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ParseBytesError {
    text: String,
}

impl fmt::Display for ParseBytesError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` is not a size; write it like 20GiB, 500MB or 1073741824", self.text)
    }
}

impl std::error::Error for ParseBytesError {}

impl FromStr for Bytes {
    type Err = ParseBytesError;

    /// Reads `20GiB`, `20 GB`, `1.5g`, `500MB`, `4096`. `GB` is 10^9, `GiB` and the bare letter `G` are 2^30.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let bad = || ParseBytesError { text: text.to_owned() };
        let trimmed = text.trim();
        let split = trimmed.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(trimmed.len());
        let (number, unit) = trimmed.split_at(split);
        let number: f64 = number.parse().map_err(|_| bad())?;
        let factor = unit_factor(unit.trim()).ok_or_else(bad)?;
        let size = number * factor;
        if !size.is_finite() || size > u64::MAX as f64 {
            return Err(bad());
        }
        Ok(Self(size.round() as u64))
    }
}

fn unit_factor(unit: &str) -> Option<f64> {
    let lower = unit.to_ascii_lowercase();
    let (letter, rest) = lower.split_at(lower.chars().next().map_or(0, char::len_utf8));
    let power = match letter {
        "" | "b" => 0,
        "k" => 1,
        "m" => 2,
        "g" => 3,
        "t" => 4,
        _ => return None,
    };
    match (power, rest) {
        (0, "") => Some(1.0),
        (p, "" | "ib") if p > 0 => Some(1024_f64.powi(p)),
        (p, "b") if p > 0 => Some(1000_f64.powi(p)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn people_read_three_digits_in_binary_units() {
        assert_eq!(Bytes(0).to_string(), "0 B");
        assert_eq!(Bytes::from_kib(1).to_string(), "1.00 KiB");
        assert_eq!(Bytes::from_mib(1536).to_string(), "1.50 GiB");
        assert_eq!(Bytes(1_073_700_000).to_string(), "1.00 GiB");
        assert_eq!(ByteDelta(-5 * 1_048_576).to_string(), "-5.00 MiB");
    }

    #[test]
    fn input_takes_decimal_and_binary_units() {
        assert_eq!("20GiB".parse(), Ok(Bytes(20 << 30)));
        assert_eq!("20 GB".parse(), Ok(Bytes(20_000_000_000)));
        assert_eq!("1.5g".parse(), Ok(Bytes(3 << 29)));
        assert_eq!("4096".parse(), Ok(Bytes(4096)));
        for bad in ["", "GB", "12 potatoes", "-1GB", "1e5GB", "99999999999TiB", "1..2"] {
            assert!(bad.parse::<Bytes>().is_err(), "{bad}");
        }
    }

    proptest! {
        #[test]
        fn no_text_panics(text in ".*") {
            let _ = text.parse::<Bytes>();
        }

        #[test]
        fn every_size_has_a_text(size: u64, delta: i64) {
            prop_assert!(!Bytes(size).to_string().is_empty());
            prop_assert!(!ByteDelta(delta).to_string().is_empty());
        }
    }
}
