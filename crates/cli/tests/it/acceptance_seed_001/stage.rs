//! A database, services, and their records.

use backstitch_demo::services::{Behaviour, Call, Phase, Service, Services};

use crate::acceptance_seed_001::shop::Shop;
use crate::support::{Place, Program, on_both, within};

/// A process that is killed is missed soon.
pub(crate) const MISSED_SOON: [(&str, &str); 2] =
    [("BACKSTITCH_SAGAS_LEASE", "2s"), ("BACKSTITCH_SAGAS_TICK", "100ms")];

/// A database, empty at first, that servers can be started on one after the other, and the services they call.
pub(crate) struct Stage {
    place: Place,
    pub(crate) services: Services,
}

/// Plays a scene on each kind of database, both at the same time.
pub(crate) async fn on_both_stores(scene: impl AsyncFn(Stage)) {
    on_both(async |place| {
        let services = Services::start(Behaviour::Succeed).await.unwrap();
        scene(Stage { place, services }).await;
    })
    .await;
}

impl Stage {
    pub(crate) fn db(&self) -> String {
        self.place.db()
    }

    /// Whether several processes can work on it at once.
    pub(crate) fn is_shared(&self) -> bool {
        self.place.is_shared()
    }

    /// Asks the database itself.
    pub(crate) async fn rows(&self, sql: &str) -> Vec<Vec<Option<String>>> {
        self.place.rows(sql).await
    }

    /// Asks the database itself for what it has to refuse, and gives its reason.
    pub(crate) async fn refusal(&self, sql: &str) -> String {
        self.place.refusal(sql).await
    }

    /// An id in SQL as plain text, without hyphens.
    pub(crate) fn id(&self, column: &str) -> String {
        self.place.id(column)
    }

    /// A server that knows where the services are.
    pub(crate) async fn open(&self) -> Shop {
        self.open_with(&[]).await
    }

    /// The same with other settings.
    pub(crate) async fn open_with(&self, settings: &[(&str, &str)]) -> Shop {
        let url = |service, phase| self.services.url(service, phase);
        let places = Service::ALL.map(|service| {
            let name = service.name().to_uppercase();
            [
                (format!("BACKSTITCH_ORDERS_{name}_URL"), url(service, Phase::Do)),
                (format!("BACKSTITCH_ORDERS_{name}_ROLLBACK_URL"), url(service, Phase::Undo)),
            ]
        });
        let places: Vec<_> = places.as_flattened().iter().map(|(name, url)| (&**name, &**url)).collect();
        self.serve(&[&places, settings].concat()).await
    }

    /// A server without configured services.
    pub(crate) async fn open_unconfigured(&self) -> Shop {
        self.serve(&[]).await
    }

    async fn serve(&self, settings: &[(&str, &str)]) -> Shop {
        let usual = [("BACKSTITCH_LOG_LEVEL", "error"), ("BACKSTITCH_ORDERS_ROLLBACK_DELAY", "1ms")];
        let program = Program::serve(&self.db(), &[&usual, settings].concat()).await;
        Shop { client: program.client.clone(), program }
    }

    /// Waits for the first call of an order that is `wanted`.
    pub(crate) async fn called(&self, order: &str, wanted: impl Fn(&Call) -> bool) -> Call {
        within(self.services.heard(|call| call.saga == order && wanted(call))).await
    }

    /// Waits until a service was asked to do its part for an order.
    pub(crate) async fn asked_to_do(&self, order: &str, service: Service) -> Call {
        self.called(order, |call| call.service == service && call.phase == Phase::Do).await
    }

    /// Waits until a service was asked to undo its part for an order.
    pub(crate) async fn asked_to_undo(&self, order: &str, service: Service) -> Call {
        self.called(order, |call| call.service == service && call.phase == Phase::Undo).await
    }

    /// Every call for an order, in the order they came.
    pub(crate) fn calls(&self, order: &str) -> Vec<Call> {
        self.services.calls().into_iter().filter(|call| call.saga == order).collect()
    }

    /// The same in words: `do payment`.
    pub(crate) fn called_so_far(&self, order: &str) -> Vec<String> {
        let words = |call: &Call| format!("{} {}", call.phase.as_str(), call.service.name());
        self.calls(order).iter().map(words).collect()
    }

    /// What was done for an order and not undone. Nothing is ever done twice.
    pub(crate) fn in_effect(&self, order: &str) -> Vec<&'static str> {
        let applied = self.services.applied().into_iter().filter(|applied| applied.saga == order);
        applied
            .inspect(|applied| assert_eq!(applied.times, 1))
            .map(|applied| applied.service.name())
            .collect()
    }

    /// The view `transaction_log` of an order: number, service, status and error.
    pub(crate) async fn view(&self, order: &str) -> Vec<Vec<Option<String>>> {
        let (id, order) = (self.place.id("tx_id"), order.replace('-', ""));
        let sql = format!(
            "select seq, service, status, error from transaction_log where {id} = '{order}' order by seq"
        );
        self.place.rows(&sql).await
    }
}
