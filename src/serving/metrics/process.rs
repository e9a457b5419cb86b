//! What the kernel says of the process, read at the moment of a scrape, under the names every client library has.
//! Where there is no `/proc`, nothing is said.

use super::table::{CPU, Metric, OPEN_FDS, RESIDENT_MEMORY, START_TIME, Type};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use std::fmt;
use std::fs::{read_dir, read_to_string};

/// Ticks of a second, as the kernel tells them to every program on every machine that Rust knows.
const TICKS: f64 = 100.0;

/// Reads the numbers of this process.
#[derive(Debug)]
pub(super) struct Process;

impl Collector for Process {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let (status, stat, boot) = (file("/proc/self/status"), file("/proc/self/stat"), file("/proc/stat"));
        let times = times(&stat);
        let started = times.zip(boot_time(&boot)).map(|(times, boot)| boot + times.started);
        let descriptors = read_dir("/proc/self/fd").ok().map(|open| open.count() as f64);
        for (metric, value) in [
            (RESIDENT_MEMORY, resident(&status)),
            (CPU, times.map(|times| times.used)),
            (OPEN_FDS, descriptors),
            (START_TIME, started),
        ] {
            encode(&mut encoder, &metric, value)?;
        }
        Ok(())
    }
}

fn file(path: &str) -> String {
    read_to_string(path).unwrap_or_default()
}

fn encode(encoder: &mut DescriptorEncoder<'_>, metric: &Metric, value: Option<f64>) -> fmt::Result {
    let Some(value) = value else { return Ok(()) };
    let (counter, gauge) = (ConstCounter::new(value), ConstGauge::new(value));
    let shown: &dyn EncodeMetric = if metric.type_ == Type::Counter { &counter } else { &gauge };
    shown.encode(encoder.encode_descriptor(metric.family(), &metric.sentence(), None, shown.metric_type())?)
}

/// Bytes, from `/proc/self/status`: there they are in kB, elsewhere in pages of whatever size.
fn resident(status: &str) -> Option<f64> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kilobytes: f64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kilobytes * 1024.0)
}

/// Seconds of `/proc/self/stat`.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Times {
    /// User and system.
    used: f64,
    /// From the start of the machine to that of the process.
    started: f64,
}

fn times(stat: &str) -> Option<Times> {
    // The name of the program comes second, in brackets, and may hold anything.
    let (_, rest) = stat.rsplit_once(')')?;
    let fields: Vec<&str> = rest.split_whitespace().collect();
    let ticks = |number: usize| fields.get(number)?.parse::<f64>().ok();
    Some(Times { used: (ticks(11)? + ticks(12)?) / TICKS, started: ticks(19)? / TICKS })
}

/// Unix time at which the machine was started, from `/proc/stat`.
fn boot_time(stat: &str) -> Option<f64> {
    stat.lines().find_map(|line| line.strip_prefix("btime "))?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_words_are_read_whatever_the_program_is_called() {
        assert_eq!(resident("VmPeak:\t   9 kB\nVmRSS:\t   12 kB\n"), Some(12_288.0));
        assert_eq!(resident("VmRSS: many"), None);
        let stat = "7 (a) b)) S 1 7 7 0 -1 0 1 0 0 0 250 50 0 0 20 0 3 0 12345 9 9";
        assert_eq!(times(stat), Some(Times { used: 3.0, started: 123.45 }));
        assert_eq!(times("7 (cut"), None);
        assert_eq!(boot_time("cpu 1 2\nbtime 1800000000\n"), Some(1_800_000_000.0));
    }
}
