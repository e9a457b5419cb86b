//! Signals: the first SIGTERM or SIGINT asks everything to stop, a second one ends the process at once.

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio_util::sync::CancellationToken;

/// The exit code of a process that was told twice.
const ABORTED: i32 = 130;

/// Both signals, taken over for the whole process.
pub(super) struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    /// Takes the signals over.
    pub(super) fn listen() -> std::io::Result<Self> {
        Ok(Self { terminate: signal(SignalKind::terminate())?, interrupt: signal(SignalKind::interrupt())? })
    }

    async fn next(&mut self) -> &'static str {
        tokio::select! {
            _ = self.terminate.recv() => "SIGTERM",
            _ = self.interrupt.recv() => "SIGINT",
        }
    }

    /// Cancels `stop` at the first signal and exits at the second.
    pub(super) async fn run(mut self, stop: CancellationToken) {
        let name = self.next().await;
        tracing::info!(signal = name, "stopping; a second signal ends the process at once");
        stop.cancel();
        let name = self.next().await;
        tracing::warn!(signal = name, "aborted");
        std::process::exit(ABORTED);
    }
}
