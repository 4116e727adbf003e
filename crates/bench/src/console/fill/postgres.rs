//! Fills a PostgreSQL database.

use super::super::Failure;
use super::Plan;
use crate::target::connect;

pub(super) async fn write(db: &str, plan: &Plan) -> Result<(), Failure> {
    let mut client = connect(db).await?;
    let transaction = client.transaction().await?;
    transaction
        .batch_execute(
            "set local search_path = backstitch, pg_temp;
             set local synchronous_commit = off;
             create temp table plan (sagas bigint, now bigint, step bigint) on commit drop;
             create temp table slots (slot bigint primary key, model uuid, only_begun boolean) on commit drop",
        )
        .await?;
    transaction
        .execute("insert into plan values ($1, $2, $3)", &[&plan.sagas, &plan.now, &plan.step])
        .await?;
    let insert = transaction.prepare("insert into slots values ($1, $2, $3)").await?;
    for (slot, (model, only_begun)) in plan.slots.iter().enumerate() {
        transaction.execute(&insert, &[&i64::try_from(slot)?, &model.0, only_begun]).await?;
    }
    transaction.batch_execute(include_str!("postgres.sql")).await?;
    transaction.commit().await?;
    // After a month of operation autovacuum would have done this.
    Ok(client.batch_execute("vacuum analyze").await?)
}
