//! Changes of objects as they happen, by name and labels only: for whoever must look again, not for whoever must know.
//! Nothing is kept; after a gap every object counts as changed.

use super::Kube;
use super::reflected::Selection;
use futures::{Stream, StreamExt};
use kube::core::{ObjectMeta, PartialObjectMeta};
use kube::runtime::watcher::{self, Event};
use kube::runtime::{WatchStreamExt, watcher as watch_objects};
use kube::{Api, Resource};
use std::fmt::Debug;

impl Kube {
    /// Metadata of every object of a kind that changed, of those selected, in all namespaces. Failures are passed on
    /// and tried again, later each time.
    pub fn changes<K>(
        &self,
        selection: &Selection,
    ) -> impl Stream<Item = Result<ObjectMeta, watcher::Error>> + Send + 'static
    where
        K: Resource<DynamicType = ()> + Clone + Debug + Send + Sync + 'static,
    {
        let objects = Api::<PartialObjectMeta<K>>::all(self.watches.clone());
        watch_objects(objects, selection.config()).default_backoff().filter_map(async |event| match event {
            Ok(Event::Apply(object) | Event::InitApply(object) | Event::Delete(object)) => {
                Some(Ok(object.metadata))
            }
            Ok(Event::Init | Event::InitDone) => None,
            Err(error) => Some(Err(error)),
        })
    }
}
