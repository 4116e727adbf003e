//! The room that a database in a file has.

use backstitch::store::diagnostics::DatabaseFile;

use super::check::Check;
use super::finding::Finding;
use super::words::bytes;
use crate::config::Doctor as Limits;

/// What is known about it.
pub(super) struct Facts {
    pub(super) file: DatabaseFile,
    /// How many bytes can still be written to the disk that it is on.
    pub(super) free: u64,
    /// How many the disk has in all.
    pub(super) total: u64,
}

pub(super) fn judge(facts: &Facts, limits: &Limits) -> Vec<Finding> {
    disk(facts, limits).into_iter().chain(log(&facts.file, limits.wal_bytes)).collect()
}

fn disk(facts: &Facts, limits: &Limits) -> Option<Finding> {
    let Facts { file, free, total } = facts;
    // Beyond any disk there is: a hundredth of it first, so that nothing overflows.
    let is_below = |least: u64, percent: u64| *free < least || *free < (total / 100).saturating_mul(percent);
    let subject = Some(file.path.display().to_string());
    let message = format!("the disk has {} left of {}", bytes(*free), bytes(*total));
    let action =
        "make room on the disk that the file is on, or move the file to a larger one; shorter times in \
                  `[retention]` keep it from growing"
            .to_owned();
    if is_below(limits.disk_error_bytes, limits.disk_error_percent) {
        let message = format!("{message}: soon nothing can be written, and no saga goes on then");
        Some(Check::DiskSpace.error(subject, message, action))
    } else if is_below(limits.disk_warning_bytes, limits.disk_warning_percent) {
        Some(Check::DiskSpace.warning(subject, message, action))
    } else {
        None
    }
}

fn log(file: &DatabaseFile, limit: u64) -> Option<Finding> {
    (file.wal_bytes > limit).then(|| {
        Check::WriteAheadLog.warning(
            Some(format!("{}-wal", file.path.display())),
            format!(
                "the write-ahead log has grown to {}: somebody reads the file for so long that it cannot be emptied",
                bytes(file.wal_bytes)
            ),
            format!(
                "end whoever has {} open besides the server (`fuser`, `lsof`): a `sqlite3` shell or a backup in the middle \
                 of a transaction",
                file.path.display()
            ),
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::finding::Severity;

    const GIB: u64 = 1 << 30;

    fn told(free: u64, total: u64, wal_bytes: u64) -> Vec<(Check, Severity)> {
        let file = DatabaseFile { path: "/data/backstitch.db".into(), wal_bytes };
        let found = judge(&Facts { file, free, total }, &Limits::default());
        assert!(found.iter().all(|it| it.subject.as_ref().unwrap().starts_with("/data/backstitch.db")));
        found.into_iter().map(|it| (it.check, it.severity)).collect()
    }

    #[test]
    fn room_is_judged_by_its_size_and_by_its_part_of_the_disk() {
        let (warning, error) =
            ([(Check::DiskSpace, Severity::Warning)], [(Check::DiskSpace, Severity::Error)]);
        for (free, total, expected) in [
            (11 * GIB, 100 * GIB, &[][..]),
            (9 * GIB, 100 * GIB, &warning[..]),
            (GIB - 1, 5 * GIB, &warning[..]),
            (GIB, 5 * GIB, &[][..]),
            (2 * GIB, 300 * GIB, &error[..]),
            ((100 << 20) - 1, GIB, &error[..]),
            (100 << 20, GIB, &warning[..]),
            (u64::MAX, u64::MAX, &[][..]),
        ] {
            assert_eq!(told(free, total, 0), expected, "{free} of {total}");
        }
    }

    #[test]
    fn a_log_that_cannot_be_emptied_is_a_warning() {
        assert_eq!(told(50 * GIB, 100 * GIB, 256 << 20), []);
        assert_eq!(told(50 * GIB, 100 * GIB, (256 << 20) + 1), [(Check::WriteAheadLog, Severity::Warning)]);
    }
}
