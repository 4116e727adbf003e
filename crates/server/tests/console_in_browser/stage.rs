//! A server with something of everything, keys for everybody, and a browser.

use std::collections::HashMap;

use backstitch_server::demo::services::{Behaviour, Services};
use tempfile::TempDir;

use crate::population::Population;
use crate::screen::Screen;
use crate::support::program::output_of;
use crate::support::{Client, Program, create_key};

pub(crate) struct Stage {
    pub(crate) server: Program,
    pub(crate) admin: Client,
    pub(crate) population: Population,
    keys: HashMap<&'static str, String>,
    db: String,
    _services: Services,
    _folder: TempDir,
}

const SETTINGS: [(&str, &str); 3] = [
    ("BACKSTITCH_ORDERS_ROLLBACK_RETRIES", "0"),
    ("BACKSTITCH_EGRESS_ALLOW", "127.0.0.0/8"),
    ("BACKSTITCH_LOG", "warn"),
];

impl Stage {
    pub(crate) async fn set() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let db = format!("sqlite:{}", folder.path().join("backstitch.db").display());
        let mut keys = HashMap::new();
        for role in ["viewer", "operator", "admin"] {
            keys.insert(role, create_key(&db, role).await);
        }
        let services = Services::start(Behaviour::Succeed).await.unwrap();
        let server = Program::logging_to(std::process::Stdio::null(), &db, &SETTINGS).await;
        let admin = server.client.with_key(&keys["admin"]);
        let population = Population::settle(&admin, &services).await;
        Self { server, admin, population, keys, db, _services: services, _folder: folder }
    }

    /// A browser in which somebody of this role has signed in.
    pub(crate) async fn signed_in(&self, role: &'static str) -> Screen {
        let screen = Screen::on(self.server.client.address).await;
        screen.sign_in(&self.keys[role]).await;
        screen
    }

    pub(crate) fn key(&self, role: &str) -> &str {
        &self.keys[role]
    }

    /// Takes a key back.
    pub(crate) async fn revoke(&self, role: &str) {
        let made = ["viewer", "operator", "admin"];
        let number = made.iter().position(|known| *known == role).unwrap() + 1;
        let revoked = output_of(&["keys", "--db", &self.db, "revoke", &number.to_string()]).await;
        assert!(revoked.status.success(), "{}", String::from_utf8_lossy(&revoked.stderr));
    }

    /// Ends the server at once, lets something happen through another one at another address, and starts it again.
    pub(crate) async fn elsewhere(&mut self, meanwhile: impl AsyncFnOnce(Client)) {
        let address = self.server.client.address.to_string();
        let log = std::process::Stdio::null;
        self.server.child.kill().await.unwrap();
        self.server = Program::logging_to(log(), &self.db, &SETTINGS).await;
        meanwhile(self.server.client.with_key(&self.keys["admin"])).await;
        self.server.child.kill().await.unwrap();
        self.server = Program::listening_on(&address, log(), &self.db, &SETTINGS).await;
    }

    /// Ends the server at once and starts it again at the same address.
    pub(crate) async fn restart(&mut self) {
        self.server.child.kill().await.unwrap();
        let address = self.server.client.address.to_string();
        let log = std::process::Stdio::null();
        self.server = Program::listening_on(&address, log, &self.db, &SETTINGS).await;
    }
}
