//! Decides by which description the API server is reached, in the order of every Kubernetes tool: `--kubeconfig`,
//! `$KUBECONFIG`, the account of the pod, `~/.kube/config`. It reads files and never connects.

use kube::Config;
use kube::config::{KubeConfigOptions, Kubeconfig, KubeconfigError};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

/// Why there is no description of the API server that can be used.
#[derive(Debug, thiserror::Error)]
pub enum ConfigurationError {
    /// A file is of no use.
    #[error("cannot use the kubeconfig {path}, which is named by {by}: {why}")]
    Kubeconfig {
        /// The file, or all of a list.
        path: String,
        /// Who named it.
        by: &'static str,
        /// What is wrong with it. Never its content: that holds credentials.
        why: String,
    },
    /// `$KUBECONFIG` is set, but to nothing.
    #[error("no file that $KUBECONFIG names exists: {0}")]
    NoneExists(String),
    /// Nothing is there.
    #[error(
        "no way to the API server was found: neither --kubeconfig nor $KUBECONFIG is set, there is no account of a pod \
         ({pod}), and {home}; name a kubeconfig with --kubeconfig"
    )]
    Nowhere {
        /// Why the account of the pod cannot be used.
        pod: String,
        /// Why the file in the home folder cannot.
        home: String,
    },
}

/// The description to use, given the value of the flag.
pub(super) async fn find(flag: Option<&Path>) -> Result<Config, ConfigurationError> {
    if let Some(path) = flag {
        return merged(&[path.to_owned()], "--kubeconfig").await;
    }
    let named = files(&std::env::var_os("KUBECONFIG").unwrap_or_default());
    if !named.is_empty() {
        return merged(&existing(named)?, "$KUBECONFIG").await;
    }
    let pod = match Config::incluster() {
        Ok(config) => return Ok(config),
        Err(error) => error.to_string(),
    };
    let home = std::env::var_os("HOME").filter(|home| !home.is_empty());
    let Some(path) = home.map(|home| PathBuf::from(home).join(".kube/config")) else {
        return Err(ConfigurationError::Nowhere { pod, home: "$HOME is not set".to_owned() });
    };
    if !path.exists() {
        return Err(ConfigurationError::Nowhere { pod, home: format!("{} does not exist", path.display()) });
    }
    merged(&[path], "$HOME").await
}

/// The files of a list as in `$PATH`, empty entries left out.
fn files(list: &OsStr) -> Vec<PathBuf> {
    std::env::split_paths(list).filter(|path| !path.as_os_str().is_empty()).collect()
}

/// As kubectl does, a file that is not there is passed over, unless none is.
fn existing(named: Vec<PathBuf>) -> Result<Vec<PathBuf>, ConfigurationError> {
    let (there, missing): (Vec<PathBuf>, Vec<PathBuf>) = named.into_iter().partition(|path| path.exists());
    if there.is_empty() {
        return Err(ConfigurationError::NoneExists(list(&missing)));
    }
    for path in missing {
        tracing::warn!(path = %path.display(), "a file that $KUBECONFIG names does not exist; it is passed over");
    }
    Ok(there)
}

async fn merged(paths: &[PathBuf], by: &'static str) -> Result<Config, ConfigurationError> {
    let failed = |path: String, error: &KubeconfigError| ConfigurationError::Kubeconfig {
        path,
        by,
        why: because(error),
    };
    let mut all = Kubeconfig::default();
    for path in paths {
        let at = || path.display().to_string();
        let mut file = Kubeconfig::read_from(path).map_err(|error| failed(at(), &error))?;
        // kubectl writes an empty one, which says nothing: the next file may name it.
        file.current_context = file.current_context.filter(|name| !name.is_empty());
        all = all.merge(file).map_err(|error| failed(at(), &error))?;
    }
    let config = Config::from_custom_kubeconfig(all, &KubeConfigOptions::default()).await;
    config.map_err(|error| failed(list(paths), &error))
}

/// What is wrong, without what stands there: a parser quotes the line it cannot read, and that may hold a token.
fn because(error: &KubeconfigError) -> String {
    match error {
        KubeconfigError::CurrentContextNotSet => "it has no current-context".to_owned(),
        KubeconfigError::ReadConfig(error, _) => error.to_string(),
        KubeconfigError::Parse(error) => match error.location() {
            Some(location) => format!("it cannot be read at line {}", location.line()),
            None => "it cannot be read".to_owned(),
        },
        other => other.to_string(),
    }
}

fn list(paths: &[PathBuf]) -> String {
    paths.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn empty_entries_of_the_list_are_left_out() {
        assert_eq!(files(OsStr::new(":/a::b:")), [PathBuf::from("/a"), PathBuf::from("b")]);
        assert_eq!(files(OsStr::new("")), Vec::<PathBuf>::new());
    }

    #[test]
    fn a_file_that_is_not_there_is_passed_over_unless_none_is() {
        let (here, nowhere) = (PathBuf::from("/proc/self/exe"), PathBuf::from("/proc/nowhere"));
        assert_eq!(existing(vec![nowhere.clone(), here.clone()]).unwrap(), [here]);
        let error = existing(vec![nowhere]).unwrap_err().to_string();
        assert_eq!(error, "no file that $KUBECONFIG names exists: /proc/nowhere");
    }
}
