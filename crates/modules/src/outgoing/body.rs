//! What somebody answered, as far as it was read.

use http::Response;
use http::header::CONTENT_ENCODING;
use http_body_util::BodyExt as _;
use hyper::body::{Body as _, Incoming};

use super::reason;

/// Memory set aside on somebody's word that an answer will be as long, in bytes.
const TRUSTED: usize = 64 * 1024;
/// The most of a body that an error repeats, in bytes.
const QUOTED: usize = 512;

/// A body as far as it was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Body {
    /// All of it.
    Whole(Vec<u8>),
    /// More than may be kept.
    TooLarge {
        /// How much may be kept.
        limit: usize,
    },
    /// All of it, compressed in this way and left so.
    Packed(String),
    /// The connection ended before the body did.
    CutOff(String),
}

impl Body {
    /// Reads a body of at most this many bytes.
    pub(crate) async fn read(response: Response<Incoming>, limit: usize) -> Self {
        let encoding = response.headers().get(CONTENT_ENCODING);
        // Never decompressed: a small response could turn out to be a giant one.
        let packed = encoding
            .filter(|encoding| *encoding != "identity")
            .map(|encoding| String::from_utf8_lossy(encoding.as_bytes()).into_owned());
        let mut body = response.into_body();
        let expected = body.size_hint().exact().and_then(|length| usize::try_from(length).ok());
        if expected.is_some_and(|length| length > limit) {
            return Self::TooLarge { limit };
        }
        let mut whole = Vec::with_capacity(expected.unwrap_or_default().min(TRUSTED));
        loop {
            let chunk = match body.frame().await {
                // What is no data are trailers, which nobody asked for.
                Some(Ok(frame)) => frame.into_data().unwrap_or_default(),
                Some(Err(error)) => return Self::CutOff(format!("{error}: {}", reason(&error))),
                None => return packed.map_or(Self::Whole(whole), Self::Packed),
            };
            if whole.len() + chunk.len() > limit {
                return Self::TooLarge { limit };
            }
            whole.extend_from_slice(&chunk);
        }
    }

    /// It was waited for in vain.
    pub(crate) fn late() -> Self {
        Self::CutOff("it did not end in time".to_owned())
    }

    /// What people are told about an answer with this status.
    pub(crate) fn said(&self, status: u16) -> String {
        match self {
            Self::Whole(bytes) if bytes.is_empty() => format!("HTTP {status}"),
            Self::Whole(bytes) => format!("HTTP {status}: {}", quoted(bytes)),
            Self::TooLarge { .. } => format!("HTTP {status} with a very large body"),
            Self::Packed(_) => format!("HTTP {status} with a packed body"),
            Self::CutOff(why) => format!("HTTP {status}, cut off: {why}"),
        }
    }
}

/// The beginning of what somebody else wrote, on one line.
pub(crate) fn quoted(bytes: &[u8]) -> String {
    let shown = &bytes[..bytes.len().min(QUOTED)];
    let text: String = String::from_utf8_lossy(shown)
        .chars()
        .map(|char| if char.is_control() { ' ' } else { char })
        .collect();
    if shown.len() < bytes.len() { format!("{}…", text.trim()) } else { text.trim().to_owned() }
}
