//! Whether it fits, as a sentence.

use crate::phrases::both;
use crate::verdict::{Fits, Kind, Verdict};

impl Verdict {
    /// Needs, limit and confidence in words: what stands under the headline wherever a person reads.
    pub fn outcome_words(&self) -> String {
        let Self { outcome, confidence, .. } = self;
        let limit = outcome.limit_bytes.map(|limit| {
            let from = outcome.limit_from.as_deref().map(|from| format!(", from {from}")).unwrap_or_default();
            format!("the limit is {}{from}", both(limit))
        });
        let words = match (outcome.is, outcome.needs_bytes, limit) {
            (Fits::Exceeds, _, Some(limit)) if outcome.death.is_some() => {
                format!("exceeds: it needed more than there was; {limit}")
            }
            (Fits::Fits, Some(needs), Some(limit)) => format!("fits: needs at most {}; {limit}", both(needs)),
            (Fits::Tight, Some(needs), Some(limit)) => format!("tight: needs up to {}; {limit}", both(needs)),
            (Fits::Exceeds, _, Some(limit)) if self.verdict == Kind::TooEarly => {
                format!("exceeds, if it goes on like this; {limit}")
            }
            (Fits::Exceeds, Some(needs), Some(limit)) => format!("exceeds: needs {}; {limit}", both(needs)),
            (Fits::Exceeds, None, Some(limit)) => format!("exceeds: nothing bounds it; {limit}"),
            (Fits::Tight, None, Some(limit)) => format!("tight: its peaks get higher; {limit}"),
            (Fits::Unknown, _, Some(limit)) => {
                format!("unknown: it is too early to say what will be needed; {limit}")
            }
            (Fits::Unknown | Fits::Fits | Fits::Tight | Fits::Exceeds, Some(needs), _) => {
                let when = if self.ahead_bytes > 0.0 { "in the end" } else { "so far" };
                format!("unknown: {} {when}, and no limit is known (--limit tells one)", both(needs))
            }
            (Fits::Unknown | Fits::Fits | Fits::Tight | Fits::Exceeds, None, _) => {
                "unknown: no limit is known (--limit tells one)".to_owned()
            }
        };
        format!("{words}. Confidence {confidence:.2}")
    }
}
