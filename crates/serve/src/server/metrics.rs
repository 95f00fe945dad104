//! `/metrics`: the runs that go on, or just ended, where Prometheus and W&B look for them.

use super::Shop;
use super::summary::Judged;
use crate::series;
use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use lowtide_model::RunState;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// A run that ended is told for this long: every scraper sees its last word.
const LINGERS: Duration = Duration::from_mins(10);
/// Runs on the page; more are for remote write.
const MOST_RUNS: usize = 200;

pub(super) async fn metrics(State(shop): State<Arc<Shop>>) -> Response {
    let text = tokio::task::spawn_blocking(move || page(&shop)).await.unwrap_or_default();
    ([(header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], text).into_response()
}

fn page(shop: &Shop) -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let fresh = |run: &crate::server::summary::Summary| {
        let ended = run.started_unix_ns as f64 / 1e9 + run.seconds;
        run.state == Some(RunState::Running) || now.as_secs_f64() - ended < LINGERS.as_secs_f64()
    };
    let all = shop.library.all();
    let mut out = Vec::new();
    for run in all.iter().filter(|run| fresh(run)).take(MOST_RUNS) {
        let judged = shop.library.path(&run.id).and_then(|(path, _)| Judged::read(&path).ok());
        out.extend(judged.map(|judged| series::newest(&judged.recording, &judged.run)).into_iter().flatten());
    }
    let count = |state: Option<RunState>| all.iter().filter(|run| run.state == state).count() as f64;
    let runs =
        [("running", RunState::Running), ("finished", RunState::Finished), ("cut_off", RunState::CutOff)];
    out.extend(runs.map(|(word, state)| series::count_of_runs(word, count(Some(state)))));
    series::exposition(&out)
}
