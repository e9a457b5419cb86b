//! Opens TCP connections: `--resolve` first, then DNS, then the guard of addresses, all within one timeout.
//! It never dials a forbidden address that DNS gave, and never reads a proxy from the environment.

use super::addresses::Forbidden;
use super::resolve::Resolve;
use std::net::SocketAddr;
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout_at};

/// Why nothing was connected.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum DialError {
    #[error("the host name has no address")]
    Name,
    #[error("the host is {0}, which is refused; --resolve can lead there on purpose")]
    Forbidden(Forbidden),
    #[error("nothing accepts the connection")]
    Connect,
    #[error("connecting took too long")]
    TimedOut,
}

/// Connects to a host within `limit`.
pub(super) async fn dial(
    resolve: &Resolve,
    host: &str,
    port: u16,
    limit: Duration,
) -> Result<TcpStream, DialError> {
    dial_by(named, resolve, host, port, limit).await
}

/// The same with the addresses that `named` knows.
async fn dial_by(
    named: impl AsyncFn(&str, u16) -> Result<Vec<SocketAddr>, DialError>,
    resolve: &Resolve,
    host: &str,
    port: u16,
    limit: Duration,
) -> Result<TcpStream, DialError> {
    let deadline = Instant::now() + limit;
    let addresses = match resolve.lookup(host, port) {
        Some(led) => vec![led],
        None => {
            let name = resolve.asked_name(host);
            let found = timeout_at(deadline, named(&name, port)).await.map_err(|_| DialError::TimedOut)??;
            permitted(resolve, found)?
        }
    };
    let mut outcome = DialError::Name;
    for (at, address) in addresses.iter().enumerate() {
        // A silent address must not use up the time of those behind it.
        let left = deadline.saturating_duration_since(Instant::now());
        let share = left / u32::try_from(addresses.len() - at).unwrap_or(u32::MAX);
        match timeout_at(Instant::now() + share, TcpStream::connect(address)).await {
            Ok(Ok(stream)) => {
                // Small requests must not wait for an acknowledgement; where it cannot be set, they do.
                let _ = stream.set_nodelay(true);
                return Ok(stream);
            }
            Ok(Err(_)) => outcome = DialError::Connect,
            Err(_) => outcome = DialError::TimedOut,
        }
    }
    Err(outcome)
}

async fn named(host: &str, port: u16) -> Result<Vec<SocketAddr>, DialError> {
    let found = tokio::net::lookup_host((host, port)).await.map_err(|_| DialError::Name)?;
    Ok(found.collect())
}

/// The addresses that may be dialled; an error if there were some and none may.
fn permitted(resolve: &Resolve, found: Vec<SocketAddr>) -> Result<Vec<SocketAddr>, DialError> {
    let reason = found.iter().find_map(|address| resolve.refuses(address.ip()));
    let kept: Vec<SocketAddr> =
        found.into_iter().filter(|address| resolve.refuses(address.ip()).is_none()).collect();
    match (kept.is_empty(), reason) {
        (false, _) => Ok(kept),
        (true, Some(reason)) => Err(DialError::Forbidden(reason)),
        (true, None) => Err(DialError::Name),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOON: Duration = Duration::from_secs(5);

    #[tokio::test]
    async fn loopback_is_dialled_only_where_a_rule_leads_there() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        for host in ["localhost", "127.0.0.1", "::1"] {
            let refused = dial(&Resolve::default(), host, port, SOON).await.unwrap_err();
            assert_eq!(refused, DialError::Forbidden(Forbidden::Loopback), "{host}");
        }
        let led = Resolve::new(vec![format!("db.team.svc=127.0.0.1:{port}").parse().unwrap()]);
        assert!(dial(&led, "db.team.svc", 5432, SOON).await.is_ok());
    }

    #[tokio::test]
    async fn a_closed_port_and_an_unknown_name_are_told_apart() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        drop(listener);
        let led = Resolve::new(vec!["a=127.0.0.1".parse().unwrap()]);
        assert_eq!(dial(&led, "a", port, SOON).await.unwrap_err(), DialError::Connect);
        let unknown = dial(&led, "no-such-host.invalid", port, SOON).await.unwrap_err();
        assert_eq!(unknown, DialError::Name);
    }

    #[test]
    fn of_mixed_answers_only_permitted_addresses_are_dialled() {
        let found = |texts: &[&str]| texts.iter().map(|text| text.parse().unwrap()).collect();
        let any = Resolve::default();
        assert_eq!(permitted(&any, found(&["127.0.0.1:1", "10.0.0.1:1"])), Ok(found(&["10.0.0.1:1"])));
        assert_eq!(permitted(&any, Vec::new()), Err(DialError::Name));
        let denying = any.denying(vec!["10.0.0.0/8".parse().unwrap()]);
        let denied = permitted(&denying, found(&["10.0.0.1:1", "[::ffff:10.0.0.1]:1"]));
        assert_eq!(denied, Err(DialError::Forbidden(Forbidden::Denied)));
    }

    #[tokio::test]
    async fn dns_is_asked_for_the_absolute_name_and_a_denied_answer_is_not_dialled() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let asked = std::sync::Mutex::new(Vec::new());
        let answer = async |name: &str, port: u16| {
            asked.lock().unwrap().push(name.to_owned());
            Ok(vec![SocketAddr::from(([127, 0, 0, 1], port))])
        };
        let resolve = Resolve::default().in_cluster("cluster.local");
        let refused =
            dial_by(&answer, &resolve, "coder.team.svc.cluster.local", port, SOON).await.unwrap_err();
        assert_eq!(refused, DialError::Forbidden(Forbidden::Loopback));
        let denying = resolve.clone().denying(vec!["127.0.0.0/8".parse().unwrap()]);
        let denied = dial_by(&answer, &denying, "db.team", port, SOON).await.unwrap_err();
        assert_eq!(denied, DialError::Forbidden(Forbidden::Denied));
        assert_eq!(*asked.lock().unwrap(), ["coder.team.svc.cluster.local.", "db.team"]);
        // Whoever runs the operator leads there on purpose.
        let led = Resolve::new(vec!["*.cluster.local=127.0.0.1".parse().unwrap()]);
        let led = led.denying(vec!["127.0.0.0/8".parse().unwrap()]).in_cluster("cluster.local");
        assert!(dial_by(&answer, &led, "coder.team.svc.cluster.local", port, SOON).await.is_ok());
        assert_eq!(asked.lock().unwrap().len(), 2, "no question was needed");
    }
}
