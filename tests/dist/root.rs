//! The root of a container: what the Containerfile of a release puts into the image, read from it, and what a kubelet mounts. Nothing
//! of this machine is in it.

use std::net::IpAddr;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;
use support::process::scratch_folder;
use support::{Cluster, Installation};

/// Where most systems keep what Alpine keeps at the place that the Containerfile names.
const BUNDLES: [&str; 3] =
    ["/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/ca-bundle.pem"];
const ACCOUNT: &str = "var/run/secrets/kubernetes.io/serviceaccount";

/// A folder that a process has for its root.
pub struct Root {
    folder: PathBuf,
    files: Vec<String>,
    user: String,
    entry: String,
}

impl Root {
    /// The image of a release, with one more authority among those it trusts.
    pub fn new(dist: &Path, authority: &str) -> Self {
        let of_root = std::fs::metadata("/proc/self").is_ok_and(|process| process.uid() == 0);
        assert!(of_root, "only root may change the root of a process: run `make test-dist` as root");
        let text =
            std::fs::read_to_string(dist.join("Containerfile")).expect("a release has a Containerfile");
        assert_is_built(&text, dist);
        let image = text.rsplit("\nFROM ").next().expect("an image");
        assert!(image.starts_with("scratch\n"), "the image begins with nothing");
        let after = |word: &str| image.lines().find_map(|line| line.strip_prefix(word).map(str::to_owned));
        let entry = after("ENTRYPOINT ").expect("an entry point").replace(['[', ']', '"'], "");
        let mut root = Self {
            folder: scratch_folder("root"),
            files: Vec::new(),
            user: after("USER ").expect("a user"),
            entry,
        };
        for copy in image.lines().filter_map(|line| line.strip_prefix("COPY ")) {
            let words: Vec<&str> = copy.split_whitespace().filter(|word| !word.starts_with("--")).collect();
            let &[from, to] = &words[..] else { panic!("COPY {copy}") };
            if copy.starts_with("--from=roots ") {
                root.write(to, format!("{}{authority}", bundle()).as_bytes(), 0o644);
            } else {
                let from = dist.join(from.replace("${TARGETARCH}", architecture()));
                let content =
                    std::fs::read(&from).unwrap_or_else(|error| panic!("{}: {error}", from.display()));
                root.write(to, &content, 0o755);
            }
        }
        root
    }

    fn write(&mut self, path: &str, content: &[u8], mode: u32) {
        put(&self.folder, path, content, mode);
        self.files.push(path.to_owned());
    }

    /// What the image has.
    pub fn files(&self) -> &[String] {
        &self.files
    }

    /// Whom the image runs as.
    pub fn user(&self) -> &str {
        &self.user
    }

    /// The account of the pod, and how names are resolved in a pod.
    pub async fn add_what_a_kubelet_adds(&self, cluster: &Cluster, installation: &Installation, dns: IpAddr) {
        let namespace = &installation.namespace;
        let token = cluster.token(namespace, &installation.service_account, &[]).await;
        let domain = "cluster.local";
        let resolv = format!(
            "nameserver {dns}\nsearch {namespace}.svc.{domain} svc.{domain} {domain}\noptions ndots:5\n"
        );
        let files = [
            (format!("{ACCOUNT}/token"), token.as_str()),
            (format!("{ACCOUNT}/ca.crt"), cluster.ca()),
            (format!("{ACCOUNT}/namespace"), namespace),
            ("etc/resolv.conf".to_owned(), &resolv),
        ];
        for (path, content) in files {
            put(&self.folder, &path, content.as_bytes(), 0o644);
        }
    }

    /// What starts the entry point in this root, with the environment that a kubelet gives.
    pub fn command(&self, cluster: &Cluster) -> Command {
        let url = cluster.url();
        let (host, port) = url.trim_start_matches("https://").split_once(':').expect("a port");
        let mut command = Command::new("chroot");
        command.env_clear().env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin");
        command.env("KUBERNETES_SERVICE_HOST", host).env("KUBERNETES_SERVICE_PORT", port);
        command.arg(format!("--userspec={}", self.user)).arg(&self.folder).arg(&self.entry);
        command
    }
}

fn put(root: &Path, path: &str, content: &[u8], mode: u32) {
    let file = root.join(path.trim_start_matches('/'));
    std::fs::create_dir_all(file.parent().expect("a folder")).expect("a writable folder");
    std::fs::write(&file, content).expect("a writable folder");
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(mode)).expect("our own file");
}

fn architecture() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => panic!("no release is built for {other}"),
    }
}

/// The authorities that most of the world is trusted by.
fn bundle() -> String {
    let found = BUNDLES.iter().find_map(|path| std::fs::read_to_string(path).ok());
    found.unwrap_or_else(|| panic!("none of {BUNDLES:?} exists: install ca-certificates"))
}

/// The command in the Containerfile names those platforms that were built and no other.
fn assert_is_built(containerfile: &str, dist: &Path) {
    let (_, rest) = containerfile.split_once("--platform=").expect("a command to build it");
    let platforms = rest.split_whitespace().next().unwrap_or_default();
    let mut named: Vec<String> =
        platforms.split(',').map(|platform| format!("coder-k8s-{}", platform.replace('/', "-"))).collect();
    let entries =
        std::fs::read_dir(dist).expect("a release").map(|entry| entry.expect("a release").file_name());
    let files = entries.map(|name| name.to_string_lossy().into_owned());
    let mut built: Vec<String> =
        files.filter(|name| name.starts_with("coder-k8s-linux-") && !name.contains('.')).collect();
    named.sort();
    built.sort();
    assert_eq!(named, built, "the command at the top of the Containerfile works with what was built");
}
