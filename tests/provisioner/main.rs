//! CoderProvisioner on a real API server with the real Deployment controller on simulated nodes and strict doubles of coderd:
//! keys that are made, rotated, recovered and deleted, and what the status says of them.

mod attacks;
mod consumed;
mod credentials;
mod daemon_pods;
mod deletion;
mod dropped;
mod env;
mod keys_in_the_way;
mod life;
mod load;
mod moves;
mod odd_answers;
mod one_double;
mod proxied;
mod rare_looks;
mod rotations;
mod site;
mod stale;
mod take_over;
mod workload;
mod zombies;
