//! `/v1/openapi.json`: OpenAPI 3.1, made from the handlers and the shapes themselves.

use std::sync::LazyLock;

use axum::http::header;
use axum::response::{IntoResponse, Response};
use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityScheme};
use utoipa::{Modify, OpenApi};

use super::{act, adapter, ask, audiences, campaigns, ingest, messages, shapes};

/// Hand posts to a running node, ask what became of them, and operate. Nothing is acknowledged before it is durable.
#[derive(Debug, OpenApi)]
#[openapi(
    info(title = "Rupor", version = "1"),
    paths(
        openapi,
        ingest::ingest,
        messages::create,
        ask::messages,
        ask::message,
        ask::deliveries_of,
        ask::photo,
        ask::deliveries,
        ask::delivery,
        ask::events,
        ask::channels,
        ask::accounts,
        ask::held,
        ask::case,
        ask::cases,
        ask::runs,
        ask::snapshot,
        ask::alerts,
        ask::bots,
        audiences::list,
        audiences::create,
        audiences::show,
        audiences::count,
        audiences::people,
        audiences::import,
        audiences::suppressions,
        audiences::suppress,
        audiences::unsuppress,
        campaigns::list,
        campaigns::create,
        campaigns::status,
        campaigns::preview,
        campaigns::report,
        campaigns::act,
        campaigns::edit,
        campaigns::choose,
        campaigns::retry,
        campaigns::test,
        act::on_channel,
        act::on_account,
        act::on_message,
        act::on_delivery,
        act::requeue,
        act::cancel,
        adapter::send,
        adapter::analyse,
        adapter::media,
        adapter::bot_read,
        adapter::bot_decide
    ),
    components(schemas(shapes::Problem)),
    modifiers(&Keys)
)]
struct Document;

struct Keys;

impl Modify for Keys {
    fn modify(&self, document: &mut utoipa::openapi::OpenApi) {
        let bearer = |description: &str| {
            let scheme = HttpBuilder::new().scheme(HttpAuthScheme::Bearer).description(Some(description));
            SecurityScheme::Http(scheme.build())
        };
        let components = document.components.get_or_insert_default();
        components.add_security_scheme(
            "token",
            bearer("A token of `rupor token new`; the scopes are named with each call."),
        );
        components.add_security_scheme("endpoint", bearer("The secret of an endpoint."));
    }
}

static TEXT: LazyLock<String> = LazyLock::new(|| Document::openapi().to_pretty_json().unwrap_or_default());

#[utoipa::path(get, path = "/v1/openapi.json", operation_id = "openapi", summary = "This document",
    responses((status = 200, body = Object, description = "OpenAPI 3.1")), security(()))]
pub(super) async fn openapi() -> Response {
    ([(header::CONTENT_TYPE, "application/json")], TEXT.as_str()).into_response()
}
