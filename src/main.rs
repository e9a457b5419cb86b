//! The coder-k8s binary: what it does is decided in `app`.

use std::process::ExitCode;

fn main() -> ExitCode {
    coder_k8s::app::main()
}
