use lowtide_model::{Axis, Bytes, Context, Curve, Metric};
use lowtide_verdict::{Group, Kind};
use serde_json::Value;

pub struct Case { pub id: String, pub cls: String, pub label: String, pub curve: Curve }

fn nums(v: &Value) -> Vec<f64> {
    v.as_array().map(|a| a.iter().map(|v| v.as_f64().unwrap_or(f64::NAN)).collect()).unwrap_or_default()
}
pub fn parse(text: &str) -> Case {
    let v: Value = serde_json::from_str(text).unwrap();
    let unit = match v["unit"].as_str().unwrap_or("MB") { "GB" => 1e9, "KB" => 1e3, "MiB" => 1048576.0, "GiB" => 1073741824.0, "KiB" => 1024.0, "B" => 1.0, _ => 1e6 };
    let c = &v["context"];
    let f = |k: &str| c[k].as_f64();
    let context = Context {
        examples: f("examples"), batch: f("batch"), accum: f("accum"), world_size: f("world_size"), epochs: f("epochs"),
        epoch_steps: f("epoch_steps"), epoch_seconds: f("epoch_seconds"), limit: f("limit_mb").map(|m| Bytes::from_f64(m * 1e6)), limit_from: None,
        threads: f("threads"), restarts: f("restarts"), validation_every: f("validation_every"), validation_x: nums(&c["validation_x"]), save_x: vec![],
    };
    let counts = ["tensor_count", "live_buffers", "objects"];
    let series = v["series"].as_object().map(|m| m.iter().map(|(k, s)| {
        let scale = if counts.contains(&k.as_str()) { 1.0 } else { unit };
        (k.clone(), nums(s).iter().map(|v| v * scale).collect())
    }).collect()).unwrap_or_default();
    let axis = match v["x_kind"].as_str() { Some("step") => Axis::Step, Some("seconds") => Axis::Seconds, Some("epoch") => Axis::Epoch, _ => Axis::Sample };
    let metric = match v["metric"].as_str() { Some("rss") => Metric::Rss, Some("maxrss") => Metric::MaxRss, Some("gpu") => Metric::Gpu, Some("anon") => Metric::Anon, Some("pss_tree") => Metric::PssTree, Some("cgroup") => Metric::Cgroup, Some(o) => Metric::Other(o.into()), None => Metric::Rss };
    let id = v["id"].as_str().unwrap_or("").to_owned();
    Case { cls: v["cls"].as_str().unwrap_or("real").to_owned(), label: v["label"].as_str().unwrap_or("").to_owned(), curve: Curve { name: id.clone(), axis, x: nums(&v["x"]), y: nums(&v["y"]).iter().map(|v| v * unit).collect(), metric, series, context, notes: vec![] }, id }
}
pub fn group_of(label: &str) -> Group {
    match label { "leak" => Group::Leak, "warmup" | "cache_fill" | "fragmentation" => Group::Bounded, "steady" | "spikes" => Group::Flat, _ => Group::TooEarly }
}
pub fn scored(kind: Kind) -> Group { if kind == Kind::PageCache { Group::Bounded } else { kind.group() } }

fn prefix(c: &Curve, share: f64) -> Curve {
    let keep = ((c.x.len() as f64 * share) as usize).max(3);
    let mut p = c.clone();
    p.x.truncate(keep); p.y.truncate(keep);
    for s in p.series.values_mut() { s.truncate(keep); }
    let end = p.x.last().copied().unwrap_or(0.0);
    p.context.validation_x.retain(|v| *v <= end);
    p
}

pub fn score(args: &[String]) -> Result<(), String> {
    let mut files = vec![]; let mut real = false; let mut verbose = String::new(); let mut online = false;
    let mut it = args.iter();
    while let Some(a) = it.next() {
        match a.as_str() {
            "--real" => { real = true; }
            "-v" => verbose = it.next().unwrap().clone(),
            "--online" => online = true,
            f => files.push(f.to_owned()),
        }
    }
    let mut cases = vec![];
    if real {
        let mut names: Vec<_> = std::fs::read_dir("/work/shared/corpus/real").unwrap().map(|e| e.unwrap().path()).collect(); names.sort();
        for n in names { cases.push(parse(&std::fs::read_to_string(n).unwrap())); }
    }
    for f in files { for l in std::fs::read_to_string(&f).map_err(|e| e.to_string())?.lines() { let mut c = parse(l); c.id = format!("{}:{}", f.rsplit('/').next().unwrap().trim_end_matches(".jsonl"), c.id); cases.push(c); } }
    let mut conf = std::collections::BTreeMap::<(String, Group), usize>::new();
    let (mut tp, mut fp, mut fneg, mut right) = (0, 0, 0, 0);
    for c in &cases {
        let v = lowtide_verdict::judge(&c.curve); let (kind, p, why) = (v.verdict, v.confidence, v.why.join(" | "));
        let (want, got) = (group_of(&c.label), scored(kind));
        *conf.entry((c.cls.clone(), got)).or_default() += 1;
        if want == got { right += 1; } 
        if want == Group::Leak && got == Group::Leak { tp += 1 } else if got == Group::Leak { fp += 1 } else if want == Group::Leak { fneg += 1 }
        let bad = want != got && (verbose == "all" || verbose == c.cls || verbose == format!("{want:?}->{got:?}"));
        if bad || verbose == c.id { println!("{} {} n={} want {want:?} got {kind:?} {p:.2} {why}", c.id, c.cls, c.curve.x.len()); }
    }
    let (pr, rc) = (tp as f64 / (tp + fp).max(1) as f64, tp as f64 / (tp + fneg).max(1) as f64);
    println!("n {} precision {pr:.3} recall {rc:.3} F1 {:.3} four {:.3}", cases.len(), 2.0 * pr * rc / (pr + rc), right as f64 / cases.len() as f64);
    let classes: std::collections::BTreeSet<_> = cases.iter().map(|c| c.cls.clone()).collect();
    for cl in classes { println!("{cl:15} leak {:4} bounded {:4} flat {:4} early {:4}", conf.get(&(cl.clone(), Group::Leak)).unwrap_or(&0), conf.get(&(cl.clone(), Group::Bounded)).unwrap_or(&0), conf.get(&(cl.clone(), Group::Flat)).unwrap_or(&0), conf.get(&(cl.clone(), Group::TooEarly)).unwrap_or(&0)); }
    if online {
        let (mut harmless, mut ever, mut leaks, mut found) = (0, 0, 0, 0); let mut delays = vec![];
        let mut who = std::collections::BTreeMap::<String, (usize, usize)>::new();
        for c in &cases {
            let g = group_of(&c.label);
            if g == Group::Bounded {
                harmless += 1;
                let at: Vec<usize> = (1..=10).filter(|k| lowtide_verdict::judge(&prefix(&c.curve, *k as f64 / 10.0)).verdict == Kind::Leak).collect();
                let e = who.entry(c.cls.clone()).or_default(); e.1 += 1;
                if !at.is_empty() { ever += 1; e.0 += 1; if verbose == "ever" { let v = lowtide_verdict::judge(&prefix(&c.curve, at[0] as f64 / 10.0)); let (k,p,why) = (v.verdict, v.confidence, v.why.join(" | ")); println!("{} {} n={} at {at:?} {k:?} {p:.2} {why}", c.id, c.cls, c.curve.x.len()); } }
            } else if g == Group::Leak {
                leaks += 1;
                let calls: Vec<bool> = (1..=10).map(|k| lowtide_verdict::judge(&prefix(&c.curve, k as f64 / 10.0)).verdict == Kind::Leak).collect();
                if calls[9] { found += 1; let first = calls.iter().position(|b| *b).unwrap(); delays.push((first + 1) as f64 / 10.0); }
            }
        }
        delays.sort_by(f64::total_cmp);
        println!("online: harmless {harmless} ever {:.3} leaks {leaks} recall {:.3} median first call at {:?} {who:?}", ever as f64 / harmless.max(1) as f64, found as f64 / leaks.max(1) as f64, delays.get(delays.len() / 2));
    }
    Ok(())
}
