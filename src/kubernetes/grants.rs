//! Decides what is said where the API server does not let us write Roles and RoleBindings as the account that holds what
//! may be handed on: which account, and what of the shipped manifests is lacking. It never tries the same as ourselves.

use super::objects::CallError;
use crate::manifests::rbac::{GRANTS_ACCOUNT, OPERATOR};
use kube::core::Status;

/// The user that a ServiceAccount is.
pub(super) fn user(namespace: &str, name: &str) -> String {
    format!("system:serviceaccount:{namespace}:{name}")
}

/// The same refusal with the way out of it, if it is about the account and not about what it was to write.
pub(super) fn explained(error: CallError, namespace: &str, account: &str) -> CallError {
    let CallError::Failed { operation, mut source } = error else { return error };
    if let kube::Error::Api(status) = &mut *source
        && let Some(told) = told(status, namespace, account)
    {
        status.message = told;
    }
    CallError::Failed { operation, source }
}

fn told(status: &Status, namespace: &str, account: &str) -> Option<String> {
    let said = &status.message;
    if status.code != 403 {
        return None;
    }
    if said.contains(" cannot impersonate") {
        return Some(format!(
            "the operator may not act as ServiceAccount {namespace}/{account}; apply the shipped manifests, whose Role \
             {OPERATOR} allows it"
        ));
    }
    said.contains(&format!("User \"{}\" cannot ", user(namespace, account))).then(|| {
        format!(
            "ServiceAccount {namespace}/{account} may not write Roles and RoleBindings; apply the shipped manifests, whose \
             ClusterRole {GRANTS_ACCOUNT} allows it"
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn explained_message(message: &str, code: u16) -> String {
        let status = Status::failure(message, "Forbidden").with_code(code);
        let source = Box::new(kube::Error::Api(Box::new(status)));
        let error = CallError::Failed { operation: "apply Role team/coder".to_owned(), source };
        let error = explained(error, "system", "grants");
        assert_eq!(error.is_refused(), code == 403, "{error}");
        error.to_string()
    }

    #[test]
    fn a_refusal_of_the_account_itself_names_it_and_the_role_that_is_lacking() {
        let impersonation = "serviceaccounts \"grants\" is forbidden: User \"system:serviceaccount:system:coder-k8s\" cannot \
                             impersonate resource \"serviceaccounts\" in API group \"\" in the namespace \"system\"";
        let message = explained_message(impersonation, 403);
        assert!(
            message.contains("ServiceAccount system/grants") && message.contains("Role coder-k8s-operator"),
            "{message}"
        );
        let writing = "roles.rbac.authorization.k8s.io \"coder\" is forbidden: User \"system:serviceaccount:system:grants\" \
                       cannot patch resource \"roles\" in API group \"rbac.authorization.k8s.io\" in the namespace \"team\"";
        let message = explained_message(writing, 403);
        assert!(
            message.contains("ServiceAccount system/grants")
                && message.contains("ClusterRole coder-k8s-grants"),
            "{message}"
        );
    }

    #[test]
    fn what_is_refused_for_another_reason_is_told_in_the_words_of_the_api_server() {
        let escalation = "roles.rbac.authorization.k8s.io \"coder\" is forbidden: user \"system:serviceaccount:system:grants\" \
                          (groups=[]) is attempting to grant RBAC permissions not currently held:\n{Verbs:[\"get\"]}";
        assert!(explained_message(escalation, 403).contains("not currently held"));
        let policy = "roles.rbac.authorization.k8s.io \"coder\" is forbidden: roles are kept here";
        assert!(explained_message(policy, 403).ends_with("roles are kept here"));
        assert!(explained_message("User \"x\" cannot impersonate", 500).ends_with("cannot impersonate"));
    }
}
