//! Watches of one kind in several namespaces as one: a list of all begins once, and is complete when every namespace has been
//! listed. It never lets the list of one namespace stand for all: whoever listens would take the others' objects for gone.

use super::changes::MetadataEvent;
use futures::stream::BoxStream;
use futures::{Stream, StreamExt};
use kube::runtime::watcher;
use std::task::{Context, Poll};

/// What a watch tells.
pub(super) type Changes = BoxStream<'static, watcher::Result<MetadataEvent>>;

/// Begins a watch with a list.
pub(super) type Start = Box<dyn Fn() -> Changes + Send>;

/// How far the list of one namespace is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Progress {
    /// It has not begun.
    Waiting,
    /// It has begun, and has shown nothing yet.
    Begun,
    /// It has shown something.
    Showing,
    /// Everything was shown.
    Listed,
}

struct Source {
    start: Start,
    changes: Changes,
    progress: Progress,
}

struct Merged {
    sources: Vec<Source>,
    /// Whether it was told that a list begins.
    has_begun: bool,
    /// Whose turn it is.
    next: usize,
}

/// All of them as one.
pub(super) fn merged(
    starts: Vec<Start>,
) -> impl Stream<Item = watcher::Result<MetadataEvent>> + Send + 'static {
    let source = |start: Start| Source { changes: start(), start, progress: Progress::Waiting };
    let mut merged = Merged { sources: starts.into_iter().map(source).collect(), has_begun: false, next: 0 };
    futures::stream::poll_fn(move |context| merged.poll(context))
}

impl Merged {
    /// The next word of any of them, each in turn. None of them ends by itself.
    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Option<watcher::Result<MetadataEvent>>> {
        let count = self.sources.len();
        for index in (self.next..self.next + count).map(|index| index % count) {
            while let Poll::Ready(event) = self.sources[index].changes.poll_next_unpin(context) {
                self.next = index + 1;
                let Some(event) = event else { return Poll::Ready(None) };
                if let Some(told) = event.map(|event| self.told(index, event)).transpose() {
                    return Poll::Ready(Some(told));
                }
            }
        }
        Poll::Pending
    }

    /// What there is to tell of the word of one of them.
    fn told(&mut self, index: usize, event: MetadataEvent) -> Option<MetadataEvent> {
        let progress = self.sources[index].progress;
        let (progress, told) = match event {
            MetadataEvent::Listing => match progress {
                Progress::Waiting | Progress::Begun => {
                    (Progress::Begun, (!std::mem::replace(&mut self.has_begun, true)).then_some(event))
                }
                // What it has shown may be gone since, so that all begin anew with it.
                Progress::Showing | Progress::Listed => {
                    self.restart_others(index);
                    (Progress::Begun, Some(event))
                }
            },
            MetadataEvent::Changed(_) => {
                let shows = progress != Progress::Listed;
                (if shows { Progress::Showing } else { progress }, Some(event))
            }
            MetadataEvent::Listed => (Progress::Listed, None),
        };
        let was_listed = self.is_listed();
        self.sources[index].progress = progress;
        if told.is_none() && !was_listed && self.is_listed() { Some(MetadataEvent::Listed) } else { told }
    }

    fn is_listed(&self) -> bool {
        self.sources.iter().all(|source| source.progress == Progress::Listed)
    }

    fn restart_others(&mut self, index: usize) {
        for (_, source) in self.sources.iter_mut().enumerate().filter(|(other, _)| *other != index) {
            (source.changes, source.progress) = ((source.start)(), Progress::Waiting);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::changes::Change;
    use super::*;
    use kube::core::ObjectMeta;
    use std::sync::{Arc, Mutex};
    use tokio::sync::mpsc;

    type Sender = mpsc::UnboundedSender<watcher::Result<MetadataEvent>>;

    /// A namespace whose watch says what the test says; its senders, the newest last.
    fn source() -> (Start, Arc<Mutex<Vec<Sender>>>) {
        let senders: Arc<Mutex<Vec<Sender>>> = Arc::default();
        let kept = senders.clone();
        let start: Start = Box::new(move || {
            let (sender, receiver) = mpsc::unbounded_channel();
            kept.lock().unwrap().push(sender);
            futures::stream::unfold(receiver, |mut receiver| async move {
                Some((receiver.recv().await?, receiver))
            })
            .boxed()
        });
        (start, senders)
    }

    fn changed(name: &str) -> MetadataEvent {
        let metadata = ObjectMeta { name: Some(name.to_owned()), ..ObjectMeta::default() };
        MetadataEvent::Changed(Box::new(Change { metadata, gone: false }))
    }

    fn word(event: watcher::Result<MetadataEvent>) -> String {
        match event {
            Ok(MetadataEvent::Listing) => "listing".to_owned(),
            Ok(MetadataEvent::Listed) => "listed".to_owned(),
            Ok(MetadataEvent::Changed(change)) => change.metadata.name.unwrap_or_default(),
            Err(_) => "failed".to_owned(),
        }
    }

    /// What is told by now.
    async fn told(merged: &mut (impl Stream<Item = watcher::Result<MetadataEvent>> + Unpin)) -> Vec<String> {
        let mut words = Vec::new();
        while let Poll::Ready(Some(event)) = futures::poll!(merged.next()) {
            words.push(word(event));
        }
        words
    }

    fn say(senders: &Mutex<Vec<Sender>>, event: MetadataEvent) {
        senders.lock().unwrap().last().unwrap().send(Ok(event)).unwrap();
    }

    #[tokio::test]
    async fn a_list_is_complete_when_every_namespace_is_and_a_new_list_of_one_is_a_new_list_of_all() {
        let ((start_a, a), (start_b, b)) = (source(), source());
        let mut merged = Box::pin(merged(vec![start_a, start_b]));
        say(&a, MetadataEvent::Listing);
        say(&a, changed("a1"));
        say(&a, MetadataEvent::Listed);
        assert_eq!(told(&mut merged).await, ["listing", "a1"], "b has not been listed");
        b.lock().unwrap()[0].send(Err(watcher::Error::NoResourceVersion)).unwrap();
        say(&b, MetadataEvent::Listing);
        say(&b, MetadataEvent::Listing);
        say(&a, changed("a2"));
        assert_eq!(told(&mut merged).await, ["failed", "a2"], "what fails keeps nobody else from telling");
        say(&b, MetadataEvent::Listed);
        assert_eq!(told(&mut merged).await, ["listed"]);
        say(&b, changed("b1"));
        assert_eq!(told(&mut merged).await, ["b1"]);

        say(&b, MetadataEvent::Listing);
        assert_eq!(told(&mut merged).await, ["listing"]);
        assert_eq!((a.lock().unwrap().len(), b.lock().unwrap().len()), (2, 1), "the other one begins anew");
        say(&b, MetadataEvent::Listed);
        assert_eq!(told(&mut merged).await, [""; 0], "a's objects are not gone: they have not been listed");
        for event in [MetadataEvent::Listing, changed("a2"), MetadataEvent::Listed] {
            say(&a, event);
        }
        assert_eq!(told(&mut merged).await, ["a2", "listed"]);
    }

    #[tokio::test]
    async fn a_list_that_breaks_after_it_has_shown_something_begins_anew_for_all() {
        let ((start_a, a), (start_b, b)) = (source(), source());
        let mut merged = Box::pin(merged(vec![start_a, start_b]));
        for event in [MetadataEvent::Listing, changed("a1"), MetadataEvent::Listing] {
            say(&a, event);
        }
        assert_eq!(told(&mut merged).await, ["listing", "a1", "listing"], "a1 may be gone");
        for senders in [&a, &b] {
            say(senders, MetadataEvent::Listing);
            say(senders, MetadataEvent::Listed);
        }
        assert_eq!(told(&mut merged).await, ["listed"]);
    }
}
