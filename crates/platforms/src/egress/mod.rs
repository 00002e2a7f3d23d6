//! Fetching what foreign addresses point at, without being led into our own network.
//!
//! One guard, always on: every host is judged after DNS, every answer of the DNS must be public, every redirect is
//! judged again, and the address that was judged is the one that is dialled, because the judging happens inside the
//! client's resolver. Media never goes through a proxy: it would resolve names behind the guard's back.
//! The only hole is the loopback origin of an account's own API base, for the sandbox. Start with `Egress::fetch`.

use std::collections::HashMap;
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use reqwest::Client;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use url::{Host, Origin, Url};

use crate::secret::SecretUrl;
use crate::transport::{
    Answer, Body, CONNECT_MAX, Cut, Exchange, Method, Request, Route, RouteError, Trouble, TroubleKind,
    build_client, exchange,
};

mod addresses;
mod sniff;

pub use addresses::is_public;
pub use sniff::{MediaType, sniff};

/// Redirects followed for media, each judged anew (reliability S21).
pub const HOPS_MAX: usize = 3;
/// Bytes of one foreign file: the largest upload that Telegram takes.
pub const MEDIA_BYTES_MAX: usize = 50_000_000;
/// From the first connection to the last byte, redirects included.
pub const FETCH_MAX: Duration = Duration::from_secs(60);
const PORTS: [u16; 2] = [80, 443];

/// Why the guard refused an address. Never names the address: it may hold someone's secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    #[error("not an address of the form http:// or https://")]
    Malformed,
    #[error("user or password in the address")]
    Credentials,
    #[error("a port other than 80 and 443")]
    Port,
    #[error("an address inside a private, local or reserved network")]
    Private,
    #[error("a redirect from https to http")]
    Downgrade,
    #[error("more than 3 redirects")]
    Hops,
    #[error("a redirect without a usable target")]
    Redirect,
}

/// Why a fetch brought nothing.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum FetchError {
    #[error("media address refused: {0}")]
    Refused(#[from] Refused),
    #[error("media could not be fetched: {0}")]
    Trouble(Trouble),
    #[error("media server answered with status {0}")]
    Status(u16),
    #[error("media is larger than {0} bytes")]
    TooLarge(usize),
    #[error("media broke off before its end")]
    Cut,
    #[error("media is of a kind that is not accepted; jpeg, png, gif, webp, mp4, webm and pdf are")]
    Type,
}

impl FetchError {
    /// Whether the same address may well answer later.
    pub fn is_transient(&self) -> bool {
        match self {
            FetchError::Trouble(_) | FetchError::Cut => true,
            FetchError::Status(status) => *status == 429 || *status >= 500,
            FetchError::Refused(_) | FetchError::TooLarge(_) | FetchError::Type => false,
        }
    }
}

/// A fetched file whose bytes were looked at.
#[derive(Clone, Debug, PartialEq)]
pub struct Fetched {
    pub bytes: Bytes,
    pub media_type: MediaType,
}

/// How names become addresses; tests put a scripted one here.
pub trait Lookup: Send + Sync {
    fn lookup(&self, host: String) -> BoxFuture<'static, std::io::Result<Vec<IpAddr>>>;
}

/// The system's resolver.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemLookup;

impl Lookup for SystemLookup {
    fn lookup(&self, host: String) -> BoxFuture<'static, std::io::Result<Vec<IpAddr>>> {
        Box::pin(
            async move { Ok(tokio::net::lookup_host((host, 0)).await?.map(|found| found.ip()).collect()) },
        )
    }
}

/// Judges addresses. Strict unless a hole is named.
#[derive(Clone, Debug)]
pub struct Guard {
    ports: Vec<u16>,
    /// Networks treated as public although they are not.
    networks: Vec<ipnet::IpNet>,
    /// The loopback origins that may be reached: scheme, host and port. Shared by all copies of this guard.
    origins: Arc<RwLock<Vec<Origin>>>,
}

impl Default for Guard {
    fn default() -> Guard {
        Guard { ports: PORTS.to_vec(), networks: Vec::new(), origins: Arc::default() }
    }
}

impl Guard {
    /// Opens the hole for the sandbox: exactly this scheme, host and port, and only if it is on loopback.
    pub fn allow_loopback_origin(&self, base: &Url) {
        let loopback = match base.host() {
            Some(Host::Ipv4(ip)) => ip.is_loopback(),
            Some(Host::Ipv6(ip)) => ip.is_loopback(),
            Some(Host::Domain(name)) => name == "localhost",
            None => false,
        };
        let mut origins = self.origins.write().unwrap_or_else(PoisonError::into_inner);
        if loopback && !origins.contains(&base.origin()) {
            origins.push(base.origin());
        }
    }

    fn is_allowed_origin(&self, origin: &Origin) -> bool {
        self.origins.read().unwrap_or_else(PoisonError::into_inner).contains(origin)
    }

    fn localhost_is_allowed(&self) -> bool {
        let origins = self.origins.read().unwrap_or_else(PoisonError::into_inner);
        origins.iter().any(|origin| match origin {
            Origin::Tuple(_, Host::Domain(name), _) => name == "localhost",
            _ => false,
        })
    }

    /// Treats a network as public, and lets its ports be reached: an operator's own media server.
    pub fn allow_network(mut self, network: ipnet::IpNet, port: u16) -> Guard {
        self.networks.push(network);
        self.ports.push(port);
        self
    }

    /// Judges an address as far as it can be judged before DNS.
    pub fn check(&self, url: &Url) -> Result<(), Refused> {
        if !matches!(url.scheme(), "http" | "https") {
            return Err(Refused::Malformed);
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err(Refused::Credentials);
        }
        if self.is_allowed_origin(&url.origin()) {
            return Ok(());
        }
        if !url.port_or_known_default().is_some_and(|port| self.ports.contains(&port)) {
            return Err(Refused::Port);
        }
        match url.host() {
            None => Err(Refused::Malformed),
            Some(Host::Ipv4(ip)) => self.check_ip(ip.into()),
            Some(Host::Ipv6(ip)) => self.check_ip(ip.into()),
            Some(Host::Domain(name)) if is_local_name(name) => Err(Refused::Private),
            Some(Host::Domain(_)) => Ok(()),
        }
    }

    fn check_ip(&self, ip: IpAddr) -> Result<(), Refused> {
        let allowed = is_public(ip) || self.networks.iter().any(|network| network.contains(&ip));
        if allowed { Ok(()) } else { Err(Refused::Private) }
    }

    /// Every answer must be public; one private answer among public ones is an attack, not an accident.
    fn check_answers(&self, host: &str, answers: &[IpAddr]) -> Result<(), Refused> {
        if host == "localhost" && answers.iter().all(IpAddr::is_loopback) && self.localhost_is_allowed() {
            return Ok(());
        }
        answers.iter().try_for_each(|ip| self.check_ip(*ip))
    }
}

/// Names that mean this machine whatever the DNS says.
fn is_local_name(name: &str) -> bool {
    let name = name.trim_end_matches('.');
    name.eq_ignore_ascii_case("localhost") || name.to_ascii_lowercase().ends_with(".localhost")
}

/// The guard inside the client's resolver, where the judged address is the one that is dialled.
struct GuardedResolver {
    guard: Guard,
    lookup: Arc<dyn Lookup>,
}

impl Resolve for GuardedResolver {
    fn resolve(&self, name: Name) -> Resolving {
        let (guard, lookup) = (self.guard.clone(), self.lookup.clone());
        Box::pin(async move {
            let host = name.as_str().to_owned();
            let answers = lookup.lookup(host.clone()).await?;
            guard.check_answers(&host, &answers)?;
            let addresses = answers.into_iter().map(|ip| SocketAddr::new(ip, 0));
            Ok(Box::new(addresses) as Addrs)
        })
    }
}

/// The guarded clients, one per route.
pub struct Egress {
    clients: Mutex<HashMap<Route, Client>>,
    guard: Guard,
    lookup: Arc<dyn Lookup>,
    connect_max: Duration,
    deadline: Duration,
}

impl fmt::Debug for Egress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Egress").field("guard", &self.guard).finish_non_exhaustive()
    }
}

impl Egress {
    pub fn new(guard: Guard) -> Egress {
        Egress::with_lookup(guard, Arc::new(SystemLookup), CONNECT_MAX)
    }

    /// With another way to look names up: tests script the DNS here.
    pub fn with_lookup(guard: Guard, lookup: Arc<dyn Lookup>, connect_max: Duration) -> Egress {
        Egress { clients: Mutex::default(), guard, lookup, connect_max, deadline: FETCH_MAX }
    }

    pub fn guard(&self) -> &Guard {
        &self.guard
    }

    /// With a shorter deadline for the whole fetch.
    #[must_use]
    pub fn deadline(mut self, deadline: Duration) -> Egress {
        self.deadline = deadline;
        self
    }

    /// Whether an address may be fetched at all, as far as it can be told without asking anybody.
    pub fn check(&self, address: &str) -> Result<(), FetchError> {
        let url = Url::parse(address).map_err(|_| Refused::Malformed)?;
        Ok(self.guard.check(&url)?)
    }

    /// Fetches a picture, a video or a document.
    pub async fn fetch(&self, address: &str, bytes_max: usize) -> Result<Fetched, FetchError> {
        let bytes = self.fetch_page(address, bytes_max).await?;
        let media_type = sniff(&bytes).ok_or(FetchError::Type)?;
        Ok(Fetched { bytes, media_type })
    }

    /// Fetches whatever stands there: a feed, a page. The reader has to look at it.
    pub async fn fetch_page(&self, address: &str, bytes_max: usize) -> Result<Bytes, FetchError> {
        let follow = self.follow(address, bytes_max);
        let answer = match tokio::time::timeout(self.deadline, follow).await {
            Ok(answer) => answer?,
            Err(_) => {
                return Err(FetchError::Trouble(Trouble::ambiguous(
                    TroubleKind::Deadline,
                    "not there in time",
                )));
            }
        };
        match answer.body {
            Body::Whole(bytes) => Ok(bytes),
            Body::Cut { why: Cut::TooLarge, .. } => Err(FetchError::TooLarge(bytes_max)),
            Body::Cut { .. } => Err(FetchError::Cut),
        }
    }

    async fn follow(&self, address: &str, bytes_max: usize) -> Result<Answer, FetchError> {
        let mut url = Url::parse(address).map_err(|_| Refused::Malformed)?;
        for _ in 0..=HOPS_MAX {
            let answer = self.get(&url, bytes_max).await?;
            match answer.status {
                200 => return Ok(answer),
                301 | 302 | 303 | 307 | 308 => url = next_hop(&url, &answer)?,
                status => return Err(FetchError::Status(status)),
            }
        }
        Err(Refused::Hops.into())
    }

    async fn get(&self, url: &Url, bytes_max: usize) -> Result<Answer, FetchError> {
        self.guard.check(url)?;
        let request = Request::new(Method::Get, SecretUrl::new(url.clone(), "media"), self.deadline)
            .answer_bytes_max(bytes_max);
        match self.send(&Route::default(), request).await {
            Ok(answer) => Ok(answer),
            Err(trouble) if trouble.kind == TroubleKind::Guard => Err(Refused::Private.into()),
            Err(trouble) => Err(FetchError::Trouble(trouble)),
        }
    }

    /// Sends a request to an address that a platform named: an upload host, a long-poll server.
    ///
    /// Such an address is foreign too, so it is judged like any other; it is never redirected.
    /// With a proxy the names are resolved over there, and only literal addresses can be judged here.
    pub async fn send(&self, route: &Route, request: Request) -> Exchange {
        if let Err(refused) = self.guard.check(request.target()) {
            return Err(Trouble::not_sent(TroubleKind::Guard, refused.to_string()));
        }
        let client =
            self.client(route).map_err(|error| Trouble::not_sent(TroubleKind::Route, error.to_string()))?;
        exchange(&client, request).await
    }

    fn client(&self, route: &Route) -> Result<Client, RouteError> {
        let mut clients = self.clients.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(client) = clients.get(route) {
            return Ok(client.clone());
        }
        let resolver = Arc::new(GuardedResolver { guard: self.guard.clone(), lookup: self.lookup.clone() });
        let resolver = (!route.has_proxy()).then_some(resolver as Arc<dyn Resolve>);
        let client = build_client(route, self.connect_max, resolver)?;
        clients.insert(route.clone(), client.clone());
        Ok(client)
    }
}

fn next_hop(from: &Url, answer: &Answer) -> Result<Url, Refused> {
    let target = answer.header("location").ok_or(Refused::Redirect)?;
    let next = from.join(target).map_err(|_| Refused::Redirect)?;
    if from.scheme() == "https" && next.scheme() == "http" {
        return Err(Refused::Downgrade);
    }
    Ok(next)
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
