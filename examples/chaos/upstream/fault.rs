//! What the server does to one write. Drawn from the operation's seed and the number of the
//! arrival.

use std::time::Duration;

use http::StatusCode;

use crate::{
    chance::{Chance, Subject},
    class::{Class, TRUSTED},
};

/// One fault, by where it strikes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fault {
    None,

    // ===== before anything is done =====
    /// 425.
    TooEarly,
    Busy(StatusCode),
    Rejected,
    /// REFUSED_STREAM; on HTTP/1 the connection ends.
    RefusedStream,
    /// The connection or stream ends with the body unread.
    KilledAtHead(End),
    /// Everything is read, nothing is said.
    Deaf,

    // ===== the write is done =====
    /// Later than the client may be waiting.
    Late(Duration),
    /// No answer.
    Lost(End),
    /// The answer comes late.
    Slow(Duration),
    /// A failure is told.
    FalseAlarm(StatusCode),
    /// The connection breaks within the answer's head.
    TornHead(usize),
    CutBody,
    StalledBody,
    TricklingBody(Duration),
    /// 303 to a page where anything may happen.
    SeeOther,
    /// GOAWAY with the body still unread; on HTTP/1 the connection is not kept.
    GoAway,
    /// The connection is closed so long after the answer, as a server with a short idle limit does;
    /// on HTTP/2 with a GOAWAY.
    IdleClose(Duration),
}

/// How a connection or a stream ends before its answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    /// FIN.
    Close,
    /// RST.
    Reset,
    /// RST_STREAM; on HTTP/1 the same as a close.
    Stream(h2::Reason),
}

/// Whether a connection has other requests at the same time: with each that it dies of, they die as
/// well.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Shared {
    Alone,
    WithOthers,
}

/// How much of a write the server has when it does it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ActsOn {
    Head,
    WholeRequest,
}

impl Fault {
    pub(super) fn draw(seed: u64, class: Class, arrival: u64, shared: Shared) -> (Self, ActsOn, Chance) {
        let mut chance = Chance::of(seed, Subject::Write(arrival));
        let acts_on = chance.weighted(&[(2, ActsOn::WholeRequest), (1, ActsOn::Head)]);
        (Self::one(&mut chance, class, shared), acts_on, chance)
    }

    fn one(chance: &mut Chance, class: Class, shared: Shared) -> Self {
        let (before, after) = (End::draw(chance, shared), End::draw(chance, shared));
        let torn = if shared == Shared::Alone { 4 } else { 1 };
        let delay = chance.millis(50, 450);
        let busy = chance.weighted(&[
            (4, StatusCode::SERVICE_UNAVAILABLE),
            (4, StatusCode::TOO_MANY_REQUESTS),
            (1, StatusCode::INTERNAL_SERVER_ERROR),
            (1, StatusCode::BAD_GATEWAY),
            (1, StatusCode::GATEWAY_TIMEOUT),
            (1, StatusCode::REQUEST_TIMEOUT),
        ]);
        // A class that is trusted not to have acted under this status keeps its word.
        let alarm = if class == Class::Trusting && busy == TRUSTED { StatusCode::INTERNAL_SERVER_ERROR } else { busy };
        let (bytes, pause) = ((chance.bits() % 120) as usize, chance.millis(5, 60));
        chance.weighted(&[
            (36, Self::None),
            (3, Self::TooEarly),
            (8, Self::Busy(busy)),
            (1, Self::Rejected),
            (4, Self::RefusedStream),
            (6, Self::KilledAtHead(before)),
            (2, Self::Deaf),
            (5, Self::Late(delay)),
            (8, Self::Lost(after)),
            (4, Self::Slow(delay)),
            (6, Self::FalseAlarm(alarm)),
            (torn, Self::TornHead(bytes)),
            (3, Self::CutBody),
            (2, Self::StalledBody),
            (2, Self::TricklingBody(pause)),
            (3, Self::SeeOther),
            (3, Self::GoAway),
            (3, Self::IdleClose(pause)),
        ])
    }

    /// Whether the write is done where the server acts on its head alone.
    pub(super) const fn acts(self) -> bool {
        !matches!(self, Self::TooEarly | Self::Busy(_) | Self::Rejected | Self::RefusedStream)
    }

    /// Whether it can be answered with the body unread.
    pub(super) const fn answers_early(self) -> bool {
        matches!(self, Self::TooEarly | Self::Busy(_) | Self::Rejected)
    }

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::TooEarly => "too early",
            Self::Busy(_) => "busy",
            Self::Rejected => "rejected",
            Self::RefusedStream => "stream refused",
            Self::KilledAtHead(_) => "killed at the head",
            Self::Deaf => "no answer at all",
            Self::Late(_) => "done late",
            Self::Lost(_) => "done, answer lost",
            Self::Slow(_) => "done, answer late",
            Self::FalseAlarm(_) => "done, failure told",
            Self::TornHead(_) => "done, head torn",
            Self::CutBody => "done, body cut",
            Self::StalledBody => "done, body stalled",
            Self::TricklingBody(_) => "done, body trickling",
            Self::SeeOther => "done, redirected",
            Self::GoAway => "goaway",
            Self::IdleClose(_) => "idle close",
        }
    }
}

impl End {
    fn draw(chance: &mut Chance, shared: Shared) -> Self {
        let connection = if shared == Shared::Alone { 12 } else { 1 };
        chance.weighted(&[
            (8, Self::Stream(h2::Reason::INTERNAL_ERROR)),
            (4, Self::Stream(h2::Reason::CANCEL)),
            (4, Self::Stream(h2::Reason::ENHANCE_YOUR_CALM)),
            (connection, Self::Close),
            (connection, Self::Reset),
        ])
    }
}
