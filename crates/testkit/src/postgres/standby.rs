//! A synchronous standby of a throwaway server, and the failover to it.

use std::time::Duration;

use super::{Error, POLL_INTERVAL, START_LIMIT, Session, ThrowawayPostgres, throwaway};

impl ThrowawayPostgres {
    /// Starts a standby of this server. From then on commits wait for the standby.
    ///
    /// # Errors
    ///
    /// When the standby does not start, or does not stream from this server.
    pub async fn start_standby(&self) -> Result<Self, Error> {
        let mut standby = Self::empty(self.durability)?;
        let output = standby
            .command(&standby.binaries.basebackup)
            .args(["--write-recovery-conf", "--wal-method=stream", "--checkpoint=fast", "--no-sync"])
            .args(["--dbname", &self.url("postgres")])
            .arg("--pgdata")
            .arg(standby.data_directory())
            .output()
            .map_err(Error::io("run pg_basebackup"))?;
        if !output.status.success() {
            return Err(Error::Backup { output: String::from_utf8_lossy(&output.stderr).into_owned() });
        }
        standby.launch_on(|| throwaway::free_port().map_err(Error::io("find a free port")))?;
        let session = Session::open(&self.url("postgres")).await?;
        session.client.batch_execute("alter system set synchronous_standby_names = '*'").await?;
        session.client.batch_execute("select pg_reload_conf()").await?;
        self.until_replicated(&session).await?;
        session.close().await;
        Ok(standby)
    }

    /// Waits until the standby streams again after a restart.
    ///
    /// # Errors
    ///
    /// When this server cannot be queried, or the standby does not stream.
    pub async fn until_standby_streams(&self) -> Result<(), Error> {
        let session = Session::open(&self.url("postgres")).await?;
        self.until_replicated(&session).await?;
        session.close().await;
        Ok(())
    }

    async fn until_replicated(&self, session: &Session) -> Result<(), Error> {
        let streams = "select count(*) from pg_stat_replication where sync_state = 'sync'";
        let looks = START_LIMIT.as_millis() / POLL_INTERVAL.as_millis();
        for _ in 0..looks {
            if session.client.query_one(streams, &[]).await?.get::<_, i64>(0) > 0 {
                return Ok(());
            }
            tokio::time::sleep(POLL_INTERVAL).await;
        }
        Err(Error::TimedOut { awaited: "the standby to stream" })
    }

    /// Promotes a standby to a primary without a standby.
    ///
    /// # Errors
    ///
    /// When it cannot be queried, or stays in recovery.
    pub async fn promote(&self) -> Result<(), Error> {
        let session = Session::open(&self.url("postgres")).await?;
        let limit = i32::try_from(START_LIMIT.as_secs()).unwrap_or(i32::MAX);
        let promoted = session.client.query_one("select pg_promote(true, $1)", &[&limit]).await?;
        if !promoted.get::<_, bool>(0) {
            return Err(Error::TimedOut { awaited: "the standby to leave recovery" });
        }
        // The copied settings of the primary name standbys too.
        session.client.batch_execute("alter system reset synchronous_standby_names").await?;
        session.client.batch_execute("select pg_reload_conf()").await?;
        session.close().await;
        Ok(())
    }

    /// Waits until a session with a statement that contains these words waits for the standby, and returns its process
    /// id. Other
    /// statements can wait too.
    ///
    /// # Errors
    ///
    /// When the server cannot be queried, or no such session waits within this time.
    pub async fn until_waiting_for_standby(&self, words: &str, limit: Duration) -> Result<i32, Error> {
        let session = Session::open(&self.url("postgres")).await?;
        let waiting = "select pid from pg_stat_activity
            where wait_event = 'SyncRep' and strpos(query, $1) > 0 order by backend_start desc limit 1";
        let looks = limit.as_millis() / POLL_INTERVAL.as_millis();
        for _ in 0..looks {
            if let Some(row) = session.client.query_opt(waiting, &[&words]).await? {
                session.close().await;
                return Ok(row.get(0));
            }
            tokio::time::sleep(POLL_INTERVAL).await;
        }
        Err(Error::TimedOut { awaited: "a statement to wait for the standby" })
    }
}
