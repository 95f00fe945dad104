//! What the agents counted of tensors: by device, dtype and shape, and the gradients. Memory alone does not tell it.
//!
//! An agent counts seldom (python/lowtide/_agent/meters.py) and tells each group as an `info` mark. The newest count of each
//! process is kept here, for the scans that somebody asks for.

use lowtide_model::{Bytes, Mark, MarkKind, ProcKey};
use lowtide_scan::{Scan, Suspect, TensorUse};
use serde::Deserialize;
use std::collections::BTreeMap;

/// Processes whose counts are kept.
const MOST_PROCESSES: usize = 256;
/// Groups of one count.
const MOST_GROUPS: usize = 64;

#[derive(Deserialize)]
struct Alike {
    n: u64,
    on: String,
    #[serde(rename = "type")]
    dtype: String,
    shape: Vec<u64>,
    count: u64,
    bytes: u64,
}

#[derive(Deserialize)]
struct Gradients {
    n: u64,
    count: u64,
    bytes: u64,
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum Told {
    TensorsAlike(Alike),
    Gradients(Gradients),
}

#[derive(Default)]
struct Count {
    number: u64,
    tensors: Vec<TensorUse>,
    gradients: Option<(u64, u64)>,
}

/// The newest count of each process.
#[derive(Default)]
pub(crate) struct Censuses {
    counts: BTreeMap<ProcKey, Count>,
}

impl Censuses {
    /// Takes a mark that may be part of a count.
    pub(crate) fn take(&mut self, mark: &Mark) {
        let (Some(process), Some(extra)) = (mark.process, mark.extra.as_deref()) else { return };
        let ours = extra.starts_with("{\"tensors_alike\":") || extra.starts_with("{\"gradients\":");
        if mark.kind != MarkKind::Info || !ours {
            return;
        }
        if let Ok(told) = serde_json::from_str::<Told>(extra)
            && (self.counts.len() < MOST_PROCESSES || self.counts.contains_key(&process))
        {
            self.counts.entry(process).or_default().take(told);
        }
    }

    /// A process ended.
    pub(crate) fn forget(&mut self, process: ProcKey) {
        self.counts.remove(&process);
    }

    /// Adds what was counted to a scan.
    pub(crate) fn add_to(&self, process: ProcKey, scan: &mut Scan) {
        let Some(count) = self.counts.get(&process) else { return };
        scan.tensors.clone_from(&count.tensors);
        if let Some((number, bytes)) = count.gradients {
            // What memory alone told of them is less: not what is on a device.
            scan.suspects.retain(|suspect| suspect.label != "gradients");
            scan.suspects.push(Suspect {
                label: "gradients".to_owned(),
                attribute: "grad".to_owned(),
                holder: "parameters".to_owned(),
                container: "Tensor".to_owned(),
                count: number,
                bytes: Bytes(bytes),
                ..Suspect::default()
            });
        }
    }
}

impl Count {
    fn take(&mut self, told: Told) {
        let number = match &told {
            Told::TensorsAlike(alike) => alike.n,
            Told::Gradients(gradients) => gradients.n,
        };
        if number != self.number {
            *self = Self { number, ..Self::default() };
        }
        match told {
            Told::TensorsAlike(Alike { on, dtype, shape, count, bytes, .. }) => {
                if self.tensors.len() < MOST_GROUPS {
                    self.tensors.push(TensorUse { device: on, dtype, shape, count, bytes: Bytes(bytes) });
                }
            }
            Told::Gradients(Gradients { count, bytes, .. }) => self.gradients = Some((count, bytes)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lowtide_model::{MarkPhase, Tick};
    use proptest::prelude::*;

    const KEY: ProcKey = ProcKey { pid: 7, start_ticks: 1 };

    fn mark(extra: &str) -> Mark {
        Mark {
            tick: Tick::START,
            process: Some(KEY),
            kind: MarkKind::Info,
            phase: MarkPhase::Point,
            number: 0.0,
            rank: None,
            extra: Some(extra.to_owned()),
        }
    }

    #[test]
    fn the_newest_count_replaces_the_one_before() {
        let mut censuses = Censuses::default();
        let alike = |number: u64, count: u64| {
            mark(&format!(
                r#"{{"tensors_alike":{{"n":{number},"on":"cuda:0","type":"float32","shape":[4,2],"count":{count},"bytes":32}}}}"#
            ))
        };
        censuses.take(&alike(10, 5));
        censuses.take(&alike(20, 6));
        censuses.take(&mark(r#"{"gradients":{"n":20,"count":3,"bytes":96}}"#));
        censuses.take(&mark(r#"{"gradients":"none"}"#));
        censuses.take(&mark(r#"{"examples":663}"#));
        let mut scan = Scan::default();
        censuses.add_to(KEY, &mut scan);
        let [tensors] = scan.tensors.as_slice() else { panic!("{:?}", scan.tensors) };
        assert_eq!(
            (tensors.device.as_str(), tensors.dtype.as_str(), tensors.count),
            ("cuda:0", "float32", 6)
        );
        assert_eq!(tensors.shape, [4, 2]);
        assert_eq!((scan.suspects[0].count, scan.suspects[0].bytes), (3, Bytes(96)));
        censuses.forget(KEY);
        let mut empty = Scan::default();
        censuses.add_to(KEY, &mut empty);
        assert_eq!(empty, Scan::default());
    }

    proptest! {
        #[test]
        fn no_text_panics(text in "\\{\"(tensors_alike|gradients)\":.*") {
            Censuses::default().take(&mark(&text));
        }
    }
}
