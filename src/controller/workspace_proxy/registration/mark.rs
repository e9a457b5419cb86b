//! Decides how a Secret says of which registration its token is and for which rotation it was made, and reads it back. It is no
//! secret, and no proof: coderd is asked.

use super::record::Home;
use crate::coderd::Uuid;

/// What stands between scheme and host.
const AUTHORITY: &str = "://";

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
    /// As it is written. Uids, deployments and ids have no slashes, and an address is written without; a rotation may have some, and
    /// comes last.
    pub(super) fn written(&self) -> String {
        let Home { control_plane, address, deployment } = &self.home;
        let address = address.as_ref().map(|address| address.replacen(AUTHORITY, ":", 1));
        let place = control_plane.clone().or(address).unwrap_or_default();
        let rotation = self.rotation.as_ref().map(|rotation| format!("/{rotation}")).unwrap_or_default();
        format!("{place}/{deployment}/{}{rotation}", self.id)
    }

    /// The mark that a text is.
    pub(super) fn read(text: &str) -> Option<Self> {
        let mut parts = text.splitn(4, '/');
        let (place, deployment) = (parts.next()?, parts.next()?.to_owned());
        let (id, rotation) = (parts.next()?.parse().ok()?, parts.next().map(str::to_owned));
        let address = place.contains(':').then(|| place.replacen(':', AUTHORITY, 1));
        let control_plane = Some(place.to_owned()).filter(|uid| address.is_none() && !uid.is_empty());
        Some(Self { home: Home { control_plane, address, deployment }, id, rotation })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_is_read_back_whatever_the_rotation_is_called() {
        let home = |uid: Option<&str>| match uid {
            Some(uid) if uid.contains(':') => Home::at(uid.to_owned(), "d-1".to_owned()),
            uid => {
                Home { control_plane: uid.map(str::to_owned), address: None, deployment: "d-1".to_owned() }
            }
        };
        let id = Uuid::random().unwrap();
        for uid in [None, Some("u-1"), Some("https://coder.example.com:443"), Some("http://[::1]:80")] {
            for rotation in [None, Some(""), Some("now"), Some("a/b//c"), Some("ä\n")] {
                let mark = Mark { home: home(uid), id, rotation: rotation.map(str::to_owned) };
                assert_eq!(Mark::read(&mark.written()), Some(mark), "{uid:?} {rotation:?}");
            }
        }
        assert_eq!((Mark::read(""), Mark::read("a/b/c")), (None, None));
    }
}
