//! The coder-k8s binary: what it does is decided in `app`.

#![cfg_attr(
    not(test),
    deny(
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::panic,
        clippy::print_stdout,
        clippy::print_stderr
    )
)]

use std::process::ExitCode;
use tikv_jemallocator::Jemalloc;

/// A burst of large requests or objects must not stay resident: the container has a small limit, and what is kept of one
/// burst is missing in the next.
#[global_allocator]
static ALLOCATOR: Jemalloc = Jemalloc;

fn main() -> ExitCode {
    coder_k8s::app::main()
}
