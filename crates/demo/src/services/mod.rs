//! Payment, inventory and logistics, simulated on one loopback port: `POST /{service}/do` and `POST /{service}/undo`.
//!
//! They do what real services are asked to do: a call that is repeated under its `Idempotency-Key` is carried out once
//! and answered the same; an undo without its do is a success, and the do that comes late is refused.
//!
//! How they behave can be set for each service and phase, and by each order itself: an item whose `sku` reads
//! `demo:KIND[-undo]:SERVICE[:TIME][:TIMESx]` is no article but a wish about that order. [`Behaviour`] lists the kinds.
//!
//! ```
//! use backstitch_demo::services::{Behaviour, Phase, Service, Services};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let services = Services::start(Behaviour::Succeed).await?;
//! services.set(Service::Inventory, Phase::Do, Behaviour::Refuse);
//! println!("payment is charged at {}", services.url(Service::Payment, Phase::Do));
//! // … orders run …
//! assert!(services.calls().is_empty() && services.applied().is_empty());
//! # Ok(())
//! # }
//! ```

mod answer;
mod behaviour;
mod ledger;
mod listener;
mod request;
mod shared;
mod wish;

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use tokio::net::TcpListener;
use tokio_util::task::AbortOnDropHandle;

pub use backstitch::Phase;
pub use backstitch_modules::orders::Service;
pub use behaviour::Behaviour;
pub use ledger::{Applied, Call};

use shared::Shared;

/// The services, until this is dropped; then they and all connections to them are gone.
pub struct Services {
    address: SocketAddr,
    shared: Arc<Shared>,
    _listening: AbortOnDropHandle<()>,
}

impl Services {
    /// Begins to listen on a free port of the loopback. All services behave alike until [`Services::set`] says otherwise.
    ///
    /// # Errors
    /// When there is no such port.
    pub async fn start(behaviour: Behaviour) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let address = listener.local_addr()?;
        let shared = Arc::new(Shared::new(behaviour));
        let listening = tokio::spawn(listener::run(listener, shared.clone()));
        Ok(Self { address, shared, _listening: AbortOnDropHandle::new(listening) })
    }

    /// Where they listen.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Where a service is asked to do its part, or to undo it.
    #[must_use]
    pub fn url(&self, service: Service, phase: Phase) -> String {
        format!("http://{}/{}/{}", self.address, service.name(), phase.as_str())
    }

    /// Makes a service behave so from its next call on, unless the order that calls has a wish of its own.
    pub fn set(&self, service: Service, phase: Phase, behaviour: Behaviour) {
        self.shared.set(service, phase, behaviour);
    }

    /// Lets those calls be answered that hang now.
    pub fn release(&self) {
        self.shared.release();
    }

    /// Every call that was made, in the order they came.
    #[must_use]
    pub fn calls(&self) -> Vec<Call> {
        self.shared.ledger().calls().to_vec()
    }

    /// Everything that was done and not undone, in the order it was done.
    #[must_use]
    pub fn applied(&self) -> Vec<Applied> {
        self.shared.ledger().applied()
    }

    /// Waits for the first call that is `wanted`, also among those that were made before.
    pub async fn heard(&self, wanted: impl Fn(&Call) -> bool) -> Call {
        self.shared.heard(wanted).await
    }
}
