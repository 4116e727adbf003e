//! The setup of the scenes.

use std::fmt::Write;
use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use tokio::time::Instant;

use super::administrator::{self, Administrator};
use super::api::Api;
use super::findings::Findings;
use super::hosting::Hosting;
use super::process::ServerProcess;
use super::progress::Progress;
use super::screen::Screen;
use super::services::{Behaviour, Call, Phase, Service, Services};
use super::settings;
use crate::Failure;

/// The default response time of a service, long enough to watch.
const AT_WORK: Duration = Duration::from_millis(120);

pub(super) struct Stage {
    pub(super) server: ServerProcess,
    pub(super) services: Services,
    pub(super) hosting: Hosting,
    pub(super) api: Api,
    pub(super) administrator: Administrator,
    pub(super) screen: Screen,
    began: Instant,
}

/// The expected end of an order.
pub(super) struct Ending<'a> {
    pub(super) outcome: &'a str,
    pub(super) log: &'a str,
    /// The services with an effect.
    pub(super) in_effect: &'a str,
}

impl Stage {
    /// Starts everything, with its files in this directory.
    pub(super) async fn set(listen: SocketAddr, folder: &Path, verbose: bool) -> Result<Self, Failure> {
        let services = Services::start(Behaviour::Delay(AT_WORK)).await?;
        let hosting = Hosting::start().await?;
        let config = settings::toml(listen, folder, &services, &hosting)?;
        let server = ServerProcess::start(&config, folder, verbose).await?;
        let api = Api::at(server.address());
        let administrator = Administrator { inbox: administrator::inbox(folder) };
        let screen = Screen::of_this_process();
        Ok(Self { server, services, hosting, api, administrator, screen, began: Instant::now() })
    }

    pub(super) fn begin(&mut self, number: usize, title: &str) {
        self.began = Instant::now();
        self.screen.title(number, title);
    }

    pub(super) fn say(&self, what: &str) {
        self.screen.happened(self.began.elapsed(), what);
    }

    pub(super) fn elapsed(&self) -> Duration {
        self.began.elapsed()
    }

    /// Shows the events of an order to its end.
    pub(super) async fn watch(&self, progress: &mut Progress) -> Result<(), Failure> {
        while let Some(event) = progress.next().await? {
            if let Some(told) = event.told() {
                self.say(&told);
            }
        }
        Ok(())
    }

    /// Shows the events of an order until a service is called, and returns that call.
    pub(super) async fn watch_until_called(
        &self,
        progress: &mut Progress,
        order: &str,
        service: Service,
    ) -> Result<Call, Failure> {
        while let Some(event) = progress.next().await? {
            if let Some(told) = event.told() {
                self.say(&told);
            }
            if event.is_start_of(service.name()) {
                let is_it = |call: &Call| call.saga == order && call.service == service;
                return Ok(self.services.heard(is_it).await);
            }
        }
        Err(format!("the order ended before {} was called", service.name()).into())
    }

    /// Compares an order's end, by the API and by the services' ledger, with the expected one.
    pub(super) async fn compare(
        &self,
        findings: &mut Findings,
        order: &str,
        ending: &Ending<'_>,
    ) -> Result<(), Failure> {
        let log = self.api.log(order).await?;
        self.say(&format!("Log: {log}"));
        findings.expect("the outcome", self.api.outcome(order).await?.as_str(), ending.outcome);
        findings.expect("the log", log.as_str(), ending.log);
        findings.expect("what is in effect", self.in_effect(order).as_str(), ending.in_effect);
        Ok(())
    }

    fn in_effect(&self, order: &str) -> String {
        let mut told = String::new();
        for applied in self.services.applied().iter().filter(|applied| applied.saga == order) {
            let separator = if told.is_empty() { "" } else { ", " };
            // Writing to a string cannot fail.
            let _ = write!(told, "{separator}{}", applied.service.name());
            if applied.times > 1 {
                let _ = write!(told, " {} times", applied.times);
            }
        }
        if told.is_empty() { "nothing".to_owned() } else { told }
    }

    /// The calls of an order to a service.
    pub(super) fn calls(&self, order: &str, service: Service, phase: Phase) -> Vec<Call> {
        let is_it = |call: &Call| call.saga == order && call.service == service && call.phase == phase;
        self.services.calls().into_iter().filter(is_it).collect()
    }
}
