//! [`UnsentBytes`]: how much memory answers may hold that their clients have not read, and [`AnswerBody`], which holds it.
//!
//! The bytes of an answer carry what they hold. So it is given back when the last of them has gone to the system, or when
//! the connection ends, whatever the HTTP library does with them in between.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::limits::ListenerLimits;
use super::outgoing::Outgoing;
use super::standing::Unread;
use crate::admission::{ClientKey, InFlightBudget, InFlightCaps, Slot};
use crate::proxy::response_body::{BodyCut, ResponseBody};

/// An answer up to this size is not counted: it costs no more than the connection and its head do.
pub(super) const SMALL_ANSWER_BYTES: u64 = 16 * 1024;

/// The bytes of all answers that are not sent yet.
///
/// Always: at most as many as it was made for, and of one client at most so many answers; small ones aside, and streamed
/// ones, of which each connection holds a piece or two (`of_a_streamed_answer_a_piece_or_two_are_held`).
#[derive(Debug)]
pub(super) struct UnsentBytes {
    left: Arc<Semaphore>,
    of_clients: InFlightBudget<ClientKey>,
}

/// An answer's share. Dropping it gives it back.
#[derive(Debug)]
pub(super) struct Reserved {
    _bytes: Option<OwnedSemaphorePermit>,
    _of_client: Option<Slot<ClientKey>>,
}

impl UnsentBytes {
    /// Room for what `limits` allow. Every answer is on a connection, so there are no more of them than of those.
    pub(super) fn new(limits: &ListenerLimits) -> Self {
        let bytes = limits.max_unsent_bytes.min(Semaphore::MAX_PERMITS);
        let of_clients = InFlightBudget::new(InFlightCaps {
            global: limits.max_connections,
            per_key: limits.max_unsent_answers_per_client,
        });
        Self { left: Arc::new(Semaphore::new(bytes)), of_clients }
    }

    /// Room for `body` on its way to `client`, or to somebody who speaks for many; `None` if there is none.
    pub(super) fn reserve(&self, client: Option<&ClientKey>, body: &ResponseBody) -> Option<Reserved> {
        if body.is_streamed() {
            return Some(Reserved::nothing());
        }
        let bytes = body.size_hint().exact()?;
        if bytes <= SMALL_ANSWER_BYTES {
            return Some(Reserved::nothing());
        }
        let permits = Arc::clone(&self.left).try_acquire_many_owned(u32::try_from(bytes).ok()?).ok()?;
        let of_client = client.map(|client| self.of_clients.try_acquire(client)).transpose().ok()?;
        Some(Reserved { _bytes: Some(permits), _of_client: of_client })
    }
}

impl Reserved {
    /// What a small answer takes, or one that is streamed.
    pub(super) fn nothing() -> Self {
        Self { _bytes: None, _of_client: None }
    }
}

/// A body whose bytes hold their share, and count as unread.
pub(super) struct AnswerBody {
    bytes: ResponseBody,
    held: Arc<Held>,
    outgoing: Arc<Outgoing>,
}

struct Held {
    _reserved: Reserved,
    _unread: Unread,
}

struct HeldBytes {
    bytes: Bytes,
    _held: Arc<Held>,
}

impl AnswerBody {
    pub(super) fn new(bytes: ResponseBody, reserved: Reserved, unread: Unread, outgoing: Arc<Outgoing>) -> Self {
        Self { bytes, held: Arc::new(Held { _reserved: reserved, _unread: unread }), outgoing }
    }
}

impl AsRef<[u8]> for HeldBytes {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Body for AnswerBody {
    type Data = Bytes;
    type Error = BodyCut;

    fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BodyCut>>> {
        let frame = ready!(Pin::new(&mut self.bytes).poll_frame(context));
        if let Some(Err(BodyCut)) = frame {
            self.outgoing.cut();
        }
        Poll::Ready(frame.map(|frame| {
            frame.map(|frame| {
                frame.map_data(|bytes| Bytes::from_owner(HeldBytes { bytes, _held: Arc::clone(&self.held) }))
            })
        }))
    }

    fn is_end_stream(&self) -> bool {
        self.bytes.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.bytes.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt as _;

    use super::*;
    use crate::homeserver::listener::answer_clock::AnswerKind;
    use crate::homeserver::listener::standing::Standings;

    fn limits(max_unsent_bytes: usize) -> ListenerLimits {
        ListenerLimits { max_unsent_bytes, max_unsent_answers_per_client: 2, ..ListenerLimits::default() }
    }

    fn body(bytes: usize) -> ResponseBody {
        ResponseBody::from(Bytes::from(vec![b'x'; bytes]))
    }

    #[test]
    fn what_does_not_fit_is_refused_until_room_is_given_back() {
        let unsent = UnsentBytes::new(&limits(100_000));
        let first = unsent.reserve(None, &body(60_000)).unwrap();
        assert!(unsent.reserve(None, &body(40_001)).is_none());
        let second = unsent.reserve(None, &body(40_000)).unwrap();
        assert!(unsent.reserve(None, &body(16 * 1024 + 1)).is_none());
        assert!(unsent.reserve(None, &body(16 * 1024)).is_some(), "small ones always fit");
        drop((first, second));
        assert!(unsent.reserve(None, &body(100_000)).is_some());
        assert!(unsent.reserve(None, &body(100_001)).is_none(), "larger than all there is");
    }

    #[test]
    fn a_streamed_body_takes_no_room_whatever_its_length() {
        let unsent = UnsentBytes::new(&limits(0));
        for length in [None, Some(50 << 20)] {
            assert!(unsent.reserve(None, &ResponseBody::streamed(Endless { length })).is_some(), "{length:?}");
        }
    }

    struct Endless {
        length: Option<u64>,
    }

    impl Body for Endless {
        type Data = Bytes;
        type Error = BodyCut;

        fn poll_frame(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BodyCut>>> {
            Poll::Pending
        }

        fn size_hint(&self) -> SizeHint {
            self.length.map_or_else(SizeHint::new, SizeHint::with_exact)
        }
    }

    #[tokio::test]
    async fn the_bytes_hold_their_room_to_the_last_of_them() {
        let unsent = UnsentBytes::new(&limits(50_000));
        let reserved = unsent.reserve(None, &body(50_000)).unwrap();
        let standing = Arc::new(Standings::default()).join();
        let unread = standing.begin().unwrap().answered(AnswerKind::Whole);
        let mut answer = AnswerBody::new(body(50_000), reserved, unread, Arc::new(Outgoing::new(standing)));
        let mut bytes = answer.frame().await.unwrap().unwrap().into_data().unwrap();
        drop(answer);
        let last = bytes.split_off(49_999);
        drop(bytes);
        assert!(unsent.reserve(None, &body(20_000)).is_none(), "one byte is not sent yet");
        drop(last);
        assert!(unsent.reserve(None, &body(20_000)).is_some());
    }
}
