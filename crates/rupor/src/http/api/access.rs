//! Who asks: a token of the API, its workspace, and what it may do.

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use axum::http::{HeaderMap, StatusCode};
use domain::ids::WorkspaceId;
use secrecy::SecretString;
use store::{ApiScope, ApiToken};

use super::{ApiError, bearer};
use crate::http::{Client, Site};

/// Somebody with a token, and the workspace that it belongs to.
#[derive(Debug)]
pub(super) struct Caller {
    pub ws: WorkspaceId,
    pub workspace: String,
    pub token: ApiToken,
}

/// A handler that takes this hears only callers with the scope `read`.
#[derive(Debug)]
pub(super) struct Reads(pub Caller);

/// The same for the scope `operate`.
#[derive(Debug)]
pub(super) struct Operates(pub Caller);

impl FromRequestParts<Site> for Reads {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, site: &Site) -> Result<Reads, ApiError> {
        admitted(parts, site, ApiScope::Read).await.map(Reads)
    }
}

impl FromRequestParts<Site> for Operates {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, site: &Site) -> Result<Operates, ApiError> {
        admitted(parts, site, ApiScope::Operate).await.map(Operates)
    }
}

async fn admitted(parts: &mut Parts, site: &Site, scope: ApiScope) -> Result<Caller, ApiError> {
    let client = Client::from_request_parts(parts, site).await?;
    admit(site, client, &parts.headers, scope).await
}

/// Lets in who has a token with this scope; a wrong token and a revoked one sound alike.
pub(super) async fn admit(
    site: &Site,
    client: Client,
    headers: &HeaderMap,
    scope: ApiScope,
) -> Result<Caller, ApiError> {
    let refused = || {
        ApiError::unauthorized(
            "give a token of the API as Authorization: Bearer …; `rupor token new` makes one",
        )
    };
    let store = &site.node.store;
    let secret = SecretString::from(bearer(headers).ok_or_else(refused)?);
    let look =
        async || store.api_token_by_secret(&secret).await.map_err(|error| ApiError::inside(&error.into()));
    let token = site.judge(client, "/v1", look).await?.ok_or_else(refused)?;
    if !token.scopes.contains(&scope) {
        let message = format!(
            "this token has no scope {0}; make one with `rupor token new NAME --scope {0}`",
            scope.as_str()
        );
        return Err(ApiError::new(StatusCode::FORBIDDEN, "scope_missing", message));
    }
    let known = store.workspaces().await.map_err(|error| ApiError::inside(&error.into()))?;
    let workspace =
        known.into_iter().find(|row| row.workspace_id == token.workspace_id).ok_or_else(refused)?;
    Ok(Caller { ws: token.workspace_id, workspace: workspace.name, token })
}
