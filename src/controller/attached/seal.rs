//! Decides what proves that the operator wrote an entry of a status: a seal that only it can make, for one object. Whoever may
//! write a status still cannot name something in coderd that we then delete. Pure.

use ring::hmac;

/// What the seals of one object are made with.
#[derive(Clone, Copy)]
pub(crate) struct Sealer<'a> {
    /// The operator's own key.
    pub key: &'a hmac::Key,
    /// Uid of the object: an entry counts for no other.
    pub uid: &'a str,
}

impl Sealer<'_> {
    /// The seal of an entry with these fields; `what` keeps entries of different kinds apart.
    pub(crate) fn seal(&self, what: &str, fields: &[String]) -> String {
        let tag = hmac::sign(self.key, &self.text(what, fields));
        tag.as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// Whether a seal is that of an entry with these fields.
    pub(crate) fn is_sealed(&self, what: &str, fields: &[String], seal: &str) -> bool {
        let digit = |at: usize| u8::from_str_radix(seal.get(at..at + 2)?, 16).ok();
        let tag: Option<Vec<u8>> = (0..seal.len()).step_by(2).map(digit).collect();
        tag.is_some_and(|tag| hmac::verify(self.key, &self.text(what, fields), &tag).is_ok())
    }

    /// What is sealed, each field with its length before it: coderd chooses names, and no character in one may move the border
    /// to the next field.
    pub(crate) fn text(&self, what: &str, fields: &[String]) -> Vec<u8> {
        let all = [what, self.uid].into_iter().chain(fields.iter().map(String::as_str));
        all.flat_map(|field| [&field.len().to_be_bytes(), field.as_bytes()].concat()).collect()
    }
}
