//! Pure admission: what an object becomes (defaults) and why it is refused (rules).
//! It takes values and returns values; it never talks to a cluster, a clock or a file.

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
