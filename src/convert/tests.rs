//! What values become, by example; that the results pass lint is shown by tests/packaging.

use super::*;

fn release() -> Release {
    Release { control_plane: "coder".to_owned(), ..Default::default() }
}

fn converted(values: Value) -> Converted {
    helm_values(&values, &release()).unwrap()
}

fn spec(values: Value) -> Value {
    converted(values).objects[0]["spec"].clone()
}

/// The paths of what is told.
fn paths(told: &[Told]) -> Vec<&str> {
    told.iter().map(|told| told.value.as_str()).collect()
}

fn provisioner(values: Value) -> Converted {
    helm_values(&values, &Release { chart: Chart::Provisioner, ..release() }).unwrap()
}

#[test]
fn defaults_of_the_chart_that_differ_from_ours_are_written_down() {
    let release = Release { chart_version: Some("2.36.1".to_owned()), ..release() };
    let Converted { objects, not_carried, to_do } = helm_values(&json!({}), &release).unwrap();
    let both = json!({ "cpu": "2000m", "memory": "4096Mi" });
    let spec = json!({ "image": "ghcr.io/coder/coder:v2.36.1", "replicas": 1,
        "service": { "type": "LoadBalancer" }, "resources": { "limits": both, "requests": both } });
    let object = json!({ "apiVersion": "coder.com/v1alpha1", "kind": "CoderControlPlane",
        "metadata": { "name": "coder" }, "spec": spec });
    assert_eq!(objects, [object]);
    assert_eq!((not_carried, to_do), (vec![], vec![]));
}

#[test]
fn a_version_that_nobody_names_is_told_and_not_guessed() {
    let converted = converted(json!({ "coder": { "image": { "repo": "mirror/coder" } } }));
    assert_eq!(converted.objects[0]["spec"].get("image"), None);
    assert_eq!(paths(&converted.not_carried), ["coder.image.tag"]);
}

#[test]
fn nothing_is_dropped_without_a_word() {
    let values = json!({ "coder": { "image": { "tag": "v2.36.1" }, "newThing": { "enabled": true, "size": 3 },
        "service": { "type": "ClusterIP", "sessionAffinity": "ClientIP" }, "env": { "A": "b" },
        "annotations": { "a": "b" }, "command": ["/bin/other"], "commandArgs": ["other"] },
        "global": { "registry": "x" } });
    let mut told = converted(values).not_carried;
    told.sort_by(|one, other| one.value.cmp(&other.value));
    assert_eq!(
        paths(&told),
        [
            "coder.annotations",
            "coder.command",
            "coder.commandArgs",
            "coder.env",
            "coder.newThing.enabled",
            "coder.newThing.size",
            "coder.service.sessionAffinity",
            "global.registry",
        ]
    );
    assert!(told.iter().all(|told| !told.why.is_empty() && !told.instead.is_empty()));
}

#[test]
fn what_says_nothing_is_not_told() {
    let values = json!({ "coder": { "image": { "tag": "v2.36.1", "pullPolicy": "IfNotPresent" }, "env": [],
        "command": ["/opt/coder"], "commandArgs": [], "annotations": {}, "newThing": null,
        "service": { "enable": true, "sessionAffinity": "None", "externalTrafficPolicy": "Cluster",
            "httpNodePort": "", "loadBalancerIP": "" },
        "ingress": { "enable": false, "host": "left.example.com", "tls": { "enable": false } },
        "httproute": { "enable": false, "parentRefs": [] }, "listenerset": { "enable": false, "listeners": [1] },
        "tolerations": {}, "securityContext": { "readOnlyRootFilesystem": null },
        "affinity": { "podAntiAffinity": { "preferredDuringSchedulingIgnoredDuringExecution": [{ "weight": 1,
            "podAffinityTerm": { "topologyKey": "kubernetes.io/hostname", "labelSelector": { "matchExpressions":
                [{ "key": "app.kubernetes.io/instance", "operator": "In", "values": ["coder"] }] } } }] } } },
        "provisionerDaemon": { "pskSecretName": "" }, "extraTemplates": null });
    let converted = converted(values);
    assert_eq!((paths(&converted.not_carried), paths(&converted.to_do)), (vec![], vec![]));
    let spec = converted.objects[0]["spec"].as_object().unwrap().clone();
    let fields: Vec<&String> = spec.keys().collect();
    assert_eq!(fields, ["image", "replicas", "resources", "service"]);
}

#[test]
fn variables_that_have_a_field_go_there_and_the_others_are_carried() {
    let url = json!({ "name": "CODER_ACCESS_URL", "value": "https://coder.example.com" });
    let values = json!({ "coder": { "image": { "tag": "v1" }, "env": [url,
        { "name": "CODER_PROMETHEUS_ENABLE", "value": "true" }, { "name": "CODER_PPROF_ENABLE", "value": "true" }] },
        "provisionerDaemon": { "pskSecretName": "shared" } });
    let converted = converted(values);
    let psk = json!({ "name": "CODER_PROVISIONER_DAEMON_PSK",
        "valueFrom": { "secretKeyRef": { "name": "shared", "key": "psk" } } });
    let expected = json!([url, { "name": "CODER_PPROF_ENABLE", "value": "true" },
        { "name": "CODER_PPROF_ADDRESS", "value": "0.0.0.0:6060" }, psk]);
    assert_eq!(converted.objects[0]["spec"]["extraEnv"], expected);
    assert_eq!(converted.objects[0]["spec"]["metrics"], json!({ "enabled": true }));
    assert_eq!(paths(&converted.to_do), ["coder.env[CODER_PROMETHEUS_ENABLE]"]);
}

#[test]
fn of_a_variable_given_twice_the_last_counts_as_in_a_pod() {
    let values = json!({ "coder": { "image": { "tag": "v1" },
        "env": [{ "name": "A", "value": "first" }, { "name": "A", "value": "last" }] } });
    let converted = converted(values);
    assert_eq!(converted.objects[0]["spec"]["extraEnv"], json!([{ "name": "A", "value": "last" }]));
    assert_eq!(paths(&converted.not_carried), ["coder.env[1]"]);
}

#[test]
fn an_ingress_keeps_its_certificates_and_loses_what_no_host_can_have() {
    let ingress = json!({ "enable": true, "host": "coder.example.com", "wildcardHost": "*-apps.example.com",
        "className": "", "tls": { "enable": true, "secretName": "a", "wildcardSecretName": "b" } });
    let gateway =
        json!({ "enable": true, "host": "coder.example.com", "parentRefs": [{ "name": "gw", "port": 80 }] });
    let both =
        converted(json!({ "coder": { "image": { "tag": "v1" }, "ingress": ingress, "httproute": gateway } }));
    let expected = json!({ "ingress": { "host": "coder.example.com", "wildcardHost": "*.example.com",
        "tls": { "secretName": "a", "wildcardSecretName": "b" } } });
    assert_eq!(both.objects[0]["spec"]["expose"], expected);
    assert_eq!(paths(&both.not_carried), ["coder.httproute.parentRefs[0].port", "coder.httproute"]);
    let alone = spec(json!({ "coder": { "httproute": gateway } }));
    let expected = json!({ "gateway": { "host": "coder.example.com", "parentRefs": [{ "name": "gw" }] } });
    assert_eq!(alone["expose"], expected);
}

#[test]
fn namespaces_of_workspaces_are_named_and_have_to_agree() {
    let listed = json!([{ "name": "dev" }, { "name": "ops", "enableDeployments": false }]);
    for namespaces in [listed.clone(), json!({ "namespaces": listed })] {
        let account = json!({ "workspaceNamespaces": namespaces, "extraRules": [{ "verbs": ["get"] }] });
        let converted =
            converted(json!({ "coder": { "image": { "tag": "v1" }, "serviceAccount": account } }));
        let rbac = json!({ "workspaceNamespaces": ["dev", "ops"], "extraRules": [{ "verbs": ["get"] }] });
        assert_eq!(converted.objects[0]["spec"]["rbac"], rbac);
        assert_eq!(converted.to_do.len(), 2);
        assert_eq!(
            paths(&converted.not_carried),
            ["coder.serviceAccount.workspaceNamespaces[1].enableDeployments"]
        );
    }
}

#[test]
fn a_selector_of_the_charts_labels_is_told() {
    let spread = |value: &str| {
        json!({ "coder": { "image": { "tag": "v1" }, "topologySpreadConstraints":
        [{ "labelSelector": { "matchLabels": { "app.kubernetes.io/instance": value } } }] } })
    };
    assert_eq!(paths(&converted(spread("coder")).to_do), [""; 0], "the pods have this one");
    assert_eq!(paths(&converted(spread("release")).to_do), ["coder.topologySpreadConstraints"]);
}

#[test]
fn the_account_keeps_its_name_since_clouds_know_it_by_that() {
    let given = |name: &str| json!({ "coder": { "serviceAccount": { "name": name } } });
    assert_eq!(spec(given("robot"))["serviceAccount"], json!({ "name": "robot" }));
    assert_eq!(spec(given("coder")).get("serviceAccount"), None, "ours is named so anyway");
    let other = Release { name: Some("main".to_owned()), ..release() };
    let converted = helm_values(&json!({}), &other).unwrap();
    assert_eq!(converted.objects[0]["spec"]["serviceAccount"], json!({ "name": "coder" }));
}

#[test]
fn a_release_that_is_a_proxy_becomes_one() {
    let token = json!({ "name": "CODER_PROXY_SESSION_TOKEN",
        "valueFrom": { "secretKeyRef": { "name": "proxy", "key": "token" } } });
    let primary = json!({ "name": "CODER_PRIMARY_ACCESS_URL", "value": "https://coder.example.com" });
    let values = |token: Value| {
        json!({ "coder": { "workspaceProxy": true, "image": { "tag": "v1" },
        "env": [primary, token], "serviceAccount": { "workspacePerms": true } } })
    };
    let converted_proxy = converted(values(token));
    let object = &converted_proxy.objects[0];
    assert_eq!(object["kind"], "CoderWorkspaceProxy");
    assert_eq!(object["spec"]["primaryAccessURL"], "https://coder.example.com");
    assert_eq!(object["spec"]["proxySessionTokenSecretRef"], json!({ "name": "proxy", "key": "token" }));
    assert_eq!((object["spec"].get("rbac"), object["spec"].get("extraEnv")), (None, None));
    assert_eq!(converted_proxy.not_carried, []);
    let plain = converted(values(json!({ "name": "CODER_PROXY_SESSION_TOKEN", "value": "hunter2" })));
    assert_eq!(paths(&plain.not_carried), ["coder.env[CODER_PROXY_SESSION_TOKEN]"]);
    assert!(!format!("{plain:?}").contains("hunter2"), "a token is not printed");
}

#[test]
fn provisioners_get_a_key_from_the_operator_and_the_rights_that_the_chart_gives() {
    let values = json!({ "coder": { "env": [{ "name": "CODER_URL", "value": "https://coder.example.com" }] },
        "provisionerDaemon": { "keySecretName": "key", "keySecretKey": "key", "tags": { "on": "prem" } } });
    let converted = provisioner(values);
    let object = &converted.objects[0];
    assert_eq!(
        (&object["kind"], &object["metadata"]["name"]),
        (&json!("CoderProvisioner"), &json!("coder-provisioner"))
    );
    let spec = &object["spec"];
    assert_eq!(spec["controlPlaneRef"], json!({ "name": "coder" }));
    assert_eq!(spec["tags"], json!({ "on": "prem" }));
    assert_eq!(spec["rbac"], json!({ "enableDeployments": true }), "off in ours where nothing is said");
    assert_eq!(paths(&converted.not_carried), ["coder.env[CODER_URL]", "provisionerDaemon.keySecretName"]);
}

#[test]
fn objects_of_the_release_come_along_and_templates_do_not() {
    let secret = json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "a" } });
    let template =
        json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "{{ .Release.Name }}" } });
    let values =
        json!({ "coder": { "image": { "tag": "v1" } }, "extraTemplates": [secret, "a: {{ b }}", template] });
    let converted = converted(values);
    assert_eq!(converted.objects[1..], [secret]);
    assert_eq!(paths(&converted.not_carried), ["extraTemplates[1]", "extraTemplates[2]"]);
}

#[test]
fn a_command_is_told_of_a_namespace_that_there_can_be() {
    let namespaces = json!([{ "name": "dev" }, { "name": "dev; rm -rf ~ #" }, { "name": ["ops"] }]);
    let account = json!({ "workspaceNamespaces": namespaces });
    let converted = converted(json!({ "coder": { "image": { "tag": "v1" }, "serviceAccount": account } }));
    assert_eq!(converted.objects[0]["spec"]["rbac"]["workspaceNamespaces"], json!(["dev"]));
    let place = |index: usize| format!("coder.serviceAccount.workspaceNamespaces[{index}].name");
    assert_eq!(paths(&converted.to_do), [place(0)]);
    assert!(converted.to_do[0].instead.starts_with("kubectl label namespace dev coder.com/"));
    assert_eq!(paths(&converted.not_carried), [place(1), place(2)]);
}

#[test]
fn a_namespace_is_told_only_where_it_differs_from_all() {
    let namespaces = |name: &str, deployments: bool| json!([{ "name": name, "workspacePerms": true, "enableDeployments": deployments }]);
    let lost = |account: Value| {
        let values = json!({ "coder": { "image": { "tag": "v1" }, "serviceAccount": account } });
        paths(&converted(values).not_carried).len()
    };
    assert_eq!(lost(json!({ "workspaceNamespaces": namespaces("dev", true) })), 0, "that is what charts do");
    assert_eq!(lost(json!({ "workspaceNamespaces": namespaces("dev", false) })), 1);
    assert_eq!(
        lost(json!({ "enableDeployments": false, "workspaceNamespaces": namespaces("dev", false) })),
        0
    );
}

#[test]
fn values_of_the_other_chart_and_names_of_no_namespace_are_refused() {
    let values = json!({ "provisionerDaemon": { "tags": { "os": "linux" } } });
    assert_eq!(helm_values(&values, &release()).unwrap_err(), ConvertError::OtherChart("tags"));
    let nowhere = Release { namespace: Some("Coder_X".to_owned()), ..release() };
    let refused = helm_values(&json!({}), &nowhere).unwrap_err();
    assert!(refused.to_string().contains("--namespace"), "{refused}");
}

#[test]
fn something_else_than_values_is_refused() {
    let refused = |values: Value| helm_values(&values, &release()).unwrap_err();
    assert_eq!(refused(json!([1])), ConvertError::NoMapping);
    let manifest = json!({ "apiVersion": "v1", "kind": "Secret" });
    assert_eq!(refused(manifest), ConvertError::Manifest("Secret".to_owned()));
}
