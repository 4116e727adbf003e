//! The simulated services, over HTTP.

use std::time::Duration;

use backstitch_demo::services::{Behaviour, Phase, Service, Services};
use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::{Method, Request};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use serde_json::{Value, json};

/// Far more than anything takes: what is not there by then never comes.
const WITHIN: Duration = backstitch_testkit::PATIENCE;

async fn within<T>(coming: impl Future<Output = T>) -> T {
    tokio::time::timeout(WITHIN, coming).await.unwrap_or_else(|_| panic!("nothing came within {WITHIN:?}"))
}

/// A caller of the services for one saga.
#[derive(Clone)]
struct Caller {
    client: Client<HttpConnector, Full<Bytes>>,
    saga: &'static str,
    sku: &'static str,
}

#[derive(Debug, PartialEq, Eq)]
struct Answer {
    status: u16,
    body: Bytes,
}

impl Answer {
    fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap()
    }
}

impl Caller {
    fn of(saga: &'static str) -> Self {
        Self::with(saga, "book")
    }

    fn with(saga: &'static str, sku: &'static str) -> Self {
        Self { client: Client::builder(TokioExecutor::new()).build_http(), saga, sku }
    }

    /// `None` where the connection is closed without an answer.
    async fn call(&self, services: &Services, service: Service, phase: Phase) -> Option<Answer> {
        let (step, phase_name) = (service.name(), phase.as_str());
        let body = json!({
            "saga_id": self.saga, "step": step, "phase": phase_name, "attempt": 1, "results": {},
            "input": {"order_id": "o", "customer_id": "c", "items": [{"sku": self.sku, "quantity": 1}], "amount": 1},
        });
        let request = Request::builder()
            .method(Method::POST)
            .uri(services.url(service, phase))
            .header("idempotency-key", format!("{}:{step}:{phase_name}", self.saga))
            .header("traceparent", "00-0192000000007000800000000000abcd-dee48e8feaa76f17-01")
            .body(Full::new(body.to_string().into()))
            .unwrap();
        let (head, body) = within(self.client.request(request)).await.ok()?.into_parts();
        let body = within(body.collect()).await.ok()?.to_bytes();
        Some(Answer { status: head.status.as_u16(), body })
    }

    async fn answer(&self, services: &Services, service: Service, phase: Phase) -> Answer {
        self.call(services, service, phase).await.unwrap()
    }
}

async fn services() -> Services {
    Services::start(Behaviour::Succeed).await.unwrap()
}

fn in_effect(services: &Services) -> Vec<Service> {
    services.applied().iter().map(|applied| applied.service).collect()
}

#[tokio::test]
async fn action_is_in_effect_until_it_is_undone() {
    let (services, caller) = (services().await, Caller::of("a"));
    let done = caller.answer(&services, Service::Payment, Phase::Do).await;
    assert_eq!((done.status, done.json()["receipt"].is_string()), (200, true));
    assert_eq!(in_effect(&services), [Service::Payment]);
    let undone = caller.answer(&services, Service::Payment, Phase::Undo).await;
    assert_eq!(undone.json()["undone"], done.json()["receipt"]);
    assert_eq!(in_effect(&services), []);
}

#[tokio::test]
async fn repeated_call_is_applied_once_with_the_same_response() {
    let (services, caller) = (services().await, Caller::of("a"));
    let first = caller.answer(&services, Service::Payment, Phase::Do).await;
    assert_eq!(caller.answer(&services, Service::Payment, Phase::Do).await, first);
    assert_eq!(services.applied()[0].times, 1);
    assert_eq!(services.calls().len(), 2);
}

#[tokio::test]
async fn an_undo_before_its_do_succeeds_and_the_late_do_is_refused() {
    let (services, caller) = (services().await, Caller::of("a"));
    assert_eq!(caller.answer(&services, Service::Logistics, Phase::Undo).await.status, 200);
    let late = caller.answer(&services, Service::Logistics, Phase::Do).await;
    assert_eq!((late.status, late.json()["code"].as_str()), (409, Some("ALREADY_UNDONE")));
    assert_eq!(in_effect(&services), []);
}

#[tokio::test]
async fn a_service_behaves_as_it_is_set() {
    let services = services().await;
    for (behaviour, status) in [
        (Behaviour::Succeed, 200),
        (Behaviour::Refuse, 422),
        (Behaviour::Fail, 500),
        (Behaviour::Busy, 503),
        (Behaviour::Redirect, 307),
        (Behaviour::Delay(Duration::from_millis(1)), 200),
        (Behaviour::Garbage, 200),
        (Behaviour::Giant, 200),
    ] {
        services.set(Service::Inventory, Phase::Do, behaviour.clone());
        let caller = Caller::of(Box::leak(format!("{behaviour:?}").into_boxed_str()));
        let answer = caller.answer(&services, Service::Inventory, Phase::Do).await;
        assert_eq!(answer.status, status, "{behaviour:?}");
        let other = caller.answer(&services, Service::Payment, Phase::Do).await;
        assert_eq!(other.status, 200, "another service, while inventory has {behaviour:?}");
    }
}

#[tokio::test]
async fn an_order_can_wish_how_a_service_behaves_towards_it() {
    let services = services().await;
    let refused = Caller::with("a", "demo:refuse:inventory");
    let answer = refused.answer(&services, Service::Inventory, Phase::Do).await;
    assert_eq!((answer.status, answer.json()["code"].as_str()), (422, Some("OUT_OF_STOCK")));
    assert_eq!(refused.answer(&services, Service::Payment, Phase::Do).await.status, 200);
    assert_eq!(Caller::of("b").answer(&services, Service::Inventory, Phase::Do).await.status, 200);
    let misspelt = Caller::with("c", "demo:refuses:inventory");
    assert_eq!(misspelt.answer(&services, Service::Payment, Phase::Do).await.status, 400);
}

#[tokio::test]
async fn a_service_can_fail_the_first_times_and_then_succeed() {
    let (services, caller) = (services().await, Caller::with("a", "demo:fail:payment:2x"));
    let mut answers = Vec::new();
    for _ in 0..3 {
        answers.push(caller.answer(&services, Service::Payment, Phase::Do).await.status);
    }
    assert_eq!(answers, [500, 500, 200]);
    assert_eq!(services.applied()[0].times, 1);
}

#[tokio::test]
async fn hanging_service_has_done_its_work_before_its_response() {
    let services = services().await;
    let caller = Caller::with("a", "demo:hang:logistics");
    let waiting = caller.answer(&services, Service::Logistics, Phase::Do);
    let released = async {
        let call = within(services.heard(|call| call.service == Service::Logistics)).await;
        assert_eq!(call.answered, None);
        assert_eq!(in_effect(&services), [Service::Logistics]);
        services.release();
    };
    let (answer, ()) = tokio::join!(waiting, released);
    assert_eq!(answer.status, 200);
}

#[tokio::test]
async fn a_service_that_hangs_up_has_done_its_work_and_says_nothing() {
    let (services, caller) = (services().await, Caller::with("a", "demo:drop:payment:1x"));
    assert_eq!(caller.call(&services, Service::Payment, Phase::Do).await, None);
    assert_eq!(services.calls()[0].answered, None);
    assert_eq!(caller.answer(&services, Service::Payment, Phase::Do).await.status, 200);
    assert_eq!(services.applied()[0].times, 1);
}

#[tokio::test]
async fn every_call_is_written_down_as_it_came() {
    let (services, caller) = (services().await, Caller::of("a"));
    caller.answer(&services, Service::Payment, Phase::Do).await;
    caller.answer(&services, Service::Payment, Phase::Undo).await;
    let calls = services.calls();
    let seen: Vec<_> = calls.iter().map(|call| (call.key.as_str(), call.phase, call.answered)).collect();
    assert_eq!(seen, [("a:payment:do", Phase::Do, Some(200)), ("a:payment:undo", Phase::Undo, Some(200))]);
    assert!(calls.iter().all(|call| call.saga == "a" && call.step == "payment" && call.attempt == 1));
    assert!(calls.iter().all(|call| call.traceparent.as_deref().is_some_and(|it| it.starts_with("00-0192"))));
}

#[tokio::test]
async fn invalid_call_is_refused() {
    let services = services().await;
    let client: Client<HttpConnector, Full<Bytes>> = Client::builder(TokioExecutor::new()).build_http();
    for (path, body, status) in
        [("bank/do", "{}", 404), ("payment/redo", "{}", 404), ("payment/do", "{}", 400)]
    {
        let request = Request::post(format!("http://{}/{path}", services.address()));
        let request = request.header("idempotency-key", "k").body(Full::new(body.into())).unwrap();
        assert_eq!(within(client.request(request)).await.unwrap().status(), status, "{path}");
    }
    assert!(services.calls().is_empty());
}
