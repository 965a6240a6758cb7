//! How long servers keep a connection that nobody uses, as they say it: a request that goes out on
//! a connection at that moment is lost, and nobody can tell whether it was processed.

use std::{
    sync::{Mutex, PoisonError},
    time::Duration,
};

use reqwest::Url;

use crate::platform::Instant;

use crate::{policy::defaults, request::origin::Origin};

/// What the origins of one client say. What comes once it is full is not noted.
#[derive(Debug, Default)]
pub(crate) struct KeptAlive(Mutex<Vec<Place>>);

#[derive(Debug)]
struct Place {
    origin: Origin,
    timeout: Duration,
    /// When the origin said it first: since then a connection may be waiting.
    since: Instant,
}

impl KeptAlive {
    pub(crate) fn note(&self, url: &Url, timeout: Duration, now: Instant) {
        let origin = Origin::of(url);
        let mut places = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let has_room = places.len() < defaults::KEPT_ALIVE;
        match places.iter_mut().find(|place| place.origin == origin) {
            Some(place) => place.timeout = timeout,
            None if has_room => places.push(Place { origin, timeout, since: now }),
            None => {}
        }
    }

    /// Whether a connection to this origin may have waited by then for as long as the server keeps
    /// it, give or take a second.
    pub(crate) fn may_have_ended(&self, url: &Url, then: Instant) -> bool {
        const EDGE: Duration = Duration::from_secs(1);
        let origin = Origin::of(url);
        let places = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let place = places.iter().find(|place| place.origin == origin);
        place.is_some_and(|place| then.saturating_duration_since(place.since).saturating_add(EDGE) >= place.timeout)
    }
}
