//! One way to fail: what was tried on which thing, why it did not work, and what to do about it.

use std::error::Error;
use std::fmt::Write as _;

/// lowtide could not do it.
pub(crate) const COULD_NOT: u8 = 2;

/// Something lowtide could not do, as a person reads it.
#[derive(Debug)]
pub(crate) struct Failure {
    what: String,
    because: Vec<String>,
    hint: Option<String>,
}

impl Failure {
    pub(crate) fn new(what: impl Into<String>) -> Self {
        Self { what: what.into(), because: Vec::new(), hint: None }
    }

    /// Adds what caused it.
    pub(crate) fn because(mut self, cause: impl std::fmt::Display) -> Self {
        self.because.push(format!("{cause}"));
        self
    }

    /// Adds what to do about it.
    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// All of it in one line, for a table or a report.
    pub(crate) fn sentence(&self) -> String {
        let because = self.because.iter().map(|cause| format!(": {cause}"));
        let hint = self.hint.iter().map(|hint| format!("; {hint}"));
        std::iter::once(self.what.clone()).chain(because).chain(hint).collect()
    }

    /// As printed on standard error.
    pub(crate) fn text(&self) -> String {
        let mut text = format!("error: {}\n", self.what);
        for cause in &self.because {
            let _ = writeln!(text, "  because: {cause}");
        }
        if let Some(hint) = &self.hint {
            let _ = writeln!(text, "  hint: {hint}");
        }
        text
    }
}

impl<E: Error> From<E> for Failure {
    fn from(error: E) -> Self {
        let mut failure = Self::new(error.to_string());
        let mut cause = error.source();
        while let Some(inner) = cause {
            failure.because.push(inner.to_string());
            cause = inner.source();
        }
        failure
    }
}
