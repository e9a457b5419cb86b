//! What one caller without any credentials can do to a replica: not much. Attackers come from 127.0.0.2, and whoever
//! comes from 127.0.0.1 meanwhile is served.

use futures::future::{Either, join_all, select, select_all};
use std::net::Ipv4Addr;
use std::time::Duration;
use support::attacker::{self, ATTACKER, Caller, HONEST, answer, honest, many, nested, request};
use support::memory::peak;
use support::wait::holds;
use support::{Cluster, Fault, FaultProxy, Installation, Operator, https, until};
use tokio::io::AsyncWriteExt;

const BINARY: &str = env!("CARGO_BIN_EXE_coder-k8s");
const LIMIT: Duration = Duration::from_secs(30);
/// What the Deployment allows, in megabytes.
const CONTAINER: f64 = 134.2;

async fn webhooks(purpose: &str) -> (Installation, Operator, Caller) {
    let cluster = Cluster::shared().await;
    webhooks_through(purpose, cluster, &cluster.url()).await
}

/// The same with another way to the API server.
async fn webhooks_through(
    purpose: &str,
    cluster: &'static Cluster,
    url: &str,
) -> (Installation, Operator, Caller) {
    let installation = Installation::new(cluster, purpose).await;
    let mut options = installation.operator_through("webhooks", url).await;
    let name = "flood.example.com".to_owned();
    options.flags.push(format!("--serving-name={name}"));
    let mut operator = Operator::start(BINARY, &options).await;
    operator.ready(LIMIT).await;
    let ca = installation.ca().await;
    let caller = Caller { source: HONEST, port: operator.ports.webhooks, ca, name };
    (installation, operator, caller)
}

/// An ordinary review is decided.
async fn is_served(caller: &Caller) {
    let answer = caller.send("/mutate", &honest()).await.expect("an answer");
    assert!(answer.status == 200 && answer.text.contains(r#""allowed":true"#), "{answer:?}");
}

#[tokio::test]
async fn no_review_fills_the_memory() {
    let (_installation, operator, caller) = webhooks("reviews").await;
    is_served(&caller).await;
    let attacker = caller.at(ATTACKER);
    for (what, body) in [
        ("nested maps", nested()),
        ("tiny maps", many(r#"{"a":0}"#)),
        ("tiny lists", many("[0]")),
        ("numbers", many("0")),
    ] {
        for path in ["/mutate", "/validate"] {
            let answer = attacker.send(path, &body).await.expect("an answer");
            assert_eq!(answer.status, 413, "{what}: {answer:?}");
        }
        let used = peak(operator.id());
        assert!(used < CONTAINER, "{what}: {used} MB");
    }
    let crowd =
        (0..40).map(|_| async { attacker.send("/mutate", &nested()).await.map(|answer| answer.status) });
    let answers = join_all(crowd).await;
    let expected = |answer: &Result<u16, String>| !matches!(answer, Ok(200..=399 | 500..=502));
    assert!(answers.iter().all(expected), "{answers:?}");
    let used = peak(operator.id());
    assert!(used < CONTAINER, "forty at once: {used} MB");
    is_served(&caller).await;
}

#[tokio::test]
async fn a_caller_that_holds_all_it_can_leaves_room_for_others() {
    let (_installation, operator, caller) = webhooks("hoarding").await;
    let attacker = caller.at(ATTACKER);
    let mut held = Vec::new();
    // Until it is refused: connections that say nothing are kept for longer than all of this takes.
    let refused = loop {
        assert!(held.len() < 1000, "nobody refuses");
        match attacker.connect().await {
            Ok(stream) => held.push(stream),
            Err(refused) => break refused,
        }
    };
    assert!(held.len() > 100, "{}: {refused}", held.len());
    is_served(&caller).await;
    assert_eq!(operator.probe("/readyz").await.unwrap().0, 200);
    // A slow body is cut, and says so.
    let mut slow = held.pop().unwrap();
    slow.write_all(request("a", "/mutate", 4096, "{").as_bytes()).await.unwrap();
    let last = tokio::time::timeout(LIMIT, answer(&mut slow)).await.expect("it is cut").expect("it is told");
    assert_eq!((last.status, last.text.trim()), (408, "the body came too slowly"));
    // What was cut is free again.
    until("the attacker to be let in again", LIMIT, async || attacker.connect().await.map(drop)).await;
}

#[tokio::test]
async fn whoever_sends_more_than_its_share_is_told_to_come_back() {
    let (_installation, _operator, caller) = webhooks("share").await;
    let attacker = caller.at(ATTACKER);
    let text = "x".repeat(2 * 1024 * 1024);
    let mut streams = Vec::new();
    for _ in 0..8 {
        streams.push(attacker.connect().await.unwrap());
    }
    let sending = streams.iter_mut().map(async |stream| {
        // All but the end of it; whoever is refused is cut off while it sends.
        let sent = stream.write_all(request("a", "/mutate", attacker::LARGE, &text).as_bytes()).await;
        answer(stream).await.map_err(|error| format!("{error}; sending: {sent:?}"))
    });
    let answers = join_all(sending).await;
    let told =
        answers.iter().flatten().filter(|answer| answer.status == 429 && answer.retry_after == Some(1));
    assert!(told.count() >= 1, "{answers:?}");
    is_served(&caller).await;
}

#[tokio::test]
async fn tokens_are_reviewed_once_in_ten_seconds_and_guessing_is_limited_for_each_caller() {
    let cluster = Cluster::shared().await;
    let proxy = FaultProxy::start(cluster).await;
    let (installation, operator, caller) = webhooks_through("tokens", cluster, &proxy.url()).await;
    let scraper = installation.caller("scraper", "get", "/metrics").await;
    let ask = async |source: Ipv4Addr, token: &str| {
        let request = http::Request::get("/metrics").header("authorization", format!("Bearer {token}"));
        let port = operator.ports.metrics;
        https::ask_from(source, port, &caller.ca, &caller.name, request, "").await.unwrap().0
    };
    for _ in 0..10 {
        assert_eq!((ask(HONEST, &scraper).await, ask(ATTACKER, "refused").await), (200, 401));
    }
    // Two tokens; a slow machine may have seen ten seconds pass.
    let reviewed = proxy.seen().iter().filter(|seen| seen.path.contains("/tokenreviews")).count();
    assert!((2..=6).contains(&reviewed), "{reviewed} TokenReviews for twenty requests");

    until("guesses to be refused unasked", LIMIT, async || {
        let mut answers = Vec::new();
        for number in 0..100 {
            answers.push(ask(ATTACKER, &format!("guess-{number}")).await);
        }
        holds(answers.contains(&429), format!("{answers:?}"))
    })
    .await;
    assert_eq!(ask(HONEST, &scraper).await, 200, "others are served");
}

/// Reviews whose questions are not answered, from two callers who could have all places between them.
#[tokio::test]
async fn whoever_waits_for_the_api_server_holds_no_place_and_asks_little_at_once() {
    let cluster = Cluster::shared().await;
    let proxy = FaultProxy::start(cluster).await;
    let (_installation, _operator, caller) = webhooks_through("asking", cluster, &proxy.url()).await;
    is_served(&caller).await;
    let is_question = |path: &str| path.contains("/subjectaccessreviews");
    proxy.on(Fault::Hold, move |_, path| is_question(path));
    let asked = || proxy.seen().iter().filter(|seen| is_question(&seen.path)).count();
    let before = asked();
    let attackers = [ATTACKER, Ipv4Addr::new(127, 0, 0, 3)].map(|source| caller.at(source));
    let mut streams = join_all((0..40).map(|number| attackers[number % 2].connect())).await;
    let body = honest();
    let reviews = streams.iter_mut().map(|stream| {
        let stream = stream.as_mut().unwrap();
        Box::pin(async {
            stream.write_all(request("a", "/validate", body.len(), &body).as_bytes()).await.unwrap();
            answer(stream).await
        })
    });
    let honest_review = Box::pin(async {
        until("questions under way", LIMIT, async || holds(asked() >= before + 16, asked().to_string()))
            .await;
        is_served(&caller).await;
        asked() - before
    });
    match select(honest_review, select_all(reviews)).await {
        Either::Left((questions, _)) => assert_eq!(questions, 16, "at once, for the whole process"),
        Either::Right(((attack, ..), _)) => panic!("answered before the honest review: {attack:?}"),
    }
}
