//! Decides what an unquoted scalar means, by the rules of YAML 1.1 that kubectl and the API server read with.
//! Never looks at quoted text: that is text.

use serde_json::Number;

/// What a plain scalar is read as.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Scalar {
    /// Nothing.
    Null,
    /// A boolean.
    Bool(bool),
    /// A number that JSON has.
    Number(Number),
    /// Infinity or not a number: kubectl refuses the document.
    NoJson,
    /// Text, as it is written.
    Text,
}

/// Reads a plain scalar.
pub(crate) fn read(text: &str) -> Scalar {
    match text {
        "" | "~" | "null" | "Null" | "NULL" => return Scalar::Null,
        "true" | "True" | "TRUE" | "y" | "Y" | "yes" | "Yes" | "YES" | "on" | "On" | "ON" => {
            return Scalar::Bool(true);
        }
        "false" | "False" | "FALSE" | "n" | "N" | "no" | "No" | "NO" | "off" | "Off" | "OFF" => {
            return Scalar::Bool(false);
        }
        ".nan" | ".NaN" | ".NAN" => return Scalar::NoJson,
        _ => {}
    }
    if matches!(text.trim_start_matches(['+', '-']), ".inf" | ".Inf" | ".INF") && text.len() <= 5 {
        return Scalar::NoJson;
    }
    match text.as_bytes().first() {
        Some(b'0'..=b'9' | b'+' | b'-' | b'.') => number(text),
        _ => Scalar::Text,
    }
}

/// Whether a number is written with a leading zero, which makes it octal: `0644` is 420.
pub(crate) fn looks_octal(text: &str) -> bool {
    let digits = text.trim_start_matches(['+', '-']);
    digits.len() > 1 && digits.starts_with('0') && digits.bytes().all(|byte| byte.is_ascii_digit())
}

fn number(text: &str) -> Scalar {
    let plain = text.replace('_', "");
    if let Some(whole) = whole(&plain) {
        return Scalar::Number(whole);
    }
    if !is_decimal(&plain) {
        return Scalar::Text;
    }
    match plain.trim_start_matches('+').parse::<f64>().map(Number::from_f64) {
        Ok(Some(number)) => Scalar::Number(number),
        _ => Scalar::Text,
    }
}

/// An integer with the prefixes `0x`, `0o`, `0b` and `0`.
fn whole(plain: &str) -> Option<Number> {
    let (negative, digits) = match plain.as_bytes().first()? {
        b'-' => (true, &plain[1..]),
        b'+' => (false, &plain[1..]),
        _ => (false, plain),
    };
    let lower = digits.to_ascii_lowercase();
    let (radix, digits) = match lower.get(..2) {
        Some("0x") => (16, &lower[2..]),
        Some("0o") => (8, &lower[2..]),
        Some("0b") => (2, &lower[2..]),
        Some(_) if lower.starts_with('0') => (8, &lower[1..]),
        _ => (10, lower.as_str()),
    };
    if digits.starts_with(['+', '-']) {
        return None;
    }
    let size = u64::from_str_radix(digits, radix).ok()?;
    if !negative {
        return Some(Number::from(size));
    }
    0i64.checked_sub_unsigned(size).map(Number::from)
}

/// `[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?`
fn is_decimal(plain: &str) -> bool {
    let plain = plain.strip_prefix(['-', '+']).unwrap_or(plain);
    let (mantissa, exponent) = match plain.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, Some(exponent)),
        None => (plain, None),
    };
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    let mantissa_holds = match mantissa.split_once('.') {
        Some(("", after)) => !after.is_empty() && digits(after),
        Some((before, after)) => digits(before) && digits(after),
        None => !mantissa.is_empty() && digits(mantissa),
    };
    let exponent_holds = exponent.is_none_or(|exponent| {
        let exponent = exponent.strip_prefix(['-', '+']).unwrap_or(exponent);
        !exponent.is_empty() && digits(exponent)
    });
    mantissa_holds && exponent_holds
}

#[cfg(test)]
mod tests {
    use super::*;

    fn json(text: &str) -> String {
        match read(text) {
            Scalar::Null => "null".into(),
            Scalar::Bool(truth) => truth.to_string(),
            Scalar::Number(number) => number.to_string(),
            Scalar::NoJson => "refused".into(),
            Scalar::Text => format!("{text:?}"),
        }
    }

    #[test]
    fn plain_scalars_are_read_as_kubectl_reads_them() {
        let cases = [
            ("y", "true"),
            ("On", "true"),
            ("NO", "false"),
            ("n", "false"),
            ("oN", "\"oN\""),
            ("~", "null"),
            ("", "null"),
            ("0644", "420"),
            ("-0644", "-420"),
            ("0o644", "420"),
            ("08", "8.0"),
            ("0x1F", "31"),
            ("0b11", "3"),
            ("1_000", "1000"),
            ("1e3", "1000.0"),
            ("1.10", "1.1"),
            (".5", "0.5"),
            ("+12", "12"),
            ("12:30:45", "\"12:30:45\""),
            ("2001-01-01", "\"2001-01-01\""),
            ("1.2.3", "\"1.2.3\""),
            ("v2", "\"v2\""),
            ("-", "\"-\""),
            ("+", "\"+\""),
            (".", "\".\""),
            ("1e", "\"1e\""),
            ("0x", "\"0x\""),
            ("-.inf", "refused"),
            (".nan", "refused"),
            ("1e999", "\"1e999\""),
            ("18446744073709551615", "18446744073709551615"),
            ("-9223372036854775808", "-9223372036854775808"),
        ];
        for (text, expected) in cases {
            assert_eq!(json(text), expected, "{text}");
        }
    }

    #[test]
    fn a_leading_zero_is_seen() {
        assert!(looks_octal("0644") && looks_octal("-07") && looks_octal("00"));
        assert!(!looks_octal("0") && !looks_octal("644") && !looks_octal("0.5") && !looks_octal("0x1"));
    }
}
