//! `portcullis.nginx.conf` in nginx itself.

use std::net::SocketAddr;

use super::adapted;
use super::backend::Backend;
use super::program::{Program, Refusing, is_there, own_address};
use super::spellings::Roads;

/// Server blocks as an operator has them, one for each address, each with the files in it, and with a location that nginx would
/// prefer to any pattern.
pub(crate) fn configuration(listen: &[SocketAddr], included: &[&str], homeserver: SocketAddr) -> String {
    let included = included.iter().map(|file| format!("include {file};")).collect::<Vec<_>>().join("\n");
    let block = |listen: &SocketAddr| {
        format!(
            "server {{\nlisten {listen};\nclient_max_body_size 50m;\n{included}\n\
             location ^~ /_matrix {{ proxy_pass http://{homeserver}; }}\nlocation / {{ proxy_pass http://{homeserver}; }}\n}}\n"
        )
    };
    let blocks: String = listen.iter().map(block).collect();
    format!(
        "daemon off;\nmaster_process off;\npid nginx.pid;\nerror_log stderr;\nevents {{ worker_connections 512; }}\n\
         http {{\naccess_log off;\nclient_body_temp_path body;\nproxy_temp_path proxied;\nfastcgi_temp_path fastcgi;\n\
         uwsgi_temp_path uwsgi;\nscgi_temp_path scgi;\n{blocks}}}\n"
    )
}

pub(crate) fn start(listen: &[SocketAddr], files: &[(&str, String)], homeserver: SocketAddr) -> Program {
    let included: Vec<&str> = files.iter().map(|(name, _)| *name).collect();
    let mut files = files.to_vec();
    files.push(("nginx.conf", configuration(listen, &included, homeserver)));
    Program::start("nginx", &["-p", ".", "-c", "nginx.conf", "-e", "stderr"], &files, listen[0])
}

fn roads() -> Option<(Program, Roads)> {
    is_there("nginx").then(|| {
        let (front, homeserver, proxy) = (Backend::start(), Backend::start(), own_address());
        let ours = adapted("portcullis.nginx.conf", &[("127.0.0.1:8009", 1, front.address)]);
        let nginx = start(&[proxy], &[("portcullis.nginx.conf", ours)], homeserver.address);
        (nginx, Roads { proxy, front, homeserver })
    })
}

#[test]
fn every_spelling_of_our_routes_goes_to_the_front_letter_for_letter_and_the_rest_to_the_homeserver() {
    let Some((_nginx, roads)) = roads() else { return };
    roads.assert_table();
    roads.assert_methods_and_bodies();
    roads.assert_streams();
}

#[test]
fn there_is_no_road_round_the_front() {
    let Some((_nginx, roads)) = roads() else { return };
    roads.assert_no_road_round(1500);
}

#[test]
fn what_federation_comes_to_is_no_road_round_either() {
    if !is_there("nginx") {
        return;
    }
    let (front, homeserver, clients, federation) = (Backend::start(), Backend::start(), own_address(), own_address());
    let ours = adapted("portcullis.nginx.conf", &[("127.0.0.1:8009", 1, front.address)]);
    let _nginx = start(&[clients, federation], &[("portcullis.nginx.conf", ours)], homeserver.address);
    Roads { proxy: clients, front, homeserver }.assert_both_are_shut(federation);
}

#[test]
fn while_the_front_is_gone_its_routes_are_an_answer_that_browsers_can_read() {
    if !is_there("nginx") {
        return;
    }
    let gone = Refusing::new();
    let (front, homeserver, proxy) = (Backend::start(), Backend::start(), own_address());
    let ours = adapted("portcullis.nginx.conf", &[("127.0.0.1:8009", 1, gone.address)]);
    let _nginx = start(&[proxy], &[("portcullis.nginx.conf", ours)], homeserver.address);
    Roads { proxy, front, homeserver }.told_while_the_front_is_gone().assert_says_so_to_browsers();
}
