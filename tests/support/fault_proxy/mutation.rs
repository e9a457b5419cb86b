//! Decides which requests change something that outlives the operator, and what they are called in every run.
//! It never looks at bodies: a write is known by whom it goes to, its method and its path.

/// Whom a request goes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum System {
    /// kube-apiserver.
    Kubernetes,
    /// coderd.
    Coderd,
}

/// Resources whose writes leave nothing that a reconcile rests on: who leads, what was told, and questions.
const LEFT_OUT: [&str; 7] = [
    "leases",
    "events",
    "tokenreviews",
    "subjectaccessreviews",
    "selfsubjectaccessreviews",
    "localsubjectaccessreviews",
    "selfsubjectrulesreviews",
];

/// The name of the write that this request is; none if it writes nothing that counts.
pub(super) fn mutation(system: System, method: &str, url: &str) -> Option<String> {
    if !matches!(method, "POST" | "PUT" | "PATCH" | "DELETE") {
        return None;
    }
    let (path, query) = url.split_once('?').unwrap_or((url, ""));
    if query.split('&').any(|parameter| parameter.starts_with("dryRun=")) {
        return None;
    }
    let left_out = match system {
        System::Kubernetes => path.split('/').any(|part| LEFT_OUT.contains(&part)),
        System::Coderd => false,
    };
    let to = match system {
        System::Kubernetes => "kubernetes",
        System::Coderd => "coderd",
    };
    (!left_out).then(|| format!("{to} {method} {path}"))
}

/// A text with the names of one run replaced by what they are called in every run, the longest first: one may begin with
/// another.
pub fn in_every_run(text: &str, names: &[(String, String)]) -> String {
    let mut names: Vec<&(String, String)> = names.iter().collect();
    names.sort_by_key(|(name, _)| std::cmp::Reverse(name.len()));
    names.into_iter().fold(text.to_owned(), |text, (name, role)| text.replace(name, role))
}

/// A path with the ids that coderd chose replaced by a word: they are others in each run, and nobody knows them before.
pub(super) fn without_ids(path: &str) -> String {
    let is_id = |part: &str| {
        let lengths = part.split('-').map(str::len);
        lengths.eq([8, 4, 4, 4, 12]) && part.chars().all(|one| one == '-' || one.is_ascii_hexdigit())
    };
    path.split('/').map(|part| if is_id(part) { "{id}" } else { part }).collect::<Vec<_>>().join("/")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_writes_that_last_count() {
        let of = |method: &str, path: &str| mutation(System::Kubernetes, method, path);
        let status = "/apis/coder.com/v1alpha1/namespaces/a/codercontrolplanes/coder/status";
        assert_eq!(
            of("PATCH", &format!("{status}?fieldManager=x")),
            Some(format!("kubernetes PATCH {status}"))
        );
        assert_eq!(of("GET", status), None);
        assert_eq!(of("PATCH", &format!("{status}?fieldManager=x&dryRun=All")), None);
        for path in [
            "/apis/coordination.k8s.io/v1/namespaces/a/leases/b",
            "/apis/events.k8s.io/v1/namespaces/a/events",
            "/apis/authorization.k8s.io/v1/subjectaccessreviews",
            "/apis/authentication.k8s.io/v1/tokenreviews",
        ] {
            assert_eq!(of("POST", path), None, "{path}");
        }
        assert!(mutation(System::Coderd, "POST", "/api/v2/licenses").is_some());
    }

    #[test]
    fn names_of_a_run_become_names_of_every_run() {
        let names = [("home-1", "{home}"), ("home-12", "{first}")].map(|(a, b)| (a.to_owned(), b.to_owned()));
        assert_eq!(in_every_run("/home-12/x/home-1.coder", &names), "/{first}/x/{home}.coder");
    }

    #[test]
    fn an_id_of_one_run_is_a_word_in_every_run() {
        let path = "coderd DELETE /api/v2/workspaceproxies/0b1ce000-0000-4000-8000-00000000000a";
        assert_eq!(without_ids(path), "coderd DELETE /api/v2/workspaceproxies/{id}");
        assert_eq!(without_ids("kubernetes PATCH /a-b/farm-2"), "kubernetes PATCH /a-b/farm-2");
    }
}
