//! The services that actions call, with books of what they were asked.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use backstitch::{Payload, SagaId, StepError};
use backstitch_modules::lifecycles::{Calls, Errand};
use tokio::sync::Semaphore;

/// What a service does when it is asked.
pub(crate) enum Answer {
    Fails(StepError),
    /// Takes effect, and never says so.
    Hangs,
    /// Takes effect, and says so once it is [released](Services::release).
    Waits,
}

#[derive(Default)]
struct Books {
    /// By state; what is not said works.
    answers: HashMap<String, VecDeque<Answer>>,
    /// How often each was made, by idempotency key.
    calls: BTreeMap<String, usize>,
    under_way: HashMap<SagaId, usize>,
    most_at_once: usize,
}

pub(crate) struct Services {
    books: Mutex<Books>,
    released: Semaphore,
}

impl Default for Services {
    fn default() -> Self {
        Self { books: Mutex::default(), released: Semaphore::new(0) }
    }
}

impl Services {
    /// What the next call for this state gets.
    pub(crate) fn will(&self, state: &str, answer: Answer) {
        self.books().answers.entry(state.to_owned()).or_default().push_back(answer);
    }

    /// Lets one that waits go on, or the next that would wait.
    pub(crate) fn release(&self) {
        self.released.add_permits(1);
    }

    /// How often each state's action was asked for under one key, in all.
    pub(crate) fn calls_for(&self, state: &str) -> Vec<usize> {
        let books = self.books();
        let of_state = books.calls.iter().filter(|(key, _)| key.split(':').nth(1) == Some(state));
        of_state.map(|(_, times)| *times).collect()
    }

    /// The most calls that one lifecycle had at once.
    pub(crate) fn most_at_once(&self) -> usize {
        self.books().most_at_once
    }

    fn books(&self) -> MutexGuard<'_, Books> {
        self.books.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A call that is under way, until it is answered or cut off.
struct UnderWay<'a>(&'a Services, SagaId);

impl<'a> UnderWay<'a> {
    fn at(services: &'a Services, id: SagaId) -> Self {
        let mut books = services.books();
        let count = books.under_way.entry(id).or_default();
        *count += 1;
        let now = *count;
        books.most_at_once = books.most_at_once.max(now);
        Self(services, id)
    }
}

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        *self.0.books().under_way.entry(self.1).or_default() -= 1;
    }
}

#[async_trait]
impl Calls for Services {
    async fn call(&self, _call: &Payload, errand: &Errand) -> Result<Payload, StepError> {
        let _under_way = UnderWay::at(self, errand.id);
        let answer = {
            let mut books = self.books();
            *books.calls.entry(errand.idempotency_key.clone()).or_default() += 1;
            books.answers.get_mut(&errand.state).and_then(VecDeque::pop_front)
        };
        match answer {
            Some(Answer::Fails(error)) => return Err(error),
            Some(Answer::Hangs) => std::future::pending().await,
            Some(Answer::Waits) => self.released.acquire().await.unwrap().forget(),
            // Long enough for somebody else to begin the same, if somebody could.
            None => tokio::task::yield_now().await,
        }
        Ok(Payload::null())
    }
}
