//! Makes the random material coderd hands out and the hash it keeps of it.
//! It never prints a secret.

use std::fmt;
use std::hash::{BuildHasher, RandomState};

use rustls::SupportedCipherSuite;
use rustls::crypto::ring::cipher_suite::TLS13_AES_128_GCM_SHA256;

const ALPHABET: &[u8] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

/// What coderd showed once, for the test that made it happen.
#[derive(Clone, Default)]
pub(super) struct Plaintext(pub(super) String);

impl fmt::Debug for Plaintext {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("<redacted>")
    }
}

/// Sixty-four fresh bits: the standard library seeds each hasher state from the operating system.
pub(super) fn random_bits() -> u64 {
    RandomState::new().hash_one(0_u8)
}

/// A string over coderd's alphabet for secrets.
pub(super) fn random_string(length: usize) -> String {
    let pick = |_| char::from(ALPHABET[(random_bits() % ALPHABET.len() as u64) as usize]);
    (0..length).map(pick).collect()
}

/// SHA-256 without salt, as coderd stores it; rustls already carries one, so no further crate is needed.
pub(super) fn hash(secret: &str) -> Vec<u8> {
    let SupportedCipherSuite::Tls13(suite) = TLS13_AES_128_GCM_SHA256 else {
        unreachable!("the suite is named after TLS 1.3");
    };
    suite.common.hash_provider.hash(secret.as_bytes()).as_ref().to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hash_is_sha_256() {
        let hex: String = hash("abc").iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(hex, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    }

    #[test]
    fn random_strings_have_the_asked_length_and_differ() {
        assert_eq!(random_string(43).len(), 43);
        assert_ne!(random_string(22), random_string(22));
    }
}
