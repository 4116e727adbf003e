//! Errors that steps pass on with `?`.

use std::io;

use backstitch::{Context, Retry, Saga, Status, Step, StepError, StepResult, StepStatus};
use serde_json::Value;

use super::stage::{Trace, noting, on_every_store};

/// A step whose service does its work and then loses the connection.
fn charging(trace: &Trace, lose_connection: fn() -> StepResult<String>) -> Step<Value, String> {
    let (done, undone) = (trace.clone(), trace.clone());
    Step::new("charge", move |_: Context<Value>| {
        done.say("charged");
        async move { lose_connection() }
    })
    .compensate(move |_, _| {
        undone.say("refunded");
        async { Ok(()) }
    })
    .retry(Retry::fixed(2, super::stage::ms(1)))
}

async fn charges_and_refunds(lose_connection: fn() -> StepResult<String>, refunds: usize) {
    on_every_store(async |stage| {
        let trace = Trace::default();
        let saga = Saga::builder("s")
            .step(noting("reserve", &Trace::default()))
            .step(charging(&trace, lose_connection))
            .build()
            .unwrap();
        let ended = stage.run(saga).await;
        assert_eq!(ended.status, Status::Compensated);
        let expected = if refunds == 0 { StepStatus::Failed } else { StepStatus::Compensated };
        assert_eq!(ended.step("charge").unwrap().status, expected);
        let said = trace.said();
        let count = |what| said.iter().filter(|said| *said == what).count();
        assert_eq!((count("charged"), count("refunded")), (3, refunds));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn unclassified_errors_lead_to_a_compensation() {
    charges_and_refunds(|| Err(io::Error::from(io::ErrorKind::ConnectionReset))?, 1).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn errors_before_any_effect_lead_to_no_compensation() {
    charges_and_refunds(|| Err(StepError::not_done("connection refused"))?, 0).await;
}
