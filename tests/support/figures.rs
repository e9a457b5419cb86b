//! Figures of a measurement: a table for people and `target/figures/<name>.json` for machines.
//! It reports what was measured; it never asserts anything about it.

use crate::installation::repository;
use serde::Serialize;

/// One measured figure.
#[derive(Debug, Clone, Serialize)]
pub struct Figure {
    /// What was measured.
    pub name: String,
    /// The result.
    pub value: f64,
    /// In which unit.
    pub unit: &'static str,
    /// The same of what we compare with, in the same run.
    pub baseline: Option<f64>,
    /// Ours by the baseline.
    pub ratio: Option<f64>,
    /// What we aim for, in words.
    pub goal: String,
    /// Whether we are there.
    pub met: bool,
}

impl Figure {
    /// A figure that should stay at or below a limit.
    pub fn at_most(name: &str, value: f64, unit: &'static str, limit: f64) -> Self {
        let goal = format!("<= {limit} {unit}");
        Self { name: name.to_owned(), value, unit, baseline: None, ratio: None, goal, met: value <= limit }
    }

    /// A figure that should stay within a multiple of a baseline of the same run.
    pub fn against(name: &str, value: f64, unit: &'static str, baseline: f64, most: f64) -> Self {
        let ratio = value / baseline;
        let (goal, met) = (format!("<= {most}x"), ratio <= most);
        Self { name: name.to_owned(), value, unit, baseline: Some(baseline), ratio: Some(ratio), goal, met }
    }

    /// A figure that others are measured by.
    pub fn baseline(name: &str, value: f64, unit: &'static str) -> Self {
        let goal = "the baseline".to_owned();
        Self { name: name.to_owned(), value, unit, baseline: None, ratio: None, goal, met: true }
    }

    /// A figure that should reach a share of a baseline of the same run.
    pub fn at_least(name: &str, value: f64, unit: &'static str, baseline: f64, least: f64) -> Self {
        let ratio = value / baseline;
        let (goal, met) = (format!(">= {least}x"), ratio >= least);
        Self { name: name.to_owned(), value, unit, baseline: Some(baseline), ratio: Some(ratio), goal, met }
    }
}

/// Prints the table and writes the file.
pub fn report(name: &str, figures: &[Figure]) {
    println!(
        "{:<44} {:>10} {:<4} {:>9} {:>7}  {:<12} met",
        "figure", "value", "unit", "baseline", "ratio", "goal"
    );
    let shown = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), |value| format!("{value:.2}"));
    for figure in figures {
        println!(
            "{:<44} {:>10.2} {:<4} {:>9} {:>7}  {:<12} {}",
            figure.name,
            figure.value,
            figure.unit,
            shown(figure.baseline),
            shown(figure.ratio),
            figure.goal,
            if figure.met { "yes" } else { "NO" },
        );
    }
    let folder = repository().join("target/figures");
    std::fs::create_dir_all(&folder).expect("target is writable");
    let file = folder.join(format!("{name}.json"));
    let text = serde_json::to_string_pretty(figures).expect("figures serialise");
    std::fs::write(&file, text).expect("target is writable");
    println!("written to {}", file.display());
}
