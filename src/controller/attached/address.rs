//! Decides by which address pods reach their control plane: its Service, and over TLS by a name that its certificate is made
//! out for, since they check that name. Pure: certificates and the Service come in as values, and no status is looked at.

use super::public_address::PublicAddress;
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
    /// coderd redirects whoever does not come by its access URL, and pods cannot come by it.
    Redirected {
        /// The host of the access URL, with its port if it names one.
        host: String,
        /// What is in their way.
        because: &'static str,
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
                "{pods} cannot verify the control plane: its certificate has neither the name {host} nor another one that could \
                 be led to its Service; add {host} to its subject alternative names, or {give}"
            )),
            Self::WithoutClusterIp { service, host } => Some(format!(
                "{pods} cannot reach the control plane by the name in its certificate: Service {service} has no cluster IP; \
                 give it one, add {host} to the certificate's subject alternative names, or {give}"
            )),
            Self::Redirected { host, because } => Some(format!(
                "{pods} cannot reach the control plane: with CODER_REDIRECT_TO_ACCESS_URL it redirects everybody who does not come \
                 by {host}, and {because}; unset that variable of the control plane, or {give}"
            )),
        }
    }
}

/// How pods get to a control plane.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// By this URL, whose name leads to its Service anyway.
    AtService(String),
    /// By this URL, whose name has to be led there.
    Through(String),
}

/// The certificate in a Secret that a control plane serves with, if it can be read. What is too large is not even decoded.
pub(crate) fn leaf(secret: &Value) -> Option<CertificateDer<'static>> {
    let encoded = &secret["data"]["tls.crt"];
    encoded.as_str().filter(|text| text.len() / 4 * 3 <= LARGEST_PEM + 3)?;
    trust::certificates(decoded(encoded)?.expose()).ok()?.into_iter().next()
}

/// How pods get to a control plane that is known as `public` outside. `at` is its Service, `leaves` are the certificates that
/// it serves with, if it does, and `before` is the name that pods were led by until now.
pub(crate) fn way(
    at: &str,
    leaves: Option<&[CertificateDer<'_>]>,
    public: &PublicAddress,
    before: Option<&str>,
) -> Result<Way, NoAddress> {
    if let Some(access_url) = &public.only {
        return way_of_access_url(at, leaves, access_url);
    }
    let (Some(leaves), Some(host)) = (leaves, host(at)) else { return Ok(Way::AtService(at.to_owned())) };
    let covered = |name: &str| leaves.iter().any(|leaf| covers(leaf, name));
    if covered(host) {
        return Ok(Way::AtService(at.to_owned()));
    }
    if let Some(short) = short_names(host).into_iter().find(|name| covered(name)) {
        return Ok(Way::AtService(with_host(at, short)));
    }
    let public = public.hosts.iter().cloned();
    let own = before.map(str::to_owned).into_iter().chain(leaves.iter().flat_map(|leaf| names_of(leaf)));
    // What the spec says itself may be a name of a company's own network.
    let own = own.filter(|name| !is_below(name, &PRIVATE));
    let usable = |name: &String| is_host(name) && !is_of_cluster(name, host) && covered(name);
    match public.chain(own).find(usable) {
        Some(name) => Ok(Way::Through(with_host(at, &name))),
        None => Err(NoAddress::Unnamed { host: host.to_owned() }),
    }
}

/// The same where coderd redirects everybody who does not come by the host of its access URL, which it compares letter by letter
/// and with the port.
fn way_of_access_url(
    at: &str,
    leaves: Option<&[CertificateDer<'_>]>,
    access_url: &str,
) -> Result<Way, NoAddress> {
    let is_https = |url: &str| url.starts_with("https://");
    let (Some(authority), Some(name)) = (authority(access_url), host(access_url)) else {
        return Ok(Way::AtService(at.to_owned()));
    };
    // Without TLS nobody comes to such an https URL, the operator neither: the control plane says so.
    if is_https(access_url) && !is_https(at) {
        return Ok(Way::AtService(at.to_owned()));
    }
    let redirected = |because| Err(NoAddress::Redirected { host: authority.to_owned(), because });
    let url = format!("{}://{authority}", if is_https(at) { "https" } else { "http" });
    let name = name.to_ascii_lowercase();
    if port(&url) != port(at) {
        return redirected("its Service has no such port");
    }
    if leaves.is_some_and(|leaves| !leaves.iter().any(|leaf| covers(leaf, &name))) {
        return redirected("its certificate does not have that name");
    }
    match host(at) {
        _ if is_at(&url, at) => Ok(Way::AtService(url)),
        Some(service) if is_host(&name) && !is_of_cluster(&name, service) => Ok(Way::Through(url)),
        _ => redirected("that is no name that could be led to its Service"),
    }
}

/// The shorter names of a Service, which pods in its namespace find as well.
fn short_names(host: &str) -> Vec<&str> {
    let dots: Vec<usize> = host.match_indices('.').map(|(at, _)| at).take(3).collect();
    dots.into_iter().rev().filter_map(|end| host.get(..end)).collect()
}

/// Whether a URL leads to the Service at `at` by a name of that Service.
pub(crate) fn is_at(url: &str, at: &str) -> bool {
    let (Some(name), Some(service)) = (host(url), host(at)) else { return false };
    name == service || short_names(service).contains(&name)
}

/// Domains that never leave a network: clouds have their metadata there.
const PRIVATE: [&str; 2] = ["internal", "local"];

/// Whether a name means something else where pods run: a single label, or a name of the cluster, in which `host` is. All of the
/// pod would find it at the Service.
fn is_of_cluster(name: &str, host: &str) -> bool {
    // What follows `svc` in the host of the Service is the domain of the cluster.
    let cluster = host.split_once(".svc.").map_or("svc", |(_, domain)| domain.trim_end_matches('.'));
    !name.contains('.') || is_below(name, &["localhost", "svc", cluster])
}

fn is_below(name: &str, domains: &[&str]) -> bool {
    let is_below =
        |domain: &&str| name.strip_suffix(domain).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'));
    domains.iter().any(is_below)
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
    let host = authority(url)?.split(':').next()?;
    (!host.is_empty()).then_some(host)
}

/// The host of a URL, with its port if it names one: what a client says whom it asks for.
pub(crate) fn authority(url: &str) -> Option<&str> {
    let (_, rest) = url.split_once("://")?;
    let authority = rest.split(['/', '?', '#']).next()?;
    authority.rsplit('@').next().filter(|authority| !authority.is_empty())
}

/// The port of a URL, also where its scheme implies it.
fn port(url: &str) -> Option<u16> {
    let implied = if url.starts_with("https://") { 443 } else { 80 };
    authority(url)?.split_once(':').map_or(Some(implied), |(_, port)| port.parse().ok())
}

/// The same URL with another host, and without a port that its scheme implies: coderd does not know its own name by one.
fn with_host(url: &str, host: &str) -> String {
    let (scheme, implied) = if url.starts_with("https://") { ("https", 443) } else { ("http", 80) };
    match port(url).filter(|port| *port != implied) {
        Some(port) => format!("{scheme}://{host}:{port}"),
        None => format!("{scheme}://{host}"),
    }
}

/// The address by this URL, whose name pods lead to the Service: `service` is that of the control plane at `at`, as it is now, or
/// none if it is not there or not the control plane's.
pub(crate) fn through(service: Option<&Value>, at: &str, url: &str) -> Result<Address, NoAddress> {
    let service = service.ok_or(NoAddress::ServiceMissing)?;
    let ip = service["spec"]["clusterIP"].as_str().filter(|ip| ip.parse::<std::net::IpAddr>().is_ok());
    let Some(ip) = ip else {
        let service = service["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        return Err(NoAddress::WithoutClusterIp { service, host: host(at).unwrap_or_default().to_owned() });
    };
    let name = host(url).unwrap_or_default().to_ascii_lowercase();
    let alias = Alias { host: name, ip: ip.to_owned() };
    Ok(Address { url: url.to_owned(), alias: Some(alias) })
}

#[cfg(test)]
mod tests;
