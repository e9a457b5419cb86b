//! Which access is asked for in coderd's database, and what no request of ours may ask for.
//! It never reads or writes anything: what a row means is decided here, whoever read it.

use super::error::Error;
use crate::coderd::token::NewToken;
use crate::coderd::uuid::Uuid;
use jiff::Timestamp;
use std::time::Duration;

/// The domain of the operator's users: reserved, so that no mail and no human can have it.
pub const EMAIL_DOMAIN: &str = "coder-k8s.invalid";
/// coderd cuts nothing: a longer name would break its own pages.
const LONGEST_USERNAME: usize = 32;

/// What the operator's user may do in coderd.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// Everything: licenses and workspace proxies need it.
    Owner,
    /// Templates, provisioner keys, and reading all workspaces.
    TemplateAdmin,
}

impl Role {
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Owner => "owner",
            Self::TemplateAdmin => "template-admin",
        }
    }
}

/// The access that is wanted. Everything in it was chosen and recorded by the caller before.
#[derive(Debug, Clone)]
pub struct AccessRequest {
    /// The id of the user, recorded before it exists.
    pub user_id: Uuid,
    /// Its address, below [`EMAIL_DOMAIN`]: no other control plane's, on whatever cluster, has the same.
    pub email: String,
    /// The address that an earlier release gave the user of this id; it gets the other one.
    pub former_email: Option<String>,
    /// The name it gets if nobody has it; else one with a suffix.
    pub username: String,
    /// What it may do. More or less than it had: it gets exactly this.
    pub role: Role,
    /// The token to write.
    pub token: NewToken,
    /// Its name: one for each generation. A token of the same name that was never proven is replaced.
    pub token_name: String,
    /// How long it lives.
    pub lifetime: Duration,
    /// The time now.
    pub now: Timestamp,
}

impl AccessRequest {
    /// What no request of ours may ask for, whatever the caller believes.
    pub(super) fn check(&self) -> Result<(), Error> {
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
        if !reserved(&self.email) {
            return Err(Error::Request("the operator's user needs an address below the reserved domain"));
        }
        if self.username.is_empty() || !self.username.bytes().all(plain) {
            return Err(Error::Request("the operator's user needs a name of letters, digits and dashes"));
        }
        if self.token_name.is_empty() || self.lifetime.as_secs() == 0 {
            return Err(Error::Request("a token needs a name and a lifetime"));
        }
        self.expiry().map(drop)
    }

    /// When the token ends.
    pub(super) fn expiry(&self) -> Result<Timestamp, Error> {
        self.now.checked_add(self.lifetime).map_err(|_| Error::Request("the token's lifetime is too long"))
    }

    /// The names to try: the preferred one, then two with more and more of the user's id.
    pub(super) fn usernames(&self) -> Vec<String> {
        let id = self.user_id.to_string().replace('-', "");
        let suffixed = |length: usize| {
            let kept: String = self.username.chars().take(LONGEST_USERNAME - 1 - length).collect();
            format!("{}-{}", kept.trim_end_matches('-'), id.get(..length).unwrap_or_default())
        };
        vec![self.username.chars().take(LONGEST_USERNAME).collect(), suffixed(8), suffixed(12)]
    }

    /// Whether a user with this address, found by the address or by the recorded id, has the address it should have; an
    /// error if it is not the operator's user for this control plane.
    pub(super) fn owns(&self, email: &str, is_system: bool) -> Result<bool, Error> {
        let is = |address: &str| address.eq_ignore_ascii_case(email);
        match (is_system && reserved(email), is(&self.email)) {
            (false, _) => Err(Error::ForeignUser),
            (true, true) => Ok(true),
            (true, false) if self.former_email.as_deref().is_some_and(is) => Ok(false),
            (true, false) => Err(Error::UserElsewhere),
        }
    }
}

/// Whether an address is one of the operator's users.
pub(super) fn reserved(email: &str) -> bool {
    let (name, domain) = email.split_once('@').unwrap_or_default();
    !name.is_empty() && domain.eq_ignore_ascii_case(EMAIL_DOMAIN)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request() -> AccessRequest {
        AccessRequest {
            user_id: "01234567-89ab-4def-8123-456789abcdef".parse().unwrap(),
            email: format!("coder-k8s-operator-x@{EMAIL_DOMAIN}"),
            former_email: None,
            username: "coder-k8s-operator".to_owned(),
            role: Role::TemplateAdmin,
            token: NewToken::generate().unwrap(),
            token_name: "t-1".to_owned(),
            lifetime: Duration::from_secs(86_400),
            now: Timestamp::UNIX_EPOCH,
        }
    }

    #[test]
    fn names_are_tried_in_order_and_never_too_long() {
        let names = ["coder-k8s-operator", "coder-k8s-operator-01234567", "coder-k8s-operator-0123456789ab"];
        assert_eq!(request().usernames(), names);
        let long = AccessRequest { username: "a".repeat(40), ..request() };
        assert!(long.usernames().iter().all(|name| name.len() == LONGEST_USERNAME));
    }

    #[test]
    fn requests_that_could_meet_a_human_are_refused() {
        assert_eq!(request().check(), Ok(()));
        for email in [
            "",
            "a@example.com",
            "a@coder-k8s.invalid@example.com",
            "@coder-k8s.invalid",
            "coder-k8s.invalid",
        ] {
            assert!(AccessRequest { email: email.to_owned(), ..request() }.check().is_err(), "{email}");
        }
        assert!(AccessRequest { lifetime: Duration::MAX, ..request() }.check().is_err());
        assert!(AccessRequest { lifetime: Duration::ZERO, ..request() }.check().is_err());
        assert!(AccessRequest { username: "a b".to_owned(), ..request() }.check().is_err());
    }

    #[test]
    fn a_user_is_ours_by_its_address_or_by_the_one_of_an_earlier_release() {
        let former = format!("coder-k8s-operator-0123@{EMAIL_DOMAIN}");
        let request = AccessRequest { former_email: Some(former.clone()), ..request() };
        assert_eq!(request.owns(&request.email, true), Ok(true));
        assert_eq!(request.owns(&former, true), Ok(false), "it gets the other one");
        let other = format!("coder-k8s-operator-y@{EMAIL_DOMAIN}");
        assert_eq!(request.owns(&other, true), Err(Error::UserElsewhere), "another cluster's");
        assert_eq!(request.owns(&request.email, false), Err(Error::ForeignUser), "a human's");
        assert_eq!(request.owns("a@example.com", true), Err(Error::ForeignUser));
    }

    #[test]
    fn a_request_shows_no_secret() {
        let request = request();
        let plaintext = request.token.plaintext();
        assert!(!format!("{request:?}").contains(&plaintext.expose()[11..]));
    }
}
