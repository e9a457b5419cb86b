//! Does in a run what an operator must never do, through the same proxies, to show that each of it is noticed.
//! The operator itself is dead by then: whatever is noticed was planted here.

use super::coderds::RunCoderd;
use super::run::WorkloadRun;
use super::{Campaign, Makes, Tolerance, Workload};
use bytes::Bytes;
use http::Request;
use http_body_util::Full;
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};
use std::time::Duration;

/// How long a planted writer is waited for to be quiet, which it never is.
const STEADY_WITHIN: Duration = Duration::from_secs(2);

impl Campaign {
    /// Does everything that must never happen in one run of a workload, whose state before is prepared, and returns what was
    /// noticed.
    ///
    /// # Panics
    /// If the state before does not come about.
    pub async fn sabotaged(&'static self, workload: &'static Workload) -> Vec<String> {
        let run = WorkloadRun::prepare(&self.environment, &self.installations[0], workload).await;
        if let Err(why) = run.run_up_to_change(None).await {
            panic!("{}: {}", workload.name, run.explained(why).await);
        }
        let mut noticed = Vec::new();
        noticed.extend(write_without_end(&run).await.err());
        run.kill_operator().await;
        match run.environment.target.attached.map(|attached| attached.makes) {
            Some(Makes::Keys { .. }) => sabotage_keys(&run).await,
            Some(Makes::Proxies { .. }) => sabotage_proxies(&run).await,
            None => {}
        }
        noticed.extend(run.check_invariants(Tolerance::Nothing).await.err());
        run.clean_up().await;
        noticed
    }
}

/// Writes as the operator, while a reconcile is waited for that writes nothing (I8).
async fn write_without_end(run: &WorkloadRun<'_>) -> Result<(), String> {
    let client = run.environment.cluster.client_of(&run.options.kubeconfig).await;
    let subject = &run.environment.target.subject;
    let (subjects, name) = (run.objects(&client, subject), subject.name);
    let writing = async {
        for number in 0_usize.. {
            let patch = json!({ "metadata": { "annotations": { "planted": number.to_string() } } });
            drop(subjects.patch(name, &PatchParams::default(), &Patch::Merge(patch)).await);
        }
    };
    tokio::select! {
        () = writing => Ok(()),
        steady = run.until_steady(STEADY_WITHIN) => steady,
    }
}

async fn sabotage_keys(run: &WorkloadRun<'_>) {
    let (coderd, other) = (&run.coderds[0], &run.coderds[1]);
    let organization = coderd.double.organization_id("default");
    let keys = format!("/api/v2/organizations/{organization}/provisionerkeys");
    let (_, current) = coderd.own_keys().remove(0);
    let (_, foreign) =
        coderd.keys().into_iter().find(|(_, key)| coderd.foreign.contains(&key.id)).expect("one");
    // Keys that nobody recorded (I7), more than there may be (I3), and some of them stay (I1).
    for name in ["stray-1", "stray-2", "stray-3"] {
        send(coderd, "POST", &keys, &coderd.token, Some(json!({ "name": name, "tags": {} }))).await;
    }
    // A key of others (I5), and one that a Ready pod uses (I4), whose plaintext is still in the Secret (I2).
    send(coderd, "DELETE", &format!("{keys}/{}", foreign.name), &coderd.token, None).await;
    send(coderd, "DELETE", &format!("{keys}/{}", current.name), &coderd.token, None).await;
    // The token of another control plane (I10).
    send(coderd, "GET", &keys, &other.token, None).await;
    // A plaintext in a status (I6), and a key that is older than the one before it (I9).
    let shown = coderd.double.plaintext_of("default", "stray-1").expect("it was made");
    let statuses = [
        json!({ "controlPlaneURL": shown }),
        json!({ "key": { "generation": 7 } }),
        json!({ "key": { "generation": 0 } }),
    ];
    write_statuses(run, &statuses).await;
}

async fn sabotage_proxies(run: &WorkloadRun<'_>) {
    const PROXIES: &str = "/api/v2/workspaceproxies";
    let (coderd, other) = (&run.coderds[0], &run.coderds[1]);
    let current = coderd.own_proxies().remove(0);
    let (foreign, _) = coderd.foreign_tokens[0];
    let all = coderd.double.workspace_proxies();
    let foreign = all.iter().find(|one| one.name == foreign).expect("it is there");
    let appearance = |id: String, regenerate: bool| {
        Some(json!({ "id": id, "name": "taken", "display_name": "Taken", "icon": "/icon/taken.png",
            "regenerate_token": regenerate }))
    };
    // Proxies that nobody recorded (I7), more than there may be (I3), and they stay (I1).
    for name in ["stray-1", "stray-2"] {
        send(coderd, "POST", PROXIES, &coderd.token, Some(json!({ "name": name }))).await;
    }
    // A proxy of others (I5), with a token that nobody asked for (I9).
    let path = format!("{PROXIES}/{}", foreign.id);
    send(coderd, "PATCH", &path, &coderd.token, appearance(foreign.id.to_string(), true)).await;
    // One that a Ready pod uses (I4), whose token is still in the Secret (I2).
    send(coderd, "DELETE", &format!("{PROXIES}/{}", current.id), &coderd.token, None).await;
    // The token of another control plane (I10).
    send(coderd, "GET", PROXIES, &other.token, None).await;
    // A token in a status (I6).
    let shown = coderd.double.token_of_proxy("stray-1").expect("it was made");
    write_statuses(run, &[json!({ "url": shown })]).await;
}

/// Writes to the status of the subject as the operator.
async fn write_statuses(run: &WorkloadRun<'_>, statuses: &[Value]) {
    let client = run.environment.cluster.client_of(&run.options.kubeconfig).await;
    let subject = &run.environment.target.subject;
    let (subjects, name) = (run.objects(&client, subject), subject.name);
    for status in statuses {
        let patch = Patch::Merge(json!({ "status": status }));
        let written = subjects.patch_status(name, &PatchParams::default(), &patch).await;
        written.expect("the operator may write a status");
    }
}

/// Sends a request to a coderd as the operator would, and hears its answer.
async fn send(coderd: &RunCoderd, method: &str, path: &str, token: &str, body: Option<Value>) {
    let client = Client::builder(TokioExecutor::new()).build_http::<Full<Bytes>>();
    let request = Request::builder()
        .method(method)
        .uri(format!("http://{}{path}", coderd.proxy.address()))
        .header("coder-session-token", token)
        .header("content-type", "application/json");
    let body = body.map(|body| Bytes::from(body.to_string())).unwrap_or_default();
    let request = request.body(Full::new(body)).expect("a request");
    client.request(request).await.expect("coderd answers");
}
