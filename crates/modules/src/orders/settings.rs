//! Settings of orders: what is active, what is staged, and how one becomes the other.

use backstitch::{Applied, Declaring, Timestamp};
use serde::Serialize;
use serde::de::DeserializeOwned;

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
}

impl Orders {
    /// The services that are called, and those that wait to be applied.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub async fn services(&self) -> Result<Standing<Services>, Error> {
        let active = self.active().await?.map(|(services, _)| services);
        let staged: Option<Staged<ServicesChange>> = staging::load(self.engine(), Kind::Services).await?;
        let staged = staged.map(|staged| staged.change.over(active.as_ref())).transpose()?;
        Ok(Standing { active, staged })
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
        let active = self.active().await?.map(|(services, _)| services);
        let staged = change.clone().over(active.as_ref())?;
        staging::store(self.engine(), Kind::Services, &change, at).await?;
        Ok(Standing { active, staged: Some(staged) })
    }

    /// Lets new orders take the staged services; those under way keep theirs.
    ///
    /// # Errors
    /// When nothing is staged, or the database cannot be written.
    pub async fn apply_services(&self) -> Result<Applied, Error> {
        let _alone = self.changing().await;
        let Staged { change, text } = self.staged::<ServicesChange>(Kind::Services).await?;
        let active = self.active().await?;
        let services = change.over(active.as_ref().map(|(services, _)| services))?;
        let timeouts = active.map_or_else(|| self.first_timeouts().clone(), |(_, timeouts)| timeouts);
        self.apply(&services, &timeouts, Kind::Services, &text).await
    }

    /// Forgets the staged services.
    ///
    /// # Errors
    /// When nothing is staged, or the database cannot be written.
    pub async fn discard_services(&self) -> Result<(), Error> {
        self.discard(Kind::Services).await
    }

    /// How long each service may take, and what waits to be applied about it.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub async fn timeouts(&self) -> Result<Standing<Timeouts>, Error> {
        let active = self.active_timeouts().await?;
        let staged: Option<Staged<TimeoutsChange>> = staging::load(self.engine(), Kind::Timeouts).await?;
        let staged = staged.map(|staged| staged.change.over(&active)).transpose()?;
        Ok(Standing { active: Some(active), staged })
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
        let staged = change.clone().over(&active)?;
        staging::store(self.engine(), Kind::Timeouts, &change, at).await?;
        Ok(Standing { active: Some(active), staged: Some(staged) })
    }

    /// Lets new orders take the staged timeouts; those under way keep theirs.
    ///
    /// # Errors
    /// When nothing is staged, nobody has said where the services are, or the database cannot be written.
    pub async fn apply_timeouts(&self) -> Result<Applied, Error> {
        let _alone = self.changing().await;
        let Staged { change, text } = self.staged::<TimeoutsChange>(Kind::Timeouts).await?;
        let (services, timeouts) = self.active().await?.ok_or(Error::NotConfigured)?;
        let timeouts = change.over(&timeouts)?;
        self.apply(&services, &timeouts, Kind::Timeouts, &text).await
    }

    /// Forgets the staged timeouts.
    ///
    /// # Errors
    /// When nothing is staged, or the database cannot be written.
    pub async fn discard_timeouts(&self) -> Result<(), Error> {
        self.discard(Kind::Timeouts).await
    }

    async fn discard(&self, kind: Kind) -> Result<(), Error> {
        let _alone = self.changing().await;
        if staging::forget(self.engine(), kind, None).await? {
            Ok(())
        } else {
            Err(Error::NothingStaged(kind.name()))
        }
    }

    async fn active_timeouts(&self) -> Result<Timeouts, Error> {
        Ok(self.active().await?.map_or_else(|| self.first_timeouts().clone(), |(_, timeouts)| timeouts))
    }

    /// What new orders take. The definition is the one place where it is kept.
    async fn active(&self) -> Result<Option<(Services, Timeouts)>, Error> {
        let declared = self.engine().declared(DEFINITION).await?;
        let Some(version) = declared.and_then(|declared| declared.active) else { return Ok(None) };
        let draft = self.engine().draft(DEFINITION, Some(version)).await?;
        let settings = draft.as_ref().and_then(definition::settings);
        let unreadable =
            || Error::Unreadable(format!("version {version} of {DEFINITION} is not one of orders"));
        settings.map(Some).ok_or_else(unreadable)
    }

    async fn staged<T: DeserializeOwned>(&self, kind: Kind) -> Result<Staged<T>, Error> {
        staging::load(self.engine(), kind).await?.ok_or(Error::NothingStaged(kind.name()))
    }

    /// What is staged is forgotten last: whoever is cut off before that applies the same once more, which changes nothing.
    /// What was staged meanwhile is not what was applied, and goes on waiting.
    async fn apply(
        &self,
        services: &Services,
        timeouts: &Timeouts,
        kind: Kind,
        staged: &str,
    ) -> Result<Applied, Error> {
        let applied = self.declare(services, timeouts).await?;
        staging::forget(self.engine(), kind, Some(staged)).await?;
        Ok(applied)
    }

    pub(super) async fn declare(&self, services: &Services, timeouts: &Timeouts) -> Result<Applied, Error> {
        let draft = definition::draft(services, timeouts, self.rollback());
        let draft = draft.map_err(|why| Error::Unreadable(why.to_string()))?;
        for _ in 0..TRIES {
            let version = match self.engine().declare(draft.clone()).await? {
                Declaring::ActiveBefore(version) => {
                    return Ok(Applied { version, in_flight: self.engine().in_flight(DEFINITION).await? });
                }
                Declaring::Staged(version) | Declaring::StagedBefore(version) => version,
            };
            match self.engine().apply(DEFINITION, Some(version)).await {
                // Another node was quicker: look again at what is active now.
                Err(backstitch::Error::NotStaged { .. }) => {}
                applied => return Ok(applied?),
            }
        }
        Err(backstitch::Error::DeclaredAtOnce(DEFINITION.to_owned()).into())
    }
}
