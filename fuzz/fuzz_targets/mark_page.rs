#![no_main]
use libfuzzer_sys::fuzz_target;
use lowtide_wire::page;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(header) = page::PageHeader::parse(bytes) {
        let (range, _) = page::new_records(header.steps, header.head);
        assert!(range.end - range.start <= page::SLOTS);
        for number in range {
            let _ = bytes.get(page::slot_at(number)..).and_then(|slot| page::record(slot, number));
        }
    }
    let _ = page::record(bytes, page::slot_number(bytes).wrapping_sub(1));
});
