//! Decides the findings that only a file can have: traps of YAML and of the way to the cluster, one stable code each.
//! Never repeats a rule of admission: those live in the crate `webhooks` and come through the engine.

use super::Severity;

/// One kind of finding.
#[derive(Debug)]
pub(super) struct Code {
    /// Stable, for example `CODER0702`.
    pub code: &'static str,
    /// What must hold, as a short sentence.
    pub title: &'static str,
    /// How hard it is.
    pub severity: Severity,
    /// Why it exists.
    pub why: &'static str,
    /// What to do about it.
    pub fix: &'static str,
    /// Part of a manifest that breaks it.
    pub bad: &'static str,
    /// The same part, good.
    pub good: &'static str,
}

macro_rules! codes {
    ($($name:ident = $code:literal, $severity:ident, $title:literal, why $why:literal, fix $fix:literal, bad $bad:literal, good $good:literal;)*) => {
        $(
            #[doc = $title]
            pub(super) static $name: Code = Code {
                code: $code,
                title: $title,
                severity: Severity::$severity,
                why: $why,
                fix: $fix,
                bad: $bad,
                good: $good,
            };
        )*
        /// Every code of this page, in order.
        pub(super) static ALL: &[&Code] = &[$(&$name),*];
    };
}

codes! {
    SYNTAX = "CODER0701", Error, "The file is YAML",
        why "What cannot be read cannot be applied; the rest of the file is still checked, document by document.",
        fix "correct the YAML at this place; render a template before it is checked",
        bad "spec: image: coder\n", good "spec:\n  image: coder\n";
    DUPLICATE_KEY = "CODER0702", Error, "A key is given once",
        why "kubectl takes the last one silently, kustomize and Flux refuse the file, and a reviewer sees the first.",
        fix "keep one of the two",
        bad "replicas: 1\nreplicas: 2\n", good "replicas: 2\n";
    KEY_READ_AS = "CODER0703", Error, "A key means what it shows",
        why "YAML 1.1 reads the words y, n, on, off, yes and no as booleans, also as keys, and rewrites numbers: the API server gets another key than the file shows.",
        fix "put the key in quotes",
        bad "tags:\n  on: premises\n", good "tags:\n  \"on\": premises\n";
    TEXT_READ_AS = "CODER0704", Error, "A text is written as a text",
        why "The field holds text, but without quotes this value is a boolean or a number, and the API server refuses it.",
        fix "put the value in quotes",
        bad "- name: CODER_PROMETHEUS_ENABLE\n  value: true\n",
        good "- name: CODER_PROMETHEUS_ENABLE\n  value: \"true\"\n";
    OCTAL = "CODER0705", Warning, "A number has no leading zero",
        why "A leading zero makes a number octal: 0080 is not 80. Only file modes are written so.",
        fix "leave out the leading zero",
        bad "port: 0443\n", good "port: 443\n";
    TAB = "CODER0706", Error, "Indentation is made of spaces",
        why "YAML allows no tab in indentation.",
        fix "use spaces instead of the tab",
        bad "spec:\n\treplicas: 1\n", good "spec:\n  replicas: 1\n";
    UNCLOSED = "CODER0707", Error, "What is opened is closed",
        why "A quote or bracket that never closes swallows the rest of the document.",
        fix "close the quote or bracket",
        bad "extraArgs: [--verbose\n", good "extraArgs: [--verbose]\n";
    TOO_MUCH = "CODER0708", Error, "The file keeps within limits",
        why "A file of 8 MiB, 10,000 documents or 100 levels, or aliases that stand for far more than they show, is no manifest; the API server refuses such objects too.",
        fix "split the file, or write out less",
        bad "a: &a [x, x]\nb: &b [*a, *a]\n", good "a: [x, x]\n";
    NO_JSON = "CODER0709", Error, "Every value exists in JSON",
        why "The API server speaks JSON, which has no infinity and no keys but text; kubectl refuses the document.",
        fix "write a text or a number; render a template before it is checked",
        bad "? [a, b]\n: c\n", good "a: c\n";
    UNKNOWN_SUPPRESSION = "CODER0710", Warning, "A suppression names a code that exists",
        why "A comment with a wrong code suppresses nothing, and nobody notices.",
        fix "correct the code; `coder-k8s explain CODE` knows all of them",
        bad "# coder-lint: disable=CODER9999\n", good "# coder-lint: disable=CODER0601\n";
    UNKNOWN_KIND = "CODER0711", Error, "The kind exists in coder.com/v1alpha1",
        why "The API server answers \"no matches for kind\", and a GitOps tool stops there.",
        fix "write apiVersion coder.com/v1alpha1 and one of CoderControlPlane, CoderProvisioner, CoderWorkspaceProxy",
        bad "apiVersion: coder.com/v1\nkind: CoderControlplane\n",
        good "apiVersion: coder.com/v1alpha1\nkind: CoderControlPlane\n";
    UNKNOWN_FIELD = "CODER0712", Error, "Every field exists",
        why "kubectl and server-side apply refuse a field the schema does not have; where they are told not to, the API server drops it and nothing happens.",
        fix "correct the name, move the field to where it belongs, or remove it",
        bad "spec:\n  replica: 2\n", good "spec:\n  replicas: 2\n";
    UNNAMED = "CODER0713", Error, "An object has a name",
        why "The API server refuses an object without a name, and every name the operator derives follows from it.",
        fix "give metadata.name",
        bad "metadata:\n  labels: {}\n", good "metadata:\n  name: coder\n";
    FORCE = "CODER0801", Error, "Flux does not force our objects",
        why "With force, Flux answers a refused change by deleting the object and creating it again: a typing error then takes a control plane away.",
        fix "remove force; a refused change is to be corrected in Git",
        bad "kind: Kustomization\nspec:\n  path: ./coder\n  force: true\n", good "kind: Kustomization\nspec:\n  path: ./coder\n";
    CA_BUNDLE = "CODER0802", Error, "Git holds no caBundle",
        why "The operator writes the caBundle and rotates it. A value in Git fights with it, and every sync breaks TLS.",
        fix "remove the key caBundle; the label coder.com/inject-ca: \"true\" is enough",
        bad "clientConfig:\n  caBundle: Cg==\n", good "clientConfig:\n  service: {name: webhooks, namespace: system}\n";
    REPLACE = "CODER0803", Error, "Argo CD applies our objects and does not replace them",
        why "Replace wipes defaults and the caBundle at every sync; with Force it deletes the object first.",
        fix "remove Replace=true and Force=true; ServerSideApply=true is fine",
        bad "kind: Application\nspec:\n  syncPolicy:\n    syncOptions: [Replace=true]\n",
        good "kind: Application\nspec:\n  syncPolicy:\n    syncOptions: [ServerSideApply=true]\n";
    ONE_UNIT = "CODER0804", Warning, "Operator and objects are applied apart",
        why "Applied together, objects are stored before the webhook exists; later an operator that is down blocks the very sync that would repair it.",
        fix "put the operator and the objects in two Kustomizations or Applications, the second depending on the first",
        bad "resources:\n  - operator\n  - coder.yaml\n", good "resources:\n  - coder.yaml\n";
    DEPENDS_ON = "CODER0805", Warning, "Flux applies objects after the operator",
        why "Without dependsOn the first sync meets a cluster without our kinds, and tries again only at the next interval.",
        fix "add dependsOn with the Kustomization of the operator, and give that one wait: true",
        bad "spec:\n  path: ./coder\n", good "spec:\n  path: ./coder\n  dependsOn:\n    - name: coder-operator\n";
    MISSING_REFERENCE = "CODER0806", Warning, "What is referred to is there",
        why "The set holds other objects of that kind but not this one, so the reference may be misspelt. Admission never looks: order in Git is arbitrary.",
        fix "correct the name or add the object; suppress the finding where it comes from elsewhere",
        bad "licenseSecretRef:\n  name: coder-licence\n", good "licenseSecretRef:\n  name: coder-license\n";
    SAME_DERIVED_NAME = "CODER0807", Error, "No two objects make something of the same name",
        why "Of two objects that claim one Deployment, Service, Secret, provisioner key or workspace proxy only one gets it, and the other is stalled; coderd does not tell upper and lower case apart. No admission can see it, because it looks at one object.",
        fix "rename one of the two",
        bad "kind: CoderControlPlane\nmetadata:\n  name: wsproxy-eu\n---\nkind: CoderWorkspaceProxy\nmetadata:\n  name: eu\n",
        good "kind: CoderControlPlane\nmetadata:\n  name: coder\n---\nkind: CoderWorkspaceProxy\nmetadata:\n  name: eu\n";
    EMPTY_SECRET = "CODER0808", Error, "Git holds no empty Secret that the operator fills",
        why "Every sync would empty it again, and with it the key or token inside, which nobody can read back.",
        fix "remove the Secret from Git; the operator makes it",
        bad "kind: Secret\nmetadata:\n  name: builders-provisioner-key\n", good "kind: CoderProvisioner\nmetadata:\n  name: builders\n";
}

/// The page of one of these codes, in the shape of the pages of admission.
pub(super) fn page(code: &str) -> Option<String> {
    let code = ALL.iter().find(|known| known.code.eq_ignore_ascii_case(code))?;
    let Code { code, title, severity, why, fix, bad, good } = code;
    let severity = severity.as_str();
    Some(format!(
        "### {code}: {title}\n\n{why}\n\n- {severity}, found by `coder-k8s lint` only\n- Fix: {fix}\n\n\
         Bad:\n\n```yaml\n{bad}```\n\nGood:\n\n```yaml\n{good}```\n",
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lint::engine;

    #[test]
    fn codes_are_in_order_and_none_is_a_rule_of_admission() {
        assert!(ALL.windows(2).all(|pair| pair[0].code < pair[1].code));
        for code in ALL {
            assert!(engine::explain(code.code).is_none(), "{} is taken twice", code.code);
            assert!(!code.title.ends_with('.') && code.why.ends_with('.') && !code.fix.ends_with('.'));
            assert_ne!(code.bad, code.good);
        }
    }

    #[test]
    fn every_code_has_a_page_in_any_case() {
        for code in ALL {
            let page = page(&code.code.to_lowercase()).unwrap();
            assert!(page.contains(code.code) && page.contains(code.fix), "{page}");
        }
        assert_eq!(page("CODER9999"), None);
    }
}
