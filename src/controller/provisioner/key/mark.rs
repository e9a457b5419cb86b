//! Decides how a Secret says of which key its plaintext is, and reads it back. It is no secret, and no proof: coderd is asked.

use super::record::Home;

/// Of which key a plaintext is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Mark {
    /// In which coderd.
    pub home: Home,
    /// Its name.
    pub name: String,
}

impl Mark {
    pub(super) fn written(&self, data_key: &str) -> String {
        let Home { control_plane, deployment, organization } = &self.home;
        format!("{data_key}/{control_plane}/{deployment}/{organization}/{}", self.name)
    }

    /// The mark of this data key, if the text is one.
    pub(super) fn read(text: &str, data_key: &str) -> Option<Self> {
        let mut parts = text.splitn(5, '/');
        let mut part = || parts.next();
        let (of, control_plane, deployment) = (part()?, part()?.to_owned(), part()?.to_owned());
        let (organization, name) = (part()?.parse().ok()?, part()?.to_owned());
        (of == data_key).then_some(Self { home: Home { control_plane, deployment, organization }, name })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::coderd::Uuid;

    #[test]
    fn a_mark_is_read_back_for_its_own_data_key() {
        let home = Home {
            control_plane: "uid".to_owned(),
            deployment: "id".to_owned(),
            organization: Uuid::random().unwrap(),
        };
        let mark = Mark { home, name: "a/b c".to_owned() };
        assert_eq!(Mark::read(&mark.written("key"), "key"), Some(mark.clone()));
        // Only the last part may have slashes in it: uids, deployments and organizations have none, and no data key has.
        for name in ["", "/", "key/a/b", "ä\0\n", "a//"] {
            let mark = Mark { name: name.to_owned(), ..mark.clone() };
            assert_eq!(Mark::read(&mark.written("a.b-c_d"), "a.b-c_d"), Some(mark), "{name:?}");
        }
        assert_eq!(Mark::read(&mark.written("key"), "other"), None);
        assert_eq!((Mark::read("", "key"), Mark::read("key/a/b/c/d", "key")), (None, None));
    }
}
