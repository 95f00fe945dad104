//! The queries in docs/FORMAT.md run, and its tables name every column there is.

#![allow(clippy::unwrap_used, reason = "what cannot be set up should stop the test")]

mod made;

use lowtide_store::Writer;
use rusqlite::Connection;
use std::path::{Path, PathBuf};

fn docs() -> String {
    std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/FORMAT.md")).unwrap()
}

fn recording(folder: &Path) -> PathBuf {
    let path = folder.join("run.tide");
    let writer = Writer::create(&path, made::meta()).unwrap();
    made::push_all(&writer, &made::everything());
    writer.finish(made::finished()).unwrap()
}

fn blocks(docs: &str, language: &str) -> Vec<String> {
    let fence = format!("```{language}\n");
    docs.split(&fence).skip(1).filter_map(|rest| rest.split("```").next()).map(str::to_owned).collect()
}

#[test]
fn every_query_of_the_docs_gives_rows() {
    let folder = tempfile::tempdir().unwrap();
    let conn = Connection::open(recording(folder.path())).unwrap();
    let queries = blocks(&docs(), "sql");
    assert!(queries.len() >= 5);
    for query in queries {
        let mut statement = conn.prepare(&query).unwrap();
        let mut rows = statement.query([]).unwrap();
        assert!(rows.next().unwrap().is_some(), "no rows from {query}");
    }
}

#[test]
fn every_table_and_column_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let conn = Connection::open(recording(folder.path())).unwrap();
    let docs = docs();
    let sql =
        "SELECT m.name, c.name FROM sqlite_schema m, pragma_table_info(m.name) c WHERE m.type = 'table'";
    let mut statement = conn.prepare(sql).unwrap();
    let columns = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?))).unwrap();
    let mut count = 0;
    for (table, column) in columns.map(|found| found.unwrap()) {
        let (table, column): (String, String) = (table, column);
        assert!(docs.contains(&format!("`{table}`")), "table {table} is not told");
        let pressure = column.ends_with("_percent") || column.ends_with("total_us");
        assert!(
            pressure || docs.contains(&format!("`{column}`")) || table == "meta",
            "{table}.{column} is not told"
        );
        count += 1;
    }
    assert!(count > 90, "{count}");
    let mut keys = conn.prepare("SELECT key FROM meta").unwrap();
    for key in keys.query_map([], |row| row.get::<_, String>(0)).unwrap() {
        let key = key.unwrap();
        assert!(docs.contains(&format!("`{key}`")), "header field {key} is not told");
    }
}
