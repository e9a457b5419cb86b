//! What a process holds and has used, as the kernel counts it.
//! It reads `/proc`; it never waits for a figure to become a better one.

/// Bytes of the unit in which memory is shown.
pub const MEGABYTE: f64 = 1_000_000.0;

/// Resident memory in megabytes.
pub fn resident(process: u32) -> f64 {
    status(process, "VmRSS:")
}

/// The most that was ever resident, in megabytes.
pub fn peak(process: u32) -> f64 {
    status(process, "VmHWM:")
}

/// From now on, the peak is that of what comes.
pub fn reset_peak(process: u32) {
    std::fs::write(format!("/proc/{process}/clear_refs"), "5").expect("a process of ours");
}

fn status(process: u32, field: &str) -> f64 {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).expect("a running process");
    let line = status.lines().find(|line| line.starts_with(field)).expect("the kernel says it");
    let kibibytes: f64 =
        line.split_whitespace().nth(1).and_then(|number| number.parse().ok()).expect("a number");
    kibibytes * 1024.0 / MEGABYTE
}

/// Processor time so far, user and system, in seconds.
pub fn processor_time(process: u32) -> f64 {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).expect("a running process");
    // The name before it is in brackets and may hold anything.
    let (_, fields) = stat.rsplit_once(')').expect("the kernel puts the name in brackets");
    let ticks = |index| fields.split_whitespace().nth(index).and_then(|text: &str| text.parse::<f64>().ok());
    let (user, system) = (ticks(11).expect("utime"), ticks(12).expect("stime"));
    // USER_HZ is 100 wherever Linux runs.
    (user + system) / 100.0
}
