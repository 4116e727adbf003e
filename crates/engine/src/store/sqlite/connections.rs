//! Who may use which connection, and on which thread.

use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rusqlite::Connection;
use tokio::runtime::Handle;
use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;

use super::fault::Fault;
use super::file::Held;
use super::identity::OpenedFile;
use super::memory;
use crate::store::Error;
use backstitch_kernel::Timestamp;

/// Reads that run at the same time; more would only wait for the same disk.
const READERS: usize = 4;

/// One connection that writes and, beside it on a file, a few that read.
pub(super) struct Connections {
    writer: Mutex<Connection>,
    /// `None` for a database in memory, which has no other connection.
    file: Option<Arc<OpenFile>>,
}

/// What a database in a file has besides its writer.
struct OpenFile {
    idle_readers: Mutex<Vec<Connection>>,
    reading: Arc<Semaphore>,
    /// The file and its write-ahead log, as the connections have them open.
    opened: [OpenedFile; 2],
    /// Last, so that the file is let go only after its connections are closed.
    held: Held,
}

impl Connections {
    pub(super) fn to_file(held: Held, now: Timestamp) -> Result<Self, Fault> {
        let writer = held.writer(now)?;
        let file = OpenFile {
            idle_readers: Mutex::default(),
            reading: Arc::new(Semaphore::new(READERS)),
            opened: held.opened()?,
            held,
        };
        Ok(Self { writer: Mutex::new(writer), file: Some(Arc::new(file)) })
    }

    pub(super) fn to_memory() -> Result<Self, Fault> {
        Ok(Self { writer: Mutex::new(memory::open()?), file: None })
    }

    /// Checks that the file and its write-ahead log are still those that the connections have open. It costs two lookups of
    /// a path, and is made once for every transaction, so once for a whole group of commits.
    pub(super) fn check(&self) -> Result<(), Error> {
        self.file.iter().try_for_each(|file| file.check())
    }

    /// Where the file is; `None` for a database in memory.
    pub(super) fn path(&self) -> Option<&Path> {
        self.file.as_ref().map(|file| file.held.path())
    }

    /// Works on the calling thread, which waits for the connection that writes.
    pub(super) fn write_here<T>(
        &self,
        work: impl FnOnce(&Connection) -> Result<T, Fault>,
    ) -> Result<T, Error> {
        let writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
        self.check()?;
        if !writer.is_autocommit() {
            // A panic or a failed commit left its transaction open; nothing of it was acknowledged.
            writer.execute_batch("rollback").map_err(Fault::from)?;
        }
        Ok(work(&writer)?)
    }

    /// Writes, to a file on a thread that may wait.
    ///
    /// A database in memory never waits for a disk. Handing the work to another thread would cost more than the work, and under
    /// tokio's paused clock it would let time pass.
    pub(super) async fn write<T: Send + 'static>(
        self: &Arc<Self>,
        work: impl FnOnce(&Connection) -> Result<T, Fault> + Send + 'static,
    ) -> Result<T, Error> {
        if self.file.is_none() {
            return self.write_here(work);
        }
        let connections = Arc::clone(self);
        off_the_runtime(move || connections.write_here(work)).await
    }

    /// Reads, from a file on a thread that may wait.
    pub(super) async fn read<T: Send + 'static>(
        self: &Arc<Self>,
        work: impl FnOnce(&Connection) -> Result<T, Fault> + Send + 'static,
    ) -> Result<T, Error> {
        let Some(file) = self.file.clone() else {
            return self.write_here(work);
        };
        let closed = |_| Error::Unavailable("the store is closed".to_owned());
        let permit = Arc::clone(&file.reading).acquire_owned().await.map_err(closed)?;
        let read = off_the_runtime(move || {
            let answer = file.read_here(work);
            // Not before: whoever asked may have gone, and the work goes on.
            drop(permit);
            answer
        });
        read.await
    }
}

impl OpenFile {
    fn check(&self) -> Result<(), Error> {
        self.opened.iter().try_for_each(OpenedFile::check)
    }

    fn read_here<T>(&self, work: impl FnOnce(&Connection) -> Result<T, Fault>) -> Result<T, Error> {
        let idle = self.idle_readers().pop();
        let reader = if let Some(reader) = idle {
            reader
        } else {
            let reader = self.held.reader()?;
            // Another file may have taken the place of the one that the writer has open.
            self.check()?;
            reader
        };
        let answer = work(&reader);
        self.idle_readers().push(reader);
        Ok(answer?)
    }

    fn idle_readers(&self) -> MutexGuard<'_, Vec<Connection>> {
        self.idle_readers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Works on a thread that may block: on the calling one if it is a writer's own thread, which is no thread of a runtime.
async fn off_the_runtime<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Error> + Send + 'static,
) -> Result<T, Error> {
    if Handle::try_current().is_err() {
        return work();
    }
    let stopped = |why| Error::Unavailable(format!("the work on the file was cut short: {why}"));
    spawn_blocking(work).await.map_err(stopped)?
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    #[tokio::test(flavor = "multi_thread")]
    async fn a_read_whose_caller_went_away_counts_until_it_is_over() {
        let folder = tempfile::tempdir().unwrap();
        let held = Held::take(&folder.path().join("sagas.db")).unwrap();
        let connections =
            Arc::new(Connections::to_file(held, Timestamp::default()).map_err(Error::from).unwrap());
        let file = connections.file.clone().unwrap();
        let reading = file.reading.clone();
        let (tell, mut begun) = tokio::sync::mpsc::unbounded_channel();
        let mut gates = Vec::new();
        for _ in 0..READERS {
            let (gate, open) = mpsc::channel::<()>();
            gates.push(gate);
            let (connections, tell) = (connections.clone(), tell.clone());
            let caller = tokio::spawn(async move {
                let work = move |_: &Connection| {
                    tell.send(()).unwrap();
                    // Until the test lets go of the gate.
                    let _ = open.recv();
                    Ok(())
                };
                connections.read(work).await
            });
            begun.recv().await.unwrap();
            caller.abort();
            assert!(caller.await.unwrap_err().is_cancelled());
        }
        assert_eq!(reading.available_permits(), 0, "both readers are in use");
        drop(gates);
        let places = u32::try_from(READERS).unwrap();
        drop(reading.acquire_many(places).await.unwrap());
        assert_eq!(file.idle_readers().len(), READERS, "as many connections as may read");
    }
}
