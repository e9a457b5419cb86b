//! Proxies that the operator registers for their authors: with its own rights in coderd, in control planes of others and under
//! names of others. Whoever asks for that must be allowed to run pods beside that control plane.

use super::tenant::{Tenant, Way, causes, fresh, object};
use super::{all, expected};
use serde_json::{Value, json};
use support::wait::holds;
use webhooks::Kind::WorkspaceProxy;

/// What the operator does in coderd for whoever writes it.
fn registrations() -> Vec<Value> {
    let of = json!({ "name": "of-others" });
    vec![
        json!({ "controlPlaneRef": of }),
        json!({ "controlPlaneRef": of, "registration": { "proxyName": "of-others" } }),
        json!({ "controlPlaneRef": of, "registration": { "displayName": "Sydney", "icon": "/emojis/1f310.png" } }),
        json!({ "controlPlaneRef": of, "deletionPolicy": "Orphan" }),
    ]
}

#[tokio::test]
async fn nobody_has_a_proxy_registered_who_may_not_run_one() {
    let desk = Tenant::shared().await.desk().await;
    let (author, reader) = (desk.person(&[]).await, desk.person(&["get secrets", "create secrets"]).await);
    let runner = desk.person(&["create pods"]).await;
    all(registrations(), async |spec| {
        let tell = |problem: String| format!("{spec}: {problem}");
        for way in [Way::Create, Way::Apply] {
            for person in [&author, &reader] {
                let made = object(WorkspaceProxy, &fresh("registered"), &spec);
                let told = causes(desk.send(person, way, false, &made).await).map_err(tell)?;
                let refused = expected([("spec", "CODER0509")]);
                holds(told == refused, tell(format!("{way:?}: told {told:?}")))?;
                holds(desk.found(&made).await.is_none(), tell("it is stored".to_owned()))?;
            }
            let made = object(WorkspaceProxy, &fresh("registered"), &spec);
            desk.send(&runner, way, false, &made).await.map_err(|error| tell(format!("{way:?}: {error}")))?;
        }
        Ok(())
    })
    .await;
}

/// An annotation may come with the object: adopting a proxy ends whoever uses its token.
#[tokio::test]
async fn a_new_proxy_that_takes_one_over_asks_for_the_right_to_run_pods() {
    let desk = Tenant::shared().await.desk().await;
    let (author, runner) = (desk.person(&[]).await, desk.person(&["create deployments.apps"]).await);
    for name in ["adopt-proxy", "rotate-token"] {
        let mut made =
            object(WorkspaceProxy, &fresh("adopting"), &json!({ "controlPlaneRef": { "name": "coder" } }));
        made["metadata"]["annotations"] = json!({ format!("coder.com/{name}"): "of-others" });
        for way in [Way::Create, Way::Apply] {
            let told = causes(desk.send(&author, way, false, &made).await).unwrap();
            assert!(told.is_superset(&expected([("spec", "CODER0509")])), "{name} {way:?}: {told:?}");
            assert_eq!(desk.found(&made).await, None, "{name} {way:?}");
        }
        desk.send(&runner, Way::Apply, false, &made).await.unwrap_or_else(|error| panic!("{name}: {error}"));
    }
}
