//! [`PacedBody`]: an answer of the homeserver behind, on its way to a client. Nowhere is it held whole.
//!
//! The listener sees to a client that is slow. This sees to a homeserver that is: a body that stops, or drips, ends.

use std::future::Future as _;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use tokio::time::{Instant, Sleep};

use crate::admission::{ClientKey, Slot};
use crate::limits::{LEAST_READ_RATE, MEDIA_CHUNK_BYTES, READ_GRACE};
use crate::proxy::response_body::BodyCut;

/// A body with the slot it is passed on under.
///
/// Patience with the homeserver lasts ten seconds at first, shrinks while its next piece is waited for, and grows by what
/// each byte is worth at the least rate, up to those ten seconds. While the client is waited for no time passes.
pub(super) struct PacedBody<B> {
    body: Pin<Box<B>>,
    /// Free again once the last byte is here, whoever still has to take it.
    slot: Option<Slot<ClientKey>>,
    /// What is left of the latest piece: clients take no more at a time than is a small part of memory.
    piece: Bytes,
    patience: Duration,
    waiting: Option<(Instant, Pin<Box<Sleep>>)>,
    ended: bool,
}

impl<B: Body<Data = Bytes>> PacedBody<B> {
    pub(super) fn new(body: B, slot: Slot<ClientKey>) -> Self {
        Self {
            body: Box::pin(body),
            slot: Some(slot),
            piece: Bytes::new(),
            patience: READ_GRACE,
            waiting: None,
            ended: false,
        }
    }

    fn poll_piece(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Bytes, BodyCut>>> {
        loop {
            let Poll::Ready(frame) = self.body.as_mut().poll_frame(context) else {
                let patience = self.patience;
                let (_, end) = self.waiting.get_or_insert_with(|| {
                    let now = Instant::now();
                    (now, Box::pin(tokio::time::sleep(patience)))
                });
                ready!(end.as_mut().poll(context));
                return Poll::Ready(Some(Err(BodyCut)));
            };
            if let Some((since, _)) = self.waiting.take() {
                self.patience = self.patience.saturating_sub(since.elapsed());
            }
            match frame {
                None => return Poll::Ready(None),
                Some(Err(_)) => return Poll::Ready(Some(Err(BodyCut))),
                Some(Ok(frame)) => match frame.into_data() {
                    Ok(data) if !data.is_empty() => {
                        self.patience = self.patience.saturating_add(worth(data.len())).min(READ_GRACE);
                        return Poll::Ready(Some(Ok(data)));
                    }
                    // What follows a body is for one connection.
                    Ok(_) | Err(_) => {}
                },
            }
        }
    }

    fn end(&mut self) {
        self.ended = true;
        self.slot = None;
    }
}

/// How long so many bytes take at the least rate.
fn worth(bytes: usize) -> Duration {
    let nanos = u64::try_from(bytes).unwrap_or(u64::MAX).saturating_mul(1_000_000_000);
    Duration::from_nanos(nanos / u64::from(LEAST_READ_RATE.get()))
}

impl<B: Body<Data = Bytes>> Body for PacedBody<B> {
    type Data = Bytes;
    type Error = BodyCut;

    fn poll_frame(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BodyCut>>> {
        let this = self.get_mut();
        if this.piece.is_empty() {
            if this.ended {
                return Poll::Ready(None);
            }
            match ready!(this.poll_piece(context)) {
                Some(Ok(piece)) => this.piece = piece,
                Some(Err(cut)) => {
                    this.end();
                    return Poll::Ready(Some(Err(cut)));
                }
                None => {
                    this.end();
                    return Poll::Ready(None);
                }
            }
            if this.body.is_end_stream() {
                this.end();
            }
        }
        let now = this.piece.split_to(this.piece.len().min(MEDIA_CHUNK_BYTES));
        Poll::Ready(Some(Ok(Frame::data(now))))
    }

    fn is_end_stream(&self) -> bool {
        self.piece.is_empty() && (self.ended || self.body.is_end_stream())
    }

    fn size_hint(&self) -> SizeHint {
        if self.ended {
            return SizeHint::with_exact(u64::try_from(self.piece.len()).unwrap_or(u64::MAX));
        }
        let here = u64::try_from(self.piece.len()).unwrap_or(u64::MAX);
        let coming = self.body.size_hint();
        let mut hint = SizeHint::new();
        hint.set_lower(coming.lower().saturating_add(here));
        if let Some(upper) = coming.upper() {
            hint.set_upper(upper.saturating_add(here));
        }
        hint
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use futures_util::{StreamExt as _, stream};
    use http_body_util::{BodyExt as _, StreamBody};

    use super::*;
    use crate::admission::{InFlightBudget, InFlightCaps};

    const SECOND: Duration = Duration::from_secs(1);

    /// Pieces, each after so many seconds.
    fn drip(pieces: Vec<(u32, usize)>) -> impl Body<Data = Bytes, Error = Infallible> {
        StreamBody::new(stream::iter(pieces).then(|(after, bytes)| async move {
            tokio::time::sleep(SECOND * after).await;
            Ok(Frame::data(Bytes::from(vec![b'x'; bytes])))
        }))
    }

    async fn read(pieces: Vec<(u32, usize)>) -> (Result<usize, BodyCut>, Duration) {
        let budget = InFlightBudget::new(InFlightCaps { global: 1, per_key: 1 });
        let slot = budget.try_acquire(&ClientKey::shared()).unwrap();
        let (start, mut body) = (Instant::now(), PacedBody::new(drip(pieces), slot));
        let mut bytes = 0;
        let outcome = loop {
            match body.frame().await {
                None => break Ok(bytes),
                Some(Ok(frame)) => bytes += frame.into_data().unwrap().len(),
                Some(Err(cut)) => break Err(cut),
            }
        };
        assert_eq!(budget.in_flight(), 0, "the slot is free at the end, whoever still holds the body");
        drop(body);
        (outcome, start.elapsed())
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_that_stops_ends_after_ten_seconds_and_one_that_drips_soon() {
        assert_eq!(read(vec![(0, 100), (11, 1)]).await, (Err(BodyCut), 10 * SECOND));
        assert_eq!(read(vec![(9, 16 * 1024), (2, 1)]).await, (Ok(16 * 1024 + 1), 11 * SECOND));
        let drips = std::iter::repeat_n((3, 1), 1000).collect();
        let (outcome, took) = read(drips).await;
        assert_eq!(outcome, Err(BodyCut));
        assert!(took < 11 * SECOND, "{took:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn one_at_the_least_rate_goes_on() {
        let pieces = std::iter::repeat_n((4, 64 * 1024), 100).collect();
        assert_eq!(read(pieces).await, (Ok(100 * 64 * 1024), 400 * SECOND));
    }

    #[tokio::test(start_paused = true)]
    async fn time_the_client_takes_is_not_the_homeservers() {
        let budget = InFlightBudget::new(InFlightCaps { global: 1, per_key: 1 });
        let slot = budget.try_acquire(&ClientKey::shared()).unwrap();
        let mut body = PacedBody::new(drip(vec![(0, 10), (5, 10), (5, 10)]), slot);
        for _ in 0..3 {
            tokio::time::sleep(100 * SECOND).await;
            assert!(body.frame().await.unwrap().is_ok());
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_large_piece_is_handed_on_in_parts() {
        let budget = InFlightBudget::new(InFlightCaps { global: 1, per_key: 1 });
        let slot = budget.try_acquire(&ClientKey::shared()).unwrap();
        let mut body = PacedBody::new(drip(vec![(0, 150_000)]), slot);
        let mut sizes = Vec::new();
        while let Some(frame) = body.frame().await {
            sizes.push(frame.unwrap().into_data().unwrap().len());
        }
        assert_eq!(sizes, [65_536, 65_536, 18_928]);
    }

    #[test]
    fn dropping_it_frees_the_slot() {
        let budget = InFlightBudget::new(InFlightCaps { global: 1, per_key: 1 });
        let slot = budget.try_acquire(&ClientKey::shared()).unwrap();
        drop(PacedBody::new(http_body_util::Full::new(Bytes::from_static(b"x")), slot));
        assert_eq!(budget.in_flight(), 0);
    }
}
