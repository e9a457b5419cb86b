//! Decides that an object without `spec` reads like one with `spec: {}`, in a file as in the API server.
//! Never fills in anything else.

/// Implements serde for a spec that derives it with `#[serde(remote = "Self")]`.
///
/// serde hands a missing field to the field's type as "nothing here"; only a type that asks for an option
/// learns of it. The root types are generated and take no attribute for this.
macro_rules! missing_spec_is_empty {
    ($spec:ty) => {
        impl serde::Serialize for $spec {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                <$spec>::serialize(self, serializer)
            }
        }

        impl<'de> serde::Deserialize<'de> for $spec {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                struct GivenOrEmpty;

                impl<'de> serde::de::Visitor<'de> for GivenOrEmpty {
                    type Value = $spec;

                    fn expecting(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                        formatter.write_str("a spec, or none")
                    }

                    fn visit_none<E: serde::de::Error>(self) -> Result<$spec, E> {
                        Ok(<$spec>::default())
                    }

                    fn visit_unit<E: serde::de::Error>(self) -> Result<$spec, E> {
                        Ok(<$spec>::default())
                    }

                    fn visit_some<D: serde::Deserializer<'de>>(self, given: D) -> Result<$spec, D::Error> {
                        <$spec>::deserialize(given)
                    }
                }

                deserializer.deserialize_option(GivenOrEmpty)
            }
        }
    };
}

pub(crate) use missing_spec_is_empty;
