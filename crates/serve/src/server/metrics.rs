//! `/metrics`: the runs that go on, or just ended, where Prometheus and W&B look for them.

use super::Shop;
use super::library::Content;
use super::summary::{Judged, Summary};
use crate::series::{self, Form, Sample};
use axum::extract::State;
use axum::http::{HeaderMap, header};
use axum::response::{IntoResponse, Response};
use lowtide_model::RunState;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// A run that ended is told for this long: every scraper sees its last word.
const LINGERS: Duration = Duration::from_mins(10);
/// Runs on the page; more are for remote write.
const MOST_RUNS: usize = 200;

/// A run whose file did not change is read again after this long all the same: its recorder may be gone.
const QUIET: Duration = Duration::from_secs(10);
/// Reading and judging a run may take one part in so many of the time.
const SHARE: u32 = 10;

/// What the runs said last, so that a scraper in a hurry costs no more than a slow one.
#[derive(Debug, Default)]
pub(crate) struct Scraped {
    runs: Mutex<BTreeMap<String, Said>>,
}

#[derive(Clone, Debug)]
struct Said {
    content: Content,
    when: Instant,
    cost: Duration,
    samples: Arc<Vec<Sample>>,
}

impl Said {
    fn holds(&self, content: Content) -> bool {
        let age = self.when.elapsed();
        age < self.cost * SHARE || (self.content == content && age < QUIET)
    }
}

pub(super) async fn metrics(State(shop): State<Arc<Shop>>, headers: HeaderMap) -> Response {
    let accepted = headers.get(header::ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let form =
        if accepted.contains("application/openmetrics-text") { Form::OpenMetrics } else { Form::Plain };
    let text = tokio::task::spawn_blocking(move || page(&shop, form)).await.unwrap_or_default();
    ([(header::CONTENT_TYPE, form.content_type())], text).into_response()
}

fn page(shop: &Shop, form: Form) -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let fresh = |run: &Summary| {
        let ended = run.started_unix_ns as f64 / 1e9 + run.seconds;
        run.state == Some(RunState::Running) || now.as_secs_f64() - ended < LINGERS.as_secs_f64()
    };
    let all = shop.library.all();
    let told: Vec<&str> =
        all.iter().filter(|run| fresh(run)).take(MOST_RUNS).map(|run| run.id.as_str()).collect();
    let mut out: Vec<Sample> = Vec::new();
    for id in &told {
        out.extend(said(shop, id).iter().flat_map(|samples| samples.iter().cloned()));
    }
    shop.scraped
        .runs
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .retain(|id, _| told.contains(&id.as_str()));
    let count = |state: Option<RunState>| all.iter().filter(|run| run.state == state).count() as f64;
    let runs =
        [("running", RunState::Running), ("finished", RunState::Finished), ("cut_off", RunState::CutOff)];
    out.extend(runs.map(|(word, state)| series::count_of_runs(word, count(Some(state)))));
    series::exposition(&out, form)
}

/// The newest numbers of a run, or those of a moment ago.
fn said(shop: &Shop, id: &str) -> Option<Arc<Vec<Sample>>> {
    let (path, content) = shop.library.path(id)?;
    let known = shop.scraped.runs.lock().unwrap_or_else(PoisonError::into_inner).get(id).cloned();
    if let Some(known) = known.filter(|known| known.holds(content)) {
        return Some(known.samples);
    }
    let when = Instant::now();
    let judged = Judged::read(&path).ok()?;
    let samples = Arc::new(series::newest(&judged.recording, &judged.run));
    let said = Said { content, when, cost: when.elapsed(), samples: Arc::clone(&samples) };
    shop.scraped.runs.lock().unwrap_or_else(PoisonError::into_inner).insert(id.to_owned(), said);
    Some(samples)
}
