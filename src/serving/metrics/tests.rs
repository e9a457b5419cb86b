//! What a scrape shows is what the table says, and series of objects come and go with the objects.

use super::table::TABLE;
use super::*;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

fn metrics() -> Metrics {
    Metrics::new("1", "abc", true)
}

/// The types by name, as a scrape declares them.
fn declared(text: &str) -> BTreeMap<&str, &str> {
    let lines = text.lines().filter_map(|line| line.strip_prefix("# TYPE "));
    lines.filter_map(|line| line.split_once(' ')).collect()
}

/// The series of a metric.
fn series(metrics: &Metrics, name: &str) -> Vec<String> {
    let text = metrics.text();
    text.lines().filter(|line| line.starts_with(&format!("{name}{{"))).map(str::to_owned).collect()
}

#[test]
fn a_scrape_declares_what_the_table_says_and_nothing_else() {
    let text = metrics().text();
    let expected = TABLE.iter().map(|metric| (metric.family(), metric.type_.name())).collect();
    assert_eq!(declared(&text), expected, "{text}");
    for metric in TABLE {
        let line = format!("# HELP {} {}.\n", metric.family(), metric.help);
        assert!(text.contains(&line), "{line}");
    }
}

#[test]
fn without_conditions_of_objects_nothing_else_changes() {
    let without = Metrics::new("1", "abc", false);
    let shown = without.conditions.show("Thing", |_, _| true);
    without.conditions.report("Thing", "team", "one", [("Ready", Truth::True)].into_iter());
    let (all, text) = (metrics().text(), without.text());
    let missing: BTreeSet<&str> =
        declared(&all).into_keys().filter(|name| !declared(&text).contains_key(name)).collect();
    let expected = [table::CONDITION, table::CONDITIONS_LEFT_OUT].map(|metric| metric.family());
    assert_eq!(missing, expected.into());
    drop(shown);
}

#[test]
fn a_condition_is_shown_while_its_object_is_there_and_somebody_reconciles_it() {
    let (metrics, name) = (metrics(), table::CONDITION.name);
    let report = |truth| metrics.conditions.report("Thing", "team", "one", [("Ready", truth)].into_iter());
    report(Truth::True);
    assert_eq!(series(&metrics, name), Vec::<String>::new(), "nobody reconciles it here");
    let there = Arc::new(AtomicBool::new(true));
    let exists = there.clone();
    let shown = metrics.conditions.show("Thing", move |_, _| exists.load(Ordering::SeqCst));
    report(Truth::True);
    let line = |status: &str| {
        format!(r#"{name}{{kind="Thing",namespace="team",name="one",type="Ready",status="{status}"}} 1"#)
    };
    assert_eq!(series(&metrics, name), [line("True")]);
    report(Truth::Unknown);
    assert_eq!(series(&metrics, name), [line("Unknown")], "one status a condition");
    there.store(false, Ordering::SeqCst);
    assert_eq!(series(&metrics, name), Vec::<String>::new(), "gone");
    there.store(true, Ordering::SeqCst);
    assert_eq!(series(&metrics, name), Vec::<String>::new(), "and forgotten");
    report(Truth::False);
    assert_eq!(series(&metrics, name), [line("False")]);
    drop(shown);
    assert_eq!(series(&metrics, name), Vec::<String>::new(), "another replica shows it now");
}

#[test]
fn no_more_objects_have_series_than_the_bound_and_the_rest_is_counted() {
    let metrics = metrics();
    let _shown = metrics.conditions.show("Thing", |_, name| name != "7");
    let report = |name: usize| {
        metrics.conditions.report("Thing", "team", &name.to_string(), [("Ready", Truth::True)].into_iter());
    };
    (0..1000).for_each(report);
    let left_out = |count| metrics.text().contains(&format!("{} {count}\n", table::CONDITIONS_LEFT_OUT.name));
    report(1000);
    assert!(left_out(0), "one is gone, whose place is free again");
    report(1001);
    report(3);
    assert!(left_out(1), "one that is shown stays so");
    assert_eq!(series(&metrics, table::CONDITION.name).len(), 1000);
}

#[test]
fn jobs_are_shown_as_they_were_counted_while_this_replica_counts() {
    let metrics = metrics();
    let count = |jobs| JobCount { namespace: "team".to_owned(), name: "builders".to_owned(), jobs };
    let name = table::PENDING_JOBS.name;
    let shown = metrics.pending_jobs.show(move || vec![count(7)]);
    assert_eq!(series(&metrics, name), [format!(r#"{name}{{namespace="team",name="builders"}} 7"#)]);
    drop(shown);
    assert_eq!(series(&metrics, name), Vec::<String>::new(), "another replica shows it now");
}

#[test]
fn a_queue_is_looked_into_at_a_scrape_and_empty_where_nobody_works_on_it() {
    let metrics = metrics();
    let backlog = Backlog { due: 3, oldest: Duration::from_millis(1500) };
    let shown = metrics.queues.show("Thing", move |_| backlog);
    let both = || [table::QUEUE_DEPTH, table::OLDEST_DUE].map(|metric| series(&metrics, metric.name));
    let lines = |depth: &str, age: &str| {
        [
            vec![format!(r#"coder_k8s_queue_depth{{kind="Thing"}} {depth}"#)],
            vec![format!(r#"coder_k8s_oldest_due_seconds{{kind="Thing"}} {age}"#)],
        ]
    };
    assert_eq!(both(), lines("3", "1.5"));
    drop(shown);
    assert_eq!(both(), lines("0", "0.0"));
}

#[test]
fn a_review_is_measured_however_it_ends() {
    let metrics = metrics();
    metrics.review(Webhook::Mutate).decided(true);
    metrics.review(Webhook::Validate).decided(false);
    drop(metrics.review(Webhook::Validate));
    let text = metrics.text();
    for labels in [
        r#"webhook="mutate",verdict="allowed""#,
        r#"webhook="validate",verdict="denied""#,
        r#"webhook="validate",verdict="failed""#,
    ] {
        let line = format!("coder_k8s_admission_duration_seconds_count{{{labels}}} 1\n");
        assert!(text.contains(&line), "{line} in {text}");
    }
}
