//! Lets shapes compete for the floor: each is fitted, and evidence weighs them.
//!
//! A shape with more freedom always fits better, so each free number costs it evidence (the Bayesian information
//! criterion), and neighbouring floor points that move together count as fewer points than they are. The weights are
//! what `--why` shows. Not here: what a shape means for the user (see `decide`).

use crate::decide::START;
use crate::floor::{Floor, STRETCHES};

/// The shapes that compete, by what the floor does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Shape {
    /// Stays.
    Flat,
    /// Stays, then stays lower.
    Drop,
    /// Goes down.
    Falling,
    /// One step up, flat before and after.
    Step,
    /// Rises at the start, stays, then one step up: buffers of a first evaluation, a larger batch than any before.
    RampStep,
    /// Rises in a straight line to the end.
    Line,
    /// Rises ever faster.
    Accelerating,
    /// Rises fast, then slower but straight to the end.
    RampLine,
    /// Flat, then rises to the end.
    Late,
    /// Rises, stays, then rises to the end.
    RampLate,
    /// Saturates on top of a line that goes on: a fill with a leak under it.
    SaturationLine,
    /// Rises, then stays.
    Knee,
    /// Rises, then falls slowly.
    KneeFalling,
    /// Flat, rises, stays.
    Rise,
    /// Rises fast, then slower, then stays.
    TwoStage,
    /// Rises towards a level it never passes.
    Saturation,
    /// Flat or in a line, then rises towards a level.
    RampSaturation,
    /// Rises ever slower without a level (logarithm).
    Logarithm,
}

impl Shape {
    /// The words people read in `--why`.
    pub(crate) const fn words(self) -> &'static str {
        match self {
            Self::Flat => "flat",
            Self::Drop => "flat with one drop",
            Self::Falling => "falling",
            Self::Step => "one step up",
            Self::RampStep => "rise, rest, then one step up",
            Self::Line => "straight line",
            Self::Accelerating => "ever faster",
            Self::RampLine => "fast rise, then a straight line",
            Self::Late => "flat, then a straight line",
            Self::RampLate => "rise, rest, then a straight line",
            Self::SaturationLine => "saturation over a straight line",
            Self::Knee => "rise to a knee, then flat",
            Self::KneeFalling => "rise to a knee, then falling",
            Self::Rise => "flat, rise, flat",
            Self::TwoStage => "rise in two stages, then flat",
            Self::Saturation => "saturation",
            Self::RampSaturation => "flat or rise, then saturation",
            Self::Logarithm => "ever slower (logarithm)",
        }
    }

    /// What a shape is worth before the curve is seen: flat, stopped and rising curves a third each, so that having
    /// many shapes for one answer does not make it likelier.
    const fn prior(self) -> f64 {
        match self {
            Self::Flat => 0.25,
            Self::Drop | Self::Falling => 0.04,
            Self::Line
            | Self::Accelerating
            | Self::RampLine
            | Self::Late
            | Self::RampLate
            | Self::SaturationLine => 0.333 / 6.0,
            Self::Step
            | Self::RampStep
            | Self::Knee
            | Self::KneeFalling
            | Self::Rise
            | Self::TwoStage
            | Self::Saturation
            | Self::RampSaturation
            | Self::Logarithm => 0.333 / 9.0,
        }
    }

    /// Whether its floor still rises at the end.
    pub(crate) const fn is_rising(self) -> bool {
        matches!(
            self,
            Self::Line
                | Self::Accelerating
                | Self::RampLine
                | Self::Late
                | Self::RampLate
                | Self::SaturationLine
        )
    }
}

/// One shape fitted to a floor whose x runs from 0 to 1.
#[derive(Clone, Debug)]
pub(crate) struct Fit {
    pub(crate) shape: Shape,
    /// Where it bends, in 0..1; for saturation the time constant.
    pub(crate) knots: [f64; 2],
    coefficients: [f64; MAX_COLUMNS],
    columns: usize,
    /// Where the second point stands: nothing earlier can be told apart.
    pub(crate) second: f64,
    /// The very first sample of the curve, and its floor where the start is over.
    pub(crate) first: f64,
    pub(crate) started: f64,
    /// Mean squared distance.
    pub(crate) error: f64,
    /// Cost: lower is better.
    pub(crate) cost: f64,
    /// Share of the evidence among all shapes.
    pub(crate) weight: f64,
}

const MAX_COLUMNS: usize = 4;
pub(crate) type Columns = [f64; MAX_COLUMNS];

impl Fit {
    /// The fitted level at `u` in 0..1.
    pub(crate) fn at(&self, u: f64) -> f64 {
        let basis = basis(self.shape, self.knots, u);
        (0..self.columns).map(|j| basis[j] * self.coefficients[j]).sum()
    }

    /// Where a rise that ends at once does so, in 0..1.
    pub(crate) fn ends(&self) -> Option<f64> {
        let [a, b] = self.knots;
        match self.shape {
            Shape::Knee | Shape::KneeFalling | Shape::Step => Some(a),
            Shape::Rise | Shape::TwoStage | Shape::RampStep => Some(b),
            Shape::Flat
            | Shape::Drop
            | Shape::Falling
            | Shape::Line
            | Shape::Accelerating
            | Shape::RampLine
            | Shape::Late
            | Shape::RampLate
            | Shape::SaturationLine
            | Shape::Saturation
            | Shape::RampSaturation
            | Shape::Logarithm => None,
        }
    }

    /// The level it comes to in the end, where it has one.
    pub(crate) fn comes_to(&self) -> Option<f64> {
        let [level, first, second, _] = self.coefficients;
        let bends = first.mul_add(self.knots[0], level) + second;
        let bent = (self.shape == Shape::RampSaturation).then_some(bends);
        let saturates = (self.shape == Shape::Saturation).then_some(level + first);
        bent.or(saturates).or_else(|| self.ends().map(|_| self.at(1.0)))
    }

    /// What it rises between two places.
    pub(crate) fn rise(&self, from: f64, to: f64) -> f64 {
        self.at(to) - self.at(from)
    }
}

/// The columns of a shape at `u`. The first is always the level.
fn basis(shape: Shape, [a, b]: [f64; 2], u: f64) -> Columns {
    let after = |c: f64| (u - c).max(0.0);
    let step = |c: f64| f64::from(u8::from(u > c));
    let sat = |from: f64, tau: f64| 1.0 - (-(u - from).max(0.0) / tau).exp();
    match shape {
        Shape::Flat => [1.0, 0.0, 0.0, 0.0],
        Shape::Drop | Shape::Step => [1.0, step(a), 0.0, 0.0],
        Shape::RampStep => [1.0, u.min(a), step(b), 0.0],
        Shape::Falling | Shape::Line => [1.0, u, 0.0, 0.0],
        Shape::Accelerating => [1.0, u, u * u, 0.0],
        Shape::RampLine | Shape::KneeFalling => [1.0, u.min(a), after(a), 0.0],
        Shape::Late => [1.0, after(a), 0.0, 0.0],
        Shape::RampLate => [1.0, u.min(a), after(b), 0.0],
        Shape::SaturationLine => [1.0, sat(0.0, a), u, 0.0],
        Shape::Knee => [1.0, u.min(a), 0.0, 0.0],
        Shape::Rise => [1.0, u.clamp(a, b), 0.0, 0.0],
        Shape::TwoStage => [1.0, u.min(a), u.clamp(a, b) - a, 0.0],
        Shape::Saturation => [1.0, sat(0.0, a), 0.0, 0.0],
        Shape::RampSaturation => [1.0, u.min(a), sat(a, b), 0.0],
        Shape::Logarithm => [1.0, (a * u).ln_1p(), 0.0, 0.0],
    }
}

/// How a shape is searched: its columns, its free numbers, and the signs its slopes must have.
struct Plan {
    shape: Shape,
    columns: usize,
    free: f64,
    accept: fn(&Columns) -> bool,
    grid: Grid,
}

enum Grid {
    None,
    /// One bend between these places.
    Knot(f64, f64),
    /// One jump.
    Jump,
    /// Two bends: the first and the second between these places, in order.
    Knots([f64; 2], [f64; 2]),
    /// Time constants.
    Taus,
    /// A bend and a time constant.
    KnotTau,
    /// Strengths of a logarithm.
    Logs,
}

/// Time constants in parts of the curve: from over at once to nearly straight.
const TAUS: [f64; 23] = [
    0.012, 0.015, 0.018, 0.022, 0.027, 0.032, 0.04, 0.048, 0.059, 0.072, 0.088, 0.107, 0.13, 0.159, 0.194,
    0.237, 0.289, 0.353, 0.43, 0.525, 0.64, 0.781, 0.953,
];
/// From nearly straight to a jump followed by a creep.
const LOGS: [f64; 5] = [5.0, 15.0, 50.0, 150.0, 500.0];

/// A jump may be as late as this, of a floor of full length; of fewer points two at a new level are no step yet.
const LAST_JUMP: f64 = 0.94;
const LAST_OF_FEW: f64 = 0.9;

/// A rise that began later than this is not yet believed, as a plateau of that length would not be.
const LATEST: f64 = 0.8;

fn plans() -> [Plan; 18] {
    let plan = |shape, columns, free, accept, grid| Plan { shape, columns, free, accept, grid };
    let up: fn(&Columns) -> bool = |c| c[1] > 0.0;
    let down: fn(&Columns) -> bool = |c| c[1] < 0.0;
    let both: fn(&Columns) -> bool = |c| c[1] > 0.0 && c[2] > 0.0;
    // A flat beginning falls as often as it rises.
    let then_up: fn(&Columns) -> bool = |c| c[2] > 0.0 && c[1] > -0.1 * c[2];
    [
        plan(Shape::Flat, 1, 1.0, |_| true, Grid::None),
        plan(Shape::Drop, 2, 3.0, down, Grid::Knot(0.02, 0.98)),
        plan(Shape::Falling, 2, 2.0, down, Grid::None),
        plan(Shape::Step, 2, 3.0, up, Grid::Jump),
        plan(Shape::RampStep, 3, 5.0, both, Grid::Knots([0.01, 0.2], [0.15, 0.9])),
        plan(Shape::Line, 2, 2.0, up, Grid::None),
        plan(Shape::Accelerating, 3, 3.0, |c| c[1] >= 0.0 && c[2] > 0.0, Grid::None),
        plan(Shape::RampLine, 3, 4.0, |c| c[2] > 0.0 && c[1] > c[2], Grid::Knot(0.01, 0.6)),
        plan(Shape::Late, 2, 3.0, up, Grid::Knot(0.05, LATEST)),
        plan(Shape::RampLate, 3, 5.0, both, Grid::Knots([0.01, 0.4], [0.15, LATEST])),
        plan(Shape::SaturationLine, 3, 4.0, both, Grid::Taus),
        plan(Shape::Knee, 2, 3.0, up, Grid::Knot(0.01, 0.92)),
        plan(Shape::KneeFalling, 3, 4.0, |c| c[1] > 0.0 && c[2] <= 0.0, Grid::Knot(0.01, 0.92)),
        plan(Shape::Rise, 2, 4.0, up, Grid::Knots([0.05, 0.7], [0.1, 0.92])),
        plan(Shape::TwoStage, 3, 5.0, |c| c[2] > 0.0 && c[1] > c[2], Grid::Knots([0.01, 0.6], [0.05, 0.92])),
        plan(Shape::Saturation, 2, 3.0, up, Grid::Taus),
        plan(Shape::RampSaturation, 3, 5.0, then_up, Grid::KnotTau),
        plan(Shape::Logarithm, 2, 3.0, up, Grid::Logs),
    ]
}

impl Grid {
    fn each(&self, u: &[f64], mut visit: impl FnMut([f64; 2])) {
        let within = |low: f64, high: f64| u.iter().copied().filter(move |c| (low..=high).contains(c));
        match *self {
            Self::None => visit([0.0, 0.0]),
            Self::Knot(low, high) => within(low, high).for_each(|c| visit([c, 0.0])),
            Self::Jump => {
                let last = if u.len() < STRETCHES { LAST_OF_FEW } else { LAST_JUMP };
                within(0.0, last).for_each(|c| visit([c, 0.0]));
            }
            Self::Knots(first, second) => {
                for a in within(first[0], first[1]) {
                    within(second[0].max(a + 1e-9), second[1]).for_each(|b| visit([a, b]));
                }
            }
            Self::Taus => TAUS.iter().for_each(|&t| visit([t, 0.0])),
            Self::Logs => LOGS.iter().for_each(|&k| visit([k, 0.0])),
            Self::KnotTau => {
                for a in within(0.02, 0.6) {
                    // More than one time constant of it was seen, or it is a line.
                    TAUS.iter().filter(|&&t| a + t < 1.0).for_each(|&t| visit([a, t]));
                }
            }
        }
    }
}

/// All shapes that could be fitted, the best first, their weights summing to one.
pub(crate) struct Contest {
    pub(crate) fits: Vec<Fit>,
    /// Floor points that count, after those that move together are counted as one.
    pub(crate) effective: f64,
    /// Correlation of a floor point with the one before, round the best curve.
    pub(crate) correlation: f64,
}

/// Differences below this share of the floor's range are not looked at: three in a thousand is less than any
/// allocator's own steps, and without it a floor free of noise would make every pixel significant.
const RESOLUTION: f64 = 0.003;

/// However strongly points move together, a curve with that many stretches is worth this many looks.
const FEWEST_EFFECTIVE: f64 = 4.0;
/// The least each free number costs. Below e^2 points the usual price (their logarithm) would buy shapes too cheaply.
const LEAST_PRICE: f64 = 2.0;

/// Fits every shape to the floor.
pub(crate) fn contest(floor: &Floor, resolution: f64) -> Contest {
    let u = floor.unit();
    let least = (RESOLUTION * floor.range()).max(resolution).powi(2).max(f64::MIN_POSITIVE);
    let mut fits: Vec<(Fit, f64)> = plans().iter().filter_map(|plan| best(plan, &u, floor)).collect();
    let correlation = fits
        .iter()
        .min_by(|a, b| a.0.error.total_cmp(&b.0.error))
        .map_or(0.0, |(fit, _)| correlation(fit, &u, &floor.y));
    let n = floor.len() as f64;
    let effective = effective_points(n, correlation).max(FEWEST_EFFECTIVE).min(n.max(1.0));
    for (fit, free) in &mut fits {
        fit.cost = effective.mul_add((fit.error + least).ln(), *free * effective.ln().max(LEAST_PRICE));
    }
    let mut fits: Vec<Fit> = fits.into_iter().map(|(fit, _)| fit).collect();
    fits.sort_by(|a, b| a.cost.total_cmp(&b.cost));
    weigh(&mut fits);
    Contest { fits, effective, correlation }
}

fn weigh(fits: &mut [Fit]) {
    let Some(lowest) = fits.first().map(|f| f.cost) else {
        return;
    };
    for fit in fits.iter_mut() {
        fit.weight = fit.shape.prior() * (-(fit.cost - lowest) / 2.0).exp();
    }
    let sum: f64 = fits.iter().map(|f| f.weight).sum();
    for fit in fits.iter_mut() {
        fit.weight /= sum;
    }
}

fn best(plan: &Plan, u: &[f64], floor: &Floor) -> Option<(Fit, f64)> {
    let y = &floor.y;
    if (y.len() as f64) < plan.free {
        return None;
    }
    let mut found: Option<Fit> = None;
    plan.grid.each(u, |knots| {
        let rows: Vec<Columns> = u.iter().map(|&u| basis(plan.shape, knots, u)).collect();
        let Some(coefficients) = solve(&rows, y, plan.columns) else {
            return;
        };
        if !(plan.accept)(&coefficients) {
            return;
        }
        let error = rows.iter().zip(y).map(|(r, y)| (y - dot(r, &coefficients)).powi(2)).sum::<f64>()
            / y.len() as f64;
        if found.as_ref().is_none_or(|f| error < f.error) {
            found = Some(Fit {
                shape: plan.shape,
                knots,
                coefficients,
                columns: plan.columns,
                second: u.get(1).copied().unwrap_or(1.0),
                first: floor.first,
                started: floor.at(START),
                error,
                cost: 0.0,
                weight: 0.0,
            });
        }
    });
    found.map(|fit| (fit, plan.free))
}

fn dot(row: &Columns, coefficients: &Columns) -> f64 {
    row.iter().zip(coefficients).map(|(a, b)| a * b).sum()
}

/// Least squares over the first `k` columns by the normal equations; `None` when they do not determine it.
pub(crate) fn solve(rows: &[Columns], y: &[f64], k: usize) -> Option<Columns> {
    let mut a = [[0.0; MAX_COLUMNS + 1]; MAX_COLUMNS];
    // Centred on the first value: large levels with small changes keep their digits.
    let origin = y.first().copied().unwrap_or(0.0);
    for (row, y) in rows.iter().zip(y) {
        for i in 0..k {
            for j in 0..k {
                a[i][j] += row[i] * row[j];
            }
            a[i][MAX_COLUMNS] += row[i] * (y - origin);
        }
    }
    for i in 0..k {
        let pivot = (i..k).max_by(|&p, &q| a[p][i].abs().total_cmp(&a[q][i].abs()))?;
        a.swap(i, pivot);
        if a[i][i].abs() < 1e-9 {
            return None;
        }
        for r in 0..k {
            if r != i {
                let factor = a[r][i] / a[i][i];
                let source = a[i];
                a[r].iter_mut().zip(source).for_each(|(to, from)| *to -= factor * from);
            }
        }
    }
    let mut out = [0.0; MAX_COLUMNS];
    for i in 0..k {
        out[i] = a[i][MAX_COLUMNS] / a[i][i];
    }
    out[0] += origin;
    Some(out)
}

fn correlation(fit: &Fit, u: &[f64], y: &[f64]) -> f64 {
    let residuals: Vec<f64> = u.iter().zip(y).map(|(&u, y)| y - fit.at(u)).collect();
    residual_correlation(&residuals)
}

/// Lag-one correlation of residuals, with Kendall's correction for short rows; never below zero.
pub(crate) fn residual_correlation(residuals: &[f64]) -> f64 {
    let power: f64 = residuals.iter().map(|r| r * r).sum();
    if power <= 0.0 || residuals.len() < 5 {
        return 0.0;
    }
    let raw = residuals.windows(2).map(|w| w[0] * w[1]).sum::<f64>() / power;
    let n = residuals.len() as f64;
    (raw + 4.0_f64.mul_add(raw.max(0.0), 1.0) / n).clamp(0.0, 0.95)
}

/// How many independent points `n` correlated ones are worth.
pub(crate) fn effective_points(n: f64, correlation: f64) -> f64 {
    n * (1.0 - correlation) / (1.0 + correlation)
}
