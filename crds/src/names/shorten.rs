//! Decides how a name that is too long becomes a shorter one that still tells objects apart.
//! Never touches a name that fits.

use super::hash::hex32;

/// How a name follows from another: what goes around it, and how much room there is.
pub(super) struct Rule {
    /// What comes before.
    pub prefix: &'static str,
    /// What comes after.
    pub suffix: &'static str,
    /// Bytes of the result.
    pub limit: usize,
    /// What a cut must not leave before the hash.
    pub trim: Trim,
}

/// What a cut must not leave behind.
#[derive(Clone, Copy)]
pub(super) enum Trim {
    /// Nothing: any character may come before the hash.
    Nothing,
    /// A dot: in an object name `.-` is not valid.
    Dot,
}

impl Rule {
    /// `<prefix><name><suffix>` when that fits, else `<prefix><name cut>-<hash of name><suffix>`.
    pub(super) fn apply(&self, name: &str) -> String {
        if self.fits(name) {
            return format!("{}{name}{}", self.prefix, self.suffix);
        }
        shortened(self.prefix, name, self.suffix, self.limit, self.trim)
    }

    /// Whether the result holds the name whole.
    pub(super) fn fits(&self, name: &str) -> bool {
        self.prefix.len() + name.len() + self.suffix.len() <= self.limit
    }
}

/// A name cut and hashed, whether it had to be or not.
pub(super) fn shortened(prefix: &str, name: &str, suffix: &str, limit: usize, trim: Trim) -> String {
    let hash = hex32(name.as_bytes());
    let room = limit.saturating_sub(prefix.len() + suffix.len() + hash.len() + 1);
    let start = match trim {
        Trim::Nothing => cut(name, room),
        Trim::Dot => cut(name, room).trim_end_matches('.'),
    };
    format!("{prefix}{start}-{hash}{suffix}")
}

/// The longest start of `name` of at most `room` bytes that does not end inside a character.
pub(super) fn cut(name: &str, room: usize) -> &str {
    name.get(..name.floor_char_boundary(room)).unwrap_or(name)
}
