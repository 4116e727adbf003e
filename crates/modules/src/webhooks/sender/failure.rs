//! Why an attempt failed.

use std::borrow::Cow;
use std::error::Error;
use std::fmt::Display;
use std::io;
use std::time::Duration;

use hyper_util::client::legacy;

use crate::outgoing::{Late, reason};
use crate::webhooks::egress::{Forbidden, Unresolved};

/// The longest message, in characters.
const LONGEST: usize = 500;

/// Why an attempt failed, for programs. A status has the code `http_` and its number, such as `http_503`.
pub mod code {
    /// There was no answer in time, or not even a connection.
    pub const TIMEOUT: &str = "timeout";
    /// The host's name leads nowhere.
    pub const DNS_FAILED: &str = "dns_failed";
    /// Nobody listens there, or the way is cut.
    pub const CONNECT_FAILED: &str = "connect_failed";
    /// There is no TLS to be had with it, or its certificate is not good.
    pub const TLS_FAILED: &str = "tls_failed";
    /// It is a place that webhooks may not go to.
    pub const EGRESS_FORBIDDEN: &str = "egress_forbidden";
    /// It leads elsewhere, and redirects are not followed.
    pub const REDIRECT: &str = "redirect";
    /// What was answered is no HTTP.
    pub const PROTOCOL: &str = "protocol";
    /// The connection ended before an answer came.
    pub const CONNECTION_LOST: &str = "connection_lost";
    /// There is no secret to sign with, so nothing was sent.
    pub const NO_SECRET: &str = "no_secret";
    /// It could not be put into a request, so nothing was sent.
    pub const BAD_REQUEST: &str = "bad_request";
}

/// Why an attempt failed.
#[derive(Debug)]
pub(in crate::webhooks) struct Failure {
    pub(super) code: Cow<'static, str>,
    pub(in crate::webhooks) message: String,
    /// Nothing of the request has left.
    pub(super) is_unsent: bool,
}

impl Failure {
    fn new(code: impl Into<Cow<'static, str>>, message: &str) -> Self {
        let message = message.chars().take(LONGEST).map(|char| if char.is_control() { ' ' } else { char });
        Self { code: code.into(), message: message.collect(), is_unsent: false }
    }

    fn unsent(self) -> Self {
        Self { is_unsent: true, ..self }
    }

    pub(super) fn late(within: Duration) -> Self {
        Self::new(code::TIMEOUT, &format!("no answer within {within:?}"))
    }

    pub(super) fn forbidden(why: &Forbidden) -> Self {
        Self::new(code::EGRESS_FORBIDDEN, &why.to_string()).unsent()
    }

    pub(super) fn unsigned() -> Self {
        Self::new(code::NO_SECRET, "there is no secret to sign with: rotate the subscription's secret")
            .unsent()
    }

    pub(super) fn unsendable(why: &dyn Display) -> Self {
        Self::new(code::BAD_REQUEST, &format!("it cannot be put into a request: {why}")).unsent()
    }

    /// What a status means, unless it is a success.
    pub(super) fn of_status(status: u16) -> Option<Self> {
        match status {
            200..300 => None,
            300..400 => Some(Self::new(
                code::REDIRECT,
                &format!("HTTP {status}: redirects are not followed: give the address it leads to"),
            )),
            0..200 => Some(Self::new(code::PROTOCOL, &format!("HTTP {status} is no answer to a webhook"))),
            _ => Some(Self::new(format!("http_{status}"), &format!("HTTP {status}"))),
        }
    }

    /// Why there was no answer.
    pub(super) fn unanswered(error: &legacy::Error) -> Self {
        let why = reason(error);
        if let Some(forbidden) = cause::<Forbidden>(error) {
            Self::forbidden(forbidden)
        } else if let Some(unresolved) = cause::<Unresolved>(error) {
            Self::new(code::DNS_FAILED, &unresolved.to_string()).unsent()
        } else if let Some(late) = cause::<Late>(error) {
            // It was the connection that took too long.
            Self::new(code::TIMEOUT, &late.to_string()).unsent()
        } else if error.is_connect() {
            // The dialler has errors of its own; a bare one comes from the handshake after it.
            let handshake = error.source().is_some_and(<dyn Error>::is::<io::Error>);
            let code = if handshake { code::TLS_FAILED } else { code::CONNECT_FAILED };
            Self::new(code, &format!("cannot connect: {why}")).unsent()
        } else if cause::<hyper::Error>(error).is_some_and(hyper::Error::is_parse) {
            Self::new(code::PROTOCOL, &format!("the answer is no HTTP: {why}"))
        } else {
            Self::new(
                code::CONNECTION_LOST,
                &format!("the connection was lost before the answer came: {why}"),
            )
        }
    }
}

fn cause<T: Error + 'static>(error: &legacy::Error) -> Option<&T> {
    std::iter::successors(error.source(), |&cause| cause.source()).find_map(|cause| cause.downcast_ref())
}
