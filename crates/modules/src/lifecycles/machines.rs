//! Machines as they are declared: versions that never change, one of them active and at most one staged.

use std::sync::Arc;

use backstitch::kernel::lifecycle::{Draft, Kind, Machine};
use backstitch::kernel::name_pattern;
use backstitch::store;
use backstitch::{Declaring, Performer, Problem, Problems, Timestamp};

use super::base::{Base, Side};
use super::errand::Calls;
use super::error::Error;
use super::sites;
use crate::question::{Record, Statement, Value, answered, borrowed, on_file, statement};

const DECLARED: Statement = statement!("lifecycles/declared");
const KEEP_MACHINE: Statement = statement!("lifecycles/keep_machine");
const KEEP_STATE: Statement = statement!("lifecycles/keep_state");
const STAGE: Statement = statement!("lifecycles/stage");
const ACTIVATE: Statement = statement!("lifecycles/activate");
const APPLY: Statement = statement!("lifecycles/apply");
const DISCARD: Statement = statement!("lifecycles/discard");
const LOAD_MACHINE: Statement = statement!("lifecycles/load_machine");
const VERSIONS: Statement = statement!("lifecycles/versions");

/// Tries to be the one who declares the next version.
const TRIES: usize = 10;

/// What is declared under a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Declared {
    /// The machine.
    pub name: String,
    /// The version that new instances take.
    pub active: Option<u32>,
    /// The version that waits to be applied.
    pub staged: Option<u32>,
    /// When that changed last.
    pub changed_at: Timestamp,
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
    calls: Arc<dyn Calls>,
}

impl Machines {
    pub(super) fn on(base: Arc<Base>, calls: Arc<dyn Calls>) -> Self {
        Self { base, calls }
    }

    /// Keeps the next version of a machine, and stages it instead of what was staged before. Its number is given here,
    /// whatever the draft says. One that is the same as the newest version is that version; where it is active already,
    /// nothing changes.
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
        let becomes = if apply { ACTIVATE } else { STAGE };
        for _ in 0..TRIES {
            let newest = self.versions(&draft.name, 0).await?.last().map(|newest| newest.version);
            if let Some(newest) = newest {
                let kept = self.machine(&draft.name, newest).await?;
                if *kept.draft() == (Draft { version: newest, ..draft.clone() }) {
                    // Where it is active, nothing is written: the request that applied it may have an unknown outcome.
                    let found =
                        self.base.read_durably(DECLARED, vec![Value::Text(Some(draft.name.clone()))]).await?;
                    let was_active =
                        found.first().map(declared).transpose()?.is_some_and(|it| it.active == Some(newest));
                    if !was_active {
                        let values = vec![(&*draft.name).into(), newest.into(), self.now()];
                        self.base.change(becomes, values).await?;
                    }
                    return Ok(Declaring { version: newest, is_new: false, is_active: was_active || apply });
                }
            }
            let version = newest.unwrap_or_default() + 1;
            if self.keep(Draft { version, ..draft.clone() }, becomes).await? {
                return Ok(Declaring { version, is_new: true, is_active: apply });
            }
        }
        Err(Error::ChangedMeanwhile(draft.name))
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

    /// Writes a version, its states, and what it becomes; `false` where somebody else has written that version.
    async fn keep(&self, draft: Draft, becomes: Statement) -> Result<bool, Error> {
        let machine = draft.check()?;
        let rows = self.rows(&machine, becomes)?;
        match self.base.side()? {
            Side::Sqlite(file) => {
                let write = move |transaction: &rusqlite::Transaction<'_>| {
                    for (place, (statement, values)) in rows.iter().enumerate() {
                        if on_file(transaction, statement.sqlite, values)?.is_empty() && place == 0 {
                            return Ok(false);
                        }
                    }
                    Ok(true)
                };
                Ok(file.write_product(write).await?)
            }
            Side::Postgres(_, acting) => {
                let unit = acting.begin().await?;
                for (place, (statement, values)) in rows.iter().enumerate() {
                    let written = answered(&unit.query(statement.postgres, &borrowed(values)).await?)?;
                    if written.is_empty() && place == 0 {
                        return Ok(false);
                    }
                }
                unit.commit().await?;
                Ok(true)
            }
        }
    }

    /// What a version is kept as.
    fn rows(&self, machine: &Machine, becomes: Statement) -> Result<Vec<(Statement, Vec<Value>)>, Error> {
        let (name, version) = (machine.name(), machine.version());
        let unwritable = |why: serde_json::Error| store::Error::Refused(why.to_string());
        let body = serde_json::to_string(machine.draft()).map_err(unwritable)?;
        let mut rows = vec![(KEEP_MACHINE, vec![name.into(), version.into(), body.into(), self.now()])];
        for (place, (state, kind)) in machine.states().enumerate() {
            let terminal = i64::from(*kind == Kind::Terminal);
            rows.push((
                KEEP_STATE,
                vec![name.into(), version.into(), state.into(), place.into(), terminal.into()],
            ));
        }
        rows.push((becomes, vec![name.into(), version.into(), self.now()]));
        Ok(rows)
    }

    /// Lets new instances take the staged version from now on.
    ///
    /// # Errors
    /// When nothing is staged, or not the version that is expected.
    pub async fn apply(&self, name: &str, expected: Option<u32>) -> Result<u32, Error> {
        let values = vec![name.into(), Value::Integer(expected.map(i64::from)), self.now()];
        if let Some(applied) = self.base.change(APPLY, values).await?.first() {
            return Ok(applied.count(0)?);
        }
        Err(self.not_staged(name, expected).await?)
    }

    /// Forgets which version is staged.
    ///
    /// # Errors
    /// When nothing is staged, or not the version that is expected.
    pub async fn discard(&self, name: &str, expected: Option<u32>) -> Result<u32, Error> {
        let values = vec![name.into(), Value::Integer(expected.map(i64::from)), self.now()];
        if let Some(discarded) = self.base.change(DISCARD, values).await?.first() {
            return Ok(discarded.count(0)?);
        }
        Err(self.not_staged(name, expected).await?)
    }

    /// Why nothing was done about what is staged.
    async fn not_staged(&self, name: &str, expected: Option<u32>) -> Result<Error, Error> {
        let machine = name.to_owned();
        Ok(match (self.declared(name).await?.staged, expected) {
            (Some(staged), Some(expected)) => Error::AnotherStaged { machine, expected, staged },
            _ => Error::NothingStaged(machine),
        })
    }

    /// What is declared under this name.
    ///
    /// # Errors
    /// When nothing is.
    pub async fn declared(&self, name: &str) -> Result<Declared, Error> {
        let found = self.base.read(DECLARED, vec![Value::Text(Some(name.to_owned()))]).await?;
        match found.first() {
            Some(row) => Ok(declared(row)?),
            None => Err(Error::UnknownMachine(name.to_owned())),
        }
    }

    /// What is declared under all names, by name.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub async fn list(&self) -> Result<Vec<Declared>, Error> {
        let rows = self.base.read(DECLARED, vec![Value::Text(None)]).await?;
        Ok(rows.iter().map(declared).collect::<Result<_, _>>()?)
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
        let found = self.base.read(LOAD_MACHINE, vec![name.into(), version.into()]).await?;
        let missing = || Error::UnknownVersion { machine: name.to_owned(), version };
        let body = found.first().ok_or_else(missing)?.text(0)?;
        Ok(self.base.known().read(name, version, &body)?)
    }

    /// The version that new instances take.
    ///
    /// # Errors
    /// When there is none.
    pub async fn active(&self, name: &str) -> Result<Arc<Machine>, Error> {
        let active = self.declared(name).await?.active;
        self.machine(name, active.ok_or_else(|| Error::NothingApplied(name.to_owned()))?).await
    }

    fn now(&self) -> Value {
        self.base.now().into()
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

fn declared(row: &Record) -> Result<Declared, store::Error> {
    let number = |column| {
        let number = row.optional_integer(column)?;
        Ok::<_, store::Error>(number.and_then(|number| u32::try_from(number).ok()))
    };
    Ok(Declared { name: row.text(0)?, active: number(1)?, staged: number(2)?, changed_at: row.time(3)? })
}
