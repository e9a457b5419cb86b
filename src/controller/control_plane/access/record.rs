//! Decides how a record of our own token is written in its Secret, and reads it back.
//! It never decides what to do about it, and never takes an object that is not marked as ours.

use super::steps::{Kept, Record};
use crate::coderd::NewToken;
use crate::coderd::database::{EMAIL_DOMAIN, Role};
use crate::confidential::Confidential;
use crate::control_plane_access::operator_token::OWNER_UID;
use crate::controller::identity::Owner;
use crds::names;
use crds::well_known::{MANAGER, label, secret_key};
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use kube::core::ObjectMeta;
use std::collections::BTreeMap;
use std::str::FromStr;

/// The version of the record that our last write replaced: another one for each, so that writes of others are told apart.
pub(crate) const WRITTEN_OVER: &str = "coder.com/written-over";

const TOKEN: &str = secret_key::TOKEN;
const TOKEN_GENERATION: &str = "token-generation";
const TOKEN_EXPIRES_AT: &str = "token-expires-at";
const NEXT: &str = "next";
const NEXT_EXPIRES_AT: &str = "next-expires-at";
const GENERATION: &str = "generation";
const USER_ID: &str = "user-id";
const ROLE: &str = "role";
const REVOKED_BEFORE: &str = "revoked-before";
const FORMER_CLEARED: &str = "former-cleared";

impl<'a> Owner<'a> {
    /// The control plane of this name that a record was made for: an earlier one, if its uid is another. A record that
    /// names none, because somebody took the mark away, counts as its own.
    pub fn of_record(self, uid: &'a str) -> Self {
        if uid.is_empty() { self } else { Self { uid, ..self } }
    }

    /// The name of the Secret.
    pub fn secret(&self) -> String {
        names::control_plane::operator_token_secret(self.namespace, self.name)
    }

    /// The address by which its user is found again. With the uid: a control plane of this name in another cluster, on
    /// the same database, has a user of its own.
    pub fn email(&self) -> String {
        format!("{}@{EMAIL_DOMAIN}", names::control_plane::operator_user(self.uid))
    }

    /// The address that earlier releases gave its user.
    pub fn former_email(&self) -> String {
        format!("{}@{EMAIL_DOMAIN}", names::control_plane::operator_token(self.namespace, self.name))
    }

    /// The name of a token in coderd: another one for each generation.
    pub fn token_name(&self, generation: u64) -> String {
        format!("{}-{generation}", names::control_plane::operator_user(self.uid))
    }
}

/// What was found under the name of the Secret.
#[derive(Debug)]
pub(super) enum Found {
    /// Nothing.
    Nothing,
    /// A Secret that is not ours.
    Foreign,
    /// Ours. Without a record if it cannot be read: it is then written anew.
    Ours {
        /// What is in it.
        record: Option<Box<Record>>,
        /// Its uid.
        uid: String,
        /// Its version, which the next write must meet.
        version: String,
        /// Uid of the control plane it was made for.
        owner: String,
    },
}

/// Looks at what was found. The mark is enough to be ours: whatever an earlier control plane of this name left is taken
/// back by the one of now.
pub(super) fn read(secret: Option<&Secret>) -> Found {
    let Some(secret) = secret else { return Found::Nothing };
    let marked = secret.metadata.labels.as_ref().and_then(|labels| labels.get(label::MANAGED_BY));
    if marked.map(String::as_str) != Some(MANAGER) {
        return Found::Foreign;
    }
    let text = |value: &Option<String>| value.clone().unwrap_or_default();
    let record = secret.data.as_ref().and_then(parse).map(Box::new);
    let (uid, version) = (text(&secret.metadata.uid), text(&secret.metadata.resource_version));
    let made_for = secret.metadata.annotations.as_ref().and_then(|all| all.get(OWNER_UID));
    Found::Ours { record, uid, version, owner: text(&made_for.cloned()) }
}

type Data = BTreeMap<String, ByteString>;

fn value<T: FromStr>(data: &Data, key: &str) -> Option<T> {
    std::str::from_utf8(&data.get(key)?.0).ok()?.trim().parse().ok()
}

fn token(data: &Data, key: &str) -> Option<NewToken> {
    NewToken::parse(&value::<Confidential<String>>(data, key)?).ok()
}

fn parse(data: &Data) -> Option<Record> {
    let generation = value(data, GENERATION)?;
    let kept = |key, generation, expires_at| {
        Some(Kept { token: token(data, key)?, generation, expires_at: value(data, expires_at) })
    };
    Some(Record {
        user_id: value(data, USER_ID)?,
        generation,
        current: value(data, TOKEN_GENERATION).and_then(|number| kept(TOKEN, number, TOKEN_EXPIRES_AT)),
        next: kept(NEXT, generation, NEXT_EXPIRES_AT),
        role: value::<String>(data, ROLE).and_then(|word| role(&word)),
        revoked_before: value(data, REVOKED_BEFORE).unwrap_or_default(),
        former_cleared: value(data, FORMER_CLEARED).unwrap_or_default(),
    })
}

fn role(word: &str) -> Option<Role> {
    [Role::Owner, Role::TemplateAdmin].into_iter().find(|role| role_word(*role) == word)
}

fn role_word(role: Role) -> &'static str {
    match role {
        Role::Owner => "owner",
        Role::TemplateAdmin => "template-admin",
    }
}

/// The Secret for a record. With a version it replaces that one only; without, it must not exist yet.
pub(super) fn written(owner: Owner<'_>, namespace: &str, record: &Record, version: Option<&str>) -> Secret {
    let labels = [
        (label::MANAGED_BY, MANAGER.to_owned()),
        (label::CONTROL_PLANE, names::instance_label(owner.name)),
        (label::CONTROL_PLANE_NAMESPACE, owner.namespace.to_owned()),
    ];
    Secret {
        metadata: ObjectMeta {
            name: Some(owner.secret()),
            namespace: Some(namespace.to_owned()),
            resource_version: version.map(str::to_owned),
            labels: Some(labels.map(|(key, value)| (key.to_owned(), value)).into()),
            annotations: Some(
                [(OWNER_UID, owner.uid), (WRITTEN_OVER, version.unwrap_or_default())]
                    .map(|(key, value)| (key.to_owned(), value.to_owned()))
                    .into(),
            ),
            ..ObjectMeta::default()
        },
        type_: Some("Opaque".to_owned()),
        data: Some(data(record)),
        ..Secret::default()
    }
}

fn data(record: &Record) -> Data {
    let mut all = vec![
        (USER_ID, record.user_id.to_string()),
        (GENERATION, record.generation.to_string()),
        (REVOKED_BEFORE, record.revoked_before.to_string()),
        (FORMER_CLEARED, record.former_cleared.to_string()),
    ];
    all.extend(record.role.map(|role| (ROLE, role_word(role).to_owned())));
    if let Some(current) = &record.current {
        all.push((TOKEN, current.token.plaintext().expose().clone()));
        all.push((TOKEN_GENERATION, current.generation.to_string()));
        all.extend(current.expires_at.map(|end| (TOKEN_EXPIRES_AT, end.to_string())));
    }
    if let Some(next) = &record.next {
        all.push((NEXT, next.token.plaintext().expose().clone()));
        all.extend(next.expires_at.map(|end| (NEXT_EXPIRES_AT, end.to_string())));
    }
    all.into_iter().map(|(key, value)| (key.to_owned(), ByteString(value.into_bytes()))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::coderd::Uuid;
    use jiff::Timestamp;

    const OWNER: Owner<'_> = Owner { namespace: "team", name: "coder", uid: "u1" };

    fn record() -> Record {
        let user = Uuid::random().unwrap();
        let first = Record::prepared(None, user, NewToken::generate().unwrap());
        let end = Timestamp::from_second(1_800_000_000).unwrap();
        let first = first.ensured(super::super::steps::Which::Next, user, Role::Owner, end).promoted();
        Record::prepared(Some(&first.revoked().cleared()), user, NewToken::generate().unwrap())
    }

    #[test]
    fn a_record_survives_its_secret() {
        let full = record();
        for record in [
            Record::prepared(None, full.user_id, NewToken::generate().unwrap()),
            full.promoted(),
            Record { role: Some(Role::TemplateAdmin), ..full.clone() },
            full,
        ] {
            let mut secret = written(OWNER, "operator", &record, Some("7"));
            secret.metadata.uid = Some("s1".to_owned());
            let Found::Ours { record: again, uid, version, .. } = read(Some(&secret)) else {
                panic!("{secret:?}")
            };
            assert_eq!((again, uid.as_str(), version.as_str()), (Some(Box::new(record)), "s1", "7"));
        }
    }

    #[test]
    fn it_is_named_and_marked_and_token_appears_only_when_proven() {
        let first = Record::prepared(None, Uuid::random().unwrap(), NewToken::generate().unwrap());
        let secret = written(OWNER, "operator", &first, None);
        assert_eq!(secret.metadata.name.as_deref(), Some("team.coder.operator-token"));
        assert_eq!(secret.metadata.resource_version, None);
        let labels = secret.metadata.labels.unwrap();
        assert_eq!(
            (&*labels[label::CONTROL_PLANE], &*labels[label::CONTROL_PLANE_NAMESPACE]),
            ("coder", "team")
        );
        assert_eq!(secret.metadata.annotations.unwrap()[OWNER_UID], "u1");
        let data = secret.data.unwrap();
        assert!(!data.contains_key("token") && data.contains_key("next"));
    }

    #[test]
    fn a_record_leads_to_the_user_of_the_object_it_was_made_for() {
        let earlier = OWNER.of_record("u0");
        assert_eq!((earlier.uid, earlier.secret()), ("u0", OWNER.secret()));
        assert_ne!(earlier.email(), OWNER.email());
        assert_eq!(OWNER.of_record("").email(), OWNER.email());
    }

    #[test]
    fn what_is_not_marked_is_foreign_and_what_is_unreadable_is_no_record() {
        assert!(matches!(read(None), Found::Nothing));
        assert!(matches!(read(Some(&Secret::default())), Found::Foreign));
        let mut secret = written(OWNER, "operator", &record(), None);
        secret.data.as_mut().unwrap().insert(USER_ID.to_owned(), ByteString(b"nobody".to_vec()));
        assert!(matches!(read(Some(&secret)), Found::Ours { record: None, .. }));
    }
}
