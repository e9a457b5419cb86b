//! Decides which values generated objects are made of: the usual ones and those at the edges of the rules.
//! Never holds a value that is a secret anywhere.

/// Names of objects.
pub(super) const NAMES: &[&str] = &[
    "coder",
    "a",
    "builders",
    "psk",
    "primary",
    "2nd",
    "has.dot",
    "Upper",
    "-dash",
    "dash-",
    "data-science-frankfurt",
    "x-0123456789-0123456789-0123456789-0123456789-0123",
    "x-0123456789-0123456789-0123456789-0123456789-01234",
    "x-0123456789-0123456789-0123456789-0123456789-012345-78",
    "x-0123456789-0123456789-0123456789-0123456789-0123456789-01234",
    "",
];

/// Numbers.
pub(super) const NUMBERS: &[i64] =
    &[0, 1, 2, 3, 80, 443, 8080, -1, 65_535, 65_536, 2_147_483_647, 2_147_483_648, i64::MIN, i64::MAX];

/// Keys of maps.
pub(super) const KEYS: &[&str] =
    &["environment", "scope", "owner", "example.com/team", "", "a/b", "kubernetes.io/arch", "cpu"];

/// Fields somebody might write anywhere.
pub(super) const FIELDS: &[&str] = &[
    "spec",
    "image",
    "replicas",
    "service",
    "type",
    "port",
    "metadata",
    "name",
    "generateName",
    "expose",
    "ingress",
    "gateway",
    "key",
    "extraEnv",
    "envFrom",
    "rbac",
    "extraRules",
    "unknown",
    "",
    "a~/b",
];

/// Texts that are wrong in most places.
pub(super) const ODD_TEXTS: &[&str] = &[
    "",
    " ",
    "x",
    "a/b",
    "UPPER",
    "ünïcödé-öööööööööööööööööööööööööööööööööööööööö",
    "line\nbreak",
    "nul\u{0}",
    "new",
    "create",
    "PSK",
    "Primary",
    "*",
    "${LEFT_OVER}",
    "$(REFERENCE)",
    "..",
    "-",
    ".",
    "a..b",
    "*.example.com",
    "192.0.2.1",
    "https://user:password@example.com",
    "http://example.com",
    "http://127.0.0.1:8080",
    "http://coder.coder.svc",
    "https://coder.example.com?token=1",
    "'quoted'",
    "\"double\" \\",
];

/// Fields that cost much and show little: they come from the core API.
pub(super) const RARE: &[&str] =
    &["affinity", "topologySpreadConstraints", "podSecurityContext", "tolerations", "ephemeral", "lifecycle"];

/// Texts that suit a field of this name.
pub(super) fn suiting(name: &str) -> &'static [&'static str] {
    match name {
        "image" => &[
            "ghcr.io/coder/coder:v2.36.1",
            "ghcr.io/coder/coder:latest",
            "coder",
            "localhost:5000/coder",
            "ghcr.io/coder/coder v2",
            "ghcr.io/coder/coder:",
            "Coder/coder@sha256:0123",
        ],
        "host" => &["coder.example.com", "coder", "Coder.example.com"],
        "wildcardHost" => &["*.coder.example.com", "*.example.com", "coder.example.com"],
        "wildcardAccessURL" => &["*.fra.example.com", "*--fra.example.com", "fra.example.com"],
        "primaryAccessURL" | "coderURL" | "accessURL" => &[
            "https://coder.example.com",
            "http://coder.coder.svc.cluster.local:8080",
            "http://coder.example.com",
        ],
        "organizationName" => &["default", "data-science", "a--b", "new", "Create"],
        "verbs" => &["get", "list", "create", "*", "escalate"],
        "resources" => &["services", "pods", "secrets", "pods/exec", "*"],
        "apiGroups" => &["", "apps", "*"],
        "extraArgs" => &["--verbose", "--postgres-url=postgres://h/d", "--tag=a=b", "-t"],
        "key" | "secretKey" => &["token", "ca.crt", "license"],
        "name" => {
            &["coder", "coder-license", "CODER_VERBOSE", "CODER_ORGANIZATION", "provisioner", "a.b", "psk"]
        }
        "value" => &["true", "x", "https://coder.example.com"],
        "interval" => &["30s", "1m30s", "soon"],
        "priorityClassName" => &["coder", "system-cluster-critical"],
        "ip" => &["192.0.2.10", "2001:db8::1"],
        "scope" => &["organization", "user"],
        _ => &["coder", "team-a", "coder-tls", "frankfurt", "a.b.c", "x"],
    }
}
