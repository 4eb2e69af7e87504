//! A listener that is full, and answers that nobody reads: who has to go, and what there is room for.

use super::*;

#[tokio::test(flavor = "multi_thread")]
async fn all_clients_together_have_a_cap_and_a_request_in_flight_keeps_its_place() {
    let rig = rig(2, ListenerLimits { max_connections: 2, ..patient() });
    let mut in_flight = Vec::new();
    for client in ["127.0.0.1", "127.0.0.2"] {
        let mut stream = connect_and_ask(&rig, client).await;
        stream.write_all(GET_HELD.as_bytes()).await.unwrap();
        in_flight.push(stream);
    }
    rig.until_started(4).await;
    for _ in 0..20 {
        assert_eq!(exchange(&rig, "127.0.0.3", LAST_GET).await, "", "nobody waits, so there is no room");
    }
    rig.held.add_permits(2);
    for stream in &mut in_flight {
        assert!(one_answer(stream).await.ends_with("held"));
    }
    answered_soon(&rig, "127.0.0.3").await;
    let mut still_there = 0;
    for stream in &mut in_flight {
        let _ = stream.write_all(GET.as_bytes()).await;
        let read = timeout(LONG, stream.read(&mut [0; 1024])).await.expect("neither answered nor closed");
        still_there += usize::from(matches!(read, Ok(1..)));
    }
    assert_eq!(still_there, 1, "one of them waited again and made room");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_listener_full_of_those_who_ask_nothing_answers_a_newcomer_at_once() {
    let rig = rig(2, ListenerLimits { max_connections: 8, ..patient() });
    let mut in_flight = connect(&rig, "127.0.0.1").await;
    in_flight.write_all(GET_HELD.as_bytes()).await.unwrap();
    rig.until_started(1).await;
    let mut idlers = Vec::new();
    for number in 0..21 {
        let client = format!("127.0.1.{number}");
        // Those that are in the way already have to make room for these.
        let mut idler =
            if number % 3 == 0 { connect_and_ask(&rig, &client).await } else { connect(&rig, &client).await };
        let said: &[u8] = match number % 3 {
            1 => b"GET / HTTP/1.1\r\nHo",
            2 => b"POST / HTTP/1.1\r\nHost: us.example\r\nContent-Length: 100\r\n\r\nabc",
            _ => b"",
        };
        // It may have had to go before it said anything.
        let _ = idler.write_all(said).await;
        idlers.push(idler);
    }
    for _ in 0..20 {
        assert!(is_answered(&rig, "127.0.0.2").await);
    }
    assert_eq!(until_closed(&mut idlers[0]).await, "");
    rig.held.add_permits(1);
    assert!(one_answer(&mut in_flight).await.ends_with("held"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_over_its_own_cap_makes_nobody_go() {
    let rig = rig(2, ListenerLimits { max_connections: 2, max_connections_per_client: 1, ..patient() });
    let mut other = connect_and_ask(&rig, "127.0.0.2").await;
    let _greedy = connect_and_ask(&rig, "127.0.0.1").await;
    for _ in 0..20 {
        assert_eq!(exchange(&rig, "127.0.0.1", LAST_GET).await, "");
    }
    other.write_all(GET.as_bytes()).await.unwrap();
    assert!(one_answer(&mut other).await.starts_with("HTTP/1.1 200"));
}

/// Asks for a large answer, and reads no more than its first byte.
async fn asks_and_does_not_read(rig: &Rig, from: &str) -> TcpStream {
    let mut stream = connect(rig, from).await;
    stream.write_all(GET_LARGE.as_bytes()).await.unwrap();
    assert_eq!(timeout(LONG, stream.read_u8()).await.expect("no answer").unwrap(), b'H');
    stream
}

async fn is_200(rig: &Rig) -> bool {
    let mut stream = connect(rig, "127.0.0.9").await;
    stream.write_all(GET_LARGE.as_bytes()).await.unwrap();
    let mut start = [0; 12];
    timeout(LONG, stream.read_exact(&mut start)).await.expect("no answer").unwrap();
    if start.ends_with(b"200") {
        let mut rest = vec![0; LARGE];
        timeout(LONG, stream.read_exact(&mut rest)).await.expect("no answer").unwrap();
        return true;
    }
    assert!(start.ends_with(b"503"));
    false
}

async fn until_200(rig: &Rig) {
    let ask = async {
        while !is_200(rig).await {
            sleep(Duration::from_millis(5)).await;
        }
    };
    timeout(LONG, ask).await.expect("the room never came back");
}

#[tokio::test(flavor = "multi_thread")]
async fn answers_that_are_not_read_are_bounded_all_together() {
    let max_unsent_bytes = 2 * LARGE + LARGE / 2;
    let rig = rig(2, ListenerLimits { max_unsent_bytes, ..patient() });
    let mut reads_late = asks_and_does_not_read(&rig, "127.0.0.1").await;
    let hangs_up = asks_and_does_not_read(&rig, "127.0.0.2").await;
    for _ in 0..3 {
        let refused = exchange(&rig, "127.0.0.3", GET_LARGE).await;
        assert!(refused.starts_with("HTTP/1.1 503") && refused.contains("M_UNKNOWN"), "{refused}");
        let head = refused.to_lowercase();
        assert!(head.contains("\r\nretry-after: 1\r\n") && head.contains("\r\nconnection: close\r\n"), "{refused}");
    }
    assert!(is_answered(&rig, "127.0.0.3").await, "a small answer needs no room");
    let mut answer = vec![0; LARGE];
    timeout(LONG, reads_late.read_exact(&mut answer)).await.expect("its answer is on its way").unwrap();
    until_200(&rig).await;
    let third = asks_and_does_not_read(&rig, "127.0.0.4").await;
    assert!(!is_200(&rig).await, "full again");
    drop(hangs_up);
    until_200(&rig).await;
    drop(third);
}

#[tokio::test(flavor = "multi_thread")]
async fn answers_that_one_client_does_not_read_leave_room_for_the_others() {
    let rig = rig(2, ListenerLimits { max_unsent_answers_per_client: 1, ..patient() });
    let unread = asks_and_does_not_read(&rig, "127.0.0.1").await;
    let refused = exchange(&rig, "127.0.0.1", GET_LARGE).await;
    assert!(refused.starts_with("HTTP/1.1 503"), "{refused}");
    assert!(is_answered(&rig, "127.0.0.1").await, "a small answer needs no room");
    until_200(&rig).await; // another client
    drop(unread);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_listener_full_of_small_answers_nobody_reads_answers_a_newcomer_at_once() {
    const FULL: usize = 4;
    let limits =
        ListenerLimits { max_connections: FULL, max_connections_per_client: FULL, write_stall: NEVER, ..patient() };
    let rig = rig(2, limits);
    let mut unread = Vec::new();
    for _ in 0..FULL {
        // Many answers, none of them counted, and a window that holds a few.
        let socket = TcpSocket::new_v4().unwrap();
        socket.set_recv_buffer_size(2048).unwrap();
        socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let mut stream = socket.connect(rig.address).await.unwrap();
        let asks = "GET /small HTTP/1.1\r\nHost: us.example\r\n\r\n".repeat(4000);
        // Once its own window is shut too, no more is taken: that is the point.
        drop(timeout(Duration::from_millis(500), stream.write_all(asks.as_bytes())).await);
        unread.push(stream);
    }
    // Until nothing moves any more: every connection has answers nobody takes.
    let mut answered = 0;
    while answered < rig.finished.load(Ordering::SeqCst) {
        answered = rig.finished.load(Ordering::SeqCst);
        sleep(Duration::from_millis(300)).await;
    }
    for _ in 0..3 {
        answered_soon(&rig, "127.0.0.2").await;
    }
    drop(unread);
}
