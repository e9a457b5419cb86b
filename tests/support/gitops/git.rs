//! A Git repository with a work tree, served over HTTP on loopback as `git http-backend` does it, which is what Flux and
//! Argo CD both understand. Whoever has it writes files and commits them; it never takes a push.

use crate::process::scratch_folder;
use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::{Request, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpListener;
use tokio_util::task::AbortOnDropHandle;

/// How the names of files end that kustomize reads.
const READ: [&str; 3] = [".yaml", ".json", ".lua"];

/// A served repository with one branch, `main`.
pub struct Repository {
    tree: PathBuf,
    url: String,
    _server: AbortOnDropHandle<()>,
}

impl Repository {
    /// An empty repository.
    ///
    /// # Panics
    /// If there is no git on this machine.
    pub async fn serve() -> Self {
        let folder = scratch_folder("git");
        let tree = folder.join("tree");
        std::fs::create_dir(&tree).expect("the folder is writable");
        let init = ["init", "--quiet", "--initial-branch=main", "--separate-git-dir=../repo.git"];
        git(&tree, &init);
        let listener = TcpListener::bind(crate::ports::loopback(0)).await.expect("a free loopback port");
        let address = listener.local_addr().expect("a bound socket has an address");
        let router = Router::new().fallback(backend).with_state(folder);
        let server =
            tokio::spawn(async move { axum::serve(listener, router).await.expect("HTTP is served") });
        let url = format!("http://{address}/repo.git");
        Self { tree, url, _server: AbortOnDropHandle::new(server) }
    }

    /// Where it is cloned from.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// The work tree.
    pub fn tree(&self) -> &Path {
        &self.tree
    }

    /// Writes a file of the work tree.
    ///
    /// # Panics
    /// If that cannot be done.
    pub fn write(&self, path: &str, content: &str) {
        let file = self.tree.join(path);
        std::fs::create_dir_all(file.parent().expect("a file is in a folder"))
            .expect("the folder is writable");
        std::fs::write(file, content).expect("the folder is writable");
    }

    /// Copies what kustomize reads of a folder, and of the folders in it, to `to`.
    ///
    /// # Panics
    /// If that cannot be done.
    pub fn copy(&self, from: &Path, to: &str) {
        for entry in std::fs::read_dir(from).expect("a folder to copy").flatten() {
            let (path, name) = (entry.path(), entry.file_name().to_string_lossy().into_owned());
            if path.is_dir() {
                self.copy(&path, &format!("{to}/{name}"));
            } else if READ.iter().any(|ending| name.ends_with(ending)) {
                self.write(&format!("{to}/{name}"), &std::fs::read_to_string(&path).expect("a file of text"));
            }
        }
    }

    /// Commits everything as it is now and returns the commit.
    ///
    /// # Panics
    /// If nothing has changed.
    pub fn commit(&self, message: &str) -> String {
        git(&self.tree, &["add", "--all"]);
        git(&self.tree, &["commit", "--quiet", "--message", message]);
        git(&self.tree, &["rev-parse", "HEAD"])
    }
}

/// Standard output of a git command that must succeed.
fn git(folder: &Path, words: &[&str]) -> String {
    let who = ["-c", "user.name=test", "-c", "user.email=test@example.com", "-c", "commit.gpgsign=false"];
    let done = Command::new("git").current_dir(folder).args(who).args(words).output().expect("git runs");
    assert!(done.status.success(), "git {words:?}: {}", String::from_utf8_lossy(&done.stderr));
    String::from_utf8_lossy(&done.stdout).trim().to_owned()
}

/// One request as a CGI program sees it.
async fn backend(State(root): State<PathBuf>, request: Request) -> Response {
    let (head, body) = request.into_parts();
    let body = to_bytes(body, usize::MAX).await.unwrap_or_default();
    let header = |name: &str| text(&head.headers, name);
    let mut child = tokio::process::Command::new("git")
        .arg("http-backend")
        .env("GIT_PROJECT_ROOT", root)
        .env("GIT_HTTP_EXPORT_ALL", "1")
        .env("PATH_INFO", head.uri.path())
        .env("QUERY_STRING", head.uri.query().unwrap_or_default())
        .env("REQUEST_METHOD", head.method.as_str())
        .env("CONTENT_TYPE", header("content-type"))
        .env("CONTENT_LENGTH", body.len().to_string())
        .env("HTTP_CONTENT_ENCODING", header("content-encoding"))
        .env("GIT_PROTOCOL", header("git-protocol"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .expect("git starts");
    // It may end before it has read everything, and says why in its answer.
    let _ = child.stdin.take().expect("its stdin is a pipe").write_all(&body).await;
    let output = child.wait_with_output().await.expect("git ends").stdout;
    answer(&output)
}

fn text(headers: &HeaderMap, name: &str) -> String {
    headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default().to_owned()
}

/// Headers, an empty line and a body; the status is one of the headers.
fn answer(output: &[u8]) -> Response {
    const EMPTY_LINE: &[u8] = b"\r\n\r\n";
    let end = output.windows(EMPTY_LINE.len()).position(|part| part == EMPTY_LINE);
    let Some(end) = end else {
        return Response::builder().status(StatusCode::BAD_GATEWAY).body(Body::empty()).expect("an answer");
    };
    let head = String::from_utf8_lossy(&output[..end]).into_owned();
    let mut response = Response::builder();
    for (name, value) in head.lines().filter_map(|line| line.split_once(": ")) {
        response = match name {
            "Status" => response.status(value.split(' ').next().unwrap_or("500")),
            _ => response.header(name, value),
        };
    }
    response.body(Body::from(output[end + EMPTY_LINE.len()..].to_vec())).expect("git writes headers")
}
