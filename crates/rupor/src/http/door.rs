//! Who may come in: which hosts are answered, who counts as being on this machine, and the token of viewers.
//!
//! As soon as anything but loopback can reach a node, its board needs a token. A request that somebody passed on
//! comes from far, however near the proxy is that passed it on.

use std::net::{IpAddr, Ipv6Addr};

use anyhow::bail;
use axum::http::{HeaderMap, HeaderName, Uri, Version, header};

use super::api;

/// Characters of the token that opens the board and the metrics beyond loopback.
const TOKEN_MIN: usize = 32;
/// The variable it stands in.
const TOKEN_VARIABLE: &str = "RUPOR_HTTP_TOKEN";
/// Names besides the local ones that a proxy in front may pass on.
const HOSTS_VARIABLE: &str = "RUPOR_HTTP_HOSTS";
/// Addresses of proxies whose word about the visitor's address is believed.
const PROXIES_VARIABLE: &str = "RUPOR_HTTP_PROXIES";

/// What a proxy adds to a request; one of them is enough.
const PASSED_ON: [&str; 12] = [
    "forwarded",
    "via",
    "x-forwarded-for",
    "x-forwarded-host",
    "x-forwarded-proto",
    "x-forwarded-port",
    "x-forwarded-server",
    "x-real-ip",
    "x-client-ip",
    "x-cluster-client-ip",
    "true-client-ip",
    "cf-connecting-ip",
];

/// Headers that decide something, so that two of them are two answers to one question.
const SINGLE: [HeaderName; 6] = [
    header::HOST,
    header::AUTHORIZATION,
    header::ORIGIN,
    header::CONTENT_TYPE,
    header::CONTENT_ENCODING,
    HeaderName::from_static("idempotency-key"),
];

/// The other end of the connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Peer(pub IpAddr);

/// Who asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Client {
    /// The visitor's address: the peer's, or what a proxy that is believed says.
    pub address: IpAddr,
    /// Not from this machine, or passed on by somebody.
    pub far: bool,
}

impl Client {
    /// Whose pace and seats it shares: one household has one IPv6 network, and draws addresses from it at will.
    pub(crate) fn household(&self) -> IpAddr {
        household(self.address)
    }
}

pub(super) fn household(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(v6) => {
            let s = v6.segments();
            IpAddr::V6(Ipv6Addr::new(s[0], s[1], s[2], s[3], 0, 0, 0, 0))
        }
        v4 @ IpAddr::V4(_) => v4,
    }
}

/// Who may come in.
#[derive(Debug, Clone)]
pub(crate) struct Door {
    /// Only these hosts are answered; empty: any.
    hosts: Vec<String>,
    /// Whether a host that is a plain address is answered: it cannot be somebody's name for this machine.
    any_address: bool,
    proxies: Vec<IpAddr>,
    /// The hash of the token that viewers need; `None`: everybody on this machine may look.
    token: Option<blake3::Hash>,
}

/// What the variables say.
#[derive(Debug, Default, Clone)]
pub(crate) struct Written {
    pub token: Option<String>,
    pub hosts: Option<String>,
    pub proxies: Option<String>,
}

impl Door {
    /// The same with the variables of this process.
    pub(crate) fn from_env(at: IpAddr) -> anyhow::Result<Door> {
        let variable = |name: &str| std::env::var(name).ok();
        let written = Written {
            token: variable(TOKEN_VARIABLE),
            hosts: variable(HOSTS_VARIABLE),
            proxies: variable(PROXIES_VARIABLE),
        };
        Door::new(at, &written)
    }

    /// What the address that is listened on asks for.
    pub(crate) fn new(at: IpAddr, written: &Written) -> anyhow::Result<Door> {
        let token = written.token.as_deref().map(str::trim).filter(|token| !token.is_empty());
        let named = list(&written.hosts);
        let proxies = addresses(&written.proxies)?;
        if let Some(token) = token {
            if token.len() < TOKEN_MIN {
                bail!(
                    "{TOKEN_VARIABLE} is shorter than {TOKEN_MIN} characters; draw one with `openssl rand -hex 32`"
                );
            }
        } else if let Some(how) = reachable(at, &named, &proxies) {
            bail!(
                "{how}: other machines could read the board; set {TOKEN_VARIABLE} to {TOKEN_MIN} random \
                 characters or more (`openssl rand -hex 32`), or let nobody but this machine reach it"
            );
        }
        let any = !at.is_loopback() && named.is_empty();
        let hosts = if any { Vec::new() } else { [vec!["localhost".to_owned()], named].concat() };
        let token = token.map(|token| blake3::hash(token.as_bytes()));
        Ok(Door { hosts, any_address: !at.is_loopback(), proxies, token })
    }

    pub(crate) fn is_proxy(&self, peer: IpAddr) -> bool {
        self.proxies.contains(&peer.to_canonical())
    }

    /// Who asks: the last address that no proxy of ours has written, if the peer is one of them.
    pub(crate) fn client(&self, peer: Peer, version: Version, headers: &HeaderMap) -> Client {
        let passed_on = PASSED_ON.iter().any(|name| headers.contains_key(*name));
        let peer = peer.0.to_canonical();
        // Browsers and scrapers speak 1.1; a 1.0 on a local socket is a proxy that names nobody.
        let far = !peer.is_loopback() || passed_on || version < Version::HTTP_11;
        let mut address = peer;
        if self.is_proxy(peer) {
            let values = headers.get_all("x-forwarded-for").into_iter().rev();
            let named = values.filter_map(|value| value.to_str().ok()).flat_map(|value| value.rsplit(','));
            let known = named.map_while(|name| name.trim().parse::<IpAddr>().ok());
            address = known.map(|ip| ip.to_canonical()).find(|ip| !self.is_proxy(*ip)).unwrap_or(peer);
        }
        Client { address, far }
    }

    pub(crate) fn admits_host(&self, headers: &HeaderMap) -> bool {
        let host = headers.get(header::HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
        self.hosts.is_empty() || self.is_own_name(host)
    }

    fn is_own_name(&self, host: &str) -> bool {
        let name = host_name(host).to_lowercase();
        let address = name.parse::<IpAddr>();
        address.is_ok_and(|ip| ip.is_loopback() || self.any_address) || self.hosts.contains(&name)
    }

    /// Digests are compared, so that the time it takes tells nothing.
    pub(crate) fn opens(&self, token: &str) -> bool {
        self.token.is_none_or(|own| blake3::hash(token.as_bytes()) == own)
    }

    pub(crate) fn has_token(&self) -> bool {
        self.token.is_some()
    }
}

/// How anything but loopback could reach a board that listens there.
fn reachable(at: IpAddr, named: &[String], proxies: &[IpAddr]) -> Option<String> {
    let is_far =
        |name: &&String| *name != "localhost" && !name.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback());
    if !at.is_loopback() {
        return Some(format!("--listen {at}"));
    }
    if let Some(name) = named.iter().find(is_far) {
        return Some(format!("{HOSTS_VARIABLE} names {name}"));
    }
    proxies.first().map(|proxy| format!("{PROXIES_VARIABLE} names {proxy}"))
}

fn list(written: &Option<String>) -> Vec<String> {
    let items = written.as_deref().unwrap_or_default().split(',').map(|item| item.trim().to_lowercase());
    items.filter(|item| !item.is_empty()).collect()
}

fn addresses(written: &Option<String>) -> anyhow::Result<Vec<IpAddr>> {
    let parsed = list(written).into_iter().map(|item| match item.parse::<IpAddr>() {
        Ok(ip) => Ok(ip.to_canonical()),
        Err(_) => bail!("{PROXIES_VARIABLE} {item:?} is not an address; write addresses such as 127.0.0.1, parted by commas"),
    });
    parsed.collect()
}

/// What makes a request ambiguous: a header that stands twice, or another host in the first line than in `Host`.
pub(super) fn ambiguity(uri: &Uri, headers: &HeaderMap) -> Option<&'static str> {
    for name in &SINGLE {
        if headers.get_all(name).into_iter().nth(1).is_some() {
            return Some(
                "a header stands twice that may stand once; send one Host, Authorization and Content-Type",
            );
        }
    }
    let host = headers.get(header::HOST).map(|host| host.as_bytes());
    match uri.authority() {
        Some(named) if Some(named.as_str().as_bytes()) != host => {
            Some("the first line and the Host header name different hosts")
        }
        _ => None,
    }
}

/// Whether a path means text once its %-signs are read.
pub(super) fn is_text(path: &str) -> bool {
    let (mut bytes, mut rest) = (Vec::with_capacity(path.len()), path.as_bytes());
    while let [first, after @ ..] = rest {
        let digits = after.get(..2).filter(|_| *first == b'%').and_then(|two| std::str::from_utf8(two).ok());
        match digits.and_then(|two| u8::from_str_radix(two, 16).ok()) {
            Some(byte) => {
                bytes.push(byte);
                rest = &after[2..];
            }
            None => {
                bytes.push(*first);
                rest = after;
            }
        }
    }
    std::str::from_utf8(&bytes).is_ok()
}

/// Whether a page of another site asks: a browser says where a page is from.
pub(super) fn is_from_elsewhere(headers: &HeaderMap) -> bool {
    let text = |name| headers.get(name).and_then(|value: &axum::http::HeaderValue| value.to_str().ok());
    let host = text(header::HOST).unwrap_or_default();
    let other_origin = match text(header::ORIGIN) {
        Some(origin) => !origin.split_once("://").is_some_and(|(_, own)| own.eq_ignore_ascii_case(host)),
        None => headers.contains_key(header::ORIGIN),
    };
    // A link that somebody follows is a navigation; a script or a frame of another site is not.
    let site = headers.get("sec-fetch-site").map(|value| value.as_bytes());
    let mode = headers.get("sec-fetch-mode").map(|value| value.as_bytes());
    other_origin || site == Some(b"cross-site") && mode != Some(b"navigate")
}

/// The token that somebody gives, as programs or as browsers do.
pub(super) fn given_token(headers: &HeaderMap) -> Option<String> {
    api::bearer(headers).or_else(|| basic_password(headers))
}

/// `localhost:7878`, `[::1]:7878` without the port.
fn host_name(host: &str) -> &str {
    match host.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or_default(),
        None => host.rsplit_once(':').map_or(host, |(name, _)| name),
    }
}

/// The password of HTTP Basic, which browsers ask for; the name does not matter.
fn basic_password(headers: &HeaderMap) -> Option<String> {
    let value = headers.get(header::AUTHORIZATION)?.to_str().ok()?;
    let (scheme, encoded) = value.split_once(' ')?;
    if !scheme.eq_ignore_ascii_case("basic") {
        return None;
    }
    let text = String::from_utf8(base64(encoded.trim())?).ok()?;
    Some(text.split_once(':')?.1.to_owned())
}

/// Standard base64 with or without padding.
fn base64(text: &str) -> Option<Vec<u8>> {
    let (mut bytes, mut bits, mut held) = (Vec::new(), 0_u32, 0);
    for character in text.trim_end_matches('=').bytes() {
        let value = match character {
            b'A'..=b'Z' => character - b'A',
            b'a'..=b'z' => character - b'a' + 26,
            b'0'..=b'9' => character - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            _ => return None,
        };
        (bits, held) = (bits << 6 | u32::from(value), held + 6);
        if held >= 8 {
            held -= 8;
            bytes.push((bits >> held & 0xff) as u8);
        }
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOKEN: &str = "0123456789abcdef0123456789abcdef";

    fn door(at: &str, token: Option<&str>, hosts: &str, proxies: &str) -> anyhow::Result<Door> {
        let written = Written {
            token: token.map(str::to_owned),
            hosts: Some(hosts.to_owned()),
            proxies: Some(proxies.to_owned()),
        };
        Door::new(at.parse().unwrap(), &written)
    }

    #[test]
    fn a_token_is_needed_as_soon_as_anything_but_loopback_can_reach_the_board() {
        for (at, hosts, proxies, named) in [
            ("0.0.0.0", "", "", "--listen 0.0.0.0"),
            ("192.168.1.5", "", "", "--listen 192.168.1.5"),
            ("::", "", "", "--listen ::"),
            ("127.0.0.1", "board.example", "", "RUPOR_HTTP_HOSTS names board.example"),
            ("127.0.0.1", "localhost, 10.0.0.5", "", "RUPOR_HTTP_HOSTS names 10.0.0.5"),
            ("127.0.0.1", "", "127.0.0.1", "RUPOR_HTTP_PROXIES names 127.0.0.1"),
        ] {
            let problem = door(at, None, hosts, proxies).unwrap_err().to_string();
            assert!(problem.starts_with(named) && problem.contains("openssl rand -hex 32"), "{problem}");
            assert!(door(at, Some(TOKEN), hosts, proxies).is_ok());
        }
        assert!(door("127.0.0.1", None, "localhost,127.0.0.1", "").is_ok());
        assert!(door("::1", None, "", "").is_ok());
        let short = door("127.0.0.1", Some("short"), "", "").unwrap_err().to_string();
        assert!(short.contains("shorter than 32"), "{short}");
        let odd = door("127.0.0.1", Some(TOKEN), "", "nginx").unwrap_err().to_string();
        assert!(odd.contains("\"nginx\" is not an address"), "{odd}");
    }

    #[test]
    fn a_forwarded_address_is_believed_from_a_proxy_of_ours_and_from_nobody_else() {
        let own = door("127.0.0.1", Some(TOKEN), "", "127.0.0.1,10.0.0.7").unwrap();
        let none = door("127.0.0.1", Some(TOKEN), "", "").unwrap();
        let mut headers = HeaderMap::new();
        let asked = |door: &Door, headers: &HeaderMap| {
            door.client(Peer("127.0.0.1".parse().unwrap()), Version::HTTP_11, headers)
        };
        assert_eq!(asked(&own, &headers), Client { address: "127.0.0.1".parse().unwrap(), far: false });
        // The first ones are the visitor's own words.
        headers.insert("x-forwarded-for", "1.2.3.4, 203.0.113.9, 10.0.0.7".parse().unwrap());
        assert_eq!(asked(&own, &headers), Client { address: "203.0.113.9".parse().unwrap(), far: true });
        assert_eq!(asked(&none, &headers), Client { address: "127.0.0.1".parse().unwrap(), far: true });
        headers.insert("x-forwarded-for", "1.2.3.4, x".parse().unwrap());
        assert_eq!(asked(&own, &headers).address, "127.0.0.1".parse::<IpAddr>().unwrap());
    }

    #[test]
    fn a_path_is_text_or_it_is_refused() {
        for path in ["/", "/v1/channels/%D0%BA/pause", "/100%", "/%zz", "/%d0%ba", "/канал"] {
            assert!(is_text(path), "{path}");
        }
        for path in ["/%ff", "/v1/channels/%D0/pause", "/%c0%80", "/%ed%a0%80"] {
            assert!(!is_text(path), "{path}");
        }
    }

    #[test]
    fn an_ipv6_network_is_one_household() {
        let of = |text: &str| household(text.parse().unwrap());
        assert_eq!(of("2001:db8:1:2:aaaa::1"), of("2001:db8:1:2:bbbb::9"));
        assert_ne!(of("2001:db8:1:2::1"), of("2001:db8:1:3::1"));
        assert_eq!(of("::ffff:192.0.2.1"), of("192.0.2.1"));
        assert_ne!(of("192.0.2.1"), of("192.0.2.2"));
    }
}
