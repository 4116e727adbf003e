//! The step at which a failed rollback is stuck, read from the end of its log.

use backstitch_kernel::saga::{Event, Status};
use futures::{StreamExt as _, TryStreamExt as _, stream};

use crate::store::{Cursor, Error, Filter, Page, Store, StuckStep, Summary};

/// Logs that are read at once.
const AT_ONCE: usize = 8;

/// A page of sagas with the stuck steps of those that failed. With a filter by stuck step a page may be short, as with any
/// filter that finds few.
pub(crate) async fn list(store: &dyn Store, filter: &Filter, cursor: &Cursor) -> Result<Page, Error> {
    let Some(wanted) = &filter.stuck_step else {
        let mut page = store.list(filter, cursor).await?;
        fill(store, &mut page.items).await?;
        return Ok(page);
    };
    if filter.status.is_some_and(|status| status != Status::Failed) {
        return Ok(Page { items: Vec::new(), next: None });
    }
    let failed = Filter { status: Some(Status::Failed), ..filter.clone() };
    let mut page = store.list(&failed, cursor).await?;
    fill(store, &mut page.items).await?;
    page.items.retain(|saga| saga.stuck.as_ref().is_some_and(|stuck| stuck.step.as_str() == wanted));
    Ok(page)
}

/// Reads where those of these sagas are stuck that failed.
async fn fill(store: &dyn Store, sagas: &mut [Summary]) -> Result<(), Error> {
    let failed: Vec<_> =
        sagas.iter().filter(|saga| saga.status == Status::Failed).map(|saga| saga.id).collect();
    if failed.is_empty() {
        return Ok(());
    }
    // The last event of a failed saga names the step and the error.
    let heads = store.heads(&failed).await?;
    let last = |head: crate::store::LogHead| async move {
        let events = store.log(head.log, head.seq.saturating_sub(1), 1).await?;
        Ok::<_, Error>((head.log, events.into_iter().next()))
    };
    let ends: Vec<_> = stream::iter(heads).map(last).buffer_unordered(AT_ONCE).try_collect().await?;
    for (saga, end) in ends {
        let Some(Event::SagaFailed { step, error }) = end.map(|recorded| recorded.event) else { continue };
        if let Some(row) = sagas.iter_mut().find(|row| row.id == saga) {
            row.stuck = Some(StuckStep { step, error });
        }
    }
    Ok(())
}
