//! Measures each page of the console on a full store, as a signed-in user sees it.

mod figures;
mod fill;
mod models;
mod pages;
mod visitor;

use std::process::Stdio;

use tokio::process::Command;

use super::http::client::Client;
use super::http::program::Node;
use super::http::services::Services;
use super::target::Target;
use super::{Args, Failure};
use figures::{Figure, Table};
use models::Models;
use pages::{ConsolePage, Landmarks};
use visitor::Visitor;

/// Fetches of each page in a round.
const VISITS: u32 = 10;
/// On `PostgreSQL` keys need a secret; a file has its own. Nothing here survives the run.
const SETTINGS: [(&str, &str); 2] = [
    ("BACKSTITCH_SECRET", "a benchmark's secret, as long as it has to be"),
    ("BACKSTITCH_EGRESS_ALLOW", "127.0.0.0/8"),
];

/// Fills a store, fetches every page, and prints the times.
pub(super) async fn run(args: &Args, sagas: u32) -> Result<(), Failure> {
    let target = Target::make(&args.store).await?;
    let db = target.address().ok_or("the console needs a store on disk: use sqlite or postgres://…")?;
    let key = create_key(&db).await?;
    let services = Services::start().await?;
    let node = Node::start_with(&db, &SETTINGS).await?;
    let models = Models::make(&Client::new(node.address(), Some(key.clone())), &services).await?;
    node.end().await?;
    fill::fill(&db, &models, sagas).await?;

    let node = Node::start_with(&db, &SETTINGS).await?;
    let landmarks = Landmarks::find(&Client::new(node.address(), Some(key.clone()))).await?;
    let pages = pages::all(&landmarks);
    let mut figures = pages.iter().map(Figure::of).collect::<Result<Vec<_>, _>>()?;
    for _ in 0..args.rounds {
        // Each round has a new connection, as a returning user has.
        let mut visitor = Visitor::sign_in(node.address(), &key).await?;
        for (page, figure) in pages.iter().zip(&mut figures) {
            visit(&mut visitor, page, figure).await?;
        }
    }
    node.end().await?;
    target.remove().await?;
    let mut table = Table::new(args.json)?;
    for figure in &figures {
        table.print(figure)?;
    }
    table.end(sagas, &args.store)
}

async fn visit(visitor: &mut Visitor, page: &ConsolePage, figure: &mut Figure) -> Result<(), Failure> {
    for _ in 0..VISITS {
        figure.record(visitor.fetch(page).await?);
    }
    Ok(())
}

/// A key that opens every page.
async fn create_key(db: &str) -> Result<String, Failure> {
    let made = Command::new(std::env::current_exe()?)
        .args(["keys", "create", "--role", "admin", "--name", "bench", "--db", db])
        .envs(SETTINGS)
        .stdin(Stdio::null())
        .output()
        .await?;
    if !made.status.success() {
        return Err(format!("no key can be made: {}", String::from_utf8_lossy(&made.stderr)).into());
    }
    Ok(String::from_utf8(made.stdout)?.trim().to_owned())
}
