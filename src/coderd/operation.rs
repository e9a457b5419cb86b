//! The calls that we make of coderd: what each is called in a sentence and in a metric, and how coderd refuses it.
//! It never says whether a call succeeded.

use std::fmt;

/// A call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operation {
    /// `GET /healthz`.
    Healthz,
    /// `GET /api/v2/buildinfo`.
    BuildInfo,
    /// `GET /api/v2/entitlements`.
    Entitlements,
    /// `GET /api/v2/users/me`.
    Me,
    /// `GET /api/v2/licenses`.
    Licenses,
    /// `POST /api/v2/licenses`.
    UploadLicense,
    /// `DELETE /api/v2/users/me/keys/{id}`.
    DeleteToken,
    /// `GET /api/v2/organizations/{organization}`.
    Organization,
    /// `GET /api/v2/organizations/{organization}/provisionerkeys`.
    ProvisionerKeys,
    /// `POST /api/v2/organizations/{organization}/provisionerkeys`.
    CreateProvisionerKey,
    /// `DELETE /api/v2/organizations/{organization}/provisionerkeys/{name}`.
    DeleteProvisionerKey,
    /// `GET /api/v2/provisionerkeys/{placeholder}`, by the key itself.
    IdentifyProvisionerKey,
    /// `GET /api/v2/organizations/{organization}/provisionerkeys/daemons`.
    ProvisionerKeyDaemons,
    /// `GET /api/v2/organizations/{organization}/provisionerjobs`.
    PendingJobs,
    /// `POST /api/v2/authcheck`.
    Authcheck,
    /// `GET /api/v2/workspaceproxies/{name or id}`, or all of them for a name in any case.
    WorkspaceProxy,
    /// `POST /api/v2/workspaceproxies`.
    CreateWorkspaceProxy,
    /// `PATCH /api/v2/workspaceproxies/{id}`.
    UpdateWorkspaceProxy,
    /// `PATCH /api/v2/workspaceproxies/{id}` for another token.
    RegenerateProxyToken,
    /// `DELETE /api/v2/workspaceproxies/{id}`.
    DeleteWorkspaceProxy,
    /// `GET /api/v2/workspaceagents/connection`, by the token of a workspace proxy.
    VerifyProxyToken,
}

impl fmt::Display for Operation {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::Healthz => "asking whether coderd is up",
            Self::BuildInfo => "reading coderd's version",
            Self::Entitlements => "reading coderd's entitlements",
            Self::Me => "asking coderd who the token belongs to",
            Self::Licenses => "listing coderd's licenses",
            Self::UploadLicense => "uploading a license",
            Self::DeleteToken => "deleting a token",
            Self::Organization => "reading an organization",
            Self::ProvisionerKeys => "listing provisioner keys",
            Self::CreateProvisionerKey => "creating a provisioner key",
            Self::DeleteProvisionerKey => "deleting a provisioner key",
            Self::IdentifyProvisionerKey => "asking coderd which provisioner key a Secret holds",
            Self::ProvisionerKeyDaemons => "listing the daemons of provisioner keys",
            Self::PendingJobs => "listing pending provisioner jobs",
            Self::Authcheck => "asking coderd what the token's user may see",
            Self::WorkspaceProxy => "reading a workspace proxy",
            Self::CreateWorkspaceProxy => "registering a workspace proxy",
            Self::UpdateWorkspaceProxy => "changing a workspace proxy",
            Self::RegenerateProxyToken => "replacing the token of a workspace proxy",
            Self::DeleteWorkspaceProxy => "deleting a workspace proxy",
            Self::VerifyProxyToken => "asking coderd whether a workspace proxy's token is valid",
        })
    }
}

impl Operation {
    /// One word of a closed set.
    pub fn name(self) -> &'static str {
        match self {
            Self::Healthz => "healthz",
            Self::BuildInfo => "build_info",
            Self::Entitlements => "entitlements",
            Self::Me => "me",
            Self::Licenses => "licenses",
            Self::UploadLicense => "upload_license",
            Self::DeleteToken => "delete_token",
            Self::Organization => "organization",
            Self::ProvisionerKeys => "provisioner_keys",
            Self::CreateProvisionerKey => "create_provisioner_key",
            Self::DeleteProvisionerKey => "delete_provisioner_key",
            Self::IdentifyProvisionerKey => "identify_provisioner_key",
            Self::ProvisionerKeyDaemons => "provisioner_key_daemons",
            Self::PendingJobs => "pending_jobs",
            Self::Authcheck => "authcheck",
            Self::WorkspaceProxy => "workspace_proxy",
            Self::CreateWorkspaceProxy => "create_workspace_proxy",
            Self::UpdateWorkspaceProxy => "update_workspace_proxy",
            Self::RegenerateProxyToken => "regenerate_proxy_token",
            Self::DeleteWorkspaceProxy => "delete_workspace_proxy",
            Self::VerifyProxyToken => "verify_proxy_token",
        }
    }

    /// Whether it is made without the client's token: who refuses it is not coderd but something in between. The calls that
    /// show a provisioner key or the token of a proxy are two of them: what coderd says of one it does not know is an
    /// answer, not a refusal.
    pub(crate) fn is_open(self) -> bool {
        matches!(
            self,
            Self::Healthz
                | Self::BuildInfo
                | Self::Entitlements
                | Self::IdentifyProvisionerKey
                | Self::VerifyProxyToken
        )
    }

    pub(super) fn unauthorized(self) -> &'static str {
        match self.is_open() {
            true => "it needs no token, yet the answer asks for one (401)",
            false => "coderd does not accept the token (401)",
        }
    }

    pub(super) fn forbidden(self) -> &'static str {
        match self.is_open() {
            true => "it is open to everybody, yet the answer forbids it (403)",
            // coderd denies what makes things, and the deletion of keys, with a 500, the deletion of proxies with a 404.
            false
                if matches!(
                    self,
                    Self::CreateProvisionerKey
                        | Self::DeleteProvisionerKey
                        | Self::CreateWorkspaceProxy
                        | Self::DeleteWorkspaceProxy
                ) =>
            {
                "the token's user may not do this"
            }
            false => "the token's user may not do this (403)",
        }
    }

    pub(super) fn conflict(self) -> &'static str {
        match self {
            // coderd tells a name that another has with a 500.
            Self::UpdateWorkspaceProxy | Self::RegenerateProxyToken => "it conflicts with what coderd has",
            _ => "it conflicts with what coderd has (409)",
        }
    }
}
