//! Whether two answers agree: status, the headers a client reads, and the body value by value.
//! What may differ is named by place and by what both sides must still be; nothing else is left out.

use coder_k8s::coderd::Uuid;
use serde_json::Value;
use std::net::SocketAddr;
use support::plain_http::Answer;

/// Headers that a client may act upon. Of the limiter's only the limit: what remains depends on who was set up how.
const HEADERS: [&str; 5] =
    ["content-type", "www-authenticate", "retry-after", "x-coder-build-version", "x-ratelimit-limit"];

/// What two values that differ must both be.
#[derive(Debug, Clone, Copy)]
enum Rule {
    /// An identifier that each server draws for itself.
    Uuid,
    /// A moment of its own clock.
    Time,
    /// A text with a moment in it: the same once every run of digits is one sign. Where Go's decoder stumbles over a
    /// character, which no client of ours lets it, only the beginning counts.
    Detail,
    /// How many of something there are, by each server's own count.
    Count,
    /// A public key of the server's own: base64url of 65 bytes.
    Point,
}

/// Places in any body, with `*` for each index of a list.
const MAY_DIFFER: [(&str, Rule); 21] = [
    ("/id", Rule::Uuid),
    ("/deployment_id", Rule::Uuid),
    ("/organization_ids/*", Rule::Uuid),
    ("/*/id", Rule::Uuid),
    ("/organization", Rule::Uuid),
    ("/*/organization_id", Rule::Uuid),
    ("/*/initiator_id", Rule::Uuid),
    ("/*/file_id", Rule::Uuid),
    ("/*/input/template_version_id", Rule::Uuid),
    ("/*/created_at", Rule::Time),
    ("/*/updated_at", Rule::Time),
    ("/created_at", Rule::Time),
    ("/updated_at", Rule::Time),
    ("/last_seen_at", Rule::Time),
    ("/refreshed_at", Rule::Time),
    ("/uploaded_at", Rule::Time),
    ("/*/uploaded_at", Rule::Time),
    ("/detail", Rule::Detail),
    // coderd counts when entitlements were last refreshed, the double when it is asked.
    ("/features/user_limit/actual", Rule::Count),
    ("/webpush_public_key", Rule::Point),
    // Each server's own port.
    ("/derp_map/Regions/*/Nodes/*/DERPPort", Rule::Count),
];

/// Everything in which the answers differ and must not.
pub fn differences(double: (&Answer, SocketAddr), real: (&Answer, SocketAddr)) -> Vec<String> {
    let mut found = Vec::new();
    if double.0.status != real.0.status {
        found.push(format!("status: double {}, real {}", double.0.status, real.0.status));
    }
    for name in HEADERS {
        let value = |(answer, addr): (&Answer, SocketAddr)| Some(placeless(answer.header(name)?, addr));
        let (ours, theirs) = (value(double), value(real));
        if ours != theirs {
            found.push(format!("header {name}: double {ours:?}, real {theirs:?}"));
        }
    }
    let body = |(answer, addr): (&Answer, SocketAddr)| {
        let text = placeless(&answer.body, addr);
        // A body that is no JSON is compared as the text it is.
        serde_json::from_str(&text).unwrap_or(Value::from(text))
    };
    walk("", &body(double), &body(real), &mut found);
    found
}

/// Each server writes its own address.
fn placeless(text: &str, addr: SocketAddr) -> String {
    text.replace(&addr.to_string(), "<address>")
}

fn walk(place: &str, double: &Value, real: &Value, found: &mut Vec<String>) {
    match (double, real) {
        (Value::Object(ours), Value::Object(theirs)) => {
            for name in ours.keys().filter(|name| !theirs.contains_key(*name)) {
                found.push(format!("body {place}/{name}: only the double has it: {}", ours[name]));
            }
            for (name, theirs) in theirs {
                match ours.get(name) {
                    Some(ours) => walk(&format!("{place}/{name}"), ours, theirs, found),
                    None => found.push(format!("body {place}/{name}: only the real one has it: {theirs}")),
                }
            }
        }
        (Value::Array(ours), Value::Array(theirs)) if ours.len() == theirs.len() => {
            let pairs = ours.iter().zip(theirs).enumerate();
            pairs.for_each(|(index, (ours, theirs))| walk(&format!("{place}/{index}"), ours, theirs, found));
        }
        (ours, theirs) if ours == theirs || excused(place, ours, theirs) => {}
        (ours, theirs) => found.push(format!("body {place}: double {ours}, real {theirs}")),
    }
}

fn excused(place: &str, ours: &Value, theirs: &Value) -> bool {
    let rules = MAY_DIFFER.iter().filter(|(pattern, _)| fits(pattern, place));
    let texts = ours.as_str().zip(theirs.as_str());
    let both = |is: &dyn Fn(&str) -> bool| texts.is_some_and(|(ours, theirs)| is(ours) && is(theirs));
    rules.into_iter().any(|(_, rule)| match rule {
        Rule::Uuid => both(&|text| text.parse::<Uuid>().is_ok()),
        Rule::Time => both(&|text| text.parse::<jiff::Timestamp>().is_ok()),
        Rule::Detail => {
            texts.is_some_and(|(ours, theirs)| digitless(ours) == digitless(theirs))
                || both(&|text| text.starts_with("invalid character"))
        }
        Rule::Count => ours.is_u64() && theirs.is_u64(),
        Rule::Point => both(&|text| text.len() == 87 && text.bytes().all(base64url)),
    })
}

fn fits(pattern: &str, place: &str) -> bool {
    let (pattern, place): (Vec<&str>, Vec<&str>) = (pattern.split('/').collect(), place.split('/').collect());
    let part = |(known, given): (&&str, &&str)| {
        known == given || (*known == "*" && given.bytes().all(|byte| byte.is_ascii_digit()))
    };
    pattern.len() == place.len() && pattern.iter().zip(&place).all(part)
}

fn base64url(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_'
}

fn digitless(text: &str) -> String {
    let mut plain = String::new();
    for letter in text.chars() {
        match letter {
            digit if digit.is_ascii_digit() && plain.ends_with('#') => {}
            digit if digit.is_ascii_digit() => plain.push('#'),
            other => plain.push(other),
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    const ADDR: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 80);

    fn answer(status: u16, body: &str) -> Answer {
        Answer {
            status,
            headers: vec![("content-type".into(), "application/json".into())],
            body: body.into(),
        }
    }

    fn count(double: &str, real: &str) -> usize {
        differences((&answer(200, double), ADDR), (&answer(200, real), ADDR)).len()
    }

    #[test]
    fn what_differs_is_found_wherever_it_is() {
        assert_eq!(differences((&answer(200, "{}"), ADDR), (&answer(201, "{}"), ADDR)).len(), 1);
        let plain = Answer { headers: Vec::new(), ..answer(200, "{}") };
        assert_eq!(differences((&plain, ADDR), (&answer(200, "{}"), ADDR)).len(), 1);
        assert_eq!(count(r#"{"message":"a"}"#, r#"{"message":"b"}"#), 1);
        assert_eq!(count(r#"{"a":1}"#, r#"{"b":1}"#), 2);
        assert_eq!(count(r#"{"a":[{"b":1}]}"#, r#"{"a":[{"b":2}]}"#), 1);
        assert_eq!(count("[]", "null"), 1);
        assert_eq!(count("OK", "ok"), 1);
    }

    #[test]
    fn what_may_differ_must_still_be_what_it_is() {
        let id = |id: &str| format!(r#"{{"id":"{id}"}}"#);
        let one = id("6f1f6a3e-0000-4000-8000-000000000001");
        assert_eq!(count(&one, &id("6f1f6a3e-0000-4000-8000-000000000002")), 0);
        assert_eq!(count(&one, &id("ops")), 1);
        assert_eq!(count(r#"[{"uploaded_at":"2026-01-01T00:00:00Z"}]"#, r#"[{"uploaded_at":"then"}]"#), 1);
        assert_eq!(count(r#"{"detail":"at 10:20."}"#, r#"{"detail":"at 9:05."}"#), 0);
        assert_eq!(count(r#"{"detail":"at 10:20."}"#, r#"{"detail":"at 10."}"#), 1);
    }

    #[test]
    fn a_servers_own_address_is_no_difference() {
        assert_eq!(count(&format!(r#"{{"url":"http://{ADDR}"}}"#), r#"{"url":"http://127.0.0.1:80"}"#), 0);
    }
}
