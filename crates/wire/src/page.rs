//! The mark page: one shared file a process, written by the agent inside it and read by the recorder.
//!
//! Version 1, little-endian, docs/marks.md tells it byte by byte. Counters are absolute and lie in the header; rarer
//! marks go through a ring of records. The writer is a stranger: whatever the bytes are, nothing here panics, and a
//! number that makes no sense is no number. Not here: files, and who may write one.

use lowtide_model::{MarkKind, MarkPhase};

/// How a page begins.
pub const MAGIC: [u8; 8] = *b"LOWTIDE\x01";
/// The layout told here.
pub const VERSION: u64 = 1;
/// A page is exactly this long.
pub const PAGE_BYTES: usize = 65_536;
/// All a tick needs: the counters up to and with `head`.
pub const HEADER_BYTES: usize = 544;
/// Where the ring begins.
pub const RING_AT: usize = 1024;
/// Records in the ring.
pub const SLOTS: u64 = 252;
/// One record.
pub const SLOT_BYTES: usize = 256;
/// What a record may say besides its numbers.
pub const EXTRA_BYTES: usize = SLOT_BYTES - EXTRA_AT;
/// Where the recorder writes a request and, behind it, its number.
pub const REQUEST_AT: usize = 256;
/// Where the recorder writes the step after which a request is to be honoured; 0 is at once.
pub const STOP_AT_STEP_AT: usize = 288;
/// The request to save and stop.
pub const SAVE_AND_STOP: u64 = 1;
/// The flag of a process that honours it.
pub const CAN_STOP: u64 = 1;
/// The request to clean up and measure what that gives back.
pub const SQUEEZE: u64 = 2;
/// The flag of a process that honours that one.
pub const CAN_SQUEEZE: u64 = 2;

const EXTRA_AT: usize = 32;
const UNKNOWN: u64 = u64::MAX;

/// How the agent in a process is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AgentState {
    /// It runs; nothing is hooked yet.
    Loaded,
    /// It hooked a framework.
    Hooked,
    /// The process ended in order.
    Left,
    /// It failed inside and withdrew.
    Off,
    /// None of these.
    Unknown,
}

/// The counters of a page.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PageHeader {
    /// Whose page it says it is.
    pub pid: u64,
    /// ... and when that process began.
    pub start_ticks: u64,
    /// Rank in a distributed run.
    pub rank: Option<u32>,
    /// How many ranks there are.
    pub world_size: Option<u32>,
    /// How the agent is.
    pub state: AgentState,
    /// What the process can do when asked: bit 0 save and stop, bit 1 squeeze.
    pub flags: u64,
    /// Newest finished step; 0 before the first.
    pub steps: u64,
    /// When that was, in nanoseconds on the boot clock.
    pub step_boot_ns: u64,
    /// Epoch as a fraction.
    pub epoch: Option<f64>,
    /// Micro-batches taken from training loaders.
    pub micro_batches: u64,
    /// Examples taken from training loaders.
    pub examples: u64,
    /// Time spent inside hooks.
    pub hook_ns: u64,
    /// GPU memory in use and held, as the framework sees it.
    pub gpu: GpuCounters,
    /// Live tensors.
    pub tensors: Option<TensorCounters>,
    /// What the recorder asks for, and the number of that request.
    pub asked: (u64, u64),
    /// Number of the newest request taken up, and of the newest carried out.
    pub requests: (u64, u64),
    /// Number of the newest request that came when the step at which to stop was over.
    pub missed: u64,
    /// Records ever written to the ring.
    pub head: u64,
}

/// GPU memory as a framework counts it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GpuCounters {
    /// In tensors.
    pub allocated_bytes: Option<u64>,
    /// Held by the framework's own allocator.
    pub reserved_bytes: Option<u64>,
}

/// Tensors that live.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TensorCounters {
    /// How many.
    pub count: u64,
    /// Their bytes in host memory.
    pub cpu_bytes: u64,
    /// Their bytes on devices.
    pub device_bytes: u64,
}

/// Why bytes are not a page of ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PageError {
    /// Fewer bytes than a header.
    #[error("the page is cut short")]
    Short,
    /// Another file.
    #[error("the page does not begin as one")]
    Foreign,
    /// A layout of another lowtide.
    #[error("the page has layout {version}, which this version does not know")]
    Layout {
        /// What it says.
        version: u64,
    },
}

impl PageHeader {
    /// Reads the header of a page.
    pub fn parse(bytes: &[u8]) -> Result<Self, PageError> {
        if bytes.len() < HEADER_BYTES {
            return Err(PageError::Short);
        }
        if bytes[..8] != MAGIC {
            return Err(PageError::Foreign);
        }
        let at = |offset| u64_at(bytes, offset);
        if at(8) != VERSION {
            return Err(PageError::Layout { version: at(8) });
        }
        let known = |offset| Some(at(offset)).filter(|value| *value != UNKNOWN);
        let tensors = known(128).map(|count| TensorCounters {
            count,
            cpu_bytes: known(136).unwrap_or(0),
            device_bytes: known(144).unwrap_or(0),
        });
        Ok(Self {
            pid: at(16),
            start_ticks: at(24),
            rank: u32::try_from(at(32) as i64).ok(),
            world_size: u32::try_from(at(40) as i64).ok(),
            state: AgentState::of(at(48)),
            flags: at(56),
            steps: at(64),
            step_boot_ns: at(72),
            epoch: Some(f64::from_bits(at(80))).filter(|epoch| epoch.is_finite() && *epoch >= 0.0),
            micro_batches: at(88),
            examples: at(96),
            hook_ns: at(104),
            gpu: GpuCounters { allocated_bytes: known(112), reserved_bytes: known(120) },
            tensors,
            asked: (at(REQUEST_AT), at(REQUEST_AT + 8)),
            requests: (at(272), at(280)),
            missed: at(296),
            head: at(512),
        })
    }
}

impl AgentState {
    const fn of(number: u64) -> Self {
        match number {
            1 => Self::Loaded,
            2 => Self::Hooked,
            3 => Self::Left,
            4 => Self::Off,
            _ => Self::Unknown,
        }
    }
}

/// One record of the ring.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Record<'a> {
    /// When, in nanoseconds on the boot clock.
    pub boot_ns: u64,
    /// What.
    pub kind: MarkKind,
    /// Start, end or point.
    pub phase: MarkPhase,
    /// Rank in a distributed run.
    pub rank: Option<u32>,
    /// The absolute number.
    pub number: f64,
    /// A JSON object, if there is one.
    pub extra: Option<&'a str>,
}

/// Where record `number` (from 0) lies.
pub const fn slot_at(number: u64) -> usize {
    RING_AT + (number % SLOTS) as usize * SLOT_BYTES
}

/// The number in the first bytes of a slot: that of its record, from 1; 0 while it is being written.
pub fn slot_number(slot: &[u8]) -> u64 {
    if slot.len() < 8 { 0 } else { u64_at(slot, 0) }
}

/// Reads a slot as record `number` (from 0). Nothing when it holds another record, none, or nonsense.
pub fn record(slot: &[u8], number: u64) -> Option<Record<'_>> {
    if slot.len() < SLOT_BYTES || Some(u64_at(slot, 0)) != number.checked_add(1) {
        return None;
    }
    let length = usize::from(u16::from_le_bytes([slot[18], slot[19]]));
    let extra = slot.get(EXTRA_AT..EXTRA_AT + length).filter(|_| length <= EXTRA_BYTES)?;
    let rank = i32::from_le_bytes([slot[20], slot[21], slot[22], slot[23]]);
    Some(Record {
        boot_ns: u64_at(slot, 8),
        kind: kind_of(slot[16])?,
        phase: phase_of(slot[17])?,
        rank: u32::try_from(rank).ok(),
        number: f64::from_bits(u64_at(slot, 24)),
        extra: std::str::from_utf8(extra).ok().filter(|text| text.starts_with('{')),
    })
}

/// Which records are new and still there, and how many were overwritten unread.
pub fn new_records(taken: u64, head: u64) -> (std::ops::Range<u64>, u64) {
    let oldest = head.saturating_sub(SLOTS);
    let from = taken.max(oldest).min(head);
    (from..head, from.saturating_sub(taken))
}

const fn kind_of(byte: u8) -> Option<MarkKind> {
    match byte {
        1 => Some(MarkKind::Step),
        2 => Some(MarkKind::Epoch),
        3 => Some(MarkKind::Eval),
        4 => Some(MarkKind::Save),
        5 => Some(MarkKind::Load),
        6 => Some(MarkKind::Info),
        7 => Some(MarkKind::Custom),
        _ => None,
    }
}

const fn phase_of(byte: u8) -> Option<MarkPhase> {
    match byte {
        1 => Some(MarkPhase::Start),
        2 => Some(MarkPhase::End),
        3 => Some(MarkPhase::Point),
        _ => None,
    }
}

/// The caller has made sure that eight bytes are there.
fn u64_at(bytes: &[u8], offset: usize) -> u64 {
    let mut eight = [0; 8];
    eight.copy_from_slice(&bytes[offset..offset + 8]);
    u64::from_le_bytes(eight)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A page as an agent writes it.
    struct Written(Vec<u8>);

    impl Written {
        fn new(pid: u64, start_ticks: u64) -> Self {
            let mut page = Self(vec![0; PAGE_BYTES]);
            page.0[..8].copy_from_slice(&MAGIC);
            for (offset, value) in
                [(8, VERSION), (16, pid), (24, start_ticks), (32, UNKNOWN), (40, UNKNOWN), (48, 1)]
            {
                page.put(offset, value);
            }
            page.put(80, f64::NAN.to_bits());
            for offset in [112, 120, 128] {
                page.put(offset, UNKNOWN);
            }
            page
        }

        fn put(&mut self, offset: usize, value: u64) {
            self.0[offset..offset + 8].copy_from_slice(&value.to_le_bytes());
        }

        fn mark(&mut self, kind: u8, phase: u8, number: f64, extra: &str) {
            let head = u64_at(&self.0, 512);
            let at = slot_at(head);
            self.put(at + 8, 77);
            self.0[at + 16] = kind;
            self.0[at + 17] = phase;
            self.0[at + 18..at + 20].copy_from_slice(&(extra.len() as u16).to_le_bytes());
            self.0[at + 20..at + 24].copy_from_slice(&(-1_i32).to_le_bytes());
            self.put(at + 24, number.to_bits());
            self.0[at + 32..at + 32 + extra.len()].copy_from_slice(extra.as_bytes());
            self.put(at, head + 1);
            self.put(512, head + 1);
        }

        fn slot(&self, number: u64) -> &[u8] {
            &self.0[slot_at(number)..slot_at(number) + SLOT_BYTES]
        }
    }

    #[test]
    fn the_ring_ends_where_the_page_ends() {
        assert_eq!(RING_AT + SLOTS as usize * SLOT_BYTES, PAGE_BYTES);
        assert_eq!(EXTRA_BYTES, 224);
        assert_eq!(slot_at(SLOTS), RING_AT);
    }

    #[test]
    fn a_fresh_page_knows_who_it_is_and_nothing_else() {
        let header = PageHeader::parse(&Written::new(17, 4711).0).unwrap();
        assert_eq!((header.pid, header.start_ticks, header.state), (17, 4711, AgentState::Loaded));
        assert_eq!((header.rank, header.world_size, header.epoch), (None, None, None));
        assert_eq!((header.gpu, header.tensors, header.steps), (GpuCounters::default(), None, 0));
    }

    #[test]
    fn counters_and_records_read_back() {
        let mut page = Written::new(17, 4711);
        for (offset, value) in [(32, 1), (40, 2), (64, 120), (72, 9), (112, 5), (128, 3), (136, 7), (144, 8)]
        {
            page.put(offset, value);
        }
        page.put(80, 1.4_f64.to_bits());
        page.mark(6, 3, 0.0, "{\"examples\":663}");
        page.mark(3, 1, 120.0, "");
        let header = PageHeader::parse(&page.0).unwrap();
        assert_eq!((header.rank, header.world_size, header.steps, header.head), (Some(1), Some(2), 120, 2));
        assert_eq!(header.epoch, Some(1.4));
        assert_eq!(header.gpu, GpuCounters { allocated_bytes: Some(5), reserved_bytes: None });
        assert_eq!(header.tensors, Some(TensorCounters { count: 3, cpu_bytes: 7, device_bytes: 8 }));
        let info = record(page.slot(0), 0).unwrap();
        assert_eq!((info.kind, info.extra, info.rank), (MarkKind::Info, Some("{\"examples\":663}"), None));
        let eval = record(page.slot(1), 1).unwrap();
        assert_eq!((eval.kind, eval.phase, eval.number), (MarkKind::Eval, MarkPhase::Start, 120.0));
        assert_eq!(eval.boot_ns, 77);
    }

    #[test]
    fn a_record_that_was_overwritten_or_is_being_written_is_none() {
        let mut page = Written::new(1, 1);
        for number in 0..=SLOTS {
            page.mark(7, 3, number as f64, "{}");
        }
        assert!(record(page.slot(0), 0).is_none(), "record 252 lies there now");
        assert_eq!(record(page.slot(SLOTS), SLOTS).map(|found| found.number), Some(SLOTS as f64));
        page.put(slot_at(5), 0);
        assert!(record(page.slot(5), 5).is_none());
    }

    #[test]
    fn what_was_overwritten_unread_is_counted() {
        assert_eq!(new_records(0, 3), (0..3, 0));
        assert_eq!(new_records(3, 3), (3..3, 0));
        assert_eq!(new_records(10, 300), (48..300, 38));
        assert_eq!(new_records(10, 4), (4..4, 0), "a head that falls back brings nothing");
        assert_eq!(new_records(0, u64::MAX).0.count(), SLOTS as usize);
    }

    #[test]
    fn other_layouts_and_other_files_are_refused_by_name() {
        let mut page = Written::new(1, 1);
        assert_eq!(PageHeader::parse(&page.0[..HEADER_BYTES - 1]), Err(PageError::Short));
        page.put(8, 2);
        assert_eq!(PageHeader::parse(&page.0), Err(PageError::Layout { version: 2 }));
        assert_eq!(PageHeader::parse(&[0; HEADER_BYTES]), Err(PageError::Foreign));
    }

    proptest! {
        #[test]
        fn no_bytes_panic_and_no_head_makes_us_loop(
            mut bytes in proptest::collection::vec(any::<u8>(), 0..2048),
            genuine: bool,
            taken: u64,
            number: u64,
        ) {
            if genuine && bytes.len() >= 16 {
                bytes[..8].copy_from_slice(&MAGIC);
                bytes[8..16].copy_from_slice(&VERSION.to_le_bytes());
            }
            if let Ok(header) = PageHeader::parse(&bytes) {
                prop_assert!(header.epoch.is_none_or(f64::is_finite));
                let (range, _) = new_records(taken, header.head);
                prop_assert!(range.end - range.start <= SLOTS);
            }
            let _ = record(&bytes, number);
            let _ = slot_number(&bytes);
        }

        #[test]
        fn any_record_with_the_right_number_gives_text_or_nothing(
            mut slot in proptest::collection::vec(any::<u8>(), SLOT_BYTES),
            number in 0..u64::MAX,
            kind in 0..9_u8,
        ) {
            slot[..8].copy_from_slice(&(number + 1).to_le_bytes());
            slot[16] = kind;
            slot[17] = 3;
            if let Some(found) = record(&slot, number) {
                prop_assert!((1..8).contains(&kind));
                prop_assert!(found.extra.is_none_or(|text| text.len() <= EXTRA_BYTES));
            }
            prop_assert!(record(&slot, number.wrapping_add(1)).is_none());
        }

        #[test]
        fn losses_and_reads_add_up(taken in 0..10_000_u64, more in 0..10_000_u64) {
            let (range, lost) = new_records(taken, taken + more);
            prop_assert_eq!(lost + (range.end - range.start), more);
        }
    }
}
