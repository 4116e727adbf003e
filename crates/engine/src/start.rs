//! Starting a saga.

use std::future::IntoFuture;
use std::sync::Arc;
use std::time::Duration;

use backstitch_kernel::idempotency::Digest;
use backstitch_kernel::saga::Start;
use backstitch_kernel::{Payload, SagaId, Timestamp, topic};
use futures::future::BoxFuture;
use serde::Serialize;
use serde_json::json;
use sha2::{Digest as _, Sha256};

use crate::definitions;
use crate::error::Error;
use crate::options::Options;
use crate::registry::Registered;
use crate::run::Run;
use crate::runtime::Shared;
use crate::runtime::executor::{self, NewSaga};
use crate::store::product::{ProductRow, RowKind};
use crate::store::{self, Claim, Verdict};

/// The longest idempotency key, correlation id, attribute name or value, in bytes.
pub const MAX_LABEL: usize = 512;
/// The most attributes a saga can have.
pub const MAX_ATTRIBUTES: usize = 32;

/// A start in the making; `.await` it.
///
/// An error of the store may come after the saga has reached the disk, as when the answer was lost: then it runs all the
/// same. Give a [`key`](Self::key) where that matters, and start again with it.
///
/// ```
/// # use backstitch::{Context, Engine, Saga, Step, secs};
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let engine = Engine::in_memory().await?;
/// # engine.register(Saga::builder("purchase").step(Step::new("a", |_: Context<u32>| async { Ok(()) })).build()?)?;
/// let request = || {
///     let request = engine.start("purchase", &3).key("request-17"); // asking again with this key gives the same saga
///     request.correlation_id("order-4711").attribute("tenant", "acme").deadline_in(secs(3600))
/// };
/// let (first, again) = (request().await?, request().await?);
/// assert_eq!(first.id(), again.id());
/// # Ok(())
/// # }
/// ```
#[must_use = "nothing is started before this is awaited"]
pub struct Starting {
    pub(crate) shared: Arc<Shared>,
    pub(crate) definition: String,
    pub(crate) request: Result<Request, Error>,
}

/// Everything a start is made of.
pub(crate) struct Request {
    pub(crate) start: Start,
    pub(crate) key: Option<String>,
    pub(crate) rows: Vec<ProductRow>,
    deadline_in: Option<Duration>,
}

impl Starting {
    pub(crate) fn new<T: Serialize + ?Sized>(shared: Arc<Shared>, definition: &str, input: &T) -> Self {
        let request = Payload::encode(input)
            .map(|input| Request {
                start: Start { input, ..Start::default() },
                key: None,
                rows: Vec::new(),
                deadline_in: None,
            })
            .map_err(|why| Error::BadInput(why.to_string()));
        Self { shared, definition: definition.to_owned(), request }
    }

    fn with(mut self, change: impl FnOnce(&mut Request)) -> Self {
        if let Ok(request) = &mut self.request {
            change(request);
        }
        self
    }

    /// Makes a repeated start the same start: the same key and request give the same saga, the same key and another
    /// request are refused. A request is its input, correlation id, attributes and [`deadline`](Self::deadline); what
    /// [`deadline_in`](Self::deadline_in) says is not part of it, since it counts from each request anew.
    pub fn key(self, key: impl Into<String>) -> Self {
        self.with(|request| request.key = Some(key.into()))
    }

    /// Your own id for the work this belongs to; sagas can be listed by it.
    pub fn correlation_id(self, id: impl Into<String>) -> Self {
        self.with(|request| request.start.correlation_id = Some(id.into()))
    }

    /// Something sagas can be listed by.
    pub fn attribute(self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.with(|request| {
            request.start.attributes.insert(name.into(), value.into());
        })
    }

    /// Writes a row of your own table in the transaction that starts the saga; see
    /// [`Options::products`](crate::Options::products) for the table. A repeated start writes none.
    pub fn row(self, kind: &'static RowKind, body: Payload) -> Self {
        self.with(|request| request.rows.push(ProductRow { kind, body }))
    }

    /// Rolled back if not finished this long after its start.
    pub fn deadline_in(self, time: Duration) -> Self {
        self.with(|request| request.deadline_in = Some(time))
    }

    /// Rolled back if not finished by then.
    pub fn deadline(self, time: Timestamp) -> Self {
        self.with(|request| request.start.deadline = Some(time))
    }
}

impl IntoFuture for Starting {
    type Output = Result<Run, Error>;
    type IntoFuture = BoxFuture<'static, Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move {
            let request = self.request?;
            if self.shared.is_stopping() {
                return Err(Error::ShuttingDown);
            }
            let definition = definitions::current(&self.shared, &self.definition).await?;
            let definition = definition.ok_or(Error::UnknownDefinition(self.definition))?;
            let kept = definition.keep(&*self.shared.store).await;
            kept.inspect_err(|error| self.shared.committer.written().failed_with(error))?;
            start(&self.shared, definition, request).await
        })
    }
}

async fn start(shared: &Arc<Shared>, definition: Arc<Registered>, request: Request) -> Result<Run, Error> {
    let new = checked(request, &definition.name, &shared.options)?;
    let name = definition.name.clone();
    let (run, verdict) = executor::begin(shared, definition, new).await?;
    let first = accepted(run.id(), verdict)?;
    // Under the same key is the same definition.
    Ok(if first == run.id() { run } else { Run::of(shared.clone(), first, name) })
}

/// The saga that the request stands for.
pub(crate) fn accepted(saga: SagaId, verdict: Verdict) -> Result<SagaId, Error> {
    match verdict {
        Verdict::Applied => Ok(saga),
        Verdict::Replay(first) => Ok(first),
        Verdict::Conflict { saga, at, .. } => Err(Error::KeyConflict { saga, at }),
        Verdict::KeyHeld(why) => Err(Error::KeyHeld(why)),
        Verdict::Rejected(why) => Err(store::Error::Rejected(why).into()),
        Verdict::Refused(why) => Err(store::Error::Refused(why).into()),
        Verdict::Fenced | Verdict::InboxChanged => Err(Error::Raced(saga)),
    }
}

/// Checks a text that something is found by.
pub(crate) fn check_label(what: &'static str, text: &str) -> Result<(), Error> {
    let (size, limit) = (text.len(), MAX_LABEL);
    if size > limit {
        return Err(Error::TooLong { what, size, limit });
    }
    if text.contains('\0') {
        let why = "contains a NUL character, which not every store can hold: leave it out";
        return Err(Error::BadName { what, why });
    }
    Ok(())
}

/// Checks a text that must say something: whoever forgot it would share it with all others who did.
pub(crate) fn check_name(what: &'static str, text: &str) -> Result<(), Error> {
    if text.is_empty() {
        return Err(Error::BadName { what, why: "is empty: give one, or none at all" });
    }
    check_label(what, text)
}

/// Checks where a program wants to publish: only the engine itself writes alerts and events of sagas.
pub(crate) fn check_topic(topic: &str) -> Result<(), Error> {
    const WHAT: &str = "the topic of a message";
    check_name(WHAT, topic)?;
    if topic::is_reserved(topic) {
        let why = "begins with `backstitch.`, which is reserved for the engine: choose another name";
        return Err(Error::BadName { what: WHAT, why });
    }
    Ok(())
}

/// The longest note on what a person did, in bytes: a few thousand characters of any script, with a name before them.
const MAX_NOTE: usize = 20 * 1024;

/// Checks the size of a note.
pub(crate) fn check_note(note: &str) -> Result<(), Error> {
    let (what, size, limit) = ("the note", note.len(), MAX_NOTE);
    if size > limit { Err(Error::TooLong { what, size, limit }) } else { Ok(()) }
}

/// Checks the sizes of everything the caller gave, and works out the claim on its key.
pub(crate) fn checked(request: Request, definition: &str, options: &Options) -> Result<NewSaga, Error> {
    let at = options.clock.now();
    let Request { mut start, key, rows, deadline_in } = request;
    let max_payload = options.max_payload;
    if start.input.len() > max_payload {
        return Err(Error::InputTooLarge { size: start.input.len(), limit: max_payload });
    }
    if let Some(key) = &key {
        check_name("the idempotency key", key)?;
    }
    if let Some(id) = &start.correlation_id {
        check_name("the correlation id", id)?;
    }
    if start.attributes.len() > MAX_ATTRIBUTES {
        let (what, size, limit) = ("the list of attributes", start.attributes.len(), MAX_ATTRIBUTES);
        return Err(Error::TooLong { what, size, limit });
    }
    for (name, value) in &start.attributes {
        check_name("an attribute's name", name)?;
        check_label("an attribute's value", value)?;
    }
    if deadline_in.is_some() {
        // Counted from each request anew, so it tells nothing about whether two are the same.
        start.deadline = None;
    }
    let digest = || digest_of(&start);
    let claim = key.map(|key| Claim { scope: format!("saga/{definition}"), key, digest: digest() });
    let default = options.defaults.deadline_in.filter(|_| start.deadline.is_none());
    if let Some(time) = deadline_in.or(default) {
        start.deadline = Some(at.plus(time));
    }
    Ok(NewSaga { at, start, claim, rows })
}

/// The same for the same document, however its keys are ordered and spaced.
fn digest(document: &Payload) -> Digest {
    Digest(match document.decode::<serde_json::Value>() {
        Ok(value) => hashed(value),
        Err(_) => Sha256::digest(document.as_str().as_bytes()).into(),
    })
}

/// The same for the same start. `backstitch.start` in SQL works out the same.
fn digest_of(start: &Start) -> Digest {
    let input = digest(&start.input);
    let mut labels = serde_json::Map::new();
    if !start.attributes.is_empty() {
        labels.insert("attributes".to_owned(), json!(start.attributes));
    }
    if let Some(id) = &start.correlation_id {
        labels.insert("correlation_id".to_owned(), json!(id));
    }
    if let Some(deadline) = start.deadline {
        labels.insert("deadline".to_owned(), json!(deadline.as_micros()));
    }
    if labels.is_empty() {
        return input;
    }
    let both = [input.0, hashed(labels.into())].concat();
    Digest(Sha256::digest(both).into())
}

fn hashed(mut value: serde_json::Value) -> [u8; 32] {
    value.sort_all_objects();
    Sha256::digest(value.to_string().as_bytes()).into()
}
