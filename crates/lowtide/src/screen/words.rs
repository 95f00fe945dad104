//! How the live views put a snapshot into words, and how foreign text is made harmless.

use lowtide_model::{ByteDelta, Bytes, LimitHeld, LimitKind};
use lowtide_wire::{Phase, Snapshot};

/// Stands for a character that could move the cursor or turn the reading direction.
const MASK: char = '\u{fffd}';
/// Longer than this, a foreign text is cut: no screen shows more of it.
const LONGEST_TEXT: usize = 2_000;

/// Text without control characters, line breaks or direction overrides.
pub(crate) fn clean(text: &str) -> String {
    text.chars().take(LONGEST_TEXT).map(harmless).collect()
}

fn harmless(c: char) -> char {
    match c {
        '\n' | '\r' | '\t' | '\u{2028}' | '\u{2029}' => ' ',
        '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}' => MASK,
        c if c.is_control() => MASK,
        c => c,
    }
}

fn clean_in_place(text: &mut String) {
    if text.len() > LONGEST_TEXT || text.chars().any(|c| harmless(c) != c) {
        *text = clean(text);
    }
}

/// Makes every string of a snapshot harmless.
pub(crate) fn clean_snapshot(snapshot: &mut Snapshot) {
    let Snapshot { run_id, name, command, recording, limits, processes, headline, warnings, .. } = snapshot;
    for text in [run_id, name, command, recording] {
        clean_in_place(text);
    }
    for process in processes {
        clean_in_place(&mut process.reason);
        clean_in_place(&mut process.command);
    }
    for limit in limits {
        if let LimitKind::Cgroup { path } = &mut limit.kind {
            *path = clean(path).into();
        }
    }
    headline.iter_mut().for_each(clean_in_place);
    warnings.iter_mut().for_each(clean_in_place);
}

/// A length of time as a person says it.
pub(crate) fn elapsed(seconds: f64) -> String {
    let whole = seconds.max(0.0) as u64;
    let (days, hours, minutes) = (whole / 86_400, whole / 3_600 % 24, whole / 60 % 60);
    match (days, hours, minutes) {
        (0, 0, 0) => format!("{whole} s"),
        (0, 0, _) => format!("{minutes} min {:02} s", whole % 60),
        (0, _, _) => format!("{hours} h {minutes:02} min"),
        _ => format!("{days} d {hours:02} h"),
    }
}

/// A rate with its sign.
pub(crate) fn rate(bytes_per_minute: Option<f64>) -> String {
    match bytes_per_minute.filter(|rate| rate.is_finite()) {
        Some(rate) => format!("{}/min", ByteDelta(rate.round() as i64)),
        None => "rate unknown".to_owned(),
    }
}

/// Whose limit it is.
pub(crate) fn limit_name(kind: &LimitKind) -> String {
    match kind {
        LimitKind::Cgroup { path } => format!("cgroup {path}"),
        LimitKind::AddressSpace { process } => format!("address space of {}", process.pid),
        LimitKind::Host => "host".to_owned(),
        LimitKind::DevShm => "/dev/shm".to_owned(),
        LimitKind::Slurm => "Slurm".to_owned(),
        LimitKind::Asked => "--limit".to_owned(),
    }
}

/// How much of a limit is taken, per cent. A limit of nothing is always full.
pub(crate) fn percent(limit: &LimitHeld) -> f64 {
    if limit.limit == Bytes::ZERO { 100.0 } else { limit.used.as_f64() / limit.limit.as_f64() * 100.0 }
}

/// The limit that will be met first.
pub(crate) fn tightest(snapshot: &Snapshot) -> Option<&LimitHeld> {
    snapshot.limits.iter().min_by_key(|limit| limit.headroom())
}

/// One limit in words.
pub(crate) fn limit_words(limit: &LimitHeld) -> String {
    format!(
        "{} {:.0} % of {}, {} left",
        limit_name(&limit.kind),
        percent(limit),
        limit.limit,
        limit.headroom()
    )
}

/// `1 process`, `25 processes`.
pub(crate) fn processes(count: usize) -> String {
    match count {
        1 => "1 process".to_owned(),
        count => format!("{count} processes"),
    }
}

/// How far the job is, as its marks say: `step 120 · epoch 1.4 · evaluating`.
pub(crate) fn progress(snapshot: &Snapshot) -> Option<String> {
    let progress = snapshot.progress?;
    let finite = |number: &f64| number.is_finite();
    let mut parts = Vec::new();
    parts.extend(progress.step.filter(finite).map(|step| format!("step {step}")));
    parts.extend(progress.epoch.filter(finite).map(|epoch| format!("epoch {epoch:.1}")));
    parts.extend(match progress.phase {
        Phase::Training => None,
        Phase::Eval => Some("evaluating".to_owned()),
        Phase::Save => Some("saving".to_owned()),
        Phase::Load => Some("loading".to_owned()),
    });
    (!parts.is_empty()).then(|| parts.join(" \u{b7} "))
}

/// The whole job on one line.
pub(crate) fn state_line(snapshot: &Snapshot) -> String {
    let mut parts = vec![elapsed(snapshot.tick.seconds())];
    parts.extend(progress(snapshot));
    parts.extend([
        snapshot.total.bytes.to_string(),
        rate(snapshot.bytes_per_minute),
        tightest(snapshot).map_or_else(|| "no limit found".to_owned(), limit_words),
        processes(snapshot.processes.len()),
    ]);
    parts.extend(snapshot.headline.clone());
    parts.join("  ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use lowtide_model::{ProcKey, Tick};
    use proptest::prelude::*;

    #[test]
    fn time_is_said_as_people_say_it() {
        let said = [0.0, 59.9, 61.0, 3_599.0, 3_600.0, 90_000.0, -3.0, f64::NAN].map(elapsed);
        assert_eq!(
            said,
            ["0 s", "59 s", "1 min 01 s", "59 min 59 s", "1 h 00 min", "1 d 01 h", "0 s", "0 s"]
        );
    }

    #[test]
    fn the_tightest_limit_is_the_one_with_the_least_room_and_not_the_fullest() {
        let held = |kind, limit, used| LimitHeld {
            kind,
            limit: Bytes::from_mib(limit),
            used: Bytes::from_mib(used),
        };
        let snapshot = Snapshot {
            tick: Tick::from_seconds(75.0),
            limits: vec![held(LimitKind::Host, 1000, 900), held(LimitKind::DevShm, 64, 1)],
            bytes_per_minute: Some(1_048_576.0),
            ..Snapshot::default()
        };
        let line = state_line(&snapshot);
        assert_eq!(
            line,
            "1 min 15 s  0 B  +1.00 MiB/min  /dev/shm 2 % of 64.0 MiB, 63.0 MiB left  0 processes"
        );
    }

    #[test]
    fn progress_is_said_as_far_as_it_is_known() {
        let said = |step, epoch, phase| {
            let now = Some(lowtide_wire::Progress { step, epoch, phase });
            progress(&Snapshot { progress: now, ..Snapshot::default() })
        };
        assert_eq!(
            said(Some(120.0), Some(1.44), Phase::Eval).unwrap(),
            "step 120 \u{b7} epoch 1.4 \u{b7} evaluating"
        );
        assert_eq!(said(Some(3.0), None, Phase::Training).unwrap(), "step 3");
        assert_eq!(said(Some(f64::NAN), None, Phase::Training), None);
        assert_eq!(progress(&Snapshot::default()), None);
    }

    #[test]
    fn every_limit_has_its_words() {
        let process = ProcKey { pid: 4711, start_ticks: 1 };
        assert_eq!(limit_name(&LimitKind::AddressSpace { process }), "address space of 4711");
        assert_eq!(limit_name(&LimitKind::Cgroup { path: "/foo".into() }), "cgroup /foo");
        let none = LimitHeld { kind: LimitKind::Slurm, limit: Bytes::ZERO, used: Bytes::ZERO };
        assert_eq!(limit_words(&none), "Slurm 100 % of 0 B, 0 B left");
    }

    proptest! {
        #[test]
        fn clean_text_cannot_steer_a_terminal(text in any::<String>()) {
            let cleaned = clean(&text);
            prop_assert!(!cleaned.chars().any(char::is_control));
            prop_assert_eq!(clean(&cleaned), cleaned);
        }

        #[test]
        fn no_number_panics(seconds in any::<f64>(), per_minute in any::<f64>()) {
            prop_assert!(!elapsed(seconds).is_empty());
            prop_assert!(!rate(Some(per_minute)).is_empty());
        }
    }
}
