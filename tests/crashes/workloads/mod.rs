//! What objects go through in a crash campaign, each as the state before, a change, and how to tell that it is done.

pub mod control_plane;
pub mod provisioner;

use serde_json::Value;
use support::objects;

fn is_ready(subject: Option<&Value>) -> bool {
    subject.is_some_and(objects::is_ready)
}

fn is_gone(subject: Option<&Value>) -> bool {
    subject.is_none()
}
