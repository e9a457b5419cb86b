//! What `make dist` has built, in a root that has the files of the image and what a kubelet adds, and nothing else: it resolves names,
//! checks certificates by the authorities of the image, and becomes ready. `make test-dist` runs it; `make test` only compiles it: a
//! release takes ten minutes to build, and only root may change the root of a process and answer at port 53.

mod dns;
mod root;

use dns::Dns;
use root::Root;
use serde_json::{Value, json};
use std::net::{IpAddr, UdpSocket};
use std::path::PathBuf;
use std::time::Duration;
use support::balancer::Balancer;
use support::cluster::pki::{Ca, Pair};
use support::coderd::{Coderd, Role};
use support::objects::{self, condition, is_ready};
use support::wait::{holds, until};
use support::{Cluster, ClusterOptions, Installation, Operator};

const LIMIT: Duration = Duration::from_secs(60);
/// Two names that the world knows, and the one of a Service.
const TRUSTED: &str = "coder.example.com";
const UNKNOWN: &str = "coder.example.org";
const SERVICE: &str = "coder.team.svc.cluster.local";

fn dist() -> PathBuf {
    std::env::var_os("CODER_K8S_DIST")
        .expect("CODER_K8S_DIST is the folder of a release: make test-dist")
        .into()
}

/// An address of this machine that the operator dials: it dials no loopback address by the word of DNS.
fn own_address() -> IpAddr {
    let socket = UdpSocket::bind("0.0.0.0:0").expect("a free port");
    // Nothing is sent: this only chooses a route.
    socket.connect("192.0.2.1:9").expect("this machine has an address besides loopback");
    socket.local_addr().expect("a bound socket has an address").ip()
}

/// An operator in the root, and the world it looks for.
struct World {
    cluster: Cluster,
    coderd: Coderd,
    plain: Balancer,
    tls: Balancer,
    dns: Dns,
    _operator: Operator,
}

impl World {
    async fn begin(root: &Root) -> Self {
        let cluster = Cluster::start(ClusterOptions { nodes: 1, ..Default::default() }).await;
        let installation = Installation::shipped(&cluster).await;
        let (coderd, address) = (Coderd::builder().api_rate_limit(None).start().await, own_address());
        let plain = Balancer::start_at(address, vec![coderd.addr()]).await;
        let tls = Balancer::start_at(address, vec![coderd.tls_addr()]).await;
        let dns = Dns::start(&[TRUSTED, UNKNOWN, SERVICE], address).await;
        root.add_what_a_kubelet_adds(&cluster, &installation, dns.address()).await;
        let mut options = installation.operator("all").await;
        options.flags = [TRUSTED, UNKNOWN].map(|host| format!("--allow-url={}", url(host, &tls))).into();
        let mut operator = Operator::start_found(&mut root.command(&cluster), &options).await;
        operator.ready(LIMIT).await;
        Self { cluster, coderd, plain, tls, dns, _operator: operator }
    }

    async fn apply(&self, object: &Value) {
        self.cluster.kubectl_with_input("apply --server-side -f -", &object.to_string()).await.expect_ok();
    }

    /// A proxy that is registered at this host.
    async fn apply_proxy(&self, name: &str, host: &str) {
        let bootstrap =
            json!({ "coderURL": url(host, &self.tls), "credentialsSecretRef": { "name": "token" } });
        self.apply(&json!({ "apiVersion": "coder.com/v1alpha1", "kind": "CoderWorkspaceProxy",
            "metadata": { "name": name, "namespace": "team" }, "spec": { "bootstrap": bootstrap } }))
            .await;
    }

    async fn until(&self, object: &str, what: &str, asked: impl Fn(&Value) -> bool) -> Value {
        until(&format!("{object}: {what}"), LIMIT, async || {
            let text = self.cluster.kubectl(&format!("get {object} -n team -o json")).await.expect_ok();
            let object: Value = serde_json::from_str(&text).expect("JSON");
            holds(asked(&object), object["status"].to_string()).map(|()| object)
        })
        .await
    }
}

fn url(host: &str, at: &Balancer) -> String {
    format!("https://{host}:{}", at.port())
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a release and root: make test-dist"]
async fn the_release_works_in_an_empty_root() {
    let authority = Ca::new("An authority that the image trusts");
    let root = Root::new(&dist(), &authority.certificate);
    println!("In a root with nothing but {}:", root.files().join(", "));
    let world = World::begin(&root).await;
    println!("- it is ready, as user {}", root.user());

    world.cluster.kubectl("create namespace team").await.expect_ok();
    let token = world.coderd.token_for(&[Role::Owner]);
    world.apply(&objects::secret("team", "token", &json!({ "token": token }))).await;
    let spec = json!({ "service": { "port": world.plain.port() },
        "operatorAccess": { "tokenSecretRef": { "name": "token" } } });
    world.apply(&objects::control_plane("team", "coder", &spec)).await;
    world.until("codercontrolplane/coder", "Ready", is_ready).await;
    assert!(world.dns.was_asked_for(SERVICE), "{:?}", world.dns.asked());
    println!("- it finds a Service by name: {SERVICE}");

    world.coderd.present(TRUSTED, &authority.server(&[TRUSTED]));
    world.coderd.present(UNKNOWN, &Pair::self_signed(&[UNKNOWN]));
    world.apply_proxy("trusted", TRUSTED).await;
    let is_registered = |object: &Value| condition(object, "ProxyRegistered")["status"] == "True";
    world.until("coderworkspaceproxy/trusted", "registered", is_registered).await;
    // By what a kubelet writes, the domains of the cluster are tried first.
    let searched = format!("{TRUSTED}.coder-system.svc.cluster.local");
    assert!(
        world.dns.was_asked_for(TRUSTED) && world.dns.was_asked_for(&searched),
        "{:?}",
        world.dns.asked()
    );
    println!(
        "- it finds {TRUSTED} behind the search domains, and knows its certificate by an authority of the image"
    );

    // What a certificate was lacking is told to nobody who chose the address: nothing of the request came through.
    world.apply_proxy("unknown", UNKNOWN).await;
    let is_refused =
        |object: &Value| condition(object, "ControlPlaneReady")["reason"] == "ControlPlaneUnavailable";
    world.until("coderworkspaceproxy/unknown", "refused", is_refused).await;
    let registered = world.coderd.workspace_proxies();
    let names: Vec<&str> = registered.iter().map(|proxy| proxy.name.as_str()).collect();
    assert!(world.dns.was_asked_for(UNKNOWN), "{:?}", world.dns.asked());
    assert_eq!(names, ["trusted"], "the same coderd, behind a certificate that nobody vouches for");
    println!("- it tells nothing to {UNKNOWN}, whose certificate nobody vouches for");
}
