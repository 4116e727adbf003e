//! Settings of orders: what is active, what is staged, and how one becomes the other.

use backstitch::{Applied, Declaring, Problems, Timestamp};
use serde::Serialize;
use serde::de::{DeserializeOwned, IgnoredAny};

use super::confirmation::Orders;
use super::definition::{self, DEFINITION};
use super::error::Error;
use super::service::{Services, ServicesChange, Timeouts, TimeoutsChange};
use super::staging::{self, Kind, Staged};

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

impl Standing<Services> {
    /// The same for readers who may not see tokens in URLs.
    #[must_use]
    pub fn masked(self) -> Self {
        let masked = |services: Option<Services>| services.as_ref().map(Services::masked);
        Self { active: masked(self.active), staged: masked(self.staged), revision: self.revision }
    }
}

impl<T> Standing<T> {
    /// Makes of the staged change what it stands for.
    fn of<C>(
        active: Option<T>,
        staged: Option<Staged<C>>,
        over: impl FnOnce(C, Option<&T>) -> Result<T, Problems>,
    ) -> Result<Self, Error> {
        let revision = staged.as_ref().map(Staged::revision);
        let staged = staged.map(|staged| over(staged.change, active.as_ref())).transpose()?;
        Ok(Self { active, staged, revision })
    }
}

/// What new orders take, and the version of the definition that says so.
struct Active {
    version: u32,
    services: Services,
    timeouts: Timeouts,
}

impl Orders {
    /// The services that are called, and those that wait to be applied.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub async fn services(&self) -> Result<Standing<Services>, Error> {
        let active = self.active().await?.map(|active| active.services);
        let staged = staging::load(self.engine(), Kind::Services).await?;
        Standing::of(active, staged, ServicesChange::over)
    }

    /// Stages a change of the services, in place of what was staged before.
    ///
    /// # Errors
    /// When it has mistakes, or the database cannot be written.
    pub async fn stage_services(
        &self,
        change: ServicesChange,
        at: Timestamp,
    ) -> Result<Standing<Services>, Error> {
        let active = self.active().await?.map(|active| active.services);
        change.clone().over(active.as_ref())?;
        let staged = staging::store(self.engine(), Kind::Services, change, at).await?;
        Standing::of(active, Some(staged), ServicesChange::over)
    }

    /// Lets new orders take the staged services, if they are those of the revision that is expected; orders under way keep
    /// theirs.
    ///
    /// # Errors
    /// When nothing is staged, or not what is expected, or the database cannot be written.
    pub async fn apply_services(&self, expected: Option<&str>) -> Result<Applied, Error> {
        let _alone = self.changing().await;
        let Staged { change, text } = self.staged::<ServicesChange>(Kind::Services, expected).await?;
        let changed = |active: Option<Active>| {
            let services = change.clone().over(active.as_ref().map(|active| &active.services))?;
            let timeouts = active.map_or_else(|| self.first_timeouts().clone(), |active| active.timeouts);
            Ok((services, timeouts))
        };
        self.apply(changed, Kind::Services, &text).await
    }

    /// Forgets the staged services, if they are those of the revision that is expected.
    ///
    /// # Errors
    /// When nothing is staged, or not what is expected, or the database cannot be written.
    pub async fn discard_services(&self, expected: Option<&str>) -> Result<(), Error> {
        self.discard(Kind::Services, expected).await
    }

    /// How long each service may take, and what waits to be applied about it.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub async fn timeouts(&self) -> Result<Standing<Timeouts>, Error> {
        let active = self.active_timeouts().await?;
        let staged = staging::load(self.engine(), Kind::Timeouts).await?;
        let over = |change: TimeoutsChange, _: Option<&Timeouts>| change.over(&active);
        Standing::of(Some(active.clone()), staged, over)
    }

    /// Stages a change of the timeouts, in place of what was staged before.
    ///
    /// # Errors
    /// When it has mistakes, or the database cannot be written.
    pub async fn stage_timeouts(
        &self,
        change: TimeoutsChange,
        at: Timestamp,
    ) -> Result<Standing<Timeouts>, Error> {
        let active = self.active_timeouts().await?;
        change.clone().over(&active)?;
        let staged = staging::store(self.engine(), Kind::Timeouts, change, at).await?;
        let over = |change: TimeoutsChange, _: Option<&Timeouts>| change.over(&active);
        Standing::of(Some(active.clone()), Some(staged), over)
    }

    /// Lets new orders take the staged timeouts, if they are those of the revision that is expected; orders under way keep
    /// theirs.
    ///
    /// # Errors
    /// When nothing is staged, or not what is expected, nobody has said where the services are, or the database cannot be written.
    pub async fn apply_timeouts(&self, expected: Option<&str>) -> Result<Applied, Error> {
        let _alone = self.changing().await;
        let Staged { change, text } = self.staged::<TimeoutsChange>(Kind::Timeouts, expected).await?;
        let changed = |active: Option<Active>| {
            let Active { services, timeouts, .. } = active.ok_or(Error::NotConfigured)?;
            Ok((services, change.clone().over(&timeouts)?))
        };
        self.apply(changed, Kind::Timeouts, &text).await
    }

    /// Forgets the staged timeouts, if they are those of the revision that is expected.
    ///
    /// # Errors
    /// When nothing is staged, or not what is expected, or the database cannot be written.
    pub async fn discard_timeouts(&self, expected: Option<&str>) -> Result<(), Error> {
        self.discard(Kind::Timeouts, expected).await
    }

    async fn discard(&self, kind: Kind, expected: Option<&str>) -> Result<(), Error> {
        let _alone = self.changing().await;
        let meant = match expected {
            Some(_) => Some(self.staged::<IgnoredAny>(kind, expected).await?.text),
            None => None,
        };
        if staging::forget(self.engine(), kind, meant.as_deref()).await? {
            return Ok(());
        }
        // Another node may have staged another change since.
        self.staged::<IgnoredAny>(kind, expected).await?;
        Err(Error::NothingStaged(kind.name()))
    }

    async fn active_timeouts(&self) -> Result<Timeouts, Error> {
        Ok(self.active().await?.map_or_else(|| self.first_timeouts().clone(), |active| active.timeouts))
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

    async fn staged<T: DeserializeOwned>(
        &self,
        kind: Kind,
        expected: Option<&str>,
    ) -> Result<Staged<T>, Error> {
        let staged: Option<Staged<T>> = staging::load(self.engine(), kind).await?;
        let staged = staged.ok_or(Error::NothingStaged(kind.name()))?;
        let revision = staged.revision();
        if expected.is_some_and(|expected| expected != revision) {
            return Err(Error::AnotherStaged { kind: kind.name(), revision });
        }
        Ok(staged)
    }

    /// What is staged is forgotten last: whoever is cut off before that applies the same once more, which changes nothing.
    /// What was staged meanwhile is not what was applied, and goes on waiting.
    ///
    /// Each try changes what is active by then, since another node may just have changed the other setting.
    async fn apply(
        &self,
        changed: impl Fn(Option<Active>) -> Result<(Services, Timeouts), Error>,
        kind: Kind,
        staged: &str,
    ) -> Result<Applied, Error> {
        for _ in 0..TRIES {
            let active = self.active().await?;
            let base = active.as_ref().map(|active| active.version);
            let (services, timeouts) = changed(active)?;
            if let Some(applied) = self.declare(base, &services, &timeouts).await? {
                staging::forget(self.engine(), kind, Some(staged)).await?;
                return Ok(applied);
            }
        }
        Err(changed_at_once())
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

fn changed_at_once() -> Error {
    backstitch::Error::DeclaredAtOnce(DEFINITION.to_owned()).into()
}
