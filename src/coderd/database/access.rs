//! The operator's own user and its token in coderd's database: made, kept in its role, renewed.
//! It never touches a user that is not recognised by recorded id or reserved address, and never activates one that an
//! administrator suspended.

use super::error::Error;
use super::request::AccessRequest;
use super::session::Database;
use crate::coderd::uuid::Uuid;
use jiff::Timestamp;
use std::time::SystemTime;
use tokio_postgres::Transaction;
use tokio_postgres::types::{ToSql, Type};

/// Two operators that start at once do one after the other what must be done once; the number is "coder-k8".
const LOCK: i64 = 0x636f_6465_722d_6b38;

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
        request.check()?;
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
    let address_fits = request.owns(&email, row.try_get("is_system")?)?;
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

/// A system user takes no seat, does not count as the first user, is not listed, and cannot log in. It is a member of no
/// organisation: the two roles work site-wide.
async fn insert_user(transaction: &Transaction<'_>, request: &AccessRequest) -> Result<Operator, Error> {
    let statement = "INSERT INTO users (id, email, username, name, hashed_password, created_at, updated_at, status, \
         rbac_roles, login_type, is_system) VALUES ($1::text::uuid, $2, $3, $3, ''::bytea, $5, $5, 'active', ARRAY[$4], \
         'none', true) ON CONFLICT DO NOTHING";
    let (id, role, now) = (request.user_id.to_string(), request.role.word(), SystemTime::from(request.now));
    for username in request.usernames() {
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
    let expires_at = request.expiry()?;
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
