//! Time inside a recording: nanoseconds since it began, on the boot clock, so suspend and clock jumps show as what they are.

use serde::{Deserialize, Serialize};
use std::time::Duration;

/// A moment, counted from the start of the recording. The calendar time of the start stands once, in the header.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Tick(pub u64);

impl Tick {
    /// The moment the recording began.
    pub const START: Self = Self(0);

    /// Seconds since the start.
    pub const fn seconds(self) -> f64 {
        self.0 as f64 / 1e9
    }

    /// From seconds since the start; negatives and NaN become the start.
    pub fn from_seconds(seconds: f64) -> Self {
        Self((seconds * 1e9) as u64)
    }

    /// The time that passed since `earlier`, or none.
    pub const fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

impl From<Duration> for Tick {
    fn from(duration: Duration) -> Self {
        Self(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX))
    }
}
