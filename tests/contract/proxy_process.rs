//! How a workspace proxy starts: the real `coder` with exactly the command and the environment that its pods get, against a
//! real coderd. Without a license it ends when it registers, and nowhere before: flags, addresses and variables are right.

use std::process::Command;
use std::time::Duration;
use support::cluster::pki::Ca;
use support::postgres::Postgres;
use support::process::{Process, scratch_folder};
use support::real_coderd::{Edition, RealCoderd, program};
use support::until;

const LIMIT: Duration = Duration::from_secs(60);
/// What the image sets besides.
const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:/opt";

/// How a process ended.
#[derive(Debug)]
struct Ended {
    code: Option<i32>,
    said: String,
}

impl Ended {
    /// Whether coderd was asked to register a proxy and refused for want of a license.
    fn at_registration(&self) -> bool {
        let refused = ["register proxy: start loop: initial registration", "is a Premium feature"];
        self.code == Some(1) && refused.iter().all(|words| self.said.contains(words))
    }
}

/// Starts a container's command with its environment, as the image would, and waits for its end.
async fn starts(command: &[String], env: &[(String, String)]) -> Ended {
    let (name, args) = command.split_first().expect("a command has a name");
    assert_eq!(name, "coder", "which the image has on its path");
    let folder = scratch_folder("wsproxy");
    let image = [("HOME", folder.display().to_string()), ("PATH", PATH.to_owned())];
    let mut coder = Command::new(program(Edition::Full));
    coder.args(args).env_clear().envs(image).envs(env.iter().cloned()).current_dir(&folder);
    let mut process = Process::start("wsproxy", &folder, &mut coder);
    let code = until("the proxy to end", LIMIT, async || {
        process.exit().map(|status| status.code()).ok_or_else(|| process.log())
    })
    .await;
    Ended { code, said: process.log() }
}

fn command(more: &[&str]) -> Vec<String> {
    let words = ["coder", "wsproxy", "server", "--http-address=0.0.0.0:3001"];
    words.iter().chain(more).map(|word| (*word).to_owned()).collect()
}

fn variables(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
    pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

/// The environment without these variables, and with these.
fn changed(env: &[(String, String)], without: &str, with: &[(&str, &str)]) -> Vec<(String, String)> {
    let kept = env.iter().filter(|(name, _)| name != without).cloned();
    kept.chain(variables(with)).collect()
}

#[tokio::test]
#[ignore = "needs a real coderd: make test-contract"]
async fn a_proxy_with_what_its_pods_get_ends_at_registration_and_not_before() {
    let postgres = Postgres::start();
    let server = RealCoderd::start(&postgres, Edition::Full, 512).await;
    let primary = format!("http://{}", server.addr());
    let token = format!("6f1f6a3e-0000-4000-8000-000000000001:{}", "x".repeat(64));
    let env = variables(&[
        ("CODER_PRIMARY_ACCESS_URL", &primary),
        ("CODER_PROXY_SESSION_TOKEN", &token),
        ("CODER_ACCESS_URL", "https://frankfurt.example.com"),
        ("CODER_WILDCARD_ACCESS_URL", "*.frankfurt.example.com"),
    ]);
    let folder = scratch_folder("wsproxy-tls");
    let pair = Ca::new("private").server(&["frankfurt.example.com"]);
    let (certificate, key) = (folder.join("tls.crt"), folder.join("tls.key"));
    std::fs::write(&certificate, &pair.certificate).unwrap();
    std::fs::write(&key, &pair.key).unwrap();
    let tls = [
        ("CODER_TLS_ENABLE", "true"),
        ("CODER_TLS_ADDRESS", "0.0.0.0:8443"),
        ("CODER_TLS_CERT_FILE", certificate.to_str().unwrap()),
        ("CODER_TLS_KEY_FILE", key.to_str().unwrap()),
    ];
    let metrics = [("CODER_PROMETHEUS_ENABLE", "true"), ("CODER_PROMETHEUS_ADDRESS", "0.0.0.0:2112")];
    for (what, command, env) in [
        ("all there is", command(&[]), env.clone()),
        ("DERP alone", command(&["--derp-only"]), env.clone()),
        ("TLS", command(&[]), changed(&env, "", &tls)),
        ("metrics", command(&[]), changed(&env, "", &metrics)),
        ("no wildcard", command(&[]), changed(&env, "CODER_WILDCARD_ACCESS_URL", &[])),
        ("no access URL", command(&[]), changed(&env, "CODER_ACCESS_URL", &[])),
    ] {
        let ended = starts(&command, &env).await;
        assert!(ended.at_registration(), "{what}: {ended:?}");
        assert!(!ended.said.contains(&token[37..]), "{what}: it prints its token");
        let last: Vec<&str> = ended.said.trim().lines().rev().take(2).collect();
        println!("  {what}: {} {}", last[1], last[0]);
    }
    // What is wrong is noticed: it ends before it registers.
    for (what, command, env, words) in [
        ("an unknown flag", command(&["--nonsense"]), env.clone(), "unknown flag: --nonsense"),
        ("a server", command(&["server"]), env.clone(), "wanted no args but got 1"),
        (
            "no address of the primary",
            command(&[]),
            changed(&env, "CODER_PRIMARY_ACCESS_URL", &[]),
            "required flags: Coderd (Primary) Access URL",
        ),
        (
            "no token",
            command(&[]),
            changed(&env, "CODER_PROXY_SESSION_TOKEN", &[]),
            "required flags: Proxy Session Token",
        ),
    ] {
        let ended = starts(&command, &env).await;
        assert!(!ended.at_registration() && ended.said.contains(words), "{what}: {ended:?}");
    }
}
