//! The matrix: for each stage and route, the status and errcode a client gets, and how many requests the peer sees.

use hickory_resolver::proto::op::ResponseCode;

use super::file_table::{Ending, Files, NO_FILE, NO_THUMBNAIL, NOT_YET};
use super::route::ROUTES;
use super::stage::Stage;

/// Status and errcode. A success has none.
pub(crate) type Answer = (u16, &'static str);

pub(crate) struct Row {
    pub(crate) stage: Stage,
    /// By route, in the order of [`ROUTES`].
    pub(crate) answers: [Answer; ROUTES.len()],
    /// Requests that reach the peer, by route.
    pub(crate) requests: [usize; ROUTES.len()],
    pub(crate) files: Files,
}

impl Row {
    /// With files it is otherwise.
    const fn files(self, answer: Answer, requests: usize) -> Self {
        Self { files: Files::same(Ending::of(answer), requests), ..self }
    }

    /// With files it is otherwise, and with thumbnails otherwise again.
    const fn thumbnails(self, answer: Answer) -> Self {
        let [download, _] = self.files.endings;
        Self { files: Files { endings: [download, Ending::of(answer)], ..self.files }, ..self }
    }
}

const OK: Answer = (200, "");
pub(crate) const TIMED_OUT: Answer = (504, "M_UNKNOWN");
pub(crate) const FAILED: Answer = (502, "M_UNKNOWN");
const FORBIDDEN: Answer = (403, "M_FORBIDDEN");
const NO_ALIAS: Answer = (404, "M_NOT_FOUND");

/// Ends before a request is sent.
const fn unsent(stage: Stage, answer: Answer) -> Row {
    Row { stage, answers: [answer; 3], requests: [0; 3], files: Files::same(Ending::of(answer), 0) }
}

/// Ends after one request, whatever the route.
const fn asked(stage: Stage, answer: Answer) -> Row {
    Row { stage, answers: [answer; 3], requests: [1; 3], files: Files::same(Ending::of(answer), 1) }
}

/// Differs by route: list, filtered list, alias. With files it fails.
const fn row(stage: Stage, answers: [Answer; 3], requests: [usize; 3]) -> Row {
    Row { stage, answers, requests, files: Files::same(Ending::of(FAILED), 1) }
}

/// The filtered list falls back to GET.
const FALLS_BACK: [usize; 3] = [1, 2, 1];

pub(crate) const MATRIX: &[Row] = &[
    asked(Stage::Nothing, OK),
    unsent(Stage::DnsSilent, TIMED_OUT),
    unsent(Stage::DnsPortClosed, TIMED_OUT),
    unsent(Stage::DnsCode(ResponseCode::Refused), FAILED),
    unsent(Stage::DnsCode(ResponseCode::ServFail), FAILED),
    unsent(Stage::DnsCode(ResponseCode::NotImp), FAILED),
    unsent(Stage::DnsNoSuchName, FAILED),
    unsent(Stage::DnsAliasLoop, FAILED),
    unsent(Stage::AddressNotAllowed, FAILED),
    unsent(Stage::OneAddressNotAllowed, FAILED),
    // Silence on SRV counts as "no record": what ends the call is the address, which refuses.
    unsent(Stage::SrvSilent, FAILED),
    unsent(Stage::SrvDeclaredAbsent, FAILED),
    unsent(Stage::SrvTargetSilent, TIMED_OUT),
    unsent(Stage::ConnectSilent, TIMED_OUT),
    unsent(Stage::ConnectRefused, FAILED),
    unsent(Stage::TlsSilent, TIMED_OUT),
    unsent(Stage::TlsWrongName, FAILED),
    unsent(Stage::TlsOtherAuthority, FAILED),
    unsent(Stage::NoTls, FAILED),
    asked(Stage::NeverAnswers, TIMED_OUT),
    asked(Stage::Reset, FAILED),
    asked(Stage::ClosesUnanswered, FAILED),
    asked(Stage::HalfAStatusLine, FAILED),
    asked(Stage::HalfAHead, FAILED),
    asked(Stage::NotHttp, FAILED),
    asked(Stage::HeaderDrip, TIMED_OUT),
    asked(Stage::HeaderFlood, FAILED),
    asked(Stage::InterimDrip, TIMED_OUT),
    asked(Stage::InterimFlood, FAILED),
    // What is no envelope is not read.
    asked(Stage::BodyDrip, TIMED_OUT).files(FAILED, 1),
    asked(Stage::BodyStalls, TIMED_OUT).files(FAILED, 1),
    asked(Stage::BodyFlood, FAILED),
    asked(Stage::ExtensionFlood, FAILED),
    asked(Stage::TrailerFlood, FAILED),
    asked(Stage::BodyAnnouncedHuge, FAILED),
    asked(Stage::BodyCutShort, FAILED),
    asked(Stage::ChunksCutShort, FAILED),
    asked(Stage::Gzip, FAILED),
    asked(Stage::DeeplyNested, FAILED),
    asked(Stage::NotUtf8, FAILED),
    asked(Stage::Body(""), FAILED),
    asked(Stage::Body("peerword"), FAILED),
    asked(Stage::Body("{"), FAILED),
    asked(Stage::Body("{}"), FAILED),
    asked(Stage::Body("[]"), FAILED),
    asked(Stage::Body("null"), FAILED),
    asked(Stage::Body(r#"{"chunk":[]} peerword"#), FAILED),
    asked(Stage::Body(r#"{"chunk":7,"room_id":7,"servers":7}"#), FAILED),
    asked(Stage::Body(r#"{"chunk":[{"room_id":"!peerword"}],"room_id":"!peerword"}"#), FAILED),
    asked(Stage::Body(r#"{"chunk":[[]],"servers":["peerword"]}"#), FAILED),
    asked(Stage::GoodAnswerAs(101), FAILED),
    asked(Stage::GoodAnswerAs(201), FAILED),
    asked(Stage::GoodAnswerAs(202), FAILED),
    asked(Stage::GoodAnswerAs(206), FAILED),
    asked(Stage::Empty(204), FAILED),
    asked(Stage::RedirectElsewhere(301), FAILED),
    asked(Stage::RedirectElsewhere(302), FAILED),
    asked(Stage::RedirectElsewhere(303), FAILED),
    asked(Stage::RedirectElsewhere(307), FAILED),
    asked(Stage::RedirectElsewhere(308), FAILED),
    asked(Stage::RedirectLoop, FAILED),
    asked(Stage::Errcode(400, "M_UNKNOWN"), FAILED).thumbnails(NO_THUMBNAIL),
    row(Stage::Errcode(400, "M_UNRECOGNIZED"), [FAILED; 3], FALLS_BACK).thumbnails(NO_THUMBNAIL),
    asked(Stage::Errcode(401, "M_UNKNOWN_TOKEN"), FAILED),
    asked(Stage::Html(401), FAILED),
    row(Stage::Errcode(403, "M_FORBIDDEN"), [FORBIDDEN, FORBIDDEN, FAILED], [1; 3]),
    row(Stage::Html(403), [FORBIDDEN, FORBIDDEN, FAILED], [1; 3]),
    row(Stage::Errcode(404, "M_NOT_FOUND"), [FAILED, FAILED, NO_ALIAS], FALLS_BACK).files(NO_FILE, 1),
    row(Stage::Errcode(404, "M_UNRECOGNIZED"), [FAILED, FAILED, NO_ALIAS], FALLS_BACK).files(NO_FILE, 2),
    row(Stage::Html(404), [FAILED, FAILED, NO_ALIAS], FALLS_BACK).files(NO_FILE, 1),
    row(Stage::Empty(404), [FAILED, FAILED, NO_ALIAS], FALLS_BACK).files(NO_FILE, 1),
    row(Stage::Html(405), [FAILED; 3], FALLS_BACK),
    asked(Stage::Html(407), FAILED),
    asked(Stage::Html(421), FAILED),
    asked(Stage::Errcode(429, "M_LIMIT_EXCEEDED"), FAILED),
    asked(Stage::Errcode(500, "M_UNKNOWN"), FAILED),
    asked(Stage::Html(500), FAILED),
    asked(Stage::Html(502), FAILED),
    asked(Stage::Empty(503), FAILED),
    asked(Stage::Html(504), FAILED),
    asked(Stage::Errcode(504, "M_NOT_YET_UPLOADED"), FAILED).files(NOT_YET, 1),
    asked(Stage::Html(599), FAILED),
];
