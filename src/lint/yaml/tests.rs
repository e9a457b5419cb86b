//! Shows what the reader makes of good, odd and hostile texts.
//! Never asserts a message of the parser word by word.

use super::*;
use serde_json::json;

fn values(text: &str) -> Vec<serde_json::Value> {
    let stream = read(text);
    assert_eq!(stream.flaws, [], "{text}");
    stream.documents.iter().map(|document| document.root.to_value()).collect()
}

fn traps(text: &str) -> Vec<TrapKind> {
    read(text).documents.into_iter().flat_map(|document| document.traps).map(|trap| trap.kind).collect()
}

fn flaw(text: &str) -> FlawKind {
    read(text).flaws.first().expect(text).kind
}

#[test]
fn documents_are_counted_and_empty_ones_dropped() {
    assert_eq!(
        values("a: 1\n---\n---\n# nothing\n---\nb: 2\n...\n---\n"),
        [json!({"a": 1}), json!({"b": 2})]
    );
    assert_eq!(values(""), [] as [serde_json::Value; 0]);
    let stream = read("a: 1\n---\nb: 2\n");
    let lines: Vec<_> = stream.documents.iter().map(|d| (d.first_line, d.last_line)).collect();
    assert_eq!(lines.len(), 2);
    assert!(lines[0].1 <= lines[1].0 && lines[1].0 >= 2, "{lines:?}");
}

#[test]
fn lines_are_those_of_the_parser() {
    let all = |text: &'static str| lines(text).collect::<Vec<_>>();
    assert_eq!(all(""), [(0, "")]);
    assert_eq!(all("a\nb\r\nc\rd\n"), [(0, "a"), (2, "b"), (5, "c"), (7, "d"), (9, "")]);
    let text = "a: 1\rb: 2\r\n\rc: .inf\n";
    let place = read(text).documents[0].traps[0].span;
    assert_eq!(lines(text).nth(place.line as usize - 1), Some((12, "c: .inf")));
}

#[test]
fn json_is_read_too() {
    assert_eq!(
        values("{\"a\": [1, \"y\", true, null],\n\t\"b\": \"\\u00e9\\/\"}\n"),
        [json!({"a": [1, "y", true, null], "b": "é/"})]
    );
    let long = "k".repeat(5000);
    assert_eq!(values(&format!("{{\"{long}\": 1}}")), [json!({ long.as_str(): 1 })]);
}

#[test]
fn a_broken_document_does_not_hide_the_next_one() {
    let stream = read("a: [1\n---\nb: 2\n");
    assert_eq!(stream.flaws.len(), 1);
    assert_eq!(stream.documents.len(), 1);
    assert_eq!(stream.documents[0].root.span.line, 3);
}

#[test]
fn aliases_and_merge_keys_are_written_out() {
    let text = "base: &b {x: 1, y2: 2}\nuse:\n  <<: *b\n  x: 3\nlist: [*b, *b]\n";
    let expected = json!({
        "base": {"x": 1, "y2": 2}, "use": {"x": 3, "y2": 2}, "list": [{"x": 1, "y2": 2}, {"x": 1, "y2": 2}],
    });
    assert_eq!(values(text), [expected]);
    assert_eq!(flaw("a: &a [*a]\n"), FlawKind::Syntax);
    assert_eq!(flaw("a: *nowhere\n"), FlawKind::Syntax);
}

#[test]
fn a_few_lines_cannot_take_all_memory() {
    let mut text = "l0: &l0 [x, x, x, x, x, x, x, x, x, x]\n".to_owned();
    for level in 1..12 {
        let inner = vec![format!("*l{}", level - 1); 10].join(", ");
        text.push_str(&format!("l{level}: &l{level} [{inner}]\n"));
    }
    assert_eq!(flaw(&text), FlawKind::TooMuch);
    assert_eq!(flaw(&"[".repeat(50_000)), FlawKind::TooMuch);
    assert_eq!(flaw(&"- ".repeat(50_000)), FlawKind::TooMuch);
    assert_eq!(flaw(&"a\n---\n".repeat(MAX_DOCUMENTS + 1)), FlawKind::TooMuch);
    assert_eq!(flaw(&" ".repeat(MAX_BYTES + 1)), FlawKind::TooMuch);
}

#[test]
fn duplicate_keys_are_noted_and_the_last_one_counts() {
    let text = "a: 1\nb: {c: 1, c: 2}\na: 3\n";
    assert_eq!(values(text), [json!({"a": 3, "b": {"c": 2}})]);
    let duplicate = |key: &str, first| TrapKind::DuplicateKey { key: key.to_owned(), first };
    assert_eq!(traps(text), [duplicate("c", 2), duplicate("a", 1)]);
}

#[test]
fn keys_that_are_read_as_others_are_noted() {
    let read_as =
        |written: &str, read: &str| TrapKind::KeyReadAs { written: written.into(), read: read.into() };
    assert_eq!(traps("y: 1\n"), [read_as("y", "true")]);
    assert_eq!(traps("on: 1\n"), [read_as("on", "true")]);
    assert_eq!(traps("1.10: 1\n"), [read_as("1.10", "1.1")]);
    assert_eq!(traps("0644: 1\n"), [read_as("0644", "420")]);
    assert_eq!(traps("\"y\": 1\n8080: 2\ntrue: 3\n"), []);
    assert_eq!(traps("[a]: 1\n"), [TrapKind::NoJson { what: "a key that is not text" }]);
    assert_eq!(traps("a: .inf\n"), [TrapKind::NoJson { what: "a number JSON does not have" }]);
}

#[test]
fn mistakes_are_told_apart() {
    assert_eq!(flaw("a:\n\t- b\n"), FlawKind::Tab);
    assert_eq!(flaw("a: \"b\n"), FlawKind::Unclosed);
    assert_eq!(flaw("a: [1, 2\n"), FlawKind::Unclosed);
    assert_eq!(flaw("a: b: c\n"), FlawKind::Syntax);
    assert_eq!(flaw("{{ helm }}: {{ x }}\nb: }\n"), FlawKind::Syntax);
}

#[test]
fn no_byte_string_makes_it_panic() {
    let seeds = [
        "apiVersion: coder.com/v1alpha1\nkind: CoderControlPlane\nmetadata: {name: a}\nspec:\n  extraEnv:\n  - &x {name: A, value: \"b\"}\n  - *x\n",
        "%YAML 1.1\n---\n!!str &a 'x': |+2\n    y\n...\n? [a, b]\n: - c\n",
        "{\"a\": [1, 2.5e3, \"\\ud83d\\ude00\", null]}",
    ];
    let mut random = fastrand::Rng::with_seed(4);
    for round in 0..6_000 {
        let mut bytes = seeds[round % seeds.len()].as_bytes().to_vec();
        for _ in 0..random.usize(1..6) {
            let place = random.usize(..bytes.len());
            match random.u8(..4) {
                0 => bytes[place] = random.u8(..),
                1 => drop(bytes.remove(place)),
                2 => bytes.insert(place, *random.choice(b"-:?&*!|>'\"%@`#,[]{}\n\t \x00<").unwrap()),
                _ => {
                    let end = (place + random.usize(1..9)).min(bytes.len());
                    let part = bytes[place..end].to_vec();
                    let again = random.usize(..=bytes.len());
                    bytes.splice(again..again, part);
                }
            }
        }
        let text = String::from_utf8_lossy(&bytes);
        for document in read(&text).documents {
            document.root.to_value();
        }
    }
}
