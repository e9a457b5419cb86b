//! Decides which names may stand in a command that a person is told to run. It never quotes one for a shell: a name that would need
//! it is described instead.

/// Characters of the longest name that coderd takes for a key or a proxy of ours.
const LONGEST_NAME: usize = 64;

/// Whether a shell and the `coder` command line take a name as it stands, and as one name: whoever may write a status chooses any.
pub(crate) fn is_plain(name: &str) -> bool {
    let mut letters = name.bytes();
    name.len() <= LONGEST_NAME
        && letters.next().is_some_and(|first| first.is_ascii_alphanumeric())
        && letters.all(|one| one.is_ascii_alphanumeric() || b"._-".contains(&one))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_letters_digits_dots_and_dashes_are_plain_and_no_flag_is() {
        for name in ["eu", "eu-west.2", "EU_1", "0"] {
            assert!(is_plain(name), "{name}");
        }
        for name in
            ["", "-rf", "--all", ".", "a b", "a;b", "$(id)", "a/b", "a*", "~", "é", "a\nb", &"x".repeat(65)]
        {
            assert!(!is_plain(name), "{name}");
        }
    }
}
