//! How much one transaction removes.

use crate::store::retention::Bulk;

/// Rows that one transaction removes at most, where what belongs together has no more.
const ROWS: u64 = 2_000;
/// What one transaction removes, and an export holds in memory, at most, in bytes, where what belongs together has no more.
const BYTES: u64 = 8 << 20;

/// How many of these go together, from the first on: as many as nobody has to wait for, and at least one, since what belongs
/// together goes together.
pub(super) fn fitting(bulks: impl IntoIterator<Item = Bulk>) -> usize {
    let mut sum = Bulk::default();
    let fits = |(nth, bulk): &(usize, Bulk)| {
        sum.rows = sum.rows.saturating_add(bulk.rows);
        sum.bytes = sum.bytes.saturating_add(bulk.bytes);
        *nth == 0 || (sum.rows <= ROWS && sum.bytes <= BYTES)
    };
    bulks.into_iter().enumerate().take_while(fits).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_fits_goes_together_and_one_always_goes() {
        let rows = |rows| Bulk { rows, bytes: 10 };
        let bytes = |bytes| Bulk { rows: 1, bytes };
        assert_eq!(fitting([]), 0);
        assert_eq!(fitting([rows(10); 100]), 100);
        assert_eq!(fitting([rows(500); 100]), 4);
        assert_eq!(fitting([bytes(1 << 20); 100]), 8);
        assert_eq!(fitting([rows(u64::MAX), rows(1)]), 1, "it cannot be cut");
        assert_eq!(fitting([bytes(u64::MAX), rows(1)]), 1);
        assert_eq!(fitting([rows(1), rows(5_000)]), 1, "the large one goes alone");
    }
}
