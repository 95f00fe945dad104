//! Rows of several cards that `nvidia-smi --query-gpu=memory.used` writes one after the other, with nothing that tells whose
//! they are but their order.

use super::super::numbers;
use super::{Table, measured};

/// Cards of one machine.
const MOST_CARDS: usize = 16;

/// Rows of each card that are needed to tell.
const FEWEST_ROUNDS: usize = 5;

/// How many times smoother the rows of each card are than all in a row.
const SMOOTHER: f64 = 5.0;

/// How many cards take turns in the rows of this column, if each then has a curve that is far smoother.
pub(super) fn cards(table: &Table, y: usize) -> Option<usize> {
    let name = table.names[y].to_ascii_lowercase();
    let of_cards = name.starts_with("memory.used") || name.is_empty() && holds_mebibytes(table, y);
    let values: Option<Vec<f64>> = table.rows.iter().map(|row| measured(&row[y])).collect();
    let values = values.filter(|_| of_cards)?;
    let whole = roughness(&values, 1);
    let smooth = |cards: &usize| {
        values.len() >= cards * FEWEST_ROUNDS
            && values.len() % cards == 0
            && roughness(&values, *cards) * SMOOTHER < whole
    };
    (2..=MOST_CARDS).find(smooth)
}

fn holds_mebibytes(table: &Table, y: usize) -> bool {
    let mebibytes = |cell: &str| cell.ends_with(" MiB") && numbers::size(cell).is_some();
    table.rows.iter().all(|row| mebibytes(&row[y]))
}

/// How far the values move from one round to the next.
fn roughness(values: &[f64], cards: usize) -> f64 {
    values.iter().zip(values.iter().skip(cards)).map(|(a, b)| (b - a).abs()).sum()
}

/// What has to be said of it.
pub(super) fn note(cards: usize) -> String {
    format!(
        "nothing tells whose the rows are; taken as {cards} cards in turn, because each then has a smooth curve: query index or \
         uuid as well to be sure"
    )
}
