//! Lists and exports of recordings.

mod made;

use lowtide_model::RunState;
use lowtide_store::{Writer, export, list};
use made::{everything, finished, key, meta};

#[test]
fn a_broken_file_is_listed_with_its_error_beside_the_good_ones() {
    let folder = tempfile::tempdir().unwrap();
    let writer = Writer::create(&folder.path().join("good.tide"), meta()).unwrap();
    made::push_all(&writer, &everything());
    writer.finish(finished()).unwrap();
    let live = Writer::create(&folder.path().join("live.tide"), meta()).unwrap();
    std::fs::write(folder.path().join("broken.tide"), "no database").unwrap();
    std::fs::write(folder.path().join("empty.tide"), "").unwrap();
    std::fs::write(folder.path().join("notes.txt"), "x").unwrap();

    let listed = list(folder.path()).unwrap();
    let told: Vec<_> = listed
        .iter()
        .map(|one| {
            (one.path.file_name().unwrap().to_str().unwrap(), one.run.as_ref().map(|run| run.state).ok())
        })
        .collect();
    assert_eq!(
        told,
        [
            ("good.tide", Some(RunState::Finished)),
            ("live.tide", Some(RunState::Running)),
            ("broken.tide", None),
            ("empty.tide", None),
        ]
    );
    let good = listed[0].run.as_ref().unwrap();
    assert_eq!(good.length.as_nanos(), 9);
    assert_eq!(good.meta.argv, ["python", "train.py"]);
    let error = listed[2].run.as_ref().unwrap_err().to_string();
    assert!(error.contains("is not a lowtide recording"), "{error}");
    drop(live);
}

#[test]
fn csv_has_a_field_a_column_and_nothing_for_the_unknown() {
    let mut recording = everything();
    recording.processes[0].comm = "a,\"b\"".into();
    let mut out = Vec::new();
    export::csv(&recording, &mut out).unwrap();
    let text = String::from_utf8(out).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), 1 + recording.samples.len());
    assert!(lines[1].contains(",\"a,\"\"b\"\"\","), "{}", lines[1]);
    let head: Vec<&str> = lines[0].split(',').collect();
    let row: Vec<&str> = lines[2].split(',').collect();
    assert_eq!(row.len(), head.len());
    let field = |name: &str| row[head.iter().position(|column| *column == name).unwrap()];
    assert_eq!(field("pid"), "11");
    assert_eq!(field("rss_max_bytes"), "74096");
    assert_eq!(field("anon_bytes"), "");
    assert_eq!(field("pss_bytes"), "1");
    assert_eq!(field("step"), "1");
}

#[test]
fn perfetto_is_json_with_counters_marks_and_names() {
    let mut out = Vec::new();
    export::perfetto(&everything(), &mut out).unwrap();
    let trace: serde_json::Value = serde_json::from_slice(&out).unwrap();
    let events = trace["traceEvents"].as_array().unwrap();
    let of = |phase: &str| events.iter().filter(|event| event["ph"] == phase).count();
    assert_eq!(of("C"), 3 + 3 + 1 + 2);
    assert_eq!(of("M"), 1 + 3);
    assert_eq!(of("n"), 3);
    assert_eq!(of("i"), 1);
    let memory = events.iter().find(|event| event["name"] == "memory").unwrap();
    assert_eq!(memory["pid"], key(10).pid);
    assert_eq!(memory["args"]["anon"], 2_500_000_000_u64);
}
