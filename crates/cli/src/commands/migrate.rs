//! `backstitch migrate`

use std::sync::Arc;

use backstitch::clock::{Clock, SystemClock};
use backstitch_server::admin;

use super::{Failure, Sources};
use crate::cli::output::line;

/// The database to migrate.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    sources: Sources,
}

/// Migrates the tables of the engine, of its products and of the server.
pub(crate) async fn run(args: Args) -> Result<(), Failure> {
    let config = args.sources.gather(Vec::new())?;
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    admin::migrate(&config, &clock).await?;
    line(format_args!("the schema is up to date"))?;
    Ok(())
}
