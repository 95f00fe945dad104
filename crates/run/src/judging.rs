//! The verdict while the job runs: fed with the rows as they are written, asked now and then.
//!
//! It sees exactly what goes into the file, so the answer at the end is the answer on the recording. Asking costs more
//! than sampling, so it is asked seldom, and the more seldom the dearer it proves to be.

use lowtide_model::{Context, Meta, Tick};
use lowtide_store::Entry;
use lowtide_verdict::{Fits, Group, Kind, LiveJudge, RunVerdict, Verdict};
use std::time::Duration;

/// Nothing sensible can be said before this.
const FIRST: Duration = Duration::from_secs(20);
/// So long a program may well be loading.
const LOADING: Duration = Duration::from_secs(60);
/// Asked this often at most.
const LEAST: Duration = Duration::from_secs(15);
/// Asking may take this part of our time: one part in four thousand.
const SHARE: u32 = 4000;
/// A limit that is further away than this is no news yet: hours change.
const NEAR_SECONDS: f64 = 4.0 * 3600.0;

/// A line is drawn no further than so many times what was seen of it: twenty seconds of loading say nothing about an hour.
const HORIZON: f64 = 10.0;

/// What is new since the last time it was asked.
#[derive(Debug, Default)]
pub(crate) struct News {
    /// A limit will be reached: said once.
    pub(crate) forecast: Option<Verdict>,
    /// The same of a GPU.
    pub(crate) gpu: Option<Verdict>,
    /// The answer became another one.
    pub(crate) verdict: Option<Verdict>,
}

/// The judge of a running job.
pub(crate) struct Judging {
    judge: LiveJudge,
    answer: Option<Verdict>,
    next: Tick,
    told_kind: Option<Kind>,
    told_forecast: bool,
    told_gpu: bool,
}

impl Judging {
    pub(crate) fn new(meta: &Meta) -> Self {
        let judge = LiveJudge::new(meta, Context::default());
        Self {
            judge,
            answer: None,
            next: Tick::from(FIRST),
            told_kind: None,
            told_forecast: false,
            told_gpu: false,
        }
    }

    /// Takes in what is written.
    pub(crate) fn take(&mut self, entry: &Entry) {
        match entry {
            Entry::Process(process) => self.judge.push_process(process),
            Entry::Sample(row) => self.judge.push_sample(row),
            Entry::Cgroup(row) => self.judge.push_cgroup(row),
            Entry::Host(row) => self.judge.push_host(row),
            Entry::Gpu(row) => self.judge.push_gpu(row),
            Entry::Mark(mark) => self.judge.push_mark(mark),
            Entry::Event(event) => self.judge.push_event(event),
            Entry::Limits(limits) => self.judge.set_limits(limits),
            Entry::Scan(row) => self.judge.push_scan(row),
            Entry::Meta(_) => {}
        }
    }

    /// One sentence, if there is one yet.
    pub(crate) fn headline(&self) -> Option<String> {
        self.answer.as_ref().map(|answer| answer.headline.clone())
    }

    /// The answer of this moment, whatever it costs.
    pub(crate) fn now(&self) -> Verdict {
        self.judge.verdict().main
    }

    /// Asks, when it is time.
    pub(crate) fn ask(&mut self, now: Tick) -> News {
        if now < self.next {
            return News::default();
        }
        let before = lowtide_probe::clock::own_cpu_ns();
        let RunVerdict { main: answer, findings, .. } = self.judge.verdict();
        let cost = Duration::from_nanos(lowtide_probe::clock::own_cpu_ns().saturating_sub(before));
        self.next = Tick(now.0.saturating_add(Tick::from(LEAST.max(cost * SHARE)).0));
        let forecast = self.forecast_news(now, &answer);
        let gpu = self.gpu_news(now, std::iter::once(&answer).chain(&findings));
        let mut news = News { forecast, gpu: gpu.filter(|_| !is_of_a_gpu(&answer)), verdict: None };
        // Programs load what they need first, and that grows with no end in sight: a limit near by is told, no kind.
        if now >= Tick::from(LOADING) || answer.group != Group::Leak {
            news.verdict = self.verdict_news(&answer);
            self.answer = Some(answer);
        }
        news
    }

    /// An answer, unless it is what was told last or it is too early for one.
    pub(crate) fn verdict_news(&mut self, answer: &Verdict) -> Option<Verdict> {
        let settled = answer.group != Group::TooEarly;
        let changed = self.told_kind != Some(answer.verdict);
        if settled && changed {
            self.told_kind = Some(answer.verdict);
            return Some(answer.clone());
        }
        None
    }

    /// A GPU whose memory runs out beside something that matters more: said once.
    fn gpu_news<'a>(&mut self, now: Tick, mut all: impl Iterator<Item = &'a Verdict>) -> Option<Verdict> {
        let found = all.find(|verdict| is_of_a_gpu(verdict) && runs_out(verdict, now))?;
        if std::mem::replace(&mut self.told_gpu, true) { None } else { Some(found.clone()) }
    }

    fn forecast_news(&mut self, now: Tick, answer: &Verdict) -> Option<Verdict> {
        if self.told_forecast || !runs_out(answer, now) {
            return None;
        }
        self.told_forecast = true;
        Some(answer.clone())
    }
}

/// Whether a limit is reached soon.
fn runs_out(answer: &Verdict, now: Tick) -> bool {
    let seconds = answer.forecast.as_ref().and_then(|forecast| forecast.in_seconds);
    let near = seconds.is_some_and(|seconds| seconds < NEAR_SECONDS.min(now.seconds() * HORIZON));
    answer.outcome.is == Fits::Exceeds && near
}

/// Whether an answer is about the memory of a GPU.
pub(crate) fn is_of_a_gpu(answer: &Verdict) -> bool {
    answer.outcome.limit_from.as_deref().is_some_and(|from| from.contains("GPU"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use lowtide_model::{
        Bytes, GpuRow, LimitHeld, LimitKind, Mark, MarkKind, MarkPhase, ProcKey, SampleRow, Span,
    };

    /// A process that takes 20 MiB a second under a limit, asked until `seconds`: when each kind of news came.
    fn told(limit_mib: u64, seconds: u64) -> (Option<f64>, Option<f64>) {
        let mut judging = Judging::new(&Meta { cpus: 2, page_bytes: 4096, ..Meta::default() });
        let (mut forecast, mut verdict) = (None, None);
        for quarter in 0..seconds * 4 {
            let tick = Tick(quarter * 250_000_000);
            let held = Bytes::from_mib(100 + 5 * quarter);
            let process = ProcKey { pid: 7, start_ticks: 1 };
            let row = SampleRow { process, tick, ticks: 1, rss: Span::one(held), ..SampleRow::default() };
            judging.take(&Entry::Sample(SampleRow { anon: Some(row.rss), ..row }));
            let limit = Bytes::from_mib(limit_mib);
            judging.take(&Entry::Limits(vec![LimitHeld { kind: LimitKind::Host, limit, used: held }]));
            let news = judging.ask(tick);
            forecast = forecast.or(news.forecast.map(|_| tick.seconds()));
            verdict = verdict.or(news.verdict.map(|_| tick.seconds()));
        }
        (forecast, verdict)
    }

    #[test]
    fn a_limit_a_minute_away_is_told_at_once_and_a_leak_only_when_loading_is_over() {
        let (forecast, verdict) = told(3_500, 240);
        assert!(forecast.is_some_and(|at| at < 30.0), "{forecast:?}");
        assert!(verdict.is_some_and(|at| at >= 60.0), "{verdict:?}");
    }

    #[test]
    fn an_answer_that_was_told_is_told_again_only_when_it_is_another_one() {
        let mut judging = Judging::new(&Meta::default());
        let answer = |verdict, group| Verdict { verdict, group, ..judging_nothing() };
        let leak = answer(Kind::Leak, Group::Leak);
        assert!(judging.verdict_news(&leak).is_some());
        assert!(judging.verdict_news(&leak).is_none());
        assert!(judging.verdict_news(&judging_nothing()).is_none(), "too early is no answer");
        assert!(judging.verdict_news(&answer(Kind::CacheFill, Group::Bounded)).is_some());
    }

    fn judging_nothing() -> Verdict {
        Judging::new(&Meta::default()).now()
    }

    #[test]
    fn a_limit_an_hour_away_is_not_told_after_twenty_seconds_of_loading() {
        let (forecast, _) = told(70_000, 40);
        assert_eq!(forecast, None);
        let (forecast, _) = told(70_000, 600);
        assert!(forecast.is_some_and(|at| (200.0..500.0).contains(&at)), "{forecast:?}");
    }

    #[test]
    fn a_gpu_that_fills_up_beside_a_quiet_host_is_told_once() {
        let mut judging = Judging::new(&Meta { cpus: 2, page_bytes: 4096, ..Meta::default() });
        let process = ProcKey { pid: 7, start_ticks: 1 };
        let mut told = Vec::new();
        for quarter in 0..720_u64 {
            let tick = Tick(quarter * 250_000_000);
            let held = Bytes::from_mib(500);
            let row = SampleRow { process, tick, ticks: 1, rss: Span::one(held), ..SampleRow::default() };
            judging.take(&Entry::Sample(SampleRow { anon: Some(row.rss), ..row }));
            let limit = Bytes::from_mib(64_000);
            judging.take(&Entry::Limits(vec![LimitHeld { kind: LimitKind::Host, limit, used: held }]));
            let used = Bytes::from_mib(2_000 + 20 * quarter);
            let total = Some(Bytes::from_mib(24_000));
            let uuid = "GPU-1".to_owned();
            judging.take(&Entry::Gpu(GpuRow {
                gpu: 0,
                uuid,
                process: None,
                tick,
                used: Span::one(used),
                total,
            }));
            let News { forecast, gpu, .. } = judging.ask(tick);
            told.extend(forecast.into_iter().chain(gpu).map(|verdict| (tick.seconds(), verdict.headline)));
        }
        assert_eq!(told.len(), 1, "{told:?}");
        assert!(told[0].1.starts_with("GPU 0:"), "{told:?}");
    }

    /// A flat host beside a job that takes 1.5 GiB of the GPU at each of its four steps a second, and tells so once a second.
    #[test]
    fn a_gpu_that_fills_up_in_half_a_minute_is_known_to_run_out_whoever_tells_of_it() {
        for tells in [false, true] {
            let mut judging = Judging::new(&Meta { cpus: 16, page_bytes: 4096, ..Meta::default() });
            let process = ProcKey { pid: 7, start_ticks: 1 };
            for quarter in 0..80_u64 {
                let tick = Tick(quarter * 250_000_000);
                let held = Bytes::from_mib(if quarter < 12 { 5 + 50 * quarter } else { 620 });
                let row = SampleRow { process, tick, ticks: 1, rss: Span::one(held), ..SampleRow::default() };
                if quarter <= 12 {
                    judging.take(&Entry::Sample(SampleRow { anon: Some(row.rss), ..row }));
                }
                let limit = Bytes::from_mib(128_000);
                judging.take(&Entry::Limits(vec![LimitHeld { kind: LimitKind::Host, limit, used: held }]));
                let step = quarter.saturating_sub(12);
                let used = Bytes::from_mib(1_536 * step);
                let mark = |kind, number, extra| Mark {
                    tick,
                    process: Some(process),
                    kind,
                    phase: MarkPhase::Point,
                    number,
                    rank: None,
                    extra,
                };
                if step > 0 {
                    judging.take(&Entry::Mark(mark(MarkKind::Step, step as f64, None)));
                }
                if quarter.is_multiple_of(4) {
                    for process in [None, Some(process)] {
                        let (uuid, total) = ("GPU-1".to_owned(), Some(Bytes::from_mib(143_000)));
                        let row = GpuRow { gpu: 0, uuid, process, tick, used: Span::one(used), total };
                        judging.take(&Entry::Gpu(row));
                    }
                    if tells {
                        let facts =
                            format!(r#"{{"gpu_allocated_bytes":{0},"gpu_reserved_bytes":{0}}}"#, used.0);
                        judging.take(&Entry::Mark(mark(MarkKind::Info, f64::NAN, Some(facts))));
                    }
                }
            }
            let RunVerdict { main, findings, .. } = judging.judge.verdict();
            let of_gpu: Vec<Verdict> = std::iter::once(main).chain(findings).filter(is_of_a_gpu).collect();
            assert_eq!(of_gpu.len(), 1, "the job tells: {tells}; {of_gpu:#?}");
            assert!(runs_out(&of_gpu[0], Tick(80 * 250_000_000)), "the job tells: {tells}; {of_gpu:#?}");
        }
    }
}
