//! `CODER_REDIRECT_TO_ACCESS_URL` on a real coderd and on the double: who is redirected, by which name one is let in over
//! plain HTTP and over TLS, and that our client finds its way without a token going anywhere else.

use super::compare;
use coder_k8s::coderd::client::Limits;
use coder_k8s::coderd::error::Operation;
use coder_k8s::coderd::{Client, Endpoint, Error, Resolve};
use coder_k8s::confidential::Confidential;
use std::net::SocketAddr;
use support::cluster::pki::Ca;
use support::coderd::Coderd;
use support::plain_http::{Answer, Ask};
use support::postgres::Postgres;
use support::real_coderd::RealCoderd;

const NAME: &str = "coder.example.com";

/// The headers a client may add, and whether they name the access URL's host.
const HEADERS: [(&[(&str, &str)], bool); 6] = [
    (&[], false),
    (&[("host", "{host}")], true),
    (&[("x-forwarded-host", "{host}")], true),
    (&[("x-forwarded-host", "{host}"), ("x-forwarded-proto", "https")], true),
    (&[("x-forwarded-proto", "https")], false),
    (&[("x-forwarded-host", "elsewhere.example.com")], false),
];

struct Place {
    plain: SocketAddr,
    tls: SocketAddr,
}

impl Place {
    async fn ask(&self, ask: &Ask, tls: bool, ca: &str) -> Answer {
        let answer =
            if tls { ask.send_over_tls(self.tls, ca, NAME).await } else { ask.send(self.plain).await };
        answer.unwrap_or_else(|error| panic!("{ask:?}: {error}"))
    }

    /// Our client, over plain HTTP or over TLS.
    fn client(&self, tls: bool, certificate: &str) -> Client {
        let (scheme, addr) = if tls { ("https", self.tls) } else { ("http", self.plain) };
        let endpoint = Endpoint::parse(&format!("{scheme}://coder.team.svc.cluster.local")).unwrap();
        let endpoint = endpoint.presenting(vec![certificate.to_owned()]);
        let led_there = Resolve::new(vec![format!("*.svc.cluster.local={addr}").parse().unwrap()]);
        let token = Confidential::new(format!("{}-{}", "a".repeat(10), "b".repeat(22)));
        Client::new(endpoint, Some(token), &led_there, Limits::default()).unwrap()
    }
}

#[tokio::test]
#[ignore = "needs a real coderd: make test-contract"]
async fn the_access_urls_name_lets_a_client_in_and_plain_http_only_where_the_url_is() {
    let postgres = Postgres::start();
    let ca = Ca::new("private");
    let pair = ca.server(&[NAME]);
    for (access_url, host) in
        [("http://coder.example.com:8080", "coder.example.com:8080"), ("https://coder.example.com", NAME)]
    {
        let (server, tls) = RealCoderd::redirecting(&postgres, access_url, &pair).await;
        let real = Place { plain: server.addr(), tls };
        let coderd = Coderd::builder().unlicensed().start().await;
        coderd.redirect_to_access_url(Some(access_url));
        for name in [NAME, "coder.team.svc.cluster.local"] {
            coderd.present(name, &pair);
        }
        let double = Place { plain: coderd.addr(), tls: coderd.tls_addr() };
        let mut found = Vec::new();
        for (tls, (headers, named)) in
            [false, true].into_iter().flat_map(|tls| HEADERS.map(|headers| (tls, headers)))
        {
            for (method, path) in [
                ("GET", "/healthz"),
                ("GET", "/api/v2/users/me"),
                ("POST", "/api/v2/licenses"),
                ("DELETE", "/api/v2/users/me/keys/aaaaaaaaaa"),
            ] {
                let ask = headers.iter().fold(Ask::new(method, path), |ask, (header, value)| {
                    ask.header(header, &value.replace("{host}", host))
                });
                let theirs = real.ask(&ask, tls, &ca.certificate).await;
                let ours = double.ask(&ask, tls, &ca.certificate).await;
                let shown = format!("{access_url} {method} {path} tls={tls} {headers:?}");
                println!("{} {shown}", theirs.status);
                let here = |place: &Place| if tls { place.tls } else { place.plain };
                let differences = compare::differences((&ours, here(&double)), (&theirs, here(&real)));
                found.extend(differences.into_iter().map(|difference| format!("{shown}: {difference}")));
                let location = (ours.header("location"), theirs.header("location"));
                assert_eq!(location.0, location.1, "{shown}");
                let let_in = path == "/healthz" || named && (tls || access_url.starts_with("http:"));
                assert_eq!(theirs.status != 307, let_in, "{shown}");
            }
        }
        assert!(found.is_empty(), "the double is wrong {} times:\n{}", found.len(), found.join("\n"));
        drop(coderd.take_violations());
        for (tls, place) in [false, true].into_iter().flat_map(|tls| [(tls, &double), (tls, &real)]) {
            let client = place.client(tls, &pair.certificate);
            client.healthz().await.unwrap();
            let (client, info) = client.introduced().await;
            if !tls && access_url.starts_with("https:") {
                let redirected = Error::Redirected { operation: Operation::BuildInfo, status: 307 };
                assert_eq!(info.unwrap_err(), redirected);
                continue;
            }
            assert!(info.unwrap().version.starts_with("v2.36.1"));
            let unknown = Error::Unauthorized { operation: Operation::Me };
            assert_eq!(client.me().await, Err(unknown), "it was not redirected");
        }
        coderd.assert_no_violations();
    }
}
