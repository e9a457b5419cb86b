//! The processes of workspace proxies, which no simulated node runs: comes to a double of coderd for every proxy that is registered
//! there, as its pods do every few seconds. It looks at no pod: whoever wants a proxy that does not come does not call it.

use crate::coderd::Coderd;
use std::convert::Infallible;
use std::time::Duration;

/// How often they come.
const PACE: Duration = Duration::from_millis(200);

/// Comes from this address, until nobody waits for it any more.
///
/// # Panics
/// If coderd refuses a token that it has just given.
pub async fn come(coderd: &Coderd, url: &str) -> Infallible {
    loop {
        for proxy in coderd.workspace_proxies() {
            if let Some(token) = coderd.token_of_proxy(&proxy.name) {
                coderd.proxy_comes(&token, url).expect("a token of now, and a license");
            }
        }
        tokio::time::sleep(PACE).await;
    }
}
