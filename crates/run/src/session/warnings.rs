//! What a session says aloud while the job runs: little, each thing once.

use super::{Once, Session, TIGHT_PART, WARNINGS_KEPT};
use crate::snapshot;
use lowtide_model::EventKind;

impl Session<'_> {
    pub(super) fn near_a_limit(&self, part: f64) -> bool {
        let tight = self.places.limits().first();
        tight.is_some_and(|tight| tight.headroom().as_f64() < tight.limit.as_f64() * part)
    }

    pub(super) fn warn_when_tight(&mut self) {
        let near = self.near_a_limit(TIGHT_PART);
        let Some(tight) = self.places.limits().first() else {
            return;
        };
        if !near || !self.live.said.insert(Once::Tight) {
            return;
        }
        let text = format!("{} left of {}", tight.headroom(), snapshot::limit_words(tight));
        self.warn(text);
    }

    pub(super) fn warn_of_the_store(&mut self) {
        if self.live.said.contains(&Once::Store) {
            return;
        }
        if let Some(trouble) = self.writer.health().trouble {
            self.live.said.insert(Once::Store);
            self.warn(format!("{trouble}; the job runs on, and nothing that can be kept is lost"));
        }
    }

    pub(super) fn warn(&mut self, text: String) {
        self.event(EventKind::Warning, None, text.clone());
        self.listener.warn(&text);
        self.show(text);
    }

    /// On every screen that follows us.
    pub(super) fn show(&mut self, text: String) {
        if self.live.warnings.len() >= WARNINGS_KEPT {
            self.live.warnings.pop_front();
        }
        self.live.warnings.push_back(text);
    }
}
