//! Payment, inventory and logistics, simulated on one loopback port: `POST /{service}/do` and `POST /{service}/undo`.
//!
//! They respect idempotency keys as real services must: a repeated call is carried out once and gets the same response;
//! an undo
//! without its action succeeds, and the late action is refused.
//!
//! Behaviours are set per service and phase, or by an order: an item with the `sku`
//! `demo:KIND[-undo]:SERVICE[:TIME][:TIMESx]` sets
//! the behaviour for that order. [`Behaviour`] lists the kinds.
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

/// The running services. Dropping this ends them and their connections.
pub struct Services {
    address: SocketAddr,
    shared: Arc<Shared>,
    _listening: AbortOnDropHandle<()>,
}

impl Services {
    /// Starts on a free loopback port. All services behave alike until [`Services::set`].
    ///
    /// # Errors
    /// When there is no free port.
    pub async fn start(behaviour: Behaviour) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let address = listener.local_addr()?;
        let shared = Arc::new(Shared::new(behaviour));
        let listening = tokio::spawn(listener::run(listener, shared.clone()));
        Ok(Self { address, shared, _listening: AbortOnDropHandle::new(listening) })
    }

    /// Their address.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The address of a service's action or compensation.
    #[must_use]
    pub fn url(&self, service: Service, phase: Phase) -> String {
        format!("http://{}/{}/{}", self.address, service.name(), phase.as_str())
    }

    /// Sets the behaviour of a service's later calls; an order's own item takes precedence.
    pub fn set(&self, service: Service, phase: Phase, behaviour: Behaviour) {
        self.shared.set(service, phase, behaviour);
    }

    /// Releases hanging calls.
    pub fn release(&self) {
        self.shared.release();
    }

    /// Every call in order.
    #[must_use]
    pub fn calls(&self) -> Vec<Call> {
        self.shared.ledger().calls().to_vec()
    }

    /// Every effect that was not undone, in order.
    #[must_use]
    pub fn applied(&self) -> Vec<Applied> {
        self.shared.ledger().applied()
    }

    /// Waits for the first call that matches, including earlier calls.
    pub async fn heard(&self, wanted: impl Fn(&Call) -> bool) -> Call {
        self.shared.heard(wanted).await
    }
}
