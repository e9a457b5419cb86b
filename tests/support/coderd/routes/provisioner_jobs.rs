//! Jobs that wait for a provisioner, as a test puts them there, and the listing by which a client counts them.
//! It never runs one: a job waits until the test takes it away.

use http::StatusCode;
use serde_json::{Value, json};

use super::tags::{self, Tags};
use crate::coderd::clock::Timestamp;
use crate::coderd::ids::Uuid;
use crate::coderd::pipeline::Inbound;
use crate::coderd::reply::{Answer, Reply};
use crate::coderd::server::Coderd;
use crate::coderd::state::ServerState;

const DEFAULT_LIMIT: usize = 50;

/// The import of a template version that nobody has begun.
#[derive(Clone, Debug)]
pub(in crate::coderd) struct PendingJob {
    id: Uuid,
    organization: Uuid,
    tags: Tags,
    version: Uuid,
    file: Uuid,
    initiator: Uuid,
    created_at: Timestamp,
}

/// What the query of the listing asks for.
struct Filter {
    limit: usize,
    statuses: Vec<String>,
    tags: Tags,
}

impl Filter {
    /// Reads the query as coderd does; every wrong or unknown parameter is named.
    fn parse(query: &[(String, String)]) -> Result<Self, Vec<(String, String)>> {
        let mut filter = Self { limit: DEFAULT_LIMIT, statuses: Vec::new(), tags: Tags::new() };
        let mut problems = Vec::new();
        for (name, value) in query {
            let outcome = match name.as_str() {
                "limit" | "status" | "tags" if value.is_empty() => Ok(()),
                "limit" => positive(value).map(|limit| filter.limit = limit),
                "status" => {
                    filter.statuses = value.split(',').map(str::to_owned).collect();
                    Ok(())
                }
                "tags" => serde_json::from_str(value).map(|tags| filter.tags = tags).map_err(|problem| {
                    format!("Query param \"tags\" must be a valid JSON object: {problem}")
                }),
                _ => Err(format!("{name:?} is not a valid query param")),
            };
            problems.extend(outcome.err().map(|detail| (name.clone(), detail)));
        }
        if problems.is_empty() { Ok(filter) } else { Err(problems) }
    }

    fn admits(&self, job: &PendingJob) -> bool {
        let by_status = self.statuses.is_empty() || self.statuses.iter().any(|asked| asked == "pending");
        by_status && tags::contains(&job.tags, &self.tags)
    }
}

/// A number with Go's words for what is none.
fn positive(text: &str) -> Result<usize, String> {
    let number: Result<i32, String> =
        text.parse().map_err(|_| format!("strconv.ParseInt: parsing {text:?}: invalid syntax"));
    let positive =
        number.and_then(|number| usize::try_from(number).map_err(|_| "value is negative".to_owned()));
    positive.map_err(|problem| {
        format!("Query param \"limit\" must be a valid 32-bit positive integer: {problem}")
    })
}

impl ServerState {
    fn shown_job(&self, job: &PendingJob) -> Value {
        // Both are counted over all organisations.
        let position = self.jobs.iter().position(|other| other.id == job.id).map_or(0, |before| before + 1);
        let mut shown = json!({
            "id": job.id.to_string(),
            "created_at": job.created_at.rfc3339(),
            "status": "pending",
            "file_id": job.file.to_string(),
            "tags": job.tags,
            "queue_position": position,
            "queue_size": self.jobs.len(),
            "organization_id": job.organization.to_string(),
            "initiator_id": job.initiator.to_string(),
            "input": { "template_version_id": job.version.to_string() },
            "type": "template_version_import",
            "metadata": {
                "template_version_name": "waiting",
                "template_id": Uuid::NIL.to_string(),
                "template_name": "",
                "template_display_name": "",
                "template_icon": "",
            },
            "logs_overflowed": false,
        });
        let workers = self.daemons_that_could_take(job.organization, &job.tags);
        if !workers.is_empty() {
            shown["available_workers"] = json!(workers.iter().map(Uuid::to_string).collect::<Vec<String>>());
        }
        shown
    }
}

pub(in crate::coderd) fn list(state: &mut ServerState, inbound: &Inbound) -> Answer {
    let organization = state.readable_organization(inbound.caller(), inbound.param("org"))?;
    if !inbound.caller().may_read_provisioner_jobs(organization.id) {
        return Err(Reply::not_found());
    }
    let filter = Filter::parse(&inbound.query)
        .map_err(|problems| Reply::invalid("Invalid query parameters.", &problems))?;
    let limit = if filter.limit == 0 { usize::MAX } else { filter.limit };
    let waiting = state.jobs.iter().rev().filter(|job| job.organization == organization.id);
    let shown = waiting.filter(|job| filter.admits(job)).take(limit).map(|job| state.shown_job(job));
    Ok(Reply::json(StatusCode::OK, &shown.collect()))
}

impl Coderd {
    /// Somebody imports a template version whose job has these tags; nobody begins it. Says the id of the job.
    ///
    /// # Panics
    /// If the organisation is unknown.
    pub fn add_pending_job(&self, organization: &str, tags: &[(&str, &str)]) -> Uuid {
        let created_at = self.clock().now();
        let mut state = self.state();
        let organization = state.organization_named(organization).id;
        let initiator = state.users.first().map_or(Uuid::NIL, |user| user.id);
        let given = tags.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        let (id, version, file) = (Uuid::random(), Uuid::random(), Uuid::random());
        let tags = tags::settled(&given, initiator);
        state.jobs.push(PendingJob { id, organization, tags, version, file, initiator, created_at });
        id
    }

    /// A job is begun or cancelled: it waits no longer.
    ///
    /// # Panics
    /// If no such job waits.
    pub fn remove_pending_job(&self, id: Uuid) {
        let mut state = self.state();
        let before = state.jobs.len();
        state.jobs.retain(|job| job.id != id);
        assert!(state.jobs.len() < before, "no job {id} waits");
    }
}
