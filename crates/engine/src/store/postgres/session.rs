//! Connections: what is set on each, who may use which, and for how long an answer is waited for.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use deadpool_postgres::{
    Hook, HookError, Manager, ManagerConfig, Object, Pool, PoolError, RecyclingMethod, Runtime, Transaction,
    TransactionBuilder,
};
use tokio::time::error::Elapsed;
use tokio::time::{Instant, timeout};
use tokio_postgres::types::ToSql;
use tokio_postgres::{IsolationLevel, Row};

use super::address::Address;
use super::dial::Dialler;
use super::qualified::QualifiedStatements;
use super::{fault, pooler, tls};
use crate::store::{Error, SchemaName};

/// Batches written at the same time: while one waits for the disk, the server works on the other.
pub const WRITERS: usize = 2;
/// One for each writer and one more, so that nobody waits for a committer that waits for a lost connection.
const COMMITTING: usize = WRITERS + 1;
/// Questions asked at the same time; more would only wait for the same cores.
const ASKING: usize = 8;

/// One probe that reads and one that commits.
const PROBING: usize = 2;
/// How long a probe waits for a connection, and then for its answer.
const PROBE_WITHIN: Duration = Duration::from_secs(3);

const CONNECT_WITHIN: Duration = Duration::from_secs(5);
/// For a connection to be free, or to be made with everything set on it.
pub(super) const WAIT_WITHIN: Duration = Duration::from_secs(10);
/// A peer that is silent for this long is looked after, and given up when it does not answer.
const SILENCE: Duration = Duration::from_secs(15);

/// More than the server's own limit for a statement, so that it is the server who gives up first.
const ANSWER_WITHIN: Duration = Duration::from_secs(40);
/// A heartbeat that was not answered by then is sent again while there is still time.
const LONGEST_BEAT: Duration = Duration::from_secs(3);
const SHORTEST_BEAT: Duration = Duration::from_millis(200);
const BEATS_PER_LEASE: u32 = 3;

/// What every connection needs, whatever the server's or the role's defaults are.
const ALWAYS: &str = "
    set search_path = $schema, public;
    set synchronous_commit = on;
    set default_transaction_isolation = 'read committed';
    set default_transaction_read_only = off;
    set client_min_messages = warning;
    set statement_timeout = '30s';
    set idle_in_transaction_session_timeout = '5s';
";

/// A committer's statement is prepared once and planned once, maybe while the tables are empty. It touches only rows
/// it knows by key, so the plan is pinned to what is right at any size: index probes and hash joins. Without
/// nested loops estimates are enormous, and compiling a plan for them would take longer than all else.
pub const WRITER_SETTINGS: &str = "
    set plan_cache_mode = force_generic_plan;
    set enable_seqscan = off;
    set enable_nestloop = off;
    set enable_mergejoin = off;
    set jit = off;
    set lock_timeout = '500ms';
    set statement_timeout = '15s';
";

/// Everything else comes with few rows in mind or with many, about tables that grow meanwhile: each time gets its own plan.
/// Whatever the tables' statistics say, what is known by an index is found by it.
const WHEN_ASKING: &str = "
    set plan_cache_mode = force_custom_plan;
    set enable_seqscan = off;
    set jit = off;
";

/// The connections of one store. A lost one is replaced when the next is asked for.
pub(super) struct Sessions {
    dialler: Dialler,
    qualified: QualifiedStatements,
    committing: Pool,
    asking: Pool,
    /// One connection that does nothing else, so that no load keeps a node from saying that it lives.
    beating: Pool,
    /// Connections that only find out whether the server answers, so that no load is taken for its silence.
    probing: Pool,
    answer_within: Duration,
    beat_within_ms: AtomicU64,
}

impl Sessions {
    /// Reads the address; nothing is connected yet.
    pub(super) fn at(url: &str, schema: &SchemaName) -> Result<Self, Error> {
        let dialler = dialler(url, schema)?;
        Ok(Self {
            qualified: QualifiedStatements::of(schema),
            committing: pool(&dialler, COMMITTING, WRITER_SETTINGS)?,
            asking: pool(&dialler, ASKING, WHEN_ASKING)?,
            beating: pool(&dialler, 1, WHEN_ASKING)?,
            probing: pool(&dialler, PROBING, WHEN_ASKING)?,
            dialler,
            answer_within: ANSWER_WITHIN,
            beat_within_ms: AtomicU64::new(millis(LONGEST_BEAT)),
        })
    }

    pub(super) fn answer_within(&mut self, limit: Duration) {
        self.answer_within = limit;
    }

    /// From now on a heartbeat is given up in time to be repeated within such a lease.
    pub(super) fn live_by(&self, lease: Duration) {
        let limit = (lease / BEATS_PER_LEASE).clamp(SHORTEST_BEAT, LONGEST_BEAT);
        self.beat_within_ms.store(millis(limit), Ordering::Relaxed);
    }

    /// A connection for a batch of decisions.
    pub(super) async fn to_commit(&self) -> Result<Object, PoolError> {
        self.committing.get().await
    }

    /// A connection for whom no limit holds.
    pub(super) async fn to_migrate(&self) -> Result<Object, Error> {
        self.asking.get().await.map_err(|why| fault::no_connection(&why))
    }

    /// A connection for anything but a batch.
    pub(super) async fn to_ask(&self) -> Result<Session, Error> {
        Session::lent_by(&self.asking, self.answer_within, self.answer_within).await
    }

    /// The connection of the heartbeat, for a node's first word: it may have to be made.
    pub(super) async fn to_join(&self) -> Result<Session, Error> {
        Session::lent_by(&self.beating, WAIT_WITHIN, WAIT_WITHIN).await
    }

    /// The connection of the heartbeat.
    pub(super) async fn to_beat(&self) -> Result<Session, Error> {
        let within = Duration::from_millis(self.beat_within_ms.load(Ordering::Relaxed));
        // A new connection may take longer to be made than an answer may take, and without one nobody hears of us.
        Session::lent_by(&self.beating, WAIT_WITHIN, within).await
    }

    /// A connection for a probe.
    pub(super) async fn to_probe(&self) -> Result<Session, Error> {
        Session::lent_by(&self.probing, PROBE_WITHIN, PROBE_WITHIN).await
    }

    /// Connections under a role of the database, and for how long their answers are waited for.
    pub(super) fn acting_as(&self, role: Option<&str>, at_most: usize) -> Result<(Pool, Duration), Error> {
        let become_it = role.map_or_else(String::new, |role| format!("set role \"{role}\";"));
        let settings = [WHEN_ASKING, &become_it].concat();
        Ok((pool(&self.dialler, at_most, &settings)?, self.answer_within))
    }

    /// What broke one connection may have broken the idle ones beside it, unnoticed so far.
    pub(super) fn suspect_idle(&self) {
        self.asking.retain(|_, _| false);
        self.probing.retain(|_, _| false);
    }

    /// The schema that everything lives in.
    pub(super) fn schema(&self) -> &SchemaName {
        &self.dialler.schema
    }

    /// The statements that also run inside callers' transactions.
    pub(super) fn qualified(&self) -> &QualifiedStatements {
        &self.qualified
    }

    /// How connections outside the pools are made.
    pub(super) fn dialler(&self) -> &Dialler {
        &self.dialler
    }
}

/// A connection lent for one question, and until when it is waited for.
pub(super) struct Session {
    client: Object,
    within: Duration,
    deadline: Instant,
    lost: AtomicBool,
}

/// Why there is no answer, and whether the connection is to blame.
pub(super) struct Unanswered {
    pub(super) why: Error,
    pub(super) connection_lost: bool,
}

impl From<Unanswered> for Error {
    fn from(unanswered: Unanswered) -> Self {
        unanswered.why
    }
}

/// Commits a transaction whose work went well. Otherwise it is rolled back before this returns: whoever tries a part of the work
/// again passes over what is still locked.
pub(super) async fn conclude<T>(
    transaction: Transaction<'_>,
    outcome: Result<T, tokio_postgres::Error>,
) -> Result<T, tokio_postgres::Error> {
    match outcome {
        Ok(_) => transaction.commit().await?,
        Err(_) => transaction.rollback().await?,
    }
    outcome
}

impl Session {
    pub(super) async fn lent_by(pool: &Pool, lent_within: Duration, within: Duration) -> Result<Self, Error> {
        let lent = timeout(lent_within, pool.get()).await.map_err(|_| late(lent_within))?;
        let client = lent.map_err(|why| fault::no_connection(&why))?;
        let deadline = Instant::now() + within;
        Ok(Self { client, within, deadline, lost: AtomicBool::new(false) })
    }

    /// Ends the connection, and with it whatever is open on it.
    pub(super) fn hang_up(self) {
        drop(Object::take(self.client));
    }

    pub(super) fn deadline(&self) -> Instant {
        self.deadline
    }

    /// Asks once; the statement is prepared the first time a connection is asked it.
    pub(super) async fn query(
        &self,
        statement: &str,
        values: &[&(dyn ToSql + Sync)],
    ) -> Result<Vec<Row>, Error> {
        let asked = async {
            let statement = self.client.prepare_cached(statement).await?;
            self.client.query(&statement, values).await
        };
        match asked.await {
            Ok(rows) => Ok(rows),
            Err(why) => {
                // The server tells of an error before it releases the locks of the transaction, and answers the next
                // statement after it. The rest of a rejected batch must not find its rows still locked.
                if !fault::ends_connection(&why) {
                    let _ = self.client.batch_execute("").await;
                }
                Err(self.told(&why))
            }
        }
    }

    /// Asks what has exactly one answer.
    pub(super) async fn query_one(&self, statement: &str) -> Result<Row, Error> {
        let missing = || Error::Unavailable("the database gave no answer".to_owned());
        self.query(statement, &[]).await?.pop().ok_or_else(missing)
    }

    /// For several changes that stand or fall together.
    pub(super) async fn transaction(&mut self) -> Result<Transaction<'_>, tokio_postgres::Error> {
        self.client.transaction().await
    }

    /// For several questions about the same moment.
    pub(super) fn moment(&mut self) -> TransactionBuilder<'_> {
        self.client.build_transaction().isolation_level(IsolationLevel::RepeatableRead).read_only(true)
    }

    /// The error in our words; one that ends the connection is remembered.
    pub(super) fn told(&self, why: &tokio_postgres::Error) -> Error {
        if fault::ends_connection(why) {
            self.lost.store(true, Ordering::Relaxed);
        }
        fault::error(why)
    }
}

/// A connection while it is asked something. One that is lost or still owes an answer is never used again, be it that whoever
/// asked has gone: what it owes would be waited for by whoever asks next.
#[derive(Default)]
pub(super) struct Loan {
    asked: Option<Session>,
}

impl Loan {
    /// The connection to ask on.
    pub(super) fn of(&mut self, session: Session) -> &mut Session {
        self.asked.insert(session)
    }

    /// Gives the connection back with its answer.
    pub(super) fn settled<T>(mut self, answer: Result<Result<T, Error>, Elapsed>) -> Result<T, Unanswered> {
        let within = self.asked.as_ref().map_or(Duration::ZERO, |session| session.within);
        let connection_lost = self.asked.as_ref().is_some_and(|session| session.lost.load(Ordering::Relaxed));
        if !connection_lost && answer.is_ok() {
            drop(self.asked.take());
        }
        let answer = answer.unwrap_or_else(|_| Err(late(within)));
        answer.map_err(|why| Unanswered { why, connection_lost })
    }
}

impl Drop for Loan {
    fn drop(&mut self) {
        if let Some(session) = self.asked.take() {
            session.hang_up();
        }
    }
}

/// Asks on a lent connection: the one place where an answer is waited for, and not for ever. A macro, because the
/// compiler cannot see that the future of a closure with such borrows may move between threads.
macro_rules! ask {
    ($lent:expr, |$session:ident| $question:expr) => {{
        let mut loan = $crate::store::postgres::session::Loan::default();
        let $session = loan.of($lent.await?);
        let deadline = $session.deadline();
        let answer = ::tokio::time::timeout_at(deadline, $question).await;
        loan.settled(answer)
    }};
}
pub(super) use ask;

/// Asks for a change, once: nobody knows what became of one that was not answered.
macro_rules! change {
    ($lent:expr, |$session:ident| $question:expr) => {
        $crate::store::postgres::session::ask!($lent, |$session| $question)
            .map_err($crate::store::Error::from)
    };
}
pub(super) use change;

/// Asks what changes nothing. When the connection turns out to be gone it is asked once more on a new one, so that
/// nobody has to hear of a server that was restarted.
macro_rules! read {
    ($sessions:expr, |$session:ident| $question:expr) => {{
        let mut answer = $crate::store::postgres::session::ask!($sessions.to_ask(), |$session| $question);
        if answer.as_ref().is_err_and(|unanswered| unanswered.connection_lost) {
            $sessions.suspect_idle();
            answer = $crate::store::postgres::session::ask!($sessions.to_ask(), |$session| $question);
        }
        answer.map_err($crate::store::Error::from)
    }};
}
pub(super) use read;

pub(super) fn late(within: Duration) -> Error {
    Error::Unavailable(format!("no answer within {within:?}"))
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// Connections made the way the store makes its own, for tables in the schema `backstitch`; [`pool_in`] is for others.
///
/// # Errors
/// When the address is none, or what it says about TLS cannot be.
pub fn pool_at(url: &str, size: usize) -> Result<Pool, Error> {
    pool_in(url, &SchemaName::default(), size)
}

/// The same in this schema.
///
/// # Errors
/// The same.
pub fn pool_in(url: &str, schema: &SchemaName, size: usize) -> Result<Pool, Error> {
    pool(&dialler(url, schema)?, size, WHEN_ASKING)
}

/// Whether the server at this address gives each connection a session of its own. To be checked before a migration.
///
/// # Errors
/// When the address leads to a pooler in transaction mode, or the server cannot be reached.
pub async fn check_sessions(url: &str) -> Result<(), Error> {
    pooler::refuse_transaction_pooling(&dialler(url, &SchemaName::default())?).await
}

fn dialler(url: &str, schema: &SchemaName) -> Result<Dialler, Error> {
    let Address { mut config, proof } = Address::read(url)?;
    if config.get_application_name().is_none() {
        config.application_name("backstitch");
    }
    if config.get_connect_timeout().is_none() {
        config.connect_timeout(CONNECT_WITHIN);
    }
    config.keepalives_idle(SILENCE);
    if config.get_tcp_user_timeout().is_none() {
        config.tcp_user_timeout(SILENCE);
    }
    Ok(Dialler { schema: schema.clone(), config, tls: tls::connector(&proof)?, hosts: Arc::default() })
}

fn pool(dialler: &Dialler, size: usize, settings: &str) -> Result<Pool, Error> {
    let settings: Arc<str> = [&dialler.schema.qualify(ALWAYS), settings].concat().into();
    let checked = ManagerConfig {
        // Whether the connection is known to be closed. Anything more would cost a round trip each time.
        recycling_method: RecyclingMethod::Fast,
    };
    let manager = Manager::from_connect(dialler.config.clone(), dialler.clone(), checked);
    Pool::builder(manager)
        .max_size(size)
        .runtime(Runtime::Tokio1)
        .wait_timeout(Some(WAIT_WITHIN))
        .create_timeout(Some(WAIT_WITHIN))
        .post_create(Hook::async_fn(move |client, _| {
            let settings = settings.clone();
            Box::pin(async move {
                let set = timeout(WAIT_WITHIN, client.batch_execute(&settings)).await;
                set.map_err(|_| HookError::message("the server takes no settings in time"))?
                    .map_err(HookError::Backend)
            })
        }))
        .build()
        .map_err(|why| Error::Refused(why.to_string()))
}
