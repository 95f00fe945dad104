//! Judges one curve: `judge` feeds the same online state machine that a live run uses, then asks it.
//!
//! The state machine takes a sample in constant time and holds bounded memory; all work is done when it is asked.

use crate::advice::Standing;
use crate::assess::{Assessment, Because, Known, LEAST_RISE, OF_PAGES, PASSES, assess};
use crate::budget::{Beside, Clock, Fill, ahead, fill, forecast, outcome, pass, pass_steps};
use crate::confidence::confidence;
use crate::decide::PLATEAU;
use crate::facts::{Facts, LastWave};
use crate::floor::Floor;
use crate::gaps::{Asleep, Gaps};
use crate::killed::Death;
use crate::periods::{Periods, evaluations};
use crate::series::{Point, Series};
use crate::split::Split;
use crate::verdict::{Drawing, FloorFacts, Forecast, Group, Kind, Outcome, SCHEMA, Settled, Verdict};
use crate::words::{CountFact, Story, knee_matches};
use lowtide_model::{Axis, Context, Metric};
use std::borrow::Cow;

/// Bins of a curve that is judged alone. 2,048 of them keep every sample of any curve a person would draw.
const ROOM: usize = 2048;

/// Whether more samples will come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Life {
    Running,
    /// A curve does not say whether it is over.
    Unknown,
    Ended,
}

/// Takes samples as they come and can be asked at any moment.
#[derive(Clone, Debug)]
pub struct Judge {
    context: Context,
    axis: Axis,
    metric: Metric,
    need: Series,
    /// File pages beside the need.
    file: Series,
    /// Whether the curve somebody brought holds those file pages.
    file_inside: bool,
    count: Option<(String, Series)>,
    clock: Clock,
    /// Where x begins to count, once it is counted from where the curve begins.
    origin: f64,
    resolution: f64,
    name: Option<String>,
    life: Life,
    /// Whether anybody looks at a picture of it.
    drawn: bool,
    kept_outside: Option<f64>,
    largest_example: Option<f64>,
    /// How a pass over the data is dealt out among the processes that share it.
    split: Split,
    death: Option<Death>,
    beside: Beside,
    /// How many of the last samples are left out, and how low they fall.
    freed: Option<(u64, f64)>,
}

/// A count is told that was taken over this part of the curve.
const COUNTED_PART: f64 = 0.25;

impl Judge {
    /// A judge that has seen nothing yet.
    pub fn new(context: Context, axis: Axis, metric: Metric) -> Self {
        Self::with_room(context, axis, metric, ROOM)
    }

    /// The same with room for so many bins only.
    pub(crate) fn with_room(context: Context, axis: Axis, metric: Metric, room: usize) -> Self {
        let series = || Series::new(room);
        let clock = Clock { axis, pace: None };
        Self {
            context,
            axis,
            metric,
            need: series(),
            file: series(),
            file_inside: false,
            count: None,
            clock,
            origin: 0.0,
            resolution: 0.0,
            name: None,
            life: Life::Unknown,
            drawn: true,
            kept_outside: None,
            largest_example: None,
            split: Split::WHOLE,
            death: None,
            beside: Beside::default(),
            freed: None,
        }
    }

    /// Takes the next sample of what the job needs.
    pub fn push(&mut self, point: Point) {
        self.need.push(point);
    }

    /// Takes the file pages seen beside it, which the kernel can take back.
    pub fn push_file(&mut self, x: f64, bytes: f64) {
        self.file.push(Point::one(x, bytes));
    }

    /// Says where it came from.
    pub(crate) fn set_name(&mut self, name: &str) {
        self.name = Some(name.to_owned()).filter(|name| !name.is_empty());
    }

    /// Says that the curve somebody brought holds the file pages seen beside it.
    pub(crate) fn set_file_inside(&mut self, inside: bool) {
        self.file_inside = inside;
    }

    /// Takes a count of objects or tensors seen beside it.
    pub fn push_count(&mut self, name: &str, x: f64, count: f64) {
        let (_, series) = self.count.get_or_insert_with(|| (name.to_owned(), Series::new(256)));
        series.push(Point::one(x, count));
    }

    /// Says what the run knows of itself, when it comes to know more.
    pub fn set_context(&mut self, context: Context) {
        self.context = context;
    }

    /// Says where memory ends.
    pub(crate) fn set_limit(&mut self, limit: Option<lowtide_model::Bytes>, from: Option<String>) {
        self.context.limit = limit;
        self.context.limit_from = from;
    }

    /// Says what lies beside it under the same limit, which is told without that.
    pub(crate) fn set_beside(&mut self, beside: Beside) {
        self.beside = beside;
    }

    /// Several as one, each less its base.
    pub(crate) fn side_by_side(judges: &[(&Self, f64)], room: usize) -> Option<Self> {
        let (first, _) = judges.first()?;
        let needs: Vec<(&Series, f64)> = judges.iter().map(|(judge, base)| (&judge.need, *base)).collect();
        let empty = Self::with_room(Context::default(), first.axis, first.metric.clone(), room);
        Some(Self { need: Series::sum(&needs, room), ..empty })
    }

    /// Takes all of another curve, after this one.
    pub(crate) fn push_all(&mut self, other: &Self) {
        for bin in other.need.bins() {
            self.need.push(Point { x: bin.x_last, low: bin.low, high: bin.high, last: bin.last });
        }
    }

    /// Says how many seconds one x takes, for forecasts by the clock.
    pub fn set_pace(&mut self, seconds_per_x: Option<f64>) {
        self.clock.pace = seconds_per_x;
    }

    /// Says below which difference the instrument itself is in doubt.
    pub fn set_resolution(&mut self, bytes: f64) {
        self.resolution = bytes;
    }

    /// The curve of something that ended, without what was given back on the way out.
    pub(crate) fn cut_ending(&mut self) {
        self.need = self.need.without_ending();
    }

    /// Leaves out what a program gave back at its end, of a curve that does not say whether it is over. Where restarts were told
    /// the fall may be one of them.
    pub(crate) fn leave_out_freed(&mut self) {
        let restarts =
            self.context.restarts.is_some_and(|told| told > 0.0) || !self.context.restart_x.is_empty();
        let life = self.need.bins().len() - self.need.freed_at_the_end();
        let ending = &self.need.bins()[life..];
        if restarts || ending.is_empty() {
            return;
        }
        let lowest = ending.iter().map(|bin| bin.low).fold(f64::INFINITY, f64::min);
        self.freed = Some((ending.iter().map(|bin| u64::from(bin.count)).sum(), lowest));
        self.need = self.need.part(0, life);
    }

    /// Leaves out the gaps in which nothing moved; says which those are.
    pub(crate) fn skip(&mut self, gaps: &Gaps) -> Asleep {
        let asleep = gaps.asleep(&self.need, self.resolution);
        self.need = asleep.cut(&self.need);
        self.file = asleep.cut(&self.file);
        asleep
    }

    /// Its first value.
    pub(crate) fn oldest(&self) -> Option<f64> {
        self.need.first().map(|bin| bin.last)
    }

    /// The newest one before a clean-up at the end.
    pub(crate) fn newest_of_life(&self) -> Option<f64> {
        self.need.last_of_life().map(|bin| bin.last)
    }

    /// The newest value.
    pub(crate) fn newest(&self) -> Option<f64> {
        self.need.last().map(|bin| bin.last)
    }

    /// Samples taken so far.
    pub fn samples(&self) -> u64 {
        self.need.samples()
    }

    /// Says whether a picture of the answer is wanted.
    pub(crate) fn set_drawn(&mut self, drawn: bool) {
        self.drawn = drawn;
    }

    /// Says whether more samples will come. While they do, a leak needs better odds before it is called.
    pub fn set_running(&mut self, running: bool) {
        self.life = if running { Life::Running } else { Life::Unknown };
    }

    /// Says that what is judged is over: nobody can let it run on.
    pub(crate) fn set_ended(&mut self) {
        self.life = Life::Ended;
    }

    /// Says what stays after evaluations, and how large the largest example is: growth beyond either is no fill.
    pub(crate) fn set_outside_data(&mut self, kept: Option<f64>, largest_example: Option<f64>) {
        self.kept_outside = kept;
        self.largest_example = largest_example;
    }

    /// Says how a pass over the data is dealt out, and how much of it what is judged here meets.
    pub(crate) fn set_split(&mut self, split: Split) {
        self.split = split;
    }

    /// Says that something died of a limit: that is the outcome, whatever the curve would have done.
    pub(crate) fn set_death(&mut self, death: Option<Death>) {
        self.death = death;
    }

    /// The answer as of now.
    pub fn verdict(&self) -> Verdict {
        let judge = self.since_its_pass();
        let (seen, facts, file_grown) = judge.look();
        let kind = judge.kind(&seen, &facts, file_grown);
        judge.tell(kind, &seen, &facts, file_grown)
    }

    /// Steps are counted from where the curve begins, if that is behind the first pass: a job that goes on from a checkpoint, or a
    /// process that came later, takes its first pass then, and fills its caches anew.
    fn since_its_pass(&self) -> Cow<'_, Self> {
        let pass = pass(&self.context, self.axis).filter(|_| self.axis == Axis::Step);
        let first = self.need.first().map(|bin| bin.x_first);
        let Some((origin, pass)) = first.zip(pass).filter(|(first, pass)| first >= pass) else {
            return Cow::Borrowed(self);
        };
        let back = |x: f64| x - origin;
        let mut judge = self.clone();
        (judge.need, judge.file, judge.origin) = (self.need.moved(back), self.file.moved(back), origin);
        judge.count = self.count.as_ref().map(|(name, series)| (name.clone(), series.moved(back)));
        move_places(&mut judge.context, back);
        judge.context.epochs = self.context.epochs.map(|epochs| (epochs - origin / pass).max(0.0));
        Cow::Owned(judge)
    }

    /// The same numbers told as a kind that something other than the curve decided.
    pub(crate) fn verdict_as(&self, kind: Kind) -> Verdict {
        let judge = self.since_its_pass();
        let (mut seen, _, file_grown) = judge.look();
        seen.group = kind.group();
        let facts = Facts::of(&judge.need, &seen);
        judge.tell(kind, &seen, &facts, file_grown)
    }

    fn look(&self) -> (Assessment, Facts, Option<f64>) {
        let mut seen = self.beyond_the_start(assess(&self.need, &self.known()));
        let part = self.need.part(seen.cut, self.need.bins().len());
        let mut facts = Facts::of(&part, &seen);
        let pages = facts.end >= OF_PAGES && facts.risen() < LEAST_RISE;
        if pages && seen.group == Group::Leak && seen.because == Because::Shapes {
            // Above the level that the start came to there are only some pages more.
            seen = seen.bare_of(Group::Flat, Because::NothingMoves);
            facts = Facts::of(&part, &seen);
        }
        if self.life == Life::Ended && facts.last_wave != LastWave::Over {
            facts.last_wave = LastWave::Open;
        }
        let first = pass(&self.context, self.axis).filter(|pass| *pass < facts.last);
        if let Some(pass) = first.filter(|_| seen.because == Because::InsideFirstPass) {
            facts.part_at(pass, &seen.floor);
        }
        let file_grown = self.file_grown(&facts);
        let seen = self.beyond_the_data(seen, &facts);
        (seen, facts, file_grown)
    }

    /// In the first seconds of a recording every program grows: that is no fill, no warm-up and no leak yet.
    fn beyond_the_start(&self, seen: Assessment) -> Assessment {
        let span = self.need.last().zip(self.need.first()).map_or(0.0, |(l, f)| l.x_last - f.x_first);
        let recorded = self.resolution > 0.0 && self.axis == Axis::Seconds;
        let brief = match seen.group {
            Group::Leak => span < LOADING_SECONDS,
            Group::Bounded => span < START_SECONDS,
            Group::Flat | Group::TooEarly => false,
        };
        if recorded && brief { seen.with(Group::TooEarly, Because::TooBrief) } else { seen }
    }

    /// A fill keeps at most what an example decodes to.
    fn beyond_the_data(&self, seen: Assessment, facts: &Facts) -> Assessment {
        let undecided = matches!(seen.because, Because::InsideFirstPass | Because::OnePass);
        let each = self.fill(facts, &seen).map(|f| f.bytes_per_example);
        let too_much =
            self.largest_example.zip(each).is_some_and(|(largest, each)| each > MORE_THAN_DATA * largest);
        if undecided && too_much { seen.with(Group::Leak, Because::MoreThanData) } else { seen }
    }

    fn known(&self) -> Known {
        let end = self.need.last().map_or(0.0, |b| b.x_last);
        Known {
            pass: pass(&self.context, self.axis),
            events: events(&self.context, end),
            restarts: self.context.restarts.unwrap_or(0.0).clamp(0.0, 64.0) as usize,
            restart_x: self.context.restart_x.iter().copied().filter(|x| x.is_finite()).take(64).collect(),
            resolution: self.resolution,
            running: self.life == Life::Running,
            one_pass: self.context.epochs.is_some_and(|e| e < PASSES),
            kept_outside: self.kept_outside,
            split: Some(self.split).filter(|split| split.may_fill()),
        }
    }

    fn file_grown(&self, facts: &Facts) -> Option<f64> {
        if self.file.samples() < 4 {
            return None;
        }
        let floor = Floor::of(&self.file);
        // Mapping libraries and code at the start is no page cache worth a name.
        let (first, last) = (floor.y.get(floor.len() / 10)?, floor.y.last()?);
        let grown = last - first;
        let scatter = floor.noise.max(facts.noise);
        let clear = grown > (FILE_FACTOR * scatter).max(facts.end - facts.after_start).max(self.resolution);
        clear.then_some(grown)
    }

    fn kind(&self, seen: &Assessment, facts: &Facts, file_grown: Option<f64>) -> Kind {
        match seen.group {
            Group::Leak => Kind::Leak,
            Group::TooEarly => Kind::TooEarly,
            Group::Flat if file_grown.is_some_and(|grown| self.file_leads(grown, facts)) => Kind::PageCache,
            Group::Flat => flat_kind(seen, facts),
            Group::Bounded => self.bounded_kind(seen, facts),
        }
    }

    /// Whether file pages are what to tell first of a job whose need is flat. Of a curve that holds them they explain why
    /// it grows; beside the need of a job they must be more than its waves, and enough to matter to it.
    fn file_leads(&self, grown: f64, facts: &Facts) -> bool {
        self.file_inside || (grown > facts.peak_height && grown >= FILE_PART * facts.end)
    }

    fn bounded_kind(&self, seen: &Assessment, facts: &Facts) -> Kind {
        if matches!(seen.because, Because::OnePass | Because::DealtOut) {
            return Kind::CacheFill;
        }
        let aligned = facts
            .knee
            .zip(pass(&self.context, self.axis))
            .is_some_and(|(knee, pass)| knee_matches(knee.0, pass, facts, seen.floor.len()));
        if matches!(self.metric, Metric::PssTree) {
            return Kind::WorkerCopies;
        }
        if aligned || (facts.sharp && facts.knee.is_some() && self.context.threads.is_none()) {
            return Kind::CacheFill;
        }
        if self.context.threads.is_some_and(|t| t >= MANY_THREADS) {
            return Kind::AllocatorKept;
        }
        Kind::WarmUp
    }

    /// The fill that the growth would be: of what these processes meet, each keeps its part once, or in the end all of it.
    fn fill(&self, facts: &Facts, seen: &Assessment) -> Option<Fill> {
        let whole = fill(facts, &self.context, self.axis)?;
        let share = self.split.share();
        let copies = if seen.filled.is_some() { self.split.own } else { share };
        Some(Fill { bytes_per_example: whole.bytes_per_example / share, copies, ..whole })
    }

    fn tell(&self, kind: Kind, seen: &Assessment, facts: &Facts, file_grown: Option<f64>) -> Verdict {
        let (outcome, forecast) = self.what_comes(seen, facts);
        let ahead_bytes = ahead(seen, facts, &self.context, self.axis);
        let periods = Periods::of(&self.need, facts, &self.context, self.axis);
        let fill = self.fill(facts, seen);
        let beyond = fill.map(|fill| fill.bytes_per_example).zip(self.largest_example);
        let fill = fill.filter(|_| matches!(kind, Kind::CacheFill | Kind::TooEarly | Kind::WarmUp));
        let decided_at = if kind == Kind::TooEarly { self.decided_at(seen, facts) } else { None };
        let story = Story {
            kind,
            seen,
            facts,
            context: &self.context,
            axis: self.axis,
            metric: &self.metric,
            fill,
            split: self.split,
            beyond,
            outcome: &outcome,
            beside: &self.beside,
            forecast: forecast.as_ref(),
            decided_at,
            origin: self.origin,
            running: self.life == Life::Running,
            file_grown,
            unusable: self.need.unusable(),
            freed: self.freed,
            periods: &periods,
            count: self.count_fact(),
        };
        let mut verdict = Verdict {
            schema: SCHEMA.to_owned(),
            file: self.name.clone(),
            verdict: kind,
            group: kind.group(),
            confidence: confidence(kind, seen),
            headline: story.headline(),
            process: None,
            floor: floor_facts(facts),
            settled_at: facts.knee.map(|knee| self.settled(knee.0)),
            bytes_per_example: fill.filter(|_| kind == Kind::CacheFill).map(|f| f.bytes_per_example),
            matters: story.matters(),
            in_first_pass: seen.because == Because::InsideFirstPass,
            follows: periods.follows().map(|period| period.name).or(periods.saw_tooth()),
            drawing: if self.drawn { story.drawing(&self.need) } else { Drawing::default() },
            explanations: story.explanations(),
            evidence: story.evidence(),
            ruled_out: story.ruled_out(),
            advice: story.advice(),
            disprove: story.disprove(),
            why: story.why(),
            decided_at_step: decided_at,
            outcome,
            forecast,
            ahead_bytes,
            fill,
        };
        verdict.suit_advice(self.standing(facts));
        verdict.moved_on(self.origin)
    }

    /// Whether it fits, and when it will not; nothing is ahead of what was killed.
    fn what_comes(&self, seen: &Assessment, facts: &Facts) -> (Outcome, Option<Forecast>) {
        let mut outcome = outcome(seen, facts, &self.context, self.axis, &self.beside);
        let forecast = forecast(seen, facts, &self.context, (&self.clock, &self.beside));
        if let Some(death) = &self.death {
            death.decide(&mut outcome, facts.peak);
        }
        (outcome, forecast.filter(|_| self.death.is_none()))
    }

    fn standing(&self, facts: &Facts) -> Standing {
        let seconds = (self.axis == Axis::Seconds).then_some(facts.last - facts.first);
        Standing { ended: self.life == Life::Ended, seconds }
    }

    fn settled(&self, x: f64) -> Settled {
        Settled { step: (self.axis != Axis::Seconds).then_some(x), seconds: self.clock.seconds(x) }
    }

    /// When two explanations part: at the end of the first pass, of the test pass after it, or when the curve is half
    /// as long again.
    fn decided_at(&self, seen: &Assessment, facts: &Facts) -> Option<f64> {
        let steps = pass_steps(&self.context);
        // The next pass to end shows whether it added as much as the one before.
        if let Some(filled) = seen.filled {
            return Some((((facts.last / filled.pass).floor() + 1.0) * filled.pass).ceil());
        }
        match (self.axis, steps) {
            (Axis::Step, Some(pass)) if facts.last < pass => Some(pass.ceil()),
            (Axis::Step, Some(pass)) if facts.last < crate::assess::PASSES * pass => {
                Some((crate::assess::PASSES * pass).ceil())
            }
            // When it has risen far beyond where it fell from.
            (Axis::Step, _) if let Some(fall) = seen.fell => {
                let line = facts.alive();
                let ahead = (fall.beyond() - line.at(facts.last)).max(0.0) / line.rate;
                (line.rate > 0.0).then(|| (facts.last + ahead).ceil())
            }
            // When the rest is long enough to be believed.
            (Axis::Step, _) if facts.rests.is_some() => facts
                .rests
                .map(|at| ((at - facts.first) / (1.0 - PLATEAU) + facts.first).max(facts.last).ceil()),
            (Axis::Step, _) if seen.samples >= 2 => {
                Some((1.5_f64.mul_add(facts.last - facts.first, facts.first)).ceil())
            }
            (Axis::Seconds | Axis::Sample, Some(pass)) => Some(pass.ceil()),
            (Axis::Step | Axis::Seconds | Axis::Sample | Axis::Epoch, _) => None,
        }
    }

    fn count_fact(&self) -> Option<CountFact> {
        let (name, series) = self.count.as_ref()?;
        let bins = series.bins();
        // One look, or some at one end of the curve, tell of no course.
        let seen = series.last()?.x_last - series.first()?.x_first;
        let whole = self.need.last()?.x_last - self.need.first()?.x_first;
        if bins.len() < 2 || seen < COUNTED_PART * whole {
            return None;
        }
        let moves: Vec<(f64, f64)> = bins
            .windows(2)
            .filter(|w| (w[1].last - w[0].last).abs() > 0.5 && w[0].last > 0.5)
            .map(|w| (w[0].x_last, w[1].x_first))
            .collect();
        let changed = if let [only] = moves[..] { Some(only) } else { None };
        Some(CountFact {
            name: name.clone(),
            first: series.first()?.last,
            last: series.last()?.last,
            changed,
        })
    }
}

impl Verdict {
    /// Tells places as the curve's own x again.
    fn moved_on(mut self, origin: f64) -> Self {
        if origin <= 0.0 {
            return self;
        }
        let on = |x: f64| x + origin;
        self.drawing.moved(on);
        self.decided_at_step = self.decided_at_step.map(on);
        if let Some(settled) = &mut self.settled_at {
            settled.step = settled.step.map(on);
        }
        if let Some(forecast) = &mut self.forecast {
            forecast.at_step = forecast.at_step.map(on);
            (forecast.low, forecast.high) = (on(forecast.low), on(forecast.high));
        }
        self
    }
}

fn floor_facts(facts: &Facts) -> FloorFacts {
    let g = &facts.growth;
    FloorFacts {
        start_bytes: facts.start,
        end_bytes: facts.end,
        bytes_per_step: g.rate,
        low: g.rate - g.margin,
        high: g.rate + g.margin,
    }
}

/// An interpreter, its imports and the first buffers take this many seconds.
const START_SECONDS: f64 = 2.0;
/// ... and a model or a table that is loaded grows with no end in sight for this many.
const LOADING_SECONDS: f64 = 10.0;
/// Bytes per example beyond this many times the largest decoded example are not the example.
const MORE_THAN_DATA: f64 = 1.5;
/// File pages must have grown by more than the need moved, and by this many times the scatter, to be the story.
const FILE_FACTOR: f64 = 4.0;
/// ... and beside a job by this part of what it needs: less could not bring a job that fits near its limit, which
/// begins at nine tenths of it.
const FILE_PART: f64 = 0.1;
/// From this many threads on, glibc's arenas (eight a core, one a thread) are the usual reason for a ratchet.
const MANY_THREADS: f64 = 4.0;
/// A curve is called spiky when at most this part of it stands above the floor: more is a saw-tooth.
const SPIKE_SHARE: f64 = 0.45;

fn flat_kind(seen: &Assessment, facts: &Facts) -> Kind {
    let share = facts.peaks as f64 / (seen.samples.max(1)) as f64;
    // What fell by more than its peaks are high has no level that they stand above.
    let falls = facts.after_start - facts.end > facts.peak_height;
    if facts.peaks > 0 && share <= SPIKE_SHARE && !falls { Kind::Spikes } else { Kind::Steady }
}

/// Moves every place that is told beside a curve.
fn move_places(context: &mut Context, to: impl Fn(f64) -> f64) {
    let Context { validation_x, save_x, log_x, shard_x, rollout_x, step_x, restart_x, .. } = context;
    let all = [validation_x, save_x, log_x, shard_x, rollout_x, step_x, restart_x];
    all.into_iter().flatten().for_each(|x| *x = to(*x));
}

/// Where evaluations were, or where saves were when no evaluation is known.
fn events(context: &Context, end: f64) -> Vec<f64> {
    let evaluations = evaluations(context, end);
    if evaluations.is_empty() { context.save_x.clone() } else { evaluations }
}
