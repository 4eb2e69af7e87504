//! The gate's clock: time since the gate was made, and a timer on it.
//!
//! Under the race checkers there is no runtime and no time: the clock stands still until a test moves it on.

use std::time::Duration;

#[cfg(not(any(portcullis_loom, portcullis_shuttle)))]
mod chosen {
    use std::future::Future;
    use std::pin::Pin;
    use std::task::{Context, Poll};

    use tokio::time::{Instant, Sleep};

    use super::Duration;

    #[derive(Debug)]
    pub(in crate::gate) struct Clock {
        start: Instant,
    }

    impl Clock {
        pub(in crate::gate) fn start() -> Self {
            Self { start: Instant::now() }
        }

        #[inline]
        pub(in crate::gate) fn now(&self) -> Duration {
            Instant::now().saturating_duration_since(self.start)
        }

        /// A timer that is over at `end`; one the clock cannot hold is never over.
        pub(in crate::gate) fn timer(&self, end: Duration) -> Timer {
            let sleep = self.start.checked_add(end).map(|end| Box::pin(tokio::time::sleep_until(end)));
            Timer { end, sleep }
        }
    }

    #[derive(Debug)]
    pub(in crate::gate) struct Timer {
        pub(in crate::gate) end: Duration,
        sleep: Option<Pin<Box<Sleep>>>,
    }

    impl Timer {
        pub(in crate::gate) fn poll(&mut self, context: &mut Context<'_>) -> Poll<()> {
            self.sleep.as_mut().map_or(Poll::Pending, |sleep| sleep.as_mut().poll(context))
        }
    }
}

#[cfg(any(portcullis_loom, portcullis_shuttle))]
mod chosen {
    use std::task::{Context, Poll};

    use super::Duration;
    use crate::sync::Mutex;

    #[derive(Debug)]
    pub(in crate::gate) struct Clock {
        now: Mutex<Duration>,
    }

    impl Clock {
        pub(in crate::gate) fn start() -> Self {
            Self { now: Mutex::new(Duration::ZERO) }
        }

        pub(in crate::gate) fn now(&self) -> Duration {
            *self.now.lock()
        }

        pub(in crate::gate) fn set(&self, to: Duration) {
            let mut now = self.now.lock();
            *now = to.max(*now);
        }

        #[expect(clippy::unused_self, reason = "the real clock needs it")]
        pub(in crate::gate) fn timer(&self, end: Duration) -> Timer {
            Timer { end }
        }
    }

    #[derive(Debug)]
    pub(in crate::gate) struct Timer {
        pub(in crate::gate) end: Duration,
    }

    impl Timer {
        #[expect(clippy::unused_self, reason = "the real timer needs it")]
        pub(in crate::gate) fn poll(&mut self, _: &mut Context<'_>) -> Poll<()> {
            Poll::Pending
        }
    }
}

pub(super) use chosen::{Clock, Timer};
