//! What only a licensed coderd does: the calls, what the real one answers without a license, and what holds the double to
//! the rest. The stock server takes only licenses that Coder has signed; nobody gave us one, and teaching it to take
//! others would circumvent its license check. So the answers of these calls come from coderd's source: what they say is
//! looked up there, what the database decides is looked up in the real database, and who may is asked in `roles.rs`.

use super::requests::OPERATIONS;
use super::sides::{Sides, Who};
use super::{call, client};
use coder_k8s::coderd::Error;
use coder_k8s::coderd::error::Operation;
use std::path::PathBuf;
use std::process::Command;
use support::real_coderd::Edition;

/// The calls that an unlicensed coderd refuses.
pub const NEED_A_LICENSE: [Operation; 9] = [
    Operation::ProvisionerKeys,
    Operation::CreateProvisionerKey,
    Operation::DeleteProvisionerKey,
    Operation::ProvisionerKeyDaemons,
    Operation::WorkspaceProxy,
    Operation::CreateWorkspaceProxy,
    Operation::UpdateWorkspaceProxy,
    Operation::RegenerateProxyToken,
    Operation::DeleteWorkspaceProxy,
];

const KEYS: &str = "enterprise/coderd/provisionerkeys.go";
const QUERIES: &str = "coderd/database/queries/provisionerkeys.sql";
const PROXIES: &str = "enterprise/coderd/workspaceproxy.go";
const PROXY_QUERIES: &str = "coderd/database/queries/proxies.sql";
const PROXY_TYPES: &str = "codersdk/workspaceproxy.go";

/// What a licensed coderd does at each of them, by its source: the file and the words that say so there. The double does
/// the same, which its own tests show.
const BY_SOURCE: [(&str, &str, &str); 38] = [
    (
        "all: 403 without the feature",
        "enterprise/coderd/templates.go",
        "is a Premium feature. Contact sales!",
    ),
    (
        "all: the organisation is looked up before the license",
        "enterprise/coderd/coderd.go",
        "httpmw.ExtractOrganizationParam(api.Database),\n\t\t\t\tapi.RequireFeatureMW(codersdk.FeatureExternalProvisionerDaemons),",
    ),
    (
        "list: 200, without coderd's own",
        KEYS,
        "ListProvisionerKeysByOrganizationExcludeReserved(ctx, organization.ID)",
    ),
    ("list: oldest first", KEYS, "return key1.CreatedAt.Compare(key2.CreatedAt)"),
    (
        "list: what a user may not read is left out",
        "coderd/database/dbauthz/dbauthz.go",
        "return fetchWithPostFilter(q.auth, policy.ActionRead, q.db.ListProvisionerKeysByOrganizationExcludeReserved)",
    ),
    (
        "list: every member of the organisation may read keys",
        "coderd/rbac/roles.go",
        "// All users can see provisioner daemons for workspace creation.\n\t\tResourceProvisionerDaemon.Type: {policy.ActionRead},",
    ),
    ("create: 400, no name", KEYS, "Message: \"Name is required\""),
    ("create: 400, a long name", KEYS, "Message: \"Name must be at most 64 characters\""),
    ("create: 400, a reserved name in any case", KEYS, "Name cannot be reserved name '%s'"),
    ("create: 409, a taken name", KEYS, "Provisioner key with name '%s' already exists in organization"),
    (
        "create: 500 instead of 403 for who may not",
        "coderd/rbac/error.go",
        "errUnauthorized = \"rbac: forbidden\"",
    ),
    (
        "create: 201 with the plaintext alone",
        KEYS,
        "http.StatusCreated, codersdk.CreateProvisionerKeyResponse{\n\t\tKey: token,\n\t}",
    ),
    ("create: names are stored in lower case", QUERIES, "lower(@name)"),
    ("create: a plaintext has 43 characters", "coderd/provisionerkey/provisionerkey.go", "secretLength = 43"),
    ("delete: 404, unknown or hidden; found in any case", QUERIES, "lower(name) = lower(@name)"),
    ("delete: 400, one of coderd's own", KEYS, "Cannot delete reserved '%s' provisioner key"),
    (
        "delete: 500 instead of 403 for who may not",
        KEYS,
        "DeleteProvisionerKey(ctx, provisionerKey.ID)\n\tif err != nil {\n\t\thttpapi.InternalServerError(rw, err)",
    ),
    ("delete: 204", KEYS, "httpapi.Write(ctx, rw, http.StatusNoContent, nil)"),
    (
        "daemons: those heard of within three heartbeats",
        KEYS,
        "RecentProvisionerDaemons(time.Now(), provisionerdserver.DefaultHeartbeatInterval*3, daemons)",
    ),
    (
        "proxies: the license is asked for before the caller",
        "enterprise/coderd/coderd.go",
        "r.Route(\"/workspaceproxies\", func(r chi.Router) {\n\t\t\tr.Use(\n\t\t\t\tapi.RequireFeatureMW(codersdk.FeatureWorkspaceProxy),",
    ),
    (
        "proxies: me is another place",
        "enterprise/coderd/coderd.go",
        "r.Route(\"/me\", func(r chi.Router) {\n\t\t\t\tr.Use(\n\t\t\t\t\thttpmw.ExtractWorkspaceProxy(",
    ),
    (
        "proxies: every user may read them",
        "coderd/rbac/roles.go",
        "ResourceWorkspaceProxy.Type: {policy.ActionRead},",
    ),
    (
        "show a proxy: primary, then by id, then by name",
        "coderd/httpmw/workspaceproxy.go",
        "if proxyQuery == \"primary\" || proxyQuery == deploymentID {",
    ),
    ("show a proxy: by id also a deleted one", PROXY_QUERIES, "\tworkspace_proxies\nWHERE\n\tid = $1\nLIMIT"),
    (
        "show a proxy: by name as it is written, and no deleted one",
        PROXY_QUERIES,
        "name = $1\n\tAND deleted = false",
    ),
    (
        "show a proxy: the health in memory, unknown before",
        PROXIES,
        "if status.Status == \"\" {\n\t\tstatus.Status = proxyhealth.Unknown",
    ),
    (
        "make a proxy: 400, no name",
        PROXY_TYPES,
        "type CreateWorkspaceProxyRequest struct {\n\tName        string `json:\"name\" validate:\"required\"`",
    ),
    ("make a proxy: 400, primary in any case", PROXIES, "if strings.ToLower(req.Name) == \"primary\" {"),
    ("make a proxy: 409, a taken name", PROXIES, "Workspace proxy with name %q already exists."),
    (
        "make a proxy: 500 instead of 403 for who may not",
        PROXIES,
        "already exists.\", req.Name),\n\t\t})\n\t\treturn\n\t}\n\tif err != nil {\n\t\thttpapi.InternalServerError(rw, err)",
    ),
    (
        "make a proxy: 201 with the proxy, unregistered, and its token",
        PROXIES,
        "http.StatusCreated, codersdk.UpdateWorkspaceProxyResponse{",
    ),
    ("make a proxy: a token is its id and 64 characters", PROXIES, "fmt.Sprintf(\"%s:%s\", id, secret)"),
    (
        "change a proxy: 400, an empty icon",
        PROXY_TYPES,
        "Icon            string    `json:\"icon\" validate:\"required\"`",
    ),
    (
        "change a proxy: 404 for who may not, 500 for a taken name",
        PROXIES,
        "if httpapi.Is404Error(err) {\n\t\t\thttpapi.ResourceNotFound(rw)\n\t\t\treturn\n\t\t}\n\t\tif err != nil {\n\t\t\thttpapi.InternalServerError(rw, err)",
    ),
    (
        "change a proxy: a deleted one too",
        PROXY_QUERIES,
        "updated_at = Now()\nWHERE\n\tid = @id\nRETURNING *\n;",
    ),
    ("delete a proxy: 400, primary", PROXIES, "Message: \"Cannot delete primary proxy\""),
    ("delete a proxy: 200, softly, also once more", PROXY_QUERIES, "deleted = @deleted\nWHERE\n\tid = @id;"),
    (
        "delete a proxy: 404 for who may not",
        "coderd/database/dbauthz/dbauthz.go",
        "return deleteQ(q.log, q.auth, fetch, q.db.UpdateWorkspaceProxyDeleted)",
    ),
];

/// The source that the real server was built from.
fn source() -> PathBuf {
    let module = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/cluster-tools/coderd");
    let words = ["list", "-mod=readonly", "-m", "-f", "{{.Dir}}", "github.com/coder/coder/v2"];
    let said = Command::new("go").args(words).current_dir(module).output().expect("go runs");
    assert!(said.status.success(), "{}", String::from_utf8_lossy(&said.stderr));
    PathBuf::from(String::from_utf8_lossy(&said.stdout).trim())
}

#[test]
#[ignore = "needs the source of coderd: make test-contract"]
fn what_a_licensed_coderd_answers_is_in_its_source() {
    let folder = source();
    for (what, file, words) in BY_SOURCE {
        let text =
            std::fs::read_to_string(folder.join(file)).unwrap_or_else(|error| panic!("{file}: {error}"));
        assert!(text.contains(words), "{what}: {file} does not have {words:?}");
        println!("  source  {what} ({file})");
    }
    println!("{} rows that need a license, each by coderd's source", BY_SOURCE.len());
}

#[tokio::test]
#[ignore = "needs a real coderd: make test-contract"]
async fn exactly_the_calls_that_need_a_license_are_refused_without_one() {
    let sides = Sides::start(Edition::Full).await;
    for side in [&sides.double, &sides.real] {
        for operation in OPERATIONS {
            let said = call(operation, &client(side, Who::Owner), side.proxy().parse().unwrap()).await;
            let refused = said == Err(Error::NotLicensed { operation });
            assert_eq!(refused, NEED_A_LICENSE.contains(&operation), "{operation:?}: {said:?}");
        }
    }
    sides.coderd.add_license();
    for operation in NEED_A_LICENSE {
        let proxy = sides.double.proxy().parse().unwrap();
        call(operation, &client(&sides.double, Who::Owner), proxy).await.unwrap();
        println!("  needs a license: {operation:?}, {operation}");
    }
    println!("{} of {} calls need a license", NEED_A_LICENSE.len(), OPERATIONS.len());
}

/// What the real database decides for a licensed server, too.
#[tokio::test]
#[ignore = "needs a real coderd: make test-contract"]
async fn the_database_does_not_tell_names_apart_by_case_and_lets_daemons_go_with_their_key() {
    let sides = Sides::start(Edition::Full).await;
    let sql = |words: &str| sides.postgres.sql(sides.server.database(), words);
    let unique =
        "SELECT indexdef FROM pg_indexes WHERE indexname = 'provisioner_keys_organization_id_name_idx'";
    let unique = sql(unique);
    assert!(unique.starts_with("CREATE UNIQUE INDEX"), "{unique}");
    assert!(unique.ends_with("(organization_id, lower((name)::text))"), "{unique}");
    let cascade = "SELECT pg_get_constraintdef(oid) FROM pg_constraint WHERE conname = 'provisioner_daemons_key_id_fkey'";
    assert_eq!(sql(cascade), "FOREIGN KEY (key_id) REFERENCES provisioner_keys(id) ON DELETE CASCADE");
    let reserved = "SELECT key.name FROM provisioner_keys key JOIN organizations home ON home.id = key.organization_id \
                    WHERE home.is_default AND key.name <> 'seeded' ORDER BY key.id";
    assert_eq!(sql(reserved), "built-in\nuser-auth\npsk");
}

/// Names of proxies differ by more than their case, and the index that holds them apart has the name by which our client
/// knows a clash; a deleted one gives its name back.
#[tokio::test]
#[ignore = "needs a real coderd: make test-contract"]
async fn the_database_holds_names_of_living_proxies_apart_in_any_case() {
    let sides = Sides::start(Edition::Full).await;
    let sql = |words: &str| sides.postgres.sql(sides.server.database(), words);
    let unique = sql("SELECT indexdef FROM pg_indexes WHERE indexname = 'workspace_proxies_lower_name_idx'");
    assert!(unique.starts_with("CREATE UNIQUE INDEX"), "{unique}");
    assert!(unique.ends_with("(lower(name)) WHERE (deleted = false)"), "{unique}");
}
