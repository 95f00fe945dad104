//! Scans in the course of a session: those that were asked for over the socket, and those made because the floor rises.
//!
//! One helper at a time. The recorder only starts it and hears its answer; it never waits.

use super::Session;
use crate::scanning::{Budget, Depth, End, Occasion, Opened, Order, Refusal, Report, ScanError, Scanner};
use crate::socket::ScanAsked;
use lowtide_model::{EventKind, ProcKey, ScanRow};
use lowtide_scan::TypeUse;
use lowtide_store::Entry;
use lowtide_wire::Answer;
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags};
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

/// Askers that wait for their turn; more are sent away.
const MOST_WAITING: usize = 8;

/// Who wants to know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Asker {
    /// A client of the socket.
    Client(u64),
    /// The recording, about this process.
    Recording(ProcKey),
}

/// Scans of this session.
pub(crate) struct Scans {
    pub(crate) budget: Budget,
    work: Option<(Scanner, Asker)>,
    waiting: VecDeque<ScanAsked>,
    /// The types of the last scan of each process that went into the recording.
    before: BTreeMap<ProcKey, Vec<TypeUse>>,
    /// What the newest scan that nobody asked for may take.
    share: Duration,
    /// Scans that nobody asked for are made.
    automatic: bool,
    /// Readable when a helper has something to say.
    pub(crate) any: Option<Epoll>,
}

impl Scans {
    pub(crate) fn new(automatic: bool) -> Self {
        Self {
            budget: Budget::default(),
            work: None,
            waiting: VecDeque::new(),
            before: BTreeMap::new(),
            share: Duration::ZERO,
            automatic,
            any: Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC).ok(),
        }
    }
}

impl Scans {
    /// A step was told. A difference to what was there before the first one would be what was loaded.
    pub(crate) fn stepped(&mut self) {
        if self.budget.stepped() {
            self.before.clear();
        }
    }
}

impl Session<'_> {
    /// Takes the questions of clients.
    pub(super) fn take_scans(&mut self, asked: Vec<ScanAsked>) {
        for ask in asked {
            if self.scans.waiting.len() < MOST_WAITING {
                self.scans.waiting.push_back(ask);
            } else {
                self.tell_client(
                    ask.client,
                    &Answer::Error { text: "too many scans are asked for".to_owned() },
                );
            }
        }
        self.next_scan();
    }

    /// Scans by itself when the floor of a process rises.
    pub(super) fn scan_when_it_grows(&mut self) {
        if !self.scans.automatic || self.scans.work.is_some() {
            return;
        }
        let sizes =
            self.crew.members().filter_map(|member| Some((member.facts.key, member.newest()?.rss.last)));
        if let Some(occasion) = self.scans.budget.due(self.live.now, sizes) {
            self.begin(occasion);
        }
    }

    fn begin(&mut self, occasion: Occasion) {
        let process = occasion.process;
        self.scans.budget.begun(self.live.now, occasion);
        let before = self.scans.before.get(&process).cloned();
        let share = self.scans.budget.share(self.live.now);
        self.scans.share = share;
        // The first is only there for the second to be held against.
        let depth = if before.is_some() { Depth::Holders } else { Depth::Types };
        let order = Order { depth, ..order(process.pid, before, share) };
        self.start_scan(order, Asker::Recording(process));
    }

    fn next_scan(&mut self) {
        while self.scans.work.is_none()
            && let Some(ask) = self.scans.waiting.pop_front()
        {
            let client = ask.client;
            if self.crew.by_pid(ask.pid).is_none() {
                let text = format!("process {} does not belong to this run", ask.pid);
                self.tell_client(client, &Answer::Error { text });
                continue;
            }
            let before = ask.before.and_then(|types| serde_json::from_value(types).ok());
            self.start_scan(order(ask.pid, before, Order::LONGEST), Asker::Client(client));
        }
    }

    fn start_scan(&mut self, order: Order, asker: Asker) {
        let pid = order.pid;
        let started = Scanner::start(&self.options.helper, order).and_then(|scanner| {
            let heard = |any: &Epoll| any.add(&scanner, EpollEvent::new(EpollFlags::EPOLLIN, 0)).is_ok();
            let ready = scanner.without_waiting().is_ok() && self.scans.any.as_ref().is_some_and(heard);
            if ready { Ok(scanner) } else { Err(ScanError::Ended { pid, end: End::Failed }) }
        });
        match started {
            Ok(scanner) => {
                self.tree.ignore(scanner.helper_pid());
                self.places.is_ours(scanner.helper_pid());
                self.scans.work = Some((scanner, asker));
            }
            Err(error) => self.scan_ended(asker, Err(error)),
        }
    }

    /// A helper said something.
    pub(super) fn hear_scan(&mut self) {
        let Some((scanner, _)) = &mut self.scans.work else {
            return;
        };
        let Some(result) = scanner.hear() else {
            return;
        };
        if let Some((scanner, asker)) = self.scans.work.take() {
            self.places.was_ours(scanner.helper_pid());
            drop(scanner);
            self.scan_ended(asker, result);
        }
        self.next_scan();
    }

    fn scan_ended(&mut self, asker: Asker, result: Result<Report, ScanError>) {
        match asker {
            Asker::Client(client) => {
                let answer = match result {
                    Ok(mut report) => {
                        self.censuses.add_to(report.process, &mut report.scan);
                        Answer::Scan { report: serde_json::to_value(&report).unwrap_or_default() }
                    }
                    Err(error) => Answer::Error { text: words_of(&error) },
                };
                self.tell_client(client, &answer);
            }
            Asker::Recording(process) => self.keep_scan(process, result),
        }
    }

    fn keep_scan(&mut self, process: ProcKey, result: Result<Report, ScanError>) {
        match result {
            Ok(report) => {
                self.scans.budget.took(Duration::from_millis(report.scan.cost.cpu_ms));
                self.scans.before.insert(process, report.scan.types.clone());
                let row = ScanRow { tick: self.live.now, process, report: report.kept() };
                self.write(vec![Entry::Scan(row)]);
            }
            // Others are looked at as well.
            Err(ScanError::Refused { refusal: Refusal::Gone, .. }) => {}
            Err(ScanError::Ended { .. }) => self.scans.budget.ended_at(process, self.scans.share),
            Err(error) => {
                // Asking again would give the same answer.
                self.scans.automatic = false;
                self.event(
                    EventKind::Note,
                    Some(process),
                    format!("not scanned any more: {}", words_of(&error)),
                );
            }
        }
    }

    pub(super) fn tell_client(&mut self, client: u64, answer: &Answer) {
        if let Some(socket) = &mut self.socket {
            socket.answer_last(client, answer);
        }
    }
}

fn order(pid: u32, before: Option<Vec<TypeUse>>, most_cpu: Duration) -> Order {
    Order { pid, opened: Opened::Here, before, depth: Depth::Everything, most_cpu, stop: false }
}

/// The error with its reason, as one line.
fn words_of(error: &ScanError) -> String {
    match error {
        ScanError::Refused { refusal, .. } => format!("{error}: {}", refusal.words()),
        ScanError::Start { source, .. } => format!("{error}: {source}"),
        ScanError::Ended { end, .. } => format!("{error}: {}", end.words()),
    }
}

impl Refusal {
    /// Why, in words.
    pub fn words(&self) -> String {
        match self {
            Self::Gone => {
                "there is no such process, or it ended or became another program meanwhile".to_owned()
            }
            Self::Denied => "this user may not read its memory".to_owned(),
            Self::Unsupported => "this kernel does not tell which pages are in memory".to_owned(),
            Self::NotStopped => "it could not be held still".to_owned(),
            Self::NoRoom { left_bytes, needed_bytes } => {
                let (left, needed) = (lowtide_model::Bytes(*left_bytes), lowtide_model::Bytes(*needed_bytes));
                format!(
                    "only {left} of memory is left here, and a scan wants {needed} free so that it can harm nobody"
                )
            }
        }
    }
}
