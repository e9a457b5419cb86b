//! The key of the checksums: made once, kept in a Secret of its own in our namespace, never changed. It is read when the
//! first checksum is needed and remembered as long as this replica leads; what is made of a lost one is decided elsewhere.

use crate::kubernetes::{CallError, Kube};
use crds::well_known::{CHECKSUM_KEY_SECRET, MANAGER, label};
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use kube::core::ObjectMeta;
use ring::hmac;
use ring::rand::{SecureRandom, SystemRandom};
use tokio::sync::OnceCell;
use zeroize::Zeroizing;

/// Under which the Secret has it.
const FIELD: &str = "key";
/// Bytes of a key.
const LENGTH: usize = 32;

/// Why there is no key.
#[derive(Debug, thiserror::Error)]
pub(crate) enum KeyError {
    /// The Secret could not be read.
    #[error(transparent)]
    Read(CallError),
    /// It could not be made.
    #[error(transparent)]
    Create(CallError),
    /// The system gave no random numbers.
    #[error("the system's source of random numbers failed")]
    Random,
    /// Somebody else made it.
    #[error(
        "Secret {CHECKSUM_KEY_SECRET} in the operator's namespace has no {FIELD} of {LENGTH} bytes; delete it to have \
         another made"
    )]
    Unusable,
}

/// The key, once it was needed.
#[derive(Default)]
pub(crate) struct ChecksumKey(OnceCell<hmac::Key>);

impl ChecksumKey {
    /// The key; it is made if there is none. Only the leader asks for it.
    pub(crate) async fn get(&self, kube: &Kube) -> Result<&hmac::Key, KeyError> {
        self.0.get_or_try_init(|| find_or_make(kube)).await
    }
}

async fn find_or_make(kube: &Kube) -> Result<hmac::Key, KeyError> {
    let secrets = kube.ours::<Secret>();
    if let Some(secret) = secrets.get(CHECKSUM_KEY_SECRET).await.map_err(KeyError::Read)? {
        return read(&secret);
    }
    match secrets.create(&fresh(kube.namespace())?).await {
        Ok(made) => {
            tracing::info!(secret = CHECKSUM_KEY_SECRET, "the key of the checksums was made");
            read(&made)
        }
        // Whoever was faster counts.
        Err(error) if error.is_already_exists() => {
            let there = secrets.get(CHECKSUM_KEY_SECRET).await.map_err(KeyError::Read)?;
            read(&there.ok_or(KeyError::Create(error))?)
        }
        Err(error) => Err(KeyError::Create(error)),
    }
}

/// A Secret with a new key. Nobody can change it; whoever deletes it takes the key with it.
fn fresh(namespace: &str) -> Result<Secret, KeyError> {
    let mut bytes = Zeroizing::new([0; LENGTH]);
    SystemRandom::new().fill(&mut *bytes).map_err(|_| KeyError::Random)?;
    Ok(Secret {
        metadata: ObjectMeta {
            name: Some(CHECKSUM_KEY_SECRET.to_owned()),
            namespace: Some(namespace.to_owned()),
            labels: Some([(label::MANAGED_BY.to_owned(), MANAGER.to_owned())].into()),
            ..ObjectMeta::default()
        },
        immutable: Some(true),
        type_: Some("Opaque".to_owned()),
        data: Some([(FIELD.to_owned(), ByteString(bytes.to_vec()))].into()),
        ..Secret::default()
    })
}

fn read(secret: &Secret) -> Result<hmac::Key, KeyError> {
    let bytes = secret.data.as_ref().and_then(|data| data.get(FIELD)).map(|bytes| bytes.0.as_slice());
    let bytes = bytes.filter(|bytes| bytes.len() == LENGTH).ok_or(KeyError::Unusable)?;
    Ok(hmac::Key::new(hmac::HMAC_SHA256, bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_is_another_and_cannot_be_changed() {
        let (one, other) = (fresh("operator").unwrap(), fresh("operator").unwrap());
        assert_ne!(one.data, other.data);
        assert_eq!(
            (one.immutable, one.metadata.name.as_deref()),
            (Some(true), Some("coder-k8s-checksum-key"))
        );
        assert!(read(&one).is_ok());
    }

    #[test]
    fn what_is_no_key_is_told_with_the_way_out() {
        let mut short = fresh("operator").unwrap();
        short.data = Some([(FIELD.to_owned(), ByteString(vec![0; 31]))].into());
        for secret in [short, Secret::default()] {
            let told = read(&secret).unwrap_err().to_string();
            assert!(told.contains("delete it"), "{told}");
        }
    }
}
