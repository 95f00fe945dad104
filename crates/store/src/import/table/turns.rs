//! Rows of several cards that `nvidia-smi --query-gpu=memory.used` writes one after the other, with nothing that tells whose
//! they are but their order.

use super::super::numbers;
use super::{Table, measured};

/// Cards of one machine.
const MOST_CARDS: usize = 16;

/// Rows of each card that are needed to tell.
const FEWEST_ROUNDS: usize = 5;

/// How many times smoother the rows of each card are than all in a row, and than those of fewer cards.
const SMOOTHER: f64 = 5.0;

/// How many cards take turns in the rows of this column, if each then has a curve that is far smoother.
pub(super) fn cards(table: &Table, y: usize) -> Option<usize> {
    let name = table.names[y].to_ascii_lowercase();
    let of_cards = name.starts_with("memory.used") || name.is_empty() && holds_mebibytes(table, y);
    let values: Option<Vec<f64>> = table.rows.iter().map(|row| measured(&row[y])).collect();
    let values = values.filter(|_| of_cards)?;
    let may_be = 1..=MOST_CARDS.min(values.len() / FEWEST_ROUNDS);
    let rough: Vec<(usize, f64)> = may_be.map(|cards| (cards, roughness(&values, cards))).collect();
    let least = rough.iter().map(|(_, rough)| *rough).fold(f64::INFINITY, f64::min);
    // Twice as many cards are as smooth where nothing grows: the fewest that do.
    let (cards, rough) = rough.into_iter().find(|(_, rough)| *rough <= least * SMOOTHER)?;
    (cards > 1 && rough * SMOOTHER < roughness(&values, 1)).then_some(cards)
}

/// The rows of each card: a last round that is not whole is left out.
pub(super) fn whole_rounds(rows: usize, cards: usize) -> usize {
    rows / cards * cards
}

fn holds_mebibytes(table: &Table, y: usize) -> bool {
    let mebibytes = |cell: &str| cell.ends_with(" MiB") && numbers::size(cell).is_some();
    table.rows.iter().all(|row| mebibytes(&row[y]))
}

/// How far the values move from one round to the next, on average.
fn roughness(values: &[f64], cards: usize) -> f64 {
    let moved: f64 = values.iter().zip(values.iter().skip(cards)).map(|(a, b)| (b - a).abs()).sum();
    moved / (values.len() - cards) as f64
}

/// What has to be said of it.
pub(super) fn note(cards: usize) -> String {
    format!(
        "nothing tells whose the rows are; taken as {cards} cards in turn, because each then has a smooth curve: query index or \
         uuid as well to be sure"
    )
}
