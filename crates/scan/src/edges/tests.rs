//! Lists are read as they were written, and what leads nowhere goes.

use super::*;
use proptest::prelude::*;
use std::collections::BTreeMap;

fn part(id: u32) -> Part {
    [Part::Pools, Part::Late, Part::Objects, Part::Natives][id as usize % 4]
}

fn below(graph: &Graph, id: u32, cursors: &mut Cursors) -> Vec<u32> {
    let mut found = Vec::new();
    let what = if matches!(part(id), Part::Pools | Part::Late | Part::Objects) {
        What::Object
    } else {
        What::Native
    };
    graph.below((id, what), (Words::All, |_| false), cursors, |target| found.push(target));
    found
}

#[test]
fn a_native_block_leads_to_objects_and_insides_only_where_all_words_count() {
    const OBJECT: u32 = 900;
    let mut edges = Edges::new(u64::MAX);
    edges.grow(1000);
    edges.begin(0..1000);
    let mut natives = Natives::new(u64::MAX);
    for (target, place) in [(501, natives::Place::Begin), (502, natives::Place::Inside)] {
        natives.push(500, target, place);
    }
    edges.push(Part::Natives, 500, OBJECT);
    edges.end(Part::Natives, 500);
    for target in [501, OBJECT] {
        edges.push(Part::Pools, 600, target);
    }
    edges.end(Part::Pools, 600);
    edges.keep(Part::Pools, u32::MAX);
    natives.end(500);
    let graph = edges.finish(natives);
    let below = |id, what, words| {
        let mut found = Vec::new();
        let is_object = |id| id == OBJECT;
        graph.below((id, what), (words, is_object), &mut Cursors::default(), |target| found.push(target));
        found
    };
    assert_eq!(below(500, What::Native, Words::Begins), [501]);
    assert_eq!(below(500, What::Native, Words::All), [501, OBJECT, 502]);
    assert_eq!(below(500, What::Table, Words::Begins), [501, OBJECT, 502]);
    assert_eq!(below(600, What::Native, Words::Begins), [501]);
    assert_eq!(below(600, What::Object, Words::Begins), [501, OBJECT]);
}

fn graph(lists: &BTreeMap<u32, Vec<u32>>) -> Graph {
    let mut edges = Edges::new(u64::MAX);
    edges.grow(1 << 20);
    edges.begin(0..1 << 20);
    for now in [Part::Pools, Part::Late, Part::Objects, Part::Natives] {
        for (id, targets) in lists.iter().filter(|(id, _)| part(**id) == now) {
            targets.iter().for_each(|target| edges.push(now, *id, *target));
            edges.end(now, *id);
        }
        edges.keep(now, u32::MAX);
    }
    edges.finish(Natives::new(u64::MAX))
}

proptest! {
    #[test]
    fn what_was_written_is_read_in_any_order(
        lists in proptest::collection::btree_map(0_u32..1 << 20, proptest::collection::vec(any::<u32>(), 1..200), 1..200),
        asked in proptest::collection::vec(0_u32..1 << 20, 0..50),
    ) {
        let lists: BTreeMap<u32, Vec<u32>> = lists.into_iter().map(|(id, mut list)| { list.dedup(); (id, list) }).collect();
        let graph = graph(&lists);
        prop_assert_eq!(graph.len(), lists.len());
        let mut all = Vec::new();
        graph.each_object(|id, below| all.push((id, below)));
        let of = |wanted: Part| lists.iter().filter(move |(id, _)| part(**id) == wanted);
        let objects = [Part::Pools, Part::Late, Part::Objects].into_iter().flat_map(of);
        let wanted: Vec<(u32, u32)> = objects.flat_map(|(id, list)| list.iter().map(|below| (*id, *below))).collect();
        prop_assert_eq!(all, wanted);
        let mut cursors = Cursors::default();
        for (id, list) in &lists {
            prop_assert_eq!(&below(&graph, *id, &mut cursors), list);
            prop_assert!(graph.lists.number(*id).is_some());
        }
        for id in asked.iter().chain(lists.keys().rev()) {
            let list = lists.get(id).cloned().unwrap_or_default();
            prop_assert_eq!(below(&graph, *id, &mut cursors), list);
        }
    }
}

#[test]
fn a_long_list_and_many_short_ones_take_little() {
    let lists: BTreeMap<u32, Vec<u32>> = (0..100_000)
        .map(|id| (id * 3, vec![500_000 + id]))
        .chain([(400_000, (0..300_000).collect())])
        .collect();
    let graph = graph(&lists);
    let mut cursors = Cursors::default();
    assert_eq!(below(&graph, 400_000, &mut cursors).len(), 300_000);
    assert_eq!(below(&graph, 150_000, &mut cursors), [550_000]);
    assert!(graph.own_bytes() < 6 << 20, "{}", graph.own_bytes());
}

#[test]
fn what_leads_nowhere_is_forgotten_and_what_is_put_off_is_not_written() {
    let mut edges = Edges::new(u64::MAX);
    edges.grow(1000);
    edges.begin(0..1000);
    let list = |edges: &mut Edges, id: u32, below: &[u32]| {
        below.iter().for_each(|below| edges.push(Part::Pools, id, *below));
        edges.end(Part::Pools, id);
    };
    edges.ask(700);
    list(&mut edges, 300, &[500, 501]);
    list(&mut edges, 301, &[400, 2]);
    list(&mut edges, 302, &(600..800).collect::<Vec<u32>>());
    list(&mut edges, 303, &[305]);
    list(&mut edges, 304, &[303, 700]);
    list(&mut edges, 305, &[304]);
    edges.put_off(305);
    edges.put_off(306);
    edges.keep(Part::Pools, 10);
    let worth = |edges: &Edges| (300..310).filter(|id| edges.is_worth(*id)).collect::<Vec<u32>>();
    assert_eq!(worth(&edges), [301, 302, 303, 304, 305, 306]);
    assert!(edges.some_worth(640, 704) && !edges.some_worth(310, 700) && !edges.some_worth(300, 301));
    edges.ask(308);
    (305..310).for_each(|id| edges.take_up(id));
    assert_eq!(worth(&edges), [301, 302, 303, 304, 308]);
    assert_eq!(edges.forget_dead_ends(10), 1, "303: it led to 305 alone");
    assert_eq!(edges.forget_dead_ends(10), 0);
    let graph = edges.finish(Natives::new(u64::MAX));
    assert_eq!(graph.len(), 3);
    let mut cursors = Cursors::default();
    assert_eq!(below(&graph, 304, &mut cursors), [303, 700]);
    assert_eq!(below(&graph, 302, &mut cursors).len(), 200);
    assert_eq!(below(&graph, 305, &mut cursors), Vec::<u32>::new());
}

#[test]
fn who_leads_to_what_is_put_off_is_kept_whoever_is_asked_for_meanwhile() {
    let mut edges = Edges::new(u64::MAX);
    edges.grow(1000);
    edges.begin(0..1000);
    let list = |edges: &mut Edges, id: u32, below: u32| {
        edges.push(Part::Pools, id, below);
        edges.end(Part::Pools, id);
    };
    edges.ask(301);
    edges.ask(400);
    list(&mut edges, 300, 400);
    list(&mut edges, 301, 401);
    for id in [400, 401] {
        list(&mut edges, id, 402);
        edges.put_off(id);
    }
    edges.ask_no_more(400);
    edges.keep(Part::Pools, 10);
    list(&mut edges, 400, 2);
    (400..402).for_each(|id| edges.take_up(id));
    edges.keep(Part::Late, 10);
    assert!(edges.is_worth(301), "it leads to 401, which leads nowhere, but it is asked for");
    edges.forget_dead_ends(10);
    let graph = edges.finish(Natives::new(u64::MAX));
    let mut cursors = Cursors::default();
    assert_eq!(below(&graph, 300, &mut cursors), [400]);
    assert_eq!(below(&graph, 400, &mut cursors), [2]);
}

#[test]
fn without_room_there_is_no_list_at_all() {
    let mut edges = Edges::new(300);
    edges.grow(1000);
    edges.begin(0..1000);
    for id in 1..=CHECKED as u32 {
        edges.push(Part::Objects, id, 2);
        edges.end(Part::Objects, id);
    }
    assert!(edges.full);
    edges.push(Part::Objects, 300, 4);
    edges.end(Part::Objects, 300);
    let graph = edges.finish(Natives::new(u64::MAX));
    assert!(graph.full && graph.len() == 0);
    assert!(below(&graph, 1, &mut Cursors::default()).is_empty());
}

#[test]
fn lists_made_in_any_order_are_read_back_and_that_of_a_block_that_is_put_off_is_the_later_one() {
    let mut edges = Edges::new(u64::MAX);
    edges.grow(1000);
    edges.begin(0..1000);
    let list = |edges: &mut Edges, id: u32, below: u32| {
        edges.push(Part::Pools, id, below);
        edges.end(Part::Pools, id);
    };
    for (id, below) in [(510, 1), (400, 510), (520, 2), (305, 400), (610, 3), (410, 520)] {
        list(&mut edges, id, below);
        if id == 610 {
            edges.put_off(id);
        }
    }
    assert!(edges.may_be_worth(510) && !edges.may_be_worth(511));
    edges.keep(Part::Pools, 10);
    list(&mut edges, 610, 4);
    edges.take_up(610);
    edges.keep(Part::Late, 10);
    let graph = edges.finish(Natives::new(u64::MAX));
    let mut cursors = Cursors::default();
    for (id, wanted) in [(305, 400), (400, 510), (410, 520), (510, 1), (520, 2), (610, 4)] {
        assert_eq!(below(&graph, id, &mut cursors), [wanted], "{id}");
    }
    assert_eq!(graph.len(), 6);
}
