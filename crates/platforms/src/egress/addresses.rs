//! Which addresses are out in the world. Everything that is not known to be public is not.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::{Ipv4Net, Ipv6Net};

const fn v4(a: u8, b: u8, c: u8, d: u8, prefix: u8) -> Ipv4Net {
    Ipv4Net::new_assert(Ipv4Addr::new(a, b, c, d), prefix)
}

const fn v6(a: u16, b: u16, c: u16, prefix: u8) -> Ipv6Net {
    Ipv6Net::new_assert(Ipv6Addr::new(a, b, c, 0, 0, 0, 0, 0), prefix)
}

/// IPv4 networks that are not public (the special-purpose registry).
const NOT_PUBLIC_V4: [Ipv4Net; 18] = [
    v4(0, 0, 0, 0, 8),       // this network
    v4(10, 0, 0, 0, 8),      // private
    v4(100, 64, 0, 0, 10),   // carrier-grade NAT
    v4(127, 0, 0, 0, 8),     // loopback
    v4(169, 254, 0, 0, 16),  // link-local, cloud metadata
    v4(172, 16, 0, 0, 12),   // private
    v4(192, 0, 0, 0, 24),    // protocol assignments
    v4(192, 0, 2, 0, 24),    // documentation
    v4(192, 31, 196, 0, 24), // AS112
    v4(192, 52, 193, 0, 24), // multicast tunnels
    v4(192, 88, 99, 0, 24),  // 6to4 relays
    v4(192, 168, 0, 0, 16),  // private
    v4(192, 175, 48, 0, 24), // AS112
    v4(198, 18, 0, 0, 15),   // benchmarks
    v4(198, 51, 100, 0, 24), // documentation
    v4(203, 0, 113, 0, 24),  // documentation
    v4(224, 0, 0, 0, 4),     // multicast
    v4(240, 0, 0, 0, 4),     // reserved, broadcast
];

/// All of public IPv6 lies in here …
const GLOBAL_UNICAST_V6: Ipv6Net = v6(0x2000, 0, 0, 3);

/// … except these: they embed or tunnel IPv4, or belong to nobody.
const NOT_PUBLIC_V6: [Ipv6Net; 5] = [
    v6(0x2001, 0, 0, 23),         // protocol assignments, Teredo, ORCHID
    v6(0x2001, 0x0db8, 0, 32),    // documentation
    v6(0x2002, 0, 0, 16),         // 6to4
    v6(0x2620, 0x4f, 0x8000, 48), // AS112
    v6(0x3fff, 0, 0, 20),         // documentation
];

/// Whether an address belongs to the public internet.
pub fn is_public(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(ip) => !NOT_PUBLIC_V4.iter().any(|network| network.contains(&ip)),
        IpAddr::V6(ip) => {
            GLOBAL_UNICAST_V6.contains(&ip) && !NOT_PUBLIC_V6.iter().any(|network| network.contains(&ip))
        }
    }
}
