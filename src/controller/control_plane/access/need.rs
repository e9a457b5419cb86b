//! Decides which role the operator needs in coderd, from what needs its access: the least that serves all of it, or none.
//! Pure, and never a guess: what is not known yet neither makes a token nor takes one back.

use crate::coderd::database::Role;

/// What needs the operator's access to a control plane.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Needs {
    /// Whether it was seen what others need; until then more may come.
    pub known: bool,
    /// Its spec asks for a license.
    pub license: bool,
    /// A provisioner refers to it.
    pub provisioners: bool,
    /// A workspace proxy is to be registered with it.
    pub proxies: bool,
    /// The status of a provisioner or proxy says that something of it is there, or may say so. Anybody who may write a status can
    /// say that.
    pub recorded: bool,
    /// The same of a registration: only an owner can remove it, so that one who is there stays.
    pub recorded_proxies: bool,
    /// There is an aggregated API, which shows its workspaces and templates.
    pub aggregated: bool,
}

/// What follows for a token of our own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Need {
    /// There must be one, with this role.
    Token(Role),
    /// There must be one with this role, and one of an owner stays: a status alone raises nobody to owner, and takes none away.
    AtLeast(Role),
    /// There must be none.
    Nothing,
    /// One that is there stays as it is.
    Unknown,
    /// One that is there stays as it is, and none is made: a status alone gives us no user in coderd.
    Kept,
}

impl Needs {
    /// The least role that serves. coderd lets only an owner add a license or register a workspace proxy; a template administrator manages
    /// provisioner keys and templates and reads every workspace.
    pub(crate) fn need(self) -> Need {
        match self {
            Self { license: true, .. } => Need::Token(Role::Owner),
            Self { known: false, .. } => Need::Unknown,
            Self { proxies: true, .. } => Need::Token(Role::Owner),
            Self { provisioners: true, recorded_proxies: true, .. }
            | Self { aggregated: true, recorded_proxies: true, .. } => Need::AtLeast(Role::TemplateAdmin),
            Self { provisioners: true, .. } | Self { aggregated: true, .. } => {
                Need::Token(Role::TemplateAdmin)
            }
            Self { recorded: true, .. } => Need::Kept,
            Self { .. } => Need::Nothing,
        }
    }

    /// The role for a token, where the user was given this one last; none where no token is to be made.
    pub(crate) fn role(self, given: Option<Role>) -> Option<Role> {
        match (self.need(), given) {
            (Need::AtLeast(_), Some(Role::Owner)) => Some(Role::Owner),
            (Need::Token(role) | Need::AtLeast(role), _) => Some(role),
            (Need::Nothing | Need::Unknown | Need::Kept, _) => None,
        }
    }

    /// Whether a control plane is not ready without it: only for what its own spec asks for. A provisioner is somebody
    /// else's object, whose own Ready tells of the access that it lacks; a control plane that was ready must not cease to
    /// be because one came. The aggregated API serves all control planes of the cluster; that one of them cannot be shown
    /// there is no fault of its spec either.
    pub(crate) fn gate_ready(self) -> bool {
        self.license
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn needs(known: bool, license: bool, provisioners: bool, aggregated: bool) -> Needs {
        Needs {
            known,
            license,
            provisioners,
            proxies: false,
            recorded: false,
            recorded_proxies: false,
            aggregated,
        }
    }

    #[test]
    fn the_least_role_that_serves_and_none_where_nothing_asks() {
        for (needs, need, gates) in [
            (needs(true, false, false, false), Need::Nothing, false),
            (needs(true, false, true, false), Need::Token(Role::TemplateAdmin), false),
            (needs(true, false, false, true), Need::Token(Role::TemplateAdmin), false),
            (needs(true, true, false, false), Need::Token(Role::Owner), true),
            (needs(true, true, true, true), Need::Token(Role::Owner), true),
            // A license is asked for by the spec itself; of others nothing is known before their lists are there.
            (needs(false, true, false, false), Need::Token(Role::Owner), true),
            (needs(false, false, true, false), Need::Unknown, false),
            (needs(false, false, false, false), Need::Unknown, false),
        ] {
            assert_eq!((needs.need(), needs.gate_ready()), (need, gates), "{needs:?}");
            // What a status says never adds to what others ask for.
            let kept = if need == Need::Nothing { Need::Kept } else { need };
            assert_eq!(Needs { recorded: true, ..needs }.need(), kept, "{needs:?}");
            let recorded = Needs { recorded: true, recorded_proxies: true, ..needs };
            for given in [None, Some(Role::TemplateAdmin)] {
                assert_eq!(recorded.role(given), needs.role(given), "{needs:?}");
            }
            // It takes nothing away either: a registration that is left there goes with the owner that made it.
            let owner = needs.role(None).map(|_| Role::Owner);
            assert_eq!(recorded.role(Some(Role::Owner)), owner, "{needs:?}");
            // Only an owner may register a proxy.
            let owner = if need == Need::Unknown { need } else { Need::Token(Role::Owner) };
            assert_eq!(Needs { proxies: true, ..needs }.need(), owner, "{needs:?}");
        }
    }
}
