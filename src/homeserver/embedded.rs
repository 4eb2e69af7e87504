//! [`EmbeddedHomeserver`]: the reference homeserver's own data, taken from the configuration and held in memory.

use std::collections::HashMap;
use std::fmt;

use super::config::Config;
use crate::admission::RoomAlias;
use crate::proxy::local_view::{
    AliasAnswer, InvalidPageToken, ListedRoom, LocalView, RoomListPage, RoomListQuery, TokenAnswer,
};
use crate::server_name::ServerName;

/// Rooms, aliases and tokens of a small homeserver. Grows with the configuration and with nothing else.
#[derive(Debug)]
pub struct EmbeddedHomeserver {
    server_name: ServerName,
    rooms: Vec<Listed>,
    aliases: HashMap<String, AliasAnswer>,
    users: HashMap<Token, String>,
}

#[derive(Debug)]
struct Listed {
    room: ListedRoom,
    /// Name, topic and alias in lower case, one per line: what a search term is looked for in.
    searchable: String,
}

/// An access token, which no debug output shows.
#[derive(PartialEq, Eq, Hash)]
struct Token(String);

impl EmbeddedHomeserver {
    /// The data a configuration describes. Rooms keep the order of the file.
    #[must_use]
    pub fn new(config: &Config) -> Self {
        let rooms = config.rooms.iter().cloned().map(Listed::from).collect();
        let aliases = config.aliases.iter().map(|alias| {
            let answer = AliasAnswer { room_id: alias.room_id.clone(), servers: alias.servers.clone() };
            (alias.local_part.clone(), answer)
        });
        let users = config.tokens.iter().map(|token| (Token(token.token.clone()), token.user_id.clone()));
        Self { server_name: config.server_name.clone(), rooms, aliases: aliases.collect(), users: users.collect() }
    }
}

impl LocalView for EmbeddedHomeserver {
    fn user_of_token(&self, token: &str) -> TokenAnswer {
        self.users.get(&Token(token.into())).cloned().into()
    }

    fn room_alias(&self, alias: &RoomAlias) -> Option<AliasAnswer> {
        if !alias.server().is_same_server(&self.server_name) {
            return None;
        }
        let (local_part, _) = alias.as_str().strip_prefix('#')?.split_once(':')?;
        self.aliases.get(local_part).cloned()
    }

    fn public_rooms(&self, query: &RoomListQuery) -> Result<RoomListPage, InvalidPageToken> {
        let first = query.since.as_deref().map_or(Ok(0), read_page_token)?;
        let wanted = Filter::of(query);
        let matching: Vec<&Listed> = self.rooms.iter().filter(|listed| wanted.admits(listed)).collect();
        let total = matching.len();
        let size =
            query.limit.filter(|limit| *limit > 0).map_or(total, |limit| usize::try_from(limit).unwrap_or(total));
        let end = first.saturating_add(size).min(total);
        let page = matching.get(first..end).unwrap_or_default();
        Ok(RoomListPage {
            chunk: page.iter().map(|listed| listed.room.clone()).collect(),
            next_batch: (end < total).then(|| page_token(end)),
            prev_batch: (first > 0).then(|| page_token(first.saturating_sub(size))),
            total_room_count_estimate: u64::try_from(total).ok(),
        })
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("Token(..)")
    }
}

impl From<ListedRoom> for Listed {
    fn from(room: ListedRoom) -> Self {
        let searched = [&room.name, &room.topic, &room.canonical_alias];
        let searchable = searched.into_iter().flatten().map(|text| text.to_lowercase()).collect::<Vec<_>>().join("\n");
        Self { room, searchable }
    }
}

/// What a query asks for.
struct Filter<'q> {
    term: Option<String>,
    types: Option<&'q [Option<String>]>,
    /// This homeserver has no bridges: a query for one network of a bridge finds nothing.
    another_network: bool,
}

impl<'q> Filter<'q> {
    fn of(query: &'q RoomListQuery) -> Self {
        Self {
            term: query.search_term.as_ref().map(|term| term.to_lowercase()),
            types: query.room_types.as_deref(),
            another_network: query.third_party_instance_id.is_some(),
        }
    }

    fn admits(&self, listed: &Listed) -> bool {
        !self.another_network
            && self.term.as_ref().is_none_or(|term| listed.searchable.contains(term.as_str()))
            && self.types.is_none_or(|types| types.contains(&listed.room.room_type))
    }
}

/// A token names the first room of its page: `p` and its number.
fn page_token(first: usize) -> String {
    format!("p{first}")
}

fn read_page_token(token: &str) -> Result<usize, InvalidPageToken> {
    let first = token.strip_prefix('p').and_then(|digits| digits.parse().ok()).ok_or(InvalidPageToken)?;
    if page_token(first) == token { Ok(first) } else { Err(InvalidPageToken) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::homeserver::config::{AccessToken, LocalAlias};

    fn homeserver() -> EmbeddedHomeserver {
        let room = |id: &str, name: &str, topic: Option<&str>, room_type: Option<&str>| ListedRoom {
            room_id: id.into(),
            name: Some(name.into()),
            topic: topic.map(Into::into),
            room_type: room_type.map(Into::into),
            ..ListedRoom::default()
        };
        let mut config = Config::without_file();
        config.server_name = "us.example".parse().unwrap();
        config.rooms = vec![
            room("!a", "Gate", None, None),
            room("!b", "B", Some("the GATE house"), Some("m.space")),
            room("!c", "\u{c4}rger", None, None),
            ListedRoom { canonical_alias: Some("#gatekeeper:us.example".into()), ..room("!d", "D", None, None) },
        ];
        config.aliases =
            vec![LocalAlias { local_part: "a".into(), room_id: "!a".into(), servers: vec!["us.example".into()] }];
        config.tokens = vec![AccessToken { token: "hush".into(), user_id: "@alice:us.example".into() }];
        EmbeddedHomeserver::new(&config)
    }

    fn ids(page: &RoomListPage) -> String {
        page.chunk.iter().map(|room| room.room_id.as_str()).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn pages_follow_each_other_and_the_last_one_says_so() {
        let homeserver = homeserver();
        let mut query = RoomListQuery { limit: Some(3), ..RoomListQuery::default() };
        let first = homeserver.public_rooms(&query).unwrap();
        assert_eq!((ids(&first).as_str(), first.prev_batch), ("!a !b !c", None));
        assert_eq!(first.total_room_count_estimate, Some(4));
        query.since = first.next_batch;
        let last = homeserver.public_rooms(&query).unwrap();
        assert_eq!((ids(&last).as_str(), last.next_batch), ("!d", None));
        query.since = last.prev_batch;
        assert_eq!(ids(&homeserver.public_rooms(&query).unwrap()), "!a !b !c");
    }

    #[test]
    fn no_limit_and_zero_mean_all_and_a_huge_one_overflows_nothing() {
        for limit in [None, Some(0), Some(u64::MAX)] {
            let query = RoomListQuery { limit, since: Some("p1".into()), ..RoomListQuery::default() };
            assert_eq!(ids(&homeserver().public_rooms(&query).unwrap()), "!b !c !d", "{limit:?}");
        }
    }

    #[test]
    fn a_page_token_that_is_not_ours_is_refused() {
        for since in ["", "p", "1", "p-1", "p+1", "p01", "px", "p99999999999999999999999", "P1", "p1 "] {
            let query = RoomListQuery { since: Some(since.into()), ..RoomListQuery::default() };
            assert_eq!(homeserver().public_rooms(&query), Err(InvalidPageToken), "{since:?}");
        }
        let past_the_end = RoomListQuery { since: Some("p9".into()), ..RoomListQuery::default() };
        assert_eq!(ids(&homeserver().public_rooms(&past_the_end).unwrap()), "");
    }

    #[test]
    fn a_search_term_is_looked_for_in_name_topic_and_alias_in_any_letter_case() {
        let search = |term: &str| {
            let query = RoomListQuery { search_term: Some(term.into()), ..RoomListQuery::default() };
            ids(&homeserver().public_rooms(&query).unwrap())
        };
        assert_eq!(search("gAtE"), "!a !b !d");
        assert_eq!(search("\u{e4}RGER"), "!c");
        assert_eq!(search("nothing"), "");
        assert_eq!(search(""), "!a !b !c !d");
    }

    #[test]
    fn room_types_choose_and_null_means_rooms_without_one() {
        let of_types = |types: &[Option<&str>]| {
            let room_types = Some(types.iter().map(|kind| kind.map(Into::into)).collect());
            let query = RoomListQuery { room_types, ..RoomListQuery::default() };
            ids(&homeserver().public_rooms(&query).unwrap())
        };
        assert_eq!(of_types(&[None]), "!a !c !d");
        assert_eq!(of_types(&[Some("m.space")]), "!b");
        assert_eq!(of_types(&[Some("m.space"), None]), "!a !b !c !d");
        assert_eq!(of_types(&[]), "");
    }

    #[test]
    fn an_alias_is_found_under_every_spelling_of_our_name() {
        let found = |alias: &str| homeserver().room_alias(&alias.parse().unwrap()).map(|answer| answer.room_id);
        assert_eq!(found("#a:us.example").as_deref(), Some("!a"));
        assert_eq!(found("#a:US.example:8448").as_deref(), Some("!a"));
        assert_eq!(found("#A:us.example"), None);
        assert_eq!(found("#a:them.example"), None);
    }

    #[test]
    fn a_token_is_known_whole_and_never_shown() {
        let alice = TokenAnswer::Good { user_id: "@alice:us.example".to_owned() };
        assert_eq!(homeserver().user_of_token("hush"), alice);
        for not_whole in ["hus", ""] {
            assert_eq!(homeserver().user_of_token(not_whole), TokenAnswer::Unknown { soft_logout: false });
        }
        assert!(!format!("{:?}", homeserver()).contains("hush"));
    }
}
