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

fn main() -> ExitCode {
    coder_k8s::app::main()
}
