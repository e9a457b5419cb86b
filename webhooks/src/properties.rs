//! Properties that hold for any object: defaults settle, nothing panics, what is stored stays updatable.
//! They never name a rule.

use serde_json::Value;

use crate::generate::Generator;
use crate::warnings::within_limits;
use crate::{
    AccessReviews, Config, Operation, defaulted, defaults, required_access, resolved, status_resolved,
    unknown_fields, validate,
};

#[test]
fn defaults_settle_after_one_patch_and_keep_everything_that_was_there() {
    let (mut generator, config) = (Generator::new(1), Config::default());
    for number in 0..120_000_u32 {
        let kind = generator.kind();
        let object = generator.object(kind);
        let object = if number % 3 == 0 { generator.mutated(&object) } else { object };
        let older = generator.object(kind);
        let old = (number % 2 == 0).then_some(&older);
        let once = defaulted(kind, &object, old, &config);
        assert!(defaults(kind, &once, old, &config).0.is_empty(), "{object}");
        assert_eq!(defaults(kind, &object, old, &config), defaults(kind, &object, old, &config));
        assert!(contains(&once, &object), "{object}");
    }
}

/// Whether everything of `small` is in `large` unchanged.
fn contains(large: &Value, small: &Value) -> bool {
    match (large, small) {
        (Value::Object(large), Value::Object(small)) => {
            small.iter().all(|(key, value)| large.get(key).is_some_and(|given| contains(given, value)))
        }
        (large, small) => large == small,
    }
}

#[test]
fn no_json_makes_anything_panic() {
    let (mut generator, config) = (Generator::new(2), Config::default());
    for _ in 0..20_000 {
        let kind = generator.kind();
        let (old, new) = (generator.json(5), generator.json(5));
        for operation in [Operation::Create, Operation::Update(&old), Operation::Reconcile] {
            let verdict = validate(kind, &new, operation);
            assert_eq!(verdict.allowed(), verdict.denial().is_none());
        }
        let _ =
            (resolved(kind, &new, &config), status_resolved(kind, &new, &config), unknown_fields(kind, &new));
        let mut reviews = AccessReviews::new(required_access(Some(&old), &new, "coder", kind));
        while let Some(question) = reviews.pending().pop() {
            reviews.record(question, false);
        }
        let _ = reviews.causes();
    }
}

#[test]
fn an_object_that_stays_as_it_is_is_never_refused_and_asks_for_no_right() {
    let mut generator = Generator::new(3);
    let mut refused_when_new = 0;
    for _ in 0..10_000 {
        let kind = generator.kind();
        let object = generator.object(kind);
        refused_when_new += u32::from(!validate(kind, &object, Operation::Create).allowed());
        let verdict = validate(kind, &object, Operation::Update(&object));
        assert!(verdict.allowed(), "{:?}\n{object}", verdict.denial());
        assert_eq!(required_access(Some(&object), &object, "coder", kind), []);
    }
    assert!((1_000..9_900).contains(&refused_when_new), "{refused_when_new} of 10000 are refused");
}

#[test]
fn generated_objects_are_refused_for_many_reasons_and_some_pass() {
    let mut generator = Generator::new(4);
    let mut codes = std::collections::BTreeSet::new();
    let mut passed = [0; 3];
    for _ in 0..10_000 {
        let kind = generator.kind();
        let verdict = validate(kind, &generator.object(kind), Operation::Create);
        passed[kind as usize] += i32::from(verdict.allowed());
        for cause in &verdict.causes {
            codes.insert(cause.code);
            let line = cause.to_string();
            assert!(line.is_ascii() || !line.chars().any(char::is_control), "{line}");
            assert!(cause.message().ends_with(&format!("({})", cause.code)));
        }
        let delivered = within_limits(verdict.warnings.iter().map(ToString::to_string));
        assert!(delivered.iter().all(|warning| warning.chars().count() <= 256));
    }
    assert!(codes.len() >= 25, "{codes:?}");
    assert!(passed.iter().all(|count| *count >= 10), "{passed:?}");
}

#[test]
fn defaults_never_make_a_good_object_bad() {
    let (mut generator, config) = (Generator::new(5), Config::default());
    for _ in 0..10_000 {
        let kind = generator.kind();
        let object = generator.object(kind);
        if validate(kind, &object, Operation::Create).allowed() {
            let verdict = validate(kind, &defaulted(kind, &object, None, &config), Operation::Create);
            assert!(verdict.allowed(), "{:?}\n{object}", verdict.denial());
            let complete = validate(kind, &resolved(kind, &object, &config), Operation::Create);
            assert!(complete.allowed(), "{:?}\n{object}", complete.denial());
        }
    }
}
