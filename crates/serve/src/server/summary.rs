//! One run in a list: small enough that ten thousand of them are quick.

use crate::page::{Page, figure};
use lowtide_model::{Recording, RunState};
use lowtide_verdict::{Fits, Kind, RunVerdict, Source, judge_recording, rank_of};
use serde::{Deserialize, Serialize};
use std::path::Path;

/// Places of a small curve.
const SPARK: usize = 48;

/// What a list tells of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Summary {
    /// Its file name without the end: what it is called in addresses.
    pub(crate) id: String,
    pub(crate) run_id: String,
    pub(crate) name: String,
    pub(crate) command: String,
    pub(crate) host: String,
    pub(crate) rank: Option<u32>,
    pub(crate) started_unix_ns: i64,
    pub(crate) seconds: f64,
    pub(crate) state: Option<RunState>,
    pub(crate) verdict: Option<Kind>,
    pub(crate) outcome: Option<Fits>,
    pub(crate) headline: String,
    pub(crate) peak_bytes: Option<f64>,
    pub(crate) limit_bytes: Option<f64>,
    /// Levels of the curve from its start to its end, the highest of each stretch.
    pub(crate) spark: Vec<f64>,
    /// Why it can't be read, if it can't.
    pub(crate) error: Option<String>,
}

/// A recording with its answer.
pub(crate) struct Judged {
    pub(crate) recording: Recording,
    pub(crate) run: RunVerdict,
}

impl Judged {
    pub(crate) fn read(path: &Path) -> Result<Self, lowtide_store::StoreError> {
        let recording = lowtide_store::open(path)?.recording()?;
        let run = judge_recording(&recording);
        Ok(Self { recording, run })
    }

    /// What people call it.
    pub(crate) fn name<'a>(&'a self, id: &'a str) -> &'a str {
        if self.recording.meta.name.is_empty() { id } else { &self.recording.meta.name }
    }

    pub(crate) fn page(&self, id: &str) -> Page {
        Page::new(self.name(id), Source::Recording(&self.recording), &self.run)
    }

    pub(crate) fn summary(&self, id: &str) -> Summary {
        let figure = figure(Source::Recording(&self.recording), &self.run.main);
        let last = self.recording.samples.last().map(|row| row.tick);
        let (meta, main) = (&self.recording.meta, &self.run.main);
        Summary {
            id: id.to_owned(),
            run_id: meta.run_id.clone(),
            name: self.name(id).to_owned(),
            command: meta.argv.join(" ").chars().take(300).collect(),
            host: meta.host.clone(),
            rank: rank_of(&self.recording),
            started_unix_ns: meta.started_unix_ns,
            seconds: meta.ended.or(last).unwrap_or_default().seconds(),
            state: meta.state,
            verdict: Some(main.verdict),
            outcome: Some(main.outcome.is),
            headline: main.headline.clone(),
            peak_bytes: figure.line.peak(),
            limit_bytes: main.outcome.limit_bytes,
            spark: spark(&figure.line.x, &figure.line.high),
            error: None,
        }
    }
}

impl Summary {
    /// A file that can't be read is in the list too, with the reason.
    pub(crate) fn broken(id: &str, error: String) -> Self {
        Self {
            id: id.to_owned(),
            run_id: String::new(),
            name: id.to_owned(),
            command: String::new(),
            host: String::new(),
            rank: None,
            started_unix_ns: 0,
            seconds: 0.0,
            state: None,
            verdict: None,
            outcome: None,
            headline: String::new(),
            peak_bytes: None,
            limit_bytes: None,
            spark: Vec::new(),
            error: Some(error),
        }
    }
}

/// The highest level of each of a few stretches; where none was measured, the one before.
fn spark(x: &[f64], high: &[f64]) -> Vec<f64> {
    let (Some(first), Some(last)) = (x.first(), x.last()) else { return Vec::new() };
    let width = ((last - first) / SPARK as f64).max(f64::MIN_POSITIVE);
    let mut out: Vec<f64> = vec![f64::NAN; SPARK];
    for (x, high) in x.iter().zip(high) {
        let at = (((x - first) / width) as usize).min(SPARK - 1);
        out[at] = out[at].max(*high);
    }
    let mut level = *high.first().unwrap_or(&0.0);
    for value in &mut out {
        level = if value.is_nan() { level } else { *value };
        *value = level.round();
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_small_curve_keeps_the_peak() {
        let x: Vec<f64> = (0..1000).map(f64::from).collect();
        let high: Vec<f64> = (0..1000).map(|n| if n == 777 { 9.0 } else { 1.0 }).collect();
        let small = spark(&x, &high);
        assert_eq!(small.len(), SPARK);
        assert!(small.iter().any(|level| *level > 8.5));
        assert!(spark(&[], &[]).is_empty());
    }
}
