//! Whether coderd's tables are as we know them, before we write a row.
//! It compares what the catalogue says with what our statements use; it never changes a table.

use super::error::Error;
use tokio_postgres::Row;

/// Every column of the two tables, and every value of one enumeration, from the catalogue: unlike the information
/// schema it also shows what the user has no rights on, so that a missing right is not taken for a missing column.
pub(super) const PROBE: &str = "
SELECT c.relname::text AS place, a.attname::text AS name,
       a.attnotnull AND NOT a.atthasdef AND a.attidentity = '' AS needed
  FROM pg_catalog.pg_attribute a
  JOIN pg_catalog.pg_class c ON c.oid = a.attrelid
  JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
 WHERE n.nspname = 'public' AND c.relname IN ('users', 'api_keys') AND c.relkind IN ('r', 'p')
   AND a.attnum > 0 AND NOT a.attisdropped
UNION ALL
SELECT t.typname::text, e.enumlabel::text, false
  FROM pg_catalog.pg_enum e
  JOIN pg_catalog.pg_type t ON t.oid = e.enumtypid
  JOIN pg_catalog.pg_namespace n ON n.oid = t.typnamespace
 WHERE n.nspname = 'public' AND (t.typname, e.enumlabel) IN (('api_key_scope', 'coder:all'),
       ('login_type', 'none'), ('login_type', 'token'), ('user_status', 'active'), ('user_status', 'suspended'))";

/// A column of a table, or a value of an enumeration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Found {
    place: String,
    name: String,
    /// An INSERT must give it a value.
    needed: bool,
}

impl Found {
    pub(super) fn read(row: &Row) -> Result<Self, Error> {
        Ok(Self { place: row.try_get("place")?, name: row.try_get("name")?, needed: row.try_get("needed")? })
    }
}

const USERS: [&str; 12] = [
    "id",
    "email",
    "username",
    "name",
    "hashed_password",
    "created_at",
    "updated_at",
    "status",
    "rbac_roles",
    "login_type",
    "deleted",
    "is_system",
];
const API_KEYS: [&str; 12] = [
    "id",
    "hashed_secret",
    "user_id",
    "last_used",
    "expires_at",
    "created_at",
    "updated_at",
    "login_type",
    "lifetime_seconds",
    "token_name",
    "scopes",
    "allow_list",
];
const VALUES: [(&str, &str); 5] = [
    ("api_key_scope", "coder:all"),
    ("login_type", "none"),
    ("login_type", "token"),
    ("user_status", "active"),
    ("user_status", "suspended"),
];

/// Whether our statements fit what was found.
pub(super) fn judge(found: &[Found]) -> Result<(), Error> {
    let tables = [("users", USERS.as_slice()), ("api_keys", API_KEYS.as_slice())];
    if !tables.iter().all(|(table, _)| found.iter().any(|column| column.place == *table)) {
        return Err(Error::NotMigrated);
    }
    let there =
        |place: &str, name: &str| found.iter().any(|found| found.place == place && found.name == name);
    let columns = tables.iter().flat_map(|(table, names)| names.iter().map(move |name| (*table, *name)));
    let missing = columns.chain(VALUES).filter(|(place, name)| !there(place, name));
    let mut problems: Vec<String> =
        missing.map(|(place, name)| format!("{place}.{name} is missing")).collect();
    for (table, known) in tables {
        let mut needed = found.iter().filter(|column| column.place == table && column.needed);
        if needed.any(|column| !known.contains(&column.name.as_str())) {
            // Its name is the server's word, and not repeated.
            problems.push(format!("a column of {table} that we do not know needs a value"));
        }
    }
    if problems.is_empty() { Ok(()) } else { Err(Error::UnsupportedSchema { problems }) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn known() -> Vec<Found> {
        let column =
            |place: &str, name: &str| Found { place: place.to_owned(), name: name.to_owned(), needed: true };
        let users = USERS.iter().map(|name| column("users", name));
        let keys = API_KEYS.iter().map(|name| column("api_keys", name));
        let values = VALUES.iter().map(|(place, name)| Found { needed: false, ..column(place, name) });
        users.chain(keys).chain(values).collect()
    }

    #[test]
    fn the_schema_we_know_is_accepted_and_may_have_more() {
        let more = Found { place: "users".to_owned(), name: "new".to_owned(), needed: false };
        assert_eq!(judge(&[known(), vec![more]].concat()), Ok(()));
    }

    #[test]
    fn no_tables_means_no_migration_yet() {
        assert_eq!(judge(&[]), Err(Error::NotMigrated));
        let without: Vec<Found> = known().into_iter().filter(|found| found.place != "api_keys").collect();
        assert_eq!(judge(&without), Err(Error::NotMigrated));
    }

    #[test]
    fn what_is_missing_or_needed_is_named() {
        let mut found: Vec<Found> = known().into_iter().filter(|found| found.name != "coder:all").collect();
        found.retain(|column| column.name != "allow_list");
        for name in ["tenant", "\u{1b}[2J\u{202e}"] {
            found.push(Found { place: "users".to_owned(), name: name.to_owned(), needed: true });
        }
        let problems = ["api_keys.allow_list is missing", "api_key_scope.coder:all is missing"];
        let problems = [&problems[..], &["a column of users that we do not know needs a value"]].concat();
        let problems = problems.into_iter().map(str::to_owned).collect();
        assert_eq!(judge(&found), Err(Error::UnsupportedSchema { problems }));
    }
}
