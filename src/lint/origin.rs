//! Decides which file a rendered object came from, by the annotation kustomize leaves, and where a field is in there.
//! Never shows a file that does not hold that very object, and never leaves the tree by an absolute path.

use super::node::Node;
use super::objects::{self, Object};
use super::sources::{Arrival, Source, clean, read_file};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

const ORIGIN: &str = "config.kubernetes.io/origin";

/// Files that rendered objects came from.
pub(super) struct Origins {
    built: PathBuf,
    files: BTreeMap<PathBuf, Option<Source>>,
}

impl Origins {
    /// Origins are relative to the folder that was built.
    pub(super) fn new(built: &Path) -> Self {
        Self { built: built.to_owned(), files: BTreeMap::new() }
    }

    /// The text and the value an object came from, where the field there is what was rendered; else where only the
    /// object is found, the field is looked for all the same and leads to its closest parent.
    pub(super) fn of(&mut self, object: &Object<'_>, field: &str) -> Option<(&Source, &Node)> {
        let path = self.path(object)?;
        let file = self.files.entry(path).or_insert_with_key(|path| load(path));
        let source = file.as_ref()?;
        let node = same_object(source, object)?;
        let rendered = object.node.follow(field);
        let there = node.follow(field);
        let same = rendered.node.to_value() == there.node.to_value() || !rendered.whole;
        same.then_some((source, node))
    }

    fn path(&self, object: &Object<'_>) -> Option<PathBuf> {
        if object.source.arrival != Arrival::Rendered {
            return None;
        }
        let origin = super::yaml::read(object.annotation(ORIGIN)?);
        let root = &origin.documents.first()?.root;
        if root.get("repo").is_some() {
            return None;
        }
        let path = Path::new(root.text_at(&["path"])?);
        let manifest = path
            .extension()
            .is_some_and(|ending| ["yaml", "yml", "json"].iter().any(|known| ending == *known));
        (path.is_relative() && manifest).then(|| clean(&self.built.join(path)))
    }
}

fn load(path: &Path) -> Option<Source> {
    let text = read_file(path).ok()?;
    Some(Source::new(path.display().to_string(), Some(path.to_owned()), Arrival::Named, text))
}

/// The object of the same kind and name; a prefix or suffix may have been added to its name since.
fn same_object<'a>(source: &'a Source, rendered: &Object<'_>) -> Option<&'a Node> {
    let objects = objects::collect(std::slice::from_ref(source));
    let of_kind = || objects.iter().filter(|object| object.kind == rendered.kind && !object.name.is_empty());
    let exact = of_kind().find(|object| object.name == rendered.name);
    let longer = || of_kind().find(|object| rendered.name.contains(object.name));
    exact.or_else(longer).map(|object| object.node)
}
