//! What an operator that works tells of it: every metric of the table on its port, and which object a log line is about.

use coder_k8s::serving::metrics::table::{Metric, TABLE, Type};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use support::coderd::Coderd;
use support::wait::holds;
use support::{Cluster, ClusterOptions, Installation, Operator, https, until};

const BINARY: &str = env!("CARGO_BIN_EXE_coder-k8s");
const LIMIT: Duration = Duration::from_secs(60);
const HOST: &str = "metrics.example.com";

/// What a scrape says.
struct Scrape(String);

impl Scrape {
    async fn of(operator: &Operator, installation: &Installation, token: &str) -> Self {
        let request = http::Request::get("/metrics").header("authorization", format!("Bearer {token}"));
        let ca = installation.ca().await;
        let (status, text) = https::ask(operator.ports.metrics, &ca, HOST, request, "").await.unwrap();
        assert_eq!(status, 200, "{text}");
        Self(text)
    }

    /// Types by name.
    fn declared(&self) -> BTreeMap<&str, &str> {
        let lines = self.0.lines().filter_map(|line| line.strip_prefix("# TYPE "));
        lines.map(|line| line.split_once(' ').unwrap()).collect()
    }

    /// The samples of a metric: the names of their labels, and the line.
    fn samples(&self, metric: &Metric) -> Vec<(Vec<&str>, &str)> {
        let names: &[String] = &match metric.type_ {
            Type::Histogram => {
                ["_bucket", "_sum", "_count"].map(|end| format!("{}{end}", metric.name)).into()
            }
            _ => vec![metric.name.to_owned()],
        };
        let lines = self.0.lines().filter(|line| !line.starts_with('#'));
        let of_it = lines.filter(|line| names.iter().any(|name| line.split(['{', ' ']).next() == Some(name)));
        of_it
            .map(|line| {
                // No value of ours has a comma, a bracket or a quotation mark.
                let labels = line.split_once('{').map_or("", |(_, rest)| rest.split('}').next().unwrap());
                let labels = labels.split(',').filter_map(|label| Some(label.split_once('=')?.0));
                (labels.filter(|label| *label != "le").collect(), line)
            })
            .collect()
    }

    fn has(&self, series: &str) -> bool {
        self.0
            .lines()
            .any(|line| line.rsplit_once(' ').is_some_and(|(name, value)| name == series && value != "0"))
    }
}

fn expected(leaving_out: &str) -> BTreeMap<&'static str, &'static str> {
    let shown = TABLE.iter().filter(|metric| leaving_out.is_empty() || !metric.name.starts_with(leaving_out));
    shown.map(|metric| (metric.family(), metric.type_.name())).collect()
}

fn every_sample_is_described(scrape: &Scrape) {
    let mut known = BTreeSet::new();
    for metric in TABLE {
        for (labels, line) in scrape.samples(&metric) {
            assert_eq!(labels, metric.labels, "{line}");
            known.insert(line);
        }
    }
    let unknown: Vec<&str> =
        scrape.0.lines().filter(|line| !line.starts_with('#') && !known.contains(line)).collect();
    assert_eq!(unknown, Vec::<&str>::new());
}

fn what_happened_is_counted(scrape: &Scrape) {
    for series in [
        // One that is ready is looked at again: coderd is asked from time to time.
        r#"coder_k8s_reconcile_total{kind="CoderControlPlane",result="requeued"}"#,
        r#"coder_k8s_reconcile_duration_seconds_count{kind="CoderControlPlane"}"#,
        r#"coder_k8s_admission_duration_seconds_count{webhook="mutate",verdict="allowed"}"#,
        r#"coder_k8s_admission_duration_seconds_count{webhook="validate",verdict="allowed"}"#,
        r#"coder_k8s_coderd_request_duration_seconds_count{operation="healthz",result="success"}"#,
        "process_resident_memory_bytes",
        "process_cpu_seconds_total",
        "process_open_fds",
        "process_start_time_seconds",
    ] {
        assert!(scrape.has(series), "{series} in {}", scrape.0);
    }
    for queue in ["queue_depth", "oldest_due_seconds"] {
        assert!(scrape.0.contains(&format!(r#"coder_k8s_{queue}{{kind="CoderControlPlane"}} "#)), "{queue}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_scrape_has_every_metric_of_the_table_and_no_other() {
    let cluster = Cluster::start(ClusterOptions { nodes: 1, ..Default::default() }).await;
    let installation = Installation::new(&cluster, "telemetry").await;
    let coderd = Coderd::builder().api_rate_limit(None).start().await;
    let mut options = installation.operator("all").await;
    options.flags.push(format!("--serving-name={HOST}"));
    options.flags.push(format!("--resolve=*.svc.cluster.local={}", coderd.addr()));
    let mut operator = Operator::start(BINARY, &options).await;
    operator.ready(LIMIT).await;
    installation.admit(operator.ports.webhooks, &[]).await;
    let token = installation.caller("scraper", "get", "/metrics").await;
    let ns = cluster.namespace("measured").await;
    let manifest = serde_json::json!({ "apiVersion": "coder.com/v1alpha1", "kind": "CoderControlPlane",
        "metadata": { "name": "coder", "namespace": ns }, "spec": { "operatorAccess": { "disabled": true } } });
    cluster.kubectl_with_input("apply --server-side -f -", &manifest.to_string()).await.expect_ok();
    cluster.kubectl(&format!("wait ccp/coder -n {ns} --for=condition=Ready --timeout=60s")).await.expect_ok();

    let object = format!(r#"kind="CoderControlPlane",namespace="{ns}",name="coder""#);
    let ready = format!(r#"coder_k8s_resource_condition{{{object},type="Ready",status="True"}}"#);
    let scrape = until("what is ready to be shown so", LIMIT, async || {
        let scrape = Scrape::of(&operator, &installation, &token).await;
        holds(scrape.has(&ready), scrape.0.clone()).map(|()| scrape)
    })
    .await;
    assert_eq!(scrape.declared(), expected(""));
    every_sample_is_described(&scrape);
    what_happened_is_counted(&scrape);
    let applied = operator.logged("applying");
    let about = applied.iter().map(|line| &line["reconcile"]).find(|about| about["namespace"] == ns.as_str());
    let whole =
        serde_json::json!({ "kind": "CoderControlPlane", "namespace": ns, "name": "coder", "generation": 1 });
    assert_eq!(about, Some(&whole), "{applied:?}");

    cluster.kubectl(&format!("delete ccp coder -n {ns} --timeout=60s")).await.expect_ok();
    until("the series of what is gone to go", LIMIT, async || {
        let scrape = Scrape::of(&operator, &installation, &token).await;
        holds(!scrape.0.contains(&object), "they are still there")
    })
    .await;
    operator.process().signal("TERM");
    operator.ended(LIMIT).await;
    options.flags.push("--condition-metrics=false".to_owned());
    let mut operator = Operator::start(BINARY, &options).await;
    operator.ready(LIMIT).await;
    let scrape = Scrape::of(&operator, &installation, &token).await;
    assert_eq!(scrape.declared(), expected("coder_k8s_resource_condition"));
}
