//! Whether a rise rests at its end as it never rested before.
//!
//! Why: a plateau must last before it is believed, because growth by steps rests between them. But a line that never rested
//! and rests now is not told to go on either, however little of the rest was seen. Not here: plateaus that last (`decide`).

use crate::decide::PLATEAU;
use crate::floor::Floor;

/// The shortest rest, in points of the floor: what a rise adds is looked at over stretches of this length.
const SHORTEST: usize = 3;
/// At least so many stretches of it were seen before the rest.
const LOOKS: usize = 3;
/// Less than this part of what its own length should add is a rest, ...
const RESTS: f64 = 0.2;
/// ... where no stretch before it added less than this part.
const NEVER_LESS: f64 = 0.6;

/// Where the rest at the end of a rise begins that is alive from place `from` (0..1) on.
pub(crate) fn at_end(floor: &Floor, from: f64) -> Option<f64> {
    let first = floor.unit().partition_point(|u| *u < from);
    let y = floor.y.get(first..)?;
    let longest = (PLATEAU * floor.len() as f64) as usize;
    let begins = (SHORTEST..=longest).rev().filter_map(|length| y.len().checked_sub(length + 1));
    let begin = begins.into_iter().find(|begin| rests(y, *begin))?;
    floor.x.get(first + begin).copied()
}

/// Whether what comes from `begin` on adds little beside every stretch before it.
fn rests(y: &[f64], begin: usize) -> bool {
    let added: Vec<f64> = y[..=begin].windows(SHORTEST + 1).map(|w| w[SHORTEST] - w[0]).collect();
    let usual = added.iter().sum::<f64>() / added.len().max(1) as f64;
    let least = added.iter().copied().fold(f64::INFINITY, f64::min);
    let last = y.len() - 1;
    let should = usual * (last - begin) as f64 / SHORTEST as f64;
    added.len() >= LOOKS && least > NEVER_LESS * usual && y[last] - y[begin] < RESTS * should
}

#[cfg(test)]
mod tests {
    use super::*;

    fn floor(level: impl Fn(usize) -> f64) -> Floor {
        let y: Vec<f64> = (0..36).map(level).collect();
        Floor { x: (0..36).map(f64::from).collect(), y, ..Floor::default() }
    }

    #[test]
    fn a_line_that_stops_rests_where_it_stopped_and_one_that_goes_on_does_not() {
        for stop in [29, 30, 32] {
            let found = at_end(&floor(|i| i.min(stop) as f64), 0.0);
            assert!(found.is_some_and(|at| (at - stop as f64).abs() <= 1.0), "{stop}: {found:?}");
        }
        assert_eq!(at_end(&floor(|i| i as f64), 0.0), None);
    }

    #[test]
    fn a_pause_like_others_before_it_is_no_rest() {
        assert_eq!(at_end(&floor(|i| (i / 6) as f64), 0.0), None);
        assert_eq!(at_end(&floor(|i| i.min(30) as f64 - f64::from(u8::from(i > 14)) * 3.0), 0.0), None);
    }

    #[test]
    fn too_short_a_rise_tells_of_no_rest() {
        assert_eq!(at_end(&floor(|i| i.clamp(29, 33) as f64), 0.8), None);
        let few = Floor { x: vec![0.0, 1.0, 2.0], y: vec![0.0, 1.0, 1.0], ..Floor::default() };
        assert_eq!(at_end(&few, 0.0), None);
    }
}
