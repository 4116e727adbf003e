//! Mail to a real server.

use backstitch_modules::alerts::{Config, Email, Secret, Security};
use backstitch_testkit::smtp::{Encryption, Identity, Setup, SmtpServer};

use crate::alerts::stage::{Place, Stage, email, notified};

fn by_mail(email: Email) -> Config {
    Config { email: Some(email), ..Config::default() }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_rollback_reaches_the_administrator_by_mail() {
    for place in Place::each().await {
        let mut server = SmtpServer::start(&Setup::default()).await;
        let mut stage = Stage::open(place, &by_mail(email(server.port()))).await;
        let saga = stage.fail_a_rollback("the bank is closed").await;
        let mail = server.next_mail().await;
        assert_eq!(
            (mail.sender.as_str(), &*mail.recipients),
            ("backstitch@example.com", &["ops@example.com".to_owned()][..])
        );
        assert_eq!(mail.header("Subject"), format!("[backstitch] rollback failed: payment of order {saga}"));
        assert_eq!(mail.header("Auto-Submitted"), "auto-generated");
        for expected in [
            format!("Transaction: {saga}\n"),
            "Service:     payment\n".to_owned(),
            "Error:       the bank is closed\n".to_owned(),
            "Code:        BANK_CLOSED\n".to_owned(),
            format!("  GET /v1/sagas/{saga}\n"),
            format!("  POST /v1/sagas/{saga}/steps/payment/resolve "),
        ] {
            assert!(mail.text.contains(&expected), "{expected:?} is missing:\n{}", mail.text);
        }
        assert!(stage.out().await.is_empty());
        assert!(server.stop().await.is_empty(), "one mail is enough");

        let listed = stage.newest().await;
        assert_eq!((listed.alert.tx_id, listed.alert.service.as_deref()), (Some(saga), Some("payment")));
        assert_eq!(notified(&listed), [("email", "ops@example.com", 1), ("log", "", 1)]);
        assert!(listed.notices.iter().all(|notice| notice.notified_at >= Some(listed.alert.occurred_at)));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hook_that_was_given_up_reaches_the_administrator_by_mail() {
    let mut server = SmtpServer::start(&Setup::default()).await;
    let stage = Stage::open(Place::file(), &by_mail(email(server.port()))).await;
    let saga = stage.fail_a_hook().await;
    let mail = server.next_mail().await;
    assert_eq!(mail.header("Subject"), format!("[backstitch] hook failed: on_success of farewell {saga}"));
    assert!(mail.text.contains("nobody listens") && mail.text.contains(&saga.to_string()), "{}", mail.text);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_line_break_in_an_error_adds_no_header() {
    let mut server = SmtpServer::start(&Setup::default()).await;
    let stage = Stage::open(Place::file(), &by_mail(email(server.port()))).await;
    stage.fail_a_rollback("closed\r\nBcc: all@example.com\r\n\r\n.\r\nQUIT\r\nCode: 0").await;
    let mail = server.next_mail().await;
    let names: Vec<&str> = mail.headers.iter().map(|(name, _)| name.as_str()).collect();
    let expected = [
        "From",
        "To",
        "Date",
        "Message-ID",
        "Subject",
        "Auto-Submitted",
        "Content-Type",
        "Content-Transfer-Encoding",
    ];
    assert_eq!(names, expected);
    assert!(mail.text.contains("Error:       closed\n             Bcc: all@example.com\n"), "{}", mail.text);
    assert!(mail.text.contains("\nTime: "), "nothing ends the mail early:\n{}", mail.text);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_recipient_who_is_refused_keeps_nobody_else_from_being_told() {
    let setup = Setup { refuses: vec!["gone@example.com"], ..Setup::default() };
    let mut server = SmtpServer::start(&setup).await;
    let to = ["gone@example.com", "ops@example.com"].map(str::to_owned).to_vec();
    let mut stage = Stage::open(Place::file(), &by_mail(Email { to, ..email(server.port()) })).await;
    stage.fail_a_rollback("the bank is closed").await;
    assert_eq!(server.next_mail().await.recipients, ["ops@example.com"]);
    for _ in 0..2 {
        let refused = stage.sent().await.unwrap_err();
        assert!(refused.contains("email to gone@example.com") && refused.contains("550"), "{refused}");
        assert!(!refused.contains("ops@example.com"), "{refused}");
    }
    assert!(server.stop().await.is_empty(), "whoever was told is not told again");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_mail_that_comes_twice_is_recognised_by_its_id() {
    let mut server = SmtpServer::start(&Setup::default()).await;
    let mut stage = Stage::open(Place::file(), &by_mail(email(server.port()))).await;
    stage.fail_a_rollback("the bank is closed").await;
    let first = server.next_mail().await;
    assert!(stage.out().await.is_empty());

    // As if the process had died after the mail was out and before that was written.
    stage.change("drop trigger alert_notices_refuse_delete").await.unwrap();
    stage.change("delete from alert_notices").await.unwrap();
    stage.change("drop trigger outbox_refuse_update").await.unwrap();
    stage.change("update outbox set status = 'pending', due_at = 0").await.unwrap();
    let again = server.next_mail().await;
    assert_eq!(first.header("Message-ID"), again.header("Message-ID"));
    assert!(stage.out().await.is_empty());

    stage.fail_a_rollback("the bank is closed").await;
    assert_ne!(server.next_mail().await.header("Message-ID"), first.header("Message-ID"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_says_no_goodbye_gets_the_mail_once() {
    let mut server = SmtpServer::start(&Setup { never_says_goodbye: true, ..Setup::default() }).await;
    let mut stage = Stage::open(Place::file(), &by_mail(email(server.port()))).await;
    stage.fail_a_rollback("the bank is closed").await;
    server.next_mail().await;
    assert!(stage.out().await.is_empty());
    assert!(server.stop().await.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn mail_goes_encrypted_and_with_a_login() {
    let folder = tempfile::tempdir().unwrap();
    let identity = identity(&folder);
    for (security, encryption) in [
        (Security::StartTls, Encryption::StartTls(identity.clone())),
        (Security::Tls, Encryption::Tls(identity.clone())),
    ] {
        let setup = Setup { encryption, login: Some(("backstitch", "hush")), ..Setup::default() };
        let mut server = SmtpServer::start(&setup).await;
        let email = Email {
            security,
            user: Some("backstitch".to_owned()),
            password: Some(Secret::new("hush")),
            root_certificate: Some(identity.certificate.clone()),
            ..email(server.port())
        };
        let mut stage = Stage::open(Place::file(), &by_mail(email)).await;
        stage.fail_a_rollback("the bank is closed").await;
        let mail = server.next_mail().await;
        assert_eq!((mail.user.as_deref(), mail.encrypted), (Some("backstitch"), true));
        assert!(stage.out().await.is_empty());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn mail_goes_over_a_plain_connection_of_this_machine_with_a_login() {
    let setup = Setup { login: Some(("backstitch", "hush")), ..Setup::default() };
    let mut server = SmtpServer::start(&setup).await;
    let email = |password: &str| Email {
        user: Some("backstitch".to_owned()),
        password: Some(Secret::new(password)),
        ..email(server.port())
    };
    let (right, wrong) = (by_mail(email("hush")), by_mail(email("wrong")));
    let mut refused = Stage::open(Place::file(), &wrong).await;
    refused.fail_a_rollback("the bank is closed").await;
    let why = refused.sent().await.unwrap_err();
    assert!(why.contains("535") && !why.contains("wrong"), "{why}");
    let stage = Stage::open(Place::file(), &right).await;
    stage.fail_a_rollback("the bank is closed").await;
    assert_eq!(server.next_mail().await.user.as_deref(), Some("backstitch"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_cannot_prove_who_it_is_gets_neither_login_nor_mail() {
    let folder = tempfile::tempdir().unwrap();
    let encryption = Encryption::StartTls(identity(&folder));
    let server = SmtpServer::start(&Setup { encryption, ..Setup::default() }).await;
    let email = Email { security: Security::StartTls, ..email(server.port()) };
    let mut stage = Stage::open(Place::file(), &by_mail(email)).await;
    stage.fail_a_rollback("the bank is closed").await;
    let refused = stage.sent().await.unwrap_err();
    assert!(refused.contains("certificate"), "{refused}");
    assert!(server.stop().await.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_without_starttls_gets_no_mail_in_the_clear() {
    let server = SmtpServer::start(&Setup::default()).await;
    let email = Email { security: Security::StartTls, ..email(server.port()) };
    let mut stage = Stage::open(Place::file(), &by_mail(email)).await;
    stage.fail_a_rollback("the bank is closed").await;
    let refused = stage.sent().await.unwrap_err();
    assert!(refused.contains("STARTTLS"), "{refused}");
    assert!(server.stop().await.is_empty());
}

/// Signed by itself, for 127.0.0.1.
fn identity(folder: &tempfile::TempDir) -> Identity {
    let made = rcgen::generate_simple_self_signed(vec!["127.0.0.1".to_owned()]).unwrap();
    let (certificate, key) = (folder.path().join("server.crt"), folder.path().join("server.key"));
    std::fs::write(&certificate, made.cert.pem()).unwrap();
    std::fs::write(&key, made.signing_key.serialize_pem()).unwrap();
    Identity { certificate, key }
}
