//! Who may ask the sandbox, and what its answers do not give away.
//!
//! It believes every word and has no passwords, so only this machine may reach it, by a local name: a page elsewhere
//! that points a name of its own at 127.0.0.1 is refused, and so is one that posts here from another site.

use std::net::IpAddr;

use axum::http::request::Parts;
use axum::http::{HeaderValue, header};
use sha2::{Digest, Sha256};

use crate::dispatch::HttpResponse;
use crate::reply::{Refusal, Response};

/// Shorter ones are names that somebody made up, and tell nothing.
const SECRET_CHARACTERS_MIN: usize = 12;

/// A token as others may see it: always the same for the same token, and no use to a thief.
/// Telegram's is known by the bot id in front; others by their first four characters and a digest.
pub(crate) fn masked(token: &str) -> String {
    if let Some((id, _)) =
        token.split_once(':').filter(|(id, _)| !id.is_empty() && id.bytes().all(|b| b.is_ascii_digit()))
    {
        return id.to_owned();
    }
    if token.chars().count() < SECRET_CHARACTERS_MIN {
        return token.to_owned();
    }
    let start: String = token.chars().take(4).collect();
    let digest: String = Sha256::digest(token).iter().take(4).map(|byte| format!("{byte:02x}")).collect();
    format!("{start}…{digest}")
}

/// For fields of answers.
pub(crate) fn serialize_masked<S: serde::Serializer>(token: &str, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&masked(token))
}

pub(crate) fn serialize_masked_if_any<S: serde::Serializer>(
    token: &Option<String>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    match token {
        Some(token) => serializer.serialize_some(&masked(token)),
        None => serializer.serialize_none(),
    }
}

/// Refuses names that are not local, and pages of other sites.
pub(crate) fn check(parts: &Parts, exposed: bool) -> Result<(), Response> {
    let hosts: Vec<&str> = values(parts, &header::HOST).collect();
    if hosts.len() > 1 {
        return Err(Refusal::bad("the Host header stands twice").response());
    }
    let host = hosts.first().copied().unwrap_or("localhost");
    if !exposed && !is_local(host) {
        let why = "the sandbox answers to localhost and 127.0.0.1 only";
        return Err(Response { status: 421, ..Refusal::bad(why).response() });
    }
    let mut origins = values(parts, &header::ORIGIN);
    let is_own =
        |origin: &str| origin.split_once("://").is_some_and(|(_, own)| own.eq_ignore_ascii_case(host));
    if origins.any(|origin| !is_own(origin)) {
        let why = "a page of another site asked; the sandbox answers to its own page only";
        return Err(Response { status: 403, ..Refusal::bad(why).response() });
    }
    Ok(())
}

fn values<'a>(parts: &'a Parts, name: &'a header::HeaderName) -> impl Iterator<Item = &'a str> {
    parts.headers.get_all(name).into_iter().map(|value| value.to_str().unwrap_or("?"))
}

fn is_local(host: &str) -> bool {
    let name = match host.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or_default(),
        None => host.rsplit_once(':').map_or(host, |(name, _)| name),
    };
    name.eq_ignore_ascii_case("localhost") || name.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

/// What every answer beside the platforms' own carries: uploaded files are shown, never run.
pub(crate) fn seal(answer: &mut HttpResponse) {
    for (name, value) in [
        (header::CONTENT_SECURITY_POLICY, "default-src 'none'; sandbox; frame-ancestors 'none'"),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::X_FRAME_OPTIONS, "DENY"),
        (header::REFERRER_POLICY, "no-referrer"),
    ] {
        // The page has a policy of its own.
        answer.headers_mut().entry(name).or_insert(HeaderValue::from_static(value));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_masked_token_can_be_matched_and_not_used() {
        assert_eq!(masked("123456:AAE-invented-token"), "123456");
        assert_eq!(masked("user"), "user");
        let long = "vk1.a.invented-token-of-a-community";
        assert_eq!(masked(long), masked(long));
        assert!(masked(long).starts_with("vk1.…") && masked(long).chars().count() == 13, "{}", masked(long));
        assert_ne!(masked(long), masked("vk1.a.invented-token-of-another"));
    }
}
