//! Nobody gains through our objects what they do not hold themselves: people with few rights against the shipped
//! webhooks on a real API server, in every way an object can be sent.

mod accounts;
mod adoption;
mod break_glass;
mod changes;
mod gains;
mod handed_on;
mod outcome;
mod reach;
mod registrations;
mod restricted;
mod stolen_keys;
mod tenant;

use changes::{Change, changes};
use crds::well_known::annotation::{ACTING, ADOPT_HELM_RELEASE};
use futures::{StreamExt, stream};
use gains::{FOUNDER, Gain, WITH_RULES, gains};
use serde_json::{Value, json};
use support::Cluster;
use support::wait::holds;
use tenant::{Causes, Desk, Person, Tenant, Way, causes, fresh, object};
use webhooks::Kind;

/// Cases tried at the same time.
const AT_ONCE: usize = 8;

/// Tries all cases and tells every one that went wrong.
async fn all<C>(cases: Vec<C>, case: impl AsyncFn(C) -> Result<(), String>) -> usize {
    let count = cases.len();
    let results = stream::iter(cases).map(|one| case(one)).buffer_unordered(AT_ONCE);
    let wrong: Vec<String> = results.filter_map(async |result| result.err()).collect().await;
    assert!(wrong.is_empty(), "{} of {count} cases:\n{}", wrong.len(), wrong.join("\n"));
    count
}

fn expected<'a>(causes: impl IntoIterator<Item = (&'a str, &'a str)>) -> Causes {
    causes.into_iter().map(|(field, code)| (field.to_owned(), code.to_owned())).collect()
}

impl Gain {
    fn causes(&self, way: Way) -> Causes {
        let causes = if way == Way::Update { self.refused.clone() } else { self.refused_when_new() };
        causes.into_iter().map(|(field, code)| (field, code.to_owned())).collect()
    }

    /// Sends the gain as somebody: over a plain object where it is an update, else as a new one.
    async fn sent(
        &self,
        desk: &Desk<'_>,
        person: &Person,
        way: Way,
        dry_run: bool,
    ) -> Result<(Result<Value, kube::Error>, Option<Value>, Value), String> {
        let mut object = object(self.kind, &fresh("case"), &self.spec);
        let mut before = None;
        if way == Way::Update {
            let plain =
                desk.stored(self.kind, object["metadata"]["name"].as_str().unwrap(), &json!({})).await?;
            object["metadata"] = plain["metadata"].clone();
            before = Some(plain);
        }
        Ok((desk.send(person, way, dry_run, &object).await, before, object))
    }

    fn tell(&self, how: &str, problem: String) -> String {
        format!("{} {} {how}: {problem}", self.kind.name(), self.spec)
    }
}

/// Somebody without rights sends every gain in every way.
#[tokio::test]
async fn an_author_gains_nothing_however_the_object_is_sent() {
    let desk = Tenant::shared().await.desk().await;
    let author = desk.person(&[]).await;
    let gains = gains();
    let mut cases = Vec::new();
    for gain in &gains {
        for way in [Way::Create, Way::Apply, Way::Update] {
            cases.extend([false, true].map(|dry_run| (gain, way, dry_run)));
        }
    }
    let count = all(cases, async |(gain, way, dry_run)| {
        let tell = |problem| gain.tell(&format!("{way:?}, dry run: {dry_run}"), problem);
        let (answer, before, object) = gain.sent(&desk, &author, way, dry_run).await.map_err(tell)?;
        let told = causes(answer).map_err(tell)?;
        let causes = gain.causes(way);
        holds(told == causes, tell(format!("told {told:?} and not {causes:?}")))?;
        let after = desk.found(&object).await;
        holds(after == before, tell(format!("was {before:?} and is {after:?}")))
    })
    .await;
    assert!(gains.len() >= 160 && count >= 960, "{count} cases of {} gains", gains.len());
}

#[tokio::test]
async fn whoever_holds_the_right_may_use_it() {
    let desk = Tenant::shared().await.desk().await;
    let gains = gains();
    let cases: Vec<_> =
        gains.iter().flat_map(|gain| gain.enough.iter().map(move |lines| (gain, lines))).collect();
    all(cases, async |(gain, lines)| {
        let tell = |problem| gain.tell(&format!("by one who may {lines:?}"), problem);
        let lines = lines.iter().map(String::as_str).collect::<Vec<_>>();
        // Whoever makes an object needs what every object asks for besides.
        for (way, more) in [(Way::Update, &[][..]), (Way::Create, &FOUNDER)] {
            let person = desk.person(&[&lines, more].concat()).await;
            let (answer, ..) = gain.sent(&desk, &person, way, false).await.map_err(tell)?;
            answer.map_err(|error| tell(format!("{way:?}: {error}")))?;
        }
        Ok(())
    })
    .await;
}

#[tokio::test]
async fn rights_that_only_look_like_it_are_not_enough() {
    let desk = Tenant::shared().await.desk().await;
    let gains = gains();
    let cases: Vec<_> =
        gains.iter().flat_map(|gain| gain.too_little.iter().map(move |lines| (gain, lines))).collect();
    all(cases, async |(gain, lines)| {
        let tell = |problem| gain.tell(&format!("by one who may {lines:?}"), problem);
        let person = desk.person(&lines.iter().map(String::as_str).collect::<Vec<_>>()).await;
        let (answer, ..) = gain.sent(&desk, &person, Way::Update, false).await.map_err(tell)?;
        let told = causes(answer).map_err(tell)?;
        holds(gain.causes(Way::Update).is_superset(&told), tell(format!("told {told:?}")))
    })
    .await;
}

#[tokio::test]
async fn what_a_stored_object_has_is_not_asked_for_again() {
    let desk = Tenant::shared().await.desk().await;
    let author = desk.person(&[]).await;
    all(gains(), async |gain| {
        let tell = |problem| gain.tell("as it is stored", problem);
        let mut object = desk.stored(gain.kind, &fresh("granted"), &gain.spec).await.map_err(tell)?;
        object["spec"]["replicas"] = json!(3);
        let sent = desk.send(&author, Way::Update, false, &object).await;
        let stored = sent.map_err(|error| tell(error.to_string()))?;
        holds(stored["spec"]["replicas"] == json!(3), tell("nothing changed".to_owned()))
    })
    .await;
}

#[tokio::test]
async fn of_a_change_only_what_it_adds_is_asked_for() {
    let desk = Tenant::shared().await.desk().await;
    all(changes(), async |Change { what, kind, stored, changed, holds: rights, refused }| {
        let tell = |problem: String| format!("{}, {what}: {problem}", kind.name());
        let person = desk.person(&rights).await;
        let before = desk.stored(kind, &fresh("changed"), &stored).await.map_err(tell)?;
        let mut after = object(kind, "", &changed);
        after["metadata"] = before["metadata"].clone();
        for dry_run in [true, false] {
            let answer = desk.send(&person, Way::Update, dry_run, &after).await;
            if refused.is_empty() {
                answer.map_err(|error| tell(error.to_string()))?;
            } else {
                let told = causes(answer).map_err(tell)?;
                holds(told == expected(refused.clone()), tell(format!("told {told:?}")))?;
                holds(desk.found(&before).await == Some(before.clone()), tell("it changed".to_owned()))?;
            }
        }
        Ok(())
    })
    .await;
}

#[tokio::test]
async fn rights_of_a_group_and_of_a_service_account_count() {
    let tenant = Tenant::shared().await;
    let desk = tenant.desk().await;
    let secret =
        json!({ "envFrom": [{ "secretRef": { "name": "payroll" } }], "rbac": { "workspacePerms": false } });
    let plane = || object(Kind::ControlPlane, &fresh("member"), &secret);
    desk.grant(&json!({ "kind": "Group", "name": "accounting" }), "create pods").await;
    for (group, passes) in [("accounting", true), ("marketing", false)] {
        let member = Person::Author { name: fresh("member"), groups: vec![group.to_owned()] };
        let answer = desk.send(&member, Way::Apply, false, &plane()).await;
        assert_eq!(answer.is_ok(), passes, "{group}: {answer:?}");
    }

    // A robot with a real token, as a GitOps tool has one.
    let cluster = Cluster::shared().await;
    let namespace = &tenant.namespace;
    cluster.kubectl(&format!("create serviceaccount git -n {namespace}")).await.expect_ok();
    let robot = json!({ "kind": "ServiceAccount", "name": "git", "namespace": namespace });
    desk.grant(&robot, "create,patch codercontrolplanes.coder.com").await;
    let kubeconfig = cluster.kubeconfig_for(namespace, "git", &cluster.url()).await;
    let client = cluster.client_of(&kubeconfig).await;
    let path = format!("/apis/coder.com/v1alpha1/namespaces/{namespace}/codercontrolplanes");
    let create = || async {
        let request = http::Request::post(&path).header("content-type", "application/json");
        client.request::<Value>(request.body(plane().to_string().into_bytes()).unwrap()).await
    };
    let told = causes(create().await).unwrap();
    assert_eq!(told, expected([("spec", "CODER0509")]));
    desk.grant(&robot, "create deployments.apps").await;
    create().await.expect("the robot may run pods now");
}

/// The built-in roles of a namespace hold what a plain object asks for: who may edit a namespace may run Coder there.
#[tokio::test]
async fn whoever_may_edit_a_namespace_may_run_every_sort_of_object_there() {
    let desk = Tenant::shared().await.desk().await;
    let editor = desk.editor().await;
    for kind in Kind::ALL {
        let made = object(kind, &fresh("edited"), &json!({}));
        desk.send(&editor, Way::Apply, false, &made)
            .await
            .unwrap_or_else(|error| panic!("{kind:?}: {error}"));
    }
    let exposed = json!({ "expose": { "ingress": { "host": "c.example.com" } }, "service": { "type": "LoadBalancer" } });
    let made = object(Kind::ControlPlane, &fresh("edited"), &exposed);
    desk.send(&editor, Way::Apply, false, &made)
        .await
        .expect("ingresses and Services are among these rights");
}

#[tokio::test]
async fn more_rights_than_two_hundred_questions_can_check_are_to_be_split() {
    let desk = Tenant::shared().await.desk().await;
    let everywhere = FOUNDER.map(|line| format!("{line} @*"));
    let holder = desk.person(&everywhere.each_ref().map(String::as_str)).await;
    let teams: Vec<String> = (0..8).map(|number| format!("squad-{number}")).collect();
    let plane = |name: &str, teams: &[String]| {
        object(Kind::ControlPlane, name, &json!({ "rbac": { "workspaceNamespaces": teams } }))
    };
    let name = fresh("split");
    let at_once = desk.send(&holder, Way::Apply, false, &plane(&name, &teams)).await;
    let Err(kube::Error::Api(status)) = &at_once else { panic!("{at_once:?}") };
    assert!(status.message.contains("split the change"), "{}", status.message);
    let told = causes(at_once).unwrap();
    assert_eq!(told.iter().map(|(_, code)| code.as_str()).collect::<Vec<_>>(), ["CODER0508"], "{told:?}");
    for teams in [&teams[..4], &teams[..]] {
        desk.send(&holder, Way::Apply, false, &plane(&name, teams)).await.expect("in parts it passes");
    }

    // Who may escalate is asked one question a namespace.
    let many: Vec<String> = (0..150).map(|number| format!("team-{number}")).collect();
    let trusted = desk.person(&["escalate roles.rbac.authorization.k8s.io @*", "create pods"]).await;
    desk.send(&trusted, Way::Create, false, &plane(&fresh("many"), &many))
        .await
        .expect("a hundred and fifty are few enough");
}

#[tokio::test]
async fn a_rule_of_more_than_forty_rights_is_to_be_split_too() {
    let desk = Tenant::shared().await.desk().await;
    let verbs = "get,list,watch,create,update,patch,delete";
    let resources = "podtemplates,services,configmaps,endpoints,events,secrets";
    let holder = desk.person(&[&format!("{verbs} {resources}")]).await;
    let split = |text: &str| text.split(',').map(str::to_owned).collect::<Vec<_>>();
    let rule = json!({ "apiGroups": [""], "resources": split(resources), "verbs": split(verbs) });
    let stored = async || desk.stored(Kind::ControlPlane, &fresh("rule"), &json!({})).await.unwrap();
    let send = async |person: &Person, plane: &Value, rule: &Value| {
        let mut plane = desk.found(plane).await.unwrap();
        plane["spec"]["rbac"] = json!({ "extraRules": [rule] });
        desk.send(person, Way::Update, false, &plane).await
    };
    let plane = stored().await;
    let nobody = desk.person(&[]).await;
    for person in [&holder, &nobody] {
        let told = causes(send(person, &plane, &rule).await).unwrap();
        assert_eq!(told, expected([("spec.rbac.extraRules[0]", "CODER0508")]));
    }
    let mut part = rule.clone();
    part["verbs"] = json!(["get", "list", "watch"]);
    for rule in [&part, &rule] {
        send(&holder, &plane, rule).await.expect("in parts it passes");
    }
    let trusted = desk.person(&["escalate roles.rbac.authorization.k8s.io"]).await;
    send(&trusted, &stored().await, &rule).await.expect("who may escalate needs no parts");
}

/// Whoever writes Roles hands that on to nobody, not even for a cluster administrator.
#[tokio::test]
async fn rules_on_roles_are_refused_to_everybody() {
    let desk = Tenant::shared().await.desk().await;
    for resource in ["roles", "rolebindings", "clusterroles"] {
        let rule =
            json!({ "apiGroups": ["rbac.authorization.k8s.io"], "resources": [resource], "verbs": ["get"] });
        let spec = json!({ "rbac": { "extraRules": [rule] } });
        for kind in WITH_RULES {
            let made = object(kind, &fresh("roles"), &spec);
            let told = causes(desk.send(&Person::Administrator, Way::Apply, false, &made).await).unwrap();
            assert_eq!(told, expected([("spec.rbac.extraRules[0]", "CODER0501")]));
            assert_eq!(desk.found(&made).await, None);
        }
    }
}

/// The attack: delete an object that its finalizer holds, then have the operator clean up at another address, or run
/// other code until it is gone.
#[tokio::test]
async fn an_object_under_deletion_is_reviewed_like_any_other() {
    let desk = Tenant::shared().await.desk().await;
    let author = desk.person(&[]).await;
    let url = json!({ "bootstrap": { "coderURL": "https://mine.example.com", "credentialsSecretRef": { "name": "payroll" } } });
    let image = json!({ "image": "registry.example.com/mine:v2.36.1" });
    let sent = "spec.bootstrap.credentialsSecretRef.name";
    for (kind, stored, change, refused) in [
        (
            Kind::WorkspaceProxy,
            json!({ "bootstrap": { "coderURL": "https://coder.example.com", "credentialsSecretRef": { "name": "payroll" } } }),
            url,
            vec![
                ("spec.bootstrap", "CODER0509"),
                (sent, "CODER0506"),
                ("spec.bootstrap.coderURL", "CODER0506"),
            ],
        ),
        (
            Kind::Provisioner,
            json!({ "bootstrap": { "credentialsSecretRef": { "name": "payroll" } } }),
            json!({ "controlPlaneRef": { "name": "mine" } }),
            vec![("spec.controlPlaneRef", "CODER0509"), (sent, "CODER0506")],
        ),
        (
            Kind::WorkspaceProxy,
            json!({ "controlPlaneRef": { "name": "coder" } }),
            json!({ "controlPlaneRef": { "name": "mine" } }),
            vec![("spec.controlPlaneRef", "CODER0509"), ("spec.controlPlaneRef.name", "CODER0506")],
        ),
        (Kind::ControlPlane, json!({}), image.clone(), vec![("spec.image", "CODER0509")]),
        (Kind::Provisioner, json!({}), image.clone(), vec![("spec.image", "CODER0509")]),
        (Kind::WorkspaceProxy, json!({}), image, vec![("spec.image", "CODER0509")]),
    ] {
        let held = desk.held_in_deletion(kind, &stored).await;
        let mut attack = held.clone();
        for (field, value) in change.as_object().unwrap() {
            attack["spec"][field] = value.clone();
        }
        for dry_run in [true, false] {
            let told = causes(desk.send(&author, Way::Update, dry_run, &attack).await);
            assert_eq!(told, Ok(expected(refused.clone())), "{kind:?}");
        }
        assert_eq!(desk.found(&held).await, Some(held.clone()), "{kind:?} changed");

        // Whoever may write the object still lets it go.
        let mut released = held;
        released["metadata"].as_object_mut().unwrap().remove("finalizers");
        desk.send(&author, Way::Update, false, &released).await.expect("the finalizer goes");
        assert_eq!(desk.found(&released).await, None, "{kind:?}");
    }
}

#[tokio::test]
async fn an_annotation_that_acts_is_a_change_like_any_other() {
    let desk = Tenant::shared().await.desk().await;
    let (author, runner) = (desk.person(&[]).await, desk.person(&["create,delete deployments.apps"]).await);
    let cases: Vec<_> = Kind::ALL.into_iter().flat_map(|kind| ACTING.map(|key| (kind, key))).collect();
    all(cases, async |(kind, key)| {
        let tell = |problem: String| format!("{kind:?} {key}: {problem}");
        let stored = desk.stored(kind, &fresh("acting"), &json!({})).await.map_err(tell)?;
        let with = |stored: &Value, value: &str| {
            let mut marked = stored.clone();
            marked["metadata"]["annotations"] = json!({ key: value });
            marked
        };
        let field = format!("metadata.annotations[{key}]");
        let deletes = key == ADOPT_HELM_RELEASE && kind == Kind::ControlPlane;
        let codes = if deletes { &["CODER0509", "CODER0513"][..] } else { &["CODER0509"] };
        let refused = expected(codes.iter().map(|code| (field.as_str(), *code)));
        let told = causes(desk.send(&author, Way::Update, false, &with(&stored, "a")).await).map_err(tell)?;
        holds(told == refused, tell(format!("added: {told:?}")))?;
        let sent = desk.send(&runner, Way::Update, false, &with(&stored, "a")).await;
        let marked = sent.map_err(|error| tell(error.to_string()))?;
        let told = causes(desk.send(&author, Way::Update, false, &with(&marked, "b")).await).map_err(tell)?;
        holds(told == refused, tell(format!("changed: {told:?}")))?;

        // Others are nobody's business, and what goes acts no more.
        let mut plain = marked;
        plain["metadata"]["annotations"] = json!({ "coder.com/reconcile-at": "now" });
        desk.send(&author, Way::Update, false, &plain)
            .await
            .map(drop)
            .map_err(|error| tell(error.to_string()))
    })
    .await;
}
