//! Policies of a cluster that refuse something in one namespace.

use serde_json::{Value, json};
use support::test_env::LIMIT;
use support::wait::holds;
use support::{TestEnv, until};

/// A policy that refuses something in one namespace, and its binding.
pub fn refusal(namespace: &str, rule: &Value, expression: &str, message: &str) -> Value {
    let group = "admissionregistration.k8s.io/v1";
    let policy = json!({ "apiVersion": group, "kind": "ValidatingAdmissionPolicy",
        "metadata": { "name": namespace }, "spec": { "failurePolicy": "Fail",
            "matchConstraints": { "resourceRules": [rule],
                "namespaceSelector": { "matchLabels": { "kubernetes.io/metadata.name": namespace } } },
            "validations": [{ "expression": expression, "message": message }] } });
    let binding = json!({ "apiVersion": group, "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": { "name": namespace }, "spec": { "policyName": namespace, "validationActions": ["Deny"] } });
    json!({ "apiVersion": "v1", "kind": "List", "items": [policy, binding] })
}

/// Waits until a request is refused by a policy.
pub async fn refused(env: &TestEnv, words: &str, message: &str) {
    until("the policy to be in force", LIMIT, async || {
        let tried = env.cluster.kubectl(words).await;
        holds(tried.stderr.contains(message), tried.stderr)
    })
    .await;
}
