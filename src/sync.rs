//! The locks and atomics of the build: `parking_lot` in use, `loom` or `shuttle` when a race is being looked for.
//!
//! Code that shares state takes its primitives from here, so that the very same code is what the checkers explore.

#[cfg(not(any(portcullis_loom, portcullis_shuttle)))]
mod chosen {
    pub(crate) use parking_lot::Mutex;
    pub(crate) use std::sync::Arc;
    pub(crate) use std::sync::atomic::{AtomicBool, Ordering};
}

#[cfg(portcullis_loom)]
mod chosen {
    pub(crate) use loom::sync::Arc;
    pub(crate) use loom::sync::atomic::{AtomicBool, Ordering};

    /// `loom`'s mutex with `parking_lot`'s face: a poisoned lock is simply taken.
    #[derive(Debug)]
    pub(crate) struct Mutex<T>(loom::sync::Mutex<T>);

    impl<T> Mutex<T> {
        pub(crate) fn new(value: T) -> Self {
            Self(loom::sync::Mutex::new(value))
        }

        pub(crate) fn lock(&self) -> loom::sync::MutexGuard<'_, T> {
            self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
        }

        #[cfg(feature = "gate")]
        pub(crate) fn get_mut(&mut self) -> &mut T {
            self.0.get_mut().unwrap_or_else(std::sync::PoisonError::into_inner)
        }
    }
}

#[cfg(portcullis_shuttle)]
mod chosen {
    pub(crate) use shuttle::sync::Arc;
    pub(crate) use shuttle::sync::atomic::{AtomicBool, Ordering};

    /// `shuttle`'s mutex with `parking_lot`'s face: a poisoned lock is simply taken.
    #[derive(Debug)]
    pub(crate) struct Mutex<T>(shuttle::sync::Mutex<T>);

    impl<T> Mutex<T> {
        pub(crate) fn new(value: T) -> Self {
            Self(shuttle::sync::Mutex::new(value))
        }

        pub(crate) fn lock(&self) -> shuttle::sync::MutexGuard<'_, T> {
            self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
        }

        #[cfg(feature = "gate")]
        pub(crate) fn get_mut(&mut self) -> &mut T {
            self.0.get_mut().unwrap_or_else(std::sync::PoisonError::into_inner)
        }
    }
}

pub(crate) use chosen::{Arc, AtomicBool, Mutex, Ordering};
