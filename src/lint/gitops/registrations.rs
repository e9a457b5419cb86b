//! Decides what is wrong with webhook configurations, APIServices and CustomResourceDefinitions of ours in Git.
//! Never looks at those of anybody else.

use super::super::codes;
use super::super::findings::{Collected, Draft, Spot};
use super::super::node::Node;
use super::super::objects::Object;
use super::delivery;
use crds::well_known::{annotation, label};

/// Judges one registration.
pub(super) fn judge<'a>(object: &'a Object<'a>, collected: &mut Collected<'a>) {
    if !is_ours(object) {
        return;
    }
    for field in ca_bundles(object) {
        let draft = Draft::new(&codes::CA_BUNDLE, "the operator writes this field");
        collected.field(object, field, Spot::Key, draft);
    }
    let options = object.annotation(annotation::ARGOCD_SYNC_OPTIONS).unwrap_or_default();
    if let Some(option) = options.split(',').map(str::trim).find(|option| delivery::replaces(option)) {
        let field = format!("metadata.annotations[{}]", annotation::ARGOCD_SYNC_OPTIONS);
        let message = format!("{option} wipes what the operator writes");
        collected.field(object, field, Spot::Value, Draft::new(&codes::REPLACE, message));
    }
}

fn is_ours(object: &Object<'_>) -> bool {
    let group = object.node.text_at(&["spec", "group"]).unwrap_or_default();
    is_webhook_of_ours(object) || wants_our_authority(object) || is_our_group(group)
}

fn wants_our_authority(object: &Object<'_>) -> bool {
    object.node.text_at(&["metadata", "labels", label::INJECT_CA]) == Some("true")
}

fn is_our_group(group: &str) -> bool {
    group == crds::well_known::GROUP || group.ends_with(".coder.com")
}

/// Whether it is a webhook configuration for our kinds.
pub(super) fn is_webhook_of_ours(object: &Object<'_>) -> bool {
    let webhooks = items(object.node, "webhooks").iter();
    let rules = webhooks.flat_map(|webhook| items(webhook, "rules"));
    let mut groups = rules.flat_map(|rule| items(rule, "apiGroups")).filter_map(Node::text);
    groups.any(is_our_group)
}

fn items<'a>(node: &'a Node, key: &str) -> &'a [Node] {
    node.get(key).map_or(&[], Node::items)
}

/// Paths of the bundles it holds.
fn ca_bundles(object: &Object<'_>) -> Vec<String> {
    let in_webhooks = items(object.node, "webhooks").iter().enumerate().filter_map(|(index, webhook)| {
        webhook.at(&["clientConfig", "caBundle"])?;
        Some(format!("webhooks[{index}].clientConfig.caBundle"))
    });
    let elsewhere = ["spec.caBundle", "spec.conversion.webhook.clientConfig.caBundle"];
    let elsewhere = elsewhere.into_iter().filter(|path| object.node.follow(path).whole);
    in_webhooks.chain(elsewhere.map(str::to_owned)).collect()
}
