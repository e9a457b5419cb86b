//! The command line: every flag, its environment variable, and which combinations make no sense.
//! It reads and checks; it never acts.

use super::durations;
use super::logging::{Format, Level};
use super::modes::Mode;
use crate::coderd::{AllowedUrls, Egress, Observer, Resolve, addresses, allowed, resolve};
use crate::confidential::Confidential;
use crate::controller::control_plane::consent::Consent;
use crate::controller::control_plane::orphans;
use crate::kubernetes::Scope;
use crate::kubernetes::lease::Timing;
use crate::serving::authority::Times;
use clap::{ArgAction, Args, ValueEnum};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;
use webhooks::Config;
use webhooks::text::LABEL;

/// Who keeps the CA behind our serving certificates.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum WebhookCa {
    /// We do: CA, leaves, rotation and `caBundle`.
    #[value(name = "self")]
    Own,
    /// Somebody else does: we serve what is in --tls-dir and inject nothing.
    External,
}

/// The flags of the process. Each is also an environment variable: CODER_K8S_ and its name.
#[derive(Debug, Clone, Args)]
pub(crate) struct Flags {
    /// Which part of the operator this process is.
    #[arg(long, value_enum, default_value = "all", env = "CODER_K8S_APP")]
    pub app: Mode,

    /// Kubeconfig to reach the API server with; without it $KUBECONFIG, the pod's own service account, ~/.kube/config.
    #[arg(long, env = "CODER_K8S_KUBECONFIG")]
    pub kubeconfig: Option<PathBuf>,

    /// The ServiceAccount of our own namespace that Roles and RoleBindings are written as; it holds the permissions that the operator may grant.
    #[arg(long, default_value = crate::manifests::rbac::GRANTS_ACCOUNT, env = "CODER_K8S_GRANTS_ACCOUNT")]
    pub grants_account: String,

    /// The coderd that --app=aggregated-apiserver serves.
    #[arg(long, env = "CODER_K8S_CODER_URL", value_parser = http_url)]
    pub coder_url: Option<String>,

    /// Session token for --coder-url; better given by its environment variable, which does not show in `ps`.
    #[arg(long, env = "CODER_K8S_CODER_SESSION_TOKEN", hide_env_values = true)]
    pub coder_session_token: Option<Confidential<String>>,

    /// Namespace in which --app=aggregated-apiserver shows the objects of --coder-url.
    #[arg(long, env = "CODER_K8S_CODER_NAMESPACE")]
    pub coder_namespace: Option<String>,

    /// How long one request to coderd may take.
    #[arg(long, default_value = "15s", value_parser = durations::parse, env = "CODER_K8S_CODER_REQUEST_TIMEOUT")]
    pub coder_request_timeout: Duration,

    /// A namespace to work in, with permissions in it alone: only those named here are watched, and nothing of the whole
    /// cluster is read. Needs --app=controller. Repeatable, or comma-separated; without it the whole cluster.
    #[arg(long, value_name = "NAMESPACE", value_delimiter = ',', env = "CODER_K8S_WATCH_NAMESPACE")]
    pub watch_namespace: Vec<String>,

    #[command(flatten)]
    /// Where our own connections may lead.
    pub egress: EgressFlags,

    /// The Coder image of objects that name none: a pinned release.
    #[arg(long, default_value = crds::well_known::default::IMAGE, env = "CODER_K8S_DEFAULT_IMAGE")]
    pub default_image: String,

    /// The DNS domain of the cluster, which the address of every Service ends with.
    #[arg(long, default_value = crds::well_known::default::CLUSTER_DOMAIN, env = "CODER_K8S_CLUSTER_DOMAIN")]
    pub cluster_domain: String,

    /// Whether a workspace namespace must agree by its label coder.com/workspaces-from; off where every namespace of the
    /// cluster belongs to the same people.
    #[arg(long, value_enum, default_value_t, env = "CODER_K8S_NAMESPACE_CONSENT")]
    pub namespace_consent: Consent,

    /// How often to look for permissions and tokens left behind by deleted control planes.
    #[arg(long, default_value = "1h", value_parser = durations::parse, env = "CODER_K8S_ORPHAN_CHECK_INTERVAL")]
    pub orphan_check_interval: Duration,

    /// How long a control plane must be gone before what it left behind is removed.
    #[arg(long, default_value = "10m", value_parser = durations::parse, env = "CODER_K8S_ORPHAN_GRACE")]
    pub orphan_grace: Duration,

    /// How often objects and their children are listed, so that a lost event of a watch is noticed; at least 1s.
    #[arg(long, default_value = "5m", value_parser = durations::a_second_or_more, env = "CODER_K8S_VERIFY_INTERVAL")]
    pub verify_interval: Duration,

    /// Whether to expose the conditions of objects as metrics, for at most 1000 objects.
    #[arg(long, action = ArgAction::Set, default_value_t = true, env = "CODER_K8S_CONDITION_METRICS")]
    pub condition_metrics: bool,

    /// How logs are written.
    #[arg(long, value_enum, default_value = "json", env = "CODER_K8S_LOG_FORMAT")]
    pub log_format: Format,

    /// How much is logged; `PUT /loglevel` on the metrics port changes it at run time.
    #[arg(long, value_enum, default_value = "info", env = "CODER_K8S_LOG_LEVEL")]
    pub log_level: Level,

    #[command(flatten)]
    /// Where the process listens.
    pub addresses: Addresses,

    #[command(flatten)]
    /// Where its certificates come from.
    pub certificates: Certificates,

    #[command(flatten)]
    /// How leaders are elected.
    pub leases: Leases,

    /// How long requests under way may take to finish after SIGTERM.
    #[arg(long, default_value = "20s", value_parser = durations::parse, env = "CODER_K8S_SHUTDOWN_GRACE")]
    pub shutdown_grace: Duration,
}

/// Where our own connections to coderd and its database may lead.
#[derive(Debug, Clone, Args)]
pub(crate) struct EgressFlags {
    /// Leads a host to an address, as in curl: HOST[:PORT]=ADDR[:PORT], also *.suffix. Repeatable, or comma-separated.
    #[arg(long, value_name = "HOST[:PORT]=ADDR[:PORT]", value_delimiter = ',', env = "CODER_K8S_RESOLVE")]
    pub resolve: Vec<resolve::Rule>,

    /// External URLs that objects may name: those below this prefix. Repeatable, or comma-separated.
    #[arg(long, value_name = "PREFIX", value_delimiter = ',', env = "CODER_K8S_ALLOW_URL")]
    pub allow_url: Vec<allowed::Prefix>,

    /// More addresses that are never dialled for an object, besides loopback, link-local and cloud metadata.
    /// --resolve can lead there on purpose. Repeatable, or comma-separated.
    #[arg(long, value_name = "CIDR", value_delimiter = ',', env = "CODER_K8S_DENY_CIDR")]
    pub deny_cidr: Vec<addresses::Cidr>,
}

/// Where the process listens.
#[derive(Debug, Clone, Copy, Args)]
pub(crate) struct Addresses {
    /// /healthz and /readyz, plain HTTP.
    #[arg(long, default_value = "[::]:8081", env = "CODER_K8S_PROBE_ADDRESS")]
    pub probe_address: SocketAddr,

    /// Admission webhooks, TLS.
    #[arg(long, default_value = "[::]:9443", env = "CODER_K8S_WEBHOOK_ADDRESS")]
    pub webhook_address: SocketAddr,

    /// Aggregated API, TLS.
    #[arg(long, default_value = "[::]:6443", env = "CODER_K8S_AGGREGATED_ADDRESS")]
    pub aggregated_address: SocketAddr,

    /// MCP, TLS.
    #[arg(long, default_value = "[::]:8090", env = "CODER_K8S_MCP_ADDRESS")]
    pub mcp_address: SocketAddr,

    /// Metrics and log level, TLS, authorised.
    #[arg(long, default_value = "[::]:8443", env = "CODER_K8S_METRICS_ADDRESS")]
    pub metrics_address: SocketAddr,
}

/// Where certificates come from and how long they last.
#[derive(Debug, Clone, Args)]
pub(crate) struct Certificates {
    /// Who keeps the CA behind our serving certificates.
    #[arg(long, value_enum, default_value = "self", env = "CODER_K8S_WEBHOOK_CA")]
    pub webhook_ca: WebhookCa,

    /// Folder with tls.crt and tls.key for --webhook-ca=external; changes are picked up.
    #[arg(long, env = "CODER_K8S_TLS_DIR")]
    pub tls_dir: Option<PathBuf>,

    /// Whether this process takes part in keeping the CA: false where another role of the operator does, who then has to run.
    #[arg(long, action = ArgAction::Set, default_value_t = true, env = "CODER_K8S_KEEP_CA")]
    pub keep_ca: bool,

    /// More names for our certificate: a Service of our namespace, or a host name with dots. Repeatable, or comma-separated.
    #[arg(long, value_delimiter = ',', env = "CODER_K8S_SERVING_NAME")]
    pub serving_name: Vec<String>,

    /// The life of the CA; its successor is made after two thirds of it.
    #[arg(long, default_value = "365d", value_parser = durations::parse, env = "CODER_K8S_CA_LIFETIME")]
    pub ca_lifetime: Duration,

    /// How long a new CA is trusted everywhere before it signs.
    #[arg(long, default_value = "10m", value_parser = durations::parse, env = "CODER_K8S_CA_PROPAGATION")]
    pub ca_propagation: Duration,

    /// How long an old CA stays trusted after the last certificate it signed has ended.
    #[arg(long, default_value = "1d", value_parser = durations::parse, env = "CODER_K8S_CA_RETIREMENT_MARGIN")]
    pub ca_retirement_margin: Duration,

    /// The life of a serving certificate; it is renewed after half of it.
    #[arg(long, default_value = "7d", value_parser = durations::parse, env = "CODER_K8S_LEAF_LIFETIME")]
    pub leaf_lifetime: Duration,
}

/// How leaders are elected.
#[derive(Debug, Clone, Copy, Args)]
pub(crate) struct Leases {
    /// How long a lease stays valid after its last renewal, before another replica may take it.
    #[arg(long, default_value = "15s", value_parser = durations::parse, env = "CODER_K8S_LEASE_DURATION")]
    pub lease_duration: Duration,

    /// How long a leader that cannot renew goes on leading; at least 4s less than --lease-duration.
    #[arg(long, default_value = "10s", value_parser = durations::parse, env = "CODER_K8S_LEASE_RENEW_DEADLINE")]
    pub lease_renew_deadline: Duration,

    /// Time between attempts to acquire or renew a lease.
    #[arg(long, default_value = "2s", value_parser = durations::parse, env = "CODER_K8S_LEASE_RETRY_PERIOD")]
    pub lease_retry_period: Duration,
}

/// A combination of flags that cannot work, with the way out.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(crate) struct Misused(String);

impl Flags {
    /// What to warn about, or why the flags cannot work together.
    pub(crate) fn check(&self) -> Result<Vec<String>, Misused> {
        self.check_cluster_domain()?;
        self.check_grants_account()?;
        self.check_watch_namespace()?;
        self.check_certificates()?;
        self.check_leases()?;
        self.check_coder()
    }

    fn check_cluster_domain(&self) -> Result<(), Misused> {
        let domain = &self.cluster_domain;
        if is_host_name(domain) {
            return Ok(());
        }
        let said = format!(
            "--cluster-domain={domain:?} is not a DNS domain such as cluster.local, without dots around it"
        );
        Err(Misused(said))
    }

    /// An overlay that lost the annotation leaves the variable empty: that is no account anybody could act as.
    fn check_grants_account(&self) -> Result<(), Misused> {
        let account = &self.grants_account;
        if is_host_name(account) {
            return Ok(());
        }
        Err(Misused(format!(
            "--grants-account={account:?} is not the name of a ServiceAccount; the Deployment takes it from the annotation \
             coder.com/grants-account of its pods"
        )))
    }

    /// Webhooks, the aggregated API and MCP answer for the whole cluster, or not at all.
    fn check_watch_namespace(&self) -> Result<(), Misused> {
        let Some(first) = self.watch_namespace.first() else { return Ok(()) };
        if let Some(bad) = self.watch_namespace.iter().find(|name| !LABEL.matches(name)) {
            return Err(Misused(format!("--watch-namespace={bad:?} is not the name of a namespace")));
        }
        if self.app == Mode::Controller {
            return Ok(());
        }
        let app = self.app.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default();
        Err(Misused(format!(
            "--watch-namespace={first} does not go with --app={app}: webhooks, the aggregated API and MCP answer for the whole \
             cluster; choose --app=controller, or leave --watch-namespace out"
        )))
    }

    /// The namespaces that are watched.
    pub(crate) fn scope(&self) -> Scope {
        Scope::of(&self.watch_namespace)
    }

    fn check_certificates(&self) -> Result<(), Misused> {
        let certificates = &self.certificates;
        let misused = |text: &str| Err(Misused(text.to_owned()));
        match (certificates.webhook_ca, &certificates.tls_dir) {
            (WebhookCa::External, None) => misused(
                "--webhook-ca=external needs --tls-dir, a folder with tls.crt and tls.key; \
                 or choose --webhook-ca=self and leave certificates to us",
            ),
            (WebhookCa::Own, Some(_)) => misused(
                "--tls-dir is used only with --webhook-ca=external; add that flag, or remove --tls-dir",
            ),
            _ => self.check_times(),
        }
    }

    /// A CA must be followed, distributed and retired within the last third of its life.
    fn check_times(&self) -> Result<(), Misused> {
        let certificates = &self.certificates;
        let times = self.authority_times();
        let needed = times.propagation + times.retirement;
        if certificates.ca_lifetime / 3 <= needed {
            return Err(Misused(format!(
                "a third of --ca-lifetime={:?} is too short for a rotation, which takes {needed:?}: --ca-propagation, \
                 --leaf-lifetime and --ca-retirement-margin together; choose a longer CA or shorter leaves",
                certificates.ca_lifetime
            )));
        }
        match certificates.serving_name.iter().find(|name| !is_host_name(name)) {
            Some(name) => {
                Err(Misused(format!("--serving-name={name:?} is neither a Service nor a host name")))
            }
            None => Ok(()),
        }
    }

    fn check_leases(&self) -> Result<(), Misused> {
        let leases = &self.leases;
        let (duration, deadline) = (leases.lease_duration, leases.lease_renew_deadline);
        if deadline + super::leader_tasks::STOP_LIMIT + Duration::from_secs(1) > duration {
            return Err(Misused(format!(
                "--lease-renew-deadline={deadline:?} leaves a leader no time to stop before --lease-duration={duration:?} \
                 is over: keep at least 4s between them"
            )));
        }
        if leases.lease_retry_period >= deadline {
            return Err(Misused(
                "--lease-retry-period must be shorter than --lease-renew-deadline".to_owned(),
            ));
        }
        Ok(())
    }

    fn check_coder(&self) -> Result<Vec<String>, Misused> {
        let given = [
            ("--coder-url", self.coder_url.is_some()),
            ("--coder-session-token", self.coder_session_token.is_some()),
            ("--coder-namespace", self.coder_namespace.is_some()),
        ];
        let names = |wanted| given.iter().filter(move |(_, is)| *is == wanted).map(|(name, _)| *name);
        if self.app != Mode::AggregatedApiserver {
            let ignored =
                |name| format!("{name} is used only with --app=aggregated-apiserver and is ignored");
            return Ok(names(true).map(ignored).collect());
        }
        let (set, missing): (Vec<_>, Vec<_>) = (names(true).collect(), names(false).collect());
        if set.is_empty() || missing.is_empty() {
            return Ok(Vec::new());
        }
        let (set, missing) = (set.join(", "), missing.join(", "));
        Err(Misused(format!("{set} without {missing}: give all three, or none to serve every control plane")))
    }

    /// Where our own connections may lead.
    pub(crate) fn egress(&self) -> Egress {
        Egress {
            resolve: Resolve::new(self.egress.resolve.clone())
                .denying(self.egress.deny_cidr.clone())
                .in_cluster(&self.cluster_domain),
            allowed_urls: AllowedUrls::new(self.egress.allow_url.clone()),
            request_timeout: self.coder_request_timeout,
            observer: Observer::default(),
        }
    }

    /// When what is left of control planes that are gone is looked for.
    pub(crate) fn orphan_times(&self) -> orphans::Times {
        orphans::Times { interval: self.orphan_check_interval, grace: self.orphan_grace }
    }

    /// What admission and the reconcilers are configured with.
    pub(crate) fn config(&self) -> Config {
        Config { default_image: self.default_image.clone(), cluster_domain: self.cluster_domain.clone() }
    }

    /// The timing of every lease.
    pub(crate) fn lease_timing(&self) -> Timing {
        let leases = &self.leases;
        Timing {
            duration: leases.lease_duration,
            renew_deadline: leases.lease_renew_deadline,
            retry: leases.lease_retry_period,
        }
    }

    /// The times of the certificate authority.
    pub(crate) fn authority_times(&self) -> Times {
        let certificates = &self.certificates;
        Times {
            ca_lifetime: certificates.ca_lifetime,
            propagation: certificates.ca_propagation,
            retirement: certificates.leaf_lifetime + certificates.ca_retirement_margin,
        }
    }
}

fn is_host_name(name: &str) -> bool {
    let label = |label: &str| {
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
        !label.is_empty()
            && label.len() <= 63
            && label.bytes().all(plain)
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    name.len() <= 253 && name.split('.').all(label)
}

fn http_url(text: &str) -> Result<String, String> {
    let uri: http::Uri = text.parse().map_err(|_| format!("{text:?} is not a URL"))?;
    let scheme = uri.scheme_str().unwrap_or_default();
    if !["http", "https"].contains(&scheme) || uri.host().is_none_or(str::is_empty) {
        return Err(
            "a URL with http or https and a host is needed, for example https://coder.example.com".to_owned()
        );
    }
    if uri.authority().is_some_and(|authority| authority.as_str().contains('@')) {
        return Err("a URL must not carry a user or password; use --coder-session-token".to_owned());
    }
    Ok(text.trim_end_matches('/').to_owned())
}

#[cfg(test)]
mod tests;
