//! Settings that do not fit together.

use super::check::Check;
use super::finding::Finding;
use crate::config::CappedCalls;

pub(super) fn judge(capped: Option<CappedCalls>) -> Vec<Finding> {
    let found = capped.map(|capped| {
        let CappedCalls { per_host, share, max_active } = capped;
        Check::Settings.warning(
            Some("calls.per_host".to_owned()),
            format!(
                "calls.per_host is {per_host}, but a host gets {share} calls of sagas at once: a quarter of sagas.max_active \
                 ({max_active}), so that one that never answers holds up no other"
            ),
            capped.remedy(),
        )
    });
    found.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::finding::Severity;

    #[test]
    fn capped_calls_are_a_warning_with_both_remedies() {
        assert_eq!(judge(None), []);
        let found = judge(Some(CappedCalls { per_host: 256, share: 25, max_active: 100 }));
        let [only] = &found[..] else { panic!("{found:?}") };
        assert_eq!((only.check, only.severity), (Check::Settings, Severity::Warning));
        assert!(only.message.contains("256") && only.message.contains("25 calls"), "{only:?}");
        assert_eq!(only.action, "set sagas.max_active to 1024 or more, or calls.per_host to 25 or less");
    }
}
