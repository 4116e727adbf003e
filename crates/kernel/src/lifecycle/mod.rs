//! Declared state machines that the outside world drives.
//!
//! ```
//! use backstitch_kernel::lifecycle::{self, Draft, Given, Input};
//! use backstitch_kernel::Timestamp;
//!
//! let mut draft = Draft::new("parcel", "packed");
//! draft.states.extend(["sent", "delivered"].map(str::to_owned));
//! draft.terminal.push("delivered".to_owned());
//! draft.edges.push(("packed".to_owned(), "sent".to_owned()));
//! draft.edges.push(("sent".to_owned(), "delivered".to_owned()));
//! let machine = draft.check()?;
//! let now = Timestamp::from_micros(0);
//!
//! let started = lifecycle::decide(&machine, "p1", None, Input::Start(Given::default()), now)?;
//! let sent = Input::Transition { to: "sent".to_owned(), data: None };
//! let moved = lifecycle::decide(&machine, "p1", Some(&started.instance), sent, now)?;
//! assert_eq!(&*moved.instance.state, "sent");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub mod audit;
mod check;
pub mod codec;
mod decide;
pub mod diagram;
pub mod draft;
mod event;
mod instance;
mod machine;

pub use audit::audit;
pub use decide::{Decision, Input, Offer, Refused, decide};
pub use draft::{Draft, DraftAction, FAILED, INTERNAL, OK};
pub use event::{AbandonReason, Event, Given, Recorded, Started};
pub use instance::{Failure, Instance};
pub use machine::{Kind, Machine};
