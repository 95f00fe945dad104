//! The whole reasoning behind an answer, for `--why`: the floor, the shapes that were tried with their scores, what was
//! known beside the curve, and what would change the answer.

use crate::assess::{ENOUGH_RUNNING, PASSES};
use crate::budget::pass;
use crate::decide::stand;
use crate::outlook::ROOM;
use crate::phrases::{counted, number, size};
use crate::verdict::{Group, Kind};
use crate::words::Story;
use lowtide_model::Axis;

impl Story<'_> {
    /// The whole reasoning.
    pub(crate) fn why(&self) -> Vec<String> {
        let s = self.seen;
        let (points, samples) = (counted(s.floor.len() as f64, "point"), counted(s.samples as f64, "sample"));
        let mut lines = vec![
            format!("floor: {points} from {samples}, scatter {}", size(s.floor.noise)),
            format!(
                "neighbouring points correlate by {:.2}: {points} count as {:.1}",
                s.correlation, s.effective
            ),
        ];
        for fit in s.fits.iter().take(8) {
            lines.push(format!(
                "shape: {:<34} weight {:.3}, misfit {}, says {}",
                fit.shape.words(),
                fit.weight,
                size(fit.error.sqrt()),
                stand(fit).words()
            ));
        }
        let o = s.odds;
        lines.push(format!(
            "evidence: flat {:.2}, settled {:.2}, slowing {:.2}, rising {:.2}",
            o.flat, o.settled, o.open, o.rising
        ));
        if let Some(pace) = s.pace {
            lines.push(format!("pace at the end over pace at the start, lower bound: {pace:.2}"));
        }
        if let Some(odds) = s.goes_on {
            lines.push(format!("odds that the rise goes on: {:.2} to 1", odds.exp()));
        }
        if let Some(odds) = s.so_far {
            let asked = ENOUGH_RUNNING.exp();
            lines.push(format!(
                "while the run goes on: {:.2} to 1, lines that stop counted in ({asked:.1} make a leak)",
                odds.exp()
            ));
        }
        lines.extend(self.pass_known());
        lines.extend(self.known());
        lines.push(format!("decided by: {}", s.because.words()));
        lines.push(format!("would change it: {}", self.would_change()));
        lines
    }

    fn pass_known(&self) -> Option<String> {
        let Some(pass) = pass(self.context, self.axis) else {
            let unknown =
                "the length of a pass over the data is not known: it would decide between a fill and a leak";
            return (self.kind.group() != Group::Flat).then(|| unknown.to_owned());
        };
        let (place, seen) = (self.place(pass), number(self.facts.last / pass));
        Some(format!("one pass over the data: {place} ({seen} seen; a leak is called from {PASSES} on)"))
    }

    /// What was known beside the curve: told by marks, by the file or by the user.
    fn known(&self) -> Vec<String> {
        let c = self.context;
        let places = [
            ("evaluation", c.validation_x.len()),
            ("save", c.save_x.len()),
            ("log", c.log_x.len()),
            ("shard", c.shard_x.len()),
            ("rollout", c.rollout_x.len()),
        ];
        let mut used: Vec<String> = places
            .iter()
            .filter(|(_, count)| *count > 0)
            .map(|(name, count)| counted(*count as f64, name))
            .collect();
        let numbers = [
            ("examples", c.examples),
            ("batch", c.batch),
            ("accumulation", c.accum),
            ("ranks", c.world_size),
            ("passes planned", c.epochs),
            ("steps a pass", c.epoch_steps),
            ("evaluation every", c.validation_every),
            ("restarts", c.restarts),
            ("threads", c.threads),
        ];
        used.extend(numbers.iter().filter_map(|(name, value)| Some(format!("{name} {}", number((*value)?)))));
        let mut lines = vec![if used.is_empty() {
            "marks and facts used: none; only the curve spoke".to_owned()
        } else {
            format!("marks and facts used: {}", used.join(", "))
        }];
        lines.extend(self.periods.why());
        lines
    }

    /// What would lead to another answer.
    fn would_change(&self) -> String {
        let f = self.facts;
        let more = self.length(0.3 * (f.last - f.first));
        let no_pass = pass(self.context, self.axis).is_none() && self.axis == Axis::Step;
        match self.kind.group() {
            Group::Leak if no_pass => format!(
                "a floor that stays for {more} more (bounded), or a data set whose first pass is not over yet (too early)"
            ),
            Group::Leak => format!("a floor that stays where it is for {more} more: then it settled"),
            Group::Bounded if self.kind == Kind::CacheFill => format!(
                "a floor that rises again by more than {}: then something leaks under the fill",
                size((0.1 * f.grown()).max(self.bound()))
            ),
            Group::Bounded => format!(
                "a floor that rises again by more than {}: then it has not settled",
                size((0.1 * f.grown()).max(self.bound()))
            ),
            Group::Flat => format!(
                "a floor that rises by more than {} over as long again",
                size((4.0 * f.noise).max(self.bound()).max(ROOM * f.end))
            ),
            Group::TooEarly => match self.decided() {
                Some(at) => format!("the samples up to step {at}"),
                None => format!("{more} more of it"),
            },
        }
    }
}
