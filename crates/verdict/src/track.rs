//! One process of a run: its curves by second and by step, what it shares, what evaluation leaves behind.

use crate::causes::Peaks;
use crate::judge::Judge;
use crate::marks::Marks;
use crate::roles::Footprint;
use crate::series::Point;
use lowtide_model::{Axis, Bytes, Context, Metric, Pss, SampleRow, Span};

/// Bins of one curve of a recording: a hundred processes of two curves stay within a few MiB.
const ROOM: usize = 512;
/// A row that stands for this many ticks or more also tells of the quiet between: it is counted as several points.
const QUIET_TICKS: u32 = 3;
/// Points that such a row adds.
const QUIET_POINTS: u32 = 3;

/// Samples that wait for the next step; when a step takes longer, neighbours are joined.
const MOST_WAITING: usize = 64;

/// Points that a quiet row adds to the curve over steps, which is all that a flat job leaves there.
const QUIET_STEPS: u32 = 12;

/// Memory follows a number when they correlate by this much.
const FOLLOWS: f64 = 0.95;
/// Fewer different shapes than this are no cause for anything.
const FEWEST_SHAPES: f64 = 5.0;

/// How two numbers go together, in constant memory.
#[derive(Clone, Copy, Debug, Default)]
struct Tie {
    n: f64,
    x: f64,
    y: f64,
    xx: f64,
    yy: f64,
    xy: f64,
    most: f64,
}

impl Tie {
    /// Welford's update: no large squares are subtracted from each other.
    fn push(&mut self, x: f64, y: f64) {
        self.n += 1.0;
        let (dx, dy) = (x - self.x, y - self.y);
        self.x += dx / self.n;
        self.y += dy / self.n;
        self.xx += dx * (x - self.x);
        self.yy += dy * (y - self.y);
        self.xy += dx * (y - self.y);
        self.most = self.most.max(x);
    }

    fn correlation(&self) -> Option<f64> {
        let spread = (self.xx * self.yy).sqrt();
        (spread > 0.0).then(|| self.xy / spread)
    }

    fn slope(&self) -> f64 {
        self.xy / self.xx
    }
}

/// The curves of one process.
#[derive(Clone, Debug)]
pub(crate) struct Track {
    pub(crate) seconds: Judge,
    pub(crate) steps: Judge,
    /// Pages nobody else maps, where they were read.
    pub(crate) private: Judge,
    pub(crate) footprint: Footprint,
    pub(crate) first_pss: Option<Pss>,
    pub(crate) last_pss: Option<Pss>,
    /// Locked at first and at last, threads at most, and peaks by what the job was doing.
    locked: Option<(f64, f64)>,
    pub(crate) threads: u32,
    pub(crate) peaks: Peaks,
    /// How memory goes with the number of input shapes, and with time.
    shapes: Tie,
    time: Tie,
    last_tick: f64,
    last_step: f64,
    /// What it held since the newest step, by seconds.
    waiting: Vec<Point>,
    first_step: Option<(f64, f64)>,
    pub(crate) last_need: f64,
    first_need: f64,
    /// Of its anonymous memory, what others have as well, as it was last told.
    shared: Option<f64>,
    /// What all others held when it was last seen.
    pub(crate) beside: f64,
    before_eval: Option<(f64, f64)>,
    /// What stayed after each evaluation but the first, with the steps that were made meanwhile.
    pub(crate) eval_keeps: Vec<(f64, f64)>,
    evals: usize,
}

impl Track {
    pub(crate) fn new() -> Self {
        let judge = |axis, metric| Judge::with_room(Context::default(), axis, metric, ROOM);
        Self {
            seconds: judge(Axis::Seconds, Metric::Anon),
            steps: judge(Axis::Step, Metric::Anon),
            private: judge(Axis::Seconds, Metric::PssTree),
            footprint: Footprint::default(),
            first_pss: None,
            last_pss: None,
            locked: None,
            threads: 0,
            peaks: Peaks::default(),
            shapes: Tie::default(),
            time: Tie::default(),
            last_tick: f64::NAN,
            last_step: 0.0,
            waiting: Vec::new(),
            first_step: None,
            last_need: 0.0,
            first_need: f64::NAN,
            shared: None,
            beside: 0.0,
            before_eval: None,
            eval_keeps: Vec::new(),
            evals: 0,
        }
    }

    pub(crate) fn push(&mut self, row: &SampleRow, marks: &Marks) {
        let beside = row.shmem.unwrap_or_default().as_f64() + row.swap.unwrap_or_default().as_f64();
        // Without the split, resident memory less its file pages is the nearest thing to what can be lost.
        let own = row.anon.unwrap_or_else(|| less(row.rss, row.file.unwrap_or_default()));
        let seconds = row.tick.seconds();
        let need = own.last.as_f64() + beside;
        let point =
            |x| Point { x, low: own.min.as_f64() + beside, high: own.max.as_f64() + beside, last: need };
        if row.ticks >= QUIET_TICKS && self.last_tick.is_finite() {
            // A row is written when a value moves: until then it was where the row before ended.
            let quiet = self.last_need.max(own.min.as_f64() + beside).min(own.max.as_f64() + beside);
            if marks.idle_since(self.last_tick) {
                self.peaks.outside = self.peaks.outside.max(quiet);
            }
            for i in 1..=QUIET_POINTS {
                let share = f64::from(i) / f64::from(QUIET_POINTS + 1);
                let x = share.mul_add(seconds - self.last_tick, self.last_tick);
                self.seconds.push(Point::one(x, quiet));
            }
            for i in 1..=QUIET_STEPS {
                let share = f64::from(i) / f64::from(QUIET_STEPS + 1);
                let x = share.mul_add(seconds - self.last_tick, self.last_tick);
                self.wait_for_step(Point::one(x, quiet), marks);
            }
        }
        self.seconds.push(point(seconds));
        self.wait_for_step(point(seconds), marks);
        if let Some(file) = row.file {
            self.seconds.push_file(seconds, file.as_f64());
            if let Some(step) = marks.step {
                self.steps.push_file(step, file.as_f64());
            }
        }
        self.keep_pss(row, seconds);
        self.note_eval(marks, need);
        self.note_signs(row, marks, own.max.as_f64() + beside);
        self.keep_footprint(row);
        if marks.shapes() > 0 {
            self.shapes.push(marks.shapes() as f64, need);
            self.time.push(seconds, need);
        }
        self.last_tick = seconds;
        self.last_need = need;
        self.last_step = marks.step.unwrap_or(0.0);
        self.first_step.get_or_insert((self.last_step, need));
        if self.first_need.is_nan() {
            self.first_need = need;
        }
    }

    /// What is held after a step gets its place on the curve over steps when the next step is told. After the last step it
    /// is clean-up and gets none; while the job evaluates or saves it belongs to the step before.
    fn wait_for_step(&mut self, point: Point, marks: &Marks) {
        let Some((step, told)) = marks.newest_step() else { return };
        if point.x <= told {
            // A row that is written late tells of steps that were told meanwhile.
            let place = marks.step_at(point.x);
            return place.into_iter().for_each(|x| self.steps.push(Point { x, ..point }));
        }
        if marks.is_busy() {
            self.stepped((step, told), (step, point.x));
            return self.steps.push(Point { x: step, ..point });
        }
        if self.waiting.len() >= MOST_WAITING {
            let half = self.waiting.chunks(2).map(|pair| pair.iter().copied().reduce(Point::join));
            self.waiting = half.flatten().collect();
        }
        self.waiting.push(point);
    }

    /// Another step was told: what waited lies between the one before and this, each a number and its second.
    pub(crate) fn stepped(&mut self, before: (f64, f64), now: (f64, f64)) {
        let passed = now.1 - before.1;
        for point in self.waiting.drain(..) {
            let share = if passed > 0.0 { ((point.x - before.1) / passed).clamp(0.0, 1.0) } else { 1.0 };
            self.steps.push(Point { x: share.mul_add(now.0 - before.0, before.0), ..point });
        }
    }

    /// Takes a count of live tensors.
    pub(crate) fn push_tensors(&mut self, seconds: f64, step: Option<f64>, count: f64) {
        self.seconds.push_count("live tensors", seconds, count);
        if let Some(step) = step {
            self.steps.push_count("live tensors", step, count);
        }
    }

    fn keep_pss(&mut self, row: &SampleRow, seconds: f64) {
        let Some(pss) = row.pss else { return };
        self.first_pss.get_or_insert(pss);
        let shared =
            row.anon.zip(pss.pss_anon).map(|(anon, own)| (anon.last.as_f64() - own.as_f64()).max(0.0));
        self.shared = shared.or(self.shared);
        self.last_pss = Some(pss);
        self.private.push(Point::one(seconds, pss.private.as_f64()));
    }

    fn keep_footprint(&mut self, row: &SampleRow) {
        if self.footprint.first == Bytes::ZERO {
            self.footprint.first = row.rss.last;
        }
        self.footprint.peak = self.footprint.peak.max(row.rss.max);
    }

    fn note_signs(&mut self, row: &SampleRow, marks: &Marks, high: f64) {
        let phase = if marks.saved_since(self.last_tick) {
            &mut self.peaks.save
        } else if marks.evaluated_since(self.last_tick) {
            &mut self.peaks.eval
        } else {
            &mut self.peaks.outside
        };
        *phase = phase.max(high);
        self.threads = self.threads.max(row.threads.unwrap_or(0));
        if let Some(locked) = row.locked.map(Bytes::as_f64) {
            self.locked.get_or_insert((locked, locked)).1 = locked;
        }
    }

    /// Memory for each new input shape, where it follows their number closely and more closely than time.
    pub(crate) fn per_shape(&self) -> Option<(f64, f64)> {
        let (close, closer) = (self.shapes.correlation()?, self.time.correlation()?);
        let follows = close >= FOLLOWS && close > closer && self.shapes.most >= FEWEST_SHAPES;
        follows.then(|| (self.shapes.most, self.shapes.slope()))
    }

    /// How much more it holds locked in place than at first.
    pub(crate) fn locked_grown(&self) -> f64 {
        self.locked.map_or(0.0, |(first, last)| last - first)
    }

    /// The level before and after each evaluation: what stays there came from no new training example.
    fn note_eval(&mut self, marks: &Marks, need: f64) {
        match (marks.in_eval, self.before_eval) {
            (true, None) => self.before_eval = Some((self.last_need, self.last_step)),
            (false, Some((before, step))) => {
                self.before_eval = None;
                self.evals += 1;
                if self.evals > 1 && self.eval_keeps.len() < 4096 {
                    self.eval_keeps.push((need - before, marks.step.unwrap_or(step) - step));
                }
            }
            (true, Some(_)) | (false, None) => {}
        }
    }

    /// What each evaluation kept beyond what the steps around it explain.
    pub(crate) fn kept_by_evals(&self) -> Vec<f64> {
        let (first, need) = self.first_step.unwrap_or_default();
        let steps = self.last_step - first;
        let per_step = if steps > 0.0 { (self.last_need - need) / steps } else { 0.0 };
        self.eval_keeps.iter().map(|(kept, steps)| kept - per_step * steps).collect()
    }

    /// Its part of what all processes hold together: a page that a forked one has from its parent is there once.
    pub(crate) fn part(&self, forked: bool) -> f64 {
        let from_parent = || forked.then(|| self.first_need());
        (self.last_need - self.shared.or_else(from_parent).unwrap_or(0.0)).max(0.0)
    }

    /// What it held when it was first seen.
    pub(crate) fn first_need(&self) -> f64 {
        if self.first_need.is_nan() { 0.0 } else { self.first_need }
    }

    /// How much it held more before it cleaned up than when it was first seen.
    pub(crate) fn climbed(&self) -> f64 {
        self.seconds.newest_of_life().unwrap_or(self.last_need) - self.first_need()
    }

    /// The same since the first step, where steps were told: what was loaded before it says nothing of what a pass adds.
    pub(crate) fn climbed_over_steps(&self) -> f64 {
        let first = self.steps.oldest();
        first.zip(self.steps.newest_of_life()).map_or_else(|| self.climbed(), |(first, last)| last - first)
    }

    /// How much it holds more than when it was first seen.
    pub(crate) fn grown(&self) -> f64 {
        if self.first_need.is_nan() { 0.0 } else { self.last_need - self.first_need }
    }

    /// Several that live side by side as one, each less what it began with from its parent.
    pub(crate) fn side_by_side(tracks: &[(Self, f64)]) -> Option<Self> {
        let judges = |of: fn(&Self) -> &Judge| {
            let judges: Vec<(&Judge, f64)> = tracks.iter().map(|(track, base)| (of(track), *base)).collect();
            Judge::side_by_side(&judges, ROOM)
        };
        let sum = |of: fn(&Self) -> f64| {
            tracks.iter().map(|(track, base)| (of(track) - base).max(0.0)).sum::<f64>()
        };
        let (all, none) = (sum(|track| track.last_need), Self::new());
        Some(Self {
            seconds: judges(|track| &track.seconds)?,
            steps: judges(|track| &track.steps)?,
            last_need: all,
            first_need: sum(Self::first_need),
            shared: Some(0.0),
            footprint: Footprint { peak: Bytes::from_f64(all), ..Footprint::default() },
            last_tick: tracks.iter().map(|(track, _)| track.last_tick).fold(f64::NAN, f64::max),
            last_step: tracks.iter().map(|(track, _)| track.last_step).fold(0.0, f64::max),
            threads: tracks.iter().map(|(track, _)| track.threads).max().unwrap_or(0),
            ..none
        })
    }

    /// The life of a process that ended, without its clean-up.
    pub(crate) fn ended(&self) -> Self {
        let mut track = self.clone();
        track.seconds.cut_ending();
        track.steps.cut_ending();
        track.last_need = track.seconds.newest().unwrap_or(self.last_need);
        track
    }

    /// Repeats the newest value at `now`, for a process that still lives and has not moved since its last row.
    pub(crate) fn extended(&self, now: f64, step: Option<f64>) -> Self {
        let mut track = self.clone();
        if now > self.last_tick {
            track.seconds.push(Point::one(now, self.last_need));
            if let Some(step) = step.filter(|step| *step > self.last_step) {
                track.steps.push(Point::one(step, self.last_need));
            }
        }
        track
    }
}

fn less(span: Span, part: Bytes) -> Span {
    let cut = |b: Bytes| b.saturating_sub(part);
    Span { min: cut(span.min), max: cut(span.max), last: cut(span.last) }
}
