//! Decides how work on many things is shared between the cores of the machine, and keeps the order of the results.
//! Never starts a thread for work that is done sooner than a thread is started.

use std::num::NonZero;
use std::thread;

/// Fewest things that are worth a thread.
const FEWEST: usize = 32;
/// Most threads: what is gained beyond is lost to memory.
const MOST: usize = 8;

/// Lets each core do its share of consecutive things; the results come in the order of the things.
pub(super) fn each_share<T: Send, R: Send>(things: Vec<T>, work: impl Fn(Vec<T>) -> R + Sync) -> Vec<R> {
    let cores = thread::available_parallelism().map_or(1, NonZero::get).min(MOST);
    let size = things.len().div_ceil(cores).max(FEWEST);
    let mut rest = things.into_iter();
    let mut shares = Vec::new();
    loop {
        let share: Vec<T> = rest.by_ref().take(size).collect();
        if share.is_empty() {
            break;
        }
        shares.push(share);
    }
    let last = shares.pop();
    thread::scope(|scope| {
        let work = &work;
        let others: Vec<_> = shares.into_iter().map(|share| scope.spawn(move || work(share))).collect();
        let last = last.map(work);
        let done = others.into_iter().map(|other| match other.join() {
            Ok(result) => result,
            Err(panic) => std::panic::resume_unwind(panic),
        });
        let mut results: Vec<R> = done.collect();
        results.extend(last);
        results
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_keep_the_order_and_nothing_is_lost() {
        for count in [0, 1, FEWEST, FEWEST + 1, 1_000, 1_003] {
            let shares = each_share((0..count).collect(), |share: Vec<usize>| share);
            assert_eq!(shares.concat(), (0..count).collect::<Vec<_>>(), "{count}");
        }
    }
}
