//! A value that cannot be printed and is wiped when it goes: tokens, keys, passwords.
//! Whoever needs the content asks for it by name, so that every use can be found; nothing prints it by accident. What
//! libraries copy on the way to a socket is theirs and is not reached from here.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;
use std::fmt;
use std::str::FromStr;
use zeroize::{Zeroize, ZeroizeOnDrop, Zeroizing};

/// Wraps a secret value. `Debug` and `Display` show that it is there, never what it is; its memory is overwritten when it
/// is dropped.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct Confidential<T: Zeroize>(Zeroizing<T>);

impl<T: Zeroize> Confidential<T> {
    /// Takes a value out of sight.
    pub fn new(value: T) -> Self {
        Self(Zeroizing::new(value))
    }

    /// The value, for the one call that needs it.
    pub fn expose(&self) -> &T {
        &self.0
    }
}

impl Confidential<String> {
    /// The text without the white space around it; what is cut off is wiped as well.
    pub fn trimmed(self) -> Self {
        let trimmed = self.0.trim();
        if trimmed.len() == self.0.len() { self } else { Self::new(trimmed.to_owned()) }
    }

    /// Whether there is nothing but white space.
    pub fn is_blank(&self) -> bool {
        self.0.trim().is_empty()
    }
}

impl<T: Zeroize> ZeroizeOnDrop for Confidential<T> {}

impl<T: Zeroize> fmt::Debug for Confidential<T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("[confidential]")
    }
}

impl<T: Zeroize> fmt::Display for Confidential<T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("[confidential]")
    }
}

impl FromStr for Confidential<String> {
    type Err = std::convert::Infallible;

    fn from_str(value: &str) -> Result<Self, Self::Err> {
        Ok(Self::new(value.to_owned()))
    }
}

/// Text of a value as Secrets carry it.
pub fn decoded(value: &Value) -> Option<Confidential<String>> {
    let bytes = Zeroizing::new(STANDARD.decode(value.as_str()?).ok()?);
    std::str::from_utf8(&bytes).ok().map(|text| Confidential::new(text.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    #[test]
    fn nothing_prints_the_value() {
        let secret: Confidential<String> = "hunter2".parse().unwrap();
        assert_eq!(format!("{secret} {secret:?} {:#?}", Some(&secret)).matches("hunter2").count(), 0);
        assert_eq!(secret.expose(), "hunter2");
    }

    /// Counts how often it was wiped.
    #[derive(Clone)]
    struct Counted(Arc<AtomicUsize>);

    impl Zeroize for Counted {
        fn zeroize(&mut self) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn a_value_and_every_copy_of_it_is_wiped_when_it_goes() {
        let wiped = Arc::new(AtomicUsize::new(0));
        let secret = Confidential::new(Counted(wiped.clone()));
        let copy = secret.clone();
        assert_eq!(wiped.load(Ordering::Relaxed), 0, "not while it is used");
        drop(secret);
        assert_eq!(wiped.load(Ordering::Relaxed), 1);
        drop(Some(copy));
        assert_eq!(wiped.load(Ordering::Relaxed), 2);
    }

    #[test]
    fn white_space_around_a_text_goes() {
        let text = |text: &str| Confidential::new(text.to_owned());
        assert_eq!(text(" a b\n").trimmed(), text("a b"));
        assert_eq!(text("a").trimmed(), text("a"));
        assert!(text(" \n").is_blank() && !text(" a").is_blank());
    }
}
