//! Advice that depends on how the run stands: what is right for a curve is wrong for a job that is over, or that ends
//! before there is an answer, or that has no room left.
//!
//! Not here: what to do about each kind (see `outlook`), and about causes beside the curve (see `causes`).

use crate::outlook::AND_SCAN;
use crate::phrases::size;
use crate::verdict::{Fits, Kind, Verdict};

/// How a run stands.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Standing {
    /// Whether it is over.
    pub(crate) ended: bool,
    /// Seconds seen of it, where they are its axis: as many more are to be looked at before explanations part.
    pub(crate) seconds: Option<f64>,
}

impl Verdict {
    /// Replaces the general advice, which stands first, where it would not help.
    pub(crate) fn suit_advice(&mut self, standing: Standing) {
        let suited = self.suited(standing);
        if let Some((general, suited)) = self.advice.first_mut().zip(suited) {
            *general = suited;
        }
    }

    fn suited(&self, Standing { ended, seconds }: Standing) -> Option<String> {
        let limit = size(self.outcome.limit_bytes.unwrap_or(0.0));
        let needs = size(self.outcome.needs_bytes.unwrap_or(0.0));
        match (self.verdict, self.outcome.is) {
            _ if self.outcome.death.is_some() => None,
            (Kind::TooEarly, Fits::Exceeds) if self.limit_comes_first(seconds) => {
                let when = if ended {
                    "before the next run"
                } else {
                    "do not wait, the limit comes before the answer"
                };
                Some(format!(
                    "{when}: bound what is kept (a cache in bytes, fewer examples) or give the job more than {limit}{AND_SCAN}"
                ))
            }
            (Kind::TooEarly, _) if ended => {
                Some("record a longer run: this one was over before it could be told".to_owned())
            }
            (Kind::Steady | Kind::WarmUp | Kind::PageCache, Fits::Tight | Fits::Exceeds) => Some(format!(
                "nothing leaks, but {needs} of {limit} leave little room: raise the limit, or let the job hold less: a smaller batch, fewer workers"
            )),
            _ => None,
        }
    }

    /// Whether nobody needs to know which explanation is right: a fill exceeds the limit too, or the limit is reached
    /// before they part.
    fn limit_comes_first(&self, seconds: Option<f64>) -> bool {
        let fill = self.fill.and_then(|fill| Some(fill.needs(fill.examples?)));
        let fill_exceeds = fill.zip(self.outcome.limit_bytes).is_some_and(|(needs, limit)| needs > limit);
        let within = self.forecast.and_then(|forecast| forecast.in_seconds);
        let soon = within.zip(seconds).is_some_and(|(within, seconds)| within <= seconds);
        let reached = self.forecast.and_then(|forecast| forecast.at_step);
        fill_exceeds
            || soon
            || reached.zip(self.decided_at_step).is_some_and(|(reached, decided)| reached <= decided)
    }
}

#[cfg(test)]
mod tests {
    use super::Standing;
    use crate::{Fits, Kind, judge};
    use lowtide_model::{Axis, Bytes, Context, Curve};

    const MIB: f64 = 1_048_576.0;
    const OVER: Standing = Standing { ended: true, seconds: None };

    /// Eighty steps that begin at 100 MiB and take `each` more a step, under a limit.
    fn curve(each: f64, limit_mib: u64, context: Context) -> Curve {
        let x: Vec<f64> = (1..=80).map(f64::from).collect();
        let y = x.iter().map(|step| (100.0 + each * step) * MIB).collect();
        let context = Context { limit: Some(Bytes::from_mib(limit_mib)), ..context };
        Curve { axis: Axis::Step, x, y, context, ..Curve::default() }
    }

    #[test]
    fn a_level_near_its_limit_is_not_told_that_there_is_nothing_to_do() {
        let tight = judge(&curve(0.0, 105, Context::default()));
        assert_eq!((tight.verdict, tight.outcome.is), (Kind::Steady, Fits::Tight));
        assert!(tight.advice[0].contains("100 MiB of 105 MiB leave little room"), "{:?}", tight.advice);
        let roomy = judge(&curve(0.0, 500, Context::default()));
        assert_eq!(roomy.advice[0], "nothing to do");
    }

    #[test]
    fn nobody_waits_for_an_answer_that_the_limit_comes_before() {
        let context =
            Context { examples: Some(8000.0), batch: Some(4.0), epochs: Some(3.0), ..Context::default() };
        let early = judge(&curve(2.0, 500, context.clone()));
        assert_eq!((early.verdict, early.outcome.is), (Kind::TooEarly, Fits::Exceeds));
        assert!(early.advice[0].starts_with("do not wait"), "{:?}", early.advice);
        assert!(early.headline.contains("; the limit is reached at step 200"), "{}", early.headline);
        let mut over = early.clone();
        over.suit_advice(OVER);
        assert!(over.advice[0].starts_with("before the next run: bound"), "{:?}", over.advice);
        let mut fits = judge(&curve(2.0, 9000, context));
        assert_eq!((fits.verdict, fits.advice[0].as_str()), (Kind::TooEarly, "let it run on and look again"));
        fits.suit_advice(OVER);
        assert!(fits.advice[0].starts_with("record a longer run"), "{:?}", fits.advice);
    }
}
