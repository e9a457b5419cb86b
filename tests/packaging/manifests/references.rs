//! References that Kubernetes itself does not know: those of cert-manager, Prometheus, Argo CD and Flux, and names of
//! Secrets that somebody makes at run time.

use super::built::Built;
use super::repository;
use serde_json::Value;
use std::collections::BTreeSet;

/// What other projects read in a build.
pub(super) struct Foreign<'a>(pub(super) &'a Built);

impl Foreign<'_> {
    /// References to what is not in the build and is made by nobody.
    pub(super) fn dangling(&self) -> Vec<String> {
        let mut found = Vec::new();
        for (kind, namespace, name) in self.references() {
            if !self.0.has(&kind, &namespace, &name) {
                found.push(format!("{kind} {namespace}/{name}"));
            }
        }
        let made = self.secrets_made();
        found.extend(self.secrets().filter(|name| !made.contains(name)).map(|name| format!("Secret {name}")));
        found.extend(self.selecting_nothing());
        found.extend(self.not_served());
        found.extend(self.looking_elsewhere());
        let paths = self.paths().filter(|path| !repository().join(path).join("kustomization.yaml").is_file());
        found.extend(paths.map(|path| format!("folder {path}")));
        found
    }

    fn references(&self) -> Vec<(String, Value, Value)> {
        let mut references = Vec::new();
        for object in &self.0.0 {
            let here = object["metadata"]["namespace"].clone();
            if let Some(from) = object["metadata"]["annotations"]["cert-manager.io/inject-ca-from"].as_str() {
                let (namespace, name) = from.split_once('/').expect("namespace/name");
                references.push(("Certificate".to_owned(), namespace.into(), name.into()));
            }
            let mut named =
                |kind: &str, name: &Value| references.push((kind.to_owned(), here.clone(), name.clone()));
            match object["kind"].as_str().unwrap() {
                "Certificate" => named("Issuer", &object["spec"]["issuerRef"]["name"]),
                "ServiceMonitor" => {
                    endpoints(object).for_each(|one| named("Service", &one["tlsConfig"]["serverName"]))
                }
                // The other project is the user's.
                "Application" if object["spec"]["project"] != "default" => {
                    named("AppProject", &object["spec"]["project"])
                }
                "Kustomization" => {
                    if object["spec"]["sourceRef"]["name"] != "flux-system" {
                        named("GitRepository", &object["spec"]["sourceRef"]["name"]);
                    }
                    list(&object["spec"]["dependsOn"]).for_each(|one| named("Kustomization", &one["name"]));
                }
                _ => {}
            }
            for name in list(&object["spec"]["dnsNames"]).filter_map(Value::as_str) {
                let mut parts = name.split('.');
                let (service, namespace) = (parts.next(), parts.next());
                let at = namespace.map_or_else(|| here.clone(), Value::from);
                references.push(("Service".to_owned(), at, service.into()));
            }
        }
        references
    }

    fn secrets(&self) -> impl Iterator<Item = String> {
        let of = |object: &Value| -> Vec<String> {
            let pod = &object["spec"]["template"]["spec"];
            let mounted = list(&pod["volumes"]).map(|volume| &volume["secret"]["secretName"]);
            let trusted = endpoints(object).map(|one| &one["tlsConfig"]["ca"]["secret"]["name"]);
            let names = mounted.chain(trusted).chain([&object["spec"]["ca"]["secretName"]]);
            names.filter_map(|name| name.as_str().map(str::to_owned)).collect()
        };
        self.0.0.iter().flat_map(of)
    }

    fn secrets_made(&self) -> BTreeSet<String> {
        let by_cert_manager =
            self.0.of_kind("Certificate").filter_map(|one| one["spec"]["secretName"].as_str());
        // In a build with cert-manager the operator makes none.
        let issued: BTreeSet<_> = by_cert_manager.map(str::to_owned).collect();
        if issued.is_empty() { [coder_k8s::serving::authority::SECRET.to_owned()].into() } else { issued }
    }

    /// Policies of the network that reach no pod, and monitors that reach no Service.
    fn selecting_nothing(&self) -> Vec<String> {
        let mut found = Vec::new();
        for policy in self.0.of_kind("NetworkPolicy") {
            let pods: Vec<_> =
                self.0.of_kind("Deployment").map(|deployment| &deployment["spec"]["template"]).collect();
            let reaches = |pod: &&Value| selects(&policy["spec"]["podSelector"], &pod["metadata"]["labels"]);
            // Where each role has pods of its own, a port is offered by some of them.
            let offered = |port: &Value| {
                let mut ports = pods.iter().flat_map(|pod| list(&pod["spec"]["containers"][0]["ports"]));
                ports.any(|offered| offered["name"] == port["port"])
            };
            let mut ports = list(&policy["spec"]["ingress"]).flat_map(|rule| list(&rule["ports"]));
            let fits = pods.is_empty() || (pods.iter().all(reaches) && ports.all(offered));
            if !fits {
                found.push(format!("NetworkPolicy {}", policy["metadata"]["name"]));
            }
        }
        for monitor in self.0.of_kind("ServiceMonitor") {
            let served = |endpoint: &Value| {
                let mut services = self.0.of_kind("Service");
                services.any(|service| {
                    selects(&monitor["spec"]["selector"], &service["metadata"]["labels"])
                        && list(&service["spec"]["ports"]).any(|port| port["name"] == endpoint["port"])
                })
            };
            if !endpoints(monitor).all(served) {
                found.push(format!("ServiceMonitor {}", monitor["metadata"]["name"]));
            }
        }
        found
    }

    /// Who answers admission by a certificate of its own where cert-manager writes another caBundle.
    fn not_served(&self) -> Vec<String> {
        let by_cert_manager =
            |object: &Value| object["metadata"]["annotations"]["cert-manager.io/inject-ca-from"].is_string();
        if !self.0.0.iter().any(by_cert_manager) {
            return Vec::new();
        }
        let external = serde_json::json!({ "name": "CODER_K8S_WEBHOOK_CA", "value": "external" });
        let is_external = |deployment: &&Value| {
            let pod = &deployment["spec"]["template"]["spec"];
            let mounted = list(&pod["volumes"]).any(|volume| volume["secret"]["secretName"].is_string());
            mounted && list(&pod["containers"][0]["env"]).any(|variable| *variable == external)
        };
        let deployments = self.0.of_kind("Deployment").filter(|one| !is_external(one));
        deployments.map(|one| format!("certificate of {}", one["metadata"]["name"])).collect()
    }

    /// Alerts about another namespace than the one they are in.
    fn looking_elsewhere(&self) -> Vec<String> {
        let mut found = Vec::new();
        for rules in self.0.of_kind("PrometheusRule") {
            let here = rules["metadata"]["namespace"].as_str().unwrap_or_default();
            for rule in list(&rules["spec"]["groups"]).flat_map(|group| list(&group["rules"])) {
                let asked = rule["expr"].as_str().unwrap_or_default();
                let selected: Vec<_> = asked.split("{namespace=\"").skip(1).collect();
                if selected.is_empty() || !selected.iter().all(|rest| rest.starts_with(&format!("{here}\"")))
                {
                    found.push(format!("PrometheusRule {asked}"));
                }
            }
        }
        found
    }

    /// Folders of this repository that Flux and Argo CD are sent to.
    fn paths(&self) -> impl Iterator<Item = String> {
        let ours = |object: &&Value| {
            let spec = &object["spec"];
            let of_others = |name: &str| name == "flux-system" || name.ends_with("cloudnative-pg");
            spec["sourceRef"]["name"].as_str().is_some_and(|name| !of_others(name))
                || spec["project"].as_str().is_some_and(|project| project != "default")
        };
        let path = |object: &Value| {
            let spec = &object["spec"];
            spec["path"].as_str().or_else(|| spec["source"]["path"].as_str()).unwrap_or_default().to_owned()
        };
        self.0.0.iter().filter(ours).map(path)
    }
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

fn endpoints(object: &Value) -> impl Iterator<Item = &Value> {
    list(&object["spec"]["endpoints"])
}

fn selects(selector: &Value, labels: &Value) -> bool {
    let wanted = selector["matchLabels"].as_object().expect("a selector");
    !wanted.is_empty() && wanted.iter().all(|(key, value)| labels[key] == *value)
}
