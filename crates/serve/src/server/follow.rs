//! Follows runs for those who watch them: one reader a run, however many viewers.
//!
//! A viewer who is slow gets the newest state when it is ready for it, never a backlog.

use super::Shop;
use super::library::Content;
use super::summary::Judged;
use crate::html;
use crate::page::Page;
use axum::body::Bytes;
use lowtide_model::RunState;
use nix::time::{ClockId, clock_gettime};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::watch;

/// Time between two looks at a file.
const LOOK: Duration = Duration::from_secs(1);
/// A file that did not change for this long is looked at all the same.
const QUIET: Duration = Duration::from_secs(10);
/// Reading and judging may take one part in so many of a core's time. CPU time, not time by the clock: a machine that
/// is busy for a moment must not make the news rare.
const SHARE: u32 = 10;

/// What viewers of a run are told: data and sections as one event, made once for all of them.
pub(crate) type News = watch::Receiver<Option<Bytes>>;

/// The runs that are being watched.
#[derive(Debug, Default)]
pub(crate) struct Followers {
    runs: Mutex<BTreeMap<String, watch::Sender<Option<Bytes>>>>,
}

impl Followers {
    /// Joins those who watch a run; the first one starts the reader.
    pub(crate) fn join(&self, shop: &Arc<Shop>, id: &str) -> News {
        let mut runs = self.runs.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(sender) = runs.get(id) {
            return sender.subscribe();
        }
        let (sender, news) = watch::channel(None);
        runs.insert(id.to_owned(), sender.clone());
        drop(runs);
        let (shop, id) = (Arc::clone(shop), id.to_owned());
        tokio::spawn(async move { follow(&shop, &id, &sender).await });
        news
    }

    /// Forgets a run when nobody watches it any more; asked under the lock, so that nobody joins in between.
    fn leave(&self, id: &str, sender: &watch::Sender<Option<Bytes>>, over: bool) -> bool {
        let mut runs = self.runs.lock().unwrap_or_else(PoisonError::into_inner);
        let alone = over || sender.receiver_count() == 0;
        if alone {
            runs.remove(id);
        }
        alone
    }
}

/// Reads a run again whenever its file changed, until nobody watches or the run is over.
async fn follow(shop: &Arc<Shop>, id: &str, sender: &watch::Sender<Option<Bytes>>) {
    let mut seen = Content::default();
    let mut read_at = Instant::now();
    loop {
        let begun = Instant::now();
        let (mut over, mut spent) = (false, Duration::ZERO);
        match shop.library.path(id) {
            None => over = true,
            // A recorder that was killed changes its file no more; that it is gone shows only by looking.
            Some((path, content)) if content != seen || read_at.elapsed() > QUIET => {
                (seen, read_at) = (content, Instant::now());
                let name = id.to_owned();
                let read = tokio::task::spawn_blocking(move || timed(|| tell(&path, &name))).await;
                if let Ok((told, cpu)) = read {
                    spent = cpu;
                    if let Some((frame, state)) = told {
                        over = state != Some(RunState::Running);
                        sender.send_replace(Some(frame));
                    }
                }
            }
            Some(_) => {}
        }
        if shop.followers.leave(id, sender, over) {
            return;
        }
        // By the clock it takes half the time at most: a slow disk is not asked without a pause.
        let pause = (spent * SHARE).max(begun.elapsed()).max(LOOK.saturating_sub(begun.elapsed()));
        tokio::time::sleep(pause).await;
    }
}

/// What comes of it, with the CPU time it took on this thread.
fn timed<T>(work: impl FnOnce() -> T) -> (T, Duration) {
    let now = || clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).map_or(Duration::ZERO, Duration::from);
    let before = now();
    let made = work();
    (made, now().saturating_sub(before))
}

fn tell(path: &Path, id: &str) -> Option<(Bytes, Option<RunState>)> {
    let judged = Judged::read(path).ok()?;
    let page = judged.page(id);
    let told = serde_json::to_string(&Told { html: html::news(&page).into_string(), page: &page });
    // JSON of one line is data of one line.
    Some((format!("event: page\ndata: {}\n\n", told.ok()?).into(), judged.recording.meta.state))
}

/// One piece of news.
#[derive(serde::Serialize)]
struct Told<'a> {
    page: &'a Page,
    html: String,
}
