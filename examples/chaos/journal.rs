//! What has been seen of every operation that is not judged yet: by the server, and by a middleware
//! between the crate and the client.
//!
//! Nothing in here comes from the crate itself. An operation is forgotten when it has been judged,
//! so a run of any length takes the memory of the operations of a second.

use std::{
    collections::HashMap,
    fmt,
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use http::StatusCode;
use tokio::time::Instant;

use crate::{asked::Asked, plan::Plan, promise::Breach};

/// Locks what no panic can leave half done.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Every operation that is not judged yet.
pub(crate) struct Journal {
    epoch: Instant,
    live: Mutex<HashMap<u64, Record>>,
    strays: AtomicU64,
}

/// What has been seen of one operation.
pub(crate) struct Record {
    pub(crate) plan: Plan,
    opened: Instant,
    pub(crate) calls: Vec<Call>,
    pub(crate) sends: Vec<Send>,
    pub(crate) heads: Vec<Head>,
    /// What was seen to be wrong at once.
    pub(crate) breaches: Vec<Breach>,
}

/// One call of the client: what the crate calls an operation. A caller who carries on makes
/// several.
pub(crate) struct Call {
    pub(crate) began: Instant,
    pub(crate) deadline: Option<Instant>,
    pub(crate) ended: Option<Instant>,
}

/// What is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Attempt,
    Probe,
}

/// One request on its way to the client.
pub(crate) struct Send {
    pub(crate) call: usize,
    pub(crate) kind: Kind,
    pub(crate) began: Instant,
    pub(crate) answered: Option<StatusCode>,
}

/// One request head at the server.
pub(crate) struct Head {
    /// Which send it belongs to.
    pub(crate) send: usize,
    pub(crate) kind: Kind,
    pub(crate) at: Instant,
    /// What the server does to it.
    pub(crate) fault: &'static str,
    /// The server says to have done nothing, by the protocol or by the endpoint's contract.
    pub(crate) refused: bool,
    pub(crate) said: Option<Said>,
}

/// The head of an answer, when the server let go of it.
pub(crate) struct Said {
    pub(crate) at: Instant,
    pub(crate) status: StatusCode,
    pub(crate) asked: Asked,
    /// The first copy is still under way.
    pub(crate) in_use: bool,
}

/// Where a head stands in the journal.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Place {
    pub(crate) operation: u64,
    head: usize,
    /// Which one of its kind it is, from zero.
    pub(crate) ordinal: u64,
}

impl Journal {
    pub(crate) fn new() -> Self {
        Self { epoch: Instant::now(), live: Mutex::default(), strays: AtomicU64::new(0) }
    }

    /// Time as the header that carries it tells it.
    pub(crate) fn micros(&self, at: Instant) -> u64 {
        u64::try_from(at.saturating_duration_since(self.epoch).as_micros()).unwrap_or(u64::MAX)
    }

    pub(crate) fn instant(&self, micros: u64) -> Option<Instant> {
        self.epoch.checked_add(Duration::from_micros(micros))
    }

    pub(crate) fn open(&self, plan: Plan) {
        let (calls, sends, heads, breaches) = Default::default();
        lock(&self.live).insert(plan.seed, Record { plan, opened: Instant::now(), calls, sends, heads, breaches });
    }

    /// Takes an operation out, to be judged.
    pub(crate) fn close(&self, operation: u64) -> Option<Record> {
        lock(&self.live).remove(&operation)
    }

    pub(crate) fn call(&self, operation: u64, deadline: Option<Instant>) {
        self.with(operation, |record| record.calls.push(Call { began: Instant::now(), deadline, ended: None }));
    }

    pub(crate) fn ended(&self, operation: u64) {
        self.with(operation, |record| {
            if let Some(call) = record.calls.last_mut() {
                call.ended = Some(Instant::now());
            }
        });
    }

    /// Notes a request on its way, and answers its number and those of its call before it.
    pub(crate) fn send(&self, operation: u64, kind: Kind, began: Instant) -> Option<(usize, Vec<Kind>)> {
        self.with(operation, |record| {
            let call = record.calls.len().saturating_sub(1);
            let before = record.sends.iter().filter(|send| send.call == call).map(|send| send.kind).collect();
            record.sends.push(Send { call, kind, began, answered: None });
            (record.sends.len() - 1, before)
        })
    }

    pub(crate) fn answered(&self, operation: u64, send: usize, status: StatusCode) {
        self.with(operation, |record| {
            if let Some(send) = record.sends.get_mut(send) {
                send.answered = Some(status);
            }
        });
    }

    /// What the server said last to this send.
    pub(crate) fn said_to(&self, operation: u64, send: usize) -> Option<(Instant, Asked)> {
        self.with(operation, |record| record.said_to(send).map(|said| (said.at, said.asked)))?
    }

    pub(crate) fn breach(&self, operation: u64, breach: Breach) {
        self.with(operation, |record| record.breaches.push(breach));
    }

    // ===== the server's side =====

    /// Notes a request head. `None`: nobody knows the operation any more.
    pub(crate) fn head(&self, operation: u64, send: usize, kind: Kind) -> Option<Place> {
        let place = self.with(operation, |record| {
            let ordinal = record.heads.iter().filter(|head| head.kind == kind).count() as u64;
            record.heads.push(Head { send, kind, at: Instant::now(), fault: "", refused: false, said: None });
            Place { operation, head: record.heads.len() - 1, ordinal }
        });
        if place.is_none() {
            self.strays.fetch_add(1, Ordering::Relaxed);
        }
        place
    }

    pub(crate) fn suffers(&self, place: Place, fault: &'static str) {
        self.at(place, |head| head.fault = fault);
    }

    pub(crate) fn refused(&self, place: Place) {
        self.at(place, |head| head.refused = true);
    }

    pub(crate) fn said(&self, place: Place, said: Said) {
        self.at(place, |head| head.said = Some(said));
    }

    pub(crate) fn plan(&self, operation: u64) -> Option<Plan> {
        self.with(operation, |record| record.plan.clone())
    }

    /// Heads of operations that had been judged: read late by a server that was down.
    pub(crate) fn strays(&self) -> u64 {
        self.strays.load(Ordering::Relaxed)
    }

    fn at(&self, place: Place, work: impl FnOnce(&mut Head)) {
        self.with(place.operation, |record| record.heads.get_mut(place.head).map(work));
    }

    fn with<T>(&self, operation: u64, work: impl FnOnce(&mut Record) -> T) -> Option<T> {
        lock(&self.live).get_mut(&operation).map(work)
    }
}

impl Record {
    /// What the server said last to this send.
    pub(crate) fn said_to(&self, send: usize) -> Option<&Said> {
        self.heads.iter().rev().filter(|head| head.send == send).find_map(|head| head.said.as_ref())
    }

    /// How often the operation acted, if every head that the server did not refuse is an act.
    pub(crate) fn acts(&self) -> usize {
        self.heads.iter().filter(|head| head.kind == Kind::Attempt && !head.refused).count()
    }
}

/// Everything in the order of time.
impl fmt::Display for Record {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut lines: Vec<(Instant, String)> = Vec::new();
        for (number, call) in self.calls.iter().enumerate() {
            let told = call.deadline.map_or_else(String::new, |at| format!(", deadline at {}", self.offset(at)));
            lines.push((call.began, format!("caller  call {number}{told}")));
            if let Some(ended) = call.ended {
                lines.push((ended, format!("caller  call {number} ended")));
            }
        }
        for (number, send) in self.sends.iter().enumerate() {
            let answered = send.answered.map_or_else(|| "no answer".to_owned(), |status| format!("got {}", status.as_u16()));
            lines.push((send.began, format!("client  sends {number} ({:?}, call {}): {answered}", send.kind, send.call)));
        }
        for head in &self.heads {
            let refused = if head.refused { ", refused" } else { "" };
            lines.push((head.at, format!("server  has the head of {} ({:?}): {}{refused}", head.send, head.kind, head.fault)));
            if let Some(said) = &head.said {
                let Said { at, status, asked, .. } = said;
                lines.push((*at, format!("server  answers {}: {}, {asked:?}", head.send, status.as_u16())));
            }
        }
        lines.sort_by_key(|(at, _)| *at);
        lines.iter().try_for_each(|(at, line)| writeln!(f, "  {}  {line}", self.offset(*at)))
    }
}

impl Record {
    fn offset(&self, at: Instant) -> String {
        format!("{:>8.3} s", at.saturating_duration_since(self.opened).as_secs_f64())
    }
}
