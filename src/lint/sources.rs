//! Decides which files are read and what is never read: hidden folders, links to folders, more than fits.
//! Never writes, never follows an address, never looks outside the paths it was given.

use super::shares::each_share;
use super::suppression::Suppressions;
use super::yaml::{self, MAX_BYTES, Stream};
use std::fs::File;
use std::io::{self, Read};
use std::path::{Component, Path, PathBuf};
use thiserror::Error;

/// Most files of one run.
const MAX_FILES: usize = 50_000;
/// Most bytes of one run.
const MAX_TOTAL: usize = 512 * 1024 * 1024;
/// Deepest folder.
const MAX_FOLDERS: usize = 64;
/// Names of a kustomization.
pub(super) const KUSTOMIZATIONS: [&str; 3] = ["kustomization.yaml", "kustomization.yml", "Kustomization"];

/// Why something could not be read.
#[derive(Debug, Error)]
pub enum SourceError {
    /// The system refused.
    #[error("cannot read {0}: {1}")]
    Read(String, io::Error),
    /// Not UTF-8.
    #[error("cannot read {0}: it is not UTF-8 text")]
    NotText(String),
    /// Larger than a manifest.
    #[error("cannot read {0}: it has more than {MAX_BYTES} bytes")]
    TooLarge(String),
    /// The run is too large.
    #[error("cannot read all of {0}: more than {MAX_FILES} files or {MAX_TOTAL} bytes; name fewer paths")]
    TooMany(String),
}

/// How a text came to us.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrival {
    /// Named by the user.
    Named,
    /// Found in a folder.
    Found,
    /// Standard input: what a tool rendered.
    Rendered,
}

/// One text and what it holds.
#[derive(Debug)]
pub struct Source {
    /// How it is shown.
    pub name: String,
    /// Its path with `.` and `..` taken out; none for standard input.
    pub path: Option<PathBuf>,
    /// How it came to us.
    pub arrival: Arrival,
    /// The text.
    pub text: String,
    /// Its documents.
    pub stream: Stream,
    /// What its comments suppress.
    pub suppressions: Suppressions,
    /// Where each line starts.
    lines: Vec<usize>,
}

impl Source {
    /// Reads a text.
    pub fn new(name: String, path: Option<PathBuf>, arrival: Arrival, text: String) -> Self {
        let text = text.strip_prefix('\u{feff}').map(str::to_owned).unwrap_or(text);
        let stream = yaml::read(&text);
        let suppressions = Suppressions::read(&text, &stream);
        let lines = yaml::lines(&text).map(|(start, _)| start).collect();
        Self { name, path: path.as_deref().map(clean), arrival, text, stream, suppressions, lines }
    }

    /// Whether its name says that it is a kustomization.
    pub fn is_kustomization(&self) -> bool {
        let name = self.path.as_deref().and_then(Path::file_name);
        name.is_some_and(|name| KUSTOMIZATIONS.iter().any(|known| name == *known))
    }

    /// A line, counted from one.
    pub fn line(&self, number: u32) -> Option<&str> {
        let start = self.lines.get((number as usize).checked_sub(1)?)?;
        yaml::lines(self.text.get(*start..)?).next().map(|(_, line)| line)
    }
}

/// What could be read, and why the rest could not.
#[derive(Debug, Default)]
pub struct Loaded {
    /// The texts, in the order of the paths.
    pub sources: Vec<Source>,
    /// The rest.
    pub unreadable: Vec<SourceError>,
    bytes: usize,
    /// Texts that nobody looked into yet.
    raw: Vec<Raw>,
}

/// A text and where it is from.
#[derive(Debug)]
struct Raw {
    name: String,
    path: Option<PathBuf>,
    arrival: Arrival,
    text: String,
}

/// Reads files, folders and, for `-`, standard input.
pub fn load(paths: &[PathBuf], stdin: &mut dyn Read) -> Loaded {
    let mut loaded = Loaded::default();
    for path in paths {
        if path.as_os_str() == "-" {
            let text = text_of("standard input", stdin);
            loaded.add("<stdin>".to_owned(), None, Arrival::Rendered, text);
        } else if path.is_dir() {
            loaded.add_folder(path, path, 0);
        } else {
            loaded.add_file(path, Arrival::Named);
        }
    }
    let raw = std::mem::take(&mut loaded.raw);
    let read = |raw: Raw| Source::new(raw.name, raw.path, raw.arrival, raw.text);
    let shares = each_share(raw, |share| share.into_iter().map(read).collect::<Vec<_>>());
    loaded.sources = shares.into_iter().flatten().collect();
    loaded
}

/// Reads one file.
pub(super) fn read_file(path: &Path) -> Result<String, SourceError> {
    let name = path.display().to_string();
    let mut file = File::open(path).map_err(|error| SourceError::Read(name.clone(), error))?;
    text_of(&name, &mut file)
}

fn text_of(name: &str, input: &mut dyn Read) -> Result<String, SourceError> {
    let mut bytes = Vec::new();
    let limit = MAX_BYTES as u64 + 1;
    input.take(limit).read_to_end(&mut bytes).map_err(|error| SourceError::Read(name.to_owned(), error))?;
    if bytes.len() > MAX_BYTES {
        return Err(SourceError::TooLarge(name.to_owned()));
    }
    String::from_utf8(bytes).map_err(|_| SourceError::NotText(name.to_owned()))
}

impl Loaded {
    fn add(
        &mut self,
        name: String,
        path: Option<PathBuf>,
        arrival: Arrival,
        text: Result<String, SourceError>,
    ) {
        match text {
            Ok(text) => {
                self.bytes += text.len();
                self.raw.push(Raw { name, path, arrival, text });
            }
            Err(error) => self.unreadable.push(error),
        }
    }

    fn add_file(&mut self, path: &Path, arrival: Arrival) {
        self.add(path.display().to_string(), Some(path.to_owned()), arrival, read_file(path));
    }

    fn add_folder(&mut self, folder: &Path, top: &Path, depth: usize) {
        let entries = std::fs::read_dir(folder).and_then(|entries| entries.collect::<io::Result<Vec<_>>>());
        let mut entries = match entries {
            Ok(entries) => entries,
            Err(error) => {
                return self.unreadable.push(SourceError::Read(folder.display().to_string(), error));
            }
        };
        entries.sort_by_key(std::fs::DirEntry::file_name);
        for entry in entries {
            if self.raw.len() >= MAX_FILES || self.bytes >= MAX_TOTAL {
                if !self.unreadable.iter().any(|error| matches!(error, SourceError::TooMany(_))) {
                    self.unreadable.push(SourceError::TooMany(top.display().to_string()));
                }
                return;
            }
            self.add_entry(&entry, top, depth);
        }
    }

    fn add_entry(&mut self, entry: &std::fs::DirEntry, top: &Path, depth: usize) {
        let (path, name) = (entry.path(), entry.file_name());
        let name = name.to_string_lossy();
        if name.starts_with('.') {
            return;
        }
        // A link to a folder says that it is no folder here: loops cannot happen.
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            if depth < MAX_FOLDERS {
                self.add_folder(&path, top, depth + 1);
            }
        } else if is_manifest(&name) && path.is_file() {
            self.add_file(&path, Arrival::Found);
        }
    }
}

/// Whether a file of this name in a folder is looked at.
fn is_manifest(name: &str) -> bool {
    let ending = Path::new(name).extension().and_then(|ending| ending.to_str()).unwrap_or_default();
    ["yaml", "yml", "json"].contains(&ending) || name == "Kustomization"
}

/// A path without `.` and, where possible, without `..`.
pub(super) fn clean(path: &Path) -> PathBuf {
    let mut clean = PathBuf::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir if matches!(clean.components().next_back(), Some(Component::Normal(_))) => {
                clean.pop();
            }
            part => clean.push(part),
        }
    }
    clean
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_lose_their_detours() {
        for (path, expected) in [
            ("./a/./b", "a/b"),
            ("a/../b", "b"),
            ("../a", "../a"),
            ("a/b/../../../c", "../c"),
            ("/a/../b", "/b"),
            (".", ""),
        ] {
            assert_eq!(clean(Path::new(path)), Path::new(expected), "{path}");
        }
    }

    #[test]
    fn only_manifests_are_found_in_folders() {
        assert!(["a.yaml", "a.yml", "a.json", "Kustomization"].into_iter().all(is_manifest));
        assert!(!["a.yaml.gotmpl", "a.txt", "yaml", "a.YAML~", "a.tpl"].into_iter().any(is_manifest));
    }

    #[test]
    fn what_cannot_be_read_is_said() {
        let loaded = load(&[PathBuf::from("/does/not/exist.yaml")], &mut io::empty());
        assert!(loaded.unreadable[0].to_string().starts_with("cannot read /does/not/exist.yaml: "));
        let loaded = load(&[PathBuf::from("-")], &mut &b"\xff\xfe"[..]);
        assert!(matches!(loaded.unreadable[..], [SourceError::NotText(_)]));
        let loaded = load(&[PathBuf::from("-")], &mut io::repeat(b' '));
        assert!(matches!(loaded.unreadable[..], [SourceError::TooLarge(_)]));
    }
}
