//! Changes of objects as they happen, by name and labels only: for whoever must look again, not for whoever must know.
//! Nothing is kept; after a gap every object counts as changed.

use super::reflected::Selection;
use super::trimmed::Trimmed;
use super::wording::sentence;
use super::{Kube, watches};
use futures::stream::BoxStream;
use futures::{Stream, StreamExt};
use kube::api::{ApiResource, DynamicObject};
use kube::core::{GroupVersionKind, ObjectMeta};
use kube::runtime::watcher::{self, Event};
use kube::{Api, Resource};
use std::fmt::Debug;

/// An object that changed.
#[derive(Debug, Clone)]
pub struct Change {
    /// Its name, labels and annotations of ours, and its controller; see [`super::trimmed`].
    pub metadata: ObjectMeta,
    /// Whether it is there no more.
    pub gone: bool,
}

/// What a watch tells.
#[derive(Debug, Clone)]
pub enum MetadataEvent {
    /// All there is is about to be listed, from nothing.
    Listing,
    /// All there is has been listed: the API server knows the kind.
    Listed,
    /// An object changed.
    Changed(Box<Change>),
}

impl MetadataEvent {
    fn of<K>(object: Trimmed<K>, gone: bool) -> Self {
        Self::Changed(Box::new(Change { metadata: object.metadata, gone }))
    }
}

/// What the watch of a kind tells of one place.
pub(crate) struct Changes {
    /// The namespace that it is about; empty for the whole cluster.
    pub(crate) place: String,
    /// What it tells.
    pub(crate) events: BoxStream<'static, watcher::Result<MetadataEvent>>,
}

/// A kind as a value: `apiVersion`, `kind`, and the plural of its path.
pub(crate) type KindName = [&'static str; 3];

impl Kube {
    /// Metadata of every object of a kind that changed, of those selected, in the whole cluster. Failures are passed on
    /// and tried again, later each time.
    pub fn changes<K>(
        &self,
        selection: &Selection,
    ) -> impl Stream<Item = watcher::Result<MetadataEvent>> + Send + use<K>
    where
        K: Resource<DynamicType = ()> + Clone + Debug + Send + Sync + 'static,
    {
        metadata_events(Api::<Trimmed<K>>::all(self.watches.clone()), selection)
    }

    /// The same in one of the [`places`](super::Scope::places) that we look at, for a kind that is a value, which the API
    /// server may not know: see [`is_unknown`].
    pub(crate) fn changes_of(
        &self,
        place: &str,
        [api_version, kind, plural]: KindName,
        selection: &Selection,
    ) -> Changes {
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        let kind = GroupVersionKind::gvk(group, version, kind);
        let resource = ApiResource::from_gvk_with_plural(&kind, plural);
        let objects: Api<Trimmed<DynamicObject>> = match place {
            "" => Api::all_with(self.watches.clone(), &resource),
            place => Api::namespaced_with(self.watches.clone(), place, &resource),
        };
        Changes { place: place.to_owned(), events: metadata_events(objects, selection).boxed() }
    }
}

fn metadata_events<K>(
    objects: Api<Trimmed<K>>,
    selection: &Selection,
) -> impl Stream<Item = watcher::Result<MetadataEvent>> + Send + use<K>
where
    K: Resource + Clone + Debug + Send + Sync + 'static,
    K::DynamicType: Clone + Send + Sync,
{
    watches::events(objects, selection.config()).map(|event| {
        Ok(match event? {
            Event::Apply(object) | Event::InitApply(object) => MetadataEvent::of(object, false),
            Event::Delete(object) => MetadataEvent::of(object, true),
            Event::InitDone => MetadataEvent::Listed,
            Event::Init => MetadataEvent::Listing,
        })
    })
}

/// What the API server said where it does not let us list or watch: it names verb, resource and namespace.
pub(crate) fn refusal(error: &watcher::Error) -> Option<String> {
    match error {
        watcher::Error::InitialListFailed(kube::Error::Api(status))
        | watcher::Error::WatchStartFailed(kube::Error::Api(status))
            if status.code == 403 =>
        {
            Some(sentence(&status.message))
        }
        _ => None,
    }
}

/// Whether a watch failed because the API server does not know the kind, or no longer does.
pub(crate) fn is_unknown(error: &watcher::Error) -> bool {
    match error {
        watcher::Error::InitialListFailed(kube::Error::Api(status))
        | watcher::Error::WatchStartFailed(kube::Error::Api(status)) => status.code == 404,
        _ => false,
    }
}
