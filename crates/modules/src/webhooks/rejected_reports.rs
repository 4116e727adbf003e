//! Reports that the database rejects, kept until it takes them: a webhook that was sent is not sent again.

use std::sync::Arc;

use backstitch::group_commit::NotWritten;
use backstitch::jobs;
use backstitch::kernel::lease::{Lease, Status};
use backstitch::store;
use backstitch::store::isolation::Isolable as _;

use super::base::{Part, Side};
use super::error::Error;
use super::jobs::{Answered, BATCH, Jobs, Report, Won};
use crate::question::{Record, Statement, Value, borrowed, on_file, statement};

impl Jobs {
    /// Keeps a rejected report and parks its job. The job stays leased until the report is written.
    pub(super) async fn keep_rejected(
        &self,
        report: &Report,
        why: Arc<store::Error>,
    ) -> Result<Answered, Error> {
        let text = serde_json::to_string(report).map_err(|error| store::Error::Refused(error.to_string()))?;
        if self.insert_rejected(report, text).await? {
            self.park(report.job, why.to_string()).await?;
            return Ok(Answered::Now);
        }
        let values = vec![report.job.into(), report.token.into()];
        let first =
            self.base.read_durably(Part::Worker, statement!("webhooks/rejected_report"), values).await?;
        match first.first() {
            Some(row) => {
                let Report { error_code, .. } = parsed(report.job, row, 0)?;
                Ok(Answered::Before(error_code.map_or(Won::Completed, Won::Failed)))
            }
            None => Err(Error::Batch(why)),
        }
    }

    /// Inserts a report whose lease lasts; whether it is the first one of its job.
    async fn insert_rejected(&self, report: &Report, text: String) -> Result<bool, store::Error> {
        let Statement { sqlite, postgres } = statement!("webhooks/insert_rejected_report");
        let &Report { job, token, .. } = report;
        let lasts = move |lease: &Lease| lease.status == Status::Leased && lease.token == token;
        let values: [Value; 3] = [job.into(), token.into(), text.into()];
        match self.base.side(Part::Worker)? {
            Side::Sqlite(file) => {
                let insert = move |transaction: &rusqlite::Transaction<'_>| {
                    let lease = jobs::sqlite::lease_of_item(transaction, job)?;
                    Ok(lease.as_ref().is_some_and(lasts)
                        && !on_file(transaction, sqlite, &values)?.is_empty())
                };
                file.write_product(insert).await
            }
            Side::Postgres(server) => {
                let unit = server.begin().await?;
                let leases = jobs::postgres::lock_items(&unit, &[job]).await?;
                let is_first = leases.get(&job).is_some_and(lasts)
                    && !unit.query(postgres, &borrowed(&values)).await?.is_empty();
                unit.commit().await?;
                Ok(is_first)
            }
        }
    }

    /// Writes reports that were rejected and whose jobs are no longer parked; how many there were. Those that are rejected again
    /// stay parked.
    ///
    /// # Errors
    /// When the database cannot be read or written.
    pub async fn settle_rejected(&self) -> Result<usize, Error> {
        let (mut after, mut settled) = (0, 0);
        loop {
            let values = [after.into(), BATCH.into()].into_iter().chain(self.base.now_in_file()).collect();
            let rows = self.base.read(Part::Worker, statement!("webhooks/rejected_reports"), values).await?;
            let Some(last) = rows.last() else { return Ok(settled) };
            after = last.integer(0)?;
            for row in &rows {
                let job = row.integer(0)?;
                match parsed(job, row, 1) {
                    Ok(report) => settled += usize::from(self.settle(report).await?),
                    Err(error) => tracing::error!(job, %error, "rejected report of a webhook cannot be read"),
                }
            }
        }
    }

    /// Whether the report is written, or counts no more.
    async fn settle(&self, report: Report) -> Result<bool, Error> {
        let job = report.job;
        match self.group.write(report).await {
            Ok(answered) => {
                self.base
                    .change(Part::Worker, statement!("webhooks/forget_rejected_report"), vec![job.into()])
                    .await?;
                if answered == Answered::Now {
                    self.base.take_in_soon();
                }
                Ok(true)
            }
            Err(NotWritten::Store(why)) if why.is_about_an_item() => {
                self.park(job, why.to_string()).await?;
                Ok(false)
            }
            Err(why) => Err(why.into()),
        }
    }
}

fn parsed(job: i64, row: &Record, column: usize) -> Result<Report, store::Error> {
    serde_json::from_str(&row.text(column)?).map_err(|why| {
        store::Error::Refused(format!("`webhook_rejected_reports.report` of job {job} cannot be read: {why}"))
    })
}
