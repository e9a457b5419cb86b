//! The identifiers of coderd's users, organisations and keys, made here when we have to choose one before it exists.
//! It never says what an identifier points to.

use ring::rand::{SecureRandom, SystemRandom};
use serde::{Deserialize, Deserializer, de};
use std::fmt;
use std::str::FromStr;

/// A UUID, printed in lower case with dashes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Uuid(u128);

/// The text is no UUID.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("this is not a UUID")]
pub struct NotAUuid;

/// The system gave no random numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the system's source of random numbers failed")]
pub struct NoRandomness;

impl Uuid {
    /// A random one (version 4).
    pub fn random() -> Result<Self, NoRandomness> {
        let mut bytes = [0; 16];
        SystemRandom::new().fill(&mut bytes).map_err(|_| NoRandomness)?;
        let versioned = u128::from_be_bytes(bytes) & !(0xf << 76) | (0x4 << 76);
        Ok(Self(versioned & !(0x3 << 62) | (0x2 << 62)))
    }
}

impl FromStr for Uuid {
    type Err = NotAUuid;

    fn from_str(text: &str) -> Result<Self, NotAUuid> {
        let dashed = text.len() == 36 && text.match_indices('-').map(|(at, _)| at).eq([8, 13, 18, 23]);
        let digits = text.replace('-', "");
        if !dashed || digits.len() != 32 || !digits.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Err(NotAUuid);
        }
        u128::from_str_radix(&digits, 16).map(Self).map_err(|_| NotAUuid)
    }
}

impl<'de> Deserialize<'de> for Uuid {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
    }
}

impl fmt::Display for Uuid {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let part = |shift: u32, bits: u32| (self.0 >> shift) & ((1 << bits) - 1);
        write!(out, "{:08x}-{:04x}-{:04x}-", part(96, 32), part(80, 16), part(64, 16))?;
        write!(out, "{:04x}-{:012x}", part(48, 16), part(0, 48))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_uuid_survives_printing_and_reading() {
        let id = Uuid::random().unwrap();
        assert_eq!(id.to_string().parse(), Ok(id));
        assert_eq!(id.to_string().to_uppercase().parse(), Ok(id));
        assert_eq!(id.to_string().as_bytes()[14], b'4');
        assert_ne!(id, Uuid::random().unwrap());
    }

    #[test]
    fn other_texts_are_refused() {
        for text in
            ["", "coder", "00000000-0000-0000-0000-00000000000g", "+0000000-0000-0000-0000-000000000000"]
        {
            assert_eq!(text.parse::<Uuid>(), Err(NotAUuid), "{text}");
        }
    }
}
