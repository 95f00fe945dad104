//! Two sides of runs, chosen in the page and compared as `lowtide compare` does it, one recording in memory at a time.

use super::Shop;
use super::answers::{failed, find};
use super::pages::MOST_RANKS;
use super::summary::Judged;
use crate::html::compared::Side;
use axum::http::StatusCode;
use axum::response::Response;
use lowtide_verdict::{Compared, Comparison, Measures, Source, Until, compare_by};
use std::path::PathBuf;

/// The runs that were picked in the list or put on a side: `a=ID`, `b=ID`, `side=a:ID`, `pick=ID`.
pub(super) fn chosen(shop: &Shop, pairs: Vec<(String, String)>) -> Vec<(String, Side)> {
    let one = |(name, value): (String, String)| match name.as_str() {
        "a" => Some((value, Side::A)),
        "b" => Some((value, Side::B)),
        "pick" => Some((value, Side::None)),
        "side" => value.split_once(':').and_then(|(side, id)| {
            let side = match side {
                "a" => Side::A,
                "b" => Side::B,
                "none" => Side::None,
                _ => return None,
            };
            Some((id.to_owned(), side))
        }),
        _ => None,
    };
    let mut runs: Vec<(String, Side)> = pairs.into_iter().filter_map(one).take(MOST_RANKS).collect();
    let has = |runs: &[(String, Side)], side: Side| runs.iter().any(|run| run.1 == side);
    if runs.len() == 2 && !has(&runs, Side::A) && !has(&runs, Side::B) {
        // Before and after: the older one is what the newer one is held against.
        runs.sort_by_key(|run| started(shop, &run.0));
        (runs[0].1, runs[1].1) = (Side::A, Side::B);
    }
    runs.sort_by_key(|run| run.1 as u8);
    runs
}

fn started(shop: &Shop, id: &str) -> i64 {
    let all = shop.library.all();
    all.iter().find(|run| run.id == id).map_or(0, |run| run.started_unix_ns)
}

/// What differs between the sides; nothing where one of them is empty, or where they have nothing in common.
pub(super) async fn compare(
    shop: &Shop,
    ids: &[String],
    sides: &[Side],
) -> Result<Option<Comparison>, Box<Response>> {
    let of = |side: Side| ids.iter().zip(sides).filter(move |run| *run.1 == side).map(|run| run.0);
    let (a, b) = (of(Side::A).count(), of(Side::B).count());
    if a == 0 || b == 0 {
        return Ok(None);
    }
    let mut runs: Vec<(String, PathBuf)> = Vec::new();
    for id in of(Side::A).chain(of(Side::B)) {
        runs.push((id.clone(), find(shop, id)?.0));
    }
    let look = move || compare_by(a, b, |n, until| measures(&runs[n], until));
    let found = match tokio::task::spawn_blocking(look).await {
        Ok(found) => found.map_err(|error| error.to_string()),
        Err(_) => Err("they could not be read".to_owned()),
    };
    let found = found.map_err(|words| Box::new(failed(StatusCode::UNPROCESSABLE_ENTITY, &words)))?;
    Ok(Some(found).filter(|found| !found.differences.is_empty()))
}

fn measures(
    (id, path): &(String, PathBuf),
    until: Option<Until>,
) -> Result<Measures, lowtide_store::StoreError> {
    let judged = Judged::read(path)?;
    let run =
        Compared { name: judged.name(id), what: Source::Recording(&judged.recording), run: &judged.run };
    Ok(Measures::of(&run, until))
}
