//! Nobody gains through our objects what they do not hold themselves: people with few rights against the shipped
//! webhooks on a real API server, in every way an object can be sent.

#[path = "escalation/accounts.rs"]
mod accounts;
#[path = "escalation/changes.rs"]
mod changes;
#[path = "escalation/gains.rs"]
mod gains;
#[path = "escalation/handed_on.rs"]
mod handed_on;
#[path = "escalation/tenant.rs"]
mod tenant;

use changes::{Change, changes};
use futures::{StreamExt, stream};
use gains::{Gain, gains};
use serde_json::{Value, json};
use support::Cluster;
use support::wait::holds;
use tenant::{Causes, Desk, Person, TEAMS, Tenant, Way, causes, fresh, object};
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
    fn causes(&self) -> Causes {
        expected(self.refused.iter().map(|(field, code)| (field.as_str(), *code)))
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
        holds(told == gain.causes(), tell(format!("told {told:?}")))?;
        let after = desk.found(&object).await;
        holds(after == before, tell(format!("was {before:?} and is {after:?}")))
    })
    .await;
    assert!(gains.len() >= 40 && count >= 240, "{count} cases of {} gains", gains.len());
}

#[tokio::test]
async fn whoever_holds_the_right_may_use_it() {
    let desk = Tenant::shared().await.desk().await;
    let gains = gains();
    let cases: Vec<_> =
        gains.iter().flat_map(|gain| gain.enough.iter().map(move |lines| (gain, lines))).collect();
    all(cases, async |(gain, lines)| {
        let tell = |problem| gain.tell(&format!("by one who may {lines:?}"), problem);
        let person = desk.person(&lines.iter().map(String::as_str).collect::<Vec<_>>()).await;
        for way in [Way::Create, Way::Update] {
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
        let (answer, ..) = gain.sent(&desk, &person, Way::Create, false).await.map_err(tell)?;
        let told = causes(answer).map_err(tell)?;
        holds(gain.causes().is_superset(&told), tell(format!("told {told:?}")))
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
        let tell = |problem: String| format!("{what}: {problem}");
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
    let secret = json!({ "envFrom": [{ "secretRef": { "name": "payroll" } }] });
    let plane = || object(Kind::ControlPlane, &fresh("member"), &secret);
    desk.grant(&json!({ "kind": "Group", "name": "accounting" }), "get secrets payroll").await;
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
    assert_eq!(told, expected([("spec.envFrom[0].secretRef.name", "CODER0505")]));
    desk.grant(&robot, "get secrets payroll").await;
    create().await.expect("the robot may read it now");
}

#[tokio::test]
async fn more_rights_than_forty_questions_can_check_are_to_be_split() {
    let desk = Tenant::shared().await.desk().await;
    let verbs = "get,list,watch,create,update,patch,delete,deletecollection";
    let lines = TEAMS.map(|team| {
        [format!("{verbs} pods,persistentvolumeclaims @{team}"), format!("{verbs} deployments.apps @{team}")]
    });
    let lines = lines.as_flattened().iter().map(String::as_str).collect::<Vec<_>>();
    let holder = desk.person(&lines).await;
    let spec = |namespaces: &[&str]| json!({ "rbac": { "workspaceNamespaces": namespaces } });
    let plane = |name: &str, teams: &[&str]| object(Kind::ControlPlane, name, &spec(teams));
    let name = fresh("split");
    let at_once = desk.send(&holder, Way::Apply, false, &plane(&name, &TEAMS)).await;
    let Err(kube::Error::Api(status)) = &at_once else { panic!("{at_once:?}") };
    assert!(status.message.contains("split the change"), "{}", status.message);
    let told = causes(at_once).unwrap();
    assert_eq!(told.iter().map(|(_, code)| code.as_str()).collect::<Vec<_>>(), ["CODER0508"], "{told:?}");
    for teams in [&TEAMS[..1], &TEAMS[..]] {
        desk.send(&holder, Way::Apply, false, &plane(&name, teams)).await.expect("one at a time passes");
    }

    // Who may escalate is asked one question a namespace.
    let many: Vec<String> = (0..40).map(|number| format!("team-{number}")).collect();
    let many = many.iter().map(String::as_str).collect::<Vec<_>>();
    let trusted = desk.person(&["escalate roles.rbac.authorization.k8s.io @*"]).await;
    desk.send(&trusted, Way::Create, false, &plane(&fresh("many"), &many))
        .await
        .expect("forty are few enough");
}

#[tokio::test]
async fn a_rule_of_more_than_forty_rights_is_to_be_split_too() {
    let desk = Tenant::shared().await.desk().await;
    let verbs = "get,list,watch,create,update,patch,delete";
    let resources = "pods,services,configmaps,endpoints,events,secrets";
    let holder = desk.person(&[&format!("{verbs} {resources}")]).await;
    let split = |text: &str| text.split(',').map(str::to_owned).collect::<Vec<_>>();
    let rule = json!({ "apiGroups": [""], "resources": split(resources), "verbs": split(verbs) });
    let name = fresh("rule");
    let plane =
        |rule: &Value| object(Kind::ControlPlane, &name, &json!({ "rbac": { "extraRules": [rule] } }));
    let nobody = desk.person(&[]).await;
    for person in [&holder, &nobody] {
        let told = causes(desk.send(person, Way::Create, false, &plane(&rule)).await).unwrap();
        assert_eq!(told, expected([("spec.rbac.extraRules[0]", "CODER0508")]));
    }
    let mut part = rule.clone();
    part["verbs"] = json!(["get", "list", "watch"]);
    for rule in [&part, &rule] {
        desk.send(&holder, Way::Apply, false, &plane(rule)).await.expect("in parts it passes");
    }
    let trusted = desk.person(&["escalate roles.rbac.authorization.k8s.io"]).await;
    let at_once = object(Kind::ControlPlane, &fresh("rule"), &json!({ "rbac": { "extraRules": [rule] } }));
    desk.send(&trusted, Way::Create, false, &at_once).await.expect("who may escalate needs no parts");
}
