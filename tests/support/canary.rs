//! Canary values: planted in every Secret, searched for everywhere a secret must never show.
//! A hit is the value itself, its base64, its URL-encoded form or a prefix long enough to be of use.

/// A value that occurs nowhere by chance.
#[derive(Debug, Clone)]
pub struct Canary {
    value: String,
}

/// A readable prefix of a secret is a leak too.
const USEFUL_PREFIX: usize = 12;

impl Canary {
    /// The canary of one test; `purpose` keeps canaries apart.
    pub fn new(purpose: &str) -> Self {
        Self { value: format!("cnry+{purpose}/{:x}=", std::process::id()) }
    }

    /// A value that somebody else made, as long as secrets are.
    pub fn of(value: &str) -> Self {
        Self { value: value.to_owned() }
    }

    /// The value to plant.
    pub fn value(&self) -> &str {
        &self.value
    }

    /// The forms in which `text` shows the canary; empty when it shows none.
    pub fn found_in(&self, text: &str) -> Vec<&'static str> {
        let encoded = base64(self.value.as_bytes());
        let forms = [
            ("raw", self.value.clone()),
            ("prefix", self.value[..USEFUL_PREFIX.min(self.value.len())].to_owned()),
            // Whole groups of four only: the tail depends on what follows.
            ("base64", encoded.trim_end_matches('=')[..16].to_owned()),
            ("url", self.value.replace('+', "%2B").replace('/', "%2F").replace('=', "%3D")),
        ];
        forms.into_iter().filter(|(_, form)| text.contains(form)).map(|(name, _)| name).collect()
    }
}

fn base64(bytes: &[u8]) -> String {
    let encoded = serde_json::to_value(k8s_openapi::ByteString(bytes.to_vec())).expect("bytes serialise");
    encoded.as_str().expect("base64 is a string").to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_planted_canary_is_found_in_every_form() {
        let canary = Canary::new("self");
        let shown = format!("{} {} {}", canary.value(), base64(canary.value().as_bytes()), "cnry%2Bself%2F");
        assert!(canary.found_in(&shown).contains(&"raw"));
        assert!(canary.found_in(&base64(canary.value().as_bytes())).contains(&"base64"));
        assert!(canary.found_in(&canary.value()[..14]).contains(&"prefix"));
    }

    #[test]
    fn clean_text_has_none() {
        assert!(Canary::new("self").found_in("nothing to see").is_empty());
    }
}
