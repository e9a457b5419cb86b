//! The manifests we ship as samples are accepted, as they are and with every default filled in.

use std::path::Path;

use serde_json::Value;
use webhooks::{Config, Kind, Operation, resolved, unknown_fields, validate};

#[test]
fn every_sample_is_accepted() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../kustomize/samples");
    let mut seen = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let object: Value = serde_saphyr::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
        let Some(kind) = object["kind"].as_str().and_then(Kind::from_name) else { continue };
        seen += 1;
        for object in [&object, &resolved(kind, &object, &Config::default())] {
            let verdict = validate(kind, object, Operation::Create);
            assert!(verdict.allowed(), "{}: {:?}", path.display(), verdict.denial());
            assert_eq!(unknown_fields(kind, object), [""; 0], "{}", path.display());
        }
    }
    assert!(seen >= 8, "{seen} samples");
}
