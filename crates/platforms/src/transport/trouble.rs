//! No answer came: why, and whether the request may have left us.
//!
//! The client's own error never leaves this file: it prints the address, and the address holds the token.

use std::error::Error as StdError;
use std::fmt;
use std::io;

use domain::outcome::Certainty;

/// Why there is no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TroubleKind {
    /// The proxy or the certificates of the account cannot be used.
    Route,
    /// The request could not be built.
    Request,
    Dns,
    /// The egress guard refused the address.
    Guard,
    Refused,
    ConnectTimeout,
    /// The server's certificate is not signed by anyone we trust.
    UnknownIssuer,
    /// TLS failed in another way.
    Tls,
    /// Any other failure to connect.
    Connect,
    Deadline,
    Reset,
    Closed,
    /// What came was not HTTP.
    NotHttp,
    /// Any other failure after the request may have started.
    Broken,
}

impl TroubleKind {
    pub const ALL: [TroubleKind; 14] = [
        TroubleKind::Route,
        TroubleKind::Request,
        TroubleKind::Dns,
        TroubleKind::Guard,
        TroubleKind::Refused,
        TroubleKind::ConnectTimeout,
        TroubleKind::UnknownIssuer,
        TroubleKind::Tls,
        TroubleKind::Connect,
        TroubleKind::Deadline,
        TroubleKind::Reset,
        TroubleKind::Closed,
        TroubleKind::NotHttp,
        TroubleKind::Broken,
    ];

    /// The code of the failure, short and stable.
    pub fn code(self) -> &'static str {
        match self {
            TroubleKind::Route => "route",
            TroubleKind::Request => "request",
            TroubleKind::Dns => "dns",
            TroubleKind::Guard => "address_refused",
            TroubleKind::Refused => "refused",
            TroubleKind::ConnectTimeout => "connect_timeout",
            TroubleKind::UnknownIssuer => "unknown_issuer",
            TroubleKind::Tls => "tls",
            TroubleKind::Connect => "connect",
            TroubleKind::Deadline => "timeout",
            TroubleKind::Reset => "reset",
            TroubleKind::Closed => "closed",
            TroubleKind::NotHttp => "not_http",
            TroubleKind::Broken => "broken",
        }
    }
}

/// A request that got no answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trouble {
    pub kind: TroubleKind,
    pub certainty: Certainty,
    /// Our own words.
    pub message: String,
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.kind.code(), self.message)
    }
}

impl StdError for Trouble {}

impl Trouble {
    pub fn not_sent(kind: TroubleKind, message: impl Into<String>) -> Trouble {
        Trouble { kind, certainty: Certainty::NotSent, message: message.into() }
    }

    pub fn ambiguous(kind: TroubleKind, message: impl Into<String>) -> Trouble {
        Trouble { kind, certainty: Certainty::Unknown, message: message.into() }
    }

    /// Nothing was sent exactly when the client never got a connection; everything later is ambiguous.
    pub(super) fn from_client(error: &reqwest::Error) -> Trouble {
        if error.is_builder() {
            return Trouble::not_sent(TroubleKind::Request, "the request could not be built");
        }
        if error.is_connect() {
            let kind = connect_kind(error);
            return Trouble::not_sent(kind, connect_words(kind, error));
        }
        let kind = late_kind(error);
        Trouble::ambiguous(kind, late_words(kind))
    }
}

fn connect_kind(error: &reqwest::Error) -> TroubleKind {
    if find::<crate::egress::Refused>(error).is_some() {
        return TroubleKind::Guard;
    }
    if let Some(tls) = find::<rustls::Error>(error) {
        return match tls {
            rustls::Error::InvalidCertificate(rustls::CertificateError::UnknownIssuer) => {
                TroubleKind::UnknownIssuer
            }
            _ => TroubleKind::Tls,
        };
    }
    if error.is_dns() {
        return TroubleKind::Dns;
    }
    match find::<io::Error>(error).map(io::Error::kind) {
        Some(io::ErrorKind::ConnectionRefused) => TroubleKind::Refused,
        Some(io::ErrorKind::TimedOut) => TroubleKind::ConnectTimeout,
        _ if error.is_timeout() => TroubleKind::ConnectTimeout,
        _ => TroubleKind::Connect,
    }
}

fn connect_words(kind: TroubleKind, error: &reqwest::Error) -> String {
    let words = match kind {
        TroubleKind::Guard => "the address is not allowed",
        TroubleKind::UnknownIssuer => {
            "the server's certificate is signed by an authority that is not trusted here; add its root to extra_roots"
        }
        TroubleKind::Tls => {
            let cause = find::<rustls::Error>(error).map(ToString::to_string).unwrap_or_default();
            return format!("tls failed: {cause}");
        }
        TroubleKind::Dns => "the host name has no address",
        TroubleKind::Refused => "the connection was refused",
        TroubleKind::ConnectTimeout => "no connection in time",
        _ => "no connection",
    };
    words.to_owned()
}

fn late_kind(error: &reqwest::Error) -> TroubleKind {
    if error.is_timeout() {
        return TroubleKind::Deadline;
    }
    match find::<io::Error>(error).map(io::Error::kind) {
        Some(io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe) => return TroubleKind::Reset,
        Some(io::ErrorKind::UnexpectedEof) => return TroubleKind::Closed,
        _ => {}
    }
    // The client keeps its parse errors to itself; their texts are constants without an address.
    let words = cause(error);
    if words.contains("closed before") || words.contains("incomplete") {
        TroubleKind::Closed
    } else if words.contains("parsed") || words.contains("invalid HTTP") {
        TroubleKind::NotHttp
    } else {
        TroubleKind::Broken
    }
}

fn late_words(kind: TroubleKind) -> &'static str {
    match kind {
        TroubleKind::Deadline => "no answer before the deadline",
        TroubleKind::Reset => "the connection was reset before an answer",
        TroubleKind::Closed => "the connection was closed before an answer",
        TroubleKind::NotHttp => "the answer was not HTTP",
        _ => "the connection broke before an answer",
    }
}

/// The innermost cause in its own words. Only for errors whose inner causes hold no address.
pub(super) fn cause(error: &reqwest::Error) -> String {
    let mut innermost: &dyn StdError = error;
    while let Some(source) = innermost.source() {
        innermost = source;
    }
    match innermost.downcast_ref::<reqwest::Error>() {
        Some(_) => "unknown cause".to_owned(),
        None => innermost.to_string(),
    }
}

/// Finds an error of a type in the chain of causes, also inside `io::Error`, which hides its inner error.
fn find<'a, E: StdError + 'static>(error: &'a (dyn StdError + 'static)) -> Option<&'a E> {
    let mut next = Some(error);
    while let Some(current) = next {
        if let Some(found) = current.downcast_ref::<E>() {
            return Some(found);
        }
        next = match current.downcast_ref::<io::Error>().and_then(io::Error::get_ref) {
            Some(inner) => Some(inner),
            None => current.source(),
        };
    }
    None
}
