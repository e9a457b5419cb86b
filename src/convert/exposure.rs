//! Decides what the Service, the Ingress and the HTTPRoute of a release become.
//! Never exposes more than the values did.

use super::values::Values;
use serde_json::{Map, Value, json};

/// The Service. The chart's is a LoadBalancer where the values are silent; ours would be a ClusterIP.
pub(super) fn service(values: &mut Values) -> Value {
    let kind = values.take_text("coder.service.type");
    let annotations = values.take_map("coder.service.annotations");
    if values.take_bool("coder.service.enable") == Some(false) {
        values.left_to_do(
            "coder.service.enable",
            "there always is a Service, since the operator reaches coderd by it",
            "it is a ClusterIP, which nobody outside of the cluster reaches; nothing to do",
        );
        return json!({ "type": "ClusterIP" });
    }
    let mut service = json!({ "type": kind.as_deref().unwrap_or("LoadBalancer") });
    if !annotations.is_empty() {
        service["annotations"] = annotations.into();
    }
    service
}

/// The Ingress or the HTTPRoute.
pub(super) fn expose(values: &mut Values) -> Option<Value> {
    let ingress = ingress(values);
    let gateway = gateway(values);
    match (ingress, gateway) {
        (Some(ingress), gateway) => {
            if gateway.is_some() {
                values.not_carried(
                    "coder.httproute",
                    "an object is exposed by an Ingress or by an HTTPRoute, not by both",
                    "make the HTTPRoute yourself, to the Service of this object",
                );
            }
            Some(json!({ "ingress": ingress }))
        }
        (None, Some(gateway)) => Some(json!({ "gateway": gateway })),
        (None, None) => None,
    }
}

fn ingress(values: &mut Values) -> Option<Value> {
    if values.take_bool("coder.ingress.enable") != Some(true) {
        values.take("coder.ingress");
        return None;
    }
    let mut ingress = Map::new();
    let mut put = |key: &str, value: Option<Value>| value.map(|value| ingress.insert(key.to_owned(), value));
    put("className", values.take_text("coder.ingress.className").map(Value::from));
    put("host", Some(values.take_text("coder.ingress.host").unwrap_or_default().into()));
    put(
        "wildcardHost",
        values.take_text("coder.ingress.wildcardHost").map(|host| without_suffix(&host).into()),
    );
    let annotations = values.take_map("coder.ingress.annotations");
    put("annotations", (!annotations.is_empty()).then(|| annotations.into()));
    let tls = ["secretName", "wildcardSecretName"]
        .map(|key| (key, values.take_text(&format!("coder.ingress.tls.{key}"))));
    if values.take_bool("coder.ingress.tls.enable") == Some(true) {
        let given = tls.into_iter().filter_map(|(key, name)| Some((key.to_owned(), Value::from(name?))));
        put("tls", Some(given.collect::<Map<_, _>>().into()));
    }
    Some(ingress.into())
}

/// An Ingress has no host such as `*-apps.example.com`; the chart leaves the suffix out.
fn without_suffix(host: &str) -> String {
    match (host.starts_with('*'), host.find('.')) {
        (true, Some(dot)) => format!("*{}", &host[dot..]),
        _ => host.to_owned(),
    }
}

fn gateway(values: &mut Values) -> Option<Value> {
    if values.take_bool("coder.httproute.enable") != Some(true) {
        values.take("coder.httproute");
        return None;
    }
    let parents = values.take_list("coder.httproute.parentRefs");
    let mut gateway = json!({
        "host": values.take_text("coder.httproute.host").unwrap_or_default(),
        "parentRefs": parents.into_iter().enumerate().map(|(at, parent)| parent_ref(values, at, parent)).collect::<Value>(),
    });
    if let Some(host) = values.take_text("coder.httproute.wildcardHost") {
        gateway["wildcardHost"] = json!(without_suffix(&host));
    }
    Some(gateway)
}

fn parent_ref(values: &mut Values, index: usize, parent: Value) -> Value {
    let Value::Object(parent) = parent else { return parent };
    let (known, others): (Map<_, _>, Map<_, _>) =
        parent.into_iter().partition(|(key, _)| ["name", "namespace", "sectionName"].contains(&key.as_str()));
    for key in others.keys() {
        let path = format!("coder.httproute.parentRefs[{index}].{key}");
        let instead = "name the listener by sectionName, or make the HTTPRoute yourself";
        values.not_carried(&path, "spec.expose.gateway.parentRefs has no such field", instead);
    }
    known.into()
}
