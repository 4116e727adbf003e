//! Subscriptions: made, changed, rotated, disabled, deleted.

use std::time::Duration;

use backstitch_modules::webhooks::egress::Egress;
use backstitch_modules::webhooks::{BadTerms, Error, GONE, Sealed, SealedHeaders, Terms};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use futures::TryStreamExt as _;

use crate::webhooks::stage::{Place, Stage};

fn terms() -> Terms {
    Terms {
        rate_limit: Some(50),
        timeout: Duration::from_millis(2500),
        ..Terms::to("https://example.com/in", vec!["order.*".to_owned(), "invoice.paid".to_owned()])
    }
}

fn sealed(secret: &[u8]) -> Sealed {
    Sealed { secret: secret.to_vec(), headers: SealedHeaders::default() }
}

/// Everything that the database holds of subscriptions, byte by byte.
async fn bytes_at_rest(stage: &Stage) -> Vec<u8> {
    match &stage.place {
        Place::Sqlite(folder) => {
            let files = std::fs::read_dir(folder.path()).unwrap().map(|file| file.unwrap().path());
            files.flat_map(|file| std::fs::read(file).unwrap()).collect()
        }
        Place::Postgres { session, .. } => {
            let all = "copy backstitch.webhook_subscriptions to stdout";
            let rows = session.copy_out(all).await.unwrap();
            rows.try_collect::<Vec<_>>().await.unwrap().concat()
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn no_value_of_a_header_stands_in_the_database() {
    for stage in Stage::each().await {
        let registrar = stage.registrar_to(Egress::default());
        let headers = |value: &str| [("X-Partner-Key".to_owned(), value.to_owned())];
        let (made, _) = registrar.create(&terms(), &headers("hush-first-hush"), None).await.unwrap();
        registrar.change(&made, &terms(), Some(&headers("hush-second-hush"))).await.unwrap();
        let bytes = bytes_at_rest(&stage).await;
        let holds = |text: &str| bytes.windows(text.len()).any(|window| window == text.as_bytes());
        assert!(holds("X-Partner-Key"), "names are no secret");
        for value in ["hush-first-hush", "hush-second-hush"] {
            let hexadecimal = value.bytes().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().concat();
            // As it would stand in base64, wherever it begins there.
            let coded = ["", "x", "xx"].map(|before| {
                let coded = STANDARD.encode(format!("{before}{value}"));
                coded[4..coded.len() - 4].to_owned()
            });
            for spelling in [value.to_owned(), hexadecimal].iter().chain(&coded) {
                assert!(!holds(spelling), "{value} as {spelling}");
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_subscription_is_kept_as_it_was_made_and_changed_by_one_at_a_time() {
    for stage in Stage::each().await {
        let subscriptions = &stage.webhooks.subscriptions;
        let made = subscriptions.create(&terms(), |_| Ok(sealed(&[0, 1, 255]))).await.unwrap();
        assert_eq!((&made.terms, made.created_at, made.updated_at), (&terms(), stage.now(), stage.now()));
        assert_eq!((made.terms.max_retry_limit, made.terms.base_delay), (8, Duration::from_secs(5)));
        assert_eq!(made.terms.max_delay, Duration::from_secs(3600));
        assert_eq!((made.secrets.current.as_slice(), &made.secrets.previous), (&[0, 1, 255][..], &None));
        assert_eq!(subscriptions.get(made.id).await.unwrap(), made);

        let other = Terms { event_types: vec!["invoice.*".to_owned()], ..terms() };
        let changed = subscriptions.change(&made, &other, &made.headers).await.unwrap();
        assert_eq!(changed.terms, other);
        let refused = subscriptions.change(&made, &terms(), &made.headers).await.unwrap_err();
        assert!(matches!(refused, Error::ChangedMeanwhile(_)), "{refused}");
        assert_eq!(stage.tell("o-1").await.deliveries, 0, "what it names now counts");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn subscriptions_are_listed_newest_first_without_the_deleted() {
    for stage in Stage::each().await {
        let subscriptions = &stage.webhooks.subscriptions;
        let mut ids = Vec::new();
        for _ in 0..5 {
            ids.push(subscriptions.create(&terms(), |_| Ok(Sealed::default())).await.unwrap().id);
        }
        subscriptions.delete(ids[2]).await.unwrap();
        let first = subscriptions.list(2, None).await.unwrap();
        let rest = subscriptions.list(3, first.next).await.unwrap();
        let found: Vec<i64> = first.items.iter().chain(&rest.items).map(|found| found.id).collect();
        assert_eq!((found, rest.next), (vec![ids[4], ids[3], ids[1], ids[0]], None));
        for refused in [
            subscriptions.get(ids[2]).await.map(drop),
            subscriptions.delete(ids[2]).await,
            subscriptions.enable(ids[2]).await.map(drop),
            subscriptions.rotate_secret(ids[2], Vec::new(), Duration::ZERO, false).await.map(drop),
        ] {
            assert!(matches!(refused, Err(Error::UnknownSubscription(id)) if id == ids[2]));
        }
        let revived =
            stage.execute("update webhook_subscriptions set deleted_at = null where deleted_at is not null");
        assert!(revived.await.unwrap_err().contains("deleted"));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_old_secret_stays_live_for_a_while_after_the_new_one() {
    for stage in Stage::each().await {
        let subscriptions = &stage.webhooks.subscriptions;
        let made = subscriptions.create(&terms(), |_| Ok(sealed(b"first"))).await.unwrap();
        let day = Duration::from_secs(24 * 3600);
        let rotated = subscriptions.rotate_secret(made.id, b"second".to_vec(), day, false).await.unwrap();
        assert_eq!(rotated.secrets.current, b"second");
        assert_eq!(rotated.secrets.previous, Some((b"first".to_vec(), stage.now().plus(day))));
        let refused = subscriptions.rotate_secret(made.id, b"third".to_vec(), day, false).await.unwrap_err();
        assert!(
            matches!(refused, Error::Rotating { until, .. } if until == stage.now().plus(day)),
            "{refused}"
        );
        assert_eq!(subscriptions.get(made.id).await.unwrap().secrets, rotated.secrets);
        let again = subscriptions.rotate_secret(made.id, b"third".to_vec(), day, true).await.unwrap();
        assert_eq!(again.secrets.previous.unwrap().0, b"second");
        stage.advance(day).await;
        let later = subscriptions.rotate_secret(made.id, b"fourth".to_vec(), day, false).await.unwrap();
        assert_eq!(later.secrets.previous.unwrap().0, b"third", "what is over stands in nobody's way");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_disabled_subscription_says_since_when_and_why_and_keeps_its_first_reason() {
    for stage in Stage::each().await {
        let subscriptions = &stage.webhooks.subscriptions;
        let made = subscriptions.create(&terms(), |_| Ok(Sealed::default())).await.unwrap();
        assert!(
            !subscriptions.gone(made.id, "https://example.com/before").await.unwrap(),
            "it leads elsewhere now"
        );
        assert_eq!(subscriptions.get(made.id).await.unwrap().disabled, None);
        assert!(subscriptions.gone(made.id, &made.terms.url).await.unwrap());
        let gone = subscriptions.get(made.id).await.unwrap().disabled.unwrap();
        assert_eq!((gone.at, gone.reason.as_str()), (stage.now(), GONE));
        stage.advance(Duration::from_secs(9)).await;
        let still = subscriptions.disable(made.id, "by hand").await.unwrap().disabled.unwrap();
        assert_eq!(still, gone);
        assert_eq!(subscriptions.enable(made.id).await.unwrap().disabled, None);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn terms_that_cannot_be_are_refused_by_name() {
    let stage = Stage::sqlite().await;
    let wrong = [
        ("event_types", Terms { event_types: Vec::new(), ..terms() }),
        ("event_types", Terms { event_types: vec!["order*".to_owned()], ..terms() }),
        ("url", Terms { url: String::new(), ..terms() }),
        ("max_retry_limit", Terms { max_retry_limit: 0, ..terms() }),
        ("base_delay", Terms { base_delay: Duration::ZERO, ..terms() }),
        ("max_delay", Terms { max_delay: Duration::from_secs(1), ..terms() }),
        ("timeout", Terms { timeout: Duration::from_secs(3601), ..terms() }),
        ("max_concurrency", Terms { max_concurrency: 0, ..terms() }),
        ("rate_limit", Terms { rate_limit: Some(0), ..terms() }),
    ];
    for (name, terms) in wrong {
        let refused =
            stage.webhooks.subscriptions.create(&terms, |_| Ok(Sealed::default())).await.unwrap_err();
        let Error::Terms(BadTerms(wrong)) = refused else { panic!("{name}: {refused}") };
        let places: Vec<&str> = wrong.iter().map(|wrong| wrong.place.as_str()).collect();
        assert_eq!(places, [name]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_secret_is_left_of_a_deleted_subscription() {
    for stage in Stage::each().await {
        let subscriptions = &stage.webhooks.subscriptions;
        let made = subscriptions.create(&terms(), |_| Ok(sealed(b"first"))).await.unwrap();
        subscriptions
            .rotate_secret(made.id, b"second".to_vec(), Duration::from_secs(3600), false)
            .await
            .unwrap();
        subscriptions.delete(made.id).await.unwrap();
        let later = "select count(*) from webhook_subscriptions where updated_at > deleted_at";
        assert_eq!(
            stage.number(later).await,
            1,
            "time stands still, and the later change has the later time"
        );
        let empty =
            "select count(*) from webhook_subscriptions where length(secret) = 0 and previous_secret is null
            and previous_secret_until is null and headers = '[]'";
        assert_eq!(stage.number(empty).await, 1);
    }
}
