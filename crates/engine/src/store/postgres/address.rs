//! The address of a database, as libpq writes it: what the driver knows, and what it does not know about TLS.

use percent_encoding::percent_decode_str;
use tokio_postgres::Config;
use tokio_postgres::config::{Host, SslMode, TargetSessionAttrs};

use super::tls::{Proof, Roots};
use crate::store::Error;

/// Where the database is, and what its server has to prove.
pub(super) struct Address {
    pub(super) config: Config,
    pub(super) proof: Proof,
}

impl Address {
    pub(super) fn read(text: &str) -> Result<Self, Error> {
        let (rest, asked) = Asked::taken_from(text);
        let mut config: Config = rest.parse().map_err(|_| Error::bad_address(text))?;
        let found = asked.mode.is_some();
        let hosts = config.get_hosts().len().max(config.get_hostaddrs().len());
        config.target_session_attrs(asked.target(hosts)?);
        let (mode, proof) = asked.judged()?;
        // What the driver has read of it all the same is never weakened.
        let required = !found && config.get_ssl_mode() == SslMode::Require;
        let mode = if required { SslMode::Require } else { mode };
        let is_local = |host: &Host| matches!(host, Host::Unix(_));
        // As libpq has it: nobody listens on a local socket, and the server speaks no TLS there.
        let all_local = !config.get_hosts().is_empty() && config.get_hosts().iter().all(is_local);
        config.ssl_mode(if all_local { SslMode::Disable } else { mode });
        Ok(Self { config, proof })
    }
}

/// What an address says about TLS and about the server that is wanted.
#[derive(Debug, Default, PartialEq, Eq)]
struct Asked {
    mode: Option<String>,
    root: Option<String>,
    target: Option<String>,
}

impl Asked {
    /// Takes the parameters that the driver does not know out of an address.
    fn taken_from(text: &str) -> (String, Self) {
        let mut asked = Self::default();
        let rest = match text.split_once("://") {
            Some((scheme, rest)) => format!("{scheme}://{}", asked.take_from_url(rest)),
            None => asked.take_from_pairs(text),
        };
        (rest, asked)
    }

    fn take_from_url(&mut self, url: &str) -> String {
        // A password may have a question mark of its own, and a parameter an at sign.
        let authority = url.find('/').unwrap_or(url.len());
        let login = url[..authority].find('@').map_or(0, |at| at + 1);
        let Some(mark) = url[login..].find('?').map(|mark| login + mark) else {
            return url.to_owned();
        };
        let others = url[mark + 1..].split('&').filter(|parameter| {
            let (name, value) = parameter.split_once('=').unwrap_or((parameter, ""));
            !self.take(name, &percent_decode_str(value).decode_utf8_lossy())
        });
        let others = others.collect::<Vec<_>>().join("&");
        format!("{}?{others}", &url[..mark])
    }

    /// `name = value` pairs; a text that is none is left to the driver, which refuses it.
    fn take_from_pairs(&mut self, text: &str) -> String {
        let mut others = String::new();
        let mut rest = text.trim_start();
        while !rest.is_empty() {
            let Some((name, after)) = rest.split_once('=') else {
                return text.to_owned();
            };
            let (value, next) = first_value(after.trim_start());
            if !self.take(name.trim_end(), &value) {
                others.push_str(&rest[..rest.len() - next.len()]);
                others.push(' ');
            }
            rest = next.trim_start();
        }
        others
    }

    fn take(&mut self, name: &str, value: &str) -> bool {
        match name {
            "sslmode" => self.mode = Some(value.to_owned()),
            "sslrootcert" => self.root = Some(value.to_owned()).filter(|root| !root.is_empty()),
            "target_session_attrs" => self.target = Some(value.to_owned()),
            _ => return false,
        }
        true
    }

    /// Which of the hosts may be taken. The store writes, so of several hosts it takes one that can be written.
    fn target(&self, hosts: usize) -> Result<TargetSessionAttrs, Error> {
        match self.target.as_deref() {
            Some("primary" | "read-write") => Ok(TargetSessionAttrs::ReadWrite),
            None | Some("any" | "prefer-standby") if hosts > 1 => Ok(TargetSessionAttrs::ReadWrite),
            None | Some("any" | "prefer-standby") => Ok(TargetSessionAttrs::Any),
            Some(attribute @ ("standby" | "read-only")) => Err(Error::Refused(format!(
                "target_session_attrs={attribute} leads to a server that cannot be written: use \
                 target_session_attrs=primary"
            ))),
            Some(attribute) => Err(Error::Refused(format!(
                "target_session_attrs={attribute} is none of any, read-write, primary and prefer-standby"
            ))),
        }
    }

    fn judged(&self) -> Result<(SslMode, Proof), Error> {
        let roots = self.root.as_deref().map(|root| match root {
            "system" => Roots::System,
            path => Roots::File(path.into()),
        });
        // Anybody can have a certificate that the whole world trusts, so there the name must be looked at.
        let system = roots == Some(Roots::System);
        let mode = self.mode.as_deref().unwrap_or(if system { "verify-full" } else { "prefer" });
        if system && !matches!(mode, "verify-full" | "disable") {
            return Err(Error::Refused(format!(
                "sslmode={mode} is too weak for sslrootcert=system, since anybody can get a certificate from a \
                 public authority: use sslmode=verify-full"
            )));
        }
        let missing = || {
            Error::Refused(format!(
                "sslmode={mode} needs to know whom to trust: add sslrootcert=PATH with the certificate of the \
                 authority that signed the server's, or sslrootcert=system"
            ))
        };
        match (mode, roots) {
            ("disable", _) => Ok((SslMode::Disable, Proof::None)),
            ("prefer", _) => Ok((SslMode::Prefer, Proof::None)),
            ("require", None) => Ok((SslMode::Require, Proof::None)),
            ("require" | "verify-ca", Some(roots)) => Ok((SslMode::Require, Proof::Signed(roots))),
            ("verify-full", Some(roots)) => Ok((SslMode::Require, Proof::SignedForItsName(roots))),
            ("verify-ca" | "verify-full", None) => Err(missing()),
            _ => Err(Error::Refused(format!(
                "sslmode={mode} is none of disable, prefer, require, verify-ca and verify-full"
            ))),
        }
    }
}

/// The value that a text begins with, without its quotes and backslashes, and what follows it.
fn first_value(text: &str) -> (String, &str) {
    let quoted = text.starts_with('\'');
    let mut value = String::new();
    let mut characters = text.char_indices().skip(usize::from(quoted));
    while let Some((place, character)) = characters.next() {
        match character {
            '\\' => value.extend(characters.next().map(|(_, escaped)| escaped)),
            '\'' if quoted => return (value, &text[place + 1..]),
            space if !quoted && space.is_whitespace() => return (value, &text[place..]),
            other => value.push(other),
        }
    }
    (value, "")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(address: &str) -> String {
        Address::read(address).err().map(|error| error.to_string()).unwrap_or_default()
    }

    #[test]
    fn tls_that_is_required_is_never_weakened() {
        let read = Address::read("postgres://h/db?user=me@corp&sslmode=require");
        assert!(matches!(read.map(|address| address.config.get_ssl_mode()), Ok(SslMode::Require)));
    }

    #[test]
    fn what_is_no_address_is_said_to_be_none() {
        let told = refusal("postgres://me:secret@host:port/db");
        assert!(told.contains("postgres://me@host:port/db"), "{told}");
    }

    #[test]
    fn what_the_driver_does_not_know_is_taken_out() {
        for (text, rest, mode, root) in [
            ("postgres://host/db", "postgres://host/db", None, None),
            ("postgres://a:b?c@host/db?user=d", "postgres://a:b?c@host/db?user=d", None, None),
            (
                "postgres://host/db?sslmode=verify-full&user=d&sslrootcert=%2Fa%20b.pem",
                "postgres://host/db?user=d",
                Some("verify-full"),
                Some("/a b.pem"),
            ),
            (
                r"sslmode = verify-ca user='it\'s' sslrootcert='/a b\'c.pem' host=h",
                r"user='it\'s' host=h ",
                Some("verify-ca"),
                Some("/a b'c.pem"),
            ),
            ("host=h nonsense", "host=h nonsense", None, None),
        ] {
            let asked = Asked { mode: mode.map(str::to_owned), root: root.map(str::to_owned), target: None };
            assert_eq!(Asked::taken_from(text), (rest.to_owned(), asked), "{text}");
        }
    }

    #[test]
    fn modes_mean_what_they_mean_to_libpq() {
        let file = || Roots::File("ca.pem".into());
        for (parameters, mode, proof) in [
            ("", SslMode::Prefer, Proof::None),
            ("sslmode=disable", SslMode::Disable, Proof::None),
            ("sslmode=prefer&sslrootcert=ca.pem", SslMode::Prefer, Proof::None),
            ("sslmode=require", SslMode::Require, Proof::None),
            ("sslmode=require&sslrootcert=ca.pem", SslMode::Require, Proof::Signed(file())),
            ("sslmode=verify-ca&sslrootcert=ca.pem", SslMode::Require, Proof::Signed(file())),
            ("sslmode=verify-full&sslrootcert=ca.pem", SslMode::Require, Proof::SignedForItsName(file())),
            ("sslrootcert=system", SslMode::Require, Proof::SignedForItsName(Roots::System)),
        ] {
            let address = Address::read(&format!("postgres://host/db?{parameters}")).unwrap();
            assert_eq!((address.config.get_ssl_mode(), address.proof), (mode, proof), "{parameters}");
        }
    }

    #[test]
    fn of_several_hosts_a_writable_one_is_taken() {
        use TargetSessionAttrs::{Any, ReadWrite};
        for (address, target) in [
            ("postgres://a/db", Any),
            ("postgres://a,b/db", ReadWrite),
            ("host=a,b port=1,2", ReadWrite),
            ("postgres://a/db?target_session_attrs=any", Any),
            ("postgres://a,b/db?target_session_attrs=any", ReadWrite),
            ("postgres://a/db?target_session_attrs=primary", ReadWrite),
            ("host=a target_session_attrs=read-write", ReadWrite),
            ("postgres://a/db?target_session_attrs=prefer-standby", Any),
            ("postgres://a,b/db?target_session_attrs=prefer-standby", ReadWrite),
        ] {
            assert_eq!(
                Address::read(address).unwrap().config.get_target_session_attrs(),
                target,
                "{address}"
            );
        }
        for (attribute, advice) in
            [("standby", "=primary"), ("read-only", "=primary"), ("best", "prefer-standby")]
        {
            let told = refusal(&format!("postgres://a/db?target_session_attrs={attribute}"));
            assert!(told.contains(attribute) && told.contains(advice), "{told}");
        }
    }

    #[test]
    fn a_local_socket_needs_no_tls() {
        let address = Address::read("host=/run/postgresql sslmode=require").unwrap();
        assert_eq!(address.config.get_ssl_mode(), SslMode::Disable);
    }

    #[test]
    fn what_cannot_be_checked_is_refused_with_what_to_do() {
        for (parameters, advice) in [
            ("sslmode=verify-full", "sslrootcert=PATH"),
            ("sslmode=verify-ca", "sslrootcert=PATH"),
            ("sslmode=require&sslrootcert=system", "use sslmode=verify-full"),
            ("sslmode=maybe", "none of disable, prefer"),
        ] {
            let told = refusal(&format!("postgres://host/db?{parameters}"));
            assert!(told.contains(advice), "{parameters}: {told}");
        }
    }
}
