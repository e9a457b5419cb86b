//! Pins what each injected fault does to the wire, to the state and to the record.
//! It never sleeps: holds end by release, or by a bound that has already passed.

use std::time::Duration;

use serde_json::json;

use super::SOON;
use super::client::Ask;
use crate::coderd::{Coderd, Fault, Occurrence, Outcome, Role};

const KEYS: &str = "/api/v2/organizations/default/provisionerkeys";
const CREATE: &str = "POST /organizations/{org}/provisionerkeys";

fn create(token: &str) -> Ask {
    Ask::post(KEYS, &json!({ "name": "eu" })).token(token)
}

async fn struck_by(fault: Fault) -> (Coderd, String) {
    let coderd = Coderd::start().await;
    let token = coderd.token_for(&[Role::Owner]);
    coderd.inject(CREATE, Occurrence::Next, fault);
    (coderd, token)
}

#[tokio::test]
async fn an_injected_status_replaces_the_answer_and_changes_nothing() {
    let (coderd, token) = struck_by(Fault::status(503)).await;
    let heard = create(&token).send(&coderd).await;
    assert_eq!(heard.status, 503);
    assert_eq!(coderd.provisioner_keys("default").len(), 0);
    let call = &coderd.calls_to(CREATE)[0];
    assert_eq!((call.status(), call.processed), (Some(503), false));
    assert_eq!(create(&token).send(&coderd).await.status, 201, "only the next call is struck");
}

#[tokio::test]
async fn an_injected_answer_may_be_any_json_or_a_gateways_page() {
    let (coderd, token) = struck_by(Fault::answer(201, &json!({ "key": "" }))).await;
    assert_eq!(create(&token).send(&coderd).await.json(), json!({ "key": "" }));
    coderd.inject(CREATE, Occurrence::Next, Fault::answer_text(502, "text/html", "<html>"));
    let page = create(&token).send(&coderd).await;
    assert_eq!((page.status, page.text.as_str()), (502, "<html>"));
}

#[tokio::test]
async fn an_injected_429_says_when_to_come_back() {
    let (coderd, token) = struck_by(Fault::too_many_requests(Duration::from_secs(7))).await;
    let heard = create(&token).send(&coderd).await;
    assert_eq!((heard.status, heard.header("retry-after")), (429, "7"));
}

#[tokio::test]
async fn a_cut_before_processing_leaves_the_world_alone() {
    let (coderd, token) = struck_by(Fault::cut_before_processing()).await;
    let heard = create(&token).listen(&coderd).await;
    assert!(!matches!(heard, Ok(Some(_))), "{heard:?}");
    assert_eq!(coderd.provisioner_keys("default").len(), 0);
    let call = &coderd.calls_to(CREATE)[0];
    assert_eq!((call.outcome, call.processed), (Outcome::Cut, false));
}

#[tokio::test]
async fn a_lost_response_has_had_its_effect() {
    let (coderd, token) = struck_by(Fault::response_lost()).await;
    let heard = create(&token).listen(&coderd).await;
    assert!(!matches!(heard, Ok(Some(_))), "{heard:?}");
    assert_eq!(coderd.provisioner_keys("default").len(), 1);
    let call = &coderd.calls_to(CREATE)[0];
    assert_eq!((call.outcome, call.processed), (Outcome::Cut, true));
}

#[tokio::test]
async fn a_gateway_may_fail_after_the_effect() {
    let (coderd, token) =
        struck_by(Fault::answer_after_processing(504, &json!({ "message": "timeout" }))).await;
    assert_eq!(create(&token).send(&coderd).await.status, 504);
    assert_eq!(coderd.provisioner_keys("default").len(), 1);
}

#[tokio::test]
async fn malformed_json_comes_with_the_status_of_success() {
    let (coderd, token) = struck_by(Fault::malformed_json()).await;
    let heard = create(&token).send(&coderd).await;
    assert_eq!(heard.status, 201);
    assert!(serde_json::from_str::<serde_json::Value>(&heard.text).is_err());
    assert_eq!(coderd.provisioner_keys("default").len(), 1);
}

#[tokio::test]
async fn half_a_body_ends_before_its_announced_length() {
    let (coderd, token) = struck_by(Fault::half_body()).await;
    let heard = create(&token).send(&coderd).await;
    let announced: usize = heard.header("content-length").parse().expect("a length");
    assert_eq!((heard.status, heard.text.len()), (201, announced / 2));
    assert_eq!(coderd.provisioner_keys("default").len(), 1);
}

#[tokio::test]
async fn a_hanging_call_is_processed_once_released() {
    let coderd = Coderd::start().await;
    let token = coderd.token_for(&[Role::Owner]);
    let hang = coderd.inject(CREATE, Occurrence::Next, Fault::hang());
    let calling = create(&token).send(&coderd);
    let releasing = async {
        hang.reached(SOON).await;
        assert_eq!(coderd.provisioner_keys("default").len(), 0);
        assert_eq!(coderd.calls_to(CREATE)[0].outcome, Outcome::InFlight);
        hang.release();
    };
    let (heard, ()) = tokio::join!(calling, releasing);
    assert_eq!(heard.status, 201);
    assert_eq!(hang.hits(), 1);
}

#[tokio::test]
async fn an_answer_may_be_held_after_its_effect_until_the_client_gives_up() {
    let coderd = Coderd::start().await;
    let token = coderd.token_for(&[Role::Owner]);
    let hang = coderd.inject(CREATE, Occurrence::Next, Fault::hang_after_processing());
    tokio::select! {
        heard = create(&token).send(&coderd) => panic!("held, but {heard:?}"),
        () = hang.reached(SOON) => {}
    }
    let call = &coderd.wait_for_calls(CREATE, 1, SOON).await[0];
    assert_eq!((call.outcome, call.processed), (Outcome::Abandoned, true));
    assert_eq!(coderd.provisioner_keys("default").len(), 1);
}

#[tokio::test]
async fn a_delay_ends_by_itself() {
    let (coderd, token) = struck_by(Fault::delay(Duration::ZERO)).await;
    assert_eq!(create(&token).send(&coderd).await.status, 201);
    coderd.inject("GET /healthz", Occurrence::Next, Fault::delay_after_processing(Duration::ZERO));
    assert_eq!(Ask::get("/healthz").send(&coderd).await.status, 200);
}

#[tokio::test]
async fn occurrences_count_from_the_injection() {
    let coderd = Coderd::start().await;
    let health = async || Ask::get("/healthz").send(&coderd).await.status;
    assert_eq!(health().await, 200);
    let second = coderd.inject("GET /healthz", Occurrence::Nth(2), Fault::status(500));
    assert_eq!([health().await, health().await, health().await], [200, 500, 200]);
    assert_eq!(second.hits(), 1);
    coderd.inject("GET /healthz", Occurrence::First(2), Fault::status(502));
    assert_eq!([health().await, health().await, health().await], [502, 502, 200]);
    let outage = coderd.inject("*", Occurrence::Every, Fault::status(503));
    assert_eq!([health().await, health().await], [503, 503]);
    outage.withdraw();
    assert_eq!(health().await, 200);
    coderd.inject("GET /healthz", Occurrence::Every, Fault::status(504));
    coderd.clear_faults();
    assert_eq!(health().await, 200);
}

#[tokio::test]
#[should_panic(expected = "the double has no route")]
async fn a_fault_on_a_misspelt_route_is_an_error_of_the_test() {
    let coderd = Coderd::start().await;
    coderd.inject("GET /heathz", Occurrence::Next, Fault::hang());
}

#[tokio::test]
async fn dropping_the_double_ends_calls_it_holds() {
    let coderd = Coderd::start().await;
    let hang = coderd.inject("GET /healthz", Occurrence::Every, Fault::hang());
    let mut stream = tokio::net::TcpStream::connect(coderd.addr()).await.expect("it listens");
    let request = b"GET /healthz HTTP/1.1\r\nHost: coderd\r\n\r\n";
    tokio::io::AsyncWriteExt::write_all(&mut stream, request).await.expect("it reads");
    hang.reached(SOON).await;
    let addr = coderd.addr();
    drop(coderd);
    let mut answer = Vec::new();
    let read = tokio::io::AsyncReadExt::read_to_end(&mut stream, &mut answer);
    // A reset is as good an end as a clean one.
    drop(tokio::time::timeout(SOON, read).await.expect("the connection ends"));
    assert_eq!(answer, b"");
    assert!(tokio::net::TcpStream::connect(addr).await.is_err(), "nothing listens any more");
}
