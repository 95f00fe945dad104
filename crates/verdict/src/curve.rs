//! Judges the curve of others: what stands beside it goes to the same rules as what a recording holds.
//!
//! A curve of GPU memory may tell allocated and reserved apart, a curve of a process its anonymous part, its live heap or
//! how many tensors there are. Not here: reading them from a file (see `store::import`).

use crate::allocator::{Ends, GPU, HEAP, Slack, fragmentation};
use crate::causes::{Heap, Signs};
use crate::floor::Floor;
use crate::judge::Judge;
use crate::outlook::IF_NOT_OVER;
use crate::run::RunVerdict;
use crate::series::{Point, Series};
use crate::verdict::{Group, Kind, Verdict};
use lowtide_model::{Bytes, Curve, Metric};

/// Side curves that count things instead of bytes, and what they count.
const COUNTS: [(&str, &str); 3] =
    [("tensor_count", "tensors"), ("objects", "objects"), ("live_buffers", "buffers")];
/// Bins of a side curve.
const ROOM: usize = 256;
/// Fewer values beside a curve show nothing.
const FEWEST: usize = 4;

/// Judges one finished curve. Nothing in it says that it is finished, so a leak that would not be called yet while more
/// is to come says so.
pub fn judge(curve: &Curve) -> Verdict {
    RunVerdict::of_curve(curve).main
}

/// Judges what there is so far of a curve that still grows longer.
pub fn judge_running(curve: &Curve) -> Verdict {
    RunVerdict::of_running(curve).main
}

impl RunVerdict {
    /// The answer for one finished curve, with what else it shows.
    pub fn of_curve(curve: &Curve) -> Self {
        let mut fed = Fed::new(curve);
        fed.need.leave_out_freed();
        let mut told = fed.told();
        if told.main.verdict == Kind::Leak {
            fed.set_running();
            if fed.told().main.verdict != Kind::Leak {
                told.main.advice.push(IF_NOT_OVER.to_owned());
            }
        }
        told
    }

    /// The same for what there is so far of one that still grows longer.
    pub fn of_running(curve: &Curve) -> Self {
        let mut fed = Fed::new(curve);
        fed.set_running();
        fed.told()
    }
}

/// A curve in the order of its x, and what stands beside it.
struct Fed {
    is_gpu: bool,
    need: Judge,
    /// Memory that an allocator holds for nothing, what it holds in all, and whose it is.
    slack: Option<(Judge, f64, &'static Slack)>,
    count: Option<(&'static str, Ends)>,
    heap: Option<Heap>,
}

/// The values of a side curve over the x of its curve, in order.
struct Beside<'a> {
    curve: &'a Curve,
    order: &'a [usize],
}

impl Beside<'_> {
    fn has(&self, name: &str) -> bool {
        self.curve.series.contains_key(name)
    }

    fn at(&self, name: &str, i: usize) -> Option<f64> {
        self.curve.series.get(name)?.get(i).copied().filter(|value| value.is_finite())
    }

    /// Where the floor of a side curve begins and ends: a heap that is collected now and then goes up and down.
    fn ends(&self, name: &str) -> Option<Ends> {
        let mut series = Series::new(ROOM);
        for &i in self.order {
            if let Some(value) = self.at(name, i) {
                series.push(Point::one(self.curve.x[i], value));
            }
        }
        let floor = Floor::of(&series);
        let ends = floor.y.first().zip(floor.y.last());
        ends.filter(|_| series.samples() >= FEWEST as u64)
            .map(|(first, last)| Ends { first: *first, last: *last })
    }

    /// What an allocator holds minus what is in use of it.
    fn slack(
        &self,
        held: impl Fn(usize) -> Option<f64>,
        used: impl Fn(usize) -> Option<f64>,
    ) -> Option<(Judge, f64)> {
        let curve = self.curve;
        let mut judge = Judge::new(curve.context.clone(), curve.axis, curve.metric.clone());
        judge.set_name(&curve.name);
        let mut newest = None;
        for &i in self.order {
            if let Some((held, used)) = held(i).zip(used(i)) {
                judge.push(Point::one(curve.x[i], (held - used).max(0.0)));
                newest = Some((held, used));
            }
        }
        let (held, used) = newest.filter(|_| judge.samples() >= FEWEST as u64)?;
        let context = &curve.context;
        let beside = context.limit.map(|limit| limit.saturating_sub(Bytes::from_f64(used)));
        judge.set_limit(
            beside,
            context.limit_from.as_ref().map(|from| format!("{from}, beside what is in use")),
        );
        Some((judge, held))
    }

    /// Of GPU memory `reserved` minus `allocated`, of a process the total of its heap minus what is used of it.
    fn slack_of_its_allocator(&self) -> Option<(Judge, f64, &'static Slack)> {
        let y = |i: usize| Some(self.curve.y[i]).filter(|y| y.is_finite());
        if self.curve.metric != Metric::Gpu {
            let (judge, held) = self.slack(|i| self.at("heap_total", i), |i| self.at("heap_used", i))?;
            return Some((judge, held, &HEAP));
        }
        if !self.has("reserved") && !self.has("allocated") {
            return None;
        }
        let reserved = |i: usize| if self.has("reserved") { self.at("reserved", i) } else { y(i) };
        let (judge, held) = self.slack(reserved, |i| self.at("allocated", i).or_else(|| y(i)))?;
        Some((judge, held, &GPU))
    }
}

impl Fed {
    fn new(curve: &Curve) -> Self {
        let mut order: Vec<usize> =
            (0..curve.x.len().min(curve.y.len())).filter(|&i| curve.x[i].is_finite()).collect();
        order.sort_by(|&a, &b| curve.x[a].total_cmp(&curve.x[b]));
        let beside = Beside { curve, order: &order };
        let counted = COUNTS.into_iter().find(|(name, _)| beside.has(name));
        let ends = |name: &str| if beside.has(name) { beside.ends(name) } else { None };
        Self {
            is_gpu: curve.metric == Metric::Gpu,
            need: need(&beside, counted.map(|(name, _)| name)),
            slack: beside.slack_of_its_allocator(),
            count: counted.and_then(|(name, what)| Some((what, ends(name)?))),
            heap: ends("heap_used").map(|used| Heap { used, total: ends("heap_total") }),
        }
    }

    fn set_running(&mut self) {
        self.need.set_running(true);
        if let Some((slack, ..)) = &mut self.slack {
            slack.set_running(true);
        }
    }

    /// What is in use leads where it moves, and what is held for nothing where only that does.
    fn told(&self) -> RunVerdict {
        let mut main = self.need.verdict();
        let grown = main.floor.end_bytes - main.floor.start_bytes;
        let grown = if main.group == Group::Flat { 0.0 } else { grown };
        let signs = Signs { grown, count: self.count, heap: self.heap, ..Signs::default() };
        if main.verdict == Kind::WarmUp && signs.heap_stays() {
            main = self.need.verdict_as(Kind::AllocatorKept);
        }
        if self.slack.is_some() && self.is_gpu && main.group != Group::Flat {
            main.tell_tensors(None);
        }
        main.tell_causes(&signs);
        // Of a process it is the story only where it makes up most of what came.
        let leads = if self.is_gpu { main.group == Group::Flat } else { signs.kept_by_heap().is_some() };
        let slack = self.slack.as_ref().filter(|_| leads || self.is_gpu);
        match slack.and_then(|(judge, held, slack)| fragmentation(judge, *held, 0.0, slack)) {
            Some(found) if leads => RunVerdict { main: found, findings: Vec::new(), roles: Vec::new() },
            found => RunVerdict { main, findings: found.into_iter().collect(), roles: Vec::new() },
        }
    }
}

/// The judge of what the job needs: of a process its anonymous memory, of a GPU what is allocated, where they are told.
fn need(beside: &Beside<'_>, counted: Option<&str>) -> Judge {
    let curve = beside.curve;
    let mut judge = Judge::new(curve.context.clone(), curve.axis, curve.metric.clone());
    judge.set_name(&curve.name);
    judge.set_file_inside(beside.has("anon"));
    // Nothing of a GPU is swapped out: that is the process's own.
    let (part, out) = if curve.metric == Metric::Gpu { ("allocated", "") } else { ("anon", "swap") };
    for &i in beside.order {
        let x = curve.x[i];
        let need = beside.at(part, i).unwrap_or(curve.y[i]) + beside.at(out, i).unwrap_or(0.0);
        judge.push(Point::one(x, need));
        if let Some(file) =
            beside.at("file", i).or_else(|| beside.at("anon", i).map(|anon| curve.y[i] - anon))
        {
            judge.push_file(x, file);
        }
        if let Some((name, count)) = counted.and_then(|name| Some((name, beside.at(name, i)?))) {
            judge.push_count(name, x, count);
        }
    }
    judge
}
