//! [`MediaAsk`]: what is kept of a client's request while its file is on the way.

use http::header::{IF_NONE_MATCH, IF_RANGE, RANGE};
use http::{HeaderValue, Method, Request};

use crate::admission::MediaRoute;

/// A request for a file: its route, and the headers that decide about the answer's form.
#[derive(Clone, Debug)]
pub(crate) struct MediaAsk {
    /// The file, and how it is asked for.
    pub(crate) route: MediaRoute,
    /// `Range`.
    pub(crate) range: Option<HeaderValue>,
    /// `If-None-Match`.
    pub(crate) if_none_match: Option<HeaderValue>,
    /// `If-Range`.
    pub(crate) if_range: Option<HeaderValue>,
    /// Whether the head alone is wanted.
    pub(crate) head: bool,
}

impl MediaAsk {
    /// What is kept of `request`, whose route is `route`.
    pub(crate) fn new<T>(route: MediaRoute, request: &Request<T>) -> Self {
        let header = |name| request.headers().get(name).cloned();
        Self {
            route,
            range: header(RANGE),
            if_none_match: header(IF_NONE_MATCH),
            if_range: header(IF_RANGE),
            head: *request.method() == Method::HEAD,
        }
    }
}
