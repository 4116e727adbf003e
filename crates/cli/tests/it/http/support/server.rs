//! A server inside the test.

use std::path::PathBuf;

use backstitch::store;
use backstitch_server::{Config, Error, Server};
use backstitch_testkit::{is_in_use, reopen_while};
use tempfile::TempDir;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use super::sagas::{Switches, register};
use crate::support::{Client, create_key, within};

/// A server that runs until it is stopped or dropped.
pub(crate) struct Running {
    pub(crate) client: Client,
    pub(crate) switches: Switches,
    pub(crate) db: String,
    stop: Option<oneshot::Sender<()>>,
    ended: JoinHandle<Result<(), Error>>,
    _folder: TempDir,
}

impl Running {
    /// On a new `SQLite` file, without keys.
    pub(crate) async fn start() -> Self {
        Self::start_with(|_| {}).await
    }

    /// The same with other settings.
    pub(crate) async fn start_with(change: impl FnOnce(&mut Config)) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let db = address_in(&folder);
        Self::on(folder, db, change).await
    }

    /// On a new `SQLite` file that has a key of each of these roles.
    pub(crate) async fn with_keys<const N: usize>(roles: [&str; N]) -> (Self, [String; N]) {
        let folder = tempfile::tempdir().unwrap();
        let db = address_in(&folder);
        let mut keys = Vec::new();
        for role in roles {
            keys.push(create_key(&db, role).await);
        }
        (Self::on(folder, db, |_| {}).await, keys.try_into().unwrap())
    }

    /// On this database.
    pub(crate) async fn on(folder: TempDir, db: String, change: impl FnOnce(&mut Config)) -> Self {
        let mut config = Config { listen: ([127, 0, 0, 1], 0).into(), db: db.clone(), ..Config::default() };
        change(&mut config);
        let server = reopen_while(is_locked, async || Server::bind(config.clone()).await).await;
        let switches = register(server.engine());
        let client = Client::new(server.address());
        let (stop, stopped) = oneshot::channel();
        let ended = tokio::spawn(server.run(async {
            let _ = stopped.await;
        }));
        Self { client, switches, db, stop: Some(stop), ended, _folder: folder }
    }

    /// Asks the server to stop; running work is finished.
    pub(crate) fn ask_to_stop(&mut self) {
        if let Some(stop) = self.stop.take() {
            stop.send(()).unwrap();
        }
    }

    /// Waits for its end.
    pub(crate) async fn ended(mut self) {
        self.ask_to_stop();
        within(&mut self.ended).await.unwrap().unwrap();
    }
}

/// Whether a server that ran before still reads the file.
fn is_locked(error: &Error) -> bool {
    match error {
        Error::Store(store::Error::InUse(_)) => true,
        Error::Engine(error) => is_in_use(error),
        _ => false,
    }
}

fn address_in(folder: &TempDir) -> String {
    let path: PathBuf = folder.path().join("sagas.db");
    format!("sqlite:{}", path.display())
}
