//! What callers without credentials can do to the memory of a replica, how long an honest review takes meanwhile, and
//! what is left of it a minute later. Everything comes from loopback addresses and ends by itself.

use futures::future::join_all;
use std::future::Future;
use std::net::Ipv4Addr;
use std::time::{Duration, Instant};
use support::attacker::{self, Caller, HONEST, answer, honest, request};
use support::figures::Figure;
use support::memory::{peak, reset_peak, resident};
use support::{Installation, Operator, OperatorOptions, https};
use tokio::io::AsyncWriteExt;
use tokio_util::task::AbortOnDropHandle;

const NAME: &str = "footprint.example.com";
/// How long each attack goes on.
const LENGTH: Duration = Duration::from_secs(5);
/// Connections that an attacker tries to have.
const CROWD: usize = 300;
/// Of those that send whole reviews; more would only wait for each other.
const SENDERS: usize = 48;
/// Pause between two honest reviews.
const PAUSE: Duration = Duration::from_millis(50);
/// The longest that the API server waits for the mutating webhook.
const DEADLINE: f64 = 3000.0;
const MOST: f64 = 96.0;
const LATER: Duration = Duration::from_secs(60);

/// Peak memory and the slowest honest answer under each attack, and the memory a minute after all of them.
pub async fn under_attack(
    installation: &Installation,
    binary: &str,
    options: &OperatorOptions,
) -> Vec<Figure> {
    let mut options = options.clone();
    options.flags.push(format!("--serving-name={NAME}"));
    let mut operator = Operator::start(binary, &options).await;
    operator.ready(super::LIMIT).await;
    let (ca, port) = (installation.ca().await, operator.ports.webhooks);
    let caller = Caller { source: HONEST, port, ca, name: NAME.to_owned() };
    // The first reviews build what all later ones use.
    for _ in 0..50 {
        for path in ["/mutate", "/validate"] {
            caller.send(path, &honest()).await.expect("an honest review is answered");
        }
    }
    tokio::time::sleep(super::SETTLE).await;
    let before = resident(operator.id());
    println!("--> attacks on a replica of {before:.1} MB, {} s each", LENGTH.as_secs());
    let mut figures = Vec::new();
    let attackers: Vec<Caller> = (2..=5).map(|last| caller.at(Ipv4Addr::new(127, 0, 0, last))).collect();
    let one = std::slice::from_ref(&attackers[0]);
    let mut row = |name: &str, outcome: Outcome| figures.extend(outcome.figures(name));
    let nested = attacker::nested();
    row("one nested review", watched(&operator, &caller, once(&attackers[0], &nested)).await);
    for (name, body) in [
        ("nested reviews", nested),
        ("reviews of tiny maps", attacker::many(r#"{"a":0}"#)),
        ("reviews of numbers", attacker::many("0")),
        ("the most that is built, maps", attacker::as_many_as_are_built(r#"{"a":0}"#, 7000)),
        ("the most that is built, numbers", attacker::as_many_as_are_built("0", 45_000)),
        ("the same with nulls", attacker::as_many_as_are_built("null", 22_000)),
    ] {
        row(name, watched(&operator, &caller, repeated(one, &body)).await);
        row(&format!("{name}, 4 callers"), watched(&operator, &caller, repeated(&attackers, &body)).await);
    }
    let inquiry = attacker::many_rights();
    row("many rights", watched(&operator, &caller, repeated(one, &inquiry)).await);
    row("many rights, 4 callers", watched(&operator, &caller, repeated(&attackers, &inquiry)).await);
    row("slow bodies", watched(&operator, &caller, slow_bodies(&attackers)).await);
    row("endless heads", watched(&operator, &caller, endless_heads(&attackers)).await);
    row("handshakes half done", watched(&operator, &caller, half_handshakes(port, &attackers)).await);
    println!("--> a minute of peace");
    tokio::time::sleep(LATER).await;
    let after = resident(operator.id());
    println!("    {before:.1} MB before, {after:.1} MB after");
    figures.push(Figure::at_most("attacks: growth a minute later", after - before, "MB", 4.0));
    super::stop(operator).await;
    figures
}

/// What was seen during an attack.
struct Outcome {
    peak: f64,
    slowest: f64,
    unanswered: usize,
}

impl Outcome {
    fn figures(&self, name: &str) -> [Figure; 2] {
        println!(
            "    {name}: {:.1} MB at most, an honest review took up to {:.0} ms, {} were not answered",
            self.peak, self.slowest, self.unanswered
        );
        // A review that is not answered is as late as can be.
        let slowest = if self.unanswered == 0 { self.slowest } else { f64::INFINITY };
        [
            Figure::at_most(&format!("{name}: peak"), self.peak, "MB", MOST),
            Figure::at_most(&format!("{name}: slowest honest review"), slowest, "ms", DEADLINE),
        ]
    }
}

/// Runs an attack while an honest caller goes on.
async fn watched(operator: &Operator, caller: &Caller, attack: impl Future<Output = ()>) -> Outcome {
    reset_peak(operator.id());
    let honest_caller = caller.clone();
    let (stop, mut stopped) = tokio::sync::oneshot::channel::<()>();
    let going_on = AbortOnDropHandle::new(tokio::spawn(async move {
        let (mut slowest, mut unanswered) = (0_f64, 0);
        while stopped.try_recv().is_err() {
            let began = Instant::now();
            match honest_caller.send("/mutate", &honest()).await {
                Ok(answer) if answer.status == 200 => {
                    slowest = slowest.max(began.elapsed().as_secs_f64() * 1000.0);
                }
                Ok(answer) => {
                    println!("    an honest review: {} {}", answer.status, answer.text.trim());
                    unanswered += 1;
                }
                Err(error) => {
                    println!("    an honest review: {error}");
                    unanswered += 1;
                }
            }
            tokio::time::sleep(PAUSE).await;
        }
        (slowest, unanswered)
    }));
    attack.await;
    // The receiver ends with its loop, which this ends.
    let _ = stop.send(());
    let (slowest, unanswered) = going_on.await.expect("the honest caller comes to its end");
    Outcome { peak: peak(operator.id()), slowest, unanswered }
}

async fn once(attacker: &Caller, body: &str) {
    let answer = attacker.send("/mutate", body).await;
    println!("    answered: {:?}", answer.map(|answer| answer.status));
}

/// Whole reviews over many connections, as fast as they are answered.
async fn repeated(attackers: &[Caller], body: &str) {
    let senders = (0..SENDERS).map(async |number| {
        let attacker = &attackers[number % attackers.len()];
        let (began, mut statuses) = (Instant::now(), Vec::new());
        while began.elapsed() < LENGTH {
            let path = if number % 2 == 0 { "/mutate" } else { "/validate" };
            statuses.push(attacker.send(path, body).await.map_or(0, |answer| answer.status));
        }
        statuses
    });
    let mut statuses: Vec<u16> = join_all(senders).await.concat();
    statuses.sort_unstable();
    let counts: Vec<String> =
        statuses.chunk_by(|a, b| a == b).map(|same| format!("{} x {}", same.len(), same[0])).collect();
    println!("    answers: {}", counts.join(", "));
}

/// Bodies that begin with a lot and go on with little, again and again.
async fn slow_bodies(attackers: &[Caller]) {
    let text = "x".repeat(256 * 1024);
    let connections = (0..CROWD).map(async |number| {
        let attacker = &attackers[number % attackers.len()];
        let began = Instant::now();
        while began.elapsed() < LENGTH {
            let Ok(mut stream) = attacker.connect().await else { continue };
            let sent = stream.write_all(request(NAME, "/mutate", attacker::LARGE, &text).as_bytes()).await;
            if sent.is_ok() {
                // Whatever it says, it is the end of this connection.
                let _ = tokio::time::timeout(LENGTH, answer(&mut stream)).await;
            }
        }
    });
    join_all(connections).await;
}

/// Heads that never end, as long as they are taken.
async fn endless_heads(attackers: &[Caller]) {
    let header = format!("X-Header: {}\r\n", "x".repeat(1000));
    let connections = (0..CROWD).map(async |number| {
        let attacker = &attackers[number % attackers.len()];
        let began = Instant::now();
        while began.elapsed() < LENGTH {
            let Ok(mut stream) = attacker.connect().await else { continue };
            let head = format!("POST /mutate HTTP/1.1\r\nHost: {NAME}\r\n{}", header.repeat(15));
            if stream.write_all(head.as_bytes()).await.is_ok() {
                let _ = tokio::time::timeout(LENGTH, answer(&mut stream)).await;
            }
        }
    });
    join_all(connections).await;
}

/// The beginning of a greeting that announces sixty thousand bytes.
async fn half_handshakes(port: u16, attackers: &[Caller]) {
    let mut greeting = vec![1, 0, 0xea, 0x60];
    greeting.resize(60_000, 0);
    let mut records = Vec::new();
    for part in greeting.chunks(16_000) {
        records.extend([22, 3, 1]);
        records.extend(u16::try_from(part.len()).expect("a record is short").to_be_bytes());
        records.extend(part);
    }
    let connections = (0..CROWD).map(async |number| {
        let source = attackers[number % attackers.len()].source;
        let began = Instant::now();
        while began.elapsed() < LENGTH {
            let Ok(mut stream) = https::dial_from(source, port).await else { continue };
            if stream.write_all(&records[..records.len() - 1]).await.is_ok() {
                let mut end = [0; 16];
                let _ =
                    tokio::time::timeout(LENGTH, tokio::io::AsyncReadExt::read(&mut stream, &mut end)).await;
            }
        }
    });
    join_all(connections).await;
}
