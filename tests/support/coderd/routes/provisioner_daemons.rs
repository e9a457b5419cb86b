//! Provisioner daemons: sessions a test opens with a key, the rows coderd shows of them, and how they fade.
//! It never runs a job and never waits: heartbeats are computed from the clock.

use std::time::Duration;

use http::StatusCode;
use serde_json::{Value, json};

use crate::coderd::clock::Timestamp;
use crate::coderd::ids::Uuid;
use crate::coderd::pipeline::Inbound;
use crate::coderd::reply::{Answer, Reply};
use crate::coderd::routes::entitlements::EXTERNAL_PROVISIONER_DAEMONS;
use crate::coderd::routes::tags::{self, Tags};
use crate::coderd::server::Coderd;
use crate::coderd::state::ServerState;

mod filter;

use filter::Filter;

const HEARTBEAT: Duration = Duration::from_secs(60);
const OFFLINE_AFTER: Duration = Duration::from_secs(90);
const RECENT: Duration = Duration::from_secs(180);
const PURGED_AFTER: Duration = Duration::from_secs(7 * 86_400);

/// When a daemon that has dialled becomes visible to others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DaemonArrival {
    /// At once.
    Immediately,
    /// That much later on the double's clock.
    After(Duration),
    /// When the test calls [`Coderd::reveal_daemons`].
    WhenRevealed,
}

/// Why coderd turns a dialling daemon away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DialRefused {
    /// 401: no key has this plaintext; the process retries for ever.
    UnknownKey,
    /// 403: not licensed; the process gives up dialling but keeps running.
    NotLicensed,
}

/// One daemon process that has dialled, and its row if coderd still has one.
#[derive(Clone, Debug)]
pub(in crate::coderd) struct Daemon {
    id: Uuid,
    organization: Uuid,
    key: Uuid,
    key_name: String,
    name: String,
    tags: Tags,
    created_at: Timestamp,
    appears_at: Option<Timestamp>,
    left_at: Option<Timestamp>,
    job: Option<Uuid>,
    /// Gone once the key is deleted, though the connection stays and heartbeats go nowhere.
    has_row: bool,
}

impl Daemon {
    fn is_listed(&self, now: Timestamp) -> bool {
        let visible = self.has_row && self.appears_at.is_some_and(|appears| appears <= now);
        visible && now.since(self.last_seen(now)) < PURGED_AFTER
    }

    /// The last heartbeat before now, or before it left.
    fn last_seen(&self, now: Timestamp) -> Timestamp {
        let first = self.appears_at.unwrap_or(now);
        let until = self.left_at.map_or(now, |left| left.min(now));
        let beats = until.since(first).as_secs() / HEARTBEAT.as_secs();
        first + Duration::from_secs(beats * HEARTBEAT.as_secs())
    }

    fn is_stale(&self, now: Timestamp) -> bool {
        now.since(self.last_seen(now)) > OFFLINE_AFTER
    }

    /// The row as stored; the listing of keys shows it like this, the listing of daemons fills the empty fields.
    fn shown(&self, now: Timestamp, version: &str) -> Value {
        json!({
            "id": self.id.to_string(),
            "organization_id": self.organization.to_string(),
            "key_id": self.key.to_string(),
            "created_at": self.created_at.rfc3339(),
            "last_seen_at": self.last_seen(now).rfc3339(),
            "name": self.name,
            "version": version,
            "api_version": "1.18",
            "provisioners": ["terraform"],
            "tags": self.tags,
            "key_name": null,
            "status": null,
            "current_job": null,
            "previous_job": null,
        })
    }

    fn shown_with_status(&self, now: Timestamp, version: &str, status: &str) -> Value {
        let mut shown = self.shown(now, version);
        shown["key_name"] = json!(self.key_name);
        shown["status"] = json!(status);
        if let Some(job) = self.job {
            shown["current_job"] = json!({
                "id": job.to_string(),
                "status": "running",
                "template_name": "template",
                "template_icon": "",
                "template_display_name": "",
            });
        }
        shown
    }
}

impl ServerState {
    /// Rows of a key's daemons heard of within three minutes, by name.
    pub(in crate::coderd) fn recent_daemons_of(&self, key: Uuid, now: Timestamp) -> Vec<Value> {
        let recent = |daemon: &&Daemon| daemon.is_listed(now) && now.since(daemon.last_seen(now)) <= RECENT;
        let mut daemons: Vec<&Daemon> =
            self.daemons.iter().filter(|daemon| daemon.key == key).filter(recent).collect();
        daemons.sort_by(|one, other| one.name.cmp(&other.name));
        daemons.iter().map(|daemon| daemon.shown(now, &self.version)).collect()
    }

    /// Rows of daemons with these tags or more, oldest first, also of those that have gone.
    pub(in crate::coderd) fn daemons_that_could_take(&self, organization: Uuid, job: &Tags) -> Vec<Uuid> {
        let fits = |daemon: &&Daemon| {
            daemon.has_row && daemon.organization == organization && tags::contains(&daemon.tags, job)
        };
        let mut daemons: Vec<&Daemon> = self.daemons.iter().filter(fits).collect();
        daemons.sort_by_key(|daemon| daemon.created_at);
        daemons.iter().map(|daemon| daemon.id).collect()
    }

    /// Names of the processes that are connected with a key, by name.
    pub(in crate::coderd) fn connected_daemons_of(&self, key: Uuid) -> Vec<String> {
        let connected = self.daemons.iter().filter(|daemon| daemon.key == key && daemon.left_at.is_none());
        let mut names: Vec<String> = connected.map(|daemon| daemon.name.clone()).collect();
        names.sort();
        names
    }

    pub(in crate::coderd) fn forget_daemons_of(&mut self, key: Uuid) {
        self.daemons.iter_mut().filter(|daemon| daemon.key == key).for_each(|daemon| daemon.has_row = false);
    }

    /// Opens a session. A row of the same organisation and name is taken over, id and creation time included.
    fn dial(&mut self, plaintext: &str, name: &str, now: Timestamp) -> Result<(), DialRefused> {
        if !self.entitlements.enabled(EXTERNAL_PROVISIONER_DAEMONS) {
            return Err(DialRefused::NotLicensed);
        }
        let key = self.key_by_plaintext(plaintext).ok_or(DialRefused::UnknownKey)?.clone();
        let tags = tags::settled(&key.tags, Uuid::NIL);
        let appears_at = match self.daemon_arrival {
            DaemonArrival::Immediately => Some(now),
            DaemonArrival::After(delay) => Some(now + delay),
            DaemonArrival::WhenRevealed => None,
        };
        let same_row = |daemon: &Daemon| {
            daemon.has_row && daemon.organization == key.organization && daemon.name == name
        };
        let row = self.daemons.iter().position(same_row).map(|at| self.daemons.swap_remove(at));
        self.daemons.push(Daemon {
            id: row.as_ref().map_or_else(Uuid::random, |row| row.id),
            organization: key.organization,
            key: key.id,
            key_name: key.name,
            name: name.to_owned(),
            tags,
            created_at: row.map_or(now, |row| row.created_at),
            appears_at,
            left_at: None,
            job: None,
            has_row: true,
        });
        Ok(())
    }

    fn connected_daemon(&mut self, name: &str) -> &mut Daemon {
        let connected =
            self.daemons.iter_mut().find(|daemon| daemon.name == name && daemon.left_at.is_none());
        connected.unwrap_or_else(|| panic!("no daemon {name:?} is connected"))
    }
}

pub(in crate::coderd) fn list(state: &mut ServerState, inbound: &Inbound) -> Answer {
    let organization = state.readable_organization(inbound.caller(), inbound.param("org"))?;
    if !inbound.caller().may_read_provisioner_jobs(organization.id) {
        return Err(Reply::not_found());
    }
    let filter = Filter::parse(&inbound.query)
        .map_err(|problems| Reply::invalid("Invalid query parameters.", &problems))?;
    let now = inbound.now;
    let listed =
        state.daemons.iter().filter(|daemon| daemon.organization == organization.id && daemon.is_listed(now));
    let mut daemons: Vec<&Daemon> = listed.filter(|daemon| filter.admits(daemon, now)).collect();
    daemons.sort_by_key(|daemon| std::cmp::Reverse(daemon.created_at));
    daemons.truncate(filter.limit());
    let shown =
        |daemon: &&Daemon| daemon.shown_with_status(now, &state.version, filter.status_of(daemon, now));
    Ok(Reply::json(StatusCode::OK, &daemons.iter().map(shown).collect()))
}

/// A daemon process as the test sees it, including what coderd no longer lists.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DaemonSession {
    /// Its name.
    pub name: String,
    /// The key it dialled with.
    pub key: Uuid,
    /// Whether its connection is open: a daemon of a deleted key stays connected and keeps taking jobs.
    pub connected: bool,
    /// Whether coderd lists it at all, online or offline.
    pub listed: bool,
}

impl Coderd {
    /// A daemon process dials with a plaintext, as a pod does with its Secret.
    ///
    /// # Errors
    /// If coderd turns it away.
    pub fn connect_daemon(&self, plaintext: &str, name: &str) -> Result<(), DialRefused> {
        let now = self.clock().now();
        self.state().dial(plaintext, name, now)
    }

    /// The process goes away: heartbeats stop, and coderd calls it offline 90 seconds after the last one.
    ///
    /// # Panics
    /// If no daemon of that name is connected.
    pub fn disconnect_daemon(&self, name: &str) {
        let now = self.clock().now();
        self.state().connected_daemon(name).left_at = Some(now);
    }

    /// Lists a daemon that went away no more, as three minutes later.
    ///
    /// # Panics
    /// If it is still connected.
    pub fn forget_daemon(&self, name: &str) {
        let daemons = &mut self.state().daemons;
        assert!(
            daemons.iter().all(|one| one.name != name || one.left_at.is_some()),
            "{name} is still connected"
        );
        daemons.retain(|one| one.name != name);
    }

    /// Changes when daemons that dial from now on become visible.
    pub fn set_daemon_arrival(&self, arrival: DaemonArrival) {
        self.state().daemon_arrival = arrival;
    }

    /// Makes every daemon that has dialled visible now.
    pub fn reveal_daemons(&self) {
        let now = self.clock().now();
        for daemon in &mut self.state().daemons {
            daemon.appears_at = Some(daemon.appears_at.map_or(now, |appears| appears.min(now)));
        }
    }

    /// Gives a daemon a job or takes it away.
    ///
    /// # Panics
    /// If no daemon of that name is connected.
    pub fn set_daemon_busy(&self, name: &str, busy: bool) {
        self.state().connected_daemon(name).job = busy.then(Uuid::random);
    }

    /// Every daemon process that ever dialled and was not replaced by another of its name.
    pub fn daemons(&self) -> Vec<DaemonSession> {
        let now = self.clock().now();
        let shown = |daemon: &Daemon| DaemonSession {
            name: daemon.name.clone(),
            key: daemon.key,
            connected: daemon.left_at.is_none(),
            listed: daemon.is_listed(now),
        };
        self.state().daemons.iter().map(shown).collect()
    }
}
