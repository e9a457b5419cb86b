//! A value that cannot be printed: tokens, keys, passwords.
//! Whoever needs the content asks for it by name, so that every use can be found; nothing prints it by accident.

use std::fmt;
use std::str::FromStr;

/// Wraps a secret value. `Debug` and `Display` show that it is there, never what it is.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct Confidential<T>(T);

impl<T> Confidential<T> {
    /// Takes a value out of sight.
    pub fn new(value: T) -> Self {
        Self(value)
    }

    /// The value, for the one call that needs it.
    pub fn expose(&self) -> &T {
        &self.0
    }
}

impl<T> fmt::Debug for Confidential<T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("[confidential]")
    }
}

impl<T> fmt::Display for Confidential<T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("[confidential]")
    }
}

impl FromStr for Confidential<String> {
    type Err = std::convert::Infallible;

    fn from_str(value: &str) -> Result<Self, Self::Err> {
        Ok(Self(value.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_prints_the_value() {
        let secret: Confidential<String> = "hunter2".parse().unwrap();
        assert_eq!(format!("{secret} {secret:?} {:#?}", Some(&secret)).matches("hunter2").count(), 0);
        assert_eq!(secret.expose(), "hunter2");
    }
}
