//! The state of one double: everything a real coderd would keep in its database and its build.
//! It never answers requests; areas read and change it under one lock.

use super::clock::Timestamp;
use super::identity::{Token, User};
use super::ids::Uuid;
use super::redirect::AccessUrl;
use super::routes::entitlements::Entitlements;
use super::routes::licenses::StoredLicense;
use super::routes::organizations::Organization;
use super::routes::provisioner_daemons::{Daemon, DaemonArrival};
use super::routes::provisioner_jobs::PendingJob;
use super::routes::provisioner_keys::{self, KeyDeletion, StoredKey};
use super::routes::workspace_proxies::StoredProxy;

/// Which of coder's two main packages the double plays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Build {
    /// Open source only: entitlements, keys and proxies do not exist there.
    Agpl,
    /// What users run: every route exists, and a license decides what works.
    Enterprise,
}

#[derive(Debug)]
pub(super) struct ServerState {
    pub(super) build: Build,
    pub(super) version: String,
    pub(super) deployment_id: Uuid,
    pub(super) url: String,
    /// Where everybody is sent who does not come by it; none unless asked for.
    pub(super) redirect: Option<AccessUrl>,
    pub(super) entitlements: Entitlements,
    pub(super) licenses: Vec<StoredLicense>,
    pub(super) last_license: i32,
    pub(super) users: Vec<User>,
    pub(super) tokens: Vec<Token>,
    pub(super) organizations: Vec<Organization>,
    pub(super) keys: Vec<StoredKey>,
    /// What clients have deleted and nobody was told of yet.
    pub(super) key_deletions: Vec<KeyDeletion>,
    pub(super) daemons: Vec<Daemon>,
    pub(super) daemon_arrival: DaemonArrival,
    /// Oldest first.
    pub(super) jobs: Vec<PendingJob>,
    /// Oldest first, with the deleted.
    pub(super) proxies: Vec<StoredProxy>,
}

impl ServerState {
    /// A freshly migrated database: one default organisation named `coder` and the three reserved keys in it.
    pub(super) fn fresh(build: Build, version: &str, now: Timestamp) -> Self {
        let default = Organization::new("coder", true, now);
        Self {
            build,
            version: version.to_owned(),
            deployment_id: Uuid::random(),
            url: String::new(),
            redirect: None,
            entitlements: Entitlements::licensed(now),
            licenses: Vec::new(),
            last_license: 0,
            users: Vec::new(),
            tokens: Vec::new(),
            keys: provisioner_keys::reserved(default.id, now),
            organizations: vec![default],
            daemons: Vec::new(),
            daemon_arrival: DaemonArrival::Immediately,
            key_deletions: Vec::new(),
            jobs: Vec::new(),
            proxies: Vec::new(),
        }
    }

    /// Another database behind the same URL: nothing of the old one is left but who may come in.
    pub(super) fn replace_deployment(&mut self, now: Timestamp) {
        let fresh = Self::fresh(self.build, &self.version, now);
        self.deployment_id = fresh.deployment_id;
        self.keys = fresh.keys;
        self.organizations = fresh.organizations;
        self.daemons = fresh.daemons;
        self.jobs = fresh.jobs;
        self.proxies = fresh.proxies;
        let default = self.organizations.iter().map(|organization| organization.id).collect::<Vec<_>>();
        self.users.iter_mut().for_each(|user| user.organizations.clone_from(&default));
    }
}
