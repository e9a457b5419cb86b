//! How the client reaches coderd: which addresses it dials, how connections are used again, whose certificate counts, and
//! where a redirect leads.

use super::{HOST, led_to, limits, owner_and_client};
use coder_k8s::coderd::client::Limits;
use coder_k8s::coderd::error::{Lost, Operation};
use coder_k8s::coderd::{Client, Endpoint, Error, Resolve, Retry};
use coder_k8s::confidential::Confidential;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use support::cluster::pki::{Ca, Pair};
use support::coderd::{Coderd, Fault, Occurrence};
use support::wait::{holds, until};
use tokio::net::{TcpListener, TcpStream};
use tokio_util::task::AbortOnDropHandle;

const SOON: Duration = Duration::from_secs(10);

#[tokio::test]
async fn without_a_rule_loopback_is_refused() {
    let coderd = Coderd::start().await;
    let endpoint = Endpoint::parse(&coderd.url()).unwrap();
    let client = Client::new(endpoint, None, &Resolve::default(), limits()).unwrap();
    let error = client.build_info().await.unwrap_err();
    assert!(matches!(error, Error::Refused { operation: Operation::BuildInfo, .. }), "{error:?}");
    assert_eq!((error.retry(), coderd.calls().len()), (Retry::WhenChanged, 0));
}

#[tokio::test]
async fn nobody_there_and_no_such_name_are_told_apart_in_the_log_alone() {
    let nobody = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let to = |host: &str| {
        let endpoint = Endpoint::parse(&format!("http://{host}")).unwrap();
        Client::new(endpoint, None, &led_to(nobody), limits()).unwrap()
    };
    let lost = |lost| Error::Unreachable { operation: Operation::Healthz, lost };
    let closed = to(HOST).healthz().await.unwrap_err();
    let unknown = to("no-such-host.invalid").healthz().await.unwrap_err();
    assert_eq!((closed.detail(), unknown.detail()), (&lost(Lost::Connect), &lost(Lost::Name)));
    assert_eq!(closed.to_string(), unknown.to_string());
}

/// What listens at an address is told to nobody who leads us there: a closed port, a silent one, plain text, a server of
/// another kind, a certificate of somebody else.
#[tokio::test]
async fn whatever_listens_there_the_first_question_tells_the_same() {
    let (coderd, ca) = (Coderd::start().await, Ca::new("other"));
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let closed = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let secured = Door::before(&coderd, Some(acceptor(&ca, &["else.example.com"]))).await;
    let short = Limits { connect: Duration::from_millis(300), total: Duration::from_millis(300), ..limits() };
    let ask = async |scheme: &str, address: SocketAddr| {
        let endpoint = Endpoint::parse(&format!("{scheme}://{HOST}")).unwrap();
        let client = Client::new(endpoint, None, &led_to(address), short).unwrap();
        client.healthz().await.unwrap_err()
    };
    coderd.inject("GET /healthz", Occurrence::Every, Fault::answer_text(503, "text/html", "<h1>proxy</h1>"));
    let silent = silent.local_addr().unwrap();
    let mut told = Vec::new();
    for (scheme, address) in [
        ("http", closed),
        ("http", silent),
        ("http", coderd.addr()),
        ("http", secured.address),
        ("https", closed),
        ("https", silent),
        ("https", coderd.addr()),
        ("https", secured.address),
    ] {
        let error = ask(scheme, address).await;
        assert_ne!(error.detail(), &error, "{scheme}://{address}");
        told.push(error.to_string());
    }
    told.dedup();
    assert_eq!(told.len(), 1, "{told:?}");
}

/// A door in front of the double that counts who comes in, with TLS or without.
struct Door {
    address: SocketAddr,
    opened: Arc<AtomicUsize>,
    open: Arc<AtomicUsize>,
    _serving: AbortOnDropHandle<()>,
}

impl Door {
    async fn before(coderd: &Coderd, tls: Option<tokio_rustls::TlsAcceptor>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (address, behind) = (listener.local_addr().unwrap(), coderd.addr());
        let (opened, open) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let (count, now) = (opened.clone(), open.clone());
        let serving = tokio::spawn(async move {
            while let Ok((mut outside, _)) = listener.accept().await {
                count.fetch_add(1, Ordering::SeqCst);
                now.fetch_add(1, Ordering::SeqCst);
                let (now, tls) = (now.clone(), tls.clone());
                tokio::spawn(async move {
                    let mut inside = TcpStream::connect(behind).await.unwrap();
                    match tls {
                        Some(tls) => {
                            if let Ok(mut outside) = tls.accept(outside).await {
                                let _ = tokio::io::copy_bidirectional(&mut outside, &mut inside).await;
                            }
                        }
                        None => drop(tokio::io::copy_bidirectional(&mut outside, &mut inside).await),
                    }
                    now.fetch_sub(1, Ordering::SeqCst);
                });
            }
        });
        Self { address, opened, open, _serving: AbortOnDropHandle::new(serving) }
    }
}

#[tokio::test]
async fn connections_are_used_again_bounded_and_closed_with_the_client() {
    let coderd = Coderd::start().await;
    let door = Door::before(&coderd, None).await;
    let endpoint = Endpoint::parse(&format!("http://{HOST}")).unwrap();
    let client = Client::new(endpoint, None, &led_to(door.address), limits()).unwrap();
    for _ in 0..3 {
        // In a task of its own, as reconcilers are.
        let client = client.clone();
        tokio::spawn(async move { client.build_info().await }).await.unwrap().unwrap();
    }
    assert_eq!(door.opened.load(Ordering::SeqCst), 1);
    let many = (0..8).map(|_| client.build_info());
    assert!(futures::future::join_all(many).await.iter().all(Result::is_ok));
    let left = async |most: usize| holds(door.open.load(Ordering::SeqCst) <= most, "some are still open");
    until("at most two unused connections", SOON, || left(2)).await;
    drop(client);
    until("no connection", SOON, || left(0)).await;
}

fn acceptor(ca: &Ca, names: &[&str]) -> tokio_rustls::TlsAcceptor {
    use rustls::pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject};
    let pair = ca.server(names);
    let chain = vec![CertificateDer::from_pem_slice(pair.certificate.as_bytes()).unwrap()];
    let key = PrivateKeyDer::from_pem_slice(pair.key.as_bytes()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = rustls::ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let config = builder.unwrap().with_no_client_auth().with_single_cert(chain, key).unwrap();
    tokio_rustls::TlsAcceptor::from(Arc::new(config))
}

#[tokio::test]
async fn tls_is_checked_against_the_extra_authority_and_the_expected_name() {
    let coderd = Coderd::start().await;
    let ca = Ca::new("coder");
    let door = Door::before(&coderd, Some(acceptor(&ca, &["coder.example.com"]))).await;
    let plain = Endpoint::parse(&format!("https://{HOST}")).unwrap();
    let ask = async |endpoint: Endpoint| {
        let client = Client::new(endpoint, None, &led_to(door.address), limits()).unwrap();
        client.build_info().await.map(drop)
    };
    let trusted = plain.clone().trusting(&*ca.certificate).named("coder.example.com");
    assert_eq!(ask(trusted.clone()).await, Ok(()));
    for untrusted in [
        plain.clone(),
        plain.clone().named("coder.example.com"),
        plain.clone().trusting(&*ca.certificate),
        plain.clone().trusting(Ca::new("other").certificate).named("coder.example.com"),
    ] {
        let error = ask(untrusted).await.unwrap_err();
        assert!(matches!(error, Error::Tls { operation: Operation::BuildInfo, .. }), "{error:?}");
    }
    let door = Door::before(&coderd, None).await;
    let client = Client::new(trusted, None, &led_to(door.address), limits()).unwrap();
    let error = client.build_info().await.unwrap_err();
    assert!(matches!(error, Error::Tls { .. }), "TLS to a plain server: {error:?}");
}

/// A coderd behind TLS is known by the certificates it is configured with, not by the name it is dialled by.
#[tokio::test]
async fn a_configured_certificate_counts_exactly_or_by_its_names_and_authority() {
    let coderd = Coderd::start().await;
    let (ca, other) = (Ca::new("private"), Ca::new("other"));
    let resolve = led_to(coderd.tls_addr());
    let ask = async |presented: &Pair, configured: &[&Pair], authority: Option<&Ca>| {
        coderd.present(HOST, presented);
        let certificates = configured.iter().map(|pair| pair.certificate.clone()).collect();
        let mut endpoint = Endpoint::parse(&format!("https://{HOST}")).unwrap().presenting(certificates);
        if let Some(authority) = authority {
            endpoint = endpoint.trusting(&*authority.certificate);
        }
        let client = Client::new(endpoint, None, &resolve, limits()).unwrap();
        client.healthz().await.is_ok()
    };
    let (leaf, renewed) = (ca.server(&["coder.example.com"]), ca.server(&["coder.example.com"]));
    let wildcard = ca.server(&["*.example.com", "192.0.2.1"]);
    let own = Pair::self_signed(&["coder.example.com"]);
    for (presented, configured, authority, expected) in [
        (&leaf, vec![&leaf], None, true),
        (&own, vec![&own], None, true),
        (&own, vec![&leaf, &own], Some(&ca), true),
        (&leaf, vec![&renewed], Some(&ca), true),
        (&wildcard, vec![&wildcard], None, true),
        (&wildcard, vec![&leaf], Some(&ca), true),
        (&ca.server(&["*.example.com"]), vec![&wildcard], Some(&ca), true),
        (&ca.server(&["192.0.2.1"]), vec![&wildcard], Some(&ca), true),
        (&leaf, vec![&renewed], None, false),
        (&leaf, vec![&renewed], Some(&other), false),
        (&other.server(&["coder.example.com"]), vec![&leaf], Some(&ca), false),
        (&ca.server(&["else.example.com", HOST]), vec![&leaf], Some(&ca), false),
        (&Pair::self_signed(&["coder.example.com"]), vec![&own], None, false),
    ] {
        assert_eq!(ask(presented, &configured, authority).await, expected, "{}", presented.certificate);
    }
    let chained =
        Pair { certificate: format!("{}{}", leaf.certificate, ca.certificate), key: leaf.key.clone() };
    assert!(ask(&renewed, &[&chained], None).await, "the chain in the Secret says who may renew it");
    for nonsense in ["", "nonsense"] {
        let endpoint =
            Endpoint::parse(&format!("https://{HOST}")).unwrap().presenting(vec![nonsense.to_owned()]);
        assert!(Client::new(endpoint, None, &resolve, limits()).is_err(), "{nonsense:?}");
    }
}

#[tokio::test]
async fn whoever_redirects_to_an_access_url_is_asked_by_its_name_and_never_followed() {
    let (coderd, token, client) = owner_and_client(limits()).await;
    coderd.redirect_to_access_url(Some("http://coder.example.com:8080/base"));
    let redirected = |operation| Error::Redirected { operation, status: 307 };
    assert_eq!(client.build_info().await.unwrap_err(), redirected(Operation::BuildInfo));
    client.healthz().await.unwrap();
    let (named, info) = client.clone().introduced().await;
    assert_eq!(info.unwrap().version, "v2.36.1");
    assert_eq!(named.me().await.unwrap().username, "ops");
    assert_eq!(named.with_token(Confidential::new(token)).licenses().await, Ok(Vec::new()));
    // Plain HTTP is redirected whatever the name, where the access URL has TLS; TLS is not.
    coderd.redirect_to_access_url(Some("https://coder.example.com"));
    let (_, info) = client.introduced().await;
    assert_eq!(info.unwrap_err(), redirected(Operation::BuildInfo));
    let pair = Pair::self_signed(&["coder.example.com"]);
    coderd.present(HOST, &pair);
    let endpoint = Endpoint::parse(&format!("https://{HOST}")).unwrap().presenting(vec![pair.certificate]);
    let client = Client::new(endpoint, None, &led_to(coderd.tls_addr()), limits()).unwrap();
    let (_, info) = client.introduced().await;
    assert_eq!(info.unwrap().version, "v2.36.1");
}
