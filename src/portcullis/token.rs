//! Whose request it is: the access token.

use http::HeaderMap;
use http::header::AUTHORIZATION;

use crate::proxy::denied::Denied;
use crate::proxy::local_view::{LocalView, TokenAnswer};

/// The token of the Authorization header is somebody's. One in the query string is not looked at, nor passed on.
pub(super) fn check_token(local: &dyn LocalView, headers: &HeaderMap) -> Result<(), Denied> {
    let token = bearer_token(headers).ok_or(Denied::MissingToken)?;
    match local.user_of_token(token) {
        TokenAnswer::Good { .. } => Ok(()),
        TokenAnswer::Unknown { soft_logout } => Err(Denied::UnknownToken { soft_logout }),
        TokenAnswer::Locked => Err(Denied::UserLocked),
        TokenAnswer::Unavailable => Err(Denied::TokenUnavailable),
    }
}

/// The token of the first Authorization header, if it is one of a client's.
pub(crate) fn bearer_token(headers: &HeaderMap) -> Option<&str> {
    let (scheme, token) = headers.get(AUTHORIZATION)?.to_str().ok()?.trim().split_once(' ')?;
    let token = token.trim();
    (scheme.eq_ignore_ascii_case("bearer") && !token.is_empty()).then_some(token)
}
