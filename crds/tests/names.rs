//! Decides that derived names stay what clusters already hold, and that none is ever invalid for its length.
//! Never needs a cluster.

use std::collections::{BTreeMap, BTreeSet};

use crds::names::control_plane::SecretVolume;
use crds::names::{self, DerivedKind, DerivedName, NameLimits, control_plane, provisioner, workspace_proxy};
use crds::{CoderControlPlaneSpec, CoderProvisionerSpec, CoderWorkspaceProxySpec};

fn control_plane_with_account(account: &str) -> CoderControlPlaneSpec {
    let service_account =
        crds::shared::ServiceAccountSpec { name: Some(account.into()), ..Default::default() };
    CoderControlPlaneSpec { service_account: Some(service_account), ..Default::default() }
}

fn provisioner_with_key(name: &str) -> CoderProvisionerSpec {
    let key = crds::provisioner::ProvisionerKeySpec { name: Some(name.into()), ..Default::default() };
    CoderProvisionerSpec { key: Some(key), ..Default::default() }
}

/// Valid object names of every length up to the limit, with dots and dashes at every place a cut can fall.
fn object_names() -> Vec<String> {
    let alphabets = ["a", "ab-", "a.", "a--b", "abcdefg.hij-", "0"];
    let lengths = 1..=names::SUBDOMAIN_LIMIT;
    let shaped =
        |alphabet: &str, length: usize| -> String { alphabet.chars().cycle().take(length).collect() };
    lengths
        .flat_map(|length| alphabets.map(|alphabet| shaped(alphabet, length)))
        .filter(|name| is_subdomain(name))
        .collect()
}

fn is_subdomain(name: &str) -> bool {
    let alphanumeric = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    let is_label = |label: &str| {
        label.starts_with(alphanumeric)
            && label.ends_with(alphanumeric)
            && label.chars().all(|c| alphanumeric(c) || c == '-')
    };
    name.len() <= 253 && name.split('.').all(is_label)
}

fn is_label_value(value: &str) -> bool {
    let alphanumeric = |c: char| c.is_ascii_alphanumeric();
    value.len() <= 63
        && value.starts_with(alphanumeric)
        && value.ends_with(alphanumeric)
        && value.chars().all(|c| alphanumeric(c) || "-_.".contains(c))
}

#[test]
fn the_hashes_are_fnv_1a() {
    assert_eq!(names::hash::fnv1a_32(b""), 0x811c_9dc5);
    assert_eq!(names::hash::fnv1a_32(b"foobar"), 0xbf9c_f968);
    assert_eq!(names::hash::fnv1a_64(b""), 0xcbf2_9ce4_8422_2325);
    assert_eq!(names::hash::fnv1a_64(b"foobar"), 0x8594_4171_f739_67e8);
}

#[test]
fn the_scope_hash_of_a_workspace_role_is_that_of_namespace_and_name() {
    assert_eq!(control_plane::workspace_role("coder", "coder", "coder"), "coder-84e8e53b-workspace-perms");
    assert_eq!(control_plane::workspace_role_binding("coder", "coder", "coder"), "coder-84e8e53b");
}

#[test]
fn the_operators_user_in_coderd_is_named_after_the_uid_and_fits_an_address() {
    let name = control_plane::operator_user("6f1f6a3e-0000-4000-8000-000000000001");
    assert_eq!(name, "coder-k8s-operator-6f1f6a3e-0000-4000-8000-000000000001");
    assert!(name.len() <= 64, "the longest an address may have before its @");
}

#[test]
fn the_older_operators_token_in_coderd_is_named_after_namespace_and_name() {
    assert_eq!(control_plane::operator_token("coder", "coder"), "coder-k8s-operator-4ecae8b3d900ecfb");
}

#[test]
fn the_tags_hash_of_no_tags_and_of_one_tag_are_the_known_ones() {
    assert_eq!(provisioner::tags_hash(&BTreeMap::new()), "811c9dc5");
    let one = BTreeMap::from([("scope".to_owned(), "organization".to_owned())]);
    assert_eq!(provisioner::tags_hash(&one), "cf1b2b92");
}

#[test]
fn a_name_of_sixty_letters_is_cut_and_hashed_the_same_way_in_every_place() {
    let name = "a".repeat(60);
    let cut = |length| "a".repeat(length);
    assert_eq!(provisioner::workload(&name), format!("provisioner-{}-92b9e111", cut(42)));
    assert_eq!(
        provisioner::service_account(&name, &Default::default()),
        format!("{}-92b9e111-provisioner", cut(42))
    );
    assert_eq!(workspace_proxy::workload(&name), format!("wsproxy-{}-92b9e111", cut(46)));
    let spec = CoderControlPlaneSpec::default();
    let former = control_plane::former_operator_token_secret(&name, &spec);
    assert_eq!(former, format!("{}-92b9e111-operator-token", cut(39)));
    for cut_name in [provisioner::workload(&name), workspace_proxy::workload(&name), former] {
        assert_eq!(cut_name.len(), 63);
    }
}

#[test]
fn names_that_fit_are_plain() {
    let provisioner = CoderProvisionerSpec::default();
    assert_eq!(provisioner::workload("builders"), "provisioner-builders");
    assert_eq!(provisioner::service_account("builders", &provisioner), "builders-provisioner");
    assert_eq!(provisioner::key("builders", &provisioner), "builders");
    assert_eq!(provisioner::key_secret("builders", &provisioner), "builders-provisioner-key");
    assert_eq!(provisioner::key_secret_key(&provisioner), "key");
    let proxy = CoderWorkspaceProxySpec::default();
    assert_eq!(workspace_proxy::workload("fra"), "wsproxy-fra");
    assert_eq!(workspace_proxy::token_secret("fra", &proxy), "fra-proxy-token");
    assert_eq!(workspace_proxy::registration("fra", &proxy), "fra");
    let former = control_plane::former_operator_token_secret("coder", &CoderControlPlaneSpec::default());
    assert_eq!(former, "coder-operator-token");
    assert_eq!(control_plane::operator_token_secret("coder", "main"), "coder.main.operator-token");
}

#[test]
fn a_cut_that_ends_in_a_dot_loses_the_dot() {
    let name = format!("{}.{}", "a".repeat(41), "b".repeat(20));
    let derived = provisioner::workload(&name);
    assert!(derived.starts_with(&format!("provisioner-{}-", "a".repeat(41))), "{derived}");
    assert!(is_subdomain(&derived));
}

#[test]
fn volumes_are_named_after_their_secret() {
    let tls = |secret: &str| control_plane::secret_volume(SecretVolume::Tls, secret);
    assert_eq!(tls("coder-tls"), "tls-coder-tls");
    assert_eq!(tls("my.tls.secret"), "tls-my-tls-secret-6a72c9df");
    assert_eq!(control_plane::secret_volume(SecretVolume::CaCert, "company-ca"), "ca-cert-company-ca");
    assert_ne!(tls("a.b"), tls("a-b"));
    for secret in object_names() {
        for volume in [SecretVolume::Tls, SecretVolume::CaCert] {
            let name = control_plane::secret_volume(volume, &secret);
            assert!(name.len() <= 63 && is_subdomain(&name) && !name.contains('.'), "{secret} -> {name}");
        }
    }
    for odd in ["", " ", "...", "Ünïcode", "UPPER", " padded "] {
        let name = tls(odd);
        assert!(is_subdomain(&name) && !name.contains('.'), "{odd:?} -> {name}");
    }
}

#[test]
fn a_workspace_role_of_a_very_long_account_stays_valid() {
    for account in object_names() {
        for name in [
            control_plane::workspace_role("ns", "cp", &account),
            control_plane::workspace_role_binding("ns", "cp", &account),
        ] {
            assert!(is_subdomain(&name), "{account} -> {name}");
        }
    }
    let dots = ".".repeat(300);
    assert!(control_plane::workspace_role("ns", "cp", &dots).starts_with("workspace-"));
}

#[test]
fn a_rotation_adds_a_number_and_stays_within_what_coderd_accepts() {
    let spec = CoderProvisionerSpec::default();
    assert_eq!(provisioner::rotated_key("builders", &spec, 2), "builders-2");
    for length in [1, 54, 55, 61, 62, 63, 64] {
        let spec = provisioner_with_key(&"k".repeat(length));
        let mut seen = BTreeSet::from([provisioner::key("x", &spec)]);
        assert_eq!(
            provisioner::rotated_key("x", &spec, 1),
            provisioner::key("x", &spec),
            "the first has no number"
        );
        for number in [2, 10, 999, u64::MAX] {
            let key = provisioner::rotated_key("x", &spec, number);
            assert!(key.len() <= names::KEY_LIMIT, "{key}");
            assert!(key.ends_with(&format!("-{number}")), "{key}");
            assert!(seen.insert(key));
        }
    }
}

#[test]
fn a_key_name_of_sixty_four_bytes_is_kept_and_a_longer_one_is_cut() {
    let whole = "k".repeat(64);
    assert_eq!(provisioner::key("x", &provisioner_with_key(&whole)), whole);
    let cut = provisioner::key("x", &provisioner_with_key(&"k".repeat(65)));
    assert_eq!(cut.len(), 64);
    assert!(cut.starts_with(&format!("{}-", "k".repeat(55))));
}

#[test]
fn a_cut_never_falls_inside_a_character() {
    for character in ["é", "語", "🚀"] {
        for pad in 0..4 {
            let name = format!("{}{}", "a".repeat(pad), character.repeat(100));
            let key = provisioner::key("x", &provisioner_with_key(&name));
            assert!(key.len() <= names::KEY_LIMIT);
            assert!(names::instance_label(&name).len() <= 63);
            assert!(provisioner::workload(&name).len() <= 63);
            assert!(!control_plane::operator_token_secret(&name, &name).is_empty());
        }
    }
}

fn registered_by_bootstrap() -> CoderWorkspaceProxySpec {
    let bootstrap = Some(crds::workspace_proxy::ProxyBootstrapSpec::default());
    CoderWorkspaceProxySpec { bootstrap, ..Default::default() }
}

fn registered_by_control_plane() -> CoderWorkspaceProxySpec {
    let control_plane_ref = Some(crds::shared::ControlPlaneRef { name: "coder".into() });
    CoderWorkspaceProxySpec { control_plane_ref, ..Default::default() }
}

#[test]
fn a_proxy_is_named_by_its_registration_or_by_bootstrap_whichever_counts() {
    let text = |text: &str| Some(text.to_owned());
    let mut spec = registered_by_bootstrap();
    spec.bootstrap = spec.bootstrap.map(|bootstrap| crds::workspace_proxy::ProxyBootstrapSpec {
        proxy_name: text("eu"),
        generated_token_secret_name: text("eu-token"),
        ..bootstrap
    });
    let names = |spec: &CoderWorkspaceProxySpec| {
        [workspace_proxy::registration("fra", spec).to_owned(), workspace_proxy::token_secret("fra", spec)]
    };
    assert_eq!(names(&spec), ["eu", "eu-token"]);
    spec.control_plane_ref = registered_by_control_plane().control_plane_ref;
    assert_eq!(names(&spec), ["fra", "fra-proxy-token"], "bootstrap plays no part any more");
    spec.registration = Some(crds::workspace_proxy::ProxyRegistrationSpec {
        proxy_name: text("frankfurt"),
        token_secret_name: text(""),
        ..Default::default()
    });
    assert_eq!(names(&spec), ["frankfurt", "fra-proxy-token"], "an empty name is none");
    assert_eq!(workspace_proxy::service_account("fra", &spec), "fra-wsproxy");
}

fn all_derived(name: &str) -> Vec<DerivedName> {
    let proxy = registered_by_bootstrap();
    [
        control_plane::derived(&"n".repeat(63), name, &CoderControlPlaneSpec::default()),
        provisioner::derived(name, &CoderProvisionerSpec::default()),
        workspace_proxy::derived(name, &proxy),
    ]
    .concat()
}

#[test]
fn every_name_that_is_shortened_is_still_valid() {
    for name in object_names() {
        for derived in all_derived(&name).into_iter().filter(|derived| derived.shortened) {
            let valid = match derived.kind {
                DerivedKind::InstanceLabel => is_label_value(&derived.name),
                DerivedKind::ProvisionerKey => derived.name.len() <= 64,
                _ => is_subdomain(&derived.name) && derived.name.len() <= derived.kind.limit(),
            };
            assert!(valid, "{name} -> {:?}", derived);
        }
    }
}

#[test]
fn a_name_that_repeats_a_prefix_is_still_known_to_be_shortened() {
    let name: String = "provisioner-".chars().cycle().take(52).collect();
    let derived = provisioner::derived(&name, &CoderProvisionerSpec::default());
    let deployment = derived.iter().find(|derived| derived.kind == DerivedKind::Deployment).unwrap();
    assert!(deployment.name.contains(&name) && deployment.shortened);
}

#[test]
fn every_child_has_a_derived_name() {
    let kinds = |derived: Vec<DerivedName>| -> BTreeSet<&str> {
        derived.into_iter().map(|derived| derived.kind.as_str()).collect()
    };
    let of_control_plane = kinds(control_plane::derived("ns", "x", &CoderControlPlaneSpec::default()));
    let expected = [
        "Deployment",
        "HTTPRoute",
        "Ingress",
        "Role",
        "RoleBinding",
        "Secret",
        "Service",
        "ServiceAccount",
        "label app.kubernetes.io/instance",
    ];
    assert_eq!(of_control_plane, BTreeSet::from(expected));
    let of_provisioner = kinds(provisioner::derived("x", &CoderProvisionerSpec::default()));
    let expected = [
        "Deployment",
        "Role",
        "RoleBinding",
        "Secret",
        "ServiceAccount",
        "label app.kubernetes.io/instance",
        "provisioner key",
    ];
    assert_eq!(of_provisioner, BTreeSet::from(expected));
    let of_given = kinds(workspace_proxy::derived("x", &CoderWorkspaceProxySpec::default()));
    let expected = [
        "Deployment",
        "HTTPRoute",
        "Ingress",
        "Service",
        "ServiceAccount",
        "label app.kubernetes.io/instance",
    ];
    assert_eq!(of_given, BTreeSet::from(expected));
    for spec in [registered_by_control_plane(), registered_by_bootstrap()] {
        let of_registered = kinds(workspace_proxy::derived("x", &spec));
        let more: Vec<&str> = of_registered.difference(&of_given).copied().collect();
        assert_eq!(more, ["Secret", "workspace proxy in coderd"]);
    }
}

#[test]
fn a_name_the_spec_gives_does_not_depend_on_the_name_of_the_object() {
    let spec = control_plane_with_account("server");
    let derived = control_plane::derived("ns", &"a".repeat(253), &spec);
    let account = derived.iter().find(|derived| derived.kind == DerivedKind::ServiceAccount).unwrap();
    assert_eq!((account.name.as_str(), account.chosen, account.fits()), ("server", true, true));
    assert!(derived.iter().any(|derived| !derived.fits()));
}

#[test]
fn the_limits_follow_from_the_derived_names() {
    assert_eq!(NameLimits::control_plane(), NameLimits { hard: 63, soft: 46 });
    assert_eq!(NameLimits::provisioner(), NameLimits { hard: 51, soft: 34 });
    assert_eq!(NameLimits::workspace_proxy(), NameLimits { hard: 55, soft: 38 });
}
