//! Values on their way to and from the database.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use backstitch_kernel::{SagaId, Timestamp};
use tokio_postgres::Row;
use tokio_postgres::types::FromSql;

use super::fault;
use crate::store::{Corrupt, Error};

/// The earliest time `PostgreSQL` can hold is some centuries before this; nobody means an earlier one.
const EARLIEST_MICROS: i64 = -188_000_000_000_000_000;

/// Far longer than any lease or wait, and short enough that adding it to a time never leaves the calendar.
const LONGEST: Duration = Duration::from_secs(100 * 365 * 24 * 60 * 60);

/// A point in time as the driver takes it: exact to the microsecond.
#[must_use]
pub fn time(at: Timestamp) -> SystemTime {
    let micros = at.as_micros().max(EARLIEST_MICROS);
    let distance = Duration::from_micros(micros.unsigned_abs());
    if micros < 0 { UNIX_EPOCH - distance } else { UNIX_EPOCH + distance }
}

/// A point in time as the driver gives it.
#[must_use]
pub fn timestamp(time: SystemTime) -> Timestamp {
    let micros = |distance: Duration| i64::try_from(distance.as_micros()).unwrap_or(i64::MAX);
    Timestamp::from_micros(match time.duration_since(UNIX_EPOCH) {
        Ok(after) => micros(after),
        Err(before) => -micros(before.duration()),
    })
}

/// How long something lasts, in milliseconds, at least one.
pub(crate) fn millis(duration: Duration) -> i64 {
    i64::try_from(duration.min(LONGEST).as_millis()).map_or(i64::MAX, |millis| millis.max(1))
}

/// How long something waits, in microseconds, which may be not at all.
pub(crate) fn micros(duration: Duration) -> i64 {
    i64::try_from(duration.min(LONGEST).as_micros()).unwrap_or(i64::MAX)
}

/// A number of rows.
pub(crate) fn limit(rows: usize) -> i64 {
    i64::try_from(rows).unwrap_or(i64::MAX)
}

/// `PostgreSQL` text holds every character but this one.
pub(crate) fn is_text(value: &str) -> bool {
    !value.contains('\0')
}

/// Text that only people read; what the database cannot hold of it is marked.
pub(crate) fn readable(text: &str) -> String {
    text.replace('\0', "\u{fffd}")
}

/// The value of a column; a wrong type is somebody else's table.
pub(crate) fn get<'r, T: FromSql<'r>>(row: &'r Row, column: &str) -> Result<T, Error> {
    row.try_get(column).map_err(|why| fault::unreadable(&why))
}

/// The time in a column.
pub(crate) fn get_time(row: &Row, column: &str) -> Result<Timestamp, Error> {
    get(row, column).map(timestamp)
}

/// The number in a column that holds none below zero.
pub(super) fn get_count<N: TryFrom<i32>>(
    row: &Row,
    table: &'static str,
    column: &'static str,
    saga: SagaId,
) -> Result<N, Error> {
    let value: i32 = get(row, column)?;
    N::try_from(value).map_err(|_| Corrupt::of(table, column, saga, &format!("{value} is below zero")).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_come_back_to_the_microsecond() {
        for micros in [0, 1, -1, 1_794_781_654_973_208, -62_135_596_800_000_001, i64::MAX] {
            let at = Timestamp::from_micros(micros);
            assert_eq!(timestamp(time(at)), at);
        }
    }

    #[test]
    fn a_time_before_the_calendar_is_its_beginning() {
        let at = Timestamp::from_micros(i64::MIN);
        assert_eq!(timestamp(time(at)), Timestamp::from_micros(EARLIEST_MICROS));
    }

    #[test]
    fn no_lease_is_too_long_for_the_calendar() {
        assert_eq!(millis(Duration::MAX), millis(LONGEST));
        assert_eq!(millis(Duration::from_micros(3)), 1);
    }

    #[test]
    fn no_wait_is_too_long_for_the_calendar() {
        assert_eq!(micros(Duration::MAX), micros(LONGEST));
        assert_eq!((micros(Duration::ZERO), micros(Duration::from_millis(3))), (0, 3000));
    }
}
