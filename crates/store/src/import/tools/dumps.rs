//! Files of the kernel and tables of the NVIDIA driver, printed again and again: /proc/meminfo, `nvidia-smi dmon` and `pmon`.

use super::super::numbers::{self, KIB, MIB};
use super::super::{Attempt, Hints, Missing, times};
use super::{Rounds, unit};
use lowtide_model::Metric;
use std::collections::BTreeMap;

const NO_MEMINFO: &str = "no lines `MemTotal: ... kB` with `MemAvailable` or `MemFree` under them";
const NO_DMON: &str = "no heading `# gpu ... fb` with MB under `fb`";
const BUSY: &str =
    "`mem` is how busy the memory of a card is, in per cent; `nvidia-smi dmon -s m` tells how much is in use";

/// Whole /proc/meminfo, one after the other, with times between them or without.
pub(super) fn meminfo(text: &str, hints: &Hints) -> Attempt {
    let unit = unit(hints, KIB);
    let line = |line: &'_ str| {
        let (name, rest) = line.split_once(':')?;
        let kilobytes = rest.trim().strip_suffix("kB")?;
        Some((name.trim().to_owned(), numbers::number(kilobytes)? * unit.bytes))
    };
    let mut rounds = Rounds::default();
    let mut dump: BTreeMap<String, f64> = BTreeMap::new();
    let available = text.contains("MemAvailable");
    for text in text.lines() {
        match line(text) {
            Some((name, bytes)) => {
                if name == "MemTotal" {
                    end(&mut rounds, &mut dump);
                }
                dump.insert(name, bytes);
            }
            None if dump.is_empty() => rounds.other(text),
            None if times::find(text).or_else(|| times::epoch(text)).is_some() => {
                end(&mut rounds, &mut dump);
                rounds.other(text);
            }
            None => {}
        }
    }
    end(&mut rounds, &mut dump);
    if rounds.lines.is_empty() {
        return Err(NO_MEMINFO.into());
    }
    let free = if available { "MemAvailable" } else { "MemFree, Buffers and Cached" };
    let note = format!("the whole machine: MemTotal minus {free}, numbers taken as {}", unit.name);
    Ok(rounds.curves(&Metric::Host, &note))
}

/// Takes down what a dump says, if it is one; before Linux 3.14 none told what is available.
fn end(rounds: &mut Rounds, dump: &mut BTreeMap<String, f64>) {
    let of = |name: &str| dump.get(name).copied();
    let free = || Some(of("MemFree")? + of("Buffers").unwrap_or(0.0) + of("Cached")?);
    if let Some((total, available)) = of("MemTotal").zip(of("MemAvailable").or_else(free)) {
        rounds.add("", total - available, Some(total));
    }
    dump.clear();
}

/// `# gpu  pid  type  fb ...`, under it `# Idx  #  C/G  MB ...`, and rows: memory of each card, or of each process on it.
pub(super) fn dmon(text: &str, hints: &Hints) -> Attempt {
    let words = |line: &str| -> Vec<String> {
        line.trim_start().trim_start_matches('#').split_whitespace().map(str::to_owned).collect()
    };
    let is_head = |line: &&str| line.trim_start().starts_with('#');
    let heads: Vec<Vec<String>> = text.lines().filter(is_head).take(2).map(words).collect();
    let [names, units] = heads.as_slice() else { return Err(NO_DMON.into()) };
    let at = |name: &str| names.iter().position(|word| word.eq_ignore_ascii_case(name));
    let is_in = |name: &str, unit: &str| at(name).and_then(|at| units.get(at)).is_some_and(|own| own == unit);
    if is_in("gpu", "Idx") && is_in("mem", "%") && !is_in("fb", "MB") {
        return Err(Missing::Wanted(BUSY.to_owned()));
    }
    let Some((gpu, fb)) = at("gpu").zip(at("fb")).filter(|_| is_in("fb", "MB")) else {
        return Err(NO_DMON.into());
    };
    let unit = unit(hints, MIB);
    let mut rounds = Rounds::default();
    for line in text.lines().filter(|line| !is_head(line)) {
        let cells: Vec<&str> = line.split_whitespace().collect();
        let cell = |at: usize| cells.get(at).and_then(|cell| numbers::number(cell));
        if let Some((card, size)) = cell(gpu).zip(cell(fb)) {
            let pid = at("pid").and_then(|pid| cells.get(pid)).map(|pid| format!(", pid {pid}"));
            rounds.now = times::find(line).or(rounds.now);
            rounds.add(&format!("GPU {card}{}", pid.unwrap_or_default()), size * unit.bytes, None);
        }
    }
    if rounds.lines.is_empty() {
        return Err(NO_DMON.into());
    }
    Ok(rounds.curves(&Metric::Gpu, &format!("nvidia-smi: `fb`, taken as {}", unit.name)))
}
