//! Makes and changes subscriptions for others: checks where they lead, and keeps what is secret of them encrypted.

use std::sync::Arc;
use std::time::Duration;

use backstitch::Problem;
use backstitch_api::validate::Partial;

use super::egress::Egress;
use super::error::{BadTerms, Error};
use super::headers::Headers;
use super::sealed_headers::SealedHeaders;
use super::signature::Secret;
use super::subscription::{Defaulted, Sealed, Subscription, Terms};
use super::subscription_input::{NewSubscription, SubscriptionChange, all_errors};
use super::subscriptions::Subscriptions;
use super::vault::{self, Vault};
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
        refuse(self.problems(terms, headers))?;
        let secret = self.or_new(secret)?;
        let made = self.subscriptions.create(terms, |id| self.sealed(id, &secret, headers)).await?;
        Ok((made, secret))
    }

    /// Makes a subscription as a request says.
    ///
    /// # Errors
    /// All errors of the request, or that the database cannot be written.
    pub async fn register(&self, new: Partial<NewSubscription>) -> Result<(Subscription, Secret), Error> {
        let Some(NewSubscription(input)) = new.value else { return Err(BadTerms(new.errors.0).into()) };
        let terms = input.over(self.usual.clone(), &self.usual);
        let headers = input.headers().unwrap_or_default();
        refuse(all_errors(&new.errors, self.problems(&terms, headers)))?;
        let secret = self.or_new(input.secret.0.clone())?;
        let seal = |id| self.sealed(id, &secret, headers);
        let made = match input.enabled.0 {
            Some(false) => self.subscriptions.create_disabled(&terms, ON_REQUEST, seal).await?,
            _ => self.subscriptions.create(&terms, seal).await?,
        };
        Ok((made, secret))
    }

    /// Changes a subscription as a request says: its terms first, and then whether it is enabled.
    ///
    /// # Errors
    /// All errors of the request, that there is no such subscription, that others change it all the time, or that the
    /// database cannot be written.
    pub async fn amend(&self, id: i64, change: Partial<SubscriptionChange>) -> Result<Subscription, Error> {
        let mut now = self.subscriptions.get(id).await?;
        let Some(SubscriptionChange(input)) = change.value else {
            return Err(BadTerms(change.errors.0).into());
        };
        let headers = input.headers();
        let problems = if input.names_terms() {
            self.problems(&input.over(now.terms.clone(), &self.usual), headers.unwrap_or_default())
        } else {
            Vec::new()
        };
        refuse(all_errors(&change.errors, problems))?;
        if input.names_terms() {
            let mut tries = 1..TRIES;
            now = loop {
                match self.change(&now, &input.over(now.terms.clone(), &self.usual), headers).await {
                    Err(Error::ChangedMeanwhile(_)) if tries.next().is_some() => {
                        now = self.subscriptions.get(id).await?;
                    }
                    changed => break changed?,
                }
            };
        }
        match input.enabled.0 {
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
        refuse(self.problems(terms, headers.unwrap_or_default()))?;
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
    fn problems(&self, terms: &Terms, headers: &[(String, String)]) -> Vec<Problem> {
        let problem = |place: String, message| Problem { place, message };
        let mut problems = Vec::new();
        if let Err(wrong) = self.egress.check(&terms.url) {
            problems.extend(wrong.into_iter().map(|message| problem("url".to_owned(), message)));
        }
        if let Err(wrong) = Headers::check(&headers.iter().cloned().collect()) {
            let place =
                |name: &str| if name.is_empty() { "headers".to_owned() } else { format!("headers.{name}") };
            problems.extend(wrong.into_iter().map(|wrong| problem(place(&wrong.name), wrong.message)));
        }
        if let Err(BadTerms(wrong)) = terms.check() {
            // What is wrong with an address was said above.
            problems.extend(wrong.into_iter().filter(|wrong| wrong.place != "url"));
        }
        problems
    }
}

fn refuse(problems: Vec<Problem>) -> Result<(), Error> {
    if problems.is_empty() { Ok(()) } else { Err(BadTerms(problems).into()) }
}
