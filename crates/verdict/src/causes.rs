//! The causes that a recording can show beside the curve's own shape: each with its rule, its number and its advice.
//!
//! A kind says what memory does; a cause says what usually makes it do so. The letters are those of the catalogue that
//! the project's survey of reports made. Not here: causes that are kinds or findings of their own (fills: A, worker
//! copies: B, page cache: E, processes that multiply: F, fragmentation of GPU memory).

use crate::allocator::{Ends, Tensors};
use crate::phrases::counted;
use crate::phrases::{number, per_cent, size};
use crate::verdict::{Fits, Group, Kind, Verdict};
use lowtide_model::Role;

/// What was seen beside the curve. What was not looked at stays empty, and its rules are silent.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Signs {
    /// What the process is for.
    pub(crate) role: Option<Role>,
    /// Differences below this are not worth a word.
    pub(crate) worth: f64,
    /// Growth of its need, and of what it locked in place.
    pub(crate) grown: f64,
    pub(crate) locked_grown: f64,
    /// Most threads it had.
    pub(crate) threads: u32,
    /// Growth of a step, where steps are marked.
    pub(crate) per_step: Option<f64>,
    /// Highest need inside saves, inside evaluations, and outside both.
    pub(crate) peaks: Peaks,
    /// Used and whole size of /dev/shm.
    pub(crate) dev_shm: Option<(f64, f64)>,
    /// Processes that died of a bus error.
    pub(crate) bus_errors: usize,
    /// Compile workers, what they hold, and what all processes hold.
    pub(crate) compilers: (usize, f64, f64),
    /// Different input shapes, and the memory that came with each, where memory follows their number.
    pub(crate) per_shape: Option<(f64, f64)>,
    /// What runs rollouts here, and how far the object store moved meanwhile.
    pub(crate) rollouts: Option<(&'static str, f64)>,
    /// Loader workers that each filled up and stopped, and what each took.
    pub(crate) buffers: Option<(usize, f64)>,
    /// What tensors did.
    pub(crate) tensors: Tensors,
    /// What was counted, and what its number did.
    pub(crate) count: Option<(&'static str, Ends)>,
    /// What the live part of the heap did.
    pub(crate) heap: Option<Heap>,
}

/// A heap as its allocator or collector tells it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Heap {
    /// In live objects.
    pub(crate) used: Ends,
    /// Held for them.
    pub(crate) total: Option<Ends>,
}

impl Signs {
    /// Whether memory grew while what is live in the heap did not.
    pub(crate) fn heap_stays(&self) -> bool {
        let grows = self.grown > self.worth;
        self.heap.is_some_and(|heap| grows && heap.used.grown() < NOT_TENSORS * self.grown)
    }

    /// What the heap holds more than is live in it, where that is most of what came.
    pub(crate) fn kept_by_heap(&self) -> Option<f64> {
        let heap = self.heap.filter(|_| self.heap_stays())?;
        let kept = heap.total?.grown() - heap.used.grown();
        (kept >= TENSORS * self.grown).then_some(kept)
    }

    /// By which part things became more and memory did, where only their number is told.
    fn parts(&self, verdict: &Verdict) -> Option<(&'static str, f64, f64)> {
        let (what, count) = self.count.filter(|_| self.tensors.cpu.is_none())?;
        let start = verdict.floor.start_bytes;
        let told = self.grown > self.worth && start > 0.0;
        told.then_some((what, count.grown_part()?, self.grown / start))
    }
}

/// The highest level by what the job was doing.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Peaks {
    pub(crate) save: f64,
    pub(crate) eval: f64,
    pub(crate) outside: f64,
}

/// One line of the catalogue.
struct Cause {
    /// Its letter there.
    #[cfg_attr(not(test), allow(dead_code, reason = "names the line for readers and tests"))]
    id: char,
    /// The evidence with its number, when the cause shows.
    rule: fn(&Verdict, &Signs) -> Option<String>,
    advice: &'static str,
    /// What it is about.
    about: About,
}

/// Whether a cause explains growth, or only how high memory stands.
#[derive(Clone, Copy, PartialEq, Eq)]
enum About {
    Growth,
    Level,
}

/// A peak inside a phase counts when it is this part above the highest level outside.
const ABOVE: f64 = 0.10;
/// Locked memory is the story when it makes up this part of the growth.
const LOCKED_PART: f64 = 0.5;
/// /dev/shm is short when this part of it is used.
const SHM_FULL: f64 = 0.8;
/// Compile workers are worth a word when there are so many and they hold this part of all.
const COMPILERS: (usize, f64) = (4, 0.2);
/// From this many threads on, glibc has made several arenas.
const MANY_THREADS: u32 = 4;

/// Tensors, or live objects, are what grows when they make up this part of the growth, and are not when they make up less
/// than that. Where only their number is known, its growth is held against that of memory in the same way.
const TENSORS: f64 = 0.5;
const NOT_TENSORS: f64 = 0.1;

const CAUSES: [Cause; 16] = [
    Cause {
        id: 'L',
        rule: shared_memory_is_short,
        advice: "give /dev/shm more room (--shm-size in Docker, a memory emptyDir in Kubernetes), or use fewer loader workers; it counts against the pod's limit",
        about: About::Growth,
    },
    Cause {
        id: 'H',
        rule: pinned_memory_grows,
        advice: "pinned buffers are rounded up and kept: pin sizes just under a power of two, or turn pin_memory off",
        about: About::Growth,
    },
    Cause {
        id: 'G',
        rule: saves_peak,
        advice: "save in shards or stream the state from one rank, and keep room for the peak of a save",
        about: About::Level,
    },
    Cause {
        id: 'C',
        rule: evaluations_peak,
        advice: "keep less while evaluating: reduce the outputs at once (preprocess_logits_for_metrics), or compute metrics batch by batch",
        about: About::Level,
    },
    Cause {
        id: 'D',
        rule: the_loop_keeps,
        advice: "look at what the training loop keeps: a loss summed without detach() or item(), outputs or logs in a list that is never cleared",
        about: About::Growth,
    },
    Cause {
        id: 'D',
        rule: tensors_grow,
        advice: "find who keeps tensors: a loss or outputs kept without detach(), a list that is never cleared",
        about: About::Growth,
    },
    Cause {
        id: 'D',
        rule: number_grows,
        advice: "find who keeps them: a list that is never cleared, a loss or outputs kept without detach()",
        about: About::Growth,
    },
    Cause {
        id: 'D',
        rule: live_heap_grows,
        advice: "compare two snapshots of the heap, some steps apart: what is live in it grows, so something holds it",
        about: About::Growth,
    },
    Cause {
        id: 'I',
        rule: heap_keeps,
        advice: "look beside the live heap: set MALLOC_ARENA_MAX=2 or preload jemalloc, and if that does not end it, look for native buffers that are never freed",
        about: About::Growth,
    },
    Cause {
        id: 'D',
        rule: logs_keep,
        advice: "look at what logging keeps: a history, histograms, pictures; write them out and drop them",
        about: About::Growth,
    },
    Cause {
        id: 'J',
        rule: shapes_keep,
        advice: "pad or bucket input lengths so that few shapes occur, or cap the cache of kernel plans (LRU_CACHE_CAPACITY for CPUs, TORCH_CUDNN_V8_API_LRU_CACHE_LIMIT for GPUs)",
        about: About::Growth,
    },
    Cause {
        id: 'M',
        rule: rollouts_keep,
        advice: "keep rollouts in the object store instead of the driver, update the inference engine, and turn its multimodal cache off",
        about: About::Growth,
    },
    Cause {
        id: 'N',
        rule: loaders_buffer,
        advice: "use fewer loader workers, or smaller prefetch and shuffle buffers or row groups: they multiply",
        about: About::Growth,
    },
    Cause {
        id: 'O',
        rule: a_helper_grows,
        advice: "the helper belongs to a library, not to the training loop: update or bound that library, or turn the helper off",
        about: About::Growth,
    },
    Cause {
        id: 'I',
        rule: many_arenas,
        advice: "set MALLOC_ARENA_MAX=2 or preload jemalloc: with many threads the allocator keeps much of what was freed",
        about: About::Growth,
    },
    Cause {
        id: 'K',
        rule: compilers_hold_much,
        advice: "set TORCHINDUCTOR_COMPILE_THREADS to a small number: each compile worker is a process of its own",
        about: About::Level,
    },
];

impl Verdict {
    /// Adds what the signs tell; the most telling advice goes first.
    pub(crate) fn tell_causes(&mut self, signs: &Signs) {
        let found: Vec<(String, &Cause)> =
            CAUSES.iter().filter_map(|cause| Some(((cause.rule)(self, signs)?, cause))).collect();
        self.evidence.extend(not_tensors(signs).or_else(|| not_more(self, signs)));
        let mut first = 0;
        for (evidence, cause) in found {
            self.evidence.push(evidence);
            // Who asks why memory grows is not helped first by what makes a peak lower.
            let beside = cause.about == About::Level && self.group != Group::Flat;
            let at = if beside { self.advice.len() } else { first };
            self.advice.insert(at.min(self.advice.len()), cause.advice.to_owned());
            first += usize::from(!beside);
        }
    }
}

fn shared_memory_is_short(_: &Verdict, signs: &Signs) -> Option<String> {
    let (used, all) = signs.dev_shm?;
    let died = signs.bus_errors;
    let full = all > 0.0 && used >= SHM_FULL * all;
    (full || died > 0).then(|| {
        format!("/dev/shm holds {} of {}; processes that died of a bus error: {died}", size(used), size(all))
    })
}

fn pinned_memory_grows(_: &Verdict, signs: &Signs) -> Option<String> {
    let grown = signs.locked_grown;
    (grown > signs.worth && grown >= LOCKED_PART * signs.grown)
        .then(|| format!("locked or pinned memory grew by {}", size(grown)))
}

fn peak(of: f64, signs: &Signs, phase: &str) -> Option<String> {
    let outside = signs.peaks.outside;
    let over = of - outside;
    (outside > 0.0 && over > signs.worth && over > ABOVE * outside).then(|| {
        format!("inside {phase} it reached {}, {} above its highest level outside", size(of), size(over))
    })
}

fn saves_peak(_: &Verdict, signs: &Signs) -> Option<String> {
    peak(signs.peaks.save, signs, "saves")
}

fn evaluations_peak(_: &Verdict, signs: &Signs) -> Option<String> {
    peak(signs.peaks.eval, signs, "evaluations")
}

fn the_loop_keeps(verdict: &Verdict, signs: &Signs) -> Option<String> {
    let per_step = signs.per_step?;
    let trainer = signs.role == Some(Role::Trainer);
    let in_steps = verdict.follows.is_none_or(|follows| matches!(follows, "step" | "micro-batch"));
    // Too few samples between two steps do not tell that it is each of them.
    let how = if verdict.follows.is_some() { "at every step" } else { "a step, on average" };
    (verdict.group == Group::Leak && trainer && in_steps)
        .then(|| format!("the trainer itself keeps {} {how}", size(per_step)))
}

fn tensors_grow(_: &Verdict, signs: &Signs) -> Option<String> {
    let (cpu, grown) = (signs.tensors.cpu?, signs.grown);
    (grown > signs.worth && cpu.grown() >= TENSORS * grown).then(|| {
        format!(
            "tensors on the CPU grew by {} of the {} that came: they are what grows",
            size(cpu.grown()),
            size(grown)
        )
    })
}

fn number_grows(verdict: &Verdict, signs: &Signs) -> Option<String> {
    let (what, more, memory) = signs.parts(verdict)?;
    (more >= TENSORS * memory).then(|| {
        format!("live {what} became more by {}, memory by {}: they pile up", per_cent(more), per_cent(memory))
    })
}

fn live_heap_grows(_: &Verdict, signs: &Signs) -> Option<String> {
    let (used, grown) = (signs.heap?.used, signs.grown);
    (grown > signs.worth && used.grown() >= TENSORS * grown).then(|| {
        format!("what is live in the heap grew by {} of the {} that came", size(used.grown()), size(grown))
    })
}

fn heap_keeps(_: &Verdict, signs: &Signs) -> Option<String> {
    let heap = signs.heap.filter(|_| signs.heap_stays())?;
    let (moved, grown) = (size(heap.used.grown().abs()), size(signs.grown));
    let told = format!("what is live in the heap moved by {moved} while {grown} came");
    Some(match signs.kept_by_heap() {
        Some(kept) => format!("{told}; the heap keeps {} more than is live in it", size(kept)),
        None => format!("{told}: it is kept after it was freed, or native memory beside that heap"),
    })
}

fn logs_keep(verdict: &Verdict, _: &Signs) -> Option<String> {
    let logged = verdict.group == Group::Leak && verdict.follows == Some("log");
    logged.then(|| {
        format!(
            "each log raises the floor, {} in all",
            size(verdict.floor.end_bytes - verdict.floor.start_bytes)
        )
    })
}

fn shapes_keep(_: &Verdict, signs: &Signs) -> Option<String> {
    let (shapes, each) = signs.per_shape?;
    (signs.grown > signs.worth).then(|| {
        format!(
            "memory follows the {} seen so far, about {} for each new one",
            counted(shapes, "input shape"),
            size(each)
        )
    })
}

fn rollouts_keep(verdict: &Verdict, signs: &Signs) -> Option<String> {
    let (engine, store) = signs.rollouts?;
    let grows = matches!(verdict.group, Group::Leak | Group::TooEarly) && signs.grown > signs.worth;
    (grows && store < signs.grown / 2.0).then(|| {
        format!("this process of a job with {engine} grew by {}, while shared memory (the object store) moved by {}", size(signs.grown), size(store))
    })
}

fn loaders_buffer(verdict: &Verdict, signs: &Signs) -> Option<String> {
    let by_shard = (verdict.follows == Some("shard") && signs.grown > signs.worth)
        .then(|| format!("memory comes and goes with the shards of the data, {} so far", size(signs.grown)));
    let (workers, each) = signs.buffers.map_or((0, 0.0), |b| b);
    let filled = (workers > 0).then(|| {
        format!(
            "{workers} loader workers each filled buffers of about {} and stopped: {} in all",
            size(each),
            size(workers as f64 * each)
        )
    });
    filled.or(by_shard)
}

/// What a count of tensors rules out.
fn not_tensors(signs: &Signs) -> Option<String> {
    let (cpu, grown) = (signs.tensors.cpu?, signs.grown);
    (grown > signs.worth && cpu.grown() < NOT_TENSORS * grown).then(|| {
        format!(
            "tensors on the CPU moved by {} while {} came: it is not tensors",
            size(cpu.grown().abs()),
            size(grown)
        )
    })
}

/// What the number of things rules out, where nobody tells their bytes.
fn not_more(verdict: &Verdict, signs: &Signs) -> Option<String> {
    let (what, more, memory) = signs.parts(verdict)?;
    (more < NOT_TENSORS * memory).then(|| {
        format!(
            "live {what} became more by {} while memory grew by {}: it is not {what} that pile up",
            per_cent(more.max(0.0)),
            per_cent(memory)
        )
    })
}

fn a_helper_grows(verdict: &Verdict, signs: &Signs) -> Option<String> {
    let helper = signs.role == Some(Role::Helper);
    (verdict.group == Group::Leak && helper)
        .then(|| format!("what grows is a helper, not the trainer: it took {}", size(signs.grown)))
}

fn many_arenas(verdict: &Verdict, signs: &Signs) -> Option<String> {
    let kept = matches!(verdict.verdict, Kind::WarmUp | Kind::AllocatorKept);
    let short = matches!(verdict.outcome.is, Fits::Tight | Fits::Exceeds);
    (kept && short && signs.threads >= MANY_THREADS)
        .then(|| format!("it had up to {} threads; glibc makes an arena for each", signs.threads))
}

fn compilers_hold_much(_: &Verdict, signs: &Signs) -> Option<String> {
    let (count, held, all) = signs.compilers;
    (count >= COMPILERS.0 && held >= COMPILERS.1 * all && held > signs.worth).then(|| {
        format!(
            "{count} compile workers hold {}, {} % of all",
            size(held),
            number((100.0 * held / all).round())
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::judge::Judge;
    use lowtide_model::{Axis, Context, Metric};

    const MIB: f64 = 1_048_576.0;

    /// Tensors of 10 MiB that grew by so much.
    fn tensors(grown_mib: f64) -> Tensors {
        let first = 10.0 * MIB;
        Tensors { cpu: Some(Ends { first, last: grown_mib.mul_add(MIB, first) }), ..Tensors::default() }
    }

    #[allow(clippy::unnecessary_wraps, reason = "as the field is written")]
    fn counted(first: f64, last: f64) -> Option<(&'static str, Ends)> {
        Some(("tensors", Ends { first, last }))
    }

    /// A live heap that grew by so much, and what is held for it.
    #[allow(clippy::unnecessary_wraps, reason = "as the field is written")]
    fn heap(used_mib: f64, total_mib: Option<f64>) -> Option<Heap> {
        let ends = |grown: f64| Ends { first: 10.0 * MIB, last: (10.0 + grown) * MIB };
        Some(Heap { used: ends(used_mib), total: total_mib.map(ends) })
    }

    fn verdict(kind: Kind, fits: Fits) -> Verdict {
        let mut verdict = Judge::new(Context::default(), Axis::Seconds, Metric::Anon).verdict_as(kind);
        verdict.outcome.is = fits;
        verdict.floor.start_bytes = 100.0 * MIB;
        verdict
    }

    fn told(verdict: &Verdict, signs: &Signs) -> String {
        CAUSES.iter().filter(|cause| (cause.rule)(verdict, signs).is_some()).map(|cause| cause.id).collect()
    }

    #[test]
    fn a_run_without_signs_has_no_cause() {
        for kind in Kind::ALL {
            assert_eq!(told(&verdict(kind, Fits::Exceeds), &Signs::default()), "", "{kind:?}");
        }
    }

    #[test]
    fn each_cause_shows_by_its_own_signs_alone() {
        let base = Signs { worth: MIB, grown: 100.0 * MIB, ..Signs::default() };
        let outside = Peaks { outside: 100.0 * MIB, ..Peaks::default() };
        let flat = verdict(Kind::Steady, Fits::Fits);
        let leak = verdict(Kind::Leak, Fits::Exceeds);
        let settled = verdict(Kind::WarmUp, Fits::Tight);
        let (trainer, helper) = (Some(Role::Trainer), Some(Role::Helper));
        let full = Some((60.0 * MIB, 64.0 * MIB));
        let roomy = Some((1.0 * MIB, 64.0 * MIB));
        let table = [
            ("L", &flat, Signs { dev_shm: full, ..base }),
            ("L", &flat, Signs { dev_shm: roomy, bus_errors: 1, ..base }),
            ("", &flat, Signs { dev_shm: roomy, ..base }),
            ("H", &settled, Signs { locked_grown: 80.0 * MIB, ..base }),
            ("", &settled, Signs { locked_grown: 8.0 * MIB, ..base }),
            ("G", &flat, Signs { peaks: Peaks { save: 150.0 * MIB, ..outside }, ..base }),
            ("C", &flat, Signs { peaks: Peaks { eval: 150.0 * MIB, ..outside }, ..base }),
            ("", &flat, Signs { peaks: Peaks { eval: 104.0 * MIB, ..outside }, ..base }),
            ("D", &leak, Signs { role: trainer, per_step: Some(MIB), ..base }),
            ("", &settled, Signs { role: trainer, per_step: Some(MIB), ..base }),
            (
                "",
                &Verdict { follows: Some("save"), ..leak.clone() },
                Signs { role: trainer, per_step: Some(MIB), ..base },
            ),
            ("D", &leak, Signs { tensors: tensors(90.0), ..base }),
            ("", &leak, Signs { tensors: tensors(4.0), ..base }),
            ("D", &leak, Signs { count: counted(1000.0, 2100.0), ..base }),
            ("", &leak, Signs { count: counted(1000.0, 1010.0), ..base }),
            ("", &leak, Signs { count: counted(1000.0, 2100.0), tensors: tensors(4.0), ..base }),
            ("D", &leak, Signs { heap: heap(90.0, None), ..base }),
            ("I", &leak, Signs { heap: heap(1.0, None), ..base }),
            ("I", &leak, Signs { heap: heap(1.0, Some(80.0)), ..base }),
            ("", &leak, Signs { heap: heap(30.0, None), ..base }),
            ("", &flat, Signs { heap: heap(1.0, None), grown: 0.0, ..base }),
            ("D", &Verdict { follows: Some("log"), ..leak.clone() }, base),
            ("", &Verdict { follows: Some("log"), ..flat.clone() }, base),
            ("J", &settled, Signs { per_shape: Some((40.0, 2.0 * MIB)), ..base }),
            ("M", &leak, Signs { rollouts: Some(("Ray", 3.0 * MIB)), ..base }),
            ("", &leak, Signs { rollouts: Some(("Ray", 90.0 * MIB)), ..base }),
            ("", &flat, Signs { rollouts: Some(("Ray", 3.0 * MIB)), ..base }),
            ("N", &flat, Signs { buffers: Some((4, 300.0 * MIB)), ..base }),
            ("N", &Verdict { follows: Some("shard"), ..settled.clone() }, base),
            ("O", &leak, Signs { role: helper, ..base }),
            ("I", &settled, Signs { threads: 16, ..base }),
            ("", &verdict(Kind::WarmUp, Fits::Fits), Signs { threads: 16, ..base }),
            ("K", &flat, Signs { compilers: (32, 40.0 * MIB, 100.0 * MIB), ..base }),
            ("", &flat, Signs { compilers: (32, 4.0 * MIB, 100.0 * MIB), ..base }),
        ];
        for (expected, verdict, signs) in table {
            assert_eq!(told(verdict, &signs), expected, "{signs:?}");
        }
    }

    #[test]
    fn tensors_that_stay_are_ruled_out_with_the_numbers() {
        let mut told = verdict(Kind::Leak, Fits::Exceeds);
        told.tell_causes(&Signs {
            grown: 100.0 * MIB,
            worth: MIB,
            tensors: tensors(1.0),
            ..Signs::default()
        });
        let line = "tensors on the CPU moved by 1.00 MiB while 100 MiB came: it is not tensors";
        assert!(told.evidence.iter().any(|l| l == line), "{:?}", told.evidence);
    }

    #[test]
    fn what_lowers_a_peak_stands_behind_what_ends_growth() {
        let peaks = || Signs { peaks: Peaks { save: 0.0, eval: 9e9, outside: 5e9 }, ..Signs::default() };
        let mut grows = verdict(Kind::CacheFill, Fits::Fits);
        let general = grows.advice[0].clone();
        grows.tell_causes(&peaks());
        assert_eq!(grows.advice[0], general);
        assert!(grows.advice.iter().any(|line| line.contains("while evaluating")), "{:?}", grows.advice);
        let mut flat = verdict(Kind::Spikes, Fits::Fits);
        flat.tell_causes(&peaks());
        assert!(flat.advice[0].contains("while evaluating"), "{:?}", flat.advice);
    }

    #[test]
    fn the_advice_of_a_cause_stands_before_the_general_one() {
        let mut told = verdict(Kind::Leak, Fits::Exceeds);
        let general = told.advice[0].clone();
        told.tell_causes(&Signs { role: Some(Role::Helper), grown: 9.0 * MIB, ..Signs::default() });
        assert!(told.advice[0].contains("library") && told.advice[1] == general, "{:?}", told.advice);
        assert!(told.evidence.iter().any(|line| line.contains("9.00 MiB")), "{:?}", told.evidence);
    }
}
