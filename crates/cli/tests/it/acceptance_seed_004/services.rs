//! The three services of sites, with a record of their calls.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use backstitch_testkit::service::{Heard, Reply, Service};
use serde_json::{Value, json};

use crate::support::within;

/// What a service does when it is called in a state.
pub(crate) enum Mood {
    Answers(u16, Value),
    /// Takes the call, and never answers.
    Hangs,
}

type Moods = Arc<Mutex<HashMap<String, VecDeque<Mood>>>>;

pub(crate) struct Services {
    service: Service,
    moods: Moods,
    /// What the keys of sites begin with that get no project.
    full: Arc<Mutex<Option<String>>>,
}

impl Services {
    pub(crate) async fn start() -> Self {
        let moods = Moods::default();
        let full = Arc::<Mutex<Option<String>>>::default();
        let script = {
            let (moods, full) = (moods.clone(), full.clone());
            move |_, heard: &Heard| {
                let asked = heard.json();
                let state = asked["state"].as_str().unwrap().to_owned();
                let key = asked["key"].as_str().unwrap();
                if state == "vercel_creating"
                    && full.lock().unwrap().as_ref().is_some_and(|it| key.starts_with(it))
                {
                    let no = json!({ "code": "quota_exceeded", "message": "no more projects" });
                    return Reply::http(422, &no.to_string());
                }
                let mood = moods.lock().unwrap().get_mut(&state).and_then(VecDeque::pop_front);
                match mood {
                    None => Reply::http(200, &json!({ "done_in": state }).to_string()),
                    Some(Mood::Answers(status, body)) => Reply::http(status, &body.to_string()),
                    Some(Mood::Hangs) => Reply::Stall(Vec::new()),
                }
            }
        };
        Self { service: Service::scripted(script).await, moods, full }
    }

    /// What the next call in this state gets.
    pub(crate) fn will(&self, state: &str, mood: Mood) {
        self.moods.lock().unwrap().entry(state.to_owned()).or_default().push_back(mood);
    }

    /// Sites whose keys begin so get no project.
    pub(crate) fn refuse_projects_of(&self, beginning: &str) {
        *self.full.lock().unwrap() = Some(beginning.to_owned());
    }

    /// However often a site's service was called in a state, it can tell that it was asked for one thing.
    pub(crate) fn assert_each_errand_has_one_key(&self) {
        let mut errands: BTreeMap<(String, String), String> = BTreeMap::new();
        for heard in self.heard() {
            let asked = heard.json();
            let text = |name: &str| asked[name].as_str().unwrap().to_owned();
            let key = heard.headers["idempotency-key"].clone();
            let first = errands.entry((text("key"), text("state"))).or_insert_with(|| key.clone());
            assert_eq!(*first, key, "{asked}");
        }
    }

    pub(crate) fn url(&self) -> String {
        self.service.url()
    }

    pub(crate) fn heard(&self) -> Vec<Heard> {
        self.service.heard()
    }

    /// How often they were called, by state.
    pub(crate) fn calls(&self) -> BTreeMap<String, usize> {
        let mut calls = BTreeMap::new();
        for heard in self.heard() {
            *calls.entry(heard.json()["state"].as_str().unwrap().to_owned()).or_default() += 1;
        }
        calls
    }

    /// Waits for a call in this state.
    pub(crate) async fn was_called_in(&self, state: &str) {
        within(async {
            while !self.calls().contains_key(state) {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        })
        .await;
    }
}
