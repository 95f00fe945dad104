//! A curve of readings that are told only when they move, by second and by step: between two of them the level stays.
//!
//! Why: a GPU that is full from the tenth second on is told three times in an hour. Three samples show nothing; an hour
//! at one level shows that nothing grows.

use crate::judge::Judge;
use crate::series::Point;
use lowtide_model::{Axis, Context, Metric};

/// Bins of each curve.
const ROOM: usize = 256;
/// Readings come about once a second while they move; a longer silence is a level that stays.
const QUIET_SECONDS: f64 = 3.0;
/// Points that such a silence adds at most.
const QUIET_POINTS: f64 = 64.0;

#[derive(Clone, Debug)]
pub(crate) struct Levels {
    pub(crate) seconds: Judge,
    pub(crate) steps: Judge,
    /// Newest second, step and value.
    newest: Option<(f64, Option<f64>, f64)>,
}

impl Levels {
    pub(crate) fn new() -> Self {
        let judge = |axis| Judge::with_room(Context::default(), axis, Metric::Gpu, ROOM);
        Self { seconds: judge(Axis::Seconds), steps: judge(Axis::Step), newest: None }
    }

    /// Takes a reading at a second. Until then it was what was told before.
    pub(crate) fn push(&mut self, reading: Point, step: Option<f64>) {
        self.rest(reading.x, step);
        self.put(reading, step);
    }

    /// The newest value.
    pub(crate) fn newest(&self) -> Option<f64> {
        self.newest.map(|(_, _, value)| value)
    }

    /// The same up to now, with its newest value held until then.
    pub(crate) fn extended(&self, seconds: f64, step: Option<f64>) -> Self {
        let mut levels = self.clone();
        if let Some((_, at, value)) = self.newest.filter(|newest| newest.0 < seconds) {
            levels.push(Point::one(seconds, value), step.or(at));
        }
        levels
    }

    /// Repeats the newest value through a quiet time up to this moment.
    fn rest(&mut self, seconds: f64, step: Option<f64>) {
        let Some((since, at, value)) = self.newest.filter(|newest| seconds - newest.0 > QUIET_SECONDS) else {
            return;
        };
        let points = ((seconds - since) / QUIET_SECONDS).ceil().min(QUIET_POINTS);
        for i in 1..points as u32 {
            let share = f64::from(i) / points;
            let between = |from: f64, to: f64| share.mul_add(to - from, from);
            let step = at.zip(step).map(|(from, to)| between(from, to));
            self.put(Point::one(between(since, seconds), value), step);
        }
    }

    fn put(&mut self, reading: Point, step: Option<f64>) {
        self.seconds.push(reading);
        if let Some(x) = step {
            self.steps.push(Point { x, ..reading });
        }
        self.newest = Some((reading.x, step, reading.last));
    }
}
