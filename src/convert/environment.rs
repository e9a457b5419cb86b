//! Decides what the environment of a release becomes: variables that have a field of ours go there, the others are carried.
//! Never looks into a Secret or a ConfigMap.

use super::values::Values;
use serde_json::{Map, Value, json};

/// The variables of a release, each once.
pub(super) struct Environment(Vec<Value>);

impl Environment {
    /// Takes `coder.env`. Of two of one name the last counts, as in a pod.
    pub(super) fn take(values: &mut Values) -> Self {
        let mut kept: Vec<Value> = Vec::new();
        for (index, variable) in values.take_list("coder.env").into_iter().enumerate() {
            let Some(name) = variable["name"].as_str() else {
                let path = format!("coder.env[{index}]");
                values.not_carried(&path, "it has no name", "give it one and convert again");
                continue;
            };
            if let Some(at) = kept.iter().position(|earlier| earlier["name"] == name) {
                kept.remove(at);
                let path = format!("coder.env[{index}]");
                let why = format!("{name} was given before, and the last one counts");
                values.not_carried(&path, &why, "remove the one that is not meant");
            }
            kept.push(variable);
        }
        Self(kept)
    }

    /// Takes a variable out.
    pub(super) fn remove(&mut self, name: &str) -> Option<Value> {
        let at = self.0.iter().position(|variable| variable["name"] == name)?;
        Some(self.0.remove(at))
    }

    /// Takes a variable out if it has a plain value.
    pub(super) fn remove_value(&mut self, name: &str) -> Option<String> {
        let value = self.value(name)?.to_owned();
        self.remove(name);
        Some(value)
    }

    /// The plain value of a variable.
    pub(super) fn value(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|variable| variable["name"] == name)?["value"].as_str()
    }

    /// Adds a variable.
    pub(super) fn add(&mut self, variable: Value) {
        self.0.push(variable);
    }

    /// Turns the switch for metrics into the field, which opens the port too. Returns whether they are on.
    pub(super) fn remove_metrics(&mut self, values: &mut Values) -> bool {
        let is_on = self.value("CODER_PROMETHEUS_ENABLE") == Some("true");
        if !is_on {
            return false;
        }
        self.remove("CODER_PROMETHEUS_ENABLE");
        values.left_to_do(
            "coder.env[CODER_PROMETHEUS_ENABLE]",
            "it became spec.metrics, and the port of the pods is named `prometheus`",
            "change what scrapes a port named `prometheus-http`, or have spec.metrics make the monitor",
        );
        true
    }

    /// What the chart sets where the values are silent, and ours does not.
    pub(super) fn add_profiler_address(&mut self) {
        let (enable, address) = ("CODER_PPROF_ENABLE", "CODER_PPROF_ADDRESS");
        if self.value(enable) == Some("true") && !self.0.iter().any(|variable| variable["name"] == address) {
            self.add(json!({ "name": address, "value": "0.0.0.0:6060" }));
        }
    }

    /// Writes what is left.
    pub(super) fn write(self, spec: &mut Map<String, Value>) {
        if !self.0.is_empty() {
            spec.insert("extraEnv".to_owned(), Value::Array(self.0));
        }
    }
}
