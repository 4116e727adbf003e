//! Makes and changes subscriptions for others: checks where they lead, and keeps what is secret of them encrypted.

use std::sync::Arc;
use std::time::Duration;

use super::egress::Egress;
use super::error::{BadTerms, Error, Mistake};
use super::headers::Headers;
use super::sealed_headers::SealedHeaders;
use super::signature::Secret;
use super::subscription::{Defaulted, Sealed, Subscription, Terms};
use super::subscriptions::Subscriptions;
use super::vault::{self, Vault};
use super::wish::{NewSubscription, SubscriptionChange};
use crate::randomness::Randomness;

/// Why a subscription is disabled that somebody asked to be.
const ON_REQUEST: &str = "disabled on request";
/// How often a change is tried that others get in the way of.
const TRIES: usize = 5;

/// Makes subscriptions whose terms hold, and whose secret is told once.
pub struct Registrar {
    subscriptions: Arc<Subscriptions>,
    egress: Egress,
    vault: Vault,
    randomness: Arc<dyn Randomness>,
    usual: Terms,
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
        Self {
            subscriptions,
            egress,
            vault,
            randomness,
            usual: Terms { defaulted: Defaulted::ALL, ..Terms::to("", Vec::new()) },
        }
    }

    /// Subscriptions that are written without saying so have these terms, but for where they lead and what they hear of.
    #[must_use]
    pub fn with_usual_terms(self, usual: Terms) -> Self {
        Self { usual: Terms { defaulted: Defaulted::ALL, ..usual }, ..self }
    }

    /// Makes a subscription with these headers of its own, signed with the secret that whoever asks has already, or else
    /// with a new one.
    ///
    /// # Errors
    /// Everything that is wrong with the terms, or that the database cannot be written.
    pub async fn create(
        &self,
        terms: &Terms,
        headers: &[(String, String)],
        secret: Option<Secret>,
    ) -> Result<(Subscription, Secret), Error> {
        refuse(self.mistakes(terms, headers))?;
        let secret = self.or_new(secret)?;
        let made = self.subscriptions.create(terms, |id| self.sealed(id, &secret, headers)).await?;
        Ok((made, secret))
    }

    /// Makes a subscription as it is written.
    ///
    /// # Errors
    /// Everything that is wrong with what is written, or that the database cannot be written.
    pub async fn register(
        &self,
        NewSubscription(wish): NewSubscription,
    ) -> Result<(Subscription, Secret), Error> {
        let terms = wish.over(self.usual.clone(), &self.usual);
        let headers = wish.headers.as_deref().unwrap_or_default();
        refuse(wish.mistakes(self.mistakes(&terms, headers)))?;
        let secret = self.or_new(wish.secret.clone())?;
        let seal = |id| self.sealed(id, &secret, headers);
        let made = match wish.enabled {
            Some(false) => self.subscriptions.create_disabled(&terms, ON_REQUEST, seal).await?,
            _ => self.subscriptions.create(&terms, seal).await?,
        };
        Ok((made, secret))
    }

    /// Changes a subscription as it is written: its terms first, and then whether it is enabled.
    ///
    /// # Errors
    /// Everything that is wrong with what is written, that there is no such subscription, that others change it all the
    /// time, or that the database cannot be written.
    pub async fn amend(
        &self,
        id: i64,
        SubscriptionChange(wish): SubscriptionChange,
    ) -> Result<Subscription, Error> {
        let mut now = self.subscriptions.get(id).await?;
        let headers = wish.headers.as_deref();
        let wrong = if wish.names_terms() {
            self.mistakes(&wish.over(now.terms.clone(), &self.usual), headers.unwrap_or_default())
        } else {
            Vec::new()
        };
        refuse(wish.mistakes(wrong))?;
        if wish.names_terms() {
            let mut tries = 1..TRIES;
            now = loop {
                match self.change(&now, &wish.over(now.terms.clone(), &self.usual), headers).await {
                    Err(Error::ChangedMeanwhile(_)) if tries.next().is_some() => {
                        now = self.subscriptions.get(id).await?;
                    }
                    changed => break changed?,
                }
            };
        }
        match wish.enabled {
            Some(true) => self.subscriptions.enable(id).await,
            Some(false) => self.subscriptions.disable(id, ON_REQUEST).await,
            None => Ok(now),
        }
    }

    /// Gives a subscription other terms, and other headers if there are any; otherwise it keeps those that it has, which need
    /// not be read for that.
    ///
    /// # Errors
    /// Everything that is wrong with the terms, that somebody else has changed it since it was read, or that the database
    /// cannot be written.
    pub async fn change(
        &self,
        read: &Subscription,
        terms: &Terms,
        headers: Option<&[(String, String)]>,
    ) -> Result<Subscription, Error> {
        refuse(self.mistakes(terms, headers.unwrap_or_default()))?;
        let other = headers.map(|headers| self.sealed_headers(read.id, headers)).transpose()?;
        self.subscriptions.change(read, terms, other.as_ref().unwrap_or(&read.headers)).await
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
        replace: bool,
    ) -> Result<(Subscription, Secret), Error> {
        let secret = self.or_new(secret)?;
        let sealed = self.sealed_secret(id, &secret)?;
        let rotated = self.subscriptions.rotate_secret(id, sealed, overlap, replace).await?;
        Ok((rotated, secret))
    }

    fn or_new(&self, secret: Option<Secret>) -> Result<Secret, Error> {
        Ok(secret.map_or_else(|| Secret::make(&*self.randomness), Ok).map_err(vault::Error::from)?)
    }

    fn sealed(&self, id: i64, secret: &Secret, headers: &[(String, String)]) -> Result<Sealed, Error> {
        Ok(Sealed { secret: self.sealed_secret(id, secret)?, headers: self.sealed_headers(id, headers)? })
    }

    fn sealed_secret(&self, id: i64, secret: &Secret) -> Result<Vec<u8>, Error> {
        Ok(self.vault.seal(id, secret, &*self.randomness)?)
    }

    fn sealed_headers(&self, id: i64, headers: &[(String, String)]) -> Result<SealedHeaders, Error> {
        Ok(SealedHeaders::seal(&self.vault, id, headers, &*self.randomness)?)
    }

    /// Everything that is wrong, at once.
    fn mistakes(&self, terms: &Terms, headers: &[(String, String)]) -> Vec<Mistake> {
        let mistake = |place: String, message| Mistake { place, message };
        let mut mistakes = Vec::new();
        if let Err(wrong) = self.egress.check(&terms.url) {
            mistakes.extend(wrong.into_iter().map(|message| mistake("url".to_owned(), message)));
        }
        if let Err(wrong) = Headers::check(&headers.iter().cloned().collect()) {
            let place =
                |name: &str| if name.is_empty() { "headers".to_owned() } else { format!("headers.{name}") };
            mistakes.extend(wrong.into_iter().map(|wrong| mistake(place(&wrong.name), wrong.message)));
        }
        if let Err(BadTerms(wrong)) = terms.check() {
            // What is wrong with an address was said above.
            mistakes.extend(wrong.into_iter().filter(|wrong| wrong.place != "url"));
        }
        mistakes
    }
}

fn refuse(mistakes: Vec<Mistake>) -> Result<(), Error> {
    if mistakes.is_empty() { Ok(()) } else { Err(BadTerms(mistakes).into()) }
}
