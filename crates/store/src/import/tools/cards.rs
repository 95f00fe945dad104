//! Cards as gpustat and `nvidia-smi -q -d MEMORY` print them, again and again.

use super::super::numbers::{self, MIB};
use super::super::{Attempt, Hints, times};
use super::{Rounds, size, unit};
use lowtide_model::Metric;

const NO_GPUSTAT: &str = "no lines `[0] NAME | 45C, 99 % | 20000 / 81920 MB |`";
const NO_QUERY: &str = "no `FB Memory Usage` with `Used : 20000 MiB` under it";

/// `[0] NVIDIA A100-SXM4-80GB | 45C,  99 % | 20000 / 81920 MB | user(19500M)`: the name has a size, too.
pub(super) fn gpustat(text: &str, hints: &Hints) -> Attempt {
    let unit = unit(hints, MIB);
    let mut rounds = Rounds::default();
    for line in text.lines() {
        match card_of_gpustat(line) {
            Some((card, used, total)) => {
                rounds.add(&format!("GPU {card}"), used * unit.bytes, Some(total * unit.bytes));
            }
            None => rounds.other(line),
        }
    }
    if rounds.lines.is_empty() {
        return Err(NO_GPUSTAT.into());
    }
    Ok(rounds.curves(&Metric::Gpu, &format!("gpustat: memory in use of each card, taken as {}", unit.name)))
}

fn card_of_gpustat(line: &str) -> Option<(u32, f64, f64)> {
    let (card, rest) = line.trim_start().strip_prefix('[')?.split_once(']')?;
    let told = |cell: &str| {
        let (used, total) = cell.trim().strip_suffix("MB")?.split_once(" / ")?;
        Some((numbers::number(used)?, numbers::number(total)?))
    };
    let (used, total) = rest.split('|').skip(1).find_map(told)?;
    Some((card.trim().parse().ok()?, used, total))
}

/// The part of the text that `nvidia-smi -q` prints of the memory of a card's own.
const FRAME_BUFFER: &str = "FB Memory Usage";

/// `GPU 00000000:07:00.0`, `FB Memory Usage`, and under it `Total`, `Reserved`, `Used`, `Free`; what is mapped through BAR1
/// and what is protected is no more memory.
pub(super) fn query(text: &str, hints: &Hints) -> Attempt {
    if !text.contains(FRAME_BUFFER) {
        return Err(NO_QUERY.into());
    }
    let mut rounds = Rounds::default();
    let (mut card, mut within, mut total) = (String::new(), false, None);
    for line in text.lines() {
        let plain = line.trim();
        let Some((name, told)) = plain.split_once(" : ").map(|(name, told)| (name.trim(), told.trim()))
        else {
            within = if plain.is_empty() { within } else { plain == FRAME_BUFFER };
            if let Some(id) = plain.strip_prefix("GPU ") {
                (card, total) = (id.to_owned(), None);
            }
            continue;
        };
        match (name, size(told, hints)) {
            ("Total", Some(bytes)) if within => total = Some(bytes),
            ("Used", Some(bytes)) if within => rounds.add(&format!("GPU {card}"), bytes, total),
            _ if name == "Timestamp" => rounds.now = times::find(told).or(rounds.now),
            _ => {}
        }
    }
    if rounds.lines.is_empty() {
        return Err(NO_QUERY.into());
    }
    Ok(rounds.curves(&Metric::Gpu, "nvidia-smi -q: `Used` under `FB Memory Usage`, units from the cells"))
}
