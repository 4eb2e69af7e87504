//! What the media cases of `ssrf.json` have beside the others: a file, the server that is asked for it, and the place where
//! that one says it is.

use std::net::SocketAddr;

use portcullis::{Host, ServerName};

use crate::ssrf_file::{Case, MediaReply, RemoteReply, Verdict};
use crate::world::fakes::SeenRequest;
use crate::world::media::{MULTIPART, SentFile};
use crate::world::reply::Reply;
use crate::world::us::{Answer, TOKEN, Us};
use crate::world::{Plan, World, x_matrix};

const FEDERATION: &str = "/_matrix/federation/v1/media/";
const LEGACY: &str = "/_matrix/media/";
const CLIENT: &str = "/_matrix/client/v1/media/";
const DEFAULT_PORT: u16 = 8448;

/// What a healthy server has, in an envelope or bare, and so has every place that must not be dialled.
pub(crate) const FILE: &str = "bytes-of-the-file";
const FILE_TYPE: &str = "image/png";

impl Case {
    /// Whether a file is asked for.
    pub(crate) fn is_of_media(&self) -> bool {
        self.media_path(0).is_some()
    }

    /// The client's path, if a file is asked for. Another round asks for another file.
    pub(crate) fn media_path(&self, round: u32) -> Option<String> {
        let more = if round == 0 { String::new() } else { round.to_string() };
        if let Some(asked) = &self.input.media_request {
            return Some(format!("{CLIENT}download/{}/{}{more}", asked.server_name, asked.media_id));
        }
        let target = self.input.request.as_deref()?.strip_prefix("GET ")?;
        match target.strip_prefix(FEDERATION) {
            Some(file) => {
                let (kind, media_id) = file.split_once('/').unwrap();
                Some(format!("{CLIENT}{kind}/{}/{media_id}{more}", self.input.server_name.as_ref().unwrap()))
            }
            None => (target.starts_with(CLIENT) || target.starts_with(LEGACY)).then(|| target.to_owned()),
        }
    }

    pub(crate) fn put_files(&self, plan: &mut Plan) {
        if !self.is_of_media() {
            return;
        }
        let input = &self.input;
        let bare = Reply::new(200, FILE).header("content-type", FILE_TYPE);
        match (&input.media_reply, &input.remote_reply) {
            (Some(reply), None) => plan.site.federation(reply.reply()),
            (None, Some(_)) => {}
            (None, None) => plan.site.federation(enveloped(&[&format!("Content-Type: {FILE_TYPE}")])),
            (Some(_), Some(_)) => panic!("two answers of one server"),
        }
        plan.site.legacy(input.legacy_reply.as_ref().map_or_else(|| bare.clone(), RemoteReply::reply));
        plan.site.elsewhere(input.cdn_reply.as_ref().map_or(bare, RemoteReply::reply));
        if input.cdn_reply.as_ref().is_some_and(|reply| reply.status != 200) {
            // One step further there is a file again.
            let next = &input.cdn_reply.as_ref().unwrap().headers["location"];
            plan.site.page(next, Reply::new(200, FILE).header("content-type", FILE_TYPE));
        }
    }

    /// The places of the server that is asked. Empty where no name is one, and where it is an address.
    pub(crate) fn asked_at(&self) -> Vec<SocketAddr> {
        let asked = self.input.media_request.as_ref().map(|asked| &asked.server_name);
        let name = asked.or(self.input.server_name.as_ref()).and_then(|name| name.parse::<ServerName>().ok());
        let Some(name) = name else { return Vec::new() };
        let Host::Name(host) = name.host() else { return Vec::new() };
        let addresses = self.zone().addresses_of(host.as_str());
        addresses.into_iter().map(|ip| SocketAddr::new(ip, name.port().unwrap_or(DEFAULT_PORT))).collect()
    }

    /// What holds for every media case, beside what holds for all.
    pub(crate) fn assert_files(&self, answer: &Answer, world: &mut World, us: &Us) {
        let (input, dialled, requests) = (&self.input, world.dialled(), world.fakes.requests());
        let asked_at = self.asked_at();
        let of_the_asked: Vec<_> = requests.iter().filter(|request| asked_at.contains(&request.at)).collect();
        assert!(input.max_requests_to_remote.is_none_or(|most| of_the_asked.len() <= most), "{of_the_asked:?}");
        for (path, headers) in &input.must_not_send {
            let sent: Vec<_> = requests.iter().filter(|request| request.target.starts_with(path)).collect();
            assert!(!sent.is_empty(), "nothing was sent to {path}");
            assert!(sent.iter().all(|request| headers.iter().all(|name| request.values(name).is_empty())), "{sent:?}");
        }
        // The signed request is the first one, and the only one that is signed; no token of a client goes anywhere.
        for (place, request) in requests.iter().enumerate() {
            assert!(!format!("{request:?}").contains(TOKEN), "a token was sent: {request:?}");
            if place == 0 {
                assert!(request.target.starts_with(FEDERATION) && asked_at.contains(&request.at), "{request:?}");
                x_matrix::verified(request, us.verify_key());
            } else {
                assert!(!request.is_federation() && request.values("authorization").is_empty(), "{request:?}");
            }
        }
        match self.expect {
            Verdict::Allow => self.assert_file_came(answer, &requests),
            Verdict::Refuse => self.assert_no_file(answer, &dialled),
        }
        if self.expect == Verdict::Allow && !input.dns_sequence.is_empty() {
            self.assert_another_file_is_judged_anew(world, us);
        }
    }

    fn assert_file_came(&self, answer: &Answer, requests: &[SeenRequest]) {
        let sent = self.input.cdn_reply.as_ref().or(self.input.legacy_reply.as_ref());
        assert_eq!(answer.text, sent.map_or(FILE, |reply| reply.body.as_str()));
        assert_eq!(answer.headers["content-type"], FILE_TYPE);
        let [_, last] = requests else { panic!("one signed request, and one more: {requests:?}") };
        assert_eq!(Some(last.at), self.input.must_dial);
        for place in self.input.must_not_send_to.keys() {
            assert_eq!(last.at, *place, "nothing was sent there");
        }
    }

    fn assert_no_file(&self, answer: &Answer, dialled: &[SocketAddr]) {
        assert!(!answer.text.contains(FILE), "{answer:?}");
        let (mut steps, input) = (self.asked_at(), &self.input);
        if input.legacy_reply.is_some() {
            steps.extend(self.asked_at());
        }
        // A place that must be dialled before the forbidden one is the server that is asked, or where it says the file is.
        steps.extend(input.must_dial_first.filter(|place| !steps.contains(place)));
        assert_eq!(dialled, steps, "the way to a refused place has these steps and no other");
        assert!(answer.status == 400 || answer.errcode() == "M_UNKNOWN", "{answer:?}");
    }

    /// The name leads inside by now: what was judged for the first file is worth nothing for the second.
    fn assert_another_file_is_judged_anew(&self, world: &mut World, us: &Us) {
        world.wait_until_closed();
        world.wire.clear();
        let answer = world.run(self.ask(1, us));
        assert_eq!((answer.status, answer.errcode().as_str()), (502, "M_UNKNOWN"));
        assert_eq!(world.dialled(), self.asked_at());
    }
}

/// The header that a request has beside those of its case: files are for users only, but at the old paths.
pub(crate) fn token_for(path: &str) -> Option<(&'static str, String)> {
    path.starts_with(CLIENT).then(|| ("authorization", format!("Bearer {TOKEN}")))
}

impl MediaReply {
    fn reply(&self) -> Reply {
        assert!(self.multipart && self.status == 200, "{self:?}");
        enveloped(&[&format!("Location: {}", self.location)])
    }
}

fn enveloped(headers: &[&str]) -> Reply {
    let file = SentFile { headers, bytes: FILE.as_bytes() };
    Reply::new(200, file.envelope()).header("content-type", MULTIPART)
}

impl RemoteReply {
    pub(crate) fn reply(&self) -> Reply {
        let reply = Reply::new(self.status, self.body.as_str());
        self.headers.iter().fold(reply, |reply, (name, value)| reply.header(name, value))
    }
}
