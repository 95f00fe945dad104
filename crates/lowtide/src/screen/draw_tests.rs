//! The screen drawn into memory: what it says at given sizes, and that no size and no snapshot can break it.

use super::*;
use lowtide_model::{Bytes, LimitHeld, LimitKind, ProcKey, Role, Tick};
use lowtide_wire::{Answer, Cost, Point, ProcessLine, RoleLine, Total};
use proptest::prelude::*;
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

fn screen(view: &mut View, width: u16, height: u16) -> Vec<String> {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    terminal.draw(|frame| draw(frame, view)).unwrap();
    let buffer = terminal.backend().buffer();
    let row = |y| (0..width).map(|x| buffer[(x, y)].symbol()).collect::<String>();
    (0..height).map(|y| row(y).trim_end().to_owned()).collect()
}

fn process(pid: u32, parent: Option<u32>, role: Role, mib: u64) -> ProcessLine {
    let key = |pid| ProcKey { pid, start_ticks: 1 };
    ProcessLine {
        key: key(pid),
        parent: parent.map(key),
        role,
        reason: "largest anonymous memory under the wrapper".to_owned(),
        command: "python train.py".to_owned(),
        rss_bytes: Bytes::from_mib(mib),
        anon_bytes: Some(Bytes::from_mib(mib / 2)),
        pss_bytes: None,
        swap_bytes: Some(Bytes::ZERO),
        threads: Some(12),
    }
}

fn job() -> Snapshot {
    let held =
        |kind, limit, used| LimitHeld { kind, limit: Bytes::from_mib(limit), used: Bytes::from_mib(used) };
    Snapshot {
        name: "vlm".to_owned(),
        command: "python train.py --epochs 3".to_owned(),
        recording: "/home/u/runs/vlm.tide".to_owned(),
        tick: Tick::from_seconds(725.0),
        running: true,
        total: Total {
            bytes: Bytes::from_mib(3_072),
            low_bytes: Bytes::from_mib(3_000),
            high_bytes: Bytes::from_mib(3_150),
            rss_sum_bytes: Bytes::from_mib(5_000),
        },
        bytes_per_minute: Some(35.0 * 1_048_576.0),
        limits: vec![
            held(LimitKind::Cgroup { path: "/job".into() }, 4_096, 3_200),
            held(LimitKind::Host, 64_000, 20_000),
        ],
        roles: vec![RoleLine {
            role: Role::Trainer,
            count: 1,
            rss_bytes: Bytes::from_mib(2_800),
            bytes_per_minute: Some(30.0 * 1_048_576.0),
        }],
        processes: vec![process(4711, Some(1), Role::Trainer, 2_800), process(1, None, Role::Wrapper, 20)],
        processes_seen: 9,
        headline: Some("fills a cache until step 83; fits".to_owned()),
        warnings: vec!["short-lived processes are counted only".to_owned()],
        cost: Cost { cpu_percent: 0.08, rss_bytes: Bytes::from_mib(9), stall_ms: 2.0 },
        ..Snapshot::default()
    }
}

fn watched() -> View {
    let mut view = View::new(Palette::Plain);
    let points = (0..100_u32).map(|i| Point {
        seconds: f64::from(i) * 7.0,
        low_bytes: Bytes::from_mib(1_000 + u64::from(i) * 20),
        high_bytes: Bytes::from_mib(1_050 + u64::from(i) * 20),
    });
    view.take(Answer::History { points: points.collect() }).unwrap();
    view.take(Answer::Snapshot(Box::new(job()))).unwrap();
    view
}

#[test]
fn forty_by_ten_tells_the_whole_story() {
    let lines = screen(&mut watched(), 40, 10);
    let text = lines.join("\n");
    for part in
        ["vlm  12 min 05 s", "3.00 GiB  +35.0 MiB/min", "896 MiB left", "trainer", "fits", "the job goes on"]
    {
        assert!(text.contains(part), "{part} is missing in\n{text}");
    }
}

#[test]
fn a_usual_terminal_shows_curve_limits_roles_and_our_own_cost() {
    let lines = screen(&mut watched(), 100, 30);
    let text = lines.join("\n");
    for part in [
        "python train.py --epochs 3",
        "/home/u/runs/vlm.tide",
        "between 2.93 GiB and 3.08 GiB",
        "line: cgroup /job is full",
        "cgroup /job",
        "3.12 GiB of 4.00 GiB, 896 MiB left",
        "host",
        "warning: short-lived",
        "lowtide: 0.08 % of a core, 9.00 MiB, stalls 2 ms",
    ] {
        assert!(text.contains(part), "{part} is missing in\n{text}");
    }
    assert!(
        text.chars().filter(|c| ('\u{2801}'..='\u{28ff}').contains(c)).count() > 40,
        "no curve in\n{text}"
    );
}

#[test]
fn processes_stand_under_their_parent_with_the_reason_of_the_selected_one() {
    let mut view = watched();
    view.key(KeyEvent::new(KeyCode::Tab, KeyModifiers::NONE));
    view.key(KeyEvent::new(KeyCode::Down, KeyModifiers::NONE));
    let text = screen(&mut view, 120, 30).join("\n");
    assert!(text.contains("\n1 python train.py"), "{text}");
    assert!(text.contains("\n  4711 python train.py"), "{text}");
    assert!(text.contains("4711 is a trainer: largest anonymous memory under the wrapper"), "{text}");
    assert!(text.contains("threads"), "{text}");
}

#[test]
fn the_help_and_the_wait_for_the_first_tick_are_drawn() {
    let mut view = View::new(Palette::Coloured);
    assert!(screen(&mut view, 60, 12)[0].contains("waiting for the recorder's first tick"));
    view.help = true;
    assert!(screen(&mut view, 60, 20).join("\n").contains("leave; the job goes on"));
}

#[test]
fn no_color_means_no_colour_in_any_cell() {
    let mut view = watched();
    let mut terminal = Terminal::new(TestBackend::new(120, 40)).unwrap();
    terminal.draw(|frame| draw(frame, &mut view)).unwrap();
    let buffer = terminal.backend().buffer();
    assert!(buffer.content.iter().all(|cell| cell.fg == Color::Reset && cell.bg == Color::Reset));
    view.palette = Palette::Coloured;
    terminal.draw(|frame| draw(frame, &mut view)).unwrap();
    assert!(terminal.backend().buffer().content.iter().any(|cell| cell.fg != Color::Reset));
}

#[test]
fn the_lines_handed_out_are_exactly_the_lines_there_are() {
    let wants = Wants { limits: 9, table: 500, reason: 1, warnings: 7, headline: 3 };
    for height in 0..300 {
        assert!(share(height, wants).iter().sum::<u16>() <= height);
    }
    assert_eq!(share(100, wants).iter().sum::<u16>(), 100);
}

fn hostile() -> impl Strategy<Value = String> {
    prop_oneof![
        any::<String>(),
        Just("\u{1b}[2J\u{7}\r\n\u{202e}木の葉\u{301}".to_owned()),
        Just(String::new())
    ]
}

fn any_kind() -> impl Strategy<Value = LimitKind> {
    prop_oneof![
        hostile().prop_map(|path| LimitKind::Cgroup { path: path.into() }),
        any::<u32>().prop_map(|pid| LimitKind::AddressSpace { process: ProcKey { pid, start_ticks: 0 } }),
        Just(LimitKind::Host),
        Just(LimitKind::DevShm),
        Just(LimitKind::Slurm),
        Just(LimitKind::Asked),
    ]
}

prop_compose! {
    fn any_process()(
        pid in 0_u32..20, parent in prop::option::of(0_u32..20), reason in hostile(), command in hostile(),
        rss: u64, anon: Option<u64>, threads: Option<u32>,
    ) -> ProcessLine {
        ProcessLine {
            reason, command, rss_bytes: Bytes(rss), anon_bytes: anon.map(Bytes), threads,
            ..process(pid, parent, Role::LoaderWorker, 0)
        }
    }
}

prop_compose! {
    fn any_snapshot()(
        names in (hostile(), hostile(), hostile()), headline in prop::option::of(hostile()),
        warnings in prop::collection::vec(hostile(), 0..6), tick: u64, total: (u64, u64, u64, u64), rate: Option<f64>,
        limits in prop::collection::vec((any_kind(), any::<u64>(), any::<u64>()), 0..8),
        roles in prop::collection::vec((any::<u32>(), any::<u64>(), any::<Option<f64>>()), 0..6),
        processes in prop::collection::vec(any_process(), 0..30), running: bool, cost: (f64, u64, f64),
    ) -> Snapshot {
        let limit = |(kind, limit, used)| LimitHeld { kind, limit: Bytes(limit), used: Bytes(used) };
        let role = |(count, rss, bytes_per_minute)| RoleLine {
            role: Role::Helper, count, rss_bytes: Bytes(rss), bytes_per_minute,
        };
        Snapshot {
            name: names.0, command: names.1, recording: names.2, headline, warnings, running, processes,
            tick: Tick(tick), bytes_per_minute: rate,
            total: Total {
                bytes: Bytes(total.0), low_bytes: Bytes(total.1), high_bytes: Bytes(total.2),
                rss_sum_bytes: Bytes(total.3),
            },
            limits: limits.into_iter().map(limit).collect(), roles: roles.into_iter().map(role).collect(),
            cost: Cost { cpu_percent: cost.0, rss_bytes: Bytes(cost.1), stall_ms: cost.2 },
            ..Snapshot::default()
        }
    }
}

fn any_size() -> impl Strategy<Value = (u16, u16)> {
    prop_oneof![(0_u16..60, 0_u16..30), (40_u16..400, 10_u16..150), Just((1, 1)), Just((500, 200))]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn no_snapshot_at_any_size_breaks_the_screen(
        snapshots in prop::collection::vec(any_snapshot(), 1..3), (width, height) in any_size(),
        history in prop::collection::vec((any::<f64>(), any::<u64>(), any::<u64>()), 0..40),
        keys in prop::collection::vec(prop::sample::select(vec!['j', 'k', 'r', '?', 'G', 'g']), 0..6),
    ) {
        let mut view = View::new(Palette::Coloured);
        let points = history.iter().map(|(seconds, low, high)| Point {
            seconds: *seconds, low_bytes: Bytes(*low), high_bytes: Bytes(*high),
        });
        view.take(Answer::History { points: points.collect() }).unwrap();
        for snapshot in snapshots {
            view.take(Answer::Snapshot(Box::new(snapshot))).unwrap();
            for key in &keys {
                view.key(KeyEvent::new(KeyCode::Char(*key), KeyModifiers::NONE));
                for line in screen(&mut view, width, height) {
                    prop_assert!(!line.chars().any(char::is_control), "{line:?}");
                }
            }
            screen(&mut view, width, height);
        }
    }
}
