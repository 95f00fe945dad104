//! Curves that others wrote, one real or realistic file a form.

#![allow(clippy::unwrap_used, reason = "what cannot be set up should stop the test")]
#![allow(clippy::float_cmp, reason = "numbers that were written are read, not computed")]

use lowtide_model::{Axis, Bytes, Curve, Metric};
use lowtide_store::import::{Hints, ImportError, parse, read};
use proptest::prelude::*;
use std::fmt::Write;
use std::path::{Path, PathBuf};

const GIB: f64 = 1_073_741_824.0;
const MIB: f64 = 1_048_576.0;

fn file(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/curves").join(name)
}

fn curves(name: &str) -> Vec<Curve> {
    read(&file(name), &Hints::default()).unwrap()
}

fn notes(curve: &Curve) -> String {
    curve.notes.join("\n")
}

fn of_text(text: &str) -> Vec<Curve> {
    parse(Path::new("x.txt"), text.as_bytes(), &Hints::default()).unwrap()
}

#[test]
fn the_case_is_two_runs_with_steps_and_decimal_megabytes() {
    let runs = curves("case-log.txt");
    assert_eq!(runs.len(), 2);
    let (first, second) = (&runs[0], &runs[1]);
    assert_eq!(first.name, "case-log: Run 1 (Process 177381)");
    assert_eq!(first.x, [10.0, 20.0, 30.0, 40.0, 50.0, 60.0, 70.0]);
    assert_eq!(first.y[0], 5_552e6);
    assert_eq!(second.name, "case-log: Run 2 (Process 179532)");
    assert_eq!(second.axis, Axis::Step);
    assert_eq!(second.x.len(), 24);
    assert_eq!((second.y[0], second.y[8], second.y[23]), (5_434e6, 17_658e6, 17_032e6));
    let tensors = &second.series["tensor_count"];
    assert_eq!((tensors[7], tensors[8]), (6529.0, 7070.0), "the count changes between 80 and 90");
    assert!(notes(second).contains("MB = 10^6 bytes"), "{}", notes(second));
}

#[test]
fn the_whole_case_document_gives_the_same_runs_in_spite_of_its_prose() {
    let list =
        "- Model: 3 GB\n- Adapters: 500 MB\n- Gradients: 500 MB\n- Activations: 4 GB\n- Images: 600 MB\n"
            .repeat(8);
    let prose = "## Analysis\n- **Memory Growth**: ~160-180 MB per 10 steps\n- **Total Growth**: ~5.5 GB → ~17.7 GB\n\
                 Looking at the logs, Run 1 was stopped at Step 70 (15.7 GB) before the plateau.\n";
    let text = std::fs::read_to_string(file("case-log.txt")).unwrap() + prose + &list;
    let runs = of_text(&text);
    assert_eq!(runs.iter().map(|run| run.x.len()).collect::<Vec<_>>(), [7, 24]);
}

#[test]
fn sizes_in_prose_are_no_curve_but_a_plain_loop_is() {
    let prose = "The model needs 3 GB.\nIt grew to 17.7 GB in the end.\nWith 2,000 examples we expect 46 GB or more.\n";
    let error = parse(Path::new("x"), prose.as_bytes(), &Hints::default()).unwrap_err().to_string();
    assert!(error.contains("neither step nor time nor a common form"), "{error}");
    let found = of_text("RSS: 5.1 GB\nloading 3 GB of weights\nRSS: 5.2 GB\nRSS: 5.3 GB\n");
    assert_eq!((found[0].axis, found[0].y.as_slice()), (Axis::Sample, &[5.1e9, 5.2e9, 5.3e9][..]));
}

#[test]
fn the_asked_unit_overrules_the_text() {
    let hints = Hints { unit: Some("MiB".into()), ..Hints::default() };
    let runs = read(&file("case-log.txt"), &hints).unwrap();
    assert_eq!(runs[0].y[0], 5_552.0 * MIB);
    assert!(notes(&runs[0]).contains("as asked"));
    let wrong = Hints { unit: Some("bananas".into()), ..Hints::default() };
    assert!(matches!(read(&file("case-log.txt"), &wrong), Err(ImportError::Unit { .. })));
}

#[test]
fn a_trainers_dictionaries_give_the_epoch_and_the_rss() {
    let found = curves("hf-trainer.txt");
    assert_eq!(found.len(), 2, "GPU memory is a curve of its own");
    assert_eq!(found[0].axis, Axis::Epoch);
    assert_eq!(found[0].x, [0.12, 0.24, 0.36, 0.48]);
    assert_eq!(found[0].y[0], 5.61e9);
    assert_eq!(found[0].series["memory/gpu_allocated_gb"][3], 20.2e9);
    let hints = Hints { y: Some("memory/gpu_allocated_gb".into()), ..Hints::default() };
    assert_eq!(read(&file("hf-trainer.txt"), &hints).unwrap()[0].metric, Metric::Gpu);
}

#[test]
fn a_progress_bar_tells_its_step() {
    let found = curves("tqdm.txt");
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].axis, Axis::Step);
    assert_eq!(found[0].x, [10.0, 20.0, 30.0]);
    assert_eq!(found[0].y, [5_552e6, 7_159e6, 8_851e6]);
}

#[test]
fn times_of_day_become_seconds() {
    let found = curves("clock.txt");
    assert_eq!(found[0].axis, Axis::Seconds);
    assert_eq!(found[0].x, [0.0, 30.0, 60.0, 90.0]);
    assert_eq!(found[0].y[2], 9.8e9);
}

#[test]
fn a_log_whose_step_falls_back_is_two_runs() {
    let found = of_text(
        "step 1 rss 5 GB\nstep 2 rss 6 GB\nstep 3 rss 7 GB\nstep 1 rss 5 GB\nstep 2 rss 6 GB\nstep 3 rss 6 GB\n",
    );
    assert_eq!(found.iter().map(|run| run.name.as_str()).collect::<Vec<_>>(), ["x: run 1", "x: run 2"]);
}

#[test]
fn wandb_gives_a_curve_a_run_in_binary_megabytes() {
    let found = curves("wandb.csv");
    assert_eq!(found.len(), 2);
    assert_eq!(found[0].axis, Axis::Seconds);
    assert_eq!(found[0].y[0], 5120.5 * MIB);
    assert_eq!(found[1].x, [30.4, 45.6, 60.8]);
    assert!(found[1].name.contains("wry-owl-8"), "{}", found[1].name);
    assert!(notes(&found[0]).contains("as W&B counts"));
}

#[test]
fn a_table_says_which_columns_it_took() {
    let found = curves("table.csv");
    assert_eq!(found[0].axis, Axis::Step);
    assert_eq!(found[0].y, [5_552e6, 7_159e6, 8_851e6]);
    assert_eq!(found[0].series["tensor_count"], [6529.0, 6529.0, 7070.0]);
    assert!(
        notes(&found[0]).contains("y is `rss_mb`") && notes(&found[0]).contains("x is `step`"),
        "{}",
        notes(&found[0])
    );
    let hints = Hints { x: Some("timestamp".into()), y: Some("vms_mb".into()), unit: Some("KiB".into()) };
    let asked = &read(&file("table.csv"), &hints).unwrap()[0];
    assert_eq!((asked.axis, asked.x[2], asked.y[0]), (Axis::Seconds, 60.0, 20_000.0 * 1024.0));
    let missing = Hints { y: Some("nothing".into()), ..Hints::default() };
    let error = read(&file("table.csv"), &missing).unwrap_err().to_string();
    assert!(error.contains("no column `nothing` among: timestamp, step"), "{error}");
}

#[test]
fn a_table_may_have_units_in_its_cells_or_no_names_at_all() {
    let found = curves("table.tsv");
    assert_eq!((found[0].x[1], found[0].y[1]), (1.0, 1.6 * GIB));
    let bare = of_text("0 5000\n1 5100\n2 5200\n");
    assert_eq!((bare[0].x[2], bare[0].y[2]), (2.0, 5.2e9));
    assert!(notes(&bare[0]).contains("by its size"), "{}", notes(&bare[0]));
    let ps = of_text("5421875\n5421876\n5421879\n");
    assert_eq!(ps[0].y[0], 5_421_875.0 * 1024.0);
}

#[test]
fn our_own_csv_comes_back_a_curve_a_process() {
    let found = of_text(
        "t_s,pid,comm,rss_bytes,anon_bytes\n1,10,a,100,50\n1,11,b,200,60\n2,10,a,110,\n2,11,b,210,70\n",
    );
    assert_eq!(found.len(), 2);
    assert_eq!(found[1].name, "x: pid 11");
    assert_eq!(found[1].y, [200.0, 210.0]);
    assert_eq!(found[1].series["anon"], [60.0, 70.0]);
    assert!(found[0].series["anon"][1].is_nan(), "an empty cell is unknown, not zero");
}

#[test]
fn ps_in_a_loop_gives_a_curve_a_process_in_kib() {
    let found = curves("ps-loop.txt");
    assert_eq!(
        found.iter().map(|curve| curve.name.as_str()).collect::<Vec<_>>(),
        ["ps-loop: pid 4711", "ps-loop: pid 4712"]
    );
    assert_eq!(found[0].axis, Axis::Seconds);
    assert_eq!(found[0].x, [0.0, 10.0, 20.0]);
    assert_eq!(found[0].y[0], 5_421_875.0 * 1024.0);
}

#[test]
fn free_in_a_loop_gives_the_machine_and_its_limit() {
    let found = curves("free-loop.txt");
    assert_eq!(found[0].metric, Metric::Host);
    assert_eq!(found[0].y, [13_536_000.0 * 1024.0, 15_536_000.0 * 1024.0]);
    assert_eq!(found[0].context.limit, Some(Bytes(65_536_000 * 1024)));
}

#[test]
fn free_for_people_is_read_in_its_finest_column() {
    let free = &curves("free-human.txt")[0];
    assert_eq!(free.metric, Metric::Host);
    assert_eq!(free.y[0], 5.9 * GIB, "the tenths of `used`, not whole gigabytes: {:?}", free.y);
}

#[test]
fn ps_aux_without_its_heading_is_known_by_its_columns() {
    let ps = &curves("ps-aux-no-heading.txt")[0];
    assert_eq!((ps.x.len(), ps.metric.clone()), (20, Metric::Rss));
    assert!(
        ps.name.ends_with("pid 4711") && (ps.y[0] - 4000e3 * 1024.0).abs() < 3e7,
        "{} {}",
        ps.name,
        ps.y[0]
    );
}

#[test]
fn a_date_before_each_number_gives_seconds() {
    let rss = &curves("date-and-rss.txt")[0];
    assert_eq!((rss.axis, rss.x[1], rss.x.len()), (Axis::Seconds, 10.0, 20));
    assert!(notes(rss).contains("KiB = 2^10 bytes"), "{}", notes(rss));
    let epochs = of_text("1700000000\n4000000\n1700000005\n4000100\n1700000010\n4000200\n");
    assert_eq!((epochs[0].axis, epochs[0].x.clone()), (Axis::Seconds, vec![0.0, 5.0, 10.0]));
}

#[test]
fn sar_and_pidstat_have_their_times_and_their_column() {
    let sar = &curves("sar.txt")[0];
    assert_eq!((sar.axis, sar.metric.clone(), sar.x[1]), (Axis::Seconds, Metric::Host, 1.0));
    assert!((sar.y[0] - 4000e3 * 1024.0).abs() < 3e7, "used, not free: {}", sar.y[0]);
    let pidstat = &curves("pidstat.txt")[0];
    assert_eq!((pidstat.axis, pidstat.x[1], pidstat.metric.clone()), (Axis::Seconds, 1.0, Metric::Rss));
}

#[test]
fn a_date_in_a_line_is_no_size_of_a_container() {
    let docker = &curves("docker-format.txt")[0];
    assert_eq!((docker.axis, docker.x[1]), (Axis::Seconds, 10.0));
    assert!((3.8 * GIB..4.2 * GIB).contains(&docker.y[0]), "{}", docker.y[0]);
}

#[test]
fn kilobytes_of_the_kernel_are_binary() {
    let vm = &curves("vmrss.txt")[0];
    assert!(notes(vm).contains("KiB = 2^10 bytes"), "{}", notes(vm));
}

#[test]
fn nvidia_smi_is_gpu_memory() {
    let card = &curves("nvidia-smi.csv")[0];
    assert_eq!((card.metric.clone(), card.axis), (Metric::Gpu, Axis::Seconds));
    assert!((card.y[0] - 4000.0 * MIB).abs() < 30.0 * MIB, "{}", card.y[0]);
}

#[test]
fn nine_hundred_curves_in_one_file_are_nine_hundred_curves() {
    let one = |n: u32| format!(r#"{{"id":"c{n}","x":[0,1,2],"y":[{n},{n},{n}],"unit":"MB"}}"#);
    let text: Vec<String> = (0..900).map(one).collect();
    let found = parse(Path::new("many.jsonl"), text.join("\n").as_bytes(), &Hints::default()).unwrap();
    assert_eq!(found.len(), 900);
    assert_eq!(
        (found[0].name.as_str(), found[899].name.as_str()),
        ("many: c0", "many: c899"),
        "in their order"
    );
}

#[test]
fn docker_stats_gives_a_curve_a_container_and_its_limit() {
    let found = curves("docker-stats.txt");
    assert_eq!(found.len(), 2);
    let trainer = found.iter().find(|curve| curve.name.ends_with("trainer")).unwrap();
    assert_eq!(trainer.metric, Metric::Cgroup);
    assert_eq!(trainer.y, [5.25 * GIB, 6.5 * GIB]);
    assert_eq!(trainer.context.limit, Some(Bytes::from_f64(31.25 * GIB)));
}

#[test]
fn files_of_real_mprof_and_psrecord_runs_are_read() {
    let mprof = &curves("mprof.dat")[0];
    assert_eq!((mprof.axis, mprof.x[0]), (Axis::Seconds, 0.0));
    assert!((mprof.y[0] - 4.582_031 * MIB).abs() < 1.0);
    assert!(mprof.y.last() > mprof.y.first());
    let psrecord = &curves("psrecord.txt")[0];
    assert_eq!(psrecord.y[0], 1.594 * MIB);
    assert_eq!(psrecord.x[1], 0.2);
}

#[test]
fn tensorboard_scalars_named_after_memory_are_read() {
    let found = curves("tensorboard.events");
    assert_eq!(found.iter().map(|curve| &curve.metric).collect::<Vec<_>>(), [&Metric::Rss, &Metric::Gpu]);
    assert_eq!(found[0].axis, Axis::Step);
    assert_eq!(found[0].x, [10.0, 20.0, 30.0, 40.0, 50.0]);
    assert!((found[0].y[0] - 6_607e6).abs() < 1e3, "{}", found[0].y[0]);
    let bytes = std::fs::read(file("tensorboard.events")).unwrap();
    let half = parse(Path::new("x"), &bytes[..bytes.len() - 20], &Hints::default()).unwrap();
    assert_eq!(half[0].x.len(), 5, "a file still being written gives what is whole");
    let loss = Hints { y: Some("train/loss".into()), ..Hints::default() };
    assert_eq!(read(&file("tensorboard.events"), &loss).unwrap().len(), 1);
}

#[test]
fn prometheus_series_have_their_meaning_unit_and_limit() {
    let found = curves("prometheus.json");
    assert_eq!(found.len(), 2);
    assert_eq!(found[0].name, "prometheus: container_memory_working_set_bytes train-0 trainer");
    assert_eq!((found[0].x[2], found[0].y[2]), (60.0, 8_851e6));
    assert_eq!(found[0].context.limit, Some(Bytes(32 << 30)));
    assert_eq!((&found[1].metric, found[1].y[0]), (&Metric::Gpu, 20.0 * GIB));
}

#[test]
fn the_curve_format_is_read_without_its_answers() {
    let text = r#"{"id": "a", "unit": "GiB", "metric": "gpu", "x_kind": "step", "x": [1, 2, 3], "y": [1, null, 2],
        "series": {"tensor_count": [1, 2, 3], "heap_used": [1, 1, 1], "short": [1]},
        "context": {"examples": 663, "batch": 2, "accum": 4, "limit_mb": 1024, "validation_x": [2]},
        "label": "leak", "label_why": "because", "truth": "leak"}"#;
    let found = &of_text(text)[0];
    assert_eq!((&found.metric, found.axis), (&Metric::Gpu, Axis::Step));
    assert_eq!((found.y[0], found.y[1].is_nan()), (GIB, true));
    assert_eq!((found.series["tensor_count"][2], found.series["heap_used"][0]), (3.0, GIB));
    assert!(!found.series.contains_key("short"));
    assert_eq!(found.context.limit, Some(Bytes(1 << 30)));
    assert_eq!(found.context.examples_per_step(), Some(8.0));
    assert!(!format!("{found:?}").contains("leak"));
    let lines =
        format!("{}\n{}\n", r#"{"y": [1, 2], "unit": "KB"}"#, r#"{"x": [0], "y": [5], "unit": "MB"}"#);
    assert_eq!(of_text(&lines).iter().map(|curve| curve.y[0]).collect::<Vec<_>>(), [1e3, 5e6]);
}

#[test]
fn a_file_without_a_curve_says_what_was_tried() {
    let error =
        parse(Path::new("a.txt"), b"nothing here\nat all", &Hints::default()).unwrap_err().to_string();
    for form in ["a.txt", "TensorBoard", "mprof", "a table", "a training log: no line with a size of memory"]
    {
        assert!(error.contains(form), "{form} in {error}");
    }
    let packed = parse(Path::new("log.gz"), &[0x1F, 0x8B, 8, 0], &Hints::default()).unwrap_err();
    assert_eq!(packed.to_string(), "log.gz is packed by gzip, not a text or event file");
    let folder = tempfile::tempdir().unwrap();
    assert!(matches!(read(folder.path(), &Hints::default()), Err(ImportError::Folder { .. })));
    assert!(matches!(read(Path::new("/not/there"), &Hints::default()), Err(ImportError::Io { .. })));
}

#[test]
fn a_file_beyond_the_bound_is_refused_unread() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("huge.csv");
    std::fs::File::create(&path).unwrap().set_len((1 << 30) + 1).unwrap();
    assert!(matches!(read(&path, &Hints::default()), Err(ImportError::TooLarge { .. })));
}

#[test]
fn a_million_lines_are_thinned_with_their_peak_kept() {
    let mut text = String::from("step,rss_mb\n");
    for step in 0..1_000_000 {
        let rss = if step == 654_321 { 9000 } else { 5000 };
        writeln!(text, "{step},{rss}").unwrap();
    }
    let found = &of_text(&text)[0];
    assert!(found.y.len() <= 200_000);
    let peak = found.y.iter().position(|y| *y == 9e9).unwrap();
    assert_eq!(found.x[peak], 654_321.0);
}

/// Pieces of the real files, cut and glued at random: what a parser meets after a crash or a bad copy.
fn pieces() -> impl Strategy<Value = Vec<u8>> {
    let all: Vec<Vec<u8>> =
        std::fs::read_dir(file("")).unwrap().map(|e| std::fs::read(e.unwrap().path()).unwrap()).collect();
    let piece = (0..all.len(), any::<prop::sample::Index>(), any::<prop::sample::Index>(), any::<u8>());
    prop::collection::vec(piece, 1..4).prop_map(move |parts| {
        let mut out = Vec::new();
        for (file, from, to, noise) in parts {
            let bytes = &all[file];
            let (a, b) = (from.index(bytes.len()), to.index(bytes.len()));
            out.extend_from_slice(&bytes[a.min(b)..a.max(b)]);
            out.push(noise);
        }
        out
    })
}

fn whole(curves: &[Curve]) -> bool {
    curves.iter().all(|curve| {
        curve.x.len() == curve.y.len() && curve.series.values().all(|s| s.len() == curve.y.len())
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn no_bytes_panic(bytes: Vec<u8>, hint in "[a-z0-9]{0,4}") {
        let _ = parse(Path::new("x"), &bytes, &Hints { y: Some(hint.clone()), x: Some(hint), unit: None });
        if let Ok(curves) = parse(Path::new("x"), &bytes, &Hints::default()) {
            prop_assert!(whole(&curves));
        }
    }

    #[test]
    fn no_text_panics(text in "(.|[0-9:%|/,.\n\t\"']|Mem:|RSS|PID|Step|MB|GiB){0,200}") {
        if let Ok(curves) = parse(Path::new("x"), text.as_bytes(), &Hints::default()) {
            prop_assert!(whole(&curves));
        }
    }

    #[test]
    fn torn_and_glued_files_give_whole_curves_or_an_error(bytes in pieces()) {
        if let Ok(curves) = parse(Path::new("x"), &bytes, &Hints::default()) {
            prop_assert!(whole(&curves));
        }
    }
}
