//! Every page with each filter, near the beginning and deep in its list.

use backstitch::clock::{Clock, SystemClock};
use hyper::Method;
use serde_json::Value;

use super::Failure;
use super::models::{MACHINE, WAITING};
use crate::http::client::Client;

/// A page to measure.
pub(super) struct ConsolePage {
    /// Its route.
    pub(super) route: &'static str,
    pub(super) address: String,
    /// Whether it shows an object, or an error page.
    pub(super) is_there: bool,
    /// Whether it is a stream.
    pub(super) is_stream: bool,
}

/// Ids and times to use in addresses.
pub(super) struct Landmarks {
    /// One of each status.
    sagas: Vec<String>,
    /// An id from the middle of the time range, used as a cursor.
    middle: String,
    /// The week in the middle.
    week: (String, String),
    delivery: i64,
    dead_letter: i64,
    event: i64,
    message: i64,
    aborted: i64,
    alert: i64,
    audited: i64,
}

const STATUSES: [&str; 6] = ["pending", "running", "succeeded", "failed", "compensating", "compensated"];

impl Landmarks {
    pub(super) async fn find(client: &Client) -> Result<Self, Failure> {
        let mut sagas = Vec::new();
        for status in STATUSES {
            // A small store lacks some of them.
            let found = first(client, &format!("/v1/sagas?status={status}&limit=1")).await?;
            sagas.extend(found["id"].as_str().map(str::to_owned));
        }
        let number = async |place: &str, name: &str| -> Result<i64, Failure> {
            Ok(first(client, place).await?[name].as_i64().unwrap_or(1))
        };
        let now = SystemClock.now().as_micros();
        let day = 24 * 3600 * 1_000_000;
        let time = |days: i64| {
            let at = jiff::Timestamp::from_microsecond(now - days * day)?;
            Ok::<_, Failure>(at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string())
        };
        Ok(Self {
            sagas,
            middle: middle(now - 15 * day),
            week: (time(18)?, time(11)?),
            delivery: number("/v1/webhooks/deliveries?limit=1", "id").await?,
            dead_letter: number("/v1/webhooks/dead-letters?limit=1", "id").await?,
            event: number("/v1/webhooks/deliveries?limit=1", "event_id").await?,
            message: number("/v1/outbox?limit=1", "id").await?,
            aborted: number("/v1/outbox?status=aborted&limit=1", "id").await?,
            alert: number("/v1/admin/alerts?limit=1", "id").await?,
            audited: number("/v1/audit?limit=1", "id").await?,
        })
    }
}

async fn first(client: &Client, place: &str) -> Result<Value, Failure> {
    let page = client.call(Method::GET, place, None).await?.good()?.json()?;
    Ok(page["items"][0].clone())
}

/// The first id of that time.
fn middle(micros: i64) -> String {
    let millis = format!("{:012x}", micros / 1000);
    format!("{}-{}-7000-8000-000000000000", &millis[..8], &millis[8..])
}

/// All pages.
pub(super) fn all(landmarks: &Landmarks) -> Vec<ConsolePage> {
    let mut pages = Pages(Vec::new());
    pages.of_everybody(landmarks);
    pages.of_sagas(landmarks);
    pages.of_definitions();
    pages.of_webhooks(landmarks);
    pages.of_messages(landmarks);
    pages.of_lifecycles(landmarks);
    pages.0
}

struct Pages(Vec<ConsolePage>);

impl Pages {
    fn add(&mut self, route: &'static str, rest: &str) {
        self.at(route, format!("{route}{rest}"));
    }

    /// Adds a page with another address than its route.
    fn at(&mut self, route: &'static str, address: impl Into<String>) {
        self.0.push(ConsolePage { route, address: address.into(), is_there: true, is_stream: false });
    }

    fn nothing(&mut self, route: &'static str, address: impl Into<String>) {
        self.0.push(ConsolePage { route, address: address.into(), is_there: false, is_stream: false });
    }

    fn stream(&mut self, route: &'static str, address: impl Into<String>) {
        self.0.push(ConsolePage { route, address: address.into(), is_there: true, is_stream: true });
    }

    fn of_everybody(&mut self, landmarks: &Landmarks) {
        for asset in ["/assets/console.css", "/assets/console.js"] {
            self.add(asset, "");
        }
        self.add("/login", "");
        self.add("/", "");
        self.stream("/live", "/live");
        self.add("/doctor", "");
        self.add("/audit", "");
        self.add("/audit", &format!("?cursor={}", landmarks.audited / 2 + 1));
        if let Some(saga) = landmarks.sagas.first() {
            self.add("/find", &format!("?id={saga}"));
        }
        self.add("/find", "?id=customer-2");
        self.add("/find", "?id=1");
        self.nothing("/find", "/find?id=nobody-has-this");
        // The results of forms are in memory, so this measures the lookup independently of the store.
        self.nothing("/outcomes/{id}", format!("/outcomes/{}", landmarks.middle));
    }

    fn of_sagas(&mut self, landmarks: &Landmarks) {
        let Landmarks { sagas, middle, week: (since, until), .. } = landmarks;
        self.add("/sagas", "");
        self.add("/sagas", &format!("?cursor={middle}"));
        for status in STATUSES {
            self.add("/sagas", &format!("?status={status}"));
            self.add("/sagas", &format!("?status={status}&cursor={middle}"));
        }
        for definition in ["checkout", "report", WAITING, "nothing"] {
            self.add("/sagas", &format!("?definition={definition}"));
            self.add("/sagas", &format!("?definition={definition}&cursor={middle}"));
            for status in STATUSES {
                self.add("/sagas", &format!("?definition={definition}&status={status}"));
            }
        }
        for filter in [
            "correlation_id=customer-2",
            "correlation_id=customer-2&status=succeeded",
            "correlation_id=nobody",
            "attr.tenant=tenant-7",
            "attr.tenant=tenant-7&status=failed",
            "attr.tenant=tenant-7&definition=report&status=compensated",
            "attr.tenant=tenant-7&attr.order_id=order-70",
            "attr.order_id=order-10",
            "attr.tenant=nobody",
        ] {
            self.add("/sagas", &format!("?{filter}"));
        }
        self.add("/sagas", &format!("?attr.tenant=tenant-7&cursor={middle}"));
        for filter in ["", "&status=failed", "&status=compensated&definition=report", "&attr.tenant=tenant-7"]
        {
            self.add("/sagas", &format!("?since={since}&until={until}{filter}"));
        }
        for filter in [
            "action=cancel",
            "action=resolve",
            "action=cancel&definition=parcel",
            "action=cancel&definition=report",
            "action=cancel&attr.tenant=tenant-7",
            "action=resolve&definition=checkout",
            "action=resolve&attr.tenant=tenant-7",
        ] {
            self.add("/sagas/bulk", &format!("?{filter}"));
        }
        for saga in sagas {
            self.at("/sagas/{id}", format!("/sagas/{saga}"));
        }
        if let Some(saga) = sagas.first() {
            self.stream("/sagas/{id}/live", format!("/sagas/{saga}/live"));
            for which in ["", "?event=1"] {
                self.at("/sagas/{id}/whole", format!("/sagas/{saga}/whole{which}"));
            }
        }
    }

    fn of_definitions(&mut self) {
        self.add("/definitions", "");
        for name in ["checkout", "report", WAITING] {
            self.at("/definitions/{name}", format!("/definitions/{name}"));
        }
        self.add("/new-definition", "");
        self.add("/new-definition", "?of=checkout");
        self.add("/orders", "");
    }

    fn of_webhooks(&mut self, landmarks: &Landmarks) {
        let Landmarks { delivery, dead_letter, event, week: (since, until), .. } = landmarks;
        self.add("/webhooks", "");
        self.at("/webhooks/subscriptions/{id}", "/webhooks/subscriptions/1");
        self.add("/webhooks/deliveries", "");
        self.add("/webhooks/deliveries", &format!("?cursor={}", delivery / 2 + 1));
        for status in ["Pending", "InProgress", "PendingRetry", "Completed", "DeadLettered"] {
            self.add("/webhooks/deliveries", &format!("?status={status}"));
            self.add("/webhooks/deliveries", &format!("?status={status}&subscription=1"));
        }
        self.add("/webhooks/deliveries", "?subscription=1");
        self.add("/webhooks/deliveries", &format!("?event={event}"));
        for id in [delivery, dead_letter] {
            self.at("/webhooks/deliveries/{id}", format!("/webhooks/deliveries/{id}"));
        }
        let filters = [
            String::new(),
            "?waiting=yes".to_owned(),
            "?subscription=1".to_owned(),
            "?code=http_500".to_owned(),
            "?code=none_has_it".to_owned(),
            format!("?since={since}&until={until}"),
        ];
        for filter in filters {
            self.add("/webhooks/dead-letters", &filter);
            self.add("/webhooks/dead-letters/requeue", &filter);
        }
        self.add("/webhooks/dead-letters", &format!("?cursor={}", dead_letter / 2 + 1));
    }

    fn of_messages(&mut self, landmarks: &Landmarks) {
        self.add("/outbox", "");
        self.add("/outbox", &format!("?cursor={}", landmarks.message / 2 + 1));
        for status in ["pending", "sending", "failed", "succeeded", "aborted"] {
            self.add("/outbox", &format!("?status={status}"));
            self.add("/outbox", &format!("?status={status}&topic=mail"));
        }
        self.add("/outbox", "?topic=mail");
        self.add("/outbox", "?topic=nothing");
        for id in [landmarks.message, landmarks.aborted] {
            self.at("/outbox/{id}", format!("/outbox/{id}"));
        }
        for filter in ["", "?area=outbox", "?reason=duplicate"] {
            self.add("/parked", filter);
        }
        self.add("/alerts", "");
        self.add("/alerts", &format!("?cursor={}", landmarks.alert / 2 + 1));
    }

    fn of_lifecycles(&mut self, landmarks: &Landmarks) {
        self.add("/lifecycles", "");
        self.add("/lifecycle-dead-letters", "");
        self.at("/lifecycles/{machine}", format!("/lifecycles/{MACHINE}"));
        self.at("/lifecycles/{machine}", format!("/lifecycles/{MACHINE}?cursor={}", landmarks.middle));
        for state in ["written", "sent", "read", "failed"] {
            self.at("/lifecycles/{machine}", format!("/lifecycles/{MACHINE}?state={state}"));
        }
        self.at("/lifecycles/{machine}", format!("/lifecycles/{MACHINE}?correlation_id=customer-2"));
        for key in ["one", "four"] {
            self.at("/lifecycles/{machine}/{key}", format!("/lifecycles/{MACHINE}/{key}"));
            for which in ["", "?event=1"] {
                let address = format!("/lifecycles/{MACHINE}/{key}/whole{which}");
                self.at("/lifecycles/{machine}/{key}/whole", address);
            }
        }
    }
}
