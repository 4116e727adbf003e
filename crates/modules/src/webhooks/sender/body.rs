//! The beginning of an answer's body, for the log of attempts.

use http_body_util::BodyExt;
use hyper::body::Incoming;
use tokio::time::{Instant, timeout_at};

/// How much is kept, in bytes.
const KEPT: usize = 4 * 1024;
/// How much is read, in bytes, so that the connection can be used again; one that brings more is closed instead.
const READ: usize = 64 * 1024;

/// What comes before the deadline, up to the bound, as text. A packed body is read past: unpacked, a small one could be
/// a giant, and packed nobody can read it.
pub(super) async fn start(mut body: Incoming, packed: Option<String>, deadline: Instant) -> String {
    let mut kept = Vec::new();
    let mut read = 0;
    let reading = async {
        while let Some(Ok(frame)) = body.frame().await {
            // What is no data are trailers, which nobody asked for.
            let chunk = frame.into_data().unwrap_or_default();
            let room = KEPT - kept.len();
            kept.extend_from_slice(&chunk[..chunk.len().min(room)]);
            read += chunk.len();
            if read > READ {
                break;
            }
        }
    };
    // What has been read by then counts, so that nothing is said about being late.
    let _ = timeout_at(deadline, reading).await;
    match packed {
        Some(how) => text(format!("(packed as {how})").as_bytes()),
        None => text(&kept),
    }
}

/// Readable whatever it holds. Without NUL, which `PostgreSQL` keeps in no text.
fn text(bytes: &[u8]) -> String {
    let mut text = String::from_utf8_lossy(bytes).replace('\0', "");
    // What stands in for broken bytes is longer than they were.
    let end = (0..=KEPT.min(text.len())).rev().find(|end| text.is_char_boundary(*end));
    text.truncate(end.unwrap_or_default());
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_bytes_become_text_that_every_database_keeps() {
        assert_eq!(text(b"a\0b\xff\0"), "ab\u{fffd}");
        assert_eq!(text("größer".as_bytes()), "größer");
        assert!(text(&[0xff; KEPT]).len() <= KEPT);
        assert_eq!(text(&[0; KEPT]), "");
    }
}
