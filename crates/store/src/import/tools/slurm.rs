//! What Slurm tells of jobs: `sstat -j` again and again is a curve, `sacct` over many jobs is none.

use super::super::memory_names::is_named;
use super::super::{Attempt, Hints, Missing, numbers, times};
use super::{Rounds, size};
use lowtide_model::Metric;

const NO_JOBS: &str = "no heading with JobID and MaxRSS";

/// Columns to judge, the best first: the highest so far is told of each task, the mean may hide one that leaks.
const COLUMNS: [&str; 2] = ["MaxRSS", "AveRSS"];

/// Columns that say when a row was written.
const TIMES: [&str; 4] = ["Time", "Timestamp", "Date", "Elapsed"];

/// A heading, and how its columns are parted.
struct Heading {
    names: Vec<String>,
    parted: Option<char>,
    /// Where each column begins and ends, by the dashes under the heading.
    spans: Vec<(usize, usize)>,
}

impl Heading {
    fn of(line: &str) -> Option<Self> {
        // What is parted by commas or tabs is a table like any other.
        if line.contains([',', '\t']) {
            return None;
        }
        let parted = line.contains('|').then_some('|');
        let names = cells(line, parted);
        let has = |name: &str| names.iter().any(|own| own == name);
        let known = has("JobID") && COLUMNS.into_iter().any(has);
        known.then_some(Self { names, parted, spans: Vec::new() })
    }

    fn at(&self, name: &str) -> Option<usize> {
        self.names.iter().position(|own| is_named(own, name))
    }

    /// The cells of a row, as many as names; where one is empty, a row of blanks is parted under the dashes.
    fn row(&self, line: &str) -> Option<Vec<String>> {
        let found = cells(line, self.parted);
        if found.len() == self.names.len() {
            return Some(found);
        }
        let under = |(start, end): &(usize, usize)| line.get(*start..line.len().min(*end)).map(str::trim);
        let found: Vec<String> = self.spans.iter().map(|span| under(span).unwrap_or("").to_owned()).collect();
        (found.len() == self.names.len() && self.parted.is_none()).then_some(found)
    }
}

/// The cells of a line; `sacct -p` ends each with a mark.
fn cells(line: &str, parted: Option<char>) -> Vec<String> {
    let Some(mark) = parted else { return line.split_whitespace().map(str::to_owned).collect() };
    let line = line.trim().strip_suffix(mark).unwrap_or(line.trim());
    line.split(mark).map(|cell| cell.trim().to_owned()).collect()
}

/// The spans of `------------ ----------`.
fn dashes(line: &str) -> Option<Vec<(usize, usize)>> {
    let only = !line.trim().is_empty() && line.bytes().all(|byte| matches!(byte, b'-' | b' '));
    let starts = |at: usize| line[at..].starts_with('-') && !line[..at].ends_with('-');
    let span = |at: usize| (at, at + line[at..].find(' ').unwrap_or(line.len() - at));
    only.then(|| (0..line.len()).filter(|at| starts(*at)).map(span).collect())
}

/// Rows under `JobID MaxRSS ...`, of each job step a curve.
pub(super) fn read(text: &str, hints: &Hints) -> Attempt {
    let mut lines = text.lines().peekable();
    let mut heading: Option<Heading> = None;
    let mut column = "";
    let mut rounds = Rounds::default();
    while let Some(line) = lines.next() {
        if let Some(mut found) = Heading::of(line) {
            found.spans = lines.next_if(|line| dashes(line).is_some()).and_then(dashes).unwrap_or_default();
            column = wanted(&found, hints)?;
            heading = Some(found);
            continue;
        }
        let row = heading.as_ref().and_then(|heading| Some((heading, heading.row(line)?)));
        let told = row.and_then(|(heading, row)| {
            let job = row.get(heading.at("JobID")?).filter(|job| is_job(job))?;
            let cell = row.get(heading.at(column)?)?;
            let moment = TIMES.iter().find_map(|name| times::cell(row.get(heading.at(name)?)?));
            Some((job.clone(), bytes(cell, hints)?, moment))
        });
        match told {
            Some((job, bytes, moment)) => {
                rounds.now = moment.or(rounds.now);
                rounds.add(&job, bytes, None);
            }
            None if !begins_with_a_job(line) => rounds.other(line),
            None => {}
        }
    }
    if heading.is_none() {
        return Err(NO_JOBS.into());
    }
    curves(rounds, column)
}

/// `123456.batch`, `1000_1.0`, `123456.ext+`: no date and no time.
fn is_job(cell: &str) -> bool {
    let part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '+');
    cell.starts_with(|c: char| c.is_ascii_digit()) && cell.chars().all(part)
}

/// Whether a line that holds no size is a row all the same; what stands alone may be what `date +%s` printed.
fn begins_with_a_job(line: &str) -> bool {
    let mut cells = line.split(['|', ' ']).filter(|cell| !cell.is_empty());
    cells.next().is_some_and(is_job) && cells.next().is_some()
}

/// The column to judge.
fn wanted<'a>(heading: &Heading, hints: &'a Hints) -> Result<&'a str, Missing> {
    if let Some(asked) = &hints.y {
        let why = || Missing::Wanted(format!("no column `{asked}` among: {}", heading.names.join(", ")));
        return heading.at(asked).map(|_| asked.as_str()).ok_or_else(why);
    }
    COLUMNS.into_iter().find(|name| heading.at(name).is_some()).ok_or_else(|| NO_JOBS.into())
}

/// A size as Slurm writes it: with its unit, or in bytes.
fn bytes(cell: &str, hints: &Hints) -> Option<f64> {
    size(cell, hints)
        .or_else(|| numbers::number(cell).map(|value| value * super::unit(hints, numbers::BYTES).bytes))
}

/// The jobs that were looked at more than once: what each of many held when it ended is no course of anything.
fn curves(mut rounds: Rounds, column: &str) -> Attempt {
    let jobs: Vec<String> = rounds.lines.keys().cloned().collect();
    let Some(first) = jobs.first() else {
        return Err(Missing::Wanted(format!("no row with a job and a size in `{column}`")));
    };
    rounds.lines.retain(|_, line| line.y.len() > 1);
    if rounds.lines.is_empty() {
        let others = if jobs.len() > 1 { format!(" and {} others", jobs.len() - 1) } else { String::new() };
        return Err(Missing::Wanted(format!(
            "each row is another job ({first}{others}) with one `{column}`, which is no curve over time; look at one job again \
             and again with `sstat -j`, or record it with lowtide"
        )));
    }
    let left_out = jobs.len() - rounds.lines.len();
    let metric = if column.eq_ignore_ascii_case("AveRSS") { Metric::Rss } else { Metric::MaxRss };
    let others =
        if left_out > 0 { format!("; {left_out} jobs with one row are left out") } else { String::new() };
    let note = format!("Slurm's `{column}` of each job step, units from the cells{others}");
    Ok(rounds.curves(&metric, &note))
}
