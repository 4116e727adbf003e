//! Where webhooks may go.
//!
//! Whoever makes a subscription chooses an address that this server then calls from where it stands. What only it can
//! reach, itself and its neighbours first of all, is closed, unless the operator opens it. An address is looked at when
//! the subscription is made, so that a mistake is told at once, and again whenever a connection is made: a name can lead
//! elsewhere by then.

mod endpoint;
mod guard;
mod lookup;
mod ranges;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::IpNet;

pub use endpoint::{Endpoint, MAX_ADDRESS};
pub(super) use guard::{Guard, Unresolved};
pub use lookup::{Lookup, SystemLookup};

/// Where webhooks may go: the open internet, and what the operator opened.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Egress {
    allow: Vec<IpNet>,
}

/// A place that webhooks may not go to.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{place}` is {what}, and webhooks do not go there; the operator can open it with `[egress] allow`")]
pub struct Forbidden {
    /// The address or the name.
    pub place: String,
    /// What it is.
    pub what: &'static str,
}

/// Settings of egress that cannot work, all of them at once.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the settings of egress cannot work: {}", mistakes.join("; "))]
pub struct BadEgress {
    /// What is wrong and what to do, each with its place.
    pub mistakes: Vec<String>,
}

impl Egress {
    /// The open internet and these ranges, as they stand in `[egress] allow`: `10.0.0.0/8`, or one address.
    ///
    /// # Errors
    /// Every range that is none.
    pub fn allowing<T: AsRef<str>>(ranges: &[T]) -> Result<Self, BadEgress> {
        let mut mistakes = Vec::new();
        let mut allow = Vec::new();
        for (nth, written) in ranges.iter().enumerate() {
            match range(written.as_ref().trim()) {
                Ok(range) => allow.push(range),
                Err(why) => mistakes.push(format!("egress.allow[{nth}]: {why}")),
            }
        }
        if mistakes.is_empty() { Ok(Self { allow }) } else { Err(BadEgress { mistakes }) }
    }

    /// Reads the address of a subscription that is being made.
    ///
    /// # Errors
    /// Every mistake there is, and that webhooks may not go there.
    pub fn check(&self, url: &str) -> Result<Endpoint, Vec<String>> {
        let endpoint = Endpoint::read(url)?;
        self.admit_written(&endpoint).map_err(|why| vec![why.to_string()])?;
        Ok(endpoint)
    }

    /// Whether what the address itself says is open: an address as such, or a name that always means this machine.
    /// Where another name leads is known when a connection is made.
    ///
    /// # Errors
    /// When it is closed.
    pub(super) fn admit_written(&self, endpoint: &Endpoint) -> Result<(), Forbidden> {
        match endpoint.literal() {
            Some(address) => self.admit(address),
            None if endpoint.is_this_machine() && !self.opens_loopback() => {
                Err(Forbidden { place: endpoint.host().to_owned(), what: "this machine" })
            }
            None => Ok(()),
        }
    }

    /// Whether a connection may go to this address.
    ///
    /// # Errors
    /// When it may not.
    pub fn admit(&self, address: IpAddr) -> Result<(), Forbidden> {
        match ranges::forbidden(address) {
            Some(what) if !self.opens(address) => Err(Forbidden { place: address.to_string(), what }),
            _ => Ok(()),
        }
    }

    /// An address is opened as itself, or by all that it stands for.
    fn opens(&self, address: IpAddr) -> bool {
        let within = |address: IpAddr| self.allow.iter().any(|range| range.contains(&address));
        let inner = match address {
            IpAddr::V4(_) => Vec::new(),
            IpAddr::V6(address) => ranges::embedded(address),
        };
        let open = |inner: IpAddr| within(inner) || ranges::forbidden(inner).is_none();
        within(address) || (!inner.is_empty() && inner.into_iter().all(|inner| open(inner.into())))
    }

    fn opens_loopback(&self) -> bool {
        self.opens(Ipv4Addr::LOCALHOST.into()) || self.opens(Ipv6Addr::LOCALHOST.into())
    }
}

fn range(written: &str) -> Result<IpNet, String> {
    let how = "write it like 10.0.0.0/8 or 192.168.1.7";
    let range = match written.parse::<IpAddr>() {
        Ok(address) => IpNet::from(address),
        Err(_) => written.parse().map_err(|_| format!("`{written}` is no range of addresses: {how}"))?,
    };
    if range.trunc() == range {
        Ok(range)
    } else {
        Err(format!("`{written}` begins in the middle of a range: did you mean `{}`?", range.trunc()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn what_is_not_the_open_internet_is_closed_until_the_operator_opens_it() {
        let closed = Egress::default();
        assert!(closed.admit(ip("8.8.8.8")).is_ok());
        let why = closed.admit(ip("10.1.2.3")).unwrap_err();
        assert_eq!(
            why.to_string(),
            "`10.1.2.3` is private, and webhooks do not go there; the operator can open it with `[egress] allow`"
        );
        let open = Egress::allowing(&["10.0.0.0/8", "fd12::/16"]).unwrap();
        assert!(open.admit(ip("10.1.2.3")).is_ok());
        assert!(open.admit(ip("fd12::1")).is_ok());
        for still_closed in ["192.168.0.1", "127.0.0.1", "fd13::1"] {
            assert!(open.admit(ip(still_closed)).is_err(), "{still_closed}");
        }
    }

    #[test]
    fn what_is_opened_is_open_in_every_form_of_its_address() {
        let open = Egress::allowing(&["127.0.0.0/8"]).unwrap();
        for address in ["127.0.0.1", "127.9.9.9", "::ffff:127.0.0.1", "64:ff9b::127.0.0.1", "2002:7f00:1::"] {
            assert!(open.admit(ip(address)).is_ok(), "{address}");
        }
        // The first leads into the own network by another way, the last two only half-way to what is open.
        for address in ["::127.0.0.1", "::1", "2001:0:7f00:1::f5ff:fffe", "2001:0:a00:1::80ff:fffe"] {
            assert!(open.admit(ip(address)).is_err(), "{address}");
        }
        assert!(open.admit(ip("2001:0:7f00:1::80ff:fffe")).is_ok(), "both are loopback");
        let all = Egress::allowing(&["0.0.0.0/0", "::/0"]).unwrap();
        for address in ["0.0.0.0", "169.254.169.254", "::", "::1", "ff02::1", "::10.0.0.1"] {
            assert!(all.admit(ip(address)).is_ok(), "{address}");
        }
    }

    #[test]
    fn ranges_that_are_none_are_told_all_at_once_each_with_its_place() {
        let BadEgress { mistakes } =
            Egress::allowing(&["10.0.0.0/8", "10.0.0.1/8", "office", "1.2.3.4/33", " ::1 ", ""]).unwrap_err();
        assert_eq!(
            mistakes,
            [
                "egress.allow[1]: `10.0.0.1/8` begins in the middle of a range: did you mean `10.0.0.0/8`?",
                "egress.allow[2]: `office` is no range of addresses: write it like 10.0.0.0/8 or 192.168.1.7",
                "egress.allow[3]: `1.2.3.4/33` is no range of addresses: write it like 10.0.0.0/8 or 192.168.1.7",
                "egress.allow[5]: `` is no range of addresses: write it like 10.0.0.0/8 or 192.168.1.7",
            ]
        );
    }

    #[test]
    fn an_address_of_this_machine_is_refused_in_every_spelling() {
        for url in [
            "http://127.0.0.1/",
            "http://127.1/",
            "http://2130706433/",
            "http://0x7f.1/",
            "http://0177.0.0.1/",
            "http://0x7f000001/",
            "http://127.0.0.1./",
            "http://[::1]/",
            "http://[0:0:0:0:0:0:0:1]/",
            "http://[::ffff:127.0.0.1]/",
            "http://[::ffff:7f00:1]/",
            "http://[::127.0.0.1]/",
            "http://0/",
            "http://0.0.0.0/",
            "http://[::]/",
            "http://localhost/",
            "http://LOCALHOST:8080/",
            "http://localhost./",
            "http://a.localhost/",
            "http://１２７.0.0.1/",
            "http://127。0。0。1/",
            "http://%31%32%37.0.0.1/",
            "http://[64:ff9b::7f00:1]/",
            "http://[2002:7f00:1::]/",
            "https://169.254.169.254/latest/meta-data",
            "http://[fd00:ec2::254]/",
        ] {
            let why = Egress::default().check(url).unwrap_err();
            assert!(why.len() == 1 && why[0].contains("webhooks do not go there"), "{url}: {why:?}");
        }
        let open = Egress::allowing(&["127.0.0.0/8"]).unwrap();
        for url in
            ["http://127.1:8080/", "http://2130706433/", "http://localhost/", "http://[::ffff:127.0.0.1]/"]
        {
            open.check(url).unwrap();
        }
        for url in ["http://localhost.example.com/", "http://mylocalhost/", "http://8.8.8.8/"] {
            Egress::default().check(url).unwrap();
        }
    }
}
