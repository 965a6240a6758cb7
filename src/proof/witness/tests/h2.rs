//! HTTP/2 by hand, as far as the tests need it.

use super::support::{Peer, Wire};

const PREFACE: usize = 24;
const HEADERS: u8 = 1;
const DATA: u8 = 0;
const END_STREAM: u8 = 1;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Frame {
    pub(super) kind: u8,
    pub(super) flags: u8,
    pub(super) stream: u32,
    pub(super) payload: Vec<u8>,
}

impl Frame {
    pub(super) fn is_of_request(&self) -> bool {
        self.kind == HEADERS || self.kind == DATA
    }

    pub(super) fn ends_request(&self) -> bool {
        self.is_of_request() && self.flags & END_STREAM != 0
    }
}

/// The frames that follow the connection preface.
pub(super) fn h2_frames(bytes: &[u8]) -> Vec<Frame> {
    let mut bytes = bytes.get(PREFACE..).unwrap_or_default();
    let mut frames = vec![];
    while let [a, b, c, kind, flags, s1, s2, s3, s4, rest @ ..] = bytes {
        let length = u32::from_be_bytes([0, *a, *b, *c]) as usize;
        let Some(payload) = rest.get(..length) else { break };
        let stream = u32::from_be_bytes([*s1, *s2, *s3, *s4]);
        frames.push(Frame { kind: *kind, flags: *flags, stream, payload: payload.to_vec() });
        bytes = &rest[length..];
    }
    frames
}

pub(super) fn h2_frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    [&length[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

/// `:status: 200`, the answer goes on.
pub(super) fn h2_ok_head(stream: u32) -> Vec<u8> {
    h2_frame(HEADERS, 4, stream, &[0x88])
}

/// `:status: 200`, and that is all.
pub(super) fn h2_ok(stream: u32) -> Vec<u8> {
    h2_frame(HEADERS, 4 | END_STREAM, stream, &[0x88])
}

impl Wire {
    /// Settings with windows that never fill, and the acknowledgement of the client's.
    pub(super) async fn greet_h2(&mut self) {
        self.at_least(PREFACE + 9).await;
        let settings = h2_frame(4, 0, 0, &[0, 4, 0x7f, 0xff, 0xff, 0xff]);
        let window = h2_frame(8, 0, 0, &0x3fff_ffff_u32.to_be_bytes());
        self.say([settings, window, h2_frame(4, 1, 0, &[])].concat()).await;
    }

    /// The stream of the next complete request; `None` if the connection ends before.
    pub(super) async fn h2_request(&mut self) -> Option<u32> {
        loop {
            let ended = h2_frames(&self.all()).into_iter().filter(Frame::ends_request).nth(self.taken);
            if let Some(frame) = ended {
                self.taken += 1;
                return Some(frame.stream);
            }
            self.hear().await?;
        }
    }
}

impl Peer {
    /// How many complete HTTP/2 requests arrived.
    pub(super) fn h2_requests(&self) -> usize {
        self.everything().iter().map(|bytes| h2_frames(bytes).iter().filter(|frame| frame.ends_request()).count()).sum()
    }
}
