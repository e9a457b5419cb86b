//! Decides that the shipped CRDs are small, free of traps and say what the API promises.
//! Never needs an API server; the suites on a real one apply them.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test stops where something is missing")]

mod schema_walker;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use serde_json::{Value, json};

use crds::custom_resource_definitions;
use crds::well_known::reserved;
use schema_walker::traps;

fn kinds() -> Vec<(String, Value)> {
    let named =
        |crd: CustomResourceDefinition| (crd.spec.names.kind.clone(), serde_json::to_value(crd).unwrap());
    custom_resource_definitions().into_iter().map(named).collect()
}

fn root(crd: &Value) -> &Value {
    crd.pointer("/spec/versions/0/schema/openAPIV3Schema").unwrap()
}

fn property<'a>(crd: &'a Value, path: &str) -> &'a Value {
    path.split('.').fold(root(crd), |schema, name| {
        let schema = schema.get("items").unwrap_or(schema);
        schema
            .pointer(&format!("/properties/{name}"))
            .unwrap_or_else(|| panic!("no property {name} of {path}"))
    })
}

fn control_plane() -> Value {
    kinds().swap_remove(0).1
}

fn provisioner() -> Value {
    kinds().swap_remove(1).1
}

fn workspace_proxy() -> Value {
    kinds().swap_remove(2).1
}

#[test]
fn every_crd_is_below_200_kb_of_compact_json() {
    for (kind, crd) in kinds() {
        let size = serde_json::to_vec(&crd).unwrap().len();
        assert!(size < 200_000, "{kind} has {size} bytes");
    }
}

#[test]
fn the_crds_are_the_same_on_every_call() {
    assert_eq!(serde_json::to_string(&kinds()).unwrap(), serde_json::to_string(&kinds()).unwrap());
}

#[test]
fn no_schema_holds_a_trap() {
    for (kind, crd) in kinds() {
        let found = traps(root(&crd));
        assert!(found.is_empty(), "{kind}:\n{}", found.join("\n"));
    }
}

#[test]
fn the_walker_finds_planted_traps() {
    let plants: [(&str, Value); 11] = [
        (
            "a schema default",
            json!({"type": "string", "maxLength": 1, "description": "Some text.", "default": ""}),
        ),
        ("empty schema", json!({})),
        ("no type", json!({"description": "Some text."})),
        (
            "is a boolean",
            json!({"type": "object", "description": "Some text.", "additionalProperties": true}),
        ),
        ("without properties", json!({"type": "object", "description": "Some text."})),
        ("unsigned", json!({"type": "integer", "format": "uint32", "description": "Some text."})),
        ("nullable", json!({"type": "integer", "nullable": true, "description": "Some text."})),
        ("no description", json!({"type": "integer"})),
        ("no bound", json!({"type": "string", "description": "Some text."})),
        ("no bound", json!({"type": "array", "items": {"type": "integer"}, "description": "Some text."})),
        ("anyOf", json!({"type": "integer", "anyOf": [], "description": "Some text."})),
    ];
    for (what, plant) in plants {
        let mut crd = control_plane();
        let pointer = "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties";
        crd.pointer_mut(pointer).unwrap()["planted"] = plant;
        let found = traps(root(&crd));
        assert!(
            found.iter().any(|trap| trap.starts_with(".spec.planted") && trap.contains(what)),
            "{what}: {found:?}"
        );
    }
}

#[test]
fn the_walker_finds_prose_in_core_types_and_unbounded_rules() {
    let mut crd = control_plane();
    let properties = "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties";
    let spec = crd.pointer_mut(properties).unwrap();
    spec["volumes"]["items"]["properties"]["name"]["description"] = "Long prose.".into();
    spec["envFrom"].as_object_mut().unwrap().remove("maxItems");
    let found = traps(root(&crd)).join("\n");
    assert!(found.contains(".spec.volumes[].name: a core type with a description"), "{found}");
    assert!(found.contains(".spec.envFrom: a rule over something without a bound"), "{found}");
}

#[test]
fn spec_is_optional_and_empty_by_default_except_where_that_would_be_refused() {
    for (kind, crd) in kinds() {
        assert_eq!(root(&crd).get("required"), None, "{kind}");
        let expected = if kind == "CoderProvisioner" { None } else { Some(json!({})) };
        assert_eq!(property(&crd, "spec").get("default").cloned(), expected, "{kind}");
    }
    assert_eq!(property(&provisioner(), "spec")["required"], json!(["controlPlaneRef"]));
    assert_eq!(property(&control_plane(), "spec").get("required"), None);
    assert_eq!(property(&workspace_proxy(), "spec").get("required"), None);
}

#[test]
fn an_object_nobody_has_looked_at_says_so() {
    for (kind, crd) in kinds() {
        assert_eq!(property(&crd, "status")["default"], json!({"observedGeneration": -1}), "{kind}");
    }
}

#[test]
fn conditions_are_keyed_by_type() {
    for (kind, crd) in kinds() {
        let conditions = property(&crd, "status.conditions");
        assert_eq!(conditions["x-kubernetes-list-map-keys"], json!(["type"]), "{kind}");
        assert_eq!(conditions["x-kubernetes-list-type"], json!("map"), "{kind}");
    }
}

#[test]
fn every_kind_has_status_and_scale() {
    for (kind, crd) in kinds() {
        let expected = json!({
            "status": {},
            "scale": {
                "specReplicasPath": ".spec.replicas",
                "statusReplicasPath": ".status.replicas",
                "labelSelectorPath": ".status.selector",
            },
        });
        assert_eq!(crd.pointer("/spec/versions/0/subresources"), Some(&expected), "{kind}");
        for path in ["spec.replicas", "status.replicas", "status.selector"] {
            property(&crd, path);
        }
    }
}

#[test]
fn every_kind_is_found_by_its_short_name_and_category() {
    let expected =
        [("CoderControlPlane", "ccp"), ("CoderProvisioner", "cprov"), ("CoderWorkspaceProxy", "cwsp")];
    for ((kind, crd), (expected_kind, short)) in kinds().iter().zip(expected) {
        assert_eq!(kind, expected_kind);
        assert_eq!(crd.pointer("/spec/names/shortNames"), Some(&json!([short])));
        assert_eq!(crd.pointer("/spec/names/categories"), Some(&json!(["coder"])));
        assert_eq!(crd.pointer("/spec/scope"), Some(&json!("Namespaced")));
    }
}

#[test]
fn every_kind_prints_the_same_columns_around_its_own() {
    // Those in brackets are printed by `-o wide` only.
    let around = (["Ready", "Reason", "Suspended", "[Message]", "[Phase]", "Replicas"], ["Version", "Age"]);
    let of_control_plane: &[&str] = &["URL"];
    let of_proxy: &[&str] = &["Access URL", "[URL]"];
    let of_provisioner: &[&str] = &[
        "Control Plane",
        "Key",
        "Daemons",
        "[Pending Jobs]",
        "[Key Age]",
        "[Organization]",
        "[Image]",
        "[URL]",
    ];
    for (kind, crd) in kinds() {
        let columns =
            crd.pointer("/spec/versions/0/additionalPrinterColumns").and_then(Value::as_array).unwrap();
        let printed: Vec<String> = columns
            .iter()
            .map(|column| match (column["name"].as_str().unwrap(), column["priority"].as_i64()) {
                (name, Some(1)) => format!("[{name}]"),
                (name, _) => name.to_owned(),
            })
            .collect();
        let own = match kind.as_str() {
            "CoderProvisioner" => of_provisioner,
            "CoderWorkspaceProxy" => of_proxy,
            _ => of_control_plane,
        };
        assert_eq!(printed, [&around.0, own, &around.1].concat(), "{kind}");
        for column in columns {
            let path = column["jsonPath"].as_str().unwrap().trim_start_matches('.');
            if !path.starts_with("metadata.") && !path.contains('[') {
                property(&crd, path);
            }
        }
    }
}

#[test]
fn argo_cd_applies_the_crds_on_the_server() {
    for (kind, crd) in kinds() {
        let annotations = &crd["metadata"]["annotations"];
        assert_eq!(annotations["argocd.argoproj.io/sync-options"], "ServerSideApply=true", "{kind}");
    }
}

#[test]
fn the_limits_are_those_of_coderd_and_kubernetes() {
    let (control_plane, provisioner, proxy) = (control_plane(), provisioner(), workspace_proxy());
    assert_eq!(property(&provisioner, "spec.key.name")["maxLength"], 64);
    assert_eq!(property(&provisioner, "spec.key.secretName")["maxLength"], 253);
    assert_eq!(property(&provisioner, "spec.organizationName")["maxLength"], 32);
    assert_eq!(property(&provisioner, "status.key.retiring")["maxItems"], 6);
    for crd in [&control_plane, &provisioner, &proxy] {
        assert_eq!(property(crd, "spec.replicas")["minimum"], 0.0);
    }
    for crd in [&control_plane, &proxy] {
        let port = property(crd, "spec.service.port");
        assert_eq!((port["minimum"].as_f64(), port["maximum"].as_f64()), (Some(1.0), Some(65535.0)));
    }
    assert_eq!(property(&control_plane, "spec.expose.gateway.parentRefs")["minItems"], 1);
}

#[test]
fn the_rules_say_what_manifests_were_always_told() {
    let message =
        |crd: &Value, path: &str| property(crd, path)["x-kubernetes-validations"][0]["message"].clone();
    assert_eq!(message(&control_plane(), "spec.expose"), "only one of ingress or gateway may be set");
    let env_from = "each envFrom entry may specify at most one of configMapRef or secretRef";
    for crd in [control_plane(), provisioner(), workspace_proxy()] {
        assert_eq!(message(&crd, "spec.envFrom"), env_from);
    }
}

#[test]
fn the_rules_name_exactly_the_reserved_words() {
    let words = |crd: &Value, path: &str| -> Vec<String> {
        let rule = property(crd, path)["x-kubernetes-validations"][0]["rule"].as_str().unwrap().to_owned();
        rule.split('\'').skip(1).step_by(2).map(str::to_owned).collect()
    };
    assert_eq!(words(&provisioner(), "spec.key.name"), reserved::KEYS);
    assert_eq!(words(&provisioner(), "spec.organizationName"), reserved::ORGANIZATIONS);
    for place in ["bootstrap", "registration"] {
        assert_eq!(words(&workspace_proxy(), &format!("spec.{place}.proxyName")), reserved::PROXIES);
    }
}

#[test]
fn quantities_keep_their_pattern() {
    for crd in [control_plane(), provisioner(), workspace_proxy()] {
        for path in ["spec.resources.limits", "spec.resources.requests"] {
            let quantity = &property(&crd, path)["additionalProperties"];
            let pattern = quantity["pattern"].as_str();
            assert!(pattern.is_some_and(|pattern| pattern.contains("KMGTPE")), "{quantity}");
        }
    }
}

#[test]
fn lists_with_owners_are_keyed_as_in_the_core_api() {
    let keyed = [
        ("spec.hostAliases", json!(["ip"])),
        ("spec.imagePullSecrets", json!(["name"])),
        ("spec.initContainers", json!(["name"])),
        ("spec.volumes", json!(["name"])),
        ("spec.volumeMounts", json!(["mountPath"])),
        ("spec.topologySpreadConstraints", json!(["topologyKey", "whenUnsatisfiable"])),
    ];
    for crd in [control_plane(), provisioner(), workspace_proxy()] {
        for (path, keys) in &keyed {
            assert_eq!(property(&crd, path)["x-kubernetes-list-map-keys"], *keys, "{path}");
        }
    }
}

#[test]
fn the_kinds_that_run_pods_say_the_same_about_them() {
    let fields = |crd: &Value| property(crd, "spec")["properties"].as_object().unwrap().clone();
    let of_control_plane = fields(&control_plane());
    // What each says in its own words, or means something of its own by.
    let own =
        ["extraArgs", "extraEnv", "image", "metrics", "rbac", "replicas", "terminationGracePeriodSeconds"];
    let of_servers = ["service", "tls", "expose", "readinessProbe", "livenessProbe", "startupProbe"];
    for (of_other, own) in [
        (fields(&provisioner()), own.to_vec()),
        (fields(&workspace_proxy()), [&own[..], &of_servers].concat()),
    ] {
        let shared: Vec<&String> =
            of_control_plane.keys().filter(|name| of_other.contains_key(*name)).collect();
        assert!(shared.len() > 20, "{shared:?}");
        for name in shared.into_iter().filter(|name| !own.contains(&name.as_str())) {
            assert_eq!(of_control_plane[name], of_other[name], "{name}");
        }
    }
}

#[test]
fn the_kinds_that_serve_are_exposed_in_the_same_words() {
    let below = |crd: &Value, path: &str| property(crd, path)["properties"].clone();
    for path in ["spec.service", "spec.tls", "spec.expose", "spec.readinessProbe", "spec.metrics"] {
        assert_eq!(below(&control_plane(), path), below(&workspace_proxy(), path), "{path}");
    }
}

#[test]
fn the_environment_is_a_list_without_keys_so_that_a_doubled_name_reaches_admission() {
    for (kind, crd) in kinds() {
        let environment = property(&crd, "spec.extraEnv");
        assert_eq!(environment["x-kubernetes-list-type"], json!("atomic"), "{kind}");
        assert!(environment.get("x-kubernetes-list-map-keys").is_none(), "{kind}");
    }
}
