//! Reports of recordings that went through the real writer and the real engine.

#![allow(clippy::unwrap_used, reason = "tests")]

mod stage;

use lowtide_serve::{Page, charts_are_built, figure_svg, markdown, report_html};
use lowtide_verdict::Source;
use stage::{Stage, leak, steady};

fn page(run: &Stage) -> Page {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("x.tide");
    run.write(&file);
    let recording = lowtide_store::open(&file).unwrap().recording().unwrap();
    let verdict = lowtide_verdict::judge_recording(&recording);
    Page::new(&recording.meta.name, Source::Recording(&recording), &verdict)
}

/// Names of all elements of a page, in order; fails where the markup is not well formed enough to tell.
fn elements(html: &str) -> Vec<String> {
    // Script and style hold no markup: what stands between them is looked at.
    let mut rest = html;
    let mut names = Vec::new();
    while let Some(open) = rest.find('<') {
        rest = &rest[open + 1..];
        let name: String = rest.chars().take_while(char::is_ascii_alphanumeric).collect();
        if name.is_empty() {
            continue;
        }
        if name == "script" || name == "style" {
            let end = format!("</{name}>");
            rest = &rest[rest.find(&end).unwrap()..];
        }
        names.push(name);
    }
    names
}

#[test]
fn the_answer_stands_in_the_page_before_everything_else() {
    let html = report_html(&page(&Stage::default()));
    let main = &html[html.find("<main").unwrap()..];
    let answer = main.find("Cache fill: every example keeps").unwrap();
    let outcome = main.find("Fits: needs at most").unwrap();
    let curve = main.find("data-chart").unwrap();
    assert!(answer < outcome && outcome < curve);
    for part in
        ["Evidence", "What it is not", "To be sure", "By role", "By kind of memory", "Processes", "own cost"]
    {
        assert!(main.contains(part), "{part}");
    }
    assert!(main.contains("8 compile workers") || main.contains("compile worker"));
}

#[test]
fn a_report_asks_no_network_and_is_small() {
    let long = Stage { steps: 4000, level: steady, ..Stage::default() };
    let html = report_html(&page(&long));
    assert!(html.len() < 1_000_000, "{} bytes", html.len());
    let addresses: Vec<&str> =
        html.match_indices("http").map(|(at, _)| &html[at..(at + 30).min(html.len())]).collect();
    let foreign = addresses
        .iter()
        .filter(|a| !a.starts_with("http://www.w3.org/2000/svg") && !a.starts_with("http-equiv"));
    assert_eq!(foreign.count(), 0, "{addresses:?}");
    assert!(html.contains("default-src 'none'"));
}

#[test]
fn markup_in_names_and_arguments_stays_text() {
    let hostile = format!("{}{}", stage::HOSTILE, stage::HOSTILE_END);
    let argv = vec!["python".to_owned(), hostile.clone()];
    let run = Stage { name: hostile.clone(), id: hostile.clone(), argv, ..Stage::default() };
    let bad = report_html(&page(&run));
    let good = report_html(&page(&Stage::default()));
    assert!(!bad.contains("<img"), "an element was made of a name");
    assert_eq!(elements(&bad), elements(&good), "a name changed the page's own elements");
    assert!(!figure_svg(&page(&run)).contains("<img"));
}

#[test]
fn both_futures_are_drawn_while_it_is_undecided_and_none_after_a_death() {
    let early = figure_svg(&page(&Stage { steps: 70, ..Stage::default() }));
    assert!(early.contains("kind-leak") && early.contains("kind-cache-fill"), "{early}");
    let run =
        Stage { level: leak, steps: 300, limit_gib: 26, examples: None, killed: true, ..Stage::default() };
    let dead = figure_svg(&page(&run));
    assert!(!dead.contains("class=\"future"), "a dead job has no future");
}

#[test]
fn the_figure_is_whole_xml_with_floor_marks_and_limit() {
    let svg = figure_svg(&page(&Stage::default()));
    let mut reader = quick_xml::Reader::from_str(&svg);
    while reader.read_event().unwrap() != quick_xml::events::Event::Eof {}
    for part in [
        "class=\"floor\"",
        "class=\"eval\"",
        "class=\"save\"",
        "class=\"epoch\"",
        "class=\"limit\"",
        "growing",
        "settled",
    ] {
        assert!(svg.contains(part), "{part}");
    }
}

#[test]
fn a_bug_report_tells_versions_and_curve_but_no_folder_and_no_host() {
    let text = markdown(&page(&Stage::default()));
    assert!(text.starts_with("## Memory: cache fill"), "{text}");
    assert!(text.contains("torch 2.9.1") && text.contains("| step | lowest | highest | last |"), "{text}");
    assert!(text.contains("<path>/train.py") && text.contains("--data=<path>/receipts"), "{text}");
    for secret in ["/home", "ada", "/mnt", "gpu-07"] {
        assert!(!text.contains(secret), "{secret} in {text}");
    }
}

#[test]
fn what_grew_and_who_holds_it_stand_in_the_page_and_in_the_bug_report() {
    let run = page(&Stage { scanned: true, ..Stage::default() });
    let html = report_html(&run);
    assert!(html.contains("What grew, and who holds it"));
    assert!(html.contains("global train_set of module __main__"), "the holder is named");
    assert!(html.contains("64 of 64 objects looked at agree"));
    let text = markdown(&run);
    assert!(text.contains("| ImagingCore | 600 | 11.9 GiB | +7.14 GiB |"), "{text}");
    assert!(text.contains("Held by `ImagingCore <- Image._im <- dict['image'] <- list of 663"), "{text}");
    assert!(!report_html(&page(&Stage::default())).contains("who holds it"), "not scanned, not told");
}

#[test]
fn a_page_without_samples_is_still_a_page() {
    let recording = lowtide_model::Recording::default();
    let verdict = lowtide_verdict::judge_recording(&recording);
    let page = Page::new("nothing", Source::Recording(&recording), &verdict);
    assert!(report_html(&page).contains("Nothing to draw"));
    assert!(markdown(&page).contains("lowtide"));
}

#[test]
fn without_node_the_page_says_that_its_charts_stand_still() {
    let html = report_html(&page(&Stage::default()));
    assert_eq!(html.contains("charts stand still"), !charts_are_built());
    assert_eq!(html.contains("lowtide-page"), charts_are_built());
    assert!(html.contains("<svg class=\"figure\""), "the still picture is always there");
}
