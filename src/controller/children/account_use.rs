//! Decides whether pods may run as the account that is meant for them: one that their owner controls, one that its author
//! asked for, or one that its Deployment has already. Pure: it never reads, makes or changes an account.

use super::apply::ChildState;
use super::drift;
use serde_json::Value;

/// What is known of an account.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum AccountUse {
    /// It may be used.
    Allowed,
    /// It belongs to somebody else, or is not there; what to do about it.
    Refused(String),
    /// It could not be read or made this time.
    Unknown,
}

impl AccountUse {
    /// Why it is not used.
    pub(crate) fn refusal(self) -> Option<String> {
        match self {
            Self::Refused(why) => Some(why),
            Self::Allowed | Self::Unknown => None,
        }
    }
}

/// Whether somebody answers for the use of this account: the author, who was asked at admission for an account that the
/// spec names or leaves to others to make; or whoever let the Deployment of this uid have it. The object is read as it
/// is stored: with its defaults in it every spec names an account.
pub(crate) fn is_asked_for(object: &Value, account: &str, uid: &str, deployment: Option<&Value>) -> bool {
    let spec = &object["spec"]["serviceAccount"];
    let named = spec["name"].as_str() == Some(account) || spec["disableCreate"] == true;
    let runs = |deployment: &&Value| {
        deployment.pointer("/spec/template/spec/serviceAccountName").and_then(Value::as_str) == Some(account)
    };
    named || deployment.filter(|live| drift::is_controlled_by(live, uid)).is_some_and(|live| runs(&live))
}

/// Whether an account that nobody answers for may be used, given what became of making it.
pub(crate) fn of_made(account: &str, uid: &str, made: &ChildState) -> AccountUse {
    let refused = |why: &str| AccountUse::Refused(refusal(account, why));
    match made {
        ChildState::InPlace(live)
        | ChildState::Refused(_, Some(live))
        | ChildState::Failed(_, Some(live))
            if drift::is_controlled_by(live, uid) =>
        {
            AccountUse::Allowed
        }
        ChildState::Failed(..) | ChildState::KindMissing(_) => AccountUse::Unknown,
        ChildState::InPlace(_) | ChildState::Conflict(_) => {
            refused("exists and is not controlled by this object")
        }
        ChildState::Refused(why, _) => refused(&format!("could not be created ({why})")),
    }
}

fn refusal(account: &str, why: &str) -> String {
    format!(
        "ServiceAccount {account} {why}, so no pod runs as it and no Role is bound to it; set spec.serviceAccount.name to one that \
         you may use and spec.serviceAccount.disableCreate: true, or give this object another name"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn controlled(uid: &str) -> Value {
        json!({ "metadata": { "ownerReferences": [{ "uid": uid, "controller": true }] } })
    }

    #[test]
    fn an_account_is_asked_for_by_its_name_or_because_the_deployment_of_this_uid_has_it() {
        let object = |account: Value| json!({ "spec": { "serviceAccount": account } });
        let asked = |account: Value| is_asked_for(&object(account), "robot", "u1", None);
        assert!(asked(json!({ "name": "robot" })));
        assert!(asked(json!({ "name": "robot", "disableCreate": true })));
        assert!(asked(json!({ "disableCreate": true })), "admission asks for that one");
        for none in [json!(null), json!({}), json!({ "name": "" }), json!({ "disableCreate": false })] {
            assert!(!asked(none.clone()), "{none}");
        }
        assert!(!asked(json!({ "name": "other" })));
        let runs = |uid: &str, account: &str| {
            let mut deployment = controlled(uid);
            deployment["spec"]["template"]["spec"]["serviceAccountName"] = json!(account);
            is_asked_for(&json!({}), "robot", "u1", Some(&deployment))
        };
        assert!(runs("u1", "robot"));
        assert!(!runs("u2", "robot"), "a Deployment of somebody else says nothing");
        assert!(!runs("u1", "coder"), "it has another account now");
        let ownerless = json!({ "spec": { "template": { "spec": { "serviceAccountName": "robot" } } } });
        assert!(!is_asked_for(&json!({}), "robot", "u1", Some(&ownerless)));
    }

    #[test]
    fn an_account_that_nobody_answers_for_must_be_controlled_by_this_object() {
        let word = |made: ChildState| match of_made("robot", "u1", &made) {
            AccountUse::Allowed => "allowed",
            AccountUse::Refused(_) => "refused",
            AccountUse::Unknown => "unknown",
        };
        let why = || "a policy".to_owned();
        assert_eq!(word(ChildState::InPlace(controlled("u1"))), "allowed");
        assert_eq!(word(ChildState::Refused(why(), Some(controlled("u1")))), "allowed", "it is there");
        assert_eq!(word(ChildState::Failed(why(), Some(controlled("u1")))), "allowed");
        assert_eq!(word(ChildState::InPlace(controlled("u2"))), "refused");
        assert_eq!(word(ChildState::InPlace(json!({}))), "refused");
        assert_eq!(word(ChildState::Conflict(why())), "refused");
        assert_eq!(word(ChildState::Refused(why(), None)), "refused", "anybody could make it later");
        assert_eq!(word(ChildState::Refused(why(), Some(controlled("u2")))), "refused");
        assert_eq!(word(ChildState::Failed(why(), None)), "unknown");
        assert_eq!(word(ChildState::KindMissing(why())), "unknown");
    }

    #[test]
    fn the_refusal_says_what_to_do_and_fits() {
        let AccountUse::Refused(message) =
            of_made(&"a".repeat(40), "u", &ChildState::Conflict(String::new()))
        else {
            panic!("it is somebody else's")
        };
        assert!(message.contains("set spec.serviceAccount.name") && message.len() <= 300, "{message}");
    }
}
