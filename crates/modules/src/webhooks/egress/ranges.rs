//! Addresses that are not the open internet: whoever could have us call them would see what only we can see.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::{Ipv4Net, Ipv6Net};

/// What an address is, where that is no place for a webhook.
pub(super) type What = &'static str;

const fn v4(a: u8, b: u8, c: u8, d: u8, prefix: u8) -> Ipv4Net {
    Ipv4Net::new_assert(Ipv4Addr::new(a, b, c, d), prefix)
}

const fn v6(a: u16, b: u16, c: u16, prefix: u8) -> Ipv6Net {
    Ipv6Net::new_assert(Ipv6Addr::new(a, b, c, 0, 0, 0, 0, 0), prefix)
}

/// IANA's special-purpose addresses, and those at which clouds tell a machine its secrets; the narrower come first.
const SPECIAL_V4: [(Ipv4Net, What); 19] = [
    (v4(169, 254, 169, 254, 32), "a cloud's metadata service"),
    (v4(168, 63, 129, 16, 32), "a cloud's metadata service"),
    (v4(100, 100, 100, 200, 32), "a cloud's metadata service"),
    (v4(192, 0, 0, 192, 32), "a cloud's metadata service"),
    (v4(255, 255, 255, 255, 32), "broadcast"),
    (v4(0, 0, 0, 0, 8), "unspecified"),
    (v4(10, 0, 0, 0, 8), "private"),
    (v4(100, 64, 0, 0, 10), "shared between a provider's customers (CGNAT)"),
    (v4(127, 0, 0, 0, 8), "loopback"),
    (v4(169, 254, 0, 0, 16), "link-local"),
    (v4(172, 16, 0, 0, 12), "private"),
    (v4(192, 0, 0, 0, 24), "reserved for protocols"),
    (v4(192, 0, 2, 0, 24), "for documentation"),
    (v4(192, 88, 99, 0, 24), "a 6to4 relay"),
    (v4(192, 168, 0, 0, 16), "private"),
    (v4(198, 18, 0, 0, 15), "for benchmarks"),
    (v4(198, 51, 100, 0, 24), "for documentation"),
    (v4(203, 0, 113, 0, 24), "for documentation"),
    (v4(224, 0, 0, 0, 4), "multicast"),
];
const RESERVED_V4: Ipv4Net = v4(240, 0, 0, 0, 4);

/// The same for IPv6, where only one range is open at all.
const OPEN_V6: Ipv6Net = v6(0x2000, 0, 0, 3);
const METADATA_V6: Ipv6Addr = Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254);
const SPECIAL_V6: [(Ipv6Net, What); 10] = [
    (v6(0x2001, 0x2, 0, 48), "for benchmarks"),
    (v6(0x2001, 0xdb8, 0, 32), "for documentation"),
    (v6(0x3fff, 0, 0, 20), "for documentation"),
    (v6(0x2001, 0, 0, 23), "reserved for protocols"),
    (v6(0xfc00, 0, 0, 7), "private (ULA)"),
    (v6(0xfe80, 0, 0, 10), "link-local"),
    (v6(0xfec0, 0, 0, 10), "private (site-local)"),
    (v6(0xff00, 0, 0, 8), "multicast"),
    (v6(0x100, 0, 0, 64), "for discarding"),
    // Its operator decides what it leads to, so that looking inside would tell nothing.
    (v6(0x64, 0xff9b, 1, 48), "a translation on the own network (NAT64)"),
];

const NAT64: Ipv6Net = v6(0x64, 0xff9b, 0, 96);
const SIX_TO_FOUR: Ipv6Net = v6(0x2002, 0, 0, 16);
const TEREDO: Ipv6Net = v6(0x2001, 0, 0, 32);

/// Why this address is no place for a webhook, if it is none.
///
/// An address of IPv6 that stands for ones of IPv4 is what those are.
pub(super) fn forbidden(address: IpAddr) -> Option<What> {
    match address {
        IpAddr::V4(address) => forbidden_v4(address),
        IpAddr::V6(address) => {
            let inner = embedded(address);
            if inner.is_empty() { forbidden_v6(address) } else { inner.into_iter().find_map(forbidden_v4) }
        }
    }
}

/// The addresses of IPv4 to which a packet for this one would go in the end; none if it stays on IPv6.
pub(super) fn embedded(address: Ipv6Addr) -> Vec<Ipv4Addr> {
    let bits = address.to_bits();
    let from_bit = |shift: u32| Ipv4Addr::from_bits(u32::try_from(bits >> shift & 0xffff_ffff).unwrap_or(0));
    if let Some(mapped) = address.to_ipv4_mapped() {
        vec![mapped]
    } else if NAT64.contains(&address) {
        vec![from_bit(0)]
    } else if SIX_TO_FOUR.contains(&address) {
        vec![from_bit(80)]
    } else if TEREDO.contains(&address) {
        // The relay's server, and the client with all its bits turned over.
        vec![from_bit(64), Ipv4Addr::from_bits(!from_bit(0).to_bits())]
    } else {
        Vec::new()
    }
}

fn forbidden_v4(address: Ipv4Addr) -> Option<What> {
    let special = SPECIAL_V4.iter().find(|(range, _)| range.contains(&address));
    special.map(|(_, what)| *what).or(RESERVED_V4.contains(&address).then_some("reserved"))
}

fn forbidden_v6(address: Ipv6Addr) -> Option<What> {
    if address == METADATA_V6 {
        return Some("a cloud's metadata service");
    }
    if address.is_unspecified() {
        return Some("unspecified");
    }
    if address.is_loopback() {
        return Some("loopback");
    }
    let special = SPECIAL_V6.iter().find(|(range, _)| range.contains(&address));
    // What is left outside of the open range is reserved, IPv4-compatible addresses among it.
    special.map(|(_, what)| *what).or((!OPEN_V6.contains(&address)).then_some("reserved"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn what(address: &str) -> Option<What> {
        forbidden(address.parse().unwrap())
    }

    #[test]
    fn every_range_that_is_not_the_open_internet_is_known_from_its_first_address_to_its_last() {
        for (first, last, expected) in [
            ("0.0.0.0", "0.255.255.255", "unspecified"),
            ("10.0.0.0", "10.255.255.255", "private"),
            ("100.64.0.0", "100.127.255.255", "shared between a provider's customers (CGNAT)"),
            ("127.0.0.0", "127.255.255.255", "loopback"),
            ("169.254.0.0", "169.254.255.255", "link-local"),
            ("169.254.169.254", "169.254.169.254", "a cloud's metadata service"),
            ("168.63.129.16", "168.63.129.16", "a cloud's metadata service"),
            ("100.100.100.200", "100.100.100.200", "a cloud's metadata service"),
            ("192.0.0.192", "192.0.0.192", "a cloud's metadata service"),
            ("172.16.0.0", "172.31.255.255", "private"),
            ("192.0.0.0", "192.0.0.255", "reserved for protocols"),
            ("192.0.2.0", "192.0.2.255", "for documentation"),
            ("192.88.99.0", "192.88.99.255", "a 6to4 relay"),
            ("192.168.0.0", "192.168.255.255", "private"),
            ("198.18.0.0", "198.19.255.255", "for benchmarks"),
            ("198.51.100.0", "198.51.100.255", "for documentation"),
            ("203.0.113.0", "203.0.113.255", "for documentation"),
            ("224.0.0.0", "239.255.255.255", "multicast"),
            ("240.0.0.0", "255.255.255.254", "reserved"),
            ("255.255.255.255", "255.255.255.255", "broadcast"),
            ("::", "::", "unspecified"),
            ("::1", "::1", "loopback"),
            ("::2", "::fffe:ffff:ffff", "reserved"),
            ("::127.0.0.1", "::8.8.8.8", "reserved"),
            ("64:ff9b:1::", "64:ff9b:1:ffff:ffff:ffff:ffff:ffff", "a translation on the own network (NAT64)"),
            ("100::", "100::ffff:ffff:ffff:ffff", "for discarding"),
            ("2001:2::", "2001:2:0:ffff:ffff:ffff:ffff:ffff", "for benchmarks"),
            ("2001:10::", "2001:1ff:ffff:ffff:ffff:ffff:ffff:ffff", "reserved for protocols"),
            ("2001:db8::", "2001:db8:ffff:ffff:ffff:ffff:ffff:ffff", "for documentation"),
            ("3fff::", "3fff:fff:ffff:ffff:ffff:ffff:ffff:ffff", "for documentation"),
            ("4000::", "fbff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "reserved"),
            ("fc00::", "fdff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "private (ULA)"),
            ("fd00:ec2::254", "fd00:ec2::254", "a cloud's metadata service"),
            ("fe80::", "febf:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "link-local"),
            ("fec0::", "feff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "private (site-local)"),
            ("ff00::", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "multicast"),
        ] {
            assert_eq!(what(first), Some(expected), "{first}");
            assert_eq!(what(last), Some(expected), "{last}");
        }
    }

    #[test]
    fn what_lies_right_beside_a_range_is_open() {
        for address in [
            "1.0.0.0",
            "9.255.255.255",
            "11.0.0.0",
            "100.63.255.255",
            "100.128.0.0",
            "126.255.255.255",
            "128.0.0.0",
            "169.253.255.255",
            "169.255.0.0",
            "168.63.129.15",
            "172.15.255.255",
            "172.32.0.0",
            "191.255.255.255",
            "192.0.1.0",
            "192.0.3.0",
            "192.88.98.255",
            "192.167.255.255",
            "192.169.0.0",
            "198.17.255.255",
            "198.20.0.0",
            "198.51.99.255",
            "203.0.112.255",
            "203.0.114.0",
            "223.255.255.255",
            "2001:200::",
            "2001:db7:ffff::",
            "2001:db9::",
            "2606:4700::1111",
            "3ffe::",
            "3fff:1000::",
            "2000::",
        ] {
            assert_eq!(what(address), None, "{address}");
        }
    }

    #[test]
    fn an_address_that_stands_for_one_of_ipv4_is_what_that_one_is() {
        for (address, expected) in [
            ("::ffff:127.0.0.1", Some("loopback")),
            ("::ffff:169.254.169.254", Some("a cloud's metadata service")),
            ("::ffff:8.8.8.8", None),
            ("64:ff9b::10.0.0.1", Some("private")),
            ("64:ff9b::8.8.8.8", None),
            ("2002:7f00:1::", Some("loopback")),
            ("2002:a9fe:a9fe::1", Some("a cloud's metadata service")),
            ("2002:808:808::1", None),
            // The server first, the client last and turned over: 8.8.8.8 is f7f7:f7f7, 10.0.0.1 is f5ff:fffe.
            ("2001:0:808:808::f7f7:f7f7", None),
            ("2001:0:808:808::f5ff:fffe", Some("private")),
            ("2001:0:7f00:1::f7f7:f7f7", Some("loopback")),
        ] {
            assert_eq!(what(address), expected, "{address}");
        }
    }
}
