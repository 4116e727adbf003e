//! Live events.

use serde_json::json;

use crate::acceptance_seed_004::stage::{PATH, expect, on_both_stores, refused, site};
use crate::support::EventStream;

#[tokio::test(flavor = "multi_thread")]
async fn the_events_of_a_site_are_streamed_to_its_end() {
    on_both_stores(async |stage| {
        let open = stage.open().await;
        open.start("s", &json!({ "correlation_id": "c" })).await;
        let mut stream = EventStream::open(&open.client, &site("s", "/events"), None).await;
        let first = stream.next().await.unwrap();
        assert_eq!(
            (first.id, first.name.as_str(), &first.data["correlation_id"]),
            (Some(1), "lifecycle.started", &json!("c"))
        );
        for (to, id) in PATH[1..].iter().zip(2..) {
            open.moves("s", to).await;
            let event = stream.next().await.unwrap();
            assert_eq!(
                (event.id, event.name.as_str(), &event.data["to"]),
                (Some(id), "lifecycle.transitioned", &json!(to))
            );
        }
        assert_eq!(stream.next().await, None, "it ends with the site");
        let whole = EventStream::open(&open.client, &site("s", "/events"), None).await.rest().await;
        let ids: Vec<_> = whole.iter().map(|event| event.id.unwrap()).collect();
        assert_eq!(ids, (1..=8).collect::<Vec<_>>());
        let data: Vec<_> = whole.into_iter().map(|event| event.data).collect();
        assert_eq!(data, open.log("s").await, "the stream and the log say the same");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn reconnecting_reader_gets_exactly_what_it_missed() {
    on_both_stores(async |stage| {
        let open = stage.open().await;
        open.bring("s", "vercel_created").await;
        let mut stream = EventStream::open(&open.client, &site("s", "/events"), Some(3)).await;
        assert_eq!(stream.next().await.unwrap().id, Some(4));
        assert_eq!(stream.next().await.unwrap().id, Some(5));
        open.moves("s", "hook_creating").await;
        assert_eq!(stream.next().await.unwrap().id, Some(6));
        expect(&open.fail("s", "vercel_api").await, 200);
        let last = stream.next().await.unwrap();
        assert_eq!(
            (last.name.as_str(), &last.data["error_kind"], &last.data["from"]),
            ("lifecycle.failed", &json!("vercel_api"), &json!("hook_creating"))
        );
        assert_eq!(stream.next().await, None);
        let headers = [("last-event-id", "7")];
        let nothing = open.client.send(hyper::Method::GET, &site("s", "/events"), &headers, "").await;
        assert_eq!((nothing.status, nothing.body.len()), (204, 0));
        let rest = EventStream::open(&open.client, &site("s", "/events"), Some(6)).await.rest().await;
        assert_eq!(rest.len(), 1);
        for after in ["-1", "x", "8", "2147483647", "2147483648"] {
            let refused = open
                .client
                .send(hyper::Method::GET, &site("s", "/events"), &[("last-event-id", after)], "")
                .await;
            assert_eq!(refused.problem(), "bad-header");
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn events_of_another_node_are_streamed() {
    on_both_stores(async |stage| {
        if !stage.place.is_shared() {
            return;
        }
        let (one, other) = tokio::join!(stage.open(), stage.open());
        one.start("s", &json!({})).await;
        let mut stream = EventStream::open(&one.client, &site("s", "/events"), Some(1)).await;
        other.moves("s", "source_resolving").await;
        assert_eq!(stream.next().await.unwrap().data["to"], "source_resolving");
        expect(&other.fail("s", "github_api").await, 200);
        assert_eq!(stream.next().await.unwrap().name, "lifecycle.failed");
        assert_eq!(stream.next().await, None);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn event_stream_filters_by_machine_and_type() {
    on_both_stores(async |stage| {
        let open = stage.open().await;
        let listen =
            async |query: &str| EventStream::open(&open.client, &format!("/v1/events{query}"), None).await;
        let mut all = listen("").await;
        let mut of_sites = listen("?definition=site-provisioning").await;
        let mut failures = listen("?definition=site-provisioning&type=lifecycle.failed").await;
        let mut of_parcels = listen("?definition=parcel").await;
        open.declare(&crate::acceptance_seed_004::machines::parcel()).await;
        open.bring("s", "failed").await;
        expect(&open.client.post("/v1/lifecycles/parcel/p/start", &json!({})).await, 202);
        let started = all.next().await.unwrap();
        assert_eq!((started.id, started.name.as_str()), (None, "lifecycle.started"));
        let id = open.look("s").await["id"].clone();
        assert_eq!(
            (&started.data["lifecycle_id"], &started.data["machine"], &started.data["key"]),
            (&id, &json!("site-provisioning"), &json!("s"))
        );
        assert_eq!(all.next().await.unwrap().name, "lifecycle.failed");
        assert_eq!(all.next().await.unwrap().data["machine"], "parcel");
        assert_eq!(of_sites.next().await.unwrap().name, "lifecycle.started");
        assert_eq!(failures.next().await.unwrap().data["error_kind"], "internal");
        assert_eq!(of_parcels.next().await.unwrap().data["key"], "p");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn reader_ahead_of_the_log_is_refused() {
    on_both_stores(async |stage| {
        let open = stage.open().await;
        open.bring("s", "source_resolving").await;
        let resume = async |after: &str| {
            let headers = [("last-event-id", after)];
            open.client.send(hyper::Method::GET, &site("s", "/events"), &headers, "").await
        };
        for after in ["3", "2147483647"] {
            let ahead = resume(after).await;
            refused(&ahead, 400, "bad-header", "but the newest event is number 2");
            assert_eq!(ahead.json()["newest"], 2);
        }
        let mut stream = EventStream::open(&open.client, &site("s", "/events"), Some(2)).await;
        expect(&open.fail("s", "internal").await, 200);
        assert_eq!(stream.next().await.unwrap().id, Some(3), "whoever has the newest waits for the next");
        assert_eq!(resume("4").await.status, 400, "ended lifecycles too");
        assert_eq!(resume("3").await.status, 204, "there is nothing to wait for");
    })
    .await;
}
