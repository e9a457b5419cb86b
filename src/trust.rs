//! How every part of this process checks who is at the other end of TLS: one crypto library, the signatures of a handshake,
//! certificates as they are read. It never decides whom to trust: whoever opens or takes a connection says it.

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime, pem, pem::PemObject};
use rustls::server::VerifierBuilderError;
use rustls::{
    ClientConfig, ConfigBuilder, DigitallySignedStruct, Error, RootCertStore, SignatureScheme, WantsVerifier,
};
use std::fmt;
use std::sync::{Arc, LazyLock};

static PROVIDER: LazyLock<Arc<CryptoProvider>> = LazyLock::new(|| Arc::new(ring::default_provider()));

/// Read once: the folder of an image does not change.
static SYSTEM: LazyLock<Vec<CertificateDer<'static>>> =
    LazyLock::new(|| rustls_native_certs::load_native_certs().certs);

/// The one crypto library of this process.
pub fn provider() -> Arc<CryptoProvider> {
    PROVIDER.clone()
}

/// The certificates of a PEM text, in its order.
pub fn certificates(text: &str) -> Result<Vec<CertificateDer<'static>>, pem::Error> {
    CertificateDer::pem_slice_iter(text.as_bytes()).collect()
}

/// The authorities that the system trusts.
pub fn system_authorities() -> RootCertStore {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(SYSTEM.iter().cloned());
    roots
}

/// What a server shows of itself in a handshake.
#[derive(Debug, Clone, Copy)]
pub struct Shown<'a> {
    /// Its own certificate.
    pub leaf: &'a CertificateDer<'a>,
    /// What it says leads from there to an authority.
    pub intermediates: &'a [CertificateDer<'a>],
    /// The name it is asked for by.
    pub name: &'a ServerName<'a>,
    /// What it says of revocation.
    pub ocsp: &'a [u8],
    /// The time now.
    pub now: UnixTime,
}

/// What makes a server the one that is meant. That it holds the key of what it shows is checked for every one.
pub trait ServerTrust: fmt::Debug + Send + Sync {
    /// Whether this is the server; else what is said of it.
    fn check(&self, shown: &Shown<'_>) -> Result<(), Error>;
}

/// A certificate for the name that is asked for, by one of these authorities.
#[derive(Debug)]
pub struct Authorities(Arc<WebPkiServerVerifier>);

impl Authorities {
    /// Trust in these; there must be one.
    pub fn new(roots: RootCertStore) -> Result<Self, VerifierBuilderError> {
        WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider()).build().map(Self)
    }
}

impl ServerTrust for Authorities {
    fn check(&self, shown: &Shown<'_>) -> Result<(), Error> {
        let Shown { leaf, intermediates, name, ocsp, now } = *shown;
        self.0.verify_server_cert(leaf, intermediates, name, ocsp, now).map(drop)
    }
}

/// A client that takes a server for the one that is meant by this trust.
pub fn client(trust: impl ServerTrust + 'static) -> Result<ClientConfig, Error> {
    let verifier = Arc::new(Server(trust));
    Ok(builder()?.dangerous().with_custom_certificate_verifier(verifier).with_no_client_auth())
}

/// A client that trusts these authorities; none of them is no error before a server is met.
pub fn client_of_authorities(roots: RootCertStore) -> Result<ClientConfig, Error> {
    Ok(builder()?.with_root_certificates(roots).with_no_client_auth())
}

fn builder() -> Result<ConfigBuilder<ClientConfig, WantsVerifier>, Error> {
    ClientConfig::builder_with_provider(provider()).with_safe_default_protocol_versions()
}

#[derive(Debug)]
struct Server<T>(T);

impl<T: ServerTrust> ServerCertVerifier for Server<T> {
    fn verify_server_cert(
        &self,
        leaf: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let shown = Shown { leaf, intermediates, name, ocsp, now };
        self.0.check(&shown).map(|()| ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &PROVIDER.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signed, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &PROVIDER.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signed, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        PROVIDER.signature_verification_algorithms.supported_schemes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustls::pki_types::PrivateKeyDer;
    use rustls::sign::{CertifiedKey, SingleCertAndKey};
    use rustls::version::{TLS12, TLS13};
    use rustls::{ClientConnection, ServerConfig, ServerConnection, SupportedProtocolVersion};

    #[derive(Debug)]
    struct Anybody;

    impl ServerTrust for Anybody {
        fn check(&self, _: &Shown<'_>) -> Result<(), Error> {
            Ok(())
        }
    }

    /// A certificate, and its key or that of somebody else.
    fn identity(own_key: bool) -> Arc<SingleCertAndKey> {
        let [key, other] = [(); 2].map(|()| rcgen::KeyPair::generate().unwrap());
        let names = vec!["a.example.com".to_owned()];
        let certificate = rcgen::CertificateParams::new(names).unwrap().self_signed(&key).unwrap();
        let key = PrivateKeyDer::try_from(if own_key { key } else { other }.serialize_der()).unwrap();
        let key = ring::sign::any_supported_type(&key).unwrap();
        Arc::new(CertifiedKey::new(vec![certificate.der().clone()], key).into())
    }

    /// What comes of a handshake with a server that shows a certificate, with its own key or that of another.
    fn handshake(version: &'static SupportedProtocolVersion, server_owns: bool) -> Result<(), Error> {
        let server = ServerConfig::builder_with_provider(provider()).with_protocol_versions(&[version])?;
        let server = server.with_no_client_auth().with_cert_resolver(identity(server_owns));
        let client = client(Anybody)?;
        let name = ServerName::try_from("b.example.com").unwrap();
        let mut client = ClientConnection::new(Arc::new(client), name)?;
        let mut server = ServerConnection::new(Arc::new(server))?;
        while client.is_handshaking() || server.is_handshaking() {
            let mut sent = Vec::new();
            client.write_tls(&mut sent).unwrap();
            server.read_tls(&mut sent.as_slice()).unwrap();
            server.process_new_packets()?;
            let mut sent = Vec::new();
            while server.wants_write() {
                server.write_tls(&mut sent).unwrap();
            }
            let mut sent = sent.as_slice();
            while !sent.is_empty() {
                client.read_tls(&mut sent).unwrap();
                client.process_new_packets()?;
            }
        }
        Ok(())
    }

    #[test]
    fn whoever_shows_a_certificate_holds_its_key_however_little_is_asked_of_it() {
        for version in [&TLS13, &TLS12] {
            assert_eq!(handshake(version, true), Ok(()), "{version:?}");
            let outcome = handshake(version, false);
            let refused = matches!(outcome, Err(Error::InvalidCertificate(_)));
            assert!(refused, "{version:?}: {outcome:?}");
        }
    }
}
