//! Decides what a container may write to where its image may have nothing for it: a folder that ends with its pod, for what coder
//! caches and, where the root file system is read-only, for temporary files. Never adds one where the image is known to do.

use super::environment;
use super::pods::PodSettings;
use super::security::CODER;
use k8s_openapi::api::core::v1::{EmptyDirVolumeSource, EnvVar, Volume, VolumeMount};

const VOLUME: &str = "coder-scratch";
/// Where builds are unpacked.
const TEMPORARY: &str = "/tmp";
/// What coder caches.
const CACHE: &str = "/tmp/coder-cache";

/// Where the folder is mounted, if it is needed: over all temporary files where the root is read-only; else only for the cache,
/// where the home of the image may not be that of the user: another user, or an image that its author made for root.
fn folder(settings: &PodSettings, is_own_image: bool) -> Option<&'static str> {
    let container = &settings.container_security;
    if container.read_only_root_filesystem == Some(true) {
        return Some(TEMPORARY);
    }
    let user = container.run_as_user.or(settings.pod_security.run_as_user);
    let is_foreign = user.is_some_and(|user| user != CODER && user != 0);
    let is_doubtful = is_own_image && user != Some(0);
    (is_foreign || is_doubtful).then_some(CACHE)
}

/// The volume and its mount, if they are needed. `is_own_image` says that the image is not the one that a control plane runs
/// with as well.
pub(crate) fn volume(settings: &PodSettings, is_own_image: bool) -> Option<(Volume, VolumeMount)> {
    folder(settings, is_own_image).map(|folder| {
        let volume = Volume {
            name: VOLUME.to_owned(),
            empty_dir: Some(EmptyDirVolumeSource::default()),
            ..Default::default()
        };
        let (name, mount_path) = (VOLUME.to_owned(), folder.to_owned());
        (volume, VolumeMount { name, mount_path, ..Default::default() })
    })
}

/// What makes coder keep its cache there.
pub(crate) fn variable(settings: &PodSettings, is_own_image: bool) -> Option<EnvVar> {
    folder(settings, is_own_image).map(|_| environment::variable("CODER_CACHE_DIRECTORY", CACHE))
}
