//! Scripted services.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::routing::post;
use tokio_util::task::AbortOnDropHandle;

/// The response of each service: a status and a body; 200 by default.
type Answers = Arc<Mutex<HashMap<String, (u16, String)>>>;

#[derive(Clone)]
pub(crate) struct Services {
    address: SocketAddr,
    answers: Answers,
    heard: Arc<Mutex<Vec<String>>>,
    _serving: Arc<AbortOnDropHandle<()>>,
}

impl Services {
    pub(crate) async fn start() -> Self {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (answers, heard) = (Answers::default(), Arc::<Mutex<Vec<String>>>::default());
        let state = (answers.clone(), heard.clone());
        let router = Router::new().route("/{name}", post(answer)).with_state(state);
        let serving = tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        Self { address, answers, heard, _serving: Arc::new(AbortOnDropHandle::new(serving)) }
    }

    pub(crate) fn url(&self, name: &str) -> String {
        format!("http://{}/{name}", self.address)
    }

    /// From now on it answers so.
    pub(crate) fn answer(&self, name: &str, status: u16, body: &str) {
        self.answers.lock().unwrap().insert(name.to_owned(), (status, body.to_owned()));
    }

    /// How often it was called.
    pub(crate) fn heard(&self, name: &str) -> usize {
        self.heard.lock().unwrap().iter().filter(|heard| *heard == name).count()
    }
}

async fn answer(
    State((answers, heard)): State<(Answers, Arc<Mutex<Vec<String>>>)>,
    Path(name): Path<String>,
) -> (StatusCode, String) {
    heard.lock().unwrap().push(name.clone());
    let told = answers.lock().unwrap().get(&name).cloned();
    let (status, body) = told.unwrap_or_else(|| (200, r#"{"ok":true}"#.to_owned()));
    (StatusCode::from_u16(status).unwrap(), body)
}
