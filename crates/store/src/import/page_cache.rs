//! Whether what a tool calls used holds the page cache: tools differ, and versions of one tool.

/// Whether used and free together stand still where the cache does not: then used holds the cache.
pub(crate) fn is_in_used(used: &[f64], free: &[f64], cache: &[f64]) -> bool {
    // A row with a hole tells nothing.
    let rows = used.iter().zip(free).zip(cache).map(|((used, free), cache)| (*used, *free, *cache));
    let rows: Vec<(f64, f64, f64)> =
        rows.filter(|(used, free, cache)| (used + free + cache).is_finite()).collect();
    let whole: Vec<f64> = rows.iter().map(|(used, free, _)| used + free).collect();
    let with_cache: Vec<f64> = rows.iter().map(|(used, free, cache)| used + free + cache).collect();
    let fits = rows.iter().all(|(used, _, cache)| used >= cache);
    fits && !rows.is_empty() && spread(&whole) * STILL < spread(&with_cache)
}

/// How much less the sum of used and free moves than the cache.
const STILL: f64 = 4.0;

fn spread(values: &[f64]) -> f64 {
    let most = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    most - values.iter().copied().fold(f64::INFINITY, f64::min)
}
