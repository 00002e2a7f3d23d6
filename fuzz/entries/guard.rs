//! Any text as an address: what the guard lets through is public, as the standard library sees it.

use std::net::{IpAddr, Ipv4Addr};

use platforms::egress::Guard;
use url::{Host, Url};

/// Panics when an address inside gets through.
pub(super) fn run(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let Ok(url) = Url::parse(&text) else { return };
    if Guard::default().check(&url).is_err() {
        return;
    }
    assert!(matches!(url.scheme(), "http" | "https"), "{url}");
    assert!(url.username().is_empty() && url.password().is_none(), "{url}");
    assert!(matches!(url.port_or_known_default(), Some(80 | 443)), "{url}");
    match url.host() {
        Some(Host::Ipv4(ip)) => assert!(!is_inside_v4(ip), "{url}"),
        Some(Host::Ipv6(ip)) => {
            assert!(!ip.is_loopback() && !ip.is_unspecified() && !ip.is_multicast(), "{url}");
            assert!(ip.segments()[0] & 0xfe00 != 0xfc00 && ip.segments()[0] & 0xffc0 != 0xfe80, "{url}");
            if let IpAddr::V4(v4) = IpAddr::V6(ip).to_canonical() {
                panic!("{url}: {v4} in other clothes");
            }
        }
        Some(Host::Domain(name)) => {
            let name = name.trim_end_matches('.');
            assert!(
                !name.eq_ignore_ascii_case("localhost") && !name.to_lowercase().ends_with(".localhost"),
                "{url}"
            );
        }
        None => panic!("{url} has no host"),
    }
}

fn is_inside_v4(ip: Ipv4Addr) -> bool {
    let [a, b, ..] = ip.octets();
    ip.is_loopback()
        || ip.is_private()
        || ip.is_link_local()
        || ip.is_unspecified()
        || ip.is_broadcast()
        || ip.is_multicast()
        || ip.is_documentation()
        || a == 0
        || a == 100 && (64..128).contains(&b)
        || a == 198 && (18..20).contains(&b)
        || a >= 240
}
