//! Machines: documents whose states are kept in a table of their own, which lifecycles refer to.

use std::sync::Arc;

use backstitch::kernel::lifecycle::{Draft, Kind, Machine};
use backstitch::kernel::name_pattern;
use backstitch::store::documents::{DerivedRows, Document, NewVersion};
use backstitch::{
    Declaring, DocumentKind, Documents, Payload, Performer, Problem, Problems, Timestamp, store,
};
use serde::Serialize;

use super::base::Base;
use super::errand::Calls;
use super::error::Error;
use super::sites;
use crate::question::{Record, Statement, statement};

const VERSIONS: Statement = statement!("lifecycles/versions");

/// Machines, as documents.
struct MachineDocuments;

/// The states of a version.
static STATES: DerivedRows = DerivedRows {
    sqlite: include_str!("../../queries/sqlite/lifecycles/add_states.sql"),
    postgres: include_str!("../../queries/postgres/lifecycles/add_states.sql"),
};

/// A state, as its row is derived.
#[derive(Serialize)]
struct StateRow<'a> {
    state: &'a str,
    terminal: bool,
}

impl DocumentKind for MachineDocuments {
    const NAME: &'static str = "lifecycle";

    type Body = Draft;

    fn numbered(body: &Draft, version: u32) -> Draft {
        Draft { version, ..body.clone() }
    }

    fn complete(new: &mut NewVersion, body: &Draft) -> Result<(), backstitch::Error> {
        let machine = body.clone().check()?;
        let states = machine.states();
        let rows: Vec<StateRow<'_>> =
            states.map(|(state, kind)| StateRow { state, terminal: *kind == Kind::Terminal }).collect();
        let rows = Payload::encode(&rows).map_err(|why| store::Error::Refused(why.to_string()))?;
        new.derived = Some((&STATES, rows));
        Ok(())
    }
}

/// A version of a machine, and what stands on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Version {
    /// Its number.
    pub version: u32,
    /// Since when it exists.
    pub created_at: Timestamp,
    /// Instances of it that have not ended.
    pub in_flight: u64,
}

/// The machines of a database.
#[derive(Clone)]
pub struct Machines {
    base: Arc<Base>,
    documents: Documents<MachineDocuments>,
    calls: Arc<dyn Calls>,
}

impl Machines {
    pub(super) fn on(base: Arc<Base>, calls: Arc<dyn Calls>) -> Self {
        let documents = Documents::on(base.store().clone());
        Self { base, documents, calls }
    }

    /// Keeps the next version of a machine, and stages it instead of what was staged before. Its number is given here,
    /// whatever the draft says. One that is staged already, or active with nothing staged, is no new version.
    ///
    /// # Errors
    /// Every mistake of the draft at once; or the name is built in.
    pub async fn declare(&self, draft: Draft) -> Result<u32, Error> {
        Ok(self.put(draft, false).await?.version)
    }

    /// The same; or, with `apply`, new instances take it at once. It becomes a version and the active one together, so
    /// whoever is refused leaves nothing behind.
    ///
    /// # Errors
    /// Every mistake of the draft at once; or the name is built in; or too many others put in the next version first.
    pub async fn put(&self, draft: Draft, apply: bool) -> Result<Declaring, Error> {
        if draft.name == sites::MACHINE {
            return Err(Error::BuiltIn(draft.name));
        }
        self.put_any(draft, apply).await
    }

    pub(super) async fn put_any(&self, draft: Draft, apply: bool) -> Result<Declaring, Error> {
        let draft = self.protected(draft)?;
        check(&draft)?;
        let put = self.documents.put(&draft.name, &draft, apply).await;
        put.map_err(explained)
    }

    /// The draft with its calls as the database may keep them.
    fn protected(&self, mut draft: Draft) -> Result<Draft, Problems> {
        let mut problems = Vec::new();
        for (state, action) in &mut draft.actions {
            let Some(Performer::Call(call)) = &mut action.performer else { continue };
            match self.calls.protect(call) {
                Ok(protected) => *call = protected,
                Err(message) => problems.push(Problem { place: format!("actions.{state}"), message }),
            }
        }
        if problems.is_empty() { Ok(draft) } else { Err(Problems(problems)) }
    }

    /// Lets new instances take the staged version from now on.
    ///
    /// # Errors
    /// When nothing is staged, or not the version that is expected.
    pub async fn apply(&self, name: &str, expected: Option<u32>) -> Result<u32, Error> {
        match self.documents.apply(name, expected).await {
            Ok(applied) => Ok(applied),
            Err(error) => Err(self.not_changed(name, error).await),
        }
    }

    /// Forgets which version is staged.
    ///
    /// # Errors
    /// When nothing is staged, or not the version that is expected.
    pub async fn discard(&self, name: &str, expected: Option<u32>) -> Result<u32, Error> {
        match self.documents.discard(name, expected).await {
            Ok(discarded) => Ok(discarded),
            Err(error) => Err(self.not_changed(name, error).await),
        }
    }

    /// Why what is staged was not changed; that there is no such machine comes first.
    async fn not_changed(&self, name: &str, error: backstitch::Error) -> Error {
        match self.declared(name).await {
            Ok(_) => explained(error),
            Err(unknown) => unknown,
        }
    }

    /// What is declared under this name.
    ///
    /// # Errors
    /// When nothing is.
    pub async fn declared(&self, name: &str) -> Result<Document, Error> {
        let found = self.documents.get(name).await.map_err(explained)?;
        found.ok_or_else(|| Error::UnknownMachine(name.to_owned()))
    }

    /// What is declared under all names, by name.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub async fn list(&self) -> Result<Vec<Document>, Error> {
        self.documents.list().await.map_err(explained)
    }

    /// The versions of a machine, oldest first; none where there is no such machine. No more than
    /// `most` lifecycles of each are counted.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub async fn versions(&self, name: &str, most: usize) -> Result<Vec<Version>, Error> {
        let rows = self.base.read(VERSIONS, vec![name.into(), most.into()]).await?;
        let version = |row: &Record| {
            Ok(Version {
                version: row.count(0)?,
                created_at: row.time(1)?,
                in_flight: row.integer(2)?.unsigned_abs(),
            })
        };
        Ok(rows.iter().map(version).collect::<Result<_, store::Error>>()?)
    }

    /// A version of a machine.
    ///
    /// # Errors
    /// When there is none.
    pub async fn machine(&self, name: &str, version: u32) -> Result<Arc<Machine>, Error> {
        if let Some(known) = self.base.known().get(name, version) {
            return Ok(known);
        }
        let stored = self.base.store().document_version(MachineDocuments::NAME, name, Some(version)).await?;
        let missing = || Error::UnknownVersion { machine: name.to_owned(), version };
        Ok(self.base.known().read(name, version, stored.ok_or_else(missing)?.body.as_str())?)
    }

    /// The version that new instances take.
    ///
    /// # Errors
    /// When there is none.
    pub async fn active(&self, name: &str) -> Result<Arc<Machine>, Error> {
        let active = self.declared(name).await?.active;
        self.machine(name, active.ok_or_else(|| Error::NothingApplied(name.to_owned()))?).await
    }
}

/// What went wrong with a document, in the words of machines.
fn explained(error: backstitch::Error) -> Error {
    match error {
        backstitch::Error::DeclaredAtOnce(machine) => Error::ChangedMeanwhile(machine),
        backstitch::Error::NothingStaged(machine)
        | backstitch::Error::NotStaged { name: machine, staged: None, .. } => Error::NothingStaged(machine),
        backstitch::Error::NotStaged { name: machine, version: expected, staged: Some(staged) } => {
            Error::AnotherStaged { machine, expected, staged }
        }
        backstitch::Error::Definition(problems) => Error::Problems(problems),
        backstitch::Error::Store(why) => Error::Batch(why),
        other => Error::Work(other),
    }
}

/// All mistakes of a draft; that nobody could perform an action is one.
pub(super) fn check(draft: &Draft) -> Result<Machine, Problems> {
    let mut problems = Vec::new();
    for (state, action) in &draft.actions {
        if action.performer == Some(Performer::Code) {
            let message =
                "says neither what to call (`http`) nor which queue it goes to (`worker`): say one of them"
                    .to_owned();
            problems.push(Problem { place: format!("actions.{state}"), message });
        }
    }
    if let Some(subject) = &draft.subject
        && let Some(owner) = owner_of(subject)
        && draft.name != sites::MACHINE
    {
        let message = format!("`{subject}` is for messages of {owner}: choose another subject");
        problems.push(Problem { place: "subject".to_owned(), message });
    }
    match draft.clone().check() {
        Ok(machine) if problems.is_empty() => Ok(machine),
        Ok(_) => Err(Problems(problems)),
        Err(Problems(found)) => {
            problems.extend(found);
            Err(Problems(problems))
        }
    }
}

/// Topics that no declared machine sends to, and whose they are.
const OWNED_TOPICS: [(&str, &str); 2] = [("backstitch", "the engine"), (sites::SUBJECT, "sites")];

/// Whose topics begin so, if somebody's do.
fn owner_of(subject: &str) -> Option<&'static str> {
    let is_below = |topics: &str| {
        subject == topics || subject.strip_prefix(topics).is_some_and(|it| it.starts_with('.'))
    };
    OWNED_TOPICS.into_iter().find(|(topics, _)| is_below(topics)).map(|(_, owner)| owner)
}

/// What a machine's subject may be, as a regular expression for descriptions of the API.
#[must_use]
pub fn subject_pattern() -> String {
    name_pattern::subject_pattern(&OWNED_TOPICS.map(|(topics, _)| topics))
}
