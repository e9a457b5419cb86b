//! Decides how the fields of one object level are shown: a table, then a section for each level below it.
//! It never opens a type of the core API: it names the type and links to its documentation.

use super::{ManifestError, cell, code, core_types};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    JSON, JSONSchemaProps, JSONSchemaPropsOrArray, JSONSchemaPropsOrBool, ValidationRule,
};

/// An object and where it stands, for example `spec.certs.secrets[]`.
pub(super) struct Level<'a> {
    path: String,
    /// The field of that path, which may be a list or a map of the object.
    field: &'a JSONSchemaProps,
    depth: Depth,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Depth {
    Top,
    Below,
}

impl<'a> Level<'a> {
    /// `spec` or `status`.
    pub(super) fn top(name: &str, field: &'a JSONSchemaProps) -> Self {
        Self { path: name.to_owned(), field, depth: Depth::Top }
    }

    /// The section of this level and of all levels below it, outermost first.
    pub(super) fn sections(&self, kind: &str) -> Result<String, ManifestError> {
        let mut text = self.heading();
        text.push_str("| Field | Type | Meaning |\n|---|---|---|\n");
        for (name, property) in self.properties() {
            text.push_str(&self.row(kind, name, property)?);
        }
        for level in self.below() {
            text.push_str(&level.sections(kind)?);
        }
        Ok(text)
    }

    fn heading(&self) -> String {
        let mark = if self.depth == Depth::Top { "##" } else { "###" };
        let mut text = format!("\n<a id=\"{}\"></a>\n\n{mark} `{}`\n\n", anchor(&self.path), self.path);
        if let Some(description) = &self.field.description {
            text.push_str(&format!("{}\n\n", cell(description)));
        }
        if let Some(default) = &self.field.default {
            text.push_str(&format!("Default in the schema: {}.\n\n", code(&default.0.to_string())));
        }
        let rules = rules(self.field).chain(items(self.field).into_iter().flat_map(rules));
        for rule in rules {
            text.push_str(&format!("- Rule: {}.\n  `{}`\n", explained(rule), rule.rule));
        }
        if !text.ends_with("\n\n") {
            text.push('\n');
        }
        text
    }

    fn properties(&self) -> impl Iterator<Item = (&'a str, &'a JSONSchemaProps)> + use<'a> {
        let object = items(self.field).unwrap_or(self.field);
        object.properties.iter().flatten().map(|(name, property)| (name.as_str(), property))
    }

    fn below(&self) -> impl Iterator<Item = Self> {
        let opened = |(name, _): &(&str, &JSONSchemaProps)| !core_types::is_core(name);
        self.properties().filter(opened).filter_map(|(name, field)| {
            let object = items(field).unwrap_or(field);
            object.properties.as_ref()?;
            Some(Self { path: self.path_of(name, field), field, depth: Depth::Below })
        })
    }

    /// Where the object of a field stands: `[]` for each item of a list, `{}` for each value of a map.
    fn path_of(&self, name: &str, field: &JSONSchemaProps) -> String {
        let each = match (&field.items, &field.additional_properties) {
            (Some(_), _) => "[]",
            (None, Some(JSONSchemaPropsOrBool::Schema(_))) => "{}",
            _ => "",
        };
        format!("{}.{name}{each}", self.path)
    }

    fn row(&self, kind: &str, name: &str, field: &JSONSchemaProps) -> Result<String, ManifestError> {
        let object = items(self.field).unwrap_or(self.field);
        let required = object.required.iter().flatten().any(|required| required == name);
        let type_ = if core_types::is_core(name) {
            let place = || ManifestError::UnknownCoreType(format!("{kind} {}.{name}", self.path));
            collection(field, &core_types::link(name).ok_or_else(place)?)
        } else {
            collection(field, &self.plain_type(name, field))
        };
        let mut meaning = vec![cell(field.description.as_deref().unwrap_or_default())];
        meaning.extend(required.then(|| "**Required.**".to_owned()));
        meaning.extend(sentence(&limits(field)));
        // A level below has a section of its own, which shows them in full.
        let has_section = items(field).unwrap_or(field).properties.is_some() && !core_types::is_core(name);
        meaning
            .extend(rules(field).filter(|_| !has_section).map(|rule| format!("Rule: {}.", explained(rule))));
        meaning.retain(|part| !part.is_empty());
        Ok(format!("| `{name}` | {type_} | {} |\n", meaning.join("<br>")))
    }

    /// The type of a field that is not of the core API, or of its items.
    fn plain_type(&self, name: &str, field: &JSONSchemaProps) -> String {
        let single = items(field).unwrap_or(field);
        if single.properties.is_some() {
            return format!("[object](#{})", anchor(&self.path_of(name, field)));
        }
        if single.x_kubernetes_int_or_string == Some(true) {
            return "integer or string".to_owned();
        }
        let named = single.type_.as_deref().unwrap_or("any");
        match single.format.as_deref() {
            Some("date-time") => "time (RFC 3339)".to_owned(),
            Some(format) => format!("{named} ({format})"),
            None => named.to_owned(),
        }
    }
}

/// Says whether there is one of it, a list or a map.
fn collection(field: &JSONSchemaProps, of: &str) -> String {
    match (&field.items, &field.additional_properties) {
        (Some(_), _) => format!("list of {of}"),
        (None, Some(JSONSchemaPropsOrBool::Schema(_))) => format!("map of {of}"),
        _ => of.to_owned(),
    }
}

/// What a list or a map holds.
fn items(field: &JSONSchemaProps) -> Option<&JSONSchemaProps> {
    match (&field.items, &field.additional_properties) {
        (Some(JSONSchemaPropsOrArray::Schema(inner)), _) => Some(inner),
        (None, Some(JSONSchemaPropsOrBool::Schema(inner))) => Some(inner),
        _ => None,
    }
}

/// An explicit anchor: renderers do not agree on what a dot in a heading becomes.
fn anchor(path: &str) -> String {
    path.replace("[]", "").replace("{}", "").replace('.', "-").to_lowercase()
}

fn rules(field: &JSONSchemaProps) -> impl Iterator<Item = &ValidationRule> {
    field.x_kubernetes_validations.iter().flatten()
}

fn explained(rule: &ValidationRule) -> String {
    cell(rule.message.as_deref().unwrap_or("the rule must hold"))
}

/// Limits in one sentence, if there are any.
fn sentence(limits: &[String]) -> Option<String> {
    let joined = limits.join("; ");
    let mut letters = joined.chars();
    let first = letters.next()?;
    Some(format!("{}{}.", first.to_ascii_uppercase(), letters.as_str()))
}

/// What a value must keep to, each in a few words; a list also says it for its items.
fn limits(field: &JSONSchemaProps) -> Vec<String> {
    let mut limits = bounds(field);
    if let Some(inner) = items(field) {
        limits.extend(bounds(inner).into_iter().map(|limit| format!("each: {limit}")));
    }
    let keys = field.x_kubernetes_list_map_keys.iter().flatten().map(|key| code(key)).collect::<Vec<_>>();
    if !keys.is_empty() {
        limits.push(format!("one entry for each {}", keys.join(" and ")));
    }
    limits
}

fn bounds(field: &JSONSchemaProps) -> Vec<String> {
    let values = |values: &Vec<JSON>| {
        let named = values.iter().map(|value| code(value.0.as_str().unwrap_or_default()));
        format!("one of {}", named.collect::<Vec<_>>().join(", "))
    };
    let default = field
        .default
        .as_ref()
        .map(|default| format!("default in the schema {}", code(&default.0.to_string())));
    [
        field.enum_.as_ref().map(values),
        field.minimum.map(|least| format!("at least {least}")),
        field.maximum.map(|most| format!("at most {most}")),
        field.min_length.map(|least| format!("at least {}", counted(least, "character"))),
        field.max_length.map(|most| format!("at most {}", counted(most, "character"))),
        field.min_items.map(|least| format!("at least {}", counted(least, "item"))),
        field.max_items.map(|most| format!("at most {}", counted(most, "item"))),
        field.max_properties.map(|most| format!("at most {}", counted(most, "key"))),
        field.pattern.as_ref().map(|pattern| format!("matches {}", code(pattern))),
        default,
    ]
    .into_iter()
    .flatten()
    .collect()
}

fn counted(count: i64, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}
