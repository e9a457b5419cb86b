//! What of a provisioner is left as it is while admission is disabled.

use super::super::fixtures::Provisioner;
use crate::controller::children::{Child, withheld};
use serde_json::{Value, json};

/// What is held back when `after` is asked for and every child of `before` is live as it was applied.
fn held(before: Option<&Provisioner>, after: &Provisioner) -> Vec<String> {
    let (before, after) = (before.map(Provisioner::children), after.children());
    let live = |child: &Child| -> Option<Value> {
        before.as_ref()?.all().find(|one| one.kind == child.kind && one.name == child.name).map(Child::wanted)
    };
    let children: Vec<_> = after.all().map(|child| (child, live(child))).collect();
    withheld::withheld("ns", &children).parts().to_vec()
}

#[test]
fn another_key_in_the_same_secret_rolls_and_another_secret_does_not() {
    let given = Provisioner::test();
    assert_eq!(held(Some(&given), &given), [""; 0]);
    assert_eq!(held(Some(&given), &given.clone().with_key_checksum("new")), [""; 0]);
    let moved = given.clone().with("key", json!({"secretName": "payroll"}));
    assert_eq!(held(Some(&given), &moved), ["Deployment provisioner-builders (what its pods run)"]);
}

#[test]
fn where_nothing_is_live_nothing_is_made_that_gives_a_right() {
    let given = Provisioner::test().with("podDisruptionBudget", json!({}));
    let all = held(None, &given);
    assert_eq!(all.len(), 4, "account, Role, RoleBinding and Deployment: {all:?}");
    let rule = json!({"apiGroups": [""], "resources": ["secrets"], "verbs": ["get"]});
    let wider = given.clone().with("rbac", json!({"extraRules": [rule]}));
    assert_eq!(held(Some(&given), &wider), ["Role provisioner-builders (its rules)"]);
    assert_eq!(held(Some(&wider), &given), [""; 0], "narrower");
}
