//! A remote room alias: `directory/room/{roomAlias}` towards the alias's own server.

use crate::admission::RoomAlias;
use crate::deadline::OutboundDeadline;
use crate::outbound::endpoint::Endpoint;
use crate::proxy::answer;
use crate::proxy::directory::{DirectoryCall, Found, LookupFailure, digest};
use crate::proxy::json_object::JsonObject;
use crate::proxy::local_view::AliasAnswer;

/// Asks the alias's server. An answer without the room or its servers is no answer.
pub(super) async fn ask(
    call: &mut dyn DirectoryCall,
    alias: &RoomAlias,
    deadline: OutboundDeadline,
) -> Result<Found, LookupFailure> {
    let reply = call.request(&Endpoint::query_directory(alias)).await?;
    if !answer::judge_alias(reply.status)? {
        return Ok(Found::NoSuchAlias);
    }
    digest(reply.body, deadline, |JsonObject::<AliasAnswer>(answer)| Found::content(&answer)).await
}
