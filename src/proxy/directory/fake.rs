//! A remote that answers from a script and keeps count.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use super::{BoxFuture, CallError, DirectoryCall, Endpoint, RemoteDirectory, RemoteReply};
use crate::admission::Admitted;
use crate::outbound::error::{CallFailure, CallPhase};
use crate::sync::Mutex;

/// What the remote does with one request.
#[derive(Clone, Debug)]
pub(crate) enum Does {
    /// Answers.
    Say(u16, String),
    /// Answers after a while.
    SayAfter(Duration, u16, String),
    /// Stays silent; the call ends by its own deadline, as a real one does.
    StaySilent,
    /// Cannot be reached.
    Fail,
    /// Blocks its thread, so that no deadline can cut it.
    BlockUntil(Arc<AtomicBool>),
    /// The call panics.
    Panic,
}

#[derive(Clone)]
pub(crate) struct FakeRemote(Arc<Shared>);

struct Shared {
    script: Box<dyn Fn(&Endpoint) -> Does + Send + Sync>,
    opened: AtomicUsize,
    sent: Mutex<Vec<Endpoint>>,
}

struct FakeCall {
    remote: FakeRemote,
    pass: Admitted,
}

impl FakeRemote {
    pub(crate) fn new(script: impl Fn(&Endpoint) -> Does + Send + Sync + 'static) -> Self {
        Self(Arc::new(Shared { script: Box::new(script), opened: AtomicUsize::new(0), sent: Mutex::new(Vec::new()) }))
    }

    pub(crate) fn saying(status: u16, body: &str) -> Self {
        let body = body.to_owned();
        Self::new(move |_| Does::Say(status, body.clone()))
    }

    /// How many calls were opened.
    pub(crate) fn opened(&self) -> usize {
        self.0.opened.load(Ordering::SeqCst)
    }

    /// Every request sent, in order.
    pub(crate) fn sent(&self) -> Vec<Endpoint> {
        self.0.sent.lock().clone()
    }

    /// The requests sent, as `METHOD path?query`.
    pub(crate) fn lines(&self) -> Vec<String> {
        self.sent().iter().map(|endpoint| format!("{} {}", endpoint.method, endpoint.path_and_query)).collect()
    }
}

impl RemoteDirectory for FakeRemote {
    fn open(&self, pass: Admitted) -> Box<dyn DirectoryCall> {
        self.0.opened.fetch_add(1, Ordering::SeqCst);
        Box::new(FakeCall { remote: self.clone(), pass })
    }
}

impl DirectoryCall for FakeCall {
    fn base_url(&mut self) -> BoxFuture<'_, Result<String, CallError>> {
        let server = self.pass.destination();
        let base_url = format!("https://{}:{}", server.host(), server.port_or_default());
        Box::pin(std::future::ready(Ok(base_url)))
    }

    fn request<'a>(&'a mut self, endpoint: &'a Endpoint) -> BoxFuture<'a, Result<RemoteReply, CallError>> {
        self.remote.0.sent.lock().push(endpoint.clone());
        let does = (self.remote.0.script)(endpoint);
        Box::pin(async move {
            let say = |status: u16, body: String| RemoteReply { status: status.try_into().unwrap(), body: body.into() };
            let out_of_time = CallError { phase: CallPhase::Send, failure: CallFailure::Exchange, timed_out: true };
            match does {
                Does::Say(status, body) => Ok(say(status, body)),
                Does::SayAfter(delay, status, body) => {
                    let work = tokio::time::sleep(delay);
                    self.pass.deadline().cut(work).await.map_err(|_| out_of_time)?;
                    Ok(say(status, body))
                }
                Does::StaySilent => {
                    let outcome = self.pass.deadline().cut(std::future::pending()).await;
                    outcome.unwrap_or(Err(out_of_time))
                }
                Does::Fail => {
                    Err(CallError { phase: CallPhase::Connect, failure: CallFailure::Exchange, timed_out: false })
                }
                Does::BlockUntil(let_go) => {
                    while !let_go.load(Ordering::SeqCst) {
                        std::thread::park_timeout(Duration::from_millis(1));
                    }
                    Err(out_of_time)
                }
                Does::Panic => panic!("inside the call"),
            }
        })
    }
}
