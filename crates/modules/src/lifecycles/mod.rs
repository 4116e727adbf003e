//! Lifecycles: states and transitions that a user declares and that the outside world drives.
//!
//! [`Machines`] are declared, staged and applied. An instance of one is begun by [`Lifecycles::start`] and moved by
//! [`Lifecycles::transition`], [`Lifecycles::fail`] and [`Lifecycles::abandon`]; each is one guarded write with its event and
//! its message, in one commit. Where states have actions, [`Lifecycles::run`] performs them.
//!
//! ```no_run
//! use backstitch::{Engine, Options};
//! use backstitch_modules::lifecycles::{self, Builder, Given, Lifecycles, Settings};
//!
//! # async fn run(calls: std::sync::Arc<dyn lifecycles::Calls>) -> Result<(), Box<dyn std::error::Error>> {
//! let options = Options { products: vec![&lifecycles::SCHEMA], ..Options::default() };
//! let engine = Engine::open_with("sqlite:parcels.db", options).await?;
//! let lifecycles = Lifecycles::open(&engine, calls, &Settings::default())?;
//!
//! let parcel = Builder::new("parcel", "packed")
//!     .state("sent")
//!     .terminal("delivered")
//!     .edge("packed", "sent")
//!     .edge("sent", "delivered")
//!     .can_fail(["packed", "sent"])
//!     .build()?;
//! lifecycles.machines.declare(parcel).await?;
//! lifecycles.machines.apply("parcel", None).await?;
//!
//! lifecycles.start("parcel", "p-1", Given::default()).await?;
//! let moved = lifecycles.transition("parcel", "p-1", "sent", None).await?;
//! assert_eq!(&*moved.standing.instance.state, "sent");
//! # Ok(())
//! # }
//! ```

mod announcement;
mod base;
mod batch;
mod builder;
mod claim;
mod dead_letters;
pub mod declaration;
mod driver;
mod errand;
mod error;
mod failure_message;
mod holding;
mod instance_event;
mod instance_log;
mod key;
mod looking;
mod machines;
pub mod nats;
mod on_file;
mod on_server;
mod over_http;
pub mod parked;
mod retention;
mod schema;
mod seats;
pub mod sites;
mod standing;
mod worker_queue;
mod writer;

use std::sync::{Arc, Mutex, PoisonError};

use backstitch::kernel::lifecycle::Input;
use backstitch::watch::Subscription;
use backstitch::{Engine, MAX_LABEL, Payload};
use tokio::sync::mpsc;

pub use backstitch::kernel::lifecycle::draft::MAX_MESSAGE;
pub use backstitch::kernel::lifecycle::{
    AbandonReason, Draft, DraftAction, Event, Failure, Given, Instance, Kind, Machine, Recorded, Refused,
};
pub use builder::Builder;
pub use dead_letters::DeadLetter;
pub use driver::Settings;
pub use errand::{Calls, Errand};
pub use error::Error;
pub use failure_message::FailureMessage;
use failure_message::check_message;
pub use instance_event::InstanceEvent;
pub use key::{LifecycleKey, MAX_KEY, key_mistake, key_pattern};
pub use looking::{Count, Filter, Page, Stuck};
pub use machines::{Machines, Version, subject_pattern};
pub use retention::Ages;
pub use schema::SCHEMA;
pub use standing::{Moved, Standing};

use base::Base;
use batch::{Ask, Held, NotMoved};
use driver::Driver;
use writer::Writer;

/// The largest input, or data of a transition, in bytes of JSON.
pub const MAX_DATA: usize = 1 << 20;

/// The longest note of an abandonment, in bytes.
const MAX_NOTE: usize = 20 * 1024;

/// Lifecycles on an engine that was opened with [`SCHEMA`] among its products. Cloning gives another handle.
#[derive(Clone)]
pub struct Lifecycles {
    /// What is declared.
    pub machines: Machines,
    base: Arc<Base>,
    writer: Arc<Writer>,
    driver: Arc<Driver>,
    handed: Arc<Mutex<Option<mpsc::UnboundedReceiver<Held>>>>,
}

/// What somebody decides about one that they look at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wish {
    /// Begins again.
    Start,
    /// Goes on.
    Transition {
        /// To this state.
        to: String,
        /// What later actions read of it.
        data: Payload,
    },
    /// Gives it up.
    Fail(Failure),
    /// Ends it in the pause state it is in.
    Abandon {
        /// Why.
        note: String,
    },
}

impl Lifecycles {
    /// Takes up lifecycles; outside workers may take their work from now on. Actions are performed by whoever
    /// [runs](Self::run) it.
    ///
    /// # Errors
    /// When no connections to the database can be set up.
    pub fn open(engine: &Engine, calls: Arc<dyn Calls>, settings: &Settings) -> Result<Self, Error> {
        let base = Arc::new(Base::of(engine)?);
        let (held, handed) = mpsc::unbounded_channel();
        let writer = Arc::new(Writer::start(base.clone(), settings.lease, held)?);
        engine.add_worker_queue(Arc::new(worker_queue::ActionQueue::new(base.clone(), writer.clone())));
        let machines = Machines::on(base.clone(), calls.clone());
        let driver = Arc::new(Driver::new(base.clone(), writer.clone(), calls, settings));
        Ok(Self { machines, base, writer, driver, handed: Arc::new(Mutex::new(Some(handed))) })
    }

    /// Declares and applies site provisioning with these endpoints, unless it is so already.
    ///
    /// # Errors
    /// When some endpoints are missing or make no sense, or the database cannot be written.
    pub async fn provide_sites(&self, endpoints: &sites::Endpoints) -> Result<u32, Error> {
        let draft = sites::machine(endpoints).map_err(|why| Error::invalid("sites", why.to_string()))?;
        Ok(self.machines.put_any(draft, true).await?.version)
    }

    /// Performs the actions of states until `closing`, then waits for those under way. It can run once.
    pub async fn run(&self, closing: impl Future<Output = ()>) {
        let handed = self.handed.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(handed) = handed {
            self.driver.clone().run(handed, closing).await;
        }
    }

    /// Gives back the actions of a [run](Self::run) that was given up before it ended, so that others perform them at once.
    pub async fn let_go(&self) {
        self.driver.holding.let_all_go().await;
    }

    /// Begins one, or begins it again: `attempt` goes up, and its state stays unless it is one that waits for this.
    ///
    /// # Errors
    /// When there is no such machine, or it has ended; then nothing changes.
    pub async fn start(&self, machine: &str, key: &str, given: Given) -> Result<Moved, Error> {
        self.tell(machine, key, Input::Start(given), None).await
    }

    /// Goes on to another state.
    ///
    /// # Errors
    /// When the machine does not allow it; then nothing changes.
    pub async fn transition(
        &self,
        machine: &str,
        key: &str,
        to: &str,
        data: Option<Payload>,
    ) -> Result<Moved, Error> {
        self.tell(machine, key, Input::Transition { to: to.to_owned(), data }, None).await
    }

    /// Gives one up.
    ///
    /// # Errors
    /// When the machine does not allow it; then nothing changes.
    pub async fn fail(&self, machine: &str, key: &str, failure: Failure) -> Result<Moved, Error> {
        self.tell(machine, key, Input::Fail(failure), None).await
    }

    /// Ends one in the pause state it is in.
    ///
    /// # Errors
    /// When it is in no pause state, or has ended; then nothing changes.
    pub async fn abandon(&self, machine: &str, key: &str, note: &str) -> Result<Moved, Error> {
        self.tell(machine, key, Input::Abandon { note: note.to_owned() }, None).await
    }

    /// Does one of these, if nothing has happened since the event of this number: for whoever has looked and decided.
    ///
    /// # Errors
    /// When something has happened since, or the machine does not allow it; then nothing changes.
    pub async fn if_still_at(&self, machine: &str, key: &str, seq: u64, wish: Wish) -> Result<Moved, Error> {
        let input = match wish {
            Wish::Start => Input::Start(Given::default()),
            Wish::Transition { to, data } => Input::Transition { to, data: Some(data) },
            Wish::Fail(failure) => Input::Fail(failure),
            Wish::Abandon { note } => Input::Abandon { note },
        };
        self.tell(machine, key, input, Some(seq)).await
    }

    /// All events of this process from now on.
    #[must_use]
    pub fn events(&self) -> Subscription<Arc<InstanceEvent>> {
        self.base.events.subscribe_to_all()
    }

    async fn tell(&self, machine: &str, key: &str, input: Input, after: Option<u64>) -> Result<Moved, Error> {
        check_key(key)?;
        check_input(&input)?;
        let ask = Ask {
            machine: machine.into(),
            key: key.into(),
            input,
            after,
            id: self.base.new_id(),
            job: None,
            seat: None,
        };
        self.writer.write(ask).await?.map_err(|why| match why {
            NotMoved::UnknownMachine => Error::UnknownMachine(machine.to_owned()),
            NotMoved::NothingApplied => Error::NothingApplied(machine.to_owned()),
            NotMoved::Refused { why: Refused::NeverStarted, .. } => {
                Error::UnknownKey { machine: machine.to_owned(), key: key.to_owned() }
            }
            NotMoved::Refused { why, standing } => Error::Refused { why, standing },
            NotMoved::Job(_) => Error::Closed,
            NotMoved::MovedOn => Error::MovedOn { machine: machine.to_owned(), key: key.to_owned() },
        })
    }
}

fn check_key(key: &str) -> Result<(), Error> {
    key_mistake(key).map_or(Ok(()), |why| Err(Error::invalid("key", why)))
}

fn check_input(input: &Input) -> Result<(), Error> {
    match input {
        Input::Start(given) => {
            let id = given.correlation_id.as_deref();
            if id.is_some_and(|id| id.is_empty() || id.len() > MAX_LABEL) {
                return Err(Error::invalid(
                    "correlation_id",
                    format!("must have 1 to {MAX_LABEL} bytes: shorten it, or leave it out"),
                ));
            }
            text("correlation_id", id)?;
            size("input", given.input.as_ref())
        }
        Input::Transition { data, .. } => size("data", data.as_ref()),
        Input::Fail(failure) => check_message(&failure.message).map_err(|why| Error::invalid("message", why)),
        Input::Abandon { note } => {
            if note.trim().is_empty() || note.len() > MAX_NOTE {
                return Err(Error::invalid(
                    "note",
                    format!("must have 1 to {MAX_NOTE} bytes: say why it is abandoned"),
                ));
            }
            Ok(())
        }
        Input::PauseExpired { .. }
        | Input::Leased { .. }
        | Input::WorkerTimedOut { .. }
        | Input::Answered { .. } => Ok(()),
    }
}

fn text(field: &'static str, text: Option<&str>) -> Result<(), Error> {
    if text.is_some_and(|text| text.contains('\0')) {
        return Err(Error::invalid(field, "contains a NUL character: leave it out"));
    }
    Ok(())
}

fn size(field: &'static str, data: Option<&Payload>) -> Result<(), Error> {
    match data.map(Payload::len) {
        Some(size) if size > MAX_DATA => Err(Error::invalid(
            field,
            format!("has {size} bytes; the limit is {MAX_DATA}: pass a reference to where the data is"),
        )),
        _ => Ok(()),
    }
}
