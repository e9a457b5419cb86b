//! Decides what of a list or watch a client gets to see: which lines pass, when a watch ends, and from where it goes on.
//! It never invents an object; what it hides is still in the cluster.

use super::rules;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use tokio::sync::watch;

/// How a running watch ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    /// Without a word, as when the API server restarts.
    Cut,
    /// With the error that what it had seen is too old: the client has to list again.
    Gone,
}

type MatchesEvent = Box<dyn Fn(&str, &Value) -> bool + Send>;

struct Live {
    url: String,
    end: watch::Sender<Option<End>>,
}

/// The watches of one client.
#[derive(Default)]
pub(super) struct Watches {
    live: BTreeMap<usize, Live>,
    opened: usize,
    /// Events that are dropped, each once.
    drops: Vec<MatchesEvent>,
    dropped: Vec<Value>,
    /// The first version that each watch told.
    first: BTreeMap<String, String>,
    /// Watches that go on from their first version the next time they are opened.
    rewound: BTreeSet<String>,
    /// The namespaces that are shown; all, if none are named.
    shown: Option<BTreeSet<String>>,
}

impl Watches {
    pub(super) fn show_only(&mut self, namespaces: BTreeSet<String>) {
        self.shown = Some(namespaces);
    }

    pub(super) fn drop_next(&mut self, matches: MatchesEvent) {
        self.drops.push(matches);
    }

    pub(super) fn dropped(&self) -> Vec<Value> {
        self.dropped.clone()
    }

    /// A watch begins: its number, and where it is told to end.
    pub(super) fn open(&mut self, url: &str) -> (usize, watch::Receiver<Option<End>>) {
        let (end, ended) = watch::channel(None);
        self.opened += 1;
        self.live.insert(self.opened, Live { url: url.to_owned(), end });
        (self.opened, ended)
    }

    /// A watch is over.
    pub(super) fn close(&mut self, number: usize) {
        self.live.remove(&number);
    }

    /// Ends the running watches that match; returns how many. With `rewind`, each goes on from its first version.
    pub(super) fn end(&mut self, end: End, rewind: bool, matches: impl Fn(&str) -> bool) -> usize {
        let live = self.live.values().filter(|live| matches(&live.url));
        let mut count = 0;
        for live in live {
            if rewind {
                self.rewound.insert(followed(&live.url));
            }
            live.end.send_replace(Some(end));
            count += 1;
        }
        count
    }

    /// The URL by which a watch is really opened: one that was rewound goes on from where it began.
    pub(super) fn rewind(&mut self, url: &str) -> Option<String> {
        let (path, query) = url.split_once('?')?;
        let is_version = |parameter: &&str| parameter.starts_with("resourceVersion=");
        let goes_on =
            query.split('&').any(|one| is_version(&one)) && !query.contains("sendInitialEvents=true");
        if !goes_on || !self.rewound.remove(&followed(url)) {
            return None;
        }
        let first = format!("resourceVersion={}", self.first.get(&followed(url))?);
        let query = query.split('&').map(|one| if is_version(&one) { first.as_str() } else { one });
        Some(format!("{path}?{}", query.collect::<Vec<_>>().join("&")))
    }

    /// Whether a line of a watch passes.
    pub(super) fn passes(&mut self, url: &str, line: &[u8]) -> bool {
        // Whatever is no event is the client's business.
        let Ok(event) = serde_json::from_slice::<Value>(line) else { return true };
        if let Some(version) = event.pointer("/object/metadata/resourceVersion").and_then(Value::as_str) {
            self.first.entry(followed(url)).or_insert_with(|| version.to_owned());
        }
        if event["type"] == "BOOKMARK" || event["type"] == "ERROR" {
            return true;
        }
        if !self.is_shown(&event["object"]) {
            return false;
        }
        let dropped = self.drops.iter().position(|matches| matches(url, &event));
        if let Some(at) = dropped {
            drop(self.drops.remove(at));
            self.dropped.push(event);
        }
        dropped.is_none()
    }

    /// A list with what is shown of it; none if it stays as it is.
    pub(super) fn shown_of(&self, list: &[u8]) -> Option<Vec<u8>> {
        self.shown.as_ref()?;
        let mut list: Value = serde_json::from_slice(list).ok()?;
        list["items"].as_array_mut()?.retain(|item| self.is_shown(item));
        Some(list.to_string().into_bytes())
    }

    pub(super) fn hides_something(&self) -> bool {
        self.shown.is_some()
    }

    /// Objects of no namespace are shown to everybody, except namespaces themselves.
    fn is_shown(&self, object: &Value) -> bool {
        let Some(shown) = &self.shown else { return true };
        let metadata = &object["metadata"];
        match (metadata["namespace"].as_str(), metadata["name"].as_str()) {
            (Some(namespace), _) => shown.contains(namespace),
            // A namespace carries its own name as a label; it may come as mere metadata, without its kind.
            (None, Some(name)) if metadata["labels"]["kubernetes.io/metadata.name"] == name => {
                shown.contains(name)
            }
            _ => true,
        }
    }
}

/// What a watch follows: its path and selectors, not where it begins.
fn followed(url: &str) -> String {
    let (path, query) = url.split_once('?').unwrap_or((url, ""));
    let selectors = query.split('&').filter(|one| one.contains("Selector="));
    std::iter::once(path).chain(selectors).collect::<Vec<_>>().join(" ")
}

/// Whether a request opens a watch.
pub(super) fn is_watch(method: &str, url: &str) -> bool {
    let query = url.split_once('?').map_or("", |(_, query)| query);
    method == "GET" && query.split('&').any(|one| one == "watch=1" || one == "watch=true")
}

/// The last line of a watch that is too old.
pub(super) fn gone() -> Vec<u8> {
    let mut line =
        serde_json::json!({ "type": "ERROR", "object": rules::status(410) }).to_string().into_bytes();
    line.push(b'\n');
    line
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const URL: &str = "/apis/apps/v1/deployments?watch=true&labelSelector=a%3Db&resourceVersion=7";

    fn line(kind: &str, namespace: &str, name: &str, version: &str) -> Vec<u8> {
        json!({ "type": kind, "object": { "metadata": { "namespace": namespace, "name": name,
            "resourceVersion": version } } })
        .to_string()
        .into_bytes()
    }

    #[test]
    fn an_event_is_dropped_once() {
        let mut watches = Watches::default();
        watches.drop_next(Box::new(|_, event| event["object"]["metadata"]["name"] == "coder"));
        assert!(watches.passes(URL, &line("MODIFIED", "a", "other", "8")));
        assert!(!watches.passes(URL, &line("MODIFIED", "a", "coder", "9")));
        assert!(watches.passes(URL, &line("MODIFIED", "a", "coder", "10")));
        assert_eq!(watches.dropped().len(), 1);
    }

    #[test]
    fn only_what_is_shown_is_seen() {
        let mut watches = Watches::default();
        watches.show_only(["a".to_owned()].into());
        assert!(watches.passes(URL, &line("ADDED", "a", "coder", "8")));
        assert!(!watches.passes(URL, &line("ADDED", "b", "coder", "8")));
        assert!(watches.passes(URL, &line("BOOKMARK", "b", "", "9")));
        let namespace = |name: &str| json!({ "metadata": { "name": name, "labels": { "kubernetes.io/metadata.name": name } } });
        let list = json!({ "items": [namespace("a"), namespace("b"), { "metadata": { "name": "a.crd" } }] });
        let shown: Value =
            serde_json::from_slice(&watches.shown_of(list.to_string().as_bytes()).unwrap()).unwrap();
        assert_eq!(shown["items"].as_array().unwrap().len(), 2);
    }

    #[test]
    fn a_rewound_watch_goes_on_from_its_first_version_once() {
        let mut watches = Watches::default();
        let (number, mut ended) = watches.open(URL);
        assert!(watches.passes(URL, &line("ADDED", "a", "coder", "3")));
        assert!(watches.passes(URL, &line("MODIFIED", "a", "coder", "6")));
        assert_eq!(watches.end(End::Cut, true, |url| url.contains("pods")), 0);
        assert_eq!(watches.end(End::Cut, true, |url| url.contains("deployments")), 1);
        assert_eq!(*ended.borrow_and_update(), Some(End::Cut));
        watches.close(number);
        assert_eq!(watches.rewind(&URL.replace("7", "7&sendInitialEvents=true")), None, "it lists anyway");
        assert_eq!(watches.rewind(URL), Some(URL.replace('7', "3")));
        assert_eq!(watches.rewind(URL), None);
    }
}
