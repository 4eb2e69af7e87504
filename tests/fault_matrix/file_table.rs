//! The files' columns: for each stage, how the answer ends, and how many requests the file's server sees.

use super::file_stage::Elsewhere as Else;
use super::file_stage::FileStage;
use super::route::FILE_ROUTES;
use super::stage::Stage;
use super::table::{Answer, FAILED, MATRIX, TIMED_OUT};

/// How a client's answer ends.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Ending {
    /// The file, to its end.
    Whole,
    /// Status and errcode, in a complete answer.
    Error(u16, &'static str),
    /// A file that had begun, cut when its time was over.
    CutByTime,
    /// The first bytes and the fault come together: a file that had begun, cut, or this complete answer in its place.
    CutOr(u16, &'static str),
}

impl Ending {
    pub(crate) const fn of((status, errcode): Answer) -> Self {
        if status == 200 { Self::Whole } else { Self::Error(status, errcode) }
    }

    const fn cut_or((status, errcode): Answer) -> Self {
        Self::CutOr(status, errcode)
    }

    pub(crate) fn is_by_time(self) -> bool {
        matches!(self, Self::CutByTime | Self::Error(504, "M_UNKNOWN"))
    }
}

/// The cells of one stage.
#[derive(Clone, Copy)]
pub(crate) struct Files {
    /// By route, in the order of [`FILE_ROUTES`].
    pub(crate) endings: [Ending; FILE_ROUTES.len()],
    /// Requests that reach the file's server, whatever the route.
    pub(crate) requests: usize,
}

impl Files {
    pub(crate) const fn same(ending: Ending, requests: usize) -> Self {
        Self { endings: [ending; FILE_ROUTES.len()], requests }
    }
}

pub(crate) const NO_FILE: Answer = (404, "M_NOT_FOUND");
pub(crate) const NO_THUMBNAIL: Answer = (400, "M_UNKNOWN");
pub(crate) const NOT_YET: Answer = (504, "M_NOT_YET_UPLOADED");
const TOO_LARGE: Answer = (502, "M_TOO_LARGE");

/// Every stage that the files meet: those of all routes, and their own.
pub(crate) fn rows() -> impl Iterator<Item = (Stage, Files)> {
    MATRIX.iter().map(|row| (row.stage, row.files)).chain(FILES.iter().copied())
}

const fn file(stage: FileStage, ending: Ending) -> (Stage, Files) {
    (Stage::File(stage), Files::same(ending, 1))
}

const fn error(stage: FileStage, answer: Answer) -> (Stage, Files) {
    file(stage, Ending::of(answer))
}

const fn location(elsewhere: Else, ending: Ending) -> (Stage, Files) {
    file(FileStage::Location(elsewhere), ending)
}

const fn legacy(elsewhere: Else, ending: Ending) -> (Stage, Files) {
    (Stage::File(FileStage::Legacy(elsewhere)), Files::same(ending, 2))
}

const FILES: &[(Stage, Files)] = &[
    error(FileStage::NoBoundary, FAILED),
    error(FileStage::FormData, FAILED),
    error(FileStage::Compressed, FAILED),
    error(FileStage::OnePart, FAILED),
    file(FileStage::ThreeParts, Ending::cut_or(FAILED)),
    error(FileStage::EndsBeforeTheFile, FAILED),
    file(FileStage::EndsInTheFile, Ending::cut_or(FAILED)),
    file(FileStage::EndsInsideTheEnd, Ending::cut_or(FAILED)),
    file(FileStage::BreaksInTheFile, Ending::cut_or(FAILED)),
    file(FileStage::FewerThanAnnounced, Ending::cut_or(FAILED)),
    error(FileStage::StallsBeforeTheFile, TIMED_OUT),
    file(FileStage::StallsInTheFile, Ending::CutByTime),
    file(FileStage::Drips, Ending::CutByTime),
    error(FileStage::AnnouncedHuge, TOO_LARGE),
    file(FileStage::Endless, Ending::cut_or(TOO_LARGE)),
    (Stage::File(FileStage::NoPicture), Files { endings: [Ending::Whole, Ending::of(FAILED)], requests: 1 }),
    (Stage::Errcode(502, "M_TOO_LARGE"), Files::same(Ending::of(TOO_LARGE), 1)),
    (Stage::Errcode(413, "M_TOO_LARGE"), Files::same(Ending::of(TOO_LARGE), 1)),
    location(Else::TheFile, Ending::Whole),
    location(Else::Inside, Ending::of(FAILED)),
    location(Else::OneAddressInside, Ending::of(FAILED)),
    location(Else::OurOwnHost, Ending::of(FAILED)),
    location(Else::PlainHttp, Ending::of(FAILED)),
    location(Else::TheSameEndpoint, Ending::of(FAILED)),
    location(Else::Refuses, Ending::of(FAILED)),
    location(Else::ConnectSilent, Ending::of(TIMED_OUT)),
    location(Else::Silent, Ending::of(TIMED_OUT)),
    location(Else::Redirects(302), Ending::of(FAILED)),
    location(Else::Redirects(307), Ending::of(FAILED)),
    location(Else::Says(404, "M_NOT_FOUND"), Ending::of(FAILED)),
    location(Else::Says(404, "M_UNRECOGNIZED"), Ending::of(FAILED)),
    location(Else::Says(500, "M_UNKNOWN"), Ending::of(FAILED)),
    location(Else::Compressed, Ending::of(FAILED)),
    location(Else::AnnouncedHuge, Ending::of(TOO_LARGE)),
    location(Else::Stalls, Ending::CutByTime),
    location(Else::EndsEarly, Ending::cut_or(FAILED)),
    legacy(Else::TheFile, Ending::Whole),
    legacy(Else::Silent, Ending::of(TIMED_OUT)),
    legacy(Else::Redirects(302), Ending::of(FAILED)),
    legacy(Else::Redirects(307), Ending::of(FAILED)),
    legacy(Else::Says(404, "M_NOT_FOUND"), Ending::of(NO_FILE)),
    legacy(Else::Says(403, "M_FORBIDDEN"), Ending::of(FAILED)),
    legacy(Else::Says(429, "M_LIMIT_EXCEEDED"), Ending::of(FAILED)),
    legacy(Else::Says(500, "M_UNKNOWN"), Ending::of(FAILED)),
    legacy(Else::Says(502, "M_TOO_LARGE"), Ending::of(TOO_LARGE)),
    legacy(Else::Says(504, "M_NOT_YET_UPLOADED"), Ending::of(NOT_YET)),
    legacy(Else::Compressed, Ending::of(FAILED)),
    legacy(Else::AnnouncedHuge, Ending::of(TOO_LARGE)),
    legacy(Else::Stalls, Ending::CutByTime),
];
