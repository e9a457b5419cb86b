//! A Helm release is taken over on behalf of whoever sets the annotation that names it: he must be allowed to do by hand what
//! the operator does for him.

use super::expected;
use super::tenant::{Tenant, Way, causes, fresh, object};
use crds::well_known::annotation::ADOPT_HELM_RELEASE;
use serde_json::json;
use webhooks::Kind;

/// The operator deletes a Deployment on behalf of the author, who must be allowed to do it by hand.
#[tokio::test]
async fn a_helm_release_is_taken_over_for_nobody_who_may_not_delete_deployments() {
    let desk = Tenant::shared().await.desk().await;
    let field = format!("metadata.annotations[{ADOPT_HELM_RELEASE}]");
    for way in [Way::Create, Way::Apply, Way::Update] {
        let spec = json!({ "rbac": { "workspacePerms": false } });
        let mut made = object(Kind::ControlPlane, &fresh("adopting"), &spec);
        if way == Way::Update {
            let name = made["metadata"]["name"].as_str().unwrap();
            made = desk.stored(Kind::ControlPlane, name, &spec).await.unwrap();
        }
        made["metadata"]["annotations"] = json!({ ADOPT_HELM_RELEASE: "coder" });
        let before = desk.found(&made).await;
        for (more, refused) in [(&[][..], true), (&["delete deployments.apps"], false)] {
            let person = desk.person(&[&["create pods"][..], more].concat()).await;
            for dry_run in [true, false] {
                let answer = desk.send(&person, way, dry_run, &made).await;
                if !refused {
                    answer.unwrap_or_else(|error| panic!("{way:?}: {error}"));
                    continue;
                }
                assert_eq!(causes(answer).unwrap(), expected([(field.as_str(), "CODER0513")]), "{way:?}");
                assert_eq!(desk.found(&made).await, before, "{way:?}");
            }
        }
    }
}
