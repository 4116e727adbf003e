//! Where webhooks do not go.

use std::env;
use std::process::Command;

use backstitch_modules::webhooks::egress::{Egress, Lookup};
use backstitch_modules::webhooks::sender::Settings;

use crate::webhook_sender::stage::{Names, loopback, request, sender_asking, sender_finding, sender_with};
use backstitch_testkit::service::{Reply, Service};

async fn receiver() -> (Service, String) {
    let service = Service::always(|| Reply::http(200, "")).await;
    let by_name = service.url().replace("127.0.0.1", "hooks.example.com");
    (service, by_name)
}

/// Every kind of place, by its address and in the forms that hide it.
const CLOSED: [&str; 38] = [
    "0.0.0.0",
    "0.1.2.3",
    "10.0.0.1",
    "100.64.0.1",
    "100.100.100.200",
    "127.0.0.1",
    "127.255.255.254",
    "168.63.129.16",
    "169.254.0.1",
    "169.254.169.254",
    "172.16.0.1",
    "172.31.255.255",
    "192.0.0.1",
    "192.0.2.1",
    "192.88.99.1",
    "192.168.1.1",
    "198.18.0.1",
    "198.51.100.1",
    "203.0.113.1",
    "224.0.0.1",
    "240.0.0.1",
    "255.255.255.255",
    "::",
    "::1",
    "::127.0.0.1",
    "::ffff:10.0.0.1",
    "64:ff9b::7f00:1",
    "64:ff9b:1::1",
    "100::1",
    "2001:2::1",
    "2001:db8::1",
    "2002:a00:1::",
    "2001:0:808:808::80ff:fffe",
    "3fff::1",
    "fc00::1",
    "fd00:ec2::254",
    "fe80::1",
    "ff02::1",
];

#[tokio::test]
async fn no_closed_address_is_called_whether_it_is_written_or_found() {
    let written = sender_with(Egress::default(), Settings::default());
    for address in CLOSED {
        let host = if address.contains(':') { format!("[{address}]") } else { address.to_owned() };
        let exchange = written.send(request(&format!("http://{host}:9/"))).await;
        assert_eq!((exchange.error_code(), exchange.status), (Some("egress_forbidden"), None), "{address}");
        let found = sender_finding(Egress::default(), &[&[address]]);
        let exchange = found.send(request("https://hooks.example.com:9/")).await;
        assert_eq!(exchange.error_code(), Some("egress_forbidden"), "{address}");
        assert!(exchange.error.unwrap().contains("hooks.example.com"), "{address}");
    }
}

#[tokio::test]
async fn a_name_that_leads_inside_once_it_is_called_is_not_followed() {
    let (service, url) = receiver().await;
    let egress = Egress::default();
    egress.check(&url).unwrap();
    // Open when it is looked at, inside from then on.
    let names = Names::leading_to(&[&["8.8.8.8"], &["127.0.0.1"]]);
    let found = names.addresses("hooks.example.com").await.unwrap();
    assert!(found.into_iter().all(|address| egress.admit(address).is_ok()));
    let exchange = sender_asking(egress, names).send(request(&url)).await;
    assert_eq!(exchange.error_code(), Some("egress_forbidden"));
    assert!(service.heard().is_empty());
}

#[tokio::test]
async fn a_name_is_judged_anew_whenever_a_connection_is_made() {
    let (service, url) = receiver().await;
    let only_one = Egress::allowing(&["127.0.0.1"]).unwrap();
    let sender = sender_finding(only_one, &[&["127.0.0.1"], &["127.0.0.2"], &["127.0.0.1"]]);
    let mut codes = Vec::new();
    for _ in 0..3 {
        let exchange = sender.send(request(&url)).await;
        codes.push(exchange.error_code().unwrap_or("arrived").to_owned());
    }
    assert_eq!(codes, ["arrived", "egress_forbidden", "arrived"]);
    assert_eq!(service.heard().len(), 2);
}

#[tokio::test]
async fn of_a_names_addresses_only_open_ones_are_called() {
    let (service, url) = receiver().await;
    let only_one = Egress::allowing(&["127.0.0.1"]).unwrap();
    let sender = sender_finding(only_one, &[&["10.0.0.1", "127.0.0.2", "127.0.0.1", "::1"]]);
    assert_eq!(sender.send(request(&url)).await.status, Some(200));
    assert_eq!(service.heard().len(), 1);
}

#[tokio::test]
async fn what_the_operator_opened_is_called_in_every_form_of_its_address() {
    let (service, _) = receiver().await;
    let port = service.url().rsplit(':').next().unwrap().to_owned();
    let sender = sender_with(loopback(), Settings::default());
    for host in ["127.0.0.1", "127.1", "2130706433", "0x7f000001", "[::ffff:127.0.0.1]", "localhost"] {
        let exchange = sender.send(request(&format!("http://{host}:{port}"))).await;
        assert_eq!(exchange.status, Some(200), "{host}: {:?}", exchange.error);
    }
    assert_eq!(service.heard().len(), 6);
}

/// The test above once more, in an environment that names proxies where nobody is.
#[test]
fn the_environments_proxy_is_not_used() {
    let proxies = ["http_proxy", "HTTP_PROXY", "https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"];
    let again = Command::new(env::current_exe().unwrap())
        .args([
            "--exact",
            "webhook_sender::guard::what_the_operator_opened_is_called_in_every_form_of_its_address",
        ])
        .envs(proxies.map(|name| (name, "http://127.0.0.1:1")))
        .output()
        .unwrap();
    let told = String::from_utf8_lossy(&again.stdout);
    assert!(again.status.success() && told.contains("1 passed"), "{told}");
}
