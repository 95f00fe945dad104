//! What came of trying to read a value: never a zero that means "don't know".

use serde::{Deserialize, Serialize};

/// A value read from a live system, or why there is none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reading<T> {
    /// The value.
    Known(T),
    /// This system does not have it.
    #[default]
    Unsupported,
    /// It is there, but we may not read it.
    Denied,
    /// The thing it belongs to is no longer there.
    Gone,
}

impl<T> Reading<T> {
    /// The value, if there is one.
    pub fn known(self) -> Option<T> {
        match self {
            Self::Known(value) => Some(value),
            Self::Unsupported | Self::Denied | Self::Gone => None,
        }
    }

    /// A reference to the value, if there is one.
    pub const fn as_known(&self) -> Option<&T> {
        match self {
            Self::Known(value) => Some(value),
            Self::Unsupported | Self::Denied | Self::Gone => None,
        }
    }

    /// Changes the value and keeps the reason for having none.
    pub fn map<U>(self, change: impl FnOnce(T) -> U) -> Reading<U> {
        match self {
            Self::Known(value) => Reading::Known(change(value)),
            Self::Unsupported => Reading::Unsupported,
            Self::Denied => Reading::Denied,
            Self::Gone => Reading::Gone,
        }
    }

    /// Goes on with the value and keeps the reason for having none.
    pub fn and_then<U>(self, next: impl FnOnce(T) -> Reading<U>) -> Reading<U> {
        match self {
            Self::Known(value) => next(value),
            Self::Unsupported => Reading::Unsupported,
            Self::Denied => Reading::Denied,
            Self::Gone => Reading::Gone,
        }
    }

    /// One word for people and for the recording.
    pub const fn word(&self) -> &'static str {
        match self {
            Self::Known(_) => "known",
            Self::Unsupported => "unsupported",
            Self::Denied => "denied",
            Self::Gone => "gone",
        }
    }
}

impl<T> From<Option<T>> for Reading<T> {
    /// A field that a kernel file does not have is unsupported there.
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Unsupported, Self::Known)
    }
}
