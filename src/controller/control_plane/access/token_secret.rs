//! A token that somebody gave us: read, shown to coderd, and reported.
//! It is never changed, renewed, copied or revoked.

use super::reasons::{Trouble, pending, refused, state, unproven};
use super::{AccessContext, Accessed, reference, waiting_for_coderd, worked_before};
use crate::coderd::Error;
use crate::confidential::Confidential;
use crate::control_plane_access::secret_value::{Found, secret_value};
use crate::controller::control_plane::observed::{ExternalPhase, ExternalState};
use crate::controller::control_plane::reasons::Reason;

/// What coderd says of the token.
type Answer = Option<Result<(), Error>>;

/// The access this token gives, and whether coderd has confirmed it now.
pub(super) async fn apply(context: &AccessContext<'_>, secret: &str, key: &str) -> (Accessed, bool) {
    let namespace = context.owner.namespace;
    let token = match secret_value(context.kube, namespace, secret, key).await {
        Ok(Found::Text(token)) => token,
        Ok(Found::Lacking(message)) => {
            return (Accessed::without(pending(Reason::TokenSecretMissing, message)), false);
        }
        Err(error) => {
            return (failed(Trouble::passing(Reason::ReferenceUnreadable, error.to_string())), false);
        }
    };
    let place = reference(namespace, secret, key);
    let before = context.before;
    let worked = before.operator_access_ready == Some(true)
        && before.operator_token_secret_ref.as_ref() == Some(&place);
    if context.admission_disabled {
        return (Accessed { token: Some(place), ..Accessed::without(unsent(worked)) }, false);
    }
    let answer = ask(context, &token).await;
    let client = context.client.map(|client| client.with_token(token));
    let retry = match &answer {
        Some(Err(error)) => Some(unproven(error).retry),
        _ => None,
    };
    let proven = matches!(answer, Some(Ok(())));
    let state = judge(answer, worked);
    let client = client.filter(|_| state.phase == ExternalPhase::Granted);
    (Accessed { client, token: Some(place), retry, ..Accessed::without(state) }, proven)
}

/// What to say of a token that is not sent, since nobody was asked whether its author may read it.
fn unsent(worked: bool) -> ExternalState {
    let message = "the token of spec.operatorAccess.tokenSecretRef is not sent to coderd while admission is disabled; \
                   remove the label coder.com/admission from the namespace";
    if worked {
        return state(ExternalPhase::Granted, Reason::TokenProven, format!("it worked before; {message}"));
    }
    refused(Reason::AdmissionDisabled, message)
}

async fn ask(context: &AccessContext<'_>, token: &Confidential<String>) -> Answer {
    let client = context.client?.with_token(token.clone());
    Some(client.me().await.map(drop))
}

fn failed(trouble: Trouble) -> Accessed {
    Accessed { retry: Some(trouble.retry), ..Accessed::without(trouble.state) }
}

/// What to say. A token that worked is not given up because coderd does not answer for a while.
fn judge(answer: Answer, worked: bool) -> ExternalState {
    let granted = |message: String| state(ExternalPhase::Granted, Reason::TokenProven, message);
    match answer {
        Some(Ok(())) => granted("coderd accepts the token of spec.operatorAccess.tokenSecretRef".to_owned()),
        Some(Err(error @ Error::Unauthorized { .. })) => {
            let mut rejected = unproven(&error).state;
            rejected.message += "; put another one into the Secret of spec.operatorAccess.tokenSecretRef";
            rejected
        }
        Some(Err(error)) if worked => granted(worked_before(&error).0),
        Some(Err(error)) => unproven(&error).state,
        None if worked => granted("the token worked before; coderd does not answer now".to_owned()),
        None => waiting_for_coderd(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::coderd::error::Operation;

    #[test]
    fn a_token_counts_when_coderd_knows_it_and_until_coderd_says_no() {
        let operation = Operation::Me;
        let silent = || Some(Err(Error::TimedOut { operation }));
        let said = |answer, worked| {
            let state = judge(answer, worked);
            (state.phase, state.reason)
        };
        for worked in [false, true] {
            assert_eq!(said(Some(Ok(())), worked), (ExternalPhase::Granted, Reason::TokenProven));
            let rejected = Some(Err(Error::Unauthorized { operation }));
            assert_eq!(said(rejected, worked), (ExternalPhase::Refused, Reason::TokenRejected));
        }
        assert_eq!(said(silent(), true), (ExternalPhase::Granted, Reason::TokenProven));
        assert_eq!(said(silent(), false), (ExternalPhase::Pending, Reason::ProofFailed));
        assert_eq!(said(None, true), (ExternalPhase::Granted, Reason::TokenProven));
        assert_eq!(said(None, false), (ExternalPhase::Pending, Reason::WaitingForCoderd));
    }

    #[test]
    fn a_token_that_is_not_sent_is_told_so_and_one_that_worked_is_not_given_up() {
        let said = |worked| {
            let state = unsent(worked);
            assert!(state.message.contains("remove the label") && state.message.len() <= 300, "{state:?}");
            (state.phase, state.reason)
        };
        assert_eq!(said(true), (ExternalPhase::Granted, Reason::TokenProven));
        assert_eq!(said(false), (ExternalPhase::Refused, Reason::AdmissionDisabled));
    }
}
