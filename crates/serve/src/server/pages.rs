//! The pages of the server: the list, a run, ranks of one run, two runs side by side.

use super::answers::{self, Wanted};
use super::summary::Summary;
use super::{Shop, compare, guard};
use crate::assets::{CHART_STYLE, SCRIPT, STYLE};
use crate::html::compared::Side;
use crate::html::{Together, list, run_page, side_by_side};
use crate::page::Page;
use axum::Router;
use axum::extract::{Path, Query, State};
use axum::http::{StatusCode, header};
use axum::response::{Html, IntoResponse, Response};
use axum::routing::get;
use lowtide_model::RunState;
use serde::Serialize;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Runs on one page of the list.
const PER_PAGE: usize = 100;
/// Runs of one job shown together.
pub(super) const MOST_RANKS: usize = 64;

pub(super) fn routes(shop: &Arc<Shop>) -> Router {
    let run = "/api/v1/runs/{*id}";
    Router::new()
        .route("/", get(list_page))
        .route("/run/{*id}", get(run_html))
        .route("/compare", get(compare_html))
        .route("/group/{run_id}", get(group_html))
        .route("/app.js", get(script))
        .route("/app.css", get(style))
        .route("/metrics", get(super::metrics::metrics))
        .route("/api/v1/openapi.json", get(answers::openapi))
        .route("/api/v1/runs", get(answers::runs))
        .route(run, get(answers::run))
        .route("/api/v1/verdict/{*id}", get(answers::verdict))
        .route("/api/v1/events/{*id}", get(answers::events))
        .route("/api/v1/report/{*id}", get(answers::report))
        .route("/api/v1/recording/{*id}", get(answers::recording))
        .fallback(async || answers::failed(StatusCode::NOT_FOUND, "there is nothing here"))
        .layer(axum::middleware::from_fn_with_state(Arc::clone(shop), guard::guard))
        .with_state(Arc::clone(shop))
}

async fn script() -> Response {
    asset("text/javascript; charset=utf-8", SCRIPT.to_owned())
}

async fn style() -> Response {
    asset("text/css; charset=utf-8", format!("{CHART_STYLE}{STYLE}"))
}

fn asset(kind: &'static str, text: String) -> Response {
    ([(header::CONTENT_TYPE, kind), (header::CACHE_CONTROL, "private, no-cache")], text).into_response()
}

/// A part of the list.
#[derive(Debug, Serialize)]
pub(crate) struct Listed {
    /// Runs in the folder.
    pub(crate) all: usize,
    /// Runs that were wanted.
    pub(crate) total: usize,
    pub(crate) page: usize,
    pub(crate) pages: usize,
    pub(crate) shown: Vec<Arc<Summary>>,
    /// Members of runs that have several, by run id.
    #[serde(skip)]
    pub(crate) groups: BTreeMap<String, usize>,
}

pub(crate) fn listed(shop: &Shop, wanted: &Wanted) -> Listed {
    let mut runs = shop.library.all();
    let all = runs.len();
    let mut groups: BTreeMap<String, usize> = BTreeMap::new();
    for run in runs.iter().filter(|run| !run.run_id.is_empty()) {
        *groups.entry(run.run_id.clone()).or_default() += 1;
    }
    groups.retain(|_, members| *members > 1);
    let words: Vec<String> = wanted.q.to_lowercase().split_whitespace().map(str::to_owned).collect();
    runs.retain(|run| fits(run, wanted, &words));
    sort(&mut runs, &wanted.sort);
    let pages = runs.len().div_ceil(PER_PAGE).max(1);
    let page = (wanted.page.unwrap_or(1).max(1) as usize).min(pages);
    let total = runs.len();
    let shown = runs.into_iter().skip((page - 1) * PER_PAGE).take(PER_PAGE).collect();
    Listed { all, total, page, pages, shown, groups }
}

fn fits(run: &Summary, wanted: &Wanted, words: &[String]) -> bool {
    let same = |wanted: &str, value: Option<String>| wanted.is_empty() || value.as_deref() == Some(wanted);
    let word = |value: serde_json::Result<String>| value.ok().map(|word| word.trim_matches('"').to_owned());
    let text =
        || format!("{} {} {} {} {}", run.id, run.name, run.command, run.host, run.headline).to_lowercase();
    same(&wanted.verdict, run.verdict.map(|kind| kind.word().to_owned()))
        && same(&wanted.outcome, run.outcome.and_then(|is| word(serde_json::to_string(&is))))
        && same(&wanted.state, run.state.and_then(|state| word(serde_json::to_string(&state))))
        && (words.is_empty() || words.iter().all(|word| text().contains(word.as_str())))
}

fn sort(runs: &mut [Arc<Summary>], by: &str) {
    let running = |run: &Summary| u8::from(run.state != Some(RunState::Running));
    match by {
        "name" => runs.sort_by(|a, b| a.name.cmp(&b.name)),
        "peak" => runs.sort_by(|a, b| b.peak_bytes.unwrap_or(-1.0).total_cmp(&a.peak_bytes.unwrap_or(-1.0))),
        "length" => runs.sort_by(|a, b| b.seconds.total_cmp(&a.seconds)),
        "oldest" => runs.sort_by_key(|run| run.started_unix_ns),
        // Newest first, those that go on before all others.
        _ => runs.sort_by_key(|run| (running(run), std::cmp::Reverse(run.started_unix_ns))),
    }
}

async fn list_page(State(shop): State<Arc<Shop>>, Query(wanted): Query<Wanted>) -> Response {
    let listed = listed(&shop, &wanted);
    Html(list(&shop.library.dir().display().to_string(), &wanted, &listed).into_string()).into_response()
}

async fn run_html(State(shop): State<Arc<Shop>>, Path(id): Path<String>) -> Response {
    match answers::opened(&shop, &id).await {
        Ok(page) => Html(run_page(&page, &id).into_string()).into_response(),
        Err(broken) => *broken,
    }
}

async fn compare_html(State(shop): State<Arc<Shop>>, Query(pairs): Query<Vec<(String, String)>>) -> Response {
    let chosen = compare::chosen(&shop, pairs);
    if chosen.len() < 2 {
        return answers::failed(StatusCode::BAD_REQUEST, "name two runs: /compare?a=...&b=...");
    }
    let (ids, sides): (Vec<String>, Vec<Side>) = chosen.into_iter().unzip();
    let runs = match opened(&shop, &ids).await {
        Ok(runs) => runs,
        Err(broken) => return *broken,
    };
    let compared = match compare::compare(&shop, &ids, &sides).await {
        Ok(compared) => compared,
        Err(broken) => return *broken,
    };
    let all = Together {
        title: "Runs side by side",
        runs: &runs,
        compared: compared.as_ref(),
        sides: Some(&sides),
    };
    Html(side_by_side(&all).into_string()).into_response()
}

async fn group_html(State(shop): State<Arc<Shop>>, Path(run_id): Path<String>) -> Response {
    let mut members = shop.library.all();
    members.retain(|run| run.run_id == run_id);
    members.sort_by_key(|run| (run.rank, run.id.clone()));
    let ids: Vec<String> = members.iter().take(MOST_RANKS).map(|run| run.id.clone()).collect();
    if ids.is_empty() {
        return answers::failed(StatusCode::NOT_FOUND, "no such run in this folder");
    }
    match opened(&shop, &ids).await {
        Ok(runs) => {
            let all = Together { title: "All ranks of one run", runs: &runs, compared: None, sides: None };
            Html(side_by_side(&all).into_string()).into_response()
        }
        Err(broken) => *broken,
    }
}

async fn opened(shop: &Shop, ids: &[String]) -> Result<Vec<(String, Arc<Page>)>, Box<Response>> {
    let mut runs = Vec::new();
    for id in ids {
        runs.push((id.clone(), answers::opened(shop, id).await?));
    }
    Ok(runs)
}
