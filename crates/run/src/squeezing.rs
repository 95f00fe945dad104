//! What cleaning up gave back: the figures of the agent inside a process, gathered into one report.
//!
//! The recorder writes a request into the process's mark page; the agent carries it out and tells its figures as `info`
//! marks (docs/scan.md, "squeeze"). Here they are put together. Not here: cleaning up itself (python/lowtide/_agent/squeeze.py),
//! how a report looks.

use lowtide_model::{Bytes, ProcKey};
use serde::{Deserialize, Serialize};

/// The schema a [`Squeezed`] is written with.
pub const SCHEMA: &str = "lowtide.squeeze/1";
/// How a mark of the agent's begins that holds figures.
pub(crate) const MARK: &str = "{\"squeeze\":";

/// What cleaning up gave back in one process.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Squeezed {
    /// [`SCHEMA`].
    pub schema: String,
    /// Which process.
    pub process: Option<ProcKey>,
    /// Its command, short.
    pub command: String,
    /// Each way of cleaning up, in the order it was tried.
    pub ways: Vec<Way>,
    /// Why not everything was done or watched; nothing when it was.
    pub incomplete: Option<String>,
}

/// A way of cleaning up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Means {
    /// The C allocator gives back what is free: `malloc_trim` and its kin.
    #[default]
    #[serde(alias = "trim")]
    AllocatorTrim,
    /// The framework gives back the GPU memory that it keeps.
    #[serde(alias = "gpu")]
    GpuCache,
    /// Python looks for cycles nobody reaches.
    #[serde(alias = "gc")]
    GcCollect,
}

/// What one way gave.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Way {
    /// Which.
    pub means: Means,
    /// The function or allocator that did it.
    pub with: Option<String>,
    /// Why it was not done.
    pub skipped: Option<String>,
    /// For how long the process was held up by it.
    pub took_ms: f64,
    /// Host memory of the process before and after.
    pub host: Option<Change>,
    /// GPU memory that the framework holds, before and after.
    pub gpu: Option<Change>,
    /// Objects that the collector found unreachable.
    pub found_objects: Option<u64>,
    /// The look that came later; none where nothing came back.
    pub later: Option<Later>,
}

/// Memory before and after.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Change {
    /// Before.
    pub before_bytes: Bytes,
    /// After.
    pub after_bytes: Bytes,
    /// What came back; 0 when it grew meanwhile.
    pub returned_bytes: Bytes,
}

/// The look at what was given back, some steps later.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Later {
    /// Steps later, where steps are told.
    pub steps: Option<u64>,
    /// Seconds later.
    pub seconds: f64,
    /// Host memory then.
    pub host_bytes: Bytes,
    /// Of what came back, still gone then. The job's own growth meanwhile counts against it.
    pub host_still_gone_bytes: Bytes,
    /// GPU memory held then.
    pub gpu_bytes: Option<Bytes>,
    /// Of the GPU memory that came back, still gone then.
    pub gpu_still_gone_bytes: Option<Bytes>,
}

/// Resident bytes, and those that the GPU allocator holds.
type Sizes = (u64, Option<u64>);

#[derive(Deserialize)]
struct Mark {
    squeeze: Told,
}

/// What the agent says: docs/scan.md.
#[derive(Deserialize)]
struct Told {
    n: u64,
    way: Means,
    #[serde(default)]
    ms: f64,
    before: Option<Sizes>,
    after: Option<Sizes>,
    later: Option<Sizes>,
    steps: Option<u64>,
    seconds: Option<f64>,
    found: Option<u64>,
    with: Option<String>,
    not: Option<String>,
}

impl Squeezed {
    /// Nothing yet.
    pub(crate) fn of(process: ProcKey, command: String) -> Self {
        Self { schema: SCHEMA.to_owned(), process: Some(process), command, ..Self::default() }
    }

    /// Takes what the agent says about request `number`. Gives whether it did.
    pub(crate) fn take(&mut self, number: u64, extra: &str) -> bool {
        match serde_json::from_str::<Mark>(extra) {
            Ok(Mark { squeeze }) if squeeze.n == number => {
                self.add(squeeze);
                true
            }
            _ => false,
        }
    }

    fn add(&mut self, told: Told) {
        if let Some(later) = told.later {
            let way = self.ways.iter_mut().find(|way| way.means == told.way);
            if let Some(way) = way {
                way.later = Some(way.seen_later(later, told.steps, told.seconds));
            }
            return;
        }
        let host = told.before.zip(told.after).map(|(before, after)| Change::of(before.0, after.0));
        let gpu = |sizes: Option<Sizes>| sizes.and_then(|(_, gpu)| gpu);
        self.ways.push(Way {
            means: told.way,
            with: told.with,
            skipped: told.not,
            took_ms: told.ms,
            host,
            gpu: gpu(told.before).zip(gpu(told.after)).map(|(before, after)| Change::of(before, after)),
            found_objects: told.found,
            later: None,
        });
    }
}

impl Change {
    fn of(before: u64, after: u64) -> Self {
        Self {
            before_bytes: Bytes(before),
            after_bytes: Bytes(after),
            returned_bytes: Bytes(before.saturating_sub(after)),
        }
    }

    /// What is still gone when the size is `now`: never more than came back.
    fn still_gone(self, now: u64) -> Bytes {
        Bytes(self.before_bytes.0.saturating_sub(now)).min(self.returned_bytes)
    }
}

impl Way {
    fn seen_later(&self, (host, gpu): Sizes, steps: Option<u64>, seconds: Option<f64>) -> Later {
        Later {
            steps,
            seconds: seconds.unwrap_or(0.0),
            host_bytes: Bytes(host),
            host_still_gone_bytes: self.host.unwrap_or_default().still_gone(host),
            gpu_bytes: gpu.map(Bytes),
            gpu_still_gone_bytes: self.gpu.zip(gpu).map(|(change, gpu)| change.still_gone(gpu)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const KEY: ProcKey = ProcKey { pid: 7, start_ticks: 1 };

    fn told(lines: &[&str]) -> Squeezed {
        let mut squeezed = Squeezed::of(KEY, String::new());
        for line in lines {
            assert!(squeezed.take(3, line), "{line}");
        }
        squeezed
    }

    #[test]
    fn what_came_back_and_what_of_it_is_still_gone_is_told_for_each_way() {
        let squeezed = told(&[
            r#"{"squeeze":{"n":3,"way":"trim","ms":1.5,"before":[900,null],"after":[400,null],"with":"glibc"}}"#,
            r#"{"squeeze":{"n":3,"way":"trim","later":[600,null],"seconds":4.0,"steps":10}}"#,
            r#"{"squeeze":{"n":3,"way":"gpu","not":"no GPU is in use"}}"#,
            r#"{"squeeze":{"n":3,"way":"gc","ms":31,"before":[600,50],"after":[700,20],"found":0}}"#,
            r#"{"squeeze":{"n":3,"way":"gc","later":[100,45],"seconds":4.0,"steps":11}}"#,
        ]);
        let [trim, gpu, gc] = squeezed.ways.as_slice() else { panic!("{squeezed:?}") };
        assert_eq!(trim.host.unwrap().returned_bytes, Bytes(500));
        assert_eq!(trim.later.unwrap().host_still_gone_bytes, Bytes(300));
        assert_eq!(gpu.skipped.as_deref(), Some("no GPU is in use"));
        assert_eq!((gc.host.unwrap().returned_bytes, gc.gpu.unwrap().returned_bytes), (Bytes(0), Bytes(30)));
        let later = gc.later.unwrap();
        assert_eq!((later.host_still_gone_bytes, later.gpu_still_gone_bytes), (Bytes(0), Some(Bytes(5))));
    }

    #[test]
    fn marks_of_other_requests_and_other_marks_are_left_alone() {
        let mut squeezed = Squeezed::of(KEY, String::new());
        assert!(!squeezed.take(3, r#"{"squeeze":{"n":2,"way":"gc","ms":1}}"#));
        assert!(!squeezed.take(3, r#"{"squeeze":7}"#));
        assert!(!squeezed.take(3, r#"{"examples":663}"#));
        assert_eq!(squeezed.ways, []);
    }

    proptest! {
        #[test]
        fn no_figures_panic_and_no_more_is_gone_than_came_back(
            before in any::<u64>(), after in any::<u64>(), later in any::<u64>()
        ) {
            let squeezed = told(&[
                &format!(r#"{{"squeeze":{{"n":3,"way":"gc","before":[{before},{after}],"after":[{after},{before}]}}}}"#),
                &format!(r#"{{"squeeze":{{"n":3,"way":"gc","later":[{later},{later}]}}}}"#),
            ]);
            let way = &squeezed.ways[0];
            prop_assert!(way.later.unwrap().host_still_gone_bytes <= way.host.unwrap().returned_bytes);
        }

        #[test]
        fn no_text_panics(text in ".*") {
            Squeezed::of(KEY, String::new()).take(3, &text);
        }
    }
}
