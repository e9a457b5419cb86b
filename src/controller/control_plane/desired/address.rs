//! Decides on which ports the Service of coderd listens.
//! Never decides an address: that is for `webhooks`, which tells it in `status.resolved` too.

use webhooks::defaults::{HTTPS, serves_tls, service_port};

use super::origin::Origin;

/// Port of the Service for plain HTTP where the one of the spec is taken by HTTPS.
const PLAIN: i32 = 80;

impl Origin<'_> {
    /// Whether coderd serves HTTPS itself.
    pub(super) fn serves_tls(&self) -> bool {
        serves_tls(self.spec)
    }

    /// Port of the Service as the spec has it.
    pub(super) fn service_port(&self) -> i32 {
        service_port(self.spec)
    }

    /// Port of the Service that speaks plain HTTP, which is what an Ingress or a Gateway talks to.
    pub(super) fn plain_port(&self) -> i32 {
        if self.serves_tls() && self.service_port() == HTTPS { PLAIN } else { self.service_port() }
    }
}
