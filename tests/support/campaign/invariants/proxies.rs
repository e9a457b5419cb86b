//! What must hold for the registrations of workspace proxies, by what is written, what is recorded and what there is in the end.
//! It judges what it is given, and asks nobody but the double.

use super::RunCoderd;
use crate::coderd::{Call, RegisteredProxy};
use crate::fault_proxy::Exchange;
use serde_json::Value;
use std::collections::BTreeMap;

/// Proxies of ours in one coderd at most: another name is a change of the same one.
pub(super) const MOST: usize = 1;
const PATH: &str = "/workspaceproxies";

/// A write that is about a proxy.
pub(super) enum ProxyWrite {
    /// It is made, with this name.
    Make(String),
    /// It gets another token.
    Replace(String),
    /// It appears otherwise.
    Change(String),
    /// It is deleted.
    Delete(String),
}

impl ProxyWrite {
    /// The write that a request is.
    pub(super) fn of(exchange: &Exchange) -> Option<Self> {
        let (_, after) = exchange.path.split_once(PATH)?;
        let id = after.trim_start_matches('/').to_owned();
        let body: Value = serde_json::from_slice(&exchange.body).unwrap_or_default();
        match exchange.method.as_str() {
            "POST" => Some(Self::Make(body["name"].as_str().unwrap_or_default().to_owned())),
            "PATCH" if body["regenerate_token"] == true => Some(Self::Replace(id)),
            "PATCH" => Some(Self::Change(id)),
            "DELETE" => Some(Self::Delete(id)),
            _ => None,
        }
    }

    /// Whether the proxy of this token is deleted.
    pub(super) fn deletes(&self, token: &str) -> bool {
        matches!(self, Self::Delete(id) if token.split(':').next() == Some(id))
    }

    /// I7: nothing is made, and no token is replaced, that was not recorded before. I5: nothing is changed or deleted that is
    /// not recorded as ours.
    pub(super) fn judged_by(&self, recorded: &Value) -> Vec<String> {
        let pending = &recorded["pending"];
        let is_intended = |field: &str, text: &str| pending[field] == text && pending["attempted"] == true;
        let broken = match self {
            Self::Make(name) if !is_intended("name", name) => {
                Some(format!("I7: proxy {name} is made, and the status does not say so: {recorded}"))
            }
            Self::Replace(id) if !is_intended("id", id) => {
                Some(format!("I7: the token of {id} is replaced, and the status does not say so: {recorded}"))
            }
            Self::Change(id) | Self::Delete(id) if !is_recorded(recorded, id) => {
                Some(format!("I5: proxy {id} is changed or deleted, and is not recorded as ours: {recorded}"))
            }
            _ => None,
        };
        broken.into_iter().collect()
    }
}

/// One that was made before a crash may be known by its name alone; that is for whoever asks coderd to say.
fn is_recorded(recorded: &Value, id: &str) -> bool {
    let retiring = recorded["retiring"].as_array().into_iter().flatten();
    let mut entries = [&recorded["current"], &recorded["pending"]].into_iter().chain(retiring);
    entries.any(|entry| entry["id"] == id || entry.is_object() && entry["id"].is_null())
}

/// I4: these Ready pods use what is being deleted, and their object stays.
pub(super) fn used(subject: &Value, pods: &[String]) -> Vec<String> {
    let stays = subject["metadata"]["deletionTimestamp"].is_null() && !subject.is_null();
    let is_broken = stays && !pods.is_empty();
    is_broken
        .then(|| format!("I4: a proxy is deleted while {} uses it", pods.join(", ")))
        .into_iter()
        .collect()
}

/// The token that an answer shows, and whether it takes the place of another.
pub(super) fn shown(exchange: &Exchange, body: &Value) -> (Option<String>, bool) {
    let is_replaced = matches!(ProxyWrite::of(exchange), Some(ProxyWrite::Replace(_)));
    let token = body["proxy_token"].as_str().filter(|token| !token.is_empty());
    (token.map(str::to_owned), is_replaced)
}

/// What is secret of a token: it begins with the id of its proxy.
pub(super) fn secret(token: &str) -> &str {
    token.split_once(':').map_or(token, |(_, secret)| secret)
}

/// How many proxies clients had at once, by what they made and deleted.
pub(super) fn most(calls: &[Call]) -> usize {
    let (mut now, mut most) = (0_usize, 0);
    for call in calls.iter().filter(|call| call.path.contains(PATH) && call.processed) {
        match (call.method.as_str(), call.status()) {
            ("POST", Some(201)) => now += 1,
            ("DELETE", Some(200)) => now = now.saturating_sub(1),
            _ => {}
        }
        most = most.max(now);
    }
    most
}

/// I1: there is the registration in use and no other of ours. I2: it appears as the spec asks for it, and the Secret and all
/// pods have its token.
pub(super) fn in_the_end(
    coderd: &RunCoderd,
    subject: Option<&Value>,
    token: &str,
    pods: &BTreeMap<String, String>,
) -> Vec<String> {
    let own = coderd.own_proxies();
    let ids: Vec<String> = own.iter().map(|proxy| proxy.id.to_string()).collect();
    let wanted = subject.and_then(|one| one["status"]["registration"]["current"]["id"].as_str());
    let mut broken = Vec::new();
    if ids != Vec::from_iter(wanted) {
        let name = coderd.control_plane;
        broken.push(format!("I1: the coderd of {name} has proxies of ours {ids:?}, recorded is {wanted:?}"));
    }
    let Some(subject) = subject else { return broken };
    let proven = |token: &str| coderd.double.proxy_proven_by(token).map(|id| id.to_string());
    if wanted.is_none() || proven(token).as_deref() != wanted {
        broken.push(format!("I2: the Secret proves {:?}, in use is {wanted:?}", proven(token)));
    }
    let outside = pods.iter().filter(|(_, token)| proven(token).as_deref() != wanted).map(|(pod, _)| pod);
    broken.extend(outside.map(|pod| format!("I2: pod {pod} runs with a token that is not valid")));
    if pods.is_empty() {
        broken.push("I2: no pod runs with a token".to_owned());
    }
    let told = &subject["spec"]["registration"];
    broken.extend(own.iter().filter(|one| !appears_as(one, told)).map(|one| {
        let RegisteredProxy { name, display_name, icon, .. } = one;
        format!("I2: the proxy is {name} ({display_name}, {icon}), asked for is {told}")
    }));
    broken
}

/// Whether a proxy appears as a spec asks for it, where it does.
fn appears_as(proxy: &RegisteredProxy, asked_for: &Value) -> bool {
    let is = |field: &str, text: &str| asked_for[field].is_null() || asked_for[field] == text;
    is("proxyName", &proxy.name) && is("displayName", &proxy.display_name) && is("icon", &proxy.icon)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn write(method: &str, path: &str, body: &Value) -> ProxyWrite {
        let exchange = Exchange {
            method: method.to_owned(),
            path: format!("/api/v2/workspaceproxies{path}"),
            headers: Default::default(),
            body: body.to_string().into(),
        };
        ProxyWrite::of(&exchange).expect("it is a write")
    }

    #[test]
    fn only_what_is_recorded_is_made_replaced_changed_or_deleted() {
        let entry = |id: &str, attempted: bool| json!({ "name": "eu", "id": id, "attempted": attempted });
        let recorded = json!({ "current": entry("a", true), "pending": entry("b", true), "retiring": [entry("c", true)] });
        let token = json!({ "regenerate_token": true });
        assert!(write("POST", "", &json!({ "name": "eu" })).judged_by(&recorded).is_empty());
        assert!(write("POST", "", &json!({ "name": "us" })).judged_by(&recorded)[0].starts_with("I7"));
        assert!(write("PATCH", "/b", &token).judged_by(&recorded).is_empty());
        assert!(write("PATCH", "/a", &token).judged_by(&recorded)[0].starts_with("I7"));
        let unattempted = json!({ "pending": entry("b", false) });
        assert!(write("PATCH", "/b", &token).judged_by(&unattempted)[0].starts_with("I7"));
        for ours in ["/a", "/b", "/c"] {
            assert!(write("DELETE", ours, &Value::Null).judged_by(&recorded).is_empty());
        }
        assert!(write("DELETE", "/d", &Value::Null).judged_by(&recorded)[0].starts_with("I5"));
        assert!(write("PATCH", "/d", &json!({})).judged_by(&recorded)[0].starts_with("I5"));
    }

    #[test]
    fn a_proxy_that_pods_use_goes_only_with_its_object() {
        let pods = ["wsproxy-eu-1".to_owned()];
        assert!(write("DELETE", "/a", &Value::Null).deletes("a:secret"));
        assert_eq!(used(&json!({ "metadata": {} }), &pods).len(), 1);
        assert_eq!(used(&json!({ "metadata": { "deletionTimestamp": "now" } }), &pods), Vec::<String>::new());
    }
}
