//! Whether the rates of three rises in a row make one course, or are a jump with something beside it. Pure arithmetic.

/// A rise that is only this part of the mean bends.
const BENT: f64 = 0.6;
/// Rises whose mean is so many times their median are a jump and noise ...
const UNEVEN: f64 = 2.0;
/// ... and so are rises whose mean is so many times the slowest of them.
const SLOWEST_RISE: f64 = 4.0;

/// The mean as `bent` gives it; none where one of the rates makes up most of it, or two of them all of it: a jump among them
/// is not a course, and what is left beside it is too little to be one.
pub(super) fn without_jump(mean: f64, rates: [f64; 3]) -> Option<f64> {
    let [first, middle, newest] = rates;
    let slowest = first.min(middle).min(newest);
    let jumps = mean > UNEVEN * median(rates) || mean > SLOWEST_RISE * slowest;
    (!jumps).then(|| bent(mean, rates))
}

/// The mean, which noise moves least, unless the course bends: every rate lower than the one before.
fn bent(mean: f64, [first, middle, newest]: [f64; 3]) -> f64 {
    if newest < mean * BENT && newest < middle && middle < first { newest } else { mean }
}

/// The middle one.
fn median([first, middle, last]: [f64; 3]) -> f64 {
    first.max(middle).min(first.min(middle).max(last))
}
