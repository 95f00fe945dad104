//! The rules people write by hand, to be seen beside ours. Thresholds as the corpus page names them.

use lowtide_model::Curve;

type Rule = fn(&Curve) -> bool;

/// Name and rule.
pub(super) const RULES: [(&str, Rule); 4] = [
    ("first-10 against last-10 minimum", minimum_rises),
    ("mean rate above 10 MB a step", fast_mean),
    ("least-squares slope", slope_rises),
    ("slope of the last third", last_third_rises),
];

fn lowest(y: &[f64]) -> f64 {
    y.iter().copied().fold(f64::INFINITY, f64::min)
}

/// The case documents' rule: more than 100 MB between the minima.
fn minimum_rises(c: &Curve) -> bool {
    let k = 10.min(c.y.len() / 2);
    k > 0 && lowest(&c.y[c.y.len() - k..]) - lowest(&c.y[..k]) > 100e6
}

/// The case documents' test.
fn fast_mean(c: &Curve) -> bool {
    let (Some(x0), Some(x1), Some(y0), Some(y1)) = (c.x.first(), c.x.last(), c.y.first(), c.y.last()) else {
        return false;
    };
    x1 > x0 && (y1 - y0) / (x1 - x0) > 10e6
}

fn slope_rises(c: &Curve) -> bool {
    rises(&c.x, &c.y)
}

fn last_third_rises(c: &Curve) -> bool {
    let from = c.x.len() * 2 / 3;
    rises(&c.x[from..], &c.y[from.min(c.y.len())..])
}

/// A slope more than two standard errors above nothing that adds at least one per cent.
fn rises(x: &[f64], y: &[f64]) -> bool {
    let n = x.len().min(y.len()) as f64;
    if n < 4.0 {
        return false;
    }
    let (mx, my) = (x.iter().sum::<f64>() / n, y.iter().sum::<f64>() / n);
    let sxx: f64 = x.iter().map(|x| (x - mx).powi(2)).sum();
    let slope = x.iter().zip(y).map(|(x, y)| (x - mx) * (y - my)).sum::<f64>() / sxx;
    let error: f64 =
        x.iter().zip(y).map(|(x, y)| (y - my - slope * (x - mx)).powi(2)).sum::<f64>() / (n - 2.0) / sxx;
    let width = x.last().unwrap_or(&0.0) - x.first().unwrap_or(&0.0);
    sxx > 0.0 && slope > 2.0 * error.sqrt() && slope * width > 0.01 * my
}
