//! What is looked at.

use serde::{Serialize, Serializer};

use super::finding::{Finding, Severity};

/// One thing that is looked at. `docs/doctor.md` has a section about each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Check {
    UnattendedSagas,
    StuckSagas,
    FailedRollbacks,
    Definitions,
    Nodes,
    Jobs,
    Outbox,
    DeadLetters,
    Alerts,
    Webhooks,
    Lifecycles,
    Clock,
    DatabaseVersion,
    SchemaVersion,
    Writes,
    Retention,
    ParkedItems,
    DiskSpace,
    WriteAheadLog,
    Settings,
}

impl Serialize for Check {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

impl Check {
    pub(crate) const ALL: [Self; 20] = [
        Self::UnattendedSagas,
        Self::StuckSagas,
        Self::FailedRollbacks,
        Self::Definitions,
        Self::Nodes,
        Self::Jobs,
        Self::Outbox,
        Self::DeadLetters,
        Self::Alerts,
        Self::Webhooks,
        Self::Lifecycles,
        Self::Clock,
        Self::DatabaseVersion,
        Self::SchemaVersion,
        Self::Writes,
        Self::Retention,
        Self::ParkedItems,
        Self::DiskSpace,
        Self::WriteAheadLog,
        Self::Settings,
    ];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::UnattendedSagas => "unattended_sagas",
            Self::StuckSagas => "stuck_sagas",
            Self::FailedRollbacks => "failed_rollbacks",
            Self::Definitions => "definitions",
            Self::Nodes => "nodes",
            Self::Jobs => "jobs",
            Self::Outbox => "outbox",
            Self::DeadLetters => "dead_letters",
            Self::Alerts => "alerts",
            Self::Webhooks => "webhooks",
            Self::Lifecycles => "lifecycles",
            Self::Clock => "clock",
            Self::DatabaseVersion => "database_version",
            Self::SchemaVersion => "schema_version",
            Self::Writes => "writes",
            Self::Retention => "retention",
            Self::ParkedItems => "parked_items",
            Self::DiskSpace => "disk_space",
            Self::WriteAheadLog => "write_ahead_log",
            Self::Settings => "settings",
        }
    }

    /// Something that is not going to move by itself.
    pub(super) fn error(self, subject: Option<String>, message: String, action: String) -> Finding {
        Finding { check: self, severity: Severity::Error, subject, message, action }
    }

    /// Something that lags, or is soon a problem.
    pub(super) fn warning(self, subject: Option<String>, message: String, action: String) -> Finding {
        Finding { check: self, severity: Severity::Warning, subject, message, action }
    }

    /// That nobody knows.
    pub(super) fn impossible(self, why: &str) -> Finding {
        self.error(
            None,
            format!("this could not be looked at: {why}"),
            "see that the database answers: GET /health/ready and the server's log say more".to_owned(),
        )
    }
}
