//! Decides how a Secret says of which registration its token is and for which rotation it was made, and reads it back. It is no
//! secret, and no proof: coderd is asked.

use super::record::Home;
use crate::coderd::Uuid;

/// Of which registration a token is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Mark {
    /// In which coderd.
    pub home: Home,
    /// Its id.
    pub id: Uuid,
    /// The value of the annotation for which it was made.
    pub rotation: Option<String>,
}

impl Mark {
    /// As it is written. Uids, deployments and ids have no slashes; a rotation may, and comes last.
    pub(super) fn written(&self) -> String {
        let Home { control_plane, deployment } = &self.home;
        let control_plane = control_plane.as_deref().unwrap_or_default();
        let rotation = self.rotation.as_ref().map(|rotation| format!("/{rotation}")).unwrap_or_default();
        format!("{control_plane}/{deployment}/{}{rotation}", self.id)
    }

    /// The mark that a text is.
    pub(super) fn read(text: &str) -> Option<Self> {
        let mut parts = text.splitn(4, '/');
        let (control_plane, deployment) = (parts.next()?, parts.next()?.to_owned());
        let (id, rotation) = (parts.next()?.parse().ok()?, parts.next().map(str::to_owned));
        let control_plane = Some(control_plane.to_owned()).filter(|uid| !uid.is_empty());
        Some(Self { home: Home { control_plane, deployment }, id, rotation })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_is_read_back_whatever_the_rotation_is_called() {
        let home =
            |uid: Option<&str>| Home { control_plane: uid.map(str::to_owned), deployment: "d-1".to_owned() };
        let id = Uuid::random().unwrap();
        for uid in [None, Some("u-1")] {
            for rotation in [None, Some(""), Some("now"), Some("a/b//c"), Some("ä\n")] {
                let mark = Mark { home: home(uid), id, rotation: rotation.map(str::to_owned) };
                assert_eq!(Mark::read(&mark.written()), Some(mark), "{uid:?} {rotation:?}");
            }
        }
        assert_eq!((Mark::read(""), Mark::read("a/b/c")), (None, None));
    }
}
