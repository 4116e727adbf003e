//! Who may use which connection, and on which thread.

use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rusqlite::Connection;
use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;

use super::fault::Fault;
use super::file::Held;
use crate::store::Error;
use backstitch_kernel::Timestamp;

/// Reads that run at the same time; more would only wait for the same disk.
const READERS: usize = 4;

/// One connection that writes and a few that read.
pub(super) struct Connections {
    writer: Mutex<Connection>,
    readers: Mutex<Vec<Connection>>,
    reading: Semaphore,
    /// Last, so that the file is let go only after its connections are closed.
    file: Held,
}

impl Connections {
    pub(super) fn open(file: Held, now: Timestamp) -> Result<Self, Fault> {
        Ok(Self {
            writer: Mutex::new(file.writer(now)?),
            readers: Mutex::default(),
            reading: Semaphore::new(READERS),
            file,
        })
    }

    /// Where the file is.
    pub(super) fn path(&self) -> &Path {
        self.file.path()
    }

    /// Writes on the calling thread, which waits for whoever writes now.
    pub(super) fn write_here<T>(
        &self,
        work: impl FnOnce(&Connection) -> Result<T, Fault>,
    ) -> Result<T, Error> {
        let writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
        if !writer.is_autocommit() {
            // A panic or a failed commit left its transaction open; nothing of it was acknowledged.
            writer.execute_batch("rollback").map_err(Fault::from)?;
        }
        Ok(work(&writer)?)
    }

    /// Writes on a thread that may wait.
    pub(super) async fn write<T: Send + 'static>(
        self: &Arc<Self>,
        work: impl FnOnce(&Connection) -> Result<T, Fault> + Send + 'static,
    ) -> Result<T, Error> {
        let connections = Arc::clone(self);
        off_the_runtime(move || connections.write_here(work)).await
    }

    /// Reads on a thread that may wait.
    pub(super) async fn read<T: Send + 'static>(
        self: &Arc<Self>,
        work: impl FnOnce(&Connection) -> Result<T, Fault> + Send + 'static,
    ) -> Result<T, Error> {
        let closed = |_| Error::Unavailable("the store is closed".to_owned());
        let _permit = self.reading.acquire().await.map_err(closed)?;
        let connections = Arc::clone(self);
        off_the_runtime(move || connections.read_here(work)).await
    }

    fn read_here<T>(&self, work: impl FnOnce(&Connection) -> Result<T, Fault>) -> Result<T, Error> {
        let idle = self.idle_readers().pop();
        let reader = match idle {
            Some(reader) => reader,
            None => self.file.reader()?,
        };
        let answer = work(&reader);
        self.idle_readers().push(reader);
        Ok(answer?)
    }

    fn idle_readers(&self) -> MutexGuard<'_, Vec<Connection>> {
        self.readers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn off_the_runtime<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Error> + Send + 'static,
) -> Result<T, Error> {
    let stopped = |why| Error::Unavailable(format!("the work on the file was cut short: {why}"));
    spawn_blocking(work).await.map_err(stopped)?
}
