//! Decides by which address pods reach their control plane: its Service, and over TLS by a name that its certificate is made
//! out for, since they check that name. Pure: certificates and the Service come in as values, and no status is looked at.

use crate::coderd::LARGEST_PEM;
use crate::confidential::decoded;
use crate::trust;
use k8s_openapi::api::core::v1::HostAlias;
use rustls::client::verify_server_name;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::server::ParsedCertificate;
use serde_json::Value;
use x509_parser::extensions::GeneralName;
use x509_parser::parse_x509_certificate;

/// Names of a certificate that are looked at; whoever writes its Secret chooses how many there are.
const MOST_NAMES: usize = 32;
/// The longest name that DNS has.
const LONGEST_NAME: usize = 253;

/// Where pods find their control plane.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Address {
    /// The URL.
    pub(crate) url: String,
    /// What leads the name in it to the Service, if it is not the Service's own.
    pub(crate) alias: Option<Alias>,
}

/// A name that leads to the Service in pods.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Alias {
    /// The name.
    pub(crate) host: String,
    /// The address of the Service.
    pub(crate) ip: String,
}

impl Alias {
    /// As pods have it.
    pub(crate) fn entry(&self) -> HostAlias {
        HostAlias { ip: self.ip.clone(), hostnames: Some(vec![self.host.clone()]) }
    }
}

/// Why pods have no address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum NoAddress {
    /// No certificate has a name that could be asked for.
    Unnamed {
        /// The host of the Service.
        host: String,
    },
    /// The name in the certificate cannot be led to the Service: it has no address of its own.
    WithoutClusterIp {
        /// The Service.
        service: String,
        /// Its host.
        host: String,
    },
    /// The Service is not there or not the control plane's: its condition says so.
    ServiceMissing,
}

/// How a kind speaks of its pods.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Words {
    /// What they are called.
    pub(crate) pods: &'static str,
    /// How their author gives the address himself.
    pub(crate) give: &'static str,
}

impl NoAddress {
    /// What somebody has to mend; nothing where another condition tells it.
    pub(crate) fn told(&self, words: Words) -> Option<String> {
        let Words { pods, give } = words;
        match self {
            Self::ServiceMissing => None,
            Self::Unnamed { host } => Some(format!(
                "{pods} cannot verify the control plane: its certificate has neither the name {host} nor another one without \
                 a wildcard; add {host} to its subject alternative names, or {give}"
            )),
            Self::WithoutClusterIp { service, host } => Some(format!(
                "{pods} cannot reach the control plane by the name in its certificate: Service {service} has no cluster IP; \
                 give it one, add {host} to the certificate's subject alternative names, or {give}"
            )),
        }
    }
}

/// By which name pods ask for a control plane.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Name {
    /// By that of its Service.
    OfService,
    /// By this one of its certificate.
    OfCertificate(String),
    /// None fits.
    Nobody,
}

/// The certificates that a control plane serves with: the leaf of each Secret, as far as they can be read.
pub(crate) fn leaves<'a>(secrets: impl IntoIterator<Item = &'a Value>) -> Vec<CertificateDer<'static>> {
    let leaf = |secret: &Value| {
        let encoded = &secret["data"]["tls.crt"];
        let is_small = encoded.as_str().is_some_and(|text| text.len() / 4 * 3 <= LARGEST_PEM + 3);
        let pem = decoded(encoded).filter(|_| is_small)?;
        trust::certificates(pem.expose()).ok()?.into_iter().next()
    };
    secrets.into_iter().filter_map(leaf).collect()
}

/// The name to ask for: that of the Service where a certificate has it, else the first one of a certificate that is no
/// wildcard, else the public one of the control plane where a wildcard covers it: other names below a wildcard may be those of
/// workspaces. coderd presents whichever of its certificates fits.
pub(crate) fn name(leaves: &[CertificateDer<'_>], host: &str, public: Option<&str>) -> Name {
    let covered = |name: &str| leaves.iter().any(|leaf| covers(leaf, name));
    if covered(host) {
        return Name::OfService;
    }
    let own = leaves.iter().flat_map(|leaf| names_of(leaf));
    let public = public.map(str::to_ascii_lowercase);
    let usable = own.chain(public).find(|name| is_host(name) && covered(name));
    usable.map_or(Name::Nobody, Name::OfCertificate)
}

fn covers(leaf: &CertificateDer<'_>, name: &str) -> bool {
    let Ok(name) = ServerName::try_from(name) else { return false };
    ParsedCertificate::try_from(leaf).is_ok_and(|leaf| verify_server_name(&leaf, &name).is_ok())
}

fn names_of(leaf: &CertificateDer<'_>) -> Vec<String> {
    let Ok((_, parsed)) = parse_x509_certificate(leaf) else { return Vec::new() };
    let Ok(Some(extension)) = parsed.subject_alternative_name() else { return Vec::new() };
    let name = |general: &GeneralName<'_>| match general {
        GeneralName::DNSName(name) => Some(name.to_ascii_lowercase()),
        _ => None,
    };
    extension.value.general_names.iter().filter_map(name).take(MOST_NAMES).collect()
}

/// Whether pods may have an alias of this name: no wildcard, and no address.
fn is_host(name: &str) -> bool {
    let is_label = |label: &str| {
        let mut letters = label.bytes();
        !label.is_empty()
            && !label.starts_with('-')
            && !label.ends_with('-')
            && letters.all(|one| one.is_ascii_lowercase() || one.is_ascii_digit() || one == b'-')
    };
    let is_address = name.parse::<std::net::IpAddr>().is_ok();
    name.len() <= LONGEST_NAME && !is_address && name.split('.').all(is_label)
}

/// The host of a URL, without its port.
pub(crate) fn host(url: &str) -> Option<&str> {
    let (_, rest) = url.split_once("://")?;
    let host = rest.split(['/', ':', '?', '#']).next()?;
    (!host.is_empty()).then_some(host)
}

/// The same URL with another host.
fn with_host(url: &str, host: &str) -> String {
    match self::host(url) {
        Some(before) => url.replacen(before, host, 1),
        None => url.to_owned(),
    }
}

/// The address under the name of a certificate, which pods lead to the Service: `service` is that of the control plane, as it
/// is now, or none if it is not there or not the control plane's.
pub(crate) fn through(service: Option<&Value>, url: &str, name: &str) -> Result<Address, NoAddress> {
    let service = service.ok_or(NoAddress::ServiceMissing)?;
    let ip = service["spec"]["clusterIP"].as_str().filter(|ip| ip.parse::<std::net::IpAddr>().is_ok());
    let Some(ip) = ip else {
        let service = service["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        return Err(NoAddress::WithoutClusterIp { service, host: host(url).unwrap_or_default().to_owned() });
    };
    let alias = Alias { host: name.to_owned(), ip: ip.to_owned() };
    Ok(Address { url: with_host(url, name), alias: Some(alias) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const SERVICE: &str = "coder.ns.svc.cluster.local";
    const WORDS: Words = Words { pods: "daemons", give: "set CODER_URL in spec.extraEnv" };

    fn leaf(names: &[&str]) -> CertificateDer<'static> {
        let key = rcgen::KeyPair::generate().unwrap();
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        rcgen::CertificateParams::new(names).unwrap().self_signed(&key).unwrap().der().clone()
    }

    fn chosen(leaves: &[&[&str]], public: Option<&str>) -> Name {
        let leaves: Vec<_> = leaves.iter().map(|names| leaf(names)).collect();
        name(&leaves, SERVICE, public)
    }

    fn other(name: &str) -> Name {
        Name::OfCertificate(name.to_owned())
    }

    #[test]
    fn the_name_of_the_service_is_used_where_a_certificate_has_it() {
        for covered in [&["a.example.com", SERVICE][..], &["*.ns.svc.cluster.local"]] {
            assert_eq!(chosen(&[covered], None), Name::OfService, "{covered:?}");
        }
        assert_eq!(
            chosen(&[&["a.example.com"], &[SERVICE]], None),
            Name::OfService,
            "of several the one that fits"
        );
    }

    #[test]
    fn else_the_first_name_that_can_be_asked_for() {
        assert_eq!(chosen(&[&["Coder.Example.com", "b.example.com"]], None), other("coder.example.com"));
        assert_eq!(chosen(&[&["192.0.2.1", "*.example.com", "b.example.org"]], None), other("b.example.org"));
        assert_eq!(chosen(&[&["*.example.com"], &["b.example.org"]], None), other("b.example.org"));
    }

    #[test]
    fn below_a_wildcard_only_the_public_name_is_known_to_be_coderd() {
        assert_eq!(chosen(&[&["*.example.com"]], Some("coder.example.com")), other("coder.example.com"));
        for public in [None, Some("coder.example.org"), Some("a.b.example.com"), Some("192.0.2.1"), Some("")]
        {
            assert_eq!(chosen(&[&["*.example.com"]], public), Name::Nobody, "{public:?}");
        }
        assert_eq!(chosen(&[&["192.0.2.1"]], None), Name::Nobody);
    }

    #[test]
    fn a_name_of_the_certificate_leads_to_the_cluster_ip() {
        let url = "https://coder.ns.svc.cluster.local:443";
        let service = |ip: &str| json!({"metadata": {"name": "coder"}, "spec": {"clusterIP": ip}});
        let found = through(Some(&service("10.0.0.7")), url, "coder.example.com").unwrap();
        assert_eq!(found.url, "https://coder.example.com:443");
        assert_eq!(
            json!(found.alias.unwrap().entry()),
            json!({"ip": "10.0.0.7", "hostnames": ["coder.example.com"]})
        );
        for headless in ["None", ""] {
            let why =
                through(Some(&service(headless)), url, "a.example.com").unwrap_err().told(WORDS).unwrap();
            assert!(why.contains("Service coder has no cluster IP") && why.contains(SERVICE), "{why}");
        }
        assert_eq!(through(None, url, "a.example.com"), Err(NoAddress::ServiceMissing));
        assert_eq!(NoAddress::ServiceMissing.told(WORDS), None);
        let why = NoAddress::Unnamed { host: SERVICE.to_owned() }.told(WORDS).unwrap();
        assert!(why.contains(&format!("add {SERVICE}")), "{why}");
    }

    #[test]
    fn a_host_is_read_from_urls_as_we_write_them() {
        assert_eq!(host("https://a.example.com:443"), Some("a.example.com"));
        assert_eq!(host("http://a"), Some("a"));
        assert_eq!((host(""), host("https://")), (None, None));
    }

    #[test]
    fn what_is_no_certificate_has_no_leaf() {
        let secret =
            |pem: &str| json!({"data": {"tls.crt": k8s_openapi::ByteString(pem.as_bytes().to_vec())}});
        let key = rcgen::KeyPair::generate().unwrap();
        let good = rcgen::CertificateParams::new(vec!["a".to_owned()]).unwrap().self_signed(&key).unwrap();
        assert_eq!(leaves([&secret(&good.pem())]), [good.der().clone()]);
        let large = format!("{}{}", good.pem(), " ".repeat(LARGEST_PEM));
        assert_eq!(leaves([&secret("x"), &json!({}), &secret(&large)]), []);
    }
}
