//! The addresses that pods are led by, for certificates and public names of every sort.

use super::*;
use serde_json::json;

const WORDS: Words = Words { pods: "daemons", give: "set CODER_URL in spec.extraEnv" };

const SERVICE: &str = "coder.ns.svc.cluster.local";

fn leaf(names: &[&str]) -> CertificateDer<'static> {
    let key = rcgen::KeyPair::generate().unwrap();
    let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
    rcgen::CertificateParams::new(names).unwrap().self_signed(&key).unwrap().der().clone()
}

const AT: &str = "https://coder.ns.svc.cluster.local:443";

fn known_as(hosts: &[&str]) -> PublicAddress {
    let hosts = hosts.iter().map(|host| (*host).to_owned()).collect();
    PublicAddress { hosts, only: None }
}

fn led(leaves: &[&[&str]], public: &PublicAddress, before: Option<&str>) -> Result<Way, NoAddress> {
    let leaves: Vec<_> = leaves.iter().map(|names| leaf(names)).collect();
    way(AT, Some(&leaves), public, before)
}

fn chosen(leaves: &[&[&str]], public: Option<&str>) -> Result<Way, NoAddress> {
    led(leaves, &known_as(public.as_slice()), None)
}

fn at(url: &str) -> Result<Way, NoAddress> {
    Ok(Way::AtService(url.to_owned()))
}

fn other(name: &str) -> Result<Way, NoAddress> {
    Ok(Way::Through(format!("https://{name}")))
}

fn nobody() -> Result<Way, NoAddress> {
    Err(NoAddress::Unnamed { host: SERVICE.to_owned() })
}

#[test]
fn the_name_of_the_service_is_used_where_a_certificate_has_it() {
    for covered in [&["a.example.com", SERVICE][..], &["*.ns.svc.cluster.local"]] {
        assert_eq!(chosen(&[covered], Some("a.example.com")), at(AT), "{covered:?}");
    }
    assert_eq!(chosen(&[&["a.example.com"], &[SERVICE]], None), at(AT), "of several the one that fits");
    let short = chosen(&[&["coder", "coder.ns", "coder.ns.svc", "a.example.com"]], None);
    assert_eq!(short, at("https://coder.ns.svc"), "the longest of its own names");
    assert_eq!(way(AT, None, &known_as(&["a.example.com"]), None), at(AT), "nothing is verified");
}

#[test]
fn else_the_public_name_and_only_then_another_one_of_the_certificate() {
    let public = Some("coder.example.com");
    for names in [&["example.com", "*.example.com"][..], &["artifacts.corp", "coder.example.com", "git.corp"]]
    {
        assert_eq!(chosen(&[names], public), other("coder.example.com"), "{names:?}");
    }
    let exposed = known_as(&["coder.example.org", "coder.example.com"]);
    assert_eq!(led(&[&["example.com", "coder.example.com"]], &exposed, None), other("coder.example.com"));
    assert_eq!(chosen(&[&["Coder.Example.com", "b.example.com"]], None), other("coder.example.com"));
    assert_eq!(chosen(&[&["192.0.2.1", "*.example.com", "b.example.org"]], None), other("b.example.org"));
    assert_eq!(chosen(&[&["*.example.com"], &["b.example.org"]], None), other("b.example.org"));
}

#[test]
fn a_name_of_the_pod_the_cluster_or_the_cloud_is_none() {
    for name in [
        "localhost",
        "vault",
        "a.localhost",
        "kubernetes.default.svc",
        "kubernetes.default.svc.cluster.local",
        "cluster.local",
        "metadata.google.internal",
        "printer.local",
    ] {
        assert_eq!(chosen(&[&[name]], None), nobody(), "{name}");
        assert_eq!(chosen(&[&[name, "coder.example.com"]], None), other("coder.example.com"), "{name}");
    }
    for name in ["localhost", "vault", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local"] {
        assert_eq!(chosen(&[&[name]], Some(name)), nobody(), "{name}");
    }
    let company = "coder.example.internal";
    assert_eq!(chosen(&[&[company]], Some(company)), other(company), "its author says so");
    assert_eq!(chosen(&[&["notlocalhost.com", "b.example.com"]], None), other("notlocalhost.com"));
    let elsewhere = |names: &[&str]| {
        way("https://coder.ns.svc.k8s.example.com:443", Some(&[leaf(names)]), &known_as(&[]), None)
    };
    assert_eq!(elsewhere(&["a.k8s.example.com", "a.example.com"]), other("a.example.com"));
}

#[test]
fn names_in_another_order_lead_nobody_elsewhere() {
    let renewed: &[&[&str]] = &[&["b.example.com", "a.example.com"]];
    assert_eq!(led(renewed, &known_as(&[]), Some("a.example.com")), other("a.example.com"));
    for before in ["c.example.com", "localhost"] {
        assert_eq!(led(renewed, &known_as(&[]), Some(before)), other("b.example.com"), "{before}");
    }
    assert_eq!(led(renewed, &known_as(&["b.example.com"]), Some("a.example.com")), other("b.example.com"));
}

#[test]
fn below_a_wildcard_only_the_public_name_is_known_to_be_coderd() {
    assert_eq!(chosen(&[&["*.example.com"]], Some("coder.example.com")), other("coder.example.com"));
    for public in [None, Some("coder.example.org"), Some("a.b.example.com"), Some("192.0.2.1"), Some("")] {
        assert_eq!(chosen(&[&["*.example.com"]], public), nobody(), "{public:?}");
    }
    assert_eq!(chosen(&[&["192.0.2.1"]], None), nobody());
}

/// The way to a Service of a coderd that redirects to this access URL.
fn redirected(service: &str, names: Option<&[&str]>, access_url: &str) -> Result<Way, NoAddress> {
    let leaves = names.map(|names| vec![leaf(names)]);
    let public = PublicAddress { hosts: Vec::new(), only: Some(access_url.to_owned()) };
    way(service, leaves.as_deref(), &public, None)
}

#[test]
fn where_coderd_redirects_daemons_come_by_the_very_host_of_its_access_url() {
    let both: &[&str] = &[SERVICE, "coder.example.com"];
    let through = |url: &str| Ok(Way::Through(url.to_owned()));
    assert_eq!(redirected(AT, Some(both), "https://coder.example.com/"), other("coder.example.com"));
    assert_eq!(
        redirected(AT, Some(both), "https://coder.example.com:443"),
        through("https://coder.example.com:443")
    );
    assert_eq!(redirected(AT, Some(both), &format!("https://{SERVICE}")), at(&format!("https://{SERVICE}")));
    let (plain, on_port) = (format!("http://{SERVICE}:80"), format!("http://{SERVICE}:8080"));
    assert_eq!(redirected(&plain, None, "http://coder.example.com"), through("http://coder.example.com"));
    let access_url = "http://coder.example.com:8080";
    assert_eq!(redirected(&on_port, None, access_url), through(access_url));
    assert_eq!(
        redirected(&plain, None, "https://coder.example.com"),
        at(&plain),
        "the operator does not come in either"
    );
    for (service, names, access_url) in [
        (AT, Some(&[SERVICE][..]), "https://coder.example.com"),
        (AT, Some(both), "https://coder.example.com:8443"),
        (&plain, None, access_url),
        (&plain, None, "http://192.0.2.1"),
    ] {
        let why = redirected(service, names, access_url).unwrap_err().told(WORDS).unwrap();
        assert!(why.contains("CODER_REDIRECT_TO_ACCESS_URL"), "{why}");
        assert!(why.contains(authority(access_url).unwrap()), "{why}");
    }
}

#[test]
fn a_name_of_the_certificate_leads_to_the_cluster_ip() {
    let service = |ip: &str| json!({"metadata": {"name": "coder"}, "spec": {"clusterIP": ip}});
    let found = through(Some(&service("10.0.0.7")), AT, "https://Coder.example.com").unwrap();
    assert_eq!(found.url, "https://Coder.example.com");
    assert_eq!(
        json!(found.alias.unwrap().entry()),
        json!({"ip": "10.0.0.7", "hostnames": ["coder.example.com"]})
    );
    let url = "https://a.example.com";
    for headless in ["None", ""] {
        let why = through(Some(&service(headless)), AT, url).unwrap_err().told(WORDS).unwrap();
        assert!(why.contains("Service coder has no cluster IP") && why.contains(SERVICE), "{why}");
    }
    assert_eq!(through(None, AT, url), Err(NoAddress::ServiceMissing));
    assert_eq!(NoAddress::ServiceMissing.told(WORDS), None);
    let why = NoAddress::Unnamed { host: SERVICE.to_owned() }.told(WORDS).unwrap();
    assert!(why.contains(&format!("add {SERVICE}")), "{why}");
}

#[test]
fn a_host_is_read_from_urls_as_we_write_them() {
    assert_eq!(host("https://a.example.com:443"), Some("a.example.com"));
    assert_eq!((host("http://a"), authority("https://me@a:1/b?c")), (Some("a"), Some("a:1")));
    assert_eq!((host(""), host("https://"), host("https://:443")), (None, None, None));
}

#[test]
fn what_is_no_certificate_has_no_leaf() {
    let secret = |pem: &str| json!({"data": {"tls.crt": k8s_openapi::ByteString(pem.as_bytes().to_vec())}});
    let key = rcgen::KeyPair::generate().unwrap();
    let good = rcgen::CertificateParams::new(vec!["a".to_owned()]).unwrap().self_signed(&key).unwrap();
    assert_eq!(super::leaf(&secret(&good.pem())), Some(good.der().clone()));
    let large = format!("{}{}", good.pem(), " ".repeat(LARGEST_PEM));
    assert_eq!([&secret("x"), &json!({}), &secret(&large)].map(super::leaf), [None, None, None]);
}
