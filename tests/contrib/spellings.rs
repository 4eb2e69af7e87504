//! The table of spellings, and more of them by the dice, put to a proxy in front of two servers.

use std::net::SocketAddr;

use super::backend::{BEGINNING, Backend, END};
use super::client::{Answer, ask, get, send};
use super::readings::{has_dots, leads_out, names_a_route};

/// What portcullis has to see, as it was sent.
pub(crate) const FRONT: &[&str] = &[
    "/_matrix/client/v3/publicRooms",
    "/_matrix/client/v3/publicRooms?server=evil.example&limit=3",
    "/_matrix/client/r0/publicRooms?server=evil.example",
    "/_matrix/client/v1/publicRooms?server=evil.example",
    "/_matrix/client/unstable/publicRooms?server=evil.example",
    "/_matrix/client/api/v1/publicRooms?server=evil.example",
    "/_matrix/client/v3/%70ublicRooms?server=evil.example",
    "/%5fmatrix/%63lient/%76%33/publicRoom%73?s%65rver=evil.example",
    "//_matrix/client/v3/publicRooms",
    "/_matrix//client///v3/publicRooms",
    "/_matrix%2Fclient/v3%2fpublicRooms",
    "/_matrix/client/v3/publicRooms/",
    "/_matrix/client/v3/./publicRooms",
    "/_matrix/client/v3/x/../publicRooms",
    "/_matrix/client/v3/%2e/publicRooms",
    "/_matrix/client/v3/x/%2E%2e/publicRooms",
    "/element/../_matrix/client/v3/publicRooms",
    "/_matrix/client/v3/directory/room/%23hall:evil.example",
    "/_matrix/client/v3/directory/room/%23hall%3Aevil.example",
    "/_matrix/client/r0/directory/room/%23a%2Fb%252F%3Fc%23d:evil.example",
    "/_matrix/client/api/v1/directory/room/%23hall:evil.example",
    "/_matrix/client/unstable/%64irectory/%72oom/%23hall:evil.example",
    // To nginx and Caddy another path, to a homeserver an alias of evil.example.
    "/_matrix/client/v3/directory/room/%23a%2F..%2F..%2F..%2F..%2F..%2Fb:evil.example",
    "/_matrix/client/v3/directory/room/%23a%2f%2e%2e%2F.%2e%2f%2E.%2F..%2F..%2Fversions%2F.:evil.example%2F..",
    "/_matrix/client/v3/%64irectory/room/%23a%2F..%2F..%2F..%2F..%2F..%2Fb:evil.example",
    "/_matrix/client/v1/media/download/evil.example/abc",
    "/_matrix/client/v1/media/download/evil.example:8448/abc/caf%C3%A9%2Fx%20y.png",
    "/_matrix/client/v1/media/download/evil.example/a%2F..%2Fb",
    "/_matrix/client/v1/media/thumbnail/evil.example/abc?width=96&height=96&method=crop",
    "/_matrix/client/unstable/org.matrix.msc3916/media/download/evil.example/abc",
    "/_matrix/media/v3/download/evil.example/abc",
    "/_matrix/media/r0/download/evil.example/abc/x.png?allow_remote=true",
    "/_matrix/media/v1/thumbnail/evil.example/abc?width=96&height=96",
    "/_matrix/%6dedia/v3/%64ownload/evil.example/abc%2Fd",
];

/// What the homeserver has to see, as it was sent.
pub(crate) const HOMESERVER: &[&str] = &[
    "/",
    "/.well-known/matrix/client",
    "/_matrix/client/versions",
    "/_matrix/client/v3/sync?since=/../s",
    "/_matrix/client/v3/directory/list/room/!a:b",
    "/_matrix/client/v3/publicRoomsOfMine",
    "/_matrix/client/v3/rooms/!a%2Fb:us.example/state/m.room.name/",
    "/_matrix/client/v3/rooms/!a:us.example/send/publicRooms/1",
    "/_matrix/client/v3/profile/@a:us.example",
    "/_matrix/client/v1/media/config",
    "/_matrix/client/v1/media/preview_url?url=https://a.example/../b",
    "/_matrix/media/v3/upload?filename=a%2Fb",
    "/_matrix/media/v3/config",
    "/_matrix/media/v1/create",
    "/_matrix/federation/v1/publicRooms",
    "/_matrix/federation/v1/media/download/abc",
    "/_matrix/key/v2/server",
];

pub(crate) struct Roads {
    pub(crate) proxy: SocketAddr,
    pub(crate) front: Backend,
    pub(crate) homeserver: Backend,
}

/// Whom a request has reached, and as what.
#[derive(Debug, PartialEq, Eq)]
enum Reached {
    Front(String),
    Homeserver(String),
    Nobody,
}

impl Roads {
    fn reached(&self, target: &str) -> Reached {
        let _answer = get(self.proxy, target);
        let (front, homeserver) = (self.front.take_seen(), self.homeserver.take_seen());
        assert!(front.len() + homeserver.len() <= 1, "{target}: {front:?} {homeserver:?}");
        if let Some(seen) = front.into_iter().next() {
            // The address that the proxy saw, and nothing of the client's claim.
            assert_eq!(seen.forwarded_for, ["127.0.0.1"], "{target}");
            return Reached::Front(seen.target);
        }
        homeserver.into_iter().next().map_or(Reached::Nobody, |seen| Reached::Homeserver(seen.target))
    }

    /// Every row of the table reaches the server that it is for, letter for letter.
    pub(crate) fn assert_table(&self) {
        for target in FRONT {
            assert!(leads_out(target) || has_dots(target) || target.ends_with('/'), "{target}");
            assert_eq!(self.reached(target), Reached::Front((*target).to_owned()));
        }
        for target in HOMESERVER {
            assert!(!leads_out(target), "{target}");
            assert_eq!(self.reached(target), Reached::Homeserver((*target).to_owned()));
        }
        // A whole URI in the request line, as to a proxy.
        let whole = "http://matrix.example.org/_matrix/client/v3/publicRooms?server=evil.example";
        assert_eq!(
            self.reached(whole),
            Reached::Front("/_matrix/client/v3/publicRooms?server=evil.example".to_owned())
        );
    }

    /// No spelling that any homeserver takes for one of the routes reaches the homeserver, and no other goes to the front.
    pub(crate) fn assert_no_road_round(&self, spellings: u32) {
        let mut dice = Dice(0x9E37_79B9_7F4A_7C15);
        let (mut out, mut stays) = (0, 0);
        for _ in 0..spellings {
            let table = if dice.one_in(3) { HOMESERVER } else { FRONT };
            let row = dice.below(table.len());
            let target = dice.respelled(table[row]);
            match self.reached(&target) {
                Reached::Front(_) => assert!(has_dots(&target) || names_a_route(&target), "{target}"),
                Reached::Homeserver(_) => {
                    assert!(!leads_out(&target) && !has_dots(&target), "a road round the front: {target}");
                    stays += 1;
                }
                // Refused by the proxy itself: more dots than there are segments, say.
                Reached::Nobody => {}
            }
            out += u32::from(leads_out(&target));
        }
        assert!(
            out > spellings / 4 && stays > spellings / 20,
            "{out} and {stays} of {spellings}: not the dice that were meant"
        );
    }

    /// The homeserver is reached through two ways in, this one and `other`: the front stands in both.
    pub(crate) fn assert_both_are_shut(self, other: SocketAddr) {
        self.assert_table();
        self.assert_no_road_round(300);
        let through_other = Self { proxy: other, ..self };
        through_other.assert_table();
        through_other.assert_no_road_round(300);
    }

    /// Methods and bodies go where their path goes.
    pub(crate) fn assert_methods_and_bodies(&self) {
        let list = "/_matrix/client/v3/publicRooms?server=evil.example";
        let alias = "/_matrix/client/v3/directory/room/%23a:us.example";
        let body = r#"{"filter":{"generic_search_term":"cats"}}"#;
        for (method, target, body) in [
            ("POST", list, body),
            ("HEAD", list, ""),
            ("OPTIONS", list, ""),
            ("PUT", alias, r#"{"room_id":"!a:us.example"}"#),
            ("DELETE", alias, ""),
        ] {
            let answer = ask(self.proxy, method, target, "", body);
            assert_eq!(answer.status, 200, "{method} {target}");
            let seen = self.front.take_seen();
            let whole: Vec<_> = seen.iter().map(|seen| (&*seen.method, &*seen.target, &*seen.body)).collect();
            assert_eq!(whole, [(method, target, body)]);
        }
        // An upload is the homeserver's, and larger than anything here.
        let large = "x".repeat(3 << 20);
        let answer = ask(self.proxy, "POST", "/_matrix/media/v3/upload", "", &large);
        assert_eq!((answer.status, self.homeserver.take_seen()[0].body.len()), (200, large.len()));
        assert!(self.front.take_seen().is_empty());
    }

    /// A file goes through as it comes: its beginning is there before its end was sent.
    pub(crate) fn assert_streams(&self) {
        use std::io::Read as _;
        let mut stream = send(self.proxy, "GET", "/_matrix/client/v1/media/download/evil.example/slow", "", "");
        let mut heard = String::new();
        while !heard.ends_with(BEGINNING) {
            let mut some = [0; 1024];
            let length = stream.read(&mut some).unwrap();
            assert!(length > 0, "{heard}");
            heard.push_str(std::str::from_utf8(&some[..length]).unwrap());
        }
        self.front.go_on();
        stream.read_to_string(&mut heard).unwrap();
        assert!(heard.ends_with(&format!("{BEGINNING}{END}")), "{heard}");
        self.front.take_seen();
    }

    /// What a client is told while nobody is at the front, which `gone` stands for. The homeserver hears nothing of it.
    pub(crate) fn told_while_the_front_is_gone(&self) -> Answer {
        let answer = get(self.proxy, "/_matrix/client/v3/publicRooms?server=evil.example");
        assert_eq!(self.homeserver.take_seen(), []);
        assert_eq!(get(self.proxy, "/_matrix/client/versions").status, 200);
        assert_eq!(self.homeserver.take_seen().len(), 1);
        answer
    }
}

/// The same at every run.
struct Dice(u64);

impl Dice {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, bound: usize) -> usize {
        usize::try_from(self.next() % u64::try_from(bound).unwrap()).unwrap()
    }

    fn one_in(&mut self, chances: usize) -> bool {
        self.below(chances) == 0
    }

    /// The same path to somebody, in other letters.
    fn respelled(&mut self, target: &str) -> String {
        let (path, query) = target.split_once('?').map_or((target, None), |(path, query)| (path, Some(query)));
        let (letters, slashes) = (4 + self.below(60), 3 + self.below(12));
        let mut spelled = String::new();
        for letter in path.chars() {
            match letter {
                '/' if self.one_in(slashes) => {
                    let slashes = [
                        "//",
                        "%2F",
                        "%2f",
                        "/./",
                        "/x/../",
                        "/%2e/",
                        "/y/%2E%2e/",
                        "/.%2f",
                        "/..%2F",
                        "%2F..%2f",
                        "\\",
                    ];
                    spelled.push_str(slashes[self.below(slashes.len())]);
                }
                letter if letter.is_ascii_alphanumeric() && self.one_in(letters) => {
                    let code = u32::from(letter);
                    let escape = if self.one_in(2) { format!("%{code:02x}") } else { format!("%{code:02X}") };
                    spelled.push_str(&escape);
                }
                letter => spelled.push(letter),
            }
        }
        if !spelled.starts_with('/') {
            spelled.insert(0, '/');
        }
        query.map_or_else(|| spelled.clone(), |query| format!("{spelled}?{query}"))
    }
}
