//! A call of the guard as a sentence.

use super::{Cause, Why};
use crate::phrases::size;

impl Why {
    /// Why the job is asked: every number can be checked in the recording.
    pub fn words(&self) -> String {
        let left = size((self.limit_bytes - self.used_bytes).max(0.0));
        let limit = size(self.limit_bytes);
        match (self.cause, self.evaluation) {
            (Cause::Evaluation, Some((step, takes))) => {
                format!("{left} left of {limit}, and the evaluation at step {step:.0} takes {}", size(takes))
            }
            (Cause::Growth | Cause::Evaluation, _) => {
                let grows = size(self.bytes_per_step);
                let save = match self.save_bytes {
                    Some(bytes) => format!("a save takes {} more", size(bytes)),
                    None => "what a save takes is not known yet".to_owned(),
                };
                format!("{left} left of {limit}; every step adds {grows}, and {save}")
            }
        }
    }
}
