//! Sends a recording to the engines platform teams already run, by Prometheus remote write, and reads curves back.
//!
//! The same file gives the same series, times and values, so that sending it again changes nothing: a node that was cut
//! off sends later. Not here: which numbers there are (see `series`), reading what comes back (see `store::import`).

mod cast;
mod history;
mod proto;
mod unsent;

use history::Series;
use lowtide_model::{Recording, RunState, Tick};
use std::path::Path;
use std::time::{Duration, Instant};
use unsent::Unsent;

/// Samples of one request: well under the usual limit of a receiver.
const BATCH: usize = 5000;
/// A request that takes longer has failed.
const PATIENCE: Duration = Duration::from_secs(30);
/// The first and the longest pause before a request is tried again.
const PAUSES: (Duration, Duration) = (Duration::from_millis(200), Duration::from_secs(5));
/// Time between two pieces of a run that goes on.
const EVERY: Duration = Duration::from_secs(10);
/// ... and at least so many times as long as reading and sending one takes.
const SHARE: u32 = 20;
/// Time between two looks whether it ended.
const LOOK: Duration = Duration::from_secs(1);
/// How long a recording may take to begin.
const BEGINNING: Duration = Duration::from_secs(60);
/// The shortest and the longest that a receiver may take to be reached at all.
const REACH: (Duration, Duration) = (Duration::from_secs(2), Duration::from_secs(10));
/// What may come back when a curve is asked for.
const MOST_BYTES: u64 = 256 << 20;
/// How far back a run is asked for.
const WINDOW: &str = "400d";
/// The environment variable with a token for the receiver.
const TOKEN: &str = "LOWTIDE_PUSH_TOKEN";

/// Why nothing was sent or read.
#[derive(Debug, thiserror::Error)]
pub enum RemoteError {
    /// The recording can't be read.
    #[error(transparent)]
    Recording(#[from] lowtide_store::StoreError),
    /// It does not answer, or not well.
    #[error("{address} does not answer")]
    Away {
        /// Who.
        address: String,
        /// Why not.
        #[source]
        source: Box<ureq::Error>,
    },
    /// It said no, for good.
    #[error("{address} refused {samples} samples and took {taken}: {status} {words}")]
    Refused {
        /// Who.
        address: String,
        /// How many were in the requests it refused.
        samples: usize,
        /// How many it took.
        taken: usize,
        /// What it said.
        status: u16,
        /// In its own words.
        words: String,
    },
    /// It said no to a question.
    #[error("{address} answered {status}: {words}")]
    Answered {
        /// Who.
        address: String,
        /// What it said.
        status: u16,
        /// In its own words.
        words: String,
    },
}

/// What was sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sent {
    /// Series.
    pub series: usize,
    /// Samples.
    pub samples: usize,
    /// Requests.
    pub requests: usize,
}

impl Sent {
    /// Both together.
    const fn and(self, other: Self) -> Self {
        let series = if self.series > other.series { self.series } else { other.series };
        Self { series, samples: self.samples + other.samples, requests: self.requests + other.requests }
    }
}

impl RemoteError {
    /// Adds up what one receiver refuses of the data. Anything else ends it: more of the same would be answered alike.
    fn after(self, before: Option<Self>) -> Result<Self, Self> {
        match (self, before) {
            (Self::Refused { address, samples, taken, status: status @ (400 | 422), words }, before) => {
                let (more, words) = match before {
                    Some(Self::Refused { samples, words, .. }) => (samples, words),
                    Some(_) | None => (0, words),
                };
                Ok(Self::Refused { address, samples: samples + more, taken, status, words })
            }
            (other, _) => Err(other),
        }
    }

    fn with_taken(self, total: usize) -> Self {
        match self {
            Self::Refused { address, samples, status, words, .. } => {
                Self::Refused { address, samples, taken: total, status, words }
            }
            other @ (Self::Recording(_) | Self::Away { .. } | Self::Answered { .. }) => other,
        }
    }
}

/// Sends a recording. A receiver that is away is waited for, up to `wait`.
pub fn send_file(file: &Path, address: &str, wait: Duration) -> Result<Sent, RemoteError> {
    let recording = lowtide_store::open(file)?.recording()?;
    send(&[facts_from(&recording, i64::MIN), answers_now(&recording)].concat(), address, wait)
}

/// Sends what is new of a recording until its run ends. What can't be sent now goes with what comes next: facts are read
/// again from the file, answers are kept as they were given. `pause` waits as long as it is told, or less.
pub fn follow(
    file: &Path,
    address: &str,
    wait: Duration,
    pause: &mut dyn FnMut(Duration),
) -> Result<Sent, RemoteError> {
    let (mut upto, mut sent, begun) = (i64::MIN, Sent::default(), Instant::now());
    let mut unsent = Unsent::default();
    loop {
        let looked = Instant::now();
        match lowtide_store::open(file).and_then(|mut reader| reader.recording()) {
            Ok(recording) if recording.meta.state != Some(RunState::Running) => {
                unsent.add(answers_now(&recording));
                let last = [facts_from(&recording, upto), unsent.series()].concat();
                return send(&last, address, wait).map(|last| sent.and(last));
            }
            Ok(recording) => {
                let until = history::time(&recording, history::whole_until(&recording));
                if until > upto {
                    unsent.add(answers_now(&recording));
                    let part = [facts_from(&recording, upto), unsent.series()].concat();
                    if let Ok(part) = send(&part, address, Duration::ZERO) {
                        (upto, sent, unsent) = (until, sent.and(part), Unsent::default());
                    }
                }
            }
            // The recorder may not have begun yet.
            Err(_) if begun.elapsed() < wait.max(BEGINNING) => pause(LOOK),
            Err(error) => return Err(error.into()),
        }
        // A long run takes longer to read, and is read less often for it.
        let next = looked + EVERY.max(looked.elapsed() * SHARE);
        while Instant::now() < next && goes_on(file) {
            pause(LOOK);
        }
    }
}

fn goes_on(file: &Path) -> bool {
    lowtide_store::open(file).is_ok_and(|reader| reader.state() == RunState::Running)
}

/// Facts from the moment `from` on (milliseconds since 1970).
fn facts_from(recording: &Recording, from: i64) -> Vec<Series> {
    let mut all = history::facts(recording);
    for series in &mut all {
        series.samples.retain(|sample| sample.0 >= from);
    }
    all.retain(|series| !series.samples.is_empty());
    all
}

/// What is known of the run now.
fn answers_now(recording: &Recording) -> Vec<Series> {
    let run = lowtide_verdict::judge_recording(recording);
    let last = recording.samples.last().map_or(Tick::START, |row| row.tick);
    history::answers(recording, &run, last.min(history::whole_until(recording)))
}

/// Sends all of it. What is refused does not keep the rest from being sent; it is told at the end.
fn send(history: &[Series], address: &str, wait: Duration) -> Result<Sent, RemoteError> {
    let address = write_address(address);
    let mut sent = Sent { series: history.len(), ..Sent::default() };
    let mut refused: Option<RemoteError> = None;
    let agent = agent(wait);
    let deadline = Instant::now() + wait;
    for batch in batches(history) {
        let samples = batch.iter().map(|series| series.samples.len()).sum();
        match post(&agent, &address, &proto::request(&batch), samples, deadline) {
            Ok(()) => (sent.samples, sent.requests) = (sent.samples + samples, sent.requests + 1),
            Err(error) => refused = Some(error.after(refused)?),
        }
    }
    refused.map_or(Ok(sent), |error| Err(error.with_taken(sent.samples)))
}

/// Oldest first over all series, so that a receiver that takes no late samples takes these.
fn batches(history: &[Series]) -> Vec<Vec<Series>> {
    let mut times: Vec<(i64, usize, usize)> = Vec::new();
    for (n, series) in history.iter().enumerate() {
        times.extend(series.samples.iter().enumerate().map(|(at, sample)| (sample.0, n, at)));
    }
    times.sort_unstable();
    let batch = |part: &[(i64, usize, usize)]| {
        let mut chosen: std::collections::BTreeMap<usize, Series> = std::collections::BTreeMap::new();
        for (_, n, at) in part {
            let source = &history[*n];
            let one = chosen
                .entry(*n)
                .or_insert_with(|| Series { labels: source.labels.clone(), samples: Vec::new() });
            one.samples.push(source.samples[*at]);
        }
        chosen.into_values().collect()
    };
    times.chunks(BATCH).map(batch).collect()
}

fn agent(wait: Duration) -> ureq::Agent {
    let config = ureq::Agent::config_builder().timeout_global(Some(PATIENCE)).http_status_as_error(false);
    config.timeout_connect(Some(wait.clamp(REACH.0, REACH.1))).build().into()
}

/// Whether this is an address that can be sent to: of this protocol, with a host.
pub fn is_address(text: &str) -> bool {
    let parsed = text.parse::<ureq::http::Uri>();
    parsed.is_ok_and(|uri| {
        matches!(uri.scheme_str(), Some("http" | "https")) && uri.host().is_some_and(|host| !host.is_empty())
    })
}

/// A bare address gets the path that all of them use.
fn write_address(address: &str) -> String {
    let rest = address.split_once("://").map_or(address, |(_, rest)| rest);
    match rest.split_once('/') {
        Some((_, path)) if !path.is_empty() => address.to_owned(),
        Some(_) | None => format!("{}/api/v1/write", address.trim_end_matches('/')),
    }
}

fn post(
    agent: &ureq::Agent,
    address: &str,
    body: &[u8],
    samples: usize,
    deadline: Instant,
) -> Result<(), RemoteError> {
    let mut pause = PAUSES.0;
    loop {
        let mut request = agent
            .post(address)
            .header("content-type", "application/x-protobuf")
            .header("content-encoding", "snappy")
            .header("x-prometheus-remote-write-version", "0.1.0")
            .header("user-agent", concat!("lowtide/", env!("CARGO_PKG_VERSION")));
        if let Ok(token) = std::env::var(TOKEN) {
            request = request.header("authorization", format!("Bearer {token}"));
        }
        let again = Instant::now() + pause < deadline;
        match request.send(body) {
            Ok(answer) if answer.status().is_success() => return Ok(()),
            // Busy or broken: it may be well again soon.
            Ok(answer) if again && (answer.status().is_server_error() || answer.status().as_u16() == 429) => {
            }
            Ok(mut answer) => {
                let words = answer.body_mut().read_to_string().unwrap_or_default();
                let words = words.trim().chars().take(300).collect();
                return Err(RemoteError::Refused {
                    address: address.to_owned(),
                    samples,
                    taken: 0,
                    status: answer.status().as_u16(),
                    words,
                });
            }
            Err(_) if again => {}
            Err(error) => {
                return Err(RemoteError::Away { address: address.to_owned(), source: Box::new(error) });
            }
        }
        std::thread::sleep(pause);
        pause = (2 * pause).min(PAUSES.1);
    }
}

/// Asks an engine for curves: any query of its API, or `http://HOST:PORT/?run=ID` for a run that was sent.
pub fn ask(address: &str) -> Result<Vec<u8>, RemoteError> {
    let address = query_address(address);
    let mut request = agent(PATIENCE).get(&address);
    if let Ok(token) = std::env::var(TOKEN) {
        request = request.header("authorization", format!("Bearer {token}"));
    }
    let away = |source: ureq::Error| RemoteError::Away { address: address.clone(), source: Box::new(source) };
    let mut answer = request.call().map_err(away)?;
    let status = answer.status();
    let read = answer.body_mut().with_config().limit(MOST_BYTES).read_to_vec();
    let bytes = read.map_err(away)?;
    if status.is_success() {
        return Ok(bytes);
    }
    let words = String::from_utf8_lossy(&bytes).trim().chars().take(300).collect();
    Err(RemoteError::Answered { address, status: status.as_u16(), words })
}

fn query_address(address: &str) -> String {
    let Some((base, run)) = address.split_once("?run=").filter(|(base, _)| !base.contains("/api/")) else {
        return address.to_owned();
    };
    let names = "lowtide_need_bytes|lowtide_need_peak_bytes|lowtide_step|lowtide_limit_bytes|lowtide_run_context|lowtide_judged_role";
    let run = run.replace(['"', '\\'], "");
    let query = format!("{{__name__=~\"{names}\",run=\"{run}\"}}[{WINDOW}]");
    format!("{}/api/v1/query?query={}", base.trim_end_matches('/'), crate::html::list::encoded(&query))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bare_address_gets_the_usual_path() {
        assert_eq!(write_address("http://vm:8428"), "http://vm:8428/api/v1/write");
        assert_eq!(write_address("http://vm:8428/"), "http://vm:8428/api/v1/write");
        assert_eq!(write_address("https://mimir/api/v1/push"), "https://mimir/api/v1/push");
    }

    #[test]
    fn what_can_not_be_sent_to_is_no_address() {
        for good in ["http://vm:8428", "https://mimir/api/v1/push", "http://[::1]:9/"] {
            assert!(is_address(good), "{good}");
        }
        for bad in ["notaurl", "ftp://x", "vm:8428", "http://", "http:///x", "http://a b", ""] {
            assert!(!is_address(bad), "{bad}");
        }
    }

    #[test]
    fn a_run_is_asked_for_by_its_id_and_any_other_question_stays_as_it_is() {
        let asked = query_address("http://vm:8428/?run=7f\"3a");
        assert!(
            asked.starts_with("http://vm:8428/api/v1/query?query=%7B__name__")
                && asked.contains("run%3D%227f3a%22"),
            "{asked}"
        );
        let own = "http://vm:8428/api/v1/query_range?query=up&start=0&end=9&step=1";
        assert_eq!(query_address(own), own);
    }

    #[test]
    fn batches_go_oldest_first_and_lose_nothing() {
        let series = |name: &str, times: std::ops::Range<i64>| Series {
            labels: vec![("__name__".to_owned(), name.to_owned())],
            samples: times.map(|t| (t, 1.0)).collect(),
        };
        let all = batches(&[series("a", 0..7000), series("b", 3000..9000)]);
        let last = |batch: &[Series]| batch.iter().flat_map(|s| &s.samples).map(|s| s.0).max();
        let first = |batch: &[Series]| batch.iter().flat_map(|s| &s.samples).map(|s| s.0).min();
        assert_eq!(all.iter().flatten().map(|s| s.samples.len()).sum::<usize>(), 13_000);
        assert!(all.windows(2).all(|pair| last(&pair[0]) <= first(&pair[1])));
    }
}
