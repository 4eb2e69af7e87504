//! The status page in a browser: what it shows, what it says when nobody answers, and that no stranger's script runs in it.

use std::env;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use http::{HeaderValue, Request, Response};
use http_body_util::BodyExt as _;
use portcullis::gate::{BreakerState, HomeserverGate, Permit};
use portcullis::homeserver::admin::Admin;
use portcullis::homeserver::listener::{Handler, Listener, ListenerLimits};
use portcullis::outbound::BoxFuture;
use portcullis::status::Status;
use portcullis::{Admitted, ClientKey, Ipv6ClientPrefix, OutboundRoute, Outcome, Overload, ResponseBody};
use tokio::sync::Notify;
use tokio::task::JoinHandle;

use crate::chromium::Chromium;
use crate::loopback::{ask, client, get};
use crate::rig::Rig;
use crate::serve::Serving;
use crate::support::{Behaviour, SentFile, json_answer, until};

/// On the browser's clock: the first figures are there, and those after them.
const A_WHILE_MS: u32 = 4_000;

const HOSTILE: &str = "<img src=x onerror=\"document.title='owned'\"><script>document.title='owned'</script>.example";

/// What is to end with the test.
struct Busy {
    _lookups: JoinHandle<()>,
    _slot: Admitted,
    _permits: Vec<Permit>,
    _waiter: JoinHandle<Permit>,
}

/// A homeserver in the middle of its day: some servers answer, some do not, and its gates are in different moods.
async fn busy(rig: &Rig) -> Busy {
    let rooms = |server: &str| format!("/_matrix/client/v3/publicRooms?server={server}");
    let answers = || Behaviour::answers(|_| json_answer(200, r#"{"chunk":[]}"#));
    let portcullis = &rig.home.portcullis;
    let mut peers = Vec::new();
    for name in ["matrix.example.org", "chat.example.net", "a-rather-long-name-of-a-server.federation.example.com"] {
        let (peer, server) = rig.world.peer(name, answers()).await;
        peers.push(peer);
        for limit in 1..4 {
            let path = format!("{}&limit={limit}", rooms(&server));
            assert_eq!(ask(portcullis, client(1), &get(&path)).await.status, 200);
        }
    }
    assert_eq!(ask(portcullis, client(2), &get(&rooms("gone.example"))).await.status, 502);
    let no_signature = || Behaviour::answers(|_| json_answer(401, r#"{"errcode":"M_UNAUTHORIZED"}"#));
    let (peer, strict) = rig.world.peer("strict.example", no_signature()).await;
    peers.push(peer);
    assert_eq!(ask(portcullis, client(2), &get(&rooms(&strict))).await.status, 502);
    let (silent_peer, silent) = rig.world.peer("silent.example", Behaviour::TlsSilent).await;
    assert_eq!(ask(portcullis, client(3), &get(&rooms(&silent))).await.status, 504);
    let bytes = vec![7; 200_000];
    let picture = move |_: &_| SentFile::png(&bytes).answer();
    let (files_peer, files) = rig.world.peer("media.example.org", Behaviour::answers(picture)).await;
    for id in ["a", "b", "c"] {
        let file = format!("/_matrix/client/v1/media/download/{files}/{id}");
        assert_eq!(rig.home.ask(client(4), &file).await.status, 200);
    }
    let lookups = {
        let (portcullis, path) = (Arc::clone(portcullis), rooms(&silent));
        tokio::spawn(async move {
            let _peers = (peers, silent_peer, files_peer);
            // One after the other, so that there is almost always one out.
            loop {
                ask(&portcullis, client(3), &get(&path)).await;
            }
        })
    };
    let slot = {
        let request = get(&rooms("held.example"));
        let route = OutboundRoute::classify(request.method(), request.uri()).unwrap().unwrap();
        portcullis.admission().admit(&ClientKey::vouched(client(5), Ipv6ClientPrefix::default()), route).unwrap()
    };
    for _ in 0..3 {
        assert_eq!(ask(portcullis, client(5), &get(&rooms("gone.example"))).await.status, 429);
    }

    let struggling = rig.gate("https://hs.example.org");
    struggling.acquire().await.finish(Outcome::timeout());
    let waiting = struggling.clone();
    let waiter = tokio::spawn(async move { waiting.acquire().await });
    until("callers at the gate", 1, || struggling.status().waiting).await;
    let down = rig.gate("https://down.example.org:8448");
    open(&down).await;
    let healthy = rig.gate("https://ok.example.net");
    let permits = vec![healthy.acquire().await];
    Busy { _lookups: lookups, _slot: slot, _permits: permits, _waiter: waiter }
}

/// Fails until the breaker opens.
async fn open(gate: &HomeserverGate) {
    for _ in 0..16 {
        if gate.status().breaker.state == BreakerState::Open {
            return;
        }
        gate.acquire().await.finish(Outcome::overloaded(Overload::Transport));
    }
    panic!("{:?}", gate.status());
}

fn page_of(address: SocketAddr) -> String {
    format!("http://{address}/")
}

/// Everything between two tags of the part `id`, without the tags inside.
fn text_of(dom: &str, id: &str) -> String {
    let after = dom.split_once(&format!("id=\"{id}\"")).unwrap_or_else(|| panic!("no {id} in {dom}")).1;
    let part = after.split("</section>").next().unwrap();
    let mut text = String::new();
    for piece in part.split('<') {
        text.push_str(piece.split_once('>').map_or("", |(_, text)| text));
        text.push(' ');
    }
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_person_sees_slots_gates_servers_and_calls() {
    let Some(chromium) = Chromium::find().await else { return };
    let rig = Rig::start().await;
    let _busy = busy(&rig).await;
    let url = page_of(rig.address);
    if let Some(file) = env::var_os("PORTCULLIS_SCREENSHOT") {
        chromium.screenshot(&url, A_WHILE_MS, Path::new(&file), &["--window-size=1180,1700"]).await;
    }
    let dom = chromium.dom(&url, A_WHILE_MS, &[]).await;
    assert!(dom.contains("<title>portcullis hs.self.example</title>"), "{dom}");
    assert!(dom.contains("live, every 1.5 s") && dom.contains("id=\"trouble\" role=\"alert\" hidden"), "{dom}");

    let slots = text_of(&dom, "slots");
    let held = ["1", "2"].into_iter().find(|held| slots.contains(&format!("Lookups in use {held} of 4 slots")));
    let held = held.unwrap_or_else(|| panic!("{slots}"));
    assert!(slots.contains("refused: client had its share 3"), "{slots}");
    assert!(slots.contains("Request threads in use 1 of 8 busy"), "{slots}");
    assert!(slots.contains("refused: off, or not wanted 0"), "{slots}");
    assert!(slots.contains("Media store in use") && slots.contains("files 3"), "{slots}");
    assert!(slots.contains("Long answers at rest 0 of 448 connections"), "{slots}");
    for bar in ["Lookups: slots", "Files: slots", "Request threads: busy", "Long answers: connections"] {
        assert!(dom.contains(&format!("role=\"meter\" aria-label=\"{bar}\"")), "{bar}");
    }
    let width = if held == "1" { 25 } else { 50 };
    let bar = format!("aria-valuemax=\"4\" aria-valuenow=\"{held}\"><div style=\"width: {width}%;\">");
    assert!(dom.contains(&bar), "{bar}: {dom}");

    let gates = text_of(&dom, "gates");
    let down =
        gates.find("https://down.example.org:8448 ✕ open nothing goes out since").unwrap_or_else(|| panic!("{gates}"));
    let struggling = gates.find("https://hs.example.org:443 ✓ closed").unwrap_or_else(|| panic!("{gates}"));
    let healthy = gates.find("https://ok.example.net:443 ✓ closed").unwrap_or_else(|| panic!("{gates}"));
    assert!(down < struggling && struggling < healthy, "the worst comes first: {gates}");
    let (down, rest) = gates[down..].split_once("https://hs.example.org").unwrap();
    assert!(down.contains("the open period ends, and one probe goes out"), "{down}");
    assert!(rest.contains("0 out, 1 held, limit 1") && rest.contains("1 background the first for "), "{rest}");
    assert!(rest.contains("a held slot is free then"), "{rest}");
    // A hold lasts a quarter of an hour, and some of it is over.
    assert!((10..=15).any(|minutes| rest.contains(&format!("in {minutes}:"))), "{rest}");
    assert!(rest.contains("1 out, 0 held, limit 2") && rest.contains("at once a slot is free"), "{rest}");

    let servers = text_of(&dom, "destinations");
    let of = |name: &str| servers.find(name).unwrap_or_else(|| panic!("no {name}: {servers}"));
    assert!(
        of("silent.example") < of("matrix.example.org") && of("gone.example") < of("chat.example.net"),
        "{servers}"
    );
    assert!(
        servers.contains("✕ timed out") && servers.contains("✕ failed") && servers.contains("✓ answered"),
        "{servers}"
    );
    assert!(servers.contains("files 0 3 0 0"), "{servers}");
    assert!(servers.contains("answer: unexpected-status 401"), "{servers}");
    let calls = text_of(&dom, "calls");
    assert!(calls.contains("Lookups 9 ") && calls.contains("95 % took at most Longest"), "{calls}");
    // The time-outs, and not the next step: that is two seconds later.
    let lookups: Vec<_> = calls.split_once(" Files").unwrap().0.split(' ').rev().take(4).collect();
    assert_eq!(lookups[..2], lookups[2..], "95 % and the longest: {calls}");
}

/// The names a browser is shown here pass no grammar of ours: the page has to be safe by itself.
fn with_hostile_names(mut status: Status) -> Status {
    status.server_name = HOSTILE.to_owned();
    for server in status.destinations.directory.iter_mut().chain(&mut status.destinations.media) {
        server.server = HOSTILE.to_owned();
    }
    status
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hostile_name_is_text_and_no_script_of_its_runs() {
    let Some(chromium) = Chromium::find().await else { return };
    let rig = Rig::showing(with_hostile_names).await;
    let path = "/_matrix/client/v3/publicRooms?server=gone.example";
    assert_eq!(ask(&rig.home.portcullis, client(1), &get(path)).await.status, 502);
    let shown = "&lt;img src=x onerror=\"document.title='owned'\"&gt;&lt;script&gt;document.title='owned'&lt;/script&gt;.example";
    let dom = chromium.dom(&page_of(rig.address), A_WHILE_MS, &[]).await;
    assert!(!dom.contains("<img") && !dom.contains("<title>owned"), "{dom}");
    assert_eq!(dom.matches("<script").count(), 1, "ours alone: {dom}");
    assert!(dom.contains(&format!("<span id=\"server\">{shown}</span>")), "{dom}");
    assert!(dom.contains(&format!("<th scope=\"row\">{shown}</th>")), "{dom}");
    // What is shown where scripts are off is made elsewhere.
    let sent = rig.get("/").await.body;
    assert!(
        !sent.contains("<img") && sent.contains("  &lt;img src=x onerror=&quot;document.title=&#39;owned"),
        "{sent}"
    );
    assert!(sent.contains("servers asked lately for lookups: 1"), "{sent}");
}

/// One server holds every slot and no call to it has ended.
fn with_one_that_holds_all(mut status: Status) -> Status {
    let rows = &mut status.destinations.directory;
    if let Some(row) = rows.iter_mut().find(|row| row.server.starts_with("holder.")) {
        (row.in_flight, row.counts, row.mean_ms, row.slowest_ms, row.last) = (8, Default::default(), 0, 0, None);
    }
    status
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_holds_the_slots_comes_first_however_many_names_are_dead() {
    let Some(chromium) = Chromium::find().await else { return };
    let rig = Rig::showing(with_one_that_holds_all).await;
    let rooms = |server: &str| format!("/_matrix/client/v3/publicRooms?server={server}");
    let (_peer, answers) =
        rig.world.peer("answers.example", Behaviour::answers(|_| json_answer(200, r#"{"chunk":[]}"#))).await;
    assert_eq!(ask(&rig.home.portcullis, client(1), &get(&rooms(&answers))).await.status, 200);
    let dead: Vec<_> = (10..23).map(|number| format!("dead-{number}.example")).collect();
    for name in dead.iter().map(String::as_str).chain(["holder.example"]) {
        assert_eq!(ask(&rig.home.portcullis, client(1), &get(&rooms(name))).await.status, 502);
    }
    let dom = chromium.dom(&page_of(rig.address), A_WHILE_MS, &[]).await;
    let servers = text_of(&dom, "destinations");
    let heads = "Server Asked for Out now Answered Timed out Failed Mean Slowest Latest";
    let rows = servers.split_once(heads).unwrap_or_else(|| panic!("{servers}")).1;
    assert!(rows.starts_with(" holder.example lookups 8 0 0 0 – – still out dead-"), "{servers}");
    assert!(servers.ends_with("3 more are in the figures as JSON."), "{servers}");
    assert!(!servers.contains("answers.example"), "{servers}");
    // Where scripts are off: the same order, whole.
    let sent = rig.get("/").await.body;
    let shown = sent.split_once("servers asked lately for lookups: 15\n").unwrap_or_else(|| panic!("{sent}")).1;
    let lines: Vec<_> = shown.lines().take(15).collect();
    assert_eq!(lines[0], "  holder.example: 8 out, 0 answered, 0 timed out, 0 failed, mean –, slowest –");
    assert!(lines[1..14].iter().all(|line| line.starts_with("  dead-")), "{shown}");
    assert!(lines[14].starts_with(&format!("  {answers}: 0 out, 1 answered, ")), "{shown}");
    // The figures are by name.
    let figures: serde_json::Value = serde_json::from_str(&rig.get("/v1/status").await.body).unwrap();
    let names: Vec<_> = figures["destinations"]["directory"]
        .as_array()
        .unwrap()
        .iter()
        .map(|row| row["server"].as_str().unwrap())
        .collect();
    assert!(names.is_sorted() && names.len() == 15, "{names:?}");
}

/// More servers hold slots than the page has rows for others.
fn with_calls_out_everywhere(mut status: Status) -> Status {
    for row in status.destinations.directory.iter_mut().filter(|row| row.server.starts_with("held-")) {
        row.in_flight = 1;
    }
    status
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nobody_who_holds_a_slot_is_left_out() {
    let Some(chromium) = Chromium::find().await else { return };
    let rig = Rig::showing(with_calls_out_everywhere).await;
    for name in (10..24).map(|number| format!("held-{number}.example")).chain(["dead.example".to_owned()]) {
        let path = format!("/_matrix/client/v3/publicRooms?server={name}");
        assert_eq!(ask(&rig.home.portcullis, client(1), &get(&path)).await.status, 502);
    }
    let servers = text_of(&chromium.dom(&page_of(rig.address), A_WHILE_MS, &[]).await, "destinations");
    assert_eq!(servers.matches(" held-").count(), 14, "{servers}");
    assert!(!servers.contains("dead.example") && servers.ends_with("1 more are in the figures as JSON."), "{servers}");
}

/// The page with a script inside that is not ours.
struct Tampered {
    admin: Arc<Admin>,
    keeps_policy: bool,
}

impl Handler for Tampered {
    fn handle(&self, peer: IpAddr, request: Request<Bytes>) -> BoxFuture<'static, Response<ResponseBody>> {
        let (is_page, keeps_policy) = (request.uri().path() == "/", self.keeps_policy);
        let answer = self.admin.handle(peer, request);
        Box::pin(async move {
            let (mut head, body) = answer.await.into_parts();
            let mut bytes = body.collect().await.unwrap().to_bytes().to_vec();
            if is_page {
                bytes.extend_from_slice(b"<script>document.body.id = 'owned'</script>");
            }
            if !keeps_policy {
                head.headers.insert("content-security-policy", HeaderValue::from_static("base-uri 'none'"));
            }
            Response::from_parts(head, ResponseBody::from(Bytes::from(bytes)))
        })
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn even_markup_that_got_into_the_page_runs_no_script() {
    let Some(chromium) = Chromium::find().await else { return };
    let rig = Rig::start().await;
    let mut owned = Vec::new();
    for keeps_policy in [true, false] {
        let listener = Listener::bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let url = page_of(listener.local_addr());
        let handler = Arc::new(Tampered { admin: Arc::clone(&rig.admin), keeps_policy });
        let serving = tokio::spawn(listener.serve(handler, ListenerLimits::default(), std::future::pending()));
        let dom = chromium.dom(&url, A_WHILE_MS, &[]).await;
        assert!(text_of(&dom, "slots").contains("Lookups at rest 0 of 4"), "ours runs: {dom}");
        owned.push(dom.contains("<body id=\"owned\""));
        serving.abort();
    }
    assert_eq!(owned, [false, true], "with the policy, and without");
}

/// The page itself, and the figures twice.
const ANSWERS: usize = 3;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_stopped_answering_is_not_mistaken_for_a_quiet_one() {
    let Some(chromium) = Chromium::find().await else { return };
    let (asked, enough) = (AtomicUsize::new(0), Arc::new(Notify::new()));
    let notified = Arc::clone(&enough);
    let rig = Rig::showing(move |status| {
        if asked.fetch_add(1, Ordering::Relaxed) >= ANSWERS {
            notified.notify_one();
        }
        status
    })
    .await;
    let url = page_of(rig.address);
    let looking = chromium.dom(&url, 30_000, &[]);
    let stopping = async {
        enough.notified().await;
        rig.stop();
    };
    let (dom, ()) = tokio::join!(looking, stopping);
    assert!(dom.contains("The server does not answer (no connection). The figures below are from "), "{dom}");
    assert!(dom.contains("id=\"figures\" class=\"stale\"") && dom.contains("class=\"lost\">no answer"), "{dom}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_page_of_portcullis_serve_says_so_while_it_stops() {
    let Some(chromium) = Chromium::find().await else { return };
    let serving = Serving::start("").await;
    let dom = chromium.dom(&page_of(serving.admin), A_WHILE_MS, &[]).await;
    assert!(dom.contains("<span id=\"server\">us.example</span>"), "{dom}");
    let slots = text_of(&dom, "slots");
    assert!(
        slots.contains("Lookups at rest 0 of 8 slots") && slots.contains("Request threads at rest 0 of 16"),
        "{slots}"
    );
    assert!(text_of(&dom, "gates").contains("No load gate"), "{dom}");
    assert!(text_of(&dom, "destinations").contains("No other server was asked yet"), "{dom}");
    let rig = Rig::start().await;
    rig.admin.drain();
    let dom = chromium.dom(&page_of(rig.address), A_WHILE_MS, &[]).await;
    assert!(dom.contains("role=\"alert\">The server is stopping"), "{dom}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_homeserver_behind_and_its_gate_are_on_the_page_of_portcullis_serve() {
    let Some(chromium) = Chromium::find().await else { return };
    // Nobody answers there as long as this is held: it is bound and does not listen.
    let behind = tokio::net::TcpSocket::new_v4().unwrap();
    behind.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let origin = format!("http://{}", behind.local_addr().unwrap());
    let serving = Serving::start(&format!("homeserver.upstream = \"{origin}\"\n")).await;
    let before = text_of(&chromium.dom(&page_of(serving.admin), A_WHILE_MS, &[]).await, "upstream");
    assert!(before.contains(&format!("{origin} ? not asked yet")), "{before}");
    assert_eq!(crate::rig::get(serving.clients, "/_matrix/client/v3/publicRooms").await.status, 502);
    let dom = chromium.dom(&page_of(serving.admin), A_WHILE_MS, &[]).await;
    let upstream = text_of(&dom, "upstream");
    assert!(upstream.contains(&format!("{origin} ✕ silent last silent at ")), "{upstream}");
    assert!(upstream.contains("last answer: never so far"), "{upstream}");
    assert!(upstream.contains("Own lists and aliases at rest 0 of 64 requests"), "{upstream}");
    assert!(
        upstream.contains("no answer (502) 1") && upstream.contains("Token questions at rest 0 of 64"),
        "{upstream}"
    );
    let gates = text_of(&dom, "gates");
    assert!(
        gates.contains(&origin)
            && gates.contains("nothing waits here the gate only listens to how requests of accounts end"),
        "{gates}"
    );
    let sent = crate::rig::get(serving.admin, "/").await.body;
    assert!(sent.contains("; nothing waits at it, it only listens\n"), "{sent}");
    assert_eq!(serving.status().await["upstream"]["state"], "silent");
}
