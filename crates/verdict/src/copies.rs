//! Forked processes that make shared pages their own: reference counts are written, and the kernel copies the page.
//!
//! Each worker's resident size stays flat meanwhile, so no curve shows it; the sharing does, read now and then.

use crate::budget::fits;
use crate::live::LiveJudge;
use crate::phrases::{number, size};
use crate::run::WORTH;
use crate::track::Track;
use crate::verdict::{Fits, Kind, Outcome, RuledOut, Verdict};
use lowtide_model::{Bytes, ProcKey, Role};
use std::collections::BTreeMap;

/// Of the memory a forked process made its own, this part must have left the shared pages.
const FROM_SHARED: f64 = 0.5;

/// What all such processes did together.
#[derive(Default)]
struct Unshared {
    count: usize,
    /// How far private pages rose and shared ones fell.
    private: f64,
    shared: f64,
    /// What is theirs now, and what they may still copy.
    own: f64,
    ahead: f64,
    /// The one that copied most.
    largest: Option<(f64, ProcKey)>,
}

/// How far private pages rose and shared ones fell, where sharing was read twice.
fn moved(track: &Track) -> Option<(f64, f64)> {
    let (first, last) = track.first_pss.zip(track.last_pss)?;
    let up = last.private.as_f64() - first.private.as_f64();
    Some((up, first.shared.as_f64() - last.shared.as_f64()))
}

/// Whether what a process made its own came out of the pages it shared.
pub(crate) fn copies_pages(track: &Track) -> bool {
    moved(track).is_some_and(|(up, down)| up > 0.0 && down >= FROM_SHARED * up)
}

impl LiveJudge {
    /// Forked processes whose private pages grow while the shared ones shrink.
    pub(crate) fn copies(&self, role: &BTreeMap<ProcKey, Role>) -> Option<Verdict> {
        let found = self.unshared();
        let (_, key) = found.largest?;
        let mut verdict = self.tracks.get(&key)?.private.verdict_as(Kind::WorkerCopies);
        verdict.outcome = self.when_all_is_copied(&found);
        found.tell(&mut verdict);
        verdict.process = Some(self.named(key, role.get(&key).copied().unwrap_or(Role::Unknown)));
        Some(verdict)
    }

    fn unshared(&self) -> Unshared {
        let mut found = Unshared::default();
        for (key, track) in &self.tracks {
            let forked = self.processes.get(key).is_some_and(|p| !p.execed);
            let Some((up, down)) = moved(track).filter(|_| forked && copies_pages(track)) else { continue };
            let Some(last) = track.last_pss.filter(|_| up > WORTH * self.doubt) else { continue };
            found.count += 1;
            found.private += up;
            found.shared += down;
            found.own += last.private.as_f64();
            found.ahead += last.shared.as_f64();
            found.largest = found.largest.filter(|l| l.0 >= up).or(Some((up, *key)));
        }
        found
    }

    /// Workers that copied everything hold what is theirs now and all they still share.
    fn when_all_is_copied(&self, found: &Unshared) -> Outcome {
        let (limit, limit_from) = self.limit(found.own);
        let (needs, limit_bytes) = (found.own + found.ahead, limit.map(Bytes::as_f64));
        let is = limit_bytes.map_or(Fits::Unknown, |limit| fits(needs, limit));
        Outcome { is, needs_bytes: Some(needs), limit_bytes, limit_from, death: None }
    }
}

impl Unshared {
    fn tell(&self, verdict: &mut Verdict) {
        let (own, left, all) = (size(self.own), size(self.ahead), size(self.own + self.ahead));
        let fits = match (verdict.outcome.is, verdict.outcome.limit_bytes.map(size)) {
            (Fits::Fits, Some(limit)) => format!("; it fits: {all} of {limit}"),
            (Fits::Tight, Some(limit)) => format!("; tight: {all} of {limit}"),
            (Fits::Exceeds, Some(limit)) => format!("; it does not fit: {all} of {limit}"),
            (Fits::Fits | Fits::Tight | Fits::Exceeds | Fits::Unknown, _) => String::new(),
        };
        let (count, private, shared) = (self.count, size(self.private), size(self.shared));
        verdict.headline = format!(
            "worker copies: {count} forked processes made {private} of shared pages their own; it ends when all is copied or they restart{fits}"
        );
        verdict.evidence = vec![
            format!(
                "private pages rose by {private} while shared ones fell by {shared} over {count} processes"
            ),
            format!("they hold {own} of their own and still share {left}, which they may copy too"),
        ];
        let because =
            format!("what became private came out of the shared pages: no more than {left} are left to copy");
        verdict.ruled_out = vec![RuledOut { kind: Kind::Leak, because }];
        verdict.disprove = format!(
            "restart the workers: together they must begin below {own} again, and never come to hold more than {all}"
        );
        verdict.why = vec![
            "decided by: the sharing of pages, read now and then; the curve has no say".to_owned(),
            format!(
                "would change it: private pages that grow while less than {} % of that leaves the shared ones",
                number(100.0 * FROM_SHARED)
            ),
        ];
        verdict.confidence = 0.9;
    }
}
