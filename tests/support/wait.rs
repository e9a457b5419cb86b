//! Waiting for a condition instead of for time to pass.
//! It polls a question until it has an answer or the deadline is over; it never hides the last reason.

use std::time::{Duration, Instant};

const POLL: Duration = Duration::from_millis(20);

/// Asks until the answer is `Ok`; panics with the last `Err` when `limit` is over.
pub async fn until<T, E>(what: &str, limit: Duration, ask: impl AsyncFnMut() -> Result<T, E>) -> T
where
    E: std::fmt::Display,
{
    within(what, limit, ask).await.unwrap_or_else(|gave_up| panic!("{gave_up}"))
}

/// The same for whoever goes on after a failure: it is returned in words.
pub async fn within<T, E>(
    what: &str,
    limit: Duration,
    mut ask: impl AsyncFnMut() -> Result<T, E>,
) -> Result<T, String>
where
    E: std::fmt::Display,
{
    let deadline = Instant::now() + limit;
    let mut last = "nothing".to_owned();
    loop {
        match tokio::time::timeout_at(deadline.into(), ask()).await {
            Ok(Ok(answer)) => return Ok(answer),
            Ok(Err(reason)) if Instant::now() >= deadline => {
                return Err(format!("gave up after {limit:?} waiting for {what}: {reason}"));
            }
            Ok(Err(reason)) => {
                last = reason.to_string();
                tokio::time::sleep(POLL).await;
            }
            Err(_) => {
                return Err(format!(
                    "gave up after {limit:?} waiting for {what}: the question itself was not answered; the answer before: {last}"
                ));
            }
        }
    }
}

/// `Ok` when the condition holds, else the reason: the shape [`until`] asks for.
pub fn holds(condition: bool, reason: impl Into<String>) -> Result<(), String> {
    if condition { Ok(()) } else { Err(reason.into()) }
}
