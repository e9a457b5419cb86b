//! A CA certificate with its key: made, read back, and asked how long it lasts.

use crate::confidential::Confidential;
use jiff::{SignedDuration, Timestamp};
use rcgen::{
    BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyIdMethod, KeyPair, KeyUsagePurpose,
};
use std::time::Duration;
use time::OffsetDateTime;

/// Clocks of API servers may be behind ours.
const SKEW: SignedDuration = SignedDuration::from_hours(1);

/// A certificate that signs, and its key, as PEM.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Ca {
    /// The certificate.
    pub certificate: String,
    /// Its key.
    pub key: Confidential<String>,
    /// Start of its life.
    pub not_before: Timestamp,
    /// End of its life.
    pub not_after: Timestamp,
}

/// Why a CA could not be made or read.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CaError {
    /// Key or certificate could not be generated.
    #[error("cannot generate a CA: {0}")]
    Generate(rcgen::Error),
    /// The certificate is not one.
    #[error("the CA certificate is not valid PEM of an X.509 certificate")]
    Certificate,
    /// The key is not one, or not the certificate's.
    #[error("the CA key is not a usable private key for its certificate")]
    Key,
    /// A date is out of range.
    #[error("a date lies outside of what a certificate can express")]
    Date,
}

impl Ca {
    /// A fresh CA that lasts `lifetime` from `now`.
    pub(crate) fn generate(now: Timestamp, lifetime: Duration) -> Result<Self, CaError> {
        let (not_before, not_after) = validity(now, lifetime)?;
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, format!("coder-k8s CA {:08x}", fastrand::u32(..)));
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        params.key_identifier_method = KeyIdMethod::Sha256;
        params.not_before = date(not_before)?;
        params.not_after = date(not_after)?;
        let key = KeyPair::generate().map_err(CaError::Generate)?;
        let certificate = params.self_signed(&key).map_err(CaError::Generate)?.pem();
        Self::read(certificate, Confidential::new(key.serialize_pem()))
    }

    /// A CA from its two PEM texts, refused unless they are usable together.
    pub(crate) fn read(certificate: String, key: Confidential<String>) -> Result<Self, CaError> {
        let (not_before, not_after) = lifetime_of(&certificate)?;
        let ca = Self { certificate, key, not_before, not_after };
        ca.issuer()?;
        Ok(ca)
    }

    /// What signs leaves.
    pub(crate) fn issuer(&self) -> Result<Issuer<'static, KeyPair>, CaError> {
        // The error of a malformed key may quote it: it is dropped on purpose.
        let key = KeyPair::from_pem(self.key.expose()).map_err(|_| CaError::Key)?;
        let own = x509_parser::pem::parse_x509_pem(self.certificate.as_bytes())
            .map_err(|_| CaError::Certificate)?
            .1;
        let public = own.parse_x509().map_err(|_| CaError::Certificate)?.public_key().raw.to_vec();
        if rcgen::PublicKeyData::subject_public_key_info(&key) != public {
            return Err(CaError::Key);
        }
        Issuer::from_ca_cert_pem(&self.certificate, key).map_err(|_| CaError::Certificate)
    }
}

/// Start and end of a certificate that is valid from `now` on, for clocks that are behind too.
pub(in crate::serving) fn validity(
    now: Timestamp,
    lifetime: Duration,
) -> Result<(Timestamp, Timestamp), CaError> {
    let lifetime = SignedDuration::try_from(lifetime).map_err(|_| CaError::Date)?;
    let not_before = now.checked_sub(SKEW).map_err(|_| CaError::Date)?;
    let not_after = now.checked_add(lifetime).map_err(|_| CaError::Date)?;
    Ok((not_before, not_after))
}

/// A date as certificates are built with.
pub(in crate::serving) fn date(moment: Timestamp) -> Result<OffsetDateTime, CaError> {
    OffsetDateTime::from_unix_timestamp(moment.as_second()).map_err(|_| CaError::Date)
}

/// The dates in a PEM certificate.
pub(in crate::serving) fn lifetime_of(certificate: &str) -> Result<(Timestamp, Timestamp), CaError> {
    let (_, pem) =
        x509_parser::pem::parse_x509_pem(certificate.as_bytes()).map_err(|_| CaError::Certificate)?;
    let parsed = pem.parse_x509().map_err(|_| CaError::Certificate)?;
    let moment = |seconds| Timestamp::from_second(seconds).map_err(|_| CaError::Date);
    let validity = parsed.validity();
    Ok((moment(validity.not_before.timestamp())?, moment(validity.not_after.timestamp())?))
}

#[cfg(test)]
mod tests {
    use super::*;

    const YEAR: Duration = Duration::from_secs(365 * 86_400);

    #[test]
    fn a_ca_reads_back_with_its_dates() {
        let now = Timestamp::from_second(1_800_000_000).unwrap();
        let ca = Ca::generate(now, YEAR).unwrap();
        let read = Ca::read(ca.certificate.clone(), ca.key.clone()).unwrap();
        assert_eq!(read, ca);
        assert_eq!(read.not_after.as_second(), 1_800_000_000 + 365 * 86_400);
        assert!(read.not_before < now);
    }

    #[test]
    fn a_key_of_another_ca_is_refused_without_being_quoted() {
        let now = Timestamp::from_second(1_800_000_000).unwrap();
        let (one, two) = (Ca::generate(now, YEAR).unwrap(), Ca::generate(now, YEAR).unwrap());
        let error = Ca::read(one.certificate.clone(), two.key).unwrap_err();
        assert!(matches!(error, CaError::Key));
        let error = Ca::read(one.certificate, Confidential::new("cnry-key".to_owned())).unwrap_err();
        assert!(!format!("{error} {error:?}").contains("cnry"));
    }
}
