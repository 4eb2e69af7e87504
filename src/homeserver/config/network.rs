//! Addresses and networks as an operator writes them. A rule that says less or more than it seems to is refused.

use std::net::{IpAddr, SocketAddr};

use ipnet::IpNet;
use toml::de::DeValue;

use super::reader::text;

const NETWORK: &str = "an address or a network in quotes such as \"10.0.0.0/8\"";
const NAME_SERVER: &str = "\"IP\" or \"IP:port\" in quotes";
const LISTEN_ADDRESS: &str = "\"IP:port\" in quotes such as \"127.0.0.1:8009\"";

const DNS_PORT: u16 = 53;

/// A network, or a bare address for just that one. Host bits that are set are a typing error, and nobody knows which.
pub(super) fn network(value: &DeValue<'_>) -> Result<IpNet, String> {
    let text = text(value, NETWORK)?;
    let network = strict_network(text)
        .ok_or_else(|| format!("{text:?} is neither an address nor a network such as \"10.0.0.0/8\""))?;
    if network.trunc() != network {
        return Err(format!("{text:?} has host bits set; write \"{}\" or a longer prefix", network.trunc()));
    }
    if network.addr().to_canonical() != network.addr() {
        return Err(format!("{text:?} is an IPv4-mapped address; write it as IPv4"));
    }
    Ok(network)
}

/// The standard library reads the address: `ipnet` itself would take `010.0.0.0/8` for `10.0.0.0/8`.
fn strict_network(text: &str) -> Option<IpNet> {
    let Some((address, prefix)) = text.split_once('/') else { return text.parse::<IpAddr>().map(IpNet::from).ok() };
    let plain = prefix == "0" || !prefix.starts_with('0') && prefix.bytes().all(|byte| byte.is_ascii_digit());
    IpNet::new(address.parse().ok()?, prefix.parse().ok().filter(|_| plain)?).ok()
}

/// A network whose word is believed. All of the internet is not one.
pub(super) fn proxy(value: &DeValue<'_>) -> Result<IpNet, String> {
    let network = network(value)?;
    if network.prefix_len() == 0 {
        return Err(format!("\"{network}\" would let every client name its own address; list the proxies alone"));
    }
    Ok(network)
}

/// `"IP"` or `"IP:port"`.
pub(super) fn name_server(value: &DeValue<'_>) -> Result<SocketAddr, String> {
    let text = text(value, NAME_SERVER)?;
    let address = text
        .parse::<SocketAddr>()
        .or_else(|_| text.parse::<IpAddr>().map(|address| SocketAddr::new(address, DNS_PORT)))
        .map_err(|_| format!("{text:?} is not \"IP\" or \"IP:port\""))?;
    if address.port() == 0 {
        return Err("port 0 cannot be asked".into());
    }
    Ok(address)
}

/// `"IP:port"`; port 0 takes a free one.
pub(super) fn listen_address(value: &DeValue<'_>) -> Result<SocketAddr, String> {
    let text = text(value, LISTEN_ADDRESS)?;
    text.parse().map_err(|_| format!("{text:?} is not \"IP:port\", such as \"127.0.0.1:8009\""))
}

/// What is wrong with an operator's socket at `address`, which asks nobody who they are, unless others may reach it.
pub(super) fn reachable_admin(address: SocketAddr, allow_remote: bool) -> Option<String> {
    if allow_remote || address.ip().to_canonical().is_loopback() {
        return None;
    }
    Some(format!(
        "{address} can be reached from other machines, and this socket asks for no password; use a loopback address such \
         as \"127.0.0.1:9009\", or write admin_allow_remote = true where something else keeps strangers away from it"
    ))
}
