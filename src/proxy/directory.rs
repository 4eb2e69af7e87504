//! [`Directory`]: asks other servers for room lists and aliases, each question once.

use bytes::Bytes;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::admission::{Admitted, RoomAlias};
use crate::deadline::OutboundDeadline;
use crate::limits::{DIRECTORY_ANSWER_TTL, REMEMBERED_ANSWERS, REMEMBERED_BYTES};
use crate::outbound::BoxFuture;
use crate::outbound::body::{self, JsonError};
use crate::outbound::call::{FederationCall, FederationClient, RemoteReply};
use crate::outbound::endpoint::Endpoint;
use crate::outbound::error::CallError;
use crate::proxy::local_view::RoomListQuery;
use crate::proxy::remembered::{Remembered, RememberedBounds};
use crate::proxy::watch::{CallCounts, CallTimes, DestinationStatus, Outcomes};
use crate::proxy::{public_rooms, room_alias};
use crate::server_name::ServerName;

mod report;
mod watched;

pub(crate) use self::report::{GateRegistry, Report};
use self::watched::WatchedCall;

/// The way out, as these routes see it: [`FederationClient`] in use, a fake in tests.
pub(crate) trait RemoteDirectory: Send + Sync + 'static {
    /// Opens a call; the slot of `pass` lives as long as the call.
    fn open(&self, pass: Admitted) -> Box<dyn DirectoryCall>;
}

/// An open call to the one server its pass was given for.
pub(crate) trait DirectoryCall: Send {
    /// Where the call goes, as the base URL of a homeserver. Looks the server up if that was not done yet, under the pass's
    /// deadline; the requests that follow go there.
    fn base_url(&mut self) -> BoxFuture<'_, Result<String, CallError>>;

    /// Sends one request and reads its answer, under the pass's deadline.
    fn request<'a>(&'a mut self, endpoint: &'a Endpoint) -> BoxFuture<'a, Result<RemoteReply, CallError>>;
}

impl RemoteDirectory for FederationClient {
    fn open(&self, pass: Admitted) -> Box<dyn DirectoryCall> {
        Box::new(Self::open(self, pass))
    }
}

impl DirectoryCall for FederationCall {
    fn base_url(&mut self) -> BoxFuture<'_, Result<String, CallError>> {
        Box::pin(Self::base_url(self))
    }

    fn request<'a>(&'a mut self, endpoint: &'a Endpoint) -> BoxFuture<'a, Result<RemoteReply, CallError>> {
        Box::pin(Self::request(self, endpoint))
    }
}

/// Which of the two routes asks; decides the text of a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LookupKind {
    RoomList,
    Alias,
}

impl LookupKind {
    /// The fixed word for logs.
    pub(crate) fn as_label(self) -> &'static str {
        match self {
            Self::RoomList => "room-list",
            Self::Alias => "alias",
        }
    }
}

/// A question to another server. Equal questions have equal answers for a minute.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Question {
    /// The server in lower case: all spellings of a name share an answer.
    server: String,
    about: About,
}

/// What is asked.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum About {
    RoomList(RoomListQuery),
    Alias(RoomAlias),
}

/// What another server said, checked and ready to be sent on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Found {
    /// The answer as JSON of our own writing: known fields alone.
    Content(Bytes),
    /// The alias does not exist there.
    NoSuchAlias,
}

/// A slot was held and there is no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LookupFailure {
    /// The peer does not show its room list.
    Forbidden,
    /// Time ended the call.
    TimedOut,
    /// The peer has too much to do, by the rule that a load gate goes by. Clients see it as any other failure.
    Overloaded,
    /// Anything else: the way there, or what came back.
    Failed,
}

impl Question {
    /// `about`, asked of `server`.
    pub(crate) fn new(server: &ServerName, about: About) -> Self {
        Self { server: server.in_lower_case(), about }
    }

    /// Which route asks.
    pub(crate) fn kind(&self) -> LookupKind {
        match self.about {
            About::RoomList(_) => LookupKind::RoomList,
            About::Alias(_) => LookupKind::Alias,
        }
    }

    /// Roughly what it takes to remember the question, in bytes.
    pub(crate) fn weight_bytes(&self) -> usize {
        let about = match &self.about {
            About::RoomList(query) => public_rooms::weight_bytes(query),
            About::Alias(alias) => alias.as_str().len(),
        };
        size_of::<Self>().saturating_add(self.server.len()).saturating_add(about)
    }
}

impl Found {
    /// `content` in our own JSON.
    pub(crate) fn content<T: Serialize>(content: &T) -> Result<Self, JsonError> {
        serde_json::to_vec(content).map(|json| Self::Content(json.into())).map_err(|_| JsonError::Malformed)
    }
}

impl From<CallError> for LookupFailure {
    fn from(error: CallError) -> Self {
        match error {
            late if late.timed_out => Self::TimedOut,
            load if load.outcome().is_load() => Self::Overloaded,
            _ => Self::Failed,
        }
    }
}

/// Asks other servers and remembers what they said.
pub(crate) struct Directory {
    remote: Box<dyn RemoteDirectory>,
    remembered: Remembered,
    outcomes: Outcomes,
    /// Those that hear how lookups end.
    gates: Option<GateRegistry>,
}

impl Directory {
    /// A directory that remembers nothing yet.
    pub(crate) fn new(remote: Box<dyn RemoteDirectory>, gates: Option<GateRegistry>) -> Self {
        let remembered = Remembered::new(RememberedBounds {
            answers: REMEMBERED_ANSWERS,
            bytes: REMEMBERED_BYTES,
            time_to_live: DIRECTORY_ANSWER_TTL,
        });
        Self { remote, remembered, outcomes: Outcomes::default(), gates }
    }

    /// The answer to `question` if it was given within the last minute. *Blocking:* no.
    pub(crate) fn remembered(&self, question: &Question) -> Option<Found> {
        self.remembered.answer(question)
    }

    /// Asks, or waits for an equal question in flight. Ends by the deadline of `pass`; its slot is free by then.
    ///
    /// Of equal questions the one that asks reports, and nobody else.
    pub(crate) async fn look_up(
        &self,
        pass: Admitted,
        question: Question,
        report: Report,
    ) -> Result<Found, LookupFailure> {
        let (server, route, about) = (question.server.clone(), question.kind(), question.about.clone());
        self.remembered
            .share(question, pass, |pass| async move {
                let deadline = pass.deadline();
                let call = self.remote.open(pass);
                let mut call = WatchedCall::new(call, &self.outcomes, server, route, deadline, report);
                let outcome = match about {
                    About::RoomList(query) => public_rooms::ask(&mut call, &query, deadline).await,
                    About::Alias(alias) => room_alias::ask(&mut call, &alias, deadline).await,
                };
                call.ended(&outcome);
                outcome
            })
            .await
    }

    /// Those that hear how lookups end.
    pub(crate) fn gates(&self) -> Option<&GateRegistry> {
        self.gates.as_ref()
    }

    /// Those gates as they are now.
    #[cfg(feature = "gate")]
    pub(crate) fn homeservers(&self) -> Vec<crate::gate::GateStatus> {
        self.gates().map(GateRegistry::status).unwrap_or_default()
    }

    /// What all of them counted together.
    #[cfg(feature = "gate")]
    pub(crate) fn gate_counts(&self) -> crate::gate::GateCounts {
        self.gates().map(GateRegistry::counts).unwrap_or_default()
    }

    /// How the calls so far ended.
    pub(crate) fn calls(&self) -> CallCounts {
        self.outcomes.counts()
    }

    /// How long they took.
    pub(crate) fn call_times(&self) -> CallTimes {
        self.outcomes.times()
    }

    /// Whom they asked lately.
    pub(crate) fn destinations(&self) -> Vec<DestinationStatus> {
        self.outcomes.destinations()
    }
}

/// Makes our answer of a peer's, in one go: parsed, judged and written anew, a large one off the async threads.
pub(super) async fn digest<T: DeserializeOwned>(
    body: Bytes,
    deadline: OutboundDeadline,
    answer: impl FnOnce(T) -> Result<Found, JsonError> + Send + 'static,
) -> Result<Found, LookupFailure> {
    let work = |body: &[u8]| answer(serde_json::from_slice(body).map_err(|_| JsonError::Malformed)?);
    body::digest(body, deadline, work).await.map_err(|error| match error {
        JsonError::OutOfTime => LookupFailure::TimedOut,
        JsonError::Malformed => LookupFailure::Failed,
    })
}

#[cfg(test)]
pub(crate) mod fake;
