//! Decides under which addresses coderd is reached inside the cluster.
//! Never decides an address outside of it: that is in the environment its author gives.

use crds::CoderControlPlane;
use crds::names::control_plane::workload;
use crds::well_known::default;

use super::origin::Origin;
use super::volumes::tls_secrets;

/// Port of the Service for HTTPS.
pub(super) const HTTPS: i32 = 443;
/// Port of the Service for plain HTTP where the one of the spec is taken by HTTPS.
const PLAIN: i32 = 80;

impl Origin<'_> {
    /// Whether coderd serves HTTPS itself.
    pub(super) fn serves_tls(&self) -> bool {
        !tls_secrets(self.spec).is_empty()
    }

    /// Port of the Service as the spec has it.
    pub(super) fn service_port(&self) -> i32 {
        self.spec.service.as_ref().and_then(|service| service.port).unwrap_or(default::SERVICE_PORT)
    }

    /// Port of the Service that speaks plain HTTP, which is what an Ingress or a Gateway talks to.
    pub(super) fn plain_port(&self) -> i32 {
        if self.serves_tls() && self.service_port() == HTTPS { PLAIN } else { self.service_port() }
    }

    fn host(&self) -> String {
        format!("{}.{}.svc.cluster.local", workload(self.name), self.namespace)
    }

    /// What coderd is told to be reached at. The port is left out where the scheme implies it.
    pub(super) fn access_url(&self) -> String {
        match self.service_port() {
            _ if self.serves_tls() => format!("https://{}", self.host()),
            PLAIN => format!("http://{}", self.host()),
            port => format!("http://{}:{port}", self.host()),
        }
    }
}

/// `status.url`: address of coderd inside the cluster, always with its port.
pub fn cluster_url(control_plane: &CoderControlPlane) -> String {
    let origin = Origin::of(control_plane);
    if origin.serves_tls() {
        return format!("https://{}:{HTTPS}", origin.host());
    }
    format!("http://{}:{}", origin.host(), origin.service_port())
}

#[cfg(test)]
mod tests {
    use super::super::given::ControlPlane;
    use super::*;

    #[test]
    fn the_address_in_the_status_always_has_a_port() {
        let url = |given: ControlPlane| cluster_url(&given.resolved());
        assert_eq!(url(ControlPlane::test()), "http://coder.ns.svc.cluster.local:80");
        assert_eq!(url(ControlPlane::test().on_port(8080)), "http://coder.ns.svc.cluster.local:8080");
        let tls = ControlPlane::test().with_tls(&["a"]);
        assert_eq!(url(tls.clone()), "https://coder.ns.svc.cluster.local:443");
        assert_eq!(url(tls.on_port(8080)), "https://coder.ns.svc.cluster.local:443");
        let blank = ControlPlane::test().with_tls(&[" "]);
        assert_eq!(url(blank), "http://coder.ns.svc.cluster.local:80");
    }

    #[test]
    fn the_access_url_is_the_one_the_status_summary_tells() {
        for given in [
            ControlPlane::test(),
            ControlPlane::test().on_port(8080),
            ControlPlane::test().on_port(443),
            ControlPlane::test().with_tls(&["a"]),
            ControlPlane::test().with_tls(&["a"]).on_port(8443),
        ] {
            let config = webhooks::Config::default();
            let summary = webhooks::status_resolved(webhooks::Kind::ControlPlane, &given.object, &config);
            assert_eq!(summary["accessURL"], Origin::of(&given.resolved()).access_url());
        }
    }
}
