//! The only exception from the egress rules: the endpoint that the service's own account calls.

use std::net::SocketAddr;

use super::{RefusedUrl, Target};
use crate::domain::AccountId;
use crate::domain::endpoint::{Endpoint, Host};

/// An address of this process that one account may call. The account uses reserved host names,
/// which mean this process in whichever replica runs the job. The account may call nothing else,
/// and no other account may use these names.
#[derive(Clone, Debug)]
pub struct EgressException {
    /// The account that may use the exception.
    pub account: AccountId,
    /// The required suffix of the host name. No DNS server resolves such a name.
    pub hosts: &'static str,
    /// The only path and query that may be requested.
    pub path: &'static str,
    /// The address that requests are sent to instead.
    pub address: SocketAddr,
}

impl EgressException {
    /// Returns the target for a request of the account.
    pub(super) fn target(&self, url: &str) -> Result<Target, RefusedUrl> {
        let given = Endpoint::parse(url)?;
        let is_its = matches!(given.host(), Host::Name(name) if name.ends_with(self.hosts));
        let asked = &given.url()[url::Position::BeforePath..];
        if !is_its || given.is_https() || given.port() != 80 || asked != self.path {
            return Err(RefusedUrl::DisallowedAddress);
        }
        Ok(Target(Endpoint::parse(&format!("http://{}{}", self.address, self.path))?))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use http::{HeaderMap, Method};
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;

    use super::*;
    use crate::domain::outcome::ErrorCode;
    use crate::outbound::{Client, OutboundSettings, Request};
    use crate::runtime::{Clock, Tasks};

    fn exception(address: SocketAddr) -> EgressException {
        let account = AccountId::from_bytes([7; 16]);
        EgressException { account, hosts: ".own.invalid", path: "/echo?own", address }
    }

    #[test]
    fn only_its_names_and_path_lead_there() {
        let exception = exception("127.0.0.1:81".parse().expect("an address"));
        let target = exception.target("http://3.own.invalid/echo?own").expect("allowed");
        assert_eq!(target.host(), "127.0.0.1:81");
        for refused in [
            "http://127.0.0.1:81/echo?own",
            "http://3.own.invalid/metrics",
            "http://3.own.invalid/echo",
            "http://3.own.invalid:8080/echo?own",
            "https://3.own.invalid/echo?own",
            "http://own.invalid/echo?own",
            "http://3.own.invalid.example/echo?own",
            "http://example.com/echo?own",
            "http://169.254.169.254/",
        ] {
            let told = exception.target(refused).map(|target| target.host().to_owned());
            assert_eq!(told, Err(RefusedUrl::DisallowedAddress), "{refused}");
        }
    }

    #[tokio::test]
    async fn no_other_account_gets_there() {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let exception = exception(listener.local_addr().expect("bound"));
        let (account, tasks) = (exception.account, Tasks::new());
        let direct = format!("http://{}/echo?own", exception.address);
        let settings =
            OutboundSettings { exception: Some(exception), ..OutboundSettings::default() };
        let client = Client::new(settings, Clock::system(), &tasks).expect("a client");
        let ask = |account, url: &str| {
            let (url, client) = (url.to_owned(), client.clone());
            let request =
                Request { method: Method::GET, url, headers: HeaderMap::new(), body: None };
            async move { client.send(account, request, Duration::from_secs(5)).await.result }
        };
        let named = "http://0.own.invalid/echo?own";
        let answer = async {
            let (mut stream, _) = listener.accept().await.expect("it comes");
            let read = stream.read(&mut [0; 1_024]).await.expect("a request");
            assert!(read > 0);
            let answer = b"HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n";
            stream.write_all(answer).await.expect("written");
        };
        let (own, ()) = tokio::join!(ask(account, named), answer);
        assert_eq!(own.expect("an answer").status, 204);
        let other = AccountId::from_bytes([8; 16]);
        assert_eq!(ask(other, named).await.expect_err("no name").code, ErrorCode::Dns);
        let refused = ask(other, &direct).await.expect_err("refused");
        assert_eq!(refused.code, ErrorCode::BlockedAddress);
        let refused = ask(account, &direct).await.expect_err("refused");
        assert_eq!(refused.code, ErrorCode::BlockedAddress);
    }
}
