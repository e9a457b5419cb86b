//! What is recorded of the registrations of a workspace proxy: the one in use, the one that is being made or whose token is being
//! replaced, and those on their way out. It outlives the process; whatever is done in coderd is recorded here before it is done.

use crate::coderd::Uuid;
use jiff::Timestamp;

/// Which coderd a registration is in.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Home {
    /// Uid of the CoderControlPlane; none where `bootstrap` gives the address of another coderd.
    pub control_plane: Option<String>,
    /// That address, each written in one way; none with a control plane.
    pub address: Option<String>,
    /// Id of the deployment, which a database keeps: another database behind the same control plane is another coderd.
    pub deployment: String,
}

impl Home {
    /// The coderd behind a control plane.
    pub(crate) fn behind(control_plane: String, deployment: String) -> Self {
        Self { control_plane: Some(control_plane), address: None, deployment }
    }

    /// The coderd at an address.
    pub(crate) fn at(address: String, deployment: String) -> Self {
        Self { control_plane: None, address: Some(address), deployment }
    }

    /// Whether it says that it has the same database.
    pub(crate) fn has_database_of(&self, former: &Self) -> bool {
        !former.deployment.is_empty() && former.deployment == self.deployment
    }

    /// Whether it is this coderd, or says so and may see the tokens of it.
    pub(crate) fn is_reached_as(&self, former: &Self) -> bool {
        self == former || self.may_see_tokens_of(former) && self.has_database_of(former)
    }

    /// Whether it was recorded before addresses were: nothing says how it was reached.
    pub(crate) fn is_unlocated(&self) -> bool {
        self.control_plane.is_none() && self.address.is_none()
    }

    /// Whether this coderd may be asked about tokens of one that was reached by an address, which proves whether they are one: it is
    /// a control plane of the namespace that has the Secret anyway, or at the same host. Whoever else says that it has the same
    /// database is not shown them.
    pub(crate) fn may_see_tokens_of(&self, former: &Self) -> bool {
        let is_same_host = match (&self.address, &former.address) {
            (Some(here), Some(there)) => host(here) == host(there),
            // Before addresses were recorded.
            (_, None) => true,
            (None, Some(_)) => false,
        };
        former.control_plane.is_none() && (self.control_plane.is_some() || is_same_host)
    }
}

/// The host of an address, without scheme and port.
fn host(address: &str) -> &str {
    let host = address.split_once("://").map_or(address, |(_, host)| host);
    host.rsplit_once(':').map_or(host, |(host, _)| host)
}

/// A workspace proxy in coderd that is, or may be, ours.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Registration {
    /// Where it is.
    pub home: Home,
    /// Its name in coderd.
    pub name: String,
    /// Its id; not known before it was seen there.
    pub id: Option<Uuid>,
    /// When it came to be what it is: intended, in use or retiring.
    pub since: Timestamp,
    /// Whether coderd was, or is about to be, asked to make it or to replace its token.
    pub attempted: bool,
    /// Whether credentials of the spec made it: the operator may have none of its own there.
    pub brought: bool,
}

/// How often somebody else replaced the token in use, one after another.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Replaced {
    /// How often.
    pub times: u32,
    /// When that was noticed last.
    pub last: Timestamp,
}

/// Everything that is recorded.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Record {
    /// The registration whose token was proven to be in the Secret.
    pub current: Option<Registration>,
    /// The registration that is being made, or whose token is being replaced: then its id is known.
    pub pending: Option<Registration>,
    /// Registrations in other coderds that are no longer wanted and not gone yet.
    pub retiring: Vec<Registration>,
    /// The value of the annotation for which the token was last replaced.
    pub rotated_for: Option<String>,
    /// The registration that was taken over because an annotation names it: that is done once.
    pub adopted: Option<String>,
    /// The proxy of others that is being taken over.
    pub adopting: Option<Uuid>,
    /// How often somebody else replaced the token in use.
    pub replaced: Option<Replaced>,
}

impl Record {
    /// Every registration, the one in use first.
    pub(crate) fn registrations(&self) -> impl Iterator<Item = &Registration> {
        self.current.iter().chain(&self.pending).chain(&self.retiring)
    }

    /// Whether a registration of this id is recorded in this coderd.
    pub(super) fn knows(&self, home: &Home, id: Uuid) -> bool {
        self.registrations().any(|one| one.home == *home && one.id == Some(id))
    }

    /// Whether a registration of this id is recorded at whatever address in what claims to be this database.
    pub(super) fn knows_by_address(&self, deployment: &str, id: Uuid) -> bool {
        let is_there = |home: &Home| home.control_plane.is_none() && home.deployment == deployment;
        !deployment.is_empty() && self.registrations().any(|one| is_there(&one.home) && one.id == Some(id))
    }

    /// With a registration that is about to be made, or whose token is about to be replaced.
    pub(super) fn intending(&self, registration: Registration) -> Self {
        Self { pending: Some(registration), ..self.clone() }
    }

    /// With what was intended about to be done now.
    pub(crate) fn attempting(&self, now: Timestamp) -> Self {
        let pending = self.pending.clone().map(|one| Registration { attempted: true, since: now, ..one });
        Self { pending, ..self.clone() }
    }

    /// With what was intended before an attempt that came to nothing.
    pub(crate) fn unattempted(&self, before: Option<Registration>) -> Self {
        Self { pending: before, ..self.clone() }
    }

    /// Without what was being made: it never came to be, or is not ours.
    pub(crate) fn forgetting_pending(&self) -> Self {
        Self { pending: None, ..self.clone() }
    }

    /// Whether what is pending belongs to others still: an annotation names it, and no token of it was proven to be ours.
    pub(crate) fn is_adopting(&self, one: &Registration) -> bool {
        let is_used =
            self.current.as_ref().is_some_and(|current| current.home == one.home && current.id == one.id);
        let is_pending = self.pending.as_ref() == Some(one) && one.id.is_some();
        is_pending && !is_used && self.adopting == one.id
    }

    /// Without a proxy of others that was to be taken over and was not: it stays theirs, and may be named again.
    pub(crate) fn not_adopting(&self) -> Self {
        Self { pending: None, adopted: None, adopting: None, ..self.clone() }
    }

    /// With a registration in use whose token is proven; the one before it, if it is another, is on its way out.
    pub(super) fn using(
        &self,
        registration: Registration,
        rotated_for: Option<String>,
        now: Timestamp,
    ) -> Self {
        let mut record = Self { pending: None, rotated_for, adopting: None, ..self.clone() };
        // One that was on its way out, perhaps before its id was known, and is asked for again.
        let is_it = |one: &Registration| match one.id {
            Some(_) => one.id == registration.id,
            None => one.name == registration.name,
        };
        record.retiring.retain(|one| one.home != registration.home || !is_it(one));
        let is_same = |one: &Registration| {
            one.home.deployment == registration.home.deployment && one.id == registration.id
        };
        let before = record.current.take().filter(|before| !is_same(before));
        record.retiring.extend(before.map(|before| Registration { since: now, ..before }));
        record.current = Some(Registration { since: now, attempted: true, ..registration });
        record
    }

    /// With registrations of which nothing says how they were reached, recorded before addresses were, at the address of the spec,
    /// if what answers there says it has their database.
    pub(crate) fn located(&self, here: &Home) -> Self {
        let is_here =
            |home: &Home| here.address.is_some() && home.is_unlocated() && home.deployment == here.deployment;
        let located = |one: &Registration| match is_here(&one.home) && !here.deployment.is_empty() {
            true => Registration { home: here.clone(), ..one.clone() },
            false => one.clone(),
        };
        Self {
            current: self.current.as_ref().map(located),
            pending: self.pending.as_ref().map(located),
            retiring: self.retiring.iter().map(located).collect(),
            ..self.clone()
        }
    }

    /// Nothing but what outlives every registration: what was taken over before.
    pub(crate) fn without_registrations(&self) -> Self {
        Self { adopted: self.adopted.clone(), ..Self::default() }
    }

    /// With another name of the registration in use, or another control plane in front of its coderd.
    pub(super) fn known_as(&self, registration: Registration) -> Self {
        Self { current: Some(registration), ..self.clone() }
    }

    /// Without a registration that is gone, or that is not ours to delete.
    pub(crate) fn without(&self, registration: &Registration) -> Self {
        let mut record = self.clone();
        record.current.take_if(|one| one == registration);
        record.pending.take_if(|one| one == registration);
        record.retiring.retain(|one| one != registration);
        record
    }

    /// Without one that is on its way out; the one in use stays, even where it is the same.
    pub(super) fn without_retiring(&self, registration: &Registration) -> Self {
        let mut record = self.clone();
        record.retiring.retain(|one| one != registration);
        record
    }

    /// Without any registration of this id in this coderd: somebody removed it there.
    pub(super) fn without_id(&self, home: &Home, id: Uuid) -> Self {
        let is_it = |one: &Registration| one.home == *home && one.id == Some(id);
        let mut record = self.clone();
        record.current.take_if(|one| is_it(one));
        record.pending.take_if(|one| is_it(one));
        record.retiring.retain(|one| !is_it(one));
        record
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_of_an_address_are_shown_at_its_host_and_to_a_control_plane_of_the_namespace_alone() {
        let at = |address: &str| Home::at(address.to_owned(), "d".to_owned());
        let plane = || Home::behind("u".to_owned(), "d".to_owned());
        let former = at("https://coder.example.com:443");
        assert!(plane().may_see_tokens_of(&former));
        assert!(at("http://coder.example.com:8080").may_see_tokens_of(&former));
        assert!(!at("https://evil.example.com:443").may_see_tokens_of(&former));
        assert!(
            !at("https://coder.example.com:443").may_see_tokens_of(&plane()),
            "that is asked for by its uid"
        );
        let unknown = Home { address: None, ..former };
        assert!(at("https://coder.example.com:443").may_see_tokens_of(&unknown));
    }
}
