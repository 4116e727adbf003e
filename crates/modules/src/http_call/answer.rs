//! What a service's answer means for the step that called it.

use std::time::Duration;

use backstitch::{Payload, StepError};

use crate::depth::exceeds;
use crate::outgoing::Body;

/// What came back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Answer {
    /// The status.
    pub(super) status: u16,
    /// How long the service asks to be left alone.
    pub(super) retry_after: Option<Duration>,
    /// The body.
    pub(super) body: Body,
}

/// Whether the step is done, and if not, whether it may be all the same.
///
/// `in_doubt` says that an earlier attempt may have taken effect: a conflict is then no refusal, since it may be the
/// service's answer to its own unfinished work. A result is read down to `depth`.
///
/// # Errors
/// When the answer is no success: refused for good, not done, or in doubt.
pub(super) fn judge(answer: Answer, in_doubt: bool, depth: usize) -> Result<Payload, StepError> {
    let Answer { status, retry_after, body } = answer;
    if (200..300).contains(&status) {
        return result(status, body, depth);
    }
    let told = body.said(status);
    let error = match status {
        425 | 429 | 503 => StepError::not_done(told),
        409 if in_doubt => StepError::in_doubt(told),
        408 => StepError::in_doubt(told),
        400..500 => StepError::refused(told),
        // A redirect is no answer, and what the other side has done before it sent one is its secret.
        300..400 => {
            StepError::in_doubt(format!("{told}; redirects are not followed: give the address it leads to"))
        }
        _ => StepError::in_doubt(told),
    };
    let error = error.with_code(code(status, &body));
    Err(match retry_after {
        Some(delay) => error.with_retry_after(delay),
        None => error,
    })
}

/// A complete success counts, whatever its body is. Whether one that was cut off or is too large took effect is
/// unknown, and the step asks again under the same key.
fn result(status: u16, body: Body, depth: usize) -> Result<Payload, StepError> {
    match body {
        Body::Whole(bytes) => Ok(parsed(&bytes, depth).unwrap_or_else(|| Payload::from_unparsed(&bytes))),
        // Compressed bytes are binary: nothing is kept of them.
        Body::Packed(_) => Ok(Payload::from_unparsed(&[0])),
        Body::TooLarge { limit } => {
            let message = format!(
                "HTTP {status} with more than {limit} bytes: answer with less and keep the rest elsewhere"
            );
            Err(StepError::in_doubt(message).with_code("ANSWER_TOO_LARGE"))
        }
        Body::CutOff(why) => {
            Err(StepError::in_doubt(format!("HTTP {status}, cut off: {why}")).with_code("ANSWER_CUT_OFF"))
        }
    }
}

/// The body as JSON, if every reader of the result can decode it.
fn parsed(bytes: &[u8], depth: usize) -> Option<Payload> {
    if bytes.iter().all(u8::is_ascii_whitespace) {
        return Some(Payload::null());
    }
    if exceeds(bytes, depth) {
        return None;
    }
    let result = Payload::parse(std::str::from_utf8(bytes).ok()?).ok()?;
    // Valid syntax is not enough: no number holds 1e400, and no text half of a surrogate pair.
    result.decode::<serde_json::Value>().ok()?;
    Some(result)
}

/// The service's own code where it gives one, as `{"code": "OUT_OF_STOCK"}` or `{"error": {"code": …}}`.
fn code(status: u16, body: &Body) -> String {
    let own = match body {
        Body::Whole(bytes) => serde_json::from_slice::<serde_json::Value>(bytes).ok(),
        Body::TooLarge { .. } | Body::Packed(_) | Body::CutOff(_) => None,
    };
    let own = own.as_ref().and_then(|body| body.get("code").or_else(|| body.get("error")?.get("code")));
    let own = own.and_then(|code| code.as_str()).filter(|code| !code.is_empty());
    own.map_or_else(|| format!("HTTP_{status}"), str::to_owned)
}

#[cfg(test)]
mod tests {
    use backstitch::ErrorKind;

    use super::*;

    fn answer(status: u16, body: &str) -> Answer {
        Answer { status, retry_after: None, body: Body::Whole(body.as_bytes().to_vec()) }
    }

    fn kind(status: u16) -> ErrorKind {
        judge(answer(status, "no"), false, 64).unwrap_err().kind
    }

    #[test]
    fn a_success_gives_its_body() {
        assert_eq!(judge(answer(200, r#"{"id":7}"#), false, 64).unwrap().as_str(), r#"{"id":7}"#);
        assert_eq!(judge(answer(201, " 17 "), false, 64).unwrap().as_str(), "17");
        assert!(judge(answer(204, ""), false, 64).unwrap().is_null());
        let deep = "[".repeat(64) + &"]".repeat(64);
        assert_eq!(judge(answer(200, &deep), false, 64).unwrap().as_str(), deep);
        assert!(judge(answer(200, " \n"), false, 64).unwrap().is_null());
    }

    #[test]
    fn complete_success_without_json_is_unparsed() {
        let deep = "[".repeat(65) + &"]".repeat(65);
        for (body, result) in [
            (Body::Whole(b"<html>".to_vec()), "\"<html>\""),
            (Body::Whole(b"OK\n".to_vec()), "\"OK\\n\""),
            (Body::Whole(b"[1e400]".to_vec()), "\"[1e400]\""),
            (Body::Whole(br#"{"half": "\ud800"}"#.to_vec()), r#""{\"half\": \"\\ud800\"}""#),
            (Body::Whole(deep.clone().into_bytes()), &format!("\"{deep}\"")),
            (Body::Whole(vec![b'"', 0xff, b'"']), "null"),
            (Body::Whole(b"a\0b".to_vec()), "null"),
            (Body::Packed("gzip".to_owned()), "null"),
        ] {
            let kept = judge(Answer { status: 200, retry_after: None, body }, false, 64).unwrap();
            assert_eq!((kept.as_str(), kept.is_unparsed()), (result, true));
        }
        assert!(!judge(answer(200, "{}"), false, 64).unwrap().is_unparsed());
        assert!(!judge(answer(204, ""), false, 64).unwrap().is_unparsed());
    }

    #[test]
    fn incomplete_success_is_in_doubt() {
        for body in [Body::TooLarge { limit: 10 }, Body::CutOff("reset".to_owned())] {
            let error = judge(Answer { status: 200, retry_after: None, body }, false, 64).unwrap_err();
            assert_eq!(error.kind, ErrorKind::InDoubt, "{error}");
        }
    }

    #[test]
    fn every_status_is_a_refusal_a_retry_or_a_doubt() {
        for status in [400, 401, 402, 403, 404, 405, 409, 410, 413, 415, 418, 422, 431, 451] {
            assert_eq!(kind(status), ErrorKind::Refused, "{status}");
        }
        for status in [425, 429, 503] {
            assert_eq!(kind(status), ErrorKind::Failed, "{status}");
        }
        for status in [300, 301, 302, 303, 304, 307, 308, 408, 500, 501, 502, 504, 505, 520, 599] {
            assert_eq!(kind(status), ErrorKind::InDoubt, "{status}");
        }
    }

    #[test]
    fn a_conflict_after_a_doubt_is_no_refusal() {
        assert_eq!(judge(answer(409, ""), true, 64).unwrap_err().kind, ErrorKind::InDoubt);
        assert_eq!(judge(answer(422, ""), true, 64).unwrap_err().kind, ErrorKind::Refused);
    }

    #[test]
    fn the_service_says_when_to_come_again_and_why_not() {
        let busy = Answer { retry_after: Some(Duration::from_secs(7)), ..answer(429, "") };
        assert_eq!(judge(busy, false, 64).unwrap_err().retry_after, Some(Duration::from_secs(7)));
        let error = judge(answer(422, r#"{"code":"OUT_OF_STOCK","left":0}"#), false, 64).unwrap_err();
        assert_eq!(error.code.as_deref(), Some("OUT_OF_STOCK"));
        assert!(error.message.contains("\"left\":0"), "{error}");
        let nested = judge(answer(402, r#"{"error":{"code":"DECLINED"}}"#), false, 64).unwrap_err();
        assert_eq!(nested.code.as_deref(), Some("DECLINED"));
        assert_eq!(judge(answer(404, "nowhere"), false, 64).unwrap_err().code.as_deref(), Some("HTTP_404"));
    }

    #[test]
    fn an_error_repeats_the_beginning_of_a_body_only() {
        let long = "ab\u{1}".repeat(10_000);
        let error = judge(answer(400, &long), false, 64).unwrap_err();
        assert!(error.message.len() < 600 && error.message.ends_with('…'), "{error}");
        assert!(!error.message.contains('\u{1}'));
    }
}
