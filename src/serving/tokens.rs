//! Remembers for a moment what the API server said about a bearer token, a refusal too.
//! Keeps a digest, never a token, and no more of them than a fixed number.

use crate::confidential::Confidential;
use k8s_openapi::api::authentication::v1::UserInfo;
use ring::digest::{SHA256, SHA256_OUTPUT_LEN, digest};
use std::collections::HashMap;
use std::time::{Duration, Instant};

/// How long an answer counts: as long as the API server's own authenticators for webhooks remember one.
const LIFETIME: Duration = Duration::from_secs(10);
/// Answers that are remembered.
const MOST: usize = 256;

/// What a token is remembered by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Digest([u8; SHA256_OUTPUT_LEN]);

impl Digest {
    /// The digest of a token.
    pub(super) fn of(token: &Confidential<String>) -> Self {
        let mut bytes = [0; SHA256_OUTPUT_LEN];
        bytes.copy_from_slice(digest(&SHA256, token.expose().as_bytes()).as_ref());
        Self(bytes)
    }
}

/// What is known of tokens.
#[derive(Debug, Default)]
pub(super) struct Tokens(HashMap<Digest, Known>);

#[derive(Debug)]
struct Known {
    user: Option<UserInfo>,
    until: Instant,
}

impl Tokens {
    /// Whose token it is: nothing if that is not known now, nobody if it was refused.
    pub(super) fn owner(&self, token: Digest, now: Instant) -> Option<Option<UserInfo>> {
        self.0.get(&token).filter(|known| now < known.until).map(|known| known.user.clone())
    }

    /// Remembers an answer.
    pub(super) fn learn(&mut self, token: Digest, user: Option<UserInfo>, now: Instant) {
        if self.0.len() >= MOST {
            self.0.retain(|_, known| now < known.until);
        }
        if self.0.len() >= MOST {
            let next = self.0.iter().min_by_key(|(_, known)| known.until).map(|(token, _)| *token);
            next.map(|token| self.0.remove(&token));
        }
        self.0.insert(token, Known { user, until: now + LIFETIME });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn token(text: &str) -> Digest {
        Digest::of(&Confidential::new(text.to_owned()))
    }

    #[test]
    fn answers_count_for_ten_seconds_refusals_too() {
        let (now, mut tokens) = (Instant::now(), Tokens::default());
        let jane = UserInfo { username: Some("jane".to_owned()), ..UserInfo::default() };
        assert_eq!(tokens.owner(token("a"), now), None);
        tokens.learn(token("a"), Some(jane.clone()), now);
        tokens.learn(token("b"), None, now);
        let later = now + Duration::from_millis(9999);
        assert_eq!(tokens.owner(token("a"), later), Some(Some(jane)));
        assert_eq!(tokens.owner(token("b"), later), Some(None));
        let late = now + LIFETIME;
        assert_eq!((tokens.owner(token("a"), late), tokens.owner(token("b"), late)), (None, None));
    }

    #[test]
    fn a_flood_of_tokens_is_forgotten_oldest_first() {
        let (now, mut tokens) = (Instant::now(), Tokens::default());
        for number in 0..10_000_u64 {
            tokens.learn(token(&number.to_string()), None, now + Duration::from_micros(number));
        }
        assert_eq!(tokens.0.len(), MOST);
        assert!(tokens.owner(token("9999"), now).is_some() && tokens.owner(token("0"), now).is_none());
    }

    #[test]
    fn no_token_is_kept() {
        let mut tokens = Tokens::default();
        tokens.learn(token("hunter2"), None, Instant::now());
        assert!(!format!("{tokens:?}").contains("hunter2"));
    }
}
