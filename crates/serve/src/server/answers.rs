//! The API: JSON like `explain`, a stream of news, files with ranges. Documented by docs/openapi.json.

use super::Shop;
use super::library::Content;
use crate::page::Page;
use axum::body::{Body, Bytes};
use axum::extract::{Path, Query, Request, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use lowtide_verdict::Kind;
use serde::Deserialize;
use std::convert::Infallible;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio_stream::StreamExt as _;
use tokio_stream::wrappers::WatchStream;

/// The document that describes this API.
pub(crate) const OPENAPI: &str = include_str!("../../../../docs/openapi.json");
/// Letters of a search.
const LONGEST_SEARCH: usize = 1024;
/// A viewer who hears nothing for this long is told that we are still here.
const HEARTBEAT: Duration = Duration::from_secs(15);
const STILL_HERE: Bytes = Bytes::from_static(b":\n\n");

/// An error as JSON.
pub(crate) fn failed(status: StatusCode, words: &str) -> Response {
    json(status, &serde_json::json!({ "error": words }))
}

pub(crate) fn json<T: serde::Serialize>(status: StatusCode, value: &T) -> Response {
    let text = serde_json::to_string(value).unwrap_or_else(|_| "null".to_owned());
    (status, [(header::CONTENT_TYPE, "application/json")], text).into_response()
}

pub(crate) async fn openapi() -> Response {
    ([(header::CONTENT_TYPE, "application/json")], OPENAPI).into_response()
}

/// A run of the folder, or that there is none.
pub(crate) fn find(shop: &Shop, id: &str) -> Result<(PathBuf, Content), Box<Response>> {
    shop.library.path(id).ok_or_else(|| Box::new(failed(StatusCode::NOT_FOUND, "no such run in this folder")))
}

/// The page of a run, made away from those who answer.
pub(crate) async fn opened(shop: &Shop, id: &str) -> Result<Arc<Page>, Box<Response>> {
    let (path, content) = find(shop, id)?;
    let page = shop.shelf.open(id, path, content).await;
    page.map_err(|words| Box::new(failed(StatusCode::UNPROCESSABLE_ENTITY, &words)))
}

/// What a list may be asked for.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Wanted {
    pub(crate) q: String,
    pub(crate) verdict: String,
    pub(crate) outcome: String,
    pub(crate) state: String,
    pub(crate) sort: String,
    pub(crate) page: Option<u32>,
}

impl Wanted {
    /// What is asked for that is not to be had.
    fn unknown(&self) -> Option<&'static str> {
        let kinds: Vec<&str> = Kind::ALL.iter().map(|kind| kind.word()).collect();
        let known = |value: &str, all: &[&str]| value.is_empty() || all.contains(&value);
        let checks = [
            (known(&self.verdict, &kinds), "there is no such verdict"),
            (known(&self.outcome, &["fits", "tight", "exceeds", "unknown"]), "there is no such outcome"),
            (known(&self.state, &["running", "finished", "cut_off"]), "there is no such state"),
            (known(&self.sort, &["oldest", "name", "peak", "length"]), "there is no such order"),
            (self.q.chars().count() <= LONGEST_SEARCH, "this is too long to be searched for"),
            (self.page != Some(0), "pages are counted from 1"),
        ];
        checks.into_iter().find(|(good, _)| !good).map(|(_, words)| words)
    }
}

pub(crate) async fn runs(State(shop): State<Arc<Shop>>, Query(wanted): Query<Wanted>) -> Response {
    if let Some(words) = wanted.unknown() {
        return (StatusCode::BAD_REQUEST, format!("{words}\n")).into_response();
    }
    let listed = super::pages::listed(&shop, &wanted);
    json(
        StatusCode::OK,
        &serde_json::json!({ "total": listed.total, "page": listed.page, "pages": listed.pages, "runs": listed.shown }),
    )
}

pub(crate) async fn run(
    State(shop): State<Arc<Shop>>,
    Path(id): Path<String>,
    headers: HeaderMap,
) -> Response {
    answer(&shop, &id, &headers, |page, _| json(StatusCode::OK, page)).await
}

/// The verdicts of a run as `lowtide explain --all --format json` prints them, in one array.
pub(crate) async fn verdict(
    State(shop): State<Arc<Shop>>,
    Path(id): Path<String>,
    headers: HeaderMap,
) -> Response {
    let all = |page: &Page, _: &str| {
        let verdicts: Vec<_> = std::iter::once(&page.verdict).chain(&page.findings).collect();
        json(StatusCode::OK, &verdicts)
    };
    answer(&shop, &id, &headers, all).await
}

/// The report as a file to keep.
pub(crate) async fn report(
    State(shop): State<Arc<Shop>>,
    Path(id): Path<String>,
    headers: HeaderMap,
) -> Response {
    let file = |page: &Page, id: &str| {
        let named = [
            (header::CONTENT_TYPE, "text/html; charset=utf-8".to_owned()),
            (header::CONTENT_DISPOSITION, attachment(id, "html")),
        ];
        (named, crate::report_html(page)).into_response()
    };
    answer(&shop, &id, &headers, file).await
}

/// A name that is safe in a header, whatever the file is called.
fn attachment(id: &str, end: &str) -> String {
    let safe = |c: char| if c.is_ascii_alphanumeric() || "._-".contains(c) { c } else { '-' };
    let name: String = id.chars().map(safe).take(120).collect();
    format!("attachment; filename=\"{}.{end}\"", name.trim_start_matches(['.', '-']))
}

/// An answer made from one state of a file: whoever has it already is told so.
async fn answer(
    shop: &Shop,
    id: &str,
    headers: &HeaderMap,
    make: impl FnOnce(&Page, &str) -> Response,
) -> Response {
    let content = match find(shop, id) {
        Ok((_, content)) => content,
        Err(missing) => return *missing,
    };
    let tag = content.tag();
    if headers.get(header::IF_NONE_MATCH).is_some_and(|had| had.as_bytes() == tag.as_bytes()) {
        return (StatusCode::NOT_MODIFIED, [(header::ETAG, tag)]).into_response();
    }
    match opened(shop, id).await {
        Ok(page) => tagged(make(&page, id), &tag),
        Err(broken) => *broken,
    }
}

fn tagged(mut answer: Response, tag: &str) -> Response {
    if let Ok(value) = HeaderValue::from_str(tag) {
        answer.headers_mut().insert(header::ETAG, value);
        answer.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("private, no-cache"));
    }
    answer
}

/// The recording itself, in parts where that is asked for.
pub(crate) async fn recording(
    State(shop): State<Arc<Shop>>,
    Path(id): Path<String>,
    request: Request,
) -> Response {
    let (path, content) = match find(&shop, &id) {
        Ok(found) => found,
        Err(missing) => return *missing,
    };
    let served = tower_http::services::ServeFile::new(path).try_call(request).await;
    let Ok(served) = served else { return failed(StatusCode::NOT_FOUND, "it could not be read") };
    let mut answer = served.map(Body::new).into_response();
    answer.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/vnd.sqlite3"));
    if let Ok(name) = HeaderValue::from_str(&attachment(&id, "tide")) {
        answer.headers_mut().insert(header::CONTENT_DISPOSITION, name);
    }
    tagged(answer, &content.tag())
}

/// News of a run while it goes on: the whole page each time, as one event.
pub(crate) async fn events(State(shop): State<Arc<Shop>>, Path(id): Path<String>) -> Response {
    if let Err(missing) = find(&shop, &id) {
        return *missing;
    }
    let news = WatchStream::new(shop.followers.join(&shop, &id)).filter_map(|frame| frame);
    // The same bytes for every viewer: five hundred of them hold one copy.
    let frames = news.timeout_repeating(tokio::time::interval(HEARTBEAT));
    let frames = frames.map(|frame| Ok::<_, Infallible>(frame.unwrap_or(STILL_HERE)));
    let headers = [(header::CONTENT_TYPE, "text/event-stream"), (header::CACHE_CONTROL, "no-store")];
    (headers, Body::from_stream(frames)).into_response()
}
