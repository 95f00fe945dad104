//! Several sizes under one name: `gpu mem: [20.0, 20.1] GB`, `GPU memory (GB): 20.0 20.1`, one for each card.

use super::super::numbers::{Found, Unit};

/// Where a number stands in a list.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    /// The number that has the name of all.
    pub(super) head: usize,
    pub(super) number: usize,
    /// The unit of all, if one stands anywhere among them.
    pub(super) unit: Option<Unit>,
}

/// The place of each number of a line that stands in a list.
pub(super) fn places(line: &str, found: &[Found<'_>]) -> Vec<Option<Place>> {
    let mut out = vec![None; found.len()];
    let mut head = 0;
    while head < found.len() {
        let end = end_of_list(line, found, head);
        if end > head + 1 {
            let unit =
                found[head..end].iter().find_map(|item| item.unit).or_else(|| unit_behind(&found[end - 1]));
            for (number, place) in out[head..end].iter_mut().enumerate() {
                *place = Some(Place { head, number, unit });
            }
        }
        head = end;
    }
    out
}

/// The number after the last of the list that begins here.
fn end_of_list(line: &str, found: &[Found<'_>], head: usize) -> usize {
    let before = line[..found[head].at].trim_end_matches(['"', '\'']);
    let bracket = before.ends_with('[');
    let colon = before.trim_end_matches(' ').ends_with([':', '=']);
    if found[head].key.is_empty() || found[head].percent || found[head].signed || !(bracket || colon) {
        return head + 1;
    }
    let goes_on = |pair: &[Found<'_>]| {
        let from = line.len() - pair[0].rest.len();
        let between = line.get(from..pair[1].at).unwrap_or("x").trim_start();
        let between =
            if pair[0].unit.is_some() { between.strip_prefix(pair[0].after).unwrap_or("x") } else { between };
        let parted =
            if bracket { between.trim_matches(['"', '\'', ' ']) == "," } else { between.trim().is_empty() };
        // Two numbers side by side are one number only where a blank parts them.
        parted && pair[1].key.is_empty() && !pair[1].percent && !pair[1].signed && pair[1].at > from
    };
    let more = found[head..].windows(2).take_while(|pair| goes_on(pair)).count();
    head + more + 1
}

/// The unit behind the bracket that closes a list: `[20.0, 20.1] GB`.
fn unit_behind(last: &Found<'_>) -> Option<Unit> {
    let rest = last.rest.trim_start().strip_prefix(']')?.trim_start();
    let end = rest.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(rest.len());
    super::super::numbers::unit(&rest[..end]).filter(|_| end > 1)
}
