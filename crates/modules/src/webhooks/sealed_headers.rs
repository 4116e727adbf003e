//! A subscription's own headers at rest. Their values are often keys, so they are kept as signing secrets are; their names
//! stay readable, so that they can be shown by whoever has no key.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::error::Error;
use super::vault::{self, Vault};
use crate::randomness::Randomness;

/// Stands for all headers of a subscription where not even their names can be read.
const UNREADABLE: &str = "headers";

/// Headers as the database may hold them: each with its value encrypted, for its subscription alone.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SealedHeaders(Vec<(String, Vec<u8>)>);

impl SealedHeaders {
    /// Seals what somebody gave this subscription.
    ///
    /// # Errors
    /// When there is no randomness.
    pub fn seal(
        vault: &Vault,
        subscription: i64,
        headers: &[(String, String)],
        randomness: &dyn Randomness,
    ) -> Result<Self, vault::Error> {
        let sealed = headers.iter().map(|(name, value)| {
            Ok((name.clone(), vault.seal_header(subscription, name, value, randomness)?))
        });
        sealed.collect::<Result<_, _>>().map(Self)
    }

    /// The headers that were sealed for this subscription.
    ///
    /// # Errors
    /// When another key was used, or what is kept has been changed.
    pub fn open(&self, vault: &Vault, subscription: i64) -> Result<BTreeMap<String, String>, vault::Error> {
        let opened = self
            .0
            .iter()
            .map(|(name, sealed)| Ok((name.clone(), vault.open_header(subscription, name, sealed)?)));
        opened.collect()
    }

    /// Their names, which are no secret.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|(name, _)| name.as_str())
    }

    /// As the table has them: pairs of a name and a sealed value in base64, in JSON.
    pub(super) fn column(&self) -> Result<String, Error> {
        let pairs: Vec<(&str, String)> =
            self.0.iter().map(|(name, sealed)| (name.as_str(), STANDARD.encode(sealed))).collect();
        serde_json::to_string(&pairs).map_err(|why| Error::invalid("headers", why.to_string()))
    }

    /// What is no JSON or no base64 is as damaged as what does not open: that is told of this subscription when it is to be
    /// called, and holds up no other.
    pub(super) fn read(column: &str) -> Self {
        let pairs: Vec<(String, String)> =
            serde_json::from_str(column).unwrap_or_else(|_| vec![(UNREADABLE.to_owned(), String::new())]);
        let sealed =
            pairs.into_iter().map(|(name, coded)| (name, STANDARD.decode(coded).unwrap_or_default()));
        Self(sealed.collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::randomness::SystemRandomness;

    fn sealed(vault: &Vault) -> SealedHeaders {
        let headers = [("Authorization", "Bearer hush"), ("x-tenant", "")];
        let headers = headers.map(|(name, value)| (name.to_owned(), value.to_owned()));
        SealedHeaders::seal(vault, 7, &headers, &SystemRandomness).unwrap()
    }

    #[test]
    fn the_table_shows_names_and_no_values_and_both_are_read_from_it() {
        let vault = Vault::new(&[7; 32]).unwrap();
        let column = sealed(&vault).column().unwrap();
        assert!(column.contains("Authorization") && !column.contains("hush"), "{column}");
        let read = SealedHeaders::read(&column);
        assert_eq!(read.names().collect::<Vec<_>>(), ["Authorization", "x-tenant"]);
        let opened = read.open(&vault, 7).unwrap();
        assert_eq!((opened["Authorization"].as_str(), opened["x-tenant"].as_str()), ("Bearer hush", ""));
        for damaged in [r#"[["Authorization", "Bearer hush"]]"#, "{", ""] {
            let read = SealedHeaders::read(damaged);
            assert!(matches!(read.open(&vault, 7), Err(vault::Error::DamagedHeader { .. })), "{damaged}");
        }
    }

    #[test]
    fn a_value_opens_for_its_own_subscription_and_under_its_own_name_only() {
        let vault = Vault::new(&[7; 32]).unwrap();
        assert_eq!(
            sealed(&vault).open(&vault, 8),
            Err(vault::Error::DamagedHeader { subscription: 8, name: "Authorization".to_owned() })
        );
        let SealedHeaders(mut pairs) = sealed(&vault);
        pairs[1].0 = "x-shown-by-the-receiver".to_owned();
        assert!(SealedHeaders(pairs).open(&vault, 7).is_err());
    }

    #[test]
    fn a_wrong_key_is_told_with_what_to_do() {
        let [ours, other] = [7, 8].map(|byte| Vault::new(&[byte; 32]).unwrap());
        let told = sealed(&ours).open(&other, 7).unwrap_err().to_string();
        for word in ["`Authorization`", "subscription 7", "`secret`", "key file", "headers again"] {
            assert!(told.contains(word), "{told}");
        }
    }
}
