//! The coderds of one run: a double for each control plane, behind a proxy that counts what is written to it, with keys or
//! workspace proxies of others in it. It sets them up and says what is in them; it never judges it.

use super::Makes;
use crate::coderd::{Coderd, ProvisionerKey, RegisteredProxy, Role, Uuid};
use crate::fault_proxy::{FaultProxy, Journal};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The organization that every coderd has.
const DEFAULT: &str = "default";

/// A coderd of one run.
pub(super) struct RunCoderd {
    /// The control plane that leads to it.
    pub(super) control_plane: &'static str,
    pub(super) double: Arc<Coderd>,
    /// What the operator reaches it through.
    pub(super) proxy: FaultProxy,
    /// The token of the control plane's operator.
    pub(super) token: String,
    /// The keys and proxies of others.
    pub(super) foreign: Vec<Uuid>,
    /// The proxies of others with their tokens, as they were.
    pub(super) foreign_tokens: Vec<(&'static str, String)>,
    /// The proxy of others that may be taken over.
    adoptable: Option<&'static str>,
    organizations: Vec<&'static str>,
}

impl RunCoderd {
    /// One that a control plane leads to, as the campaign asks for it.
    pub(super) async fn start(
        control_plane: &'static str,
        makes: Option<&Makes>,
        journal: &Arc<Journal>,
    ) -> Self {
        let double = Arc::new(Coderd::builder().api_rate_limit(None).start().await);
        let (mut organizations, mut foreign_tokens) = (vec![DEFAULT], Vec::new());
        let (mut role, mut to_adopt) = (Role::TemplateAdmin, None);
        match makes {
            Some(Makes::Keys { organizations: more, of_others }) => {
                for organization in *more {
                    double.add_organization(organization);
                }
                organizations.extend(*more);
                of_others.iter().for_each(|(organization, name)| {
                    double.add_provisioner_key(organization, name, &[]);
                });
            }
            Some(Makes::Proxies { of_others, adoptable, .. }) => {
                to_adopt = Some(*adoptable);
                foreign_tokens.extend(of_others.iter().map(|name| (*name, double.add_workspace_proxy(name))));
                role = Role::Owner;
            }
            None => {}
        }
        let proxy = FaultProxy::before_coderd(double.addr(), journal.clone()).await;
        let token = double.token_for(&[role]);
        let foreign = Vec::new();
        let adoptable = to_adopt;
        let mut coderd =
            Self { control_plane, double, proxy, token, foreign, foreign_tokens, adoptable, organizations };
        let keys = coderd.keys().into_iter().map(|(_, key)| key.id);
        coderd.foreign =
            keys.chain(coderd.double.workspace_proxies().into_iter().map(|one| one.id)).collect();
        to_adopt.iter().for_each(|name| drop(coderd.double.add_workspace_proxy(name)));
        coderd
    }

    /// Ids that are others in each run, and what they are in every run.
    pub(super) fn names(&self) -> Vec<(String, String)> {
        let (name, double) = (self.control_plane, &self.double);
        let organization =
            |word: &&str| (double.organization_id(word).to_string(), format!("{{{name}:{word}}}"));
        let deployment = (double.deployment_id().to_string(), format!("{{{name}:deployment}}"));
        self.organizations.iter().map(organization).chain([deployment]).collect()
    }

    /// Every key, with its organization.
    pub(super) fn keys(&self) -> Vec<(&'static str, ProvisionerKey)> {
        let of = |organization: &&'static str| {
            let (organization, keys) = (*organization, self.double.provisioner_keys(organization));
            keys.into_iter().map(move |key| (organization, key))
        };
        self.organizations.iter().flat_map(of).collect()
    }

    /// The keys that are not of others.
    pub(super) fn own_keys(&self) -> Vec<(&'static str, ProvisionerKey)> {
        self.keys().into_iter().filter(|(_, key)| !self.foreign.contains(&key.id)).collect()
    }

    /// The proxies that are not of others. One that may be taken over is ours once its token was replaced.
    pub(super) fn own_proxies(&self) -> Vec<RegisteredProxy> {
        let all = self.double.workspace_proxies().into_iter();
        let is_theirs =
            |one: &RegisteredProxy| self.adoptable == Some(one.name.as_str()) && one.regenerations == 0;
        all.filter(|one| !self.foreign.contains(&one.id) && !is_theirs(one)).collect()
    }

    /// The proxies in it, as lines that are the same in every run: how they appear, and whether they have come.
    pub(super) fn described_proxies(&self) -> String {
        let lines = self.double.workspace_proxies().into_iter().map(|one| {
            let whose = if self.foreign.contains(&one.id) { "of others" } else { "ours" };
            let has_come = !one.url.is_empty();
            let RegisteredProxy { name, display_name, icon, .. } = one;
            format!("{name} ({display_name}, {icon}), {whose}, has come: {has_come}")
        });
        let mut lines: Vec<String> = lines.collect();
        lines.sort();
        lines.join("; ")
    }

    /// The keys in it, as lines that are the same in every run: with their tags, and how many daemons use each.
    pub(super) fn described_keys(&self) -> String {
        let mut daemons: BTreeMap<Uuid, usize> = BTreeMap::new();
        for daemon in self.double.daemons().into_iter().filter(|daemon| daemon.connected) {
            *daemons.entry(daemon.key).or_default() += 1;
        }
        let keys = self.keys();
        let mut lines: Vec<String> = keys
            .iter()
            .map(|(organization, key)| {
                let users = daemons.remove(&key.id).unwrap_or_default();
                // First, since lines are sorted: a number that is left out of a name must not change their order.
                let whose = if self.foreign.contains(&key.id) { "of others" } else { "ours" };
                format!("{whose}: {organization}/{} {:?}, {users} daemons", key.name, key.tags)
            })
            .collect();
        lines.sort();
        let lost: usize = daemons.values().sum();
        lines.push(format!("{lost} daemons with a key that is gone"));
        lines.join("; ")
    }
}
