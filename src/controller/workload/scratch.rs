//! Decides what a container may write to whose root file system is read-only: a folder that ends with its pod, for what coder
//! caches and for temporary files. Never adds one where the root can be written.

use super::environment;
use super::pods::PodSettings;
use k8s_openapi::api::core::v1::{EmptyDirVolumeSource, EnvVar, Volume, VolumeMount};

const VOLUME: &str = "coder-scratch";
/// Where builds are unpacked.
const FOLDER: &str = "/tmp";

fn is_read_only(settings: &PodSettings) -> bool {
    settings.container_security.read_only_root_filesystem == Some(true)
}

/// The volume and its mount, if they are needed.
pub(crate) fn volume(settings: &PodSettings) -> Option<(Volume, VolumeMount)> {
    is_read_only(settings).then(|| {
        let volume = Volume {
            name: VOLUME.to_owned(),
            empty_dir: Some(EmptyDirVolumeSource::default()),
            ..Default::default()
        };
        let (name, mount_path) = (VOLUME.to_owned(), FOLDER.to_owned());
        (volume, VolumeMount { name, mount_path, ..Default::default() })
    })
}

/// What makes coder keep its cache there.
pub(crate) fn variable(settings: &PodSettings) -> Option<EnvVar> {
    let folder = format!("{FOLDER}/coder-cache");
    is_read_only(settings).then(|| environment::variable("CODER_CACHE_DIRECTORY", &folder))
}
