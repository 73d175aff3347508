//! Where a request comes from.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use axum::extract::ConnectInfo;
use http::Extensions;

/// The address of the client. `X-Forwarded-For` and its like are not believed: anybody can write
/// them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ClientAddress(pub(super) IpAddr);

impl ClientAddress {
    /// The peer that the server has noted with the request. Requests without one, which no server
    /// makes, share one address.
    pub(super) fn of(extensions: &Extensions) -> Self {
        let peer = extensions.get::<ConnectInfo<SocketAddr>>();
        Self(peer.map_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED), |ConnectInfo(peer)| peer.ip()))
    }
}
