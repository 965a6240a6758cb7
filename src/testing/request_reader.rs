//! Just enough of HTTP/1.1 (RFC 9112) to record what a client sends, in whatever pieces it comes.

use http::{HeaderMap, HeaderName, HeaderValue, Method, header};
use reqwest::Url;

/// The head of a request, and where its body ends.
pub(super) struct Head {
    pub(super) method: Method,
    pub(super) url: Url,
    pub(super) headers: HeaderMap,
}

impl Head {
    /// The length of the head, empty line included, once all of it has arrived.
    pub(super) fn length(unread: &[u8]) -> Option<usize> {
        unread.windows(4).position(|window| window == b"\r\n\r\n").map(|at| at + 4)
    }

    /// Reads a whole head; `None` if it is not HTTP/1.
    pub(super) fn parse(head: &[u8], base: &Url) -> Option<Self> {
        let head = std::str::from_utf8(head).ok()?;
        let mut lines = head.split("\r\n");
        let mut words = lines.next()?.split(' ');
        let method = Method::from_bytes(words.next()?.as_bytes()).ok()?;
        let url = effective_url(&method, words.next()?, base)?;
        words.next().filter(|version| version.starts_with("HTTP/1."))?;
        let mut headers = HeaderMap::new();
        for line in lines.take_while(|line| !line.is_empty()) {
            let (name, value) = line.split_once(':')?;
            headers.append(HeaderName::try_from(name).ok()?, HeaderValue::try_from(value.trim()).ok()?);
        }
        Some(Self { method, url, headers })
    }
}

/// RFC 9112 §3.2 and §3.3: origin form, absolute form (to a proxy), authority form (CONNECT).
fn effective_url(method: &Method, target: &str, base: &Url) -> Option<Url> {
    if *method == Method::CONNECT {
        Url::parse(&format!("http://{target}")).ok()
    } else if target.starts_with('/') {
        // Not `join`: a path that begins with two slashes would be taken for a host.
        Url::parse(&format!("{}{target}", base.as_str().trim_end_matches('/'))).ok()
    } else {
        Url::parse(target).ok().or_else(|| Some(base.clone()))
    }
}

/// How much of a body is still to come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Remaining {
    /// So many bytes.
    Length(u64),
    /// A chunk's size line comes next.
    ChunkSize,
    /// So many bytes of the chunk, then its line end.
    Chunk(u64),
    /// The line end of a chunk comes next.
    ChunkEnd,
    /// Trailer lines up to an empty one.
    Trailers,
    /// Nothing.
    Nothing,
}

impl Remaining {
    /// RFC 9112 §6.3: chunks if the head says so, else the announced length, else nothing.
    pub(super) fn announced_by(headers: &HeaderMap) -> Self {
        if headers.contains_key(header::TRANSFER_ENCODING) {
            return Self::ChunkSize;
        }
        let length = headers.get(header::CONTENT_LENGTH).and_then(|value| value.to_str().ok()).and_then(|value| value.parse().ok());
        Self::Length(length.unwrap_or(0)).settled()
    }

    /// Takes what it can from the front of `unread`, adds the payload to `body`, and returns how
    /// many bytes it took and what is still to come. A malformed chunk leaves the request
    /// incomplete for good.
    pub(super) fn take(mut self, unread: &[u8], body: &mut Vec<u8>) -> (usize, Self) {
        let mut taken = 0;
        loop {
            let rest = &unread[taken..];
            let (length, next) = match self {
                Self::Length(remaining) | Self::Chunk(remaining) => {
                    let length = usize::try_from(remaining).unwrap_or(usize::MAX).min(rest.len());
                    body.extend_from_slice(&rest[..length]);
                    (length, self.less(length as u64))
                }
                Self::ChunkSize | Self::ChunkEnd | Self::Trailers => match line(rest) {
                    Some(line) => (line.len() + 2, self.after_line(line)),
                    None => (0, self),
                },
                Self::Nothing => (0, self),
            };
            taken += length;
            if length == 0 && next == self {
                return (taken, next);
            }
            self = next;
        }
    }

    fn less(self, taken: u64) -> Self {
        match self {
            Self::Length(remaining) => Self::Length(remaining - taken).settled(),
            Self::Chunk(remaining) => Self::Chunk(remaining - taken).settled(),
            Self::ChunkSize | Self::ChunkEnd | Self::Trailers | Self::Nothing => self,
        }
    }

    fn settled(self) -> Self {
        match self {
            Self::Length(0) => Self::Nothing,
            Self::Chunk(0) => Self::ChunkEnd,
            Self::Length(_) | Self::Chunk(_) | Self::ChunkSize | Self::ChunkEnd | Self::Trailers | Self::Nothing => self,
        }
    }

    fn after_line(self, line: &[u8]) -> Self {
        match self {
            Self::ChunkSize => {
                chunk_size(line).map_or(Self::Length(u64::MAX), |size| if size == 0 { Self::Trailers } else { Self::Chunk(size) })
            }
            Self::ChunkEnd => Self::ChunkSize,
            Self::Trailers if line.is_empty() => Self::Nothing,
            Self::Length(_) | Self::Chunk(_) | Self::Trailers | Self::Nothing => self,
        }
    }
}

fn line(unread: &[u8]) -> Option<&[u8]> {
    unread.windows(2).position(|window| window == b"\r\n").map(|at| &unread[..at])
}

fn chunk_size(line: &[u8]) -> Option<u64> {
    let digits = line.split(|byte| *byte == b';').next()?;
    u64::from_str_radix(std::str::from_utf8(digits).ok()?.trim(), 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const CHUNKS: &[u8] = b"5;name=value\r\none c\r\n5\r\noffee\r\n0\r\nx-trailer: 1\r\nx-other: 2\r\n\r\n";

    fn base() -> Url {
        Url::parse("http://127.0.0.1:1234/").unwrap()
    }

    #[test]
    fn chunks_and_trailers_are_read_whatever_the_pieces() {
        for piece in 1..=CHUNKS.len() {
            let (mut unread, mut body, mut remaining) = (Vec::new(), Vec::new(), Remaining::ChunkSize);
            for bytes in CHUNKS.chunks(piece) {
                assert_ne!(remaining, Remaining::Nothing, "in pieces of {piece}");
                unread.extend_from_slice(bytes);
                let (taken, next) = remaining.take(&unread, &mut body);
                unread.drain(..taken);
                remaining = next;
            }
            assert_eq!((remaining, &body[..], unread.len()), (Remaining::Nothing, &b"one coffee"[..], 0), "in pieces of {piece}");
        }
    }

    #[test]
    fn what_follows_a_body_is_left_for_the_next_request() {
        let mut body = Vec::new();
        assert_eq!(Remaining::Length(3).take(b"abcGET /", &mut body), (3, Remaining::Nothing));
        assert_eq!(body, b"abc");
    }

    #[test]
    fn a_malformed_chunk_never_completes() {
        let mut body = Vec::new();
        let (_, remaining) = Remaining::ChunkSize.take(b"xyz\r\nabc\r\n0\r\n\r\n", &mut body);
        assert_ne!(remaining, Remaining::Nothing);
    }

    #[test]
    fn every_form_of_target_becomes_the_effective_url() {
        let url =
            |line: &str| Head::parse(format!("{line} HTTP/1.1\r\nhost: x\r\n\r\n").as_bytes(), &base()).map(|head| head.url.to_string());
        assert_eq!(url("GET /a?b=c").unwrap(), "http://127.0.0.1:1234/a?b=c");
        assert_eq!(url("GET //a").unwrap(), "http://127.0.0.1:1234//a");
        assert_eq!(url("GET http://origin.test/a").unwrap(), "http://origin.test/a");
        assert_eq!(url("CONNECT origin.test:443").unwrap(), "http://origin.test:443/");
        assert_eq!(url("OPTIONS *").unwrap(), base().as_str());
        assert_eq!(url("nonsense"), None);
    }
}
