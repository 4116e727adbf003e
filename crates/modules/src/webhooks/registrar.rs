//! Makes and changes subscriptions for others: checks where they lead, and keeps their secrets encrypted.

use std::sync::Arc;
use std::time::Duration;

use super::egress::Egress;
use super::error::{BadTerms, Error, Mistake};
use super::headers::Headers;
use super::signature::Secret;
use super::subscription::{Subscription, Terms};
use super::subscriptions::Subscriptions;
use super::vault::{self, Vault};
use crate::randomness::Randomness;

/// Makes subscriptions whose terms hold, and whose secret is told once.
pub struct Registrar {
    subscriptions: Arc<Subscriptions>,
    egress: Egress,
    vault: Vault,
    randomness: Arc<dyn Randomness>,
}

impl Registrar {
    /// A registrar of these subscriptions, which lead where this egress lets them and whose secrets this vault keeps.
    #[must_use]
    pub fn new(
        subscriptions: Arc<Subscriptions>,
        egress: Egress,
        vault: Vault,
        randomness: Arc<dyn Randomness>,
    ) -> Self {
        Self { subscriptions, egress, vault, randomness }
    }

    /// Makes a subscription, signed with the secret that whoever asks has already, or else with a new one.
    ///
    /// # Errors
    /// Everything that is wrong with the terms, or that the database cannot be written.
    pub async fn create(
        &self,
        terms: &Terms,
        secret: Option<Secret>,
    ) -> Result<(Subscription, Secret), Error> {
        self.check(terms)?;
        let secret = self.or_new(secret)?;
        let made = self.subscriptions.create(terms, |id| self.sealed(id, &secret)).await?;
        Ok((made, secret))
    }

    /// Gives a subscription other terms.
    ///
    /// # Errors
    /// Everything that is wrong with the terms, that somebody else has changed it since it was read, or that the database
    /// cannot be written.
    pub async fn change(&self, read: &Subscription, terms: &Terms) -> Result<Subscription, Error> {
        self.check(terms)?;
        self.subscriptions.change(read, terms).await
    }

    /// Makes another secret the one that requests are signed with; the one before stays good for `overlap`.
    ///
    /// # Errors
    /// When there is no such subscription, or the database cannot be written.
    pub async fn rotate(
        &self,
        id: i64,
        secret: Option<Secret>,
        overlap: Duration,
    ) -> Result<(Subscription, Secret), Error> {
        let secret = self.or_new(secret)?;
        let rotated = self.subscriptions.rotate_secret(id, self.sealed(id, &secret)?, overlap).await?;
        Ok((rotated, secret))
    }

    fn or_new(&self, secret: Option<Secret>) -> Result<Secret, Error> {
        Ok(secret.map_or_else(|| Secret::make(&*self.randomness), Ok).map_err(vault::Error::from)?)
    }

    fn sealed(&self, id: i64, secret: &Secret) -> Result<Vec<u8>, Error> {
        Ok(self.vault.seal(id, secret, &*self.randomness)?)
    }

    /// Everything that is wrong, at once.
    fn check(&self, terms: &Terms) -> Result<(), Error> {
        let mistake = |place: String, message| Mistake { place, message };
        let mut mistakes = Vec::new();
        if let Err(wrong) = self.egress.check(&terms.url) {
            mistakes.extend(wrong.into_iter().map(|message| mistake("url".to_owned(), message)));
        }
        if let Err(wrong) = Headers::check(&terms.headers.iter().cloned().collect()) {
            let place =
                |name: &str| if name.is_empty() { "headers".to_owned() } else { format!("headers.{name}") };
            mistakes.extend(wrong.into_iter().map(|wrong| mistake(place(&wrong.name), wrong.message)));
        }
        match terms.check() {
            Err(Error::Invalid { field, why }) => mistakes.push(mistake(field.to_owned(), why)),
            Err(other) => return Err(other),
            Ok(()) => {}
        }
        if mistakes.is_empty() { Ok(()) } else { Err(BadTerms(mistakes).into()) }
    }
}
