//! Whether what a tool calls used holds the page cache: tools differ, and versions of one tool.

/// Whether used and free together stand still where the cache does not: then used holds the cache.
pub(crate) fn is_in_used(used: &[f64], free: &[f64], cache: &[f64]) -> bool {
    let sum =
        |values: [&[f64]; 2]| -> Vec<f64> { values[0].iter().zip(values[1]).map(|(a, b)| a + b).collect() };
    let whole = sum([used, free]);
    let with_cache = sum([&whole, cache]);
    let fits = used.iter().zip(cache).all(|(used, cache)| used >= cache);
    fits && spread(&whole) * STILL < spread(&with_cache)
}

/// How much less the sum of used and free moves than the cache.
const STILL: f64 = 4.0;

fn spread(values: &[f64]) -> f64 {
    let most = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    most - values.iter().copied().fold(f64::INFINITY, f64::min)
}
