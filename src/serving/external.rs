//! Serves a certificate that somebody else keeps in a folder, as cert-manager does with a mounted Secret.
//! It reads `tls.crt` and `tls.key` again when they change; a half-written pair never replaces a good one.

use super::leaf::{CurrentLeaf, Leaf, LeafError};
use super::metrics::{Metrics, Named};
use super::readiness::Gate;
use jiff::Timestamp;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// The kubelet swaps a symlink, which no file watch sees reliably: the content is compared instead.
const LOOK: Duration = Duration::from_secs(10);

/// What is served from where.
pub(crate) struct ExternalCertificates {
    /// The folder with `tls.crt` and `tls.key`.
    pub folder: PathBuf,
    /// Where the leaf is served from.
    pub leaf: CurrentLeaf,
    /// Opens while the leaf is good.
    pub gate: Gate,
    /// Where the end of the leaf is shown.
    pub metrics: Metrics,
}

/// Why the folder is of no use.
#[derive(Debug, thiserror::Error)]
enum FolderError {
    #[error("cannot read {0}: {1}")]
    Read(String, std::io::Error),
    #[error("{0}: {1}")]
    Leaf(String, LeafError),
}

impl ExternalCertificates {
    /// Follows the folder until `stop`.
    pub(crate) async fn run(self, stop: CancellationToken) {
        let mut served = None;
        loop {
            match read(&self.folder) {
                Ok(pair) if served.as_ref() == Some(&pair) => {}
                Ok(pair) => match Leaf::read(&pair.0, &pair.1) {
                    Ok(leaf) => {
                        tracing::info!(not_after = %leaf.not_after, "serving a new certificate from --tls-dir");
                        self.leaf.set(leaf);
                        served = Some(pair);
                    }
                    Err(error) => self.complain(&FolderError::Leaf(self.folder.display().to_string(), error)),
                },
                Err(error) => self.complain(&error),
            }
            self.check(Timestamp::now());
            tokio::select! {
                biased;
                () = stop.cancelled() => return,
                () = tokio::time::sleep(LOOK) => {}
            }
        }
    }

    fn complain(&self, error: &FolderError) {
        tracing::warn!(%error, "certificate not loaded; the one in use stays");
        if self.leaf.get().is_none() {
            self.gate.close(error.to_string());
        }
    }

    fn check(&self, now: Timestamp) {
        let Some(leaf) = self.leaf.get() else { return };
        if !leaf.is_current(now) {
            self.gate.close("a certificate in --tls-dir that is valid now");
        } else {
            self.gate.open();
            self.metrics
                .certificate_not_after
                .get_or_create(&Named { name: "leaf" })
                .set(leaf.not_after.as_second());
        }
    }
}

fn read(folder: &Path) -> Result<(String, String), FolderError> {
    let file = |name: &str| {
        let path = folder.join(name);
        std::fs::read_to_string(&path).map_err(|error| FolderError::Read(path.display().to_string(), error))
    };
    Ok((file("tls.crt")?, file("tls.key")?))
}
