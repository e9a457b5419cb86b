//! What a Lease object says, as plain values, and back.
//! It translates; it never decides who leads.

use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use std::time::Duration;

/// The content of a Lease and the version it was read at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Record {
    /// Who holds it; `None` when it was released.
    pub holder: Option<String>,
    /// How long the holder asked others to wait after its last renewal.
    pub duration: Duration,
    /// How often the holder changed: the term of the current one.
    pub transitions: i32,
    /// The holder's clock at its last renewal. Only ever compared for change: clocks differ.
    pub renewed: Option<Timestamp>,
    /// The holder's clock when it took over.
    pub acquired: Option<Timestamp>,
    /// The resourceVersion, which a replacement must carry.
    pub version: Option<String>,
}

impl Record {
    /// Reads a Lease.
    pub(crate) fn of(lease: &Lease) -> Self {
        let spec = lease.spec.clone().unwrap_or_default();
        let seconds = u64::try_from(spec.lease_duration_seconds.unwrap_or_default()).unwrap_or_default();
        Self {
            holder: spec.holder_identity.filter(|holder| !holder.is_empty()),
            duration: Duration::from_secs(seconds),
            transitions: spec.lease_transitions.unwrap_or_default(),
            renewed: spec.renew_time.map(|time| time.0),
            acquired: spec.acquire_time.map(|time| time.0),
            version: lease.metadata.resource_version.clone(),
        }
    }

    /// The Lease to write.
    pub(crate) fn to_lease(&self, name: &str, namespace: &str) -> Lease {
        let mut lease = Lease::default();
        lease.metadata.name = Some(name.to_owned());
        lease.metadata.namespace = Some(namespace.to_owned());
        lease.metadata.resource_version = self.version.clone();
        lease.spec = Some(LeaseSpec {
            // A released lease keeps an empty holder, as every client of the API does.
            holder_identity: Some(self.holder.clone().unwrap_or_default()),
            lease_duration_seconds: Some(i32::try_from(self.duration.as_secs().max(1)).unwrap_or(i32::MAX)),
            lease_transitions: Some(self.transitions),
            renew_time: self.renewed.map(MicroTime),
            acquire_time: self.acquired.map(MicroTime),
            ..LeaseSpec::default()
        });
        lease
    }
}
