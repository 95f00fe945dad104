//! Turns weighed shapes and what the run knows of itself into one kind of verdict.
//!
//! Order matters: what can be lost, then whether enough was seen, then the data's own period, then the shape. A
//! shape alone never proves a leak inside the first pass over the data. Not here: fitting (see `shapes`), words.

use crate::shapes::{Fit, Shape};

/// What a fitted shape says about the end of the curve.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stand {
    /// No growth that counts.
    Flat,
    /// Grew and has stopped.
    Settled,
    /// Grows ever slower, or stopped so late that the rest is no proof.
    Open,
    /// Grows to the end.
    Rising,
}

impl Stand {
    /// The words people read in `--why`.
    pub(crate) const fn words(self) -> &'static str {
        match self {
            Self::Flat => "flat",
            Self::Settled => "settled",
            Self::Open => "slowing, not settled",
            Self::Rising => "rising to the end",
        }
    }
}

/// A rise over within this part of the curve is the start of the program, not a warm-up worth a name.
pub(crate) const START: f64 = 0.09;
/// A plateau must last this part of the curve before it is believed.
pub(crate) const PLATEAU: f64 = 0.22;
/// A curve that bends is settled when its last quarter adds less than this part of the whole rise.
pub(crate) const LAST_QUARTER: f64 = 0.10;

/// A stop within the last part of the curve is a pause like others before it: it says nothing.
pub(crate) const TOO_LATE: f64 = 0.86;
/// A saturation this fast is over before two fifths of the curve; a slower one under a line is only a bend.
const EARLY_BEND: f64 = 0.12;
/// A ramp that bends later than this leaves too little line to be believed on its own.
pub(crate) const LATE_BEND: f64 = 0.4;
/// ... unless it goes on at this part of its pace.
const PACE: f64 = 0.6;
/// A rise must be this many times what the floor misses the shape by, or it is one of the floor's own wanderings.
pub(crate) const ABOVE_MISFIT: f64 = 3.5;
/// What comes after the start counts as growth when it is at least this part of the whole rise: a rise is over when it
/// is within five per cent of its end, as engineers measure settling.
pub(crate) const AFTER_START: f64 = 0.05;

pub(crate) fn stand(fit: &Fit) -> Stand {
    let [a, b] = fit.knots;
    let ends = |at: f64| {
        if at <= START {
            Stand::Flat
        } else if at <= 1.0 - PLATEAU {
            Stand::Settled
        } else if at > TOO_LATE {
            Stand::Rising
        } else {
            Stand::Open
        }
    };
    let whole = fit.rise(0.0, 1.0);
    let top = if fit.shape == Shape::KneeFalling { fit.rise(0.0, a) } else { whole };
    if top < ABOVE_MISFIT * fit.error.sqrt() {
        return Stand::Flat;
    }
    // Measured from the first sample: what a program does at once is a part of its rise.
    let from_first = whole.max(fit.at(1.0) - fit.first);
    // A smooth shape lags behind a corner: where the start is over the floor itself is asked too.
    let later = fit.at(1.0) - fit.at(START).max(fit.started);
    if !fit.shape.is_rising() && fit.second <= START && later < AFTER_START * from_first {
        return Stand::Flat;
    }
    match fit.shape {
        Shape::Flat | Shape::Drop | Shape::Falling => Stand::Flat,
        Shape::Step if a > 1.0 - PLATEAU => Stand::Open,
        Shape::RampStep if b > 1.0 - PLATEAU => Stand::Open,
        Shape::Step => ends(a.max(fit.second)),
        Shape::Knee | Shape::KneeFalling => ends(a),
        Shape::Rise | Shape::TwoStage | Shape::RampStep => ends(b),
        Shape::Saturation | Shape::RampSaturation | Shape::Logarithm => bends(fit),
        Shape::SaturationLine if a > EARLY_BEND => Stand::Open,
        Shape::RampLine if a > LATE_BEND && fit.rise(a, 1.0) * a < PACE * fit.rise(0.0, a) * (1.0 - a) => {
            Stand::Open
        }
        Shape::Line
        | Shape::Accelerating
        | Shape::RampLine
        | Shape::Late
        | Shape::RampLate
        | Shape::SaturationLine => Stand::Rising,
    }
}

fn bends(fit: &Fit) -> Stand {
    let whole = fit.rise(0.0, 1.0);
    if fit.rise(0.75, 1.0) < LAST_QUARTER * whole { Stand::Settled } else { Stand::Open }
}

/// Evidence summed over what the shapes say.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Odds {
    pub(crate) flat: f64,
    pub(crate) settled: f64,
    pub(crate) open: f64,
    pub(crate) rising: f64,
}

impl Odds {
    pub(crate) fn of(fits: &[Fit]) -> Self {
        let mut odds = Self::default();
        for fit in fits {
            match stand(fit) {
                Stand::Flat => odds.flat += fit.weight,
                Stand::Settled => odds.settled += fit.weight,
                Stand::Open => odds.open += fit.weight,
                Stand::Rising => odds.rising += fit.weight,
            }
        }
        odds
    }
}
