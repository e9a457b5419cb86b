//! Identifiers as coderd makes and reads them.
//! It never interprets what an identifier points to.

use std::fmt;

use super::secrets::random_bits;

/// A UUID, printed in the usual lower-case form.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Uuid(u128);

impl Uuid {
    /// The zero UUID, which coderd reads as "the default organisation".
    pub const NIL: Self = Self(0);

    pub(super) const fn from_number(number: u128) -> Self {
        Self(number)
    }

    /// A random version 4 UUID.
    pub(super) fn random() -> Self {
        let bits = (u128::from(random_bits()) << 64) | u128::from(random_bits());
        let version = bits & !(0xf << 76) | (0x4 << 76);
        Self(version & !(0x3 << 62) | (0x2 << 62))
    }

    /// Reads the dashed or the bare hexadecimal form, in any case.
    pub fn parse(text: &str) -> Option<Self> {
        let dashes_right = match text.len() {
            32 => !text.contains('-'),
            36 => text.match_indices('-').map(|(at, _)| at).eq([8, 13, 18, 23]),
            _ => false,
        };
        let digits = text.replace('-', "");
        let hexadecimal = digits.bytes().all(|byte| byte.is_ascii_hexdigit());
        (dashes_right && hexadecimal).then(|| u128::from_str_radix(&digits, 16).ok().map(Self))?
    }
}

impl fmt::Display for Uuid {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let hex = format!("{:032x}", self.0);
        write!(out, "{}-{}-{}-{}-{}", &hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_uuid_survives_printing_and_reading() {
        let id = Uuid::random();
        assert_eq!(Uuid::parse(&id.to_string()), Some(id));
        assert_eq!(Uuid::parse(&id.to_string().to_uppercase()), Some(id));
        assert_eq!(id.to_string().as_bytes()[14], b'4');
        assert_eq!(Uuid::from_number(2).to_string(), "00000000-0000-0000-0000-000000000002");
    }

    #[test]
    fn names_are_not_taken_for_uuids() {
        for name in [
            "coder",
            "default",
            "",
            "00000000-0000-0000-0000-00000000000g",
            "0000000000000000000000000000-0000000",
        ] {
            assert_eq!(Uuid::parse(name), None, "{name}");
        }
    }
}
