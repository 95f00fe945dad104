//! Judges memory curves and recordings: leak, cache fill, warm-up, spikes, or too early to say; and whether it fits.
//!
//! Pure: no clock, no file, no environment, no thread, no random order. The same rows give the same words.
//! Not here: reading anything (see `probe` and `store`), showing anything (see `lowtide`).

mod advice;
mod allocator;
mod assess;
mod budget;
mod causes;
mod climb;
mod compare;
mod confidence;
mod copies;
mod crew;
mod curve;
mod decide;
mod drawing;
mod ebb;
mod events;
mod evidence;
mod facts;
mod fall;
mod faster;
mod fleet;
mod floor;
mod gaps;
mod guard;
mod judge;
mod killed;
mod levels;
mod lines;
mod live;
mod lives;
mod marks;
mod outcome;
mod outlook;
mod periods;
mod phrases;
mod reasons;
mod rest;
mod roles;
mod room;
mod run;
mod scans;
mod series;
mod shapes;
mod split;
mod straight;
mod summary;
mod tally;
mod together;
mod total;
mod trace;
mod track;
mod verdict;
mod words;

pub use budget::Fill;
pub use compare::{
    Compared, Comparison, Difference, Key, Measures, Memory, Phase, Side, Source, Told, Until, compare,
    compare_by,
};
pub use curve::{judge, judge_running};
pub use fleet::{Member, rank_among, rank_of, who_differs};
pub use guard::{Call, Cause, Guard, Look, QUICKEST_LOOK, SLOWEST_LOOK, Why};
pub use judge::Judge;
pub use killed::cut_off_note;
pub use live::LiveJudge;
pub use phrases::both;
pub use roles::{Footprint, RoleFound, roles};
pub use run::{RunVerdict, judge_recording, judge_recording_with};
pub use series::Point;
pub use summary::{Course, RoleSummary, Summary, least_left, roles_of, summarize};
pub use tally::{Tally, tally};
pub use together::{Together, judge_together};
pub use total::{Estimate, TreeTotal, tree_totals};
pub use trace::{Steps, Trace, curve_of};
pub use verdict::{
    Drawing, Explanation, Fits, FloorFacts, Forecast, Group, Kind, Outcome, ProcessNamed, RuledOut, SCHEMA,
    Settled, Verdict,
};
