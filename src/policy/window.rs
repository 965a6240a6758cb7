//! Sums over the last stretch of time: what is older is forgotten, a tenth of the stretch at once.

use std::time::Duration;

use super::instant::Instant;

/// How finely time is forgotten. Ten, as in Finagle and tower: an entry lives between 9/10 of the
/// window and the whole of it.
const SLICES: u64 = 10;

/// One value per slice of the last stretch of time. Its clock is what the callers say it is, and
/// never runs backwards: an instant before one seen earlier counts as that one, so nothing is
/// refilled or remembered twice.
#[derive(Debug, Clone)]
pub(super) struct Window<T> {
    born: Instant,
    /// Microseconds since `born`.
    clock: u64,
    /// Microseconds of one slice, at least 1.
    length: u64,
    slices: [T; SLICES as usize],
}

impl<T: Copy + Default> Window<T> {
    pub(super) fn new(whole: Duration, born: Instant) -> Self {
        Self { born, clock: 0, length: (micros(whole) / SLICES).max(1), slices: [T::default(); SLICES as usize] }
    }

    /// Moves the clock, forgets what has left the window, and answers how many microseconds have
    /// passed.
    pub(super) fn advance(&mut self, now: Instant) -> u64 {
        let passed = self.since(now);
        let now = self.clock.saturating_add(passed);
        let (last, current) = (self.slice(), now / self.length);
        for left in (last..current).take(SLICES as usize) {
            self.slices[place(left + 1)] = T::default();
        }
        self.clock = now;
        passed
    }

    /// How many microseconds have passed since the clock was last moved.
    pub(super) fn since(&self, now: Instant) -> u64 {
        micros(now.saturating_duration_since(self.born)).saturating_sub(self.clock)
    }

    /// The number of the current slice, counted from birth.
    pub(super) const fn slice(&self) -> u64 {
        self.clock / self.length
    }

    /// The value of the current slice.
    pub(super) const fn current(&mut self) -> &mut T {
        &mut self.slices[place(self.slice())]
    }

    /// The value of a slice, unless it has left the window.
    pub(super) fn remembered(&mut self, slice: u64) -> Option<&mut T> {
        let age = self.slice().checked_sub(slice)?;
        (age < SLICES).then(|| &mut self.slices[place(slice)])
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = T> + '_ {
        self.slices.iter().copied()
    }

    /// Every value with the number of its slice. Before the first window is full, the slices before
    /// birth are empty.
    pub(super) fn oldest_first(&mut self) -> impl Iterator<Item = (u64, &mut T)> {
        let current = self.slice();
        let (newer, older) = self.slices.split_at_mut(place(current) + 1);
        let numbers = (0..SLICES).map(move |nth| (current.saturating_add(nth + 1)).saturating_sub(SLICES));
        numbers.zip(older.iter_mut().chain(newer))
    }
}

const fn place(slice: u64) -> usize {
    (slice % SLICES) as usize
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "an instant to count from; nothing here lets time pass")]
mod tests {
    use super::*;

    #[test]
    fn a_slice_is_forgotten_one_whole_window_after_it_began() {
        let born = Instant::now();
        let mut window = Window::<u64>::new(Duration::from_secs(1), born);
        *window.current() = 7;
        for (millis, sum) in [(0, 7), (500, 7), (999, 7), (1000, 0)] {
            window.advance(born + Duration::from_millis(millis));
            assert_eq!(window.iter().sum::<u64>(), sum, "after {millis} ms");
        }
    }

    #[test]
    fn the_oldest_slice_comes_first() {
        let born = Instant::now();
        let mut window = Window::<u64>::new(Duration::from_secs(1), born);
        for slice in 0..25 {
            window.advance(born + Duration::from_millis(100 * slice));
            *window.current() = slice;
            let kept: Vec<(u64, u64)> =
                window.oldest_first().map(|(number, value)| (number, *value)).filter(|(_, value)| *value > 0).collect();
            assert!(kept.is_sorted() && kept.iter().all(|(number, value)| number == value), "{kept:?}");
            assert_eq!(kept.last().map_or(0, |(_, value)| *value), slice);
        }
    }

    #[test]
    fn a_long_silence_forgets_everything_at_once() {
        let born = Instant::now();
        let mut window = Window::<u64>::new(Duration::ZERO, born);
        window.oldest_first().for_each(|(_, value)| *value = 1);
        assert_eq!(window.advance(born + Duration::from_secs(1 << 30)), 1_000_000 << 30);
        assert_eq!(window.iter().sum::<u64>(), 0);
    }

    #[test]
    fn a_slice_of_the_past_or_the_future_is_not_remembered() {
        let born = Instant::now();
        let mut window = Window::<u64>::new(Duration::from_secs(1), born);
        window.advance(born + Duration::from_secs(2));
        for (slice, remembered) in [(0, false), (10, false), (11, true), (20, true), (21, false), (u64::MAX, false)] {
            assert_eq!(window.remembered(slice).is_some(), remembered, "slice {slice}");
        }
    }
}
