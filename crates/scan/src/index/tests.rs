//! A block is found by any address in it, and by its number.

use super::*;
use proptest::prelude::*;

fn sample() -> Index {
    let mut heap = HeapSlots::new(0x10_0000);
    [(0, RAW), (0x40, FREE), (0x8000, RAW), (0xf_0000, object_tag(3))]
        .iter()
        .for_each(|(at, tag)| heap.push(*at, *tag));
    let mut index = Index::default();
    index.add_heap(0x100_0000, 0x110_0000, heap);
    index.add_pool((0x200_4000, 0x200_8000), 64, &[object_tag(0), RAW, FREE].as_slice().into());
    index.add_single(0x300_0000, 0x302_0000, RAW);
    index
}

#[test]
fn an_address_inside_a_block_finds_it_and_a_header_finds_nothing() {
    let index = sample();
    assert_eq!(index.find(0x100_0010), Some(Slot { id: 0, start: 0x100_0010, end: 0x100_0048 }));
    assert_eq!(index.find(0x100_9000).map(|slot| slot.id), Some(2));
    assert_eq!(index.find(0x100_8008), None, "a chunk's head");
    assert_eq!(index.find(0x200_4030 + 64 + 8), Some(Slot { id: 5, start: 0x200_4070, end: 0x200_40b0 }));
    assert_eq!(index.find(0x200_4010), None, "a pool's head");
    assert_eq!(index.find(0x200_7000), None, "past the blocks that were ever handed out");
    assert_eq!(index.find(0x301_ffff).map(|slot| slot.id), Some(7));
    assert_eq!(index.find(0x302_0000), None);
    assert_eq!(index.find_raw(0x200_4030), None, "an object is not raw");
    assert_eq!(index.find_raw(0x100_0050), None, "free");
    let may_be_type = [0x100_8010, 0x100_8050, 0x300_0020, 0x400_0000].map(|at| index.may_be_type(at));
    let may_not = [0x100_0010, 0x100_8068, 0x200_4030, 0x301_0000].map(|at| index.may_be_type(at));
    assert_eq!((may_be_type, may_not), ([true; 4], [false; 4]));
}

#[test]
fn slots_by_number_by_address_and_in_order_are_the_same() {
    let index = sample();
    let mut seen = Vec::new();
    index.for_each(|slot, _, _| seen.push(slot));
    assert_eq!(seen.len(), 8);
    let mut near = Near::default();
    for slot in seen {
        assert_eq!(index.slot(slot.id), Some(slot));
        assert_eq!(index.slot_near(slot.id, &mut near), Some(slot));
        assert_eq!(index.find(slot.start), Some(slot));
    }
}

proptest! {
    #[test]
    fn a_heap_of_any_chunks_finds_each(sizes in proptest::collection::vec(2_u64..2000, 1..200)) {
        let length = sizes.iter().sum::<u64>() * 16;
        let mut heap = HeapSlots::new(length);
        let mut at = 0;
        for size in &sizes { heap.push(at, RAW); at += size * 16; }
        let mut index = Index::default();
        index.add_heap(0x40_0000, 0x40_0000 + length, heap);
        let (mut start, mut near) = (0x40_0000, Near::default());
        for (id, size) in sizes.iter().enumerate() {
            let end = start + size * 16;
            // The program has the first word of the next head too.
            let tail = if id + 1 < sizes.len() { CHUNK_TAIL } else { 0 };
            let slot = Slot { id: id as u32, start: start + 16, end: end + tail };
            prop_assert_eq!(index.find(start + 16), Some(slot));
            prop_assert_eq!(index.find(end - 1), Some(slot));
            prop_assert_eq!(index.slot(id as u32), Some(slot));
            if id % 3 == 0 {
                prop_assert_eq!(index.slot_near(id as u32, &mut near), Some(slot));
            }
            start = end;
        }
    }

    #[test]
    fn cutting_a_heap_back_keeps_what_was_before(sizes in proptest::collection::vec(2_u64..80, 2..50), cut in 1_usize..49) {
        let cut = cut.min(sizes.len() - 1);
        let mut whole = HeapSlots::new(1 << 20);
        let mut at = 0;
        let mut place = 0;
        for (number, size) in sizes.iter().enumerate() { if number == cut { place = at; } whole.push(at, RAW); at += size * 16; }
        let mut part = HeapSlots::new(1 << 20);
        let mut at = 0;
        for size in &sizes[..cut] { part.push(at, RAW); at += size * 16; }
        whole.truncate(place, cut);
        prop_assert_eq!(whole.bits, part.bits);
        prop_assert_eq!(whole.tags.len(), part.tags.len());
    }
}
