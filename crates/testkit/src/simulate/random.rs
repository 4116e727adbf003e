//! Reproducible randomness.

/// `SplitMix64`: small, fast, and the same everywhere.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// The sequence of this seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next number.
    pub fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut x = self.0;
        x = (x ^ (x >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        x ^ (x >> 31)
    }

    /// A number below `end`; zero when `end` is.
    pub fn below(&mut self, end: u64) -> u64 {
        // The bias of the remainder is irrelevant for numbers this small.
        self.draw().checked_rem(end).unwrap_or(0)
    }

    /// A random index below `end`.
    pub fn index(&mut self, end: usize) -> usize {
        let end = u64::try_from(end).unwrap_or(u64::MAX);
        usize::try_from(self.below(end)).unwrap_or(0)
    }

    /// `true` with this probability in percent.
    pub fn chance(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    /// One of these.
    pub fn pick<T: Copy, const N: usize>(&mut self, of: [T; N]) -> T {
        of[self.index(N)]
    }
}
