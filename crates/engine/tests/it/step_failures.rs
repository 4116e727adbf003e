//! How errors of steps are classified.

use backstitch::{ErrorKind, StepError, StepFailure, StepResult};

#[derive(Debug, thiserror::Error)]
#[error("cannot pay")]
struct Outer<E: std::error::Error>(#[source] E);

#[derive(Debug, thiserror::Error)]
#[error("no route to bank")]
struct Inner;

fn declined() -> StepError {
    StepError::refused("declined").with_code("CARD_DECLINED").with_retry_after(backstitch::secs(3))
}

/// What `?` makes of an error.
fn passed_on<E>(error: E) -> StepError
where
    StepFailure: From<E>,
{
    fn step<E>(error: E) -> StepResult<()>
    where
        StepFailure: From<E>,
    {
        Err::<(), E>(error)?;
        Ok(())
    }
    match step(error) {
        Err(failure) => failure.into(),
        Ok(()) => unreachable!("an error was passed on"),
    }
}

#[test]
fn unclassified_errors_are_in_doubt_with_all_their_causes() {
    let error = passed_on(Outer(Inner));
    assert_eq!(error, StepError::in_doubt("cannot pay: no route to bank"));
}

#[test]
fn anyhow_errors_are_in_doubt_with_all_their_causes() {
    let error = passed_on(anyhow::Error::from(Inner).context("cannot pay"));
    assert_eq!(error, StepError::in_doubt("cannot pay: no route to bank"));
}

#[test]
fn boxed_errors_are_in_doubt_with_all_their_causes() {
    let error: Box<dyn std::error::Error + Send + Sync> = Box::new(Outer(Inner));
    assert_eq!(passed_on(error), StepError::in_doubt("cannot pay: no route to bank"));
}

#[test]
fn step_errors_keep_their_classification() {
    assert_eq!(passed_on(declined()), declined());
    let not_done = StepError::not_done("connection refused");
    assert_eq!(passed_on(not_done.clone()), not_done);
    assert_eq!(not_done.kind, ErrorKind::Failed);
    let boxed: Box<dyn std::error::Error + Send + Sync> = declined().into();
    assert_eq!(passed_on(boxed), declined());
    assert_eq!(passed_on(anyhow::Error::from(declined())), declined());
}

#[test]
fn causes_keep_their_classification() {
    let expected = StepError { message: "cannot pay: declined".to_owned(), ..declined() };
    assert_eq!(passed_on(Outer(declined())), expected);
    assert_eq!(passed_on(anyhow::Error::from(declined()).context("cannot pay")), expected);
}

#[test]
fn step_errors_are_standard_errors() {
    let error: &dyn std::error::Error = &declined();
    assert_eq!(error.to_string(), "CARD_DECLINED: declined");
    let failure = StepFailure::from(declined());
    assert_eq!((failure.to_string().as_str(), failure.error()), ("CARD_DECLINED: declined", &declined()));
}
