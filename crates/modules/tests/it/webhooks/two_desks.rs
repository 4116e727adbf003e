//! What an outside worker got from one node and answers to another counts like everything else.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use backstitch::delivery::limiter::{Limiter, LimiterSettings, RefusalReason};
use backstitch::inbox::Answer;
use backstitch::{Desk as _, StepError, Subject, Work, secs};
use backstitch_modules::webhooks::egress::Egress;
use backstitch_modules::webhooks::{Attempt, Attempted, Counter, GONE, Observer, QUEUE, Terms};

use crate::webhooks::stage::Stage;

/// How long attempts took, where somebody knows.
#[derive(Default)]
struct Heard(Mutex<Vec<Option<Duration>>>);

impl Observer for Heard {
    fn attempted(&self, attempt: &Attempted<'_>) {
        self.0.lock().unwrap().push(attempt.duration);
    }
}

/// A node that hands out deliveries.
struct Node {
    counter: Counter,
    limiter: Limiter<i64>,
    heard: Arc<Heard>,
}

impl Node {
    async fn on(stage: &Stage) -> Self {
        let settings = LimiterSettings { failures_in_a_row: 2, ..LimiterSettings::default() };
        let (limiter, heard) = (Limiter::new(settings), Arc::new(Heard::default()));
        let node = stage.another().await;
        let dispatch = stage.dispatch_as(stage.membership.clone(), &node, limiter.clone());
        let counter = Counter::of(dispatch, node.subscriptions, heard.clone());
        Self { counter, limiter, heard }
    }

    async fn fail(&self, work: &Work, error: StepError) -> Result<(), backstitch::Error> {
        self.counter.answer(work.job, work.token, &Answer::Failed(error)).await.map(drop)
    }

    fn heard(&self) -> Vec<Option<Duration>> {
        self.heard.0.lock().unwrap().clone()
    }

    fn closed(&self, lane: i64) -> Option<RefusalReason> {
        self.limiter.refusal(&lane).map(|wait| wait.reason)
    }
}

/// So many deliveries, handed out by the first of two nodes.
async fn handed_out(stage: &Stage, count: usize) -> ([Node; 2], Vec<Work>) {
    let nodes = [Node::on(stage).await, Node::on(stage).await];
    for number in 0..count {
        stage.tell(&format!("o-{number}")).await;
    }
    stage.decide().await;
    let work = nodes[0].counter.lease(&[QUEUE], count, secs(30)).await.unwrap();
    assert_eq!(work.len(), count);
    (nodes, work)
}

fn error(code: &str) -> StepError {
    StepError::not_done("no").with_code(code)
}

async fn attempt_of(stage: &Stage, work: &Work) -> Attempt {
    let Subject::Delivery { id } = work.subject else { panic!("{:?}", work.subject) };
    stage.webhooks.deliveries.attempts(id).await.unwrap().remove(0)
}

#[tokio::test(flavor = "multi_thread")]
async fn what_another_node_handed_out_is_judged_by_whoever_hears_the_answer() {
    for stage in Stage::each().await {
        let subscription = stage.subscribe(&["*"], 8).await;
        let ([here, there], work) = handed_out(&stage, 4).await;
        there.fail(&work[0], error("http_503").with_retry_after(secs(60))).await.unwrap();
        assert_eq!(
            there.closed(subscription.id),
            Some(RefusalReason::RetryAfter),
            "it asked to be left alone"
        );
        there.fail(&work[1], error("http_500")).await.unwrap();
        assert_eq!(there.closed(subscription.id), Some(RefusalReason::BreakerOpen));
        assert_eq!(there.heard(), [None, None], "each is counted, though nobody here knows how long it took");

        assert_eq!(here.closed(subscription.id), None);
        here.counter.free_places().await.unwrap();
        assert_eq!(
            here.closed(subscription.id),
            Some(RefusalReason::BreakerOpen),
            "what was answered is read by the first"
        );
        assert!(here.heard().is_empty(), "and counted once");

        there.fail(&work[2], error("http_410")).await.unwrap();
        let disabled = stage.webhooks.subscriptions.get(subscription.id).await.unwrap().disabled;
        assert_eq!(disabled.unwrap().reason, GONE);
        here.fail(&work[3], error("http_422")).await.unwrap();
        let [elsewhere, at_home] = [attempt_of(&stage, &work[2]).await, attempt_of(&stage, &work[3]).await];
        let sent = elsewhere.sent.unwrap();
        assert_eq!(sent.url, "https://example.com/hooks");
        assert!(sent.headers.contains(&"webhook-signature".to_owned()), "{sent:?}");
        assert_eq!(Some(sent), at_home.sent, "wherever it is heard of");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_has_handed_out_nothing_yet_leaves_alone_whoever_asked_for_it() {
    for stage in Stage::each().await {
        stage.subscribe(&["*"], 8).await;
        let ([_here, there], work) = handed_out(&stage, 1).await;
        stage.tell("o-2").await;
        stage.decide().await;
        there.fail(&work[0], error("http_503").with_retry_after(secs(60))).await.unwrap();
        assert!(there.counter.lease(&[QUEUE], 1, secs(30)).await.unwrap().is_empty());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_says_otherwise_than_what_counted_is_told_that_it_is_over() {
    for stage in Stage::each().await {
        let subscription = stage.subscribe(&["*"], 8).await;
        let ([here, _there], work) = handed_out(&stage, 2).await;
        here.fail(&work[0], error("http_500")).await.unwrap();
        here.fail(&work[0], error("http_500")).await.unwrap();
        stage.webhooks.subscriptions.delete(subscription.id).await.unwrap();
        stage.advance(secs(60)).await;
        here.counter.free_places().await.unwrap();
        assert_eq!(stage.webhooks.jobs.close_lane(subscription.id).await.unwrap(), 1);
        for work in &work {
            let done = Answer::Succeeded("null".to_owned());
            let over = here.counter.answer(work.job, work.token, &done).await.unwrap_err();
            assert!(matches!(over, backstitch::Error::JobOver(_)), "{over}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_address_that_was_changed_meanwhile_is_not_taken_for_the_one_that_answered() {
    for stage in Stage::each().await {
        let subscription = stage.subscribe(&["*"], 8).await;
        let ([_here, there], work) = handed_out(&stage, 1).await;
        let terms = Terms { url: "https://example.com/new".to_owned(), ..subscription.terms.clone() };
        stage.registrar_to(Egress::default()).change(&subscription, &terms, None).await.unwrap();
        there.fail(&work[0], error("http_410")).await.unwrap();
        assert!(stage.webhooks.subscriptions.get(subscription.id).await.unwrap().disabled.is_none());
        assert_eq!(attempt_of(&stage, &work[0]).await.sent, None, "nobody knows where it went");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_address_that_was_changed_before_it_was_handed_out_is_the_one_that_answered() {
    for stage in Stage::each().await {
        let subscription = stage.subscribe(&["*"], 8).await;
        stage.tell("o-1").await;
        stage.decide().await;
        stage.advance(secs(1)).await;
        stage.webhooks.subscriptions.disable(subscription.id, "for a while").await.unwrap();
        stage.webhooks.subscriptions.enable(subscription.id).await.unwrap();
        let [here, there] = [Node::on(&stage).await, Node::on(&stage).await];
        let work = here.counter.lease(&[QUEUE], 1, secs(30)).await.unwrap();
        there.fail(&work[0], error("http_410")).await.unwrap();
        let disabled = stage.webhooks.subscriptions.get(subscription.id).await.unwrap().disabled;
        assert_eq!(disabled.unwrap().reason, GONE, "it waited longer than it has been so");
        assert!(attempt_of(&stage, &work[0]).await.sent.is_some());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_goes_away_while_it_answers_has_answered() {
    for stage in Stage::each().await {
        let subscription = stage.subscribe(&["*"], 8).await;
        let ([here, _there], work) = handed_out(&stage, 1).await;
        {
            let mut answering = std::pin::pin!(here.fail(&work[0], error("http_410")));
            // One poll sends the answer. It may already be handled if this thread was suspended meanwhile.
            let _ = futures::poll!(answering.as_mut());
        }
        while stage.webhooks.subscriptions.get(subscription.id).await.unwrap().disabled.is_none() {
            tokio::time::sleep(secs(1) / 200).await;
        }
        assert_eq!(here.heard().len(), 1, "and is counted");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lease_is_no_longer_than_a_lost_worker_may_hold_up_its_endpoint() {
    for stage in Stage::each().await {
        let timeout = stage.subscribe(&["*"], 8).await.terms.timeout;
        stage.tell("o-1").await;
        stage.decide().await;
        let node = Node::on(&stage).await;
        let work = node.counter.lease(&[QUEUE], 1, secs(86400)).await.unwrap();
        let longest = stage.now().plus(timeout + secs(300));
        assert_eq!(work[0].lease_until, longest);
        let until = node.counter.extend(work[0].job, work[0].token, secs(86400)).await.unwrap();
        assert_eq!(until, Some(longest));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_short_heartbeat_leaves_a_request_its_time_whichever_node_hears_it() {
    for stage in Stage::each().await {
        let subscription = stage.subscribe(&["*"], 8).await;
        let (nodes, work) = handed_out(&stage, 1).await;
        for node in nodes {
            let until = node.counter.extend(work[0].job, work[0].token, secs(1)).await.unwrap().unwrap();
            assert!(until > stage.now().plus(subscription.terms.timeout), "{until:?}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_that_could_not_be_written_is_judged_when_it_comes_again() {
    let stage = Stage::postgres().await;
    let subscription = stage.subscribe(&["*"], 8).await;
    let ([here, _there], work) = handed_out(&stage, 2).await;
    let taken = here.limiter.free();
    stage.execute("revoke insert on job_results from backstitch_worker").await.unwrap();
    assert!(here.fail(&work[0], error("http_500")).await.is_err());
    assert_eq!((here.limiter.free(), here.heard().len()), (taken, 0), "the worker has it still");
    stage.execute("grant insert on job_results to backstitch_worker").await.unwrap();
    for work in &work {
        here.fail(work, error("http_500")).await.unwrap();
    }
    assert_eq!(here.limiter.free(), taken + 2);
    assert_eq!(here.closed(subscription.id), Some(RefusalReason::BreakerOpen));
    assert!(here.heard().iter().all(Option::is_some) && here.heard().len() == 2, "{:?}", here.heard());
}
