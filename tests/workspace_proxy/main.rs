//! CoderWorkspaceProxy on a real API server with the real Deployment controller on simulated nodes and strict doubles of coderd:
//! registrations that are made, kept, renamed, moved, taken over and removed, and what the status says of them.

mod attacks;
mod before;
mod break_glass;
mod brought;
mod consumed;
mod deletion;
mod exposure;
mod lies;
mod life;
mod long_status;
mod made_anew;
mod secrets;
mod site;
mod take_over;
mod trouble;
mod unreadable;
mod ways;
