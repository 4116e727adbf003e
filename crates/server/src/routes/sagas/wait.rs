//! Waiting for a saga's end, for a while.

use std::time::Duration;

use backstitch::{Error, Run, SagaState};

use crate::app::App;
use crate::auth::Leave;
use crate::http::Query;
use crate::problem::Problem;

/// The longest wait that can be asked for, in seconds.
const LONGEST: u64 = 60;

/// How long the caller wants to wait.
pub(in crate::routes) fn asked(query: &mut Query) -> Result<Option<Duration>, Problem> {
    Ok(query.number("wait", 0, LONGEST)?.map(Duration::from_secs))
}

/// The saga at its end, or as it stands when the time is up, the server closes or the leave to wait ends.
pub(in crate::routes) async fn at_end(
    app: &App,
    leave: &Leave,
    run: Run,
    wait: Option<Duration>,
) -> Result<SagaState, Problem> {
    let id = run.id();
    if let Some(wait) = wait {
        tokio::select! {
            biased;
            ended = tokio::time::timeout(wait, run.outcome()) => match ended {
                Ok(Err(Error::ShuttingDown)) | Err(_) => {}
                Ok(ended) => return Ok(ended?),
            },
            () = leave.over() => {}
        }
    }
    let state = app.engine.load(id).await?;
    Ok(state.ok_or(Error::NotFound(id))?)
}
