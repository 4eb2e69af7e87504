//! What is told of, how often, and what is never written.

use std::io::Write;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tracing::Dispatch;
use tracing::subscriber::NoSubscriber;

use super::*;
use crate::admission::Refusal;

const SECOND: Duration = Duration::from_secs(1);

/// With two of them each thread decides for itself what it hears.
static NOBODY: LazyLock<Dispatch> = LazyLock::new(|| Dispatch::new(NoSubscriber::new()));

/// Refuses while it is told to.
#[derive(Default)]
struct Refusing(AtomicBool);

impl Handler for Refusing {
    fn handle(&self, _: IpAddr, _: Request<Bytes>) -> BoxFuture<'static, Response<ResponseBody>> {
        let answer = if self.0.load(Ordering::SeqCst) {
            Refusal::ClientCap { retry_after: SECOND }.into_response().map(ResponseBody::from)
        } else {
            answer::json(http::StatusCode::OK, &"ok")
        };
        Box::pin(std::future::ready(answer))
    }
}

#[derive(Clone, Default)]
struct Written(Arc<Mutex<Vec<u8>>>);

impl Write for Written {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

struct Rig {
    watch: ProxyWatch<Refusing>,
    log: Dispatch,
    written: Written,
}

fn rig(refuses: bool) -> Rig {
    let written = Written::default();
    let into = written.clone();
    LazyLock::force(&NOBODY);
    let log = tracing_subscriber::fmt().with_ansi(false).with_writer(move || into.clone()).finish();
    let proxies = TrustedProxies::new(["10.0.0.0/8".parse().unwrap()]);
    let watch = ProxyWatch::over(Arc::new(Refusing(refuses.into())), proxies, Ipv6ClientPrefix::default());
    Rig { watch, log: Dispatch::new(log), written }
}

impl Rig {
    fn ask(&self, peer: &str, forwarded: Option<&str>) {
        let mut request = Request::get("/x");
        if let Some(forwarded) = forwarded {
            request = request.header("x-forwarded-for", forwarded);
        }
        let peer = peer.parse().unwrap();
        tracing::dispatcher::with_default(&self.log, || {
            let answer = self.watch.handle(peer, request.body(Bytes::new()).unwrap());
            futures_util::FutureExt::now_or_never(answer).unwrap()
        });
    }

    fn lines(&self) -> Vec<String> {
        String::from_utf8(self.written.0.lock().clone()).unwrap().lines().map(str::to_owned).collect()
    }
}

#[tokio::test(start_paused = true)]
async fn an_unlisted_peer_with_the_header_is_told_of_once_with_the_key_to_set() {
    let rig = rig(false);
    rig.ask("10.0.0.1", Some("203.0.113.7"));
    rig.ask("192.0.2.1", None);
    assert_eq!(rig.lines(), [""; 0]);
    for _ in 0..100 {
        rig.ask("192.0.2.1", Some("203.0.113.7, a stranger's \u{e9} words"));
    }
    let lines = rig.lines();
    assert_eq!(lines.len(), 1, "{lines:?}");
    assert!(lines[0].contains("WARN") && lines[0].contains("add \"192.0.2.1\" to trusted_proxies"), "{lines:?}");
    assert!(!lines[0].contains("203.0.113.7") && !lines[0].contains("stranger"), "{lines:?}");
}

#[tokio::test(start_paused = true)]
async fn a_crowd_of_strangers_with_the_header_is_a_few_lines_and_no_more() {
    let rig = rig(false);
    for n in 0..=255 {
        rig.ask(&format!("192.0.2.{n}"), Some("1.1.1.1"));
    }
    assert_eq!(rig.lines().len(), WATCH_LINES_AT_MOST);
    assert_eq!(rig.watch.signs.unlisted.lock().0.len(), WATCH_LINES_AT_MOST);
}

#[tokio::test(start_paused = true)]
async fn who_is_refused_thirty_times_a_minute_is_told_of_once_an_hour() {
    let rig = rig(true);
    for refusal in 1..STEADY_REFUSALS {
        rig.ask("192.0.2.1", None);
        assert_eq!(rig.lines().len(), 0, "{refusal}");
    }
    rig.ask("192.0.2.1", None);
    let lines = rig.lines();
    assert!(lines.len() == 1 && lines[0].contains("192.0.2.1 was refused 30 times within 60 s"), "{lines:?}");
    for _ in 0..59 {
        tokio::time::advance(60 * SECOND).await;
        for _ in 0..100 {
            rig.ask("192.0.2.1", None);
            rig.ask("192.0.2.2", None);
        }
    }
    assert_eq!(rig.lines().len(), 1);
    tokio::time::advance(60 * SECOND).await;
    for _ in 0..STEADY_REFUSALS {
        rig.ask("192.0.2.2", None);
    }
    assert_eq!(rig.lines().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn who_is_refused_now_and_then_or_is_answered_is_not_told_of() {
    let seldom = rig(true);
    for _ in 0..10 {
        for _ in 1..STEADY_REFUSALS {
            seldom.ask("192.0.2.1", None);
        }
        tokio::time::advance(STEADY_REFUSALS_WITHIN).await;
    }
    // Two clients of one proxy are two, each below.
    for n in 1..STEADY_REFUSALS {
        seldom.ask("10.0.0.1", Some(if n % 2 == 0 { "203.0.113.1" } else { "203.0.113.2" }));
    }
    let answered = rig(false);
    for _ in 0..1000 {
        answered.ask("192.0.2.1", None);
    }
    assert_eq!((seldom.lines().len(), answered.lines().len()), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn a_crowd_that_is_refused_costs_a_bounded_table_and_does_not_hide_the_steady_one() {
    let mut refused = SteadyRefusals::default();
    let now = Instant::now();
    let client = |n: u32| ClientKey::vouched(std::net::Ipv4Addr::from(n).into(), Ipv6ClientPrefix::default());
    let mut told = 0;
    for n in 0..10_000 {
        told += usize::from(refused.is_news(client(n + 1), now));
        assert!(refused.counts.len() <= WATCHED_CLIENTS);
        // The steady one, from the second of its refusals on, is never the least.
        if n % 50 < 2 {
            told += usize::from(refused.is_news(client(0), now));
        }
    }
    assert_eq!(told, 1);
}
