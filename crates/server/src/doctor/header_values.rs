//! Header values of declared calls that are stored in plain text, or cannot be decrypted here.

use backstitch::{Draft, Payload, Performer};
use backstitch_modules::http_call::{HeaderStorage, has_plain_headers};
use backstitch_modules::lifecycles;

use super::check::Check;
use super::finding::Finding;

/// How the database has the header values of a version. A version never changes, so it is looked at once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum StoredHeaders {
    /// All are encrypted and can be decrypted, or there are none.
    Fine,
    Plain,
    /// Why not.
    Unreadable(String),
}

impl StoredHeaders {
    pub(super) fn of_saga(draft: &Draft, headers: &HeaderStorage) -> Self {
        let undo = |step: &'_ backstitch::DraftStep| step.compensate.as_ref().map(|undo| undo.action.clone());
        let performers = draft.steps.iter().flat_map(|step| [Some(step.action.clone()), undo(step)]);
        Self::of(performers.flatten(), headers)
    }

    pub(super) fn of_machine(draft: &lifecycles::Draft, headers: &HeaderStorage) -> Self {
        Self::of(draft.actions.values().filter_map(|action| action.performer.clone()), headers)
    }

    fn of(performers: impl Iterator<Item = Performer>, headers: &HeaderStorage) -> Self {
        let calls = performers.filter_map(|performer| match performer {
            Performer::Call(call) => Some(call),
            Performer::Code | Performer::Worker { .. } => None,
        });
        let calls: Vec<Payload> = calls.collect();
        if let Some(why) = calls.iter().find_map(|call| headers.reveal(call).err()) {
            return Self::Unreadable(why.to_string());
        }
        if calls.iter().any(has_plain_headers) { Self::Plain } else { Self::Fine }
    }
}

/// A version that new work takes, or that is staged.
pub(super) struct CheckedVersion {
    /// `definition order`, or `lifecycle parcel`.
    pub(super) subject: String,
    pub(super) version: u32,
    pub(super) stored: StoredHeaders,
}

pub(super) fn judge(versions: &[CheckedVersion]) -> Vec<Finding> {
    let finding = |it: &CheckedVersion| {
        let (subject, version) = (Some(it.subject.clone()), it.version);
        match &it.stored {
            StoredHeaders::Fine => None,
            StoredHeaders::Plain => Some(Check::Definitions.warning(
                subject,
                format!("version {version} has header values in plain text in the database: an earlier version of the server \
                         stored them"),
                "declare it again, with new credentials: values are encrypted with `secret` then; those of earlier versions \
                 stay in the database as they are"
                    .to_owned(),
            )),
            StoredHeaders::Unreadable(why) => Some(Check::Definitions.error(
                subject,
                format!("version {version} cannot make its calls: {why}"),
                "start the server with the `secret`, or the key file beside the database, that was in use when it was \
                 declared, or declare it again"
                    .to_owned(),
            )),
        }
    };
    versions.iter().filter_map(finding).collect()
}

#[cfg(test)]
mod tests {
    use backstitch_modules::declaration::{Declaration, Format};

    use super::*;
    use crate::doctor::finding::Severity;

    fn stored(kept: &HeaderStorage, here: &HeaderStorage) -> StoredHeaders {
        let written = r#"{"name": "order", "steps": [{"id": "pay", "action": {"worker": {"queue": "q"}},
            "compensate": {"http": {"url": "http://pay", "headers": {"X-Key": "sesame"}}}}]}"#;
        let mut draft = Declaration::read(written.as_bytes(), Format::Json).unwrap();
        if let Some(undo) = &mut draft.steps[0].compensate
            && let Performer::Call(call) = &mut undo.action
        {
            *call = kept.protect(call).unwrap();
        }
        StoredHeaders::of_saga(&draft, here)
    }

    #[test]
    fn plain_and_unreadable_header_values_are_reported() {
        let [ours, other] = [7, 8].map(|byte| HeaderStorage::with_secret(Some(&[byte; 32])).unwrap());
        assert_eq!(stored(&ours, &ours), StoredHeaders::Fine);
        assert_eq!(stored(&HeaderStorage::Plain, &ours), StoredHeaders::Plain);
        assert!(matches!(stored(&ours, &other), StoredHeaders::Unreadable(why) if why.contains("X-Key")));
        let version = |stored| CheckedVersion { subject: "definition order".to_owned(), version: 3, stored };
        let all = [StoredHeaders::Fine, StoredHeaders::Plain, stored(&ours, &other)].map(version);
        let found = judge(&all);
        assert_eq!(found.len(), 2);
        assert_eq!((found[0].check, found[0].severity), (Check::Definitions, Severity::Warning));
        assert_eq!((found[1].check, found[1].severity), (Check::Definitions, Severity::Error));
        assert!(
            found
                .iter()
                .all(|found| found.message.contains("version 3") && !found.message.contains("sesame"))
        );
    }
}
