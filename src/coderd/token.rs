//! A session token as coderd knows it: ten characters that name it, a dash, twenty-two that prove it.
//! It makes tokens and their hash; it never stores one.

use super::uuid::NoRandomness;
use crate::confidential::Confidential;
use ring::digest::{SHA256, digest};
use ring::rand::{SecureRandom, SystemRandom};
use zeroize::Zeroizing;

const ALPHABET: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
const ID_LENGTH: usize = 10;
const SECRET_LENGTH: usize = 22;

/// A token that coderd does not know yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewToken {
    id: String,
    secret: Confidential<String>,
}

/// The text is no token of coderd.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a session token of coderd has 10 characters, a dash and 22 characters")]
pub struct NotAToken;

impl NewToken {
    /// A fresh one from the system's random numbers.
    pub fn generate() -> Result<Self, NoRandomness> {
        let random = SystemRandom::new();
        Ok(Self {
            id: base62(&random, ID_LENGTH)?,
            secret: Confidential::new(base62(&random, SECRET_LENGTH)?),
        })
    }

    /// Reads the plaintext form, for example one kept in a Secret before it was written to the database.
    pub fn parse(plaintext: &Confidential<String>) -> Result<Self, NotAToken> {
        let (id, secret) = plaintext.expose().trim().split_once('-').ok_or(NotAToken)?;
        let plain = |part: &str| part.bytes().all(|byte| byte.is_ascii_alphanumeric());
        if (id.len(), secret.len()) != (ID_LENGTH, SECRET_LENGTH) || !plain(id) || !plain(secret) {
            return Err(NotAToken);
        }
        Ok(Self { id: id.to_owned(), secret: Confidential::new(secret.to_owned()) })
    }

    /// The half that names it: no secret.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// What a client sends.
    pub fn plaintext(&self) -> Confidential<String> {
        // Once, at its full length: what grows leaves a copy behind.
        let mut text = String::with_capacity(ID_LENGTH + 1 + SECRET_LENGTH);
        text.extend([self.id.as_str(), "-", self.secret.expose()]);
        Confidential::new(text)
    }

    /// What coderd keeps: SHA-256 of the secret half, without salt.
    pub(super) fn hashed_secret(&self) -> Vec<u8> {
        digest(&SHA256, self.secret.expose().as_bytes()).as_ref().to_vec()
    }
}

/// Bytes that would favour some characters are drawn again.
fn base62(random: &SystemRandom, length: usize) -> Result<String, NoRandomness> {
    let fair = ALPHABET.len() * (256 / ALPHABET.len());
    let mut text = String::with_capacity(length);
    let mut bytes = Zeroizing::new([0; 64]);
    while text.len() < length {
        random.fill(&mut *bytes).map_err(|_| NoRandomness)?;
        let fair = bytes.iter().map(|byte| usize::from(*byte)).filter(|byte| *byte < fair);
        let missing = length - text.len();
        text.extend(
            fair.take(missing)
                .filter_map(|byte| ALPHABET.get(byte % ALPHABET.len()))
                .map(|byte| char::from(*byte)),
        );
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_has_coderds_shape_and_survives_reading() {
        let token = NewToken::generate().unwrap();
        let plaintext = token.plaintext();
        let (id, secret) = plaintext.expose().split_once('-').unwrap();
        assert_eq!((id.len(), secret.len(), id), (10, 22, token.id()));
        assert_eq!(NewToken::parse(&plaintext), Ok(token.clone()));
        assert_ne!(token, NewToken::generate().unwrap());
        assert!(!format!("{token:?}").contains(secret));
    }

    #[test]
    fn the_hash_is_sha_256_of_the_secret_half() {
        let token = NewToken::parse(&Confidential::new(format!("0123456789-{}", "a".repeat(22)))).unwrap();
        let hex: String = token.hashed_secret().iter().map(|byte| format!("{byte:02x}")).collect();
        // printf 'aaaaaaaaaaaaaaaaaaaaaa' | sha256sum
        assert_eq!(hex, "ec7c494df6d2a7ea36668d656e6b8979e33641bfea378c15038af3964db057a3");
    }

    #[test]
    fn every_character_is_used_and_none_else() {
        let text = base62(&SystemRandom::new(), 20_000).unwrap();
        let seen: std::collections::BTreeSet<u8> = text.bytes().collect();
        assert_eq!(seen.into_iter().collect::<Vec<u8>>(), ALPHABET);
    }

    #[test]
    fn other_texts_are_no_tokens() {
        for text in [
            "",
            "a-b",
            "0123456789",
            "0123456789-0123456789-123456789012",
            "012345678!-0123456789012345678901",
        ] {
            assert_eq!(NewToken::parse(&Confidential::new(text.to_owned())), Err(NotAToken), "{text}");
        }
    }
}
