//! What stands around the operator of one run: its coderds, the way to the database, and the processes of its pods.
//! It starts each part once, and knows nothing of what the run is about.

use crate::campaign::coderds::RunCoderd;
use crate::campaign::{Environment, Makes, Target};
use crate::coderd::Coderd;
use crate::daemons::{Daemons, by_service};
use crate::database_proxy::DatabaseProxy;
use crate::fault_proxy::Journal;
use std::collections::BTreeMap;
use std::sync::{Arc, Weak};
use std::time::Duration;

/// How long a daemon that has ended is still listed by coderd; there it is three minutes.
const LISTED_FOR: Duration = Duration::from_millis(700);

/// The coderds of a run.
pub(super) async fn coderds(target: &Target, journal: &Arc<Journal>) -> Vec<RunCoderd> {
    let names = target.attached.as_ref().map_or(&["coder"][..], |attached| attached.control_planes);
    let makes = target.attached.as_ref().map(|attached| &attached.makes);
    let mut coderds = Vec::new();
    for name in names {
        coderds.push(RunCoderd::start(name, makes, journal).await);
    }
    coderds
}

/// The flags that lead each control plane's Service to its coderd, and every other to the first.
pub(super) fn leading_to(coderds: &[RunCoderd], home: &str) -> Vec<String> {
    let to = |host: String, coderd: &RunCoderd| format!("--resolve={host}={}", coderd.proxy.address());
    let each =
        coderds.iter().skip(1).map(|one| to(format!("{}.{home}.svc.cluster.local", one.control_plane), one));
    each.chain([to("*.svc.cluster.local".to_owned(), &coderds[0])]).collect()
}

/// The way to the database, whose tokens are known to the coderd before it.
pub(super) fn database(
    environment: &Environment,
    coderd: &Arc<Coderd>,
    journal: &Arc<Journal>,
) -> DatabaseProxy {
    let (postgres, database, follower) =
        (environment.postgres.clone(), environment.database.clone(), coderd.clone());
    let follow = Arc::new(move || {
        // A database that does not answer any more has nothing to be followed.
        if let Ok(tokens) = postgres.coderd_tokens(&database) {
            follower.follow_database(&tokens);
        }
    });
    DatabaseProxy::recording(environment.postgres.port(), false, follow, journal.clone())
}

/// The processes of the subject's pods.
pub(super) fn processes(
    environment: &Environment,
    home: &str,
    coderds: &[RunCoderd],
    makes: Makes,
) -> Daemons {
    let doubles: BTreeMap<&str, Weak<Coderd>> =
        coderds.iter().map(|one| (one.control_plane, Arc::downgrade(&one.double))).collect();
    let coderd_at = move |url: &str| doubles.get(by_service(url)).and_then(Weak::upgrade);
    let client = environment.client.clone();
    match makes {
        Makes::Keys { .. } => guarding_keys(Daemons::follow(client, home, LISTED_FOR, coderd_at), coderds),
        Makes::Proxies { .. } => Daemons::follow_proxies(client, home, coderd_at),
    }
}

/// Each coderd objects to the deletion of a key that one of the daemons uses (I4), and of a key of others (I5).
fn guarding_keys(daemons: Daemons, coderds: &[RunCoderd]) -> Daemons {
    for coderd in coderds {
        let (users, foreign) = (daemons.users(), coderd.foreign.clone());
        coderd.double.on_key_deletion(move |deletion| {
            if foreign.contains(&deletion.key.id) {
                return Err(format!("I5: key {} of others is deleted", deletion.key.name));
            }
            users.object_to(deletion).map_err(|why| format!("I4: {why}"))
        });
    }
    daemons
}
