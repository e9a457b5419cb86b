//! The certificates of a test cluster: its CA, the API server, an administrator, and the front proxy with a CA of its own.
//! Made anew for each cluster; never used for anything the operator serves.

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};
use std::path::{Path, PathBuf};

/// A certificate and its key as PEM.
#[derive(Debug, Clone)]
pub struct Pair {
    /// The certificate.
    pub certificate: String,
    /// Its private key.
    pub key: String,
}

impl Pair {
    /// A serving certificate for these names that nobody but itself vouches for.
    pub fn self_signed(names: &[&str]) -> Self {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let key = KeyPair::generate().expect("a key pair");
        let params = CertificateParams::new(names).expect("valid names");
        let certificate = params.self_signed(&key).expect("a self-signed certificate");
        Self { certificate: certificate.pem(), key: key.serialize_pem() }
    }
}

/// A certificate authority that signs pairs.
pub struct Ca {
    issuer: Issuer<'static, KeyPair>,
    /// Its own certificate as PEM.
    pub certificate: String,
}

impl Ca {
    /// A fresh authority.
    pub fn new(name: &str) -> Self {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
        let key = KeyPair::generate().expect("a key pair");
        let certificate = params.self_signed(&key).expect("a self-signed certificate").pem();
        Self { issuer: Issuer::new(params, key), certificate }
    }

    /// A client certificate for user `name` in `group`.
    pub fn client(&self, name: &str, group: Option<&str>) -> Pair {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, name);
        if let Some(group) = group {
            params.distinguished_name.push(DnType::OrganizationName, group);
        }
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        self.sign(params)
    }

    /// A serving certificate for these names.
    pub fn server(&self, names: &[&str]) -> Pair {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let mut params = CertificateParams::new(names).expect("valid names");
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        self.sign(params)
    }

    fn sign(&self, params: CertificateParams) -> Pair {
        let key = KeyPair::generate().expect("a key pair");
        let certificate = params.signed_by(&key, &self.issuer).expect("a signed certificate");
        Pair { certificate: certificate.pem(), key: key.serialize_pem() }
    }
}

/// Everything the API server and its clients read from files.
#[derive(Debug, Clone)]
pub struct Pki {
    folder: PathBuf,
    /// The administrator, member of `system:masters`.
    pub admin: Pair,
    /// The CA of the API server and of client certificates.
    pub ca: String,
}

impl Pki {
    /// Makes all pairs and writes them below `folder`.
    pub fn write(folder: &Path) -> Self {
        let (ca, front_proxy_ca) = (Ca::new("test-cluster"), Ca::new("test-front-proxy"));
        let server = ca.server(&["127.0.0.1", "localhost", "kubernetes.default.svc"]);
        let proxy_client = front_proxy_ca.client("front-proxy-client", None);
        let accounts = KeyPair::generate().expect("a key pair");
        let pki = Self {
            folder: folder.to_owned(),
            admin: ca.client("test-admin", Some("system:masters")),
            ca: ca.certificate.clone(),
        };
        let files = [
            ("ca.crt", &ca.certificate),
            ("front-proxy-ca.crt", &front_proxy_ca.certificate),
            ("apiserver.crt", &server.certificate),
            ("apiserver.key", &server.key),
            ("front-proxy-client.crt", &proxy_client.certificate),
            ("front-proxy-client.key", &proxy_client.key),
            ("service-accounts.key", &accounts.serialize_pem()),
            ("service-accounts.pub", &accounts.public_key_pem()),
        ];
        for (name, content) in files {
            std::fs::write(folder.join(name), content).expect("the cluster's folder is writable");
        }
        pki
    }

    /// The path of one of the files.
    pub fn path(&self, name: &str) -> String {
        self.folder.join(name).display().to_string()
    }
}
