//! The operator's own user and its tokens in coderd's database: made, kept in their role, renewed, revoked.
//! It never touches a user that is not recognised by recorded id or reserved address, and never activates one that an
//! administrator suspended.

use super::error::Error;
use super::session::Database;
use crate::coderd::token::NewToken;
use crate::coderd::uuid::Uuid;
use jiff::Timestamp;
use std::time::{Duration, SystemTime};
use tokio_postgres::Transaction;
use tokio_postgres::types::{ToSql, Type};

/// The domain of the operator's users: reserved, so that no mail and no human can have it.
pub const EMAIL_DOMAIN: &str = "coder-k8s.invalid";
/// coderd cuts nothing: a longer name would break its own pages.
const LONGEST_USERNAME: usize = 32;
/// Two operators that start at once do one after the other what must be done once; the number is "coder-k8".
const LOCK: i64 = 0x636f_6465_722d_6b38;

/// What the operator's user may do in coderd.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// Everything: licenses and workspace proxies need it.
    Owner,
    /// Templates, provisioner keys, and reading all workspaces.
    TemplateAdmin,
}

impl Role {
    fn word(self) -> &'static str {
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

/// The access that is there now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ensured {
    /// The user: the one asked for, or one with the reserved address that was there before.
    pub user_id: Uuid,
    /// Its name.
    pub username: String,
    /// Whether it was made now.
    pub created: bool,
    /// When the token ends.
    pub expires_at: Timestamp,
}

struct Operator {
    id: Uuid,
    username: String,
    role_fits: bool,
    address_fits: bool,
}

impl Database {
    /// Makes sure, in one transaction, that the user is there with exactly this role and that the token works. Older
    /// tokens stay valid until they are revoked. Asking again with the same request changes nothing.
    pub async fn ensure_access(&mut self, request: &AccessRequest) -> Result<Ensured, Error> {
        check(request)?;
        let limits = self.limits();
        Self::bounded(limits, self.ensure(request)).await
    }

    async fn ensure(&mut self, request: &AccessRequest) -> Result<Ensured, Error> {
        let transaction = self.begin().await?;
        match ensure_within(&transaction, request).await {
            Ok(ensured) => {
                transaction.commit().await?;
                Ok(ensured)
            }
            Err(error) => {
                // Left to itself it would be undone a moment later, with its locks held until then. Only the first
                // error counts.
                let _ = transaction.rollback().await;
                Err(error)
            }
        }
    }

    /// Deletes one token of the operator's user; how many there were is returned.
    pub async fn revoke_token(&mut self, user_id: Uuid, token_id: &str) -> Result<u64, Error> {
        self.revoke(Tokens::One { user_id, token_id }).await
    }

    /// Deletes every token of the operator's user except this one, after it has proven to work.
    pub async fn revoke_all_but(&mut self, user_id: Uuid, token_id: &str) -> Result<u64, Error> {
        self.revoke(Tokens::AllBut { user_id, token_id }).await
    }

    /// Deletes every token of the operator's user and takes its role; the user stays, without a way to call and without a
    /// right. It is the one with this address, or with this id and the address of an earlier release. Returns how many
    /// tokens there were; none if there is no such user.
    pub async fn disable_access(
        &mut self,
        user_id: Option<Uuid>,
        email: &str,
        former_email: Option<&str>,
    ) -> Result<Option<u64>, Error> {
        let limits = self.limits();
        let work = async {
            let whose = format!(
                "u.is_system AND lower(u.email) LIKE '%@{EMAIL_DOMAIN}' AND (lower(u.email) = lower($2) \
                 OR u.id::text = $1 AND lower(u.email) = lower($3))"
            );
            let id = user_id.map(|id| id.to_string()).unwrap_or_default();
            let former = former_email.unwrap_or_default();
            let values: [(&(dyn ToSql + Sync), Type); 3] =
                [(&id, Type::TEXT), (&email, Type::TEXT), (&former, Type::TEXT)];
            let transaction = self.begin().await?;
            let tokens = format!("DELETE FROM api_keys k USING users u WHERE u.id = k.user_id AND {whose}");
            let deleted = transaction.execute_typed(&tokens, &values).await?;
            let roles =
                format!("UPDATE users u SET rbac_roles = '{{}}' WHERE rbac_roles <> '{{}}' AND {whose}");
            transaction.execute_typed(&roles, &values).await?;
            let users = format!("SELECT 1 FROM users u WHERE {whose} LIMIT 1");
            let known = transaction.query_typed_opt(&users, &values).await?.is_some();
            transaction.commit().await?;
            Ok(known.then_some(deleted))
        };
        Self::bounded(limits, work).await
    }

    /// Deletes the tokens of this name of the system user with this reserved address, and nothing else: what the older
    /// operator left behind.
    pub async fn revoke_tokens_named(&mut self, email: &str, token_name: &str) -> Result<u64, Error> {
        if !reserved(email) {
            return Err(Error::Request("the address is not one of the operator's users"));
        }
        self.revoke(Tokens::Named { email, token_name }).await
    }

    async fn revoke(&mut self, tokens: Tokens<'_>) -> Result<u64, Error> {
        let limits = self.limits();
        let work = async {
            let transaction = self.begin().await?;
            let (condition, values) = tokens.condition();
            let statement = format!(
                "DELETE FROM api_keys k USING users u WHERE u.id = k.user_id AND u.is_system \
                 AND lower(u.email) LIKE '%@{EMAIL_DOMAIN}' AND {condition}"
            );
            let values: Vec<(&(dyn ToSql + Sync), Type)> =
                values.iter().map(|value| (value as &(dyn ToSql + Sync), Type::TEXT)).collect();
            let deleted = transaction.execute_typed(&statement, &values).await?;
            transaction.commit().await?;
            Ok(deleted)
        };
        Self::bounded(limits, work).await
    }
}

async fn ensure_within(transaction: &Transaction<'_>, request: &AccessRequest) -> Result<Ensured, Error> {
    transaction.execute_typed("SELECT pg_advisory_xact_lock($1)", &[(&LOCK, Type::INT8)]).await?;
    let (operator, created) = match find(transaction, request).await? {
        Some(operator) => (operator, false),
        None => (insert_user(transaction, request).await?, true),
    };
    if !operator.address_fits {
        set_address(transaction, operator.id, request).await?;
    }
    if !operator.role_fits {
        set_role(transaction, operator.id, request).await?;
    }
    let expires_at = insert_token(transaction, operator.id, request).await?;
    Ok(Ensured { user_id: operator.id, username: operator.username, created, expires_at })
}

/// Which tokens of a user of ours.
enum Tokens<'a> {
    One { user_id: Uuid, token_id: &'a str },
    AllBut { user_id: Uuid, token_id: &'a str },
    Named { email: &'a str, token_name: &'a str },
}

impl Tokens<'_> {
    fn condition(&self) -> (&'static str, Vec<String>) {
        match self {
            Self::One { user_id, token_id } => {
                ("u.id = $1::text::uuid AND k.id = $2", vec![user_id.to_string(), (*token_id).to_owned()])
            }
            Self::AllBut { user_id, token_id } => {
                ("u.id = $1::text::uuid AND k.id <> $2", vec![user_id.to_string(), (*token_id).to_owned()])
            }
            Self::Named { email, token_name } => (
                "lower(u.email) = lower($1) AND k.login_type = 'token' AND k.token_name = $2",
                vec![(*email).to_owned(), (*token_name).to_owned()],
            ),
        }
    }
}

/// The operator's user, if it is there and may be used.
async fn find(transaction: &Transaction<'_>, request: &AccessRequest) -> Result<Option<Operator>, Error> {
    // A deleted user with the address is history, one with the id is an answer. The address counts more than the id: it
    // names the control plane.
    let statement = "SELECT id::text AS id, lower(email) AS email, is_system, username, status::text AS status, \
         deleted, rbac_roles = ARRAY[$3] AS role_fits FROM users \
         WHERE id = $1::text::uuid OR (lower(email) = lower($2) AND NOT deleted) \
         ORDER BY lower(email) = lower($2) AND NOT deleted DESC FOR UPDATE";
    let (id, role) = (request.user_id.to_string(), request.role.word());
    let values: [(&(dyn ToSql + Sync), Type); 3] =
        [(&id, Type::TEXT), (&request.email, Type::TEXT), (&role, Type::TEXT)];
    let rows = transaction.query_typed(statement, &values).await?;
    let Some(row) = rows.first() else { return Ok(None) };
    let email: String = row.try_get("email")?;
    let address_fits = owns(request, &email, row.try_get("is_system")?)?;
    if row.try_get("deleted")? {
        return Err(Error::Deleted);
    }
    if row.try_get::<_, String>("status")? == "suspended" {
        return Err(Error::Suspended);
    }
    let id: String = row.try_get("id")?;
    let id = id
        .parse()
        .map_err(|_| Error::UnsupportedSchema { problems: vec!["users.id is no UUID".to_owned()] })?;
    let (username, role_fits) = (row.try_get("username")?, row.try_get("role_fits")?);
    Ok(Some(Operator { id, username, role_fits, address_fits }))
}

/// Whether a user with this address, found by the address or by the recorded id, has the address it should have; an error
/// if it is not the operator's user for this control plane.
fn owns(request: &AccessRequest, email: &str, is_system: bool) -> Result<bool, Error> {
    let is = |address: &str| address.eq_ignore_ascii_case(email);
    match (is_system && reserved(email), is(&request.email)) {
        (false, _) => Err(Error::ForeignUser),
        (true, true) => Ok(true),
        (true, false) if request.former_email.as_deref().is_some_and(is) => Ok(false),
        (true, false) => Err(Error::UserElsewhere),
    }
}

/// A system user takes no seat, does not count as the first user, is not listed, and cannot log in. It is a member of no
/// organisation: the two roles work site-wide.
async fn insert_user(transaction: &Transaction<'_>, request: &AccessRequest) -> Result<Operator, Error> {
    let statement = "INSERT INTO users (id, email, username, name, hashed_password, created_at, updated_at, status, \
         rbac_roles, login_type, is_system) VALUES ($1::text::uuid, $2, $3, $3, ''::bytea, $5, $5, 'active', ARRAY[$4], \
         'none', true) ON CONFLICT DO NOTHING";
    let (id, role, now) = (request.user_id.to_string(), request.role.word(), SystemTime::from(request.now));
    for username in usernames(request) {
        let values: [(&(dyn ToSql + Sync), Type); 5] = [
            (&id, Type::TEXT),
            (&request.email, Type::TEXT),
            (&username, Type::TEXT),
            (&role, Type::TEXT),
            (&now, Type::TIMESTAMPTZ),
        ];
        if transaction.execute_typed(statement, &values).await? == 1 {
            return Ok(Operator { id: request.user_id, username, role_fits: true, address_fits: true });
        }
    }
    Err(Error::NoFreeName)
}

async fn set_address(
    transaction: &Transaction<'_>,
    user: Uuid,
    request: &AccessRequest,
) -> Result<(), Error> {
    let statement = "UPDATE users SET email = $2, updated_at = $3 WHERE id = $1::text::uuid";
    let (id, now) = (user.to_string(), SystemTime::from(request.now));
    let values: [(&(dyn ToSql + Sync), Type); 3] =
        [(&id, Type::TEXT), (&request.email, Type::TEXT), (&now, Type::TIMESTAMPTZ)];
    transaction.execute_typed(statement, &values).await?;
    Ok(())
}

/// The names to try: the preferred one, then two with more and more of the user's id.
fn usernames(request: &AccessRequest) -> Vec<String> {
    let id = request.user_id.to_string().replace('-', "");
    let suffixed = |length: usize| {
        let kept: String = request.username.chars().take(LONGEST_USERNAME - 1 - length).collect();
        format!("{}-{}", kept.trim_end_matches('-'), id.get(..length).unwrap_or_default())
    };
    vec![request.username.chars().take(LONGEST_USERNAME).collect(), suffixed(8), suffixed(12)]
}

async fn set_role(transaction: &Transaction<'_>, user: Uuid, request: &AccessRequest) -> Result<(), Error> {
    let statement = "UPDATE users SET rbac_roles = ARRAY[$2], updated_at = $3 WHERE id = $1::text::uuid";
    let (id, role, now) = (user.to_string(), request.role.word(), SystemTime::from(request.now));
    let values: [(&(dyn ToSql + Sync), Type); 3] =
        [(&id, Type::TEXT), (&role, Type::TEXT), (&now, Type::TIMESTAMPTZ)];
    transaction.execute_typed(statement, &values).await?;
    Ok(())
}

/// Writes the token; an unproven one of the same name goes first, since nobody has its plaintext.
async fn insert_token(
    transaction: &Transaction<'_>,
    user: Uuid,
    request: &AccessRequest,
) -> Result<Timestamp, Error> {
    let (user, id, hash) = (user.to_string(), request.token.id(), request.token.hashed_secret());
    let unproven = "DELETE FROM api_keys WHERE user_id = $1::text::uuid AND login_type = 'token' AND token_name = $2 \
         AND id <> $3";
    let values: [(&(dyn ToSql + Sync), Type); 3] =
        [(&user, Type::TEXT), (&request.token_name, Type::TEXT), (&id, Type::TEXT)];
    transaction.execute_typed(unproven, &values).await?;

    let insert = "INSERT INTO api_keys (id, hashed_secret, user_id, last_used, expires_at, created_at, updated_at, \
         login_type, lifetime_seconds, token_name, scopes, allow_list) VALUES ($1, $2, $3::text::uuid, $4, $5, $4, $4, \
         'token', $6, $7, ARRAY['coder:all']::api_key_scope[], ARRAY['*:*']) ON CONFLICT (id) DO NOTHING";
    let seconds = i64::try_from(request.lifetime.as_secs()).unwrap_or(i64::MAX);
    let expires_at = expiry(request)?;
    let (now, end) = (SystemTime::from(request.now), SystemTime::from(expires_at));
    let values: [(&(dyn ToSql + Sync), Type); 7] = [
        (&id, Type::TEXT),
        (&hash, Type::BYTEA),
        (&user, Type::TEXT),
        (&now, Type::TIMESTAMPTZ),
        (&end, Type::TIMESTAMPTZ),
        (&seconds, Type::INT8),
        (&request.token_name, Type::TEXT),
    ];
    if transaction.execute_typed(insert, &values).await? == 1 {
        return Ok(expires_at);
    }
    // There already: ours from an earlier answer that was lost, or another with the same id by chance.
    let again =
        "SELECT expires_at FROM api_keys WHERE id = $1 AND hashed_secret = $2 AND user_id = $3::text::uuid";
    let values: [(&(dyn ToSql + Sync), Type); 3] =
        [(&id, Type::TEXT), (&hash, Type::BYTEA), (&user, Type::TEXT)];
    let row = transaction.query_typed_opt(again, &values).await?.ok_or(Error::TokenTaken)?;
    let end: SystemTime = row.try_get("expires_at")?;
    Timestamp::try_from(end).map_err(|_| Error::TokenTaken)
}

fn expiry(request: &AccessRequest) -> Result<Timestamp, Error> {
    request.now.checked_add(request.lifetime).map_err(|_| Error::Request("the token's lifetime is too long"))
}

/// What no request of ours may ask for, whatever the caller believes.
fn check(request: &AccessRequest) -> Result<(), Error> {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
    if !reserved(&request.email) {
        return Err(Error::Request("the operator's user needs an address below the reserved domain"));
    }
    if request.username.is_empty() || !request.username.bytes().all(plain) {
        return Err(Error::Request("the operator's user needs a name of letters, digits and dashes"));
    }
    if request.token_name.is_empty() || request.lifetime.as_secs() == 0 {
        return Err(Error::Request("a token needs a name and a lifetime"));
    }
    expiry(request).map(drop)
}

fn reserved(email: &str) -> bool {
    let (name, domain) = email.split_once('@').unwrap_or_default();
    !name.is_empty() && domain.eq_ignore_ascii_case(EMAIL_DOMAIN)
}

/// The name of the token that the older operator, written in Go, made for an object.
pub fn go_operator_token_name(namespace: &str, name: &str) -> String {
    let bytes = namespace.bytes().chain([0]).chain(name.bytes());
    let hash = bytes.fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    });
    format!("coder-k8s-operator-{hash:016x}")
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
        assert_eq!(usernames(&request()), names);
        let long = AccessRequest { username: "a".repeat(40), ..request() };
        assert!(usernames(&long).iter().all(|name| name.len() == LONGEST_USERNAME));
    }

    #[test]
    fn requests_that_could_meet_a_human_are_refused() {
        assert_eq!(check(&request()), Ok(()));
        for email in [
            "",
            "a@example.com",
            "a@coder-k8s.invalid@example.com",
            "@coder-k8s.invalid",
            "coder-k8s.invalid",
        ] {
            assert!(check(&AccessRequest { email: email.to_owned(), ..request() }).is_err(), "{email}");
        }
        assert!(check(&AccessRequest { lifetime: Duration::MAX, ..request() }).is_err());
        assert!(check(&AccessRequest { lifetime: Duration::ZERO, ..request() }).is_err());
        assert!(check(&AccessRequest { username: "a b".to_owned(), ..request() }).is_err());
    }

    #[test]
    fn a_user_is_ours_by_its_address_or_by_the_one_of_an_earlier_release() {
        let former = format!("coder-k8s-operator-0123@{EMAIL_DOMAIN}");
        let request = AccessRequest { former_email: Some(former.clone()), ..request() };
        assert_eq!(owns(&request, &request.email, true), Ok(true));
        assert_eq!(owns(&request, &former, true), Ok(false), "it gets the other one");
        let other = format!("coder-k8s-operator-y@{EMAIL_DOMAIN}");
        assert_eq!(owns(&request, &other, true), Err(Error::UserElsewhere), "another cluster's");
        assert_eq!(owns(&request, &request.email, false), Err(Error::ForeignUser), "a human's");
        assert_eq!(owns(&request, "a@example.com", true), Err(Error::ForeignUser));
    }

    #[test]
    fn a_request_shows_no_secret() {
        let request = request();
        let plaintext = request.token.plaintext();
        assert!(!format!("{request:?}").contains(&plaintext.expose()[11..]));
    }

    #[test]
    fn the_older_operators_token_name_is_known() {
        // FNV-1a 64 of "a" is af63dc4c8601ec8c (the function's own test vector); here of "\0".
        assert_eq!(go_operator_token_name("", ""), "coder-k8s-operator-af63bd4c8601b7df");
        assert_eq!(go_operator_token_name("a", "b").len(), "coder-k8s-operator-".len() + 16);
    }
}
