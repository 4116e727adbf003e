//! Every form, sent without scripts.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::console_in_browser::screen::Screen;
use crate::console_in_browser::stage::Stage;
use crate::console_in_browser::walks::{route, routes};

/// A user without scripts, and the forms they have sent.
struct Sender<'a> {
    stage: &'a Stage,
    screen: &'a Screen,
    sent: BTreeSet<&'static str>,
}

impl Sender<'_> {
    /// Opens a page, fills in one of its forms, sends it, and reads the result.
    async fn send(&mut self, page: &str, action: &str, fields: &[(&str, &str)], button: &str, told: &str) {
        self.screen.open(page).await;
        let form = format!("form[action='{action}']");
        for (name, text) in fields {
            self.screen.fill(&format!("{form} [name='{name}']"), text).await;
        }
        self.screen.press(&format!("{form} {button}")).await;
        self.screen.shows(told).await;
        self.sent.insert(route("POST", action));
    }

    async fn sagas(&mut self) {
        let population = &self.stage.population;
        let (running, stuck) = (population.waiting[0].clone(), population.ended[1].clone());
        let page = format!("/sagas/{running}");
        let (api, action) = (format!("/v1{page}"), |what: &str| format!("{page}/{what}"));
        let note = [("note", "by hand, without a script")];
        self.send(&page, &action("pause"), &note, "button", "starts nothing new until it is resumed").await;
        self.stage.until(&api, |saga| saga["paused"] == true).await;
        self.send(&page, &action("resume"), &note, "button", "The saga goes on.").await;
        self.stage.until(&api, |saga| saga["paused"] == false).await;
        self.send(&page, &action("cancel"), &note, "button", "The saga will be rolled back.").await;
        let page = format!("/sagas/{stuck}");
        let resolve = format!("{page}/steps/pay/resolve");
        self.send(&page, &resolve, &note, "button[value=done]", "The rollback goes on.").await;
        let noted = |log: &Value| log.to_string().contains("a test: by hand, without a script");
        self.stage.until(&format!("/v1{page}/log"), noted).await;
        self.stage.admin.start(&json!({ "definition": "parcel", "correlation_id": " many " })).await;
        let many = "/sagas/bulk?action=cancel&correlation_id=+many+";
        self.send(many, "/sagas/bulk", &note, "button", "1 will be rolled back").await;
    }

    async fn definitions(&mut self) {
        let place = "/definitions/staged";
        self.send(place, &format!("{place}/apply"), &[], "button", "The staged version is active").await;
        let text = r#"{"name":"staged","steps":[{"id":"other","action":{"worker":{"queue":"q"}}}]}"#;
        self.send("/new-definition", "/new-definition", &[("text", text)], "button", "The change is staged")
            .await;
        self.send(place, &format!("{place}/discard"), &[], "button", "What was staged is discarded.").await;
        for (what, field, values) in [
            ("services", "payment.url", ["http://127.0.0.1:9/a", "http://127.0.0.1:9/b"]),
            ("timeouts", "payment.timeout", ["41s", "42s"]),
        ] {
            let form = format!("/orders/{what}");
            for (value, end, told) in [
                (values[0], "discard", "What was staged is discarded."),
                (values[1], "apply", "The staged version is active"),
            ] {
                self.send("/orders", &form, &[(field, value)], "button", "The change is staged").await;
                self.send("/orders", &format!("{form}/{end}"), &[], "button", told).await;
            }
        }
    }

    async fn webhooks(&mut self) {
        let population = &self.stage.population;
        let (subscription, dead) = (population.subscriptions[0], population.deliveries[0]);
        let page = format!("/webhooks/subscriptions/{subscription}");
        let action = |what: &str| format!("{page}/{what}");
        self.send(&page, &action("test"), &[], "button", "test call").await;
        self.send(&page, &action("disable"), &[("note", "it moves")], "button", "The endpoint is disabled")
            .await;
        self.send(&page, &action("enable"), &[], "button", "The endpoint is enabled").await;
        self.send(&page, &action("replay"), &[], "button", "are sent once more").await;
        let one = format!("/webhooks/dead-letters/{dead}/requeue");
        let delivery = format!("/webhooks/deliveries/{dead}");
        self.send(&delivery, &one, &[], "button", "It will be delivered anew.").await;
        // It fails again, and so does the replayed delivery.
        let letters = |page: &Value| page["items"].as_array().is_some_and(|items| items.len() == 3);
        self.stage.until("/v1/webhooks/dead-letters", letters).await;
        let many = "/webhooks/dead-letters/requeue";
        self.send(many, many, &[], "button", "2 are sent after all").await;
    }

    async fn messages(&mut self) {
        self.stage.services.answer("topic", 400, "no");
        let message = json!({ "topic": "parcels", "idempotency_key": "m", "payload": {} });
        let id = self.stage.post("/v1/outbox", &message).await["id"].clone();
        let page = format!("/outbox/{id}");
        self.stage.until(&format!("/v1{page}"), |message| message["status"] == "aborted").await;
        self.send(&page, &format!("{page}/retry"), &[], "button", "It will be sent again.").await;
        // Resolutions have closed the earlier alerts.
        let stuck = self.stage.post("/v1/sagas", &json!({ "definition": "stuck" })).await["id"].clone();
        let raised = |page: &Value| page["items"][0]["tx_id"] == stuck;
        let alerts = self.stage.until("/v1/admin/alerts", raised).await;
        let acknowledge = format!("/alerts/{}/acknowledge", alerts["items"][0]["id"]);
        self.send("/alerts", &acknowledge, &[("note", "mine")], "button", "The alert is acknowledged.").await;
    }

    async fn parked_items(&mut self) {
        for (area, item) in [("outbox", "7"), ("outbox", "8"), ("webhook_results", "9")] {
            self.stage.park(area, item);
        }
        let conflict = "/parked/webhook%5Fresults%3A9/remove-conflict";
        self.send("/parked", conflict, &[], "button", "no row is known that is in the way").await;
        self.send("/parked", "/parked/outbox%3A7/retry", &[], "button", "It is tried again now").await;
        self.send("/parked", "/parked/retry", &[], "button", "nothing is parked").await;
    }

    async fn lifecycles(&mut self) {
        let machine = "/lifecycles/postcard";
        let action = |what: &str| format!("/machines/postcard/{what}");
        self.send(machine, &action("apply"), &[], "button", "The staged version is active").await;
        let next =
            "{name: postcard, initial: open, states: [open, lost], terminal: [lost], edges: [[open, lost]]}";
        self.stage.put("/v1/lifecycles/postcard", next).await;
        self.send(machine, &action("discard"), &[], "button", "What was staged is discarded.").await;
        let page = "/lifecycles/letter/l%2D1";
        self.send(page, &format!("{page}/start"), &[], "button", "It was started.").await;
        self.send(page, &format!("{page}/transition"), &[], "button", "It has moved on.").await;
        let page = "/lifecycles/letter/l%2D2";
        let why = [("message", "torn")];
        self.send(page, &format!("{page}/fail"), &why, "button", "It has failed, as you said.").await;
        let pausing = "{name: parcel, initial: sent, states: [sent, held, delivered], terminal: [delivered], \
                       edges: [[sent, held], [sent, delivered]], pause: {held: sent}}";
        self.stage.put("/v1/lifecycles/parcel?apply=true", pausing).await;
        let page = "/lifecycles/parcel/p%2D1";
        self.stage.post(&format!("/v1{page}/start"), &json!({})).await;
        self.stage.post(&format!("/v1{page}/transition"), &json!({ "to": "held" })).await;
        let why = [("note", "the customer left")];
        self.send(page, &format!("{page}/abandon"), &why, "button", "It is abandoned: nothing follows.")
            .await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_form_can_be_sent_without_a_script() {
    let stage = Stage::set().await;
    let screen = Screen::on(stage.server.client.address).await;
    screen.browser.run_scripts(false).await;
    let mut sender = Sender { stage: &stage, screen: &screen, sent: BTreeSet::new() };
    let key = [("key", stage.key("admin"))];
    sender.send("/login", "/login", &key, "button", "Overview").await;
    sender.sagas().await;
    sender.definitions().await;
    sender.webhooks().await;
    sender.messages().await;
    sender.lifecycles().await;
    sender.parked_items().await;
    sender.send("/", "/logout", &[], "button", "Sign in").await;
    assert_eq!(sender.sent, routes("POST").collect::<BTreeSet<_>>(), "all of them");
    screen.browser.close().await;
}
