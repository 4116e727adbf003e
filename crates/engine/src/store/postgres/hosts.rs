//! The servers that an address names: each is resolved and tried within its own share of the time to connect.
//!
//! The driver tries all of them by itself. It resolves names without a limit, and waits without limit for a server that
//! accepts the connection and never answers.

use std::fmt::Display;
use std::io;
use std::net::IpAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::net::lookup_host;
use tokio::time::{Instant, timeout};
use tokio_postgres::Config;
use tokio_postgres::config::{Host, LoadBalanceHosts};
use tracing::{info, warn};

use super::session::WAIT_WITHIN;

const DEFAULT_PORT: u16 = 5432;

/// Remembers which server of an address is tried first.
#[derive(Default)]
pub(super) struct Hosts {
    /// The one that answered last, or the one after a server that did not.
    preferred: Mutex<Server>,
    /// How many connections were asked for, where the servers take turns.
    turns: AtomicUsize,
}

/// A server of an address. The order of what a name resolves to may change, so an IP address names it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Server {
    /// The place of its host and port in the address, which never changes.
    place: usize,
    /// One of the IP addresses of the host; the first one where there is none.
    ip: Option<IpAddr>,
}

impl Hosts {
    /// Connects to the first server that answers in its share of the time. The last one is waited for without a limit of
    /// its own: every caller has one.
    pub(super) async fn connect<T, E, R, C>(
        &self,
        config: &Config,
        resolve: impl Fn(String, u16) -> R,
        connect: impl Fn(Config) -> C,
    ) -> Result<T, E>
    where
        E: Display,
        R: Future<Output = io::Result<Vec<IpAddr>>>,
        C: Future<Output = Result<T, E>>,
    {
        let Some(hosts) = count(config) else {
            // The driver says what does not fit together.
            return connect(config.clone()).await;
        };
        let turn = (config.get_load_balance_hosts() == LoadBalanceHosts::Random)
            .then(|| self.turns.fetch_add(1, Ordering::Relaxed));
        let first = turn.map_or_else(|| self.preferred(), |turn| Server { place: turn % hosts, ip: None });
        let share = WAIT_WITHIN / u32::try_from(hosts).unwrap_or(u32::MAX);
        let within = |time: Duration| config.get_connect_timeout().map_or(time, |limit| time.min(*limit));
        for nth in 0..hosts {
            let (place, next) = ((first.place + nth) % hosts, (first.place + nth + 1) % hosts);
            let is_last_host = nth + 1 == hosts;
            let until = Instant::now() + share;
            let mut ips = Vec::new();
            if let Some(name) = name(config, place) {
                let lookup = resolve(name.to_owned(), port(config, place));
                let found =
                    if is_last_host { Ok(lookup.await) } else { timeout(within(share), lookup).await };
                let Ok(found) = found else {
                    warn!(host = name, "name of a database host is not resolved in time; trying the next");
                    self.prefer(Server { place: next, ip: None });
                    continue;
                };
                ips = found.unwrap_or_default();
            }
            let first_ip = match turn {
                Some(turn) => (turn / hosts).checked_rem(ips.len()),
                None => ips.iter().position(|ip| nth == 0 && Some(*ip) == first.ip),
            };
            ips.rotate_left(first_ip.unwrap_or(0));
            let mut ips: Vec<Option<IpAddr>> = ips.into_iter().map(Some).collect();
            if ips.is_empty() {
                // There is no name, or it leads nowhere: the driver says so.
                ips.push(None);
            }
            let left = until.saturating_duration_since(Instant::now());
            let limit = within(left / u32::try_from(ips.len()).unwrap_or(u32::MAX));
            for (index, ip) in ips.iter().enumerate() {
                let host = only(config, place, *ip);
                let following = ips.get(index + 1);
                if is_last_host && following.is_none() {
                    let connected = connect(host).await;
                    if connected.is_ok() {
                        self.prefer(Server { place, ip: *ip });
                    }
                    return connected;
                }
                match timeout(limit, connect(host.clone())).await {
                    Ok(Ok(connected)) => {
                        self.prefer(Server { place, ip: *ip });
                        return Ok(connected);
                    }
                    Ok(Err(why)) => {
                        info!(host = ?host.get_hosts(), ?ip, %why, "host of the database refused; trying the next");
                    }
                    Err(_) => {
                        warn!(host = ?host.get_hosts(), ?ip, ?limit, "host of the database is silent; trying the next");
                    }
                }
                self.prefer(match following {
                    Some(ip) => Server { place, ip: *ip },
                    None => Server { place: next, ip: None },
                });
            }
        }
        // There is at least one host, and the last one returns.
        connect(config.clone()).await
    }

    fn preferred(&self) -> Server {
        *self.preferred.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn prefer(&self, server: Server) {
        *self.preferred.lock().unwrap_or_else(PoisonError::into_inner) = server;
    }
}

/// The IP addresses that a name leads to now.
pub(super) async fn resolve(name: String, port: u16) -> io::Result<Vec<IpAddr>> {
    Ok(lookup_host((name, port)).await?.map(|address| address.ip()).collect())
}

/// How many hosts an address names; `None` where there is none, or names, IP addresses and ports do not fit together.
fn count(config: &Config) -> Option<usize> {
    let (names, ips, ports) =
        (config.get_hosts().len(), config.get_hostaddrs().len(), config.get_ports().len());
    let hosts = names.max(ips);
    let fits = (names.min(ips) == 0 || names == ips) && (ports <= 1 || ports == hosts);
    (hosts > 0 && fits).then_some(hosts)
}

/// The name to resolve; none where the address says the IP address or the socket.
fn name(config: &Config, place: usize) -> Option<&str> {
    match (config.get_hosts().get(place), config.get_hostaddrs().get(place)) {
        (Some(Host::Tcp(name)), None) => Some(name),
        _ => None,
    }
}

fn port(config: &Config, place: usize) -> u16 {
    let ports = config.get_ports();
    ports.get(place).or_else(|| ports.first()).copied().unwrap_or(DEFAULT_PORT)
}

/// The same configuration with one of its hosts, or with one address of it.
fn only(config: &Config, place: usize, address: Option<IpAddr>) -> Config {
    let mut one = Config::new();
    match config.get_hosts().get(place) {
        Some(Host::Tcp(name)) => _ = one.host(name),
        Some(Host::Unix(path)) => _ = one.host_path(path),
        None => {}
    }
    if let Some(address) = address.or_else(|| config.get_hostaddrs().get(place).copied()) {
        one.hostaddr(address);
    }
    one.port(port(config, place));
    if let Some(user) = config.get_user() {
        one.user(user);
    }
    if let Some(password) = config.get_password() {
        one.password(password);
    }
    if let Some(database) = config.get_dbname() {
        one.dbname(database);
    }
    if let Some(options) = config.get_options() {
        one.options(options);
    }
    if let Some(name) = config.get_application_name() {
        one.application_name(name);
    }
    if let Some(limit) = config.get_connect_timeout() {
        one.connect_timeout(*limit);
    }
    if let Some(limit) = config.get_tcp_user_timeout() {
        one.tcp_user_timeout(*limit);
    }
    if let Some(interval) = config.get_keepalives_interval() {
        one.keepalives_interval(interval);
    }
    if let Some(retries) = config.get_keepalives_retries() {
        one.keepalives_retries(retries);
    }
    one.keepalives(config.get_keepalives())
        .keepalives_idle(config.get_keepalives_idle())
        .ssl_mode(config.get_ssl_mode())
        .ssl_negotiation(config.get_ssl_negotiation())
        .channel_binding(config.get_channel_binding())
        .target_session_attrs(config.get_target_session_attrs())
        .load_balance_hosts(config.get_load_balance_hosts());
    one
}

#[cfg(test)]
mod tests {
    use std::future::pending;

    use super::*;

    const PARAMETERS: &str = "options=-c%20a=b&application_name=n&sslmode=require&connect_timeout=3&\
        tcp_user_timeout=4&keepalives=0&keepalives_idle=5&keepalives_interval=6&keepalives_retries=7&\
        target_session_attrs=read-write&channel_binding=require&load_balance_hosts=random&\
        sslnegotiation=direct";

    fn ip(last: u8) -> IpAddr {
        IpAddr::from([10, 0, 0, last])
    }

    fn tried(host: &Config) -> String {
        let name = match host.get_hosts() {
            [Host::Tcp(name)] => name.clone(),
            other => format!("{other:?}"),
        };
        let ip = host.get_hostaddrs().first().map_or_else(String::new, ToString::to_string);
        format!("{name}/{ip}:{}", host.get_ports()[0])
    }

    /// Connects by what names lead to; none is a lookup that hangs. Only these servers answer. Says which one did, or that
    /// the caller gave up, and what was looked up (`?`) and tried.
    async fn connect(
        hosts: &Hosts,
        address: &str,
        names: &[(&str, Option<Vec<u8>>)],
        answering: &[&str],
    ) -> (Result<String, String>, Vec<String>) {
        let config: Config = address.parse().unwrap();
        let all = Mutex::new(Vec::new());
        let resolve = |asked: String, _| {
            all.lock().unwrap().push(format!("?{asked}"));
            let (_, found) = names.iter().find(|(name, _)| *name == asked).unwrap().clone();
            async move {
                match found {
                    Some(found) => Ok(found.into_iter().map(ip).collect()),
                    None => pending().await,
                }
            }
        };
        let connected = hosts.connect(&config, resolve, |host| {
            let host = tried(&host);
            all.lock().unwrap().push(host.clone());
            async { if answering.contains(&&*host) { Ok::<String, String>(host) } else { pending().await } }
        });
        let connected = timeout(WAIT_WITHIN, connected).await;
        (connected.unwrap_or_else(|_| Err("the caller gave up".to_owned())), all.into_inner().unwrap())
    }

    #[tokio::test(start_paused = true)]
    async fn name_that_is_never_resolved_holds_up_no_other_host() {
        let hosts = Hosts::default();
        let names = [("hung", None), ("good", Some(vec![1]))];
        let address = "postgres://hung:1,good:2/db";
        let (connected, _) = connect(&hosts, address, &names, &["good/10.0.0.1:2"]).await;
        assert_eq!(connected.as_deref(), Ok("good/10.0.0.1:2"));

        let (_, tried) = connect(&hosts, address, &names, &["good/10.0.0.1:2"]).await;
        assert_eq!(tried, ["?good", "good/10.0.0.1:2"], "it is tried first from now on");
    }

    #[tokio::test(start_paused = true)]
    async fn host_that_answered_stays_first_when_its_name_changes() {
        let hosts = Hosts::default();
        let address = "postgres://one:1/db";
        let of = |ips: &[u8]| [("one", Some(ips.to_vec()))];
        let (connected, _) = connect(&hosts, address, &of(&[1, 2, 3]), &["one/10.0.0.2:1"]).await;
        assert_eq!(connected.as_deref(), Ok("one/10.0.0.2:1"));
        for order in [&[3, 1, 2], &[2, 3, 1]] {
            let (_, tried) = connect(&hosts, address, &of(order), &["one/10.0.0.2:1"]).await;
            assert_eq!(
                tried,
                ["?one", "one/10.0.0.2:1"],
                "it is the first one, wherever the lookup lists it"
            );
        }
        // It is gone, and the others are tried in their order.
        let (_, tried) = connect(&hosts, address, &of(&[3, 1]), &["one/10.0.0.1:1"]).await;
        assert_eq!(tried, ["?one", "one/10.0.0.3:1", "one/10.0.0.1:1"]);
    }

    #[tokio::test(start_paused = true)]
    async fn caller_that_gives_up_goes_on_with_the_next_server() {
        let hosts = Hosts::default();
        let address = "postgres://a:1,b:2/db";
        let names = [("a", Some(vec![1])), ("b", Some(vec![2]))];
        let (connected, tried) = connect(&hosts, address, &names, &[]).await;
        assert_eq!(connected.as_deref(), Err(&"the caller gave up".to_owned()));
        assert_eq!(tried, ["?a", "a/10.0.0.1:1", "?b", "b/10.0.0.2:2"]);
        let (connected, tried) = connect(&hosts, address, &names, &["a/10.0.0.1:1"]).await;
        assert_eq!(connected.as_deref(), Ok("a/10.0.0.1:1"));
        assert_eq!(tried, ["?b", "b/10.0.0.2:2", "?a", "a/10.0.0.1:1"]);
    }

    #[tokio::test(start_paused = true)]
    async fn balanced_hosts_take_turns() {
        let hosts = Hosts::default();
        let address = "postgres://a:1,b:2/db?load_balance_hosts=random";
        let names = [("a", Some(vec![1, 3])), ("b", Some(vec![2]))];
        let all = ["a/10.0.0.1:1", "a/10.0.0.3:1", "b/10.0.0.2:2"];
        let mut order = Vec::new();
        for _ in 0..4 {
            order.push(connect(&hosts, address, &names, &all).await.0.unwrap());
        }
        assert_eq!(order, [all[0], all[2], all[1], all[2]]);
    }

    #[test]
    fn each_host_keeps_every_setting() {
        let config = |hosts: &str| -> Config {
            format!("postgres://me:secret@{hosts}/db?{PARAMETERS}").parse().unwrap()
        };
        let both = config("127.0.0.1:1,127.0.0.2:2");
        assert_eq!(only(&both, 0, None), config("127.0.0.1:1"));
        assert_eq!(only(&both, 1, None), config("127.0.0.2:2"));
        let local: Config = "host=/run/a,/run/b port=9".parse().unwrap();
        let alone = |path| format!("host={path} port=9").parse::<Config>().unwrap();
        assert_eq!([0, 1].map(|place| only(&local, place, None)), [alone("/run/a"), alone("/run/b")]);
    }

    #[tokio::test]
    async fn a_name_that_leads_nowhere_is_left_to_the_driver() {
        let config: Config = "postgres://host.invalid:1/db".parse().unwrap();
        let hosts = Hosts::default();
        let given = hosts.connect(&config, resolve, |host| async move { Ok::<_, String>(host) });
        assert_eq!(given.await, Ok(config.clone()));
    }
}
