//! `/v1`: how programs hand posts in, ask what became of them, and operate. Says what was wrong in a stable shape, and
//! nothing about what is behind it.
//!
//! Start with `ingest`; `read` is what a request may say, `pace` how often it may be said and `room` how much at once. `messages` is the same by a
//! token, `ask` what may be read, `act` what may be done, `campaigns` and `audiences` both for campaigns and their people, `photos` what comes as bytes, `access` who may; `adapter` serves
//! another orchestrator. `document` is what `/v1/openapi.json` says of all of them.

mod access;
mod act;
mod adapter;
mod ask;
mod audiences;
mod campaigns;
mod document;
mod error;
mod ingest;
mod messages;
mod pace;
mod page;
mod photos;
mod read;
mod room;
mod shapes;
mod strict;

#[cfg(test)]
mod adapter_tests;
#[cfg(test)]
mod asked_tests;
#[cfg(test)]
mod photo_tests;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod walk_tests;

use axum::http::{HeaderMap, header};
use axum::routing::{MethodRouter, get, post};

pub(crate) use adapter::Sender;
pub(crate) use error::ApiError;
pub(crate) use ingest::{PushIntake, read_body};
#[cfg(test)]
pub(crate) use photos::form;
#[cfg(test)]
pub(crate) use read::posts;

use crate::http::Site;

pub(crate) fn ingest() -> MethodRouter<Site> {
    post(ingest::ingest).fallback(async || ApiError::method("POST"))
}

pub(crate) fn messages() -> MethodRouter<Site> {
    get(ask::messages).post(messages::create).fallback(async || ApiError::method("GET, HEAD, POST"))
}

/// What can be read: the path and who answers. Every one needs a token with the scope `read`.
pub(crate) fn readable() -> Vec<(&'static str, MethodRouter<Site>)> {
    let only_get = |methods: MethodRouter<Site>| methods.fallback(async || ApiError::method("GET, HEAD"));
    vec![
        ("/v1/messages/{id}", only_get(get(ask::message))),
        ("/v1/messages/{id}/deliveries", only_get(get(ask::deliveries_of))),
        ("/v1/messages/{id}/photos/{n}", only_get(get(ask::photo))),
        ("/v1/deliveries", only_get(get(ask::deliveries))),
        ("/v1/deliveries/{id}", only_get(get(ask::delivery))),
        ("/v1/events", only_get(get(ask::events))),
        ("/v1/channels", only_get(get(ask::channels))),
        ("/v1/accounts", only_get(get(ask::accounts))),
        ("/v1/held", only_get(get(ask::held))),
        ("/v1/cases", only_get(get(ask::cases))),
        ("/v1/cases/{id}", only_get(get(ask::case))),
        ("/v1/runs", only_get(get(ask::runs))),
        ("/v1/snapshot", only_get(get(ask::snapshot))),
        ("/v1/alerts", only_get(get(ask::alerts))),
        ("/v1/bots", only_get(get(ask::bots))),
        ("/v1/audiences/{name}", only_get(get(audiences::show))),
        ("/v1/audiences/{name}/count", only_get(get(audiences::count))),
        ("/v1/audiences/{name}/people", only_get(get(audiences::people))),
        ("/v1/campaigns/{name}", only_get(get(campaigns::status))),
        ("/v1/campaigns/{name}/preview", only_get(get(campaigns::preview))),
        ("/v1/campaigns/{name}/report", only_get(get(campaigns::report))),
    ]
}

/// What can be listed with the scope `read` and made with the scope `operate`.
pub(crate) fn makeable() -> Vec<(&'static str, MethodRouter<Site>)> {
    let both = |methods: MethodRouter<Site>| methods.fallback(async || ApiError::method("GET, HEAD, POST"));
    vec![
        ("/v1/audiences", both(get(audiences::list).post(audiences::create))),
        ("/v1/suppressions", both(get(audiences::suppressions).post(audiences::suppress))),
        ("/v1/campaigns", both(get(campaigns::list).post(campaigns::create))),
    ]
}

/// What can be done, with the scope `operate`.
pub(crate) fn doable() -> Vec<(&'static str, MethodRouter<Site>)> {
    let only_post = |methods: MethodRouter<Site>| methods.fallback(async || ApiError::method("POST"));
    vec![
        ("/v1/channels/{channel}/{verb}", only_post(post(act::on_channel))),
        ("/v1/accounts/{account}/{verb}", only_post(post(act::on_account))),
        ("/v1/messages/{id}/{verb}", only_post(post(act::on_message))),
        ("/v1/deliveries/requeue", only_post(post(act::requeue))),
        ("/v1/deliveries/cancel", only_post(post(act::cancel))),
        ("/v1/deliveries/{id}/{verb}", only_post(post(act::on_delivery))),
        ("/v1/audiences/{name}/import", only_post(post(audiences::import))),
        ("/v1/suppressions/lift", only_post(post(audiences::unsuppress))),
        ("/v1/campaigns/{name}/edit", only_post(post(campaigns::edit))),
        ("/v1/campaigns/{name}/choose", only_post(post(campaigns::choose))),
        ("/v1/campaigns/{name}/retry", only_post(post(campaigns::retry))),
        ("/v1/campaigns/{name}/test", only_post(post(campaigns::test))),
        ("/v1/campaigns/{name}/{verb}", only_post(post(campaigns::act))),
    ]
}

/// What another orchestrator calls between its steps, with the scope `adapter`.
pub(crate) fn adapters() -> Vec<(&'static str, MethodRouter<Site>)> {
    let only_post = |methods: MethodRouter<Site>| methods.fallback(async || ApiError::method("POST"));
    vec![
        ("/v1/adapter/send", only_post(post(adapter::send))),
        ("/v1/analyse", only_post(post(adapter::analyse))),
        ("/v1/media", only_post(post(adapter::media))),
        ("/v1/bot/read", only_post(post(adapter::bot_read))),
        ("/v1/bot/decide", only_post(post(adapter::bot_decide))),
    ]
}

pub(crate) fn openapi() -> MethodRouter<Site> {
    get(document::openapi).fallback(async || ApiError::method("GET, HEAD"))
}

/// The token of `Authorization: Bearer …`.
pub(crate) fn bearer(headers: &HeaderMap) -> Option<String> {
    let value = headers.get(header::AUTHORIZATION)?.to_str().ok()?;
    let (scheme, token) = value.split_once(' ')?;
    let token = token.trim();
    (scheme.eq_ignore_ascii_case("bearer") && !token.is_empty()).then(|| token.to_owned())
}
