//! Settings of orders: what is active, what is staged, and how one becomes the other.

use backstitch::{Applied, Declaring, Documents, Payload};
use serde::Serialize;
use sha2::{Digest as _, Sha256};

use super::confirmation::Orders;
use super::definition::{self, DEFINITION};
use super::error::Error;
use super::service::{Services, Timeouts};
use super::setting::Setting;

/// The document of each setting.
const DOCUMENT: &str = "orders";
/// Of the digest of a change, so many bytes tell it from all that are staged in its place.
const REVISION: usize = 8;
/// How often settings are applied anew that another node came in between.
const TRIES: usize = 10;

/// A setting as it stands.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Standing<T> {
    /// What new orders take; none before anything was applied.
    pub active: Option<T>,
    /// What waits to be applied.
    pub staged: Option<T>,
    /// By which whoever applies or discards it says that they mean what is staged here, and not what somebody stages
    /// after it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub revision: Option<String>,
}

impl<T> Standing<T> {
    /// The same for readers who may not see tokens in URLs.
    #[must_use]
    pub fn masked<S: Setting<Value = T>>(self) -> Self {
        let masked = |value: Option<T>| value.as_ref().map(S::masked);
        Self { active: masked(self.active), staged: masked(self.staged), revision: self.revision }
    }
}

/// What new orders take, and the version of the definition that says so.
pub struct Active {
    version: u32,
    pub(super) services: Services,
    pub(super) timeouts: Timeouts,
}

/// A change that waits to be applied.
struct Staged<C> {
    version: u32,
    change: C,
    /// The same for the same change and no other, short enough to be written into an address.
    revision: String,
}

impl Orders {
    /// What is active of a setting, and what applying the staged change would make of it.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub async fn setting<S: Setting>(&self) -> Result<Standing<S::Value>, Error> {
        let active = S::value(self.active().await?.as_ref(), self.first_timeouts());
        let Some(staged) = self.staged::<S>().await? else {
            return Ok(Standing { active, staged: None, revision: None });
        };
        let value = S::changed(staged.change, active.as_ref())?;
        Ok(Standing { active, staged: Some(value), revision: Some(staged.revision) })
    }

    /// Stages a change of a setting, in place of what was staged before.
    ///
    /// # Errors
    /// When it has mistakes, or the database cannot be written.
    pub async fn stage_setting<S: Setting>(&self, change: S::Body) -> Result<Standing<S::Value>, Error> {
        let active = S::value(self.active().await?.as_ref(), self.first_timeouts());
        let value = S::changed(change.clone(), active.as_ref())?;
        self.documents::<S>().put(DOCUMENT, &change, false).await?;
        Ok(Standing { active, staged: Some(value), revision: Some(revision(&change)?) })
    }

    /// Lets new orders take the staged change, if it is the one of the revision that is expected; orders under way keep
    /// what they have.
    ///
    /// Its document is discarded last: an apply that is cut off before that is repeated, which changes nothing. What was
    /// staged meanwhile is another version, and goes on waiting. Each try changes what is active by then, since another node
    /// may just have changed the other setting.
    ///
    /// # Errors
    /// When nothing is staged, or not what is expected, the services are not configured, or the database cannot be written.
    pub async fn apply_setting<S: Setting>(&self, expected: Option<&str>) -> Result<Applied, Error> {
        let _alone = self.changing().await;
        let staged = self.expected::<S>(expected).await?;
        for _ in 0..TRIES {
            let active = self.active().await?;
            let base = active.as_ref().map(|active| active.version);
            let before = S::value(active.as_ref(), self.first_timeouts());
            let value = S::changed(staged.change.clone(), before.as_ref())?;
            let (services, timeouts) = S::with_value(value, active, self.first_timeouts())?;
            if let Some(applied) = self.declare(base, &services, &timeouts).await? {
                self.forget::<S>(Some(staged.version)).await?;
                return Ok(applied);
            }
        }
        Err(changed_at_once())
    }

    /// Forgets the staged change, if it is the one of the revision that is expected.
    ///
    /// # Errors
    /// When nothing is staged, or not what is expected, or the database cannot be written.
    pub async fn discard_setting<S: Setting>(&self, expected: Option<&str>) -> Result<(), Error> {
        let _alone = self.changing().await;
        let version = match expected {
            Some(_) => Some(self.expected::<S>(expected).await?.version),
            None => None,
        };
        if self.forget::<S>(version).await? {
            return Ok(());
        }
        // Another node may have staged another change since.
        self.expected::<S>(expected).await?;
        Err(Error::NothingStaged(S::TITLE))
    }

    fn documents<S: Setting>(&self) -> Documents<S> {
        Documents::on(self.engine().store().clone())
    }

    async fn staged<S: Setting>(&self) -> Result<Option<Staged<S::Body>>, Error> {
        let documents = self.documents::<S>();
        let document = documents.get(DOCUMENT).await?;
        let Some(version) = document.and_then(|document| document.staged) else { return Ok(None) };
        let Some(change) = documents.version(DOCUMENT, Some(version)).await? else { return Ok(None) };
        let revision = revision(&change)?;
        Ok(Some(Staged { version, change, revision }))
    }

    async fn expected<S: Setting>(&self, expected: Option<&str>) -> Result<Staged<S::Body>, Error> {
        let staged = self.staged::<S>().await?.ok_or(Error::NothingStaged(S::TITLE))?;
        if expected.is_some_and(|expected| expected != staged.revision) {
            return Err(Error::AnotherStaged { kind: S::TITLE, revision: staged.revision });
        }
        Ok(staged)
    }

    /// Whether this version was staged, or any.
    async fn forget<S: Setting>(&self, version: Option<u32>) -> Result<bool, Error> {
        match self.documents::<S>().discard(DOCUMENT, version).await {
            Ok(_) => Ok(true),
            Err(backstitch::Error::NothingStaged(_) | backstitch::Error::NotStaged { .. }) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// What new orders take. The definition is the one place where it is kept.
    async fn active(&self) -> Result<Option<Active>, Error> {
        let Some(version) = self.active_version().await? else { return Ok(None) };
        let draft = self.engine().draft(DEFINITION, Some(version)).await?;
        let settings = draft.as_ref().and_then(definition::settings);
        let unreadable =
            || Error::Unreadable(format!("version {version} of {DEFINITION} is not one of orders"));
        let (services, timeouts) = settings.ok_or_else(unreadable)?;
        Ok(Some(Active { version, services, timeouts }))
    }

    async fn active_version(&self) -> Result<Option<u32>, Error> {
        Ok(self.engine().declared(DEFINITION).await?.and_then(|declared| declared.active))
    }

    /// Lets new orders take these services, unless somebody has applied others, be it just now.
    pub(super) async fn apply_first(&self, services: &Services) -> Result<(), Error> {
        for _ in 0..TRIES {
            if self.active_version().await?.is_some()
                || self.declare(None, services, self.first_timeouts()).await?.is_some()
            {
                return Ok(());
            }
        }
        Err(changed_at_once())
    }

    /// Lets new orders take these settings, which were made from the version `base`; `None` when another node came in
    /// between: then they are to be made anew from what is active now.
    async fn declare(
        &self,
        base: Option<u32>,
        services: &Services,
        timeouts: &Timeouts,
    ) -> Result<Option<Applied>, Error> {
        let draft = definition::draft(services, timeouts, self.rollback());
        let draft = draft.map_err(|why| Error::Unreadable(why.to_string()))?;
        let Declaring { version, is_active, .. } = self.engine().declare(draft).await?;
        if is_active {
            // Nothing is written, so nothing of anybody else's is lost.
            let in_flight = self.engine().in_flight(DEFINITION).await?;
            return Ok(Some(Applied { version, in_flight }));
        }
        // What is active must still be the base when ours is applied. Looking now is enough: only what is staged becomes
        // active, and a version that is no longer staged never is again, since each staging takes a higher number. So if
        // another version is applied after this look, ours has been replaced before that, and is refused below.
        if self.active_version().await? != base {
            return Ok(None);
        }
        match self.engine().apply(DEFINITION, Some(version)).await {
            Err(backstitch::Error::NotStaged { .. }) => Ok(None),
            applied => Ok(Some(applied?)),
        }
    }
}

fn revision<C: Serialize>(change: &C) -> Result<String, Error> {
    let text = Payload::encode(change).map_err(|why| Error::Unreadable(why.to_string()))?;
    let digest = Sha256::digest(text.as_str());
    let start = digest.iter().take(REVISION).fold(0u64, |start, byte| start << 8 | u64::from(*byte));
    Ok(format!("{start:016x}"))
}

fn changed_at_once() -> Error {
    backstitch::Error::DeclaredAtOnce(DEFINITION.to_owned()).into()
}
