//! [`MediaEndpoint`]: the two places of another server where a file of it may be asked for.
//!
//! A type apart from [`Endpoint`](super::Endpoint): a call that was opened for a directory lookup cannot be given one.

use std::time::Duration;

use http::uri::PathAndQuery;
use percent_encoding::utf8_percent_encode;
use tokio::time::Instant;

use crate::admission::{MediaVariant, RemoteFile, Thumbnail};
use crate::deadline::OutboundDeadline;
use crate::limits::NOT_YET_UPLOADED_MARGIN;
use crate::outbound::endpoint::{RESERVED, with_query};

const FEDERATION: &str = "/_matrix/federation/v1/media";
const LEGACY: &str = "/_matrix/media/v3";

/// One file, or a thumbnail of it, as its server is asked for it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MediaEndpoint<'a> {
    pub(crate) file: &'a RemoteFile,
    pub(crate) variant: MediaVariant,
    /// How long the client would wait for an upload.
    pub(crate) patience: Duration,
}

impl MediaEndpoint<'_> {
    /// The signed request. It names no server: that one serves its own files only.
    pub(crate) fn federation(&self, deadline: OutboundDeadline, now: Instant) -> PathAndQuery {
        let path = format!("{FEDERATION}/{}/{}", self.kind(), self.file.media_id);
        self.with_parameters(&path, None, deadline, now)
    }

    /// The unsigned one of older servers. `allow_remote=false`: nobody else is to be asked on our behalf.
    pub(crate) fn legacy(&self, deadline: OutboundDeadline, now: Instant) -> PathAndQuery {
        let server = utf8_percent_encode(self.file.server.as_str(), RESERVED);
        let path = format!("{LEGACY}/{}/{server}/{}", self.kind(), self.file.media_id);
        self.with_parameters(&path, Some("false"), deadline, now)
    }

    fn kind(&self) -> &'static str {
        match self.variant {
            MediaVariant::Download => "download",
            MediaVariant::Thumbnail(_) => "thumbnail",
        }
    }

    fn with_parameters(
        &self,
        path: &str,
        allow_remote: Option<&str>,
        deadline: OutboundDeadline,
        now: Instant,
    ) -> PathAndQuery {
        let thumbnail = match self.variant {
            MediaVariant::Download => None,
            MediaVariant::Thumbnail(thumbnail) => Some(thumbnail),
        };
        let size = thumbnail.map(Thumbnail::size);
        let (width, height) = (size.map(|size| size.width.to_string()), size.map(|size| size.height.to_string()));
        let animated = thumbnail.map(|thumbnail| if thumbnail.animated() { "true" } else { "false" });
        let wait = self.wait(deadline, now).as_millis().to_string();
        let parameters = [
            ("allow_remote", allow_remote),
            ("width", width.as_deref()),
            ("height", height.as_deref()),
            ("method", size.map(|size| size.method.as_str())),
            ("animated", animated),
            ("timeout_ms", Some(wait.as_str())),
        ];
        #[expect(
            clippy::expect_used,
            reason = "a server name and a media id have at most 255 bytes each, and all that is left unencoded is unreserved"
        )]
        with_query(path, &parameters).expect("an encoded file fits")
    }

    /// How long the other server may wait for an upload, so that its answer still arrives.
    fn wait(&self, deadline: OutboundDeadline, now: Instant) -> Duration {
        let left = deadline.remaining(now).unwrap_or_default();
        self.patience.min(left.saturating_sub(NOT_YET_UPLOADED_MARGIN))
    }
}

#[cfg(test)]
mod tests {
    use ruma::api::Metadata;
    use ruma::api::federation::authenticated_media::{get_content, get_content_thumbnail};

    use super::*;
    use crate::admission::{ThumbnailMethod, ThumbnailSize};

    const SECOND: Duration = Duration::from_secs(1);

    fn file(server: &str) -> RemoteFile {
        RemoteFile { server: server.parse().unwrap(), media_id: "aZ09_-".parse().unwrap() }
    }

    fn thumbnail() -> MediaVariant {
        MediaVariant::Thumbnail(Thumbnail::no_smaller_than(
            ThumbnailSize { width: 96, height: 96, method: ThumbnailMethod::Crop },
            true,
        ))
    }

    #[tokio::test(start_paused = true)]
    async fn the_paths_are_those_of_the_specification() {
        let now = Instant::now();
        let deadline = OutboundDeadline::after(30 * SECOND, now);
        let file = file("alpha.example");
        for (variant, specified) in [
            (MediaVariant::Download, get_content::v1::Request::PATH_BUILDER.path()),
            (thumbnail(), get_content_thumbnail::v1::Request::PATH_BUILDER.path()),
        ] {
            let endpoint = MediaEndpoint { file: &file, variant, patience: SECOND };
            let (before, _) = specified.split_once('{').unwrap();
            assert_eq!(endpoint.federation(deadline, now).path(), format!("{before}aZ09_-"));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn x05_x06_every_segment_and_parameter_is_written_as_it_is_signed() {
        let now = Instant::now();
        let deadline = OutboundDeadline::after(30 * SECOND, now);
        let file = file("[2A0E:FADE:10::1]:8449");
        let endpoint = MediaEndpoint { file: &file, variant: thumbnail(), patience: 20 * SECOND };
        let parameters = "width=96&height=96&method=crop&animated=true&timeout_ms=20000";
        assert_eq!(
            endpoint.federation(deadline, now),
            &*format!("/_matrix/federation/v1/media/thumbnail/aZ09_-?{parameters}")
        );
        assert_eq!(
            endpoint.legacy(deadline, now),
            &*format!(
                "/_matrix/media/v3/thumbnail/%5B2A0E%3AFADE%3A10%3A%3A1%5D%3A8449/aZ09_-?allow_remote=false&{parameters}"
            )
        );
    }

    #[tokio::test(start_paused = true)]
    async fn the_other_server_gives_up_waiting_a_second_before_we_do() {
        let (now, file) = (Instant::now(), file("alpha.example"));
        for (left, patience, wait) in [(30, 20, 20), (30, 60, 29), (15, 20, 14), (30, 0, 0), (1, 20, 0), (0, 20, 0)] {
            let deadline = OutboundDeadline::after(left * SECOND, now);
            let endpoint = MediaEndpoint { file: &file, variant: MediaVariant::Download, patience: patience * SECOND };
            assert_eq!(
                endpoint.federation(deadline, now),
                &*format!("/_matrix/federation/v1/media/download/aZ09_-?timeout_ms={}", wait * 1000)
            );
        }
    }
}
