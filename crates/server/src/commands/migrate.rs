//! `backstitch migrate`

use std::path::PathBuf;
use std::sync::Arc;

use backstitch::clock::{Clock, SystemClock};
use backstitch::store::postgres::PostgresStore;
use backstitch::store::sqlite::SqliteStore;

use super::{Failure, Sources};
use crate::database::Database;
use crate::server::PRODUCTS;

/// Which database is brought up to date.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    sources: Sources,
}

/// Brings the tables of the engine, of its products and of the server up to date.
///
/// # Errors
/// When the database cannot be opened or changed, or is newer than this program.
pub async fn run(args: Args) -> Result<(), Failure> {
    let config = args.sources.gather(Vec::new())?;
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    match config.db.strip_prefix("sqlite:").map(PathBuf::from) {
        Some(path) => {
            let clock = clock.clone();
            tokio::task::spawn_blocking(move || SqliteStore::open_with(&path, clock, &PRODUCTS)).await??;
        }
        None => {
            PostgresStore::connect_with(&config.db, &PRODUCTS).await?;
        }
    }
    Database::open(&config.db, &clock).await?;
    println!("the schema is up to date");
    Ok(())
}
