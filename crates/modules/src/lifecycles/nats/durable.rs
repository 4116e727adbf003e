//! The broker's side: the stream, and the consumer on it that remembers what was acknowledged.

use std::time::Duration;

use async_nats::jetstream::consumer::{self, AckPolicy, PullConsumer, pull};
use async_nats::jetstream::context::{GetStreamError, GetStreamErrorKind};
use async_nats::jetstream::{self, ErrorCode};
use backstitch_api::validate::shown_duration;

use super::config::Config;
use crate::outgoing::reason;

/// The consumer, and how soon it delivers again what it hears nothing of.
pub(super) struct Durable {
    pub(super) consumer: PullConsumer,
    pub(super) patience: Duration,
    /// What it does differently from what was configured, and what to do about it.
    pub(super) differences: Vec<String>,
}

/// Finds the consumer, or creates it; or what keeps it from that, and what to do.
pub(super) async fn open(context: &jetstream::Context, config: &Config) -> Result<Durable, String> {
    let Config { stream: stream_name, durable, .. } = config;
    let stream = context.get_stream(stream_name).await.map_err(|why| no_stream(&why, config))?;
    let wanted = pull::Config {
        durable_name: Some(durable.clone()),
        filter_subject: config.subject.clone(),
        ack_policy: AckPolicy::Explicit,
        ack_wait: config.ack_wait,
        ..pull::Config::default()
    };
    let consumer = stream.get_or_create_consumer(durable, wanted).await.map_err(|why| {
        format!(
            "the consumer {durable} of the stream {stream_name} can neither be read nor created ({why}: {}): let this \
             login ask $JS.API.CONSUMER.>, and see that the stream keeps {}",
            reason(&why),
            config.subject
        )
    })?;
    let found = &consumer.cached_info().config;
    if found.ack_policy != AckPolicy::Explicit {
        return Err(format!(
            "the consumer {durable} of the stream {stream_name} does not wait for an acknowledgement of each message: \
             delete it, or name another as `durable`"
        ));
    }
    let patience = found.backoff.iter().copied().fold(found.ack_wait, Duration::min);
    let differences = differences(found, config);
    Ok(Durable { consumer, patience, differences })
}

fn no_stream(why: &GetStreamError, config: &Config) -> String {
    let Config { stream, subject, .. } = config;
    match why.kind() {
        GetStreamErrorKind::JetStream(said) if said.error_code() == ErrorCode::STREAM_NOT_FOUND => format!(
            "there is no stream {stream}: create it, and let it keep {subject} (nats stream add {stream} \
             --subjects='{subject}')"
        ),
        kind => format!(
            "the stream {stream} cannot be read ({kind}: {}): see that JetStream is on, and let this login ask \
             $JS.API.STREAM.INFO.{stream}",
            reason(why)
        ),
    }
}

/// What a consumer that was there before does differently.
fn differences(found: &consumer::Config, config: &Config) -> Vec<String> {
    let Config { stream, durable, subject, ack_wait, .. } = config;
    let edit = |option: &str| format!("(nats consumer edit {stream} {durable} {option})");
    let mut differences = Vec::new();
    if found.ack_wait != *ack_wait {
        let [found, wanted] = [found.ack_wait, *ack_wait].map(shown_duration);
        differences.push(format!(
            "its ack_wait is {found}, and {wanted} is configured: {found} counts; change one of them {}",
            edit(&format!("--wait={wanted}"))
        ));
    }
    if !found.backoff.is_empty() {
        differences.push("it has a backoff, which counts instead of ack_wait: remove it".to_owned());
    }
    if found.filter_subject != *subject {
        differences.push(format!(
            "it takes messages of `{}`, and `{subject}` is configured: change one of them {}",
            found.filter_subject,
            edit(&format!("--filter='{subject}'"))
        ));
    }
    if found.max_deliver > 0 {
        differences.push(format!(
            "it gives up a message after {} deliveries: let it deliver without end {}",
            found.max_deliver,
            edit("--max-deliver=-1")
        ));
    }
    differences
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_consumer_that_was_there_before_may_differ_and_each_difference_says_what_to_do() {
        let config = Config::new("nats://host", "SITES", "sites.requested");
        let same = consumer::Config {
            ack_wait: config.ack_wait,
            filter_subject: config.subject.clone(),
            max_deliver: -1,
            ..consumer::Config::default()
        };
        assert_eq!(differences(&same, &config), Vec::<String>::new());
        let other = consumer::Config {
            ack_wait: Duration::from_secs(5),
            filter_subject: "sites.>".to_owned(),
            max_deliver: 3,
            backoff: vec![Duration::from_secs(1)],
            ..same
        };
        let told = differences(&other, &config);
        assert_eq!(told.len(), 4);
        for (told, said) in
            told.iter().zip(["--wait=30s", "backoff", "--filter='sites.requested'", "3 deliveries"])
        {
            assert!(told.contains(said), "{said}: {told}");
        }
    }
}
