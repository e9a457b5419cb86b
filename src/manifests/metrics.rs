//! Decides what the page on metrics shows: each metric with its type, its labels and what it says.
//! It never says what the table does not say: all of it is that of [`crate::serving::metrics::table`].

use super::reference::{HEADER, cell, code};
use super::{File, Generated};
use crate::serving::metrics::table::{Metric, TABLE};

const OPENING: &str = "# Metrics\n\n\
    Every metric of `/metrics` on the metrics port; [operations.md](operations.md#ports) says who may read it. Labels come \
    from closed sets, but for `namespace` and `name` of objects, whose number has a bound. A metric \
    is declared from the start; a series is there once something happened.\n";

/// `docs/metrics.md`.
pub(super) fn files() -> Generated {
    let rows: String = TABLE.iter().map(row).collect();
    let content =
        format!("{HEADER}\n{OPENING}\n| name | type | labels | what it says |\n|---|---|---|---|\n{rows}");
    Ok(vec![File { path: "docs/metrics.md".to_owned(), content }])
}

fn row(metric: &Metric) -> String {
    let labels: Vec<String> = metric.labels.iter().map(|label| code(label)).collect();
    let labels = if labels.is_empty() { "none".to_owned() } else { labels.join(", ") };
    format!("| {} | {} | {labels} | {}. |\n", code(metric.name), metric.type_.name(), cell(metric.help))
}
