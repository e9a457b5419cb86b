//! Whether a cluster is at rest: what was written since a moment, by the audit log and by the versions of all objects.
//! The log names who wrote; the versions also show administrators, whom the log leaves out. It never judges.

use super::user;
use crate::audit::Request;
use crate::cluster::Cluster;
use crate::wait::until;
use kube::api::{Api, ListParams};
use kube::core::DynamicObject;
use kube::discovery::{Discovery, verbs};
use std::collections::BTreeMap;
use std::time::Duration;

/// What changes by itself in every cluster.
const RESTLESS: [&str; 3] = ["leases", "nodes", "endpointslices"];
/// Where a GitOps tool notes what it did and saw, which is part of its work. An operator that has nothing to do writes nothing
/// there either: no Event in particular. The programs of the cluster are administrators here, whom the log leaves out.
const NOTES: [&str; 4] = ["events", "kustomizations", "gitrepositories", "applications"];
/// Where the tools live.
const TOOLS: [&str; 2] = [super::flux::NAMESPACE, super::argocd::NAMESPACE];
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
        let told = |request: Request| {
            format!("{} {} {} by {}", request.sort(), request.uri, request.code, request.with_rights_of)
        };
        self.requests().into_iter().filter(disturbs).map(told).collect()
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

/// Whether a request is a write that a cluster at rest does not see.
fn disturbs(request: &Request) -> bool {
    let plural = request.resource.split('/').next().unwrap_or_default();
    let by_a_tool = TOOLS.iter().any(|home| request.with_rights_of.starts_with(&user(home, "")));
    let noted =
        RESTLESS.contains(&plural) || QUESTIONS.contains(&plural) || (by_a_tool && NOTES.contains(&plural));
    !request.is_read() && !request.is_dry_run() && !noted
}

/// The version of every object that can be listed. Who made a note is told by the log alone.
async fn versions(cluster: &Cluster) -> BTreeMap<String, String> {
    let client = cluster.client().await;
    let discovery =
        Discovery::new(client.clone()).run_aggregated().await.expect("the API server tells its kinds");
    let mut all = BTreeMap::new();
    for (resource, capabilities) in
        discovery.groups_alphabetical().into_iter().flat_map(|group| group.recommended_resources())
    {
        let plural = resource.plural.as_str();
        if RESTLESS.contains(&plural)
            || NOTES.contains(&plural)
            || !capabilities.supports_operation(verbs::LIST)
        {
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

#[cfg(test)]
mod tests {
    use super::*;

    fn request(verb: &str, resource: &str, by: &str) -> Request {
        let text = |text: &str| text.to_owned();
        let (verb, resource, with_rights_of) = (text(verb), text(resource), user(by, "a"));
        Request {
            verb,
            resource,
            with_rights_of,
            namespace: text("coder"),
            name: text("x"),
            uri: text("/"),
            code: 200,
        }
    }

    #[test]
    fn a_note_of_a_tool_is_part_of_its_work_and_an_event_of_the_operator_is_not() {
        for tool in TOOLS {
            assert!(!disturbs(&request("create", "events", tool)));
            assert!(!disturbs(&request("patch", "applications/status", tool)));
            assert!(disturbs(&request("patch", "codercontrolplanes", tool)));
        }
        for verb in ["create", "patch"] {
            assert!(disturbs(&request(verb, "events", "coder-system")));
        }
        assert!(!disturbs(&request("update", "leases", "coder-system")));
        assert!(!disturbs(&request("create", "tokenreviews", "coder-system")));
        assert!(!disturbs(&request("list", "events", "coder-system")));
        for resource in ["codercontrolplanes/status", "applications"] {
            assert!(disturbs(&request("patch", resource, "coder-system")));
        }
    }

    #[test]
    fn who_only_asks_what_would_change_disturbs_nobody() {
        let asked = Request { uri: "/x?dryRun=All".to_owned(), ..request("patch", "deployments", "argocd") };
        assert!(!disturbs(&asked));
    }
}
