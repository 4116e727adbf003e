//! How an engine comes up.

use std::sync::Arc;

use async_trait::async_trait;
use backstitch::Engine;
use backstitch::store::Error;
use backstitch::store::watched::{Moment, Watch, Watched};

use crate::runtime::support::*;

/// Lets nobody listen.
struct Deaf;

#[async_trait]
impl Watch for Deaf {
    async fn at(&self, moment: Moment<'_>) -> Result<(), Error> {
        match moment {
            Moment::BeforeListening => Err(Error::Unavailable("the line is cut".to_owned())),
            _ => Ok(()),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn an_engine_that_cannot_listen_leaves_nothing_running() {
    let bench = Bench::new();
    let store = Arc::new(Watched::new(bench.store.clone(), Deaf));
    let opened = Engine::on_store(store.clone(), bench.options.clone()).await;
    assert!(opened.is_err_and(|error| error.to_string().contains("the line is cut")));
    eventually("everybody lets go of the store", async || Arc::strong_count(&store) == 1).await;
}
