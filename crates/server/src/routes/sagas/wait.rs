//! Waiting for a saga's end, for a while.

use std::time::Duration;

use backstitch::{Error, Run, SagaState};

use crate::app::App;
use crate::http::Query;
use crate::problem::Problem;

/// The longest wait that can be asked for, in seconds.
const LONGEST: u64 = 60;

/// How long the caller wants to wait.
pub(super) fn asked(query: &mut Query) -> Result<Option<Duration>, Problem> {
    Ok(query.number("wait", 0, LONGEST)?.map(Duration::from_secs))
}

/// The saga at its end, or as it stands when the time is up or the server closes.
pub(super) async fn at_end(app: &App, run: Run, wait: Option<Duration>) -> Result<SagaState, Problem> {
    let id = run.id();
    if let Some(wait) = wait {
        tokio::select! {
            biased;
            ended = tokio::time::timeout(wait, run.outcome()) => match ended {
                Ok(Err(Error::ShuttingDown)) | Err(_) => {}
                Ok(ended) => return Ok(ended?),
            },
            () = app.closing.cancelled() => {}
        }
    }
    let state = app.engine.load(id).await?;
    Ok(state.ok_or(Error::NotFound(id))?)
}
