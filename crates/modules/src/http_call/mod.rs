//! One attempt of a step as a call over HTTP: what is sent, how far it got, and what the answer means.
//!
//! A call is declared as `{"http": {"method": "POST", "url": "http://…", "headers": {…}}}`.

mod answer;
mod caller;
mod client;
mod exchange;
mod header_values;
mod hosts;
mod identity;
mod target;

pub use caller::HttpCaller;
pub(crate) use caller::Sent;
pub use client::{Limits, SetupError};
pub use header_values::{HeaderCipher, HeaderError, HeaderStorage, has_plain_headers};
pub(crate) use identity::Identity;
pub(crate) use target::Target;
pub use target::{MAX_HEADERS, header_name_pattern, methods};
