//! Provisioner tags as coderd treats them: what it makes of the ones it is given, and which daemon may take which job.
//! It never stores any.

use std::collections::BTreeMap;

use crate::coderd::ids::Uuid;

pub(in crate::coderd) type Tags = BTreeMap<String, String>;

/// coderd's `MutateTags`: empty values go, the scope is `organization` or `user`, and the owner follows from it.
pub(in crate::coderd) fn settled(given: &Tags, user: Uuid) -> Tags {
    let kept = given.iter().filter(|(_, value)| !value.is_empty());
    let mut tags: Tags = kept.map(|(name, value)| (name.clone(), value.clone())).collect();
    let (scope, owner) = match tags.get("scope").map(String::as_str) {
        Some("user") => ("user", user.to_string()),
        _ => ("organization", String::new()),
    };
    tags.insert("scope".to_owned(), scope.to_owned());
    tags.insert("owner".to_owned(), owner);
    tags
}

/// coderd's `provisioner_tagset_contains`: the tags of an untagged job must be met exactly, others must be among those.
pub(in crate::coderd) fn contains(provisioner: &Tags, job: &Tags) -> bool {
    let untagged = [("owner", ""), ("scope", "organization")];
    let asked = || job.iter().map(|(name, value)| (name.as_str(), value.as_str()));
    if asked().eq(untagged) {
        return provisioner == job;
    }
    asked().all(|(name, value)| provisioner.get(name).is_some_and(|has| has == value))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tags(pairs: &[(&str, &str)]) -> Tags {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn scope_and_owner_are_settled_and_empty_values_go() {
        let user = Uuid::from_number(7);
        let plain = tags(&[("scope", "organization"), ("owner", "")]);
        assert_eq!(settled(&tags(&[("a", "")]), user), plain);
        assert_eq!(settled(&tags(&[("scope", "nonsense"), ("owner", "me")]), user), plain);
        let owned = tags(&[("scope", "user"), ("owner", &user.to_string())]);
        assert_eq!(settled(&tags(&[("scope", "user")]), user), owned);
    }

    #[test]
    fn an_untagged_job_is_for_untagged_provisioners_only() {
        let plain = tags(&[("scope", "organization"), ("owner", "")]);
        let tagged = tags(&[("scope", "organization"), ("owner", ""), ("zone", "eu")]);
        assert!(contains(&plain, &plain) && !contains(&tagged, &plain));
        assert!(contains(&tagged, &tagged) && !contains(&plain, &tagged));
        assert!(contains(&tagged, &tags(&[("scope", "organization")])));
    }
}
