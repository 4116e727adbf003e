//! Mail through an SMTP server, one for each recipient: an address that is refused keeps nobody else from being told.

use std::fmt::Write as _;
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use async_trait::async_trait;
use backstitch::Timestamp;
use lettre::Message;
use lettre::address::Envelope;
use lettre::message::Mailbox;
use lettre::message::header::{ContentType, HeaderName, HeaderValue};
use lettre::transport::smtp::authentication::{Credentials, DEFAULT_MECHANISMS};
use lettre::transport::smtp::client::{AsyncSmtpConnection, Certificate, TlsParameters};
use lettre::transport::smtp::extension::ClientId;
use sha2::{Digest as _, Sha256};
use tokio::time::timeout;

use super::{Alert, Channel, Room};
use crate::alerts::config::{Email, Security, mailbox};
use crate::alerts::text;
use crate::outgoing::certificates;

/// How long a server that has the mail is waited for to say goodbye.
const GOODBYE: Duration = Duration::from_secs(1);

/// Mail to one recipient.
pub(super) struct Mailing {
    server: Arc<Server>,
    from: Mailbox,
    to: Mailbox,
    address: String,
}

struct Server {
    host: String,
    port: u16,
    security: Security,
    tls: TlsParameters,
    login: Option<Credentials>,
    hello: ClientId,
    room: Room,
}

/// One for each recipient.
pub(super) fn mailings(email: &Email) -> Result<Vec<Mailing>, String> {
    let from = mailbox("from", &email.from)?;
    let mut parameters = TlsParameters::builder(email.host.clone());
    for certificate in certificates::in_file(email.root_certificate.as_deref())? {
        let certificate = Certificate::from_der(certificate.to_vec());
        parameters =
            parameters.add_root_certificate(certificate.map_err(|why| format!("root_certificate: {why}"))?);
    }
    let login = email.user.clone().zip(email.password.as_ref());
    let server = Arc::new(Server {
        host: email.host.clone(),
        port: email.port(),
        security: email.security,
        tls: parameters.build_rustls().map_err(|why| format!("security: TLS cannot be used: {why}"))?,
        login: login.map(|(user, password)| Credentials::new(user, password.reveal().to_owned())),
        hello: ClientId::Domain(from.email.domain().to_owned()),
        room: Room::within(email.timeout),
    });
    let mailing = |to: &String| {
        let to = mailbox("to", to)?;
        Ok(Mailing { server: server.clone(), from: from.clone(), address: to.email.to_string(), to })
    };
    email.to.iter().map(mailing).collect()
}

#[async_trait]
impl Channel for Mailing {
    fn name(&self) -> &'static str {
        "email"
    }

    fn recipient(&self) -> Option<&str> {
        Some(&self.address)
    }

    async fn deliver(&self, alert: &Alert, now: Timestamp) -> Result<(), String> {
        let mail = self.mail(alert, now).map_err(|why| format!("the mail cannot be written: {why}"))?;
        let sent = async {
            self.server.send(mail.envelope(), &mail.formatted()).await.map_err(|why| why.to_string())
        };
        let mut connection = self.server.room.exchange(sent).await?;
        // The server has the mail: nothing that happens from here on may have it sent again.
        tokio::spawn(async move { timeout(GOODBYE, connection.abort()).await });
        Ok(())
    }
}

impl Mailing {
    fn mail(&self, alert: &Alert, now: Timestamp) -> Result<Message, lettre::error::Error> {
        let written_at = Duration::from_micros(u64::try_from(now.as_micros()).unwrap_or(0));
        Message::builder()
            .from(self.from.clone())
            .to(self.to.clone())
            .date(UNIX_EPOCH + written_at)
            .message_id(Some(format!("<{}@{}>", digest(alert), self.from.email.domain())))
            .subject(format!("[backstitch] {}", text::headline(alert)))
            // So that nobody's absence notice answers it.
            .raw_header(HeaderValue::new(
                HeaderName::new_from_ascii_str("Auto-Submitted"),
                "auto-generated".to_owned(),
            ))
            .header(ContentType::TEXT_PLAIN)
            .body(text::letter(alert))
    }
}

/// The same for the same alert and no other, of whatever installation and whatever is in its key.
fn digest(alert: &Alert) -> String {
    let mut hash = Sha256::new();
    hash.update(&alert.key);
    if let Some(saga) = alert.tx_id {
        hash.update([0]);
        hash.update(saga.to_string());
    }
    hash.finalize().iter().fold(String::new(), |mut hex, byte| {
        let _ = write!(hex, "{byte:02x}");
        hex
    })
}

impl Server {
    async fn send(
        &self,
        envelope: &Envelope,
        mail: &[u8],
    ) -> Result<AsyncSmtpConnection, lettre::transport::smtp::Error> {
        let from_the_beginning = (self.security == Security::Tls).then(|| self.tls.clone());
        let address = (self.host.as_str(), self.port);
        let mut connection =
            AsyncSmtpConnection::connect_tokio1(address, None, &self.hello, from_the_beginning, None).await?;
        if self.security == Security::StartTls {
            connection.starttls(self.tls.clone(), &self.hello).await?;
        }
        if let Some(login) = &self.login {
            connection.auth(DEFAULT_MECHANISMS, login).await?;
        }
        connection.send(envelope, mail).await?;
        Ok(connection)
    }
}
