//! Decides how an object looks once it is stored: with every default, as YAML.
//! Never decides a default: the engine does.

use super::engine::{self, Kind, Settings};
use super::objects::{self, Object};
use super::sources::Loaded;
use super::yaml::Flaw;
use serde::Serialize;
use serde_json::Value;
use thiserror::Error;

/// Prints what the operator creates from a complete object among all complete objects of the input, as it is configured, and
/// says what it had to assume. The reconcilers bring it.
pub(crate) type PrintChildren<'a> =
    &'a dyn Fn(&Value, &[Value], &Settings) -> Result<(Vec<Value>, Option<String>), String>;

/// Why nothing was rendered.
#[derive(Debug, Error)]
pub(super) enum RenderError {
    /// The input is not YAML.
    #[error("cannot read {0}, line {1}: {2}")]
    Parse(String, u32, String),
    /// Nothing of ours is in it.
    #[error("cannot find a CoderControlPlane, CoderProvisioner or CoderWorkspaceProxy in {0}")]
    NothingOfOurs(String),
    /// Nobody can print children yet.
    #[error("cannot print children: they come with the reconcilers, which this release does not have yet")]
    NoChildren,
    /// Whoever prints children failed.
    #[error("cannot print the children of {0}: {1}")]
    Children(String, String),
    /// The result has no YAML.
    #[error("cannot write {0} as YAML: {1}")]
    Write(String, String),
}

/// What is printed.
#[derive(Clone, Copy)]
pub(super) struct Choice<'a> {
    /// Every default in the object, instead of those that are stored.
    pub(super) resolved: bool,
    /// Who prints children, where they are wanted.
    pub(super) children: Option<Option<PrintChildren<'a>>>,
}

/// Every object of ours in the input, as YAML documents.
pub(super) fn render(
    loaded: &Loaded,
    settings: &Settings,
    choice: Choice<'_>,
) -> Result<String, RenderError> {
    for source in &loaded.sources {
        if let Some(Flaw { message, span, .. }) = source.stream.flaws.first() {
            return Err(RenderError::Parse(source.name.clone(), span.line, message.clone()));
        }
    }
    let objects = objects::collect(&loaded.sources);
    let ours: Vec<(Kind, &Object<'_>)> =
        objects.iter().filter_map(|object| Some((object.our_kind()?, object))).collect();
    let complete =
        |(kind, object): &(Kind, &Object<'_>)| engine::resolved(*kind, &object.node.to_value(), settings);
    // A child may follow from another object: an image, an address.
    let input: Vec<Value> =
        if choice.children.is_some() { ours.iter().map(complete).collect() } else { Vec::new() };
    let mut text = String::new();
    for (kind, object) in ours {
        text.push_str(&documents(kind, object, &input, settings, choice)?);
    }
    if text.is_empty() {
        let names: Vec<&str> = loaded.sources.iter().map(|source| source.name.as_str()).collect();
        return Err(RenderError::NothingOfOurs(names.join(", ")));
    }
    Ok(text)
}

fn documents(
    kind: Kind,
    object: &Object<'_>,
    input: &[Value],
    settings: &Settings,
    choice: Choice<'_>,
) -> Result<String, RenderError> {
    let value = object.node.to_value();
    let complete = engine::resolved(kind, &value, settings);
    if let Some(children) = choice.children {
        let print = children.ok_or(RenderError::NoChildren)?;
        let (children, assumed) = print(&complete, input, settings)
            .map_err(|error| RenderError::Children(object.title(), error))?;
        let mut text =
            assumed.map_or_else(String::new, |assumed| format!("# {}: {assumed}\n", object.title()));
        for child in &children {
            text.push_str(&document(&object.title(), child)?);
        }
        return Ok(text);
    }
    if choice.resolved {
        return document(&object.title(), &complete);
    }
    let stored = document(&object.title(), &engine::stored(kind, &value, settings))?;
    let in_force = engine::in_force(kind, &value, settings);
    Ok(format!("{stored}{}", comment(&object.title(), &in_force)?))
}

fn document(what: &str, value: &Value) -> Result<String, RenderError> {
    Ok(format!("---\n{}", yaml(what, value)?))
}

fn yaml(what: &str, value: &impl Serialize) -> Result<String, RenderError> {
    serde_saphyr::to_string(value).map_err(|error| RenderError::Write(what.to_owned(), error.to_string()))
}

/// The values in force where the stored object is silent.
fn comment(what: &str, in_force: &Value) -> Result<String, RenderError> {
    let mut text = "# In force, as status.resolved will say:\n".to_owned();
    for line in yaml(what, in_force)?.lines() {
        text.push_str(&format!("#   {line}\n"));
    }
    Ok(text)
}
