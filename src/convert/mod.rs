//! Decides what the values of Coder's Helm charts become: an object of ours, what else the release brought, and a list of what
//! has no place in them. Never reads a cluster or a chart, and never drops a value without saying so.

mod chart;
mod command;
mod environment;
mod exposure;
mod object;
mod pods;
mod values;

pub(crate) use command::{Command, run};

use clap::ValueEnum;
use serde_json::{Value, json};
use thiserror::Error;
use values::Values;
use webhooks::text::LABEL;

/// The chart whose values are read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Chart {
    /// `coder/coder`: a control plane or, with `workspaceProxy: true`, a workspace proxy.
    #[default]
    Coder,
    /// `coder/coder-provisioner`: provisioner daemons.
    Provisioner,
}

/// What the values themselves do not say.
#[derive(Clone, Debug, Default)]
pub(crate) struct Release {
    /// The chart.
    pub chart: Chart,
    /// Name of the object; without one that of the chart's own objects.
    pub name: Option<String>,
    /// Its namespace, if it is to be written down.
    pub namespace: Option<String>,
    /// Version of the chart, which is that of the image where the values name no tag.
    pub chart_version: Option<String>,
    /// The control plane that provisioner daemons belong to.
    pub control_plane: String,
}

/// Something to be told of a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Told {
    /// The value, as `coder.service.type`.
    pub value: String,
    /// Why it is told.
    pub why: String,
    /// What to do.
    pub instead: String,
}

/// What the values became.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Converted {
    /// The object of ours, then what else the release brought.
    pub objects: Vec<Value>,
    /// What has no place in them.
    pub not_carried: Vec<Told>,
    /// What is carried and needs a hand.
    pub to_do: Vec<Told>,
}

/// Why nothing was converted.
#[derive(Debug, Error, PartialEq, Eq)]
pub(crate) enum ConvertError {
    /// The document is a list or a scalar.
    #[error("cannot convert the values: they are no mapping, as a values.yaml of Helm is")]
    NoMapping,
    /// A manifest was given in place of values.
    #[error(
        "cannot convert {0}: it is a manifest, and the values of a Helm chart are wanted (`helm get values RELEASE`)"
    )]
    Manifest(String),
    /// The values of the other chart were given.
    #[error(
        "cannot convert provisionerDaemon.{0}: it is a value of the chart coder-provisioner; give --chart=provisioner"
    )]
    OtherChart(&'static str),
    /// No namespace can have this name.
    #[error(
        "cannot write the namespace {0}: a namespace is lower-case letters, digits and dashes; correct --namespace"
    )]
    Namespace(String),
}

/// What the chart for provisioners has below `provisionerDaemon`, and the other one does not.
const OF_PROVISIONERS: [&str; 3] = ["keySecretName", "keySecretKey", "tags"];

/// Converts the values of a release.
pub(crate) fn helm_values(values: &Value, release: &Release) -> Result<Converted, ConvertError> {
    let Value::Object(keys) = values else { return Err(ConvertError::NoMapping) };
    if let (Some(Value::String(_)), Some(Value::String(kind))) = (keys.get("apiVersion"), keys.get("kind")) {
        return Err(ConvertError::Manifest(kind.clone()));
    }
    if let Some(namespace) = release.namespace.as_ref().filter(|name| !LABEL.matches(name)) {
        return Err(ConvertError::Namespace(namespace.clone()));
    }
    let daemons = keys.get("provisionerDaemon").filter(|_| release.chart == Chart::Coder);
    if let Some(key) =
        OF_PROVISIONERS.into_iter().find(|key| daemons.is_some_and(|all| all.get(key).is_some()))
    {
        return Err(ConvertError::OtherChart(key));
    }
    let mut values = Values::new(values);
    let ours = match release.chart {
        Chart::Provisioner => object::provisioner(&mut values, release),
        Chart::Coder if values.take_bool("coder.workspaceProxy") == Some(true) => {
            object::workspace_proxy(&mut values, release)
        }
        Chart::Coder => object::control_plane(&mut values, release),
    };
    let mut objects = vec![ours];
    objects.extend(extra_objects(&mut values));
    chart::refuse_what_has_no_place(&mut values);
    let (not_carried, to_do) = values.told();
    Ok(Converted { objects, not_carried, to_do })
}

/// Objects that came with the release. Helm fills in templates first, so that those are printed by Helm alone.
fn extra_objects(values: &mut Values) -> Vec<Value> {
    let mut objects = Vec::new();
    for (index, extra) in values.take_list("extraTemplates").into_iter().enumerate() {
        if extra.is_object() && !extra.to_string().contains("{{") {
            objects.push(extra);
        } else {
            values.not_carried(
                &format!("extraTemplates[{index}]"),
                "it is a template, which Helm alone can fill in",
                "take the object from `helm get manifest RELEASE` and apply it yourself",
            );
        }
    }
    objects
}

/// An object of ours.
fn object(kind: &str, release: &Release, default_name: &str, spec: Value) -> Value {
    let mut metadata = json!({ "name": release.name.as_deref().unwrap_or(default_name) });
    if let Some(namespace) = &release.namespace {
        metadata["namespace"] = json!(namespace);
    }
    let api_version = format!("{}/{}", crds::well_known::GROUP, crds::well_known::VERSION);
    json!({ "apiVersion": api_version, "kind": kind, "metadata": metadata, "spec": spec })
}

#[cfg(test)]
mod tests;
