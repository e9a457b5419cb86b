//! Decides which objects are applied together: what one kustomization gathers, and what was rendered.
//! Never reads another file to find out: a unit with parts outside of what was given is known to be incomplete.

use super::super::node::Node;
use super::super::objects::{Object, Role};
use super::super::sources::{Arrival, Source, clean};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// Objects that are applied together.
#[derive(Clone, Debug, Default)]
pub(in crate::lint) struct Unit<'a> {
    /// The objects.
    pub(super) members: Vec<&'a Object<'a>>,
    /// Names of Secrets and ConfigMaps that kustomize generates.
    pub(super) generated: BTreeSet<String>,
    /// The kustomization that gathers them; none for standard input.
    pub(super) gathered_by: Option<&'a Object<'a>>,
    /// True where it brings the operator from an address.
    pub(super) remote_operator: bool,
    /// False where parts of it were not given.
    pub(super) complete: bool,
}

/// Every unit of a run.
#[derive(Debug, Default)]
pub(in crate::lint) struct Units<'a> {
    /// Standard input and kustomizations.
    pub(super) all: Vec<Unit<'a>>,
    by_folder: BTreeMap<PathBuf, usize>,
    files: BTreeMap<PathBuf, Vec<&'a Object<'a>>>,
    /// Objects by folder, without patches.
    folders: BTreeMap<PathBuf, Vec<&'a Object<'a>>>,
    /// Units by member.
    memberships: BTreeMap<*const Node, Vec<usize>>,
    patches: BTreeSet<PathBuf>,
}

/// Where one kustomization leads.
struct Gathering<'r, 'a> {
    kustomizations: &'r BTreeMap<PathBuf, &'a Object<'a>>,
    files: &'r BTreeMap<PathBuf, Vec<&'a Object<'a>>>,
    seen: BTreeSet<PathBuf>,
    unit: Unit<'a>,
}

impl<'a> Units<'a> {
    /// Finds the units.
    pub(in crate::lint) fn of(sources: &'a [Source], objects: &'a [Object<'a>]) -> Self {
        let mut units = Self::default();
        let mut kustomizations = BTreeMap::new();
        let paths = sources.iter().filter_map(|source| source.path.clone());
        units.files = paths.map(|path| (path, Vec::new())).collect();
        for object in objects {
            let Some(path) = &object.source.path else { continue };
            units.files.entry(path.clone()).or_default().push(object);
            if object.role == Role::Kustomize && object.source.is_kustomization() {
                kustomizations.insert(folder(path), object);
                units.patches.extend(patch_files(object, &folder(path)));
            }
        }
        let rendered: Vec<_> =
            objects.iter().filter(|object| object.source.arrival == Arrival::Rendered).collect();
        if !rendered.is_empty() {
            units.all.push(Unit { members: rendered, complete: true, ..Unit::default() });
        }
        for (place, kustomization) in &kustomizations {
            let unit = Unit { gathered_by: Some(kustomization), complete: true, ..Unit::default() };
            let mut gathering = Gathering {
                kustomizations: &kustomizations,
                files: &units.files,
                seen: BTreeSet::new(),
                unit,
            };
            gathering.enter(place);
            units.by_folder.insert(place.clone(), units.all.len());
            units.all.push(gathering.unit);
        }
        units.index(objects);
        units
    }

    /// Takes patches out and makes members easy to find.
    fn index(&mut self, objects: &'a [Object<'a>]) {
        let patches = std::mem::take(&mut self.patches);
        let is_patch =
            |object: &Object<'_>| object.source.path.as_ref().is_some_and(|path| patches.contains(path));
        for (number, unit) in self.all.iter_mut().enumerate() {
            unit.members.retain(|object| !is_patch(object));
            for member in &unit.members {
                self.memberships.entry(std::ptr::from_ref(member.node)).or_default().push(number);
            }
        }
        for object in objects.iter().filter(|object| !is_patch(object)) {
            if let Some(path) = &object.source.path {
                self.folders.entry(folder(path)).or_default().push(object);
            }
        }
        self.patches = patches;
    }

    /// Whether an object is a patch of another one.
    pub(in crate::lint) fn is_patch(&self, object: &Object<'_>) -> bool {
        object.source.path.as_ref().is_some_and(|path| self.patches.contains(path))
    }

    /// The units an object belongs to.
    pub(super) fn with(&self, object: &Object<'_>) -> impl Iterator<Item = &Unit<'a>> {
        let numbers = self.memberships.get(&std::ptr::from_ref(object.node)).into_iter().flatten();
        numbers.filter_map(|number| self.all.get(*number))
    }

    /// The numbers of the units an object belongs to, and its folder: objects that agree in both have the same company.
    pub(super) fn company(&self, object: &'a Object<'a>) -> (&[usize], Option<&'a Path>) {
        let numbers = self.memberships.get(&std::ptr::from_ref(object.node)).map_or(&[][..], Vec::as_slice);
        (numbers, object.source.path.as_deref().and_then(Path::parent))
    }

    /// Whether two objects are applied together, or are in the same folder.
    pub(super) fn are_beside(&self, one: &'a Object<'a>, other: &'a Object<'a>) -> bool {
        let ((units, folder), (others, place)) = (self.company(one), self.company(other));
        let neighbours = folder.is_some() && folder == place && !self.is_patch(other);
        neighbours || units.iter().any(|number| others.contains(number))
    }

    /// Objects in the same folder.
    pub(super) fn neighbours(&self, object: &Object<'_>) -> &[&'a Object<'a>] {
        let path = object.source.path.as_deref().and_then(Path::parent);
        path.and_then(|place| self.folders.get(place)).map_or(&[], Vec::as_slice)
    }

    /// The folder a tool applies that is pointed to `path` by an object: a kustomization, or one with files below it.
    /// The path starts at the root of the repository, which is some folder above the object.
    pub(super) fn place(&self, object: &Object<'_>, path: &str) -> Option<PathBuf> {
        let own = object.source.path.as_ref()?;
        let above: Vec<&Path> = own.ancestors().skip(1).collect();
        let places = above.into_iter().rev().map(|root| clean(&root.join(path.trim_start_matches('/'))));
        places
            .into_iter()
            .find(|place| self.by_folder.contains_key(place.as_path()) || self.below(place).next().is_some())
    }

    /// What is applied from a place.
    pub(super) fn at(&self, place: &Path) -> Unit<'a> {
        let gathered = self.by_folder.get(place).and_then(|index| self.all.get(*index));
        gathered.cloned().unwrap_or_else(|| Unit {
            members: self.below(place).collect(),
            complete: true,
            ..Unit::default()
        })
    }

    /// Objects in the files below a folder, without patches.
    fn below<'r>(&'r self, place: &'r Path) -> impl Iterator<Item = &'a Object<'a>> + 'r {
        // Paths are ordered by their parts: those below a folder follow it.
        let files = self.files.range(place.to_owned()..).take_while(move |(path, _)| path.starts_with(place));
        let files = files.filter(|(path, _)| !self.patches.contains(*path));
        files.flat_map(|(_, objects)| objects.iter().copied())
    }
}

impl<'a> Gathering<'_, 'a> {
    fn enter(&mut self, place: &Path) {
        let Some(kustomization) = self.kustomizations.get(place) else {
            self.unit.complete = false;
            return;
        };
        if !self.seen.insert(place.to_owned()) {
            return;
        }
        let node = kustomization.node;
        for key in ["secretGenerator", "configMapGenerator"] {
            let generators = node.get(key).map_or(&[][..], Node::items);
            let names = generators.iter().filter_map(|generator| generator.text_at(&["name"]));
            self.unit.generated.extend(names.map(str::to_owned));
        }
        if ["helmCharts", "generators", "helmChartInflationGenerator"]
            .iter()
            .any(|key| node.get(key).is_some())
        {
            self.unit.complete = false;
        }
        for entry in ["resources", "bases", "components"].iter().flat_map(|key| texts(node.get(key))) {
            self.gather(place, entry);
        }
    }

    fn gather(&mut self, place: &Path, entry: &str) {
        if is_address(entry) {
            self.unit.complete = false;
            self.unit.remote_operator |= entry.contains(crds::well_known::MANAGER);
            return;
        }
        let path = clean(&place.join(entry));
        match self.files.get(&path) {
            // kustomize refuses a file that is named twice; to count it twice would only take time.
            Some(_) if !self.seen.insert(path.clone()) => {}
            Some(objects) => self.unit.members.extend(objects.iter().copied()),
            None => self.enter(&path),
        }
    }
}

fn folder(path: &Path) -> PathBuf {
    path.parent().map(Path::to_owned).unwrap_or_default()
}

fn texts(list: Option<&Node>) -> impl Iterator<Item = &str> {
    list.map_or(&[][..], Node::items).iter().filter_map(Node::text)
}

/// Whether kustomize would fetch it.
fn is_address(entry: &str) -> bool {
    entry.contains("://")
        || entry.contains("?ref=")
        || entry.starts_with("git@")
        || entry.starts_with("github.com/")
}

/// Files that change objects and are none themselves.
fn patch_files(kustomization: &Object<'_>, place: &Path) -> Vec<PathBuf> {
    let node = kustomization.node;
    let strategic = texts(node.get("patchesStrategicMerge"));
    let listed = ["patches", "patchesJson6902"].iter().filter_map(|key| node.get(key));
    let named = listed.flat_map(Node::items).filter_map(|patch| patch.text_at(&["path"]));
    strategic.chain(named).map(|entry| clean(&place.join(entry))).collect()
}
