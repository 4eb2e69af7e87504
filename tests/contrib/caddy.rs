//! `portcullis.Caddyfile` in Caddy itself.

use std::net::SocketAddr;

use super::adapted;
use super::backend::Backend;
use super::client::get;
use super::program::{Program, Refusing, is_there, own_address};
use super::spellings::Roads;

/// Sites as an operator has them, one for each address, both snippets imported, with a handler that Caddy would prefer to ours but
/// for the route around it.
pub(crate) fn start(listen: &[SocketAddr], front: SocketAddr, homeserver: SocketAddr) -> Program {
    let ours = adapted("portcullis.Caddyfile", &[("127.0.0.1:8009", 1, front)]);
    let site = |listen: &SocketAddr| {
        format!(
            "http://:{} {{\n\tbind {}\n\troute {{\n\t\timport portcullis\n\t\thandle /_matrix/* {{\n\
             \t\t\treverse_proxy {homeserver}\n\t\t}}\n\t\treverse_proxy {homeserver}\n\t}}\n\timport portcullis_is_down\n}}\n",
            listen.port(),
            listen.ip(),
        )
    };
    let sites: String = listen.iter().map(site).collect();
    let whole = format!("{{\n\tadmin off\n\tauto_https off\n}}\nimport portcullis.Caddyfile\n{sites}");
    let files = [("portcullis.Caddyfile", ours), ("Caddyfile", whole)];
    Program::start("caddy", &["run", "--config", "Caddyfile", "--adapter", "caddyfile"], &files, listen[0])
}

fn roads() -> Option<(Program, Roads)> {
    is_there("caddy").then(|| {
        let (front, homeserver, proxy) = (Backend::start(), Backend::start(), own_address());
        let caddy = start(&[proxy], front.address, homeserver.address);
        (caddy, Roads { proxy, front, homeserver })
    })
}

#[test]
fn every_spelling_of_our_routes_goes_to_the_front_letter_for_letter_and_the_rest_to_the_homeserver() {
    let Some((_caddy, roads)) = roads() else { return };
    roads.assert_table();
    roads.assert_methods_and_bodies();
    roads.assert_streams();
}

#[test]
fn there_is_no_road_round_the_front() {
    let Some((_caddy, roads)) = roads() else { return };
    roads.assert_no_road_round(1500);
}

#[test]
fn what_federation_comes_to_is_no_road_round_either() {
    if !is_there("caddy") {
        return;
    }
    let (front, homeserver, clients, federation) = (Backend::start(), Backend::start(), own_address(), own_address());
    let _caddy = start(&[clients, federation], front.address, homeserver.address);
    Roads { proxy: clients, front, homeserver }.assert_both_are_shut(federation);
}

#[test]
fn while_the_front_is_gone_its_routes_are_an_answer_that_browsers_can_read() {
    if !is_there("caddy") {
        return;
    }
    let gone = Refusing::new();
    let (front, homeserver, proxy) = (Backend::start(), Backend::start(), own_address());
    let _caddy = start(&[proxy], gone.address, homeserver.address);
    Roads { proxy, front, homeserver }.told_while_the_front_is_gone().assert_says_so_to_browsers();
}

#[test]
fn while_the_homeserver_is_gone_nobody_is_told_that_the_front_is() {
    if !is_there("caddy") {
        return;
    }
    let gone = Refusing::new();
    let (front, proxy) = (Backend::start(), own_address());
    let _caddy = start(&[proxy], front.address, gone.address);
    let answer = get(proxy, "/_matrix/client/v3/sync");
    assert_eq!((answer.status, answer.body.as_str()), (502, ""));
}
