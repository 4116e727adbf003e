//! What a key is for.

use std::fmt;
use std::str::FromStr;

/// What the holder of a key may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Role {
    /// Reads.
    Viewer,
    /// Also starts and cancels.
    Client,
    /// Leases jobs and reports on them, and nothing else.
    Worker,
    /// A client that also pauses, resumes, resolves, requeues, retries and transitions.
    Operator,
    /// Everything.
    Admin,
}

impl Role {
    pub(crate) const ALL: [Self; 5] = [Self::Viewer, Self::Client, Self::Worker, Self::Operator, Self::Admin];

    /// Its name.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Viewer => "viewer",
            Self::Client => "client",
            Self::Worker => "worker",
            Self::Operator => "operator",
            Self::Admin => "admin",
        }
    }

    /// Whether this role suffices where `needed` is needed.
    pub(crate) fn suffices_for(self, needed: Self) -> bool {
        match needed {
            Self::Viewer => matches!(self, Self::Viewer | Self::Client | Self::Operator | Self::Admin),
            Self::Client => matches!(self, Self::Client | Self::Operator | Self::Admin),
            Self::Worker => matches!(self, Self::Worker | Self::Admin),
            Self::Operator => matches!(self, Self::Operator | Self::Admin),
            Self::Admin => matches!(self, Self::Admin),
        }
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Role {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        let found = Self::ALL.into_iter().find(|role| role.as_str() == name);
        found.ok_or_else(|| format!("`{name}` is not a role: use {}", Self::ALL.map(Self::as_str).join(", ")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_role_does_what_it_is_for_and_no_more() {
        let may = |role: Role| Role::ALL.map(|needed| role.suffices_for(needed));
        assert_eq!(may(Role::Viewer), [true, false, false, false, false]);
        assert_eq!(may(Role::Client), [true, true, false, false, false]);
        assert_eq!(may(Role::Worker), [false, false, true, false, false]);
        assert_eq!(may(Role::Operator), [true, true, false, true, false]);
        assert_eq!(may(Role::Admin), [true; 5]);
    }

    #[test]
    fn an_unknown_role_is_refused_with_those_there_are() {
        let refused = "root".parse::<Role>().unwrap_err();
        assert!(refused.contains("viewer, client, worker, operator, admin"), "{refused}");
    }
}
