//! AdmissionReview as the API server sends it and reads it: the request in, the response out.
//! Never decides about a request: see [`crate::admit`].

mod request;
mod response;
#[cfg(test)]
mod tests;

pub use request::{MEMORY, Measured, Request, Unreadable, measure, read};
pub use response::write;

const VERSION: &str = "admission.k8s.io/v1";
const KIND: &str = "AdmissionReview";
