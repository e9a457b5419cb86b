//! Which namespace this process runs in.

use std::path::Path;

/// Where a pod finds the namespace of its service account.
const SERVICE_ACCOUNT_NAMESPACE: &str = "/var/run/secrets/kubernetes.io/serviceaccount/namespace";

/// `POD_NAMESPACE`, then the service account's file, then `kube-system`.
pub(crate) fn own_namespace() -> String {
    choose(std::env::var("POD_NAMESPACE").ok(), Path::new(SERVICE_ACCOUNT_NAMESPACE))
}

fn choose(from_environment: Option<String>, file: &Path) -> String {
    let named = |name: String| Some(name.trim().to_owned()).filter(|name| !name.is_empty());
    from_environment
        .and_then(named)
        .or_else(|| std::fs::read_to_string(file).ok().and_then(named))
        .unwrap_or_else(|| "kube-system".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_environment_wins_over_the_file_and_the_file_over_kube_system() {
        let file = std::env::temp_dir().join(format!("namespace-{}", std::process::id()));
        std::fs::write(&file, "from-file\n").unwrap();
        assert_eq!(choose(Some("from-env".to_owned()), &file), "from-env");
        assert_eq!(choose(Some(" ".to_owned()), &file), "from-file");
        std::fs::remove_file(&file).unwrap();
        assert_eq!(choose(None, &file), "kube-system");
    }
}
