//! Whether a cluster is at rest: what was written since a moment, by the audit log and by the versions of all objects.
//! The log names who wrote; the versions also show administrators, whom the log leaves out. It never judges.

use crate::audit::Request;
use crate::cluster::Cluster;
use crate::wait::until;
use kube::api::{Api, ListParams};
use kube::core::DynamicObject;
use kube::discovery::{Discovery, verbs};
use std::collections::BTreeMap;
use std::time::Duration;

/// What changes by itself in every cluster, and what a GitOps tool notes about its own work.
const RESTLESS: [&str; 7] =
    ["leases", "nodes", "events", "kustomizations", "gitrepositories", "applications", "endpointslices"];
/// Questions that are asked by a `create`.
const QUESTIONS: [&str; 3] = ["tokenreviews", "subjectaccessreviews", "selfsubjectaccessreviews"];

const ALWAYS_THERE: [&str; 2] = ["/kube-root-ca.crt", "/default"];
const LISTED_WITHIN: Duration = Duration::from_secs(60);

/// A moment of a cluster.
pub struct Moment {
    cluster: Cluster,
    mark: usize,
    versions: BTreeMap<String, String>,
}

impl Moment {
    /// Now.
    pub async fn of(cluster: &Cluster) -> Self {
        Self { cluster: cluster.clone(), mark: cluster.audit_mark(), versions: versions(cluster).await }
    }

    /// Everything that anybody but an administrator asked since then.
    pub fn requests(&self) -> Vec<Request> {
        self.cluster.requests_since(self.mark)
    }

    /// The writes among it that changed, or tried to change, something other than what is never at rest.
    pub fn writes(&self) -> Vec<String> {
        let requests =
            self.requests().into_iter().filter(|request| !request.is_read() && !request.is_dry_run());
        let counts = |request: &Request| {
            let plural = request.resource.split('/').next().unwrap_or_default();
            !RESTLESS.contains(&plural) && !QUESTIONS.contains(&plural)
        };
        let told = |request: Request| {
            format!("{} {} {} by {}", request.sort(), request.uri, request.code, request.with_rights_of)
        };
        requests.filter(counts).map(told).collect()
    }

    /// The objects that were made, changed or deleted since then, by whomever.
    pub async fn changes(&self) -> Vec<String> {
        let now = versions(&self.cluster).await;
        let all = self.versions.keys().chain(now.keys().filter(|key| !self.versions.contains_key(*key)));
        let changed = all.filter(|key| self.versions.get(*key) != now.get(*key));
        changed.map(|key| format!("{key}: {:?}, then {:?}", self.versions.get(key), now.get(key))).collect()
    }

    /// The objects that were not there then, without those that have one of these words in them, and without what the
    /// controller manager puts into every namespace sooner or later.
    pub async fn left_behind(&self, without: &[&str]) -> Vec<String> {
        let now = versions(&self.cluster).await.into_keys();
        let chosen = |key: &String| !without.iter().chain(&ALWAYS_THERE).any(|word| key.contains(word));
        now.filter(chosen).filter(|key| !self.versions.contains_key(key)).collect()
    }
}

/// The version of every object that can be listed.
async fn versions(cluster: &Cluster) -> BTreeMap<String, String> {
    let client = cluster.client().await;
    let discovery =
        Discovery::new(client.clone()).run_aggregated().await.expect("the API server tells its kinds");
    let mut all = BTreeMap::new();
    for (resource, capabilities) in
        discovery.groups_alphabetical().into_iter().flat_map(|group| group.recommended_resources())
    {
        if RESTLESS.contains(&resource.plural.as_str()) || !capabilities.supports_operation(verbs::LIST) {
            continue;
        }
        let api = Api::<DynamicObject>::all_with(client.clone(), &resource);
        // A kind that was defined a moment ago is not served at once.
        let list = until(&format!("a list of {}", resource.plural), LISTED_WITHIN, async || {
            match api.list_metadata(&ListParams::default()).await {
                Ok(list) => Ok(list.items),
                // Its definition has gone a moment ago.
                Err(kube::Error::Api(status)) if status.code == 404 => Ok(Vec::new()),
                Err(error) => Err(error),
            }
        })
        .await;
        for object in list {
            let meta = object.metadata;
            let namespace = meta.namespace.unwrap_or_default();
            let key = format!("{} {namespace}/{}", resource.plural, meta.name.unwrap_or_default());
            all.insert(key, meta.resource_version.unwrap_or_default());
        }
    }
    all
}
