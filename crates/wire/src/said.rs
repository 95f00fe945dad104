//! A mark that comes over the control socket: from a shell, from any language, from another lowtide command.

use lowtide_model::{MarkKind, MarkPhase};
use serde::{Deserialize, Serialize};

/// A longer name or a longer extra is not a mark but an accident.
const MOST_TEXT: usize = 4096;

/// A mark as somebody outside the job's processes says it. When and by whom, the recorder knows itself.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Said {
    /// What.
    pub kind: MarkKind,
    /// Start, end or point.
    #[serde(default = "point")]
    pub phase: MarkPhase,
    /// The absolute number; for what is no step, the newest step stands in.
    #[serde(default)]
    pub number: Option<f64>,
    /// Rank in a distributed run.
    #[serde(default)]
    pub rank: Option<u32>,
    /// Anything else: a JSON object, as text.
    #[serde(default)]
    pub extra: Option<String>,
}

const fn point() -> MarkPhase {
    MarkPhase::Point
}

impl Said {
    /// A mark of a kind that has a word of its own, or of one that is only a name.
    pub fn named(name: &str) -> Self {
        let kind = match name {
            "step" => MarkKind::Step,
            "epoch" => MarkKind::Epoch,
            "eval" | "evaluation" | "validation" => MarkKind::Eval,
            "save" | "checkpoint" => MarkKind::Save,
            "load" => MarkKind::Load,
            "info" => MarkKind::Info,
            _ => MarkKind::Custom,
        };
        let extra = (kind == MarkKind::Custom).then(|| serde_json::json!({ "name": name }).to_string());
        Self { kind, phase: MarkPhase::Point, number: None, rank: None, extra }
    }

    /// Adds an object to what the mark says besides. False when it is none, or too long.
    pub fn add(&mut self, object: &str) -> bool {
        let Ok(serde_json::Value::Object(more)) = serde_json::from_str(object) else {
            return false;
        };
        let before = self.extra.as_deref().and_then(|text| serde_json::from_str(text).ok());
        let mut all: serde_json::Map<String, serde_json::Value> = before.unwrap_or_default();
        all.extend(more);
        let text = serde_json::Value::Object(all).to_string();
        let fits = text.len() <= MOST_TEXT;
        if fits {
            self.extra = Some(text);
        }
        fits
    }

    /// Reads `KIND [NUMBER] [start|end|point] [JSON]`.
    pub fn from_words(line: &str) -> Option<Self> {
        let (line, object) = match line.find('{') {
            Some(at) => (&line[..at], Some(&line[at..])),
            None => (line, None),
        };
        let mut words = line.split_whitespace();
        let mut said = Self::named(words.next()?);
        for word in words {
            match (word, word.parse::<f64>()) {
                ("start", _) => said.phase = MarkPhase::Start,
                ("end", _) => said.phase = MarkPhase::End,
                ("point", _) => said.phase = MarkPhase::Point,
                (_, Ok(number)) => said.number = Some(number),
                (_, Err(_)) => return None,
            }
        }
        if object.is_some_and(|object| !said.add(object)) {
            return None;
        }
        said.checked()
    }

    /// The mark, if it makes sense: a step has a number, numbers are finite, texts are short.
    pub fn checked(self) -> Option<Self> {
        let numbered = self.kind != MarkKind::Step || self.number.is_some();
        let finite = self.number.is_none_or(f64::is_finite);
        let short = self.extra.as_ref().is_none_or(|text| text.len() <= MOST_TEXT);
        (numbered && finite && short).then_some(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn words_say_all_that_a_mark_holds() {
        let said = Said::from_words("eval 120 start {\"name\": \"held out\"}").unwrap();
        assert_eq!((said.kind, said.phase, said.number), (MarkKind::Eval, MarkPhase::Start, Some(120.0)));
        assert_eq!(said.extra.as_deref(), Some("{\"name\":\"held out\"}"));
    }

    #[test]
    fn a_name_of_the_users_own_is_a_custom_mark_with_that_name() {
        let said = Said::from_words("warm-up {\"a\":1}").unwrap();
        assert_eq!(said.kind, MarkKind::Custom);
        assert_eq!(said.extra.as_deref(), Some("{\"a\":1,\"name\":\"warm-up\"}"));
    }

    #[test]
    fn what_makes_no_sense_is_no_mark() {
        for line in ["", "step", "step nan", "step inf", "step 1 {", "step 1 {\"a\"}", "step 1 2x"] {
            assert!(Said::from_words(line).is_none(), "{line}");
        }
    }

    proptest! {
        #[test]
        fn no_line_panics_and_what_is_taken_is_sane(line in ".{0,200}") {
            if let Some(said) = Said::from_words(&line) {
                prop_assert!(said.number.is_none_or(f64::is_finite));
            }
        }
    }
}
