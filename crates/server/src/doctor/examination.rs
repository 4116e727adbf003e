//! Gathers the facts. A part that cannot be looked at is a finding, and keeps nobody from looking at the others.

use std::fmt::Display;
use std::time::Duration;

use backstitch::store::diagnostics::{Footing, SchemaVersion};
use backstitch::store::outbox::{Listing, Status as MessageStatus};
use backstitch::{Cursor, Filter, Status, Summary, Timestamp};
use backstitch_modules::alerts::undelivered;
use backstitch_modules::lifecycles::Standing;
use backstitch_modules::webhooks::OldestDue;
use futures::FutureExt;
use futures::future::{BoxFuture, join_all};

use super::check::Check;
use super::finding::{Finding, LISTED, LOOKED_AT};
use super::sagas::Left;
use super::{
    Doctor, alerts, footing, header_values, jobs, lifecycles, outbox, parked, retention, room, sagas,
    settings, standing, webhooks,
};
use crate::app::App;
use crate::server::PRODUCTS;

/// How long one part may take.
const WITHIN: Duration = Duration::from_secs(5);
/// How far back things are counted.
const HOUR: Duration = Duration::from_secs(3600);

/// Why something cannot be looked at.
struct Trouble(String);

impl<E: Display> From<E> for Trouble {
    fn from(why: E) -> Self {
        Self(why.to_string())
    }
}

type Found = Result<Vec<Finding>, Trouble>;

/// What a look came to.
pub(super) struct Look {
    pub(super) found: Vec<Finding>,
    /// Whether everything could be looked at.
    pub(super) whole: bool,
}

/// Looks at everything at the same time. While the database does not answer, nothing waits for it.
pub(super) async fn all(app: &App, doctor: &Doctor) -> Look {
    let database_answers = &app.probes.report(app).await;
    let parts: Vec<(&[Check], BoxFuture<'_, Found>)> = vec![
        (
            &[Check::UnattendedSagas, Check::Definitions, Check::Nodes, Check::Jobs],
            survey(app, doctor).boxed(),
        ),
        (&[Check::Definitions], header_values_of(app, doctor).boxed()),
        (&[Check::StuckSagas, Check::FailedRollbacks], standing_of_sagas(app).boxed()),
        (&[Check::Outbox, Check::DeadLetters], messages(app).boxed()),
        (&[Check::Alerts], alerts_of(app).boxed()),
        (&[Check::Webhooks, Check::DeadLetters], webhooks_of(app).boxed()),
        (&[Check::Lifecycles, Check::DeadLetters], lifecycles_of(app).boxed()),
        (
            &[
                Check::Clock,
                Check::DatabaseVersion,
                Check::SchemaVersion,
                Check::DiskSpace,
                Check::WriteAheadLog,
            ],
            database(app).boxed(),
        ),
        (&[Check::Writes], writes(app).boxed()),
        (&[Check::ParkedItems], parked_items(app).boxed()),
    ];
    let looked_at = parts.into_iter().map(async |(checks, look)| {
        let why = match database_answers {
            Err(why) => why.clone(),
            Ok(()) => match tokio::time::timeout(WITHIN, look).await {
                Ok(Ok(found)) => return (found, true),
                Ok(Err(Trouble(why))) => why,
                Err(_) => format!("the database did not answer within {}s", WITHIN.as_secs()),
            },
        };
        (checks.iter().map(|check| check.impossible(&why)).collect(), false)
    });
    let (found, whole): (Vec<Vec<Finding>>, Vec<bool>) = join_all(looked_at).await.into_iter().unzip();
    // This process knows what retention does, and its settings.
    let known = removal(app).into_iter().chain(settings::judge(app.config.capped_calls()));
    let found = found.into_iter().flatten().chain(known).collect();
    Look { found, whole: whole.into_iter().all(|it| it) }
}

async fn survey(app: &App, doctor: &Doctor) -> Found {
    let (engine, limits) = (&app.engine, &app.config.doctor);
    let survey = engine.store().survey(LOOKED_AT).await?;
    let now = engine.clock().now();
    let gone = survey.owners.into_iter().filter(|owner| {
        let lives = owner.heard.as_ref().is_some_and(|heard| heard.late.is_zero());
        !lives
    });
    let gone: Vec<_> = gone.collect();
    let seen = doctor.seen_since(gone.iter().map(Left::key).collect(), now);
    let left = gone.into_iter().map(|owner| {
        let since = seen.get(&Left::key(&owner)).map_or(Duration::ZERO, |first| now.since(*first));
        // While there is a row of it, the database knows for how long.
        let late = owner.heard.as_ref().map_or(since, |heard| heard.late.max(since));
        Left { owner, late }
    });
    let facts = sagas::Facts {
        adrift: survey.adrift,
        left: left.collect(),
        waiting: survey.waiting,
        runnable: engine.runnable().await,
        shared: engine.store().is_shared(),
        max_active: app.config.sagas.max_active,
    };
    let mut found = sagas::judge(&facts, limits.unclaimed_after);
    let queues = jobs::Facts { leased: survey.leased, pending: survey.pending };
    found.extend(jobs::judge(&queues, limits));
    Ok(found)
}

/// Looks at the versions that are active or staged.
async fn header_values_of(app: &App, doctor: &Doctor) -> Found {
    let mut versions = Vec::new();
    for declared in app.engine.declarations().await? {
        for version in declared.active.into_iter().chain(declared.staged) {
            let subject = format!("definition {}", declared.name);
            let stored = match doctor.known_headers(&subject, version) {
                Some(stored) => stored,
                None => match app.engine.draft(&declared.name, Some(version)).await? {
                    Some(draft) => header_values::StoredHeaders::of_saga(&draft, &app.headers),
                    None => continue,
                },
            };
            versions.push(header_values::CheckedVersion { subject, version, stored });
        }
    }
    let machines = &app.lifecycles.parts.machines;
    for declared in machines.list().await? {
        for version in declared.active.into_iter().chain(declared.staged) {
            let subject = format!("lifecycle {}", declared.name);
            let stored = if let Some(stored) = doctor.known_headers(&subject, version) {
                stored
            } else {
                let machine = machines.machine(&declared.name, version).await?;
                header_values::StoredHeaders::of_machine(machine.draft(), &app.headers)
            };
            versions.push(header_values::CheckedVersion { subject, version, stored });
        }
    }
    doctor.remember_headers(&versions);
    Ok(header_values::judge(&versions))
}

async fn standing_of_sagas(app: &App) -> Found {
    let engine = &app.engine;
    let stuck = engine.stuck(app.config.doctor.stuck_after).await?;
    let filter = Filter { status: Some(Status::Failed), ..Filter::default() };
    let failed = engine.list(&filter, &Cursor { before: None, limit: LOOKED_AT }).await?.items;
    let mut rollbacks = Vec::with_capacity(failed.len());
    for (nth, row) in failed.into_iter().enumerate() {
        // What is only counted need not be read.
        let steps = if nth < LISTED { stuck_steps(app, &row).await } else { Vec::new() };
        let (saga, definition, at) = (row.id, row.definition.to_string(), row.updated_at);
        rollbacks.push(standing::FailedRollback { saga, definition, at, steps });
    }
    let now = engine.clock().now();
    let mut full = engine.full_limits();
    full.retain(|it| now.since(it.since) > app.config.doctor.queued_after);
    Ok(standing::judge(&standing::Facts {
        now,
        full,
        stuck,
        stalled: engine.stalled(),
        runnable: engine.runnable().await,
        shared: engine.store().is_shared(),
        failed: rollbacks,
    }))
}

/// The steps of a saga that could not be undone; none where its log cannot be read, which is no reason to be silent about it.
async fn stuck_steps(app: &App, row: &Summary) -> Vec<(String, Option<String>)> {
    let Ok(Some(saga)) = app.engine.load(row.id).await else { return Vec::new() };
    let why = |step: &str| saga.step(step)?.compensation_error.as_ref().map(|error| error.message.clone());
    saga.stuck().iter().map(|step| (step.as_str().to_owned(), why(step.as_str()))).collect()
}

async fn messages(app: &App) -> Found {
    let (engine, now) = (&app.engine, app.engine.clock().now());
    let waiting = engine.store().waiting_topics().await?;
    let topic = |waiting: backstitch::store::outbox::Waiting| outbox::Topic {
        routed: app.topics.has(&waiting.topic),
        waiting,
    };
    let aborted = Listing { status: Some(MessageStatus::Aborted), ..Listing::default() };
    let aborted = engine.messages(&aborted, LOOKED_AT).await?;
    let lately = aborted.into_iter().filter(|message| now.since(message.updated_at) < HOUR);
    let facts = outbox::Facts {
        topics: waiting.into_iter().map(topic).collect(),
        oldest: engine.outbox_ages().await?.oldest.map(|oldest| now.since(oldest)),
        aborted: lately.map(|message| (message.id, message.message.topic)).collect(),
    };
    Ok(outbox::judge(&facts, app.config.doctor.stuck_after))
}

async fn alerts_of(app: &App) -> Found {
    let now = app.engine.clock().now();
    let raised_before = now.minus(app.config.doctor.undelivered_after);
    Ok(alerts::judge(&undelivered(&app.engine, raised_before, LOOKED_AT).await?, now))
}

async fn webhooks_of(app: &App) -> Found {
    let (parts, now) = (&app.webhooks.parts, app.engine.clock().now());
    let oldest = parts.deliveries.oldest_due().await?;
    let paused = match oldest {
        Some(OldestDue { delivery, subscription, .. }) => {
            let pause = parts.pauses.of_deliveries(&[delivery]).await?.remove(&delivery);
            pause.map(|pause| (subscription, pause))
        }
        None => None,
    };
    let facts = webhooks::Facts {
        now,
        growth: parts.dead_letters.growth(now.minus(2 * HOUR), now.minus(HOUR), LOOKED_AT).await?,
        unrequeued: parts.dead_letters.count_unrequeued().await?,
        backlogs: parts.subscriptions.disabled_backlogs(LOOKED_AT).await?,
        oldest: oldest.map(|oldest| now.since(oldest.due_at)),
        paused,
        sends: app.webhooks.sending.is_some() && app.config.webhooks.concurrency > 0,
        missing_roles: parts.missing_roles().to_vec(),
        schema: app.config.schema.clone(),
    };
    Ok(webhooks::judge(&facts, app.config.doctor.stuck_after))
}

async fn lifecycles_of(app: &App) -> Found {
    let (parts, now) = (&app.lifecycles.parts, app.engine.clock().now());
    let course = |standing: Standing, since: Timestamp| lifecycles::Course {
        machine: standing.machine.to_string(),
        key: standing.key.to_string(),
        state: standing.instance.state.to_string(),
        since,
        is_due: standing.instance.due_at.is_some(),
        holder: standing.holder().map(str::to_owned),
    };
    let stuck = parts.stuck(LOOKED_AT).await?;
    let overdue = parts.overdue(now.minus(app.config.doctor.unclaimed_after), LOOKED_AT).await?;
    let overdue = overdue.into_iter().map(|standing| {
        let since = standing.instance.due_at.unwrap_or(now);
        course(standing, since)
    });
    let letters = parts.dead_letters(None, LOOKED_AT).await?;
    Ok(lifecycles::judge(&lifecycles::Facts {
        now,
        stuck: stuck.into_iter().map(|stuck| course(stuck.standing, stuck.since)).collect(),
        overdue: overdue.collect(),
        drives: app.config.lifecycle.concurrency > 0,
        dead_letters: letters.into_iter().map(|letter| letter.at).collect(),
    }))
}

async fn database(app: &App) -> Found {
    let engine = &app.engine;
    // By the machine's clock: the engine's goes by the database's.
    let asked = app.clock.now();
    let Some(found) = engine.store().footing().await? else { return Ok(Vec::new()) };
    let answered = app.clock.now();
    let apart = |clock: Timestamp| footing::skew(asked.as_micros(), clock.as_micros(), answered.as_micros());
    let clocks = footing::Clocks {
        database: found.clock.map(apart),
        set_back: if found.clock.is_some() { Duration::ZERO } else { engine.clock().now().since(answered) },
        future: if found.clock.is_some() { Duration::ZERO } else { newest_saga(app).await? },
    };
    let facts = footing::Facts { software: found.software.clone(), schemas: schemas(&found), clocks };
    let mut told = footing::judge(&facts, app.config.doctor.clock_skew);
    if let Some(file) = found.file {
        let path = file.path.clone();
        let disk = tokio::task::spawn_blocking(move || fs4::statvfs(path)).await??;
        let facts = room::Facts { file, free: disk.available_space(), total: disk.total_space() };
        told.extend(room::judge(&facts, &app.config.doctor));
    }
    Ok(told)
}

/// The engine's own tables and those of products, each with the version that this program knows.
fn schemas(found: &Footing) -> Vec<(String, SchemaVersion)> {
    let products = PRODUCTS.iter().map(|product| {
        let found = found.products.get(product.product).copied().unwrap_or_default();
        (product.product.to_owned(), SchemaVersion { found, known: product.newest() })
    });
    std::iter::once(("the engine".to_owned(), found.schema)).chain(products).collect()
}

/// How far in the future the newest saga was started.
async fn newest_saga(app: &App) -> Result<Duration, backstitch::Error> {
    let newest = app.engine.list(&Filter::default(), &Cursor { before: None, limit: 1 }).await?;
    let now = app.engine.clock().now();
    Ok(newest.items.first().map_or(Duration::ZERO, |saga| saga.created_at.since(now)))
}

fn removal(app: &App) -> Vec<Finding> {
    retention::judge(app.engine.removed().held_up.as_deref())
}

async fn parked_items(app: &App) -> Found {
    Ok(parked::judge(&app.engine.store().parked(None, LOOKED_AT).await?))
}

async fn writes(app: &App) -> Found {
    let Err(why) = app.engine.writable().await else { return Ok(Vec::new()) };
    Ok(vec![Check::Writes.error(
        None,
        format!("nothing can be written: {why}"),
        "see to the database, its disk and who else holds it: GET /health/ready is good again once a write works".to_owned(),
    )])
}
