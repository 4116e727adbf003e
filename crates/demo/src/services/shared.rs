//! State shared by all connections of the services.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use backstitch::Phase;
use backstitch_modules::orders::Service;
use tokio::sync::watch;

use super::behaviour::Behaviour;
use super::ledger::{Call, Ledger};

pub(super) struct Shared {
    ledger: Mutex<Ledger>,
    behaviours: Mutex<HashMap<(Service, Phase), Behaviour>>,
    otherwise: Behaviour,
    heard: watch::Sender<()>,
    released: watch::Sender<()>,
}

impl Shared {
    pub(super) fn new(otherwise: Behaviour) -> Self {
        Self {
            ledger: Mutex::default(),
            behaviours: Mutex::default(),
            otherwise,
            heard: watch::Sender::default(),
            released: watch::Sender::default(),
        }
    }

    pub(super) fn ledger(&self) -> MutexGuard<'_, Ledger> {
        self.ledger.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn behaviours(&self) -> MutexGuard<'_, HashMap<(Service, Phase), Behaviour>> {
        self.behaviours.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn set(&self, service: Service, phase: Phase, behaviour: Behaviour) {
        self.behaviours().insert((service, phase), behaviour);
    }

    pub(super) fn behaviour(&self, service: Service, phase: Phase) -> Behaviour {
        self.behaviours().get(&(service, phase)).unwrap_or(&self.otherwise).clone()
    }

    pub(super) fn release(&self) {
        self.released.send_replace(());
    }

    /// Subscribes to releases.
    pub(super) fn releases(&self) -> watch::Receiver<()> {
        self.released.subscribe()
    }

    /// Wakes all waiting calls.
    pub(super) fn tell(&self) {
        self.heard.send_replace(());
    }

    pub(super) async fn heard(&self, wanted: impl Fn(&Call) -> bool) -> Call {
        let mut news = self.heard.subscribe();
        loop {
            let found = self.ledger().calls().iter().find(|call| wanted(call)).cloned();
            if let Some(call) = found {
                return call;
            }
            // The sender lives as long as this value.
            let _ = news.changed().await;
        }
    }
}
