//! What cleaning up gave back, in words.

use super::plain;
use crate::duration;
use lowtide_model::Bytes;
use lowtide_run::squeezing::{Later, Means, Squeezed, Way};
use std::fmt::Write as _;
use std::time::Duration;

/// Less than this is noise of the counters.
const LEAST: Bytes = Bytes::from_mib(1);
const NAME_CHARS: usize = 60;
const WORDS_CHARS: usize = 300;

/// The answer first, then each way with its figures.
pub(crate) fn squeeze_text(report: &Squeezed) -> String {
    let pid = report.process.map_or(0, |process| process.pid);
    let mut text = format!("process {pid} ({}): {}\n\n", plain(&report.command, NAME_CHARS), answer(report));
    for way in &report.ways {
        let _ = writeln!(text, "  {:<15} {}", name(way.means), words(way));
    }
    if let Some(why) = &report.incomplete {
        let _ = writeln!(text, "  not all was done: {}", plain(why, WORDS_CHARS));
    }
    text.push_str(
        "\n  each was done once, inside the process, and is not done again; no gradient was zeroed. Growth of the job itself\n  \
         in the meantime counts against what is still gone.\n",
    );
    text
}

fn answer(report: &Squeezed) -> String {
    let given: Vec<&Way> = report.ways.iter().filter(|way| gave(way)).collect();
    if given.is_empty() {
        return "cleaning up gives nothing back: what it holds is in use".to_owned();
    }
    let parts: Vec<String> = given
        .iter()
        .map(|way| {
            let mut sizes = Vec::new();
            sizes.extend(host(way).map(|bytes| bytes.to_string()));
            sizes.extend(gpu(way).map(|bytes| format!("{bytes} of GPU memory")));
            format!("{} ({})", sizes.join(" and "), name(way.means))
        })
        .collect();
    let taken = if given.iter().all(|way| is_taken_again(way)) { ", and the job took it again" } else { "" };
    format!("cleaning up gave back {}{taken}", parts.join(", "))
}

/// Whether a later look found nothing still gone of what came back.
fn is_taken_again(way: &Way) -> bool {
    let stays = |later: Later| {
        let on_host = host(way).is_some() && later.host_still_gone_bytes >= LEAST;
        on_host || gpu(way).is_some() && later.gpu_still_gone_bytes.is_none_or(|bytes| bytes >= LEAST)
    };
    way.later.is_some_and(|later| !stays(later))
}

fn gave(way: &Way) -> bool {
    host(way).is_some() || gpu(way).is_some()
}

fn host(way: &Way) -> Option<Bytes> {
    way.host.map(|change| change.returned_bytes).filter(|bytes| *bytes >= LEAST)
}

fn gpu(way: &Way) -> Option<Bytes> {
    way.gpu.map(|change| change.returned_bytes).filter(|bytes| *bytes >= LEAST)
}

const fn name(means: Means) -> &'static str {
    match means {
        Means::AllocatorTrim => "allocator trim",
        Means::GpuCache => "GPU cache",
        Means::GcCollect => "gc.collect",
    }
}

fn words(way: &Way) -> String {
    if let Some(why) = &way.skipped {
        return format!("not done: {}", plain(why, WORDS_CHARS));
    }
    let with = way.with.as_deref().map(|with| format!(" by {}", plain(with, NAME_CHARS))).unwrap_or_default();
    if !gave(way) {
        return format!("0 B back{with}, {}: {}", milliseconds(way.took_ms), nothing(way));
    }
    let mut given = Vec::new();
    given.extend(host(way).map(|bytes| format!("{bytes} of host memory")));
    given.extend(gpu(way).map(|bytes| format!("{bytes} of GPU memory")));
    let found =
        way.found_objects.map(|count| format!(", {count} objects nobody reached")).unwrap_or_default();
    let later = way.later.map_or_else(|| "not looked at again".to_owned(), |later| later_words(way, &later));
    format!("{} back{with}, {}{found}; {later}", given.join(" and "), milliseconds(way.took_ms))
}

/// What it means that nothing came back.
fn nothing(way: &Way) -> String {
    match (way.means, way.found_objects) {
        (Means::GcCollect, None | Some(0)) => "not garbage".to_owned(),
        (Means::GcCollect, Some(count)) => format!("not garbage ({count} small objects were)"),
        (Means::AllocatorTrim, _) => "the allocator keeps nothing that it could let go".to_owned(),
        (Means::GpuCache, _) => "the framework keeps no GPU memory that is free".to_owned(),
    }
}

fn later_words(way: &Way, later: &Later) -> String {
    let when = match later.steps {
        Some(1) => "1 step later".to_owned(),
        Some(steps) => format!("{steps} steps later"),
        None => {
            let length = Duration::try_from_secs_f64(later.seconds).unwrap_or_default();
            format!("{} later", duration::words(length))
        }
    };
    let mut gone = Vec::new();
    gone.extend(host(way).map(|_| later.host_still_gone_bytes.to_string()));
    let on_gpu = gpu(way).and(later.gpu_still_gone_bytes);
    gone.extend(on_gpu.map(|bytes| format!("{bytes} of GPU memory")));
    format!("{when} {} of it still gone", gone.join(" and "))
}

fn milliseconds(ms: f64) -> String {
    if ms >= 10.0 { format!("{ms:.0} ms") } else { format!("{ms:.1} ms") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lowtide_run::squeezing::Change;

    fn change(before: u64, after: u64) -> Change {
        Change {
            before_bytes: Bytes::from_mib(before),
            after_bytes: Bytes::from_mib(after),
            returned_bytes: Bytes::from_mib(before.saturating_sub(after)),
        }
    }

    #[test]
    fn nothing_to_free_is_said_first_and_for_each_way() {
        let report = Squeezed {
            command: "python train.py".to_owned(),
            ways: vec![
                Way {
                    took_ms: 1.234,
                    host: Some(change(900, 900)),
                    with: Some("glibc".to_owned()),
                    ..Way::default()
                },
                Way {
                    means: Means::GpuCache,
                    skipped: Some("no GPU is in use".to_owned()),
                    ..Way::default()
                },
                Way { means: Means::GcCollect, took_ms: 31.2, found_objects: Some(0), ..Way::default() },
            ],
            ..Squeezed::default()
        };
        insta::assert_snapshot!(squeeze_text(&report), @r"
        process 0 (python train.py): cleaning up gives nothing back: what it holds is in use

          allocator trim  0 B back by glibc, 1.2 ms: the allocator keeps nothing that it could let go
          GPU cache       not done: no GPU is in use
          gc.collect      0 B back, 31 ms: not garbage

          each was done once, inside the process, and is not done again; no gradient was zeroed. Growth of the job itself
          in the meantime counts against what is still gone.
        ");
    }

    #[test]
    fn what_came_back_is_said_with_what_stayed_away() {
        let later = Later {
            steps: Some(10),
            seconds: 4.0,
            host_bytes: Bytes::from_mib(500),
            host_still_gone_bytes: Bytes::from_mib(400),
            gpu_bytes: Some(Bytes::from_mib(90)),
            gpu_still_gone_bytes: Some(Bytes::from_mib(10)),
        };
        let way = Way {
            means: Means::GcCollect,
            took_ms: 31.2,
            host: Some(change(900, 300)),
            gpu: Some(change(100, 80)),
            found_objects: Some(1200),
            later: Some(later),
            ..Way::default()
        };
        let report = Squeezed {
            ways: vec![way],
            incomplete: Some("the process ended meanwhile".to_owned()),
            ..Squeezed::default()
        };
        let text = squeeze_text(&report);
        for part in [
            "cleaning up gave back 600 MiB and 20.0 MiB of GPU memory (gc.collect)",
            "600 MiB of host memory and 20.0 MiB of GPU memory back, 31 ms, 1200 objects nobody reached",
            "10 steps later 400 MiB and 10.0 MiB of GPU memory of it still gone",
            "not all was done: the process ended meanwhile",
        ] {
            assert!(text.contains(part), "no `{part}` in\n{text}");
        }
        assert!(!text.contains("took it again"), "{text}");
    }

    #[test]
    fn what_the_job_took_again_is_no_gain() {
        let later = Later { steps: Some(10), ..Later::default() };
        let way = Way { host: Some(change(900, 880)), later: Some(later), ..Way::default() };
        let text = squeeze_text(&Squeezed { ways: vec![way], ..Squeezed::default() });
        assert!(text.contains("gave back 20.0 MiB (allocator trim), and the job took it again"), "{text}");
    }
}
