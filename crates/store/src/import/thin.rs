//! Holds a curve to a number of points that stays quick to judge, with every low and every peak kept.

use lowtide_model::Curve;

/// A curve this long shows all a judgement needs.
const MOST_POINTS: usize = 200_000;

/// Of each stretch the lowest and the highest point stay, in their order.
pub(crate) fn thin(curve: &mut Curve) {
    let count = curve.y.len().min(curve.x.len());
    curve.x.truncate(count);
    curve.y.truncate(count);
    curve.series.retain(|_, values| values.len() == count);
    if count <= MOST_POINTS {
        return;
    }
    let keep = kept(&curve.y);
    let pick = |values: &[f64]| keep.iter().map(|at| values[*at]).collect::<Vec<f64>>();
    curve.x = pick(&curve.x);
    curve.y = pick(&curve.y);
    for values in curve.series.values_mut() {
        *values = pick(values);
    }
    let left = curve.y.len();
    curve.notes.push(format!(
        "{count} points thinned to {left}; the lowest and the highest of each stretch are kept"
    ));
}

fn kept(y: &[f64]) -> Vec<usize> {
    let stretch = y.len().div_ceil(MOST_POINTS / 2);
    let mut keep = Vec::with_capacity(MOST_POINTS);
    let mut start = 0;
    for part in y.chunks(stretch) {
        let lowest = (0..part.len()).min_by(|a, b| part[*a].total_cmp(&part[*b])).unwrap_or(0);
        let highest = (0..part.len()).max_by(|a, b| part[*a].total_cmp(&part[*b])).unwrap_or(0);
        keep.push(start + lowest.min(highest));
        if lowest != highest {
            keep.push(start + lowest.max(highest));
        }
        start += part.len();
    }
    keep
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_single_peak_and_a_single_low_survive_thinning() {
        let mut y = vec![5.0; 1_000_000];
        y[333_333] = 9.0;
        y[777_777] = 1.0;
        let x: Vec<f64> = (0..y.len()).map(|n| n as f64).collect();
        let series = [("count".to_owned(), x.clone())].into();
        let mut curve = Curve { x, y, series, ..Curve::default() };
        thin(&mut curve);
        assert!(curve.y.len() <= MOST_POINTS);
        let peak = curve.y.iter().position(|y| *y > 8.0).unwrap();
        assert_eq!(curve.x[peak].to_bits(), 333_333_f64.to_bits());
        assert_eq!(curve.series["count"][peak].to_bits(), 333_333_f64.to_bits());
        assert!(curve.y.iter().any(|y| *y < 2.0));
        assert!(curve.x.is_sorted());
        assert_eq!(curve.notes.len(), 1);
    }
}
