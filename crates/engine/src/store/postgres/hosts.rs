//! The servers that an address names, each with a configuration of its own.
//!
//! The driver tries all of them by itself, and waits without limit for one that accepts the connection and never answers.

use std::net::IpAddr;

use tokio::net::lookup_host;
use tokio_postgres::Config;
use tokio_postgres::config::Host;

const DEFAULT_PORT: u16 = 5432;

/// One configuration for each host, or for each address that the name of a host leads to.
pub(super) async fn each(config: &Config) -> Vec<Config> {
    let (names, addresses, ports) =
        (config.get_hosts().len(), config.get_hostaddrs().len(), config.get_ports().len());
    let hosts = names.max(addresses);
    if (names.min(addresses) > 0 && names != addresses) || (ports > 1 && ports != hosts) {
        // The driver says what does not fit together.
        return vec![config.clone()];
    }
    let mut all = Vec::with_capacity(hosts);
    for place in 0..hosts {
        let lookup = match (config.get_hosts().get(place), config.get_hostaddrs().get(place)) {
            (Some(Host::Tcp(name)), None) => Some(name.as_str()),
            _ => None,
        };
        let found: Vec<IpAddr> = match lookup {
            Some(name) => lookup_host((name, port(config, place)))
                .await
                .map(|found| found.map(|address| address.ip()).collect())
                .unwrap_or_default(),
            None => Vec::new(),
        };
        if found.len() > 1 {
            all.extend(found.into_iter().map(|address| only(config, place, Some(address))));
        } else {
            // A name that leads nowhere: the driver says so.
            all.push(only(config, place, None));
        }
    }
    all
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
    use super::*;

    const PARAMETERS: &str = "options=-c%20a=b&application_name=n&sslmode=require&connect_timeout=3&\
        tcp_user_timeout=4&keepalives=0&keepalives_idle=5&keepalives_interval=6&keepalives_retries=7&\
        target_session_attrs=read-write&channel_binding=require&load_balance_hosts=random&\
        sslnegotiation=direct";

    fn config(hosts: &str) -> Config {
        format!("postgres://me:secret@{hosts}/db?{PARAMETERS}").parse().unwrap()
    }

    #[tokio::test]
    async fn each_host_keeps_every_setting() {
        let (first, second) = (config("127.0.0.1:1"), config("127.0.0.2:2"));
        assert_eq!(each(&config("127.0.0.1:1,127.0.0.2:2")).await, [first, second]);
        let local: Config = "host=/run/a,/run/b port=9".parse().unwrap();
        let alone = |path| format!("host={path} port=9").parse::<Config>().unwrap();
        assert_eq!(each(&local).await, [alone("/run/a"), alone("/run/b")]);
    }

    #[tokio::test]
    async fn a_name_that_leads_nowhere_is_left_to_the_driver() {
        assert_eq!(each(&config("host.invalid:1")).await, [config("host.invalid:1")]);
    }
}
