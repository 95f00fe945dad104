//! The job's output on its way to the terminal: passed on byte by byte, and watched for what would break the status.
//!
//! Three kinds of sequence are changed, each only where it would reach into the status: moves to a line below the job's,
//! scroll regions that end there, and resets, after which the region is set again. Wiping the screen passes as it is and is
//! remembered, so that the status is drawn again. Everything else, foreign and broken bytes included, is untouched.
//! Not here: emulating a terminal. The job's screen lives in the user's terminal, colours, scrollback and all.

use super::status::{self, Origin};

/// A control sequence longer than this is no longer held back.
const LONGEST_SEQUENCE: usize = 256;

const ESC: u8 = 0x1b;
const BELL: u8 = 0x07;
/// CAN and SUB break any sequence off.
const CANCEL: [u8; 2] = [0x18, 0x1a];

/// Where in a sequence the stream is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    /// Plain text.
    #[default]
    Ground,
    /// Inside a character of several bytes; so many are missing.
    Character(u8),
    /// After ESC.
    Escape,
    /// After ESC and an intermediate byte.
    EscapeMore,
    /// Inside a control sequence: ESC [ ...
    Control,
    /// Inside a string (title, image): until BEL or ESC \.
    Text,
    /// Inside a string, after ESC.
    TextEscape,
}

/// Watches one job's output.
#[derive(Debug, Default)]
pub(super) struct Stream {
    rows: u16,
    state: State,
    held: Vec<u8>,
    wiped: bool,
    saved: bool,
    origin: Origin,
}

impl Stream {
    /// The lines the job has, from now on.
    pub(super) fn set_rows(&mut self, rows: u16) {
        self.rows = rows;
    }

    /// What to send to the terminal for these bytes. The start of a sequence is held back until its end comes.
    pub(super) fn pass(&mut self, bytes: &[u8]) -> Vec<u8> {
        let mut out = Vec::with_capacity(bytes.len() + self.held.len());
        for byte in bytes {
            self.step(*byte, &mut out);
        }
        out
    }

    /// Gives back what is held, for when nobody watches any more.
    pub(super) fn give_up(&mut self) -> Vec<u8> {
        self.state = State::Ground;
        std::mem::take(&mut self.held)
    }

    /// Whether other sequences may be put in here.
    pub(super) fn is_between_sequences(&self) -> bool {
        self.state == State::Ground
    }

    /// Whether the status may have been wiped.
    pub(super) fn wiped(&self) -> bool {
        self.wiped
    }

    /// The status was drawn again.
    pub(super) fn forget_wipe(&mut self) {
        self.wiped = false;
    }

    /// Whether the job saved the cursor and has not fetched it back.
    pub(super) fn holds_saved_cursor(&self) -> bool {
        self.saved
    }

    /// How the job counts its lines.
    pub(super) fn origin_mode(&self) -> Origin {
        self.origin
    }

    fn step(&mut self, byte: u8, out: &mut Vec<u8>) {
        self.held.push(byte);
        let next = match self.state {
            State::Text | State::TextEscape => inside_text(self.state, byte),
            _ if byte == ESC => State::Escape,
            _ if CANCEL.contains(&byte) => State::Ground,
            State::Ground => ground(byte),
            State::Character(left) => inside_character(left, byte),
            State::Escape | State::EscapeMore => self.inside_escape(byte),
            State::Control if (0x40..=0x7e).contains(&byte) => self.control_ends(),
            State::Control => State::Control,
        };
        self.state = next;
        let keeps = matches!(next, State::Escape | State::EscapeMore | State::Control);
        if !keeps || self.held.len() > LONGEST_SEQUENCE {
            out.append(&mut self.held);
        }
    }

    fn inside_escape(&mut self, byte: u8) -> State {
        match byte {
            b'[' if self.state == State::Escape => State::Control,
            b']' | b'P' | b'_' | b'^' | b'X' if self.state == State::Escape => State::Text,
            0x20..=0x2f => State::EscapeMore,
            0x30..=0x7e => self.escape_ends(),
            _ => self.state,
        }
    }

    /// `ESC x` is whole.
    fn escape_ends(&mut self) -> State {
        match self.sequence() {
            b"\x1b7" => self.saved = true,
            b"\x1b8" => self.saved = false,
            b"\x1bc" => self.reset(),
            b"\x1b#8" => self.wiped = true,
            _ => {}
        }
        State::Ground
    }

    /// `ESC [ ... x` is whole.
    fn control_ends(&mut self) -> State {
        let Some(control) = Control::read(self.sequence()) else {
            return State::Ground;
        };
        match (control.mark, control.last) {
            (Mark::None, b'r') => self.keep_region_above(&control),
            (Mark::None, b'H' | b'f' | b'd') => self.keep_cursor_above(&control),
            (Mark::None, b'J') if control.number(0) != 1 => self.wiped = true,
            (Mark::None, b's') => self.saved = true,
            (Mark::None, b'u') => self.saved = false,
            (Mark::Soft, b'p') => self.reset(),
            (Mark::Private, b'h' | b'l') => self.mode(&control),
            _ => {}
        }
        State::Ground
    }

    fn keep_region_above(&mut self, control: &Control) {
        let bottom = control.number(1);
        if self.rows > 0 && (bottom == 0 || bottom > self.rows) {
            let top = Some(control.number(0)).filter(|top| *top < self.rows).unwrap_or(0).max(1);
            self.replace_sequence(&format!("\x1b[{top};{}r", self.rows));
        }
    }

    fn keep_cursor_above(&mut self, control: &Control) {
        if self.rows > 0 && control.number(0) > self.rows {
            let last = char::from(control.last);
            let text = match control.numbers.get(1) {
                Some(column) => format!("\x1b[{};{column}{last}", self.rows),
                None => format!("\x1b[{}{last}", self.rows),
            };
            self.replace_sequence(&text);
        }
    }

    fn mode(&mut self, control: &Control) {
        let set = control.last == b'h';
        for number in &control.numbers {
            match number {
                6 => self.origin = if set { Origin::Region } else { Origin::Screen },
                47 | 1047 | 1049 => self.bind_again(),
                _ => {}
            }
        }
    }

    fn reset(&mut self) {
        self.saved = false;
        self.origin = Origin::Screen;
        self.bind_again();
    }

    /// Sets the region again behind a sequence that may have lifted it.
    fn bind_again(&mut self) {
        self.wiped = true;
        if self.rows > 0 {
            self.held.extend_from_slice(status::bind(self.rows).as_bytes());
        }
    }

    /// The sequence that just ended.
    fn sequence(&self) -> &[u8] {
        self.held.get(self.sequence_start()..).unwrap_or_default()
    }

    fn sequence_start(&self) -> usize {
        self.held.iter().rposition(|byte| *byte == ESC).unwrap_or(0)
    }

    fn replace_sequence(&mut self, with: &str) {
        self.held.truncate(self.sequence_start());
        self.held.extend_from_slice(with.as_bytes());
    }
}

/// What sets one family of control sequences apart from the plain ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mark {
    None,
    /// `ESC [ ?`
    Private,
    /// `ESC [ !`
    Soft,
}

/// A control sequence of a kind that may matter to the status.
#[derive(Debug)]
struct Control {
    mark: Mark,
    numbers: Vec<u16>,
    last: u8,
}

impl Control {
    fn read(sequence: &[u8]) -> Option<Self> {
        let (last, body) = sequence.strip_prefix(b"\x1b[")?.split_last()?;
        if !b"rHfdJsuphl".contains(last) {
            return None;
        }
        let (mark, digits) = match body {
            [b'?', rest @ ..] => (Mark::Private, rest),
            [b'!', rest @ ..] => (Mark::Soft, rest),
            _ => (Mark::None, body),
        };
        if !digits.iter().all(|byte| byte.is_ascii_digit() || *byte == b';') {
            return None;
        }
        Some(Self { mark, numbers: digits.split(|byte| *byte == b';').map(number).collect(), last: *last })
    }

    /// The parameter at this place; one that is missing is 0.
    fn number(&self, place: usize) -> u16 {
        self.numbers.get(place).copied().unwrap_or(0)
    }
}

fn number(digits: &[u8]) -> u16 {
    digits.iter().fold(0_u16, |sum, digit| sum.saturating_mul(10).saturating_add(u16::from(digit - b'0')))
}

fn inside_text(state: State, byte: u8) -> State {
    match (state, byte) {
        (_, ESC) => State::TextEscape,
        (_, BELL) | (State::TextEscape, b'\\') => State::Ground,
        _ if CANCEL.contains(&byte) => State::Ground,
        _ => State::Text,
    }
}

fn inside_character(left: u8, byte: u8) -> State {
    match byte {
        0x80..=0xbf if left > 1 => State::Character(left - 1),
        0x80..=0xbf => State::Ground,
        _ => ground(byte),
    }
}

fn ground(byte: u8) -> State {
    match byte {
        0xc2..=0xdf => State::Character(1),
        0xe0..=0xef => State::Character(2),
        0xf0..=0xf4 => State::Character(3),
        _ => State::Ground,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn watched(rows: u16) -> Stream {
        let mut stream = Stream::default();
        stream.set_rows(rows);
        stream
    }

    fn passed(bytes: &str) -> String {
        String::from_utf8(watched(20).pass(bytes.as_bytes())).unwrap()
    }

    #[test]
    fn colours_bars_and_titles_pass_untouched() {
        for text in [
            "\x1b[38;2;1;2;3mred\x1b[0m\r\n",
            "\r 45%|████▌     | 9/20 [00:01<00:01]\x1b[K",
            "\x1b]0;title; with [r\x07\x1b[3A\x1b[2K\x1b[20;5H\x1b[5;20r\x1b[?25l",
            "\x1bP1$r q\x1b\\\x1b_Gf=100;abc\x1b\\",
        ] {
            assert_eq!(passed(text), text);
        }
    }

    #[test]
    fn nothing_moves_or_scrolls_below_the_jobs_lines() {
        assert_eq!(passed("\x1b[999;999H"), "\x1b[20;999H");
        assert_eq!(passed("\x1b[21d"), "\x1b[20d");
        assert_eq!(passed("\x1b[r"), "\x1b[1;20r");
        assert_eq!(passed("\x1b[;r"), "\x1b[1;20r");
        assert_eq!(passed("\x1b[3;24r"), "\x1b[3;20r");
        assert_eq!(passed("\x1b[22;24r"), "\x1b[1;20r");
        assert_eq!(passed("\x1b[?1;2r"), "\x1b[?1;2r");
    }

    #[test]
    fn a_reset_sets_the_region_again_and_asks_for_the_status() {
        for reset in ["\x1bc", "\x1b[!p", "\x1b[?1049h", "\x1b[?1049l"] {
            let mut stream = watched(20);
            let out = stream.pass(reset.as_bytes());
            assert_eq!(out, format!("{reset}\x1b7\x1b[1;20r\x1b8").into_bytes());
            assert!(stream.wiped());
        }
    }

    #[test]
    fn wiping_below_the_cursor_is_noticed_and_wiping_above_is_not() {
        for (wipe, noticed) in [("\x1b[J", true), ("\x1b[2J", true), ("\x1b[1J", false), ("\x1b[K", false)] {
            let mut stream = watched(20);
            assert_eq!(stream.pass(wipe.as_bytes()), wipe.as_bytes());
            assert_eq!(stream.wiped(), noticed, "{wipe:?}");
        }
    }

    #[test]
    fn the_status_never_splits_a_character_or_a_sequence() {
        for text in ["ü", "█", "🌊", "\x1b[31m", "\x1b]0;t\x07", "\x1b(B"] {
            for cut in 1..text.len() {
                let mut stream = watched(20);
                stream.pass(&text.as_bytes()[..cut]);
                assert!(!stream.is_between_sequences(), "{text:?} cut at {cut}");
                stream.pass(&text.as_bytes()[cut..]);
                assert!(stream.is_between_sequences(), "{text:?} cut at {cut}");
            }
        }
    }

    #[test]
    fn a_saved_cursor_is_known_until_it_is_fetched() {
        let mut stream = watched(20);
        stream.pass(b"\x1b7");
        assert!(stream.holds_saved_cursor());
        stream.pass(b"text\x1b8");
        assert!(!stream.holds_saved_cursor());
    }

    proptest! {
        #[test]
        fn no_bytes_panic_and_none_are_lost(bytes: Vec<u8>, cut: prop::sample::Index) {
            // Without lines to protect nothing may change at all.
            let mut stream = watched(0);
            let (head, tail) = bytes.split_at(cut.index(bytes.len() + 1));
            let mut out = stream.pass(head);
            out.extend(stream.pass(tail));
            out.extend(stream.give_up());
            prop_assert_eq!(out, bytes);
        }

        #[test]
        fn pieces_give_the_same_as_the_whole(
            parts in prop::collection::vec("[\x1b\\[;?0-9rHJd78chlx█\x07]{0,6}", 0..12)
        ) {
            let mut pieces = watched(20);
            let mut cut: Vec<u8> = parts.iter().flat_map(|part| pieces.pass(part.as_bytes())).collect();
            cut.extend(pieces.give_up());
            let mut whole = watched(20);
            let mut uncut = whole.pass(parts.concat().as_bytes());
            uncut.extend(whole.give_up());
            prop_assert_eq!(cut, uncut);
        }
    }
}
