//! What is found, and what is told of it.

use serde::Serialize;

use super::check::Check;
use backstitch_api::time::Time;

/// Findings of one check that are told one by one.
pub(super) const LISTED: usize = 10;
/// Things of one kind that are looked at.
pub(super) const LOOKED_AT: usize = 100;

/// How bad it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Severity {
    /// It lags, or is soon a problem.
    Warning,
    /// It is not going to move by itself.
    Error,
}

impl Severity {
    pub(crate) const ALL: [Self; 2] = [Self::Warning, Self::Error];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Warning => "warning",
            Self::Error => "error",
        }
    }
}

/// Something that needs a look.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, utoipa::ToSchema)]
#[schema(as = DoctorFinding)]
pub(crate) struct Finding {
    /// Which check found it.
    #[schema(value_type = String)]
    pub(crate) check: Check,
    pub(crate) severity: Severity,
    /// What it is about: a saga, a topic, a node, a file and so on; `null` where it is about the whole.
    pub(crate) subject: Option<String>,
    /// What is wrong.
    pub(crate) message: String,
    /// What to do about it.
    pub(crate) action: String,
}

/// How one check went.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, utoipa::ToSchema)]
#[schema(as = DoctorCheck)]
pub(crate) struct Checked {
    /// Its name.
    pub(crate) name: &'static str,
    /// `ok`, or the worst that it found: `warning` or `error`.
    pub(crate) status: &'static str,
    /// How many findings it has, those that are not listed included.
    pub(crate) findings: usize,
}

/// How everything is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, utoipa::ToSchema)]
#[schema(as = Doctor)]
pub(crate) struct Diagnosis {
    /// `ok`, or `attention` where there is a finding.
    pub(crate) status: &'static str,
    pub(crate) checked_at: Time,
    /// What needs a look, the worst first. Of one check ten are listed, and a last one counts the others.
    pub(crate) findings: Vec<Finding>,
    /// Every check there is.
    pub(crate) checks: Vec<Checked>,
    /// How many findings each check has of each severity.
    #[serde(skip)]
    pub(crate) counts: Vec<(Check, Severity, usize)>,
}

impl Diagnosis {
    /// Puts together what was found.
    pub(super) fn of(found: &[Finding], checked_at: Time) -> Self {
        let of = |check: Check| found.iter().filter(move |finding| finding.check == check);
        let checks = Check::ALL.map(|check| Checked {
            name: check.name(),
            status: of(check).map(|finding| finding.severity).max().map_or("ok", Severity::name),
            findings: of(check).count(),
        });
        let count = |check, severity| of(check).filter(|finding| finding.severity == severity).count();
        let kinds = Check::ALL.into_iter().flat_map(|check| Severity::ALL.map(|severity| (check, severity)));
        let counts = kinds.map(|(check, severity)| (check, severity, count(check, severity))).collect();
        let status = if found.is_empty() { "ok" } else { "attention" };
        let mut findings: Vec<Finding> =
            Check::ALL.into_iter().flat_map(|check| listed(of(check).cloned().collect())).collect();
        // Those of one severity stay in the order of their checks.
        findings.sort_by_key(|finding| std::cmp::Reverse(finding.severity));
        Self { status, checked_at, findings, checks: checks.to_vec(), counts }
    }
}

/// The worst findings of a check, with a count of the others.
fn listed(mut findings: Vec<Finding>) -> Vec<Finding> {
    findings.sort_by_key(|finding| std::cmp::Reverse(finding.severity));
    let others = findings.split_off(findings.len().min(LISTED));
    if let Some(worst) = others.first() {
        let many = if others.len() + LISTED >= LOOKED_AT { "or more " } else { "" };
        findings.push(Finding {
            subject: None,
            message: format!("{} {many}of the same kind are not listed", others.len()),
            action: "deal with those that are listed: the others follow as these go".to_owned(),
            ..worst.clone()
        });
    }
    findings
}

#[cfg(test)]
mod tests {
    use backstitch::Timestamp;

    use super::*;

    fn finding(check: Check, severity: Severity, subject: usize) -> Finding {
        let (message, action) = ("it is so".to_owned(), "do so".to_owned());
        Finding { check, severity, subject: Some(subject.to_string()), message, action }
    }

    fn diagnosis(found: &[Finding]) -> Diagnosis {
        Diagnosis::of(found, Time(Timestamp::from_micros(0)))
    }

    #[test]
    fn without_findings_all_is_well() {
        let well = diagnosis(&[]);
        assert_eq!((well.status, well.findings.len(), well.checks.len()), ("ok", 0, Check::ALL.len()));
        assert!(well.checks.iter().all(|check| check.status == "ok" && check.findings == 0));
        assert_eq!(well.counts.len(), 2 * Check::ALL.len());
        assert!(well.counts.iter().all(|(.., count)| *count == 0));
    }

    #[test]
    fn errors_come_first_and_a_check_is_as_bad_as_its_worst_finding() {
        let found = diagnosis(&[
            finding(Check::Outbox, Severity::Warning, 1),
            finding(Check::DiskSpace, Severity::Error, 2),
            finding(Check::Outbox, Severity::Error, 3),
        ]);
        assert_eq!(found.status, "attention");
        let order: Vec<_> = found.findings.iter().filter_map(|finding| finding.subject.as_deref()).collect();
        assert_eq!(order, ["3", "2", "1"]);
        let status = |name| found.checks.iter().find(|check| check.name == name).map(|check| check.status);
        assert_eq!((status("outbox"), status("jobs")), (Some("error"), Some("ok")));
        assert!(found.counts.contains(&(Check::Outbox, Severity::Warning, 1)));
    }

    #[test]
    fn ten_are_listed_and_the_others_counted() {
        let many = |count| -> Vec<Finding> {
            (0..count).map(|nth| finding(Check::Jobs, Severity::Warning, nth)).collect()
        };
        for (count, listed, last) in [
            (10, 10, "it is so"),
            (11, 11, "1 of the same kind are not listed"),
            (99, 11, "89 of the same kind are not listed"),
            (100, 11, "90 or more of the same kind are not listed"),
        ] {
            let found = diagnosis(&many(count));
            assert_eq!(found.findings.len(), listed, "{count}");
            assert_eq!(found.findings.last().unwrap().message, last);
            let jobs = found.checks.iter().find(|check| check.name == "jobs").unwrap();
            assert_eq!(jobs.findings, count);
        }
    }

    #[test]
    fn names_are_told_once() {
        let mut names = Check::ALL.map(Check::name);
        names.sort_unstable();
        assert!(names.windows(2).all(|pair| pair[0] != pair[1]));
    }
}
