//! The services that actions call, with books of what they were asked.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use backstitch::{Payload, StepError};
use backstitch_modules::lifecycles::{Calls, Errand};
use tokio::sync::Semaphore;

/// What a service does when it is asked.
pub(crate) enum Answer {
    Gives(&'static str),
    /// Answers what is not JSON.
    GivesText(&'static str),
    Fails(StepError),
    /// Takes effect, and never says so.
    Hangs,
}

#[derive(Default)]
struct Books {
    /// By state; what is not said works.
    answers: HashMap<String, VecDeque<Answer>>,
    calls: Vec<Errand>,
    /// What is in effect, by key: repeated calls count once.
    applied: BTreeMap<String, usize>,
    under_way: HashMap<String, usize>,
    most_at_once: usize,
}

pub(crate) struct Services {
    books: Mutex<Books>,
    /// Told of each call.
    asked: Semaphore,
}

impl Default for Services {
    fn default() -> Self {
        Self { books: Mutex::default(), asked: Semaphore::new(0) }
    }
}

impl Services {
    /// What the next call for this state gets.
    pub(crate) fn will(&self, state: &str, answer: Answer) {
        self.books().answers.entry(state.to_owned()).or_default().push_back(answer);
    }

    pub(crate) fn calls(&self) -> Vec<Errand> {
        self.books().calls.clone()
    }

    pub(crate) fn calls_for(&self, state: &str) -> usize {
        self.books().calls.iter().filter(|call| call.state == state).count()
    }

    /// The states whose actions are in effect, each as often as under different keys.
    pub(crate) fn applied(&self) -> Vec<String> {
        let keys = self.books().applied.keys().cloned().collect::<Vec<_>>();
        keys.iter().map(|key| key.split(':').nth(1).unwrap().to_owned()).collect()
    }

    /// The most calls that one lifecycle had at once.
    pub(crate) fn most_at_once(&self) -> usize {
        self.books().most_at_once
    }

    /// Waits for the next call that nobody has waited for.
    pub(crate) async fn was_asked(&self) {
        self.asked.acquire().await.unwrap().forget();
    }

    fn books(&self) -> MutexGuard<'_, Books> {
        self.books.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A call that is under way, until it is answered or cut off.
struct UnderWay<'a>(&'a Services, String);

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        *self.0.books().under_way.entry(self.1.clone()).or_default() -= 1;
    }
}

#[async_trait]
impl Calls for Services {
    async fn call(&self, _call: &Payload, errand: &Errand) -> Result<Payload, StepError> {
        let answer = {
            let mut books = self.books();
            books.calls.push(errand.clone());
            let count = books.under_way.entry(errand.id.to_string()).or_default();
            *count += 1;
            let now = *count;
            books.most_at_once = books.most_at_once.max(now);
            let answer = books.answers.get_mut(&errand.state).and_then(VecDeque::pop_front);
            let answer = answer.unwrap_or(Answer::Gives("null"));
            if !matches!(answer, Answer::Fails(_)) {
                *books.applied.entry(errand.idempotency_key.clone()).or_default() += 1;
            }
            answer
        };
        let _under_way = UnderWay(self, errand.id.to_string());
        self.asked.add_permits(1);
        match answer {
            Answer::Gives(result) => Ok(Payload::parse(result).unwrap()),
            Answer::GivesText(body) => Ok(Payload::from_unparsed(body.as_bytes())),
            Answer::Fails(error) => Err(error),
            Answer::Hangs => std::future::pending().await,
        }
    }
}
