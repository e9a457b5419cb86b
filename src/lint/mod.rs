//! Decides what is wrong with manifests before they reach a cluster: the rules of admission, offline, on files and on
//! what kustomize renders. Never talks to a cluster or the network, and never changes a file.

mod codes;
mod command;
mod engine;
mod expected;
mod explain;
mod findings;
mod gitops;
mod judging;
mod node;
mod objects;
mod origin;
mod render;
mod report;
mod shares;
mod sources;
mod suppression;
mod yaml;

pub(crate) use command::{Command, run};
pub use engine::Settings;
pub(crate) use explain::own_sections;
pub use findings::{Finding, Report, Severity};
#[cfg(test)]
pub(crate) use gitops::referring_fields;
pub use report::{Format, write};
pub use sources::{Arrival, Loaded, Source, SourceError, load};

use findings::Collected;
use std::path::Path;

/// Everything that is wrong with the loaded manifests.
///
/// `built` is the folder that was rendered to standard input: origin annotations are relative to it.
pub fn check(loaded: &Loaded, settings: &Settings, built: &Path) -> Report {
    let objects = objects::collect(&loaded.sources);
    let units = gitops::Units::of(&loaded.sources, &objects);
    let mut collected = Collected::default();
    judging::texts(&loaded.sources, &mut collected);
    judging::documents(&objects, &mut collected);
    let substitutions = gitops::Substitutions::of(&objects, &units);
    let judge = judging::Judge { settings, substitutions: &substitutions };
    let marked = objects.iter().map(|object| (object, units.is_patch(object))).collect();
    let shares = shares::each_share(marked, |share| {
        let mut collected = Collected::default();
        for (object, patch) in share {
            judge.object(object, patch, &mut collected);
        }
        collected
    });
    shares.into_iter().for_each(|share| collected.absorb(share));
    gitops::judge(&objects, &units, &mut collected);
    let looked_at = objects.iter().filter(|object| object.our_kind().is_some()).count();
    let mut origins = origin::Origins::new(built);
    collected.report(&mut origins, loaded.sources.len(), looked_at)
}

#[cfg(test)]
mod tests;
