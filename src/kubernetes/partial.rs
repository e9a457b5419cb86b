//! Decides that an object of which only a part is read is of its kind all the same: watches and caches ask by the same names.
//! Never decides which part that is.

/// Implements `Resource` for a type with a field `metadata` whose first parameter is the kind.
macro_rules! part_of_kind {
    ($part:ident<K $(, $more:ident)?>, metadata_api: $metadata_api:literal) => {
        impl<K: kube::Resource $(, $more)?> kube::Resource for $part<K $(, $more)?> {
            type DynamicType = K::DynamicType;
            type Scope = K::Scope;

            fn metadata_api() -> bool {
                $metadata_api
            }

            fn kind(kind: &Self::DynamicType) -> std::borrow::Cow<'_, str> {
                K::kind(kind)
            }

            fn group(kind: &Self::DynamicType) -> std::borrow::Cow<'_, str> {
                K::group(kind)
            }

            fn version(kind: &Self::DynamicType) -> std::borrow::Cow<'_, str> {
                K::version(kind)
            }

            fn plural(kind: &Self::DynamicType) -> std::borrow::Cow<'_, str> {
                K::plural(kind)
            }

            fn meta(&self) -> &kube::core::ObjectMeta {
                &self.metadata
            }

            fn meta_mut(&mut self) -> &mut kube::core::ObjectMeta {
                &mut self.metadata
            }
        }
    };
}

pub(super) use part_of_kind;
