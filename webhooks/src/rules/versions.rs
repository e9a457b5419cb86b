//! Decides whether another image takes coderd back to an earlier version.
//! Never asks a registry: only tags that say which version they are can be compared.

use crds::well_known::annotation::ALLOW_DOWNGRADE;
use serde_json::Value;

use super::{Check, Layer, NO_CEL, Problem, Rule, Severity, Subject, When};
use crate::cause::{Cause, CauseReason};
use crate::field;
use crate::kind::Kind;

pub(super) static RULES: &[Rule] = &[Rule {
    code: "CODER0221",
    title: "The version of a control plane does not go back",
    // Provisioners and proxies have no database: they may go back.
    kinds: &[Kind::ControlPlane],
    fields: &["spec.image"],
    severity: Severity::Deny,
    when: When::Change,
    layers: &[Layer::Webhook],
    check: Check::Object { find: lower_version, cel: NO_CEL },
    fix: "keep the version; if its database has been restored too, name the lower version in the annotation \
          coder.com/allow-downgrade",
    why: "A newer coderd changes its database when it starts, and there is no way back: an older one does not start \
          on it. Tags such as v2.36.1 or 2.36.1 are compared, in whatever repository the images are; others say nothing \
          about their version. The operator also compares with the Deployment that runs, keeps its image and says so \
          in the condition SpecAccepted. The annotation allows the one version it names, for example v2.35.0.",
    bad: "spec:\n  image: ghcr.io/coder/coder:v2.35.0   # was: v2.36.1",
    good: "spec:\n  image: ghcr.io/coder/coder:v2.36.1",
}];

/// Major, minor and patch of a release of Coder.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Version([u32; 3]);

impl Version {
    /// The version that the tag of an image names: `v2.36.1` or `2.36.1`, also with more behind it, as in
    /// `v2.36.1-rc.0`.
    fn of_image(image: &str) -> Option<Self> {
        let (named, _digest) = image.split_once('@').unwrap_or((image, ""));
        let last = named.rsplit('/').next()?;
        let (_, tag) = last.split_once(':')?;
        Self::parse(tag)
    }

    fn parse(text: &str) -> Option<Self> {
        let release = text.strip_prefix('v').unwrap_or(text).split('-').next()?;
        let number = |part: &str| {
            let digits = part.bytes().all(|byte| byte.is_ascii_digit());
            part.parse().ok().filter(|_| digits)
        };
        let mut numbers = release.split('.').map(number);
        let version = [numbers.next()??, numbers.next()??, numbers.next()??];
        numbers.next().is_none().then_some(Self(version))
    }
}

impl std::fmt::Display for Version {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self([major, minor, patch]) = self;
        write!(formatter, "v{major}.{minor}.{patch}")
    }
}

fn lower_version(subject: &Subject<'_>) -> Vec<Problem> {
    let old = subject.old.and_then(|old| field::text_at(old, "spec.image"));
    old.and_then(|old| lower_than(old, subject.object)).into_iter().collect()
}

/// What is wrong with the image of an object after this one; nothing if it may follow.
fn lower_than(image: &str, object: &Value) -> Option<Problem> {
    let (old, new) = (Version::of_image(image)?, Version::of_image(field::text_at(object, "spec.image")?)?);
    if new >= old || allowed(object) == Some(new) {
        return None;
    }
    let problem = format!("{new} is lower than {old}, which has already changed the database");
    let fix = format!("keep {old}; if its database has been restored too, annotate {ALLOW_DOWNGRADE}: {new}");
    Some(Problem::invalid("spec.image", problem).because(CauseReason::Forbidden).fixed_by(fix))
}

/// What is wrong with an object that wants a lower version than the image that runs; nothing if it does not, or if its
/// annotation allows it.
pub fn downgrade(runs: &str, object: &Value) -> Option<Cause> {
    Some(Cause::new(RULES.first()?, lower_than(runs, object)?))
}

/// The version the annotation names, with or without its `v`.
fn allowed(object: &Value) -> Option<Version> {
    let named = field::at(object, "metadata.annotations")?.get(ALLOW_DOWNGRADE)?.as_str()?.trim();
    Version::parse(named)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn found(old: &str, new: &str, annotation: Option<&str>) -> usize {
        let annotations = annotation.map(|value| json!({ ALLOW_DOWNGRADE: value }));
        let object = json!({"metadata": {"annotations": annotations}, "spec": {"image": new}});
        let old = json!({"spec": {"image": old}});
        lower_version(&Subject { kind: Kind::ControlPlane, object: &object, old: Some(&old) }).len()
    }

    #[test]
    fn a_lower_version_is_found_whatever_the_repository_is() {
        for (old, new) in [
            ("coder:v2.36.1", "coder:v2.36.0"),
            ("coder:v2.36.1", "coder:v2.9.9"),
            ("coder:v10.0.0", "coder:v9.9.9"),
            ("ghcr.io/coder/coder:v2.36.1", "registry:5000/mirror/coder:v2.35.0"),
            ("coder:v2.37.0-rc.0", "coder:v2.36.1"),
            ("coder:v2.36.1@sha256:aa", "coder:v2.35.1@sha256:bb"),
            ("coder:v2.36.1", "mirror/coder:2.35.0"),
            ("mirror/coder:2.36.1", "coder:v2.35.0"),
        ] {
            assert_eq!(found(old, new, None), 1, "{old} -> {new}");
            assert_eq!(found(new, old, None), 0, "{new} -> {old}");
        }
    }

    #[test]
    fn what_cannot_be_compared_is_not_judged() {
        for other in
            ["coder", "coder:latest", "coder:v2.36", "coder:v2.36.1.1", "coder:vv2.1.1", "coder:v+2.1.1", ""]
        {
            assert_eq!(
                found("coder:v2.36.1", other, None) + found(other, "coder:v2.0.0", None),
                0,
                "{other}"
            );
        }
        assert_eq!(found("registry:v9.0.0/coder", "coder:v2.0.0", None), 0, "a port is no tag");
        assert_eq!(found("coder:v2.36.1", "coder:v2.36.1-fixed", None), 0);
    }

    #[test]
    fn the_annotation_allows_the_version_it_names_and_no_other() {
        for named in ["v2.35.0", "2.35.0", " v2.35.0 "] {
            assert_eq!(found("coder:v2.36.1", "coder:v2.35.0", Some(named)), 0, "{named:?}");
        }
        for named in ["v2.34.0", "v2.36.1", "true", "", "vv2.35.0"] {
            assert_eq!(found("coder:v2.36.1", "coder:v2.35.0", Some(named)), 1, "{named:?}");
        }
    }
}
