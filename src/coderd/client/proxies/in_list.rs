//! Finds the proxy of a name or an id in the list of all of them, which coderd wraps in an object. Each is read and dropped before the next:
//! no more than one is held, however many a coderd claims to have.

use super::{Shown, WorkspaceProxy};
use crate::coderd::uuid::Uuid;
use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use std::fmt::{self, Formatter};

/// Which proxy is looked for.
#[derive(Clone, Copy)]
pub(super) enum Wanted<'n> {
    /// That of this name, in any case.
    Named(&'n str),
    /// That of this id, whatever its name is.
    Of(Uuid),
}

/// The object around the list.
pub(super) struct Wrapped<'n> {
    /// What is looked for.
    pub(super) wanted: Wanted<'n>,
}

#[derive(Deserialize)]
#[serde(field_identifier, rename_all = "snake_case")]
enum Field {
    Regions,
    #[serde(other)]
    Other,
}

impl<'de> DeserializeSeed<'de> for Wrapped<'_> {
    type Value = Option<WorkspaceProxy>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Wrapped<'_> {
    type Value = Option<WorkspaceProxy>;

    fn expecting(&self, out: &mut Formatter<'_>) -> fmt::Result {
        out.write_str("an object with a list of proxies")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut found = None;
        while let Some(field) = map.next_key::<Field>()? {
            match field {
                Field::Regions => found = map.next_value_seed(List { wanted: self.wanted })?,
                Field::Other => _ = map.next_value::<IgnoredAny>()?,
            }
        }
        Ok(found)
    }
}

/// The list; Go writes null for an empty one.
struct List<'n> {
    wanted: Wanted<'n>,
}

impl<'de> DeserializeSeed<'de> for List<'_> {
    type Value = Option<WorkspaceProxy>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_option(self)
    }
}

impl<'de> Visitor<'de> for List<'_> {
    type Value = Option<WorkspaceProxy>;

    fn expecting(&self, out: &mut Formatter<'_>) -> fmt::Result {
        out.write_str("a list of proxies")
    }

    fn visit_none<E>(self) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_unit<E>(self) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_seq(self)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
        let name = match self.wanted {
            Wanted::Named(name) => name.to_lowercase(),
            Wanted::Of(_) => String::new(),
        };
        let is_it = |proxy: &WorkspaceProxy| match self.wanted {
            Wanted::Named(_) => proxy.name.to_lowercase() == name,
            Wanted::Of(id) => proxy.id == id,
        };
        let mut found = None;
        while found.is_none() {
            let Some(shown) = list.next_element::<Shown>()? else { return Ok(None) };
            found = shown.unless_deleted().filter(is_it);
        }
        while list.next_element::<IgnoredAny>()?.is_some() {}
        Ok(found)
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{OTHER, proxy};
    use super::*;
    use crate::coderd::Error;
    use crate::coderd::client::answers::tests::answer_to;
    use crate::coderd::error::Operation;
    use serde_json::{Value, json};

    fn named(name: &str, body: &Value) -> Result<Option<String>, Error> {
        let found = answer_to(Operation::WorkspaceProxy, 200, body)
            .json_with(Wrapped { wanted: Wanted::Named(name) })?;
        Ok(found.map(|found| found.name))
    }

    #[test]
    fn the_first_living_proxy_of_a_name_in_any_case_is_found_whatever_else_is_listed() {
        let gone = proxy(&json!({ "id": OTHER, "name": "eu", "deleted": true }));
        let us = proxy(&json!({ "name": "us" }));
        let all = json!({ "a field of tomorrow": [7], "regions": [gone, us, proxy(&json!({ "name": "EU" })), us], "b": {} });
        assert_eq!(named("eu", &all), Ok(Some("EU".to_owned())));
        assert_eq!(named("US", &all), Ok(Some("us".to_owned())));
        assert_eq!(named("asia", &all), Ok(None));
        let of = |id: &str| {
            let wanted = Wanted::Of(id.parse().unwrap());
            answer_to(Operation::WorkspaceProxy, 200, &all).json_with(Wrapped { wanted })
        };
        let first = us["id"].as_str().unwrap();
        assert_eq!(of(first).unwrap().map(|found| found.name), Some("us".to_owned()), "whatever its name is");
        assert_eq!(of(OTHER), Ok(None), "it was deleted");
        for empty in [json!({}), json!({ "regions": null }), json!({ "regions": [] })] {
            assert_eq!(named("eu", &empty), Ok(None), "{empty}");
        }
        let operation = Operation::WorkspaceProxy;
        for broken in [json!([]), json!(null), json!({ "regions": {} }), json!({ "regions": [7] })] {
            assert_eq!(named("eu", &broken), Err(Error::Malformed { operation }), "{broken}");
        }
    }
}
