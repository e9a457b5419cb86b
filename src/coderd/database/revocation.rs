//! Tokens of the operator's user that go: one, all but one, all with the role, or those an older operator left.
//! It never touches a user whose address is not reserved, and never removes a user.

use super::error::Error;
use super::request::{EMAIL_DOMAIN, reserved};
use super::session::Database;
use crate::coderd::uuid::Uuid;
use tokio_postgres::types::{ToSql, Type};

impl Database {
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

    #[test]
    fn the_older_operators_token_name_is_known() {
        // FNV-1a 64 of "a" is af63dc4c8601ec8c (the function's own test vector); here of "\0".
        assert_eq!(go_operator_token_name("", ""), "coder-k8s-operator-af63bd4c8601b7df");
        assert_eq!(go_operator_token_name("a", "b").len(), "coder-k8s-operator-".len() + 16);
    }
}
