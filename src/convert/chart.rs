//! Holds what is known of the charts besides the fields they share with our kinds: values that have no place in ours, and why.
//! Never decides about a value that has one.

use super::values::Values;
use serde_json::{Value, json};

/// What the chart asks for where the values are silent; ours asks for nothing.
pub(super) fn resources() -> Value {
    let both = json!({ "cpu": "2000m", "memory": "4096Mi" });
    json!({ "limits": both, "requests": both })
}

/// The affinity that `values.yaml` of the chart has: prefer other nodes. Ours does so by itself.
pub(super) fn is_default_affinity(affinity: &Value) -> bool {
    let terms = &affinity["podAntiAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"];
    let selector = json!({ "matchExpressions": [
        { "key": "app.kubernetes.io/instance", "operator": "In", "values": ["coder"] }] });
    let term = json!([{ "podAffinityTerm": { "labelSelector": selector, "topologyKey": "kubernetes.io/hostname" },
        "weight": 1 }]);
    affinity.as_object().is_some_and(|parts| parts.len() == 1) && *terms == term
}

const SERVICE: &str = "spec.service has no such field";
const OWN_SERVICE: &str =
    "keep it on a Service of your own that selects the pods; the operator leaves alone what it does not set";
const OWN_OBJECT: &str = "make the object yourself; `helm get manifest RELEASE` prints it";

/// A value without a place: its path, what it is where it says nothing, why, and what to do.
type Row = (&'static str, Option<&'static str>, &'static str, &'static str);

const NO_PLACE: [Row; 14] = [
    ("nameOverride", None, "objects are named after the object of ours", "give --name, which names them all"),
    (
        "coder.annotations",
        None,
        "the operator sets no annotations of others on the Deployment",
        "use coder.podAnnotations for what is read on pods",
    ),
    (
        "coder.labels",
        None,
        "the operator sets no labels of others on the Deployment",
        "use coder.podLabels for what is read on pods",
    ),
    (
        "coder.image.pullPolicy",
        Some("IfNotPresent"),
        "Kubernetes decides by the tag",
        "name a release as the tag and not one that moves",
    ),
    ("coder.strategy", None, "the operator decides how pods are replaced", "see docs/control-plane.md"),
    (
        "coder.singleStackIPv6",
        Some("false"),
        "the operator has coderd listen on 0.0.0.0",
        "set CODER_HTTP_ADDRESS in coder.env and look whether the pods are reached",
    ),
    ("coder.service.sessionAffinity", Some("None"), SERVICE, OWN_SERVICE),
    ("coder.service.externalTrafficPolicy", Some("Cluster"), SERVICE, OWN_SERVICE),
    (
        "coder.service.loadBalancerIP",
        None,
        SERVICE,
        "use the annotation of your load balancer in coder.service.annotations",
    ),
    ("coder.service.loadBalancerClass", None, SERVICE, OWN_SERVICE),
    ("coder.service.httpNodePort", None, SERVICE, OWN_SERVICE),
    ("coder.service.httpsNodePort", None, SERVICE, OWN_SERVICE),
    ("coder.service.additionalPorts", None, SERVICE, OWN_SERVICE),
    (
        "coder.httproute.annotations",
        None,
        "spec.expose.gateway has no annotations",
        "annotate an HTTPRoute of your own",
    ),
];

/// Objects that the operator does not make, each with a switch of its own.
const SWITCHED: [(&str, &str); 2] = [
    ("coder.httproute.httpsRedirect", "the operator makes one HTTPRoute without a redirect"),
    ("coder.listenerset", "the operator makes no ListenerSet"),
];

/// Takes what has no place, and tells it unless it says what is so anyway.
pub(super) fn refuse_what_has_no_place(values: &mut Values) {
    for (path, why) in SWITCHED {
        // What is switched off says nothing, however much is written about it.
        if values.take_map(path).get("enable") == Some(&Value::Bool(true)) {
            values.not_carried(path, why, OWN_OBJECT);
        }
    }
    for (path, default, why, instead) in NO_PLACE {
        let Some(value) = values.take(path) else { continue };
        let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        if default != Some(text.as_str()) {
            values.not_carried(path, why, instead);
        }
    }
}
